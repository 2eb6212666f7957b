//! The kernel may refuse any call of a watch at any moment: nothing breaks, leaks or stays changed.
//!
//! Programs of the test, one of them with an affinity of its own, are watched again and again, each time with another seed: a share of all calls
//! of ours fails with EPERM, ENOMEM, EBUSY, EINTR, ENOSYS or ESRCH. They are placed and released, one is
//! bound by somebody else, one ends in the middle, and watching ends in order or is let go of.
//!
//! ```text
//!   beginning fails with an error in one line, or every wish has an outcome that says why not
//!   afterwards no descriptor is open, and every program has what it had, or `restore` gives it that
//! ```
//!
//! `EVENKEEL_SEEDS=5000` plays more of them.

use std::path::Path;

use base::{Bytes, CpuSet, NodeId, Rng};
use engine::{Engine, Host};
use host_live::{AttachHost, AttachOptions, Selection};
use linux::fault::{self, FaultPlan};
use linux::undo;
use sched::{Action, OutcomeResult, Plan, Policy, Reason, ReasonCode, Snapshot};

use super::turns::choice;
use super::{Nanos, Program, affinity, pids, two_cpus};
use crate::seeds;

/// Turns of one watch before it ends.
const N_TURNS: u32 = 14;
const INTERVAL: Nanos = Nanos::from_millis(2);

/// Where nearly every call fails nothing may happen for long.
const TIME: Nanos = Nanos::from_millis(120);

/// Wishes by chance: a job is placed, released, or has its memory moved.
struct Chance {
    rng: Rng,
    first: CpuSet,
}

impl Policy for Chance {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        for job in seen.jobs.iter().filter(|job| job.movable) {
            let action = match self.rng.below(5) {
                0 | 1 => Action::Place(self.first.clone()),
                2 => Action::Release,
                3 => Action::MovePages { from: None, to: NodeId(0), limit: Bytes::from_mib(1) },
                _ => continue,
            };
            plan.request(
                job.job.id,
                action,
                Reason::new(ReasonCode::new("next-in-turn", "a test")),
            );
        }
    }

    fn name(&self) -> &str {
        "chance"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(INTERVAL)
    }
}

#[test]
fn whatever_the_kernel_refuses_a_watch_nothing_breaks_leaks_or_stays_changed() {
    if two_cpus().is_none() || !cfg!(debug_assertions) {
        return;
    }
    seeds::play("watching::refused::play_seeds", 200);
}

/// Plays the seeds of a part.
#[test]
#[ignore = "a part of whatever_the_kernel_refuses_a_watch…; does nothing by itself"]
fn play_seeds() {
    let Some(part) = seeds::part() else { return };
    let mut sum = Told::default();
    let mut descriptors = None;
    let Some((_, apart)) = two_cpus() else { return };
    let scripts = ["exec sleep 600", "sleep 600 & sleep 600 & wait", "exec sleep 600"];
    let programs = scripts.map(Program::shell);
    affinity::set(programs[2].pid(), &apart).expect("ours");
    for seed in part {
        println!("seed {seed}");
        let told = play_one(seed, &programs);
        sum.n_refused += told.n_refused;
        sum.n_done += told.n_done;
        sum.n_kept += told.n_kept;
        sum.n_not_begun += told.n_not_begun;
        let now = std::fs::read_dir("/proc/self/fd").expect("own descriptors").count();
        // The first one opens what a process opens once.
        assert_eq!(*descriptors.get_or_insert(now), now, "descriptors leak");
    }
    println!("{sum:?}");
    assert!(sum.n_refused != 0 && sum.n_done != 0 && sum.n_not_begun != 0, "nothing was tried");
}

/// What came of seeds.
#[derive(Debug, Default)]
struct Told {
    n_done: usize,
    n_refused: usize,
    n_kept: usize,
    n_not_begun: usize,
}

fn play_one(seed: u64, programs: &[Program; 3]) -> Told {
    let (all, last) = two_cpus().expect("asked before");
    let mut rng = Rng::new(seed);
    let permille = [2, 10, 60, 300][rng.below(4) as usize];
    let state = tempfile::tempdir().expect("a folder");
    let places = vec![state.path().join("state")];
    let meddled = Program::shell("exec sleep 600");
    let [one, family, own] = programs;
    let options = AttachOptions {
        selection: choice_by_chance(&mut rng, &[one, family, own, &meddled]),
        act: true,
        interval: INTERVAL,
        busy_permille: 0, // They sleep, and are jobs all the same.
        time_limit: Some(TIME),
        idle_after: Nanos::from_millis(rng.below(100)),
        takes_signals: false,
        undo_folders: Some(places.clone()),
        use_events: rng.below(2) == 0,
        machine: (rng.below(2) == 0).then(machine),
        ..AttachOptions::default()
    };
    let mut told = Told::default();
    let here = machine();
    // Most of them begin well, so that there is something to go wrong.
    let begins_well = rng.below(4) != 0;
    fault::set_plan(if begins_well { FaultPlan::default() } else { FaultPlan { seed, permille } });
    let host = AttachHost::new(&here, options);
    let bound = match host {
        Ok(host) => watch(host, (seed, permille), &mut rng, &meddled, &mut told),
        Err(error) => {
            is_one_line(&error);
            told.n_not_begun = 1;
            None
        }
    };
    fault::set_plan(FaultPlan::default());
    let n_files = || std::fs::read_dir(&places[0]).map_or(0, Iterator::count);
    told.n_kept = usize::from(n_files() != 0);
    let restored = undo::restore(&places, false);
    assert_eq!(restored.problems, Vec::<String>::new());
    for program in [one, family, own, &meddled] {
        let expected = match &bound {
            _ if program.pid() == own.pid() => &last,
            Some(bound) if program.pid() == meddled.pid() => bound,
            _ => &all,
        };
        let said = format!("kept {}, {restored:?}", told.n_kept);
        for pid in with_children(program.pid()) {
            let Ok(has) = affinity::get(pid) else { continue };
            assert_eq!(has, *expected, "{pid} of {}: {said}", program.pid());
        }
    }
    assert_eq!(n_files(), 0, "nothing is left to restore");
    told
}

/// Watches for some turns; tells what somebody else bound the meddled one to.
fn watch(
    mut host: AttachHost,
    (seed, permille): (u64, u16),
    rng: &mut Rng,
    meddled: &Program,
    told: &mut Told,
) -> Option<CpuSet> {
    let without_errors =
        |run: fn() -> (CpuSet, CpuSet)| fault::with_errors(FaultPlan::default(), run);
    let (all, last) = without_errors(|| two_cpus().expect("asked before"));
    let first: CpuSet = all.first().into_iter().collect();
    let policy = Box::new(Chance { rng: Rng::new(seed ^ 77), first });
    let here = fault::with_errors(FaultPlan::default(), machine);
    fault::set_plan(FaultPlan { seed, permille });
    let mut engine = Engine::new(here, Vec::new(), policy);
    let meddler = rng.below(u64::from(2 * N_TURNS)) as u32;
    let mut bound = None;
    for turn in 0..N_TURNS {
        if !one_turn(&mut host, &mut engine, told) {
            break;
        }
        if turn == meddler {
            // A mask that no wish names, so that nobody can take it for ours.
            let set = || affinity::set(meddled.pid(), &last);
            bound = fault::with_errors(FaultPlan::default(), set).is_ok().then(|| last.clone());
            fault::set_plan(FaultPlan { seed: seed + 1_000_000, permille });
        }
    }
    if rng.below(2) == 0 {
        host.stop();
        while one_turn(&mut host, &mut engine, told) {}
    }
    drop(host);
    bound
}

/// False when it is over, or can go on no longer.
fn one_turn(host: &mut AttachHost, engine: &mut Engine, told: &mut Told) -> bool {
    let turn = match host.wait() {
        Ok(Some(turn)) => turn,
        Ok(None) => return false,
        Err(error) => {
            is_one_line(&error);
            return false;
        }
    };
    let sample = match host.sample(&turn) {
        Ok(sample) => sample,
        Err(error) => {
            is_one_line(&error);
            return false;
        }
    };
    assert!(sample.degraded.iter().all(|text| !text.is_empty() && !text.contains('\n')));
    let step = engine.step(&turn, &sample);
    let outcomes = host.apply(&step.approved);
    assert_eq!(outcomes.len(), step.approved.requests().len(), "each wish has an outcome");
    for outcome in &outcomes {
        match &outcome.result {
            OutcomeResult::Rejected { detail, .. } => {
                assert!(!detail.is_empty() && !detail.contains('\n'), "{detail:?}");
                told.n_refused += 1;
            }
            _ => told.n_done += 1,
        }
    }
    engine.record_outcomes(&outcomes);
    true
}

/// What a person would be told.
fn is_one_line(error: &dyn std::error::Error) {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(!text.is_empty() && text.lines().count() == 1, "{text}");
}

/// By number, or by another way that finds these and nobody else.
fn choice_by_chance(rng: &mut Rng, programs: &[&Program]) -> Selection {
    let mut chosen = choice(&pids(programs));
    if rng.below(3) == 0 {
        chosen.excluded.users.insert(12_345); // So that users are asked for.
        chosen.excluded.cgroups.push("/no/such/group".to_owned());
    }
    chosen
}

fn machine() -> topology::Machine {
    linux::topology::read(Path::new("/")).expect("this machine")
}

/// A process and what it started.
fn with_children(pid: u32) -> Vec<u32> {
    let root = Path::new("/");
    let mut all = linux::procfs::children(root, pid, pid).unwrap_or_default();
    all.push(pid);
    all
}
