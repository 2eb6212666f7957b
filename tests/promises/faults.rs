//! Injected faults: any system call may fail. evenkeel does not panic, leaks no resource and restores all settings.
//!
//! A run of three jobs is repeated with many seeds. A share of all system calls fails with EPERM, ENOMEM, EBUSY, EINTR,
//! ENOSYS or ESRCH. Jobs are placed and released, their memory migrates, and the test changes the affinity of one job.
//! The run ends regularly, or its host is dropped in the middle. Afterwards
//!
//! ```text
//!   every action has an outcome          no file descriptor is left open
//!   the test's affinity is unchanged     evenkeel's changes are undone at its end, or by `restore`
//! ```
//!
//! `EVENKEEL_SEEDS=5000` sets the number of seeds.

use std::path::PathBuf;

use base::{Bytes, CpuSet, NodeId, Rng};
use linux::fault::{self, FaultPlan};
use linux::undo;
use rustix::process::Signal;
use sched::{Action, OutcomeResult};
use tests::dir::Dir;
use tests::live_run::LiveRun;
use tests::process::{is_running, mask, signal, two_cpus, with_children};

use crate::live::cgroups::{cgroup_dir, creatable};
use crate::seeds;

/// Turns of one run before the run ends.
const N_TURNS: u32 = 12;

const WORKLOAD: &str = r#"
    [[job]]
    name = "plain"
    command = ["sleep", "600"]
    memory = "bind:0"
    [[job]]
    name = "family"
    shell = "sleep 600 & sleep 600 & wait"
    [[job]]
    name = "changed"
    command = ["sleep", "600"]
"#;

#[test]
fn with_injected_faults_nothing_leaks_or_stays_changed() {
    if two_cpus().is_none() || !cfg!(debug_assertions) {
        return;
    }
    seeds::run_in_process("faults::run_seeds", 300);
}

/// Runs the seeds of one part.
#[test]
#[ignore = "a part of with_injected_faults…; does nothing alone"]
fn run_seeds() {
    let Some(part) = seeds::part() else { return };
    let (mut n_rejected, mut n_kept) = (0, 0);
    seeds::check_each(part, |seed| {
        let result = run_seed(seed);
        n_rejected += result.n_rejected;
        n_kept += u32::from(result.was_kept);
    });
    println!("{n_rejected} actions rejected, {n_kept} undo records left for restore");
    assert_ne!(n_rejected, 0, "no action was rejected");
}

/// Result of one seed.
struct SeedResult {
    n_rejected: usize,
    was_kept: bool,
}

fn run_seed(seed: u64) -> SeedResult {
    let (all, first, last) = two_cpus().expect("checked by the caller");
    let mut rng = Rng::new(seed);
    let permille = [5, 30, 150, 400][rng.below(4) as usize];
    let directory = Dir::new();
    let state = directory.state();
    let mut run = LiveRun::within(directory, WORKLOAD, |options| {
        options.interval = Some(base::Nanos::from_millis(2));
        options.cgroups = creatable().unwrap_or_default();
    });
    let dir = cgroup_dir(run.host().run_id());
    let no_cgroups = || dir.as_ref().is_none_or(|dir| !dir.exists());
    fault::set_plan(FaultPlan { seed, permille });
    let change_turn = rng.below(u64::from(N_TURNS)) as u32;
    let mut changed_from_outside = None;
    for turn in 0..N_TURNS {
        request(&mut run, &mut rng, &first);
        if !run.step() {
            break;
        }
        if turn == change_turn {
            changed_from_outside = change_from_outside(&run, &last, (seed, permille));
        }
    }
    let n_rejected = check_outcomes(&run);
    let ends_regularly = rng.below(2) == 0;
    let pids: Vec<u32> =
        ["plain", "family", "changed"].iter().filter_map(|name| run.pid(name)).collect();
    if ends_regularly {
        run.request_stop();
        while run.step() {}
        fault::set_plan(FaultPlan::default());
        assert!(pids.iter().all(|&pid| !is_running(pid)), "a regular end leaves no process");
        let was_kept = 0 < n_files(&state);
        undo::restore(&state, false);
        assert!(no_cgroups(), "cgroups are left; kept {was_kept}\n{}", run.describe());
        return SeedResult { n_rejected, was_kept };
    }
    let _jobs = RemainingJobs(pids.clone());
    run.drop_host();
    fault::set_plan(FaultPlan::default());
    let was_kept = 0 < n_files(&state);
    let restored = restore_when_free(&state);
    assert_eq!(restored.problems, Vec::<String>::new());
    for pid in with_children(&pids) {
        let expected = match changed_from_outside {
            Some((other, ref cpus)) if other == pid => cpus,
            _ => &all,
        };
        let found = mask(pid).filter(|_| is_running(pid));
        assert!(
            found.as_ref().is_none_or(|mask| mask == expected),
            "process {pid} (jobs: {pids:?}) has the affinity {found:?}, expected {expected}; undo record kept: {was_kept}; \
             {restored:?}\n{}",
            run.describe()
        );
    }
    assert_eq!(n_files(&state), 0, "an undo record is left");
    assert!(no_cgroups(), "cgroups are left; kept {was_kept}, {restored:?}\n{}", run.describe());
    SeedResult { n_rejected, was_kept }
}

/// Restores after the lock of the undo record is free. A child shares the lock before its exec, and a failed call may
/// have left such a child without a waiting parent.
fn restore_when_free(state: &[PathBuf]) -> undo::Restored {
    for _ in 0..10_000 {
        let restored = undo::restore(state, false);
        if restored.files.iter().all(|file| file.verdict != undo::RestoreVerdict::InUse) {
            return restored;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("timeout: the undo record is in use")
}

/// Changes the affinity of the third job from outside evenkeel, without injected faults.
fn change_from_outside(
    run: &LiveRun,
    cpus: &CpuSet,
    (seed, permille): (u64, u16),
) -> Option<(u32, CpuSet)> {
    let pid = run.pid("changed")?;
    // No action of this test sets the mask `cpus`.
    let bound = fault::with_errors(FaultPlan::default(), || linux::affinity::set(pid, cpus));
    fault::set_plan(FaultPlan { seed: seed + 1_000_000, permille });
    bound.ok().map(|()| (pid, cpus.clone()))
}

/// Requests a random action. Only `change_from_outside` uses the last CPU.
fn request(run: &mut LiveRun, rng: &mut Rng, first: &CpuSet) {
    let name = ["plain", "family", "changed"][rng.below(3) as usize];
    let job = if name == "changed" { rng.below(2) } else { rng.below(4) };
    let action = match job {
        0 | 1 => Action::Place(first.clone()),
        2 => Action::Release,
        _ => Action::MovePages { from: None, to: NodeId(0), limit: Bytes::from_mib(1) },
    };
    run.request(name, action);
}

/// Checks the details of rejected outcomes. Returns their number.
fn check_outcomes(run: &LiveRun) -> usize {
    let rejected = run.outcomes().filter_map(|outcome| match &outcome.result {
        OutcomeResult::Rejected { detail, .. } => Some((&outcome.action, detail)),
        _ => None,
    });
    let check = |(action, detail): (&Option<Action>, &String)| {
        assert!(!detail.is_empty() && !detail.contains('\n'), "{action:?}: {detail:?}");
    };
    rejected.map(check).count()
}

fn n_files(state: &[PathBuf]) -> usize {
    std::fs::read_dir(&state[0]).map_or(0, Iterator::count)
}

/// Kills the jobs of a dropped host.
struct RemainingJobs(Vec<u32>);

impl Drop for RemainingJobs {
    fn drop(&mut self) {
        for pid in with_children(&self.0) {
            signal(pid, Signal::KILL);
        }
        // The processes are children of this process, which must reap its children.
        for &pid in &self.0 {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}
