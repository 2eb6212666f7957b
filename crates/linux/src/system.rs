//! The boot, the namespace and the habits of the system that this process runs in.

use std::fs;
use std::io;
use std::path::Path;

use base::{Bytes, CpuSet, Nanos, NodeId};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{fault, procfs};

/// A name for the time since the machine was started, different after each start.
pub fn boot_id(root: &Path) -> io::Result<String> {
    text(root, "proc/sys/kernel/random/boot_id")
}

/// Which numbering of processes this process sees, as the kernel names it: `pid:[4026531836]`.
pub fn pid_namespace(root: &Path) -> io::Result<String> {
    let link = fault::retry("readlink", || fs::read_link(root.join("proc/self/ns/pid")))?;
    Ok(link.to_string_lossy().into_owned())
}

/// A random name that no other run has.
pub fn random_id(root: &Path) -> io::Result<String> {
    text(root, "proc/sys/kernel/random/uuid")
}

/// The CPUs that are switched on, as far as this machine or container tells.
pub fn online_cpus(root: &Path) -> io::Result<CpuSet> {
    fault::refuse("open")?;
    let text = fs::read_to_string(root.join("sys/devices/system/cpu/online"))?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Whether the kernel moves pages and tasks between nodes by itself; false where it cannot.
pub fn numa_balancing(root: &Path) -> bool {
    text(root, "proc/sys/kernel/numa_balancing").is_ok_and(|text| text != "0")
}

/// The CPUs that are online; empty where the kernel cannot switch any off.
pub fn online(root: &Path) -> io::Result<CpuSet> {
    match text(root, "sys/devices/system/cpu/online") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(CpuSet::new()),
        text => text?.parse().map_err(|_| io::ErrorKind::InvalidData.into()),
    }
}

fn text(root: &Path, path: &str) -> io::Result<String> {
    let text = fault::retry("read", || fs::read_to_string(root.join(path)))?;
    Ok(text.trim().to_owned())
}

/// Opens what tells a node's free memory, to be read again and again.
pub fn open_node_meminfo(root: &Path, node: NodeId) -> io::Result<std::os::fd::OwnedFd> {
    procfs::open(&root.join(format!("sys/devices/system/node/node{}/meminfo", node.0)))
}

/// A node's free memory from the descriptor that [`open_node_meminfo`] gave.
pub fn node_free(meminfo: impl std::os::fd::AsFd) -> Option<Bytes> {
    let mut buffer = [0; 512]; // MemFree stands in the second line.
    procfs::parse_node_free(procfs::read_again(meminfo, &mut buffer).ok()?).map(Bytes)
}

/// How many descriptors this process may have, before and after raising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The soft limit as it was: what children get back.
    pub inherited: Rlimit,
    /// The soft limit now.
    pub now: u64,
}

/// Raises the soft limit of open descriptors to the hard one, at most to `enough`.
pub fn raise_descriptors(enough: u64) -> DescriptorLimit {
    let inherited = getrlimit(Resource::Nofile);
    let set =
        |limit| fault::refuse("setrlimit").is_ok() && setrlimit(Resource::Nofile, limit).is_ok();
    let have = inherited.current.unwrap_or(u64::MAX);
    let want = inherited.maximum.unwrap_or(u64::MAX).min(enough).max(have);
    let raised = Rlimit { current: Some(want), maximum: inherited.maximum };
    let now = if have < want && set(raised) { want } else { have };
    DescriptorLimit { inherited, now }
}

/// Gives this process back the soft limit that it came with.
pub fn lower_descriptors(limit: DescriptorLimit) {
    // Not refused: lowering to what it was cannot be refused; if it were, nothing would be lost.
    let _ = setrlimit(Resource::Nofile, limit.inherited);
}

/// The nice value of the calling thread.
pub fn own_nice() -> i32 {
    // Not refused: it has no way to fail for oneself.
    // SAFETY: a call on numbers. -1 is a value like any other, and for oneself it cannot fail.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets the nice value of the calling thread. Lowering it needs `CAP_SYS_NICE`.
pub fn set_own_nice(nice: i32) -> io::Result<()> {
    fault::refuse("setpriority")?;
    // SAFETY: a call on numbers.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The scheduling policy of a thread, by the kernel's number.
///
/// # Errors
/// The thread is gone.
pub fn scheduling_class(tid: u32) -> io::Result<u32> {
    fault::refuse("sched_getscheduler")?;
    // SAFETY: a call on numbers.
    let class = unsafe { libc::sched_getscheduler(tid.cast_signed()) };
    // What a child would not inherit is told in the same number.
    let plain = class & !libc::SCHED_RESET_ON_FORK;
    u32::try_from(plain).ok().filter(|_| 0 <= class).ok_or_else(io::Error::last_os_error)
}

/// Whether whoever started this process wants it to ignore a signal, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    // Not refused: it fails for numbers of no signals alone.
    // SAFETY: all bits zero is a valid sigaction, and the kernel only writes into it.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is given, so nothing changes; the pointer is to memory of ours.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    done == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// CPU time that this thread has used: what work costs, without what it waited for a CPU.
pub fn thread_cpu_time() -> Nanos {
    // Not refused: a clock that is always there.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Nanos(secs * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_boot_has_a_name_and_every_run_another() {
        let root = Path::new("/");
        assert_eq!(boot_id(root).expect("a name"), boot_id(root).expect("a name"));
        assert_ne!(random_id(root).expect("a name"), random_id(root).expect("a name"));
        assert!(pid_namespace(root).expect("a name").starts_with("pid:["));
    }
}
