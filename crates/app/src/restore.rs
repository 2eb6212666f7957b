//! `evenkeel restore`: puts back what a killed evenkeel left changed, and says what it left and why.
//!
//! The text and the JSON say the same: one entry for the threads of a process that were alike.

use std::io::{self, Write};

use base::counted_noun;
use linux::undo::{
    self, Entry, FileReport, GroupEntry, GroupKind, GroupRestoreAction, RestoreAction, Restored,
    Verdict,
};
use serde_json::{Value, json};

use crate::command_result::{CommandError, CommandResult};

/// Put back what a killed evenkeel left changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Say what would be put back, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restores every leftover of this user. Fails when something could not be put back.
pub fn main(args: &Args) -> CommandResult {
    let restored = undo::restore(&undo::folders(), args.dry_run);
    let mut out = io::stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&to_json(&restored, args.dry_run))?;
        writeln!(out, "{text}")?;
    } else {
        out.write_all(to_text(&restored, args.dry_run).as_bytes())?;
    }
    // What cannot be read may hold changes as well as what cannot be put back.
    let stays = |file: &FileReport| matches!(file.verdict, Verdict::Kept | Verdict::Unknown);
    let failed = restored.files.iter().any(stays);
    if !failed && !args.dry_run {
        crate::status::sweep(|_| true); // What killed ones told of themselves is over.
    }
    if failed || !restored.problems.is_empty() { Err(CommandError::Reported) } else { Ok(()) }
}

/// What a start of `run` says about leftovers that it put back; nothing when there were none.
pub fn to_text(restored: &Restored, dry_run: bool) -> String {
    let mut text = String::new();
    for file in &restored.files {
        for entry in &file.entries {
            text.push_str(&sentence(entry, dry_run));
            text.push('\n');
        }
        for group in &file.groups {
            text.push_str(&group_sentence(group, dry_run));
            text.push('\n');
        }
        if let Some(note) = note(file) {
            text.push_str(&format!("{}: {note}\n", file.path.display()));
        }
        if file.n_damaged != 0 {
            let (path, n_damaged, first) =
                (file.path.display(), file.n_damaged, file.first_damaged);
            let others = match n_damaged {
                1 => String::new(),
                n => format!(" and {} further lines", n - 1),
            };
            text.push_str(&format!(
                "{path}:{first}: damaged{others}: what stood there may still be changed; remove the \
                 file when you have seen that nothing is\n"
            ));
        }
    }
    for problem in &restored.problems {
        text.push_str(&format!("cannot look: {problem}\n"));
    }
    if text.is_empty() {
        text.push_str("nothing to put back\n");
    }
    text
}

fn sentence(entry: &Entry, dry_run: bool) -> String {
    let Entry { job, process, comm, n_threads, deed } = entry;
    let threads = counted_noun(*n_threads, "thread");
    let whose = format!("{job}: process {process} ({comm}), {threads}:");
    match deed {
        RestoreAction::PutBack { from, to } if dry_run => {
            format!("{whose} would go back from CPUs {from} to {to}")
        }
        RestoreAction::PutBack { from, to } => format!("{whose} back from CPUs {from} to {to}"),
        RestoreAction::Foreign(mask) => format!("{whose} left, somebody set CPUs {mask} since"),
        RestoreAction::AsBefore(mask) => format!("{whose} left, has CPUs {mask} as before"),
        RestoreAction::Refused(why) => format!("{whose} left, {why}"),
    }
}

fn group_sentence(group: &GroupEntry, dry_run: bool) -> String {
    let what = match &group.deed {
        GroupRestoreAction::Removed if dry_run => "would be removed".to_owned(),
        GroupRestoreAction::Removed => "removed".to_owned(),
        GroupRestoreAction::Gone => "is gone already".to_owned(),
        GroupRestoreAction::NotOurs => "left, the name is none of ours".to_owned(),
        GroupRestoreAction::Refused(why) => format!("left, cannot be removed: {why}"),
    };
    match group.kind {
        GroupKind::Counts => format!("monitoring group {}: {what}", group.name),
        GroupKind::Binds => format!("groups in {}: {what}", group.name),
    }
}

fn group_json(group: &GroupEntry) -> Value {
    let (deed, why) = match &group.deed {
        GroupRestoreAction::Removed => ("removed", None),
        GroupRestoreAction::Gone => ("gone", None),
        GroupRestoreAction::NotOurs => ("left-foreign", None),
        GroupRestoreAction::Refused(why) => ("refused", Some(why)),
    };
    let kind = match group.kind {
        GroupKind::Counts => "counts",
        GroupKind::Binds => "binds",
    };
    let mut value = json!({ "group": group.name, "kind": kind, "deed": deed });
    why.into_iter().for_each(|why| value["why"] = why.as_str().into());
    value
}

/// What there is to say about a file as a whole.
fn note(file: &FileReport) -> Option<&'static str> {
    match file.verdict {
        Verdict::Kept if file.n_damaged != 0 => Some("kept, since not all of it can be read"),
        Verdict::Settled if file.entries.is_empty() && file.groups.is_empty() => {
            Some("nothing of it lives any more")
        }
        Verdict::Settled => None,
        Verdict::Kept => Some("kept, so that it can be tried again"),
        Verdict::InUse => Some("left, its run goes on"),
        Verdict::OtherBoot => Some("removed, the machine was started anew since"),
        Verdict::OtherNamespace => Some("left, it was written in another PID namespace"),
        Verdict::OtherUser => Some("left, it is another user's"),
        Verdict::Unknown => Some("left, it has a form that this version does not know"),
    }
}

fn to_json(restored: &Restored, dry_run: bool) -> Value {
    let files: Vec<Value> = restored.files.iter().map(file_json).collect();
    json!({ "dry_run": dry_run, "files": files, "problems": restored.problems })
}

fn file_json(file: &FileReport) -> Value {
    let verdict = match file.verdict {
        Verdict::Settled => "settled",
        Verdict::Kept => "kept",
        Verdict::InUse => "in-use",
        Verdict::OtherBoot => "other-boot",
        Verdict::OtherNamespace => "other-namespace",
        Verdict::OtherUser => "other-user",
        Verdict::Unknown => "unknown",
    };
    let entries: Vec<Value> = file.entries.iter().map(entry_json).collect();
    let groups: Vec<Value> = file.groups.iter().map(group_json).collect();
    let (path, n_damaged) = (file.path.to_string_lossy(), file.n_damaged);
    json!({
        "path": path,
        "verdict": verdict,
        "n_damaged": n_damaged,
        "first_damaged_line": (n_damaged != 0).then_some(file.first_damaged),
        "entries": entries,
        "groups": groups,
    })
}

fn entry_json(entry: &Entry) -> Value {
    let mut value = json!({
        "job": entry.job,
        "process": entry.process,
        "program": entry.comm,
        "n_threads": entry.n_threads,
    });
    let (deed, details) = match &entry.deed {
        RestoreAction::PutBack { from, to } => {
            ("put-back", vec![("from_cpus", from.to_string()), ("to_cpus", to.to_string())])
        }
        RestoreAction::Foreign(mask) => ("left-foreign", vec![("cpus", mask.to_string())]),
        RestoreAction::AsBefore(mask) => ("left-as-before", vec![("cpus", mask.to_string())]),
        RestoreAction::Refused(why) => ("refused", vec![("why", why.clone())]),
    };
    value["deed"] = deed.into();
    for (name, detail) in details {
        value[name] = detail.into();
    }
    value
}

/// Says that something could not be put back, if that is so.
pub(crate) fn tell_kept(is_kept: bool) {
    if is_kept {
        eprintln!(
            "evenkeel: not everything that was changed could be put back; run evenkeel restore"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn restored() -> Restored {
        let cpus = |text: &str| text.parse().expect("a list");
        let entry = |deed, n_threads| Entry {
            job: "sort".into(),
            process: 41,
            comm: "sort".into(),
            n_threads,
            deed,
        };
        let entries = vec![
            entry(RestoreAction::PutBack { from: cpus("1"), to: cpus("0-3") }, 2),
            entry(RestoreAction::Foreign(cpus("2")), 1),
            entry(RestoreAction::AsBefore(cpus("0-3")), 1),
            entry(RestoreAction::Refused("cannot give it CPUs 0-3: not permitted".into()), 1),
        ];
        let file = |verdict, entries| FileReport {
            path: "/run/evenkeel/a.undo".into(),
            verdict,
            entries,
            groups: vec![],
            n_damaged: 0,
            first_damaged: 0,
        };
        let group =
            |deed| GroupEntry { kind: GroupKind::Counts, name: "evenkeel-3f-0-sort".into(), deed };
        let folder = "/sys/fs/cgroup/evenkeel-3f";
        let binds = |deed| GroupEntry { kind: GroupKind::Binds, name: folder.into(), deed };
        let mut left = file(Verdict::Kept, vec![]);
        left.groups = vec![
            group(GroupRestoreAction::Removed),
            group(GroupRestoreAction::Refused("busy".into())),
        ];
        left.groups.push(binds(GroupRestoreAction::Removed));
        let files = vec![file(Verdict::Kept, entries), file(Verdict::InUse, vec![]), left];
        Restored { files, problems: vec![] }
    }

    #[test]
    fn each_deed_is_a_sentence() {
        expect![[r#"
            sort: process 41 (sort), 2 threads: back from CPUs 1 to 0-3
            sort: process 41 (sort), 1 thread: left, somebody set CPUs 2 since
            sort: process 41 (sort), 1 thread: left, has CPUs 0-3 as before
            sort: process 41 (sort), 1 thread: left, cannot give it CPUs 0-3: not permitted
            /run/evenkeel/a.undo: kept, so that it can be tried again
            /run/evenkeel/a.undo: left, its run goes on
            monitoring group evenkeel-3f-0-sort: removed
            monitoring group evenkeel-3f-0-sort: left, cannot be removed: busy
            groups in /sys/fs/cgroup/evenkeel-3f: removed
            /run/evenkeel/a.undo: kept, so that it can be tried again
        "#]]
        .assert_eq(&to_text(&restored(), false));
        expect![[r#"
            nothing to put back
        "#]]
        .assert_eq(&to_text(&Restored::default(), false));
        assert!(to_text(&restored(), true).contains("would go back"));
    }

    #[test]
    fn json_says_the_same() {
        let value = to_json(&restored(), false);
        let first = &value["files"][0]["entries"][0];
        assert_eq!((&first["deed"], &first["from_cpus"]), (&json!("put-back"), &json!("1")));
        assert_eq!(value["files"][1]["verdict"], "in-use");
        assert_eq!(value["files"][2]["groups"][1]["why"], "busy");
    }
}
