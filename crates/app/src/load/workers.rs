//! Threads that prepare, wait for each other, and work.

use std::sync::Barrier;
use std::time::Duration;

use super::budget::{Budget, Work};

/// A thread's part: it touches its memory when made and works when called.
pub(crate) trait Part: Sized {
    /// Operations between two looks at the clock.
    const BATCH_OPS: u64;
    /// Does so many operations.
    fn work(&mut self, ops: u64);
}

/// Lets every thread make its own part (so that first touch places the memory near it) and starts
/// the clock when all are ready.
pub(crate) fn run<P: Part>(budget: &Budget, make: impl Fn(u32) -> P + Sync) -> Work {
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
        threads.into_iter().filter_map(|thread| thread.join().ok()).fold(Work::default(), sum)
    })
}

fn sum(all: Work, one: Work) -> Work {
    Work { ops: all.ops + one.ops, cpu: all.cpu + one.cpu, wall: all.wall.max(one.wall) }
}

/// The least CPU time that something takes in a few tries: what disturbs only ever adds.
pub(crate) fn least_cpu_time(n_tries: u32, mut what: impl FnMut()) -> Duration {
    let mut time = || {
        let begin = super::budget::cpu_time();
        what();
        super::budget::cpu_time().saturating_sub(begin)
    };
    (0..n_tries).map(|_| time()).min().unwrap_or_default()
}
