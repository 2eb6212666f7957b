//! Number of pages of one move_pages(2) call, so that a call takes about 20 ms.
//!
//! While pages migrate, accesses to these pages wait. mmap(2) and munmap(2) of the process wait too. The duration of a
//! call is its CPU time. Wait time for a CPU is excluded: on a busy machine it is most of the elapsed time, and it does
//! not depend on the number of pages. If wait time were included, the batches would shrink to their lower bound.
//!
//! ```text
//!   256 pages ── 2 ms ──► 512 ── 5 ms ──► 1024 ── 21 ms ──► 975 ──► …       grows at most by a factor of 2,
//!                                                                           shrinks at most to a quarter
//! ```
//!
//! A whole process may migrate in one migrate_pages(2) call of the same duration. Before the first call the limit is a
//! resident size of 16 MiB (4.9 µs per page of 4 KiB, about three times the cost on current machines; guessed). After a
//! call the limit is the size that fits into 20 ms at the measured cost per page, at most 64 MiB, because the cost of
//! huge pages does not predict the cost of base pages.

use base::Nanos;

/// Target duration of a call.
pub const CALL: Nanos = Nanos::from_millis(20);
/// Number of pages of the first call: 1 MiB of base pages.
const PAGES_FIRST: usize = 256;
/// Smallest number of pages of a call. Each page may be a huge page.
const PAGES_MIN: usize = 16;
/// Largest number of pages of a call: 256 MiB of base pages.
const PAGES_MAX: usize = 1 << 16;

/// Limit in pages for a process that migrates in one call, before the first measurement.
const SINGLE_CALL_PAGES_FIRST: usize = 4096;
/// Largest limit in pages for a process that migrates in one call.
const SINGLE_CALL_PAGES_MAX: usize = 4 * SINGLE_CALL_PAGES_FIRST;

/// Number of pages of the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    n_pages: usize,
    /// Pages that fit into [`CALL`] according to the last call.
    fits: Option<usize>,
}

impl Default for BatchSize {
    fn default() -> Self {
        BatchSize { n_pages: PAGES_FIRST, fits: None }
    }
}

impl BatchSize {
    /// Returns the number of base pages of the next call.
    pub fn n_pages(self) -> usize {
        self.n_pages
    }

    /// Returns the largest process, in base pages including files, that may migrate in one call.
    pub fn n_pages_single_call(self) -> usize {
        self.fits.unwrap_or(SINGLE_CALL_PAGES_FIRST).min(SINGLE_CALL_PAGES_MAX)
    }

    /// Returns the initial value for the next process. The cost per page stays; the batch size is reset, because the
    /// page sizes of the next process are unknown.
    pub fn for_next(self) -> Self {
        BatchSize { n_pages: PAGES_FIRST, ..self }
    }

    /// Updates the size after a call that moved `n_pages` in `duration`.
    pub fn update(&mut self, n_pages: usize, duration: Nanos) {
        if n_pages == 0 {
            return;
        }
        let fits = n_pages as u128 * u128::from(CALL.0) / u128::from(duration.0.max(1));
        let fits = usize::try_from(fits).unwrap_or(PAGES_MAX);
        self.fits = Some(fits);
        self.n_pages = fits.clamp(self.n_pages / 4, self.n_pages * 2).clamp(PAGES_MIN, PAGES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_and_shrinks_to_the_target_duration() {
        let mut batch = BatchSize::default();
        let sizes: Vec<usize> = [2u64, 5, 21, 400, 400, 1]
            .into_iter()
            .map(|millis| {
                batch.update(batch.n_pages(), Nanos::from_millis(millis));
                batch.n_pages()
            })
            .collect();
        assert_eq!(sizes, [512, 1024, 975, 243, 60, 120]);
    }

    #[test]
    fn the_last_call_limits_the_size_of_a_whole_process() {
        let mut batch = BatchSize::default();
        assert_eq!(batch.n_pages_single_call(), 4096);
        batch.update(256, Nanos::from_millis(4));
        assert_eq!((batch.n_pages_single_call(), batch.n_pages()), (1280, 512));
        assert_eq!(
            (batch.for_next().n_pages_single_call(), batch.for_next().n_pages()),
            (1280, 256)
        );
        batch.update(512, Nanos(1));
        assert_eq!(batch.n_pages_single_call(), 16_384);
    }

    #[test]
    fn a_batch_stays_within_bounds_for_every_measurement() {
        let mut batch = BatchSize::default();
        (0..40).for_each(|_| batch.update(batch.n_pages(), Nanos(0)));
        assert_eq!(batch.n_pages(), PAGES_MAX);
        (0..40).for_each(|_| batch.update(1, Nanos(u64::MAX)));
        assert_eq!(batch.n_pages(), PAGES_MIN);
    }
}
