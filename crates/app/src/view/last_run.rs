//! Wall times of the jobs in the last run of the same workload on the same host, from its `report.json`.
//!
//! A run without `--out` writes to `evenkeel-runs/NAME-N`. Of the ten directories with the numbers below this N, the last
//! run is the one with the largest number that contains a report of a run on the same host (live or simulated). A job
//! matches if its name and its command are equal and if it ended with status 0 after one start.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base::Nanos;
use journal::Header;
use report::phrases::command_line;
use rustix::fs::OFlags;
use serde::Deserialize;

/// Limit of the size of a report: about 30,000 jobs.
const BYTES_MAX: u64 = 64 << 20;
/// Number of directories that are searched.
const N_DIRS: u32 = 10;

/// The part of a report that is read.
#[derive(Debug, Deserialize)]
struct LastReport {
    run: LastRun,
    jobs: Vec<LastJob>,
}

#[derive(Debug, Deserialize)]
struct LastRun {
    host: String,
}

#[derive(Debug, Deserialize)]
struct LastJob {
    name: String,
    command: String,
    state: String,
    n_starts: u64,
    #[serde(default)]
    wall_ns: Option<u64>,
}

/// Returns the wall times by job name. Without an earlier run the map is empty.
pub fn last_wall_times(dir: &Path, header: &Header) -> BTreeMap<String, Nanos> {
    let Some((below, number)) = numbered(dir, &header.workload) else { return BTreeMap::new() };
    let earlier = (number.saturating_sub(N_DIRS)..number).rev();
    let paths = earlier.map(|n| below.join(format!("{}-{n}/report.json", header.workload)));
    let last = paths.filter_map(|path| read(&path)).find(|report| report.run.host == header.host);
    let Some(last) = last else { return BTreeMap::new() };
    let commands: BTreeMap<&str, String> =
        header.jobs.iter().map(|job| (job.name.as_str(), command_line(&job.command))).collect();
    let is_same = |job: &LastJob| {
        let is_done = job.state == "done" && job.n_starts == 1;
        is_done && commands.get(job.name.as_str()) == Some(&job.command)
    };
    let wall = |job: LastJob| Some((job.name, Nanos(job.wall_ns.filter(|wall| *wall != 0)?)));
    last.jobs.into_iter().filter(is_same).filter_map(wall).collect()
}

/// Splits `BELOW/NAME-N` into directory and number.
fn numbered<'a>(dir: &'a Path, name: &str) -> Option<(&'a Path, u32)> {
    let last = dir.file_name()?.to_str()?;
    let number = last.strip_prefix(name)?.strip_prefix('-')?.parse().ok()?;
    Some((dir.parent()?, number))
}

/// Reads a report. A file that is missing, too large or not a report is skipped.
fn read(path: &Path) -> Option<LastReport> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).ok()?;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().is_ok_and(|found| found.is_file() && found.len() <= BYTES_MAX) {
        return None;
    }
    let mut text = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
