//! Where a process's memory lies, looked at within a stretch of time, and how much a node has left.
//!
//! The kernel walks every page of a process for `numa_maps`, and again for `smaps`: some 20 ns a page,
//! with a lock of the process's memory held. So a process that is large for the time that a look may
//! take is sampled: some thousand of its pages are asked for instead.
//!
//! ```text
//!   resident × cost a page ≤ time   ─►  all of it: numa_maps and smaps       looked at: 1000 ‰
//!   more                            ─►  some pages of its own mappings       looked at: what they are
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use base::Nanos;

use crate::numa_maps::{self, ByNode, SmapsBlock};
use crate::{fault, procfs, system};

pub(crate) mod sample;

/// `smaps` is read no further: some 5,800 mappings, a block of 715 bytes each.
const SMAPS_MAX: u64 = 4 << 20;
/// Whoever has more is never walked: a million pages take tens of milliseconds, and for so long a process
/// of somebody's cannot map anything.
pub(crate) const WALK_MAX: u64 = 4 << 30;
/// Files with a line for each mapping are read no further: 100,000 to 300,000 mappings. The kernel allows
/// a process 65,530 if nobody raised that (`vm.max_map_count`).
const LINES_MAX: u64 = 16 << 20;

/// What a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMeminfo {
    /// All memory, in bytes.
    pub total: u64,
    /// Free memory.
    pub free: u64,
    /// What the kernel can take back at once and at little cost: pages of files that are clean and were
    /// not used lately, and half of what it keeps for itself and can rebuild (as `MemAvailable`
    /// counts it).
    pub reclaimable: u64,
    /// Reserved huge pages that are free, of the default size.
    pub n_huge_free: u64,
}

/// Reads a node's `meminfo`.
pub fn parse_node_meminfo(text: &[u8]) -> Option<NodeMeminfo> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |key: &str| {
        let rest = text.lines().find_map(|line| line.split_once(key).map(|(_, rest)| rest));
        rest.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok())
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

/// A node's figures from the descriptor that [`crate::system::open_node_meminfo`] gave.
pub fn node_meminfo(meminfo: impl AsFd) -> Option<NodeMeminfo> {
    let mut buffer = [0; 4096];
    parse_node_meminfo(procfs::read_again(meminfo, &mut buffer).ok()?)
}

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaSample {
    /// What lies where.
    pub nodes: ByNode,
    /// How much of it was looked at, in thousandths.
    pub permille: u16,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Told from some of its pages: nothing of files.
    pub is_sampled: bool,
    /// Whether the process, one of its threads or one of its mappings has a memory policy of its own
    /// ([`numa_maps::has_policy`]). Of a sampled process only its first mappings were asked, if any
    /// ([`Effort::is_check`]).
    pub has_own_policy: bool,
    /// How long the look worked: time in which it waited for a CPU does not count.
    pub duration: Nanos,
}

/// What a page costs to walk, learned from look to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkCost {
    /// Picoseconds a page, both files together.
    page_ps: u64,
    /// The same as it was last seen.
    seen_ps: u64,
}

impl Default for WalkCost {
    /// 40 ns: measured on no machine in particular, and replaced by the first look.
    fn default() -> Self {
        WalkCost { page_ps: 40_000, seen_ps: 40_000 }
    }
}

impl WalkCost {
    fn of(self, n_pages: u64) -> Nanos {
        Nanos(self.page_ps.saturating_mul(n_pages) / 1000)
    }

    /// A process was sampled, so nothing was learned. What a page costs may be less by now, so it is
    /// tried again after some of these: one slow look must not decide for ever. At once never less than a
    /// quarter of what was seen: a look that is tried takes about four times its time at the most.
    fn forget(&mut self) {
        self.seen_ps -= self.seen_ps / 256;
        self.page_ps = (self.page_ps - self.page_ps / 16).max(self.seen_ps / 4);
    }

    /// Small processes cost what opening files costs, which tells nothing of pages.
    fn learn(&mut self, n_pages: u64, took: Nanos) {
        if 25_000 <= n_pages {
            let seen = took.0.saturating_mul(1000) / n_pages;
            self.page_ps = (self.page_ps / 2 + seen / 2).clamp(1_000, 10_000_000);
            self.seen_ps = self.page_ps;
        }
    }
}

/// What one look may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleEffort {
    /// A process that takes longer to walk is sampled.
    pub time: Nanos,
    /// So many of its pages are asked for then.
    pub n_samples: u64,
    /// It is only to tell whether anything has changed: who is sampled is not asked for a memory policy of
    /// its own, and nothing is learned of what pages cost.
    pub is_check: bool,
}

impl SampleEffort {
    /// As many samples as tell a sixteenth from chance.
    pub const fn of(time: Nanos) -> Self {
        SampleEffort { time, n_samples: 2048, is_check: false }
    }
}

/// Looks where a process's memory lies, with about so much effort.
///
/// # Errors
/// Of the kind `NotFound` when it is gone or belongs to somebody else by now; other errors say why it
/// cannot be read.
pub fn sample_process(
    root: &Path,
    (pid, born_ticks): (u32, u64),
    effort: SampleEffort,
    pace: &mut WalkCost,
) -> io::Result<NumaSample> {
    // What it waits for a CPU is not the pages' cost.
    let began = system::thread_cpu_time();
    if procfs::stat(root, pid)?.born_ticks != born_ticks {
        return Err(io::ErrorKind::NotFound.into());
    }
    let resident = resident_parts(root, pid)?;
    let n_pages = resident.all / page_size();
    let is_walked = resident.all <= WALK_MAX && pace.of(n_pages) <= effort.time;
    let mut looked = match is_walked {
        true => walk(root, pid)?,
        false => sample::look(root, pid, resident, effort)?,
    };
    (looked.resident, looked.is_sampled) = (resident.all, !is_walked);
    looked.duration = system::thread_cpu_time().saturating_sub(began);
    match (is_walked, looked.permille) {
        (true, 1000) => pace.learn(n_pages, looked.duration),
        (true, _) => {} // It was cut, and took less than it would have.
        (false, _) if effort.is_check || WALK_MAX < resident.all => {}
        (false, _) => pace.forget(),
    }
    Ok(looked)
}

fn walk(root: &Path, pid: u32) -> io::Result<NumaSample> {
    let numa = read_lines(&root.join(format!("proc/{pid}/numa_maps")))?;
    // Without it shared memory is told less exactly, and huge pages not at all.
    let smaps = read_smaps(root, pid).unwrap_or_default();
    let (nodes, permille) = add_up(&numa, &smaps, || resident(root, pid))?;
    let has_own_policy = numa_maps::has_policy(&numa.bytes) || has_thread_with_policy(root, pid);
    Ok(NumaSample { nodes, permille, has_own_policy, ..NumaSample::default() })
}

/// What lies where, and how much of it was looked at as closely as can be, in thousandths.
fn add_up(
    numa: &Text,
    smaps: &Text,
    resident: impl FnOnce() -> io::Result<u64>,
) -> io::Result<(ByNode, u16)> {
    let kinds = numa_maps::parse_smaps(&smaps.bytes);
    let mut nodes = ByNode::new();
    let (mut all, mut unkind) = (0u64, 0u64);
    for mapping in numa.bytes.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line) {
        let kinds = kinds.get(&mapping.start);
        numa_maps::add(&mut nodes, &mapping, kinds);
        let pages = mapping.nodes.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        let bytes = pages.saturating_mul(mapping.page_size);
        all = all.saturating_add(bytes);
        // A file says itself that it is one.
        let is_unkind = kinds.is_none() && mapping.kind == numa_maps::MappingKind::Nothing;
        unkind = unkind.saturating_add(if is_unkind { bytes } else { 0 });
    }
    let mut permille = if numa.is_cut { scale_up(&mut nodes, resident()?) } else { 1000 };
    if smaps.is_cut && unkind != 0 {
        let told = u128::from(all - unkind) * 1000 / u128::from(all);
        permille = permille.min((told as u16).clamp(1, 999));
    }
    Ok((nodes, permille))
}

/// What was seen, as large as the whole; tells the part that it was, in thousandths.
fn scale_up(nodes: &mut ByNode, whole: u64) -> u16 {
    let all = |nodes: &ByNode| {
        nodes.values().fold(0u64, |sum, l| {
            [l.small, l.huge, l.file, l.shared].into_iter().fold(sum, u64::saturating_add)
        })
    };
    let seen = all(nodes);
    if seen == 0 || whole <= seen {
        return 1000;
    }
    let scale = |part: &mut u64| {
        let scaled = u128::from(*part) * u128::from(whole) / u128::from(seen);
        *part = u64::try_from(scaled).unwrap_or(u64::MAX);
    };
    for lies in nodes.values_mut() {
        let parts = [&mut lies.small, &mut lies.huge, &mut lies.file, &mut lies.shared];
        parts.into_iter().for_each(scale);
    }
    ((u128::from(seen) * 1000 / u128::from(whole)) as u16).min(999)
}

/// Threads of a process that are asked for a memory policy of their own; of more of them the first.
const THREADS_MAX: usize = 64;

/// Whether a thread has a memory policy of its own, told by its first mappings alone: they are the
/// program's, and small. The kernel walks no more mappings than it is asked for bytes.
fn has_policy_at_first_sight(file: &Path) -> io::Result<bool> {
    let mut file = fault::retry("open", || File::open(file))?;
    let mut buffer = [0; 256];
    let n_bytes = fault::retry("read", || file.read(&mut buffer))?;
    let text = &buffer[..n_bytes];
    // A line that was cut may show a part of a word. One that is cut and alone shows both first words.
    let whole = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(n_bytes);
    Ok(numa_maps::has_policy(&text[..whole]))
}

/// Whether a thread other than the first has one: each has its own `numa_maps`, which shows it where a
/// mapping has none.
fn has_thread_with_policy(root: &Path, pid: u32) -> bool {
    let others =
        procfs::threads(root, pid).unwrap_or_default().into_iter().filter(|&tid| tid != pid);
    // Of one that ends meanwhile nothing lies anywhere.
    others.take(THREADS_MAX).any(|tid| {
        let file = root.join(format!("proc/{pid}/task/{tid}/numa_maps"));
        has_policy_at_first_sight(&file).unwrap_or(false)
    })
}

/// Whether a process, one of its threads or one of its mappings has a memory policy of its own. Of one that
/// is too large to be walked only the first mappings are asked.
pub(crate) fn has_own_policy(root: &Path, pid: u32, walk: bool) -> io::Result<bool> {
    let file = root.join(format!("proc/{pid}/numa_maps"));
    let of_first = match walk {
        true => numa_maps::has_policy(&read_lines(&file)?.bytes),
        false => has_policy_at_first_sight(&file)?,
    };
    Ok(of_first || has_thread_with_policy(root, pid))
}

/// Whether nobody may read, write or run what a line of `maps` tells of: addresses kept free for later.
fn is_reserve(line: &str) -> bool {
    line.split_ascii_whitespace().nth(1).is_some_and(|rights| rights.starts_with("---"))
}

/// Mappings of nobody's file, from the lines of `maps`: the process's own, and what it shares; without
/// those that only keep addresses free.
fn nobodys_mappings(text: &[u8]) -> impl Iterator<Item = SmapsBlock> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let kinds = numa_maps::parse_head(line).filter(|_| !is_reserve(line))?;
        let mut words = line.split_ascii_whitespace().skip(4);
        let is_in_memory = |name: &str| {
            !name.starts_with("[v") && (name.starts_with('[') || name.starts_with("/dev/shm/"))
        };
        let (inode, name) = (words.next()?, words.next());
        let counts = inode == "0" && name.is_none_or(is_in_memory)
            || !kinds.is_private && name.is_none_or(is_in_memory);
        counts.then_some(kinds)
    })
}

/// Mappings of a process's own memory, from the lines of `maps`.
pub(crate) fn own_mappings(text: &[u8]) -> impl Iterator<Item = SmapsBlock> {
    nobodys_mappings(text).filter(|kinds| kinds.is_private)
}

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// All of it.
    pub(crate) all: u64,
    /// Pages of files, and of memory that is mapped like one.
    pub(crate) mapped: u64,
}

impl Resident {
    /// What is its own, pages of files among it that were written to and copied.
    pub(crate) fn own(self) -> u64 {
        self.all.saturating_sub(self.mapped)
    }
}

/// Resident memory in bytes, files and shared pages among it.
///
/// # Errors
/// It is gone, or cannot be read.
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
    // An empty file: its memory is gone.
    let all = all.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(Resident { all, mapped })
}

/// The size of ordinary pages, in bytes.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The size of ordinary pages and of transparent huge ones, in bytes; without huge ones both are the
/// ordinary.
pub(crate) fn page_sizes(root: &Path) -> (u64, u64) {
    let page = page_size();
    let path = root.join("sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    let huge = fault::retry("read", || std::fs::read_to_string(&path))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let is_whole = |huge: &u64| page < *huge && huge.is_multiple_of(page);
    (page, huge.filter(is_whole).unwrap_or(page))
}

/// What was read of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    /// Whether there was more. Then it ends with a line.
    pub(crate) is_cut: bool,
}

/// A file of `/proc` with a line for each mapping.
pub(crate) fn read_lines(path: &Path) -> io::Result<Text> {
    read_upto(path, LINES_MAX)
}

/// A process's `smaps`; cut it ends with a whole block.
pub(crate) fn read_smaps(root: &Path, pid: u32) -> io::Result<Text> {
    let mut text = read_upto(&root.join(format!("proc/{pid}/smaps")), SMAPS_MAX)?;
    if text.is_cut {
        // The last block may have lost lines.
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

fn read_upto(path: &Path, max: u64) -> io::Result<Text> {
    let file = fault::retry("open", || File::open(path))?;
    fault::retry("read", || Ok(()))?; // Reading to the end goes on by itself when interrupted.
    let mut bytes = Vec::new();
    let read = file.take(max).read_to_end(&mut bytes);
    read.map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
        _ => error,
    })?;
    let is_cut = max <= bytes.len() as u64;
    if is_cut {
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(end);
    }
    Ok(Text { bytes, is_cut })
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
    fn one_slow_look_does_not_have_a_process_sampled_for_ever() {
        let mut pace = WalkCost::default();
        let (n_pages, time) = (90_000, Nanos::from_millis(10));
        pace.learn(n_pages, Nanos::from_millis(60));
        assert!(time < pace.of(n_pages), "it is sampled");
        let n_sampled = (0..).take_while(|_| {
            time < pace.of(n_pages) && {
                pace.forget();
                true
            }
        });
        assert_eq!(n_sampled.count(), 18);
        pace.learn(n_pages, Nanos::from_millis(2));
        assert!(pace.of(n_pages) < time);
    }

    #[test]
    fn what_was_not_tried_for_long_is_not_thought_to_cost_nothing() {
        let mut pace = WalkCost::default();
        let (n_pages, time) = (1 << 20, Nanos::from_millis(10));
        (0..10).for_each(|_| pace.learn(n_pages, Nanos::from_millis(80)));
        let n_sampled = (0..).take_while(|_| {
            pace.forget();
            time < pace.of(n_pages)
        });
        assert_eq!(n_sampled.count(), 177, "some ninety minutes");
    }

    #[test]
    fn what_can_be_taken_back_is_clean_files_not_used_lately_and_half_of_the_kernels_own() {
        let figures = parse_node_meminfo(MEMINFO.as_bytes()).expect("a node's meminfo");
        let kib = |bytes: u64| bytes / 1024;
        assert_eq!((kib(figures.total), kib(figures.free)), (1_000_000, 400_000));
        assert_eq!(kib(figures.reclaimable), 20_000 - 1_200 + 4_000);
        assert_eq!(figures.n_huge_free, 3);
        assert_eq!(parse_node_meminfo(b"Node 1 MemTotal: 5 kB\n"), None);
    }

    fn own() -> (u32, u64) {
        let pid = std::process::id();
        (pid, procfs::stat(Path::new("/"), pid).expect("own line").born_ticks)
    }

    #[test]
    fn the_memory_of_this_process_lies_somewhere_walked_or_sampled() {
        let touched = vec![1u8; 32 << 20];
        let mut pace = WalkCost::default();
        let walked = match sample_process(
            Path::new("/"),
            own(),
            SampleEffort::of(Nanos::from_secs(10)),
            &mut pace,
        ) {
            Ok(walked) => walked,
            Err(error) => {
                println!("not run: this kernel tells no memory by node ({error})");
                return;
            }
        };
        assert_eq!(walked.permille, 1000);
        let own_bytes = |looked: &NumaSample| -> u64 {
            looked.nodes.values().map(|lies| lies.small + lies.huge).sum()
        };
        assert!(32 << 20 <= own_bytes(&walked), "{walked:?}");
        let sampled =
            sample_process(Path::new("/"), own(), SampleEffort::of(Nanos::ZERO), &mut pace)
                .expect("a sample");
        assert!(sampled.permille < 1000);
        assert!(16 << 20 <= own_bytes(&sampled), "{sampled:?}");
        drop(touched);
    }

    #[test]
    fn a_policy_of_any_thread_or_mapping_counts() {
        let check = |threads: &[&str], expected: bool| {
            let world = tempfile::tempdir().expect("a folder");
            let process = world.path().join("proc/7");
            for (idx, text) in threads.iter().enumerate() {
                let thread = process.join(format!("task/{}", 7 + idx));
                std::fs::create_dir_all(&thread).expect("ours");
                std::fs::write(thread.join("numa_maps"), text).expect("ours");
            }
            std::fs::write(process.join("numa_maps"), threads[0]).expect("ours");
            for walk in [true, false] {
                let found = has_own_policy(world.path(), 7, walk).expect("it is there");
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
    fn what_stands_behind_the_cut_of_a_file_makes_less_than_all_of_it() {
        let text = |text: &str, is_cut| Text { bytes: text.as_bytes().to_vec(), is_cut };
        let numa =
            "1000 default anon=30 N0=30\n9000 default anon=10 N1=10\nf000 default file=/a N1=5\n";
        let smaps = "1000-2000 rw-p 0 0 0\nPrivate_Dirty: 120 kB\n";
        let check = |numa: Text, smaps: Text, expected: u16| {
            let (_, permille) = add_up(&numa, &smaps, || Ok(90 * 4096)).expect("sizes are known");
            assert_eq!(permille, expected);
        };
        check(text(numa, false), text(smaps, false), 1000);
        check(text(numa, false), text(smaps, true), 777);
        check(text(numa, true), text(smaps, false), 500);
        check(text(numa, true), text("", true), 111);
    }

    #[test]
    fn another_with_the_same_number_is_not_looked_at() {
        let (pid, born_ticks) = own();
        let other = sample_process(
            Path::new("/"),
            (pid, born_ticks + 1),
            SampleEffort::of(Nanos(1)),
            &mut WalkCost::default(),
        );
        assert_eq!(other.expect_err("somebody else").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn own_mappings_are_nobodys_files() {
        let maps = b"\
55d8c000-55d90000 r--p 00000000 08:01 77 /usr/bin/cat
55d91000-55d99000 rw-p 00000000 00:00 0 [heap]
7f000000-7f100000 rw-p 00000000 00:00 0
7f100000-7f200000 ---p 00000000 00:00 0
7f200000-7f300000 rw-s 00000000 00:01 9 /dev/shm/x
7ffd0000-7ffd1000 r-xp 00000000 00:00 0 [vdso]
";
        let starts = |it: Vec<SmapsBlock>| it.iter().map(|k| k.range.0).collect::<Vec<_>>();
        assert_eq!(starts(own_mappings(maps).collect()), [0x55d9_1000, 0x7f00_0000]);
        assert_eq!(
            starts(nobodys_mappings(maps).collect()),
            [0x55d9_1000, 0x7f00_0000, 0x7f20_0000]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_node_meminfo(&text);
            let _ = nobodys_mappings(&text).count();
        }
    }
}
