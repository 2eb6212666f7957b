//! What a run has come to at some turn: what a new part of a journal begins with.
//!
//! A part must make sense alone once those before it are gone. So it says where every job stands, and
//! repeats the last figures of every task, of which later turns tell only what changed.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuSet, JobId, Nanos, NodeId, TaskId};
use engine::TurnRecord;
use program::Job;
use sched::{
    Action, Deed, End, HandsOff, JobEvent, MemoryRules, NodeSample, Outcome, OutcomeResult, Reason,
    Sample, Target, TaskSample, Why,
};

/// What a run has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoFar {
    /// The last turn that is in it.
    pub number: u64,
    /// When that was.
    pub at: Nanos,
    /// Every job, by number.
    pub jobs: Vec<JobSoFar>,
    /// What people were told.
    pub notes: Vec<Reason>,
    /// What the host could no longer do, in words.
    pub degraded: Vec<String>,
    tasks: BTreeMap<TaskId, TaskSample>,
    nodes: BTreeMap<NodeId, NodeSample>,
    usable: Option<CpuSet>,
    memory_rules: Option<MemoryRules>,
}

/// What a job has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSoFar {
    /// Where it is in its life.
    pub state: LifeState,
    /// When it was started, the last time.
    pub started: Option<Nanos>,
    /// When it ended and how, the last time.
    pub ended: Option<(Nanos, End)>,
    /// How often it was started.
    pub n_starts: u32,
    /// How often it was placed anew while it ran.
    pub n_moves: u32,
    /// Where we put it, while that holds.
    pub placed: Option<CpuSet>,
    /// Why there.
    pub reason: Option<Reason>,
    /// Why it is left alone.
    pub hands_off: Option<HandsOff>,
    /// Why it could not be started.
    pub cannot_start: Option<(Why, String)>,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifeState {
    /// Its time has not come.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It is over.
    Ended,
    /// It could not be started.
    NotStarted,
}

impl SoFar {
    /// Before the first turn.
    pub fn new(jobs: &[Job]) -> Self {
        SoFar { jobs: vec![JobSoFar::default(); jobs.len()], ..SoFar::default() }
    }

    /// Takes a turn in.
    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        (self.number, self.at) = (record.turn.number, record.turn.at);
        self.observe_sample(record.sample);
        self.notes.extend(record.plan.notes.iter().cloned());
        for outcome in record.outcomes {
            if let Target::Job(id) = outcome.target {
                let asked = record.plan.asks.iter().find(|ask| {
                    ask.target == outcome.target && matches!(ask.action, Action::Place(_))
                });
                self.observe_outcome(id, outcome, asked.map(|ask| &ask.reason));
            }
        }
    }

    /// Where one job stands.
    pub fn job(&self, id: JobId) -> Option<&JobSoFar> {
        self.jobs.get(id.index())
    }

    /// The last figures of everything, as one sample that is new from top to bottom. Jobs are
    /// not in it.
    pub fn sample(&self) -> Sample {
        Sample {
            jobs: Vec::new(),
            tasks: self.tasks.values().cloned().collect(),
            gone: Vec::new(),
            nodes: self.nodes.values().cloned().collect(),
            usable: self.usable.clone(),
            memory_rules: self.memory_rules,
            degraded: self.degraded.clone(),
        }
    }

    /// Takes a sample in, whole or of changes.
    pub(crate) fn observe_sample(&mut self, sample: &Sample) {
        sample.jobs.iter().for_each(|event| self.observe_event(event));
        let tasks = sample.tasks.iter().map(|task| (task.task, task.clone()));
        self.tasks.extend(tasks);
        for task in &sample.gone {
            self.tasks.remove(task);
        }
        self.nodes.extend(sample.nodes.iter().map(|node| (node.node, node.clone())));
        self.usable = sample.usable.clone().or_else(|| self.usable.take());
        self.memory_rules = sample.memory_rules.or(self.memory_rules);
        self.degraded.extend(sample.degraded.iter().cloned());
    }

    fn observe_event(&mut self, event: &JobEvent) {
        let at = self.at;
        match event {
            JobEvent::Due(_) => {}
            JobEvent::Ended(id, end) => {
                self.forget_tasks(*id);
                if let Some(job) = self.jobs.get_mut(id.index()) {
                    job.state = LifeState::Ended;
                    job.ended = Some((at, end.clone()));
                    job.placed = None;
                }
            }
            JobEvent::HandsOff(id, why) => {
                if let Some(job) = self.jobs.get_mut(id.index()) {
                    job.hands_off = Some(why.clone());
                }
            }
        }
    }

    /// A host may leave it to the end of a job to say that its tasks are gone.
    fn forget_tasks(&mut self, id: JobId) {
        let gone: BTreeSet<TaskId> =
            self.tasks.values().filter(|task| task.job == id).map(|task| task.task).collect();
        self.tasks.retain(|task, _| !gone.contains(task));
    }

    fn observe_outcome(&mut self, id: JobId, outcome: &Outcome, asked: Option<&Reason>) {
        let at = self.at;
        let Some(job) = self.jobs.get_mut(id.index()) else { return };
        match (&outcome.deed, &outcome.result) {
            (Deed::Start, OutcomeResult::Done { .. }) => {
                (job.state, job.started) = (LifeState::Running, Some(at));
                job.n_starts += 1;
            }
            (Deed::Start, OutcomeResult::Refused { why, detail }) => {
                job.state = LifeState::NotStarted;
                job.cannot_start = Some((*why, detail.clone()));
            }
            (Deed::Place(cpus), OutcomeResult::Done { .. }) => {
                job.n_moves +=
                    u32::from(job.state == LifeState::Running && job.started != Some(at));
                (job.placed, job.reason) = (Some(cpus.clone()), asked.cloned());
            }
            (Deed::Release, OutcomeResult::Done { .. }) => job.placed = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;
    use sched::{ExitStatus, Measured};

    fn task(tid: u32, job: u32, cpu_ns: u64) -> TaskSample {
        TaskSample {
            task: TaskId { tid, born_ticks: 1 },
            process: tid,
            job: JobId(job),
            cpu_time: Nanos(cpu_ns),
            looked_before: None,
            wait: Measured::Absent,
            last_cpu: None,
            llc_misses: Measured::Absent,
        }
    }

    fn told(so_far: &SoFar) -> Vec<(u32, u64)> {
        so_far.sample().tasks.iter().map(|task| (task.task.tid, task.cpu_time.0)).collect()
    }

    #[test]
    fn the_last_figures_of_every_living_task_are_kept_and_no_others() {
        let mut so_far = SoFar { jobs: vec![JobSoFar::default(); 2], ..SoFar::default() };
        let tasks = vec![task(1, 0, 5), task(2, 0, 5), task(3, 1, 5), task(4, 1, 5)];
        so_far.observe_sample(&Sample { tasks, ..Sample::default() });
        let gone = vec![TaskId { tid: 2, born_ticks: 1 }];
        so_far.observe_sample(&Sample { tasks: vec![task(1, 0, 9)], gone, ..Sample::default() });
        assert_eq!(told(&so_far), [(1, 9), (3, 5), (4, 5)]);
        let end = End {
            status: ExitStatus::Exited(0),
            by_us: false,
            again: false,
            wall: Nanos(9),
            user: Nanos(1),
            system: Nanos(1),
            max_resident: Bytes(1),
            wait: Measured::Absent,
            n_migrations: Measured::Absent,
            n_left_behind: 0,
        };
        so_far.observe_sample(&Sample {
            jobs: vec![JobEvent::Ended(JobId(1), end)],
            ..Sample::default()
        });
        assert_eq!(told(&so_far), [(1, 9)], "a job that ended takes its tasks with it");
    }
}
