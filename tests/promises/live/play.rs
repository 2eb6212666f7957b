//! A small world for live runs: real programs under a policy whose wishes the test writes down.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{CpuSet, JobId, Nanos};
use engine::{Engine, Host};
use host_live::{LaunchHost, LaunchOptions};
use program::Workload;
use sched::{
    Action, JobEvent, JobExit, Outcome, OutcomeResult, Plan, Policy, Reason, ReasonCode, Rejection,
    Sample, Snapshot, Target, Turn,
};
use topology::Machine;

/// No test waits for more turns than this: at 20 ms each it is 100 s.
const TURNS_MAX: u32 = 5000;

type Wishes = Rc<RefCell<Vec<(Target, Action)>>>;

/// A policy that wishes what it is told, once.
struct Told {
    wishes: Wishes,
    rests: Rc<Cell<bool>>,
}

impl Policy for Told {
    fn decide(&mut self, _: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = self.rests.get();
        for (target, action) in self.wishes.borrow_mut().drain(..) {
            plan.request(target, action, Reason::new(ReasonCode::new("next-in-turn", "a test")));
        }
    }

    fn name(&self) -> &str {
        "told"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(20))
    }
}

/// A turn with everything about it.
pub struct Scene {
    pub turn: Turn,
    pub sample: Sample,
    pub outcomes: Vec<Outcome>,
}

/// A run that goes on turn by turn.
pub struct Play {
    /// Until it is let go of.
    host: Option<LaunchHost>,
    engine: Engine,
    wishes: Wishes,
    /// Whether the policy says that it has nothing to do until something changes.
    pub rests: Rc<Cell<bool>>,
    pub story: Vec<Scene>,
    /// What the guard did not let through.
    pub refused: Vec<Rejection>,
    pub names: Vec<String>,
    pub world: World,
}

/// A folder of its own for output and undo records.
pub struct World {
    pub folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        World { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn state(&self) -> Vec<PathBuf> {
        vec![self.path("state")]
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }
}

pub fn options(world: &World) -> LaunchOptions {
    LaunchOptions {
        interval: Some(Nanos::from_millis(20)),
        output_dir: world.folder.path().to_owned(),
        takes_signals: false,
        is_sole_parent: false,
        undo_folders: Some(world.state()),
        ..LaunchOptions::default()
    }
}

pub fn machine() -> Machine {
    linux::topology::read(Path::new("/")).expect("this machine")
}

pub fn workload(world: &World, text: &str) -> Workload {
    program::parse(text, &world.path("test.toml")).unwrap_or_else(|error| panic!("{error}"))
}

impl Play {
    pub fn new(text: &str) -> Self {
        Self::with(text, |_| {})
    }

    pub fn with(text: &str, change: impl FnOnce(&mut LaunchOptions)) -> Self {
        Self::within(World::new(), text, change)
    }

    pub fn within(world: World, text: &str, change: impl FnOnce(&mut LaunchOptions)) -> Self {
        let workload = workload(&world, text);
        let mut options = options(&world);
        change(&mut options);
        let wishes = Wishes::default();
        let rests = Rc::default();
        let policy = Box::new(Told { wishes: Rc::clone(&wishes), rests: Rc::clone(&rests) });
        let engine = Engine::new(machine(), workload.jobs.clone(), policy);
        let names = workload.jobs.iter().map(|job| job.name.clone()).collect();
        let host = LaunchHost::new(workload, &machine(), options).expect("a host");
        Play {
            host: Some(host),
            engine,
            wishes,
            rests,
            story: Vec::new(),
            refused: Vec::new(),
            names,
            world,
        }
    }

    pub fn job(&self, name: &str) -> JobId {
        let idx = self.names.iter().position(|known| known == name).expect(name);
        JobId(u32::try_from(idx).expect("few jobs"))
    }

    pub fn wish(&self, name: &str, action: Action) {
        self.wishes.borrow_mut().push((Target::Job(self.job(name)), action));
    }

    pub fn wish_for(&self, target: Target, action: Action) {
        self.wishes.borrow_mut().push((target, action));
    }

    /// One turn; false when everything is over.
    pub fn step(&mut self) -> bool {
        self.step_with(|| {})
    }

    /// One turn with something that happens between the decision and the deed.
    pub fn step_with(&mut self, meanwhile: impl FnOnce()) -> bool {
        let Some(turn) = self.host().wait().expect("the host lives") else { return false };
        let sample = self.host().sample(&turn).expect("the host lives");
        let step = self.engine.step(&turn, &sample);
        meanwhile();
        self.refused.extend(step.rejected.iter().cloned());
        let outcomes = self.host().apply(&step.approved);
        self.engine.record_outcomes(&outcomes);
        self.story.push(Scene { turn, sample, outcomes });
        true
    }

    /// Goes on until something holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Play) -> bool) {
        for _ in 0..TURNS_MAX {
            if holds(self) {
                return;
            }
            assert!(self.step(), "the run was over before: {what}\n{}", self.tell());
        }
        panic!("it never came to: {what}\n{}", self.tell());
    }

    /// Whether a task of a job was last seen to run on this CPU.
    pub fn ran_on(&self, name: &str, cpu: Option<base::CpuId>) -> bool {
        let job = self.job(name);
        let mut tasks = self.story.iter().rev().flat_map(|scene| &scene.sample.tasks);
        tasks.find(|task| task.job == job).is_some_and(|task| task.last_cpu == cpu)
    }

    pub fn host(&mut self) -> &mut LaunchHost {
        self.host.as_mut().expect("it was not let go of")
    }

    /// Lets go of the host in the middle of everything: it puts back what it changed, and the jobs live
    /// on. The world stays as long as this does.
    pub fn abandon(&mut self) {
        self.host = None;
    }

    pub fn host_stop(&mut self) {
        Host::stop(self.host());
    }

    /// Goes on to the end.
    pub fn finish(&mut self) {
        for _ in 0..TURNS_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("the run did not end\n{}", self.tell());
    }

    /// The process of a job, once it has begun.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let target = Target::Job(self.job(name));
        let mut outcomes = self.story.iter().rev().flat_map(|told| &told.outcomes);
        outcomes.find_map(|outcome| match outcome.result {
            OutcomeResult::Done { n } if outcome.target == target && outcome.action.is_none() => {
                Some(n)
            }
            _ => None,
        })
    }

    /// Goes on until a job has begun.
    pub fn begin(&mut self, name: &str) -> u32 {
        self.until(name, |play| play.pid(name).is_some());
        self.pid(name).expect("it has begun")
    }

    /// Every outcome about a job's place, in order.
    pub fn places(&self, name: &str) -> Vec<OutcomeResult> {
        let target = Target::Job(self.job(name));
        let outcomes = self.story.iter().flat_map(|told| &told.outcomes);
        let about = outcomes.filter(|o| o.target == target && o.action.is_some());
        about.map(|outcome| outcome.result.clone()).collect()
    }

    pub fn events(&self) -> impl Iterator<Item = &JobEvent> {
        self.story.iter().flat_map(|told| &told.sample.jobs)
    }

    /// How each run of a job ended.
    pub fn ends(&self, name: &str) -> Vec<&JobExit> {
        let job = self.job(name);
        self.events()
            .filter_map(|event| match event {
                JobEvent::Ended(ended, end) if *ended == job => Some(end.as_ref()),
                _ => None,
            })
            .collect()
    }

    /// The story in short, for failures.
    pub fn tell(&self) -> String {
        let mut text = String::new();
        for told in &self.story {
            let quiet = told.sample.jobs.is_empty() && told.outcomes.is_empty();
            if !quiet {
                let (turn, sample) = (&told.turn, &told.sample);
                text += &format!("{:?} {:?} {:?}\n", turn.causes, sample.jobs, told.outcomes);
            }
        }
        text
    }
}

/// A test that fails leaves no programs behind.
impl Drop for Play {
    fn drop(&mut self) {
        if !std::thread::panicking() || self.host.is_none() {
            return;
        }
        Host::stop(self.host());
        for _ in 0..TURNS_MAX {
            match self.host().wait() {
                Ok(Some(turn)) => drop(self.host().sample(&turn)),
                _ => return,
            }
        }
    }
}

/// All CPUs of ours, the first and the last; says so when there is only one.
pub fn two_cpus() -> Option<(CpuSet, CpuSet, CpuSet)> {
    let all = linux::affinity::get(0).expect("own mask");
    if all.len() < 2 {
        println!("not run: needs two CPUs");
        return None;
    }
    let (first, last) = (all.first().into_iter().collect(), all.last().into_iter().collect());
    Some((all, first, last))
}

pub fn mask(tid: u32) -> Option<CpuSet> {
    linux::affinity::get(tid).ok()
}

/// Whether a process is there and has not ended.
pub fn lives(pid: u32) -> bool {
    linux::procfs::stat(Path::new("/"), pid).is_ok_and(|stat| stat.state != 'Z')
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
    let _ = rustix::process::kill_process(pid, signal);
}
