//! The helper thread: migrates pages in batches at a limited rate, round-robin over jobs, and samples memory in the
//! pauses.
//!
//! ```text
//!   job a ── batch ─┐ pause: bytes ÷ rate    ┌─ batch of job b ──┐ …
//!   samples         └─ sample ─ pause: 99 × its CPU time ─ sample ─┘
//! ```
//!
//! The thread sleeps until a request arrives or its next work is due. When the request channel closes, the thread stops
//! all page migrations and returns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use base::{Bytes, JobId, Nanos};
use linux::address_sampling::AddressSampling;
use linux::memory::{self, NumaSample, SampleEffort, WalkCost};
use linux::move_pages;
use sched::{CompletedPageMigration, PageMigrationEnd};

use super::job_page_migrator::{JobPageMigrator, access_error};
use super::schedule::SampleDepth;
use super::{HelperRequest, HelperResult, JobProcess, MemoryConfig, ProcessPages};

/// Maximum pause after a sample. If a sample takes longer than estimated, the next samples are smaller; the pause is
/// not extended further.
const PAUSE_MAX: Nanos = Nanos::from_secs(2);
/// Limits of a full sample. If a process is too large for this time, the sample contains a part of its pages.
const FULL: SampleEffort = SampleEffort::within(Nanos::from_millis(10));
/// Limits of a sample that only detects changes. Most of its pages were also in the previous sample, so fewer pages
/// suffice. A check does not read the memory policy, which is read before pages migrate.
const CHECK: SampleEffort =
    SampleEffort { time: Nanos::from_millis(1), n_samples: 512, is_check: true };

/// Sender of the results, which wakes the event loop after an urgent result.
pub(super) struct ResultSender {
    results: Sender<HelperResult>,
    eventfd: Arc<OwnedFd>,
}

impl ResultSender {
    pub fn new(results: Sender<HelperResult>, eventfd: Arc<OwnedFd>) -> Self {
        ResultSender { results, eventfd }
    }

    fn send(&self, result: HelperResult) {
        let is_urgent = matches!(result, HelperResult::Migrated(_));
        let _ = self.results.send(result);
        if is_urgent {
            self.wake();
        } // Other results are read in the next turn.
    }

    fn wake(&self) {
        // The write only fails when the counter of the eventfd overflows.
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }
}

impl Drop for ResultSender {
    /// Wakes the event loop at the end of the thread, even after a panic.
    fn drop(&mut self) {
        self.wake();
    }
}

struct Work {
    results: ResultSender,
    config: MemoryConfig,
    started: Instant,
    migrations: VecDeque<JobPageMigrator>,
    samples: VecDeque<(JobProcess, SampleDepth)>,
    is_sampling: bool,
    walk_cost: WalkCost,
    /// Source of the most frequently accessed pages.
    address_sampling: AddressSampling,
    /// Time of the next batch of a page migration.
    batch_at: Nanos,
    /// Time of the next sample.
    sample_at: Nanos,
}

/// Handles requests until the request channel closes.
pub(super) fn run(requests: &Receiver<HelperRequest>, results: ResultSender, config: MemoryConfig) {
    // With CAP_SYS_NICE, migrate_pages(2) would also move pages that other processes map. An error means that the
    // thread does not have the capability.
    let _ = move_pages::drop_cap_sys_nice();
    let mut work = Work {
        results,
        config,
        started: Instant::now(),
        migrations: VecDeque::new(),
        samples: VecDeque::new(),
        is_sampling: false,
        walk_cost: WalkCost::default(),
        address_sampling: AddressSampling::find(&mut linux::source::Live::default()),
        batch_at: Nanos::ZERO,
        sample_at: Nanos::ZERO,
    };
    while let Some(request) = work.next_request(requests) {
        if let Some(request) = request {
            work.take(request);
            continue; // Pending requests are handled before a batch, because a request may stop the migration.
        }
        work.continue_work();
    }
    let at = work.now();
    for mut migrator in std::mem::take(&mut work.migrations) {
        work.results.send(HelperResult::Migrated(migrator.stop(PageMigrationEnd::Stopped, at)));
    }
}

impl Work {
    fn now(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }

    /// Returns the next request, `Some(None)` if work is due, or `None` if the channel is closed.
    fn next_request(&self, requests: &Receiver<HelperRequest>) -> Option<Option<HelperRequest>> {
        let due = [
            (!self.migrations.is_empty()).then_some(self.batch_at),
            self.is_sampling.then_some(self.sample_at),
        ];
        let Some(due) = due.into_iter().flatten().min() else {
            return requests.recv().ok().map(Some);
        };
        let wait = Duration::from(due.saturating_sub(self.now()));
        match requests.recv_timeout(wait) {
            Ok(request) => Some(Some(request)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn take(&mut self, request: HelperRequest) {
        let at = self.now();
        match request {
            HelperRequest::Migrate(order) => {
                self.migrations.push_back(JobPageMigrator::new(order, at, self.config));
            }
            HelperRequest::Stop(job, cause) => self.stop(job, cause, at),
            HelperRequest::Sample(processes) => {
                self.samples = processes.into();
                self.is_sampling = true;
            }
        }
    }

    fn stop(&mut self, job: JobId, cause: PageMigrationEnd, at: Nanos) {
        let (stopped, remaining) = std::mem::take(&mut self.migrations)
            .into_iter()
            .partition(|migrator| migrator.order.job == job);
        let stopped: VecDeque<JobPageMigrator> = stopped;
        self.migrations = remaining;
        for mut migrator in stopped {
            self.results.send(HelperResult::Migrated(migrator.stop(cause, at)));
        }
    }

    fn continue_work(&mut self) {
        let at = self.now();
        if !self.migrations.is_empty() && self.batch_at <= at {
            self.migrate_batch(at);
        }
        if self.is_sampling && self.sample_at <= at {
            self.sample_next();
        }
    }

    /// Runs one batch of the first page migration in the queue.
    fn migrate_batch(&mut self, at: Nanos) {
        let Some(mut migrator) = self.migrations.pop_front() else { return };
        let (requested, ended) = migrator.step(at, &self.address_sampling);
        let is_too_long =
            self.config.options.page_migration_time_max < at.saturating_sub(migrator.started());
        let after = self.now();
        let ended = match ended {
            None if is_too_long => Some(migrator.stop(PageMigrationEnd::TimeLimit, after)),
            Some(ended) => Some(CompletedPageMigration {
                duration: after.saturating_sub(migrator.started()),
                ..ended
            }),
            None => None,
        };
        let pause = page_migration_pause(requested, self.config.options.page_migration_rate);
        self.batch_at = at.saturating_add(pause);
        match ended {
            None => self.migrations.push_back(migrator),
            Some(ended) => {
                // The nodes of the pages are sampled before the end of the migration is reported.
                let job = migrator.order.job;
                for &process in &migrator.order.processes {
                    self.sample((job, process), SampleDepth::Full);
                }
                self.results.send(HelperResult::Migrated(ended));
            }
        }
    }

    fn sample_next(&mut self) {
        let before = linux::system::thread_cpu_time();
        match self.samples.pop_front() {
            Some((process, depth)) => self.sample(process, depth),
            None => {
                self.is_sampling = false;
                self.results.send(HelperResult::SampledAll);
            }
        }
        let took = linux::system::thread_cpu_time().saturating_sub(before);
        let pause = sample_pause(took, self.config.options.sampling_cpu_permille);
        self.sample_at = self.now().saturating_add(pause);
    }

    fn sample(&mut self, (job, process): JobProcess, depth: SampleDepth) {
        let key = (process.tid, process.start_time_ticks);
        match memory::sample_process(Path::new("/"), key, effort(depth), &mut self.walk_cost) {
            Ok(NumaSample { nodes, permille, resident, is_sampled, has_memory_policy, .. }) => {
                let pages =
                    ProcessPages { nodes, permille, resident, is_sampled, has_memory_policy };
                self.results.send(HelperResult::Sampled((job, process), depth, pages));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => {
                let text = access_error(process, &error, "reading its memory map");
                self.results.send(HelperResult::Unreadable(text));
            }
        }
    }
}

fn effort(depth: SampleDepth) -> SampleEffort {
    match depth {
        SampleDepth::Full => FULL,
        SampleDepth::Check => CHECK,
    }
}

/// Returns the pause after a batch of this many bytes, at most 10 s. `per_second` is the limit of the rate.
fn page_migration_pause(bytes: u64, per_second: Bytes) -> Nanos {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(per_second.0.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX).min(Nanos::from_secs(10).0))
}

/// Returns the pause after a sample, at most [`PAUSE_MAX`]. `took` is the CPU time of the sample, `permille` the share
/// of one CPU that samples may use.
fn sample_pause(took: Nanos, permille: u16) -> Nanos {
    let permille = u64::from(permille.clamp(1, 1000));
    Nanos(took.0.saturating_mul(1000 - permille) / permille).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_a_batch_is_its_size_divided_by_the_rate() {
        let mib = |n: u64| Bytes::from_mib(n);
        assert_eq!(page_migration_pause(64 << 20, mib(1024)), Nanos(62_500_000));
        assert_eq!(page_migration_pause(0, mib(1024)), Nanos::ZERO);
        assert_eq!(page_migration_pause(u64::MAX, Bytes::ZERO), Nanos::from_secs(10));
    }

    #[test]
    fn a_check_costs_less_than_a_full_sample_and_does_not_update_the_cost_model() {
        let (full, check) = (effort(SampleDepth::Full), effort(SampleDepth::Check));
        assert!(check.time < full.time && check.n_samples < full.n_samples);
        assert!(check.is_check && !full.is_check);
    }

    #[test]
    fn samples_use_at_most_their_share_of_a_cpu() {
        assert_eq!(sample_pause(Nanos::from_millis(1), 10), Nanos::from_millis(99));
        assert_eq!(sample_pause(Nanos::from_millis(1), 1000), Nanos::ZERO);
        assert_eq!(sample_pause(Nanos::from_secs(1), 10), Nanos::from_secs(2));
    }
}
