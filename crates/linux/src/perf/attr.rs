//! The attribute of a counter, and the call that opens it.
//!
//! The attribute is the kernel's `perf_event_attr` up to its second version (72 bytes), which every
//! kernel since Linux 2.6.33 takes: all that follows is about what else a sample holds, and of samples we
//! only want to know that there was one ([`super::Overflows`]) or which address it was about
//! ([`super::Heat`]).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::fault;

/// What is to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attr {
    /// Number of the PMU, as in its `type` file; 0 hardware, 1 software.
    pub kind: u32,
    /// Which event.
    pub config: [u64; 3],
    /// How.
    pub flags: Flags,
}

/// How something is to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flags {
    /// What the task starts from now on is counted with it.
    pub inherit: bool,
    /// Only while the task runs its own code: needs the least rights.
    pub user_only: bool,
    /// It does not count until it is told to.
    pub disabled: bool,
}

/// Who is to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterTarget {
    /// This thread, wherever it runs; 0 is the calling one.
    Task(u32),
    /// Everybody on this CPU, or what is outside the cores and belongs to it.
    Cpu(u32),
}

/// The kernel's own form.
#[repr(C)]
#[derive(Default)]
struct Raw {
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
    config2: u64,
}

const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const EXCLUDE_IDLE: u64 = 1 << 7;

/// Where the two bits stand that say how near a sample is to its instruction.
const PRECISE_SHIFT: u32 = 15;
/// A sample holds the address of the data and nothing else.
const SAMPLE_ADDRESS: u64 = 1 << 3;

/// The kind and number of the kernel's own clock of a task.
const TASK_CLOCK: (u32, u64) = (1, 1);

/// What one read of a group gives: its times, and of each counter the value and the number.
pub const READ_FORMAT: u64 = 0b1111;

impl Flags {
    fn bits(self) -> u64 {
        let bit = |on: bool, bit: u64| if on { bit } else { 0 };
        bit(self.disabled, DISABLED)
            | bit(self.inherit, INHERIT)
            | bit(self.user_only, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR)
    }
}

impl Raw {
    fn of(attr: &Attr) -> Self {
        Raw {
            kind: attr.kind,
            size: size_of::<Raw>() as u32,
            config: attr.config[0],
            flags: attr.flags.bits(),
            config1: attr.config[1],
            config2: attr.config[2],
            ..Raw::default()
        }
    }
}

/// Opens a counter, in the group of another if one is given. It is closed at exec.
pub fn open(
    attr: &Attr,
    whom: CounterTarget,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    call(&Raw { read_format: READ_FORMAT, ..Raw::of(attr) }, whom, group)
}

/// Opens a counter that notes in its ring each time that it has counted so many, and makes itself
/// readable then. It does not count until it is told to.
///
/// The clock of a whole CPU goes on while nobody runs there, so its samples are taken only while
/// somebody does. Of all others that need not be asked, and some processors would refuse it.
pub(super) fn open_sampling(attr: &Attr, whom: CounterTarget, every: u64) -> io::Result<OwnedFd> {
    let is_clock =
        (attr.kind, attr.config[0]) == TASK_CLOCK && matches!(whom, CounterTarget::Cpu(_));
    let raw = Raw::of(attr);
    let flags = raw.flags | DISABLED | if is_clock { EXCLUDE_IDLE } else { 0 };
    call(&Raw { flags, sample_period: every, wakeup_events: 1, ..raw }, whom, None)
}

/// Opens a counter that notes in its ring the data address of each so many-th event. Addresses are
/// those of the very instruction where `precise` is 2, and as far as it happens to be known at 0.
pub(super) fn open_addresses(
    attr: &Attr,
    whom: CounterTarget,
    every: u64,
    precise: u8,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let raw = Raw::of(attr);
    let flags = raw.flags | u64::from(precise & 3) << PRECISE_SHIFT;
    call(&Raw { flags, sample_period: every, sample_type: SAMPLE_ADDRESS, ..raw }, whom, group)
}

fn call(raw: &Raw, whom: CounterTarget, group: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    fault::refuse("perf_event_open")?;
    let (pid, cpu) = match whom {
        CounterTarget::Task(tid) => (tid.cast_signed(), -1),
        CounterTarget::Cpu(cpu) => (-1, cpu.cast_signed()),
    };
    let group = group.map_or(-1, |fd| fd.as_raw_fd());
    let close_on_exec: libc::c_ulong = 8;
    // SAFETY: the kernel reads `size` bytes from `raw`, which is that long and outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const *raw, pid, cpu, group, close_on_exec)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The number by which a read names a counter (`PERF_EVENT_IOC_ID`).
pub(super) fn number(counter: BorrowedFd<'_>) -> io::Result<u64> {
    fault::refuse("ioctl")?;
    let mut id = 0u64;
    /// `_IOR('$', 7, __u64 *)`: the size in it is that of a pointer.
    const PERF_EVENT_IOC_ID: u64 = 0x8000_2407 | ((size_of::<usize>() as u64) << 16);
    // SAFETY: the kernel writes one u64, into memory of ours that is that long.
    let done =
        unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_ID as libc::Ioctl, &raw mut id) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

/// Stops a counter (`PERF_EVENT_IOC_DISABLE`). What its processor keeps back of samples comes into the
/// ring then.
pub(super) fn disable(counter: BorrowedFd<'_>) -> io::Result<()> {
    fault::refuse("ioctl")?;
    /// `_IO('$', 1)`; its argument says that others of the group go on.
    const PERF_EVENT_IOC_DISABLE: libc::Ioctl = 0x2401;
    // SAFETY: the call takes a number and touches no memory of ours.
    let done = unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_DISABLE, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_form_is_that_of_its_second_version() {
        assert_eq!(size_of::<Raw>(), 72);
        assert_eq!(std::mem::offset_of!(Raw, read_format), 32);
        assert_eq!(std::mem::offset_of!(Raw, config2), 64);
    }
}
