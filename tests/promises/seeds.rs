//! Seeds of tests that let calls fail: how many, and each part in a process of its own.
//!
//! Descriptors are counted there, and the calls of other tests shall not fail. `EVENKEEL_SEEDS=5000` plays
//! more of them.

use std::ops::RangeInclusive;
use std::process::Command;

/// Where the seeds of a part are told: `FIRST-LAST`.
const PART: &str = "EVENKEEL_TEST_PART";

/// Plays seeds, so many if nobody wishes another number, with an ignored test that asks for its [`part`].
pub fn play(test: &str, n_usual: u64) {
    let wanted = std::env::var("EVENKEEL_SEEDS").ok().and_then(|n| n.parse().ok());
    let n_seeds: u64 = wanted.unwrap_or(n_usual);
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--test-threads=1", "--nocapture"])
        .env(PART, format!("1-{n_seeds}"))
        .status()
        .expect("this program");
    assert!(status.success(), "see the seed above");
}

/// The seeds of a test that can be played beside others, so many if nobody wishes another number.
pub fn upto(n_usual: u64) -> RangeInclusive<u64> {
    let wanted = std::env::var("EVENKEEL_SEEDS").ok().and_then(|n| n.parse().ok());
    1..=wanted.unwrap_or(n_usual)
}

/// The seeds that this process is to play; none where nobody asked for any.
pub fn part() -> Option<RangeInclusive<u64>> {
    let text = std::env::var(PART).ok()?;
    let (first, last) = text.split_once('-').expect("FIRST-LAST");
    Some(first.parse().expect("a number")..=last.parse().expect("a number"))
}
