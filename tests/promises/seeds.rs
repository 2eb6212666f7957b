//! Seeds of tests with injected faults. `EVENKEEL_SEEDS=5000` sets the number of seeds.
//!
//! Each such test runs its seeds in a separate process, because the test counts open descriptors and the system calls
//! of other tests must not fail.

use std::ops::RangeInclusive;
use std::process::Command;

/// Environment variable with the seeds of the separate process: `FIRST-LAST`.
const PART: &str = "EVENKEEL_TEST_PART";

/// Runs an ignored test in a separate process, where [`part`] returns its seeds. `n_default` is the default number.
pub fn run_in_process(test: &str, n_default: u64) {
    let status = Command::new(std::env::current_exe().expect("this executable"))
        .args(["--exact", test, "--ignored", "--test-threads=1", "--nocapture"])
        .env(PART, format!("1-{}", upto(n_default).end()))
        .status()
        .expect("this executable");
    assert!(status.success(), "see the seed above");
}

/// Returns the seeds of a test. `n_default` is the default number.
pub fn upto(n_default: u64) -> RangeInclusive<u64> {
    let number = std::env::var("EVENKEEL_SEEDS").ok().and_then(|n| n.parse().ok());
    1..=number.unwrap_or(n_default)
}

/// Returns the seeds of this separate process; `None` in the main process of the tests.
pub fn part() -> Option<RangeInclusive<u64>> {
    let text = std::env::var(PART).ok()?;
    let (first, last) = text.split_once('-').expect("FIRST-LAST");
    Some(first.parse().expect("a number")..=last.parse().expect("a number"))
}

/// Runs each seed and checks that no file descriptor is left open.
pub fn check_each(part: RangeInclusive<u64>, mut run: impl FnMut(u64)) {
    let mut n_open = None;
    for seed in part {
        println!("seed {seed}");
        run(seed);
        let n_now = std::fs::read_dir("/proc/self/fd").expect("own descriptors").count();
        // The first run opens descriptors that the process keeps open.
        assert_eq!(*n_open.get_or_insert(n_now), n_now, "descriptors leak");
    }
}
