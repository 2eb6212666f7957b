//! Occupied address ranges of a process: the ranges with resident pages.
//!
//! Programs reserve many more addresses than they use: a garbage collector reserves 1 TiB, an address sanitizer 16 TiB.
//! Since Linux 6.7 `PAGEMAP_SCAN` returns the next resident page, and skips a hole of 1 GiB in one step. A mapping is
//! divided into cells, and only the first page of each occupied cell is queried:
//!
//! ```text
//!   mapping   │▓▓ ▓│    │    │    │ ▓  │▓▓▓▓│        next page? ─► its cell is occupied, continue after it
//!   occupied  │────│              │────╵────│        5 queries here, for holes of any length
//! ```
//!
//! A range that is only slightly longer than the resident memory is returned unchanged. The cell size is chosen so that
//! 512 cells can contain the resident memory. If an attempt exhausts its queries (sparse pages), the scan is repeated
//! with larger cells. After three attempts the remaining addresses count as occupied. Before Linux 6.7 every range
//! counts as occupied.
//!
//! Addresses are in bytes. A query of an empty range of 4 TiB takes some microseconds, longer if empty page tables
//! exist (`cargo test -p linux --lib terabytes -- --nocapture` prints the time).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::fault;

/// Smallest cell: the size of a transparent huge page on most machines.
const CELL_MIN: u64 = 2 << 20;
/// Maximum number of queries of one attempt.
const QUERIES: u32 = 1536;
/// Maximum number of attempts. Each attempt uses cells 8 times as large as the previous one.
const ATTEMPTS: u32 = 3;

/// First address of a range, and first address after the range.
pub type AddressRange = (u64, u64);

/// The open `/proc/PID/pagemap` of a process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

impl Pagemap {
    /// Opens the pagemap of a process.
    ///
    /// # Errors
    /// The process has exited, or belongs to another user.
    pub fn open(root: &Path, pid: u32) -> io::Result<Self> {
        let path = root.join(format!("proc/{pid}/pagemap"));
        Ok(Pagemap { file: fault::retry("open", || File::open(&path))? })
    }

    /// Returns the first resident page of a range.
    ///
    /// # Errors
    /// `ENOTTY` or the kind `Unsupported` before Linux 6.7; other errors if the process has exited.
    pub fn next(&self, (start, end): AddressRange) -> io::Result<Option<u64>> {
        const IS_PRESENT: u64 = 1 << 3;
        const IS_ZERO: u64 = 1 << 5; // The shared zero page.
        /// `_IOWR('f', 16, struct pm_scan_arg)`
        const PAGEMAP_SCAN: u64 = 0xc060_6610;
        fault::inject("ioctl")?;
        let mut region = PageRegion::default();
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start,
            end,
            vec: &raw mut region as u64,
            vec_len: 1,
            max_pages: 1,
            category_inverted: IS_ZERO,
            category_mask: IS_PRESENT | IS_ZERO,
            return_mask: IS_PRESENT,
            ..ScanArg::default()
        };
        // SAFETY: the kernel reads and writes `arg`, and writes at most one region to the address in it; both
        // are local variables that outlive the call.
        let n_regions = unsafe {
            libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN as libc::Ioctl, &raw mut arg)
        };
        if n_regions < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((0 < n_regions).then(|| region.start.clamp(start, end)))
    }
}

/// Returns the occupied parts of the ranges (about `resident` bytes in total), each with the index of its range.
/// Returns all ranges if a query fails, for example before Linux 6.7.
pub fn occupied(
    root: &Path,
    pid: u32,
    ranges: &[AddressRange],
    resident: u64,
) -> Vec<(usize, AddressRange)> {
    let all = || ranges.iter().copied().enumerate().collect();
    let Ok(pagemap) = Pagemap::open(root, pid) else { return all() };
    occupied_by(ranges, resident, |range| pagemap.next(range)).unwrap_or_else(|_| all())
}

fn occupied_by(
    ranges: &[AddressRange],
    resident: u64,
    mut next: impl FnMut(AddressRange) -> io::Result<Option<u64>>,
) -> io::Result<Vec<(usize, AddressRange)>> {
    let length = ranges.iter().fold(0u64, |sum, (start, end)| sum.saturating_add(end - start));
    if length <= resident.saturating_add(resident / 4) {
        return Ok(ranges.iter().copied().enumerate().collect()); // The ranges have few holes.
    }
    let mut cell = (resident / 512).max(CELL_MIN).next_power_of_two();
    let mut found = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut n_left = QUERIES;
        found.clear();
        for (idx, &range) in ranges.iter().enumerate() {
            cells(range, cell, &mut n_left, &mut next, |cell| found.push((idx, cell)))?;
        }
        if n_left != 0 {
            break;
        }
        cell = cell.saturating_mul(8);
    }
    Ok(found)
}

/// Passes the occupied cells of a range to `each`. Adjacent cells are merged.
fn cells(
    (start, end): AddressRange,
    cell: u64,
    n_left: &mut u32,
    next: &mut impl FnMut(AddressRange) -> io::Result<Option<u64>>,
    mut each: impl FnMut(AddressRange),
) -> io::Result<()> {
    let (mut at, mut open) = (start, None::<AddressRange>);
    while at < end {
        let first = if end - start <= cell || *n_left == 0 {
            at
        } else {
            *n_left -= 1;
            let Some(page) = next((at, end))? else { break };
            (page - page % cell).max(at)
        };
        let is_rest = end - start <= cell || *n_left == 0;
        let after =
            if is_rest { end } else { (first - first % cell).saturating_add(cell).min(end) };
        match &mut open {
            Some(open) if open.1 == first => open.1 = after,
            open => _ = open.replace((first, after)).map(&mut each),
        }
        at = after;
    }
    open.map(each);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Scans ranges with resident pages and memory, all in MiB. Returns the occupied ranges and the number of queries.
    fn scan(
        ranges: &[AddressRange],
        pages: &[AddressRange],
        resident: u64,
    ) -> (Vec<(usize, AddressRange)>, u32) {
        let mut n_queries = 0;
        let bytes = |(a, b): AddressRange| (a * MIB, b * MIB);
        let ranges: Vec<AddressRange> = ranges.iter().copied().map(bytes).collect();
        let next = |(start, end)| {
            n_queries += 1;
            let idx = pages.partition_point(|page| bytes(*page).1 <= start);
            let page = pages.get(idx).map(|page| bytes(*page).0.max(start));
            Ok(page.filter(|page| *page < end))
        };
        let found = occupied_by(&ranges, resident * MIB, next).expect("no errors");
        (found.iter().map(|&(i, (a, b))| (i, (a / MIB, b / MIB))).collect(), n_queries)
    }

    #[test]
    fn holes_of_any_length_are_skipped() {
        let tib = 1 << 20;
        let (found, n_queries) =
            scan(&[(1, 3), (10, 16 * tib)], &[(1, 2), (100, 104), (9 * tib, 9 * tib + 3)], 8);
        assert_eq!(found, [(0, (1, 3)), (1, (100, 104)), (1, (9 * tib, 9 * tib + 4))]);
        assert!(n_queries < 10, "{n_queries}");
        assert_eq!(scan(&[(8, 80), (90, 99)], &[(90, 92)], 2).0, [(1, (90, 92))], "no pages");
    }

    #[test]
    fn nearly_full_ranges_are_returned_without_a_query() {
        let nearly = [(1, 41), (50, 90)];
        let all = (vec![(0, (1, 41)), (1, (50, 90))], 0);
        assert_eq!(scan(&nearly, &[(1, 33), (50, 82)], 64), all);
        assert_ne!(scan(&nearly, &[(1, 33), (50, 60)], 42).1, 0);
    }

    #[test]
    fn sparse_pages_make_cells_grow_within_a_bounded_number_of_queries() {
        let sparse = |n: u64, distance: u64| -> Vec<AddressRange> {
            (0..n).map(|idx| (idx * distance, idx * distance + 1)).collect()
        };
        let (found, n_queries) = scan(&[(0, 1 << 20)], &sparse(4000, 8), 4000);
        assert_eq!(found, [(0, (0, 32_000))]);
        assert!(n_queries <= ATTEMPTS * QUERIES, "{n_queries}");
        let (found, n_queries) = scan(&[(0, 1 << 30)], &sparse(20_000, 1 << 12), 1);
        assert_eq!(
            found.last().map(|last| last.1.1),
            Some(1 << 30),
            "the remaining addresses count as occupied"
        );
        assert_eq!(n_queries, ATTEMPTS * QUERIES);
    }
}
