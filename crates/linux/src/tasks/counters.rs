//! Counters of the threads of jobs: opened when a thread is found, read when it has run.
//!
//! The first thread of a job that is found has groups that everything it starts inherits, so that
//! children who come and go unseen are counted. All others have groups of their own. What the first
//! one did is the whole less what the others did ([`crate::perf::less`]), so that nothing counts
//! twice; what a child did before it was found counts for the first thread.
//!
//! Files of threads go before counters: those get a descriptor only as long as a quarter of all is
//! left. A thread without is counted by nobody but, if it is a descendant, the first.

use std::collections::BTreeMap;
use std::io;

use crate::perf::{Meter, PmuGroups, TaskGroups, less};
use base::{JobId, TaskId};
use sched::{Counters, TaskSample};

use super::descriptors::DescriptorReservation;
use super::{DescriptorBudget, SampledTasks, TaskReader};

/// Which counters of tasks are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterMode {
    /// The hardware events of each task, with the software events beside them. Without hardware
    /// events only totals: one group of software events per job of a run, or per thread of a watched
    /// program, read when the job or the thread ends. CPU time, wait time and migrations are known
    /// from `/proc` anyway, and each read has a cost.
    #[default]
    Auto,
    /// The software events of each task even without hardware events.
    All,
    /// None.
    Off,
}

/// What is counted of threads, and the first thread of every job.
#[derive(Debug, Default)]
pub struct TaskCounters {
    chosen: Vec<PmuGroups>,
    /// Whether the first thread of a job counts for whatever that starts.
    pub inherits: bool,
    /// Groups are read when their thread or its job is gone, and never before; of jobs that inherit nobody
    /// but the first threads is counted.
    only_totals: bool,
    heads: BTreeMap<JobId, Head>,
    /// What threads that are gone came to, of jobs whose threads count each for itself.
    past: BTreeMap<JobId, Counters>,
    /// The first refusal that nobody was told of yet.
    pub refused: Option<io::Error>,
    /// Whether somebody else holds counters that we wait for.
    pub is_shut_out: bool,
}

/// The thread that counts for whatever its job starts.
#[derive(Debug)]
struct Head {
    task: TaskId,
    shown: Counters,
    /// What the others that are gone came to.
    past: Counters,
}

/// The groups of a thread, open.
#[derive(Debug)]
pub struct ThreadCounters {
    groups: TaskGroups,
    /// What they came to; of the first thread of a job with all that it started.
    meter: Meter,
    /// It is read at the end and never before.
    is_total: bool,
    _held: DescriptorReservation,
}

impl TaskCounters {
    /// Counters that children inherit from the first thread of each job.
    pub fn new(chosen: Vec<PmuGroups>) -> Self {
        TaskCounters { chosen, inherits: true, ..TaskCounters::default() }
    }

    /// The same as a run wishes it. The kernel's own events decide nothing: where there are no
    /// others, one group a job is enough to tell of them, of its first thread and all that it starts,
    /// and enough is to read it at the end: a look at 100 busy jobs costs a third more with it.
    pub fn of_run(chosen: Vec<PmuGroups>, wish: CounterMode) -> Self {
        let only_totals = is_only_told(&chosen, wish);
        TaskCounters { only_totals, ..TaskCounters::new(chosen) }
    }

    /// The same for programs that are watched, each thread by itself: what they start is no part of their
    /// job. The kernel's own events are read when a thread or its job is gone.
    pub fn of_watch(chosen: Vec<PmuGroups>, wish: CounterMode) -> Self {
        let only_totals = is_only_told(&chosen, wish);
        TaskCounters { inherits: false, only_totals, ..TaskCounters::new(chosen) }
    }

    /// Opens the groups of a thread that was found.
    pub(super) fn open(
        &mut self,
        job: JobId,
        id: TaskId,
        descriptors: &mut DescriptorBudget,
    ) -> Option<Box<ThreadCounters>> {
        let has_head = self.heads.contains_key(&job);
        if self.chosen.is_empty() || self.only_totals && self.inherits && has_head {
            return None;
        }
        let n_wanted = self.chosen.iter().flat_map(|chosen| &chosen.groups).map(Vec::len).sum();
        let held = descriptors.reserve(n_wanted)?;
        let is_head = self.inherits && !has_head;
        let (groups, refused) = TaskGroups::open(id.tid, &self.chosen, is_head);
        if let Some(error) = refused {
            descriptors.note_shortage(&error);
            let is_gone = error.raw_os_error() == Some(crate::perf::TASK_EXITED);
            if !is_gone && self.refused.is_none() {
                self.refused = Some(error);
            }
        }
        if groups.is_empty() {
            return None;
        }
        if is_head {
            let head = Head { task: id, shown: Counters::NONE, past: Counters::NONE };
            self.heads.insert(job, head);
        }
        let is_total = self.only_totals;
        Some(Box::new(ThreadCounters { groups, meter: Meter::default(), is_total, _held: held }))
    }

    /// A thread is gone: what it came to is not the first one's.
    fn lose(&mut self, job: JobId, id: TaskId, whole: &Counters) {
        if !self.inherits {
            let past = self.past.entry(job).or_insert(Counters::NONE);
            *past = past.plus(whole);
            return;
        }
        let only_totals = self.only_totals;
        // What the first one did is in what it showed, unless it never showed anything.
        let counts = |head: &&mut Head| only_totals || head.task != id;
        if let Some(head) = self.heads.get_mut(&job).filter(counts) {
            head.past = head.past.plus(whole);
        }
    }

    /// A job is over, or starts again.
    pub(super) fn forget(&mut self, job: JobId) {
        self.heads.remove(&job);
        self.past.remove(&job);
    }
}

/// Whether nobody decides by what is counted, so that it is enough to tell it at the end: it is the kernel's
/// own events alone, and nobody asked for more.
fn is_only_told(chosen: &[PmuGroups], wish: CounterMode) -> bool {
    chosen.iter().all(PmuGroups::is_kernels) && wish == CounterMode::Auto
}

impl ThreadCounters {
    /// Reads the groups where that is done in every look; tells whether somebody else holds what one of
    /// them needs.
    pub(super) fn look(&mut self) -> bool {
        !self.is_total && self.read()
    }

    /// What is told of them in a look.
    pub(super) fn shown(&self) -> Counters {
        if self.is_total { Counters::NONE } else { self.now() }
    }

    /// What they have come to, once the thread is gone: they can be read for as long as they are open.
    pub(super) fn at_end(&mut self) -> Counters {
        if self.is_total {
            self.read();
        }
        self.totals()
    }

    /// Reads the groups: one call each. A group that could not be read this time keeps what it had
    /// counted.
    fn read(&mut self) -> bool {
        let sum = self.groups.read();
        self.meter.take(&sum);
        sum.is_shut_out
    }

    /// What they came to, without those that did not run since the look before and could have.
    fn now(&self) -> Counters {
        self.meter.now()
    }

    /// What they came to.
    pub(super) fn totals(&self) -> Counters {
        self.meter.totals()
    }
}

impl TaskReader {
    /// Reads the first thread of a job a last time: it may have slept while others worked for it.
    pub(super) fn count_head(&mut self, job: JobId, look: &mut SampledTasks) {
        let Some(head) = self.counters.heads.get(&job).map(|head| head.task) else { return };
        let only_totals = self.counters.only_totals;
        if !only_totals && look.tasks.iter().any(|sample| sample.task == head) {
            return; // Just now.
        }
        for (&(_, pid), process) in self.processes.range_mut((job, 0)..=(job, u32::MAX)) {
            let unseen = process.unseen.credited();
            let Some(thread) = process.threads.iter_mut().find(|t| t.id == head) else { continue };
            let Some(counted) = &mut thread.counted else { return };
            let before = counted.totals();
            counted.read();
            if counted.totals() != before && !only_totals {
                look.tasks.push(thread.sample(job, pid, unseen));
            }
            return;
        }
    }

    /// All that a job was counted for, at its end: its first thread counts for what it started too.
    pub(super) fn counted_of(&self, job: JobId) -> Counters {
        let Some(head) = self.counters.heads.get(&job) else { return Counters::NONE };
        let threads = self.processes_of(job).flat_map(|(_, process)| &process.threads);
        let mut heads = threads.filter(|thread| thread.id == head.task);
        let whole = heads.find_map(|thread| Some(thread.counted.as_ref()?.meter.since_opened()));
        whole.unwrap_or_else(|| head.past.plus(&head.shown))
    }

    /// All that a watched job was counted for, each of its threads by itself. It is no job any more.
    pub fn take_counters_of(&mut self, job: JobId) -> Counters {
        let past = self.counters.past.get(&job).copied().unwrap_or(Counters::NONE);
        self.counters.forget(job);
        let threads = self.threads_of(job).filter_map(|(_, thread)| thread.counted.as_mut());
        threads.fold(past, |sum, counted| {
            counted.read();
            sum.plus(&counted.totals())
        })
    }

    /// Settles what the first threads of jobs did themselves, among samples that hold the whole.
    pub(super) fn settle_counters(
        &mut self,
        tasks: &mut [TaskSample],
        gone: &[(JobId, TaskId, Counters)],
    ) {
        for (job, id, whole) in gone {
            self.counters.lose(*job, *id, whole);
        }
        if self.counters.only_totals {
            return; // No sample holds anything.
        }
        for sample in tasks {
            let Some(head) = self.counters.heads.get_mut(&sample.job) else { continue };
            if head.task != sample.task {
                continue;
            }
            let (mut others, mut whole) = (head.past, Counters::NONE);
            let processes = self.processes.range((sample.job, 0)..=(sample.job, u32::MAX));
            for thread in processes.flat_map(|(_, process)| &process.threads) {
                let Some(counted) = &thread.counted else { continue };
                match thread.id == head.task {
                    true => whole = counted.totals(),
                    false => others = others.plus(&counted.totals()),
                }
            }
            head.shown = less(&whole, &others, &head.shown);
            sample.counters = head.shown.where_in(&sample.counters);
        }
    }
}
