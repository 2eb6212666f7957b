//! Modelled cache sizes: two per doubling, from 16 KiB to 4 GiB.

use base::{Bytes, LINE_BYTES};

/// Log2 of the number of lines of the smallest size, 16 KiB.
const LOG2_LINES_MIN: u32 = 8;
/// Number of doublings from the smallest to the largest size, 4 GiB.
const N_DOUBLINGS: usize = 18;
/// Number of sizes.
pub const N_SIZES: usize = 2 * N_DOUBLINGS + 1;

/// Returns the number of lines of size `idx`: 256, 384, 512, 768 …
pub(crate) fn size_lines(idx: usize) -> u64 {
    let whole = 1 << (LOG2_LINES_MIN as usize + idx / 2);
    if idx.is_multiple_of(2) { whole } else { whole + whole / 2 }
}

/// Returns size `idx` in bytes. `idx` is 0 to [`N_SIZES`] - 1.
pub fn size_bytes(idx: usize) -> Bytes {
    Bytes(size_lines(idx.min(N_SIZES - 1)) * LINE_BYTES)
}

/// Returns the number of sizes with at most `lines` lines. A use at this reuse distance misses in these sizes.
pub(crate) fn n_sizes_up_to(lines: u64) -> usize {
    let Some(log) = lines.checked_ilog2().filter(|log| LOG2_LINES_MIN <= *log) else { return 0 };
    let has_half = lines >> (log - 1) & 1;
    let n = 2 * (log - LOG2_LINES_MIN) as usize + 1 + has_half as usize;
    n.min(N_SIZES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_range_from_16_kib_to_4_gib() {
        assert_eq!(size_bytes(0), Bytes::from_kib(16));
        assert_eq!(size_bytes(1), Bytes::from_kib(24));
        assert_eq!(size_bytes(N_SIZES - 1), Bytes::from_mib(4096));
    }

    #[test]
    fn a_distance_misses_in_every_size_with_at_most_that_many_lines() {
        for lines in (0..5000).chain([1 << 26, (1 << 26) - 1, 1 << 27, u64::MAX]) {
            let slow = (0..N_SIZES).filter(|&idx| size_lines(idx) <= lines).count();
            assert_eq!(n_sizes_up_to(lines), slow, "{lines}");
        }
    }
}
