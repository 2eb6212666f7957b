//! Output files, and the output directory of a run: journal, reports and job output.
//!
//! Two runs that start at the same time must not share a directory. The directory, or the journal in an existing
//! directory, is therefore created in one step that fails if the file or directory exists.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use files::{ForeignDir, NewFile, OutputDir};

use crate::command_result::{CommandError, OrUsageError};

/// Name of the journal in the directory of a run.
pub const JOURNAL: &str = "journal.jsonl";
/// Names of the reports in the directory of a run.
const REPORTS: [&str; 2] = ["report.json", "report.html"];

/// Option of commands that write a directory.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ForeignArg {
    /// Accept an output directory of another user. Its owner can read, remove and replace the files
    #[arg(long)]
    force_foreign_output: bool,
}

impl From<ForeignArg> for ForeignDir {
    fn from(arg: ForeignArg) -> Self {
        if arg.force_foreign_output { ForeignDir::Accept } else { ForeignDir::Reject }
    }
}

/// A writable directory without an earlier run.
#[derive(Debug)]
pub struct RunDir {
    pub dir: OutputDir,
    /// Directory for the output of jobs.
    pub jobs: OutputDir,
    /// The new, empty journal.
    journal: File,
}

impl RunDir {
    /// Creates the requested directory, or a directory named after the workload with the next free number. Never
    /// overwrites an earlier run.
    pub fn make(
        requested: Option<&Path>,
        workload: &str,
        foreign: impl Into<ForeignDir>,
    ) -> anyhow::Result<Self> {
        RunDir::within(match requested {
            Some(path) if path.exists() && !path.is_dir() => {
                bail!("{} is a file; set an output directory with --out", path.display())
            }
            Some(path) => create_dir(path, foreign)?,
            None => create_numbered(Path::new("evenkeel-runs"), workload)?,
        })
    }

    /// Creates the journal and the directory for job output in a directory.
    pub fn within(dir: OutputDir) -> anyhow::Result<Self> {
        let path = dir.path();
        if dir.contains(lab::compare::RUNS_FILE) {
            bail!("{} contains a comparison; choose another directory with --out", path.display());
        }
        let is_used = || {
            let path = path.display();
            anyhow!("{path} already contains a run; choose another directory with --out")
        };
        if dir.contains(JOURNAL) || journal::existing_part(&dir, JOURNAL.as_ref()).is_some() {
            return Err(is_used());
        }
        REPORTS.iter().try_for_each(|name| check_regular(&dir, name))?;
        let jobs = subdir(&dir, "jobs")?;
        for name in
            jobs.names().with_context(|| format!("cannot read {}", jobs.path().display()))?
        {
            check_regular(&jobs, name)?;
        }
        // The test creates a file, because permission bits do not show a read-only file system.
        let journal = match dir.create_new(JOURNAL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(is_used()),
            created => created.with_context(|| cannot_write(path))?,
        };
        Ok(RunDir { dir, jobs, journal })
    }

    /// Returns the journal, to write to it.
    pub fn journal(&self) -> io::Result<NewFile> {
        let file = self.journal.try_clone()?;
        Ok(NewFile { dir: self.dir.clone(), name: JOURNAL.into(), file })
    }

    /// Removes the directory if it has no other files. Called if the run did not start.
    pub fn remove_unused(&self) {
        let _ = self.dir.remove(JOURNAL);
        let _ = self.dir.remove_subdir("jobs");
        let _ = fs::remove_dir(self.dir.path());
    }

    /// Returns the path of a file, for messages.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Returns the error of a file that cannot be written.
pub fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Returns whether the user names standard output in place of a file.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Rejects `-` for a file that cannot be standard output.
fn reject_stdout(path: &Path) -> anyhow::Result<()> {
    match is_stdout(path) {
        true => {
            bail!("this file cannot be standard output: write the name of a file in place of -")
        }
        false => Ok(()),
    }
}

/// Writes a text to standard output or to a file that the user names, or replaces the contents of the file.
pub fn write(path: &Path, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    if is_stdout(path) {
        return Ok(crate::print::stdout().write_all(text.as_ref())?);
    }
    files::write(path, text.as_ref()).with_context(|| cannot_write(path))
}

/// Opens an output directory. Creates the directory if it does not exist.
pub fn create_dir(path: &Path, foreign: impl Into<ForeignDir>) -> anyhow::Result<OutputDir> {
    OutputDir::create(path, foreign.into()).with_context(|| cannot_write(path))
}

/// Opens a directory in an output directory. Creates the directory if it does not exist.
pub fn subdir(dir: &OutputDir, name: &str) -> anyhow::Result<OutputDir> {
    dir.subdir(name).with_context(|| cannot_write(&dir.path().join(name)))
}

/// Checks before the runs that a file of an output directory is a regular file or does not exist.
pub fn check_regular(dir: &OutputDir, name: impl AsRef<std::ffi::OsStr>) -> anyhow::Result<()> {
    let name = name.as_ref();
    dir.check_regular(name).with_context(|| cannot_write(&dir.path().join(name)))
}

/// Writes a file in an output directory, or replaces the file.
pub fn write_report(dir: &OutputDir, name: &str, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    dir.replace(name, text.as_ref()).with_context(|| cannot_write(&dir.path().join(name)))
}

/// Creates a file that must not exist.
pub fn create_new(path: &Path) -> Result<NewFile, CommandError> {
    reject_stdout(path).or_usage_error()?;
    let created = match NewFile::create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(already_exists(path)),
        created => created.with_context(|| cannot_write(path)),
    };
    created.or_usage_error()
}

/// Creates the file of a journal. Neither the file nor a file with the name of a further part must exist.
pub fn create_journal_file(path: &Path) -> Result<NewFile, CommandError> {
    let file = create_new(path)?;
    match journal::existing_part(&file.dir, &file.name) {
        Some(part) => {
            let _ = file.dir.remove(&file.name);
            Err(already_exists(&part)).or_usage_error()
        }
        None => Ok(file),
    }
}

/// Checks that a file does not exist. A dangling link exists.
pub fn check_absent(path: &Path) -> anyhow::Result<()> {
    reject_stdout(path)?;
    path.symlink_metadata().map_or(Ok(()), |_| Err(already_exists(path)))
}

fn already_exists(path: &Path) -> anyhow::Error {
    anyhow!("{} already exists; use a new file", path.display())
}

/// Checks that a file is writable. An existing file does not change.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    reject_stdout(path)?;
    files::check_writable(path).with_context(|| cannot_write(path))
}

/// Creates the directory `BELOW/NAME-N` with the first free number.
pub fn create_numbered(below: &Path, name: &str) -> anyhow::Result<OutputDir> {
    /// Limit of the search for a free number.
    const N_DIRS_MAX: u32 = 100_000;
    let failed = |path: &Path, error| {
        anyhow!("{}: {error}; set another directory with --out", cannot_write(path))
    };
    // The new directory belongs to this user, also below a directory of another user.
    let dir = OutputDir::create(below, ForeignDir::Accept).map_err(|error| failed(below, error))?;
    for n in 1..=N_DIRS_MAX {
        let name = format!("{name}-{n}");
        match dir.create_subdir(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map_err(|error| failed(&below.join(name), error)),
        }
    }
    let below = below.display();
    bail!(
        "{below} already contains {N_DIRS_MAX} directories {name}-N; set another directory with --out"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_run_is_never_overwritten() {
        let dir = std::env::temp_dir().join(format!("evenkeel-directory-{}", std::process::id()));
        let first = RunDir::make(Some(&dir), "w", ForeignDir::Reject);
        let second = RunDir::make(Some(&dir), "w", ForeignDir::Reject).map(|run| run.file(""));
        let _ = fs::remove_dir_all(&dir);
        assert!(first.is_ok());
        assert!(
            second.expect_err("the directory has a run").to_string().contains("choose another")
        );
    }

    #[test]
    fn links_in_an_output_directory_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "keep").expect("can be written");
        fs::create_dir(at("private")).expect("can be created");
        for (target, link) in [("victim", "report.html"), ("private", "jobs")] {
            std::os::unix::fs::symlink(at(target), at(link)).expect("a link");
        }
        let reject = |end: &str| {
            let made = RunDir::make(Some(dir.path()), "w", ForeignDir::Reject);
            let error = format!("{:#}", made.expect_err(end));
            assert!(error.ends_with(end), "{error}");
        };
        reject("report.html: this is not a regular file; remove it");
        fs::remove_file(at("report.html")).expect("permitted");
        reject("jobs: this is not a directory; remove it");
        fs::remove_file(at("jobs")).expect("permitted");
        fs::create_dir(at("jobs")).expect("can be created");
        std::os::unix::fs::symlink(at("victim"), at("jobs/a.out")).expect("a link");
        reject("jobs/a.out: this is not a regular file; remove it");
        assert!(!at(JOURNAL).exists());
    }

    #[test]
    fn concurrent_runs_get_different_directories() {
        let dir = std::env::temp_dir().join(format!("evenkeel-numbers-{}", std::process::id()));
        let find =
            || create_numbered(&dir, "w").expect("a number is free").path().display().to_string();
        let found: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(find)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        let different: std::collections::BTreeSet<&String> = found.iter().collect();
        let _ = fs::remove_dir_all(&dir);
        assert_eq!(different.len(), 8, "{found:?}");
    }
}
