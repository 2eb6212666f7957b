//! Live runs in tests: real programs under a policy whose requests the test makes.
//!
//! ```text
//!   test ── request() ──► RequestedActions (policy) ──► engine ──► LaunchHost ──► processes
//!        ◄── turns: samples and outcomes ─────────────────────────────┘
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::{JobId, Nanos};
use engine::{Engine, Host};
use host_live::{LaunchHost, LaunchOptions, StandardStreams};
use program::Workload;
use sched::{
    Action, JobEvent, JobExit, Outcome, OutcomeResult, Plan, Policy, Reason, ReasonCode, Rejection,
    Sample, Snapshot, Target, Turn,
};

use crate::dir::Dir;
use crate::process::machine;
use crate::tool;

/// Maximum number of turns of a test: 100 s with an interval of 20 ms.
const TURNS_MAX: u32 = 5000;

type Requests = Rc<RefCell<Vec<(Target, Action)>>>;

/// Returns the reason of every request of a test.
fn reason() -> Reason {
    Reason::new(ReasonCode::new("round-robin", "a test"))
}

/// A policy that requests each action of the test once.
struct RequestedActions {
    requests: Requests,
    quiescent: Rc<Cell<bool>>,
}

impl Policy for RequestedActions {
    fn decide(&mut self, _: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = self.quiescent.get();
        for (target, action) in self.requests.borrow_mut().drain(..) {
            plan.request(target, action, reason());
        }
    }

    fn name(&self) -> &str {
        "requested-actions"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(20))
    }
}

/// A turn with its sample and the outcomes of its plan.
pub struct RecordedTurn {
    pub turn: Turn,
    pub sample: Sample,
    pub outcomes: Vec<Outcome>,
}

/// A live run whose turns are executed one by one by the test.
pub struct LiveRun {
    /// `None` after [`LiveRun::drop_host`].
    host: Option<LaunchHost>,
    engine: Engine,
    requests: Requests,
    /// Whether the plans declare that the policy requests nothing until an event occurs.
    pub quiescent: Rc<Cell<bool>>,
    pub turns: Vec<RecordedTurn>,
    /// Requests that the guard rejected.
    pub rejections: Vec<Rejection>,
    pub names: Vec<String>,
    pub dir: Dir,
}

impl LiveRun {
    pub fn new(text: &str) -> Self {
        Self::with(text, |_| {})
    }

    pub fn with(text: &str, change: impl FnOnce(&mut LaunchOptions)) -> Self {
        Self::within(Dir::new(), text, change)
    }

    /// Starts a job `a` with this shell script.
    pub fn shell(script: &str) -> Self {
        Self::new(&format!("[[job]]\nname = \"a\"\nshell = '''{script}'''\n"))
    }

    /// Starts a job `a` that sleeps.
    pub fn sleeping() -> Self {
        Self::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n")
    }

    /// Starts a run whose built-in programs are the programs of the evenkeel executable.
    pub fn with_tool(text: &str) -> Self {
        Self::with(text, |options| options.tool = Some(tool::path().to_owned()))
    }

    pub fn within(dir: Dir, text: &str, change: impl FnOnce(&mut LaunchOptions)) -> Self {
        let workload: Workload =
            program::parse(text, &dir.path("test.toml")).unwrap_or_else(|error| panic!("{error}"));
        let mut options = LaunchOptions {
            interval: Some(Nanos::from_millis(20)),
            standard_streams: StandardStreams::in_dir(
                &files::OutputDir::create(dir.root(), files::ForeignDir::Reject).expect("own"),
            ),
            takes_signals: false,
            is_sole_parent: false,
            undo_dirs: Some(dir.state()),
            ..LaunchOptions::default()
        };
        change(&mut options);
        let (requests, quiescent) = (Requests::default(), Rc::default());
        let policy =
            RequestedActions { requests: Rc::clone(&requests), quiescent: Rc::clone(&quiescent) };
        let engine = Engine::new(machine(), workload.jobs.clone(), Box::new(policy));
        let names = workload.jobs.iter().map(|job| job.name.clone()).collect();
        let host = Some(LaunchHost::new(workload, &machine(), options).expect("a host"));
        let (turns, rejections) = (Vec::new(), Vec::new());
        LiveRun { host, engine, requests, quiescent, turns, rejections, names, dir }
    }

    pub fn job(&self, name: &str) -> JobId {
        let idx = self.names.iter().position(|known| known == name).expect(name);
        JobId(u32::try_from(idx).expect("few jobs"))
    }

    pub fn request(&self, name: &str, action: Action) {
        self.request_for(Target::Job(self.job(name)), action);
    }

    pub fn request_for(&self, target: Target, action: Action) {
        self.requests.borrow_mut().push((target, action));
    }

    /// Takes one turn. Returns false if the run is over.
    pub fn step(&mut self) -> bool {
        self.step_with(|| {})
    }

    /// Takes one turn and runs `meanwhile` between the decision and the actions.
    pub fn step_with(&mut self, meanwhile: impl FnOnce()) -> bool {
        let Some(turn) = self.host().wait().expect("the host works") else { return false };
        let sample = self.host().sample(&turn).expect("the host works");
        let step = self.engine.step(&turn, &sample);
        meanwhile();
        self.rejections.extend(step.rejected.iter().cloned());
        let outcomes = self.host().apply(&step.approved);
        self.engine.record_outcomes(&outcomes);
        self.turns.push(RecordedTurn { turn, sample, outcomes });
        true
    }

    /// Runs turn by turn until the condition holds.
    pub fn until(&mut self, event: &str, mut holds: impl FnMut(&LiveRun) -> bool) {
        for _ in 0..TURNS_MAX {
            if holds(self) {
                return;
            }
            assert!(self.step(), "the run ended before {event}\n{}", self.describe());
        }
        panic!("timeout: {event}\n{}", self.describe());
    }

    /// Returns the task samples of all turns.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = &sched::TaskSample> {
        self.turns.iter().flat_map(|turn| &turn.sample.tasks)
    }

    pub fn outcomes(&self) -> impl DoubleEndedIterator<Item = &Outcome> {
        self.turns.iter().flat_map(|turn| &turn.outcomes)
    }

    /// Returns the completed page migrations of all turns.
    pub fn page_migrations(&self) -> impl Iterator<Item = &sched::CompletedPageMigration> {
        self.turns.iter().flat_map(|turn| &turn.sample.page_migrations_completed)
    }

    /// Returns the warnings of all turns.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.turns.iter().flat_map(|turn| &turn.sample.degraded)
    }

    /// Returns whether a task of a job ran on this CPU at its last sample.
    pub fn ran_on(&self, name: &str, cpu: Option<base::CpuId>) -> bool {
        let job = self.job(name);
        self.tasks().rev().find(|task| task.job == job).is_some_and(|task| task.last_cpu == cpu)
    }

    pub fn host(&mut self) -> &mut LaunchHost {
        self.host.as_mut().expect("it was not dropped")
    }

    /// Drops the host during the run. The host restores all settings, and the jobs and the directory remain.
    pub fn drop_host(&mut self) {
        self.host = None;
    }

    pub fn request_stop(&mut self) {
        Host::stop(self.host());
    }

    /// Stops the run and takes its remaining turns.
    pub fn stop(&mut self) {
        self.request_stop();
        self.finish();
    }

    /// Runs turn by turn to the end.
    pub fn finish(&mut self) {
        for _ in 0..TURNS_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("timeout: the end of the run\n{}", self.describe());
    }

    /// Returns the PID of the main process of a job, if it was started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let target = Target::Job(self.job(name));
        self.outcomes().rev().find_map(|outcome| match outcome.result {
            OutcomeResult::Done { n } if outcome.target == target && outcome.action.is_none() => {
                Some(n)
            }
            _ => None,
        })
    }

    /// Runs until a job is started. Returns its PID.
    pub fn wait_until_started(&mut self, name: &str) -> u32 {
        self.until(name, |run| run.pid(name).is_some());
        self.pid(name).expect("it is started")
    }

    /// Returns the results of all actions on a job, in order.
    pub fn placements(&self, name: &str) -> Vec<OutcomeResult> {
        let target = Target::Job(self.job(name));
        let about = self.outcomes().filter(|o| o.target == target && o.action.is_some());
        about.map(|outcome| outcome.result.clone()).collect()
    }

    pub fn events(&self) -> impl Iterator<Item = &JobEvent> {
        self.turns.iter().flat_map(|turn| &turn.sample.jobs)
    }

    /// Returns the exits of a job, one for each start.
    pub fn exits(&self, name: &str) -> Vec<&JobExit> {
        let job = self.job(name);
        let exit = |event| match event {
            &JobEvent::Ended(ended, ref exit) if ended == job => Some(exit.as_ref()),
            _ => None,
        };
        self.events().filter_map(exit).collect()
    }

    /// Lists the turns with events or outcomes, for failure messages.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for RecordedTurn { turn, sample, outcomes } in &self.turns {
            if !sample.jobs.is_empty() || !outcomes.is_empty() {
                text += &format!("{:?} {:?} {outcomes:?}\n", turn.causes, sample.jobs);
            }
        }
        text
    }
}

/// Ends the processes of a failed test.
impl Drop for LiveRun {
    fn drop(&mut self) {
        if !std::thread::panicking() || self.host.is_none() {
            return;
        }
        self.request_stop();
        for _ in 0..TURNS_MAX {
            match self.host().wait() {
                Ok(Some(turn)) => drop(self.host().sample(&turn)),
                _ => return,
            }
        }
    }
}
