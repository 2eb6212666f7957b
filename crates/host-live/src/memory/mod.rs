//! Memory of the jobs: moved and looked at by a helper thread, since both take longer than a turn may.
//!
//! ```text
//!   loop                                helper
//!     │ ── Order: move, stop, look ──►    │  a batch of a move · a look at a process · a pause · …
//!     │ ◄── News, and a wake-up ───────   │
//! ```
//!
//! Only values go between the two. The helper is started with the first order; on a machine with one
//! node there is none. It never starts, binds or ends anything.

mod helper;
mod job_move;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use base::{Bytes, JobId, Nanos, NodeId, TaskId};
use linux::fault;
use linux::numa_maps::{ByNode, Lies};
use rustix::event::{EventfdFlags, eventfd};
use sched::{Cause, MoveEnded, NodeMemory, ProcessMemory, Target, Why};

use crate::hold::{Refused, not_running};
use crate::host::LiveHost;

/// How often memory is looked at, where the share of CPU time that looks may take allows that.
const LOOK_EVERY: Nanos = Nanos::from_secs(2);

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
    /// The moves of a job end here.
    Stop(JobId),
    /// Where the memory of these lies.
    Look(Vec<Whose>),
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
}

/// What the helper has to tell.
#[derive(Debug)]
pub(crate) enum News {
    Moved(MoveEnded),
    Lies(Whose, ByNode, u16),
    /// All processes of an order were looked at.
    LookedAtAll,
    /// Something cannot be read here.
    Cannot(String),
}

/// The loop's end of it.
pub(crate) struct Helper {
    orders: Option<Sender<Order>>,
    news: Receiver<News>,
    thread: Option<JoinHandle<()>>,
    n_moving: usize,
    is_looking: bool,
}

/// What the host keeps of it.
#[derive(Default)]
pub(crate) struct Memory {
    helper: Option<Helper>,
    look_at: Nanos,
    said_cannot: bool,
}

impl Helper {
    fn start(host: &LiveHost) -> std::io::Result<Helper> {
        fault::refuse("eventfd2")?;
        let wakes = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        host.wakes.watch_helper(&*wakes)?;
        let (orders, to_helper) = channel();
        let (from_helper, news) = channel();
        let (wish, options, nice) = (fault::wish(), host.options.memory, host.common.nice);
        fault::refuse("clone3")?;
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
            fault::take_over(wish);
            if let Some(nice) = nice {
                let _ = linux::system::set_own_nice(nice); // What moves memory goes behind, not before.
            }
            helper::run(&to_helper, helper::Teller::new(from_helper, wakes), options);
        })?;
        let orders = Some(orders);
        Ok(Helper { orders, news, thread: Some(thread), n_moving: 0, is_looking: false })
    }

    fn order(&self, order: Order) -> Result<(), Refused> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err((Why::CannotDo, "the helper thread is gone".to_owned())) }
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

impl LiveHost {
    /// Begins a move of memory.
    pub(crate) fn move_pages(
        &mut self,
        target: Target,
        (from, to, limit): (Option<NodeId>, NodeId, Bytes),
    ) -> Result<(), Refused> {
        let (job, processes) = self.processes_of(target).ok_or_else(not_running)?;
        if self.running(job).ok_or_else(not_running)?.hold.hands_off {
            return Err((Why::HandsOff, "it is not ours to move any more".to_owned()));
        }
        let order = MoveOrder { target, job, processes, from, to, limit };
        let helper = self.helper()?;
        helper.order(Order::Move(order))?;
        helper.n_moving += 1;
        Ok(())
    }

    fn processes_of(&mut self, target: Target) -> Option<(JobId, Vec<TaskId>)> {
        let whole = |(pid, born_ticks)| TaskId { tid: pid, born_ticks };
        match target {
            Target::Job(job) => {
                let all = self.family.processes_of(job).map(|(pid, its)| (pid, its.born_ticks));
                Some((job, all.map(whole).collect()))
            }
            Target::Task(task) => {
                let job = self.family.job_of_task(task)?;
                let (pid, _) = self.family.thread(job, task)?;
                let mut all = self.family.processes_of(job);
                let its = all.find(|(known, _)| *known == pid)?.1.born_ticks;
                Some((job, vec![whole((pid, its))]))
            }
        }
    }

    fn helper(&mut self) -> Result<&mut Helper, Refused> {
        if self.memory.helper.is_none() {
            let started = Helper::start(self);
            let refuse = |error| (Why::CannotDo, format!("no helper thread: {error}"));
            self.memory.helper = Some(started.map_err(refuse)?);
        }
        let helper = self.memory.helper.as_mut();
        Ok(helper.expect("it was started above, or was there before"))
    }

    /// A job ended, or is to be left alone: its memory stays where it is.
    pub(crate) fn stop_moves_of(&mut self, job: JobId) {
        if let Some(helper) = self.memory.helper.as_ref().filter(|helper| helper.n_moving != 0) {
            let _ = helper.order(Order::Stop(job));
        }
    }

    /// Whether moves are under way whose end has not been told.
    pub(crate) fn is_moving(&self) -> bool {
        self.memory.helper.as_ref().is_some_and(|helper| helper.n_moving != 0)
    }

    /// Has memory looked at now and then.
    pub(crate) fn look_at_memory(&mut self, at: Nanos) {
        let wanted = match self.options.memory.looks {
            MemoryLooks::Auto => 1 < self.machine.nodes_with_memory().len(),
            MemoryLooks::On => true,
            MemoryLooks::Off => false,
        };
        let is_looking = self.memory.helper.as_ref().is_some_and(|helper| helper.is_looking);
        if !wanted || is_looking || at < self.memory.look_at {
            return;
        }
        self.memory.look_at = at + LOOK_EVERY;
        let mut whose = Vec::new();
        for job in self.running_jobs() {
            let its = self.family.processes_of(job);
            let task = |(pid, born_ticks)| (job, TaskId { tid: pid, born_ticks });
            whose.extend(its.map(|(pid, its)| task((pid, its.born_ticks))));
        }
        let order = self.helper().and_then(|helper| {
            helper.is_looking = true;
            helper.order(Order::Look(whose))
        });
        if let Err((_, detail)) = order {
            self.cannot_look(&detail);
        }
    }

    /// What the helper has told since.
    pub(crate) fn take_memory_news(&mut self, now: Nanos) {
        loop {
            let Some(helper) = &mut self.memory.helper else { return };
            match helper.news.try_recv() {
                Ok(News::Moved(moved)) => {
                    helper.n_moving = helper.n_moving.saturating_sub(1);
                    self.pending.moved.push(moved);
                    self.causes.insert(Cause::MemoryMoved);
                }
                Ok(News::Lies((job, process), lies, permille)) => {
                    self.lies((job, process), &lies, permille, now);
                }
                Ok(News::LookedAtAll) => helper.is_looking = false,
                Ok(News::Cannot(detail)) => self.cannot_look(&detail),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    helper.n_moving = 0; // Nobody will tell how they ended.
                    return;
                }
            }
        }
    }

    /// Of processes that are still there: what comes too late is nobody's.
    fn lies(&mut self, (job, process): Whose, lies: &ByNode, looked_permille: u16, at: Nanos) {
        let mut its = self.family.processes_of(job);
        if its.any(|(pid, its)| (pid, its.born_ticks) == (process.tid, process.born_ticks)) {
            let nodes = lies.iter().map(|(node, lies)| node_memory(*node, lies)).collect();
            let seen = ProcessMemory { job, process, nodes, looked_permille, at };
            self.pending.memory.retain(|known| known.process != process);
            self.pending.memory.push(seen);
        }
    }

    fn cannot_look(&mut self, detail: &str) {
        if !std::mem::replace(&mut self.memory.said_cannot, true) {
            self.degraded(&format!("where memory lies by node cannot be read: {detail}"));
        }
    }
}

fn node_memory(node: NodeId, lies: &Lies) -> NodeMemory {
    NodeMemory {
        node,
        small: Bytes(lies.small),
        huge: Bytes(lies.huge),
        file: Bytes(lies.file),
        shared: Bytes(lies.shared),
    }
}
