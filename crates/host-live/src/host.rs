//! One turn after another on the machine that we run on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use base::{CpuSet, JobId, Nanos};
use engine::{Approved, Host};
use linux::child_exit::{ChildUsage, SigchldGuard};
use linux::system::DescriptorLimit;
use linux::undo::{Log, Restored};
use linux::{fork_latency, system};
use program::Job;
use sched::{Cause, JobEvent, Outcome, PageMoveEnd, Sample, Turn};
use topology::Machine;

use crate::agenda::{Agenda, Ticks};
use crate::cgroups::JobGroups;
use crate::command::Common;
use crate::groups::MonGroups;
use crate::hold::Hold;
use crate::keeper::Keeper;
use crate::leftovers::Straggler;
use crate::look::is_quiet;
use crate::memory::Memory;
use crate::nodes::Nodes;
use crate::orphans::Orphans;
use crate::overflow::Overflow;
use crate::wakes::{Wake, Wakes};
use crate::{LiveError, LiveOptions};
use linux::collectors::LiveCollectors;
use linux::tasks::{KeptFile, TaskReader};

/// A sleeping thread is looked at at least this often.
pub(crate) const REST_MAX: Nanos = Nanos::from_secs(2);
/// Processes that cannot wake us, for want of a descriptor, are asked this often.
pub(crate) const ASK_EVERY: Nanos = Nanos::from_millis(100);

/// Runs the jobs of a workload on the machine that this process runs on.
///
/// It starts each job at its time, follows what the job starts, reads what all of that uses, binds it
/// as approved plans say, and ends what is left over. When it is dropped, everything that it changed
/// and that still lives is put back.
pub struct LiveHost {
    pub(crate) slots: Vec<Slot>,
    pub(crate) options: LiveOptions,
    pub(crate) common: Common,
    pub(crate) machine: Machine,
    pub(crate) wakes: Wakes,
    pub(crate) agenda: Agenda,
    pub(crate) ticks: Option<Ticks>,
    /// What interval turns are held for; absent where they are polled.
    pub(crate) overflow: Option<Overflow>,
    pub(crate) family: TaskReader,
    pub(crate) undo: Result<Log, String>,
    pub(crate) keeper: Option<Keeper>,
    pub(crate) own_cpus: Arc<CpuSet>,
    pub(crate) first_process_of: BTreeMap<u32, JobId>,
    pub(crate) stragglers: BTreeMap<u32, Straggler>,
    pub(crate) orphans: Orphans,
    pub(crate) stopping: Stopping,
    pub(crate) causes: BTreeSet<Cause>,
    pub(crate) pending: Sample,
    pub(crate) due: Vec<JobId>,
    pub(crate) n_ending_left: usize,
    /// Changes in the undo record that still need a look at what was born meanwhile.
    pub(crate) unconfirmed: Vec<u64>,
    pub(crate) nodes: Nodes,
    pub(crate) memory: Memory,
    pub(crate) senses: LiveCollectors,
    pub(crate) groups: MonGroups,
    pub(crate) job_groups: JobGroups,
    pub(crate) woken: Vec<Wake>,
    pub(crate) n_turns: u64,
    pub(crate) seldom_at: Nanos,
    pub(crate) was_quiet: bool,
    /// Whether interval turns are left out until somebody is to be looked at.
    pub(crate) rests: bool,
    pub(crate) rest_until: Nanos,
    /// Whether somebody ran, so that there may be orphans.
    pub(crate) has_stirred: bool,
    pub(crate) orphans_at: Nanos,
    pub(crate) is_first_sample: bool,
    pub(crate) said_ran_out: bool,
    pub(crate) said_blind: bool,
    pub(crate) said_no_weights: bool,
    pub(crate) limit: DescriptorLimit,
    pub(crate) restored: Restored,
    pub(crate) is_record_kept: bool,
    /// Given back when this is dropped.
    pub(crate) _statuses: SigchldGuard,
}

/// A job and where it is in its life.
pub(crate) struct Slot {
    pub job: Job,
    pub n_runs: u32,
    pub state: State,
}

/// Where a job is in its life.
pub(crate) enum State {
    Waiting,
    Due,
    Running(Box<Running>),
    Over,
}

/// A job that runs.
pub(crate) struct Running {
    /// Its first process, whose number its process group has too.
    pub pid: u32,
    /// Wakes us at its end; absent when there was no descriptor left.
    pub ends: Option<KeptFile>,
    pub started: Nanos,
    pub hold: Hold,
    /// When it was told to end.
    pub told: Option<Nanos>,
    /// When it ended, if that is not taken notice of yet.
    pub ended: Option<Nanos>,
    /// What orphans of it used that have ended.
    pub of_orphans: ChildUsage,
    /// Whether it has been said that the terminal stopped it.
    pub said_stopped: bool,
}

/// How far the stopping of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    No,
    Told,
    Killed,
}

impl LiveHost {
    /// Says once what can no longer be done.
    pub(crate) fn degraded(&mut self, text: &str) {
        self.pending.degraded.push(text.to_owned());
    }

    pub(crate) fn slot(&mut self, job: JobId) -> Option<&mut Slot> {
        self.slots.get_mut(job.index())
    }

    pub(crate) fn running(&mut self, job: JobId) -> Option<&mut Running> {
        match &mut self.slot(job)?.state {
            State::Running(running) => Some(running),
            _ => None,
        }
    }

    /// The jobs that run, by number.
    pub(crate) fn running_jobs(&self) -> Vec<JobId> {
        let runs = |slot: &&Slot| matches!(slot.state, State::Running(_));
        self.slots.iter().filter(runs).map(|slot| slot.job.id).collect()
    }

    /// Whether something could not be put back when the run was over: its record stays, and
    /// `evenkeel restore` tries again.
    pub fn is_record_kept(&self) -> bool {
        self.is_record_kept
    }

    fn is_over(&self) -> bool {
        let no_jobs = self.slots.iter().all(|s| matches!(s.state, State::Over));
        no_jobs && self.stragglers.is_empty() && !self.memory.is_moving()
    }

    /// Whoever was being born meanwhile.
    fn release_late(&mut self) {
        let mut jobs = self.running_jobs();
        jobs.retain(|job| match &self.slots[job.index()].state {
            State::Running(running) => running.hold.was_ever_placed(),
            _ => false,
        });
        let parents = jobs.iter().flat_map(|&job| self.family.processes_of(job));
        let longest = fork_latency::max_fork_latency("/".as_ref(), parents.map(|(pid, _)| pid));
        let until = Instant::now() + longest;
        while Instant::now() < until {
            std::thread::sleep(fork_latency::POLL_INTERVAL); // The only time that we wait here: everything is over.
            for &job in &jobs {
                if let Some((hold, mut hands)) = self.grasp(job) {
                    hands.release_late(hold);
                }
            }
        }
    }

    /// Puts back everything that still lives and removes the undo record.
    pub(crate) fn put_back(&mut self) {
        for job in self.running_jobs() {
            self.release_job(job);
        }
        self.release_leftovers();
        self.release_late();
        let mut no_groups = self.groups.end_all(&mut self.undo);
        no_groups &= self.job_groups.end_all(&mut self.undo);
        let none_left = Err("the run is over".to_owned());
        if let Ok(mut log) = std::mem::replace(&mut self.undo, none_left) {
            // With a group that could not be removed the record stays, for restore to try again.
            if !no_groups {
                log.keep();
            }
            self.is_record_kept = log.is_kept();
            // If it cannot be removed, the next start finds it and sees that nothing is left to do.
            let _ = log.remove();
        }
    }
}

impl Host for LiveHost {
    type Error = LiveError;

    fn wait(&mut self) -> Result<Option<Turn>, LiveError> {
        loop {
            self.take_due();
            if !self.causes.is_empty() {
                // Whatever else is there already belongs to the same instant.
                self.wakes.poll(&mut self.woken)?;
                self.take_wakes();
                return Ok(Some(self.new_turn()));
            }
            if self.is_over() && self.nothing_left() {
                self.put_back();
                return Ok(None);
            }
            if !self.causes.is_empty() {
                continue;
            }
            let until = self.next_deadline();
            self.wakes.wait(until, &mut self.woken)?;
            self.take_wakes();
            self.take_due();
            if !self.causes.is_empty() {
                return Ok(Some(self.new_turn()));
            }
        }
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, LiveError> {
        let mut sample = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.is_first_sample) {
            self.first_words(&mut sample);
        }
        if turn.causes.contains(&Cause::Interval) {
            self.look(turn, &mut sample);
            // What the look itself had to say.
            sample.merge_events(std::mem::take(&mut self.pending));
        }
        for event in &sample.jobs {
            if let JobEvent::Unmanaged(job, _) = event {
                self.memory.stop_moves_of(*job, PageMoveEnd::Stopped);
            }
        }
        self.was_quiet = is_quiet(&sample);
        self.has_stirred |= !self.was_quiet;
        self.rest_until = turn.at + REST_MAX;
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.requests().len());
        let started = self.start_due(plan, &mut outcomes);
        self.change_running(plan, &started, &mut outcomes);
        if !started.is_empty() {
            self.follow_overflow();
        }
        self.rests = self.was_quiet && plan.is_quiescent() && self.unconfirmed.is_empty();
        outcomes
    }

    fn stop(&mut self) {
        let now = self.wakes.now();
        if self.stopping == Stopping::No {
            self.told_to_stop(now);
        }
    }
}

impl Drop for LiveHost {
    fn drop(&mut self) {
        self.memory.end();
        self.put_back();
        if let Some(keeper) = self.keeper.take() {
            keeper.dismiss();
        }
        system::lower_descriptors(self.limit);
        if let Some(nice) = self.common.nice {
            // Raising it to what it was cannot be refused.
            let _ = system::set_own_nice(nice);
        }
    }
}

impl Running {
    /// What a process of this job has by birth.
    pub(crate) fn mask_by_birth(&self) -> &Arc<CpuSet> {
        self.hold.mask_by_birth()
    }
}

/// An error and its causes.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
