//! The move of a job's memory: one process after another, as one move.
//!
//! Where a group binds the job's memory, the kernel lets no page go outside of its nodes. So the group
//! is opened to the target first, and when all has arrived the nodes that were left are closed; the
//! kernel itself then moves what was overlooked. A move that ended early leaves it open, since half of
//! the memory still lies there, and says so. It is opened only once a process has been taken hold of:
//! a job whose processes have all ended meanwhile may have started again, and then the group of that
//! name is that of its next run.

use std::io;
use std::time::Duration;

use base::{Bytes, Nanos, NodeId, NodeSet, TaskId};
use linux::cgroup::Cgroup;
use linux::memory;
use linux::pages::{Batch, MoveRequest, MoveStop, MoveTotals, Mover, Process};
use linux::perf::AddressSampling;
use sched::{CompletedPageMove, FailedPages, PageMoveEnd, Target};

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
    /// What its first processes told of the time that pages take.
    learned: Batch,
    /// The nodes of its group before they were widened, and since.
    opened: Option<(NodeSet, NodeSet)>,
}

/// What its processes came to.
#[derive(Default)]
struct Sums {
    requested: u64,
    moved: u64,
    refused: FailedPages,
    left: u64,
    in_kernel: Nanos,
    any_done: bool,
    error: Option<String>,
}

impl JobMove {
    pub fn new(order: MoveOrder, began: Nanos, manner: Manner) -> Self {
        let mut waiting = order.processes.clone();
        waiting.reverse();
        let (sums, learned) = (Sums::default(), Batch::default());
        JobMove { order, waiting, now: None, began, manner, sums, learned, opened: None }
    }

    /// When it began.
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// Goes on by a batch: how many bytes the kernel was asked for, and how it ended, if it did.
    pub fn step(&mut self, at: Nanos, heat: &AddressSampling) -> (u64, Option<CompletedPageMove>) {
        let Some(mover) = &mut self.now else { return (0, self.begin_next(at, heat)) };
        let before = mover.asked();
        let tally = mover.step();
        let asked = mover.asked() - before;
        let Some(tally) = tally else { return (asked, None) };
        self.learned = mover.batch();
        self.now = None;
        let stop = self.take(tally);
        let ends = !matches!(stop, MoveStop::Done | MoveStop::Ended | MoveStop::Error(_));
        (asked, ends.then(|| self.ended(word(&stop), at)))
    }

    /// The next process; how the move ended when there is none.
    fn begin_next(&mut self, at: Nanos, heat: &AddressSampling) -> Option<CompletedPageMove> {
        let Some(process) = self.waiting.pop() else {
            let sums = &self.sums;
            let stopped_by = match (&sums.error, sums.any_done) {
                (Some(_), _) => PageMoveEnd::Error,
                (None, true) => PageMoveEnd::Done,
                (None, false) => PageMoveEnd::Exited,
            };
            return Some(self.ended(stopped_by, at));
        };
        let limit = self.order.limit.0;
        if limit != u64::MAX && limit <= self.sums.moved + self.sums.refused.total().0 {
            self.waiting.push(process);
            return Some(self.ended(PageMoveEnd::Limit, at));
        }
        match self.begin(process, heat) {
            Ok(Some(mover)) => {
                if let Err(error) = self.open_group() {
                    let to = self.order.to;
                    self.failed(&format!("its group cannot have memory of node {to}: {error}"));
                    return Some(self.ended(PageMoveEnd::Error, at));
                }
                self.now = Some(mover);
            }
            Ok(None) => self.failed(&format!("process {}: {OWN_POLICY}", process.tid)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => self.failed(&refusal(process, &error, "moving its memory")),
        }
        None
    }

    /// Takes hold of a process; `None` when its memory is to stay where it is.
    fn begin(&self, process: TaskId, heat: &AddressSampling) -> io::Result<Option<Mover<Process>>> {
        let reserve_permille = self.manner.options.reserve_permille;
        let memory = Process::open(process.tid, process.start_time_ticks, reserve_permille)?;
        if self.manner.of_strangers && memory.has_own_policy()? {
            return Ok(None);
        }
        let limit = match self.order.limit.0 {
            u64::MAX => u64::MAX,
            limit => limit - (self.sums.moved + self.sums.refused.total().0),
        };
        let wish = MoveRequest { from: self.order.from, to: self.order.to, limit };
        let mover = Mover::new(memory, wish, &hot_of(heat, process.tid))?;
        Ok(Some(mover.with_batch(self.learned)))
    }

    fn failed(&mut self, detail: &str) {
        self.sums.error.get_or_insert_with(|| detail.to_owned());
    }

    fn take(&mut self, tally: MoveTotals) -> MoveStop {
        let sums = &mut self.sums;
        sums.requested = sums.requested.saturating_add(tally.requested);
        sums.moved = sums.moved.saturating_add(tally.moved);
        sums.left = sums.left.saturating_add(tally.not_attempted);
        sums.in_kernel = sums.in_kernel.saturating_add(tally.in_kernel);
        sums.any_done |= tally.stop == MoveStop::Done;
        let refused = tally.refused;
        let more = [
            (&mut sums.refused.busy, refused.busy),
            (&mut sums.refused.no_memory, refused.no_memory),
            (&mut sums.refused.not_present, refused.not_there),
            (&mut sums.refused.not_permitted, refused.not_permitted),
            (&mut sums.refused.elsewhere, refused.elsewhere),
            (&mut sums.refused.exited, refused.unmapped),
            (&mut sums.refused.other, refused.other),
        ];
        more.into_iter().for_each(|(sum, bytes)| *sum = sum.saturating_add(Bytes(bytes)));
        if let MoveStop::Error(detail) = &tally.stop {
            let detail = detail.clone();
            self.failed(&detail);
        }
        tally.stop
    }

    /// Ends it here, for a reason of ours.
    pub fn stop(&mut self, by: PageMoveEnd, at: Nanos) -> CompletedPageMove {
        if let Some(mut mover) = self.now.take() {
            let tally = mover.end(MoveStop::Stopped);
            self.take(tally);
        }
        self.ended(by, at)
    }

    /// Lets the group have memory of the target as well.
    fn open_group(&mut self) -> io::Result<()> {
        let Some(group) = self.order.group.as_ref().filter(|_| self.opened.is_none()) else {
            return Ok(());
        };
        let nodes = group.nodes()?;
        let wider = nodes.or(&[self.order.to].into_iter().collect());
        if nodes != wider {
            group.set_nodes(&wider, false).inspect_err(|_| {
                // Whatever the kernel made of it: as it was.
                let _ = group.set_nodes(&nodes, false);
            })?;
        }
        self.opened = Some((nodes, wider));
        Ok(())
    }

    /// Closes the nodes that were left if all has arrived; else says what stays open. Where nobody was
    /// left and nothing has come, the group is as it was, unless somebody else has set it since.
    fn close_group(&mut self, stopped_by: PageMoveEnd) {
        let Some((before, wider)) = self.opened.take() else { return };
        let Some(group) = self.order.group.clone() else { return };
        if stopped_by == PageMoveEnd::Exited {
            if self.sums.moved == 0 && group.nodes().is_ok_and(|nodes| nodes == wider) {
                let _ = group.set_nodes(&before, false); // It may go at this moment.
            }
            return;
        }
        // One process of a job may have gone where the others are not.
        let is_whole =
            stopped_by == PageMoveEnd::Done && matches!(self.order.target, Target::Job(_));
        let closed = if is_whole { close(&group, self.order.from, self.order.to) } else { Ok(()) };
        let open = group.nodes().ok().filter(|nodes| 1 < nodes.len() && !is_whole);
        match (closed, open) {
            (Err(error), _) => {
                self.failed(&format!(
                    "its group cannot be narrowed to node {}: {error}",
                    self.order.to
                ));
            }
            (Ok(()), Some(nodes)) => self.failed(&format!("its group stays open to nodes {nodes}")),
            (Ok(()), None) => {}
        }
    }

    fn ended(&mut self, stopped_by: PageMoveEnd, at: Nanos) -> CompletedPageMove {
        self.close_group(stopped_by);
        let (order, sums) = (&self.order, &self.sums);
        CompletedPageMove {
            target: order.target,
            job: order.job,
            from: order.from,
            to: order.to,
            limit: order.limit,
            requested: Bytes(sums.requested),
            moved: Bytes(sums.moved),
            failed: sums.refused,
            not_attempted: Bytes(sums.left),
            duration: at.saturating_sub(self.began),
            in_kernel: sums.in_kernel,
            stopped_by,
            detail: sums.error.clone().unwrap_or_default(),
        }
    }
}

/// What a process works on most, which goes first; nothing where addresses are not told, and of a process
/// that goes in a few batches anyway.
fn hot_of(heat: &AddressSampling, pid: u32) -> Vec<(u64, u64)> {
    let is_worth = || memory::resident("/".as_ref(), pid).is_ok_and(|size| HEAT_MIN <= size);
    if heat.is_unknown() || !is_worth() {
        return Vec::new();
    }
    // The order of addresses will do where the kernel does not let us.
    heat.hottest_ranges(pid, HEAT_TIME).unwrap_or_default()
}

/// Takes from a group what was left: one node, or all others than the target. The kernel moves what
/// still lies there before it returns.
fn close(group: &Cgroup, from: Option<NodeId>, to: NodeId) -> io::Result<()> {
    let nodes = group.nodes()?;
    let stays = |node: &NodeId| *node == to || from.is_some_and(|from| from != *node);
    let narrow: NodeSet = nodes.iter().filter(stays).collect();
    if narrow == nodes { Ok(()) } else { group.set_nodes(&narrow, true) }
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

fn word(stop: &MoveStop) -> PageMoveEnd {
    match stop {
        MoveStop::Done => PageMoveEnd::Done,
        MoveStop::Limit => PageMoveEnd::Limit,
        MoveStop::Full => PageMoveEnd::Full,
        MoveStop::Ended => PageMoveEnd::Exited,
        MoveStop::Stopped => PageMoveEnd::Stopped,
        MoveStop::Error(_) => PageMoveEnd::Error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use base::JobId;
    use linux::cgroup::{DelegatedCgroup, RunCgroups, Version};

    use super::*;
    use crate::memory::MemoryOptions;

    fn group(root: &Path, nodes: &str) -> Arc<Cgroup> {
        for (file, text) in [("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0-1\n")] {
            std::fs::write(root.join(file), text).expect("written");
        }
        let folder = "/".into();
        let home =
            DelegatedCgroup { version: Version::V1, folder, enables: false, moves_in: false };
        let run = RunCgroups::new(root, home, "3f").expect("a name");
        run.prepare().expect("a folder");
        Arc::new(run.make(0, "job", &nodes.parse().expect("nodes")).expect("a group"))
    }

    fn a_move(group: Option<Arc<Cgroup>>, process: TaskId) -> JobMove {
        let (target, to, limit) = (Target::Job(JobId(0)), NodeId(1), Bytes(u64::MAX));
        let processes = vec![process];
        let order = MoveOrder { target, job: JobId(0), processes, from: None, to, limit, group };
        let options = MemoryOptions::default();
        let manner = Manner { options, interval: None, nice: None, of_strangers: false };
        JobMove::new(order, Nanos::ZERO, manner)
    }

    fn to_its_end(mut this: JobMove) -> CompletedPageMove {
        let mut steps = 0..100_000;
        let ended = steps.find_map(|_| this.step(Nanos::ZERO, &AddressSampling::default()).1);
        ended.expect("every move ends")
    }

    #[test]
    fn the_group_of_a_job_whose_processes_are_gone_is_not_opened() {
        let root = tempfile::tempdir().expect("a folder");
        let group = group(root.path(), "0");
        // Born when nobody was: this process with its number is another.
        let gone = TaskId { tid: std::process::id(), start_time_ticks: 1 };
        let ended = to_its_end(a_move(Some(Arc::clone(&group)), gone));
        assert_eq!(ended.stopped_by, PageMoveEnd::Exited);
        assert_eq!(group.nodes().expect("told").to_string(), "0");
    }

    #[test]
    fn a_group_that_was_opened_for_nothing_is_as_it_was() {
        let root = tempfile::tempdir().expect("a folder");
        let group = group(root.path(), "0");
        let gone = TaskId { tid: std::process::id(), start_time_ticks: 1 };
        let nodes = |group: &Cgroup| group.nodes().expect("told").to_string();
        let mut this = a_move(Some(Arc::clone(&group)), gone);
        this.open_group().expect("opened");
        assert_eq!(nodes(&group), "0-1");
        this.stop(PageMoveEnd::Exited, Nanos::ZERO);
        assert_eq!(nodes(&group), "0");
        // Its next run has the group of that name, with nodes of its own.
        let mut this = a_move(Some(Arc::clone(&group)), gone);
        this.open_group().expect("opened");
        group.set_nodes(&"1".parse().expect("nodes"), false).expect("set");
        this.stop(PageMoveEnd::Exited, Nanos::ZERO);
        assert_eq!(nodes(&group), "1");
    }
}
