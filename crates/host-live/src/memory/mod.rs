//! Memory of the jobs: moved and looked at by a helper thread, since both take longer than a turn may.
//!
//! ```text
//!   loop                                helper
//!     │ ── Order: move, stop, look ──►    │  a batch of a move · a look at a process · a pause · …
//!     │ ◄── News, and a wake-up ───────   │
//! ```
//!
//! Only values go between the two. The helper is started with the first order; on a machine with one
//! node there is none. It never starts, binds or ends anything. Both hosts have the same: one for jobs
//! that it started, the other for programs of others, whose own memory policies it respects.

mod helper;
mod job_move;
mod looks;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use base::{Bytes, JobId, Nanos, NodeId, TaskId};
use linux::cgroup::Cgroup;
use linux::fault;
use linux::glance::ProcFolder;
use linux::numa_maps::{ByNode, NodePages};
use rustix::event::{EventfdFlags, eventfd};
use sched::{
    CompletedPageMove, NodeMemory, PageMoveEnd, ProcessMemory, RejectCause, Sample, Target,
};
use topology::Machine;

use crate::hold::{Refused, not_running};
use crate::wakes::Wakes;
use linux::tasks::TaskReader;
use looks::{LOOK_EVERY, Look, Looks};

/// When memory by node is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLooks {
    /// Where several nodes have memory.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never. Moves then know no more of where memory lies than the kernel tells while they go on.
    Off,
}

/// How memory is moved and looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// When memory by node is looked at.
    pub looks: MemoryLooks,
    /// The pace of all moves together, bytes a second.
    pub moves_per_second: Bytes,
    /// How long one move may go on.
    pub move_time_max: Nanos,
    /// The part of a node's memory that moves leave free, in thousandths.
    pub reserve_permille: u16,
    /// The part of one CPU that looks may take, in thousandths.
    pub looks_cpu_permille: u16,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        let limits = engine::MoveLimits::default();
        MemoryOptions {
            looks: MemoryLooks::Auto,
            moves_per_second: limits.per_second,
            move_time_max: Nanos::from_secs(60),
            reserve_permille: limits.reserve_permille,
            looks_cpu_permille: 10,
        }
    }
}

/// A process: its job, number and birth.
pub(crate) type Whose = (JobId, TaskId);

/// What the helper is to do.
#[derive(Debug)]
pub(crate) enum Order {
    Move(MoveOrder),
    /// The moves of a job end here, for this reason.
    Stop(JobId, PageMoveEnd),
    /// Where the memory of these lies.
    Look(Vec<(Whose, Look)>),
}

/// A move of a job's or of one process's memory.
#[derive(Clone, Debug)]
pub(crate) struct MoveOrder {
    pub target: Target,
    pub job: JobId,
    pub processes: Vec<TaskId>,
    pub from: Option<NodeId>,
    pub to: NodeId,
    pub limit: Bytes,
    /// What binds the job's memory, if a group does.
    pub group: Option<Arc<Cgroup>>,
}

/// What a look at a process found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub nodes: ByNode,
    pub permille: u16,
    /// Bytes.
    pub resident: u64,
    pub is_sampled: bool,
    /// It said itself where its memory is to come from.
    pub has_own_policy: bool,
}

/// How the helper works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub options: MemoryOptions,
    /// Between two looks at jobs; absent: nobody looks at them again and again.
    pub interval: Option<Nanos>,
    /// The nice value that it takes: what moves memory goes behind the loop, not before.
    pub nice: Option<i32>,
    /// The processes are not ours: memory that has a policy of its own stays where it is.
    pub of_strangers: bool,
}

/// What the helper has to tell.
#[derive(Debug)]
pub(crate) enum News {
    Moved(CompletedPageMove),
    Lies(Whose, Look, Seen),
    /// All processes of an order were looked at.
    LookedAtAll,
    /// Something cannot be read here.
    Cannot(String),
}

/// The loop's end of it.
struct Helper {
    orders: Option<Sender<Order>>,
    news: Receiver<News>,
    thread: Option<JoinHandle<()>>,
    n_moving: usize,
    is_looking: bool,
}

/// What a host has of it.
pub(crate) struct Memory {
    manner: Manner,
    /// Whether memory is looked at on this machine.
    looks: bool,
    helper: Option<Helper>,
    look_at: Nanos,
    /// When each process is looked at.
    rests: Looks,
    said_cannot: bool,
    /// Processes with memory policies of their own, where those count.
    alone: BTreeSet<TaskId>,
}

impl Helper {
    fn start(wakes: &Wakes, manner: Manner) -> std::io::Result<Helper> {
        fault::refuse("eventfd2")?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        wakes.watch_helper(&*bell)?;
        let (orders, to_helper) = channel();
        let (from_helper, news) = channel();
        let wish = fault::wish();
        fault::refuse("clone3")?;
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
            fault::take_over(wish);
            if let Some(nice) = manner.nice {
                let _ = linux::system::set_own_nice(nice);
            }
            helper::run(&to_helper, helper::Teller::new(from_helper, bell), manner);
        })?;
        let orders = Some(orders);
        Ok(Helper { orders, news, thread: Some(thread), n_moving: 0, is_looking: false })
    }

    fn order(&self, order: Order) -> Result<(), Refused> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent {
            Ok(())
        } else {
            Err((RejectCause::Unsupported, "the helper thread is gone".to_owned()))
        }
    }
}

impl Drop for Helper {
    /// Without an order to wait for the helper stops at the end of the batch that it is in.
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Memory {
    /// Has no helper before it needs one.
    pub(crate) fn new(machine: &Machine, manner: Manner) -> Self {
        let looks = match manner.options.looks {
            MemoryLooks::Auto => 1 < machine.nodes_with_memory().len(),
            MemoryLooks::On => true,
            MemoryLooks::Off => false,
        };
        Memory {
            manner,
            looks,
            helper: None,
            look_at: Nanos::ZERO,
            rests: Looks::new(manner.interval.unwrap_or_default()),
            said_cannot: false,
            alone: BTreeSet::new(),
        }
    }

    /// Begins a move of memory. `is_ours` tells of a job that runs whether we may still touch it.
    pub(crate) fn begin_move(
        &mut self,
        (wakes, family): (&Wakes, &mut TaskReader),
        is_ours: impl FnOnce(JobId) -> Option<bool>,
        target: Target,
        (from, to, limit): (Option<NodeId>, NodeId, Bytes),
        group_of: impl FnOnce(JobId) -> Option<Arc<Cgroup>>,
    ) -> Result<(), Refused> {
        let (job, processes) = meant(family, target).ok_or_else(not_running)?;
        if !is_ours(job).ok_or_else(not_running)? {
            return Err((RejectCause::Unmanaged, "it is not ours to move any more".to_owned()));
        }
        if processes.iter().any(|process| self.alone.contains(process)) {
            return Err((RejectCause::Unmanaged, OWN_POLICY.to_owned()));
        }
        let group = group_of(job);
        if group.is_none() {
            check_cpusets(&processes, to)?; // A group of ours is opened to the target first.
        }
        let order = MoveOrder { target, job, processes, from, to, limit, group };
        self.rests.anew(job);
        let helper = self.helper(wakes)?;
        helper.order(Order::Move(order))?;
        helper.n_moving += 1;
        Ok(())
    }

    fn helper(&mut self, wakes: &Wakes) -> Result<&mut Helper, Refused> {
        if self.helper.is_none() {
            let refuse = |error| (RejectCause::Unsupported, format!("no helper thread: {error}"));
            self.helper = Some(Helper::start(wakes, self.manner).map_err(refuse)?);
        }
        Ok(self.helper.as_mut().expect("it was started above, or was there before"))
    }

    /// The moves of a job end here: its memory stays where it is.
    pub(crate) fn stop_moves_of(&mut self, job: JobId, why: PageMoveEnd) {
        if let Some(helper) = self.helper.as_ref().filter(|helper| helper.n_moving != 0) {
            let _ = helper.order(Order::Stop(job, why));
        }
    }

    /// Whether moves are under way whose end has not been told.
    pub(crate) fn is_moving(&self) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.n_moving != 0)
    }

    /// Moves under way end here, and nothing more is told.
    pub(crate) fn end(&mut self) {
        self.helper = None;
    }

    /// Whether a process said itself where its memory is to come from, as far as that is known and
    /// counts.
    pub(crate) fn leaves_alone(&self, process: TaskId) -> bool {
        self.alone.contains(&process)
    }

    /// Whether it is time to look at memory.
    pub(crate) fn wants_to_look(&self, at: Nanos) -> bool {
        let is_looking = self.helper.as_ref().is_some_and(|helper| helper.is_looking);
        self.looks && !is_looking && self.look_at <= at
    }

    /// A job was placed: its memory may go after it, or comes from elsewhere from now on.
    pub(crate) fn look_anew(&mut self, job: JobId) {
        self.rests.anew(job);
    }

    /// Has the memory of these jobs' processes looked at whose turn it is. What is said is to be told.
    pub(crate) fn look(
        &mut self,
        (wakes, family): (&Wakes, &TaskReader),
        jobs: impl Iterator<Item = JobId>,
        at: Nanos,
    ) -> Option<String> {
        self.look_at = at + LOOK_EVERY;
        let task = |(pid, born_ticks)| TaskId { tid: pid, start_time_ticks: born_ticks };
        let mut whose = Vec::new();
        for job in jobs {
            let its = family.processes_of(job);
            whose.extend(its.map(|(pid, its)| (job, task((pid, its.start_time_ticks)))));
        }
        self.alone.retain(|known| whose.iter().any(|(_, process)| process == known));
        let whose = self.rests.due(whose, at);
        if whose.is_empty() {
            return None;
        }
        let order = self.helper(wakes).and_then(|helper| {
            helper.is_looking = true;
            helper.order(Order::Look(whose))
        });
        order.err().and_then(|(_, detail)| self.cannot_look(&detail))
    }

    /// What the helper has told since; tells whether a move ended.
    pub(crate) fn take_news(
        &mut self,
        family: &TaskReader,
        pending: &mut Sample,
        now: Nanos,
    ) -> bool {
        let mut any_ended = false;
        loop {
            let Some(helper) = &mut self.helper else { return any_ended };
            match helper.news.try_recv() {
                Ok(News::Moved(moved)) => {
                    helper.n_moving = helper.n_moving.saturating_sub(1);
                    self.rests.anew(moved.job);
                    pending.page_moves_completed.push(moved);
                    any_ended = true;
                }
                Ok(News::Lies(whose, how, seen)) => {
                    self.lies(family, whose, (how, seen), pending, now);
                }
                Ok(News::LookedAtAll) => helper.is_looking = false,
                Ok(News::Cannot(detail)) => pending.degraded.extend(self.cannot_look(&detail)),
                Err(TryRecvError::Empty) => return any_ended,
                Err(TryRecvError::Disconnected) => {
                    helper.n_moving = 0; // Nobody will tell how they ended.
                    return any_ended;
                }
            }
        }
    }

    /// Of processes that are still there: what comes too late is nobody's.
    fn lies(
        &mut self,
        family: &TaskReader,
        (job, process): Whose,
        (how, seen): (Look, Seen),
        pending: &mut Sample,
        at: Nanos,
    ) {
        let mut its = family.processes_of(job);
        if !its.any(|(pid, its)| {
            (pid, its.start_time_ticks) == (process.tid, process.start_time_ticks)
        }) {
            return;
        }
        if !self.rests.found((job, process), how, &seen, at) {
            return;
        }
        match self.manner.of_strangers && seen.has_own_policy {
            true => self.alone.insert(process),
            false => self.alone.remove(&process),
        };
        let nodes = seen.nodes.iter().map(|(node, lies)| node_memory(*node, lies)).collect();
        let looked_permille = seen.permille;
        pending.memory.retain(|known| known.process != process);
        pending.memory.push(ProcessMemory {
            job,
            process,
            nodes,
            sampled_permille: looked_permille,
            at,
        });
    }

    /// What is to be said of it, once.
    fn cannot_look(&mut self, detail: &str) -> Option<String> {
        let is_new = !std::mem::replace(&mut self.said_cannot, true);
        is_new.then(|| format!("where memory lies by node cannot be read: {detail}"))
    }
}

/// Why a process's memory is left alone that has a policy.
pub(crate) const OWN_POLICY: &str =
    "it has a memory policy of its own, so its memory stays where it is";

/// A cpuset that leaves a process no memory on the target: the kernel would refuse page after page. Of
/// who cannot be asked the kernel decides.
fn check_cpusets(processes: &[TaskId], to: NodeId) -> Result<(), Refused> {
    let Ok(proc) = ProcFolder::open("/".as_ref()) else { return Ok(()) };
    for process in processes {
        let nodes = proc.status(process.tid).ok().and_then(|standing| standing.nodes);
        if let Some(nodes) = nodes.filter(|nodes| !nodes.contains(to)) {
            let whose = process.tid;
            let detail =
                format!("a cpuset keeps the memory of process {whose} on the nodes {nodes}");
            return Err((RejectCause::OutsideAllowed, detail));
        }
    }
    Ok(())
}

/// The processes that an action is about.
fn meant(family: &mut TaskReader, target: Target) -> Option<(JobId, Vec<TaskId>)> {
    let whole = |(pid, born_ticks)| TaskId { tid: pid, start_time_ticks: born_ticks };
    match target {
        Target::Job(job) => {
            let all = family.processes_of(job).map(|(pid, its)| (pid, its.start_time_ticks));
            Some((job, all.map(whole).collect()))
        }
        Target::Task(task) => {
            let job = family.job_of_task(task)?;
            let (pid, _) = family.thread(job, task)?;
            let mut all = family.processes_of(job);
            let its = all.find(|(known, _)| *known == pid)?.1.start_time_ticks;
            Some((job, vec![whole((pid, its))]))
        }
    }
}

fn node_memory(node: NodeId, lies: &NodePages) -> NodeMemory {
    NodeMemory {
        node,
        small: Bytes(lies.small),
        huge: Bytes(lies.huge),
        file: Bytes(lies.file),
        shared: Bytes(lies.shared),
    }
}
