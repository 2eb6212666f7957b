//! The directory of a comparison and its files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lab::compare::{ComparePlan, RUNS_FILE, RunKey};
use report::comparison::Comparison;

use crate::output::{self, cannot_write, create_numbered};

/// Files of the report in the directory.
const FILES: [&str; 4] = ["compare.json", "compare.html", "summary.csv", "runs.csv"];
/// Directories in the directory: reports of simulated runs, live runs and live runs of single jobs.
const DIRS: [&str; 3] = ["timelines", "runs", "alone"];

/// Creates the directory of `--out`, or a directory named after the workloads with the next free number.
pub(super) fn dir(out: Option<&Path>, workloads: &[String]) -> anyhow::Result<PathBuf> {
    if let Some(path) = out {
        if path.join(output::JOURNAL).exists() {
            bail!("{} contains a run; choose another directory with --out", path.display());
        }
        fs::create_dir_all(path).with_context(|| cannot_write(path))?;
        output::check_entries(path, &[&[RUNS_FILE], &FILES[..]].concat(), &DIRS)?;
        return Ok(path.to_owned());
    }
    let name = match workloads {
        [first] => first.clone(),
        [first, ..] => format!("{first}-and-{}", workloads.len() - 1),
        [] => "none".to_owned(),
    };
    create_numbered(Path::new("evenkeel-comparisons"), &name)
}

/// Checks before the runs that a file can be written, as far as possible without writing the file.
pub(super) fn check_place(file: &Path) -> anyhow::Result<()> {
    let name = file.display();
    if file.is_dir() {
        bail!("cannot write {name}: it is a directory");
    }
    match file.parent().filter(|dir| *dir != Path::new("")) {
        Some(dir) if !dir.is_dir() => {
            bail!("cannot write {name}: there is no directory {}", dir.display())
        }
        _ => Ok(()),
    }
}

/// Writes the comparison into its directory, and the table to the files of `--csv` and `--parquet`.
pub(super) fn write(
    comparison: &Comparison,
    dir: &Path,
    (csv, parquet): (Option<&Path>, Option<&Path>),
) -> anyhow::Result<()> {
    let jobs = comparison.job_table();
    let table = jobs.to_csv();
    let texts = [
        comparison.to_json()? + "\n",
        comparison.to_html(),
        comparison.summary_table().to_csv(),
        table.clone(),
    ];
    for (name, text) in FILES.iter().zip(texts) {
        output::write_report(&dir.join(name), text)?;
    }
    if let Some(path) = csv {
        output::write(path, table)?;
    }
    match parquet {
        Some(path) => super::parquet::write(&jobs, path).with_context(|| cannot_write(path)),
        None => Ok(()),
    }
}

/// Returns the path of the report of a simulated run, relative to the directory of the comparison.
pub(super) fn timeline(plan: &ComparePlan, key: &RunKey) -> String {
    format!("timelines/{}.html", name(plan, key))
}

/// Returns the path of a live run, relative to the directory of the comparison.
pub(super) fn live_run(plan: &ComparePlan, key: &RunKey) -> String {
    format!("runs/{}", name(plan, key))
}

/// Returns the path of the run of a job alone, relative to the directory of the comparison.
pub(super) fn live_alone(workload: &str, job: &str) -> String {
    format!("alone/{}", plain(&format!("{workload}-{job}")))
}

/// Returns the name of the files of a run. The number makes the name unique.
fn name(plan: &ComparePlan, key: &RunKey) -> String {
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
