//! A watch whose turns are executed one by one by the test. The guest tests use this watch too.
//!
//! ```text
//!   host.wait ─► sample ─► engine.step ─► host.apply        one turn; its results are stored
//! ```

use std::time::{Duration, Instant};

use base::{CpuSet, Nanos};
use engine::{Engine, Host};
use host_live::{AttachHost, AttachOptions, ExclusionReason, Selection, WatchStatus};
use sched::{
    Action, CompletedPageMigration, DetachCause, JobEvent, Outcome, Plan, Policy, ProcessMemory,
    Reason, ReasonCode, Rejection, Snapshot,
};

use crate::dir::Dir;
use crate::process::{machine, start_time_ticks};

/// Timeout of a condition, for a busy machine and a slow guest.
const PATIENCE: Duration = Duration::from_secs(240);

/// Returns the reason of every request of a test.
pub fn reason() -> Reason {
    Reason::new(ReasonCode::new("round-robin", "a test"))
}

struct TestPolicy<F>(Nanos, F);

impl<F: FnMut(&Snapshot<'_>, &mut Plan)> Policy for TestPolicy<F> {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        (self.1)(snapshot, plan);
    }

    fn name(&self) -> &str {
        "test"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.0)
    }
}

/// Returns a policy with this interval and decision.
pub fn policy(
    interval: Nanos,
    decide: impl FnMut(&Snapshot<'_>, &mut Plan) + 'static,
) -> Box<dyn Policy> {
    Box::new(TestPolicy(interval, decide))
}

/// Places every job on the last usable CPU.
pub fn place_on_last_cpu(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let last: CpuSet = snapshot.usable_cpus.last().into_iter().collect();
    for job in snapshot.jobs.iter().filter(|job| job.movable && job.placed != Some(&last)) {
        plan.request(job.job.id, Action::Place(last.clone()), reason());
    }
}

pub struct WatchRun {
    pub host: AttachHost,
    engine: Engine,
    pub events: Vec<JobEvent>,
    pub outcomes: Vec<Outcome>,
    /// Requests that the guard rejected.
    pub rejections: Vec<Rejection>,
    pub moved: Vec<CompletedPageMigration>,
    pub memory: Vec<ProcessMemory>,
    pub degraded: Vec<String>,
    _dir: Dir,
}

impl WatchRun {
    /// Manages these processes under a policy.
    pub fn with(
        policy: Box<dyn Policy>,
        pids: &[u32],
        change: impl FnOnce(&mut AttachOptions),
    ) -> Self {
        let dir = Dir::new();
        let mut options = AttachOptions {
            selection: select(pids),
            act: true,
            interval: policy.interval().expect("a test policy has an interval"),
            takes_signals: false,
            undo_dirs: Some(dir.state()),
            use_events: false,
            ..AttachOptions::default()
        };
        change(&mut options);
        let machine = machine();
        let host = AttachHost::new(&machine, options).expect("all processes exist");
        let engine = Engine::new(machine, Vec::new(), policy);
        let (events, outcomes, rejections) = (Vec::new(), Vec::new(), Vec::new());
        let (moved, memory, degraded) = (Vec::new(), Vec::new(), Vec::new());
        let _dir = dir;
        WatchRun { host, engine, events, outcomes, rejections, moved, memory, degraded, _dir }
    }

    /// Takes one turn. Returns false if the watch is over.
    pub fn turn(&mut self) -> bool {
        let Some(turn) = self.host.wait().expect("the host works") else { return false };
        let sample = self.host.sample(&turn).expect("the host works");
        let step = self.engine.step(&turn, &sample);
        let outcomes = self.host.apply(&step.approved);
        self.engine.record_outcomes(&outcomes);
        self.rejections.extend(step.rejected);
        self.events.extend(sample.jobs);
        self.moved.extend(sample.page_migrations_completed);
        self.memory.extend(sample.memory);
        self.degraded.extend(sample.degraded);
        self.outcomes.extend(outcomes);
        true
    }

    pub fn run_turns(&mut self, n: usize) {
        assert!((0..n).all(|_| self.turn()), "the watch ended");
    }

    /// Runs turn by turn until the condition holds.
    pub fn until(&mut self, event: &str, mut holds: impl FnMut(&WatchRun) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            let state = || format!("{:?} {:?}", self.events, self.status());
            assert!(begun.elapsed() < PATIENCE, "timeout: {event}: {}", state());
            assert!(self.turn(), "the watch ended before {event}");
        }
    }

    pub fn end(&mut self) {
        self.host.stop();
        while self.turn() {}
    }

    pub fn status(&self) -> WatchStatus {
        self.host.status().borrow().clone()
    }

    pub fn excludes(&self, reason: ExclusionReason, pid: u32) -> bool {
        let status = self.status();
        let excluded = status.excluded.get(&reason);
        excluded
            .is_some_and(|excluded| excluded.examples.iter().any(|(example, _)| *example == pid))
    }

    pub fn detached(&self, cause: DetachCause) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, JobEvent::Detached(_, found, _) if *found == cause))
    }
}

/// Selects processes by PID and start time.
pub fn select(pids: &[u32]) -> Selection {
    let pids = pids.iter().map(|&pid| (pid, start_time_ticks(pid))).collect();
    Selection { pids, ..Selection::default() }
}
