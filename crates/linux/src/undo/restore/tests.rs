//! What restore puts back, and what it leaves alone.

use super::*;
use crate::undo::Log;
use proptest::prelude::*;
use std::process::{Child, Command, Stdio};

/// A process of ours that sleeps until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new(command: &mut Command) -> Self {
        Sleeper(command.stdout(Stdio::null()).spawn().expect("a program of every system"))
    }

    fn plain() -> Self {
        Self::new(Command::new("sleep").arg("600"))
    }

    fn whose(&self) -> (u32, u64, u32) {
        let pid = self.0.id();
        let born = procfs::stat(Path::new("/"), pid).expect("alive").born_ticks;
        (pid, born, pid)
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

/// All CPUs of ours, the first of them and the last of them; `None` on a machine with one CPU.
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

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        World { folder: tempfile::tempdir().expect("a folder") }
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.folder.path().join("state")]
    }

    fn log(&self) -> Log {
        Log::create_in(&self.places()).expect("a record")
    }

    /// Restores and returns the one report, or none when there was no file. The owner is this process,
    /// which lives on, and its lock may live a moment longer than the record: a child of any test has
    /// a share in it until its exec is over.
    fn restore(&self) -> Option<FileReport> {
        loop {
            let report = self.restore_once();
            if report.as_ref().is_none_or(|report| report.verdict != Verdict::InUse) {
                return report;
            }
            std::thread::yield_now();
        }
    }

    fn restore_once(&self) -> Option<FileReport> {
        let restored = restore(&self.places(), false);
        assert_eq!(restored.problems, Vec::<String>::new());
        assert!(restored.files.len() <= 1);
        restored.files.into_iter().next()
    }

    fn n_files(&self) -> usize {
        std::fs::read_dir(&self.places()[0]).expect("the folder").count()
    }
}

#[test]
fn what_is_as_we_left_it_is_put_back_and_the_file_is_gone() {
    let Some((all, first, _)) = masks() else { return };
    let (world, sleeper) = (World::new(), Sleeper::plain());
    let mut log = world.log();
    let nr = log.set("a", [&all, &all, &first], vec![sleeper.whose()]).expect("a record");
    affinity::set(sleeper.0.id(), &first).expect("ours");
    log.done(nr).expect("a record");
    drop(log);
    let report = world.restore().expect("a record");
    assert_eq!(report.verdict, Verdict::Settled);
    assert_eq!(report.entries[0].deed, Deed::PutBack { from: first, to: all.clone() });
    assert_eq!(sleeper.mask(), all);
    assert_eq!(world.n_files(), 0);
}

#[test]
fn a_mask_that_somebody_else_set_stays() {
    let Some((all, first, last)) = masks() else { return };
    let (world, sleeper) = (World::new(), Sleeper::plain());
    let mut log = world.log();
    log.set("a", [&all, &all, &first], vec![sleeper.whose()]).expect("a record");
    affinity::set(sleeper.0.id(), &last).expect("ours");
    drop(log);
    let report = world.restore().expect("a record");
    assert_eq!(report.entries[0].deed, Deed::Foreign(last.clone()));
    assert_eq!(sleeper.mask(), last);
    assert_eq!(world.n_files(), 0);
}

#[test]
fn a_number_that_another_thread_has_now_is_left_alone() {
    let Some((all, first, _)) = masks() else { return };
    let (world, sleeper) = (World::new(), Sleeper::plain());
    affinity::set(sleeper.0.id(), &first).expect("ours");
    let (tid, born, process) = sleeper.whose();
    let mut log = world.log();
    log.set("a", [&all, &all, &first], vec![(tid, born - 1, process)]).expect("a record");
    drop(log);
    assert_eq!(world.restore().expect("a record").entries, []);
    assert_eq!(sleeper.mask(), first);
}

#[test]
fn a_child_that_was_only_announced_is_found_by_its_environment() {
    let Some((all, first, _)) = masks() else { return };
    let world = World::new();
    let mut log = world.log();
    log.announce("a", &all, &first).expect("a record");
    let mut command = Command::new("sleep");
    command.arg("600").env(RUN_VARIABLE, log.run()).env(JOB_VARIABLE, "a");
    let sleeper = Sleeper::new(&mut command);
    let stranger = Sleeper::new(command.env(RUN_VARIABLE, "another run"));
    for pid in [&sleeper, &stranger] {
        affinity::set(pid.0.id(), &first).expect("ours");
    }
    drop(log);
    assert_eq!(world.restore().expect("a record").entries.len(), 1);
    assert_eq!((sleeper.mask(), stranger.mask()), (all, first));
}

#[test]
fn descendants_with_our_mask_are_put_back_and_others_stay() {
    let Some((all, first, last)) = masks() else { return };
    let world = World::new();
    // A shell with two children, of which one binds itself elsewhere.
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
    let mut said = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let mut next = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
        line.trim().parse::<u32>().expect("a number")
    };
    let (plain, bound) = (next(), next());
    let shell = Sleeper(child);
    // The first may have been forked before its parent was bound: bind it as if it were after.
    affinity::set(plain, &first).expect("ours");
    while affinity::get(bound).expect("alive") != last {
        std::thread::yield_now();
    }
    let mut log = world.log();
    log.set("a", [&all, &all, &first], vec![shell.whose()]).expect("a record");
    drop(log);
    let report = world.restore().expect("a record");
    assert_eq!(report.entries.len(), 3, "{report:?}");
    assert_eq!(affinity::get(plain).expect("alive"), all);
    assert_eq!(affinity::get(bound).expect("alive"), last);
    for pid in [plain, bound] {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn the_record_of_a_living_run_is_not_touched() {
    let world = World::new();
    let log = world.log();
    assert_eq!(world.restore_once().expect("a record").verdict, Verdict::InUse);
    assert_eq!(world.n_files(), 1);
    log.remove().expect("the owner may");
    assert!(world.restore().is_none());
}

#[test]
fn a_dry_run_changes_nothing() {
    let Some((all, first, _)) = masks() else { return };
    let (world, sleeper) = (World::new(), Sleeper::plain());
    let mut log = world.log();
    log.set("a", [&all, &all, &first], vec![sleeper.whose()]).expect("a record");
    affinity::set(sleeper.0.id(), &first).expect("ours");
    drop(log);
    let restored = loop {
        let restored = restore(&world.places(), true);
        if restored.files[0].verdict != Verdict::InUse {
            break restored;
        }
    };
    assert!(matches!(restored.files[0].entries[0].deed, Deed::PutBack { .. }));
    assert_eq!((sleeper.mask(), world.n_files()), (first, 1));
}

fn check_file(text: &str, expected: &Verdict, n_damaged: usize) {
    let world = World::new();
    let path = world.log().path();
    std::fs::write(&path, text).expect("ours");
    let report = world.restore().expect("a record");
    assert_eq!((&report.verdict, report.n_damaged), (expected, n_damaged), "{text}");
}

fn header(boot: &str, uid: u32, namespace: &str) -> String {
    let header = Header::new(boot.into(), namespace.into(), uid, "r".into(), 1);
    serde_json::to_string(&header).expect("a header") + "\n"
}

#[test]
fn records_of_another_boot_user_or_namespace_are_told_apart() {
    let root = Path::new("/");
    let (boot, namespace) =
        (system::boot_id(root).expect("a name"), system::pid_namespace(root).expect("a name"));
    let uid = rustix::process::geteuid().as_raw();
    check_file(&header(&boot, uid, &namespace), &Verdict::Settled, 0);
    check_file(&header("another", uid, &namespace), &Verdict::OtherBoot, 0);
    check_file(&header(&boot, uid + 1, &namespace), &Verdict::OtherUser, 0);
    check_file(&header(&boot, uid, "pid:[1]"), &Verdict::OtherNamespace, 0);
}

#[test]
fn a_torn_last_line_is_normal_and_a_damaged_one_keeps_the_record() {
    let root = Path::new("/");
    let uid = rustix::process::geteuid().as_raw();
    let good = header(
        &system::boot_id(root).expect("a name"),
        uid,
        &system::pid_namespace(root).expect("a name"),
    );
    check_file("", &Verdict::Settled, 0);
    check_file("{\"evenk", &Verdict::Settled, 0);
    check_file(&format!("{good}{{\"bind\":{{\"nr\":1"), &Verdict::Settled, 0);
    check_file(&format!("{good}nonsense\n{{\"done\":{{\"nr\":1}}}}\n"), &Verdict::Kept, 1);
    check_file("nonsense\n", &Verdict::Unknown, 1);
}

proptest! {
    #[test]
    fn no_text_makes_reading_a_record_panic(text in "[\\PC\n]{0,300}") {
        let _ = parse(text.as_bytes());
    }
}

#[test]
fn a_program_without_any_environment_holds_nobody_up() {
    let Some((all, first, _)) = masks() else { return };
    let world = World::new();
    let mut log = world.log();
    log.announce("a", &all, &first).expect("a record");
    let sleeper = Sleeper::new(Command::new("sleep").arg("600").env_clear());
    affinity::set(sleeper.0.id(), &first).expect("ours");
    let root = Path::new("/");
    while environ(root, sleeper.0.id()).expect("alive") == Environ::InExec {
        std::thread::yield_now();
    }
    // It has our mask and is younger than the record: all the same it can be told that it is not ours.
    let header = Header::new("boot".into(), "namespace".into(), 0, log.run().into(), 1);
    let pids =
        BTreeMap::from([(sleeper.0.id(), procfs::stat(root, sleeper.0.id()).expect("alive"))]);
    assert!(!is_undecided(
        root,
        &header,
        log.records(),
        &online(root),
        pids.iter().next().expect("one")
    ));
    assert_eq!(sleeper.mask(), first);
}

#[test]
fn a_locked_record_of_another_namespace_is_not_waited_for() {
    let world = World::new();
    let log = world.log();
    let boot = system::boot_id(Path::new("/")).expect("a name");
    let uid = rustix::process::geteuid().as_raw();
    // Its owner's number is nobody's here, so that it would pass for dead.
    std::fs::write(log.path(), header(&boot, uid, "pid:[1]").replace("\"pid\":1", "\"pid\":0"))
        .expect("ours");
    assert_eq!(world.restore_once().expect("a record").verdict, Verdict::OtherNamespace);
}

#[test]
fn only_groups_that_a_killed_run_named_as_its_own_are_removed() {
    let world = World::new();
    let root = tempfile::tempdir().expect("a folder");
    let at = root.path().join("sys/fs/resctrl/mon_groups");
    let mut log = world.log();
    let run = log.run().to_owned();
    let named = ["0-a", "1-gone"].map(|job| crate::resctrl::GroupFolder::of(&run, job));
    for name in [named[0].name(), named[1].name(), "theirs", "evenkeel-another-0-a"] {
        log.announce_mon_group(name).expect("a line");
    }
    let unnamed = format!("evenkeel-{run}-7-z");
    for name in [named[0].name(), "theirs", "evenkeel-another-0-a", &unnamed] {
        std::fs::create_dir_all(at.join(name)).expect("ours");
        std::fs::write(at.join(name).join("tasks"), "1\n").expect("ours");
    }
    drop(log); // As if killed.
    let deeds = |dry_run| -> Vec<String> {
        let restored = restore_below(root.path(), &world.places(), dry_run);
        let groups = restored.files.into_iter().flat_map(|file| file.groups);
        let short = |name: &str| name.replace(&run, "RUN");
        groups.map(|group| format!("{} {:?}", short(&group.name), group.deed)).collect()
    };
    let mut expected = vec![
        "evenkeel-RUN-0-a Removed",
        "evenkeel-RUN-1-gone Gone",
        "evenkeel-another-0-a NotOurs",
        "theirs NotOurs",
    ];
    expected.sort_unstable();
    for dry_run in [true, false] {
        assert!(at.join(named[0].name()).exists(), "a dry run changes nothing");
        let mut told = deeds(dry_run);
        told.sort();
        assert_eq!(told, expected);
    }
    assert!(!at.join(named[0].name()).exists());
    for name in ["theirs", "evenkeel-another-0-a", &unnamed] {
        assert!(at.join(name).join("tasks").exists(), "{name} is not ours to remove");
    }
    assert_eq!(world.n_files(), 0, "settled");
}
