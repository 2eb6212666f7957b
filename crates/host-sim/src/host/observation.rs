//! Observations of the CPUs of all threads, at regular times and without turns.

use base::Nanos;

use super::{SimHost, SimJobState};

/// Number of observations after which every second one is dropped and the time between two is doubled.
const N_OBSERVATIONS_MAX: usize = 4096;

/// The core of each runnable thread at one time. Sleeping and blocked threads are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuObservation {
    /// The threads, by job.
    pub threads: Vec<ObservedThread>,
}

/// The core of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedThread {
    /// Number of the job.
    pub job: usize,
    /// TID of the thread.
    pub tid: u32,
    /// Index of the core on which the thread runs or waits for a CPU.
    pub core: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Observer {
    every_ns: u64,
    next_ns: u64,
    observed: Vec<CpuObservation>,
}

impl Observer {
    pub fn new(every: Nanos) -> Self {
        Observer { every_ns: every.0.max(1), next_ns: every.0.max(1), observed: Vec::new() }
    }

    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    fn add(&mut self, observation: CpuObservation) {
        self.observed.push(observation);
        if self.observed.len() == N_OBSERVATIONS_MAX {
            let mut idx = 0;
            self.observed.retain(|_| {
                idx += 1;
                idx % 2 == 0
            });
            self.every_ns *= 2;
        }
        self.next_ns += self.every_ns;
    }
}

impl SimHost {
    /// Removes and returns the observations of the run. Times without runnable threads have none.
    pub fn take_observations(&mut self) -> Vec<CpuObservation> {
        self.observer
            .as_mut()
            .map_or_else(Vec::new, |observer| std::mem::take(&mut observer.observed))
    }

    /// Stores an observation that is due.
    pub(super) fn observe(&mut self) {
        let now = self.machine.now();
        let Some(observer) = self.observer.as_mut().filter(|observer| observer.next_ns <= now)
        else {
            return;
        };
        let (machine, hardware) = (&self.machine, &self.hardware);
        let running = self.slots.iter().enumerate();
        let running = running.filter(|(_, slot)| matches!(slot.state, SimJobState::Running(_)));
        let threads: Vec<ObservedThread> = running
            .flat_map(|(job, _)| machine.threads_of(job).map(move |thread| (job, thread)))
            .filter(|(_, thread)| thread.is_runnable)
            .map(|(job, thread)| ObservedThread {
                job,
                tid: thread.tid,
                core: hardware.cpus[thread.cpu].core,
            })
            .collect();
        if threads.is_empty() {
            observer.next_ns += observer.every_ns;
        } else {
            observer.add(CpuObservation { threads });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_fewer_observations_at_longer_times() {
        let mut observer = Observer::new(Nanos(10));
        for job in 0..N_OBSERVATIONS_MAX {
            assert_eq!(observer.next_ns, 10 * (job as u64 + 1));
            let threads = vec![ObservedThread { job, tid: 1, core: 0 }];
            observer.add(CpuObservation { threads });
        }
        let jobs: Vec<usize> = observer.observed.iter().map(|it| it.threads[0].job).collect();
        assert_eq!(jobs, Vec::from_iter((0..N_OBSERVATIONS_MAX).skip(1).step_by(2)));
        assert_eq!(
            (observer.every_ns, observer.next_ns),
            (20, 10 * N_OBSERVATIONS_MAX as u64 + 20)
        );
    }
}
