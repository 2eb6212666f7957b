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
//!   more           maps, the stretches of it that have pages, and some pages of each asked for: walking
//!                  all pages of a large process would hold its memory's lock for as long as that takes
//! ```
//!
//! These files are read up to a bound ([`memory`]). Mappings that only `numa_maps` was cut before are
//! looked through as those of a large process; what stands behind a cut of `maps` is never looked at,
//! and is told as unseen.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use base::{Nanos, NodeId};

use super::call;
use super::mover::{Memory, MoveRequest};
use super::order::Range;
use super::present::{self, Stretch};
use crate::memory::Text;
use crate::numa_maps::{self, Mapping, MappingKind, SmapsBlock};
use crate::{memory, procfs, system};

/// Pages asked for in each stretch of a large process, at most.
const SAMPLES: u64 = 256;
/// Pages asked for in all of it, about.
const SAMPLES_OF_ALL: u64 = 1 << 16;

/// A process, as long as it runs the program that it ran when it was opened.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    maps: OwnedFd,
    sizes: (u64, u64),
    meminfo: Option<(NodeId, OwnedFd)>,
    unseen: u64,
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
        Ok(Process { pid, maps, sizes, meminfo: None, unseen: 0, reserve_permille, began })
    }

    /// Whether it, one of its threads or one of its mappings has a memory policy of its own. Of a process
    /// that is too large to be walked only the first mappings are asked, which show those of threads.
    ///
    /// # Errors
    /// As of [`Process::open`].
    pub fn has_own_policy(&self) -> io::Result<bool> {
        let root = Path::new("/");
        let walk = memory::resident(root, self.pid)? <= memory::WALK_MAX;
        memory::has_own_policy(root, self.pid, walk)
    }

    /// The stretches of a process that is not too large to be walked.
    fn walked(&mut self, wish: &MoveRequest) -> io::Result<Vec<Range>> {
        let file = |name: &str| Path::new("/proc").join(self.pid.to_string()).join(name);
        let smaps = memory::read_smaps(Path::new("/"), self.pid)?;
        let maps = memory::read_lines(&file("maps"))?;
        let numa = memory::read_lines(&file("numa_maps"))?;
        let walked = Walked::of(&maps, &smaps, &numa, wish, self.sizes);
        let (mut ranges, behind) = (walked.ranges, walked.behind);
        let sampled = self.sample_all(&behind, wish)?;
        self.unseen = walked.unseen;
        self.note_cut(&maps, walked.seen.saturating_add(sampled.seen))?;
        ranges.extend(sampled.ranges);
        Ok(ranges)
    }

    /// The stretches of a large one, by samples.
    fn sampled(&mut self, wish: &MoveRequest) -> io::Result<Vec<Range>> {
        let path = format!("/proc/{}/maps", self.pid);
        let maps = memory::read_lines(Path::new(&path))?;
        let mappings: Vec<(u64, u64)> =
            memory::own_mappings(&maps.bytes).map(|kinds| kinds.range).collect();
        let sampled = self.sample_all(&mappings, wish)?;
        self.unseen = 0;
        self.note_cut(&maps, sampled.seen)?;
        Ok(sampled.ranges)
    }

    /// Of what stands behind the cut no more is known than that it is resident.
    fn note_cut(&mut self, maps: &memory::Text, seen: u64) -> io::Result<()> {
        if maps.is_cut {
            let own = memory::resident_parts(Path::new("/"), self.pid)?.own();
            self.unseen = self.unseen.max(own.saturating_sub(seen));
        }
        Ok(())
    }

    fn sample_all(&mut self, mappings: &[Stretch], wish: &MoveRequest) -> io::Result<Sampled> {
        let mut all = Sampled::default();
        if mappings.is_empty() {
            return Ok(all);
        }
        let root = Path::new("/");
        let stretches =
            present::occupied(root, self.pid, mappings, memory::resident(root, self.pid)?);
        let length = stretches.iter().map(|(_, (start, end))| end - start);
        let length = length.fold(0u64, u64::saturating_add);
        for (_, stretch) in stretches {
            let (range, seen) = self.sample(stretch, length, wish)?;
            all.ranges.push(range);
            all.seen = all.seen.saturating_add(seen);
        }
        Ok(all)
    }

    /// A stretch out of so much, and what of it is resident.
    fn sample(
        &self,
        (start, end): Stretch,
        of: u64,
        wish: &MoveRequest,
    ) -> io::Result<(Range, u64)> {
        let (page, huge) = self.sizes;
        let share = u128::from(SAMPLES_OF_ALL) * u128::from(end - start) / u128::from(of.max(1));
        let n_samples = u64::try_from(share).unwrap_or(SAMPLES).clamp(1, SAMPLES);
        let stride = ((end - start) / n_samples / page).max(1) * page;
        let pages: Vec<u64> = (start..end).step_by(stride as usize).collect();
        let mut status = Vec::new();
        call::query(self.pid, &pages, &mut status)?;
        let lies = |status: &i32| u32::try_from(*status).ok().map(NodeId);
        let n_seen = status.iter().filter_map(lies).count() as u64;
        let n_to_move = status.iter().filter_map(lies).filter(|node| goes(*node, wish)).count();
        let may_be_huge = huge <= end - start;
        // Where no sample was to be moved something may be all the same: it is looked through.
        let to_move = (n_to_move as u64 * stride).min(end - start);
        Ok((Range { start, end, page_size: page, may_be_huge, to_move }, n_seen * stride))
    }
}

fn goes(node: NodeId, wish: &MoveRequest) -> bool {
    wish.from.map_or(node != wish.to, |from| node == from)
}

/// What samples told.
#[derive(Debug, Default)]
struct Sampled {
    ranges: Vec<Range>,
    /// Bytes of it that are resident, wherever.
    seen: u64,
}

/// What the files of a process tell of its own memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Walked {
    ranges: Vec<Range>,
    /// Bytes of it that are resident, wherever.
    seen: u64,
    /// Bytes to be moved whose addresses are not known.
    unseen: u64,
    /// Mappings that `numa_maps` was cut before.
    behind: Vec<Stretch>,
}

impl Walked {
    fn of(maps: &Text, smaps: &Text, numa: &Text, wish: &MoveRequest, sizes: (u64, u64)) -> Self {
        let lines = maps.bytes.split(|&byte| byte == b'\n');
        let heads = lines.filter_map(|line| numa_maps::parse_head(std::str::from_utf8(line).ok()?));
        let heads: BTreeMap<u64, SmapsBlock> = heads.map(|kinds| (kinds.range.0, kinds)).collect();
        let kinds = numa_maps::parse_smaps(&smaps.bytes);
        let mut walked = Walked::default();
        let mut last = 0;
        for mapping in numa.bytes.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line) {
            last = mapping.start;
            walked.add(&mapping, heads.get(&mapping.start), kinds.get(&mapping.start), wish, sizes);
        }
        if numa.is_cut {
            let ranges = memory::own_mappings(&maps.bytes).map(|kinds| kinds.range);
            walked.behind = ranges.filter(|(start, _)| last < *start).collect();
        }
        walked
    }

    /// `head` tells where it ends, `kinds` whether huge pages are in it; without it they may be.
    fn add(
        &mut self,
        mapping: &Mapping,
        head: Option<&SmapsBlock>,
        kinds: Option<&SmapsBlock>,
        wish: &MoveRequest,
        (page, huge): (u64, u64),
    ) {
        let is_own = mapping.kind == MappingKind::Nothing || page < mapping.page_size;
        if !is_own || head.is_some_and(|head| !head.is_private) {
            return;
        }
        let bytes = |pages: u64| pages.saturating_mul(mapping.page_size);
        let all = mapping.nodes.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        self.seen = self.seen.saturating_add(bytes(all));
        let to_move = mapping.nodes.iter().filter(|(node, _)| goes(*node, wish));
        let to_move = bytes(to_move.fold(0u64, |sum, (_, n)| sum.saturating_add(*n)));
        let Some(head) = head else {
            // It came or grew together with another between two looks, or stands behind a cut.
            self.unseen = self.unseen.saturating_add(to_move);
            return;
        };
        let (start, end) = head.range;
        let may_be_huge = kinds.map_or(huge <= end - start, |kinds| kinds.huge != 0);
        let page_size = mapping.page_size.max(page);
        if to_move != 0 {
            self.ranges.push(Range { start, end, page_size, may_be_huge, to_move });
        }
    }
}

impl Memory for Process {
    fn ranges(&mut self, wish: &MoveRequest) -> io::Result<Vec<Range>> {
        match memory::resident(Path::new("/"), self.pid)? {
            bytes if bytes <= memory::WALK_MAX => self.walked(wish),
            _ => self.sampled(wish),
        }
    }

    fn unseen(&self) -> u64 {
        self.unseen
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

    fn resident(&mut self) -> Option<u64> {
        memory::resident(Path::new("/"), self.pid).ok()
    }

    fn room(&mut self, node: NodeId) -> Option<u64> {
        if self.meminfo.as_ref().is_none_or(|(known, _)| *known != node) {
            let file = system::open_node_meminfo("/".as_ref(), node).ok()?;
            self.meminfo = Some((node, file));
        }
        let (_, file) = self.meminfo.as_ref()?;
        let figures = memory::node_meminfo(file)?;
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
        system::thread_cpu_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const MAPS: &str = "\
1000-9000 rw-p 00000000 00:00 0
10000-90000 rw-p 00000000 00:00 0
a0000-b0000 rw-s 00000000 00:01 7 /dev/shm/x
200000-600000 rw-p 00000000 00:00 0
700000-800000 ---p 00000000 00:00 0
800000-900000 rw-p 00000000 00:00 0
";
    const SMAPS: &str = "\
1000-9000 rw-p 00000000 00:00 0
AnonHugePages: 0 kB
";
    const NUMA: &str = "\
1000 default anon=8 N0=6 N1=2 kernelpagesize_kB=4
10000 default anon=3 N0=3 kernelpagesize_kB=4
a0000 default file=/dev/shm/x N0=9 kernelpagesize_kB=4
200000 default anon=5 N0=5 kernelpagesize_kB=4
";

    fn check(maps: (&str, bool), smaps: (&str, bool), numa: (&str, bool), expected: Expect) {
        let text = |(text, is_cut): (&str, bool)| Text { bytes: text.as_bytes().to_vec(), is_cut };
        let wish = MoveRequest { from: None, to: NodeId(1), limit: u64::MAX };
        let sizes = (4096, 2 << 20);
        let walked = Walked::of(&text(maps), &text(smaps), &text(numa), &wish, sizes);
        let mut told = String::new();
        for range in &walked.ranges {
            let (from, to) = (range.start, range.end);
            told += &format!("{from:x}-{to:x} to move {}", range.to_move / 4096);
            told += if range.may_be_huge { ", maybe huge\n" } else { "\n" };
        }
        told += &format!("seen {} unseen {}", walked.seen / 4096, walked.unseen / 4096);
        walked.behind.iter().for_each(|(from, to)| told += &format!(" behind {from:x}-{to:x}"));
        expected.assert_eq(&told);
    }

    #[test]
    fn what_stands_behind_the_cut_of_smaps_moves_all_the_same() {
        check(
            (MAPS, false),
            (SMAPS, true),
            (NUMA, false),
            expect![[r#"
            1000-9000 to move 6
            10000-90000 to move 3
            200000-600000 to move 5, maybe huge
            seen 16 unseen 0"#]],
        );
    }

    #[test]
    fn what_stands_behind_the_cut_of_numa_maps_is_looked_through() {
        let cut = NUMA.lines().next().expect("a line");
        check(
            (MAPS, false),
            (SMAPS, true),
            (cut, true),
            expect![[r#"
            1000-9000 to move 6
            seen 8 unseen 0 behind 10000-90000 behind 200000-600000 behind 800000-900000"#]],
        );
    }

    #[test]
    fn what_stands_behind_the_cut_of_maps_counts_as_unseen() {
        let cut = MAPS.lines().next().expect("a line");
        check(
            (cut, true),
            (SMAPS, true),
            (NUMA, false),
            expect![[r#"
            1000-9000 to move 6
            seen 16 unseen 8"#]],
        );
    }

    #[test]
    fn a_large_process_is_not_looked_through_where_it_has_no_pages() {
        use crate::memory::sample::tests::{mapping, unmap};
        let (pid, tib) = (std::process::id(), 1u64 << 40);
        let born = procfs::stat(Path::new("/"), pid).expect("own line").born_ticks;
        let mut process = Process::open(pid, born, 0).expect("this one");
        let start = mapping(8 * tib, libc::PROT_READ | libc::PROT_WRITE, 32);
        // No node has this number, so all of it is to be moved.
        let wish = MoveRequest { from: None, to: NodeId(1000), limit: u64::MAX };
        let sampled = process.sample_all(&[(start, start + 8 * tib)], &wish);
        let tables = present::Tables::open(Path::new("/"), pid);
        let is_told = tables.and_then(|tables| tables.next((start, start + 8 * tib)));
        unmap(start, 8 * tib);
        match (sampled, is_told) {
            (Ok(sampled), Ok(_)) => {
                let sum = |of: fn(&Range) -> u64| sampled.ranges.iter().map(of).sum::<u64>() >> 20;
                let (length, to_move) = (sum(Range::len), sum(|range| range.to_move));
                assert!((32..=40).contains(&length), "{length} MiB are looked through");
                assert!((24..=40).contains(&to_move), "{to_move} MiB are expected");
            }
            (sampled, is_told) => println!("not run: {sampled:?}, {is_told:?}"),
        }
    }
}
