//! Replaying a stream: the kernel's bytes through the readers and the engine, to what a policy sees.
//!
//! ```text
//!   stream ─► linux::collectors ─► Sample ─► engine ─► Snapshot ─► shown, and handed to the policy
//! ```
//!
//! Nothing is carried out, so that what a policy wants is what it would have wanted at that moment.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use base::{JobId, Nanos};
use engine::Engine;
use linux::collectors::StreamCollectors;
use linux::stream;
use program::{Command, Ending, Job, Origin};
use sched::{
    Cause, JobEvent, Outcome, OutcomeResult, Plan, Policy, Sample, Snapshot, Target, TierOverride,
    Turn,
};

use super::stream_turn::{ReplayTurn, lines};
use crate::command_result::{CommandResult, OrUsageError};

/// Shows every turn of a stream.
pub fn main(path: &Path, how: (&str, u64, TierOverride), json: bool) -> CommandResult {
    let (policy, seed, signals) = how;
    let decides = policy::build(policy, seed).or_usage_error()?;
    let recorded = stream::read(path).or_usage_error()?;
    let mut out = std::io::stdout().lock();
    let mut played = Played::new(recorded, decides, signals);
    while let Some(shown) = played.next_turn().or_usage_error()? {
        match json {
            true => writeln!(out, "{}", serde_json::to_string(&shown)?)?,
            false => write!(out, "{}", lines(&shown))?,
        }
    }
    Ok(())
}

/// A stream that is being played.
struct Played {
    recorded: stream::Recorded,
    listener: StreamCollectors,
    engine: Engine,
    snapshot: Rc<RefCell<Option<ReplayTurn>>>,
    /// The policy is not asked: the first look is where counting begins.
    is_base: Rc<Cell<bool>>,
    is_first: bool,
}

/// A process that ran before anybody declared anything of it.
fn job_of(id: JobId, name: &str) -> Job {
    Job {
        id,
        name: name.to_owned(),
        command: Command::Program { program: name.into(), args: Vec::new() },
        start: Nanos::ZERO,
        class: None,
        sensitivity: None,
        profile: None,
        found: None,
        dir: None,
        env: BTreeMap::new(),
        input: None,
        output: None,
        threads: 1,
        ending: Ending::Exit,
        cpus: None,
        nodes: None,
        memory: None,
        origin: Origin::default(),
    }
}

/// Hands on to a policy and keeps what it saw.
struct Watcher {
    decides: Box<dyn Policy>,
    interval: Nanos,
    snapshot: Rc<RefCell<Option<ReplayTurn>>>,
    is_base: Rc<Cell<bool>>,
}

impl Policy for Watcher {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if self.is_base.get() {
            return;
        }
        self.decides.decide(snapshot, plan);
        *self.snapshot.borrow_mut() = Some(ReplayTurn::new(snapshot, plan));
    }

    fn name(&self) -> &str {
        self.decides.name()
    }

    /// As it was recorded: growth is shown per recorded turn.
    fn interval(&self) -> Option<Nanos> {
        Some(self.interval)
    }

    fn domains(&self) -> topology::DomainChoice {
        self.decides.domains()
    }

    fn load_source(&self) -> sched::LoadSource {
        self.decides.load_source()
    }
}

impl Played {
    fn new(
        mut recorded: stream::Recorded,
        decides: Box<dyn Policy>,
        signals: TierOverride,
    ) -> Self {
        let snapshot = Rc::new(RefCell::new(None));
        let interval = Nanos(recorded.header.interval_ns);
        let is_base = Rc::new(Cell::new(false));
        let (to, base) = (Rc::clone(&snapshot), Rc::clone(&is_base));
        let watcher = Watcher { decides, interval, snapshot: to, is_base: base };
        let jobs = recorded.header.jobs.iter().zip((0..).map(JobId));
        let ids = jobs.clone().map(|(job, id)| (job.pid, id)).collect();
        let jobs = jobs.map(|(job, id)| job_of(id, &job.name)).collect();
        let machine = recorded.machine.clone();
        let engine = Engine::new(machine.clone(), jobs, Box::new(watcher)).with_signals(signals);
        let listener = StreamCollectors::open(&mut recorded, &machine, ids);
        Played { recorded, listener, engine, snapshot, is_base, is_first: true }
    }

    fn next_turn(&mut self) -> Result<Option<ReplayTurn>, stream::StreamError> {
        let Some((number, at_ns)) = self.recorded.next_turn()? else { return Ok(None) };
        let is_first = std::mem::take(&mut self.is_first);
        let sample = self.listener.sample(&mut self.recorded, is_first).unwrap_or_default();
        let at = Nanos(at_ns);
        if is_first {
            self.start_all(&sample, at);
            self.begin_at(&sample, at);
        }
        let degraded = sample.degraded.clone();
        let turn = Turn { number, at, causes: vec![Cause::Interval] };
        self.engine.step(&turn, &sample);
        self.engine.record_outcomes(&[]);
        let shown = self.snapshot.borrow_mut().take();
        Ok(shown.map(|shown| ReplayTurn { degraded, ..shown }))
    }

    /// What processes did before the first look belongs to no interval of the recording.
    fn begin_at(&mut self, first: &Sample, at: Nanos) {
        self.is_base.set(true);
        self.engine.step(&Turn { number: 0, at, causes: vec![Cause::Interval] }, first);
        self.engine.record_outcomes(&[]);
        self.is_base.set(false);
    }

    /// The processes were there before the recording began.
    fn start_all(&mut self, first: &Sample, at: Nanos) {
        let ids = (0..self.recorded.header.jobs.len() as u32).map(JobId);
        let due = Sample {
            jobs: ids.clone().map(JobEvent::Due).collect(),
            usable_cpus: Some(self.recorded.machine.allowed().clone()),
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
