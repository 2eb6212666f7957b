//! `evenkeel status`: managed processes, changed settings, and unmanaged processes with reasons.
//!
//! `status` reads the state files of running evenkeel processes, and checks by PID and start time whether the writers
//! still run.

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use linux::{procfs, state_file, system, undo};
use report::status::{InstanceState, STATE_FORMAT, Status, WriterState};

use crate::command_result::{CommandError, CommandResult};

/// Print managed processes, changed settings and the reasons for unmanaged processes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Prints all states. Fails if a killed process left changed settings, so that scripts detect it.
pub fn main(args: &Args) -> CommandResult {
    let (all, problems) = read();
    let mut out = crate::print::stdout();
    if args.json {
        writeln!(out, "{}", base::json::to_indented(&all)?)?;
    } else {
        let pages: Vec<String> = all.iter().map(|status| status.to_text(80)).collect();
        match pages.is_empty() {
            true if !problems.is_empty() => {} // The state of the process is unknown.
            true => writeln!(out, "no evenkeel process of this user is running")?,
            false => write!(out, "{}", pages.join("\n"))?,
        }
    }
    problems.iter().for_each(crate::print::note);
    let failed = !problems.is_empty() || all.iter().any(|status| status.has_changes);
    if failed { Err(CommandError::Reported) } else { Ok(()) }
}

/// Reads all states of the current boot, and the errors of unreadable files.
fn read() -> (Vec<Status>, Vec<String>) {
    let unusable = state_file::unusable(&undo::dirs()).into_iter();
    let mut problems: Vec<String> =
        unusable.map(|cause| format!("cannot read state files: {cause}")).collect();
    if let Err(error) = system::check_proc("/".as_ref()) {
        problems.push(format!("it is unknown which processes are running: {error}"));
    }
    let mut all = Vec::new();
    let now = unix_seconds();
    for (path, text) in state_file::read_all(&undo::dirs()) {
        let parsed = text.map_err(|error| format!("cannot read {}: {error}", path.display()));
        match parsed.and_then(|text| parse(&path, &text)) {
            Err(problem) => problems.push(problem),
            // The machine has rebooted, so the state is obsolete.
            Ok(state) if is_of_another_boot(&state) => drop(state_file::remove(&path)),
            Ok(state) => all.push(status(&path, state, now)),
        }
    }
    (all, problems)
}

/// Parses a state file. Errors state the remedy.
fn parse(path: &Path, text: &str) -> Result<InstanceState, String> {
    /// Fields of every format version.
    #[derive(serde::Deserialize)]
    struct StateVersion {
        evenkeel_state: u32,
        tool: Option<String>,
    }
    let path = path.display();
    let foreign = |_| format!("{path} is damaged or not a state file of evenkeel: remove it");
    let version: StateVersion = serde_json::from_str(text).map_err(foreign)?;
    if version.evenkeel_state != STATE_FORMAT {
        let tool = version.tool.unwrap_or_else(|| "of unknown version".to_owned());
        let found = version.evenkeel_state;
        return Err(format!(
            "{path} has format {found}, this evenkeel reads format {STATE_FORMAT} only; another build wrote it \
             ({tool}): read it with that build, or remove the file after that evenkeel has ended"
        ));
    }
    serde_json::from_str(text).map_err(foreign)
}

fn is_of_another_boot(state: &InstanceState) -> bool {
    system::boot_id("/".as_ref()).is_ok_and(|boot| boot != state.boot_id)
}

fn is_running(state: &InstanceState) -> bool {
    match procfs::stat("/".as_ref(), state.pid) {
        // The PID is of another namespace.
        _ if system::check_proc("/".as_ref()).is_err() => true,
        Ok(stat) => stat.start_time_ticks == state.start_time_ticks && !stat.has_exited(),
        // A process that cannot be inspected may be running.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Removes state files of killed processes for which `is_settled` holds and whose changes are restored. A record that
/// stays can be of another namespace, in which the process may be running.
pub fn remove_stale(is_settled: impl Fn(&InstanceState) -> bool) {
    for (path, text) in state_file::read_all(&undo::dirs()) {
        let state = text.ok().and_then(|text| parse(&path, &text).ok());
        let has_changes = |run: &str| undo::has_changes(&undo::dirs(), run);
        if state.is_some_and(|state| {
            !is_running(&state) && is_settled(&state) && !has_changes(&state.run)
        }) {
            // If the removal fails, the next status lists the process as killed again.
            let _ = state_file::remove(&path);
        }
    }
}

fn status(path: &Path, state: InstanceState, now: u64) -> Status {
    let writer = if is_running(&state) { WriterState::Running } else { WriterState::Exited };
    Status {
        has_changes: writer == WriterState::Exited && undo::has_changes(&undo::dirs(), &state.run),
        writer,
        path: path.display().to_string(),
        age_s: now.saturating_sub(state.written_unix_s),
        state,
    }
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
