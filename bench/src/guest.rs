//! Runs this program in a guest with several NUMA nodes, and counts system calls in the guest.
//!
//! The guest has access to the files of the host, so this executable runs in the guest with the option `--inside`. A
//! benchmark needs one boot.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};

const TRIES: u32 = 3;

pub struct NumaGuest {
    /// Number of nodes, each a socket.
    pub n_nodes: u32,
    /// Total number of CPUs.
    pub n_cpus: u32,
    /// Total memory, such as `6G`.
    pub memory: &'static str,
    /// Timeout.
    pub limit: Duration,
    /// Additional kernel command line.
    pub kernel: &'static str,
}

impl NumaGuest {
    /// Boots the guest and runs this program in the guest with the same arguments, `--inside` and this evenkeel
    /// executable. The guest can write to the directory `shared`, which is the value of `--keep` in the guest. If the
    /// guest fails, the function boots the guest again: an emulated guest with one host thread per CPU sometimes
    /// crashes in self-modified kernel code.
    pub fn run(&self, evenkeel: &Path, shared: Option<&Path>) -> anyhow::Result<()> {
        // Later options override earlier options (args_override_self).
        let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
        args.extend(["--inside".into(), "--tool".into(), evenkeel.into()]);
        args.extend(shared.into_iter().flat_map(|dir| ["--keep".into(), dir.into()]));
        for n_left in (0..TRIES).rev() {
            match self.run_once(&args, shared)?.code() {
                Some(0) => return Ok(()),
                Some(124) => bail!("the guest did not finish within {} s", self.limit.as_secs()),
                Some(125) if n_left != 0 => println!("the guest failed; trying again"),
                Some(125) => bail!("the guest failed; scripts/numa-vm --log FILE writes its log"),
                code => bail!("the benchmark in the guest exited with {code:?}"),
            }
        }
        unreachable!("the last attempt returns")
    }

    fn run_once(&self, args: &[OsString], shared: Option<&Path>) -> anyhow::Result<ExitStatus> {
        let executable = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(crate::root().join("scripts/numa-vm"));
        if let Some(dir) = shared {
            command.arg("--share").arg(dir);
        }
        if !self.kernel.is_empty() {
            command.args(["--append", self.kernel]);
        }
        command
            .args(["--nodes", &self.n_nodes.to_string(), "--cpus", &self.n_cpus.to_string()])
            .args(["--mem", self.memory, "--timeout", &self.limit.as_secs().to_string(), "--"])
            .arg(executable)
            .args(args)
            .status()
            .context("cannot run scripts/numa-vm")
    }
}

/// Installs a Debian package if the program of the package is missing.
pub fn need(program: &str, package: &str) -> anyhow::Result<()> {
    let dirs = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    if dirs.iter().any(|dir| Path::new(dir).join(program).exists()) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!("{program} is not installed; run apt-get install {package}");
    }
    let status = Command::new("apt-get").args(["install", "-y", "-qq", package]).status()?;
    if !status.success() {
        bail!("apt-get install {package} failed; run apt-get update first");
    }
    Ok(())
}

const TRIGGER: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/trigger";
const HISTOGRAM: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/hist";

/// Counts the system calls of all threads of a process during a window. The kernel counts the calls per thread with a
/// tracing histogram, which costs far less than ptrace. Returns `None` if the kernel has no such histogram.
pub fn calls_during(pid: u32, window: Duration) -> anyhow::Result<Option<u64>> {
    // Writing the trigger resets the histogram.
    if fs::write(TRIGGER, "hist:keys=common_pid:size=8192").is_err() {
        return Ok(None);
    }
    std::thread::sleep(window);
    let text = fs::read_to_string(HISTOGRAM).context("cannot read the histogram")?;
    fs::write(TRIGGER, "")?;
    let threads = threads(pid)?;
    Ok(Some(counts(&text).filter(|(tid, _)| threads.contains(tid)).map(|(_, n)| n).sum()))
}

/// Parses TIDs and counts from lines such as `{ common_pid:       4711 } hitcount:         12`.
fn counts(text: &str) -> impl Iterator<Item = (u32, u64)> {
    text.lines().filter_map(|line| {
        let (key, count) = line.trim().strip_prefix("{ common_pid:")?.split_once("} hitcount:")?;
        Some((key.trim().parse().ok()?, count.trim().parse().ok()?))
    })
}

fn threads(pid: u32) -> anyhow::Result<Vec<u32>> {
    let dir = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} exited during the measurement"))?;
    let names = dir.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_kernels_histogram() {
        let text = "# event histogram\n#\n\n{ common_pid:       4711 } hitcount:         12\n\
                    { common_pid:          1 } hitcount:          3\n\nTotals:\n    Hits: 15\n";
        assert_eq!(counts(text).collect::<Vec<_>>(), [(4711, 12), (1, 3)]);
    }
}
