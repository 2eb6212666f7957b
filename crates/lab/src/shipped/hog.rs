//! The synthetic hog: it works on random places of a buffer that no cache holds (spec 1.9).

use base::Bytes;
use program::Profile;

use super::figures::{self, Draw};
use super::formula;

/// What its profile is called.
pub(super) const NAME: &str = "memory-hog";

/// Its buffer is at least this large.
const BUFFER_MIN: Bytes = Bytes(64 << 20);

/// The hog for a machine whose last-level cache has so many bytes: its buffer is four times as large, and at
/// least 64 MiB. The one that ships by name has those 64 MiB.
pub fn hog(cache: Bytes, draw: Draw) -> Profile {
    let buffer = Bytes(cache.0.saturating_mul(4)).max(BUFFER_MIN);
    let mut figures = figures::drawn(NAME, draw);
    figures.footprint = buffer.0 as f64;
    formula::profile(NAME, &figures, draw, 1.0)
}
