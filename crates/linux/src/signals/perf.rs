//! Tries whether the kernel lets us count, by opening a counter and closing it again.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// What is tried, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    CacheMisses,
    Instructions,
    Faults,
    CpuClock,
}

/// Of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The calling thread, in its own code only: the least right there is.
    OwnTask,
    /// Everything that runs on the first CPU that this thread may use.
    Cpu,
}

/// The first 64 bytes of the kernel's `perf_event_attr`, its first version, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

impl Event {
    /// Type and number of the event in `linux/perf_event.h`.
    fn numbers(self) -> (u32, u64) {
        match self {
            Event::CacheMisses => (HARDWARE, 3),
            Event::Instructions => (HARDWARE, 1),
            Event::Faults => (SOFTWARE, 2),
            Event::CpuClock => (SOFTWARE, 0),
        }
    }
}

/// Opens a counter, disabled, and closes it.
pub(super) fn try_open(event: Event, scope: Scope) -> io::Result<()> {
    let (kind, config) = event.numbers();
    let user_only = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    let flags = if scope == Scope::OwnTask { user_only } else { DISABLED };
    let attr = Attr { kind, size: size_of::<Attr>() as u32, config, flags, ..Attr::default() };
    let (pid, cpu) = match scope {
        Scope::OwnTask => (0, -1),
        Scope::Cpu => (-1, first_cpu()),
    };
    let (no_group, close_on_exec): (libc::c_int, libc::c_ulong) = (-1, 8);
    // SAFETY: the kernel reads `size` bytes from `attr`, which is that long and outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, no_group, close_on_exec)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
    Ok(())
}

fn first_cpu() -> libc::c_int {
    let cpus = crate::affinity::get(0).unwrap_or_default();
    cpus.first().map_or(0, |cpu| cpu.0 as libc::c_int)
}

/// Why a counter did not open, in words, with what would help.
pub(super) fn reason(error: &io::Error, paranoid: Option<i32>, scope: Scope) -> String {
    let enough = if scope == Scope::OwnTask { 2 } else { 0 };
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
        _ => format!("perf_event_open fails: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_value_or_capability_would_help() {
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        let own = reason(&refused, Some(3), Scope::OwnTask);
        assert_eq!(own, "perf_event_paranoid is 3: set it to 2 or less, or give CAP_PERFMON");
        let cpu = reason(&refused, Some(2), Scope::Cpu);
        assert_eq!(cpu, "perf_event_paranoid is 2: set it to 0 or less, or give CAP_PERFMON");
        assert!(reason(&refused, Some(1), Scope::OwnTask).contains("filter"));
        let absent = io::Error::from_raw_os_error(libc::ENOENT);
        assert!(reason(&absent, Some(2), Scope::OwnTask).contains("no such counter"));
    }
}
