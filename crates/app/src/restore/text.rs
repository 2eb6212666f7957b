//! Restored settings as text: one line for each group of processes with the same result, and a note about each record.

use std::collections::BTreeMap;

use base::counted_noun;
use linux::undo::{
    self, Entry, FileReport, KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction,
    RestoreAction, RestoreVerdict, Restored, UnfinishedCause, UnfinishedRestore,
};

/// Returns the text of the restored settings, one line for equal results of all processes of a program. `run` and
/// `watch` print this text at their start.
pub(super) fn to_text(restored: &Restored, dry_run: bool) -> String {
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
    let mut groups: BTreeMap<_, ProcessGroup<'_>> = BTreeMap::new();
    for (idx, entry) in entries.iter().enumerate() {
        // The remedy of a process with an unknown parent contains its PID.
        let is_single = matches!(entry.action, RestoreAction::UnknownParent { .. });
        let process = is_single.then_some(entry.process);
        let group = groups.entry((&entry.job, &entry.comm, &entry.action, process));
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
            format!("{prefix} unchanged, the process itself or another process set CPUs {mask}")
        }
        RestoreAction::AlreadyOriginal(mask) => {
            format!("{prefix} unchanged, already has the original CPUs {mask}")
        }
        RestoreAction::UnknownParent { mask, original } => format!(
            "{prefix} unchanged, it has CPUs {mask} as the job had, and its parent has not or has exited; if it belongs to the job, run taskset -apc {original} {process}"
        ),
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

/// Returns the reason for the early end of a restore, with what remains.
fn unfinished_sentence(unfinished: UnfinishedRestore) -> String {
    let UnfinishedRestore { cause, n_not_inspected, n_restored_last } = unfinished;
    let seconds = undo::RestoreLimits::default().time_max.as_secs();
    let cause = match cause {
        UnfinishedCause::Stopped => "stopped by a signal".to_owned(),
        UnfinishedCause::Limit => format!(
            "stopped after {seconds} s: a program starts processes faster than they are restored"
        ),
        UnfinishedCause::LargeEnvironments => {
            format!(
                "stopped after {seconds} s: reading environments of more than 128 KiB takes longer"
            )
        }
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
        RestoreVerdict::OtherNamespace => Some(
            "skipped: the record is of another PID or time namespace; run evenkeel restore there",
        ),
        RestoreVerdict::OtherUser => Some("skipped: the record belongs to another user"),
        RestoreVerdict::Unknown if file.n_damaged == 0 => {
            Some("skipped: its format is of another evenkeel version; restore it with that version")
        }
        RestoreVerdict::Unknown => Some("skipped: this version cannot read the format"),
    }
}

/// Returns a line for each group of processes with the same result.
pub(super) fn of_entries(entries: &[Entry]) -> Vec<String> {
    grouped(entries).iter().map(|group| sentence(group, false)).collect()
}

/// Returns a line for each setting that could not be restored.
pub(super) fn remaining(remaining: &Restored) -> Vec<String> {
    let is_failed = |entry: &&Entry| matches!(entry.action, RestoreAction::Failed(_));
    let failed: Vec<Entry> =
        remaining.files.iter().flat_map(|file| &file.entries).filter(is_failed).cloned().collect();
    let groups = remaining.files.iter().flat_map(|file| &file.kernel_groups);
    let is_failed_group =
        |group: &&KernelGroupEntry| matches!(group.action, KernelGroupRestoreAction::Failed(_));
    let unfinished = remaining.files.iter().filter_map(|file| file.unfinished);
    let mut lines = of_entries(&failed);
    lines.extend(groups.filter(is_failed_group).map(|group| group_sentence(group, false)));
    lines.extend(unfinished.map(unfinished_sentence));
    lines.extend(remaining.problems.iter().cloned());
    lines
}
