//! The miss-ratio curve of a program: misses and memory traffic as functions of the cache size.
//!
//! ```text
//!   misses │▔▔╲                      between two points: linear in the logarithm of the size
//!          │   ╲___                  below the first point: rises to the misses without a cache, at [`ALL_MISS`]
//!          │       ╲________         above the last point: constant
//!          └─────┴───┴────┴───► size
//! ```

/// Cache size in bytes up to which every access misses. Guessed: with a few sets, lines are evicted before they are
/// reused.
pub const ALL_MISS: f64 = 8192.0;

/// Values of a curve for one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissPoint {
    /// Size of the last-level cache in bytes.
    pub bytes: f64,
    /// Cycles per instruction of the program alone, if known.
    pub cycles: Option<f64>,
    /// Misses of loads and stores per 1000 instructions.
    pub demand_misses: f64,
    /// Misses including prefetches, which is the rate of insertion into the cache, per 1000 instructions.
    pub misses: f64,
    /// Lines read from memory per 1000 instructions.
    pub reads: f64,
    /// Lines written to memory per 1000 instructions.
    pub writes: f64,
}

impl MissPoint {
    /// Returns a point without prefetches and write-backs: every miss is a demand miss and reads one line.
    pub fn of_demand(bytes: f64, misses: f64) -> Self {
        MissPoint { bytes, cycles: None, demand_misses: misses, misses, reads: misses, writes: 0.0 }
    }
}

/// Event counts of a program per 1000 instructions with one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventsPer1000 {
    /// Loads and stores that miss the private caches.
    pub accesses: f64,
    /// Loads and stores that miss the last-level cache.
    pub demand_misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Lines read from memory, including prefetched lines.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

impl EventsPer1000 {
    /// Returns the loads and stores that hit the last-level cache.
    pub(super) fn hits(&self) -> f64 {
        (self.accesses - self.demand_misses).max(0.0)
    }

    /// Returns the counts with another number of accesses. At most all accesses miss.
    pub(super) fn with_accesses(self, accesses: f64) -> Self {
        let share = if accesses < self.demand_misses { accesses / self.demand_misses } else { 1.0 };
        EventsPer1000 {
            accesses,
            demand_misses: share * self.demand_misses,
            prefetches: share * self.prefetches,
            reads: share * self.reads,
            writes: share * self.writes,
        }
    }

    /// Returns `self + (other - self) * part` for each count.
    pub(super) fn mixed(&self, other: &Self, part: f64) -> Self {
        let mix = |of: fn(&Self) -> f64| of(self) + (of(other) - of(self)) * part;
        EventsPer1000 {
            accesses: mix(|events| events.accesses),
            demand_misses: mix(|events| events.demand_misses),
            prefetches: mix(|events| events.prefetches),
            reads: mix(|events| events.reads),
            writes: mix(|events| events.writes),
        }
    }
}

/// Miss-ratio curve of a program or a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct MissCurve {
    rows: Vec<MissPoint>,
    /// Values without a cache. Its demand misses are the accesses behind the private caches, which are fewer than the
    /// misses of points that are smaller than the private caches.
    none: MissPoint,
    /// The values without a cache, at least those of the first point, at the size [`ALL_MISS`] or below the first point.
    below: MissPoint,
    /// For each point, the logarithm of its size divided by the size of the previous point.
    steps: Vec<f64>,
}

/// An error in the points of a miss-ratio curve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum MissCurveError {
    #[error("it has no values for any cache size")]
    Empty,
    #[error(
        "{quantity} at {kib} KiB is {value}; values must be finite and not negative, and cycles above 0"
    )]
    InvalidValue { quantity: &'static str, kib: u64, value: String },
    #[error("{0} KiB is defined twice")]
    DuplicateSize(u64),
    #[error("misses rise from {less_kib} KiB to {more_kib} KiB of cache")]
    IncreasingMisses { less_kib: u64, more_kib: u64 },
}

impl MissCurve {
    /// Returns a curve from points in any order, and from the values without a cache, which are all accesses beyond
    /// the private caches.
    ///
    /// # Errors
    /// Returns an error if there are no points, if a value is invalid, if two points have the same size, or if misses
    /// increase with the size by more than a tenth plus 0.1. The tolerance exists because measurements of small miss
    /// rates are noisy.
    pub fn new(mut rows: Vec<MissPoint>, none: MissPoint) -> Result<Self, MissCurveError> {
        rows.iter().chain([&none]).try_for_each(check)?;
        rows.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
        for two in rows.windows(2) {
            let [less, more] = two else { continue };
            if less.bytes == more.bytes {
                return Err(MissCurveError::DuplicateSize(kib(less)));
            }
            if less.misses * 1.1 + 0.1 < more.misses {
                return Err(MissCurveError::IncreasingMisses {
                    less_kib: kib(less),
                    more_kib: kib(more),
                });
            }
        }
        let first = rows.first().ok_or(MissCurveError::Empty)?;
        let none = MissPoint { bytes: 0.0, cycles: None, ..none };
        // The curve does not fall towards smaller sizes.
        let below = MissPoint {
            bytes: ALL_MISS.min(first.bytes / 2.0),
            demand_misses: none.demand_misses.max(first.demand_misses),
            misses: none.misses.max(first.misses),
            reads: none.reads.max(first.reads),
            writes: none.writes.max(first.writes),
            ..none
        };
        let less = [below].into_iter().chain(rows.iter().copied());
        let steps = less.zip(&rows).map(|(less, row)| libm::log(row.bytes / less.bytes)).collect();
        Ok(MissCurve { none, below, steps, rows })
    }

    /// Returns the values at a size. Cycles are only set at the size of a point.
    pub fn at(&self, bytes: f64) -> MissPoint {
        let after = self.rows.partition_point(|row| row.bytes < bytes);
        match (after.checked_sub(1).map(|before| &self.rows[before]), self.rows.get(after)) {
            (_, Some(row)) if row.bytes == bytes => *row,
            (None, Some(first)) => between(&self.below, first, self.steps[after], bytes),
            (Some(less), Some(more)) => between(less, more, self.steps[after], bytes),
            (Some(last), None) => MissPoint { bytes, cycles: None, ..*last },
            (None, None) => MissPoint { bytes, ..self.none },
        }
    }

    /// Returns the event counts at a size, on a core with a prefetcher. With less cache than the private caches, the
    /// accesses are the misses of the curve: the private caches then hold no line that the last-level cache lacks.
    pub fn events(&self, bytes: f64) -> EventsPer1000 {
        let row = self.at(bytes);
        EventsPer1000 {
            accesses: self.none.demand_misses.max(row.demand_misses),
            demand_misses: row.demand_misses,
            prefetches: prefetched(&row),
            reads: row.reads,
            writes: row.writes,
        }
    }

    /// Returns the values without a cache with which the curve was created.
    pub fn uncached(&self) -> &MissPoint {
        &self.none
    }

    /// Returns the points in increasing order of size.
    pub fn points(&self) -> &[MissPoint] {
        &self.rows
    }
}

/// Returns the number of prefetched lines. If several accesses miss a line, it is read once, so the number of lines
/// read can be smaller than the number of misses.
pub(super) fn prefetched(row: &MissPoint) -> f64 {
    (row.reads.min(row.misses) - row.demand_misses).max(0.0)
}

/// Interpolates linearly over the logarithm of the size. `whole` is the logarithm of the ratio of both sizes.
fn between(less: &MissPoint, more: &MissPoint, whole: f64, bytes: f64) -> MissPoint {
    let part = (libm::log(bytes.max(1.0) / less.bytes) / whole).clamp(0.0, 1.0);
    let mix = |of: fn(&MissPoint) -> f64| of(less) + (of(more) - of(less)) * part;
    MissPoint {
        bytes,
        cycles: None,
        demand_misses: mix(|row| row.demand_misses),
        misses: mix(|row| row.misses),
        reads: mix(|row| row.reads),
        writes: mix(|row| row.writes),
    }
}

fn check(row: &MissPoint) -> Result<(), MissCurveError> {
    let values = [
        ("the cache size", row.bytes),
        ("misses of loads and stores", row.demand_misses),
        ("misses", row.misses),
        ("lines read", row.reads),
        ("lines written", row.writes),
        ("cycles per instruction", row.cycles.unwrap_or(1.0)),
    ];
    let invalid = values.into_iter().find(|(_, value)| !(value.is_finite() && 0.0 <= *value));
    let zero = (row.cycles == Some(0.0)).then_some(("cycles per instruction", 0.0));
    match invalid.or(zero) {
        Some((quantity, value)) => {
            Err(MissCurveError::InvalidValue { quantity, kib: kib(row), value: value.to_string() })
        }
        None => Ok(()),
    }
}

fn kib(row: &MissPoint) -> u64 {
    (row.bytes / 1024.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: f64 = 1024.0;

    fn row(kib: f64, misses: f64) -> MissPoint {
        MissPoint { bytes: kib * KIB, misses, demand_misses: misses / 2.0, ..MissPoint::default() }
    }

    #[test]
    fn misses_are_interpolated_over_the_logarithm_of_the_size() {
        let rows = vec![row(1024.0, 4.0), row(128.0, 10.0)];
        let character = MissCurve::new(rows, row(0.0, 18.0)).unwrap();
        let misses = |kib: f64| character.at(kib * KIB).misses;
        for (kib, expected) in [
            (0.0, 18.0),
            (8.0, 18.0),
            (32.0, 14.0),
            (128.0, 10.0),
            (256.0, 8.0),
            (1024.0, 4.0),
            (4096.0, 4.0),
        ] {
            assert!((misses(kib) - expected).abs() < 1e-9, "{kib} KiB: {}", misses(kib));
        }
    }

    #[test]
    fn misses_without_a_cache_are_at_least_the_misses_of_the_first_point() {
        let character = MissCurve::new(vec![row(128.0, 10.0)], MissPoint::default()).unwrap();
        assert_eq!(character.at(0.0).misses, 10.0);
    }

    #[test]
    fn invalid_points_are_rejected() {
        let values = "values must be finite and not negative, and cycles above 0";
        for (rows, expected) in [
            (vec![], "it has no values for any cache size".to_owned()),
            (
                vec![row(128.0, f64::NAN)],
                format!("misses of loads and stores at 128 KiB is NaN; {values}"),
            ),
            (
                vec![MissPoint { cycles: Some(0.0), ..row(128.0, 1.0) }],
                format!("cycles per instruction at 128 KiB is 0; {values}"),
            ),
            (vec![row(128.0, 1.0), row(128.0, 1.0)], "128 KiB is defined twice".to_owned()),
            (
                vec![row(256.0, 2.0), row(128.0, 1.0)],
                "misses rise from 128 KiB to 256 KiB of cache".to_owned(),
            ),
        ] {
            let error = MissCurve::new(rows, MissPoint::default()).expect_err("invalid points");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_curve_may_rise_slightly_because_of_noise() {
        assert!(
            MissCurve::new(vec![row(128.0, 90.0), row(256.0, 92.0)], MissPoint::default()).is_ok()
        );
    }
}
