//! Faults on purpose, so that tests can try every moment of a run.
//!
//! In development builds `EVENKEEL_FAULT=kill-at:N` ends this process with SIGKILL at the N-th point
//! that it passes; N runs from 1 until a run ends by itself, and then every moment has been tried.
//! Other words (`no-descriptors`) make something fail that seldom does.
//!
//! Calls fail on purpose too: every function here that asks the system for something begins with
//! [`refuse`], or makes its call through [`retry`] (`cargo xtask tidy` looks that none forgets it), and
//! `EVENKEEL_FAULT=errors:SEED:PERMILLE` lets so many of a thousand of them fail with an
//! error that the kernel could have given. The same seed and the same calls give the same errors. A
//! test in the same process asks with [`with_errors`] for its own thread, and a helper thread takes
//! the wish over from whoever started it ([`wish`], [`take_over`]). Release builds know none of this.

use std::io;

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

/// What calls are to fail: how many of a thousand, by which seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Which ones, and with which error.
    pub seed: u64,
    /// So many of a thousand calls. None at 0.
    pub permille: u16,
}

/// What the kernel may answer to any call of ours; the last one only where a task may have ended.
pub const ERRORS: [i32; 6] =
    [libc::EPERM, libc::ENOMEM, libc::EBUSY, libc::EINTR, libc::ENOSYS, libc::ESRCH];

/// Fails instead of the call that follows, where a test asked for that.
#[cfg(debug_assertions)]
pub fn refuse(call: &'static str) -> io::Result<()> {
    chance::refuse(call)
}

/// Lets every call through: this is a release build.
#[cfg(not(debug_assertions))]
pub fn refuse(_call: &'static str) -> io::Result<()> {
    Ok(())
}

/// Makes a call, and makes it again as long as a signal interrupts it: nothing was done then.
pub fn retry<T>(name: &'static str, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match refuse(name).and_then(|()| call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// What is asked of this thread's calls, for a helper thread that it starts.
#[cfg(debug_assertions)]
pub fn wish() -> FaultPlan {
    chance::wish()
}

/// Nothing is asked in release builds.
#[cfg(not(debug_assertions))]
pub fn wish() -> FaultPlan {
    FaultPlan::default()
}

/// From now on this thread's calls fail as wished.
pub fn take_over(wish: FaultPlan) {
    #[cfg(debug_assertions)]
    chance::take_over(wish);
    #[cfg(not(debug_assertions))]
    let _ = wish;
}

/// Runs something while calls of this thread fail as wished.
pub fn with_errors<T>(asked: FaultPlan, run: impl FnOnce() -> T) -> T {
    let before = wish();
    take_over(asked);
    let done = run();
    take_over(before);
    done
}

#[cfg(debug_assertions)]
mod chance {
    use std::cell::Cell;
    use std::io;

    use base::Rng;

    use super::{ERRORS, FaultPlan, VARIABLE};

    /// Calls that never say of somebody who lives that he is gone: nobody could tell that from the truth.
    const OF_FILES: [&str; 7] =
        ["read", "readlink", "getdents64", "stat", "lstat", "fstat", "pidfd_open"];

    thread_local! {
        static WISH: Cell<Option<FaultPlan>> = const { Cell::new(None) };
        static N_CALLS: Cell<u64> = const { Cell::new(0) };
    }

    pub fn wish() -> FaultPlan {
        WISH.get().unwrap_or_else(|| {
            let wish = std::env::var(VARIABLE).ok().and_then(|text| parse(&text));
            let wish = wish.unwrap_or_default();
            WISH.set(Some(wish));
            wish
        })
    }

    pub fn take_over(wish: FaultPlan) {
        WISH.set(Some(wish));
        N_CALLS.set(0);
    }

    pub fn refuse(call: &'static str) -> io::Result<()> {
        let FaultPlan { seed, permille } = wish();
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
        let errors = if OF_FILES.contains(&call) { &ERRORS[..ERRORS.len() - 1] } else { &ERRORS };
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
            let call = |_| refuse("a call").err().and_then(|error| error.raw_os_error());
            (0..1000).map(call).collect()
        })
    }

    #[test]
    fn the_same_seed_refuses_the_same_calls_and_as_many_as_asked() {
        assert_eq!(errors(7, 100), errors(7, 100));
        assert_ne!(errors(7, 100), errors(8, 100));
        let n_refused = errors(7, 100).into_iter().flatten().count();
        assert!((60..140).contains(&n_refused), "{n_refused} of 1000 instead of about 100");
        assert_eq!(errors(7, 0).into_iter().flatten().count(), 0);
        for error in ERRORS {
            assert!(errors(7, 500).contains(&Some(error)), "never {error}");
        }
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_another_error_is_told() {
        let mut n_made = 0;
        let told = with_errors(FaultPlan { seed: 3, permille: 500 }, || {
            let call = |_| {
                let done = retry("a call", || {
                    n_made += 1;
                    Ok(())
                });
                done.err().and_then(|error| error.raw_os_error())
            };
            (0..1000).map(call).collect::<Vec<_>>()
        });
        assert!(!told.contains(&Some(libc::EINTR)) && told.contains(&Some(libc::EPERM)));
        assert_eq!(told.iter().filter(|error| error.is_none()).count(), n_made);
        let mut left = vec![Ok(5), Err(libc::EINTR), Err(libc::EINTR)];
        let call = || left.pop().expect("asked three times").map_err(io::Error::from_raw_os_error);
        assert_eq!(retry("a call", call).expect("the third"), 5);
    }

    #[test]
    fn the_variable_names_seed_and_share() {
        assert_eq!(chance::parse("errors:5:20"), Some(FaultPlan { seed: 5, permille: 20 }));
        assert_eq!(chance::parse("kill-at:5"), None);
        assert_eq!(chance::parse("errors:5"), None);
    }
}
