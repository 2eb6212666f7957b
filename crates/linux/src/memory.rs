//! Memory of a process by node, read within a time limit, and free memory of nodes.
//!
//! For a read of `numa_maps` or `smaps` the kernel walks every page of the process: about 20 ns per page, with the mmap
//! lock of the process held. If the walks for both files would exceed the time limit, the process is sampled: the nodes
//! of about 2000 of its pages are queried.
//!
//! ```text
//!   resident × cost per page ≤ time   ─►  a walk: numa_maps and smaps            1000 ‰ of the memory
//!   otherwise                         ─►  samples of its memory without files    the sampled share
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use base::Nanos;

use crate::numa_maps::{self, PagesByNode, SmapsBlock};
use crate::{fault, procfs, system};

pub(crate) mod page_samples;

/// Upper bound of bytes read from `smaps`: about 5,800 mappings of 715 bytes each.
const SMAPS_MAX: u64 = 4 << 20;
/// Maximum resident size of a process that is walked, in bytes: a walk of a million pages takes tens of milliseconds,
/// and the process cannot map memory during the walk.
pub(crate) const WALK_MAX: u64 = 4 << 30;
/// Upper bound of bytes read from files with a line per mapping: 100,000 to 300,000 mappings. The default of
/// `vm.max_map_count` is 65,530.
const LINES_MAX: u64 = 16 << 20;

/// Memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMeminfo {
    /// All memory, in bytes.
    pub total: u64,
    /// Free memory, in bytes.
    pub free: u64,
    /// Bytes that the kernel can reclaim quickly: clean inactive pages of files, and half of the
    /// reclaimable slab memory (as `MemAvailable` counts it).
    pub reclaimable: u64,
    /// Free reserved huge pages of the default size.
    pub n_huge_free: u64,
}

/// Parses a node's `meminfo`.
pub fn parse_node_meminfo(text: &[u8]) -> Option<NodeMeminfo> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |key: &str| {
        let value = text.lines().find_map(|line| line.split_once(key).map(|(_, value)| value));
        value.and_then(|value| value.split_ascii_whitespace().next()?.parse::<u64>().ok())
    };
    let kib = |key: &str| number(key).and_then(|kib| kib.checked_mul(1024));
    let dirty = kib(" Dirty:").unwrap_or(0).saturating_add(kib(" Writeback:").unwrap_or(0));
    let files = kib(" Inactive(file):").unwrap_or(0).saturating_sub(dirty);
    let rebuilt = kib(" SReclaimable:").unwrap_or(0) / 2;
    Some(NodeMeminfo {
        total: kib(" MemTotal:")?,
        free: kib(" MemFree:")?,
        reclaimable: files.saturating_add(rebuilt),
        n_huge_free: number(" HugePages_Free:").unwrap_or(0),
    })
}

/// Reads the memory of a node from the descriptor of [`crate::system::open_node_meminfo`].
pub fn node_meminfo(meminfo: impl AsFd) -> Option<NodeMeminfo> {
    let mut buffer = [0; 4096];
    parse_node_meminfo(procfs::read_again(meminfo, &mut buffer).ok()?)
}

/// Memory of a process at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaSample {
    /// Memory by node and kind.
    pub nodes: PagesByNode,
    /// Share of the memory that was inspected, in permille.
    pub permille: u16,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Whether the values are estimated from samples, which contain no pages of files.
    pub is_sampled: bool,
    /// Whether the process, a thread or a mapping has a memory policy ([`numa_maps::has_policy`]). For a sampled
    /// process only the first mappings are read, or none ([`SampleEffort::is_check`]).
    pub has_memory_policy: bool,
    /// CPU time that the sample took.
    pub duration: Nanos,
}

/// Estimated cost of walking a page. Each sample updates the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkCost {
    /// Picoseconds per page, for `numa_maps` and `smaps` together.
    page_ps: u64,
    /// Value of `page_ps` after the last walk, in picoseconds; decreases slowly.
    measured_ps: u64,
}

impl Default for WalkCost {
    /// Starts with 40 ns per page (guessed).
    fn default() -> Self {
        WalkCost { page_ps: 40_000, measured_ps: 40_000 }
    }
}

impl WalkCost {
    fn estimate(self, n_pages: u64) -> Nanos {
        Nanos(self.page_ps.saturating_mul(n_pages) / 1000)
    }

    /// Decreases the estimate after a process was sampled instead of walked: a single slow walk must not prevent all
    /// later walks. The estimate is at least a quarter of the measured cost, so a walk takes at most about four times
    /// the limit.
    fn lower_estimate(&mut self) {
        self.measured_ps -= self.measured_ps / 256;
        self.page_ps = (self.page_ps - self.page_ps / 16).max(self.measured_ps / 4);
    }

    /// Updates the estimate after a walk. Walks of small processes are ignored: most of their cost is the cost of
    /// opening the files.
    fn update(&mut self, n_pages: u64, duration: Nanos) {
        if 25_000 <= n_pages {
            let measured = duration.0.saturating_mul(1000) / n_pages;
            self.page_ps = (self.page_ps / 2 + measured / 2).clamp(1_000, 10_000_000);
            self.measured_ps = self.page_ps;
        }
    }
}

/// Limits of one sample of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleEffort {
    /// Time limit of a walk. A process that would take longer is sampled.
    pub time: Nanos,
    /// Number of pages queried if the process is sampled.
    pub n_samples: u64,
    /// Whether the sample only detects changes. If the process is sampled, its memory policy is not read, and the
    /// estimated cost of a walk does not decrease.
    pub is_check: bool,
}

impl SampleEffort {
    /// Returns limits with 2048 samples: a change of one sixteenth of the memory exceeds the sampling error.
    pub const fn within(time: Nanos) -> Self {
        SampleEffort { time, n_samples: 2048, is_check: false }
    }
}

/// Samples the memory of a process within the limits of `effort`.
///
/// # Errors
/// The kind is `NotFound` if the process has exited or the PID is reused. Other errors mean that a file cannot be read.
pub fn sample_process(
    root: &Path,
    (pid, start_time_ticks): (u32, u64),
    effort: SampleEffort,
    cost: &mut WalkCost,
) -> io::Result<NumaSample> {
    // The cost is CPU time, because the wait time for a CPU does not depend on the number of pages.
    let began = system::thread_cpu_time();
    if procfs::stat(root, pid)?.start_time_ticks != start_time_ticks {
        return Err(io::ErrorKind::NotFound.into());
    }
    let resident = resident_parts(root, pid)?;
    let n_pages = resident.all / page_size();
    let is_walked = resident.all <= WALK_MAX && cost.estimate(n_pages) <= effort.time;
    let mut sample = match is_walked {
        true => walk(root, pid)?,
        false => page_samples::sample(root, pid, resident, effort)?,
    };
    (sample.resident, sample.is_sampled) = (resident.all, !is_walked);
    sample.duration = system::thread_cpu_time().saturating_sub(began);
    match (is_walked, sample.permille) {
        (true, 1000) => cost.update(n_pages, sample.duration),
        (true, _) => {} // A file exceeded its bound: the walk was incomplete.
        (false, _) if effort.is_check || WALK_MAX < resident.all => {}
        (false, _) => cost.lower_estimate(),
    }
    Ok(sample)
}

fn walk(root: &Path, pid: u32) -> io::Result<NumaSample> {
    let numa = read_lines(&root.join(format!("proc/{pid}/numa_maps")))?;
    // Without `smaps`, the amount of shared memory is less exact and transparent huge pages are unknown.
    let smaps = read_smaps(root, pid).unwrap_or_default();
    let (nodes, permille) = add_up(&numa, &smaps, || resident(root, pid))?;
    let has_memory_policy = numa_maps::has_policy(&numa.bytes) || has_thread_with_policy(root, pid);
    Ok(NumaSample { nodes, permille, has_memory_policy, ..NumaSample::default() })
}

/// Computes the memory by node, and the share of the memory with exact kinds in permille.
fn add_up(
    numa: &FileText,
    smaps: &FileText,
    resident: impl FnOnce() -> io::Result<u64>,
) -> io::Result<(PagesByNode, u16)> {
    let blocks = numa_maps::parse_smaps(&smaps.bytes);
    let mut nodes = PagesByNode::new();
    let (mut all, mut inexact) = (0u64, 0u64);
    for mapping in numa.bytes.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line) {
        let block = blocks.get(&mapping.start);
        numa_maps::add(&mut nodes, &mapping, block);
        let pages = mapping.nodes.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        let bytes = pages.saturating_mul(mapping.page_size);
        all = all.saturating_add(bytes);
        // `numa_maps` contains the kind of a file mapping.
        let is_inexact = block.is_none() && mapping.kind == numa_maps::MappingKind::Anonymous;
        inexact = inexact.saturating_add(if is_inexact { bytes } else { 0 });
    }
    let mut permille = if numa.is_truncated { scale_up(&mut nodes, resident()?) } else { 1000 };
    if smaps.is_truncated && inexact != 0 {
        let exact = u128::from(all - inexact) * 1000 / u128::from(all);
        permille = permille.min((exact as u16).clamp(1, 999));
    }
    Ok((nodes, permille))
}

/// Scales the listed memory to the resident memory. Returns the listed share in permille.
fn scale_up(nodes: &mut PagesByNode, resident: u64) -> u16 {
    let all = |nodes: &PagesByNode| {
        nodes.values().fold(0u64, |sum, l| {
            [l.small, l.huge, l.file, l.shared].into_iter().fold(sum, u64::saturating_add)
        })
    };
    let listed = all(nodes);
    if listed == 0 || resident <= listed {
        return 1000;
    }
    let scale = |part: &mut u64| {
        let scaled = u128::from(*part) * u128::from(resident) / u128::from(listed);
        *part = u64::try_from(scaled).unwrap_or(u64::MAX);
    };
    for pages in nodes.values_mut() {
        let parts = [&mut pages.small, &mut pages.huge, &mut pages.file, &mut pages.shared];
        parts.into_iter().for_each(scale);
    }
    ((u128::from(listed) * 1000 / u128::from(resident)) as u16).min(999)
}

/// Maximum number of threads of a process that are checked for a memory policy.
const THREADS_MAX: usize = 64;

/// Returns whether a thread has a memory policy according to its first mappings (the small mappings of the executable).
/// The kernel walks only the mappings that fit into the buffer of the read.
fn has_policy_in_first_mappings(file: &Path) -> io::Result<bool> {
    let mut file = fault::retry("open", || File::open(file))?;
    let mut buffer = [0; 256];
    let n_bytes = fault::retry("read", || file.read(&mut buffer))?;
    let text = &buffer[..n_bytes];
    // The last line may be truncated. If the buffer has no complete line, the policy is still complete: it is the
    // second word of the line.
    let whole = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(n_bytes);
    Ok(numa_maps::has_policy(&text[..whole]))
}

/// Returns whether a thread other than the main thread has a memory policy. `numa_maps` of a thread shows the policy of
/// the thread for mappings without their own policy.
fn has_thread_with_policy(root: &Path, pid: u32) -> bool {
    let other_tids =
        procfs::threads(root, pid).unwrap_or_default().into_iter().filter(|&tid| tid != pid);
    // An exited thread has no policy.
    other_tids.take(THREADS_MAX).any(|tid| {
        let file = root.join(format!("proc/{pid}/task/{tid}/numa_maps"));
        has_policy_in_first_mappings(&file).unwrap_or(false)
    })
}

/// Returns whether a process, a thread or a mapping has a memory policy. Without `walk` only the first mappings are
/// read.
pub(crate) fn has_memory_policy(root: &Path, pid: u32, walk: bool) -> io::Result<bool> {
    let file = root.join(format!("proc/{pid}/numa_maps"));
    let of_first = match walk {
        true => numa_maps::has_policy(&read_lines(&file)?.bytes),
        false => has_policy_in_first_mappings(&file)?,
    };
    Ok(of_first || has_thread_with_policy(root, pid))
}

/// Returns whether a line of `maps` has no permissions: the addresses are only reserved.
fn is_reserve(line: &str) -> bool {
    line.split_ascii_whitespace().nth(1).is_some_and(|rights| rights.starts_with("---"))
}

/// Parses the mappings of private and shared memory in `maps`. Omits mappings of files and reserved addresses.
fn memory_mappings(text: &[u8]) -> impl Iterator<Item = SmapsBlock> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let block = numa_maps::parse_head(line).filter(|_| !is_reserve(line))?;
        let mut words = line.split_ascii_whitespace().skip(4);
        let is_in_memory = |name: &str| {
            !name.starts_with("[v") && (name.starts_with('[') || name.starts_with("/dev/shm/"))
        };
        let (inode, name) = (words.next()?, words.next());
        let counts = (inode == "0" || !block.is_private) && name.is_none_or(is_in_memory);
        counts.then_some(block)
    })
}

/// Parses the mappings of private memory in `maps`.
pub(crate) fn own_mappings(text: &[u8]) -> impl Iterator<Item = SmapsBlock> {
    memory_mappings(text).filter(|block| block.is_private)
}

/// Resident memory of a process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// All resident memory.
    pub(crate) all: u64,
    /// Resident pages of files and shared memory.
    pub(crate) mapped: u64,
}

impl Resident {
    /// Returns the private memory, including private copies of file pages.
    pub(crate) fn private_bytes(self) -> u64 {
        self.all.saturating_sub(self.mapped)
    }
}

/// Reads the resident memory in bytes, including files and shared memory.
///
/// # Errors
/// The process has exited, or the file cannot be read.
pub fn resident(root: &Path, pid: u32) -> io::Result<u64> {
    resident_parts(root, pid).map(|resident| resident.all)
}

pub(crate) fn resident_parts(root: &Path, pid: u32) -> io::Result<Resident> {
    let text = read_upto(&root.join(format!("proc/{pid}/statm")), 4096)?.bytes;
    let text = std::str::from_utf8(&text).unwrap_or_default();
    let page = page_size();
    let mut bytes = text
        .split_ascii_whitespace()
        .skip(1)
        .map(|word| word.parse::<u64>().ok().and_then(|pages| pages.checked_mul(page)));
    let all = bytes.next().flatten();
    let mapped = bytes.next().flatten().unwrap_or(0);
    // The file of an exiting process is empty.
    let all = all.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(Resident { all, mapped })
}

/// Returns the size of base pages in bytes.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the sizes of base pages and transparent huge pages in bytes. Both sizes are equal without transparent huge
/// pages.
pub(crate) fn page_sizes(root: &Path) -> (u64, u64) {
    let page = page_size();
    let path = root.join("sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    let huge = fault::retry("read", || std::fs::read_to_string(&path))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let is_whole = |huge: &u64| page < *huge && huge.is_multiple_of(page);
    (page, huge.filter(is_whole).unwrap_or(page))
}

/// Content of a file up to a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileText {
    pub(crate) bytes: Vec<u8>,
    /// Whether the file is longer than the bound. In this case the text ends with a complete line.
    pub(crate) is_truncated: bool,
}

/// Reads a file of `/proc` that has one line per mapping.
pub(crate) fn read_lines(path: &Path) -> io::Result<FileText> {
    read_upto(path, LINES_MAX)
}

/// Reads the `smaps` of a process. A longer file is truncated after a complete block.
pub(crate) fn read_smaps(root: &Path, pid: u32) -> io::Result<FileText> {
    let mut text = read_upto(&root.join(format!("proc/{pid}/smaps")), SMAPS_MAX)?;
    if text.is_truncated {
        // The last block may be incomplete.
        let is_head = |line: &[u8]| {
            std::str::from_utf8(line).is_ok_and(|line| numa_maps::parse_head(line).is_some())
        };
        let mut end = text.bytes.len();
        while 0 < end {
            let before = text.bytes[..end - 1].iter().rposition(|&byte| byte == b'\n');
            let start = before.map_or(0, |at| at + 1);
            let was_head = is_head(&text.bytes[start..end]);
            end = start;
            if was_head {
                break;
            }
        }
        text.bytes.truncate(end);
    }
    Ok(text)
}

fn read_upto(path: &Path, max: u64) -> io::Result<FileText> {
    let mut bytes = procfs::read_start(path, max).map_err(procfs::not_found_if_exited)?;
    let is_truncated = max <= bytes.len() as u64;
    if is_truncated {
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(end);
    }
    Ok(FileText { bytes, is_truncated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMINFO: &str = "\
Node 1 MemTotal:        1000000 kB
Node 1 MemFree:          400000 kB
Node 1 MemUsed:          600000 kB
Node 1 Active(file):      30000 kB
Node 1 Inactive(file):    20000 kB
Node 1 Dirty:              1000 kB
Node 1 Writeback:           200 kB
Node 1 WritebackTmp:          7 kB
Node 1 KReclaimable:       9000 kB
Node 1 SReclaimable:       8000 kB
Node 1 HugePages_Total:    10
Node 1 HugePages_Free:      3
";

    #[test]
    fn one_slow_walk_does_not_prevent_further_walks() {
        let (mut cost, time) = (WalkCost::default(), Nanos::from_millis(10));
        // The number of samples until the process is walked again.
        let n_sampled = |cost: &mut WalkCost, n_pages: u64| {
            let is_sampled = |_: &u32| {
                let is_sampled = time < cost.estimate(n_pages);
                if is_sampled {
                    cost.lower_estimate();
                }
                is_sampled
            };
            (0..).take_while(is_sampled).count()
        };
        cost.update(90_000, Nanos::from_millis(60));
        assert_eq!(n_sampled(&mut cost, 90_000), 18);
        cost.update(90_000, Nanos::from_millis(2));
        assert!(cost.estimate(90_000) < time);
        // The estimate decreases to its lower bound, not to zero.
        let (mut cost, n_pages) = (WalkCost::default(), 1 << 20);
        (0..10).for_each(|_| cost.update(n_pages, Nanos::from_millis(80)));
        assert_eq!(n_sampled(&mut cost, n_pages), 178, "about 90 minutes");
    }

    #[test]
    fn clean_inactive_file_pages_and_half_of_the_reclaimable_slab_are_reclaimable() {
        let node = parse_node_meminfo(MEMINFO.as_bytes()).expect("a node's meminfo");
        let kib = |bytes: u64| bytes / 1024;
        assert_eq!((kib(node.total), kib(node.free)), (1_000_000, 400_000));
        assert_eq!(kib(node.reclaimable), 20_000 - 1_200 + 4_000);
        assert_eq!(node.n_huge_free, 3);
        assert_eq!(parse_node_meminfo(b"Node 1 MemTotal: 5 kB\n"), None);
    }

    fn own_process() -> (u32, u64) {
        let pid = std::process::id();
        (pid, procfs::stat(Path::new("/"), pid).expect("own line").start_time_ticks)
    }

    #[test]
    fn the_memory_of_this_process_is_found_by_walk_and_by_samples() {
        let touched = vec![1u8; 32 << 20];
        let mut cost = WalkCost::default();
        let mut sample = |time| {
            sample_process(Path::new("/"), own_process(), SampleEffort::within(time), &mut cost)
        };
        let walked = match sample(Nanos::from_secs(10)) {
            Ok(walked) => walked,
            Err(error) => {
                println!("not run: this kernel reports no memory by node ({error})");
                return;
            }
        };
        assert_eq!(walked.permille, 1000);
        let own_bytes = |sample: &NumaSample| -> u64 {
            sample.nodes.values().map(|pages| pages.small + pages.huge).sum()
        };
        assert!(32 << 20 <= own_bytes(&walked), "{walked:?}");
        let sampled = sample(Nanos::ZERO).expect("a sample");
        assert!(sampled.permille < 1000);
        assert!(16 << 20 <= own_bytes(&sampled), "{sampled:?}");
        drop(touched);
    }

    #[test]
    fn a_policy_of_any_thread_or_mapping_is_found() {
        let check = |threads: &[&str], expected: bool| {
            let test_dir = tempfile::tempdir().expect("a directory");
            let process = test_dir.path().join("proc/7");
            for (idx, text) in threads.iter().enumerate() {
                let thread = process.join(format!("task/{}", 7 + idx));
                std::fs::create_dir_all(&thread).expect("the directory is writable");
                std::fs::write(thread.join("numa_maps"), text).expect("the directory is writable");
            }
            std::fs::write(process.join("numa_maps"), threads[0])
                .expect("the directory is writable");
            for walk in [true, false] {
                let found = has_memory_policy(test_dir.path(), 7, walk).expect("the file exists");
                assert_eq!(found, expected, "{threads:?}");
            }
        };
        let (plain, bound) =
            ("00400000 default file=/a\n7f00 default\n", "00400000 bind:0 file=/a\n");
        check(&[plain], false);
        check(&[bound], true);
        check(&[plain, plain, bound], true);
        check(&[plain, plain], false);
    }

    #[test]
    fn a_truncated_file_reduces_the_inspected_share() {
        let text =
            |text: &str, is_truncated| FileText { bytes: text.as_bytes().to_vec(), is_truncated };
        let numa =
            "1000 default anon=30 N0=30\n9000 default anon=10 N1=10\nf000 default file=/a N1=5\n";
        let smaps = "1000-2000 rw-p 0 0 0\nPrivate_Dirty: 120 kB\n";
        let check = |numa: FileText, smaps: FileText, expected: u16| {
            let (_, permille) = add_up(&numa, &smaps, || Ok(90 * 4096)).expect("sizes are known");
            assert_eq!(permille, expected);
        };
        check(text(numa, false), text(smaps, false), 1000);
        check(text(numa, false), text(smaps, true), 777);
        check(text(numa, true), text(smaps, false), 500);
        check(text(numa, true), text("", true), 111);
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_sampled() {
        let (pid, start) = own_process();
        let mut cost = WalkCost::default();
        let effort = SampleEffort::within(Nanos(1));
        let other = sample_process(Path::new("/"), (pid, start + 1), effort, &mut cost);
        assert_eq!(other.expect_err("another process").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn own_mappings_are_private_memory_without_reserved_addresses() {
        let maps = b"\
55d8c000-55d90000 r--p 00000000 08:01 77 /usr/bin/cat
55d91000-55d99000 rw-p 00000000 00:00 0 [heap]
7f000000-7f100000 rw-p 00000000 00:00 0
7f100000-7f200000 ---p 00000000 00:00 0
7f200000-7f300000 rw-s 00000000 00:01 9 /dev/shm/x
7ffd0000-7ffd1000 r-xp 00000000 00:00 0 [vdso]
";
        let starts = |blocks: Vec<SmapsBlock>| blocks.iter().map(|k| k.range.0).collect::<Vec<_>>();
        assert_eq!(starts(own_mappings(maps).collect()), [0x55d9_1000, 0x7f00_0000]);
        assert_eq!(
            starts(memory_mappings(maps).collect()),
            [0x55d9_1000, 0x7f00_0000, 0x7f20_0000]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_node_meminfo(&text);
            let _ = memory_mappings(&text).count();
        }
    }
}
