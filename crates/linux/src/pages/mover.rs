//! One process's memory on its way, a batch at a time.
//!
//! A [`Mover`] stands between batches: who drives it decides when the next is, and may stop it.
//!
//! ```text
//!   step: still the same process? ─► look for pages to move ─► cut at the limit ─► room on the target?
//!         ─► ask ─► pages that the kernel gave up on: ask once more ─► look where all of them lie now
//! ```
//!
//! A block that may be one huge page is asked for by its first address. When only that page went, the
//! block was made of ordinary pages, and the rest of it is asked for too. When the first address was
//! refused the whole block counts as refused: half a huge page is never asked for.
//!
//! A process without a limit that is small enough ([`Batch::n_whole`]) goes whole: one call of the
//! kernel's own for that (`migrate_pages`) for each node that it leaves. It takes pages of files along
//! that nobody else maps, so these count for "small enough". What does not arrive so is asked for as
//! ever, which tells why.

use std::collections::BTreeSet;
use std::io;

use base::{Nanos, NodeId};

use super::batch::Batch;
use super::call::UNWRITTEN;
use super::order::Range;

/// Pages looked at in one call. 16 MiB of ordinary pages.
const WINDOW: u64 = 4096;
/// Windows looked at in one step: whoever drives us wants to know soon.
const WINDOWS_PER_STEP: usize = 64;
/// A refusal that may pass is tried again so often in a row.
const TRIES: u32 = 8;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRequest {
    /// Only what lies there; `None`: what lies anywhere else than on the target.
    pub from: Option<NodeId>,
    /// Where to.
    pub to: NodeId,
    /// At most so many bytes.
    pub limit: u64,
}

/// A process whose memory is moved.
pub trait Memory {
    /// Its own memory, with about how much of each stretch the wish would take along.
    fn ranges(&mut self, wish: &MoveRequest) -> io::Result<Vec<Range>>;
    /// Bytes that the wish would take along and that are in none of the ranges, since the kernel's list
    /// of them was too long: an estimate.
    fn unseen(&self) -> u64;
    /// Whether it is still the same process running the same program.
    fn is_there(&mut self) -> io::Result<bool>;
    /// For each page its node, or a negative error number.
    fn query(&mut self, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()>;
    /// Asks for pages to be moved.
    fn ask(&mut self, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()>;
    /// Moves everything from one node to another in one call, files that nobody else maps too.
    fn whole(&mut self, from: NodeId, to: NodeId) -> io::Result<()>;
    /// All that is resident, pages of files among it; `None` when that is not known.
    fn resident(&mut self) -> Option<u64>;
    /// What may be filled of a node; `None` where that is not known.
    fn room(&mut self, node: NodeId) -> Option<u64>;
    /// The size of ordinary and of transparent huge pages in bytes.
    fn page_sizes(&self) -> (u64, u64);
    /// Time that goes by evenly.
    fn now(&mut self) -> Nanos;
    /// CPU time of whoever moves: what a call takes without its waiting for a CPU, its own or those
    /// that the kernel asks to hand in their pages before each call.
    fn worked(&mut self) -> Nanos;
}

/// What was asked for in vain, in bytes, by the kernel's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "sched::PagesRefused explains the same fields")]
pub struct FailedPageCounts {
    pub busy: u64,
    pub no_memory: u64,
    pub not_there: u64,
    pub not_permitted: u64,
    pub elsewhere: u64,
    pub unmapped: u64,
    pub other: u64,
}

impl FailedPageCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        let known = [self.busy, self.no_memory, self.not_there, self.not_permitted];
        known.into_iter().chain([self.elsewhere, self.unmapped, self.other]).sum()
    }
}

/// Why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveStop {
    /// Everything was asked for.
    Done,
    /// As much as the limit allows was asked for, and there was more.
    Limit,
    /// The target filled up.
    Full,
    /// The process ended, or became another program.
    Ended,
    /// Whoever drives it wanted no more.
    Stopped,
    /// The kernel refused the whole call, and what to do about it.
    Error(String),
}

/// What came of it, in bytes: `requested` = `moved` + `refused` + `left`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveTotals {
    /// What was found to be moved, within the limit.
    pub requested: u64,
    /// What was found on the target afterwards.
    pub moved: u64,
    /// What the kernel was asked for in vain.
    pub refused: FailedPageCounts,
    /// What it was not asked for, or never looked at. An estimate, made before.
    pub not_attempted: u64,
    /// Time inside the calls.
    pub in_kernel: Nanos,
    /// Calls that asked for something.
    pub n_calls: u64,
    /// The longest of them.
    pub longest_call: Nanos,
    /// Why it ended.
    pub stop: MoveStop,
}

/// Something that is asked for at once: a page, or what may be a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    addr: u64,
    bytes: u64,
    /// It may be made of ordinary pages as well.
    may_be_torn: bool,
}

/// A move that is under way.
#[derive(Debug)]
pub struct Mover<M> {
    memory: M,
    wish: MoveRequest,
    ranges: Vec<Range>,
    range_idx: usize,
    cursor: u64,
    /// Found and not asked for yet.
    found: Vec<Unit>,
    batch: Batch,
    /// Whether it may go in one call of the kernel's own; not known before the first step.
    may_go_whole: Option<bool>,
    /// Where what was found lies.
    sources: BTreeSet<NodeId>,
    n_failed: u32,
    moved: u64,
    refused: FailedPageCounts,
    in_kernel: Nanos,
    n_calls: u64,
    longest_call: Nanos,
    status: Vec<i32>,
}

impl<M: Memory> Mover<M> {
    /// A move that has not begun; `hot` is what is to go first.
    ///
    /// # Errors
    /// Where the memory lies cannot be read; a kind of `NotFound` says that the process is gone.
    pub fn new(mut memory: M, wish: MoveRequest, hot: &[(u64, u64)]) -> io::Result<Self> {
        let ranges = memory.ranges(&wish)?;
        let ranges = super::hot_first(&ranges, hot, memory.page_sizes().1);
        let cursor = ranges.first().map_or(0, |range| range.start);
        Ok(Mover {
            memory,
            wish,
            ranges,
            range_idx: 0,
            cursor,
            found: Vec::new(),
            batch: Batch::default(),
            may_go_whole: None,
            sources: BTreeSet::new(),
            n_failed: 0,
            moved: 0,
            refused: FailedPageCounts::default(),
            in_kernel: Nanos::ZERO,
            n_calls: 0,
            longest_call: Nanos::ZERO,
            status: Vec::new(),
        })
    }

    /// The same, with what the move of another process learned of the time that pages take.
    #[must_use]
    pub fn with_batch(self, learned: Batch) -> Self {
        Mover { batch: learned.for_next(), ..self }
    }

    /// What it has learned of that.
    pub fn batch(&self) -> Batch {
        self.batch
    }

    /// About how much is still to be moved, in bytes.
    pub fn ahead(&self) -> u64 {
        let found: u64 = self.found.iter().map(|unit| unit.bytes).sum();
        let ranges = self.ranges.get(self.range_idx..).unwrap_or_default();
        let mut rest: u64 = ranges.iter().skip(1).map(|range| range.to_move).sum();
        if let Some(now) = ranges.first() {
            let left = u128::from(now.end.saturating_sub(self.cursor));
            let share = u128::from(now.to_move) * left / u128::from(now.len().max(1));
            rest += u64::try_from(share).unwrap_or(now.to_move);
        }
        found.saturating_add(rest).min(self.wish.limit.saturating_sub(self.asked()))
    }

    /// What has been asked for, in bytes.
    pub fn asked(&self) -> u64 {
        self.moved + self.refused.total()
    }

    /// Goes on by one batch; how it ended, if it did.
    pub fn step(&mut self) -> Option<MoveTotals> {
        match self.one_batch() {
            Ok(None) => {
                self.n_failed = 0;
                None
            }
            Ok(Some(stop)) => Some(self.end(stop)),
            Err(error) => self.failed(&error).map(|stop| self.end(stop)),
        }
    }

    /// Ends it here.
    pub fn end(&mut self, stop: MoveStop) -> MoveTotals {
        let left = match stop {
            MoveStop::Limit => 0,
            MoveStop::Done => self.memory.unseen(),
            _ => self.ahead().saturating_add(self.memory.unseen()),
        };
        let left = left.min(self.wish.limit.saturating_sub(self.asked()));
        MoveTotals {
            requested: self.asked() + left,
            moved: self.moved,
            refused: self.refused,
            not_attempted: left,
            in_kernel: self.in_kernel,
            n_calls: self.n_calls,
            longest_call: self.longest_call,
            stop,
        }
    }

    fn one_batch(&mut self) -> io::Result<Option<MoveStop>> {
        if !self.memory.is_there()? {
            return Ok(Some(MoveStop::Ended));
        }
        let is_whole = self.may_go_whole();
        self.find()?;
        let is_over = self.ranges.len() <= self.range_idx;
        if self.found.is_empty() {
            return Ok(is_over.then_some(MoveStop::Done));
        }
        if is_whole && !is_over {
            // It goes whole when all of it was looked at; in batches if that is more than was said.
            self.may_go_whole = Some(self.n_found() < self.whole_max());
            return Ok(None);
        }
        let units = self.take_batch();
        if units.is_empty() {
            return Ok(Some(MoveStop::Limit));
        }
        let bytes: u64 = units.iter().map(|unit| unit.bytes).sum();
        if self.memory.room(self.wish.to).is_some_and(|room| room < bytes) {
            self.put_back(&units);
            // Of what is too much in one call a part may have room.
            let was_whole = self.may_go_whole.replace(false) == Some(true);
            return Ok((!was_whole).then_some(MoveStop::Full));
        }
        let no_memory_before = self.refused.no_memory;
        self.carry(units)?;
        let is_full = no_memory_before != self.refused.no_memory;
        Ok(is_full.then_some(MoveStop::Full))
    }

    fn n_found(&self) -> u64 {
        self.found.iter().map(|unit| unit.bytes).sum()
    }

    /// A process that has no more may go in one call.
    fn whole_max(&self) -> u64 {
        self.batch.n_whole() as u64 * self.memory.page_sizes().0
    }

    /// Decided before the first call, and no more after it.
    fn may_go_whole(&mut self) -> bool {
        if let Some(known) = self.may_go_whole {
            return known;
        }
        let resident = self.memory.resident();
        let is_small = resident.is_some_and(|resident| resident <= self.whole_max());
        *self.may_go_whole.insert(is_small && self.wish.limit == u64::MAX)
    }

    /// Bytes of a batch.
    fn enough(&self) -> u64 {
        match self.may_go_whole {
            Some(true) => self.whole_max(),
            _ => self.batch.n_pages() as u64 * self.memory.page_sizes().0,
        }
    }

    /// Looks for pages until there are enough for a batch.
    fn find(&mut self) -> io::Result<()> {
        let enough = self.enough();
        for _ in 0..WINDOWS_PER_STEP {
            let found = self.n_found();
            let Some(range) = self.ranges.get(self.range_idx).copied() else { break };
            if enough <= found {
                break;
            }
            let end = self.window_end(&range);
            let pages: Vec<u64> = (self.cursor..end).step_by(range.page_size as usize).collect();
            self.memory.query(&pages, &mut self.status)?;
            self.pick(&range, &pages);
            self.cursor = end;
            if range.end <= end {
                self.range_idx += 1;
                self.cursor = self.ranges.get(self.range_idx).map_or(0, |next| next.start);
            }
        }
        Ok(())
    }

    /// A window ends where a huge page could begin.
    fn window_end(&self, range: &Range) -> u64 {
        let (page, huge) = self.memory.page_sizes();
        let bytes = (WINDOW * page).max(2 * huge).max(range.page_size);
        let end = self.cursor.saturating_add(bytes);
        let end = if range.may_be_huge { end - end % huge } else { end };
        let end = end - (end - range.start) % range.page_size;
        end.max(self.cursor + range.page_size).min(range.end)
    }

    fn pick(&mut self, range: &Range, pages: &[u64]) {
        let (_, huge) = self.memory.page_sizes();
        let to_move = |status: i32| {
            let node = u32::try_from(status).ok().map(NodeId);
            node.is_some_and(|node| match self.wish.from {
                Some(from) => node == from,
                None => node != self.wish.to,
            })
        };
        let n_of_block = (huge / range.page_size) as usize;
        let moving = self.status.iter().copied().filter(|status| to_move(*status));
        self.sources.extend(moving.map(|status| NodeId(status.unsigned_abs())));
        let mut at = 0;
        while at < pages.len() {
            let block = self.status.get(at..at + n_of_block);
            let is_block = range.may_be_huge && 1 < n_of_block && pages[at].is_multiple_of(huge);
            let is_whole = |block: &[i32]| block.iter().all(|&status| status == block[0]);
            if is_block && block.is_some_and(|block| is_whole(block) && to_move(block[0])) {
                self.found.push(Unit { addr: pages[at], bytes: huge, may_be_torn: true });
                at += n_of_block;
                continue;
            }
            if to_move(self.status[at]) {
                let (addr, bytes) = (pages[at], range.page_size);
                self.found.push(Unit { addr, bytes, may_be_torn: false });
            }
            at += 1;
        }
    }

    /// As many as a batch takes and the limit allows. A huge page that is too much for the limit ends
    /// the move: it goes whole or stays.
    fn take_batch(&mut self) -> Vec<Unit> {
        let enough = self.enough();
        let allowed = self.wish.limit.saturating_sub(self.asked());
        let (mut sum, mut n_units) = (0u64, 0);
        for unit in &self.found {
            if allowed < sum + unit.bytes || (n_units != 0 && enough < sum + unit.bytes) {
                break;
            }
            sum += unit.bytes;
            n_units += 1;
        }
        self.found.drain(..n_units).collect()
    }

    fn put_back(&mut self, units: &[Unit]) {
        self.found.splice(0..0, units.iter().copied());
    }

    /// Asks for a batch and counts what came of it.
    fn carry(&mut self, units: Vec<Unit>) -> io::Result<()> {
        let began = self.memory.worked();
        let goes_whole = self.may_go_whole.replace(false) == Some(true);
        let asked = if goes_whole { self.ask_whole(&units) } else { self.ask(&units) };
        let answers = match asked {
            Ok(answers) => answers,
            Err(error) => {
                self.put_back(&units);
                return Err(error);
            }
        };
        let n_bytes: u64 = units.iter().map(|unit| unit.bytes).sum();
        let took = self.memory.worked().saturating_sub(began);
        let (page, _) = self.memory.page_sizes();
        self.batch.learn((n_bytes / page) as usize, took);
        let torn = self.count(&units, &answers);
        if torn.is_empty() {
            return Ok(());
        }
        // Smaller pages than thought: they come next, ordinary ones now.
        self.put_back(&torn);
        Ok(())
    }

    /// Everything in one call for each node that it lies on; then what has not arrived, page by page.
    fn ask_whole(&mut self, units: &[Unit]) -> io::Result<Vec<i32>> {
        for from in std::mem::take(&mut self.sources) {
            let began = self.memory.now();
            if self.memory.whole(from, self.wish.to).is_err() {
                break;
            }
            self.called(began);
        }
        let there = self.wish.to.0 as i32;
        let lies = self.look(&units.iter().map(|unit| unit.addr).collect::<Vec<_>>());
        let has_come = |idx: usize| lies.get(idx) == Some(&there);
        let open: Vec<usize> = (0..units.len()).filter(|&idx| !has_come(idx)).collect();
        let rest: Vec<Unit> = open.iter().map(|&idx| units[idx]).collect();
        let mut answers = vec![there; units.len()];
        match self.ask(&rest) {
            Ok(of_rest) => open.iter().zip(of_rest).for_each(|(&idx, one)| answers[idx] = one),
            // Something has moved: count what did.
            Err(_) if rest.len() < units.len() => {
                open.iter().for_each(|&idx| answers[idx] = UNWRITTEN);
            }
            Err(error) => return Err(error),
        }
        Ok(answers)
    }

    /// A call that asked for something is over.
    fn called(&mut self, began: Nanos) {
        let took = self.memory.now().saturating_sub(began);
        self.in_kernel = self.in_kernel.saturating_add(took);
        self.longest_call = self.longest_call.max(took);
        self.n_calls += 1;
    }

    /// The kernel's answer for each, from the second asking where it gave up at first.
    fn ask(&mut self, units: &[Unit]) -> io::Result<Vec<i32>> {
        let mut answers = vec![UNWRITTEN; units.len()];
        for _ in 0..2 {
            let open: Vec<usize> =
                (0..units.len()).filter(|&idx| answers[idx] == UNWRITTEN).collect();
            if open.is_empty() {
                break;
            }
            let pages: Vec<u64> = open.iter().map(|&idx| units[idx].addr).collect();
            let began = self.memory.now();
            let asked = self.memory.ask(&pages, self.wish.to, &mut self.status);
            self.called(began);
            match asked {
                Ok(()) => open.iter().zip(&self.status).for_each(|(&i, &s)| answers[i] = s),
                // The first asking may have moved something: count what it did.
                Err(_) if open.len() < units.len() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    /// Looks where the units lie now; those that were no huge pages after all come back as ordinary
    /// pages, without the one that was asked for.
    fn count(&mut self, units: &[Unit], answers: &[i32]) -> Vec<Unit> {
        let (page, _) = self.memory.page_sizes();
        let mut pages: Vec<u64> = units.iter().map(|unit| unit.addr).collect();
        let seconds = units.iter().filter(|unit| unit.may_be_torn).map(|unit| unit.addr + page);
        pages.extend(seconds);
        let now = self.look(&pages);
        let gave_up = units.iter().zip(answers).filter(|(_, answer)| **answer == UNWRITTEN);
        let gave_up: u64 = gave_up.map(|(unit, _)| unit.bytes).sum();
        // Why it gave up on pages it does not say; where there is no room for them, that is why.
        let room = if gave_up == 0 { None } else { self.memory.room(self.wish.to) };
        let is_tight = room.is_some_and(|room| room < gave_up);
        let mut second = now.get(units.len()..).unwrap_or_default().iter();
        let mut torn = Vec::new();
        for (idx, (unit, &answer)) in units.iter().zip(answers).enumerate() {
            let lies = now.get(idx).copied();
            let beside = if unit.may_be_torn { second.next().copied() } else { lies };
            let is_there = |node: Option<i32>| node == Some(self.wish.to.0 as i32);
            if unit.may_be_torn && is_there(lies) && !is_there(beside) {
                let rest = (unit.addr + page..unit.addr + unit.bytes).step_by(page as usize);
                torn.extend(rest.map(|addr| Unit { addr, bytes: page, may_be_torn: false }));
                self.moved += page;
            } else if is_there(lies) {
                self.moved += unit.bytes;
            } else {
                let answer = if is_tight && answer == UNWRITTEN { -libc::ENOMEM } else { answer };
                let refused = kind(&mut self.refused, lies, answer, self.wish.to);
                *refused += unit.bytes;
            }
        }
        torn
    }

    /// Where pages lie; nothing when that cannot be read any more.
    fn look(&mut self, pages: &[u64]) -> Vec<i32> {
        for _ in 0..TRIES {
            match self.memory.query(pages, &mut self.status) {
                Ok(()) => return self.status.clone(),
                Err(error) if may_pass(&error) => {}
                Err(_) => break,
            }
        }
        Vec::new()
    }

    /// What a refusal of a whole call means; nothing if it is tried again.
    fn failed(&mut self, error: &io::Error) -> Option<MoveStop> {
        self.n_failed += 1;
        match error.raw_os_error() {
            // A process that is ending has given up its memory before its number: the kernel then says
            // that there is none to move (`find_mm_struct` in `mm/migrate.c`).
            Some(libc::ESRCH | libc::EINVAL) => Some(MoveStop::Ended),
            None if error.kind() == io::ErrorKind::NotFound => Some(MoveStop::Ended),
            _ if may_pass(error) && self.n_failed < TRIES => None,
            _ => Some(MoveStop::Error(what_to_do(error))),
        }
    }
}

/// Whether the same call may succeed a moment later.
fn may_pass(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ENOMEM | libc::EBUSY))
}

fn kind(refused: &mut FailedPageCounts, lies: Option<i32>, answer: i32, to: NodeId) -> &mut u64 {
    match (lies, answer.wrapping_neg()) {
        (None, _) => &mut refused.unmapped,
        (Some(lies), _) if lies < 0 => &mut refused.not_there,
        (_, libc::EBUSY | libc::EAGAIN) => &mut refused.busy,
        (_, libc::ENOMEM) => &mut refused.no_memory,
        (_, libc::EACCES | libc::EPERM) => &mut refused.not_permitted,
        (_, libc::ENOENT | libc::EFAULT) => &mut refused.not_there,
        _ if answer == to.0 as i32 => &mut refused.elsewhere,
        // It gave up on the page twice: somebody holds it.
        _ if answer == UNWRITTEN => &mut refused.busy,
        _ => &mut refused.other,
    }
}

/// A refusal in words that end with what to do.
fn what_to_do(error: &io::Error) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM) => "run evenkeel as the owner of the process, or as root",
        Some(libc::ENOSYS) => "this kernel cannot move pages (CONFIG_MIGRATION)",
        Some(libc::EACCES | libc::ENODEV) => {
            "the process may not use the target node: see its cpuset"
        }
        Some(libc::ENOMEM) => "the kernel has no memory to move pages with",
        _ => "its memory stays where it is",
    };
    format!("{error}: {advice}")
}

#[cfg(test)]
mod tests;
