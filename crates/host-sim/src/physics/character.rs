//! What a program asks of caches and memory, by the size of the cache that it has.
//!
//! ```text
//!   misses │▔▔╲                      between two measured sizes: straight over the logarithm of the size
//!          │   ╲___                  below the smallest: up to all that it asks for, at [`ALL_MISS`]
//!          │       ╲________         beyond the largest: as there
//!          └─────┴───┴────┴───► size
//! ```

/// With so little cache (or less) everything that is asked for misses. Guessed: a few sets are lost
/// before anything is used again.
pub const ALL_MISS: f64 = 8192.0;

/// What was measured, or traced, at one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Bytes of last-level cache.
    pub bytes: f64,
    /// Cycles per instruction alone, if that is known.
    pub cycles: Option<f64>,
    /// Misses of loads and stores per 1000 instructions.
    pub demand_misses: f64,
    /// The same with prefetches: what takes cache.
    pub misses: f64,
    /// Lines read from memory per 1000 instructions.
    pub reads: f64,
    /// Lines written to memory per 1000 instructions.
    pub writes: f64,
}

/// A program, or a phase of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Character {
    rows: Vec<Row>,
    /// What misses when there is no cache at all.
    none: Row,
    /// The same as a row that lies below the first.
    below: Row,
    /// Of each row how far it lies above the one before it, over the logarithm of the size.
    steps: Vec<f64>,
}

/// Why something is no character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CharacterError {
    /// Nothing was measured.
    #[error("it has no figures for any cache size")]
    Empty,
    /// A figure cannot be.
    #[error("{what} at {kib} KiB is {value}, which cannot be")]
    Odd {
        /// Which.
        what: &'static str,
        /// Of which size.
        kib: u64,
        /// Its value, in words.
        value: String,
    },
    /// A size stands twice.
    #[error("{kib} KiB stands there twice")]
    Twice {
        /// Which.
        kib: u64,
    },
    /// More cache, more misses.
    #[error("misses rise from {less_kib} KiB to {more_kib} KiB of cache")]
    Rises {
        /// From.
        less_kib: u64,
        /// To.
        more_kib: u64,
    },
}

impl Character {
    /// From rows in any order, and what misses when there is no cache: all that passes the core's own.
    ///
    /// # Errors
    /// No rows, figures that are negative or no numbers, a size twice, or a curve that rises by more than
    /// a tenth (measurements of what hardly misses scatter).
    pub fn new(mut rows: Vec<Row>, none: Row) -> Result<Self, CharacterError> {
        rows.iter().chain([&none]).try_for_each(check)?;
        rows.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
        for two in rows.windows(2) {
            let [less, more] = two else { continue };
            if less.bytes == more.bytes {
                return Err(CharacterError::Twice { kib: kib(less) });
            }
            if less.misses * 1.1 + 0.1 < more.misses {
                return Err(CharacterError::Rises { less_kib: kib(less), more_kib: kib(more) });
            }
        }
        let first = rows.first().ok_or(CharacterError::Empty)?;
        // What misses with no cache is never less than what misses with some.
        let none = Row {
            bytes: 0.0,
            cycles: None,
            demand_misses: none.demand_misses.max(first.demand_misses),
            misses: none.misses.max(first.misses),
            reads: none.reads.max(first.reads),
            writes: none.writes.max(first.writes),
        };
        let below = Row { bytes: ALL_MISS.min(first.bytes / 2.0), ..none };
        let less = [below].into_iter().chain(rows.iter().copied());
        let steps = less.zip(&rows).map(|(less, row)| libm::log(row.bytes / less.bytes)).collect();
        Ok(Character { none, below, steps, rows })
    }

    /// The figures at a size; cycles only where they were measured.
    pub fn at(&self, bytes: f64) -> Row {
        let after = self.rows.partition_point(|row| row.bytes < bytes);
        match (after.checked_sub(1).map(|before| &self.rows[before]), self.rows.get(after)) {
            (_, Some(row)) if row.bytes == bytes => *row,
            (None, Some(first)) => between(&self.below, first, self.steps[after], bytes),
            (Some(less), Some(more)) => between(less, more, self.steps[after], bytes),
            (Some(last), None) => Row { bytes, cycles: None, ..*last },
            (None, None) => Row { bytes, ..self.none },
        }
    }

    /// What misses when there is no cache: all that passes the core's own.
    pub fn none(&self) -> &Row {
        &self.none
    }

    /// What was measured, the smallest size first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

/// Straight over the logarithm of the size; `whole` is that of both sizes' ratio.
fn between(less: &Row, more: &Row, whole: f64, bytes: f64) -> Row {
    let part = (libm::log(bytes.max(1.0) / less.bytes) / whole).clamp(0.0, 1.0);
    let mix = |of: fn(&Row) -> f64| of(less) + (of(more) - of(less)) * part;
    Row {
        bytes,
        cycles: None,
        demand_misses: mix(|row| row.demand_misses),
        misses: mix(|row| row.misses),
        reads: mix(|row| row.reads),
        writes: mix(|row| row.writes),
    }
}

fn check(row: &Row) -> Result<(), CharacterError> {
    let figures = [
        ("the cache size", row.bytes),
        ("misses of loads and stores", row.demand_misses),
        ("misses", row.misses),
        ("lines read", row.reads),
        ("lines written", row.writes),
        ("cycles per instruction", row.cycles.unwrap_or(1.0)),
    ];
    let odd = figures.into_iter().find(|(_, value)| !(value.is_finite() && 0.0 <= *value));
    let zero = (row.cycles == Some(0.0)).then_some(("cycles per instruction", 0.0));
    match odd.or(zero) {
        Some((what, value)) => {
            Err(CharacterError::Odd { what, kib: kib(row), value: value.to_string() })
        }
        None => Ok(()),
    }
}

fn kib(row: &Row) -> u64 {
    (row.bytes / 1024.0) as u64
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const KIB: f64 = 1024.0;

    fn row(kib: f64, misses: f64) -> Row {
        Row { bytes: kib * KIB, misses, demand_misses: misses / 2.0, ..Row::default() }
    }

    fn refused(rows: Vec<Row>, expected: Expect) {
        let error = Character::new(rows, Row::default()).expect_err("it cannot be");
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn between_sizes_misses_go_straight_over_the_logarithm_and_below_up_to_all() {
        let rows = vec![row(1024.0, 4.0), row(128.0, 10.0)];
        let character = Character::new(rows, row(0.0, 18.0)).unwrap();
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
    fn without_a_cache_no_less_is_missed_than_with_one() {
        let character = Character::new(vec![row(128.0, 10.0)], Row::default()).unwrap();
        assert_eq!(character.at(0.0).misses, 10.0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        refused(vec![], expect!["it has no figures for any cache size"]);
        refused(
            vec![row(128.0, f64::NAN)],
            expect!["misses of loads and stores at 128 KiB is NaN, which cannot be"],
        );
        refused(
            vec![Row { cycles: Some(0.0), ..row(128.0, 1.0) }],
            expect!["cycles per instruction at 128 KiB is 0, which cannot be"],
        );
        refused(vec![row(128.0, 1.0), row(128.0, 1.0)], expect!["128 KiB stands there twice"]);
        refused(
            vec![row(256.0, 2.0), row(128.0, 1.0)],
            expect!["misses rise from 128 KiB to 256 KiB of cache"],
        );
    }

    #[test]
    fn a_curve_may_scatter_a_little() {
        assert!(Character::new(vec![row(128.0, 90.0), row(256.0, 92.0)], Row::default()).is_ok());
    }
}
