//! Programs that somebody else started are looked after, and nobody else is touched.
//!
//! The programs here are shells of the test that burn CPU time; the policy places every job that it
//! sees on the last CPU, so that it can be seen who was touched. Two CPUs are enough.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base::{Bytes, CpuSet, JobId, Nanos, NodeId, TaskId};
use host_live::{AttachError, AttachHost, AttachOptions, ExclusionReason, MemorySampling};
use linux::{affinity, procfs};
use sched::{
    Action, DetachCause, JobEvent, Outcome, OutcomeResult, Plan, Policy, Reason, ReasonCode,
    RejectCause, Snapshot,
};

use crate::tool;
use turns::{LastCpu, Watching};

mod chosen;
mod killed;
mod moments;
mod refused;
mod status;
mod turns;

/// Burns CPU time until it is killed.
const BURN: &str = "while :; do :; done";
/// Nothing here takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program of the test, killed when it is dropped.
struct Program(Child);

impl Program {
    fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Program(command.spawn().expect("a program of every system"))
    }

    fn shell(script: &str) -> Self {
        Program::new(Command::new("sh").args(["-c", script]))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Wishes the memory of every job to be on the first node, once.
#[derive(Default)]
struct ToNode0(BTreeSet<JobId>);

impl Policy for ToNode0 {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        for job in seen.jobs.iter().filter(|job| job.movable) {
            if self.0.insert(job.job.id) {
                let (from, to, limit) = (None, NodeId(0), Bytes::from_mib(16));
                let action = Action::MovePages { from, to, limit };
                plan.request(
                    job.job.id,
                    action,
                    Reason::new(ReasonCode::new("next-in-turn", "a test")),
                );
            }
        }
    }

    fn name(&self) -> &str {
        "to-node-0"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(INTERVAL)
    }
}

const INTERVAL: Nanos = Nanos::from_millis(100);

/// Watches programs of a test, which are put on the last CPU.
fn watch(programs: &[&Program], change: impl FnOnce(&mut AttachOptions)) -> Watching {
    Watching::with(Box::new(LastCpu(INTERVAL)), &pids(programs), change)
}

fn pids(programs: &[&Program]) -> Vec<u32> {
    programs.iter().map(|program| program.pid()).collect()
}

fn mask(pid: u32) -> CpuSet {
    affinity::get(pid).expect("alive")
}

/// What processes here have, and the last CPU alone; `None` where there is nothing to choose.
fn two_cpus() -> Option<(CpuSet, CpuSet)> {
    let all = affinity::get(0).expect("own mask");
    let is_ordinary = affinity::get(1).is_ok_and(|first| first == all);
    if all.len() < 2 || !is_ordinary {
        println!("not run: needs two CPUs, and the mask that processes here have");
        return None;
    }
    let last = all.last().into_iter().collect();
    Some((all, last))
}

#[test]
fn a_busy_process_is_placed_and_has_what_it_had_when_watching_ends() {
    let Some((all, last)) = two_cpus() else { return };
    let (busy, asleep) = (Program::shell(BURN), Program::shell("sleep 600"));
    let mut watching = watch(&[&busy, &asleep], |_| ());
    watching.until("the placement", |_| mask(busy.pid()) == last);
    assert_eq!(mask(asleep.pid()), all, "who sleeps is no job");
    let board = watching.board();
    assert_eq!(board.managed.len(), 1);
    assert_eq!((&board.managed[0].before, board.managed[0].pid), (&all, busy.pid()));
    watching.end();
    assert_eq!(mask(busy.pid()), all);
    assert!(watching.left(DetachCause::WatchStopped));
}

#[test]
fn without_being_told_to_act_nothing_is_changed_and_nothing_believed() {
    let Some((all, _)) = two_cpus() else { return };
    let busy = Program::shell(BURN);
    let mut watching = watch(&[&busy], |options| options.act = false);
    watching.until("three wishes", |watching| 3 <= watching.outcomes.len());
    let is_only_said = |outcome: &Outcome| {
        matches!(outcome.result, OutcomeResult::Rejected { cause: RejectCause::DryRun, .. })
    };
    assert!(watching.outcomes.iter().all(is_only_said));
    assert_eq!(mask(busy.pid()), all);
    assert!(watching.board().managed[0].placed.is_none());
    watching.end();
    assert_eq!(mask(busy.pid()), all);
}

#[test]
fn a_move_of_memory_has_an_end_that_is_told_and_is_only_said_without_act() {
    for act in [true, false] {
        let busy = Program::shell(BURN);
        let policy = Box::new(ToNode0::default());
        let mut watching = Watching::with(policy, &[busy.pid()], |options| options.act = act);
        let has_begun = |watching: &Watching| !watching.outcomes.is_empty();
        watching.until("the wish", |watching| has_begun(watching) || !watching.refused.is_empty());
        if let Some(refusal) = watching.refused.first() {
            println!("not run: node 0 may not be used here ({})", refusal.detail);
            return;
        }
        let result = watching.outcomes[0].result.clone();
        if !act {
            let only_said =
                OutcomeResult::Rejected { cause: RejectCause::DryRun, detail: String::new() };
            assert_eq!(std::mem::discriminant(&result), std::mem::discriminant(&only_said));
            watching.end();
            assert_eq!(watching.moved, []);
            continue;
        }
        assert_eq!(result, OutcomeResult::InProgress);
        // Its end is told even when watching ends at once.
        watching.end();
        let [moved] = &watching.moved[..] else { panic!("{:?}", watching.moved) };
        let sum = moved.moved.0 + moved.failed.total().0 + moved.not_attempted.0;
        assert_eq!((moved.to, moved.requested.0), (NodeId(0), sum));
        println!("{moved:?}");
    }
}

#[test]
fn where_memory_lies_is_looked_at_without_act_too_and_by_whom_it_cannot_is_said_once() {
    let busy = Program::shell(BURN);
    let mut watching = watch(&[&busy], |options| {
        options.act = false;
        options.memory.sampling = MemorySampling::On;
    });
    let cannot = |watching: &Watching| {
        let about = |text: &&String| text.contains("memory by node cannot be read");
        watching.degraded.iter().filter(about).count()
    };
    watching.until("a look", |watching| !watching.memory.is_empty() || cannot(watching) != 0);
    match watching.memory.first() {
        Some(seen) => {
            assert_eq!(seen.process.tid, busy.pid());
            assert!(seen.nodes.iter().any(|lies| lies.own() != Bytes::ZERO), "{seen:?}");
        }
        None => println!("not run: {:?}", watching.degraded),
    }
    watching.end();
    assert!(cannot(&watching) <= 1);
}

#[test]
fn whoever_has_reasons_of_their_own_is_left_alone() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let bound = Program::shell(BURN);
    affinity::set(bound.pid(), &first).expect("ours");
    let run = Program::new(Command::new("sh").args(["-c", BURN]).env("EVENKEEL_RUN", "another"));
    let plain = Program::shell(BURN);
    let folder = tempfile::tempdir().expect("a folder");
    let named = folder.path().join("untouchable");
    std::os::unix::fs::symlink("/bin/sh", &named).expect("ours");
    let named = Program::new(Command::new(&named).args(["-c", BURN]));
    let rt = Program::new(Command::new("chrt").args(["-r", "1", "sleep", "600"]));
    let mut watching = watch(&[&bound, &run, &plain, &named, &rt], |options| {
        options.selection.excluded.commands.push("untouch*".to_owned());
    });
    watching.until("the plain one", |watching| {
        mask(plain.pid()) == last
            && watching.left_alone(ExclusionReason::OwnAffinity, bound.pid())
            && watching.left_alone(ExclusionReason::OtherEvenkeel, run.pid())
            && watching.left_alone(ExclusionReason::ExcludedName, named.pid())
    });
    match procfs::stat("/".as_ref(), rt.pid()).is_ok_and(|stat| stat.comm_text() == "sleep") {
        true => assert!(watching.left_alone(ExclusionReason::RealTime, rt.pid())),
        false => println!("not run in part: real-time classes are not permitted here"),
    }
    watching.end();
    assert_eq!(mask(bound.pid()), first);
    for program in [&run, &plain, &named, &rt] {
        assert_eq!(mask(program.pid()), all);
    }
}

#[test]
fn what_a_placed_process_starts_or_becomes_is_put_back_with_it() {
    let Some((all, last)) = two_cpus() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (go, told) = (folder.path().join("go"), folder.path().join("told"));
    let (go_at, told_at) = (go.display(), told.display());
    let script = format!(
        "while [ ! -e {go_at} ]; do :; done; setsid sleep 600 & echo $! > {told_at}.new; \
         mv {told_at}.new {told_at}; exec sh -c '{BURN}'"
    );
    for use_events in [false, true] {
        let _ = (std::fs::remove_file(&go), std::fs::remove_file(&told));
        let program = Program::shell(&script);
        let mut watching = watch(&[&program], |options| options.use_events = use_events);
        watching.until("the placement", |_| mask(program.pid()) == last);
        std::fs::write(&go, "").expect("ours");
        watching.until("the heir", |watching| told.exists() && watching.board().n_inherited == 1);
        let text = std::fs::read_to_string(&told).expect("told");
        let heir: u32 = text.trim().parse().expect("a number");
        assert_eq!((mask(heir), mask(program.pid())), (last.clone(), last.clone()));
        watching.end();
        let masks = (mask(heir), mask(program.pid()));
        let born_ticks = procfs::stat("/".as_ref(), heir).expect("alive").start_time_ticks;
        kill(TaskId { tid: heir, start_time_ticks: born_ticks });
        assert_eq!(masks, (all.clone(), all.clone()), "events: {use_events}");
    }
}

#[test]
fn a_mask_that_somebody_sets_meanwhile_stays() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let busy = Program::shell(BURN);
    let mut watching = watch(&[&busy], |_| ());
    watching.until("the placement", |_| mask(busy.pid()) == last);
    affinity::set(busy.pid(), &first).expect("ours");
    watching.until("that it is noticed", |watching| {
        watching.events.iter().any(|event| matches!(event, JobEvent::Unmanaged(..)))
    });
    watching.end();
    assert_eq!(mask(busy.pid()), first);
}

#[test]
fn who_sleeps_for_long_gets_back_what_it_had() {
    let Some((all, last)) = two_cpus() else { return };
    let busy = Program::shell(BURN);
    let mut watching = watch(&[&busy], |options| options.idle_after = INTERVAL);
    watching.until("the placement", |_| mask(busy.pid()) == last);
    let stopped = rustix::process::Pid::from_raw(busy.pid().cast_signed()).expect("a number");
    rustix::process::kill_process(stopped, rustix::process::Signal::STOP).expect("ours");
    watching.until("its leaving", |watching| watching.left(DetachCause::Idle));
    assert_eq!(mask(busy.pid()), all);
    watching.end();
}

#[test]
fn an_end_is_noticed_at_once_and_a_number_of_somebody_else_is_refused() {
    let Some((_, last)) = two_cpus() else { return };
    let busy = Program::shell(BURN);
    let mut choice = turns::choice(&[busy.pid()]);
    let mut watching = watch(&[&busy], |_| ());
    watching.until("the placement", |_| mask(busy.pid()) == last);
    let pid = busy.pid();
    drop(busy);
    watching.until("the end", |watching| watching.left(DetachCause::Ended));
    watching.end();
    choice.pids.insert(std::process::id(), 1);
    choice.pids.remove(&pid);
    let machine = linux::topology::read(Path::new("/")).expect("this machine");
    let refused =
        AttachHost::new(&machine, AttachOptions { selection: choice, ..AttachOptions::default() });
    assert!(matches!(refused.err(), Some(AttachError::NoProcess { .. })), "its birth is another");
}

#[test]
fn what_a_killed_watch_left_is_put_back_by_restore() {
    let Some((all, _)) = two_cpus() else { return };
    let state = tempfile::tempdir().expect("a folder");
    let busy = Program::shell(BURN);
    let pid = busy.pid().to_string();
    let evenkeel = |args: &[&str]| {
        let mut command = tool::command(args);
        command.env("EVENKEEL_STATE_DIR", state.path().join("state"));
        command
    };
    // One busy program with a class loads one place and not the other, and this reading moves it
    // whenever that is so.
    let policy = "dfs[interval=100ms,domains=core,only_job=move,cooldown=0]";
    let args = ["watch", "--act", "--pid", &pid, "--class", "*=8", "--policy", policy, "--quiet"];
    let watch = Program::new(&mut evenkeel(&args));
    let begun = Instant::now();
    while mask(busy.pid()).len() != 1 {
        assert!(begun.elapsed() < PATIENCE, "it is not placed");
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = evenkeel(&["status", "--json"]).output().expect("it starts");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status[0]["writer"], "running");
    drop(watch); // Killed outright.
    assert_eq!(mask(busy.pid()).len(), 1, "nobody has put it back yet");
    let gone = evenkeel(&["status"]).output().expect("it starts");
    assert_eq!(gone.status.code(), Some(1));
    assert!(tool::text(&gone.stdout).contains("run evenkeel restore"));
    let restored = evenkeel(&["restore"]).output().expect("it starts");
    assert!(restored.status.success(), "{}", tool::text(&restored.stdout));
    assert_eq!(mask(busy.pid()), all);
}

#[test]
fn a_choice_of_nobody_or_of_what_is_not_there_is_one_clear_line() {
    let check = |args: &[&str], expected: &str| {
        let output = tool::run(&[&["watch"], args].concat());
        let said = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
    };
    check(&[], "no process is selected");
    check(&["--pid", "4194305"], "there is no process 4194305");
    check(&["--user", "nobody-at-all"], "there is no user");
    check(&["--cgroup", "/no/such/group"], "there is no cgroup /no/such/group");
    check(&["--unit", "no-such-unit"], "no unit");
    check(&["--command", ""], "must not be empty");
    check(&["--all", "--class", "x"], "PATTERN=CLASS");
    check(&["--all", "--act", "--dry"], "cannot be used with");
    let waits = "dfs[wake=overflow:page-faults:9]";
    check(&["--all", "--policy", waits], "remove wake=");
}

#[test]
fn the_number_of_a_thread_is_refused_and_its_process_is_told() {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        tell.send(tid).expect("somebody waits");
        let _ = ends.recv();
    });
    let (tid, process) = (told.recv().expect("a number"), std::process::id());
    let output = tool::run(&["watch", "--pid", &tid.to_string(), "--for", "1ms"]);
    drop(end);
    thread.join().expect("it ends");
    let said = tool::text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    let expected = format!("{tid} is a thread of process {process}; use --pid {process}");
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn a_journal_of_watching_can_be_explained_reported_and_replayed() {
    let busy = Program::shell(BURN);
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("w.jsonl").display().to_string();
    let pid = busy.pid().to_string();
    let name = format!("sh.{pid}");
    let args = ["watch", "--pid", &pid, "--for", "3s", "--journal", &journal, "--quiet"];
    let watched = tool::run(&args);
    assert!(watched.status.success(), "{}", tool::text(&watched.stderr));
    let told = tool::text(&tool::run(&["explain", &journal]).stdout);
    assert!(told.contains(&name) && told.contains("attached: it was running already"), "{told}");
    let replayed = tool::run(&["replay", &journal, "--policy", "dfs[interval=1s]"]);
    assert!(replayed.status.success(), "{}", tool::text(&replayed.stderr));
    let out = folder.path().join("report").display().to_string();
    let reported = tool::run(&["report", &journal, "--out", &out]);
    assert!(reported.status.success(), "{}", tool::text(&reported.stderr));
    assert!(tool::text(&reported.stdout).contains(&name));
}

#[test]
fn the_report_of_a_watch_tells_whom_it_looked_after_and_what_it_did_with_them() {
    let Some((all, _)) = two_cpus() else { return };
    let busy = Program::shell(BURN);
    let world = tempfile::tempdir().expect("a folder");
    let journal = world.path().join("w.jsonl").display().to_string();
    let pid = busy.pid().to_string();
    // One program with a class that is alone loads one place and no other, and this reading moves it.
    let policy = "dfs[interval=100ms,domains=core,only_job=move,cooldown=0]";
    let wish = ["--pid", &pid, "--class", "*=8", "--policy", policy, "--signal", "loads=declared"];
    let ends = ["--act", "--for", "6s", "--journal", &journal, "--quiet"];
    let mut command = tool::command(&[&["watch"], &wish[..], &ends].concat());
    let watched = command.env("EVENKEEL_STATE_DIR", world.path().join("state")).output();
    assert!(watched.expect("it starts").status.success());
    assert_eq!(mask(busy.pid()), all);
    let out = world.path().join("report").display().to_string();
    let reported = tool::run(&["report", &journal, "--out", &out]);
    let told = tool::text(&reported.stdout);
    let name = format!("sh.{pid}");
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        &*format!("managed processes: process {pid}"),
        "jobs 1: 1 attached; at most 1 at once",
        &format!("{name} detached"),
        &format!("{name} core 1 -> core 0 because core 1 had a load of"),
        "loads declared:",
    ] {
        assert!(words.contains(expected), "{expected}: {told}");
    }
    for odd in ["workload", "no job has a class", "loads are unknown"] {
        assert!(!told.contains(odd), "{odd}: {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    let json = tool::text(&tool::run(&["report", &journal, "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let job = &json["jobs"][0];
    assert_eq!((&json["run"]["host"], &job["state"]), (&"watch".into(), &"detached".into()));
    assert!(job["n_moves"].as_u64().is_some_and(|n| 0 < n), "{job}");
    // What the kernel counted of it while it was watched: each move is one between CPUs.
    let machine = tool::text(&tool::run(&["machine"]).stdout);
    if machine.contains("yes kernel     page faults") {
        let counted = job["counters"].as_array().expect("a list");
        let of = |what: &str| counted.iter().find(|row| row["event"] == what)?["value"].as_u64();
        assert!(of("cpu-migrations").is_some_and(|n| 0 < n), "{job}");
    } else {
        println!("not run in part: the kernel counts nothing of tasks for us");
    }
    assert_eq!(
        (&job["exit_status"], &job["wall_ns"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

/// Ends a process of the test that is nobody's child any more.
fn kill(id: TaskId) {
    let same =
        procfs::stat("/".as_ref(), id.tid).is_ok_and(|s| s.start_time_ticks == id.start_time_ticks);
    if let Some(pid) = rustix::process::Pid::from_raw(id.tid.cast_signed()).filter(|_| same) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
