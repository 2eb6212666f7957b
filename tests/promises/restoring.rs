//! `evenkeel restore`, and the start of `run` and `watch --act`, end although a program forks all the time. A stop
//! request and the limits end a restore early; the record is then kept, and the next restore continues.

use std::cell::{Cell, RefCell};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base::CpuSet;
use linux::environ::{Environ, environ};
use linux::undo::{
    self, FileReport, JOB_VARIABLE, Log, RUN_VARIABLE, RestoreClock, RestoreControl, RestoreLimits,
    RestoreVerdict, UnfinishedCause,
};
use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::{EvenkeelRun, EvenkeelWatch, MIGRATES_ONLY_JOB};
use tests::isolated::rerun;
use tests::process::{BURN, Process, children, mask, start_time_ticks, two_cpus, until};
use tests::tool;

/// Starts a child that lives for two seconds, 50 times per second.
const FORKER: &str = "while :; do sleep 2 & sleep 0.02; done";

/// The record of a killed run with these processes, and their masks.
struct KilledRun {
    dir: Dir,
    run: String,
    processes: Vec<Process>,
    all: CpuSet,
    changed: CpuSet,
}

impl KilledRun {
    /// Binds the processes to the first CPU. The record is left as after a kill of evenkeel.
    fn new(processes: Vec<Process>) -> Option<Self> {
        let (all, changed, _) = two_cpus()?;
        let dir = Dir::new();
        let mut log = Log::create_in(&dir.state()).expect("a record");
        for process in &processes {
            let pid = process.pid();
            let task = (pid, start_time_ticks(pid), pid);
            log.set("a", [&all, &all, &changed], vec![task]).expect("a line");
            linux::affinity::set(pid, &changed).expect("permitted");
        }
        let run = log.run().to_owned();
        Some(KilledRun { dir, run, processes, all, changed })
    }

    fn sleepers(n: usize) -> Option<Self> {
        Self::new((0..n).map(|_| Process::shell("exec sleep 600")).collect())
    }

    /// Starts another process of the run with the changed mask.
    fn fork(&self) -> Process {
        self.start(Command::new("sleep").arg("600"))
    }

    fn start(&self, command: &mut Command) -> Process {
        command.env(RUN_VARIABLE, &self.run).env(JOB_VARIABLE, "a");
        let process = Process::new(command);
        linux::affinity::set(process.pid(), &self.changed).expect("permitted");
        // The start returns during execve(2), before the environment and its size can be read.
        until("the end of execve(2)", || {
            environ(Path::new("/"), process.pid()).expect("an own process") != Environ::InExec
        });
        process
    }

    /// Restores the record. A child that another test forks may hold the lock until its exec.
    fn restore(&self, control: RestoreControl<'_>) -> FileReport {
        let mut report = None;
        until("the lock of the record", || {
            let restored = undo::restore_with(control, &self.dir.state());
            assert_eq!(restored.problems, Vec::<String>::new());
            report = restored.files.into_iter().next();
            report.as_ref().is_some_and(|report| report.verdict != RestoreVerdict::InUse)
        });
        report.expect("a record")
    }

    /// Runs a command whose signal mask blocks SIGTERM, while a SIGTERM is pending.
    fn run_with_pending_term(&self, args: &[&str]) -> Output {
        let script = "kill -TERM $$; exec \"$@\"";
        let mut command = Command::new("env");
        command.args(["--block-signal=TERM", "sh", "-c", script, "sh"]).arg(tool::path());
        command.args(args).current_dir(self.dir.root());
        command.env(undo::STATE_VARIABLE, self.dir.path("state"));
        command.stdin(Stdio::null()).output().expect("env and sh")
    }

    /// Starts a process of the run that starts its successor and exits, and so on, with the changed mask. After
    /// [`KilledRun::end_chain`] the last process writes its mask.
    fn start_chain(&self) -> Process {
        let link = "if [ -e stop ]; then grep Cpus_allowed_list: /proc/self/status > mask; else sh link & fi";
        self.dir.write("link", link);
        let mut command = Command::new("sh");
        command.args(["-c", "while [ ! -e bound ]; do sleep 0.01; done; exec sh link"]);
        command.current_dir(self.dir.root());
        command.env(RUN_VARIABLE, &self.run).env(JOB_VARIABLE, "a");
        let first = Process::new(&mut command);
        linux::affinity::set(first.pid(), &self.changed).expect("permitted");
        self.dir.write("bound", "");
        first
    }

    fn end_chain(&self) -> CpuSet {
        self.dir.write("stop", "");
        until("the end of the chain", || {
            self.dir.path("mask").exists() && self.dir.text("mask").ends_with('\n')
        });
        let text = self.dir.text("mask");
        text.split_whitespace().next_back().expect("a list").parse().expect("a list of CPUs")
    }

    fn n_changed(&self) -> usize {
        let has_changed_mask =
            |process: &&Process| mask(process.pid()).as_ref() == Some(&self.changed);
        self.processes.iter().filter(has_changed_mask).count()
    }

    fn n_records(&self) -> usize {
        let names = std::fs::read_dir(self.dir.path("state")).expect("the directory").flatten();
        names.filter(|entry| entry.path().extension().is_some_and(|it| it == "undo")).count()
    }
}

/// A clock that does not depend on the time of the test.
struct FakeClock {
    now: Cell<Duration>,
    step: Duration,
}

impl Default for FakeClock {
    fn default() -> Self {
        // Time passes: a restore during which a process was started watches new processes for a time.
        FakeClock { now: Cell::default(), step: Duration::from_micros(10) }
    }
}

impl RestoreClock for FakeClock {
    fn now(&self) -> Duration {
        self.pause(self.step);
        self.now.get()
    }

    fn pause(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }
}

#[test]
fn a_restore_while_a_program_forks_all_the_time_is_complete() {
    if rerun("restoring::a_restore_while_a_program_forks_all_the_time_is_complete") {
        return;
    }
    let Some(killed) = KilledRun::new(vec![Process::shell(FORKER)]) else { return };
    let forker = killed.processes[0].pid();
    let has_changed_mask = |pid: &u32| mask(*pid).as_ref() == Some(&killed.changed);
    until("many children with the changed mask", || {
        20 < children(forker).iter().filter(|pid| has_changed_mask(pid)).count()
    });
    let report = killed.restore(RestoreControl::default());
    assert_eq!((report.verdict, report.unfinished), (RestoreVerdict::Complete, None));
    assert_eq!(mask(forker).as_ref(), Some(&killed.all));
    assert_eq!(children(forker).iter().filter(|pid| has_changed_mask(pid)).count(), 0);
    assert_eq!(killed.n_records(), 0);
    let is_restored =
        |entry: &&undo::Entry| matches!(entry.action, undo::RestoreAction::Restored { .. });
    assert!(report.entries.iter().all(|entry| is_restored(&entry)), "{:?}", report.entries);
}

#[test]
fn a_chain_of_processes_that_each_start_a_successor_and_exit_is_restored() {
    if rerun("restoring::a_chain_of_processes_that_each_start_a_successor_and_exit_is_restored") {
        return;
    }
    let Some(killed) = KilledRun::sleepers(1) else { return };
    let mut first = killed.start_chain();
    first.0.wait().expect("own child");
    let report = killed.restore(RestoreControl::default());
    assert_eq!((report.verdict, report.unfinished), (RestoreVerdict::Complete, None));
    assert_eq!(killed.end_chain(), killed.all);
}

#[test]
fn a_run_starts_while_a_program_forks_all_the_time() {
    if rerun("restoring::a_run_starts_while_a_program_forks_all_the_time") {
        return;
    }
    let Some(killed) = KilledRun::new(vec![Process::shell(FORKER)]) else { return };
    killed.dir.write("w.toml", "[[job]]\ncommand = [\"true\"]\n");
    let output = killed.dir.command_with_state(&["run", "w.toml", "-q", "--out", "out"]).output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", tool::text(&output.stderr));
    assert_eq!((killed.n_changed(), killed.n_records()), (0, 0));
}

#[test]
fn a_restore_ends_at_its_time_limit_if_processes_start_faster_than_they_are_restored() {
    let Some(killed) = KilledRun::sleepers(2) else { return };
    let clock = FakeClock { step: Duration::from_millis(200), ..FakeClock::default() };
    let (started, n_polls, progress) =
        (RefCell::new(Vec::new()), Cell::new(0), RefCell::new(Vec::new()));
    let starts_processes = || {
        n_polls.set(n_polls.get() + 1);
        if n_polls.get() % 2 == 0 {
            started.borrow_mut().push(killed.fork());
        }
        false
    };
    let control = RestoreControl {
        clock: &clock,
        is_stop_requested: &starts_processes,
        on_progress: &|now| progress.borrow_mut().push(*now),
        ..RestoreControl::default()
    };
    let report = killed.restore(control);
    let unfinished = report.unfinished.expect("the limit of time");
    assert_eq!((report.verdict, unfinished.cause), (RestoreVerdict::Kept, UnfinishedCause::Limit));
    let limit = RestoreLimits::default().time_max;
    assert!(clock.now.get() < limit + Duration::from_secs(2), "{:?}", clock.now);
    assert_eq!((killed.n_changed(), killed.n_records()), (0, 1), "recorded threads are first");
    let progress = progress.into_inner();
    assert!((5..=20).contains(&progress.len()), "{progress:?}");
    assert!(progress.is_sorted_by_key(|now| now.n_inspected), "{progress:?}");
    let report = killed.restore(RestoreControl::default());
    assert_eq!((report.verdict, report.unfinished), (RestoreVerdict::Complete, None));
    let is_restored = |process: &Process| process.mask() == killed.all;
    assert!(started.borrow().iter().all(is_restored));
}

#[test]
fn a_large_environment_is_not_read_after_the_time_limit_and_the_next_restore_reads_it() {
    let Some(killed) = KilledRun::sleepers(1) else { return };
    let halves = ["A", "B"].map(|name| (name, name.repeat(100_000)));
    let large = killed.start(Command::new("sleep").arg("600").envs(halves));
    let small = killed.fork();
    let clock = FakeClock { step: Duration::from_secs(6), ..FakeClock::default() };
    let report = killed.restore(RestoreControl { clock: &clock, ..RestoreControl::default() });
    let unfinished = report.unfinished.expect("the time limit");
    assert_eq!(unfinished.cause, UnfinishedCause::LargeEnvironments);
    assert_eq!((report.verdict, unfinished.n_not_inspected), (RestoreVerdict::Kept, 1));
    assert_eq!((killed.n_changed(), small.mask()), (0, killed.all.clone()));
    assert_eq!((large.mask(), killed.n_records()), (killed.changed.clone(), 1));
    let clock = FakeClock::default();
    let report = killed.restore(RestoreControl { clock: &clock, ..RestoreControl::default() });
    assert_eq!((report.verdict, large.mask()), (RestoreVerdict::Complete, killed.all.clone()));
}

#[test]
fn the_record_and_the_state_of_another_time_namespace_stay_and_are_restored_there() {
    let namespace = ["--time", "--boottime", "100000", "--fork", "--kill-child"];
    let tried = Command::new("unshare").args(namespace).arg("true").stderr(Stdio::null()).status();
    let Some((all, ..)) = two_cpus() else { return };
    if !tried.is_ok_and(|status| status.success()) {
        println!("skipped: needs a time namespace (unshare --time)");
        return;
    }
    let text = "[[job]]\nname = \"a\"\nclass = 9\nshell = \"echo $$; exec sleep 600\"\n";
    let args = ["--quiet", "--policy", "dfs[domains=core]"];
    let shell = format!("exec unshare {} \"$@\"", namespace.join(" "));
    let mut run = EvenkeelRun::by_shell(&shell, Dir::new(), text, &args);
    let pid = run.printed("a", 1)[0];
    let is_state = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".state.json");
    until("the state file", || run.records().iter().any(is_state));
    run.end_by(Signal::KILL);
    let changed = mask(pid);
    let restored = run.restore(None);
    let (stays, records) = (mask(pid), run.records());
    let inside = Command::new("nsenter")
        .args(["--time", "--target", &pid.to_string()])
        .arg(tool::path())
        .arg("restore")
        .env(undo::STATE_VARIABLE, run.dir.path("state"))
        .output()
        .expect("nsenter");
    let after = mask(pid);
    tests::process::signal(pid, Signal::KILL);
    assert!(restored.contains("is of another PID or time namespace"), "{restored}");
    assert!(changed != Some(all.clone()) && stays == changed, "{changed:?} {stays:?}");
    assert!(records.len() == 2 && records.iter().any(is_state), "{records:?}");
    assert_eq!(after, Some(all), "{}", tool::text(&inside.stdout));
    assert_eq!(run.records(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn without_the_proc_of_its_pid_namespace_a_command_changes_nothing_and_names_the_remedy() {
    let Some(killed) = KilledRun::sleepers(1) else { return };
    let unshare = |script: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script, "sh"]);
        command.arg(tool::path()).args(args).current_dir(killed.dir.root());
        command.env(undo::STATE_VARIABLE, killed.dir.path("state"));
        command.stdin(Stdio::null()).output().expect("unshare")
    };
    if !unshare("true", &[]).status.success() {
        println!("skipped: needs namespaces (unshare --pid --mount)");
        return;
    }
    let cases: [(&str, &[&str]); 6] = [
        ("unshare --mount-proc", &["run", "--out", "out", "--", "true"]),
        ("unshare --mount-proc", &["restore"]),
        ("unshare --mount-proc", &["watch", "--all", "--for", "1s"]),
        ("unshare --mount-proc", &["record", "--output", "r.jsonl", "--", "true"]),
        ("unshare --mount-proc", &["profile", "--", "true"]),
        ("unshare --mount-proc", &["compare", "--", "true", "false"]),
    ];
    let hidden: [(&str, &[&str]); 2] = [
        ("mount -t proc proc /proc", &["run", "--", "true"]),
        ("mount -t proc proc /proc", &["restore"]),
    ];
    let cases = cases.map(|case| ("exec \"$@\"", case)).into_iter();
    let hidden = hidden.map(|case| ("mount -t tmpfs none /proc && exec \"$@\"", case));
    for (script, (remedy, args)) in cases.chain(hidden) {
        let output = unshare(script, args);
        let text = tool::text(&output.stderr);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{args:?}: {text}");
        assert!(text.contains(remedy), "{args:?}: {text}");
        assert_eq!(killed.dir.listing(), ["state"]);
        assert_eq!((killed.n_changed(), killed.n_records()), (1, 1));
    }
    let simulated = unshare("exec \"$@\"", &["machine"]);
    assert!(simulated.status.success(), "{}", tool::text(&simulated.stderr));
}

#[test]
fn a_stack_size_limit_that_is_too_small_is_one_line_with_the_remedy() {
    let dir = Dir::new();
    for (limit, expected) in [("16", 2), ("64", 2), ("1023", 2), ("1024", 0)] {
        let script = format!("ulimit -s {limit} && exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(tool::path()).args(["restore", "--dry-run"]);
        // The environment is on the stack: a large one does not fit into 16 KiB.
        command.env_clear().env(undo::STATE_VARIABLE, dir.path("state"));
        let output = command.output().expect("sh");
        let text = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{limit}: {text}");
        let line = format!(
            "evenkeel: the stack size limit is {limit} KiB: evenkeel needs 1024 KiB; run ulimit -s 1024\n"
        );
        assert_eq!(text, if expected == 0 { String::new() } else { line });
    }
}

#[test]
fn a_stop_request_keeps_the_record_of_what_remains_and_the_next_restore_continues() {
    let Some(killed) = KilledRun::sleepers(6) else { return };
    let n_polls = Cell::new(0);
    let stops_after_two = || {
        n_polls.set(n_polls.get() + 1);
        2 < n_polls.get()
    };
    let control =
        RestoreControl { is_stop_requested: &stops_after_two, ..RestoreControl::default() };
    let report = killed.restore(control);
    let unfinished = report.unfinished.expect("the stop request");
    assert_eq!(unfinished.cause, UnfinishedCause::Stopped);
    assert_eq!((unfinished.n_not_inspected, killed.n_changed()), (4, 4));
    assert_eq!((report.verdict, killed.n_records()), (RestoreVerdict::Kept, 1));
    assert_eq!(killed.restore(RestoreControl::default()).verdict, RestoreVerdict::Complete);
    assert_eq!((killed.n_changed(), killed.n_records()), (0, 0));
}

#[test]
fn every_signal_that_terminates_a_process_ends_a_watch_that_restores_and_prints_its_name() {
    let Some((all, ..)) = two_cpus() else { return };
    let busy = Process::new(Command::new("sh").args(["-c", BURN]).process_group(0));
    let pid = busy.pid().to_string();
    // 40 is a real-time signal. A test program cannot block the signals of program errors.
    for (number, name) in
        [(14, "SIGALRM"), (6, "SIGABRT"), (24, "SIGXCPU"), (30, "SIGPWR"), (40, "signal 40")]
    {
        let args = ["--pid", &pid, "--act", "-q", "--class", "*=8", "--policy", MIGRATES_ONLY_JOB];
        let mut watch = EvenkeelWatch::new(&args);
        watch.wait_for_placement(&busy, &all);
        let kill = Command::new("kill")
            .args([format!("-{number}"), watch.process.pid().to_string()])
            .status();
        assert!(kill.expect("kill is installed").success());
        let (text, status) = watch.wait();
        assert_eq!((status, busy.mask()), (Some(0), all.clone()), "{name}: {text}");
        assert_eq!(text, format!("evenkeel: ended by {name}\n"));
    }
}

#[test]
fn sigterm_ends_a_restore_with_status_1_and_one_line_about_what_remains() {
    let Some(killed) = KilledRun::sleepers(3) else { return };
    let output = killed.run_with_pending_term(&["restore"]);
    let text = tool::text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text} {}", tool::text(&output.stderr));
    let line =
        "kept: stopped by a signal; 3 processes were not inspected; run evenkeel restore again";
    assert_eq!((text.lines().count(), text.matches(line).count()), (1, 1), "{text}");
    assert_eq!((killed.n_changed(), killed.n_records()), (3, 1));
}

#[test]
fn sigterm_during_the_restore_at_the_start_of_a_run_or_a_watch_ends_it_and_keeps_the_record() {
    let Some(killed) = KilledRun::sleepers(3) else { return };
    killed.dir.write("w.toml", "[[job]]\nname = \"a\"\nshell = \"echo started\"\n");
    let output = killed.run_with_pending_term(&["run", "w.toml", "-q", "--out", "out"]);
    let text = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("3 processes were not inspected"), "{text}");
    assert!(!killed.dir.text("out/jobs/a.out").contains("started"));
    let pid = std::process::id().to_string();
    let output = killed.run_with_pending_term(&["watch", "--pid", &pid, "--act", "-q"]);
    let text = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "a stop signal is the normal end of a watch: {text}");
    assert!(text.contains("3 processes were not inspected"), "{text}");
    assert_eq!((killed.n_changed(), killed.n_records()), (3, 1));
}

/// Uses CPU time, and starts a child that lives for a while about ten times per second.
const BUSY_FORKER: &str =
    "while :; do sleep 1 & i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";

#[test]
fn after_signals_at_random_moments_of_a_watch_and_a_restore_during_forks_nothing_stays_changed() {
    if rerun(
        "restoring::after_signals_at_random_moments_of_a_watch_and_a_restore_during_forks_nothing_stays_changed",
    ) {
        return;
    }
    let Some((all, ..)) = two_cpus() else { return };
    let seeds = std::env::var("EVENKEEL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let forker = Process::shell(BUSY_FORKER);
    let pid = forker.pid().to_string();
    let args = ["--pid", &pid, "--act", "-q", "--class", "*=8", "--policy", MIGRATES_ONLY_JOB];
    for seed in 0..seeds {
        let mut rng = base::Rng::new(seed);
        let mut watch = EvenkeelWatch::new(&args);
        watch.wait_for_placement(&forker, &all);
        std::thread::sleep(Duration::from_millis(rng.below(300)));
        watch.process.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(rng.below(300)));
        // SIGINT may be ignored in the test, which the watch inherits.
        let by = [Signal::KILL, Signal::TERM, Signal::HUP, Signal::USR1][rng.below(4) as usize];
        watch.process.signal(by);
        watch.process.signal(Signal::CONT);
        watch.wait();
        // A killed restore leaves the record for the next one.
        let restore = || {
            let mut command = tool::command(&["restore"]);
            command.env(undo::STATE_VARIABLE, watch.dir.path("state"));
            Process::new(&mut command)
        };
        let killed = restore();
        std::thread::sleep(Duration::from_millis(rng.below(20)));
        killed.signal(Signal::KILL);
        drop(killed);
        let status = restore().0.wait().expect("own child");
        assert_eq!(status.code(), Some(0), "seed {seed}, {by:?}: {}", watch.stderr());
        assert_eq!(forker.mask(), all, "seed {seed}, {by:?}");
        let is_changed = |pid: &u32| mask(*pid).is_some_and(|mask| mask != all);
        let n_changed = children(forker.pid()).iter().filter(|pid| is_changed(pid)).count();
        assert_eq!(n_changed, 0, "seed {seed}, {by:?}");
    }
}

#[test]
fn a_broken_standard_output_or_standard_error_does_not_keep_a_restore_from_its_work() {
    let broken = || std::fs::File::create("/dev/full").expect("a device");
    let Some(killed) = KilledRun::sleepers(2) else { return };
    let mut restore = killed.dir.command_with_state(&["restore"]);
    let status = restore.stdout(broken()).stderr(broken()).status().expect("it starts");
    assert_eq!(status.code(), Some(1), "the output was lost");
    assert_eq!((killed.n_changed(), killed.n_records()), (0, 0));
    let Some(killed) = KilledRun::sleepers(2) else { return };
    killed.dir.write("w.toml", "[[job]]\ncommand = [\"true\"]\n");
    let mut run = killed.dir.command_with_state(&["run", "w.toml", "--out", "out"]);
    let status = run.stdout(Stdio::null()).stderr(broken()).status().expect("it starts");
    assert_eq!(status.code(), Some(0));
    assert_eq!((killed.n_changed(), killed.n_records()), (0, 0));
}

#[test]
fn a_run_beyond_the_limit_of_the_file_size_continues_and_restores_its_changes() {
    let text = "[[job]]\nname = \"a\"\nload = \"compute --for 600s\"\nclass = 8\ncopies = 4\n";
    let args =
        ["--quiet", "--policy", "random[every=20ms]", "--grace", "200ms", "--time-limit", "2s"];
    let mut run = EvenkeelRun::by_shell("ulimit -f 16; exec \"$@\"", Dir::new(), text, &args);
    run.expect_status(1);
    assert!(run.output.contains("cannot write the journal"), "{}", run.output);
    assert!(run.output.lines().all(|line| line.starts_with("evenkeel: ")), "{}", run.output);
    let is_record = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "undo");
    assert!(!run.records().iter().any(is_record), "{:?}", run.records());
}

#[test]
fn a_process_that_lost_its_managed_parent_after_a_kill_of_a_watch_is_named() {
    if rerun("restoring::a_process_that_lost_its_managed_parent_after_a_kill_of_a_watch_is_named") {
        return;
    }
    let Some((all, ..)) = two_cpus() else { return };
    let dir = Dir::new();
    let script = "while [ ! -e go ]; do :; done; sleep 600 & echo $! > child";
    let mut command = Command::new("sh");
    let mut parent = Process::new(command.args(["-c", script]).current_dir(dir.root()));
    let pid = parent.pid().to_string();
    let args = ["--pid", &pid, "--act", "-q", "--class", "*=8", "--policy", MIGRATES_ONLY_JOB];
    let mut watch = EvenkeelWatch::new(&args);
    watch.wait_for_placement(&parent, &all);
    watch.process.signal(Signal::KILL);
    watch.process.0.wait().expect("own child");
    dir.write("go", "");
    parent.0.wait().expect("own child");
    let child: u32 = dir.text("child").trim().parse().expect("a PID");
    let output = tool::command(&["restore"])
        .env(undo::STATE_VARIABLE, watch.dir.path("state"))
        .output()
        .expect("it starts");
    let (text, changed) = (tool::text(&output.stdout), mask(child).expect("it runs"));
    tests::process::signal(child, Signal::KILL);
    let line = format!(
        "unchanged, it has CPUs {changed} as the job had, and its parent has not or has exited; if it belongs to \
         the job, run taskset -apc {all} {child}\n"
    );
    assert_ne!(changed, all);
    assert!(text.contains(&line), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}
