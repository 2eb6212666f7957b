//! What a task did, as counters would show it (spec 0.3 and 8.3).

/// Cumulative figures of a task, or the figures of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Instructions.
    pub instructions: f64,
    /// Cycles of its core.
    pub cycles: f64,
    /// Accesses to the last-level cache.
    pub references: f64,
    /// Of them, those that missed and that the program asked for.
    pub misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Misses of the first cache.
    pub l1_misses: f64,
    /// Requests that found the queue to the shared cache full.
    pub queue_full: f64,
    /// Cycles that it waited for memory.
    pub stalls: f64,
    /// Lines read from memory.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

impl Tally {
    /// Adds so many times the figures of one.
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

/// Places of the queue between a core and its shared cache (spec 8.3; from memory, unconfirmed).
const QUEUE: u32 = 16;

/// The part of requests that find the queue full where `occupancy` are outstanding on average: Erlang's
/// loss formula (spec 8.3).
pub fn queue_full(occupancy: f64) -> f64 {
    (1..=QUEUE).fold(1.0, |lost, place| occupancy * lost / (f64::from(place) + occupancy * lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_loses_what_erlangs_formula_says() {
        let lost = |occupancy| format!("{:.4}", queue_full(occupancy));
        assert_eq!([8.0, 12.0, 16.0, 30.0].map(lost), ["0.0045", "0.0604", "0.1753", "0.4971"]);
        assert_eq!(queue_full(0.0), 0.0);
    }
}
