//! What of a program's cycles is waiting for memory, told from how fast it is alone.
//!
//! ```text
//!   cycles │        ×      slope: cycles that each exposed miss costs = latency ÷ overlap
//!          │     ×         where it crosses the axis: the core's own
//!          │  × ╱
//!          │  ╱
//!          └──────────► exposed misses × latency, at several cache sizes
//! ```
//!
//! A curve that is flat tells no slope, and scatter would be taken for one; so each program's overlap is
//! drawn towards the usual one, the more the less its figures tell. Figures of a program that nearly fills
//! its channel are left out: there the latency follows the program. Of a program that does fill it at the
//! size asked for, nothing of this can be told; it is taken to have as many misses under way as a core can
//! have, and to wait for them all of its time but what the core needs.

use super::channel::{Channel, Demand};
use super::character::{Character, Row};
use super::share::LINE;

/// What programs on a machine have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Habits {
    /// Misses under way at a time, of the usual program.
    pub overlap: f64,
    /// Misses under way at a time, at the most: of whoever fills the channel alone.
    pub overlap_max: f64,
    /// The part of prefetched lines that come too late.
    pub late: f64,
    /// Cycles per instruction that no program goes below: one over the width of the core, and a bit.
    pub core_cycles_min: f64,
    /// Cycles in a nanosecond.
    pub ghz: f64,
    /// Nanoseconds of a hit in the last-level cache. Only for programs whose core cycles are told without
    /// it; where cycles were measured, hits are in them.
    pub hit_ns: f64,
}

/// How far overlaps lie apart, of which the inverse is taken. Guessed.
const SPREAD: f64 = 0.25;
/// How exact cycles per instruction are measured, as a part of them.
const SCATTER: f64 = 0.01;
/// Bytes of cache of the row from which the others' differences are told, or the next to it: as on the machine that
/// the habits were fitted on, and the same on every machine. Were it the size asked for, the scatter of that row
/// would be in every difference, and a program would hide latency well or badly with the size of the cache.
const TOLD_FROM: f64 = 1048576.0;
/// Whoever uses more of a channel tells nothing of latency.
const TELLS_UPTO: f64 = 0.8;
/// Between these parts of what a channel gives a program that is alone begins to fill it, and does. Guessed.
const FILLS: [f64; 2] = [0.85, 0.95];

/// A program on a machine, as far as its speed goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    character: Character,
    core_cycles: f64,
    /// One over the overlap.
    waits: f64,
    habits: Habits,
}

/// What a program does per 1000 instructions with so much cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Loads and stores that pass the core's own caches.
    pub accesses: f64,
    /// Those of them that the last-level cache has not.
    pub demand_misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Lines read from memory, prefetched ones among them.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

impl Behaviour {
    /// What `character` tells, for a cache of so many bytes; `None` without cycles at any size.
    pub fn of(
        character: &Character,
        bytes: f64,
        channel: &Channel,
        habits: Habits,
    ) -> Option<Self> {
        let points: Vec<Point> =
            (character.rows().iter()).filter_map(|row| Point::of(row, channel, &habits)).collect();
        let here = nearest(&points, bytes)?;
        let waits = slope(&points, &habits)?.max(1.0 / habits.overlap_max);
        Some(Behaviour::through(character, here, waits, habits))
    }

    /// The same with an overlap that is known; `None` without cycles at any size.
    pub fn with_overlap(
        character: &Character,
        bytes: f64,
        channel: &Channel,
        habits: Habits,
        overlap: f64,
    ) -> Option<Self> {
        let points: Vec<Point> =
            (character.rows().iter()).filter_map(|row| Point::of(row, channel, &habits)).collect();
        let here = nearest(&points, bytes)?;
        Some(Behaviour::through(character, here, 1.0 / overlap.max(1.0), habits))
    }

    /// A program of which both are known: core cycles per instruction, without any wait beyond the core's
    /// own caches, and the overlap.
    pub fn known(character: &Character, core_cycles: f64, overlap: f64, habits: Habits) -> Self {
        let waits = 1.0 / overlap.max(1.0);
        let hits = character.none().demand_misses / 1000.0 * habits.hit_ns * habits.ghz;
        let core_cycles = core_cycles + hits * waits;
        Behaviour { character: character.clone(), core_cycles, waits, habits }
    }

    fn through(character: &Character, here: &Point, waits: f64, habits: Habits) -> Self {
        // What is left for the core is never less than it needs.
        let core_min = habits.core_cycles_min.min(here.cycles);
        let most = here.cycles - core_min;
        let waits = if most < waits * here.wait { most / here.wait } else { waits };
        let core_cycles = here.cycles - waits * here.wait;
        // Of who fills the channel latency tells nothing: it follows from all that they have under way.
        let full = ((here.in_use - FILLS[0]) / (FILLS[1] - FILLS[0])).clamp(0.0, 1.0);
        let mix = |apart: f64, filling: f64| apart * (1.0 - full) + filling * full;
        Behaviour {
            character: character.clone(),
            core_cycles: mix(core_cycles, core_min),
            waits: mix(waits, 1.0 / habits.overlap_max),
            habits,
        }
    }

    /// The same on cores of so many cycles in a nanosecond: its cycles stay, what memory takes stays as well.
    pub fn clocked(self, ghz: f64) -> Self {
        Behaviour { habits: Habits { ghz, ..self.habits }, ..self }
    }

    /// What it misses.
    pub fn character(&self) -> &Character {
        &self.character
    }

    /// Misses that it has under way at a time.
    pub fn overlap(&self) -> f64 {
        1.0 / self.waits
    }

    /// Cycles in a nanosecond of the cores that its demand is told for.
    pub fn ghz(&self) -> f64 {
        self.habits.ghz
    }

    /// What it asks of its channel with so much cache.
    pub fn demand(&self, bytes: f64) -> Demand {
        let row = self.character.at(bytes);
        Demand {
            core_ns: 1000.0 * self.core_cycles / self.habits.ghz,
            exposed: exposed(&row, &self.habits) * self.waits,
            bytes: LINE * (row.reads + row.writes),
        }
    }

    /// What counters would show of 1000 instructions with so much cache.
    pub fn counts(&self, bytes: f64) -> Counts {
        let row = self.character.at(bytes);
        Counts {
            accesses: self.character.none().demand_misses,
            demand_misses: row.demand_misses,
            prefetches: prefetched(&row),
            reads: row.reads,
            writes: row.writes,
        }
    }
}

fn nearest(points: &[Point], bytes: f64) -> Option<&Point> {
    points.iter().min_by(|one, other| {
        let far = |point: &Point| libm::fabs(libm::log(point.bytes / bytes));
        far(one).total_cmp(&far(other))
    })
}

/// How cycles grow with waiting, from one row to the others, drawn towards the usual; `None` without rows.
fn slope(points: &[Point], habits: &Habits) -> Option<f64> {
    let base = nearest(points, TOLD_FROM)?;
    let (mut xx, mut xy) = (0.0, 0.0);
    for point in points.iter().filter(|point| point.in_use <= TELLS_UPTO) {
        let (x, y) = (point.wait - base.wait, point.cycles - base.cycles);
        (xx, xy) = (xx + x * x, xy + x * y);
    }
    let doubt = libm::pow(SCATTER * base.cycles / SPREAD, 2.0);
    Some((xy + doubt / habits.overlap) / (xx + doubt))
}

/// Misses per 1000 instructions that somebody waits for.
fn exposed(row: &Row, habits: &Habits) -> f64 {
    row.demand_misses + habits.late * prefetched(row)
}

/// Lines that nobody had asked for when they were read. Where several ask for a line at once it is read
/// once, so lines read may be fewer than misses.
fn prefetched(row: &Row) -> f64 {
    (row.reads.min(row.misses) - row.demand_misses).max(0.0)
}

/// A row as a point of the picture above.
struct Point {
    bytes: f64,
    cycles: f64,
    /// Cycles per instruction that it would wait without any overlap.
    wait: f64,
    in_use: f64,
}

impl Point {
    fn of(row: &Row, channel: &Channel, habits: &Habits) -> Option<Self> {
        let cycles = row.cycles?;
        let in_use = LINE * (row.reads + row.writes) / 1000.0 / cycles * habits.ghz / channel.cap;
        let latency = channel.latency_ns(in_use) * habits.ghz;
        let wait = exposed(row, habits) / 1000.0 * latency;
        Some(Point { bytes: row.bytes, cycles, wait, in_use })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::Fitted;

    const MIB: f64 = 1048576.0;

    /// 4 GHz, 45 ns, 12.8 GB/s at the peak.
    fn machine() -> (Channel, Habits) {
        (Fitted::default().channel(45.0, 12.8), Fitted::default().habits(4.0))
    }

    /// Misses of loads, by size, with the cycles of a core part and an overlap that are known.
    fn made(misses: &[f64], core: f64, overlap: f64) -> Character {
        let (channel, habits) = machine();
        let row = |(idx, &misses): (usize, &f64)| {
            let bytes = MIB / f64::from(1u32 << idx);
            let row = Row { bytes, misses, demand_misses: misses, reads: misses, ..Row::default() };
            // Cycles and use go together; a few rounds find them.
            let mut cycles = core;
            for _ in 0..50 {
                let point = Point::of(&Row { cycles: Some(cycles), ..row }, &channel, &habits);
                cycles = core + point.unwrap().wait / overlap;
            }
            Row { cycles: Some(cycles), ..row }
        };
        let rows = misses.iter().enumerate().map(row).collect();
        Character::new(rows, Row::default()).unwrap()
    }

    #[test]
    fn from_a_curve_that_is_steep_core_and_overlap_are_found_again() {
        let (channel, habits) = machine();
        let its = Behaviour::of(&made(&[2.0, 5.0, 12.0], 0.6, 2.5), MIB, &channel, habits).unwrap();
        assert!((its.overlap() - 2.5).abs() < 0.05, "{}", its.overlap());
        assert!((its.demand(MIB).core_ns - 150.0).abs() < 2.0, "{:?}", its.demand(MIB));
    }

    #[test]
    fn how_well_latency_is_hidden_does_not_hang_on_the_size_of_the_cache() {
        let (channel, habits) = machine();
        let made = made(&[2.0, 5.0, 12.0], 0.6, 2.5);
        // One point scatters by two percent.
        let mut rows = made.rows().to_vec();
        rows[1].cycles = rows[1].cycles.map(|cycles| cycles * 0.98);
        let scattered = Character::new(rows, Row::default()).unwrap();
        let overlap = |bytes| Behaviour::of(&scattered, bytes, &channel, habits).unwrap().overlap();
        assert_eq!(overlap(MIB), overlap(MIB / 4.0));
        assert_eq!(overlap(MIB), overlap(MIB / 2.0));
    }

    #[test]
    fn from_a_curve_that_is_flat_the_usual_overlap_is_taken() {
        let (channel, habits) = machine();
        let its = Behaviour::of(&made(&[5.0, 5.0, 5.0], 1.2, 2.5), MIB, &channel, habits).unwrap();
        assert!((its.overlap() / habits.overlap - 1.0).abs() < 1e-6, "{}", its.overlap());
    }

    #[test]
    fn what_was_measured_alone_is_told_alone() {
        let (channel, habits) = machine();
        let character = made(&[2.0, 5.0, 12.0], 0.6, 2.5);
        let its = Behaviour::of(&character, MIB, &channel, habits).unwrap();
        let told = channel.load(&[its.demand(MIB)]).each_ns[0] * 4.0 / 1000.0;
        let measured = character.at(MIB).cycles.unwrap();
        assert!((told / measured - 1.0).abs() < 1e-6, "{told} {measured}");
    }

    #[test]
    fn who_fills_the_channel_has_all_misses_under_way_that_a_core_can_have() {
        let (channel, habits) = machine();
        let row = Row {
            bytes: MIB,
            cycles: Some(3.2),
            demand_misses: 47.0,
            misses: 91.0,
            reads: 64.0,
            writes: 32.0,
        };
        let character = Character::new(vec![row], Row::default()).unwrap();
        let its = Behaviour::of(&character, MIB, &channel, habits).unwrap();
        assert!((its.overlap() - habits.overlap_max).abs() < 1e-9, "{}", its.overlap());
        assert!((its.demand(MIB).core_ns - 75.0).abs() < 1e-9, "{:?}", its.demand(MIB));
    }

    #[test]
    fn counters_show_what_passes_the_core_and_what_is_missed() {
        let (_, habits) = machine();
        let row = Row {
            bytes: MIB,
            demand_misses: 3.0,
            misses: 5.0,
            reads: 4.0,
            writes: 1.0,
            cycles: None,
        };
        let none = Row { demand_misses: 9.0, misses: 12.0, ..row };
        let its = Behaviour::known(&Character::new(vec![row], none).unwrap(), 0.5, 2.0, habits);
        let expected =
            Counts { accesses: 9.0, demand_misses: 3.0, prefetches: 1.0, reads: 4.0, writes: 1.0 };
        assert_eq!(its.counts(MIB), expected);
    }

    #[test]
    fn hits_are_added_where_core_cycles_are_told_without_them() {
        let (_, habits) = machine();
        let row = Row { bytes: MIB, demand_misses: 10.0, misses: 10.0, ..Row::default() };
        let character = Character::new(vec![row], row).unwrap();
        let with = Behaviour::known(&character, 0.5, 2.0, Habits { hit_ns: 10.0, ..habits });
        // 10 accesses of 10 ns, two at a time.
        assert!((with.demand(MIB).core_ns - 125.0 - 50.0).abs() < 1e-9);
    }
}
