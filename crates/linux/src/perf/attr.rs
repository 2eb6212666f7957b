//! `perf_event_attr` and the call that opens a counter.
//!
//! The attribute is the second version of the structure (72 bytes), which every kernel since Linux 2.6.33 accepts.
//! Later fields concern the content of samples. Samples are used only to signal an overflow
//! ([`super::OverflowCounters`]) and for their address ([`crate::address_sampling`]).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::fault;

/// An event and its mode of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attr {
    /// Type of the PMU, as in its `type` file: 0 for hardware events, 1 for software events.
    pub kind: u32,
    /// The words config, config1 and config2.
    pub config: [u64; 3],
    /// Mode of counting.
    pub flags: Flags,
}

/// Mode of counting of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flags {
    /// Whether future children of the task are counted too.
    pub inherit: bool,
    /// Whether only user mode is counted, which requires the least permission.
    pub user_only: bool,
    /// Whether the counter is stopped until it is enabled.
    pub disabled: bool,
}

/// The task or CPU of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterTarget {
    /// A thread, on any CPU; 0 is the calling thread.
    Task(u32),
    /// A CPU, or the uncore unit that the kernel reads on this CPU.
    Cpu(u32),
}

/// `struct perf_event_attr`.
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

/// Position of the two bits `precise_ip`.
const PRECISE_SHIFT: u32 = 15;
/// Sample type with the data address only (PERF_SAMPLE_ADDR).
const SAMPLE_ADDRESS: u64 = 1 << 3;

/// Type and number of the software event task-clock.
const TASK_CLOCK: (u32, u64) = (1, 1);

/// Format of a group read: time enabled, time running, and value and id of each counter.
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
    fn new(attr: &Attr) -> Self {
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

/// Opens a counter in the group of the leader `group`. exec closes the descriptor.
pub fn open(
    attr: &Attr,
    target: CounterTarget,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    call(&Raw { read_format: READ_FORMAT, ..Raw::new(attr) }, target, group)
}

/// Opens a disabled counter that becomes readable after each `period` events.
///
/// The task clock of a CPU also runs while the CPU is idle, so its samples are restricted to non-idle time. Other
/// events do not need this restriction, and some processors reject it.
pub(super) fn open_sampling(
    attr: &Attr,
    target: CounterTarget,
    period: u64,
) -> io::Result<OwnedFd> {
    let is_clock =
        (attr.kind, attr.config[0]) == TASK_CLOCK && matches!(target, CounterTarget::Cpu(_));
    let raw = Raw::new(attr);
    let flags = raw.flags | DISABLED | if is_clock { EXCLUDE_IDLE } else { 0 };
    call(&Raw { flags, sample_period: period, wakeup_events: 1, ..raw }, target, None)
}

/// Opens a counter that records the data address of one event in `period` events. `precise` is the value of
/// `precise_ip`: 2 requests samples without skid, 0 permits arbitrary skid.
pub(crate) fn open_addresses(
    attr: &Attr,
    target: CounterTarget,
    period: u64,
    precise: u8,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let raw = Raw::new(attr);
    let flags = raw.flags | u64::from(precise & 3) << PRECISE_SHIFT;
    call(&Raw { flags, sample_period: period, sample_type: SAMPLE_ADDRESS, ..raw }, target, group)
}

fn call(raw: &Raw, target: CounterTarget, group: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    fault::inject("perf_event_open")?;
    let (pid, cpu) = match target {
        CounterTarget::Task(tid) => (tid.cast_signed(), -1),
        CounterTarget::Cpu(cpu) => (-1, cpu.cast_signed()),
    };
    let group = group.map_or(-1, |fd| fd.as_raw_fd());
    let close_on_exec: libc::c_ulong = 8;
    // SAFETY: the kernel reads `size` bytes from `raw`, its size, and `raw` outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const *raw, pid, cpu, group, close_on_exec)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Reads the id of a counter in the reads of its group (`PERF_EVENT_IOC_ID`).
pub(super) fn id(counter: BorrowedFd<'_>) -> io::Result<u64> {
    fault::inject("ioctl")?;
    let mut id = 0u64;
    /// `_IOR('$', 7, __u64 *)`: the number contains the size of a pointer.
    const PERF_EVENT_IOC_ID: u64 = 0x8000_2407 | ((size_of::<usize>() as u64) << 16);
    // SAFETY: the kernel writes one u64 to `id`.
    let done =
        unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_ID as libc::Ioctl, &raw mut id) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

/// Disables a counter (`PERF_EVENT_IOC_DISABLE`), which flushes buffered samples of the processor to the ring
/// buffer.
pub(crate) fn disable(counter: BorrowedFd<'_>) -> io::Result<()> {
    fault::inject("ioctl")?;
    /// `_IO('$', 1)`; with argument 0 other counters of the group continue.
    const PERF_EVENT_IOC_DISABLE: libc::Ioctl = 0x2401;
    // SAFETY: no pointers.
    let done = unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_DISABLE, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_has_the_layout_of_its_second_version() {
        assert_eq!(size_of::<Raw>(), 72);
        assert_eq!(std::mem::offset_of!(Raw, read_format), 32);
        assert_eq!(std::mem::offset_of!(Raw, config2), 64);
    }
}
