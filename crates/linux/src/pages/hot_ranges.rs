//! Order in which the address ranges of a process migrate.
//!
//! If a migration has a limit or is stopped, the most frequently accessed memory should already be on the target.
//! Address samples of the processor identify this memory: a hot range surrounds each sampled address. Without samples
//! the order is by address.

/// An address range of private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationRange {
    /// First address, page-aligned.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
    /// Page size in bytes; larger than a base page for reserved huge pages.
    pub page_size: u64,
    /// Whether the range may contain transparent huge pages.
    pub may_be_huge: bool,
    /// Estimate of the bytes to be moved.
    pub to_move: u64,
}

impl MigrationRange {
    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Returns a part of the range, with its share of the bytes to be moved.
    fn part(&self, start: u64, end: u64) -> MigrationRange {
        let share = u128::from(self.to_move) * u128::from(end - start) / u128::from(self.len());
        MigrationRange {
            start,
            end,
            to_move: u64::try_from(share).unwrap_or(self.to_move),
            ..*self
        }
    }
}

/// Sorts the ranges: hot addresses first, in the order of `hot`. Hot ranges are extended to whole pages. Ranges that
/// may contain huge pages are extended to blocks of `block` bytes, so that no huge page is split.
pub fn hot_first(ranges: &[MigrationRange], hot: &[(u64, u64)], block: u64) -> Vec<MigrationRange> {
    let mut unassigned: Vec<MigrationRange> =
        ranges.iter().copied().filter(|range| !range.is_empty()).collect();
    let mut first = Vec::new();
    for &(from, to) in hot.iter().filter(|(from, to)| from < to) {
        let mut remaining = Vec::with_capacity(unassigned.len());
        for range in unassigned {
            let grain =
                if range.may_be_huge { block.max(range.page_size) } else { range.page_size };
            let start = (from - from % grain).max(range.start);
            let end = to.checked_next_multiple_of(grain).unwrap_or(u64::MAX).min(range.end);
            if end <= start {
                remaining.push(range);
                continue;
            }
            let parts = [(range.start, start), (start, end), (end, range.end)];
            let parts = parts.map(|(a, b)| (a < b).then(|| range.part(a, b)));
            first.extend(parts[1]);
            remaining.extend([parts[0], parts[2]].into_iter().flatten());
        }
        unassigned = remaining;
    }
    first.extend(unassigned);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;
    const BLOCK: u64 = 2 << 20;

    fn range(start: u64, n_pages: u64, may_be_huge: bool) -> MigrationRange {
        let (start, end) = (start * PAGE, (start + n_pages) * PAGE);
        MigrationRange { start, end, page_size: PAGE, may_be_huge, to_move: end - start }
    }

    fn pages(ranges: &[MigrationRange]) -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.start / PAGE, range.end / PAGE)).collect()
    }

    #[test]
    fn hot_ranges_come_first_in_their_order_and_each_address_once() {
        let ranges = [range(0, 100, false), range(1000, 100, false)];
        let hot = [(1010 * PAGE + 5, 1020 * PAGE), (50 * PAGE, 60 * PAGE), (55 * PAGE, 70 * PAGE)];
        assert_eq!(
            pages(&hot_first(&ranges, &hot, BLOCK)),
            [(1010, 1020), (50, 60), (60, 70), (0, 50), (70, 100), (1000, 1010), (1020, 1100)]
        );
    }

    #[test]
    fn huge_pages_are_not_split() {
        let ranges = [range(512, 2048, true)];
        let hot = [(1100 * PAGE, 1101 * PAGE)];
        assert_eq!(
            pages(&hot_first(&ranges, &hot, BLOCK)),
            [(1024, 1536), (512, 1024), (1536, 2560)]
        );
    }

    proptest! {
        #[test]
        fn the_order_keeps_every_address_exactly_once(
            ranges in proptest::collection::vec((0u64..50, 1u64..3000, any::<bool>()), 0..5),
            hot in proptest::collection::vec((0u64..20_000_000, 0u64..20_000_000), 0..8),
        ) {
            let mut at = 0;
            let ranges: Vec<MigrationRange> = ranges.into_iter().map(|(gap, n_pages, huge)| {
                let range = range(at + gap, n_pages, huge);
                at += gap + n_pages;
                range
            }).collect();
            let mut ordered = pages(&hot_first(&ranges, &hot, BLOCK));
            ordered.sort_unstable();
            let mut joined: Vec<(u64, u64)> = Vec::new();
            for (start, end) in ordered {
                match joined.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    last => {
                        prop_assert!(last.is_none_or(|last| last.1 < start));
                        joined.push((start, end));
                    }
                }
            }
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for (start, end) in pages(&ranges) {
                match expected.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => expected.push((start, end)),
                }
            }
            prop_assert_eq!(joined, expected);
        }
    }
}
