//! Replays a stream: recorded kernel data through the readers and the engine to a policy.
//!
//! ```text
//!   stream ─► linux::collectors ─► Sample ─► engine ─► Snapshot ─► printed, and passed to the policy
//! ```
//!
//! No action is performed, so each request is the request that the policy would have made at that time.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use base::{JobId, Nanos};
use engine::Engine;
use linux::collectors::StreamCollectors;
use linux::stream;
use program::{Command, Job};
use sched::{
    Cause, JobEvent, Outcome, OutcomeResult, Plan, Policy, Sample, Snapshot, Target, TierOverride,
    Turn,
};

use super::stream_turn::{ReplayTurn, lines};
use crate::command_result::{CommandResult, OrUsageError};

/// Prints every turn of a stream.
pub fn main(path: &Path, options: (&str, u64, TierOverride), json: bool) -> CommandResult {
    let (spec, seed, signals) = options;
    let policy = policy::build(spec, seed).or_usage_error()?;
    crate::run::check_polls("a replay of a stream", &*policy, spec).or_usage_error()?;
    let recorded = stream::read(path).or_usage_error()?;
    let mut out = crate::print::stdout();
    let mut replay = StreamReplay::new(recorded, policy, signals);
    while let Some(turn) = replay.next_turn().or_usage_error()? {
        match json {
            true => writeln!(out, "{}", base::json::to_line(&turn)?)?,
            false => write!(out, "{}", lines(&turn))?,
        }
    }
    Ok(())
}

struct StreamReplay {
    collectors: StreamCollectors<stream::Recorded>,
    engine: Engine,
    snapshot: Rc<RefCell<Option<ReplayTurn>>>,
    /// Whether the policy is skipped. The first sample is only the base of the deltas.
    is_base: Rc<Cell<bool>>,
    is_first: bool,
}

/// Creates a job for a recorded process, without declared values.
fn job_of(id: JobId, name: &str) -> Job {
    Job::new(id, name, Command::Program { program: name.into(), args: Vec::new() })
}

/// Wraps a policy and stores the turn that the policy received.
struct RecordingPolicy {
    policy: Box<dyn Policy>,
    interval: Nanos,
    snapshot: Rc<RefCell<Option<ReplayTurn>>>,
    is_base: Rc<Cell<bool>>,
}

impl Policy for RecordingPolicy {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if self.is_base.get() {
            return;
        }
        self.policy.decide(snapshot, plan);
        *self.snapshot.borrow_mut() = Some(ReplayTurn::new(snapshot, plan));
    }

    sched::forward_policy!(policy: name, domains, load_source);

    /// Returns the interval of the recording: all deltas are per recorded turn.
    fn interval(&self) -> Option<Nanos> {
        Some(self.interval)
    }
}

impl StreamReplay {
    fn new(recorded: stream::Recorded, policy: Box<dyn Policy>, signals: TierOverride) -> Self {
        let snapshot = Rc::new(RefCell::new(None));
        let interval = Nanos(recorded.header.interval_ns);
        let is_base = Rc::new(Cell::new(false));
        let (to, base) = (Rc::clone(&snapshot), Rc::clone(&is_base));
        let recorder = RecordingPolicy { policy, interval, snapshot: to, is_base: base };
        let jobs = recorded.header.jobs.iter().zip((0..).map(JobId));
        let ids = jobs.clone().map(|(job, id)| (job.pid, id)).collect();
        let jobs = jobs.map(|(job, id)| job_of(id, &job.name)).collect();
        let machine = recorded.machine.clone();
        let engine = Engine::new(machine.clone(), jobs, Box::new(recorder)).with_signals(signals);
        let collectors = StreamCollectors::open(recorded, &machine, ids);
        StreamReplay { collectors, engine, snapshot, is_base, is_first: true }
    }

    fn next_turn(&mut self) -> Result<Option<ReplayTurn>, stream::StreamError> {
        let Some((number, at_ns)) = self.collectors.source().next_turn()? else { return Ok(None) };
        let is_first = std::mem::take(&mut self.is_first);
        let sample = self.collectors.sample();
        let at = Nanos(at_ns);
        if is_first {
            self.start_all(&sample, at);
            self.begin_at(&sample, at);
        }
        let degraded = sample.degraded.clone();
        let turn = Turn { number, at, causes: vec![Cause::Interval] };
        self.engine.step(&turn, &sample);
        self.engine.record_outcomes(&[]);
        let turn = self.snapshot.borrow_mut().take();
        Ok(turn.map(|turn| ReplayTurn { degraded, ..turn }))
    }

    /// Uses the first sample as base: activity before the first sample belongs to no recorded interval.
    fn begin_at(&mut self, first: &Sample, at: Nanos) {
        self.is_base.set(true);
        self.engine.step(&Turn { number: 0, at, causes: vec![Cause::Interval] }, first);
        self.engine.record_outcomes(&[]);
        self.is_base.set(false);
    }

    /// Marks the recorded processes as started, because they ran before the recording.
    fn start_all(&mut self, first: &Sample, at: Nanos) {
        let recorded = self.collectors.source();
        let ids = (0..recorded.header.jobs.len() as u32).map(JobId);
        let due = Sample {
            jobs: ids.clone().map(JobEvent::Due).collect(),
            usable_cpus: Some(recorded.machine.allowed().clone()),
            numa_settings: first.numa_settings,
            ..Sample::default()
        };
        let turn = Turn { number: 0, at, causes: vec![Cause::JobsDue] };
        self.engine.step(&turn, &due);
        let started = |id| Outcome {
            target: Target::Job(id),
            action: None,
            result: OutcomeResult::Done { n: 1 },
        };
        self.engine.record_outcomes(&ids.map(started).collect::<Vec<_>>());
    }
}
