//! Watching as a library, turn by turn, for the tests here and for those in the guest.
//!
//! ```text
//!   host.wait ─► sample ─► engine.step ─► host.apply        one turn; what came of it is kept
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use base::{CpuSet, Nanos};
use engine::{Engine, Host};
use host_live::{AttachHost, AttachOptions, ExclusionReason, Selection, WatchStatus};
use linux::procfs;
use sched::{
    Action, CompletedPageMove, DetachCause, JobEvent, Outcome, Plan, Policy, ProcessMemory, Reason,
    ReasonCode, Rejection, Snapshot,
};

/// Nothing takes longer, however busy the machine is and however slow the guest.
const PATIENCE: Duration = Duration::from_secs(240);

/// Puts every job on the last CPU that may be used, looking so often.
pub struct LastCpu(pub Nanos);

impl Policy for LastCpu {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let last: CpuSet = seen.usable_cpus.last().into_iter().collect();
        for job in seen.jobs.iter().filter(|job| job.movable && job.placed != Some(&last)) {
            plan.request(
                job.job.id,
                Action::Place(last.clone()),
                Reason::new(ReasonCode::new("next-in-turn", "a test")),
            );
        }
    }

    fn name(&self) -> &str {
        "last-cpu"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.0)
    }
}

/// Watching, turn by turn.
pub struct Watching {
    pub host: AttachHost,
    engine: Engine,
    pub events: Vec<JobEvent>,
    pub outcomes: Vec<Outcome>,
    /// What the guard did not let through.
    pub refused: Vec<Rejection>,
    pub moved: Vec<CompletedPageMove>,
    pub memory: Vec<ProcessMemory>,
    pub degraded: Vec<String>,
    _state: tempfile::TempDir,
}

impl Watching {
    /// Acts on these processes as the policy wishes.
    pub fn with(
        policy: Box<dyn Policy>,
        pids: &[u32],
        change: impl FnOnce(&mut AttachOptions),
    ) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let mut options = AttachOptions {
            selection: choice(pids),
            act: true,
            interval: policy.interval().expect("it looks now and then"),
            takes_signals: false,
            undo_folders: Some(vec![state.path().join("state")]),
            use_events: false,
            ..AttachOptions::default()
        };
        change(&mut options);
        let machine = linux::topology::read(Path::new("/")).expect("this machine");
        let host = AttachHost::new(&machine, options).expect("everybody is there");
        let engine = Engine::new(machine, Vec::new(), policy);
        let (events, outcomes, refused) = (Vec::new(), Vec::new(), Vec::new());
        let (moved, memory, degraded) = (Vec::new(), Vec::new(), Vec::new());
        let _state = state;
        Watching { host, engine, events, outcomes, refused, moved, memory, degraded, _state }
    }

    /// One turn; false when watching is over.
    pub fn turn(&mut self) -> bool {
        let Some(turn) = self.host.wait().expect("it can wait") else { return false };
        let sample = self.host.sample(&turn).expect("it can look");
        let step = self.engine.step(&turn, &sample);
        let outcomes = self.host.apply(&step.approved);
        self.engine.record_outcomes(&outcomes);
        self.refused.extend(step.rejected);
        self.events.extend(sample.jobs);
        self.moved.extend(sample.page_moves_completed);
        self.memory.extend(sample.memory);
        self.degraded.extend(sample.degraded);
        self.outcomes.extend(outcomes);
        true
    }

    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Watching) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            let told = || format!("{:?} {:?}", self.events, self.board());
            assert!(begun.elapsed() < PATIENCE, "{what} does not come: {}", told());
            assert!(self.turn(), "watching ended before {what}");
        }
    }

    pub fn end(&mut self) {
        self.host.stop();
        while self.turn() {}
    }

    pub fn board(&self) -> WatchStatus {
        self.host.status().borrow().clone()
    }

    pub fn left_alone(&self, why: ExclusionReason, pid: u32) -> bool {
        let board = self.board();
        let alone = board.excluded.get(&why);
        alone.is_some_and(|alone| alone.examples.iter().any(|(its, _)| *its == pid))
    }

    pub fn left(&self, why: DetachCause) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, JobEvent::Detached(_, its, _) if *its == why))
    }
}

/// Processes by number.
pub fn choice(pids: &[u32]) -> Selection {
    let whose =
        |pid: &u32| (*pid, procfs::stat("/".as_ref(), *pid).expect("alive").start_time_ticks);
    Selection { pids: pids.iter().map(whose).collect(), ..Selection::default() }
}
