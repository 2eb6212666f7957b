//! The longest time for which a new process may be missing in `/proc`.
//!
//! ```text
//!   fork:  affinity copied ── page tables copied (some 10 ms per GiB of small pages) ── listed in /proc
//!                   ▲                                                        with the old affinity
//!                   └─ the affinity of its parent changes here
//! ```
//!
//! After the affinity of a process was restored, evenkeel therefore polls for new children of the process for this
//! time.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use crate::memory;

/// Interval between two polls for children.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Latency of a small process, including the wait time for a CPU during fork(2). Guessed.
const LATENCY_MIN: Duration = Duration::from_millis(50);
/// Additional latency per GiB of the parent: ten times the 10 ms of current kernels (guessed).
const LATENCY_PER_GIB: Duration = Duration::from_millis(100);
const LATENCY_MAX: Duration = Duration::from_secs(5);

/// Returns the longest fork latency of these processes. Exited processes are ignored. A process that cannot be read
/// counts as small.
pub fn max_fork_latency(root: &Path, processes: impl IntoIterator<Item = u32>) -> Duration {
    let resident = processes.into_iter().filter_map(|pid| match memory::resident(root, pid) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        resident => Some(resident.unwrap_or(0)),
    });
    resident.max().map_or(Duration::ZERO, latency)
}

fn latency(resident: u64) -> Duration {
    let gib = resident as f64 / f64::from(1 << 30);
    (LATENCY_MIN + LATENCY_PER_GIB.mul_f64(gib)).min(LATENCY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_latency_grows_with_resident_memory_up_to_a_limit() {
        assert_eq!(latency(0), LATENCY_MIN);
        assert_eq!(latency(20 << 30), Duration::from_millis(2050));
        assert_eq!(latency(u64::MAX), LATENCY_MAX);
        assert_eq!(max_fork_latency(Path::new("/"), []), Duration::ZERO);
        assert!(LATENCY_MIN <= max_fork_latency(Path::new("/"), [std::process::id()]));
    }
}
