//! How long the birth of a process may go unseen.
//!
//! ```text
//!   fork:  CPUs copied ── tables of the memory copied (some 10 ms a GiB of small pages) ── seen in /proc
//!                 ▲                                                                      with the mask of before
//!                 └─ its parent is given other CPUs here
//! ```
//!
//! So whoever gives a process back what it had has to look for new children for as long again.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use crate::memory;

/// Between two looks for children.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Of a small process: it may have to wait for a CPU in the middle. Guessed.
const LEAST: Duration = Duration::from_millis(50);
/// For each GiB that the parent has: ten times what a kernel of today takes (guessed: 10 ms).
const EACH_GIB: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(5);

/// How long births of children of these processes may go unseen, about. Who is gone bears nobody; who
/// cannot be asked counts as small.
pub fn max_fork_latency(root: &Path, processes: impl IntoIterator<Item = u32>) -> Duration {
    let resident = processes.into_iter().filter_map(|pid| match memory::resident(root, pid) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        resident => Some(resident.unwrap_or(0)),
    });
    resident.max().map_or(Duration::ZERO, of)
}

fn of(resident: u64) -> Duration {
    let gib = resident as f64 / f64::from(1 << 30);
    (LEAST + EACH_GIB.mul_f64(gib)).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_more_memory_takes_longer_to_be_born_but_not_for_ever() {
        assert_eq!(of(0), LEAST);
        assert_eq!(of(20 << 30), Duration::from_millis(2050));
        assert_eq!(of(u64::MAX), MOST);
        assert_eq!(max_fork_latency(Path::new("/"), []), Duration::ZERO);
        assert!(LEAST <= max_fork_latency(Path::new("/"), [std::process::id()]));
    }
}
