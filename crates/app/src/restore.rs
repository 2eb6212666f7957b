//! `evenkeel restore`: restores the settings that an evenkeel process changed before it was killed, and prints settings
//! that were not restored, with reasons.
//!
//! Text and JSON have one entry per process and group of threads with the same settings.

mod json;
mod text;

use std::io::Write;

use base::counted_noun;
use linux::stop_signals::StopSignals;
use linux::undo::{
    self, Entry, FileReport, RestoreControl, RestoreProgress, RestoreVerdict, Restored,
};

use crate::command_result::{CommandError, CommandResult};
use crate::print::Priority;

/// Restore the settings that an evenkeel process changed before it was killed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the changes without performing them
    #[arg(long)]
    dry_run: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Restores all undo records of this user. Fails if a setting could not be restored.
pub fn main(args: &Args) -> CommandResult {
    crate::check_proc()?;
    let mut signals = StopSignals::block_terminating()?;
    let control = RestoreControl {
        dry_run: args.dry_run,
        is_stop_requested: &|| signals.is_pending(),
        on_progress: &print_progress,
        ..RestoreControl::default()
    };
    let restored = undo::restore_with(control, &undo::dirs());
    let mut out = crate::print::stdout();
    if args.json {
        let json = base::json::to_indented(&json::to_json(&restored, args.dry_run))?;
        writeln!(out, "{json}")?;
    } else {
        out.write_all(text::to_text(&restored, args.dry_run).as_bytes())?;
    }
    // An unreadable record may contain changes, so it is an error like a record that was not restored.
    let is_kept =
        |file: &FileReport| matches!(file.verdict, RestoreVerdict::Kept | RestoreVerdict::Unknown);
    let failed = restored.files.iter().any(is_kept);
    if !failed && !args.dry_run {
        crate::status::remove_stale(|_| true);
    }
    signals.take(); // A pending stop signal must not end the command with another status.
    if failed || !restored.problems.is_empty() { Err(CommandError::Reported) } else { Ok(()) }
}

/// Prints the progress of a restore that takes longer than a second.
pub(crate) fn print_progress(progress: &RestoreProgress) {
    let RestoreProgress { n_passes, n_inspected, n_restored } = progress;
    crate::print::note(format_args!(
        "restore: pass {}, {} inspected, {n_restored} restored",
        n_passes + 1,
        counted_noun(*n_inspected, "thread")
    ));
}

/// Prints the settings that could not be restored, and how to continue.
pub(crate) fn print_remaining(remaining: Option<&Restored>) {
    let Some(remaining) = remaining else { return };
    for line in text::remaining(remaining) {
        crate::print::warning(base::printable(&line));
    }
    crate::print::warning("some settings could not be restored; run evenkeel restore");
}

/// Prints the processes of a watch that may have their mask from the watch or from another program.
pub(crate) fn print_with_unknown_parent(entries: &[Entry]) {
    for line in text::of_entries(entries) {
        crate::print::warning(base::printable(&line));
    }
}

/// Prints the settings of killed runs that were restored at the start. With `quiet` only incomplete restores are
/// printed.
pub(crate) fn print_restored(restored: &Restored, quiet: bool) {
    if let Some((priority, text)) = restored_text(restored, quiet) {
        crate::print::lines(priority, &text);
    }
}

fn restored_text(restored: &Restored, quiet: bool) -> Option<(Priority, String)> {
    let is_kept = |file: &FileReport| file.verdict == RestoreVerdict::Kept;
    let is_incomplete = restored.files.iter().any(is_kept);
    let priority = if is_incomplete { Priority::Warning } else { Priority::Notice };
    // Other active runs do not concern this run.
    let is_in_use = |file: &FileReport| file.verdict == RestoreVerdict::InUse;
    let files = restored.files.iter().filter(|file| !is_in_use(file)).cloned().collect();
    let restored = Restored { files, ..restored.clone() };
    let is_printed = !restored.files.is_empty() && (is_incomplete || !quiet);
    is_printed.then(|| (priority, text::to_text(&restored, false)))
}

/// Prints the signal that ended a run or a watch, if it is not a usual stop signal.
pub(crate) fn print_unusual_signal(name: Option<&str>) {
    if let Some(name) = name {
        crate::print::note(format_args!("ended by {name}"));
    }
}

#[cfg(test)]
mod tests;
