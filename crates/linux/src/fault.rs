//! Fault injection for tests.
//!
//! In debug builds `EVENKEEL_FAULT=kill-at:N` sends SIGKILL to this process at its N-th call of [`point`]. A
//! test increases N from 1 until a run ends normally, which covers every point. Other values
//! (`no-descriptors`) inject rare conditions.
//!
//! System calls can fail too. A function of this crate that makes a system call begins with [`inject`], makes the
//! call through [`retry`], or has a comment `No fault injection:` with the reason (`cargo xtask tidy` checks this
//! rule). `EVENKEEL_FAULT=errors:SEED:PERMILLE` makes PERMILLE thousandths of the calls fail. SEED selects these
//! calls and their errors. The kernel could return each of the errors. The same seed and sequence of calls give the
//! same errors. A test in the same process uses [`with_errors`] for its thread. A helper thread takes the plan from
//! the thread that starts it ([`plan`], [`set_plan`]). Release builds contain no fault injection.

use std::io;

/// Name of the environment variable. Jobs do not inherit the variable.
pub const VARIABLE: &str = "EVENKEEL_FAULT";

/// Counts the points of `kill-at`. The process sends SIGKILL to itself at point N.
#[cfg(debug_assertions)]
pub fn point() {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static KILL_AT: OnceLock<Option<u64>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let kill_at = KILL_AT
        .get_or_init(|| std::env::var(VARIABLE).ok()?.strip_prefix("kill-at:")?.parse().ok());
    let Some(kill_at) = *kill_at else { return };
    if PASSED.fetch_add(1, Ordering::Relaxed) + 1 == kill_at {
        let this = rustix::process::getpid();
        let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
    }
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn point() {}

/// Returns whether the fault of this name is injected; never in release builds.
pub fn is_injected(name: &str) -> bool {
    cfg!(debug_assertions) && std::env::var(VARIABLE).is_ok_and(|value| value == name)
}

/// Selection of the system calls that fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Seed of the random selection of calls and errors.
    pub seed: u64,
    /// Share of failing calls in permille; 0 for none.
    pub permille: u16,
}

/// The injected errors. The last error (ESRCH, an exited task) is not used for calls on files.
pub const ERRORS: [i32; 6] =
    [libc::EPERM, libc::ENOMEM, libc::EBUSY, libc::EINTR, libc::ENOSYS, libc::ESRCH];

/// Returns the error to inject in place of the next system call, if any.
#[cfg(debug_assertions)]
pub fn inject(call: &'static str) -> io::Result<()> {
    chance::inject(call)
}

/// Injects no error in release builds.
#[cfg(not(debug_assertions))]
pub fn inject(_call: &'static str) -> io::Result<()> {
    Ok(())
}

/// Makes a call. Repeats the call while a signal interrupts it (EINTR).
pub fn retry<T>(name: &'static str, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match inject(name).and_then(|()| call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns the plan of this thread, for a helper thread that this thread starts.
#[cfg(debug_assertions)]
pub fn plan() -> FaultPlan {
    chance::plan()
}

/// Returns the empty plan in release builds.
#[cfg(not(debug_assertions))]
pub fn plan() -> FaultPlan {
    FaultPlan::default()
}

/// Sets the plan of this thread.
pub fn set_plan(plan: FaultPlan) {
    #[cfg(debug_assertions)]
    chance::set_plan(plan);
    #[cfg(not(debug_assertions))]
    let _ = plan;
}

/// Runs a closure with a plan for this thread.
pub fn with_errors<T>(plan: FaultPlan, run: impl FnOnce() -> T) -> T {
    let before = self::plan();
    set_plan(plan);
    let result = run();
    set_plan(before);
    result
}

#[cfg(debug_assertions)]
mod chance {
    use std::cell::Cell;
    use std::io;

    use base::Rng;

    use super::{ERRORS, FaultPlan, VARIABLE};

    /// Calls on files. ESRCH is not injected into these calls, because the caller would treat it as an exited task.
    const FILE_CALLS: [&str; 7] =
        ["read", "readlink", "getdents64", "stat", "lstat", "fstat", "pidfd_open"];

    thread_local! {
        static PLAN: Cell<Option<FaultPlan>> = const { Cell::new(None) };
        static N_CALLS: Cell<u64> = const { Cell::new(0) };
    }

    pub fn plan() -> FaultPlan {
        PLAN.get().unwrap_or_else(|| {
            let plan = std::env::var(VARIABLE).ok().and_then(|text| parse(&text));
            let plan = plan.unwrap_or_default();
            PLAN.set(Some(plan));
            plan
        })
    }

    pub fn set_plan(plan: FaultPlan) {
        PLAN.set(Some(plan));
        N_CALLS.set(0);
    }

    pub fn inject(call: &'static str) -> io::Result<()> {
        let FaultPlan { seed, permille } = plan();
        if permille == 0 {
            return Ok(());
        }
        let nr = N_CALLS.get();
        N_CALLS.set(nr + 1);
        let of_call =
            call.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let mut chance = Rng::new(of_call ^ nr.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if u64::from(permille) <= chance.below(1000) {
            return Ok(());
        }
        let errors = if FILE_CALLS.contains(&call) { &ERRORS[..ERRORS.len() - 1] } else { &ERRORS };
        let idx = chance.below(errors.len() as u64) as usize;
        Err(io::Error::from_raw_os_error(errors[idx]))
    }

    pub(super) fn parse(text: &str) -> Option<FaultPlan> {
        let (seed, permille) = text.strip_prefix("errors:")?.split_once(':')?;
        Some(FaultPlan { seed: seed.parse().ok()?, permille: permille.parse().ok()? })
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    fn errors(seed: u64, permille: u16) -> Vec<Option<i32>> {
        with_errors(FaultPlan { seed, permille }, || {
            let call = |_| inject("a call").err().and_then(|error| error.raw_os_error());
            (0..1000).map(call).collect()
        })
    }

    #[test]
    fn the_seed_selects_the_failing_calls_and_permille_is_their_share() {
        assert_eq!(errors(7, 100), errors(7, 100));
        assert_ne!(errors(7, 100), errors(8, 100));
        let n_failed = errors(7, 100).into_iter().flatten().count();
        assert!((60..140).contains(&n_failed), "{n_failed} of 1000 instead of about 100");
        assert_eq!(errors(7, 0).into_iter().flatten().count(), 0);
        for error in ERRORS {
            assert!(errors(7, 500).contains(&Some(error)), "never {error}");
        }
    }

    #[test]
    fn an_interrupted_call_is_repeated_and_other_errors_are_returned() {
        let mut n_made = 0;
        let errors = with_errors(FaultPlan { seed: 3, permille: 500 }, || {
            let call = |_| {
                let done = retry("a call", || {
                    n_made += 1;
                    Ok(())
                });
                done.err().and_then(|error| error.raw_os_error())
            };
            (0..1000).map(call).collect::<Vec<_>>()
        });
        assert!(!errors.contains(&Some(libc::EINTR)) && errors.contains(&Some(libc::EPERM)));
        assert_eq!(errors.iter().filter(|error| error.is_none()).count(), n_made);
        let mut results = vec![Ok(5), Err(libc::EINTR), Err(libc::EINTR)];
        let call = || results.pop().expect("three calls").map_err(io::Error::from_raw_os_error);
        assert_eq!(retry("a call", call).expect("the third"), 5);
    }

    #[test]
    fn the_variable_contains_seed_and_permille() {
        assert_eq!(chance::parse("errors:5:20"), Some(FaultPlan { seed: 5, permille: 20 }));
        assert_eq!(chance::parse("kill-at:5"), None);
        assert_eq!(chance::parse("errors:5"), None);
    }
}
