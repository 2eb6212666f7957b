//! A test host without a hardware model: jobs need CPU time, CPUs are shared equally, and actions cost nothing. The
//! class of a job determines the operations that the memory controller of its node counts.

use std::collections::BTreeMap;

use base::{Bytes, CpuId, CpuSet, JobId, Nanos, NodeId, Rng, TaskId};
use engine::{Approved, Host};
use program::{Class, Command, Ending, FilePosition, Job};
use sched::{
    Action, Cause, CounterEvent, Counters, ExitStatus, JobEvent, JobExit, NodeSample, NumaSettings,
    Outcome, OutcomeResult, RawCounter, RejectCause, Sample, Target, TaskSample, Turn,
    UnmanagedCause,
};
use topology::Machine;

/// A job and its behaviour.
#[derive(Clone, Debug)]
pub struct Part {
    /// The job.
    pub job: Job,
    /// CPU time of the job.
    pub work: Nanos,
    /// Exit status of the job.
    pub status: ExitStatus,
    /// Error of the start of the job; `None` if the job starts.
    pub broken: Option<String>,
    /// Affinity that another process sets, and the CPU time of the job at that moment.
    pub rebound: Option<(Nanos, CpuSet)>,
}

#[derive(Clone, Debug)]
struct Running {
    started: Nanos,
    cpu: CpuId,
    bound: Option<CpuSet>,
    used: Nanos,
    waited: Nanos,
    n_migrations: u64,
    /// Number of this start on the host, from 1; used as the start time of the task.
    start_number: u64,
}

/// A host with scripted jobs.
#[derive(Clone, Debug)]
pub struct Scripted {
    machine: Machine,
    parts: Vec<Part>,
    running: BTreeMap<JobId, Running>,
    waiting: Vec<JobId>,
    due: Vec<JobId>,
    ended: Vec<(JobId, JobExit)>,
    rebound: Vec<(JobId, CpuSet)>,
    exited: Vec<TaskId>,
    at: Nanos,
    next_interval: Nanos,
    interval: Nanos,
    n_turns: u64,
    n_starts: u64,
    stopping: bool,
    /// Operations of the memory controllers by node; `None`: no counters.
    controller_ops: Option<Vec<u64>>,
    /// Usable CPUs from a time on, in ascending order of time, without the values already sampled.
    usable_changes: Vec<(Nanos, CpuSet)>,
    rng: Rng,
}

impl Scripted {
    /// Creates a host without counters.
    pub fn new(machine: Machine, parts: Vec<Part>, seed: u64) -> Self {
        Scripted {
            waiting: parts.iter().map(|part| part.job.id).collect(),
            parts,
            running: BTreeMap::new(),
            due: Vec::new(),
            ended: Vec::new(),
            rebound: Vec::new(),
            exited: Vec::new(),
            at: Nanos::ZERO,
            next_interval: Nanos::from_millis(250),
            interval: Nanos::from_millis(250),
            n_turns: 0,
            n_starts: 0,
            stopping: false,
            controller_ops: None,
            usable_changes: vec![(Nanos::ZERO, machine.allowed().clone())],
            rng: Rng::new(seed),
            machine,
        }
    }

    /// Adds counters of the memory controllers.
    pub fn with_controllers(self) -> Self {
        Scripted { controller_ops: Some(vec![0; self.machine.nodes().len()]), ..self }
    }

    /// Changes the usable CPUs at this time. Jobs on other CPUs continue until the policy places them.
    pub fn with_usable(mut self, at_ms: u64, cpus: &str) -> Self {
        self.usable_changes.push((Nanos::from_millis(at_ms), cpus.parse().expect("CPUs")));
        self
    }

    /// Returns the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the jobs.
    pub fn jobs(&self) -> Vec<Job> {
        self.parts.iter().map(|part| part.job.clone()).collect()
    }

    fn n_on(&self, cpu: CpuId) -> usize {
        self.running.values().filter(|job| job.cpu == cpu).count()
    }

    fn least_busy(&self, among: &CpuSet) -> CpuId {
        let quiet = among.iter().min_by_key(|&cpu| (self.n_on(cpu), cpu));
        quiet.unwrap_or_default()
    }

    /// Runs all jobs until `to`.
    fn pass(&mut self, to: Nanos) {
        let time = to.saturating_sub(self.at);
        let mut n_on: BTreeMap<CpuId, u64> = BTreeMap::new();
        self.running.values().for_each(|job| *n_on.entry(job.cpu).or_default() += 1);
        for (id, job) in &mut self.running {
            let got = Nanos(time.0 / n_on[&job.cpu]);
            job.used += got;
            job.waited += time.saturating_sub(got);
            if let Some(ops) = &mut self.controller_ops {
                let node = self.machine.cpu(job.cpu).and_then(|cpu| cpu.node).expect("a node");
                let class = self.parts[id.index()].job.class.unwrap_or_default();
                ops[node.index()] += class.controller_ops_per_ms() * got.0 / 1_000_000;
            }
        }
        self.at = to;
    }

    /// Returns the time of the first exit.
    fn first_end(&self) -> Option<Nanos> {
        let end_times = self.running.iter().map(|(id, job)| {
            let need = self.parts[id.index()].work.saturating_sub(job.used);
            Nanos(self.at.0 + need.0 * self.n_on(job.cpu) as u64)
        });
        end_times.min()
    }

    fn finish_jobs(&mut self) {
        let over: Vec<JobId> = self
            .running
            .iter()
            .filter(|(id, job)| self.stopping || self.parts[id.index()].work <= job.used)
            .map(|(&id, _)| id)
            .collect();
        let others_run = self.running.keys().any(|id| !over.contains(id) && !self.restarts(*id))
            || self.waiting.iter().any(|&id| !self.restarts(id));
        for id in over {
            let job = self.running.remove(&id).expect("it was found there");
            let restarts = self.restarts(id) && others_run && !self.stopping;
            let end = self.end_of(id, &job, restarts);
            self.exited.push(task_of(id, job.start_number));
            self.ended.push((id, end));
            if restarts {
                self.due.push(id);
            }
        }
    }

    fn restarts(&self, id: JobId) -> bool {
        self.parts[id.index()].job.ending == Ending::RestartUntilOthersDone
    }

    fn end_of(&self, id: JobId, job: &Running, restarts: bool) -> JobExit {
        let part = &self.parts[id.index()];
        let is_complete = part.work <= job.used;
        JobExit {
            status: if is_complete { part.status } else { ExitStatus::Signaled(15) },
            stopped_by_host: !is_complete,
            restarts,
            oom_killed: false,
            wall: self.at.saturating_sub(job.started),
            user: Nanos(job.used.0 / 10 * 9),
            system: Nanos(job.used.0 / 10),
            max_resident: Bytes::from_mib(8 + 13 * u64::from(id.0 % 7)),
            wait: Some(job.waited),
            blocked: None,
            n_migrations: Some(job.n_migrations),
            counters: Counters::NONE
                .with(CounterEvent::PageFaults, RawCounter::unmultiplexed(job.used.0 / 50_000))
                .with(
                    CounterEvent::ContextSwitches,
                    RawCounter::unmultiplexed(job.used.0 / 4_000_000),
                ),
            traffic: None,
            n_remaining: 0,
        }
    }

    /// Moves unbound jobs to CPUs with fewer jobs, as a kernel does.
    fn balance(&mut self) {
        let unbound: Vec<JobId> = self
            .running
            .iter()
            .filter(|(_, job)| job.bound.as_ref().is_none_or(|cpus| 1 < cpus.len()))
            .map(|(&id, _)| id)
            .collect();
        for id in unbound {
            let job = &self.running[&id];
            let among = job.bound.clone().unwrap_or_else(|| self.machine.allowed().clone());
            let quiet = self.least_busy(&among);
            let restless = self.rng.below(6) == 0;
            if self.n_on(quiet) + 1 < self.n_on(job.cpu) || restless {
                let job = self.running.get_mut(&id).expect("it runs");
                job.n_migrations += u64::from(job.cpu != quiet);
                job.cpu = quiet;
            }
        }
    }

    fn rebind(&mut self) {
        for (id, job) in &mut self.running {
            let part = &mut self.parts[id.index()];
            if let Some((_, cpus)) = part.rebound.take_if(|(after, _)| *after <= job.used) {
                job.bound = Some(cpus.clone());
                job.cpu = cpus.first().unwrap_or(job.cpu);
                self.rebound.push((*id, cpus));
            }
        }
    }

    fn start(&mut self, id: JobId, plan: &Approved) -> Vec<Outcome> {
        let target = Target::Job(id);
        if let Some(detail) = self.parts[id.index()].broken.clone() {
            let result = OutcomeResult::Rejected { cause: RejectCause::StartFailed, detail };
            return vec![Outcome { target, action: None, result }];
        }
        let bound = plan.for_job(id).find_map(|action| match action {
            Action::Place(cpus) => Some(cpus.clone()),
            _ => None,
        });
        let among = bound.clone().unwrap_or_else(|| self.machine.allowed().clone());
        let cpu = self.least_busy(&among);
        self.n_starts += 1;
        let job = Running {
            started: self.at,
            cpu,
            bound: bound.clone(),
            used: Nanos::ZERO,
            waited: Nanos::ZERO,
            n_migrations: 0,
            start_number: self.n_starts,
        };
        self.running.insert(id, job);
        let done_outcome =
            |action, n| Outcome { target, action, result: OutcomeResult::Done { n } };
        let mut outcomes: Vec<Outcome> =
            bound.into_iter().map(|cpus| done_outcome(Some(Action::Place(cpus)), 1)).collect();
        outcomes.extend(plan.for_job(id).filter_map(|action| match action {
            Action::MemoryPolicy(policy) => {
                Some(done_outcome(Some(Action::MemoryPolicy(policy.clone())), 1))
            }
            _ => None,
        }));
        outcomes.push(done_outcome(None, 1000 + id.0));
        outcomes
    }

    fn act(&mut self, request: &sched::Request) -> Option<Outcome> {
        let Target::Job(id) = request.target else { return None };
        let job = self.running.get_mut(&id)?;
        let action = match &request.action {
            Action::Place(cpus) => {
                job.bound = Some(cpus.clone());
                if !cpus.contains(job.cpu) {
                    job.cpu = cpus.first()?;
                    job.n_migrations += 1;
                }
                Action::Place(cpus.clone())
            }
            Action::Release => {
                job.bound = None;
                Action::Release
            }
            Action::MemoryPolicy(_) | Action::MovePages { .. } => return None,
        };
        Some(Outcome {
            target: request.target,
            action: Some(action),
            result: OutcomeResult::Done { n: 1 },
        })
    }
}

/// Returns the task of a start of a job.
fn task_of(id: JobId, start_number: u64) -> TaskId {
    TaskId { tid: 1000 + id.0, start_time_ticks: start_number }
}

impl Host for Scripted {
    type Error = std::convert::Infallible;

    fn wait(&mut self) -> Result<Option<Turn>, Self::Error> {
        let over = self.running.is_empty() && self.due.is_empty() && self.waiting.is_empty();
        if self.n_turns != 0 && over {
            return Ok(None);
        }
        let first_due = self.waiting.first().map(|id| self.parts[id.index()].job.start);
        let events = [first_due, self.first_end(), Some(self.next_interval)];
        let to = events.into_iter().flatten().min().unwrap_or(self.at).max(self.at);
        let to = if self.stopping { self.at } else { to };
        self.pass(to);
        self.finish_jobs();
        let mut causes = Vec::new();
        if self.next_interval <= self.at {
            self.next_interval += self.interval;
            self.balance();
            self.rebind();
            causes.push(Cause::Interval);
        }
        while self.waiting.first().is_some_and(|id| self.parts[id.index()].job.start <= self.at) {
            self.due.push(self.waiting.remove(0));
        }
        causes.extend((!self.due.is_empty()).then_some(Cause::JobsDue));
        causes.extend((!self.ended.is_empty()).then_some(Cause::Ended));
        causes.extend(self.stopping.then_some(Cause::Stopping));
        let turn = Turn { number: self.n_turns, at: self.at, causes };
        self.n_turns += 1;
        Ok(Some(turn))
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, Self::Error> {
        let first = turn.number == 0;
        let mut jobs: Vec<JobEvent> =
            self.ended.drain(..).map(|(id, end)| JobEvent::Ended(id, Box::new(end))).collect();
        jobs.extend(
            self.rebound
                .drain(..)
                .map(|(id, cpus)| JobEvent::Unmanaged(id, UnmanagedCause::AffinityChanged(cpus))),
        );
        jobs.extend(self.due.iter().map(|&id| JobEvent::Due(id)));
        let task = |(&id, job): (&JobId, &Running)| TaskSample {
            process: 1000 + id.0,
            cpu_time: job.used,
            wait: Some(job.waited),
            last_cpu: Some(job.cpu),
            ..TaskSample::new(task_of(id, job.start_number), id)
        };
        let node = |(idx, ops): (usize, &u64)| NodeSample {
            controller_ops: Some(RawCounter::unmultiplexed(*ops)),
            counter_bits: 64,
            ..NodeSample::new(NodeId(idx as u32))
        };
        let interval = turn.causes.contains(&Cause::Interval);
        let is_due = self.usable_changes.first().is_some_and(|(from, _)| *from <= turn.at);
        Ok(Sample {
            jobs,
            tasks: self.running.iter().filter(|_| interval).map(task).collect(),
            exited: self.exited.drain(..).collect(),
            nodes: self.controller_ops.iter().flatten().enumerate().map(node).collect(),
            usable_cpus: is_due.then(|| self.usable_changes.remove(0).1),
            numa_settings: first.then(NumaSettings::default),
            ..Sample::default()
        })
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let due: Vec<JobId> = self.due.drain(..).collect();
        let mut outcomes: Vec<Outcome> = due.iter().flat_map(|&id| self.start(id, plan)).collect();
        let about_others = plan
            .requests()
            .iter()
            .filter(|request| !due.iter().any(|&id| request.target == Target::Job(id)));
        for request in about_others {
            outcomes.extend(self.act(request));
        }
        outcomes
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.waiting.clear();
    }
}

/// Returns a part with exit status 0: name, class, start in ms, CPU time in ms.
pub fn part(id: u32, name: &str, class: Option<u8>, start_ms: u64, work_ms: u64) -> Part {
    let job = Job {
        start: Nanos::from_millis(start_ms),
        class: class.and_then(Class::new),
        origin: FilePosition { file: "scripted.toml".into(), line: 1 + id as usize },
        ..Job::new(
            JobId(id),
            name,
            Command::Load(vec!["hog".to_owned(), format!("--cpu-time={work_ms}ms")]),
        )
    };
    Part {
        job,
        work: Nanos::from_millis(work_ms),
        status: ExitStatus::Exited(0),
        broken: None,
        rebound: None,
    }
}
