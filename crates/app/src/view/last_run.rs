//! Wall times of the jobs in the last run of the same workload on the same host, from its `report.json`.
//!
//! A run without `--out` writes to `evenkeel-runs/NAME-N`. Of the ten directories with the numbers below this N, the last
//! run is the one with the largest number that contains a report of a run on the same host (live or simulated). A job
//! matches if its name and its command are equal and if it ended with status 0 after one start.

use std::collections::BTreeMap;
use std::path::Path;

use base::Nanos;
use journal::Header;
use report::phrases::command_line;

use crate::stored_report::{StoredJob, StoredReport};

/// Number of directories that are searched.
const N_DIRS: u32 = 10;

/// Returns the wall times by job name. Without an earlier run the map is empty.
pub fn last_wall_times(dir: &Path, header: &Header) -> BTreeMap<String, Nanos> {
    let Some((below, number)) = numbered(dir, &header.workload) else { return BTreeMap::new() };
    let earlier = (number.saturating_sub(N_DIRS)..number).rev();
    let dirs = earlier.map(|n| below.join(format!("{}-{n}", header.workload)));
    let mut reports = dirs.filter_map(|dir| StoredReport::read(&dir));
    let last = reports.find(|report| report.run.host == header.host.name());
    let Some(last) = last else { return BTreeMap::new() };
    let commands: BTreeMap<&str, String> =
        header.jobs.iter().map(|job| (job.name.as_str(), command_line(&job.command))).collect();
    let is_same = |job: &StoredJob| commands.get(job.name.as_str()) == Some(&job.command);
    let wall = |job: StoredJob| Some((job.name.clone(), Nanos(job.wall_ns()?)));
    last.jobs.into_iter().filter(is_same).filter_map(wall).collect()
}

/// Splits `BELOW/NAME-N` into directory and number.
fn numbered<'a>(dir: &'a Path, name: &str) -> Option<(&'a Path, u32)> {
    let last = dir.file_name()?.to_str()?;
    let number = last.strip_prefix(name)?.strip_prefix('-')?.parse().ok()?;
    Some((dir.parent()?, number))
}
