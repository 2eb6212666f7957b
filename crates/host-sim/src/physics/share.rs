//! Who holds how much of a cache that several programs share.
//!
//! Each program puts lines into the cache at the rate at which it misses, and misses the less the more it
//! holds. In a cache that forgets what was used least recently, everybody's lines stay for the same time
//! `T`; so each holds what it can fill in that time, beginning with nothing, and `T` is such that
//! together they fill the cache:
//!
//! ```text
//!   size │            ╭─── a        d size / d t = misses(size) per cycle
//!        │      ╭─────╯
//!        │  ╭───╯   ╭────── b       a(T) + b(T) = the cache
//!        └──┴───────┴──┴─► t
//!                      T
//! ```
//!
//! (Footprint theory: Xiang, Ding, Luo, Bao, "HOTL: a higher order theory of locality", ASPLOS 2013,
//! sections 2 and 3; for independent references the same as Che's approximation.)

use super::Character;

/// Bytes of a line.
pub(super) const LINE: f64 = 64.0;
/// Steps in which a cache is filled.
const N_STEPS: usize = 128;
/// So often the time is halved: finer than any figure here.
const N_HALVINGS: usize = 50;

/// Bytes that each holds, in their order: characters, and cycles per instruction as they run. Who does
/// not run (infinitely slow) holds nothing.
pub fn shares(programs: &[(&Character, f64)], bytes: f64) -> Vec<f64> {
    if let [_] = programs {
        return vec![bytes];
    }
    let fills: Vec<Fill> =
        programs.iter().map(|(its, cycles)| Fill::of(its, *cycles, bytes)).collect();
    let (mut soon, mut late) = (0.0, fills.iter().map(Fill::whole).fold(0.0, f64::max));
    for _ in 0..N_HALVINGS {
        let time = (soon + late) / 2.0;
        let held: f64 = fills.iter().map(|fill| fill.at(time)).sum();
        if held < bytes { soon = time } else { late = time }
    }
    fills.iter().map(|fill| fill.at(late)).collect()
}

/// When so much is filled: step by step, in cycles.
struct Fill {
    times: Vec<f64>,
    step: f64,
}

impl Fill {
    fn of(character: &Character, cycles: f64, bytes: f64) -> Self {
        let step = bytes / N_STEPS as f64;
        let mut times = vec![0.0];
        for idx in 0..N_STEPS {
            let middle = (idx as f64 + 0.5) * step;
            // Who never misses never fills anything: so slow that the others are done before.
            let misses_per_cycle = (character.at(middle).misses / 1000.0 / cycles).max(1e-12);
            times.push(times[idx] + step / LINE / misses_per_cycle);
        }
        Fill { times, step }
    }

    fn whole(&self) -> f64 {
        self.times.last().copied().unwrap_or(0.0)
    }

    fn at(&self, time: f64) -> f64 {
        let after = self.times.partition_point(|&at| at <= time);
        let Some(&next) = self.times.get(after) else {
            return self.step * N_STEPS as f64;
        };
        let before = self.times[after - 1];
        self.step * ((after - 1) as f64 + (time - before) / (next - before))
    }
}
