//! Worker threads: each prepares its data, waits for the others, and works.

use std::sync::Barrier;
use std::time::Duration;

use super::budget::{Budget, CompletedWork};

/// Work of one thread. Construction touches its memory.
pub(crate) trait WorkerTask: Sized {
    /// Operations between two reads of the clock.
    const BATCH_OPS: u64;
    /// Performs this many operations.
    fn work(&mut self, ops: u64);
}

/// Lets every thread create its own work, so that first touch allocates its memory on its node, and starts the clock
/// when all are ready.
pub(crate) fn run<P: WorkerTask>(budget: &Budget, make: impl Fn(u32) -> P + Sync) -> CompletedWork {
    let ready = Barrier::new(budget.threads as usize);
    let one = |thread_idx: u32| {
        let mut part = make(thread_idx);
        ready.wait();
        budget.spend(thread_idx, P::BATCH_OPS, |ops| part.work(ops))
    };
    if budget.threads == 1 {
        return one(0);
    }
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> =
            (0..budget.threads).map(|idx| scope.spawn(move || one(idx))).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .fold(CompletedWork::default(), sum)
    })
}

fn sum(all: CompletedWork, one: CompletedWork) -> CompletedWork {
    CompletedWork { ops: all.ops + one.ops, cpu: all.cpu + one.cpu, wall: all.wall.max(one.wall) }
}

/// Minimum CPU time over a few repetitions, because disturbances only increase it.
pub(crate) fn least_cpu_time(n_tries: u32, mut run: impl FnMut()) -> Duration {
    let mut time = || {
        let begin = super::budget::cpu_time();
        run();
        super::budget::cpu_time().saturating_sub(begin)
    };
    (0..n_tries).map(|_| time()).min().unwrap_or_default()
}
