//! The move of a job's memory: one process after another, as one move.

use std::io;
use std::time::Duration;

use base::{Bytes, Nanos, TaskId};
use linux::memory;
use linux::pages::{Mover, Process, Stop, Tally, Wish};
use linux::perf::Heat;
use sched::{MoveEnded, PagesRefused, StoppedBy};

use super::{Manner, MoveOrder, OWN_POLICY};

/// A process is sampled for so long before its memory moves, if it has at least so much.
const HEAT_TIME: Duration = Duration::from_millis(100);
const HEAT_MIN: u64 = 64 << 20;

/// A job's move that is under way.
pub(super) struct JobMove {
    pub order: MoveOrder,
    /// Those that have not begun, the next one last.
    waiting: Vec<TaskId>,
    now: Option<Mover<Process>>,
    began: Nanos,
    manner: Manner,
    sums: Sums,
}

/// What its processes came to.
#[derive(Default)]
struct Sums {
    requested: u64,
    moved: u64,
    refused: PagesRefused,
    left: u64,
    in_kernel: Nanos,
    any_done: bool,
    error: Option<String>,
}

impl JobMove {
    pub fn new(order: MoveOrder, began: Nanos, manner: Manner) -> Self {
        let mut waiting = order.processes.clone();
        waiting.reverse();
        JobMove { order, waiting, now: None, began, manner, sums: Sums::default() }
    }

    /// When it began.
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// Goes on by a batch: how many bytes the kernel was asked for, and how it ended, if it did.
    pub fn step(&mut self, at: Nanos, heat: &Heat) -> (u64, Option<MoveEnded>) {
        let Some(mover) = &mut self.now else { return (0, self.begin_next(at, heat)) };
        let before = mover.asked();
        let tally = mover.step();
        let asked = mover.asked() - before;
        let Some(tally) = tally else { return (asked, None) };
        self.now = None;
        let stop = self.take(tally);
        let ends = !matches!(stop, Stop::Done | Stop::Ended | Stop::Error(_));
        (asked, ends.then(|| self.ended(word(&stop), at)))
    }

    /// The next process; how the move ended when there is none.
    fn begin_next(&mut self, at: Nanos, heat: &Heat) -> Option<MoveEnded> {
        let Some(process) = self.waiting.pop() else {
            let sums = &self.sums;
            let stopped_by = match (&sums.error, sums.any_done) {
                (Some(_), _) => StoppedBy::Error,
                (None, true) => StoppedBy::Done,
                (None, false) => StoppedBy::Ended,
            };
            return Some(self.ended(stopped_by, at));
        };
        let limit = self.order.limit.0;
        if limit != u64::MAX && limit <= self.sums.moved + self.sums.refused.total().0 {
            self.waiting.push(process);
            return Some(self.ended(StoppedBy::Limit, at));
        }
        match self.begin(process, heat) {
            Ok(Some(mover)) => self.now = Some(mover),
            Ok(None) => self.failed(&format!("process {}: {OWN_POLICY}", process.tid)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => self.failed(&refusal(process, &error, "moving its memory")),
        }
        None
    }

    /// Takes hold of a process; `None` when its memory is to stay where it is.
    fn begin(&self, process: TaskId, heat: &Heat) -> io::Result<Option<Mover<Process>>> {
        let reserve_permille = self.manner.options.reserve_permille;
        let memory = Process::open(process.tid, process.born_ticks, reserve_permille)?;
        if self.manner.of_strangers && memory.has_own_policy()? {
            return Ok(None);
        }
        let limit = match self.order.limit.0 {
            u64::MAX => u64::MAX,
            limit => limit - (self.sums.moved + self.sums.refused.total().0),
        };
        let wish = Wish { from: self.order.from, to: self.order.to, limit };
        Mover::new(memory, wish, &hot_of(heat, process.tid)).map(Some)
    }

    fn failed(&mut self, detail: &str) {
        self.sums.error.get_or_insert_with(|| detail.to_owned());
    }

    fn take(&mut self, tally: Tally) -> Stop {
        let sums = &mut self.sums;
        sums.requested = sums.requested.saturating_add(tally.requested);
        sums.moved = sums.moved.saturating_add(tally.moved);
        sums.left = sums.left.saturating_add(tally.left);
        sums.in_kernel = sums.in_kernel.saturating_add(tally.in_kernel);
        sums.any_done |= tally.stop == Stop::Done;
        let refused = tally.refused;
        let more = [
            (&mut sums.refused.busy, refused.busy),
            (&mut sums.refused.no_memory, refused.no_memory),
            (&mut sums.refused.not_there, refused.not_there),
            (&mut sums.refused.not_permitted, refused.not_permitted),
            (&mut sums.refused.elsewhere, refused.elsewhere),
            (&mut sums.refused.gone, refused.gone),
            (&mut sums.refused.other, refused.other),
        ];
        more.into_iter().for_each(|(sum, bytes)| *sum = sum.saturating_add(Bytes(bytes)));
        if let Stop::Error(detail) = &tally.stop {
            let detail = detail.clone();
            self.failed(&detail);
        }
        tally.stop
    }

    /// Ends it here, for a reason of ours.
    pub fn stop(&mut self, by: StoppedBy, at: Nanos) -> MoveEnded {
        if let Some(mut mover) = self.now.take() {
            let tally = mover.end(Stop::Stopped);
            self.take(tally);
        }
        self.ended(by, at)
    }

    fn ended(&mut self, stopped_by: StoppedBy, at: Nanos) -> MoveEnded {
        let (order, sums) = (&self.order, &self.sums);
        MoveEnded {
            target: order.target,
            job: order.job,
            from: order.from,
            to: order.to,
            limit: order.limit,
            requested: Bytes(sums.requested),
            moved: Bytes(sums.moved),
            refused: sums.refused,
            left: Bytes(sums.left),
            took: at.saturating_sub(self.began),
            in_kernel: sums.in_kernel,
            stopped_by,
            detail: sums.error.clone().unwrap_or_default(),
        }
    }
}

/// What a process works on most, which goes first; nothing where addresses are not told, and of a process
/// that goes in a few batches anyway.
fn hot_of(heat: &Heat, pid: u32) -> Vec<(u64, u64)> {
    let is_worth = || memory::resident("/".as_ref(), pid).is_ok_and(|size| HEAT_MIN <= size);
    if heat.is_unknown() || !is_worth() {
        return Vec::new();
    }
    // The order of addresses will do where the kernel does not let us.
    heat.of(pid, HEAT_TIME).unwrap_or_default()
}

/// What refused something, and what to do where something can be done.
pub(super) fn refusal(process: TaskId, error: &io::Error, what: &str) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("; {what} needs its user, or CAP_SYS_PTRACE as root has it")
        }
        _ => String::new(),
    };
    format!("process {}: {error}{hint}", process.tid)
}

fn word(stop: &Stop) -> StoppedBy {
    match stop {
        Stop::Done => StoppedBy::Done,
        Stop::Limit => StoppedBy::Limit,
        Stop::Full => StoppedBy::Full,
        Stop::Ended => StoppedBy::Ended,
        Stop::Stopped => StoppedBy::Stopped,
        Stop::Error(_) => StoppedBy::Error,
    }
}
