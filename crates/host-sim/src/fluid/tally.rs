//! The work of a task, as its counters report it.

/// Cumulative counts of a task, or counts per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Instructions.
    pub instructions: f64,
    /// Core cycles.
    pub cycles: f64,
    /// Accesses to the last-level cache.
    pub references: f64,
    /// Demand misses of the last-level cache.
    pub misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Misses of the first-level cache.
    pub l1_misses: f64,
    /// Requests that found the queue to the shared cache full.
    pub queue_full: f64,
    /// Stall cycles on memory.
    pub stalls: f64,
    /// Lines read from memory.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

impl Tally {
    /// Adds the counts of `one`, multiplied by `times`.
    pub fn add(&mut self, times: f64, one: &Tally) {
        self.instructions += times * one.instructions;
        self.cycles += times * one.cycles;
        self.references += times * one.references;
        self.misses += times * one.misses;
        self.prefetches += times * one.prefetches;
        self.l1_misses += times * one.l1_misses;
        self.queue_full += times * one.queue_full;
        self.stalls += times * one.stalls;
        self.reads += times * one.reads;
        self.writes += times * one.writes;
    }
}

/// Entries of the queue between a core and its shared cache. Not confirmed by a data sheet.
const QUEUE: u32 = 16;

/// Share of requests that find the queue full if `occupancy` requests are outstanding on average (the Erlang B formula).
pub fn queue_full(occupancy: f64) -> f64 {
    (1..=QUEUE).fold(1.0, |lost, place| occupancy * lost / (f64::from(place) + occupancy * lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocking_probability_is_that_of_the_erlang_b_formula() {
        let lost = |occupancy| format!("{:.4}", queue_full(occupancy));
        assert_eq!([8.0, 12.0, 16.0, 30.0].map(lost), ["0.0045", "0.0604", "0.1753", "0.4971"]);
        assert_eq!(queue_full(0.0), 0.0);
    }
}
