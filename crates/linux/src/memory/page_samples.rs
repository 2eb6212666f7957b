//! Memory of a large process by node, estimated from samples of its pages.
//!
//! Most addresses may be reserved and unused, so the occupied ranges are found first ([`pagemap`]), and the samples are
//! spread evenly over the occupied ranges. Before Linux 6.7 the occupied ranges are unknown. The weight of a mapping is
//! then limited to the resident memory, and a sample in a longer mapping represents more bytes:
//!
//! ```text
//!   resident 4                          weight   samples   each represents
//!   mapping │▓▓│                        2        ▪▪        1
//!   mapping │▓▓                ▓    │   4        ▪ ▪ ▪ ▪   length / 4
//! ```
//!
//! The total is exact (`statm`); the samples determine its distribution over the nodes. Private and shared memory are
//! sampled, pages of files are not. Huge pages count as base pages. Address ranges without permissions are skipped,
//! even if they contain pages.

use std::io;
use std::path::Path;

use base::NodeId;

use super::{FileText, NumaSample, Resident, SampleEffort};
use crate::move_pages;
use crate::numa_maps::{PagesByNode, SmapsBlock};
use crate::pagemap::{self, AddressRange};

/// A sampled page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageSample {
    addr: u64,
    /// Bytes that the sample represents.
    weight: u64,
    is_private: bool,
}

/// Samples the pages of a process.
pub fn sample(
    root: &Path,
    pid: u32,
    resident: Resident,
    effort: SampleEffort,
) -> io::Result<NumaSample> {
    let text = super::read_lines(&root.join(format!("proc/{pid}/maps")))?;
    let page = super::page_size();
    let ranges = occupied_ranges(root, pid, &text, resident);
    let samples = spread(&ranges, effort.n_samples, resident.all, page);
    let addresses: Vec<u64> = samples.iter().map(|sample| sample.addr).collect();
    let mut status = Vec::new();
    move_pages::query(pid, &addresses, &mut status)?;
    let n_resident = status.iter().filter(|status| 0 <= **status).count() as u64;
    let permille = u128::from(n_resident * page) * 1000 / u128::from(resident.all.max(1));
    let has_memory_policy = !effort.is_check && super::has_memory_policy(root, pid, false)?;
    Ok(NumaSample {
        nodes: distribute(&samples, &status, resident),
        permille: (permille as u16).clamp(1, 999),
        has_memory_policy,
        ..NumaSample::default()
    })
}

/// Returns the occupied ranges, and whether each range is private.
fn occupied_ranges(
    root: &Path,
    pid: u32,
    maps: &FileText,
    resident: Resident,
) -> Vec<(AddressRange, bool)> {
    let mappings: Vec<SmapsBlock> = super::memory_mappings(&maps.bytes).collect();
    let ranges: Vec<AddressRange> = mappings.iter().map(|block| block.range).collect();
    let found = pagemap::occupied(root, pid, &ranges, resident.all);
    found.into_iter().map(|(idx, range)| (range, mappings[idx].is_private)).collect()
}

/// Distributes the samples evenly over the sum of the weights.
fn spread(
    ranges: &[(AddressRange, bool)],
    n_samples: u64,
    resident: u64,
    page: u64,
) -> Vec<PageSample> {
    let most = resident.max(page);
    let weight = |(start, end): AddressRange| (end - start).min(most);
    let all = ranges.iter().map(|(range, _)| u128::from(weight(*range))).sum::<u128>();
    let step = u64::try_from(all / u128::from(n_samples.max(1))).unwrap_or(u64::MAX).max(page);
    let mut samples = Vec::new();
    let mut ahead = step / 2; // The first sample is half a step from the start.
    for &((start, end), is_private) in ranges {
        let weight = weight((start, end));
        let scaled = |part: u64| {
            let whole = u128::from(part) * u128::from(end - start) / u128::from(weight.max(1));
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        while ahead < weight {
            let addr = start.saturating_add(scaled(ahead));
            let addr = addr - addr % page;
            samples.push(PageSample { addr, weight: scaled(step), is_private });
            ahead += step;
        }
        ahead -= weight;
    }
    samples
}

/// Distributes the resident memory over the nodes in proportion to the samples.
fn distribute(samples: &[PageSample], status: &[i32], resident: Resident) -> PagesByNode {
    let found = || samples.iter().zip(status).filter(|(_, status)| 0 <= **status);
    let sum = |is_private: bool| {
        let of_kind = found().filter(|(sample, _)| sample.is_private == is_private);
        of_kind.map(|(sample, _)| u128::from(sample.weight)).sum::<u128>()
    };
    let (private, shared) = (sum(true), sum(false));
    let mut by_node = std::collections::BTreeMap::<(u32, bool), u128>::new();
    for (sample, &status) in found() {
        let sum = by_node.entry((status.unsigned_abs(), sample.is_private)).or_default();
        *sum += u128::from(sample.weight);
    }
    let mut nodes = PagesByNode::new();
    for ((node, is_private), part) in by_node {
        let pages = nodes.entry(NodeId(node)).or_default();
        // `mapped` includes pages of files, so it is only an upper bound of shared memory.
        let (into, whole, all) = match is_private {
            true => (&mut pages.small, u128::from(resident.private_bytes()), private),
            false => (&mut pages.shared, shared.min(u128::from(resident.mapped)), shared),
        };
        *into = u64::try_from(part * whole / all.max(1)).unwrap_or(u64::MAX);
    }
    nodes
}

#[cfg(test)]
pub(crate) mod tests {
    use base::Nanos;

    use super::*;

    const SAMPLES: u64 = 2048;
    const PAGE: u64 = 4096;
    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;

    #[test]
    fn samples_are_spread_evenly_over_ranges() {
        let ranges = [((0, 64 * MIB), true), ((TIB, TIB + 64 * MIB), false)];
        let samples = spread(&ranges, SAMPLES, 128 * MIB, PAGE);
        assert_eq!(samples.len() as u64, SAMPLES);
        assert!(samples.iter().all(|sample| sample.weight == 128 * MIB / SAMPLES));
        assert_eq!(samples.iter().filter(|sample| sample.is_private).count() as u64, SAMPLES / 2);
        assert!(samples.is_sorted_by(|a, b| a.addr + PAGE <= b.addr), "each page once");
    }

    #[test]
    fn a_long_mapping_has_at_most_the_weight_of_the_resident_memory() {
        let ranges = [((0, 64 * MIB), true), ((TIB, 17 * TIB), true)];
        let samples = spread(&ranges, SAMPLES, 64 * MIB, PAGE);
        let short = samples.iter().filter(|sample| sample.addr < TIB).count() as u64;
        assert_eq!((short, samples.len() as u64), (SAMPLES / 2, SAMPLES));
        let long = samples.last().expect("some").weight * (SAMPLES / 2);
        assert_eq!(long, 16 * TIB, "the samples represent the whole mapping");
    }

    #[test]
    fn resident_memory_is_distributed_in_proportion_to_the_samples() {
        let page = |is_private| PageSample { addr: 0, weight: 10, is_private };
        let samples = [page(true), page(true), page(true), page(true), page(false), page(false)];
        let nodes = distribute(&samples, &[0, 0, 2, -2, 1, -14], Resident { all: 1000, mapped: 7 });
        let by_node: Vec<_> = nodes.iter().map(|(n, l)| (n.0, l.small, l.shared)).collect();
        assert_eq!(by_node, [(0, 662, 0), (1, 0, 7), (2, 331, 0)]);
        assert!(distribute(&samples, &[-2; 6], Resident::default()).is_empty());
    }

    /// Maps memory and writes to `used_mib` MiB, beginning in the middle.
    pub(crate) fn mapping(bytes: u64, rights: i32, used_mib: u64) -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the mapping is new, and the writes stay within the mapping.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), bytes as usize, rights, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
            let middle = start.cast::<u8>().add(bytes as usize / 2);
            (0..used_mib * MIB)
                .step_by(4096)
                .for_each(|at| middle.add(at as usize).write_volatile(1));
            start as u64
        }
    }

    pub(crate) fn unmap(start: u64, bytes: u64) {
        // SAFETY: the mapping belongs to a test, which no longer uses it.
        unsafe { libc::munmap(start as *mut libc::c_void, bytes as usize) };
    }

    #[test]
    fn reserved_and_sparse_terabytes_do_not_hide_resident_memory() {
        let (root, pid) = (Path::new("/"), std::process::id());
        let (used, sparse_end) =
            (mapping(128 * MIB, libc::PROT_READ | libc::PROT_WRITE, 64), 8 * TIB);
        let reserved = mapping(16 * TIB, libc::PROT_NONE, 0);
        let sparse = mapping(sparse_end, libc::PROT_READ | libc::PROT_WRITE, 32);
        let parts = || super::super::resident_parts(root, pid).expect("own memory");
        let effort = SampleEffort::within(Nanos::ZERO);
        let first = sample(root, pid, parts(), effort);
        let began = std::time::Instant::now();
        let second = sample(root, pid, parts(), effort);
        println!(
            "a sample of {} ‰: {:?}",
            second.map_or(0, |sample| sample.permille),
            began.elapsed()
        );
        let next_page = pagemap::Pagemap::open(root, pid).and_then(|pagemap| {
            let began = std::time::Instant::now();
            let found = pagemap.next((sparse, sparse + sparse_end))?;
            println!("next page after an empty range of 4 TiB: {:?}", began.elapsed());
            Ok(found)
        });
        let resident = parts();
        unmap(used, 128 * MIB);
        unmap(reserved, 16 * TIB);
        unmap(sparse, sparse_end);
        let Ok(first) = first else {
            return println!("not run: this kernel reports no memory by node ({first:?})");
        };
        let small: u64 = first.nodes.values().map(|pages| pages.small).sum();
        // Other tests of this process allocate and free memory concurrently.
        let private = resident.private_bytes();
        assert!(80 * MIB <= small && small <= 2 * private, "{first:?}, {private}");
        match next_page {
            Ok(found) => {
                assert!(found.is_some_and(|at| (sparse..=sparse + 4 * TIB).contains(&at)));
                let n_hit = u64::from(first.permille) * resident.all / 1000 / PAGE;
                assert!(SAMPLES / 2 <= n_hit, "most samples hit a page: {first:?}");
            }
            Err(error) => println!("not run in part: PAGEMAP_SCAN fails ({error})"),
        }
    }
}
