//! The directory of a comparison and its files.

use std::path::Path;

use ::files::OutputDir;
use anyhow::{Context, bail};
use lab::compare::{ComparePlan, RUNS_FILE, RunKey};
use report::comparison::Comparison;

use super::Args;
use crate::output::{self, ForeignArg, cannot_write, create_numbered};

/// Files of the report in the directory.
const FILES: [&str; 4] = ["compare.json", "compare.html", "summary.csv", "runs.csv"];
/// Directories in the directory: reports of simulated runs, live runs and live runs of single jobs.
const DIRS: [&str; 3] = [TIMELINES, RUNS, ALONE];
/// Directory of the reports of simulated runs.
pub(super) const TIMELINES: &str = "timelines";
/// Directory of live runs.
pub(super) const RUNS: &str = "runs";
/// Directory of live runs of single jobs.
pub(super) const ALONE: &str = "alone";
/// Name of the directory of a run before the measured runs, below [`RUNS`]. Removed after the last of these runs.
pub(super) const WARM_UP: &str = "warmup";

/// Creates the directory of `--out`, or a directory named after the workloads with the next free number.
pub(super) fn dir(
    out: Option<&Path>,
    workloads: &[String],
    foreign: ForeignArg,
) -> anyhow::Result<OutputDir> {
    if let Some(path) = out {
        let dir = output::create_dir(path, foreign)?;
        if dir.contains(output::JOURNAL) {
            bail!("{} contains a run; choose another directory with --out", path.display());
        }
        check_entries(&dir)?;
        return Ok(dir);
    }
    let name = match workloads {
        [first] => first.clone(),
        [first, ..] => format!("{first}-and-{}", workloads.len() - 1),
        [] => "none".to_owned(),
    };
    create_numbered(Path::new("evenkeel-comparisons"), &name)
}

/// Checks before the runs that no existing entry prevents the files of the comparison.
fn check_entries(dir: &OutputDir) -> anyhow::Result<()> {
    let files = [RUNS_FILE].into_iter().chain(FILES);
    files.into_iter().try_for_each(|name| output::check_regular(dir, name))?;
    DIRS.iter()
        .filter(|name| dir.contains(name))
        .try_for_each(|name| output::subdir(dir, name).map(drop))
}

/// Checks before the runs that a file can be written. An existing file does not change.
pub(super) fn check_place(file: &Path) -> anyhow::Result<()> {
    let name = file.display();
    if file.is_dir() {
        bail!("cannot write {name}: it is a directory");
    }
    match file.parent().filter(|dir| *dir != Path::new("")) {
        Some(dir) if !dir.is_dir() => {
            bail!("cannot write {name}: there is no directory {}", dir.display())
        }
        _ => output::check_writable(file),
    }
}

/// Writes the comparison into its directory, and tables to the files of `--csv`, `--markdown` and `--parquet`.
pub(super) fn write(comparison: &Comparison, dir: &OutputDir, args: &Args) -> anyhow::Result<()> {
    let jobs = comparison.job_table();
    let table = jobs.to_csv();
    let texts = [
        comparison.to_json()? + "\n",
        comparison.to_html(),
        comparison.summary_table().to_csv(),
        table.clone(),
    ];
    for (name, text) in FILES.iter().zip(texts) {
        output::write_report(dir, name, text)?;
    }
    if let Some(path) = &args.csv {
        output::write(path, table)?;
    }
    if let Some(path) = &args.markdown {
        output::write(path, comparison.to_markdown())?;
    }
    match &args.parquet {
        Some(path) => {
            let bytes = super::parquet::bytes(&jobs).with_context(|| cannot_write(path))?;
            output::write(path, bytes)
        }
        None => Ok(()),
    }
}

/// Returns the name of the directory of a job that runs alone.
pub(super) fn solo_name(workload: &str, job: &str) -> String {
    plain(&format!("{workload}-{job}"))
}

/// Returns the name of the files or the directory of a run. The number makes the name unique.
pub(super) fn run_name(plan: &ComparePlan, key: &RunKey) -> String {
    let RunKey { policy, workload, seed } = key;
    let number = plan.number(key).expect("a run of this plan");
    plain(&format!("{number:05}-{workload}-{policy}-seed-{seed}"))
}

/// Replaces the characters that are not valid in every file system and URL.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    // A file name has at most 255 bytes.
    name.chars().map(plain).take(200).collect()
}
