//! Processes of a test, and their affinity masks.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base::CpuSet;
use rustix::process::{Pid, Signal};

/// Maximum wait for a condition. Processes of a busy guest are slow. A watch whose trial reports a loss by chance waits
/// a minute before its next trial.
pub const TIMEOUT: Duration = Duration::from_secs(200);

/// Shell script that uses CPU time until it is killed.
pub const BURN: &str = "while :; do :; done";

/// A process. Drop kills the process.
pub struct Process(pub Child);

impl Process {
    /// Starts a process without input and output.
    pub fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self::spawn(command)
    }

    pub fn spawn(command: &mut Command) -> Self {
        Process(command.spawn().expect("the program exists"))
    }

    pub fn shell(script: &str) -> Self {
        Process::new(Command::new("sh").args(["-c", script]))
    }

    /// Starts a shell that uses CPU time.
    pub fn busy() -> Self {
        Process::shell(BURN)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn mask(&self) -> CpuSet {
        mask(self.pid()).expect("the process exists")
    }

    pub fn signal(&self, by: Signal) {
        signal(self.pid(), by);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the affinity mask of a thread, if the thread exists.
pub fn mask(tid: u32) -> Option<CpuSet> {
    linux::affinity::get(tid).ok()
}

/// Reads the affinity mask of this thread.
pub fn all_cpus() -> CpuSet {
    linux::affinity::get(0).expect("own mask")
}

/// Returns all CPUs of this process, the first CPU and the last CPU. `None` if the process has only one CPU.
pub fn two_cpus() -> Option<(CpuSet, CpuSet, CpuSet)> {
    let all = all_cpus();
    if all.len() < 2 {
        println!("skipped: needs two CPUs");
        return None;
    }
    let (first, last) = (all.first().into_iter().collect(), all.last().into_iter().collect());
    Some((all, first, last))
}

/// Returns whether a process exists and has not exited.
pub fn is_running(pid: u32) -> bool {
    linux::procfs::stat(Path::new("/"), pid).is_ok_and(|stat| !stat.has_exited())
}

pub fn start_time_ticks(pid: u32) -> u64 {
    linux::procfs::stat(Path::new("/"), pid).expect("the process exists").start_time_ticks
}

/// Returns the name of a process, if it exists.
pub fn comm(pid: u32) -> Option<String> {
    linux::procfs::stat(Path::new("/"), pid).ok().map(|stat| stat.comm_text())
}

/// Returns the value of a variable in the initial environment of a process.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&environ).into_owned();
    let mut values =
        text.split('\0').filter_map(|variable| variable.strip_prefix(name)?.strip_prefix('='));
    values.next().map(str::to_owned)
}

pub fn children(pid: u32) -> Vec<u32> {
    linux::procfs::children(Path::new("/"), pid, pid).unwrap_or_default()
}

/// Returns the processes and their children.
pub fn with_children(pids: &[u32]) -> Vec<u32> {
    pids.iter().copied().chain(pids.iter().flat_map(|&pid| children(pid))).collect()
}

/// Sends a signal to a process, which may have exited.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a number");
    let _ = rustix::process::kill_process(pid, signal);
}

/// Polls a condition until it is true. Panics after [`TIMEOUT`].
pub fn until(event: &str, holds: impl FnMut() -> bool) {
    until_or(event, holds, String::new);
}

/// Polls as [`until`], with further text for the panic message.
pub fn until_or(event: &str, mut holds: impl FnMut() -> bool, details: impl Fn() -> String) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < TIMEOUT, "timeout: {event}\n{}", details());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Polls until a value is available, and returns the value.
pub fn wait_for<T>(event: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(event, || {
        found = value();
        found.is_some()
    });
    found.expect("the value was found")
}

/// Reads the machine of this test.
pub fn machine() -> topology::Machine {
    linux::topology::read(Path::new("/")).expect("the topology of this machine")
}
