//! Migration of the memory of one process, in batches.
//!
//! The caller of a [`ProcessPageMigrator`] decides when the next batch runs, and may stop the migration between two
//! batches.
//!
//! ```text
//!   step: same process? ─► find pages to move ─► apply the limit ─► free memory on the target?
//!         ─► request ─► request unprocessed pages once more ─► query the nodes of all pages
//! ```
//!
//! A block that may be a huge page is requested by its first address. If only the first base page moved, the block
//! consists of base pages, and its other pages are requested next. If the first page failed, the whole block counts as
//! failed: a part of a huge page is never requested.
//!
//! If the migration has no limit and the process is small ([`BatchSize::n_pages_single_call`]), the process migrates as
//! a whole: one migrate_pages(2) call for each source node. The call also moves unshared pages of files, so the size
//! includes them. Pages that are not on the target afterwards are requested individually, which returns the cause of
//! the failure.

use std::collections::BTreeSet;
use std::io;

use base::{Nanos, NodeId};

use super::batch::BatchSize;
use super::hot_ranges::MigrationRange;
use crate::move_pages::UNWRITTEN;

/// Number of pages queried in one call: 16 MiB of base pages.
const WINDOW: u64 = 4096;
/// Maximum number of windows queried in one step, which bounds the duration of a step.
const WINDOWS_PER_STEP: usize = 64;
/// Maximum number of consecutive attempts after a temporary error.
const TRIES: u32 = 8;

/// A request for a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMigrationRequest {
    /// Source node; `None`: every node except the target.
    pub from: Option<NodeId>,
    /// Target node.
    pub to: NodeId,
    /// Upper bound in bytes.
    pub limit: u64,
}

/// Memory of a process that can migrate.
pub trait MigratableMemory {
    /// Returns the private memory of the process, with an estimate of the bytes to move in each range.
    fn ranges(&mut self, request: &PageMigrationRequest) -> io::Result<Vec<MigrationRange>>;
    /// Returns an estimate of the bytes to move in mappings that are missing in the truncated list of mappings.
    fn unlisted_bytes(&self) -> u64;
    /// Returns whether the process has neither exited nor called execve(2).
    fn is_same(&mut self) -> io::Result<bool>;
    /// Queries the node of each page. `status` receives a node number or a negative error number.
    fn query(&mut self, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()>;
    /// Requests the migration of pages to a node.
    fn request(&mut self, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()>;
    /// Moves all pages from one node to another in one call, including unshared pages of files.
    fn migrate_all(&mut self, from: NodeId, to: NodeId) -> io::Result<()>;
    /// Returns the resident bytes including pages of files; `None` if unknown.
    fn resident_bytes(&mut self) -> Option<u64>;
    /// Returns the bytes that can be allocated on a node; `None` if unknown.
    fn available_bytes(&mut self, node: NodeId) -> Option<u64>;
    /// Returns the sizes of base pages and transparent huge pages in bytes.
    fn page_sizes(&self) -> (u64, u64);
    /// Returns the monotonic time.
    fn now(&mut self) -> Nanos;
    /// Returns the CPU time of the calling thread, without the time in which a call waits for a CPU, or for other CPUs
    /// to drain their per-CPU page lists.
    fn cpu_time(&mut self) -> Nanos;
}

/// Bytes that were requested and did not move, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "sched::FailedPages explains the same fields")]
pub struct FailedPageCounts {
    pub busy: u64,
    pub no_memory: u64,
    pub not_present: u64,
    pub not_permitted: u64,
    pub elsewhere: u64,
    pub exited: u64,
    pub other: u64,
}

impl FailedPageCounts {
    /// Returns the sum over the causes.
    pub fn total(&self) -> u64 {
        let known = [self.busy, self.no_memory, self.not_present, self.not_permitted];
        known.into_iter().chain([self.elsewhere, self.exited, self.other]).sum()
    }
}

/// Cause of the end of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageMigrationStop {
    /// Every page was requested.
    Done,
    /// The limit was reached before all pages were requested.
    Limit,
    /// The target node is full.
    Full,
    /// The process exited or called exec.
    Exited,
    /// The caller stopped the migration.
    Stopped,
    /// The kernel rejected a call: error and remedy.
    Error(String),
}

/// Result of a migration in bytes: `requested` = `moved` + `failed` + `not_attempted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMigrationTotals {
    /// Bytes to be moved, within the limit.
    pub requested: u64,
    /// Bytes on the target afterwards.
    pub moved: u64,
    /// Bytes that were requested and did not move.
    pub failed: FailedPageCounts,
    /// Bytes that were not requested; an estimate.
    pub not_attempted: u64,
    /// Total duration of the calls.
    pub in_kernel: Nanos,
    /// Number of calls that requested pages.
    pub n_calls: u64,
    /// Duration of the longest call.
    pub longest_call: Nanos,
    /// Cause of the end.
    pub stop: PageMigrationStop,
}

/// A page, or a block that may be a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageBlock {
    addr: u64,
    bytes: u64,
    /// Whether the block may consist of base pages.
    may_be_split: bool,
}

/// A migration in progress.
#[derive(Debug)]
pub struct ProcessPageMigrator<M> {
    memory: M,
    request: PageMigrationRequest,
    ranges: Vec<MigrationRange>,
    range_idx: usize,
    cursor: u64,
    /// Pages found but not requested yet.
    found: Vec<PageBlock>,
    batch: BatchSize,
    /// Whether migrate_pages(2) moves the whole process; `None` before the first step.
    may_use_migrate_pages: Option<bool>,
    /// Nodes of the found pages.
    sources: BTreeSet<NodeId>,
    n_errors: u32,
    moved: u64,
    failed: FailedPageCounts,
    in_kernel: Nanos,
    n_calls: u64,
    longest_call: Nanos,
    status: Vec<i32>,
}

impl<M: MigratableMemory> ProcessPageMigrator<M> {
    /// Prepares a migration; `hot` ranges come first.
    ///
    /// # Errors
    /// The mappings cannot be read; the kind is `NotFound` if the process has exited.
    pub fn new(
        mut memory: M,
        request: PageMigrationRequest,
        hot: &[(u64, u64)],
    ) -> io::Result<Self> {
        let ranges = memory.ranges(&request)?;
        let ranges = super::hot_first(&ranges, hot, memory.page_sizes().1);
        let cursor = ranges.first().map_or(0, |range| range.start);
        Ok(ProcessPageMigrator {
            memory,
            request,
            ranges,
            range_idx: 0,
            cursor,
            found: Vec::new(),
            batch: BatchSize::default(),
            may_use_migrate_pages: None,
            sources: BTreeSet::new(),
            n_errors: 0,
            moved: 0,
            failed: FailedPageCounts::default(),
            in_kernel: Nanos::ZERO,
            n_calls: 0,
            longest_call: Nanos::ZERO,
            status: Vec::new(),
        })
    }

    /// Sets the initial cost per page, which was measured in the migration of another process.
    #[must_use]
    pub fn with_batch(self, batch_size: BatchSize) -> Self {
        ProcessPageMigrator { batch: batch_size.for_next(), ..self }
    }

    /// Returns the batch size after the last call.
    pub fn batch(&self) -> BatchSize {
        self.batch
    }

    /// Returns an estimate of the bytes that remain to be moved.
    pub fn remaining(&self) -> u64 {
        let found: u64 = self.found.iter().map(|block| block.bytes).sum();
        let ranges = self.ranges.get(self.range_idx..).unwrap_or_default();
        let mut to_move: u64 = ranges.iter().skip(1).map(|range| range.to_move).sum();
        if let Some(now) = ranges.first() {
            let unread = u128::from(now.end.saturating_sub(self.cursor));
            let share = u128::from(now.to_move) * unread / u128::from(now.len().max(1));
            to_move += u64::try_from(share).unwrap_or(now.to_move);
        }
        found.saturating_add(to_move).min(self.request.limit.saturating_sub(self.attempted()))
    }

    /// Returns the bytes that were requested so far.
    pub fn attempted(&self) -> u64 {
        self.moved + self.failed.total()
    }

    /// Runs one batch. Returns the totals if the migration has ended.
    pub fn step(&mut self) -> Option<ProcessMigrationTotals> {
        match self.run_batch() {
            Ok(None) => {
                self.n_errors = 0;
                None
            }
            Ok(Some(stop)) => Some(self.end(stop)),
            Err(error) => self.stop_after(&error).map(|stop| self.end(stop)),
        }
    }

    /// Ends the migration and returns its totals.
    pub fn end(&mut self, stop: PageMigrationStop) -> ProcessMigrationTotals {
        let remaining = match stop {
            PageMigrationStop::Limit => 0,
            PageMigrationStop::Done => self.memory.unlisted_bytes(),
            _ => self.remaining().saturating_add(self.memory.unlisted_bytes()),
        };
        let not_attempted = remaining.min(self.request.limit.saturating_sub(self.attempted()));
        ProcessMigrationTotals {
            requested: self.attempted() + not_attempted,
            moved: self.moved,
            failed: self.failed,
            not_attempted,
            in_kernel: self.in_kernel,
            n_calls: self.n_calls,
            longest_call: self.longest_call,
            stop,
        }
    }

    fn run_batch(&mut self) -> io::Result<Option<PageMigrationStop>> {
        if !self.memory.is_same()? {
            return Ok(Some(PageMigrationStop::Exited));
        }
        let is_whole = self.may_use_migrate_pages();
        self.find()?;
        let is_over = self.ranges.len() <= self.range_idx;
        if self.found.is_empty() {
            return Ok(is_over.then_some(PageMigrationStop::Done));
        }
        if is_whole && !is_over {
            // All pages have been found. If their size exceeds the limit of one call although `resident` was smaller,
            // the pages are moved in batches.
            self.may_use_migrate_pages = Some(self.n_found() < self.single_call_max());
            return Ok(None);
        }
        let blocks = self.take_batch();
        if blocks.is_empty() {
            return Ok(Some(PageMigrationStop::Limit));
        }
        let bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
        if self.memory.available_bytes(self.request.to).is_some_and(|available| available < bytes) {
            self.unshift(&blocks);
            // The target may have enough memory for a batch, although it has too little for the whole process.
            let was_whole = self.may_use_migrate_pages.replace(false) == Some(true);
            return Ok((!was_whole).then_some(PageMigrationStop::Full));
        }
        let no_memory_before = self.failed.no_memory;
        self.move_blocks(blocks)?;
        let is_full = no_memory_before != self.failed.no_memory;
        Ok(is_full.then_some(PageMigrationStop::Full))
    }

    fn n_found(&self) -> u64 {
        self.found.iter().map(|block| block.bytes).sum()
    }

    /// Returns the size in bytes of the largest process that may migrate in one call.
    fn single_call_max(&self) -> u64 {
        self.batch.n_pages_single_call() as u64 * self.memory.page_sizes().0
    }

    /// Returns whether migrate_pages(2) moves the whole process. The decision is made before the first call.
    fn may_use_migrate_pages(&mut self) -> bool {
        if let Some(known) = self.may_use_migrate_pages {
            return known;
        }
        let resident = self.memory.resident_bytes();
        let is_small = resident.is_some_and(|resident| resident <= self.single_call_max());
        *self.may_use_migrate_pages.insert(is_small && self.request.limit == u64::MAX)
    }

    /// Returns the target size of a batch in bytes.
    fn batch_bytes(&self) -> u64 {
        match self.may_use_migrate_pages {
            Some(true) => self.single_call_max(),
            _ => self.batch.n_pages() as u64 * self.memory.page_sizes().0,
        }
    }

    /// Queries pages until a batch is full.
    fn find(&mut self) -> io::Result<()> {
        let enough = self.batch_bytes();
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

    /// Returns the end of a window. In a range with huge pages the end is a boundary of huge pages.
    fn window_end(&self, range: &MigrationRange) -> u64 {
        let (page, huge) = self.memory.page_sizes();
        let bytes = (WINDOW * page).max(2 * huge).max(range.page_size);
        let end = self.cursor.saturating_add(bytes);
        let end = if range.may_be_huge { end - end % huge } else { end };
        let end = end - (end - range.start) % range.page_size;
        end.max(self.cursor + range.page_size).min(range.end)
    }

    /// Adds the pages of a window that have to be moved.
    fn pick(&mut self, range: &MigrationRange, pages: &[u64]) {
        let (_, huge) = self.memory.page_sizes();
        let to_move = |status: i32| {
            let node = u32::try_from(status).ok().map(NodeId);
            node.is_some_and(|node| is_source(node, &self.request))
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
                self.found.push(PageBlock { addr: pages[at], bytes: huge, may_be_split: true });
                at += n_of_block;
                continue;
            }
            if to_move(self.status[at]) {
                let (addr, bytes) = (pages[at], range.page_size);
                self.found.push(PageBlock { addr, bytes, may_be_split: false });
            }
            at += 1;
        }
    }

    /// Takes the next batch within the limit. A huge page that exceeds the limit ends the migration, because huge pages
    /// are not split.
    fn take_batch(&mut self) -> Vec<PageBlock> {
        let enough = self.batch_bytes();
        let allowed = self.request.limit.saturating_sub(self.attempted());
        let (mut sum, mut n_blocks) = (0u64, 0);
        for block in &self.found {
            if allowed < sum + block.bytes || (n_blocks != 0 && enough < sum + block.bytes) {
                break;
            }
            sum += block.bytes;
            n_blocks += 1;
        }
        self.found.drain(..n_blocks).collect()
    }

    fn unshift(&mut self, blocks: &[PageBlock]) {
        self.found.splice(0..0, blocks.iter().copied());
    }

    /// Requests a batch and counts its results.
    fn move_blocks(&mut self, blocks: Vec<PageBlock>) -> io::Result<()> {
        let start = self.memory.cpu_time();
        let is_whole = self.may_use_migrate_pages.replace(false) == Some(true);
        let answers = if is_whole { self.migrate_all(&blocks) } else { self.request(&blocks) };
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                self.unshift(&blocks);
                return Err(error);
            }
        };
        let n_bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
        let duration = self.memory.cpu_time().saturating_sub(start);
        let (page, _) = self.memory.page_sizes();
        self.batch.update((n_bytes / page) as usize, duration);
        // Blocks that consist of base pages are processed next.
        let split = self.count(&blocks, &answers);
        self.unshift(&split);
        Ok(())
    }

    /// Makes one migrate_pages(2) call per source node, then requests the pages that are not on the target.
    fn migrate_all(&mut self, blocks: &[PageBlock]) -> io::Result<Vec<i32>> {
        for from in std::mem::take(&mut self.sources) {
            let start = self.memory.now();
            if self.memory.migrate_all(from, self.request.to).is_err() {
                break;
            }
            self.count_call(start);
        }
        let target = self.request.to.0 as i32;
        let nodes = self.nodes_of(&blocks.iter().map(|block| block.addr).collect::<Vec<_>>());
        let open: Vec<usize> =
            (0..blocks.len()).filter(|&idx| nodes.get(idx) != Some(&target)).collect();
        let retried: Vec<PageBlock> = open.iter().map(|&idx| blocks[idx]).collect();
        let mut answers = vec![target; blocks.len()];
        match self.request(&retried) {
            Ok(of_rest) => open.iter().zip(of_rest).for_each(|(&idx, one)| answers[idx] = one),
            // The call failed after some pages had moved. The moved pages are counted.
            Err(_) if retried.len() < blocks.len() => {
                open.iter().for_each(|&idx| answers[idx] = UNWRITTEN);
            }
            Err(error) => return Err(error),
        }
        Ok(answers)
    }

    fn count_call(&mut self, start: Nanos) {
        let duration = self.memory.now().saturating_sub(start);
        self.in_kernel = self.in_kernel.saturating_add(duration);
        self.longest_call = self.longest_call.max(duration);
        self.n_calls += 1;
    }

    /// Requests the blocks and returns the status of each block. A second call requests the blocks that the first call
    /// did not process.
    fn request(&mut self, blocks: &[PageBlock]) -> io::Result<Vec<i32>> {
        let mut answers = vec![UNWRITTEN; blocks.len()];
        for _ in 0..2 {
            let open: Vec<usize> =
                (0..blocks.len()).filter(|&idx| answers[idx] == UNWRITTEN).collect();
            if open.is_empty() {
                break;
            }
            let pages: Vec<u64> = open.iter().map(|&idx| blocks[idx].addr).collect();
            let start = self.memory.now();
            let result = self.memory.request(&pages, self.request.to, &mut self.status);
            self.count_call(start);
            match result {
                Ok(()) => open.iter().zip(&self.status).for_each(|(&i, &s)| answers[i] = s),
                // The first call may have moved pages. The moved pages are counted.
                Err(_) if open.len() < blocks.len() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    /// Queries the nodes of the blocks and counts moved and failed bytes. Returns the remaining pages of blocks that
    /// consist of base pages.
    fn count(&mut self, blocks: &[PageBlock], answers: &[i32]) -> Vec<PageBlock> {
        let (page, _) = self.memory.page_sizes();
        let target = Some(self.request.to.0 as i32);
        let mut pages: Vec<u64> = blocks.iter().map(|block| block.addr).collect();
        let seconds =
            blocks.iter().filter(|block| block.may_be_split).map(|block| block.addr + page);
        pages.extend(seconds);
        let nodes = self.nodes_of(&pages);
        let is_tight = self.is_tight(blocks, answers);
        let mut second = nodes.get(blocks.len()..).unwrap_or_default().iter();
        let mut split = Vec::new();
        for (idx, (block, &answer)) in blocks.iter().zip(answers).enumerate() {
            let node = nodes.get(idx).copied();
            let next = if block.may_be_split { second.next().copied() } else { node };
            if block.may_be_split && node == target && next != target {
                let tail = (block.addr + page..block.addr + block.bytes).step_by(page as usize);
                split.extend(tail.map(|addr| PageBlock { addr, bytes: page, may_be_split: false }));
                self.moved += page;
            } else if node == target {
                self.moved += block.bytes;
            } else {
                let answer = if is_tight && answer == UNWRITTEN { -libc::ENOMEM } else { answer };
                *cause(&mut self.failed, node, answer, self.request.to) += block.bytes;
            }
        }
        split
    }

    /// Returns whether the target has too little memory for the unprocessed blocks. The kernel does not report this
    /// cause.
    fn is_tight(&mut self, blocks: &[PageBlock], answers: &[i32]) -> bool {
        let unprocessed = blocks.iter().zip(answers).filter(|(_, answer)| **answer == UNWRITTEN);
        let bytes: u64 = unprocessed.map(|(block, _)| block.bytes).sum();
        bytes != 0
            && self
                .memory
                .available_bytes(self.request.to)
                .is_some_and(|available| available < bytes)
    }

    /// Queries the nodes of pages. The result is empty if the query fails.
    fn nodes_of(&mut self, pages: &[u64]) -> Vec<i32> {
        for _ in 0..TRIES {
            match self.memory.query(pages, &mut self.status) {
                Ok(()) => return self.status.clone(),
                Err(error) if is_temporary(&error) => {}
                Err(_) => break,
            }
        }
        Vec::new()
    }

    /// Returns the cause of the end of the migration after an error of a whole call; `None` if the call is repeated.
    fn stop_after(&mut self, error: &io::Error) -> Option<PageMigrationStop> {
        self.n_errors += 1;
        match error.raw_os_error() {
            // An exiting process releases its memory before its PID; the kernel then returns EINVAL
            // (`find_mm_struct` in `mm/migrate.c`).
            Some(libc::ESRCH | libc::EINVAL) => Some(PageMigrationStop::Exited),
            None if error.kind() == io::ErrorKind::NotFound => Some(PageMigrationStop::Exited),
            _ if is_temporary(error) && self.n_errors < TRIES => None,
            _ => Some(PageMigrationStop::Error(with_remedy(error))),
        }
    }
}

/// Returns whether a node is a source of the migration.
pub(super) fn is_source(node: NodeId, request: &PageMigrationRequest) -> bool {
    request.from.map_or(node != request.to, |from| node == from)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ENOMEM | libc::EBUSY))
}

fn cause(failed: &mut FailedPageCounts, node: Option<i32>, answer: i32, to: NodeId) -> &mut u64 {
    match (node, answer.wrapping_neg()) {
        (None, _) => &mut failed.exited,
        (Some(node), _) if node < 0 => &mut failed.not_present,
        (_, libc::EBUSY | libc::EAGAIN) => &mut failed.busy,
        (_, libc::ENOMEM) => &mut failed.no_memory,
        (_, libc::EACCES | libc::EPERM) => &mut failed.not_permitted,
        (_, libc::ENOENT | libc::EFAULT) => &mut failed.not_present,
        _ if answer == to.0 as i32 => &mut failed.elsewhere,
        // Two calls did not process the page: it is pinned or locked.
        _ if answer == UNWRITTEN => &mut failed.busy,
        _ => &mut failed.other,
    }
}

/// Returns the error with its remedy.
fn with_remedy(error: &io::Error) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM) => "run evenkeel as the owner of the process, or as root",
        Some(libc::ENOSYS) => "this kernel cannot move pages (CONFIG_MIGRATION)",
        Some(libc::EACCES | libc::ENODEV) => {
            "the process may not use the target node: see its cpuset"
        }
        Some(libc::ENOMEM) => "the kernel has no free memory for page migration",
        _ => "the remaining memory does not migrate",
    };
    format!("{error}: {advice}")
}

#[cfg(test)]
mod tests;
