//! Tests of the masks and groups that `restore` restores or does not change.

use super::members::{Environments, RunInEnviron};
use super::*;
use crate::environ::{Environ, environ};
use crate::undo::{JOB_VARIABLE, Log, RUN_VARIABLE};
use crate::{affinity, fault, procfs};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// A process of this test that sleeps until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new(command: &mut Command) -> Self {
        Sleeper(command.stdout(Stdio::null()).spawn().expect("a program of every system"))
    }

    fn plain() -> Self {
        Self::new(Command::new("sleep").arg("600"))
    }

    fn task(&self) -> (u32, u64, u32) {
        let pid = self.0.id();
        let start_time_ticks = procfs::stat(Path::new("/"), pid).expect("alive").start_time_ticks;
        (pid, start_time_ticks, pid)
    }

    fn mask(&self) -> CpuSet {
        affinity::get(self.0.id()).expect("alive")
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns all CPUs of this process, the first CPU and the last CPU; `None` on a machine with one CPU.
fn masks() -> Option<(CpuSet, CpuSet, CpuSet)> {
    let all = affinity::get(0).expect("own mask");
    if all.len() < 2 {
        println!("not run: needs two CPUs");
        return None;
    }
    let first = all.first().into_iter().collect();
    let last = all.last().into_iter().collect();
    Some((all, first, last))
}

struct TestDir {
    dir: tempfile::TempDir,
}

impl TestDir {
    fn new() -> Self {
        TestDir { dir: tempfile::tempdir().expect("a directory") }
    }

    fn directories(&self) -> Vec<PathBuf> {
        vec![self.dir.path().join("state")]
    }

    fn log(&self) -> Log {
        Log::create_in(&self.directories()).expect("a record")
    }

    /// Restores the record and returns the report; `None` without a file. The file may stay locked for a short time,
    /// because a child that another test forks shares the lock until its exec.
    fn restore(&self) -> Option<FileReport> {
        loop {
            let report = self.restore_once();
            if report.as_ref().is_none_or(|report| report.verdict != RestoreVerdict::InUse) {
                return report;
            }
            std::thread::yield_now();
        }
    }

    fn restore_once(&self) -> Option<FileReport> {
        let restored = restore(&self.directories(), false);
        assert_eq!(restored.problems, Vec::<String>::new());
        assert!(restored.files.len() <= 1);
        restored.files.into_iter().next()
    }

    fn n_files(&self) -> usize {
        std::fs::read_dir(&self.directories()[0]).expect("the directory").count()
    }
}

#[test]
fn an_unchanged_mask_that_evenkeel_set_is_restored_and_the_file_is_removed() {
    let Some((all, first, _)) = masks() else { return };
    let (test_dir, sleeper) = (TestDir::new(), Sleeper::plain());
    let mut log = test_dir.log();
    let nr = log.set("a", [&all, &all, &first], vec![sleeper.task()]).expect("a record");
    affinity::set(sleeper.0.id(), &first).expect("the task is alive");
    log.confirm(nr).expect("a record");
    drop(log);
    let report = test_dir.restore().expect("a record");
    assert_eq!(report.verdict, RestoreVerdict::Complete);
    assert_eq!(report.entries[0].action, RestoreAction::Restored { from: first, to: all.clone() });
    assert_eq!(sleeper.mask(), all);
    assert_eq!(test_dir.n_files(), 0);
}

#[test]
fn a_record_of_an_exited_process_has_changes_and_a_record_of_a_released_job_has_none() {
    let all = affinity::get(0).expect("own mask");
    for (is_released, has_changes) in [(false, true), (true, false)] {
        let test_dir = TestDir::new();
        let exited = (u32::MAX >> 2, 1, u32::MAX >> 2);
        let mut log = test_dir.log();
        log.set("a", [&all, &all, &all], vec![exited]).expect("a record");
        if is_released {
            log.free("a").expect("a record");
        }
        drop(log);
        let report = test_dir.restore().expect("a record");
        assert_eq!((report.entries.len(), report.has_changes), (0, has_changes));
    }
}

#[test]
fn a_symbolic_link_is_named_with_the_remedy() {
    let test_dir = TestDir::new();
    drop(test_dir.log());
    let dir = &test_dir.directories()[0];
    std::os::unix::fs::symlink("/dev/null", dir.join("x-0.undo")).expect("a link");
    let problems = restore(&test_dir.directories(), true).problems;
    assert_eq!(problems, ["x-0.undo: this is a symbolic link; remove it"]);
}

#[test]
fn a_mask_that_another_program_set_stays() {
    let Some((all, first, last)) = masks() else { return };
    let (test_dir, sleeper) = (TestDir::new(), Sleeper::plain());
    let mut log = test_dir.log();
    log.set("a", [&all, &all, &first], vec![sleeper.task()]).expect("a record");
    affinity::set(sleeper.0.id(), &last).expect("the task is alive");
    drop(log);
    let report = test_dir.restore().expect("a record");
    assert_eq!(report.entries[0].action, RestoreAction::ChangedByOther(last.clone()));
    assert_eq!(sleeper.mask(), last);
    assert_eq!(test_dir.n_files(), 0);
}

#[test]
fn a_reused_tid_is_not_changed() {
    let Some((all, first, _)) = masks() else { return };
    let (test_dir, sleeper) = (TestDir::new(), Sleeper::plain());
    affinity::set(sleeper.0.id(), &first).expect("the task is alive");
    let (tid, start_time_ticks, process) = sleeper.task();
    let mut log = test_dir.log();
    log.set("a", [&all, &all, &first], vec![(tid, start_time_ticks - 1, process)])
        .expect("a record");
    drop(log);
    assert_eq!(test_dir.restore().expect("a record").entries, []);
    assert_eq!(sleeper.mask(), first);
}

#[test]
fn a_child_without_a_recorded_pid_is_found_by_its_environment() {
    let Some((all, first, _)) = masks() else { return };
    let test_dir = TestDir::new();
    let mut log = test_dir.log();
    log.record_before_fork("a", &all, &first).expect("a record");
    let mut command = Command::new("sleep");
    command.arg("600").env(RUN_VARIABLE, log.run()).env(JOB_VARIABLE, "a");
    let sleeper = Sleeper::new(&mut command);
    let other_run = Sleeper::new(command.env(RUN_VARIABLE, "another run"));
    for pid in [&sleeper, &other_run] {
        affinity::set(pid.0.id(), &first).expect("the task is alive");
    }
    drop(log);
    assert_eq!(test_dir.restore().expect("a record").entries.len(), 1);
    assert_eq!((sleeper.mask(), other_run.mask()), (all, first));
}

#[test]
fn descendants_with_a_mask_that_evenkeel_set_are_restored_and_others_stay() {
    let Some((all, first, last)) = masks() else { return };
    let test_dir = TestDir::new();
    // A shell with two children. One child sets another affinity.
    let script = format!(
        "sleep 600 & echo $!; taskset -c {last} sleep 600 & echo $!; wait",
        last = last.clone()
    );
    if Command::new("taskset").arg("--version").output().is_err() {
        println!("not run: taskset is not installed");
        return;
    }
    let mut child =
        Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("a shell");
    affinity::set(child.id(), &first).ok();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let mut next = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
        line.trim().parse::<u32>().expect("a number")
    };
    let (plain, bound) = (next(), next());
    let shell = Sleeper(child);
    // The first child may have been forked before the affinity of the shell was set, so its affinity is set here.
    affinity::set(plain, &first).expect("the task is alive");
    while affinity::get(bound).expect("alive") != last {
        std::thread::yield_now();
    }
    let mut log = test_dir.log();
    log.set("a", [&all, &all, &first], vec![shell.task()]).expect("a record");
    drop(log);
    let report = test_dir.restore().expect("a record");
    assert_eq!(report.entries.len(), 3, "{report:?}");
    assert_eq!(affinity::get(plain).expect("alive"), all);
    assert_eq!(affinity::get(bound).expect("alive"), last);
    for pid in [plain, bound] {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn the_record_of_a_running_run_is_not_changed() {
    let test_dir = TestDir::new();
    let log = test_dir.log();
    assert_eq!(test_dir.restore_once().expect("a record").verdict, RestoreVerdict::InUse);
    assert_eq!(test_dir.n_files(), 1);
    log.remove().expect("the owner may remove it");
    assert!(test_dir.restore().is_none());
}

#[test]
fn a_record_that_the_owner_would_keep_is_verified_first() {
    let Some((all, first, _)) = masks() else { return };
    let test_dir = TestDir::new();
    let (exited, running) = (Sleeper::plain(), Sleeper::plain());
    let mut log = test_dir.log();
    log.set("a", [&all, &all, &first], vec![exited.task(), running.task()]).expect("a record");
    affinity::set(running.0.id(), &first).expect("the task is alive");
    drop(exited);
    assert_eq!(log.restore_kept(RestoreControl::default()), None, "nothing failed");
    assert_eq!(running.mask(), first);
    log.keep();
    let every_call = fault::FaultPlan { seed: 1, permille: 1000 };
    let kept = fault::with_errors(every_call, || log.restore_kept(RestoreControl::default()));
    assert!(kept.is_some_and(|kept| !kept.problems.is_empty()) && log.is_kept());
    assert_eq!(log.restore_kept(RestoreControl::default()), None, "no setting remains");
    assert_eq!((running.mask(), log.is_kept()), (all, false));
    log.remove().expect("the owner may remove it");
    assert_eq!(test_dir.n_files(), 0);
}

#[test]
fn a_dry_run_changes_nothing() {
    let Some((all, first, _)) = masks() else { return };
    let (test_dir, sleeper) = (TestDir::new(), Sleeper::plain());
    let mut log = test_dir.log();
    log.set("a", [&all, &all, &first], vec![sleeper.task()]).expect("a record");
    affinity::set(sleeper.0.id(), &first).expect("the task is alive");
    drop(log);
    let restored = loop {
        let restored = restore(&test_dir.directories(), true);
        if restored.files[0].verdict != RestoreVerdict::InUse {
            break restored;
        }
    };
    assert!(matches!(restored.files[0].entries[0].action, RestoreAction::Restored { .. }));
    assert_eq!((sleeper.mask(), test_dir.n_files()), (first, 1));
}

fn check_file(text: &str, expected: &RestoreVerdict, n_damaged: usize) {
    let test_dir = TestDir::new();
    let path = test_dir.log().path();
    std::fs::write(&path, text).expect("the directory is writable");
    let report = test_dir.restore().expect("a record");
    assert_eq!((&report.verdict, report.n_damaged), (expected, n_damaged), "{text}");
    assert!(!report.has_changes, "{text}");
}

fn header(boot: &str, uid: u32, namespace: &str) -> String {
    let header = UndoHeader::new(boot.into(), namespace.into(), uid, "r".into(), 1);
    base::json::to_line(&header).expect("a header") + "\n"
}

#[test]
fn records_of_another_boot_user_or_namespace_are_distinguished() {
    let root = Path::new("/");
    let (boot, namespace) =
        (system::boot_id(root).expect("a name"), system::pid_namespace(root).expect("a name"));
    let uid = rustix::process::geteuid().as_raw();
    check_file(&header(&boot, uid, &namespace), &RestoreVerdict::Complete, 0);
    check_file(&header("another", uid, &namespace), &RestoreVerdict::OtherBoot, 0);
    check_file(&header(&boot, uid + 1, &namespace), &RestoreVerdict::OtherUser, 0);
    check_file(&header(&boot, uid, "pid:[1]"), &RestoreVerdict::OtherNamespace, 0);
    let time = system::time_namespace(root).expect("a name");
    let with_time = |time: &str| {
        let key = format!("\"time_namespace\":\"{time}\",\"uid\"");
        header(&boot, uid, &namespace).replace("\"uid\"", &key)
    };
    check_file(&with_time("time:[1]"), &RestoreVerdict::OtherNamespace, 0);
    check_file(&with_time(&time), &RestoreVerdict::Complete, 0);
}

#[test]
fn an_incomplete_last_line_is_no_damage_and_a_malformed_line_keeps_the_record() {
    let root = Path::new("/");
    let uid = rustix::process::geteuid().as_raw();
    let good = header(
        &system::boot_id(root).expect("a name"),
        uid,
        &system::pid_namespace(root).expect("a name"),
    );
    check_file("", &RestoreVerdict::Complete, 0);
    check_file("{\"evenk", &RestoreVerdict::Complete, 0);
    check_file(&format!("{good}{{\"bind\":{{\"nr\":1"), &RestoreVerdict::Complete, 0);
    check_file(&format!("{good}nonsense\n{{\"done\":{{\"nr\":1}}}}\n"), &RestoreVerdict::Kept, 1);
    check_file("nonsense\n", &RestoreVerdict::Unknown, 1);
    check_file("{\"evenkeel_undo\":1}\n", &RestoreVerdict::Unknown, 1);
}

#[test]
fn a_record_of_another_version_does_not_count_as_damaged() {
    for version in ["0", "3"] {
        let record = format!("{{\"evenkeel_undo\":{version},\"run\":[]}}\n{{\"new\":{{}}}}\n");
        check_file(&record, &RestoreVerdict::Unknown, 0);
    }
}

#[test]
fn a_fifo_and_a_huge_file_are_kept_with_a_reason() {
    let test_dir = TestDir::new();
    let path = test_dir.log().path();
    let _ = std::fs::remove_file(&path);
    let check = |reason: &str| {
        let problems = restore(&test_dir.directories(), false).problems;
        assert!(problems.len() == 1 && problems[0].contains(reason), "{problems:?}");
        std::fs::remove_file(&path).expect("the file was kept");
    };
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a FIFO");
    check("not a regular file");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(1 << 40).expect("a sparse file");
    check("larger than");
}

proptest! {
    #[test]
    fn no_text_makes_reading_a_record_panic(text in "[\\PC\n]{0,300}") {
        let _ = parse(text.as_bytes());
    }
}

#[test]
fn a_program_without_an_environment_causes_no_delay() {
    let Some((all, first, _)) = masks() else { return };
    let test_dir = TestDir::new();
    let mut log = test_dir.log();
    log.record_before_fork("a", &all, &first).expect("a record");
    let sleeper = Sleeper::new(Command::new("sleep").arg("600").env_clear());
    affinity::set(sleeper.0.id(), &first).expect("the task is alive");
    let root = Path::new("/");
    while environ(root, sleeper.0.id()).expect("alive") == Environ::InExec {
        std::thread::yield_now();
    }
    // The process has a recorded mask and started after the record. The empty environment of the process shows that it
    // belongs to no job.
    let header = UndoHeader::new("boot".into(), "namespace".into(), 0, log.run().into(), 1);
    let pids =
        BTreeMap::from([(sleeper.0.id(), procfs::stat(root, sleeper.0.id()).expect("alive"))]);
    let online = system::online(root).expect("a list");
    let masks = MaskIndex::new(log.records(), &online);
    let search = MemberSearch { root, header: &header, records: log.records(), masks: &masks };
    let mut unreadable = UnreadableProcesses::new();
    let process = pids.iter().next().expect("one process");
    let mut environments = Environments::new(&|_| false);
    let found = search.environment((*process.0, process.1), &mut environments);
    assert!(found.expect("alive") == Some(&RunInEnviron::NoJob));
    // Other errors than these may end, so they keep the record.
    let denied = [libc::EACCES, libc::EIO, libc::EPERM, libc::ENOMEM, libc::ESRCH]
        .map(|error| search.is_denied(*process.0, &std::io::Error::from_raw_os_error(error)));
    assert_eq!(denied, [true, true, false, false, false]);
    assert!(!search.is_undecided(process, &environments, &mut unreadable));
    assert!(unreadable.is_empty(), "{unreadable:?}");
    assert_eq!(sleeper.mask(), first);
}

#[test]
fn restore_does_not_wait_for_a_locked_record_of_another_namespace() {
    let test_dir = TestDir::new();
    let log = test_dir.log();
    let boot = system::boot_id(Path::new("/")).expect("a name");
    let uid = rustix::process::geteuid().as_raw();
    // No process has PID 0, so the owner counts as exited.
    std::fs::write(log.path(), header(&boot, uid, "pid:[1]").replace("\"pid\":1", "\"pid\":0"))
        .expect("the directory is writable");
    assert_eq!(test_dir.restore_once().expect("a record").verdict, RestoreVerdict::OtherNamespace);
}

#[test]
fn only_groups_with_a_name_of_the_killed_run_are_removed() {
    let test_dir = TestDir::new();
    let root = tempfile::tempdir().expect("a directory");
    let at = root.path().join("sys/fs/resctrl/mon_groups");
    let mut log = test_dir.log();
    let run = log.run().to_owned();
    let named = ["0-a", "1-missing"].map(|job| crate::resctrl::MonGroupDir::for_job(&run, job));
    for name in [named[0].name(), named[1].name(), "other", "evenkeel-another-0-a"] {
        log.record_mon_group(name).expect("a line");
    }
    let unnamed = format!("evenkeel-{run}-7-z");
    for name in [named[0].name(), "other", "evenkeel-another-0-a", &unnamed] {
        std::fs::create_dir_all(at.join(name)).expect("the directory is writable");
        std::fs::write(at.join(name).join("tasks"), "1\n").expect("the directory is writable");
    }
    drop(log); // The record stays, as after a kill.
    let actions = |dry_run| -> Vec<String> {
        let control =
            RestoreControl { groups_root: root.path(), dry_run, ..RestoreControl::default() };
        let restore = || restore_with(control, &test_dir.directories());
        // A child that another test forks holds the lock until its exec.
        let is_free = |restored: &Restored| {
            restored.files.iter().all(|file| file.verdict != RestoreVerdict::InUse)
        };
        let restored = (0..100).map(|_| restore()).find(is_free).expect("the lock is free");
        let groups = restored.files.into_iter().flat_map(|file| file.kernel_groups);
        let short = |name: &str| name.replace(&run, "RUN");
        groups.map(|group| format!("{} {:?}", short(&group.name), group.action)).collect()
    };
    let mut expected = vec![
        "evenkeel-RUN-0-a Removed",
        "evenkeel-RUN-1-missing Absent",
        "evenkeel-another-0-a NotCreatedByEvenkeel",
        "other NotCreatedByEvenkeel",
    ];
    expected.sort_unstable();
    for dry_run in [true, false] {
        assert!(at.join(named[0].name()).exists(), "a dry run changes nothing");
        let mut found = actions(dry_run);
        found.sort();
        assert_eq!(found, expected);
    }
    assert!(!at.join(named[0].name()).exists());
    for name in ["other", "evenkeel-another-0-a", &unnamed] {
        assert!(at.join(name).join("tasks").exists(), "{name} belongs to another program");
    }
    assert_eq!(test_dir.n_files(), 0, "all settings are restored");
}

/// A record of a killed run with a recorded task, its child, and a task whose fork is recorded without its PID. Another
/// program has set the affinity of a fourth task.
struct KilledRun {
    test_dir: TestDir,
    from_evenkeel: [Sleeper; 2],
    child: u32,
    foreign: Sleeper,
}

impl Drop for KilledRun {
    fn drop(&mut self) {
        let child = rustix::process::Pid::from_raw(self.child.cast_signed());
        let kill = |child| rustix::process::kill_process(child, rustix::process::Signal::KILL);
        let _ = child.map(kill);
    }
}

fn killed_run([all, first, last]: [&CpuSet; 3]) -> KilledRun {
    let test_dir = TestDir::new();
    let mut log = test_dir.log();
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut parent = shell.spawn().expect("a shell");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(parent.stdout.take().expect("its output"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    let child = line.trim().parse().expect("a number");
    let (parent, foreign) = (Sleeper(parent), Sleeper::plain());
    let mut unnamed = Command::new("sleep");
    unnamed.arg("600").env(RUN_VARIABLE, log.run()).env(JOB_VARIABLE, "b");
    log.set("a", [all, all, first], vec![parent.task()]).expect("a record");
    log.set("c", [all, all, first], vec![foreign.task()]).expect("a record");
    log.record_before_fork("b", all, first).expect("a record");
    let unnamed = Sleeper::new(&mut unnamed);
    for tid in [parent.0.id(), child, unnamed.0.id()] {
        affinity::set(tid, first).expect("the task is alive");
    }
    affinity::set(foreign.0.id(), last).expect("the task is alive");
    KilledRun { test_dir, from_evenkeel: [parent, unnamed], child, foreign }
}

#[test]
fn after_an_injected_error_a_record_is_kept_until_all_settings_are_restored() {
    let Some((all, first, last)) = masks() else { return };
    let seeds = std::env::var("EVENKEEL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let (mut n_kept, mut n_restored) = (0, 0);
    for seed in 0..seeds {
        let killed = killed_run([&all, &first, &last]);
        let KilledRun { test_dir, from_evenkeel, child, foreign } = &killed;
        let permille = [1, 5, 20, 100][seed as usize % 4];
        let mut nr = 0;
        while test_dir.n_files() != 0 {
            // The last attempts have no injected errors.
            let permille = if nr < 3 { permille } else { 0 };
            let plan = fault::FaultPlan { seed: seed * 10 + nr, permille };
            let restored = fault::with_errors(plan, || restore(&test_dir.directories(), false));
            assert!(restored.problems.iter().all(|problem| !problem.contains('\n')));
            let verdict = restored.files.first().map(|file| &file.verdict);
            if verdict == Some(&RestoreVerdict::InUse) {
                continue; // A child of another test shares the lock until its exec.
            }
            let stays = test_dir.n_files() != 0;
            let is_reported =
                !restored.problems.is_empty() || verdict == Some(&RestoreVerdict::Kept);
            assert_eq!(stays, is_reported, "seed {seed}: {restored:?}");
            // Another test may delay the restore for a moment.
            assert!(nr < 30, "seed {seed}: the restore does not end: {restored:?}");
            n_kept += u32::from(stays);
            nr += 1;
        }
        n_restored += 1;
        let has = [&from_evenkeel[0], &from_evenkeel[1]].map(Sleeper::mask);
        assert_eq!(has, [all.clone(), all.clone()], "seed {seed}");
        assert_eq!(affinity::get(*child).expect("alive"), all, "seed {seed}");
        assert_eq!(foreign.mask(), last, "seed {seed}");
    }
    println!("{n_restored} restored, {n_kept} times kept");
    assert_ne!(n_kept, 0, "no error was injected");
}
