//! Where the memory of a large process lies, told from some of its pages.
//!
//! Not from some of its addresses: most of these may be reserved and never used. So the stretches that
//! have pages are found first ([`present`]), and samples stand evenly in them. Where the kernel cannot
//! tell them (before Linux 6.7) a mapping weighs no more than all that is resident, and a sample in a
//! longer one stands for more:
//!
//! ```text
//!   resident 4                          weight   samples   each stands for
//!   mapping │▓▓│                        2        ▪▪        1
//!   mapping │▓▓                ▓    │   4        ▪ ▪ ▪ ▪   length / 4
//! ```
//!
//! How much there is the kernel knows exactly (`statm`): what the samples tell is how it is shared out
//! over the nodes. They tell the process's own memory and what it shares, not what lies in files and
//! not which pages are huge: those count as small. Addresses without any right (reserves) are passed
//! over, with the pages that may have been left in them.

use std::io;
use std::path::Path;

use base::NodeId;

use super::{NumaSample, Resident, SampleEffort, Text};
use crate::numa_maps::{ByNode, SmapsBlock};
use crate::pages::call;
use crate::pages::present::{self, Stretch};

/// A page that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    addr: u64,
    /// Bytes.
    stands_for: u64,
    is_private: bool,
}

/// Asks for some of a process's pages, of which so much is resident.
pub fn look(
    root: &Path,
    pid: u32,
    resident: Resident,
    effort: SampleEffort,
) -> io::Result<NumaSample> {
    let text = super::read_lines(&root.join(format!("proc/{pid}/maps")))?;
    let page = super::page_size();
    let stretches = stretches(root, pid, &text, resident);
    let asked = spread(&stretches, effort.n_samples, resident.all, page);
    let addresses: Vec<u64> = asked.iter().map(|asked| asked.addr).collect();
    let mut status = Vec::new();
    call::query(pid, &addresses, &mut status)?;
    let n_seen = status.iter().filter(|status| 0 <= **status).count() as u64;
    let permille = u128::from(n_seen * page) * 1000 / u128::from(resident.all.max(1));
    let has_own_policy = !effort.is_check && super::has_own_policy(root, pid, false)?;
    Ok(NumaSample {
        nodes: share_out(&asked, &status, resident),
        permille: (permille as u16).clamp(1, 999),
        has_own_policy,
        ..NumaSample::default()
    })
}

/// Where pages are, and whether they are its own.
fn stretches(root: &Path, pid: u32, maps: &Text, resident: Resident) -> Vec<(Stretch, bool)> {
    let mappings: Vec<SmapsBlock> = super::nobodys_mappings(&maps.bytes).collect();
    let ranges: Vec<Stretch> = mappings.iter().map(|kinds| kinds.range).collect();
    let found = present::occupied(root, pid, &ranges, resident.all);
    found.into_iter().map(|(idx, stretch)| (stretch, mappings[idx].is_private)).collect()
}

/// Samples at even distances of weight.
fn spread(stretches: &[(Stretch, bool)], n_samples: u64, resident: u64, page: u64) -> Vec<Asked> {
    let most = resident.max(page);
    let weight = |(start, end): Stretch| (end - start).min(most);
    let all = stretches.iter().map(|(stretch, _)| u128::from(weight(*stretch))).sum::<u128>();
    let step = u64::try_from(all / u128::from(n_samples.max(1))).unwrap_or(u64::MAX).max(page);
    let mut asked = Vec::new();
    let mut ahead = step / 2; // The first sample stands in the middle of its step.
    for &((start, end), is_private) in stretches {
        let weight = weight((start, end));
        let scaled = |part: u64| {
            let whole = u128::from(part) * u128::from(end - start) / u128::from(weight.max(1));
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        while ahead < weight {
            let addr = start.saturating_add(scaled(ahead));
            asked.push(Asked { addr: addr - addr % page, stands_for: scaled(step), is_private });
            ahead += step;
        }
        ahead -= weight;
    }
    asked
}

/// What is resident, by node: as much as the kernel says, in the proportion of the samples.
fn share_out(asked: &[Asked], status: &[i32], resident: Resident) -> ByNode {
    let found = || asked.iter().zip(status).filter(|(_, status)| 0 <= **status);
    let sum = |is_private: bool| {
        let of_kind = found().filter(|(asked, _)| asked.is_private == is_private);
        of_kind.map(|(asked, _)| u128::from(asked.stands_for)).sum::<u128>()
    };
    let (own, shared) = (sum(true), sum(false));
    let mut by_node = std::collections::BTreeMap::<(u32, bool), u128>::new();
    for (asked, &status) in found() {
        let sum = by_node.entry((status.unsigned_abs(), asked.is_private)).or_default();
        *sum += u128::from(asked.stands_for);
    }
    let mut nodes = ByNode::new();
    for ((node, is_private), part) in by_node {
        let lies = nodes.entry(NodeId(node)).or_default();
        // Pages of files are counted as shared ones are, so of these no more is known than the most.
        let (into, whole, all) = match is_private {
            true => (&mut lies.small, u128::from(resident.own()), own),
            false => (&mut lies.shared, shared.min(u128::from(resident.mapped)), shared),
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
    fn samples_stand_evenly_in_what_is_there() {
        let asked = spread(
            &[((0, 64 * MIB), true), ((TIB, TIB + 64 * MIB), false)],
            SAMPLES,
            128 * MIB,
            PAGE,
        );
        assert_eq!(asked.len() as u64, SAMPLES);
        assert!(asked.iter().all(|asked| asked.stands_for == 128 * MIB / SAMPLES));
        assert_eq!(asked.iter().filter(|asked| asked.is_private).count() as u64, SAMPLES / 2);
        assert!(asked.is_sorted_by(|a, b| a.addr + PAGE <= b.addr), "each page once");
    }

    #[test]
    fn a_long_mapping_weighs_no_more_than_what_is_resident() {
        let asked =
            spread(&[((0, 64 * MIB), true), ((TIB, 17 * TIB), true)], SAMPLES, 64 * MIB, PAGE);
        let short = asked.iter().filter(|asked| asked.addr < TIB).count() as u64;
        assert_eq!((short, asked.len() as u64), (SAMPLES / 2, SAMPLES));
        let long = asked.last().expect("some").stands_for * (SAMPLES / 2);
        assert_eq!(long, 16 * TIB, "together its samples stand for all of it");
    }

    #[test]
    fn what_is_resident_is_told_whole_in_the_proportion_of_the_samples() {
        let page = |is_private| Asked { addr: 0, stands_for: 10, is_private };
        let asked = [page(true), page(true), page(true), page(true), page(false), page(false)];
        let nodes = share_out(&asked, &[0, 0, 2, -2, 1, -14], Resident { all: 1000, mapped: 7 });
        let told: Vec<_> = nodes.iter().map(|(n, l)| (n.0, l.small, l.shared)).collect();
        assert_eq!(told, [(0, 662, 0), (1, 0, 7), (2, 331, 0)]);
        assert!(share_out(&asked, &[-2; 6], Resident::default()).is_empty());
    }

    /// Maps so much, and uses the MiB in the middle.
    pub(crate) fn mapping(bytes: u64, rights: i32, used_mib: u64) -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, written to only within.
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
        // SAFETY: our own mapping, of which nothing is used any more.
        unsafe { libc::munmap(start as *mut libc::c_void, bytes as usize) };
    }

    #[test]
    fn terabytes_that_are_kept_free_or_hardly_used_do_not_hide_what_is_resident() {
        let (root, pid) = (Path::new("/"), std::process::id());
        let used = mapping(128 * MIB, libc::PROT_READ | libc::PROT_WRITE, 64);
        let kept = mapping(16 * TIB, libc::PROT_NONE, 0);
        let hardly = mapping(8 * TIB, libc::PROT_READ | libc::PROT_WRITE, 32);
        let parts = || super::super::resident_parts(root, pid).expect("own figures");
        let effort = SampleEffort::of(Nanos::ZERO);
        let looked = look(root, pid, parts(), effort);
        let began = std::time::Instant::now();
        let again = look(root, pid, parts(), effort);
        println!("a look at {} ‰: {:?}", again.map_or(0, |it| it.permille), began.elapsed());
        let tables = present::Tables::open(root, pid).and_then(|tables| {
            let began = std::time::Instant::now();
            let found = tables.next((hardly, hardly + 8 * TIB))?;
            println!("the next page behind 4 TiB of nothing: {:?}", began.elapsed());
            Ok(found)
        });
        let resident = parts();
        let own = resident.own();
        unmap(used, 128 * MIB);
        unmap(kept, 16 * TIB);
        unmap(hardly, 8 * TIB);
        let Ok(looked) = looked else {
            println!("not run: this kernel tells no memory by node ({looked:?})");
            return;
        };
        let small: u64 = looked.nodes.values().map(|lies| lies.small).sum();
        // Other tests of this process take and give back memory meanwhile.
        assert!(80 * MIB <= small && small <= 2 * own, "{looked:?}, {own}");
        match tables {
            Ok(found) => {
                assert!(found.is_some_and(|at| (hardly..=hardly + 4 * TIB).contains(&at)));
                let n_hit = u64::from(looked.permille) * resident.all / 1000 / PAGE;
                assert!(SAMPLES / 2 <= n_hit, "most samples hit a page: {looked:?}");
            }
            Err(error) => println!("not run in part: pages cannot be told from holes ({error})"),
        }
    }
}
