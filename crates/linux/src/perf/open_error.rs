//! Causes why a counter cannot be opened, with remedies.
//!
//! ```text
//!   target and mode                               permission: one is sufficient
//!   an own task, user mode                        perf_event_paranoid ≤ 2, CAP_PERFMON
//!   an own task, user and kernel mode             perf_event_paranoid ≤ 1, CAP_PERFMON
//!   a CPU, memory controllers                     perf_event_paranoid ≤ 0, CAP_PERFMON
//!   a task of another user                        CAP_PERFMON (before Linux 5.9 together with CAP_SYS_PTRACE)
//! ```
//!
//! Before Linux 5.8 CAP_SYS_ADMIN has the role of CAP_PERFMON. Kernels of kernel.org have no value above 2.
//! With `perf_event_paranoid` >= 3 (Debian, Android) or >= 4 (Ubuntu) `perf_event_open` requires a capability.
//! Sources: Documentation/admin-guide/perf-security.rst and sysctl/kernel.rst; Debian's patch "Allow further
//! restriction of perf_event_open".

use std::io;

/// Scope of a counter, which determines the required permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterScope {
    /// A task in user mode, which needs the least permission.
    Task,
    /// A CPU, or a unit outside the cores.
    Cpu,
}

impl CounterScope {
    /// Returns the largest `perf_event_paranoid` that permits the scope without a capability.
    pub fn paranoid_max(self) -> i32 {
        match self {
            CounterScope::Task => 2,
            CounterScope::Cpu => 0,
        }
    }
}

/// Explains why tasks are counted only in user mode, with the remedy.
pub fn user_mode_only(paranoid: Option<i32>) -> String {
    let help = match paranoid {
        Some(value) if 1 < value => {
            format!("perf_event_paranoid is {value}, set it to 1 or less, or give CAP_PERFMON")
        }
        _ => "give CAP_PERFMON".to_owned(),
    };
    format!("in user mode only; to count kernel mode too: {help}")
}

/// Returns the cause why a counter cannot be opened, with the remedy.
pub fn explain_open_error(error: &io::Error, paranoid: Option<i32>, need: CounterScope) -> String {
    let enough = need.paranoid_max();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => {
            "this processor or virtual machine has no such counter".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => match paranoid {
            Some(value) if enough < value => format!(
                "perf_event_paranoid is {value}: set it to {enough} or less, or give CAP_PERFMON"
            ),
            _ => "the kernel rejects it (a seccomp filter?): give CAP_PERFMON".to_owned(),
        },
        Some(libc::ENOSYS) => {
            "the kernel has no perf_event_open, or a seccomp filter rejects it".to_owned()
        }
        Some(libc::EMFILE | libc::ENFILE) => "no descriptors are left: raise ulimit -n".to_owned(),
        Some(libc::EBUSY) => "another process has exclusive use of the counters".to_owned(),
        None => error.to_string(), // Not from the kernel: a recording lacks the event.
        Some(_) => format!("perf_event_open fails: {error}"),
    }
}

/// Error number for a task that has exited, which is an ordinary outcome.
pub const TASK_EXITED: i32 = libc::ESRCH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_counter_has_the_value_or_capability_that_would_permit_it() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        let task = explain_open_error(&denied, Some(3), CounterScope::Task);
        assert_eq!(task, "perf_event_paranoid is 3: set it to 2 or less, or give CAP_PERFMON");
        let cpu = explain_open_error(&denied, Some(2), CounterScope::Cpu);
        assert_eq!(cpu, "perf_event_paranoid is 2: set it to 0 or less, or give CAP_PERFMON");
        assert!(explain_open_error(&denied, Some(1), CounterScope::Task).contains("filter"));
        assert_eq!(
            user_mode_only(Some(2)),
            "in user mode only; to count kernel mode too: perf_event_paranoid is 2, set it to 1 or \
             less, or give CAP_PERFMON"
        );
        assert!(user_mode_only(Some(1)).ends_with("too: give CAP_PERFMON"));
        let absent = io::Error::from_raw_os_error(libc::ENOENT);
        assert!(
            explain_open_error(&absent, Some(2), CounterScope::Task).contains("no such counter")
        );
    }
}
