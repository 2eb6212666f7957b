//! The measured evenkeel executable: a release build that is started through its command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Builds the release executable.
pub fn build() -> anyhow::Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--package", "app"])
        .current_dir(crate::root())
        .status()
        .context("cannot run cargo build")?;
    if !built.success() {
        bail!("cargo build --release failed");
    }
    Ok(())
}

/// Returns the path of the release executable, in the target directory of this program.
pub fn path() -> anyhow::Result<PathBuf> {
    let executable = std::env::current_exe().context("cannot find the path of this program")?;
    let target =
        executable.ancestors().nth(2).context("this program is not in a target directory")?;
    let tool = target.join("release/evenkeel");
    if !tool.is_file() {
        bail!("{} does not exist; run cargo build --release", tool.display());
    }
    Ok(tool)
}

/// Returns the executable of the option, or else a release build.
pub fn executable_or_build(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        // Guests and symbolic links need an absolute path.
        return fs::canonicalize(given).with_context(|| format!("cannot find {}", given.display()));
    }
    build()?;
    path()
}

/// Returns the value of the watch option that declares a class for this executable, by its name. Programs without a
/// class have no load, so policies would not place these programs.
pub fn class_of(tool: &Path) -> String {
    let name = tool.file_name().unwrap_or_default().to_string_lossy();
    format!("{}=12", name.chars().take(NAME_MAX).collect::<String>())
}

/// Maximum length of `comm` in the kernel.
const NAME_MAX: usize = 15;

/// A background `evenkeel run` with its own directory.
pub struct EvenkeelRun {
    child: Child,
    dir: PathBuf,
}

impl EvenkeelRun {
    /// Starts a workload (TOML text) with a policy and without progress output.
    pub fn start(name: &str, workload: &str, policy: &str) -> anyhow::Result<Self> {
        let dir = dir_of_runs().join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let file = dir.join("workload.toml");
        fs::write(&file, workload).with_context(|| format!("cannot write {}", file.display()))?;
        let child = Command::new(path()?)
            .arg("run")
            .arg(&file)
            .args(["--quiet", "--policy", policy, "--out"])
            .arg(dir.join("out"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start evenkeel")?;
        Ok(EvenkeelRun { child, dir })
    }

    /// Returns the PID of evenkeel.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of a job's standard output.
    pub fn output(&self, job: &str) -> PathBuf {
        self.dir.join(format!("out/jobs/{job}.out"))
    }

    /// Returns the path of the report.
    pub fn report(&self) -> PathBuf {
        self.dir.join("out/report.json")
    }

    /// Waits for up to two minutes until evenkeel has at least `n` children.
    pub fn wait_for_children(&self, n: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while n_children(self.pid()) < n {
            if deadline < Instant::now() {
                bail!("evenkeel did not start {n} jobs in two minutes");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        // The signal is SIGTERM, because a background process of a script ignores SIGINT.
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for the end of the run and returns its report.
    pub fn finish(mut self) -> anyhow::Result<serde_json::Value> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("evenkeel ended with {status}");
        }
        let text = fs::read_to_string(self.report()).context("evenkeel wrote no report")?;
        Ok(serde_json::from_str(&text)?)
    }
}

fn dir_of_runs() -> PathBuf {
    std::env::temp_dir().join(format!("evenkeel-bench-{}", std::process::id()))
}

/// Removes the directories of all runs. Called only at the end, because file systems create new files slowly after the
/// removal of thousands of files, which would distort the next round.
pub fn remove_runs() -> anyhow::Result<()> {
    let dir = dir_of_runs();
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))
}

fn n_children(pid: u32) -> usize {
    linux::procfs::children("/".as_ref(), pid, pid).map_or(0, |children| children.len())
}

/// Reads the CPU time of all threads of a process in ns, from schedstat.
pub fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let dir = PathBuf::from(format!("/proc/{pid}/task"));
    let threads = fs::read_dir(&dir).with_context(|| format!("process {pid} has exited"))?;
    let mut total = 0;
    for thread in threads {
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        total += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(total)
}

/// CPU time of a process in a window.
pub struct CpuUse {
    pub ns: u64,
    /// CPU time divided by wall time.
    pub share: f64,
}

/// Reads a CPU time in ns before and after a window.
pub fn cpu_during(
    window: Duration,
    cpu_ns: impl Fn() -> anyhow::Result<u64>,
) -> anyhow::Result<CpuUse> {
    let (begin, before) = (Instant::now(), cpu_ns()?);
    std::thread::sleep(window);
    let ns = cpu_ns()?.saturating_sub(before);
    Ok(CpuUse { ns, share: ns as f64 / begin.elapsed().as_nanos() as f64 })
}

/// Reads the CPU time of a thread of this process in ns, from schedstat.
pub fn thread_cpu_ns(tid: i32) -> anyhow::Result<u64> {
    let path = format!("/proc/self/task/{tid}/schedstat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.with_context(|| format!("{path} has no run time"))
}

/// Reads the peak resident memory of a process in KiB.
pub fn peak_resident_kib(pid: u32) -> anyhow::Result<u64> {
    status_kib(pid, "VmHWM:")
}

/// Reads the resident memory of a process in KiB.
pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    status_kib(pid, "VmRSS:")
}

fn status_kib(pid: u32, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text =
        fs::read_to_string(Path::new(&path)).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.with_context(|| format!("{path} has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_option_uses_the_truncated_name_of_the_executable() {
        assert_eq!(class_of(Path::new("/a/evenkeel")), "evenkeel=12");
        assert_eq!(class_of(Path::new("/a/evenkeel-old-version")), "evenkeel-old-ve=12");
    }
}
