//! The kernel may refuse any call at any moment, and nothing breaks, leaks or stays changed.
//!
//! A run of three jobs is played again and again, each time with another seed: a share of all calls fails
//! with EPERM, ENOMEM, EBUSY, EINTR, ENOSYS or ESRCH, jobs are placed, released and have their memory
//! moved, somebody else binds one of them, and the run ends in order or its host is let go of in the
//! middle. Afterwards
//!
//! ```text
//!   every action has an outcome          no descriptor is left open
//!   what somebody else bound stays       what we bound is back, or `restore` brings it back
//! ```
//!
//! `EVENKEEL_SEEDS=5000` plays more of them.

use std::path::{Path, PathBuf};

use base::{Bytes, CpuSet, NodeId, Rng};
use linux::fault::{self, FaultPlan};
use linux::undo;
use rustix::process::Signal;
use sched::{Action, OutcomeResult};

use crate::live::cgroups::{folder, possible};
use crate::live::play::{Play, World, lives, mask, signal, two_cpus};
use crate::seeds;

/// Turns of one run before it ends.
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
    name = "meddled"
    command = ["sleep", "600"]
"#;

#[test]
fn whatever_the_kernel_refuses_nothing_breaks_leaks_or_stays_changed() {
    if two_cpus().is_none() || !cfg!(debug_assertions) {
        return;
    }
    seeds::play("faults::play_seeds", 300);
}

/// Plays the seeds of a part.
#[test]
#[ignore = "a part of whatever_the_kernel_refuses…; does nothing by itself"]
fn play_seeds() {
    let Some(part) = seeds::part() else { return };
    let (mut n_refused, mut n_kept) = (0, 0);
    let mut descriptors = None;
    for seed in part {
        println!("seed {seed}");
        let told = play_one(seed);
        n_refused += told.n_refused;
        n_kept += u32::from(told.was_kept);
        let now = n_descriptors();
        // The first run opens what a process opens once.
        assert_eq!(*descriptors.get_or_insert(now), now, "descriptors leak");
    }
    println!("{n_refused} actions refused, {n_kept} records left for restore");
    assert_ne!(n_refused, 0, "not a single refusal: nothing was tried");
}

/// What came of one seed.
struct Told {
    n_refused: usize,
    was_kept: bool,
}

fn play_one(seed: u64) -> Told {
    let (all, first, last) = two_cpus().expect("asked before");
    let mut rng = Rng::new(seed);
    let permille = [5, 30, 150, 400][rng.below(4) as usize];
    let world = World::new();
    let state = world.state();
    let mut play = Play::within(world, WORKLOAD, |options| {
        options.interval = Some(base::Nanos::from_millis(2));
        options.groups = possible().unwrap_or_default();
    });
    let folder = folder(play.host().run_id());
    let no_groups = || folder.as_ref().is_none_or(|folder| !folder.exists());
    fault::take_over(FaultPlan { seed, permille });
    let meddler = rng.below(u64::from(N_TURNS)) as u32;
    let mut bound_by_others = None;
    for turn in 0..N_TURNS {
        wish(&mut play, &mut rng, [&all, &first, &last]);
        if !play.step() {
            break;
        }
        if turn == meddler {
            bound_by_others = meddle(&play, &last, (seed, permille));
        }
    }
    let n_refused = check_outcomes(&play);
    let in_order = rng.below(2) == 0;
    let pids: Vec<u32> =
        ["plain", "family", "meddled"].iter().filter_map(|name| play.pid(name)).collect();
    if in_order {
        play.host_stop();
        while play.step() {}
        fault::take_over(FaultPlan::default());
        assert!(pids.iter().all(|&pid| !lives(pid)), "a run that ended in order leaves nobody");
        let was_kept = 0 < n_files(&state);
        undo::restore(&state, false);
        assert!(no_groups(), "groups are left; kept {was_kept}\n{}", play.tell());
        return Told { n_refused, was_kept };
    }
    let _survivors = Survivors(pids.clone());
    play.abandon();
    fault::take_over(FaultPlan::default());
    let was_kept = 0 < n_files(&state);
    let restored = restore_when_free(&state);
    assert_eq!(restored.problems, Vec::<String>::new());
    for pid in everybody(&pids) {
        let expected = match bound_by_others {
            Some((other, ref cpus)) if other == pid => cpus,
            _ => &all,
        };
        let has = mask(pid).filter(|_| lives(pid));
        assert!(
            has.as_ref().is_none_or(|has| has == expected),
            "{pid} of {pids:?} has {has:?}, not {expected}; kept {was_kept}, {restored:?}\n{}",
            play.tell()
        );
    }
    assert_eq!(n_files(&state), 0, "nothing is left to restore");
    assert!(no_groups(), "groups are left; kept {was_kept}, {restored:?}\n{}", play.tell());
    Told { n_refused, was_kept }
}

/// A child on its way to its exec has a share in the lock of the record: nobody waited for it if the call
/// was refused that would have told when it is there.
fn restore_when_free(state: &[PathBuf]) -> undo::Restored {
    for _ in 0..10_000 {
        let restored = undo::restore(state, false);
        if restored.files.iter().all(|file| file.verdict != undo::Verdict::InUse) {
            return restored;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the record is in use for ever")
}

/// Somebody else binds the third job, whatever becomes of our own calls.
fn meddle(play: &Play, cpus: &CpuSet, (seed, permille): (u64, u16)) -> Option<(u32, CpuSet)> {
    let pid = play.pid("meddled")?;
    // A mask that no wish names, so that nobody can take it for ours.
    let bound = fault::with_errors(FaultPlan::default(), || linux::affinity::set(pid, cpus));
    fault::take_over(FaultPlan { seed: seed + 1_000_000, permille });
    bound.ok().map(|()| (pid, cpus.clone()))
}

/// The last CPU is left to whoever meddles.
fn wish(play: &mut Play, rng: &mut Rng, [all, first, _]: [&CpuSet; 3]) {
    let name = ["plain", "family", "meddled"][rng.below(3) as usize];
    let job = if name == "meddled" { rng.below(2) } else { rng.below(4) };
    let action = match job {
        0 | 1 => Action::Place(first.clone()),
        2 => Action::Release,
        _ => Action::MovePages { from: None, to: NodeId(0), limit: Bytes::from_mib(1) },
    };
    let _ = all;
    play.wish(name, action);
}

/// Every outcome says what became of it; tells how many were refused.
fn check_outcomes(play: &Play) -> usize {
    let outcomes = play.story.iter().flat_map(|scene| &scene.outcomes);
    let refused = outcomes.filter_map(|outcome| match &outcome.result {
        OutcomeResult::Rejected { detail, .. } => Some((&outcome.action, detail)),
        _ => None,
    });
    let told = |(deed, detail): (&Option<Action>, &String)| {
        assert!(!detail.is_empty() && !detail.contains('\n'), "{deed:?}: {detail:?}");
    };
    refused.map(told).count()
}

/// These processes and their children.
fn everybody(pids: &[u32]) -> Vec<u32> {
    let root = Path::new("/");
    let children = |&pid: &u32| linux::procfs::children(root, pid, pid).unwrap_or_default();
    let children: Vec<u32> = pids.iter().flat_map(children).collect();
    pids.iter().copied().chain(children).collect()
}

fn n_files(state: &[PathBuf]) -> usize {
    std::fs::read_dir(&state[0]).map_or(0, Iterator::count)
}

fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("own descriptors").count()
}

/// Ends the jobs of a host that was let go of.
struct Survivors(Vec<u32>);

impl Drop for Survivors {
    fn drop(&mut self) {
        for pid in everybody(&self.0) {
            signal(pid, Signal::KILL);
        }
        // They are our children: nobody else waits for them.
        for &pid in &self.0 {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}
