//! What is looked at in an interval turn: who ran, what else there is now and then, and the nodes.

use std::sync::Arc;

use base::{JobId, Nanos};
use linux::{affinity, mempolicy, system};
use sched::{Cause, Measured, NodeSample, NumaSettings, Sample, Turn};

use crate::host::{LiveHost, REST_MAX, State};
use linux::tasks::{SampleTime, SampledTasks};

/// How often we ask which orphans came to us, and how much memory is free.
pub(crate) const SELDOM: Nanos = Nanos::from_secs(1);
/// How often we ask for orphans at least.
pub(crate) const ORPHANS_MAX: Nanos = Nanos::from_secs(10);

impl LiveHost {
    /// Notices that the CPUs that we may use are others than before: one went offline or came online,
    /// or our cpuset was changed. One cheap call tells all of it.
    pub(crate) fn look_at_own_cpus(&mut self) {
        let Ok(now) = affinity::get(0) else { return };
        if now != *self.own_cpus {
            self.own_cpus = Arc::new(now.clone());
            self.pending.usable_cpus = Some(now);
            self.causes.insert(Cause::CpusChanged);
        }
    }

    pub(crate) fn look(&mut self, turn: &Turn, sample: &mut Sample) {
        let mut look = SampledTasks::default();
        let (slots, own) = (&self.slots, &self.own_cpus);
        let mask = |job: JobId| match slots.get(job.index()).map(|slot| &slot.state) {
            Some(State::Running(running)) => Arc::clone(running.mask_by_birth()),
            _ => Arc::clone(own),
        };
        let interval = self.options.interval.unwrap_or(REST_MAX);
        let when = SampleTime { at: turn.at, interval, rest_max: REST_MAX };
        self.family.sample(when, mask, &mut look);
        sample.tasks.append(&mut look.tasks);
        sample.exited.append(&mut look.exited);
        if !look.changed_jobs.is_empty() {
            self.tell_keeper();
        }
        for job in look.changed_jobs {
            self.check_newcomers(job);
        }
        self.verify_masks(&look.masks_to_verify);
        if self.seldom_at <= turn.at {
            self.seldom_at = turn.at + SELDOM;
            // While nobody runs nobody is orphaned or stopped, except by somebody who was not seen.
            if std::mem::take(&mut self.has_stirred) || self.orphans_at <= turn.at {
                self.orphans_at = turn.at + ORPHANS_MAX;
                self.take_orphans();
                self.say_stopped();
            }
            self.tell_keeper();
            self.confirm_changes();
            sample.nodes = self.nodes.look();
            self.look_at_memory(turn.at);
            self.senses.sample_pressure(sample);
        }
        self.senses.sample(sample);
        self.groups.look(sample);
        self.say_descriptors_ran_out();
        self.say_uncounted();
        self.arm_overflow(turn.at);
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

    /// Says once why tasks are not counted that should be.
    fn say_uncounted(&mut self) {
        let counting = &mut self.family.counters;
        let refused = counting.refused.take();
        let is_shut_out = std::mem::take(&mut counting.is_shut_out);
        let said = self.senses.notes(refused.as_ref(), is_shut_out);
        let of_groups = self.groups.take_said().into_iter().chain(self.job_groups.take_said());
        said.into_iter().chain(of_groups).for_each(|text| self.degraded(&text));
    }

    /// Has memory looked at now and then.
    fn look_at_memory(&mut self, at: Nanos) {
        if self.memory.wants_to_look(at) {
            let jobs = self.running_jobs().into_iter();
            let said = self.memory.look((&self.wakes, &self.family), jobs, at);
            self.pending.degraded.extend(said);
        }
    }

    /// What the helper has told since.
    pub(crate) fn take_memory_news(&mut self, now: Nanos) {
        if self.memory.take_news(&self.family, &mut self.pending, now) {
            self.causes.insert(Cause::MemoryMoved);
        }
    }

    pub(crate) fn first_words(&mut self, sample: &mut Sample) {
        sample.usable_cpus.get_or_insert_with(|| (*self.own_cpus).clone());
        let interleaves = mempolicy::own().is_ok_and(|(interleaves, _)| interleaves);
        let numa_balancing = system::numa_balancing("/".as_ref());
        sample.numa_settings = Some(NumaSettings { numa_balancing, interleaves });
        sample.nodes = self.nodes.look();
        self.senses.sample_pressure(sample);
        self.senses.sample(sample);
    }
}

/// Whether nothing happened that loads could come from. Free memory alone does not count.
pub(crate) fn is_quiet(sample: &Sample) -> bool {
    let is_counted = |node: &NodeSample| node.controller_ops != Measured::Absent;
    let nobody_ran = sample.tasks.is_empty() && sample.exited.is_empty() && sample.jobs.is_empty();
    nobody_ran && sample.usable_cpus.is_none() && !sample.nodes.iter().any(is_counted)
}
