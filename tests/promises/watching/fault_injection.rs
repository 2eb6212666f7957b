//! Injected faults: any system call of a watch may fail at any time. evenkeel does not panic, leaks no resource and
//! restores all settings.
//!
//! Processes of the test are watched with many seeds. One process has its own affinity. A share of all system calls
//! fails with EPERM, ENOMEM, EBUSY, EINTR, ENOSYS or ESRCH. Jobs are placed and released, their pages migrate, and the
//! test changes the affinity of one job. The watch ends regularly, or its host is dropped.
//!
//! ```text
//!   the start fails with one error line, or every request has an outcome with a cause
//!   no file descriptor is left open; every affinity is restored, at the end or by `restore`
//! ```
//!
//! `EVENKEEL_SEEDS=5000` sets the number of seeds.

use base::{Bytes, CpuSet, NodeId, Rng};
use engine::{Engine, Host};
use host_live::{AttachHost, AttachOptions, Selection};
use linux::fault::{self, FaultPlan};
use linux::undo;
use sched::{Action, OutcomeResult, Plan, Snapshot};
use tests::dir::Dir;
use tests::process::{machine, with_children};

use super::{Nanos, Process, affinity, pids, policy, reason, select, two_cpus};
use crate::seeds;

/// Maximum number of turns before a watch is stopped or dropped.
const N_TURNS: u32 = 14;
const INTERVAL: Nanos = Nanos::from_millis(2);

/// Time limit of a watch in which nearly every call fails.
const TIME: Nanos = Nanos::from_millis(120);

/// Requests random actions: a placement, a release, or a page migration.
fn random_actions(mut rng: Rng, first: CpuSet) -> impl FnMut(&Snapshot<'_>, &mut Plan) {
    move |snapshot, plan| {
        for job in snapshot.jobs.iter().filter(|job| job.movable) {
            let action = match rng.below(5) {
                0 | 1 => Action::Place(first.clone()),
                2 => Action::Release,
                3 => Action::MovePages { from: None, to: NodeId(0), limit: Bytes::from_mib(1) },
                _ => continue,
            };
            plan.request(job.job.id, action, reason());
        }
    }
}

#[test]
fn with_injected_faults_a_watch_leaks_nothing_and_leaves_nothing_changed() {
    if two_cpus().is_none() || !cfg!(debug_assertions) {
        return;
    }
    seeds::run_in_process("watching::fault_injection::run_seeds", 200);
}

/// Runs the seeds of one part.
#[test]
#[ignore = "a part of with_injected_faults_a_watch…; does nothing alone"]
fn run_seeds() {
    let Some(part) = seeds::part() else { return };
    let mut sum = Counts::default();
    let Some((_, apart)) = two_cpus() else { return };
    let scripts = ["exec sleep 600", "sleep 600 & sleep 600 & wait", "exec sleep 600"];
    let programs = scripts.map(Process::shell);
    affinity::set(programs[2].pid(), &apart).expect("permitted");
    seeds::check_each(part, |seed| run_seed(seed, &programs, &mut sum));
    println!("{sum:?}");
    assert!(sum.n_rejected != 0 && sum.n_done != 0 && sum.n_failed_starts != 0, "{sum:?}");
}

/// Numbers of outcomes.
#[derive(Debug, Default)]
struct Counts {
    n_done: usize,
    n_rejected: usize,
    n_kept: usize,
    n_failed_starts: usize,
}

fn run_seed(seed: u64, programs: &[Process; 3], counts: &mut Counts) {
    let (all, last) = two_cpus().expect("checked by the caller");
    let mut rng = Rng::new(seed);
    let permille = [2, 10, 60, 300][rng.below(4) as usize];
    let dir = Dir::new();
    let directories = dir.state();
    let changed = Process::shell("exec sleep 600");
    let [one, family, own] = programs;
    let options = AttachOptions {
        selection: random_selection(&mut rng, &[one, family, own, &changed]),
        act: true,
        interval: INTERVAL,
        busy_permille: 0, // Sleeping processes count as busy.
        time_limit: Some(TIME),
        idle_after: Nanos::from_millis(rng.below(100)),
        takes_signals: false,
        undo_dirs: Some(directories.clone()),
        use_events: rng.below(2) == 0,
        machine: (rng.below(2) == 0).then(machine),
        ..AttachOptions::default()
    };
    let this_machine = machine();
    // Most starts must succeed, so that later calls can fail.
    let starts_well = rng.below(4) != 0;
    fault::set_plan(if starts_well { FaultPlan::default() } else { FaultPlan { seed, permille } });
    let host = AttachHost::new(&this_machine, options);
    let bound = match host {
        Ok(host) => run_watch(host, (seed, permille), &mut rng, &changed, counts),
        Err(error) => {
            check_one_line(&error);
            counts.n_failed_starts += 1;
            None
        }
    };
    fault::set_plan(FaultPlan::default());
    let n_files = || std::fs::read_dir(&directories[0]).map_or(0, Iterator::count);
    let was_kept = n_files() != 0;
    counts.n_kept += usize::from(was_kept);
    let restored = undo::restore(&directories, false);
    assert_eq!(restored.problems, Vec::<String>::new());
    for program in [one, family, own, &changed] {
        let expected = match &bound {
            _ if program.pid() == own.pid() => &last,
            Some(bound) if program.pid() == changed.pid() => bound,
            _ => &all,
        };
        let context = format!("kept {was_kept}, {restored:?}");
        for pid in with_children(&[program.pid()]) {
            let Ok(mask) = affinity::get(pid) else { continue };
            assert_eq!(mask, *expected, "{pid} of {}: {context}", program.pid());
        }
    }
    assert_eq!(n_files(), 0, "an undo record is left");
}

/// Runs a watch for some turns. Returns the affinity that the test set for `changed`; `None` if the test did not set an
/// affinity.
fn run_watch(
    mut host: AttachHost,
    (seed, permille): (u64, u16),
    rng: &mut Rng,
    changed: &Process,
    counts: &mut Counts,
) -> Option<CpuSet> {
    let without_errors =
        |run: fn() -> (CpuSet, CpuSet)| fault::with_errors(FaultPlan::default(), run);
    let (all, last) = without_errors(|| two_cpus().expect("checked by the caller"));
    let first: CpuSet = all.first().into_iter().collect();
    let policy = policy(INTERVAL, random_actions(Rng::new(seed ^ 77), first));
    let machine = fault::with_errors(FaultPlan::default(), machine);
    fault::set_plan(FaultPlan { seed, permille });
    let mut engine = Engine::new(machine, Vec::new(), policy);
    let change_turn = rng.below(u64::from(2 * N_TURNS)) as u32;
    let mut bound = None;
    for turn in 0..N_TURNS {
        if !one_turn(&mut host, &mut engine, counts) {
            break;
        }
        if turn == change_turn {
            // No action of this test sets the mask `last`.
            let set = || affinity::set(changed.pid(), &last);
            bound = fault::with_errors(FaultPlan::default(), set).is_ok().then(|| last.clone());
            fault::set_plan(FaultPlan { seed: seed + 1_000_000, permille });
        }
    }
    if rng.below(2) == 0 {
        host.stop();
        while one_turn(&mut host, &mut engine, counts) {}
    }
    drop(host);
    bound
}

/// Takes one turn. Returns false if the watch is over or cannot continue.
fn one_turn(host: &mut AttachHost, engine: &mut Engine, counts: &mut Counts) -> bool {
    let turn = match host.wait() {
        Ok(Some(turn)) => turn,
        Ok(None) => return false,
        Err(error) => {
            check_one_line(&error);
            return false;
        }
    };
    let sample = match host.sample(&turn) {
        Ok(sample) => sample,
        Err(error) => {
            check_one_line(&error);
            return false;
        }
    };
    assert!(sample.degraded.iter().all(|text| !text.is_empty() && !text.contains('\n')));
    let step = engine.step(&turn, &sample);
    let outcomes = host.apply(&step.approved);
    assert_eq!(outcomes.len(), step.approved.requests().len(), "each request has an outcome");
    for outcome in &outcomes {
        match &outcome.result {
            OutcomeResult::Rejected { detail, .. } => {
                assert!(!detail.is_empty() && !detail.contains('\n'), "{detail:?}");
                counts.n_rejected += 1;
            }
            _ => counts.n_done += 1,
        }
    }
    engine.record_outcomes(&outcomes);
    true
}

/// Checks the error message.
fn check_one_line(error: &dyn std::error::Error) {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(!text.is_empty() && text.lines().count() == 1, "{text}");
}

/// Selects these processes, in a third of the seeds with additional exclusions that match no process.
fn random_selection(rng: &mut Rng, programs: &[&Process]) -> Selection {
    let mut selection = select(&pids(programs));
    if rng.below(3) == 0 {
        selection.excluded.users.insert(12_345); // The exclusion makes the watch read the users of processes.
        selection.excluded.cgroups.push("/no/such/group".to_owned());
    }
    selection
}
