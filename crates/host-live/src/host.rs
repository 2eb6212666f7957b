//! One turn after another on the machine that we run on.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, NodeId};
use engine::{Approved, Host};
use linux::reap::{Statuses, Used};
use linux::system::DescriptorLimit;
use linux::undo::{Log, Restored};
use linux::{affinity, mempolicy, system};
use program::Job;
use sched::{Cause, JobEvent, MemoryRules, NodeSample, Outcome, Sample, Turn};
use topology::Machine;

use crate::agenda::{Agenda, Item, Ticks};
use crate::command::Common;
use crate::family::{Family, Kept, Look, When};
use crate::keeper::Keeper;
use crate::leftovers::Straggler;
use crate::orphans::Orphans;
use crate::wakes::{Wake, Wakes};
use crate::{LiveError, LiveOptions};

/// A sleeping thread is looked at at least this often.
pub(crate) const REST_MAX: Nanos = Nanos::from_secs(2);
/// How often we ask which orphans came to us, and how much memory is free.
pub(crate) const SELDOM: Nanos = Nanos::from_secs(1);
/// How often we ask for orphans at least.
pub(crate) const ORPHANS_MAX: Nanos = Nanos::from_secs(10);
/// So many jobs are started in one turn at the most; the others that are due have the next turn, at
/// once. Between two turns we see signals, ends and loads, however many jobs a workload starts.
const STARTS_PER_TURN: usize = 64;
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
    pub(crate) family: Family,
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
    pub(crate) nodes: Vec<NodeFile>,
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
    pub(crate) limit: DescriptorLimit,
    pub(crate) restored: Restored,
    /// Given back when this is dropped.
    pub(crate) _statuses: Statuses,
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
    pub ends: Option<Kept>,
    pub started: Nanos,
    /// The mask that it would have without us.
    pub base: Arc<CpuSet>,
    /// Where we put it.
    pub placed: Option<Arc<CpuSet>>,
    /// All masks that its tasks can have from us.
    pub masks: Vec<Arc<CpuSet>>,
    pub hands_off: bool,
    /// When it was told to end.
    pub told: Option<Nanos>,
    /// When it ended, if that is not taken notice of yet.
    pub ended: Option<Nanos>,
    /// What orphans of it used that have ended.
    pub of_orphans: Used,
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

/// A file that tells a node's free memory.
pub(crate) struct NodeFile {
    pub node: NodeId,
    pub meminfo: OwnedFd,
    pub seen: Option<base::Bytes>,
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

    fn is_over(&self) -> bool {
        self.stragglers.is_empty() && self.slots.iter().all(|s| matches!(s.state, State::Over))
    }

    /// What woke us.
    fn take_wakes(&mut self) {
        let now = self.wakes.now();
        let mut woken = std::mem::take(&mut self.woken);
        for wake in woken.drain(..) {
            match wake {
                Wake::Stop => self.told_to_stop(now),
                Wake::StopAtOnce => self.told_to_stop_at_once(now),
                Wake::Ended(pid) => self.process_ended(pid, now),
            }
        }
        self.woken = woken;
    }

    /// What is due by now.
    fn take_due(&mut self) {
        let now = self.wakes.now();
        while self.due.len() < STARTS_PER_TURN
            && let Some(item) = self.agenda.take_due(now)
        {
            self.item(item, now);
        }
        let any_runs = !self.first_process_of.is_empty();
        let next_tick = self.next_tick();
        if let Some(ticks) = &mut self.ticks {
            if !any_runs {
                ticks.skip_to(now);
            } else if next_tick.is_some_and(|tick| tick <= now) {
                ticks.skip_to(now);
                self.causes.insert(Cause::Interval);
                self.look_at_own_cpus();
            }
        }
    }

    /// When the next interval turn is; `None` when nothing runs.
    ///
    /// When nothing ran in the last one, and the policy has nothing to do as long as nothing does,
    /// turns are left out until somebody is to be looked at again, and not for longer than that.
    fn next_tick(&self) -> Option<Nanos> {
        let ticks = self.ticks.as_ref().filter(|_| !self.first_process_of.is_empty())?;
        if !self.rests {
            return Some(ticks.next());
        }
        let look_at = self.family.next_look().unwrap_or(self.rest_until);
        Some(ticks.around(look_at.min(self.rest_until)))
    }

    fn item(&mut self, item: Item, now: Nanos) {
        match item {
            Item::Start(job) => {
                if let Some(slot) = self.slot(job).filter(|s| matches!(s.state, State::Waiting)) {
                    slot.state = State::Due;
                    self.is_due(job);
                }
            }
            Item::StopAfter(job, n_run) => {
                if self.slot(job).is_some_and(|slot| slot.n_runs == n_run) {
                    self.tell_to_end(job, now);
                }
            }
            Item::TakeEnd(job, n_run) => {
                if self.slot(job).is_some_and(|slot| slot.n_runs == n_run) {
                    self.take_end(job);
                }
            }
            Item::Kill { told } => self.kill_told(told, now),
            Item::Ask => self.ask(now),
            Item::Orphans => self.take_orphans(),
            Item::TimeLimit => self.told_to_stop(now),
        }
    }

    pub(crate) fn is_due(&mut self, job: JobId) {
        self.due.push(job);
        self.pending.jobs.push(JobEvent::Due(job));
        self.causes.insert(Cause::JobsDue);
    }

    /// Notices that the CPUs that we may use are others than before: one went offline or came online,
    /// or our cpuset was changed. One cheap call tells all of it.
    fn look_at_own_cpus(&mut self) {
        let Ok(now) = affinity::get(0) else { return };
        if now != *self.own_cpus {
            self.own_cpus = Arc::new(now.clone());
            self.pending.usable = Some(now);
            self.causes.insert(Cause::CpusChanged);
        }
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let next = [self.agenda.next(), self.next_tick()];
        next.into_iter().flatten().min()
    }

    fn new_turn(&mut self) -> Turn {
        let causes = std::mem::take(&mut self.causes).into_iter().collect();
        let turn = Turn { number: self.n_turns, at: self.wakes.now(), causes };
        self.n_turns += 1;
        turn
    }

    fn look(&mut self, turn: &Turn, sample: &mut Sample) {
        let mut look = Look::default();
        let (slots, own) = (&self.slots, &self.own_cpus);
        let mask = |job: JobId| match slots.get(job.index()).map(|slot| &slot.state) {
            Some(State::Running(running)) => Arc::clone(running.mask_by_birth()),
            _ => Arc::clone(own),
        };
        let interval = self.options.interval.unwrap_or(REST_MAX);
        let when = When { at: turn.at, interval, rest_max: REST_MAX };
        self.family.look(when, mask, &mut look);
        sample.tasks.append(&mut look.tasks);
        sample.gone.append(&mut look.gone);
        if !look.stirred_jobs.is_empty() {
            self.tell_keeper();
        }
        for job in look.stirred_jobs {
            self.check_newcomers(job);
        }
        self.verify_masks(&look.to_verify);
        if self.seldom_at <= turn.at {
            self.seldom_at = turn.at + SELDOM;
            // While nobody runs nobody is orphaned, except by somebody who was not seen either.
            if std::mem::take(&mut self.has_stirred) || self.orphans_at <= turn.at {
                self.orphans_at = turn.at + ORPHANS_MAX;
                self.take_orphans();
            }
            self.tell_keeper();
            self.say_stopped();
            self.confirm_changes();
            sample.nodes = self.look_at_nodes();
        }
        self.say_descriptors_ran_out();
    }

    fn say_descriptors_ran_out(&mut self) {
        if self.family.descriptors.ran_out && !std::mem::replace(&mut self.said_ran_out, true) {
            let n_all = self.family.descriptors.n_all;
            self.degraded(&format!(
                "no more than {n_all} descriptors can be kept for reading: further tasks are read by \
                 opening their files each time, which costs more; raise the hard limit (ulimit -Hn)"
            ));
        }
    }

    fn look_at_nodes(&mut self) -> Vec<NodeSample> {
        let mut changed = Vec::new();
        for file in &mut self.nodes {
            let memory_free = system::node_free(&file.meminfo);
            if memory_free != file.seen {
                file.seen = memory_free;
                changed.push(NodeSample {
                    node: file.node,
                    memory_free,
                    controller_ops: sched::Measured::Absent,
                    counter_bits: 64,
                });
            }
        }
        changed
    }

    fn first_words(&mut self, sample: &mut Sample) {
        sample.usable.get_or_insert_with(|| (*self.own_cpus).clone());
        let interleaves = mempolicy::own().is_ok_and(|(interleaves, _)| interleaves);
        let numa_balancing = system::numa_balancing("/".as_ref());
        sample.memory_rules = Some(MemoryRules { numa_balancing, interleaves });
        sample.nodes = self.look_at_nodes();
    }

    /// Puts back everything that still lives and removes the undo record.
    pub(crate) fn put_back(&mut self) {
        for job in self.running_jobs() {
            self.release_job(job);
        }
        self.release_leftovers();
        let none_left = Err("the run is over".to_owned());
        if let Ok(log) = std::mem::replace(&mut self.undo, none_left) {
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
            let said = std::mem::take(&mut self.pending);
            sample.jobs.extend(said.jobs);
            sample.gone.extend(said.gone);
            sample.degraded.extend(said.degraded);
        }
        self.was_quiet = is_quiet(&sample);
        self.has_stirred |= !self.was_quiet;
        self.rest_until = turn.at + REST_MAX;
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.asks().len());
        let started = self.start_due(plan, &mut outcomes);
        self.change_running(plan, &started, &mut outcomes);
        self.rests = self.was_quiet && plan.rests() && self.unconfirmed.is_empty();
        outcomes
    }

    fn stop(&mut self) {
        let now = self.wakes.now();
        if self.stopping == Stopping::No {
            self.told_to_stop(now);
        }
    }
}

/// Whether nothing happened that loads could come from. Free memory alone does not count.
fn is_quiet(sample: &Sample) -> bool {
    let is_counted = |node: &NodeSample| node.controller_ops != sched::Measured::Absent;
    let nobody_ran = sample.tasks.is_empty() && sample.gone.is_empty() && sample.jobs.is_empty();
    nobody_ran && sample.usable.is_none() && !sample.nodes.iter().any(is_counted)
}

impl Drop for LiveHost {
    fn drop(&mut self) {
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
        self.placed.as_ref().unwrap_or(&self.base)
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
