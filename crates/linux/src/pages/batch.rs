//! How many pages a call takes: as many as the last one says fit into a stretch of time.
//!
//! While pages move, whoever touches them waits, and so does whoever wants to map memory. So a call is
//! to work for about 20 ms, whatever a page costs on this machine today. What it waits for a CPU is not
//! counted: on a busy machine that is the most of it, does not depend on how many pages there are, and
//! would make calls so small that they never came to an end.
//!
//! ```text
//!   256 pages ── 2 ms ──► 512 ── 5 ms ──► 1024 ── 21 ms ──► 975 ──► …       grows to the double at most,
//!                                                                           shrinks to a quarter at most
//! ```
//!
//! A whole process may go in one call of its own, if that is expected to take no longer: up to 16 MiB
//! resident, which is 4.9 µs a page of 4 KiB (about three times what a page takes on a machine of these
//! days; a guess until something was moved), and then as much as the last call says fits, up to 64 MiB:
//! a call that moved huge pages knows little of small ones.

use base::Nanos;

/// How long a call is to take.
pub const CALL: Nanos = Nanos::from_millis(20);
/// The first call: small, since nothing is known. 1 MiB of ordinary pages.
const FIRST: usize = 256;
/// One huge page at least, if it is one.
const LEAST: usize = 16;
/// 256 MiB of ordinary pages: a machine that moves these in less has no need of more.
const MOST: usize = 1 << 16;

/// A whole process of no more pages goes in one call, as long as nothing was moved.
const FIRST_WHOLE: usize = 4096;
/// No larger process goes in one call.
const MOST_WHOLE: usize = 4 * FIRST_WHOLE;

/// The size of the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    n_pages: usize,
    /// So many the last call says fit.
    fits: Option<usize>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch { n_pages: FIRST, fits: None }
    }
}

impl Batch {
    /// So many pages of the ordinary size.
    pub fn n_pages(self) -> usize {
        self.n_pages
    }

    /// A whole process of so many pages of the ordinary size, files among them, may go in one call.
    pub fn n_whole(self) -> usize {
        self.fits.unwrap_or(FIRST_WHOLE).min(MOST_WHOLE)
    }

    /// What the next process begins with: what a page takes is known, its kind of pages is not.
    pub fn for_next(self) -> Self {
        Batch { n_pages: FIRST, ..self }
    }

    /// A call moved so many pages and took so long.
    pub fn learn(&mut self, n_pages: usize, took: Nanos) {
        if n_pages == 0 {
            return;
        }
        let fits = n_pages as u128 * u128::from(CALL.0) / u128::from(took.0.max(1));
        let fits = usize::try_from(fits).unwrap_or(MOST);
        self.fits = Some(fits);
        self.n_pages = fits.clamp(self.n_pages / 4, self.n_pages * 2).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_and_shrinks_to_what_fits_its_time() {
        let mut batch = Batch::default();
        let sizes: Vec<usize> = [2u64, 5, 21, 400, 400, 1]
            .into_iter()
            .map(|millis| {
                batch.learn(batch.n_pages(), Nanos::from_millis(millis));
                batch.n_pages()
            })
            .collect();
        assert_eq!(sizes, [512, 1024, 975, 243, 60, 120]);
    }

    #[test]
    fn a_whole_process_is_as_large_as_the_last_call_says_fits() {
        let mut batch = Batch::default();
        assert_eq!(batch.n_whole(), 4096);
        batch.learn(256, Nanos::from_millis(4));
        assert_eq!((batch.n_whole(), batch.n_pages()), (1280, 512));
        assert_eq!((batch.for_next().n_whole(), batch.for_next().n_pages()), (1280, 256));
        batch.learn(512, Nanos(1));
        assert_eq!(batch.n_whole(), 16_384);
    }

    #[test]
    fn a_batch_stays_within_bounds_whatever_is_measured() {
        let mut batch = Batch::default();
        (0..40).for_each(|_| batch.learn(batch.n_pages(), Nanos(0)));
        assert_eq!(batch.n_pages(), MOST);
        (0..40).for_each(|_| batch.learn(1, Nanos(u64::MAX)));
        assert_eq!(batch.n_pages(), LEAST);
    }
}
