//! Live runs: real programs are bound before their first instruction, sampled, migrated and ended.
//!
//! The tests do not depend on elapsed time: each test continues until its condition is true, and fails after the
//! maximum number of turns in [`tests::live_run`].

pub mod cgroups;
mod evenkeel_run;
mod exits;
mod external_affinity;
mod mon_groups;
mod other_users;
mod resource_usage;
mod threads;
mod wake_ups;

use base::Nanos;
use program::MemoryPolicy;
use rustix::process::Signal;
use sched::{Action, ExitStatus, JobEvent, OutcomeResult, RejectCause, Target};
use tests::live_run::LiveRun;
use tests::process::{is_running, machine, mask, signal, two_cpus, until};
use tests::tool;

fn reject_cause(result: &OutcomeResult) -> Option<RejectCause> {
    match result {
        OutcomeResult::Rejected { cause, .. } => Some(*cause),
        OutcomeResult::Done { .. } | OutcomeResult::InProgress => None,
    }
}

/// Reads the PIDs that a job printed, one per line.
fn printed_pids(run: &LiveRun) -> Vec<u32> {
    run.dir.read("a.out").lines().map(|line| line.parse().expect("a number")).collect()
}

#[test]
fn a_job_has_its_own_process_group_empty_input_and_the_original_descriptor_limit() {
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "print"
        shell = "cut -d' ' -f5,6 /proc/$$/stat; echo $$; readlink /proc/$$/fd/0; ulimit -Sn; echo $EVENKEEL_JOB; pwd; echo oops >&2"
        "#,
    );
    let session = linux::procfs::stat("/".as_ref(), std::process::id()).expect("own line").session;
    // The job has the inherited soft limit: the host raises only its own limit.
    let own_limits = std::fs::read_to_string("/proc/self/limits").expect("own limits");
    let line = own_limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let limit = line.split_ascii_whitespace().nth(3).expect("the soft limit");
    let limit: u64 = limit.parse().expect("a number");
    run.finish();
    let output = run.dir.read("print.out");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], format!("{} {session}", lines[1]), "own group, same session");
    assert_eq!(lines[2], "/dev/null");
    assert!(
        lines[3].parse::<u64>().is_ok_and(|job_limit| job_limit <= limit),
        "{} of {limit}",
        lines[3]
    );
    assert_eq!(lines[4], "print");
    assert_eq!(run.dir.read("print.err"), "oops\n");
    assert_eq!(
        std::path::Path::new(lines[5]),
        run.dir.root().canonicalize().expect("the directory exists")
    );
}

#[test]
fn a_job_is_bound_before_its_first_instruction() {
    let Some((_, first, last)) = two_cpus() else { return };
    for cpus in [first, last] {
        let mut run = LiveRun::shell("grep Cpus_allowed_list /proc/self/status");
        run.request("a", Action::Place(cpus.clone()));
        run.finish();
        assert_eq!(run.placements("a"), [OutcomeResult::Done { n: 1 }]);
        assert_eq!(run.dir.read("a.out"), format!("Cpus_allowed_list:\t{cpus}\n"));
    }
}

#[test]
fn memory_is_allocated_by_the_policy_of_the_plan_or_of_the_workload_line() {
    if machine().nodes().is_empty() {
        println!("skipped: this kernel reports no memory nodes");
        return;
    }
    let node0: base::NodeSet = machine().nodes_allowed().first().into_iter().collect();
    let text = format!(
        "[[job]]\nname = \"plan\"\ncommand = [\"cat\", \"/proc/self/numa_maps\"]\n\
         [[job]]\nname = \"line\"\ncommand = [\"cat\", \"/proc/self/numa_maps\"]\nmemory = \"interleave:{node0}\"\n"
    );
    let mut run = LiveRun::new(&text);
    run.request("plan", Action::MemoryPolicy(MemoryPolicy::Bind(node0.clone())));
    run.finish();
    assert!(run.dir.read("plan.out").contains(&format!("bind:{node0}")));
    assert!(run.dir.read("line.out").contains(&format!("interleave:{node0}")));
}

/// On a machine with one node no page can migrate, and the result of the migration reports this cause.
#[test]
fn a_page_migration_starts_and_a_later_turn_reports_its_end() {
    let Some(node) = machine().nodes_with_memory().first() else {
        println!("skipped: this kernel reports no memory nodes");
        return;
    };
    let mut run = LiveRun::sleeping();
    run.wait_until_started("a");
    let limit = base::Bytes::from_mib(1);
    run.request("a", Action::MovePages { from: None, to: node, limit });
    run.until("the end of the move", |run| run.page_migrations().next().is_some());
    let n_begun = run.outcomes().filter(|o| o.result == OutcomeResult::InProgress).count();
    let ends: Vec<_> = run.page_migrations().collect();
    assert_eq!((n_begun, ends.len()), (1, 1));
    let ended = ends[0];
    let sum = ended.moved.0 + ended.failed.total().0 + ended.not_attempted.0;
    assert_eq!((ended.job, ended.to, ended.requested.0), (run.job("a"), node, sum));
    run.stop();
}

#[test]
fn a_running_job_migrates_with_all_its_threads_and_release_restores_its_affinity() {
    let Some((all, first, last)) = two_cpus() else { return };
    let mut run = LiveRun::sleeping();
    run.request("a", Action::Place(first.clone()));
    let pid = run.wait_until_started("a");
    assert_eq!(mask(pid), Some(first));
    run.request("a", Action::Place(last.clone()));
    run.until("the migration", |run| run.placements("a").len() == 2);
    assert_eq!(mask(pid), Some(last));
    run.request("a", Action::Release);
    run.until("the release", |run| run.placements("a").len() == 3);
    assert_eq!(mask(pid), Some(all));
    run.stop();
    assert!(!is_running(pid));
    assert!(run.exits("a")[0].stopped_by_host);
}

#[test]
fn forked_processes_migrate_with_their_job_even_without_its_session_and_parent() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut run =
        LiveRun::shell("sleep 601 & echo $!; (setsid sh -c 'echo $$; exec sleep 602' &); wait");
    run.request("a", Action::Place(first));
    run.wait_until_started("a");
    run.until("two children", |run| run.dir.read("a.out").lines().count() == 2);
    let pids = printed_pids(&run);
    let is_sampled = |run: &LiveRun, pid| run.tasks().any(|task| task.process == pid);
    run.until("samples of both", |run| pids.iter().all(|&pid| is_sampled(run, pid)));
    run.request("a", Action::Place(last.clone()));
    run.until("the migration", |run| run.placements("a").len() == 2);
    for &pid in &pids {
        assert_eq!(mask(pid), Some(last.clone()), "{pid} of {pids:?}");
    }
    run.stop();
    assert!(!pids.iter().any(|&pid| is_running(pid)), "{pids:?}");
}

#[test]
fn a_child_with_its_own_affinity_keeps_it_while_the_rest_of_its_job_migrates() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut run = LiveRun::shell("sleep 600 & echo $!; sleep 600 & echo $!; wait");
    let pid = run.wait_until_started("a");
    run.until("two children", |run| run.dir.read("a.out").lines().count() == 2);
    let children = printed_pids(&run);
    linux::affinity::set(children[0], &first).expect("permitted");
    run.request("a", Action::Place(last.clone()));
    run.until("the migration", |run| run.placements("a").len() == 1);
    assert!(reject_cause(&run.placements("a")[0]).is_none(), "{:?}", run.placements("a"));
    assert_eq!(
        [pid, children[1], children[0]].map(mask),
        [Some(last.clone()), Some(last), Some(first)]
    );
    run.stop();
}

#[test]
fn a_job_that_exits_between_sample_and_action_is_an_ordinary_outcome() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut run = LiveRun::sleeping();
    run.request("a", Action::Place(first));
    let pid = run.wait_until_started("a");
    run.request("a", Action::Place(last));
    run.step_with(|| {
        signal(pid, Signal::KILL);
        while is_running(pid) {
            std::thread::yield_now();
        }
    });
    assert_eq!(reject_cause(&run.placements("a")[1]), Some(RejectCause::Exited));
    run.finish();
    assert_eq!(run.exits("a")[0].status, ExitStatus::Signaled(9));
    assert!(!run.exits("a")[0].stopped_by_host);
}

#[test]
fn remaining_processes_of_a_job_are_ended_and_counted() {
    let mut run = LiveRun::shell("sleep 600 & echo $!; trap '' TERM; setsid sleep 600 & echo $!");
    run.finish();
    assert_eq!(
        (run.exits("a")[0].n_remaining, run.exits("a")[0].status),
        (2, ExitStatus::Exited(0))
    );
    assert!(!printed_pids(&run).into_iter().any(is_running));
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let mut run = LiveRun::with(
        "[[job]]\nname = \"a\"\nshell = \"trap '' TERM; echo ready; while :; do sleep 0.1; done\"\n",
        |options| options.grace = Nanos::from_millis(200),
    );
    run.wait_until_started("a");
    run.until("its trap", |run| run.dir.read("a.out").contains("ready"));
    run.stop();
    assert_eq!(run.exits("a")[0].status, ExitStatus::Signaled(9));
    assert!(run.exits("a")[0].stopped_by_host);
}

const FAILING: &str = r#"
    [[job]]
    name = "fails"
    shell = "exit 3"
    [[job]]
    name = "absent"
    command = ["/no/such/program"]
    [[job]]
    name = "later"
    shell = "exit 0"
    start = "200ms"
"#;

#[test]
fn a_job_that_fails_or_cannot_start_does_not_stop_the_other_jobs() {
    let mut run = LiveRun::new(FAILING);
    run.finish();
    assert_eq!(run.exits("fails")[0].status, ExitStatus::Exited(3));
    assert_eq!(run.exits("later")[0].status, ExitStatus::Exited(0));
    let is_failed_start = |outcome: &sched::Outcome| match &outcome.result {
        OutcomeResult::Rejected { cause: RejectCause::StartFailed, detail } => {
            outcome.action.is_none() && detail.contains("/no/such/program")
        }
        _ => false,
    };
    assert!(run.outcomes().any(is_failed_start), "{}", run.describe());
}

#[test]
fn with_fail_fast_a_failing_job_stops_the_run() {
    let mut run = LiveRun::with(FAILING, |options| options.fail_fast = true);
    run.finish();
    assert!(run.exits("later").is_empty(), "it was never started");
}

#[test]
fn stop_after_ends_a_job_and_a_restarting_job_ends_with_the_others() {
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "timed"
        command = ["sleep", "600"]
        stop_after = "300ms"
        [[job]]
        name = "again"
        shell = "echo once more"
        restart = "until-others-done"
        "#,
    );
    run.finish();
    let timed = run.exits("timed");
    assert!(timed[0].stopped_by_host && timed.len() == 1);
    let again = run.exits("again");
    assert!(2 <= again.len(), "it was restarted");
    let (last, earlier) = again.split_last().expect("ends");
    assert!(!last.restarts && earlier.iter().all(|end| end.restarts && !end.stopped_by_host));
    assert!(again.len() <= run.dir.read("again.out").lines().count() + 1);
}

#[test]
fn jobs_that_restart_until_all_are_done_end_when_each_has_ended_once() {
    let mut run = LiveRun::new(
        r#"
        [defaults]
        restart = "until-all-done"
        [[job]]
        name = "short"
        command = ["true"]
        [[job]]
        name = "long"
        command = ["sleep", "600"]
        "#,
    );
    run.until("a restart", |run| 2 <= run.exits("short").len());
    signal(run.pid("long").expect("it runs"), Signal::KILL);
    run.finish();
    assert_eq!(run.exits("long").len(), 1, "no job is left to wait for");
    let ends = run.exits("short");
    let (last, earlier) = ends.split_last().expect("ends");
    assert!(!last.restarts && earlier.iter().all(|end| end.restarts && !end.stopped_by_host));
}

#[test]
fn the_exit_of_a_job_has_its_resource_usage() {
    let mut run = LiveRun::shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    run.finish();
    let end = run.exits("a")[0];
    assert!(Nanos::ZERO < end.user && end.user <= end.wall, "{end:?}");
    assert!(end.wait.is_some() && end.n_migrations.is_some(), "{end:?}");
    assert!(100_000 < end.max_resident.0, "{end:?}");
    let sampled = run.tasks().last().expect("a sample").cpu_time;
    // The CPU time of the thread and the CPU time of wait4 differ only by the method of accounting.
    let total = end.user + end.system;
    assert!(sampled.saturating_sub(total) < Nanos::from_millis(50), "{sampled:?} {end:?}");
    assert!(total.saturating_sub(sampled) < Nanos::from_millis(50), "{sampled:?} {end:?}");
}

#[test]
fn one_thread_can_be_placed_separately_from_its_job() {
    let Some((all, first, _)) = two_cpus() else { return };
    let mut run = LiveRun::sleeping();
    let pid = run.wait_until_started("a");
    run.until("a sample of its thread", |run| run.tasks().next().is_some());
    let target = Target::Task(run.tasks().next().expect("a sample").task);
    let n_done = |run: &LiveRun| run.outcomes().filter(|o| o.target == target).count();
    for (n, (action, expected)) in
        [(Action::Place(first.clone()), first), (Action::Release, all)].into_iter().enumerate()
    {
        run.request_for(target, action);
        run.until("the outcome", |run| n_done(run) == n + 1);
        assert_eq!(mask(pid), Some(expected));
    }
    run.stop();
}

/// This process has children that are no jobs: the library leaves an orphan without the variables of the run alone.
#[test]
fn an_orphan_of_the_program_that_uses_the_library_is_neither_bound_nor_ended() {
    let Some((all, first, _)) = two_cpus() else { return };
    let mut run = LiveRun::sleeping();
    run.wait_until_started("a");
    run.request("a", Action::Place(first));
    let script = "(env -i setsid sleep 600 > /dev/null 2>&1 & echo $!)";
    let output = std::process::Command::new("sh").args(["-c", script]).output().expect("sh");
    let orphan: u32 = tool::text(&output.stdout).trim().parse().expect("a PID");
    let own = std::process::id();
    let is_child =
        || linux::procfs::stat("/".as_ref(), orphan).is_ok_and(|stat| stat.parent == own);
    until("the orphan", is_child);
    let n_before = run.turns.len();
    run.until("later turns", |run| n_before + 12 < run.turns.len());
    let bound = mask(orphan);
    run.stop();
    let is_alive = is_running(orphan);
    signal(orphan, Signal::KILL);
    assert_eq!((bound, is_alive), (Some(all), true));
}

#[test]
fn a_thousand_concurrent_jobs_all_start_and_end() {
    let mut run =
        LiveRun::new("[[job]]\nname = \"many\"\ncommand = [\"sleep\", \"0.5\"]\ncopies = 1000\n");
    run.finish();
    let ended = run.events().filter(
        |event| matches!(event, JobEvent::Ended(_, end) if end.status == ExitStatus::Exited(0)),
    );
    assert_eq!(ended.count(), 1000);
}
