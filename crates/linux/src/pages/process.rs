//! The memory of a process, for a migration.
//!
//! A process is identified by PID, start time, and a descriptor of its `maps`. The descriptor belongs to the address
//! space: after exit or execve(2) it reads as empty, even if the PID was reused. If the PID is reused between this
//! check and a call, pages of the other process at the same addresses migrate. This race is benign: only the node of
//! these pages changes, for at most one batch.
//!
//! ```text
//!   up to 4 GiB    numa_maps: pages by node of each mapping
//!   above 4 GiB    maps, the occupied ranges in them, and a sample of the pages of each: a walk over all
//!                  pages of a large process would hold its mmap lock for too long
//! ```
//!
//! The files are read up to a bound ([`memory`]). If `numa_maps` is truncated, the remaining mappings are sampled, as
//! for a large process. If `maps` is truncated, the remaining mappings are not moved and count as unlisted.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use base::{Nanos, NodeId};

use super::hot_ranges::MigrationRange;
use super::page_migrator::{MigratableMemory, PageMigrationRequest, is_source};
use crate::memory::FileText;
use crate::move_pages;
use crate::numa_maps::{self, Mapping, MappingKind, SmapsBlock};
use crate::pagemap::{self, AddressRange};
use crate::{memory, procfs, system};

/// Largest number of pages sampled in each range of a large process.
const SAMPLES: u64 = 256;
/// Approximate number of pages sampled in all ranges.
const SAMPLES_OF_ALL: u64 = 1 << 16;

/// The memory of a process until exit or exec.
#[derive(Debug)]
pub struct LiveProcessMemory {
    pid: u32,
    maps: OwnedFd,
    sizes: (u64, u64),
    meminfo: Option<(NodeId, OwnedFd)>,
    /// Last estimate of [`MigratableMemory::unlisted_bytes`], in bytes.
    unlisted: u64,
    /// Share of the memory of a node that migrations leave free, in permille.
    reserve_permille: u16,
    began: Instant,
}

impl LiveProcessMemory {
    /// Opens a process.
    ///
    /// # Errors
    /// The kind is `NotFound` if the process has exited or the PID is reused. Other errors mean that the mappings
    /// cannot be read.
    pub fn open(pid: u32, start_time_ticks: u64, reserve_permille: u16) -> io::Result<Self> {
        let root = Path::new("/");
        let maps = procfs::open(&root.join(format!("proc/{pid}/maps")))?;
        if procfs::stat(root, pid)?.start_time_ticks != start_time_ticks {
            return Err(io::ErrorKind::NotFound.into());
        }
        let sizes = memory::page_sizes(root);
        let began = Instant::now();
        Ok(LiveProcessMemory {
            pid,
            maps,
            sizes,
            meminfo: None,
            unlisted: 0,
            reserve_permille,
            began,
        })
    }

    /// Returns whether the process, a thread or a mapping has a memory policy. Only the first mappings of a large
    /// process are read; these mappings show the memory policies of its threads.
    ///
    /// # Errors
    /// Same as [`LiveProcessMemory::open`].
    pub fn has_memory_policy(&self) -> io::Result<bool> {
        let root = Path::new("/");
        let walk = memory::resident(root, self.pid)? <= memory::WALK_MAX;
        memory::has_memory_policy(root, self.pid, walk)
    }

    /// Returns the ranges of a process that is small enough for a walk.
    fn walked(&mut self, request: &PageMigrationRequest) -> io::Result<Vec<MigrationRange>> {
        let file = |name: &str| Path::new("/proc").join(self.pid.to_string()).join(name);
        let smaps = memory::read_smaps(Path::new("/"), self.pid)?;
        let maps = memory::read_lines(&file("maps"))?;
        let numa = memory::read_lines(&file("numa_maps"))?;
        let walked = ProcessRanges::parse(&maps, &smaps, &numa, request, self.sizes);
        let (mut ranges, after_truncation) = (walked.ranges, walked.after_truncation);
        let sampled = self.sample_all(&after_truncation, request)?;
        self.unlisted = walked.unlisted;
        self.count_unlisted(&maps, walked.resident.saturating_add(sampled.resident))?;
        ranges.extend(sampled.ranges);
        Ok(ranges)
    }

    /// Returns the ranges of a large process, found by samples.
    fn sampled(&mut self, request: &PageMigrationRequest) -> io::Result<Vec<MigrationRange>> {
        let path = format!("/proc/{}/maps", self.pid);
        let maps = memory::read_lines(Path::new(&path))?;
        let mappings: Vec<AddressRange> =
            memory::own_mappings(&maps.bytes).map(|block| block.range).collect();
        let sampled = self.sample_all(&mappings, request)?;
        self.unlisted = 0;
        self.count_unlisted(&maps, sampled.resident)?;
        Ok(sampled.ranges)
    }

    /// Counts the memory that a truncated `maps` does not list: the resident private memory outside the listed
    /// mappings.
    fn count_unlisted(&mut self, maps: &FileText, listed: u64) -> io::Result<()> {
        if maps.is_truncated {
            let private_bytes = memory::resident_parts(Path::new("/"), self.pid)?.private_bytes();
            self.unlisted = self.unlisted.max(private_bytes.saturating_sub(listed));
        }
        Ok(())
    }

    fn sample_all(
        &self,
        mappings: &[AddressRange],
        request: &PageMigrationRequest,
    ) -> io::Result<Sampled> {
        let mut all = Sampled::default();
        if mappings.is_empty() {
            return Ok(all);
        }
        let root = Path::new("/");
        let resident = memory::resident(root, self.pid)?;
        let occupied = pagemap::occupied(root, self.pid, mappings, resident);
        let length = occupied.iter().map(|(_, (start, end))| end - start);
        let length = length.fold(0u64, u64::saturating_add);
        for (_, range) in occupied {
            let (range, resident) = self.sample(range, length, request)?;
            all.ranges.push(range);
            all.resident = all.resident.saturating_add(resident);
        }
        Ok(all)
    }

    /// Samples a range. Returns the range and its resident bytes.
    fn sample(
        &self,
        (start, end): AddressRange,
        length: u64,
        request: &PageMigrationRequest,
    ) -> io::Result<(MigrationRange, u64)> {
        let (page, huge) = self.sizes;
        let share =
            u128::from(SAMPLES_OF_ALL) * u128::from(end - start) / u128::from(length.max(1));
        let n_samples = u64::try_from(share).unwrap_or(SAMPLES).clamp(1, SAMPLES);
        let stride = ((end - start) / n_samples / page).max(1) * page;
        let pages: Vec<u64> = (start..end).step_by(stride as usize).collect();
        let mut status = Vec::new();
        move_pages::query(self.pid, &pages, &mut status)?;
        let nodes = || status.iter().filter_map(|status| u32::try_from(*status).ok().map(NodeId));
        let n_resident = nodes().count() as u64;
        let n_to_move = nodes().filter(|node| is_source(*node, request)).count();
        let may_be_huge = huge <= end - start;
        // A range without a sampled page to move may still contain such pages, so it is queried completely.
        let to_move = (n_to_move as u64 * stride).min(end - start);
        Ok((
            MigrationRange { start, end, page_size: page, may_be_huge, to_move },
            n_resident * stride,
        ))
    }
}

/// Ranges and resident bytes found by sampling.
#[derive(Debug, Default)]
struct Sampled {
    ranges: Vec<MigrationRange>,
    /// Resident bytes on all nodes.
    resident: u64,
}

/// Private memory of a process according to its files.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProcessRanges {
    ranges: Vec<MigrationRange>,
    /// Resident bytes on all nodes.
    resident: u64,
    /// Bytes to be moved at unknown addresses.
    unlisted: u64,
    /// Mappings that a truncated `numa_maps` does not list.
    after_truncation: Vec<AddressRange>,
}

impl ProcessRanges {
    fn parse(
        maps: &FileText,
        smaps: &FileText,
        numa: &FileText,
        request: &PageMigrationRequest,
        sizes: (u64, u64),
    ) -> Self {
        let lines = maps.bytes.split(|&byte| byte == b'\n');
        let heads = lines.filter_map(|line| numa_maps::parse_head(std::str::from_utf8(line).ok()?));
        let heads: BTreeMap<u64, SmapsBlock> = heads.map(|block| (block.range.0, block)).collect();
        let blocks = numa_maps::parse_smaps(&smaps.bytes);
        let mut walked = ProcessRanges::default();
        let mut last = 0;
        for mapping in numa.bytes.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line) {
            last = mapping.start;
            let (head, block) = (heads.get(&mapping.start), blocks.get(&mapping.start));
            walked.add(&mapping, head, block, request, sizes);
        }
        if numa.is_truncated {
            let ranges = memory::own_mappings(&maps.bytes).map(|block| block.range);
            walked.after_truncation = ranges.filter(|(start, _)| last < *start).collect();
        }
        walked
    }

    /// Adds a mapping. `head` has the end of the mapping, `block` the size of its huge pages. Without `block` a mapping
    /// of at least one huge page may have huge pages.
    fn add(
        &mut self,
        mapping: &Mapping,
        head: Option<&SmapsBlock>,
        block: Option<&SmapsBlock>,
        request: &PageMigrationRequest,
        (page, huge): (u64, u64),
    ) {
        let is_own = mapping.kind == MappingKind::Anonymous || page < mapping.page_size;
        if !is_own || head.is_some_and(|head| !head.is_private) {
            return;
        }
        let bytes = |pages: u64| pages.saturating_mul(mapping.page_size);
        let all = mapping.nodes.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        self.resident = self.resident.saturating_add(bytes(all));
        let to_move = mapping.nodes.iter().filter(|(node, _)| is_source(*node, request));
        let to_move = bytes(to_move.fold(0u64, |sum, (_, n)| sum.saturating_add(*n)));
        let Some(head) = head else {
            // The mapping is new or merged since `maps` was read, or `maps` was truncated before this mapping.
            self.unlisted = self.unlisted.saturating_add(to_move);
            return;
        };
        let (start, end) = head.range;
        let may_be_huge = block.map_or(huge <= end - start, |block| block.huge != 0);
        let page_size = mapping.page_size.max(page);
        if to_move != 0 {
            self.ranges.push(MigrationRange { start, end, page_size, may_be_huge, to_move });
        }
    }
}

impl MigratableMemory for LiveProcessMemory {
    fn ranges(&mut self, request: &PageMigrationRequest) -> io::Result<Vec<MigrationRange>> {
        match memory::resident(Path::new("/"), self.pid)? {
            bytes if bytes <= memory::WALK_MAX => self.walked(request),
            _ => self.sampled(request),
        }
    }

    fn unlisted_bytes(&self) -> u64 {
        self.unlisted
    }

    fn is_same(&mut self) -> io::Result<bool> {
        match procfs::read_again(&self.maps, &mut [0]) {
            Ok(text) => Ok(!text.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn query(&mut self, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
        move_pages::query(self.pid, pages, status)
    }

    fn request(&mut self, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()> {
        move_pages::request(self.pid, pages, to, status)
    }

    fn migrate_all(&mut self, from: NodeId, to: NodeId) -> io::Result<()> {
        move_pages::migrate_all(self.pid, from, to)
    }

    fn resident_bytes(&mut self) -> Option<u64> {
        memory::resident(Path::new("/"), self.pid).ok()
    }

    fn available_bytes(&mut self, node: NodeId) -> Option<u64> {
        if self.meminfo.as_ref().is_none_or(|(known, _)| *known != node) {
            let file = system::open_node_meminfo("/".as_ref(), node).ok()?;
            self.meminfo = Some((node, file));
        }
        let (_, file) = self.meminfo.as_ref()?;
        let meminfo = memory::node_meminfo(file)?;
        let reserve = meminfo.total / 1000 * u64::from(self.reserve_permille);
        Some((meminfo.free + meminfo.reclaimable).saturating_sub(reserve))
    }

    fn page_sizes(&self) -> (u64, u64) {
        self.sizes
    }

    fn now(&mut self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    fn cpu_time(&mut self) -> Nanos {
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

    fn check(maps: (&str, bool), numa: (&str, bool), expected: Expect) {
        let text = |(text, is_truncated): (&str, bool)| FileText {
            bytes: text.as_bytes().to_vec(),
            is_truncated,
        };
        let request = PageMigrationRequest { from: None, to: NodeId(1), limit: u64::MAX };
        let (sizes, smaps) = ((4096, 2 << 20), text((SMAPS, true)));
        let walked = ProcessRanges::parse(&text(maps), &smaps, &text(numa), &request, sizes);
        let mut lines = String::new();
        for range in &walked.ranges {
            let (from, to) = (range.start, range.end);
            lines += &format!("{from:x}-{to:x} to move {}", range.to_move / 4096);
            lines += if range.may_be_huge { ", maybe huge\n" } else { "\n" };
        }
        lines +=
            &format!("resident {} unlisted {}", walked.resident / 4096, walked.unlisted / 4096);
        let after = walked.after_truncation.iter();
        after.for_each(|(from, to)| lines += &format!(" after the truncation {from:x}-{to:x}"));
        expected.assert_eq(&lines);
    }

    #[test]
    fn mappings_after_the_truncation_of_smaps_are_moved() {
        check(
            (MAPS, false),
            (NUMA, false),
            expect![[r#"
            1000-9000 to move 6
            10000-90000 to move 3
            200000-600000 to move 5, maybe huge
            resident 16 unlisted 0"#]],
        );
    }

    #[test]
    fn mappings_after_the_truncation_of_numa_maps_are_sampled() {
        check(
            (MAPS, false),
            (NUMA.lines().next().expect("a line"), true),
            expect![[r#"
            1000-9000 to move 6
            resident 8 unlisted 0 after the truncation 10000-90000 after the truncation 200000-600000 after the truncation 800000-900000"#]],
        );
    }

    #[test]
    fn mappings_after_the_truncation_of_maps_count_as_unlisted() {
        check(
            (MAPS.lines().next().expect("a line"), true),
            (NUMA, false),
            expect![[r#"
            1000-9000 to move 6
            resident 16 unlisted 8"#]],
        );
    }

    #[test]
    fn empty_ranges_of_a_large_process_are_not_queried() {
        use crate::memory::page_samples::tests::{mapping, unmap};
        let (pid, tib) = (std::process::id(), 1u64 << 40);
        let start_time = procfs::stat(Path::new("/"), pid).expect("own line").start_time_ticks;
        let process = LiveProcessMemory::open(pid, start_time, 0).expect("this process");
        let start = mapping(8 * tib, libc::PROT_READ | libc::PROT_WRITE, 32);
        // No node has this number, so all pages are to be moved.
        let request = PageMigrationRequest { from: None, to: NodeId(1000), limit: u64::MAX };
        let sampled = process.sample_all(&[(start, start + 8 * tib)], &request);
        let pagemap = pagemap::Pagemap::open(Path::new("/"), pid);
        let next_page = pagemap.and_then(|pagemap| pagemap.next((start, start + 8 * tib)));
        unmap(start, 8 * tib);
        match (sampled, next_page) {
            (Ok(sampled), Ok(_)) => {
                let sum = |field: fn(&MigrationRange) -> u64| {
                    sampled.ranges.iter().map(field).sum::<u64>() >> 20
                };
                let (length, to_move) = (sum(MigrationRange::len), sum(|range| range.to_move));
                assert!((32..=40).contains(&length), "{length} MiB in ranges");
                assert!((24..=40).contains(&to_move), "{to_move} MiB expected");
            }
            (sampled, next_page) => println!("not run: {sampled:?}, {next_page:?}"),
        }
    }
}
