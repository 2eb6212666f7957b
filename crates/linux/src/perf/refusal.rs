//! Why a counter did not open, in words, with what would help.
//!
//! ```text
//!   what                                        needs any one of
//!   a task of one's own, in its own code        perf_event_paranoid ≤ 2, CAP_PERFMON
//!   a task of one's own, in the kernel too      perf_event_paranoid ≤ 1, CAP_PERFMON
//!   a whole CPU, memory controllers             perf_event_paranoid ≤ 0, CAP_PERFMON
//!   another user's task                         CAP_PERFMON; before Linux 5.9 CAP_SYS_PTRACE besides
//! ```
//!
//! Before Linux 5.8 CAP_SYS_ADMIN stands for CAP_PERFMON. Kernels as their makers publish them know no
//! value above 2; Debian's (and Android's) let nobody without a capability count anything from 3 on,
//! Ubuntu's from 4 on. Sources: Documentation/admin-guide/perf-security.rst and sysctl/kernel.rst; Debian's
//! patch "Allow further restriction of perf_event_open".

use std::io;

/// What is to be counted decides what right it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterScope {
    /// A task, in its own code only: the least right there is.
    Task,
    /// Everything on a CPU, or outside the cores.
    Cpu,
}

impl CounterScope {
    /// The largest `perf_event_paranoid` with which it works without a capability.
    pub fn paranoid_max(self) -> i32 {
        match self {
            CounterScope::Task => 2,
            CounterScope::Cpu => 0,
        }
    }
}

/// What is left out where tasks may be counted only in their own code, and what would help.
pub fn own_code_only(paranoid: Option<i32>) -> String {
    let help = match paranoid {
        Some(value) if 1 < value => {
            format!("perf_event_paranoid is {value}, set it to 1 or less, or give CAP_PERFMON")
        }
        _ => "give CAP_PERFMON".to_owned(),
    };
    format!("in its own code only; to count what the kernel does for it: {help}")
}

/// Why a counter did not open.
pub fn explain_refusal(error: &io::Error, paranoid: Option<i32>, need: CounterScope) -> String {
    let enough = need.paranoid_max();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => {
            "this processor, or the virtual machine, gives no such counter".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => match paranoid {
            Some(value) if enough < value => format!(
                "perf_event_paranoid is {value}: set it to {enough} or less, or give CAP_PERFMON"
            ),
            _ => "the kernel refuses (a container's filter?): give CAP_PERFMON".to_owned(),
        },
        Some(libc::ENOSYS) => "the kernel has no perf_event_open, or a filter hides it".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "no descriptors are left: raise ulimit -n".to_owned(),
        Some(libc::EBUSY) => "somebody else holds the counters for himself alone".to_owned(),
        _ => format!("perf_event_open fails: {error}"),
    }
}

/// The error that says that the task is gone: an everyday outcome.
pub const TASK_EXITED: i32 = libc::ESRCH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_value_or_capability_would_help() {
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        let own = explain_refusal(&refused, Some(3), CounterScope::Task);
        assert_eq!(own, "perf_event_paranoid is 3: set it to 2 or less, or give CAP_PERFMON");
        let cpu = explain_refusal(&refused, Some(2), CounterScope::Cpu);
        assert_eq!(cpu, "perf_event_paranoid is 2: set it to 0 or less, or give CAP_PERFMON");
        assert!(explain_refusal(&refused, Some(1), CounterScope::Task).contains("filter"));
        assert_eq!(
            own_code_only(Some(2)),
            "in its own code only; to count what the kernel does for it: perf_event_paranoid is 2, set \
             it to 1 or less, or give CAP_PERFMON"
        );
        assert!(own_code_only(Some(1)).ends_with("it: give CAP_PERFMON"));
        let absent = io::Error::from_raw_os_error(libc::ENOENT);
        assert!(explain_refusal(&absent, Some(2), CounterScope::Task).contains("no such counter"));
    }
}
