//! When the next turn is, and why: what woke us, what is due, and the grid of interval turns.

use base::Nanos;
use sched::{Cause, JobEvent, Turn};

use base::JobId;

use crate::agenda::Item;
use crate::host::{LiveHost, State};
use crate::overflow::Overflow;
use crate::wakes::Wake;

/// So many jobs are started in one turn at the most; the others that are due have the next turn, at
/// once. Between two turns we see signals, ends and loads, however many jobs a workload starts.
const STARTS_PER_TURN: usize = 64;

impl LiveHost {
    /// What woke us.
    pub(crate) fn take_wakes(&mut self) {
        let now = self.wakes.now();
        let mut woken = std::mem::take(&mut self.woken);
        for wake in woken.drain(..) {
            match wake {
                Wake::Stop => self.told_to_stop(now),
                Wake::StopAtOnce => self.told_to_stop_at_once(now),
                Wake::Ended(pid) => self.process_ended(pid, now),
                Wake::Helper => self.take_memory_news(now),
                Wake::Overflow => self.woken_by_overflow(),
            }
        }
        self.woken = woken;
    }

    /// What is due by now.
    pub(crate) fn take_due(&mut self) {
        let now = self.wakes.now();
        while self.due.len() < STARTS_PER_TURN
            && let Some(item) = self.agenda.take_due(now)
        {
            self.item(item, now);
        }
        self.note_overflow(now);
        let any_runs = !self.first_process_of.is_empty();
        let next_tick = self.next_tick();
        if let Some(ticks) = &mut self.ticks {
            if !any_runs {
                ticks.skip_to(now);
            } else if next_tick.is_some_and(|tick| tick <= now) {
                ticks.skip_to(now);
                self.causes.insert(Cause::Interval);
                if self.overflow.as_ref().is_some_and(Overflow::is_due) {
                    self.causes.insert(Cause::Overflow);
                }
                self.look_at_own_cpus();
            }
        }
    }

    /// When the next interval turn is; `None` when nothing runs.
    ///
    /// When nothing ran in the last one, and the policy has nothing to do as long as nothing does,
    /// turns are left out until somebody is to be looked at again, and not for longer than that. Where
    /// the policy waits for counters, all are left out until one overflows.
    fn next_tick(&self) -> Option<Nanos> {
        let ticks = self.ticks.as_ref().filter(|_| !self.first_process_of.is_empty())?;
        if let Some(overflow) = &self.overflow {
            return Some(overflow.next_tick(ticks));
        }
        if !self.rests {
            return Some(ticks.next());
        }
        let look_at = self.family.next_sample_at().unwrap_or(self.rest_until);
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

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let next = [self.agenda.next(), self.next_tick()];
        next.into_iter().flatten().min()
    }

    pub(crate) fn new_turn(&mut self) -> Turn {
        let now = self.wakes.now();
        self.take_memory_news(now);
        let causes = std::mem::take(&mut self.causes).into_iter().collect();
        let turn = Turn { number: self.n_turns, at: now, causes };
        self.n_turns += 1;
        turn
    }
}
