//! Real-time scheduling of the calling thread: sched_setscheduler(2).

use std::io;

use crate::fault;

/// Sets SCHED_FIFO with the lowest priority, 1: the thread preempts all normal tasks and no real-time task. Its children
/// are normal tasks.
///
/// # Errors
/// EPERM without CAP_SYS_NICE and without a limit RLIMIT_RTPRIO (sched(7)).
pub fn set_lowest_fifo() -> io::Result<()> {
    fault::inject("sched_setscheduler")?;
    let param = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel only reads `param`, which outlives the call. Thread 0 is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const param) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
