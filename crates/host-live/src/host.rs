//! One turn after another on the machine that we run on.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, NodeId};
use engine::{Approved, Host};
use linux::system::DescriptorLimit;
use linux::undo::{Log, Restored};
use linux::{affinity, mempolicy, system, undo};
use program::{Ending, Job, Workload};
use sched::{Cause, JobEvent, MemoryRules, NodeSample, Outcome, Sample, Turn};
use topology::Machine;

use crate::agenda::{Agenda, Item, Ticks};
use crate::command::{Common, own_environment};
use crate::ending::Straggler;
use crate::family::{Descriptors, Family, Kept, Look};
use crate::keeper::Keeper;
use crate::wakes::{Wake, Wakes};
use crate::{LiveError, LiveOptions};

/// More descriptors than this are of no use to us, and cost the kernel memory.
const DESCRIPTORS_ENOUGH: u64 = 65_536;
/// A sleeping thread is looked at at least this often.
const REST_MAX: Nanos = Nanos::from_secs(2);
/// How often we ask which orphans came to us, and how much memory is free.
const SELDOM: Nanos = Nanos::from_secs(1);
/// So many jobs are started in one turn at the most; the others that are due have the next turn, at
/// once. Between two turns we see signals, ends and loads, however many jobs a workload starts.
const STARTS_PER_TURN: usize = 64;
/// A thousand busy jobs would leave a thousandth of a CPU to the one who is to place them. Where the
/// kernel lets us, we go before them; they have the nice value that we came with.
const OWN_NICE: i32 = -10;
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
    ticks: Option<Ticks>,
    pub(crate) family: Family,
    pub(crate) undo: Result<Log, String>,
    pub(crate) keeper: Option<Keeper>,
    pub(crate) own_cpus: Arc<CpuSet>,
    pub(crate) first_process_of: BTreeMap<u32, JobId>,
    pub(crate) stragglers: BTreeMap<u32, Straggler>,
    pub(crate) stopping: Stopping,
    pub(crate) causes: BTreeSet<Cause>,
    pub(crate) pending: Sample,
    pub(crate) due: Vec<JobId>,
    pub(crate) n_ending_left: usize,
    /// Changes in the undo record that still need a look at what was born meanwhile.
    pub(crate) unconfirmed: Vec<u64>,
    nodes: Vec<NodeFile>,
    woken: Vec<Wake>,
    n_turns: u64,
    seldom_at: Nanos,
    is_first_sample: bool,
    said_ran_out: bool,
    pub(crate) said_blind: bool,
    limit: DescriptorLimit,
    restored: Restored,
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
}

/// How far the stopping of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    No,
    Told,
    Killed,
}

struct NodeFile {
    node: NodeId,
    meminfo: OwnedFd,
    seen: Option<base::Bytes>,
}

impl LiveHost {
    /// Gets ready to run a workload. Leftovers of killed runs are put back first
    /// ([`LiveHost::restored`]). No job is started before the first turn.
    pub fn new(
        workload: Workload,
        machine: &Machine,
        options: LiveOptions,
    ) -> Result<Self, LiveError> {
        let limit = system::raise_descriptors(DESCRIPTORS_ENOUGH);
        let wakes = Wakes::new(options.takes_signals)?;
        let output_dir = absolute(&options.output_dir);
        std::fs::create_dir_all(&output_dir)
            .map_err(|source| LiveError::OutputDir { path: output_dir.clone(), source })?;
        let common = Common {
            folder: absolute(&workload.folder),
            output_dir,
            tool: options.tool.clone().unwrap_or_else(this_program),
            descriptors: limit.inherited,
            nice: go_before(&options),
            dies_with_us: options.die_with_me,
            env: own_environment(),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
        };
        let places = options.undo_folders.clone().unwrap_or_else(undo::folders);
        let restored = undo::restore(&places, false);
        let undo = Log::create_in(&places).map_err(|error| in_one_line(&error));
        let run = undo.as_ref().map_or_else(|_| "none".to_owned(), |log| log.run().to_owned());
        let keeper = match options.die_with_me {
            true => Some(Keeper::start(&common.tool, &run).map_err(LiveError::Keeper)?),
            false => None,
        };
        let descriptors = Descriptors::new(limit.now, workload.jobs.len() as u64);
        let mut host = LiveHost {
            slots: Vec::new(),
            common,
            machine: machine.clone(),
            wakes,
            agenda: Agenda::default(),
            ticks: options.interval.map(Ticks::new),
            family: Family::new(descriptors, run),
            undo,
            keeper,
            own_cpus: Arc::new(affinity::get(0).map_err(LiveError::OwnCpus)?),
            first_process_of: BTreeMap::new(),
            stragglers: BTreeMap::new(),
            stopping: Stopping::No,
            causes: BTreeSet::new(),
            pending: Sample::default(),
            due: Vec::new(),
            n_ending_left: 0,
            unconfirmed: Vec::new(),
            nodes: open_nodes(machine),
            woken: Vec::new(),
            n_turns: 0,
            seldom_at: SELDOM,
            is_first_sample: true,
            said_ran_out: false,
            said_blind: false,
            limit,
            restored,
            options,
        };
        host.take_jobs(workload.jobs);
        // Orphans of jobs come to us and not to the system's first process.
        let own = rustix::process::getpid();
        if rustix::process::set_child_subreaper(Some(own)).is_err() {
            host.degraded("processes whose parent ends cannot be followed: the kernel refused");
        }
        if let Err(error) = &host.undo {
            let text = format!("nothing is placed, because it could not be undone: {error}");
            host.degraded(&text);
        }
        Ok(host)
    }

    /// What the start found left over by killed runs, and did about it.
    pub fn restored(&self) -> &Restored {
        &self.restored
    }

    fn take_jobs(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            self.agenda.add(job.start, Item::Start(job.id));
            self.family.know(&job.name, job.id);
            self.n_ending_left += usize::from(job.ending != Ending::RestartUntilOthersDone);
            self.slots.push(Slot { job, n_runs: 0, state: State::Waiting });
        }
        if let Some(limit) = self.options.time_limit {
            self.agenda.add(limit, Item::TimeLimit);
        }
    }

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
                Wake::Signal => self.told_to_stop(now),
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
        if let Some(ticks) = &mut self.ticks {
            if !any_runs {
                ticks.skip_to(now);
            } else if ticks.take(now) {
                self.causes.insert(Cause::Interval);
                self.look_at_own_cpus();
            }
        }
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
        let tick = self.ticks.as_ref().filter(|_| !self.first_process_of.is_empty());
        let next = [self.agenda.next(), tick.map(Ticks::next)];
        next.into_iter().flatten().min()
    }

    fn new_turn(&mut self) -> Turn {
        let causes = std::mem::take(&mut self.causes).into_iter().collect();
        let turn = Turn { number: self.n_turns, at: self.wakes.now(), causes };
        self.n_turns += 1;
        turn
    }

    fn look(&mut self, turn: &Turn, sample: &mut Sample) {
        let interval = self.options.interval.unwrap_or(REST_MAX).0.max(1);
        let rest_max = (REST_MAX.0 / interval).clamp(1, 8);
        let mut look = Look::default();
        let (slots, own) = (&self.slots, &self.own_cpus);
        let mask = |job: JobId| match slots.get(job.index()).map(|slot| &slot.state) {
            Some(State::Running(running)) => Arc::clone(running.mask_by_birth()),
            _ => Arc::clone(own),
        };
        self.family.look(turn.number, rest_max, mask, &mut look);
        sample.tasks.append(&mut look.tasks);
        sample.gone.append(&mut look.gone);
        for job in look.stirred_jobs {
            self.check_newcomers(job);
        }
        if self.seldom_at <= turn.at {
            self.seldom_at = turn.at + SELDOM;
            self.take_orphans();
            self.confirm_changes();
            sample.nodes = self.look_at_nodes();
        }
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
            if self.is_over() {
                self.put_back();
                return Ok(None);
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
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = self.start_due(plan);
        self.change_running(plan, &mut outcomes);
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

/// Goes before the jobs, if asked to and permitted: the nice value that they get back.
fn go_before(options: &LiveOptions) -> Option<i32> {
    let inherited = system::own_nice();
    let wanted = options.takes_priority && OWN_NICE < inherited;
    (wanted && system::set_own_nice(OWN_NICE).is_ok()).then_some(inherited)
}

fn open_nodes(machine: &Machine) -> Vec<NodeFile> {
    let open = |node: NodeId| {
        let meminfo = system::open_node_meminfo("/".as_ref(), node).ok()?;
        Some(NodeFile { node, meminfo, seen: None })
    };
    machine.nodes().iter().filter_map(|node| open(node.id)).collect()
}

pub(crate) fn absolute(path: &std::path::Path) -> std::path::PathBuf {
    let path = if path.as_os_str().is_empty() { ".".as_ref() } else { path };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The file of this program. When it was replaced since it was started, only the kernel's own link
/// still leads to it.
fn this_program() -> std::path::PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.is_file());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}

pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
