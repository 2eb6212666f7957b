//! Faults on purpose, so that tests can try every moment of a run.
//!
//! In development builds `EVENKEEL_FAULT=kill-at:N` ends this process with SIGKILL at the N-th point
//! that it passes; N runs from 1 until a run ends by itself, and then every moment has been tried.
//! Other words (`no-descriptors`) make something fail that seldom does. Release builds know none of
//! this.

/// The variable that asks for faults. Jobs do not inherit it.
pub const VARIABLE: &str = "EVENKEEL_FAULT";

/// A moment that a kill may fall on.
#[cfg(debug_assertions)]
pub fn point() {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static KILL_AT: OnceLock<Option<u64>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let wanted = KILL_AT
        .get_or_init(|| std::env::var(VARIABLE).ok()?.strip_prefix("kill-at:")?.parse().ok());
    let Some(wanted) = *wanted else { return };
    if PASSED.fetch_add(1, Ordering::Relaxed) + 1 == wanted {
        let this = rustix::process::getpid();
        let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
    }
}

/// A moment that a kill may fall on; nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn point() {}

/// Whether a fault of this name was asked for; never in release builds.
pub fn asked(name: &str) -> bool {
    cfg!(debug_assertions) && std::env::var(VARIABLE).is_ok_and(|value| value == name)
}
