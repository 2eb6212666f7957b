//! Tests of the text and the JSON of restored settings.

use expect_test::expect;
use linux::undo::{
    Entry, FileReport, KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction, RestoreAction,
    RestoreVerdict, Restored, UnfinishedCause, UnfinishedRestore,
};
use serde_json::json;

use super::json::to_json;
use super::text::to_text;

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
    let files =
        vec![file(RestoreVerdict::Kept, entries), file(RestoreVerdict::InUse, vec![]), kept_file];
    Restored { files, problems: vec![] }
}

#[test]
fn each_restore_action_is_a_sentence() {
    expect![[r#"
        sort: process 41 (sort), 2 threads: restored from CPUs 1 to 0-3
        sort: process 41 (sort), 1 thread: unchanged, the process itself or another process set CPUs 2
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
fn a_run_does_not_print_the_records_of_other_active_runs() {
    let mut restored = restored();
    let printed = |restored: &Restored| super::restored_text(restored, false);
    assert!(printed(&restored).is_some_and(|(_, text)| !text.contains("is active")));
    restored.files.retain(|file| file.verdict == RestoreVerdict::InUse);
    assert_eq!(printed(&restored), None);
}

#[test]
fn equal_results_of_several_processes_are_one_line_in_text_and_separate_in_json() {
    let mut restored = restored();
    let file = &mut restored.files[0];
    let mut second = file.entries[0].clone();
    second.process = 97;
    file.entries.push(second);
    let text = to_text(&restored, false);
    let line = "sort: 2 processes (sort; the first is 41), 4 threads: restored from CPUs 1 to 0-3";
    assert_eq!(text.lines().next(), Some(line));
    assert_eq!(to_json(&restored, false)["files"][0]["entries"][4]["process"], 97);
}

#[test]
fn each_process_with_an_unknown_parent_has_a_line_with_its_remedy() {
    let mut restored = restored();
    let file = &mut restored.files[0];
    let cpus = |text: &str| text.parse().expect("a list");
    file.entries.truncate(1);
    file.entries[0].action =
        RestoreAction::UnknownParent { mask: cpus("1"), original: cpus("0-3") };
    let mut second = file.entries[0].clone();
    second.process = 97;
    file.entries.push(second);
    let text = to_text(&restored, false);
    for remedy in ["run taskset -apc 0-3 41\n", "run taskset -apc 0-3 97\n"] {
        assert!(text.contains(remedy), "{text}");
    }
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
    expect![[r#"
        /run/evenkeel/a.undo: kept: stopped after 10 s: reading environments of more than 128 KiB takes longer; 3 processes were not inspected; run evenkeel restore again
        {"cause":"large-environments","n_processes_not_inspected":3,"n_threads_restored_in_last_pass":7}
    "#]]
    .assert_eq(&text(UnfinishedCause::LargeEnvironments, 3));
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
