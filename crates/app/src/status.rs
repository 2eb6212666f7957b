//! `evenkeel status`: who is looked after, what was changed, who is left alone and why.
//!
//! It reads the state files that running evenkeels write, and asks the kernel whether their writers
//! still live, by number and birth.

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use linux::{procfs, state, system, undo};
use report::status::{OwnerWord, STATE_FORMAT, Status, WatchState};

use crate::command_result::{CommandError, CommandResult};

/// Show who is looked after, what was changed and who is left alone
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows all. Fails when one of them was killed and left things changed, so that scripts notice.
pub fn main(args: &Args) -> CommandResult {
    let (all, problems) = read();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        let pages: Vec<String> = all.iter().map(|status| status.to_text(80)).collect();
        match pages.is_empty() {
            true if !problems.is_empty() => {} // Nobody can tell.
            true => writeln!(out, "no evenkeel of this user runs or looks after programs")?,
            false => write!(out, "{}", pages.join("\n"))?,
        }
    }
    for problem in &problems {
        writeln!(std::io::stderr(), "evenkeel: {problem}")?;
    }
    let is_gone = |status: &Status| status.owner == OwnerWord::Gone && status.state.acts;
    let failed = !problems.is_empty() || all.iter().any(is_gone);
    if failed { Err(CommandError::Reported) } else { Ok(()) }
}

/// All states of this boot, and what could not be read.
fn read() -> (Vec<Status>, Vec<String>) {
    let unusable = state::unusable(&undo::folders()).into_iter();
    let mut problems: Vec<String> = unusable.map(|why| format!("cannot look: {why}")).collect();
    let mut all = Vec::new();
    let now = unix_seconds();
    for (path, text) in state::read_all(&undo::folders()) {
        let parsed = text.map_err(|error| format!("cannot read {}: {error}", path.display()));
        match parsed.and_then(|text| parse(&path, &text)) {
            Err(problem) => problems.push(problem),
            // The machine was started anew since: nothing of it is true any more.
            Ok(state) if is_of_another_boot(&state) => drop(state::remove(&path)),
            Ok(state) => all.push(status(&path, state, now)),
        }
    }
    (all, problems)
}

/// What a state file tells; a problem says what to do about it.
fn parse(path: &Path, text: &str) -> Result<WatchState, String> {
    /// What every version has.
    #[derive(serde::Deserialize)]
    struct Version {
        evenkeel_state: u32,
        tool: Option<String>,
    }
    let shown = path.display();
    let foreign = |error| format!("{shown} is no state of an evenkeel ({error}): remove it");
    let version: Version = serde_json::from_str(text).map_err(foreign)?;
    if version.evenkeel_state != STATE_FORMAT {
        let tool = version.tool.unwrap_or_else(|| "of another version".to_owned());
        let found = version.evenkeel_state;
        return Err(format!("{shown} has format {found}: ask the evenkeel that wrote it ({tool})"));
    }
    serde_json::from_str(text).map_err(foreign)
}

fn is_of_another_boot(state: &WatchState) -> bool {
    system::boot_id("/".as_ref()).is_ok_and(|boot| boot != state.boot)
}

fn lives(state: &WatchState) -> bool {
    match procfs::stat("/".as_ref(), state.pid) {
        Ok(stat) => stat.born_ticks == state.born_ticks && stat.state != 'Z',
        // Who cannot be looked at may live: what he tells is left alone.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Removes what killed ones told, where that is settled.
pub fn sweep(is_settled: impl Fn(&WatchState) -> bool) {
    for (path, text) in state::read_all(&undo::folders()) {
        let state = text.ok().and_then(|text| parse(&path, &text).ok());
        if state.is_some_and(|state| !lives(&state) && is_settled(&state)) {
            // Who cannot remove it shows it as gone once more.
            let _ = state::remove(&path);
        }
    }
}

fn status(path: &Path, state: WatchState, now: u64) -> Status {
    Status {
        owner: if lives(&state) { OwnerWord::Alive } else { OwnerWord::Gone },
        path: path.display().to_string(),
        age_s: now.saturating_sub(state.written_unix_s),
        state,
    }
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
