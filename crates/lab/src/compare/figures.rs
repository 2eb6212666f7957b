//! What is kept of a run: when each job began and ended, and what the run cost.
//!
//! A journal would keep everything and take most of the time of a simulated run; a comparison needs these
//! few figures, taken out of the turns as they pass.

use std::collections::BTreeMap;
use std::io;

use base::{Nanos, NodeId};
use engine::{Sink, TurnRecord};
use program::{Ending, Job};
use sched::{Action, ExitStatus, JobEvent, NodeSample, Outcome, OutcomeResult, Target};

/// A run's figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// How it ended.
    pub ended: Ended,
    /// What went wrong, if it failed.
    pub error: Option<String>,
    /// From the start of the run to the end of its last job.
    pub whole: Nanos,
    /// Every job, by number.
    pub jobs: Vec<JobFigures>,
    /// How often tasks came to another CPU.
    pub n_migrations: u64,
    /// How often the policy placed a running job, or a task of it, anew.
    pub n_moves: u64,
    /// Bytes of memory that came to another node.
    pub pages_moved_bytes: u64,
    /// What controllers carried.
    pub controllers: Vec<Controller>,
    /// Of a run of the oracle: how the best way was found.
    pub found: Option<Found>,
}

/// How the oracle found the best way to do a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// In words: which way it is.
    pub way: String,
    /// How many placements for the whole run were tried.
    pub n_placements: u64,
    /// Whether those were all that there are.
    pub is_all: bool,
    /// By which part the run ends later than any placement can; none without a bound.
    pub above_bound: Option<f64>,
}

/// How a run of a comparison ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// All jobs ended well.
    #[default]
    Finished,
    /// A job failed, or the policy gave up.
    Failed,
    /// The time limit came.
    Stopped,
}

/// A job's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// When it was started, the first time.
    pub start: Option<Nanos>,
    /// When it ended, the last time.
    pub end: Option<Nanos>,
}

/// What the controllers of a node carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Which; none on a machine that tells of no nodes.
    pub node: Option<NodeId>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Figures {
    /// How long a job took, where that is a figure of the program: it ends by itself, once.
    pub fn time_of(&self, idx: usize, job: &Job) -> Option<Nanos> {
        let figures = self.jobs.get(idx).filter(|_| job.ending == Ending::Exit)?;
        Some(figures.end?.saturating_sub(figures.start?))
    }
}

/// Takes a run's figures out of its turns,
#[derive(Debug)]
pub struct Tally {
    figures: Figures,
    /// What each controller had counted when it was seen first, and how much more since.
    nodes: BTreeMap<NodeId, ([u64; 2], [u64; 2])>,
}

impl Tally {
    /// For a run of so many jobs.
    pub fn new(n_jobs: usize) -> Self {
        let jobs = vec![JobFigures::default(); n_jobs];
        let figures = Figures { jobs, ..Figures::default() };
        Tally { figures, nodes: BTreeMap::new() }
    }

    /// What was seen; memory that moved is what policies moved.
    pub fn into_figures(self) -> Figures {
        let controllers = self.nodes.into_iter().map(|(node, (_, [read_bytes, written_bytes]))| {
            Controller { node: Some(node), read_bytes, written_bytes }
        });
        Figures { controllers: controllers.collect(), ..self.figures }
    }

    fn take(&mut self, at: Nanos, event: &JobEvent) {
        let JobEvent::Ended(job, end) = event else { return };
        self.figures.n_migrations += end.n_migrations.value().unwrap_or(0);
        let failed = !end.stopped_by_host && end.status != ExitStatus::Exited(0);
        if failed {
            self.failed(&format!("job {} failed", job.0));
        }
        if let Some(figures) = self.figures.jobs.get_mut(job.index()) {
            figures.end = Some(at);
        }
        self.figures.whole = self.figures.whole.max(at);
    }

    /// The first thing that went wrong is told.
    fn failed(&mut self, what: &str) {
        self.figures.ended = Ended::Failed;
        self.figures.error.get_or_insert(what.to_owned());
    }

    /// Whatever a controller had counted when it was seen first was not ours.
    fn take_node(&mut self, seen: &NodeSample) {
        let (Some(read), Some(written)) = (seen.read_bytes.value(), seen.written_bytes.value())
        else {
            return;
        };
        let (first, last) = self.nodes.entry(seen.node).or_insert(([read, written], [0, 0]));
        *last = [read.saturating_sub(first[0]), written.saturating_sub(first[1])];
    }
}

/// Whether something was bound that ran already: what is bound in the turn of its start is no move.
fn is_move(outcome: &Outcome, jobs: &[JobFigures], at: Nanos) -> bool {
    let is_place = matches!(outcome.action, Some(Action::Place(_)));
    let is_done = matches!(outcome.result, OutcomeResult::Done { .. });
    let ran = match outcome.target {
        Target::Job(job) => {
            jobs.get(job.index()).and_then(|job| job.start).is_some_and(|start| start < at)
        }
        Target::Task(_) => true,
    };
    is_place && is_done && ran
}

impl Sink for Tally {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let at = record.turn.at;
        record.sample.jobs.iter().for_each(|event| self.take(at, event));
        for outcome in record.outcomes {
            self.figures.n_moves += u64::from(is_move(outcome, &self.figures.jobs, at));
            let (Target::Job(job), None) = (outcome.target, &outcome.action) else {
                continue;
            };
            if let OutcomeResult::Rejected { detail, .. } = &outcome.result {
                self.failed(&format!("job {} could not be started: {detail}", job.0));
            } else if let Some(figures) = self.figures.jobs.get_mut(job.index()) {
                figures.start.get_or_insert(at);
            }
        }
        record.sample.nodes.iter().for_each(|node| self.take_node(node));
        let moved = record.sample.page_moves_completed.iter().map(|moved| moved.moved.0);
        self.figures.pages_moved_bytes += moved.sum::<u64>();
        Ok(())
    }
}
