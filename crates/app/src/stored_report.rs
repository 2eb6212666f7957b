//! The report of an earlier run, from its `report.json`, as far as other commands use it.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde::Deserialize;

/// Limit of the size of a report: about 30,000 jobs.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Deserialize)]
pub struct StoredReport {
    pub run: StoredRun,
    pub jobs: Vec<StoredJob>,
}

#[derive(Debug, Deserialize)]
pub struct StoredRun {
    pub host: String,
    #[serde(default)]
    pub policy_spec: String,
    #[serde(default)]
    pub started_unix_s: u64,
    #[serde(default)]
    pub result: String,
    #[serde(default)]
    pub command: Option<String>,
    #[serde(default)]
    pub makespan_ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct StoredJob {
    pub name: String,
    pub command: String,
    state: String,
    n_starts: u64,
    #[serde(default)]
    wall_ns: Option<u64>,
}

impl StoredReport {
    /// Reads `report.json` of a directory. A file that is missing, too large, of another user
    /// or not a report is skipped.
    pub fn read(dir: &Path) -> Option<Self> {
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).ok()?;
        let path = dir.join("report.json");
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        let user = rustix::process::geteuid().as_raw();
        let is_usable = |found: fs::Metadata| {
            found.is_file() && found.uid() == user && found.len() <= BYTES_MAX
        };
        if !file.metadata().is_ok_and(is_usable) {
            return None;
        }
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl StoredJob {
    /// Returns the wall time of a job that ended with status 0 after one start.
    pub fn wall_ns(&self) -> Option<u64> {
        let is_done = self.state == "done" && self.n_starts == 1;
        self.wall_ns.filter(|wall| is_done && *wall != 0)
    }
}
