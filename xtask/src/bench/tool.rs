//! The program under measurement: built for release, started as a user would, watched from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Builds `evenkeel` for release.
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

/// Where the built program lies, next to wherever this one was built.
pub fn path() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("cannot tell where this program lies")?;
    let target = here.ancestors().nth(2).context("this program lies outside a target folder")?;
    let tool = target.join("release/evenkeel");
    if !tool.is_file() {
        bail!("{} is not there: run cargo build --release", tool.display());
    }
    Ok(tool)
}

/// The program that was named, or else the one built now. Named is what was built elsewhere.
pub fn given_or_built(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        // A guest and a link are told the whole path.
        return fs::canonicalize(given).with_context(|| format!("cannot find {}", given.display()));
    }
    build()?;
    path()
}

/// The class that watch is told of programs which are this one, whatever it is called: with a class they
/// weigh something, and a policy has something to decide.
pub fn class_of(tool: &Path) -> String {
    let name = tool.file_name().unwrap_or_default().to_string_lossy();
    format!("{}=12", name.chars().take(NAME_MAX).collect::<String>())
}

/// The kernel keeps so much of a program's name.
const NAME_MAX: usize = 15;

/// A run of evenkeel in the background, in a folder that goes with it.
pub struct Run {
    child: Child,
    folder: PathBuf,
}

impl Run {
    /// Starts a workload of this text under this policy, without a progress view.
    pub fn start(name: &str, workload: &str, policy: &str) -> anyhow::Result<Self> {
        let folder = place().join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join("workload.toml");
        fs::write(&file, workload).with_context(|| format!("cannot write {}", file.display()))?;
        let child = Command::new(path()?)
            .arg("run")
            .arg(&file)
            .args(["--quiet", "--policy", policy, "--out"])
            .arg(folder.join("out"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start evenkeel")?;
        Ok(Run { child, folder })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where a job's output comes to lie.
    pub fn output(&self, job: &str) -> PathBuf {
        self.folder.join(format!("out/jobs/{job}.out"))
    }

    /// Where its report comes to lie.
    pub fn report(&self) -> PathBuf {
        self.folder.join("out/report.json")
    }

    /// Waits until it has at least so many children, or gives up after a generous time.
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

    /// Tells it to stop, and waits until it has.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        // Not INT: who was started in the background of a script ignores that.
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it is done by itself, and gives back its report.
    pub fn finish(mut self) -> anyhow::Result<serde_json::Value> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("evenkeel ended with {status}");
        }
        let text = fs::read_to_string(self.report()).context("evenkeel left no report")?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Where runs leave their folders.
fn place() -> PathBuf {
    std::env::temp_dir().join(format!("evenkeel-bench-{}", std::process::id()))
}

/// Removes what the runs left. Only at the end: a file system that has just lost thousands of files
/// is slow to make new ones, and the next round would pay for it.
pub fn sweep() -> anyhow::Result<()> {
    let place = place();
    fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))
}

fn n_children(pid: u32) -> usize {
    linux::procfs::children("/".as_ref(), pid, pid).map_or(0, |children| children.len())
}

/// CPU nanoseconds that all threads of a process have used, by the scheduler's own account.
pub fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let threads = fs::read_dir(&folder).with_context(|| format!("process {pid} is gone"))?;
    let mut total = 0;
    for thread in threads {
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        total += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(total)
}

/// CPU nanoseconds that a thread of this process has used.
pub fn thread_cpu_ns(tid: i32) -> anyhow::Result<u64> {
    let path = format!("/proc/self/task/{tid}/schedstat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.with_context(|| format!("{path} has no run time"))
}

/// The largest resident memory that a process has had so far, in kibibytes.
pub fn peak_resident_kib(pid: u32) -> anyhow::Result<u64> {
    of_status(pid, "VmHWM:")
}

/// The resident memory of a process now, in kibibytes.
pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    of_status(pid, "VmRSS:")
}

fn of_status(pid: u32, name: &str) -> anyhow::Result<u64> {
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
    fn a_program_of_another_name_has_its_class_too() {
        assert_eq!(class_of(Path::new("/a/evenkeel")), "evenkeel=12");
        assert_eq!(class_of(Path::new("/a/evenkeel-of-yesterday")), "evenkeel-of-yes=12");
    }
}
