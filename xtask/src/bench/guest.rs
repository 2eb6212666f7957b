//! The way into a guest with several nodes, and what can be counted there.
//!
//! The guest sees the host's files, so this very program runs there again, with a word that says it has
//! arrived. One boot holds a whole benchmark.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};

/// So often a guest is begun.
const TRIES: u32 = 3;

/// The guest that a benchmark asks for.
pub struct Guest {
    /// Nodes, each a socket of its own.
    pub n_nodes: u32,
    /// CPUs of all nodes.
    pub n_cpus: u32,
    /// Memory of all nodes, such as `6G`.
    pub memory: &'static str,
    /// When it is ended at the latest.
    pub limit: Duration,
    /// More arguments of its kernel; empty for none.
    pub kernel: &'static str,
}

impl Guest {
    /// Boots it, runs this program in it with these words, and lets its output through. When the guest
    /// fails, all begins again: an emulated one with a thread of the host for each CPU sometimes dies of
    /// code that its kernel patched.
    pub fn run(&self, words: &[String]) -> anyhow::Result<()> {
        self.run_with(words, None)
    }

    /// The same with a folder that is writable there.
    pub fn run_sharing(&self, words: &[String], folder: &Path) -> anyhow::Result<()> {
        self.run_with(words, Some(folder))
    }

    fn run_with(&self, words: &[String], shared: Option<&Path>) -> anyhow::Result<()> {
        for n_left in (0..TRIES).rev() {
            match self.run_once(words, shared)?.code() {
                Some(0) => return Ok(()),
                Some(124) => bail!("the guest was not done within {} s", self.limit.as_secs()),
                Some(125) if n_left != 0 => println!("the guest failed: all begins again"),
                Some(125) => bail!("the guest failed: scripts/numa-vm --log FILE keeps its log"),
                code => bail!("what ran in the guest ended with {code:?}"),
            }
        }
        unreachable!("the last try ends it")
    }

    fn run_once(&self, words: &[String], shared: Option<&Path>) -> anyhow::Result<ExitStatus> {
        let here = std::env::current_exe().context("cannot tell where this program lies")?;
        let mut command = Command::new(crate::root().join("scripts/numa-vm"));
        if let Some(folder) = shared {
            command.arg("--share").arg(folder);
        }
        if !self.kernel.is_empty() {
            command.args(["--append", self.kernel]);
        }
        command
            .args(["--nodes", &self.n_nodes.to_string(), "--cpus", &self.n_cpus.to_string()])
            .args(["--mem", self.memory, "--timeout", &self.limit.as_secs().to_string(), "--"])
            .arg(here)
            .args(words)
            .status()
            .context("cannot run scripts/numa-vm")
    }
}

/// Installs a Debian package unless its program is there.
pub fn need(program: &str, package: &str) -> anyhow::Result<()> {
    let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    if places.iter().any(|place| Path::new(place).join(program).exists()) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!("{program} is not there: apt-get install {package}");
    }
    let done = Command::new("apt-get").args(["install", "-y", "-qq", package]).status()?;
    if !done.success() {
        bail!("apt-get install {package} failed: run apt-get update first");
    }
    Ok(())
}

const TRIGGER: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/trigger";
const HISTOGRAM: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/hist";

/// System calls that all threads of a process make while so much time passes: the kernel counts them by
/// thread, which costs far less than a tracer that stops each. `None` where the kernel cannot.
pub fn calls_during(pid: u32, window: Duration) -> anyhow::Result<Option<u64>> {
    // Opened for writing, the file forgets the counts of before.
    if fs::write(TRIGGER, "hist:keys=common_pid:size=8192").is_err() {
        return Ok(None);
    }
    std::thread::sleep(window);
    let text = fs::read_to_string(HISTOGRAM).context("cannot read the kernel's counts")?;
    fs::write(TRIGGER, "")?;
    let threads = threads(pid)?;
    Ok(Some(counts(&text).filter(|(tid, _)| threads.contains(tid)).map(|(_, n)| n).sum()))
}

/// Threads and their counts, from lines such as `{ common_pid:       4711 } hitcount:         12`.
fn counts(text: &str) -> impl Iterator<Item = (u32, u64)> {
    text.lines().filter_map(|line| {
        let (key, count) = line.trim().strip_prefix("{ common_pid:")?.split_once("} hitcount:")?;
        Some((key.trim().parse().ok()?, count.trim().parse().ok()?))
    })
}

fn threads(pid: u32) -> anyhow::Result<Vec<u32>> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} ended while it was measured"))?;
    let names = folder.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
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
