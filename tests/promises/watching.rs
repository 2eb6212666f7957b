//! `evenkeel watch` manages running processes that match its selection, and changes no other process.
//!
//! The managed processes are shells that use CPU time. The test policy places every job on the last CPU, so the
//! affinity of a process shows whether the process is managed. The tests need two CPUs.

use std::collections::BTreeSet;
use std::process::Command;

use base::{Bytes, CpuSet, Nanos, NodeId};
use host_live::{AttachError, AttachHost, AttachOptions, ExclusionReason, MemorySampling};
use linux::{affinity, procfs};
use rustix::process::Signal;
use sched::{Action, DetachCause, JobEvent, Outcome, OutcomeResult, Plan, RejectCause, Snapshot};
use tests::dir::Dir;
use tests::evenkeel::{EvenkeelWatch, MIGRATES_ONLY_JOB};
use tests::process::{self, BURN, Process, machine, signal, until, wait_for};
use tests::tool;
use tests::watch_run::{WatchRun, place_on_last_cpu, policy, reason, select};

mod configuration;
mod fault_injection;
mod kill_at_step;
mod process_changes;
mod selection;
mod signatures;
mod started_program;
mod status;

/// Requests once for every job that its pages migrate to node 0.
fn pages_to_node_0() -> impl FnMut(&Snapshot<'_>, &mut Plan) {
    let mut requested = BTreeSet::new();
    move |snapshot, plan| {
        for job in snapshot.jobs.iter().filter(|job| job.movable) {
            if requested.insert(job.job.id) {
                let (from, to, limit) = (None, NodeId(0), Bytes::from_mib(16));
                plan.request(job.job.id, Action::MovePages { from, to, limit }, reason());
            }
        }
    }
}

const INTERVAL: Nanos = Nanos::from_millis(100);

/// Watches these processes and places each of them on the last CPU.
fn watch(processes: &[&Process], change: impl FnOnce(&mut AttachOptions)) -> WatchRun {
    WatchRun::with(policy(INTERVAL, place_on_last_cpu), &pids(processes), change)
}

fn pids(processes: &[&Process]) -> Vec<u32> {
    processes.iter().map(|process| process.pid()).collect()
}

fn mask(pid: u32) -> CpuSet {
    process::mask(pid).expect("it is running")
}

/// Returns the ordinary affinity of processes, and the last CPU. `None` on a machine with a single CPU.
fn two_cpus() -> Option<(CpuSet, CpuSet)> {
    let (all, _, last) = process::two_cpus()?;
    if process::mask(1).is_none_or(|first| first != all) {
        println!("skipped: needs the ordinary affinity");
        return None;
    }
    Some((all, last))
}

#[test]
fn a_busy_process_is_placed_and_its_affinity_is_restored_at_the_end() {
    let Some((all, last)) = two_cpus() else { return };
    let (busy, asleep) = (Process::busy(), Process::shell("sleep 600"));
    let mut run = watch(&[&busy, &asleep], |_| ());
    run.until("the placement", |_| busy.mask() == last);
    assert_eq!(asleep.mask(), all, "a sleeping process is not a job");
    let status = run.status();
    assert_eq!(status.managed.len(), 1);
    assert_eq!((&status.managed[0].before, status.managed[0].pid), (&all, busy.pid()));
    run.end();
    assert_eq!(busy.mask(), all);
    assert!(run.detached(DetachCause::WatchStopped));
}

#[test]
fn the_last_line_of_a_watch_contains_its_processes_and_placements() {
    if two_cpus().is_none() {
        return;
    }
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let last_lines = |act: &[&str]| {
        let policy = "random[every=100ms,domains=core]";
        let mut watch = EvenkeelWatch::new(&[&["--pid", &pid, "--policy", policy], act].concat());
        watch.until("a reason for a placement", |state| !state["managed"][0]["reason"].is_null());
        watch.process.signal(Signal::TERM);
        watch.wait().0
    };
    let acted = last_lines(&["--act"]);
    // A process of another test can have this mask and an exited parent. Then it is not known whether all is undone.
    let has_unknown_process = acted.contains("its parent has not or has exited");
    let end =
        if has_unknown_process { "0 rejected\n" } else { "0 rejected; all changes are undone\n" };
    assert!(acted.ends_with(end), "{acted}");
    assert!(acted.contains(": 1 process managed, ") && !acted.contains(" 0 placements"), "{acted}");
    let reported = last_lines(&[]);
    assert!(reported.contains("requests are only reported, nothing is changed"), "{reported}");
    assert!(reported.ends_with("nothing changed; --act performs placements\n"), "{reported}");
    assert!(!reported.contains(" 0 placements"), "{reported}");
}

#[test]
fn without_act_nothing_is_changed_and_no_request_counts_as_done() {
    let Some((all, _)) = two_cpus() else { return };
    let busy = Process::busy();
    let mut run = watch(&[&busy], |options| options.act = false);
    run.until("three requests", |run| 3 <= run.outcomes.len());
    let is_dry_run = |outcome: &Outcome| {
        matches!(outcome.result, OutcomeResult::Rejected { cause: RejectCause::DryRun, .. })
    };
    assert!(run.outcomes.iter().all(is_dry_run));
    assert_eq!(busy.mask(), all);
    assert!(run.status().managed[0].placed.is_none());
    run.end();
    assert_eq!(busy.mask(), all);
}

#[test]
fn a_page_migration_reports_its_end_and_is_a_dry_run_without_act() {
    for act in [true, false] {
        let busy = Process::busy();
        let mut run =
            WatchRun::with(policy(INTERVAL, pages_to_node_0()), &[busy.pid()], |options| {
                options.act = act
            });
        run.until("a result", |run| !run.outcomes.is_empty() || !run.rejections.is_empty());
        if let Some(rejection) = run.rejections.first() {
            println!("skipped: node 0 is not usable ({})", rejection.detail);
            return;
        }
        let result = run.outcomes[0].result.clone();
        if !act {
            let dry_run =
                OutcomeResult::Rejected { cause: RejectCause::DryRun, detail: String::new() };
            assert_eq!(std::mem::discriminant(&result), std::mem::discriminant(&dry_run));
            run.end();
            assert_eq!(run.moved, []);
            continue;
        }
        assert_eq!(result, OutcomeResult::InProgress);
        // The end of the page migration is reported even if the watch ends immediately.
        run.end();
        let [moved] = &run.moved[..] else { panic!("{:?}", run.moved) };
        let sum = moved.moved.0 + moved.failed.total().0 + moved.not_attempted.0;
        assert_eq!((moved.to, moved.requested.0), (NodeId(0), sum));
        println!("{moved:?}");
    }
}

#[test]
fn memory_by_node_is_sampled_without_act_and_a_missing_permission_is_reported_once() {
    let busy = Process::busy();
    let mut run = watch(&[&busy], |options| {
        options.act = false;
        options.memory.sampling = MemorySampling::On;
    });
    let n_warnings = |run: &WatchRun| {
        let is_warning = |text: &&String| text.contains("memory by node cannot be read");
        run.degraded.iter().filter(is_warning).count()
    };
    run.until("a sample", |run| !run.memory.is_empty() || n_warnings(run) != 0);
    match run.memory.first() {
        Some(memory) => {
            assert_eq!(memory.process.tid, busy.pid());
            assert!(
                memory.nodes.iter().any(|pages| pages.private_bytes() != Bytes::ZERO),
                "{memory:?}"
            );
        }
        None => println!("skipped: {:?}", run.degraded),
    }
    run.end();
    assert!(n_warnings(&run) <= 1);
}

#[test]
fn processes_that_are_bound_excluded_real_time_or_managed_by_another_evenkeel_are_not_managed() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let bound = Process::busy();
    affinity::set(bound.pid(), &first).expect("permitted");
    let other_run =
        Process::new(Command::new("sh").args(["-c", BURN]).env("EVENKEEL_RUN", "another"));
    let plain = Process::busy();
    let dir = Dir::new();
    let named = dir.path("untouchable");
    std::os::unix::fs::symlink("/bin/sh", &named).expect("permitted");
    let named = Process::new(Command::new(&named).args(["-c", BURN]));
    let rt = Process::new(Command::new("chrt").args(["-r", "1", "sleep", "600"]));
    let mut run = watch(&[&bound, &other_run, &plain, &named, &rt], |options| {
        options.selection.excluded.comms.push("untouch*".to_owned());
    });
    run.until("the placement of the plain one", |run| {
        plain.mask() == last
            && run.excludes(ExclusionReason::OwnAffinity, bound.pid())
            && run.excludes(ExclusionReason::OtherEvenkeel, other_run.pid())
            && run.excludes(ExclusionReason::ExcludedName, named.pid())
    });
    match procfs::stat("/".as_ref(), rt.pid()).is_ok_and(|stat| stat.comm_text() == "sleep") {
        true => assert!(run.excludes(ExclusionReason::RealTime, rt.pid())),
        false => println!("skipped in part: real-time scheduling is not permitted"),
    }
    run.end();
    assert_eq!(bound.mask(), first);
    for program in [&other_run, &plain, &named, &rt] {
        assert_eq!(program.mask(), all);
    }
}

#[test]
fn the_affinity_of_children_and_after_exec_is_restored_too() {
    let Some((all, last)) = two_cpus() else { return };
    let dir = Dir::new();
    let (go, child) = (dir.path("go"), dir.path("child"));
    let (go_at, child_at) = (go.display(), child.display());
    let script = format!(
        "while [ ! -e {go_at} ]; do :; done; setsid sleep 600 & echo $! > {child_at}.new; \
         mv {child_at}.new {child_at}; exec sh -c '{BURN}'"
    );
    for use_events in [false, true] {
        let _ = (std::fs::remove_file(&go), std::fs::remove_file(&child));
        let program = Process::shell(&script);
        let mut run = watch(&[&program], |options| options.use_events = use_events);
        run.until("the placement", |_| program.mask() == last);
        dir.write("go", "");
        run.until("its child", |run| child.exists() && run.status().n_inherited == 1);
        let child: u32 = dir.read("child").trim().parse().expect("a number");
        assert_eq!((mask(child), program.mask()), (last.clone(), last.clone()));
        run.end();
        let masks = (mask(child), program.mask());
        signal(child, Signal::KILL);
        assert_eq!(masks, (all.clone(), all.clone()), "events: {use_events}");
        assert_eq!(run.host.remaining(), None, "everything was restored, events: {use_events}");
    }
}

#[test]
fn an_affinity_set_by_another_process_is_kept() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let busy = Process::busy();
    let mut run = watch(&[&busy], |_| ());
    run.until("the placement", |_| busy.mask() == last);
    affinity::set(busy.pid(), &first).expect("permitted");
    run.until("the event", |run| {
        run.events.iter().any(|event| matches!(event, JobEvent::Unmanaged(..)))
    });
    run.end();
    assert_eq!(busy.mask(), first);
}

#[test]
fn the_affinity_of_an_idle_process_is_restored() {
    let Some((all, last)) = two_cpus() else { return };
    let busy = Process::busy();
    let mut run = watch(&[&busy], |options| options.idle_after = INTERVAL);
    run.until("the placement", |_| busy.mask() == last);
    busy.signal(Signal::STOP);
    run.until("its detachment", |run| run.detached(DetachCause::Idle));
    assert_eq!(busy.mask(), all);
    run.end();
}

#[test]
fn an_exit_is_noticed_and_a_reused_pid_is_rejected() {
    let Some((_, last)) = two_cpus() else { return };
    let busy = Process::busy();
    let mut selection = select(&[busy.pid()]);
    let mut run = watch(&[&busy], |_| ());
    run.until("the placement", |_| busy.mask() == last);
    let pid = busy.pid();
    drop(busy);
    run.until("the end", |run| run.detached(DetachCause::Ended));
    run.end();
    selection.pids.insert(std::process::id(), 1);
    selection.pids.remove(&pid);
    let rejected =
        AttachHost::new(&machine(), AttachOptions { selection, ..AttachOptions::default() });
    assert!(
        matches!(rejected.err(), Some(AttachError::NoProcess { .. })),
        "its start time differs"
    );
}

#[test]
fn restore_undoes_the_changes_of_a_killed_watch() {
    let Some((all, _)) = two_cpus() else { return };
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let args = ["--act", "--pid", &pid, "--class", "*=8", "--policy", MIGRATES_ONLY_JOB];
    let mut watch = EvenkeelWatch::new(&args);
    until("the placement", || busy.mask().len() == 1);
    let status = watch.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status[0]["writer"], "running");
    watch.process.signal(Signal::KILL);
    watch.wait();
    assert_eq!(busy.mask().len(), 1, "its affinity is not restored yet");
    let killed = watch.run(&["status"]);
    assert_eq!(killed.status.code(), Some(1));
    assert!(tool::text(&killed.stdout).contains("run evenkeel restore"));
    let restored = watch.run(&["restore"]);
    assert!(restored.status.success(), "{}", tool::text(&restored.stdout));
    assert_eq!(busy.mask(), all);
}

#[test]
fn the_tid_of_a_thread_is_rejected_with_the_pid_of_its_process() {
    let (send_tid, tid) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        send_tid.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("a receiver");
        let _ = ends.recv();
    });
    let (tid, process) = (tid.recv().expect("a TID"), std::process::id());
    let args = ["watch", "--pid", &tid.to_string(), "--for", "1ms"];
    let stderr = tool::rejection(&mut tool::command(&args));
    drop(end);
    thread.join().expect("it ends");
    let expected = format!("{tid} is a thread of process {process}; use --pid {process}");
    assert!(stderr.contains(&expected), "{stderr}");
}

#[test]
fn the_journal_of_a_watch_can_be_explained_reported_and_replayed() {
    let busy = Process::busy();
    let (dir, journal) = (Dir::new(), "w.jsonl");
    let pid = busy.pid().to_string();
    let name = format!("sh.{pid}");
    let args = ["watch", "--pid", &pid, "--for", "3s", "--journal", journal, "--quiet"];
    dir.success(&args);
    let text = dir.success(&["explain", journal]);
    assert!(text.contains(&name) && text.contains("attached: it was running already"), "{text}");
    dir.success(&["replay", journal, "--policy", "dfs[interval=1s]"]);
    assert!(dir.success(&["report", journal, "--out", "report"]).contains(&name));
}

#[test]
fn the_report_of_a_watch_lists_the_managed_processes_and_their_moves() {
    let Some((all, _)) = two_cpus() else { return };
    let busy = Process::busy();
    let (dir, journal) = (Dir::new(), "w.jsonl");
    let pid = busy.pid().to_string();
    let selection = ["watch", "--pid", &pid, "--class", "*=8", "--signal", "loads=declared"];
    let policy = ["--policy", MIGRATES_ONLY_JOB, "--act", "--for", "6s", "--journal", journal];
    let mut command = dir.command_with_state(&[&selection[..], &policy, &["-q"]].concat());
    assert!(command.status().expect("it starts").success());
    assert_eq!(busy.mask(), all);
    let report = dir.success(&["report", journal, "--out", "report"]);
    let name = format!("sh.{pid}");
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        &*format!("managed processes: process {pid}"),
        "jobs 1: 1 attached; at most 1 concurrently",
        &format!("{name} detached"),
        &format!("{name} core 1 -> core 0 because the load of core 1 was"),
        "loads declared:",
    ] {
        assert!(words.contains(expected), "{expected}: {report}");
    }
    for unexpected in ["workload", "no job has a class", "loads are unknown"] {
        assert!(!report.contains(unexpected), "{unexpected}: {report}");
    }
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
    let json = dir.success(&["report", journal, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let job = &json["jobs"][0];
    assert_eq!((&json["run"]["host"], &job["state"]), (&"watch".into(), &"detached".into()));
    assert!(job["n_moves"].as_u64().is_some_and(|n| 0 < n), "{job}");
    // Software events of the watched process are counted, and each move is a migration between CPUs.
    let machine = tool::success(&["machine"]);
    if machine.contains("yes kernel     page faults") {
        let counters = job["counters"].as_array().expect("a list");
        let row = counters.iter().find(|row| row["event"] == "cpu-migrations").expect("a row");
        assert!(row["value"].as_u64().is_some_and(|n| 0 < n), "{job}");
    } else {
        println!("skipped in part: task counters are not permitted");
    }
    assert_eq!(
        (&job["exit_status"], &job["wall_ns"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}
