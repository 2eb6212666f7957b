//! The folder of a comparison and the files in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lab::compare::Plan;
use report::comparison::Comparison;

/// Looking for a free number must end.
const N_FOLDERS_MAX: u32 = 100_000;

/// The folder that was asked for, or one named after the workloads with the next free number.
pub(super) fn folder(asked: Option<&Path>, workloads: &[String]) -> anyhow::Result<PathBuf> {
    let refused = |path: &Path| format!("cannot write the output folder {}", path.display());
    if let Some(path) = asked {
        fs::create_dir_all(path).with_context(|| refused(path))?;
        return Ok(path.to_owned());
    }
    let below = Path::new("evenkeel-comparisons");
    fs::create_dir_all(below).with_context(|| refused(below))?;
    let name = match workloads {
        [first] => first.clone(),
        [first, ..] => format!("{first}-and-{}", workloads.len() - 1),
        [] => "none".to_owned(),
    };
    for n in 1..N_FOLDERS_MAX {
        let path = below.join(format!("{name}-{n}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.with_context(|| refused(&path)).map(|()| path),
        }
    }
    bail!("{} holds {N_FOLDERS_MAX} of {name}: choose a folder with --out", below.display())
}

/// Whether a file could be written there, as far as that can be told without writing it: hours of runs must
/// not end in a folder that is not there.
pub(super) fn check_place(file: &Path) -> anyhow::Result<()> {
    let name = file.display();
    if file.is_dir() {
        bail!("cannot write {name}: it is a folder");
    }
    match file.parent().filter(|folder| *folder != Path::new("")) {
        Some(folder) if !folder.is_dir() => {
            bail!("cannot write {name}: there is no folder {}", folder.display())
        }
        _ => Ok(()),
    }
}

/// Writes the comparison into its folder, and the table where it was asked for.
pub(super) fn write(
    told: &Comparison,
    folder: &Path,
    (csv, parquet): (Option<&Path>, Option<&Path>),
) -> anyhow::Result<()> {
    let jobs = told.job_table();
    let table = jobs.to_csv();
    let mut files = vec![
        (folder.join("compare.json"), told.to_json()? + "\n"),
        (folder.join("compare.html"), told.to_html()),
        (folder.join("summary.csv"), told.summary_table().to_csv()),
        (folder.join("runs.csv"), table.clone()),
    ];
    files.extend(csv.map(|path| (path.to_owned(), table)));
    for (path, text) in files {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match parquet {
        Some(path) => super::parquet::write(&jobs, path)
            .with_context(|| format!("cannot write {}", path.display())),
        None => Ok(()),
    }
}

/// The file of a single simulated run's report, below the folder.
pub(super) fn timeline(plan: &Plan, number: usize) -> String {
    format!("timelines/{}.html", name(plan, number))
}

/// The folder of a single live run, below the folder.
pub(super) fn live_run(plan: &Plan, number: usize) -> String {
    format!("runs/{}", name(plan, number))
}

/// The folder of a job that ran alone, below the folder.
pub(super) fn live_alone(workload: &str, job: &str) -> String {
    format!("alone/{}", plain(&format!("{workload}-{job}")))
}

/// A run's number makes its name unique, the rest is for people.
fn name(plan: &Plan, number: usize) -> String {
    let key = plan.key(number);
    let (column, seed) = (&plan.columns[key.column].text, plan.seeds[key.seed]);
    plain(&format!("{number:05}-{}-{column}-seed-{seed}", plan.workloads[key.workload]))
}

/// What every file system and every link takes.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    // A file name has at most 255 bytes.
    name.chars().map(plain).take(200).collect()
}
