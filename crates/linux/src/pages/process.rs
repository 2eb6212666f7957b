//! A real process whose memory is moved.
//!
//! It is known by its number, its birth, and a descriptor of its `maps` that belongs to its memory: when
//! it ends or becomes another program the descriptor reads as empty, even if its number has been
//! given away since. Between that look and the call there is a moment in which the number could go to
//! somebody else; then that one's pages at the same addresses, if any, would move. Nothing but where
//! they lie would change, and only for as long as one batch.
//!
//! ```text
//!   up to 4 GiB    numa_maps: what lies where, mapping by mapping
//!   more           maps, and 256 pages of each stretch asked for: walking all pages of a large process
//!                  would hold its memory's lock for as long as that takes
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use base::{Nanos, NodeId};
use rustix::time::{ClockId, clock_gettime};

use super::call;
use super::mover::{Memory, Wish};
use super::order::Range;
use crate::numa_maps::{self, Kinds, Of};
use crate::{memory, procfs, system};

/// Larger ones are sampled: walking a million pages takes some 20 ms (guessed from 20 ns a page).
const WALK_MAX: u64 = 4 << 30;
/// Pages asked for in each stretch of a large process.
const SAMPLES: u64 = 256;

/// A process, as long as it runs the program that it ran when it was opened.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    maps: OwnedFd,
    sizes: (u64, u64),
    meminfo: Option<(NodeId, OwnedFd)>,
    /// What of a node moves leave free, in thousandths of all of it.
    reserve_permille: u16,
    began: Instant,
}

impl Process {
    /// Takes hold of a process.
    ///
    /// # Errors
    /// Of the kind `NotFound` when it is gone or its number belongs to another; other errors say why its
    /// mappings cannot be read.
    pub fn open(pid: u32, born_ticks: u64, reserve_permille: u16) -> io::Result<Self> {
        let root = Path::new("/");
        let maps = procfs::open(&root.join(format!("proc/{pid}/maps")))?;
        if procfs::stat(root, pid)?.born_ticks != born_ticks {
            return Err(io::ErrorKind::NotFound.into());
        }
        let sizes = memory::page_sizes(root);
        let began = Instant::now();
        Ok(Process { pid, maps, sizes, meminfo: None, reserve_permille, began })
    }

    /// Whether it, one of its threads or one of its mappings has a memory policy of its own. Of a process
    /// that is too large to be walked only the first mappings are asked, which show those of threads.
    ///
    /// # Errors
    /// As of [`Process::open`].
    pub fn has_own_policy(&self) -> io::Result<bool> {
        let root = Path::new("/");
        let walk = memory::resident(root, self.pid)? <= WALK_MAX;
        memory::has_own_policy(root, self.pid, walk)
    }

    /// The stretches of a process that is not too large to be walked.
    fn walked(&self, wish: &Wish) -> io::Result<Vec<Range>> {
        let root = Path::new("/");
        let smaps = memory::read_whole(&root.join(format!("proc/{}/smaps", self.pid)))?;
        let kinds = numa_maps::parse_smaps(&smaps);
        let text = memory::read_whole(&root.join(format!("proc/{}/numa_maps", self.pid)))?;
        let mappings = text.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line);
        let range = |mapping: numa_maps::Mapping| {
            let kinds = kinds.get(&mapping.start).filter(|kinds| kinds.is_private)?;
            let goes = |node: NodeId| wish.from.map_or(node != wish.to, |from| node == from);
            let pages = mapping.nodes.iter().filter(|(node, _)| goes(*node)).map(|(_, n)| n);
            let to_move = pages.fold(0u64, |sum, n| sum.saturating_add(*n));
            let is_own = mapping.of == Of::Nothing || self.sizes.0 < mapping.page_size;
            (is_own && to_move != 0).then(|| Range {
                start: kinds.range.0,
                end: kinds.range.1,
                page_size: mapping.page_size.max(self.sizes.0),
                may_be_huge: kinds.huge != 0,
                to_move: to_move.saturating_mul(mapping.page_size),
            })
        };
        Ok(mappings.filter_map(range).collect())
    }

    /// The stretches of a large one, by samples.
    fn sampled(&mut self, wish: &Wish) -> io::Result<Vec<Range>> {
        let path = format!("/proc/{}/maps", self.pid);
        let text = memory::read_whole(Path::new(&path))?;
        let mut ranges = Vec::new();
        for kinds in memory::own_mappings(&text) {
            if let Some(range) = self.sample(&kinds, wish)? {
                ranges.push(range);
            }
        }
        Ok(ranges)
    }

    fn sample(&mut self, kinds: &Kinds, wish: &Wish) -> io::Result<Option<Range>> {
        let (page, huge) = self.sizes;
        let (start, end) = kinds.range;
        let stride = ((end - start) / SAMPLES / page).max(1) * page;
        let pages: Vec<u64> = (start..end).step_by(stride as usize).collect();
        let mut status = Vec::new();
        call::query(self.pid, &pages, &mut status)?;
        let goes = |status: &&i32| {
            let node = u32::try_from(**status).ok().map(NodeId);
            node.is_some_and(|node| wish.from.map_or(node != wish.to, |from| node == from))
        };
        let to_move = status.iter().filter(goes).count() as u64 * stride;
        let may_be_huge = huge <= end - start;
        // Where no sample was to be moved something may be all the same: it is looked through.
        let range = Range { start, end, page_size: page, may_be_huge, to_move };
        Ok(Some(range))
    }
}

impl Memory for Process {
    fn ranges(&mut self, wish: &Wish) -> io::Result<Vec<Range>> {
        match memory::resident(Path::new("/"), self.pid)? {
            bytes if bytes <= WALK_MAX => self.walked(wish),
            _ => self.sampled(wish),
        }
    }

    fn is_there(&mut self) -> io::Result<bool> {
        match procfs::read_again(&self.maps, &mut [0]) {
            Ok(text) => Ok(!text.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn query(&mut self, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
        call::query(self.pid, pages, status)
    }

    fn ask(&mut self, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()> {
        call::ask(self.pid, pages, to, status)
    }

    fn whole(&mut self, from: NodeId, to: NodeId) -> io::Result<()> {
        call::whole(self.pid, from, to)
    }

    fn room(&mut self, node: NodeId) -> Option<u64> {
        if self.meminfo.as_ref().is_none_or(|(known, _)| *known != node) {
            let file = system::open_node_meminfo("/".as_ref(), node).ok()?;
            self.meminfo = Some((node, file));
        }
        let (_, file) = self.meminfo.as_ref()?;
        let figures = memory::node_figures(file)?;
        let reserve = figures.total / 1000 * u64::from(self.reserve_permille);
        Some((figures.free + figures.reclaimable).saturating_sub(reserve))
    }

    fn page_sizes(&self) -> (u64, u64) {
        self.sizes
    }

    fn now(&mut self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    fn worked(&mut self) -> Nanos {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let secs = u64::try_from(time.tv_sec).unwrap_or(0);
        Nanos(secs * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
    }
}
