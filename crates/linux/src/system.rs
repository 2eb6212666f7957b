//! Boot, PID namespace, limits and settings of the system on which this process runs.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{CpuSet, Nanos, NodeId};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{fault, procfs};

/// Whether standard output was closed when this process started.
static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls the functions of this section before `main`. There the Rust runtime opens `/dev/null` in place of
/// a closed standard stream, and every write succeeds.
// SAFETY: the section contains pointers to functions of this type.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = check_stdout;

extern "C" fn check_stdout() {
    // No fault injection: the call fails for a closed descriptor only.
    // SAFETY: the call has no pointer argument.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    IS_STDOUT_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Returns whether standard output was closed when this process started.
pub fn is_stdout_closed() -> bool {
    IS_STDOUT_CLOSED.load(Ordering::Relaxed)
}

/// Reads the id of the current boot.
pub fn boot_id(root: &Path) -> io::Result<String> {
    text(root, "proc/sys/kernel/random/boot_id")
}

/// Reads the PID namespace of this process in the kernel's form: `pid:[4026531836]`.
pub fn pid_namespace(root: &Path) -> io::Result<String> {
    namespace(root, "pid")
}

/// Reads the time namespace of this process: the start times of all processes that this process reads are relative to
/// the boot time in this namespace. Empty before Linux 5.6.
pub fn time_namespace(root: &Path) -> io::Result<String> {
    match namespace(root, "time") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        time => time,
    }
}

fn namespace(root: &Path, kind: &str) -> io::Result<String> {
    let path = root.join("proc/self/ns").join(kind);
    let link = fault::retry("readlink", || fs::read_link(&path))?;
    Ok(link.to_string_lossy().into_owned())
}

/// `/proc` does not show the processes of this PID namespace.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ProcError {
    #[error(
        "/proc shows the processes of another PID namespace (this process is {pid}, there {found}): mount /proc in this namespace, for example with unshare --mount-proc"
    )]
    OtherNamespace { pid: u32, found: String },
    #[error(
        "/proc does not show this process: mount /proc in this PID namespace (mount -t proc proc /proc)"
    )]
    Hidden(#[source] io::Error),
}

/// Checks that `/proc` shows the processes of the PID namespace of this process. PIDs of another namespace name other
/// processes.
pub fn check_proc(root: &Path) -> Result<(), ProcError> {
    // No fault injection: the call fails only if `/proc` is not mounted.
    let found = fs::read_link(root.join("proc/self")).map_err(ProcError::Hidden)?;
    let (pid, found) = (std::process::id(), found.to_string_lossy().into_owned());
    if found == pid.to_string() { Ok(()) } else { Err(ProcError::OtherNamespace { pid, found }) }
}

/// Returns a new random UUID.
pub fn random_id(root: &Path) -> io::Result<String> {
    text(root, "proc/sys/kernel/random/uuid")
}

/// Reads the online CPUs of this machine or container.
pub fn online_cpus(root: &Path) -> io::Result<CpuSet> {
    fault::inject("open")?;
    let text = fs::read_to_string(root.join("sys/devices/system/cpu/online"))?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns whether NUMA balancing is enabled; false if the kernel does not support it.
pub fn numa_balancing(root: &Path) -> bool {
    text(root, "proc/sys/kernel/numa_balancing").is_ok_and(|text| text != "0")
}

/// Reads the online CPUs; empty if the kernel does not support CPU hotplug.
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

/// Opens the `meminfo` of a node, to be read several times.
pub fn open_node_meminfo(root: &Path, node: NodeId) -> io::Result<std::os::fd::OwnedFd> {
    procfs::open(&root.join(format!("sys/devices/system/node/node{}/meminfo", node.0)))
}

/// Reads the CPUs that the administrator reserves: isolated at boot, without the scheduling-clock tick, or in an
/// isolated cpuset partition. A missing list is empty.
///
/// # Errors
/// A list exists but cannot be read, so the reserved CPUs are unknown.
pub fn isolated_cpus(root: &Path) -> io::Result<CpuSet> {
    let files = [
        "sys/devices/system/cpu/isolated",
        "sys/devices/system/cpu/nohz_full",
        "sys/fs/cgroup/cpuset.cpus.isolated",
    ];
    let mut all = CpuSet::new();
    for file in files {
        match text(root, file) {
            // The list is `(null)` if no CPU runs without the tick.
            Ok(text) => all = all.or(&text.parse().unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
/// Limit of open descriptors, before and after it is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limits before raising. Children inherit these limits.
    pub inherited: Rlimit,
    /// The current soft limit.
    pub now: u64,
}

/// Raises the soft limit of open descriptors to the hard limit, at most to `enough`.
pub fn raise_descriptors(enough: u64) -> DescriptorLimit {
    let inherited = getrlimit(Resource::Nofile);
    let set =
        |limit| fault::inject("setrlimit").is_ok() && setrlimit(Resource::Nofile, limit).is_ok();
    let soft = inherited.current.unwrap_or(u64::MAX);
    let target = inherited.maximum.unwrap_or(u64::MAX).min(enough).max(soft);
    let raised = Rlimit { current: Some(target), maximum: inherited.maximum };
    let now = if soft < target && set(raised) { target } else { soft };
    DescriptorLimit { inherited, now }
}

/// Restores the inherited limits.
pub fn lower_descriptors(limit: DescriptorLimit) {
    // No fault injection: lowering a limit cannot fail.
    let _ = setrlimit(Resource::Nofile, limit.inherited);
}

/// Stack size that every command needs. Measured: commands of a debug build need 512 KiB.
const STACK_BYTES_MIN: u64 = 1 << 20;

/// The stack size limit is too small.
#[derive(Debug, thiserror::Error)]
#[error(
    "the stack size limit is {} KiB: evenkeel needs {needed} KiB; run ulimit -s {needed}",
    .limit >> 10, needed = STACK_BYTES_MIN >> 10
)]
pub struct StackError {
    limit: u64,
}

/// Checks the limit of the stack size of this process. The limit is not raised, because jobs would inherit it.
pub fn check_stack() -> Result<(), StackError> {
    // No fault injection: the call cannot fail.
    match getrlimit(Resource::Stack).current {
        Some(limit) if limit < STACK_BYTES_MIN => Err(StackError { limit }),
        _ => Ok(()),
    }
}

/// Returns the nice value of the calling thread.
pub fn own_nice() -> i32 {
    // No fault injection: the call cannot fail for the calling thread. SAFETY: no pointers; -1 is a valid return value.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets the nice value of the calling thread. A lower value needs `CAP_SYS_NICE`.
pub fn set_own_nice(nice: i32) -> io::Result<()> {
    fault::inject("setpriority")?;
    // SAFETY: no pointers.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the number of the scheduling policy of a thread, as in `sched.h`.
///
/// # Errors
/// The thread has exited.
pub fn scheduling_class(tid: u32) -> io::Result<u32> {
    fault::inject("sched_getscheduler")?;
    // SAFETY: no pointers.
    let class = unsafe { libc::sched_getscheduler(tid.cast_signed()) };
    // The number may include the flag SCHED_RESET_ON_FORK.
    let plain = class & !libc::SCHED_RESET_ON_FORK;
    u32::try_from(plain).ok().filter(|_| 0 <= class).ok_or_else(io::Error::last_os_error)
}

/// Returns whether this process ignores a signal, for example SIGHUP under nohup(1).
pub fn is_ignored(signal: i32) -> bool {
    // No fault injection: the call fails for invalid signal numbers only.
    // SAFETY: all bits zero is a valid sigaction, and the kernel only writes into it.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is set; the pointer is to `now`, which outlives the call.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    done == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Ignores SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) fails with EFBIG. The default action is the
/// end of the process without a message.
pub fn ignore_file_size_signal() {
    // No fault injection: the call fails for invalid signal numbers only.
    // SAFETY: SIG_IGN runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns the CPU time of this thread, without wait time.
pub fn thread_cpu_time() -> Nanos {
    // No fault injection: the clock always exists.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Nanos(secs * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_id_is_constant_and_random_ids_differ() {
        let root = Path::new("/");
        assert_eq!(boot_id(root).expect("a name"), boot_id(root).expect("a name"));
        assert_ne!(random_id(root).expect("a name"), random_id(root).expect("a name"));
        assert!(pid_namespace(root).expect("a name").starts_with("pid:["));
    }

    #[test]
    fn a_missing_proc_and_the_proc_of_another_pid_namespace_are_errors_with_the_remedy() {
        assert!(check_proc(Path::new("/")).is_ok());
        let test_dir = tempfile::tempdir().expect("a directory");
        let error = || check_proc(test_dir.path()).expect_err("another process").to_string();
        assert!(error().contains("mount -t proc"), "{}", error());
        fs::create_dir(test_dir.path().join("proc")).expect("a directory");
        std::os::unix::fs::symlink("0", test_dir.path().join("proc/self")).expect("a link");
        assert!(error().contains("there 0): mount /proc"), "{}", error());
    }

    #[test]
    fn isolated_cpus_are_in_any_of_the_lists_and_an_unreadable_list_is_an_error() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let read = || isolated_cpus(test_dir.path()).map(|cpus| cpus.to_string()).ok();
        assert_eq!(read().as_deref(), Some(""));
        let cpu = test_dir.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu).expect("a directory");
        fs::write(cpu.join("isolated"), "2-3\n").expect("a file");
        fs::write(cpu.join("nohz_full"), "  (null)\n").expect("a file");
        assert_eq!(read().as_deref(), Some("2-3"));
        fs::write(cpu.join("nohz_full"), "3-4\n").expect("a file");
        assert_eq!(read().as_deref(), Some("2-4"));
        fs::remove_file(cpu.join("isolated")).expect("a file");
        fs::create_dir(cpu.join("isolated")).expect("a directory");
        assert_eq!(read(), None);
    }
}
