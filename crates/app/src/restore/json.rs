//! Restored settings as JSON: one entry for each process and group of threads with the same result.

use linux::undo::{
    Entry, FileReport, KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction, RestoreAction,
    RestoreVerdict, Restored, UnfinishedCause, UnfinishedRestore,
};
use serde_json::{Value, json};

pub(super) fn to_json(restored: &Restored, dry_run: bool) -> Value {
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
        UnfinishedCause::LargeEnvironments => "large-environments",
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
        RestoreAction::UnknownParent { mask, original } => (
            "unknown-parent",
            vec![("cpus", mask.to_string()), ("original_cpus", original.to_string())],
        ),
        RestoreAction::Failed(cause) => ("failed", vec![("reason", cause.clone())]),
    };
    value["action"] = action.into();
    for (name, detail) in details {
        value[name] = detail.into();
    }
    value
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
