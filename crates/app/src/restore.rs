//! `evenkeel restore`: restores the settings that an evenkeel process changed before it was killed, and prints settings
//! that were not restored, with reasons.
//!
//! Text and JSON have one entry per process and group of threads with the same settings.

use std::collections::BTreeMap;
use std::io::Write;

use base::counted_noun;
use linux::stop_signals::StopSignals;
use linux::undo::{
    self, Entry, FileReport, KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction,
    RestoreAction, RestoreControl, RestoreProgress, RestoreVerdict, Restored, UnfinishedCause,
    UnfinishedRestore,
};
use serde_json::{Value, json};

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
        let text = base::json::to_indented(&to_json(&restored, args.dry_run))?;
        writeln!(out, "{text}")?;
    } else {
        out.write_all(to_text(&restored, args.dry_run).as_bytes())?;
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

/// Returns the text of the restored settings, one line for equal results of all processes of a program. `run` and
/// `watch` print this text at their start.
pub fn to_text(restored: &Restored, dry_run: bool) -> String {
    let mut lines = Vec::new();
    for file in &restored.files {
        lines.extend(grouped(&file.entries).iter().map(|group| sentence(group, dry_run)));
        lines.extend(file.kernel_groups.iter().map(|group| group_sentence(group, dry_run)));
        let path = file.path.display();
        let unfinished = file
            .unfinished
            .map(|end| format!("kept: {}; run evenkeel restore again", unfinished_sentence(end)));
        let note = unfinished.or_else(|| note(file).map(str::to_owned));
        lines.extend(note.map(|note| format!("{path}: {note}")));
        if file.n_damaged != 0 {
            let (n_damaged, first) = (file.n_damaged, file.first_damaged);
            let damaged = match n_damaged {
                1 => format!("line {first} is damaged"),
                n => {
                    format!("line {first} and {} are damaged", counted_noun(n - 1, "further line"))
                }
            };
            lines.push(format!(
                "{path}: {damaged}: settings recorded there may still be changed; check them, then remove the file"
            ));
        }
    }
    let problems = restored.problems.iter();
    lines.extend(problems.map(|problem| format!("cannot read undo records: {problem}")));
    if lines.is_empty() {
        lines.push("nothing to restore".to_owned());
    }
    // A process sets its own name, so line ends in the name are escaped.
    lines.iter().map(|line| base::printable(line) + "\n").collect()
}

/// Processes of a job with the same name and the same result.
struct ProcessGroup<'a> {
    first: &'a Entry,
    /// Position of the first entry.
    idx: usize,
    n_processes: u32,
    n_threads: u32,
}

fn grouped(entries: &[Entry]) -> Vec<ProcessGroup<'_>> {
    let mut groups: BTreeMap<(&str, &str, &RestoreAction), ProcessGroup<'_>> = BTreeMap::new();
    for (idx, entry) in entries.iter().enumerate() {
        let group = groups.entry((&entry.job, &entry.comm, &entry.action));
        let group =
            group.or_insert(ProcessGroup { first: entry, idx, n_processes: 0, n_threads: 0 });
        group.n_processes += 1;
        group.n_threads += entry.n_threads;
    }
    let mut groups: Vec<ProcessGroup<'_>> = groups.into_values().collect();
    groups.sort_by_key(|group| group.idx);
    groups
}

fn sentence(group: &ProcessGroup<'_>, dry_run: bool) -> String {
    let Entry { job, process, comm, action, .. } = group.first;
    let threads = counted_noun(group.n_threads, "thread");
    let processes = match group.n_processes {
        1 => format!("process {process} ({comm})"),
        n => format!("{n} processes ({comm}; the first is {process})"),
    };
    let prefix = format!("{job}: {processes}, {threads}:");
    match action {
        RestoreAction::Restored { from, to } if dry_run => {
            format!("{prefix} would be restored from CPUs {from} to {to}")
        }
        RestoreAction::Restored { from, to } => {
            format!("{prefix} restored from CPUs {from} to {to}")
        }
        RestoreAction::ChangedByOther(mask) => {
            format!("{prefix} unchanged, another program set CPUs {mask}")
        }
        RestoreAction::AlreadyOriginal(mask) => {
            format!("{prefix} unchanged, already has the original CPUs {mask}")
        }
        RestoreAction::Failed(cause) => format!("{prefix} unchanged, {cause}"),
    }
}

fn group_sentence(group: &KernelGroupEntry, dry_run: bool) -> String {
    let change = match &group.action {
        KernelGroupRestoreAction::Removed if dry_run => "would be removed".to_owned(),
        KernelGroupRestoreAction::Removed => "removed".to_owned(),
        KernelGroupRestoreAction::Absent => "does not exist any more".to_owned(),
        KernelGroupRestoreAction::NotCreatedByEvenkeel => {
            "skipped: evenkeel did not create it".to_owned()
        }
        KernelGroupRestoreAction::Failed(cause) => format!("cannot be removed: {cause}"),
    };
    match group.kind {
        KernelGroupKind::MonGroup => format!("monitoring group {}: {change}", group.name),
        KernelGroupKind::Cgroup => format!("cgroups in {}: {change}", group.name),
    }
}

fn group_json(group: &KernelGroupEntry) -> Value {
    let (action, cause) = match &group.action {
        KernelGroupRestoreAction::Removed => ("removed", None),
        KernelGroupRestoreAction::Absent => ("absent", None),
        KernelGroupRestoreAction::NotCreatedByEvenkeel => ("not-created-by-evenkeel", None),
        KernelGroupRestoreAction::Failed(cause) => ("failed", Some(cause)),
    };
    let kind = match group.kind {
        KernelGroupKind::MonGroup => "monitoring-group",
        KernelGroupKind::Cgroup => "cgroup",
    };
    let mut value = json!({ "group": group.name, "kind": kind, "action": action });
    cause.into_iter().for_each(|cause| value["reason"] = cause.as_str().into());
    value
}

/// Returns the reason for the early end of a restore, with what remains.
fn unfinished_sentence(unfinished: UnfinishedRestore) -> String {
    let UnfinishedRestore { cause, n_not_inspected, n_restored_last } = unfinished;
    let cause = match cause {
        UnfinishedCause::Stopped => "stopped by a signal".to_owned(),
        UnfinishedCause::Limit => format!(
            "stopped after {} s: a program starts processes faster than they are restored",
            undo::RestoreLimits::default().time_max.as_secs()
        ),
    };
    let remaining = match n_not_inspected {
        0 => {
            let threads = counted_noun(n_restored_last, "thread");
            format!("children of {threads} that the last pass restored may have changed affinity")
        }
        1 => "1 process was not inspected".to_owned(),
        n => format!("{n} processes were not inspected"),
    };
    format!("{cause}; {remaining}")
}

/// Returns a note about a whole record file.
fn note(file: &FileReport) -> Option<&'static str> {
    match file.verdict {
        RestoreVerdict::Kept if file.n_damaged != 0 => {
            Some("kept: a part of the record cannot be read")
        }
        RestoreVerdict::Complete if file.entries.is_empty() && file.kernel_groups.is_empty() => {
            Some(match file.has_changes {
                true => "all processes of the record have exited",
                false => "nothing to restore in it: every setting is already restored",
            })
        }
        RestoreVerdict::Complete => None,
        RestoreVerdict::Kept => Some("kept: the restore is incomplete; run evenkeel restore again"),
        RestoreVerdict::InUse => Some("skipped: the run is active"),
        RestoreVerdict::OtherBoot => Some("removed: the machine has rebooted since"),
        RestoreVerdict::OtherNamespace => Some("skipped: the record is of another PID namespace"),
        RestoreVerdict::OtherUser => Some("skipped: the record belongs to another user"),
        RestoreVerdict::Unknown if file.n_damaged == 0 => {
            Some("skipped: its format is of another evenkeel version; restore it with that version")
        }
        RestoreVerdict::Unknown => Some("skipped: this version cannot read the format"),
    }
}

fn to_json(restored: &Restored, dry_run: bool) -> Value {
    let files: Vec<Value> = restored.files.iter().map(file_json).collect();
    json!({ "dry_run": dry_run, "files": files, "problems": restored.problems })
}

fn file_json(file: &FileReport) -> Value {
    let verdict = match file.verdict {
        RestoreVerdict::Complete => "complete",
        RestoreVerdict::Kept => "kept",
        RestoreVerdict::InUse => "in-use",
        RestoreVerdict::OtherBoot => "other-boot",
        RestoreVerdict::OtherNamespace => "other-namespace",
        RestoreVerdict::OtherUser => "other-user",
        RestoreVerdict::Unknown => "unknown",
    };
    let entries: Vec<Value> = file.entries.iter().map(entry_json).collect();
    let groups: Vec<Value> = file.kernel_groups.iter().map(group_json).collect();
    let (path, n_damaged) = (file.path.to_string_lossy(), file.n_damaged);
    json!({
        "path": path,
        "verdict": verdict,
        "n_damaged": n_damaged,
        "first_damaged_line": (n_damaged != 0).then_some(file.first_damaged),
        "unfinished": file.unfinished.map(unfinished_json),
        "entries": entries,
        "groups": groups,
    })
}

fn unfinished_json(unfinished: UnfinishedRestore) -> Value {
    let cause = match unfinished.cause {
        UnfinishedCause::Stopped => "stopped",
        UnfinishedCause::Limit => "limit",
    };
    json!({
        "cause": cause,
        "n_processes_not_inspected": unfinished.n_not_inspected,
        "n_threads_restored_in_last_pass": unfinished.n_restored_last,
    })
}

fn entry_json(entry: &Entry) -> Value {
    let mut value = json!({
        "job": entry.job,
        "process": entry.process,
        "program": entry.comm,
        "n_threads": entry.n_threads,
    });
    let (action, details) = match &entry.action {
        RestoreAction::Restored { from, to } => {
            ("restored", vec![("from_cpus", from.to_string()), ("to_cpus", to.to_string())])
        }
        RestoreAction::ChangedByOther(mask) => {
            ("changed-by-another-program", vec![("cpus", mask.to_string())])
        }
        RestoreAction::AlreadyOriginal(mask) => {
            ("already-original", vec![("cpus", mask.to_string())])
        }
        RestoreAction::Failed(cause) => ("failed", vec![("reason", cause.clone())]),
    };
    value["action"] = action.into();
    for (name, detail) in details {
        value[name] = detail.into();
    }
    value
}

/// Prints the settings that could not be restored, and how to continue.
pub(crate) fn print_remaining(remaining: Option<&Restored>) {
    let Some(remaining) = remaining else { return };
    let is_failed = |entry: &&Entry| matches!(entry.action, RestoreAction::Failed(_));
    let failed: Vec<Entry> =
        remaining.files.iter().flat_map(|file| &file.entries).filter(is_failed).cloned().collect();
    let groups = remaining.files.iter().flat_map(|file| &file.kernel_groups);
    let is_failed_group =
        |group: &&KernelGroupEntry| matches!(group.action, KernelGroupRestoreAction::Failed(_));
    let unfinished = remaining.files.iter().filter_map(|file| file.unfinished);
    let mut lines: Vec<String> =
        grouped(&failed).iter().map(|group| sentence(group, false)).collect();
    lines.extend(groups.filter(is_failed_group).map(|group| group_sentence(group, false)));
    lines.extend(unfinished.map(unfinished_sentence));
    lines.extend(remaining.problems.iter().cloned());
    for line in &lines {
        crate::print::warning(base::printable(line));
    }
    crate::print::warning("some settings could not be restored; run evenkeel restore");
}

/// Prints the settings of killed runs that were restored at the start. With `quiet` only incomplete restores are
/// printed.
pub(crate) fn print_restored(restored: &Restored, quiet: bool) {
    let is_kept = |file: &FileReport| file.verdict == RestoreVerdict::Kept;
    let is_incomplete = restored.files.iter().any(is_kept);
    if !restored.files.is_empty() && (is_incomplete || !quiet) {
        let priority = if is_incomplete { Priority::Warning } else { Priority::Notice };
        crate::print::lines(priority, &to_text(restored, false));
    }
}

/// Prints the signal that ended a run or a watch, if it is not a usual stop signal.
pub(crate) fn print_unusual_signal(name: Option<&str>) {
    if let Some(name) = name {
        crate::print::note(format_args!("ended by {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn restored() -> Restored {
        let cpus = |text: &str| text.parse().expect("a list");
        let entry = |action, n_threads| Entry {
            job: "sort".into(),
            process: 41,
            comm: "sort".into(),
            n_threads,
            action,
        };
        let entries = vec![
            entry(RestoreAction::Restored { from: cpus("1"), to: cpus("0-3") }, 2),
            entry(RestoreAction::ChangedByOther(cpus("2")), 1),
            entry(RestoreAction::AlreadyOriginal(cpus("0-3")), 1),
            entry(
                RestoreAction::Failed("cannot set its affinity to CPUs 0-3: not permitted".into()),
                1,
            ),
        ];
        let file = |verdict, entries| FileReport {
            path: "/run/evenkeel/a.undo".into(),
            verdict,
            entries,
            kernel_groups: vec![],
            has_changes: true,
            n_damaged: 0,
            first_damaged: 0,
            unfinished: None,
        };
        let group = |action| KernelGroupEntry {
            kind: KernelGroupKind::MonGroup,
            name: "evenkeel-3f-0-sort".into(),
            action,
        };
        let dir = "/sys/fs/cgroup/evenkeel-3f";
        let binds =
            |action| KernelGroupEntry { kind: KernelGroupKind::Cgroup, name: dir.into(), action };
        let mut kept_file = file(RestoreVerdict::Kept, vec![]);
        kept_file.kernel_groups = vec![
            group(KernelGroupRestoreAction::Removed),
            group(KernelGroupRestoreAction::Failed("busy".into())),
        ];
        kept_file.kernel_groups.push(binds(KernelGroupRestoreAction::Removed));
        let files = vec![
            file(RestoreVerdict::Kept, entries),
            file(RestoreVerdict::InUse, vec![]),
            kept_file,
        ];
        Restored { files, problems: vec![] }
    }

    #[test]
    fn each_restore_action_is_a_sentence() {
        expect![[r#"
            sort: process 41 (sort), 2 threads: restored from CPUs 1 to 0-3
            sort: process 41 (sort), 1 thread: unchanged, another program set CPUs 2
            sort: process 41 (sort), 1 thread: unchanged, already has the original CPUs 0-3
            sort: process 41 (sort), 1 thread: unchanged, cannot set its affinity to CPUs 0-3: not permitted
            /run/evenkeel/a.undo: kept: the restore is incomplete; run evenkeel restore again
            /run/evenkeel/a.undo: skipped: the run is active
            monitoring group evenkeel-3f-0-sort: removed
            monitoring group evenkeel-3f-0-sort: cannot be removed: busy
            cgroups in /sys/fs/cgroup/evenkeel-3f: removed
            /run/evenkeel/a.undo: kept: the restore is incomplete; run evenkeel restore again
        "#]]
        .assert_eq(&to_text(&restored(), false));
        expect![[r#"
            nothing to restore
        "#]]
        .assert_eq(&to_text(&Restored::default(), false));
        assert!(to_text(&restored(), true).contains("would be restored"));
    }

    #[test]
    fn equal_results_of_several_processes_are_one_line_in_text_and_separate_in_json() {
        let mut restored = restored();
        let file = &mut restored.files[0];
        let mut second = file.entries[0].clone();
        second.process = 97;
        file.entries.push(second);
        let text = to_text(&restored, false);
        let line =
            "sort: 2 processes (sort; the first is 41), 4 threads: restored from CPUs 1 to 0-3";
        assert_eq!(text.lines().next(), Some(line));
        assert_eq!(to_json(&restored, false)["files"][0]["entries"][4]["process"], 97);
    }

    #[test]
    fn an_early_end_states_its_cause_and_what_remains() {
        let mut restored = restored();
        restored.files.truncate(1);
        restored.files[0].entries.clear();
        let mut text = |cause, n_not_inspected| {
            let end = UnfinishedRestore { cause, n_not_inspected, n_restored_last: 7 };
            restored.files[0].unfinished = Some(end);
            to_text(&restored, false)
                + &format!("{}\n", to_json(&restored, false)["files"][0]["unfinished"])
        };
        expect![[r#"
            /run/evenkeel/a.undo: kept: stopped by a signal; 812 processes were not inspected; run evenkeel restore again
            {"cause":"stopped","n_processes_not_inspected":812,"n_threads_restored_in_last_pass":7}
        "#]]
        .assert_eq(&text(UnfinishedCause::Stopped, 812));
        expect![[r#"
            /run/evenkeel/a.undo: kept: stopped after 10 s: a program starts processes faster than they are restored; children of 7 threads that the last pass restored may have changed affinity; run evenkeel restore again
            {"cause":"limit","n_processes_not_inspected":0,"n_threads_restored_in_last_pass":7}
        "#]]
        .assert_eq(&text(UnfinishedCause::Limit, 0));
    }

    #[test]
    fn a_record_without_open_changes_is_distinguished_from_exited_processes_and_damaged_lines() {
        let mut restored = restored();
        restored.files.truncate(2);
        for (file, has_changes) in restored.files.iter_mut().zip([true, false]) {
            (file.verdict, file.has_changes) = (RestoreVerdict::Complete, has_changes);
            file.entries.clear();
        }
        let mut damaged = restored.files[1].clone();
        (damaged.verdict, damaged.n_damaged, damaged.first_damaged) = (RestoreVerdict::Kept, 3, 2);
        restored.files.push(damaged);
        expect![[r#"
            /run/evenkeel/a.undo: all processes of the record have exited
            /run/evenkeel/a.undo: nothing to restore in it: every setting is already restored
            /run/evenkeel/a.undo: kept: a part of the record cannot be read
            /run/evenkeel/a.undo: line 2 and 2 further lines are damaged: settings recorded there may still be changed; check them, then remove the file
        "#]]
        .assert_eq(&to_text(&restored, false));
    }

    #[test]
    fn names_of_processes_jobs_and_groups_are_escaped() {
        let mut restored = restored();
        let entry = &mut restored.files[0].entries[0];
        entry.comm = "\u{1b}]0;P\u{7}\n\u{9b}".into();
        entry.job = "\u{202e}j\nk".into();
        restored.files[2].kernel_groups[0].name = "evenkeel-\u{7f}\n".into();
        let text = to_text(&restored, false);
        assert!(text.starts_with(
            "\\u202ej\\u000ak: process 41 (\\u001b]0;P\\u0007\\u000a\\u009b), 2 threads: restored"
        ));
        assert!(text.contains("\nmonitoring group evenkeel-\\u007f\\u000a: removed\n"), "{text}");
        assert_eq!(text.lines().count(), 10);
    }

    #[test]
    fn json_has_the_same_content() {
        let value = to_json(&restored(), false);
        let first = &value["files"][0]["entries"][0];
        assert_eq!((&first["action"], &first["from_cpus"]), (&json!("restored"), &json!("1")));
        assert_eq!(value["files"][1]["verdict"], "in-use");
        assert_eq!(value["files"][2]["groups"][1]["reason"], "busy");
    }
}
