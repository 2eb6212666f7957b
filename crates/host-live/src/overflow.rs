//! Interval turns that are held only where a counter overflowed.
//!
//! ```text
//!   tick      |     |     |     |     |  …  |     the grid of the interval, two seconds of it
//!   counter      ×           ×
//!   turn      |     |           |           |     the tick after an overflow, and the last there may be
//! ```
//!
//! Whole CPUs are counted where that is permitted: then nothing that runs there is missed, other
//! people's programs and evenkeel itself included. Else each thread of the jobs that is known, which
//! new ones are only from the next turn on. What is refused later, when there are others to be
//! counted than before, ends the waiting: from then on every tick has its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, CpuSet, Nanos, TaskId};
use linux::collectors::{counting_rights, identity_of};
use linux::perf::{self, Attr, CounterScope, CounterTarget, Flags, OverflowCounters};
use linux::source::{Live, text};
use sched::{CounterEvent, Wake};

use crate::agenda::Ticks;
use crate::host::{LiveHost, REST_MAX};
use crate::wakes::Wakes;
use linux::tasks::{DescriptorReservation, TaskReader};

/// What interval turns are held for.
#[derive(Debug)]
pub(crate) struct Overflow {
    event: CounterEvent,
    counters: OverflowCounters,
    counted: Counted,
    /// Whether the rings are to be looked at before we sleep.
    may_have: bool,
    /// The tick after an overflow.
    due: Option<Nanos>,
    /// When the last interval turn was.
    looked_at: Nanos,
    /// `perf_event_paranoid` at the start, to tell what would help.
    paranoid: Option<i32>,
}

/// Who is counted, by the attributes of the event.
#[derive(Debug)]
enum Counted {
    Cpus(Vec<Attr>, CpuSet),
    Threads(Vec<Attr>, BTreeMap<TaskId, DescriptorReservation>),
}

impl Overflow {
    /// Gets ready to wait for what a policy wishes; `None` where it wishes to poll.
    ///
    /// # Errors
    /// Why it is polled all the same, as people are told.
    pub(crate) fn open(wake: Wake, cpus: &CpuSet, wakes: &Wakes) -> Result<Option<Self>, String> {
        let Wake::Overflow { event, every } = wake else { return Ok(None) };
        let opened = match Overflow::of_cpus(event, every, cpus) {
            Ok(overflow) => Ok(overflow),
            Err((_, is_a_right)) if is_a_right => Overflow::of_threads(event, every),
            Err((why, _)) => Err(why),
        };
        let overflow = opened.map_err(|why| polls(event, &why))?;
        wakes
            .watch_overflows(&overflow.counters)
            .map_err(|error| polls(event, &error.to_string()))?;
        Ok(Some(overflow))
    }

    /// Counts what happens on these CPUs; or says why not, and whether fewer rights would do for less.
    fn of_cpus(event: CounterEvent, every: u64, cpus: &CpuSet) -> Result<Self, (String, bool)> {
        let mut source = Live::new("/".as_ref());
        let attrs = attrs(&mut source, event, Flags::default()).map_err(|why| (why, false))?;
        let counted = Counted::Cpus(attrs, CpuSet::default());
        let mut overflow =
            Overflow::new(&mut source, event, every, counted).map_err(|why| (why, false))?;
        match overflow.follow_cpus(cpus) {
            Ok(()) => Ok(overflow),
            Err(error) => {
                let is_a_right = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
                Err((overflow.why(&error, CounterScope::Cpu), is_a_right))
            }
        }
    }

    /// Gets ready to count threads, and tries it with this one.
    fn of_threads(event: CounterEvent, every: u64) -> Result<Self, String> {
        let mut source = Live::new("/".as_ref());
        let flags = counting_rights(&mut source)?;
        let attrs = attrs(&mut source, event, flags)?;
        let counted = Counted::Threads(attrs.clone(), BTreeMap::new());
        let mut overflow = Overflow::new(&mut source, event, every, counted)?;
        let tried = overflow.counters.add(&attrs, CounterTarget::Task(0));
        tried.map_err(|error| overflow.why(&error, CounterScope::Task))?;
        overflow.counters.retain(|_| false);
        Ok(overflow)
    }

    fn new(
        source: &mut Live,
        event: CounterEvent,
        every: u64,
        counted: Counted,
    ) -> Result<Self, String> {
        let counters = OverflowCounters::new(every).map_err(|error| error.to_string())?;
        Ok(Overflow {
            event,
            counters,
            counted,
            may_have: false,
            due: None,
            looked_at: Nanos::ZERO,
            paranoid: paranoid(source),
        })
    }

    /// Whether the turn that comes is one after an overflow.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// When the next interval turn is, as far as is known.
    pub(crate) fn next_tick(&self, ticks: &Ticks) -> Nanos {
        self.due.unwrap_or_else(|| ticks.last_by(self.looked_at + REST_MAX))
    }

    /// Counts those who are there now, and nobody else.
    fn follow(&mut self, cpus: &CpuSet, family: &TaskReader) -> Result<(), String> {
        let need = match self.counted {
            Counted::Cpus(..) => CounterScope::Cpu,
            Counted::Threads(..) => CounterScope::Task,
        };
        let followed = match need {
            CounterScope::Cpu => self.follow_cpus(cpus),
            CounterScope::Task => self.follow_threads(family),
        };
        followed.map_err(|error| self.why(&error, need))
    }

    /// What a refusal means. One that is no number of the kernel's says so itself.
    fn why(&self, error: &io::Error, need: CounterScope) -> String {
        match error.raw_os_error() {
            Some(_) => perf::explain_refusal(error, self.paranoid, need),
            None => error.to_string(),
        }
    }

    fn follow_cpus(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let Counted::Cpus(attrs, known) = &mut self.counted else { return Ok(()) };
        if known == cpus {
            return Ok(());
        }
        let is_left = |whom| matches!(whom, CounterTarget::Cpu(cpu) if cpus.contains(CpuId(cpu)));
        self.counters.retain(is_left);
        for cpu in cpus.iter() {
            match self.counters.add(attrs, CounterTarget::Cpu(cpu.0)) {
                // Offline since we asked; it is not one of ours in the next turn.
                Err(error) if is_offline(&error) && !self.counters.is_empty() => {}
                added => added?,
            }
        }
        *known = cpus.clone();
        Ok(())
    }

    fn follow_threads(&mut self, family: &TaskReader) -> io::Result<()> {
        let Counted::Threads(attrs, known) = &mut self.counted else { return Ok(()) };
        let there: BTreeSet<TaskId> = family.thread_ids().collect();
        let mut gone: Vec<u32> = Vec::new();
        known.retain(|id, _| {
            let stays = there.contains(id);
            gone.extend((!stays).then_some(id.tid));
            stays
        });
        // A number may have been given anew since: what counted the one who is gone counts nobody.
        self.counters
            .retain(|whom| !matches!(whom, CounterTarget::Task(tid) if gone.contains(&tid)));
        for id in there {
            if known.contains_key(&id) {
                continue;
            }
            let none_left = || io::Error::from_raw_os_error(libc::EMFILE);
            let held = family.descriptors.reserve(attrs.len()).ok_or_else(none_left)?;
            match self.counters.add(attrs, CounterTarget::Task(id.tid)) {
                Err(error) if error.raw_os_error() == Some(perf::TASK_EXITED) => {}
                added => {
                    added?;
                    known.insert(id, held);
                }
            }
        }
        Ok(())
    }
}

impl LiveHost {
    /// We were woken because a counter may have overflowed.
    pub(crate) fn woken_by_overflow(&mut self) {
        let Some(overflow) = &mut self.overflow else { return };
        overflow.may_have = true;
        if overflow.counters.any() {
            return;
        }
        // It was the end of a thread that was counted: we wait on.
        let armed = overflow.counters.rearm().and(self.wakes.watch_overflows(&overflow.counters));
        if let Err(error) = armed {
            self.poll_instead(&error.to_string());
        }
    }

    /// Takes notice of an overflow: the next tick is due.
    pub(crate) fn note_overflow(&mut self, now: Nanos) {
        let (Some(overflow), Some(ticks)) = (&mut self.overflow, &self.ticks) else { return };
        let looks = std::mem::take(&mut overflow.may_have);
        if looks && overflow.due.is_none() && overflow.counters.any() {
            overflow.due = Some(ticks.from(now));
        }
    }

    /// At the end of an interval turn: counters go on, and the next overflow wakes us again.
    pub(crate) fn arm_overflow(&mut self, at: Nanos) {
        self.follow_overflow();
        let Some(overflow) = &mut self.overflow else { return };
        (overflow.due, overflow.looked_at) = (None, at);
        let armed = overflow.counters.rearm().and(self.wakes.watch_overflows(&overflow.counters));
        // What overflowed meanwhile may be known to the kernel as told.
        overflow.may_have = true;
        if let Err(error) = armed {
            self.poll_instead(&error.to_string());
        }
    }

    /// Counts those who are there now.
    pub(crate) fn follow_overflow(&mut self) {
        let Some(overflow) = &mut self.overflow else { return };
        if let Err(why) = overflow.follow(&self.own_cpus, &self.family) {
            self.poll_instead(&why);
        }
    }

    fn poll_instead(&mut self, why: &str) {
        if let Some(overflow) = self.overflow.take() {
            self.degraded(&polls(overflow.event, why));
        }
    }
}

/// What people are told where waiting for overflows is not possible.
fn polls(event: CounterEvent, why: &str) -> String {
    format!("there is a turn in every interval: {} cannot wake us: {why}", event.name())
}

/// The attributes of a event, one for each kind of core; or why there is none.
fn attrs(source: &mut Live, event: CounterEvent, flags: Flags) -> Result<Vec<Attr>, String> {
    let identity = identity_of(source);
    let mut choice = perf::choose(source, &identity, flags);
    choice.chosen.push(perf::software(flags));
    let all = choice.chosen.iter().flat_map(|chosen| chosen.groups.iter().flatten());
    let attrs: Vec<Attr> = all.filter(|(of, _)| *of == event).map(|(_, attr)| *attr).collect();
    if attrs.is_empty() {
        let told = "it is counted in the kernel only: set perf_event_paranoid to 1 or less, or give \
                    CAP_PERFMON";
        return Err(choice.absent.remove(&event).unwrap_or_else(|| told.to_owned()));
    }
    Ok(attrs)
}

fn paranoid(source: &mut Live) -> Option<i32> {
    text(source, "proc/sys/kernel/perf_event_paranoid").ok()?.parse().ok()
}

fn is_offline(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests;
