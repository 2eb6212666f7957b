//! Runs this program in a guest with several NUMA nodes, and counts system calls in the guest.
//!
//! The guest has access to the files of the host, so this executable runs in the guest with the option `--inside`. A
//! benchmark needs one boot.
//!
//! An emulated guest with one host thread per CPU sometimes crashes in self-modified kernel code. Each result is
//! therefore written to a directory of the host ([`stored`]), and the next guest continues after the last result.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Number of guests in succession that end without a further result.
const TRIES: u32 = 3;
/// Environment variable with the directory of results, in the guest. On the host it continues an interrupted benchmark
/// with the same arguments.
const RESULTS: &str = "EVENKEEL_BENCH_RESULTS";

pub struct NumaGuest {
    /// Number of nodes, each a socket.
    pub n_nodes: u32,
    /// Total number of CPUs.
    pub n_cpus: u32,
    /// SMT siblings per core.
    pub n_threads: u32,
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
    /// guest fails, the function boots another guest, which continues with the results of the previous guest.
    pub fn run(&self, evenkeel: &Path, shared: Option<&Path>) -> anyhow::Result<()> {
        // Later options override earlier options (args_override_self).
        let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
        args.extend(["--inside".into(), "--tool".into(), evenkeel.into()]);
        args.extend(shared.into_iter().flat_map(|dir| ["--keep".into(), dir.into()]));
        let results = ResultDir::new()?;
        let (mut n_results, mut n_left) = (results.len(), TRIES);
        loop {
            let code = self.run_once(&args, shared, &results.path)?.code();
            if results.len() == n_results {
                n_left -= 1;
            } else {
                (n_results, n_left) = (results.len(), TRIES);
            }
            let kept = results.path.display();
            match code {
                Some(0) => return results.remove(),
                Some(125) if 0 < n_left => {
                    println!("the guest failed; continuing with {n_results} results in {kept}");
                }
                Some(124) => bail!(
                    "the guest did not finish within {} s; {RESULTS}={kept} continues with {n_results} results",
                    self.limit.as_secs()
                ),
                Some(125) => bail!(
                    "{TRIES} guests failed without a result; {RESULTS}={kept} continues with {n_results} results"
                ),
                code => bail!("the benchmark in the guest exited with {code:?}"),
            }
        }
    }

    fn run_once(
        &self,
        args: &[OsString],
        shared: Option<&Path>,
        results: &Path,
    ) -> anyhow::Result<ExitStatus> {
        let executable = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(crate::root().join("scripts/numa-vm"));
        for dir in shared.into_iter().chain([results]) {
            command.arg("--share").arg(dir);
        }
        if !self.kernel.is_empty() {
            command.args(["--append", self.kernel]);
        }
        command
            .args(["--nodes", &self.n_nodes.to_string(), "--cpus", &self.n_cpus.to_string()])
            .args(["--threads", &self.n_threads.to_string()])
            .args(["--mem", self.memory, "--timeout", &self.limit.as_secs().to_string(), "--"])
            .args(["env", &format!("{RESULTS}={}", results.display())])
            .arg(executable)
            .args(args)
            .status()
            .context("cannot run scripts/numa-vm")
    }
}

/// Directory of the results of a benchmark.
struct ResultDir {
    path: PathBuf,
    /// Whether the user named the directory.
    is_named: bool,
}

impl ResultDir {
    fn new() -> anyhow::Result<Self> {
        let named = std::env::var_os(RESULTS).map(PathBuf::from);
        let is_named = named.is_some();
        let temporary = format!("evenkeel-bench-results-{}", std::process::id());
        let path = named.unwrap_or_else(|| std::env::temp_dir().join(temporary));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(ResultDir { path: fs::canonicalize(path)?, is_named })
    }

    fn len(&self) -> usize {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|it| it == "json")).count()
    }

    fn remove(&self) -> anyhow::Result<()> {
        match self.is_named {
            true => Ok(()),
            false => Ok(fs::remove_dir_all(&self.path)?),
        }
    }
}

/// Returns the result of a measurement that an earlier guest has stored, or measures and stores it.
pub fn stored<T: Serialize + DeserializeOwned>(
    name: &str,
    measure: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match std::env::var_os(RESULTS) {
        Some(dir) => stored_in(Path::new(&dir), name, measure),
        None => measure(),
    }
}

fn stored_in<T: Serialize + DeserializeOwned>(
    dir: &Path,
    name: &str,
    measure: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let path = dir.join(name.replace([' ', '/'], "-")).with_extension("json");
    // A damaged file is a guest that died during the write.
    if let Some(result) = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
        return Ok(result);
    }
    let result = measure()?;
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(&result)?)
        .and_then(|()| fs::File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(result)
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
    fn a_measurement_that_an_earlier_guest_stored_is_not_repeated() {
        let dir = tempfile::tempdir().expect("a directory");
        let measure = |name: &str, value: f64| stored_in(dir.path(), name, || Ok(Some(value)));
        assert_eq!(measure("watch --act", 0.1).expect("measured"), Some(0.1));
        assert_eq!(measure("watch --act", 0.2).expect("stored"), Some(0.1));
        assert_eq!(measure("numad", 0.3).expect("measured"), Some(0.3));
        fs::write(dir.path().join("numad.json"), "[").expect("own directory");
        assert_eq!(measure("numad", 0.4).expect("measured again"), Some(0.4));
        let failed = stored_in::<f64>(dir.path(), "failed", || bail!("the guest failed"));
        assert!(failed.is_err() && !dir.path().join("failed.json").exists());
    }

    #[test]
    fn counts_are_read_from_the_kernels_histogram() {
        let text = "# event histogram\n#\n\n{ common_pid:       4711 } hitcount:         12\n\
                    { common_pid:          1 } hitcount:          3\n\nTotals:\n    Hits: 15\n";
        assert_eq!(counts(text).collect::<Vec<_>>(), [(4711, 12), (1, 3)]);
    }
}
