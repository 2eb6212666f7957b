//! Output files, and the output directory of a run: journal, reports and job output.
//!
//! Two runs that start at the same time must not share a directory. The directory, or the journal in an existing
//! directory, is therefore created in one step that fails if the file or directory exists.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use rustix::fs::OFlags;

use crate::command_result::{CommandError, OrUsageError};

/// Name of the journal in the directory of a run.
pub const JOURNAL: &str = "journal.jsonl";

/// A writable directory without an earlier run.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The new, empty journal.
    pub journal: File,
}

impl RunDir {
    /// Creates the requested directory, or a directory named after the workload with the next free number. Never
    /// overwrites an earlier run.
    pub fn make(requested: Option<&Path>, workload: &str) -> anyhow::Result<Self> {
        let path = match requested {
            Some(path) if path.exists() && !path.is_dir() => {
                bail!("{} is a file; set an output directory with --out", path.display())
            }
            Some(path) => {
                fs::create_dir_all(path).with_context(|| cannot_write(path))?;
                path.to_owned()
            }
            None => create_numbered(Path::new("evenkeel-runs"), workload)?,
        };
        if path.join(lab::compare::RUNS_FILE).exists() {
            bail!("{} contains a comparison; choose another directory with --out", path.display());
        }
        let journal = path.join(JOURNAL);
        let is_used = || {
            let path = path.display();
            anyhow!("{path} already contains a run; choose another directory with --out")
        };
        if journal.symlink_metadata().is_ok() || journal::existing_part(&journal).is_some() {
            return Err(is_used());
        }
        check_entries(&path, &["report.json", "report.html"], &["jobs"])?;
        fs::create_dir_all(path.join("jobs")).with_context(|| cannot_write(&path))?;
        // The test creates a file, because permission bits do not show a read-only file system.
        let journal = match File::create_new(journal) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(is_used()),
            created => created.with_context(|| cannot_write(&path))?,
        };
        Ok(RunDir { path, journal })
    }

    /// Removes the directory if it has no other files. Called if the run did not start.
    pub fn remove_unused(&self) {
        let _ = fs::remove_file(self.file(JOURNAL));
        let _ = fs::remove_dir(self.file("jobs"));
        let _ = fs::remove_dir(&self.path);
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Returns the error of a file that cannot be written.
pub fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Writes a file, or replaces its contents.
pub fn write(path: &Path, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| cannot_write(path))
}

/// Checks the files and directories that a command will write in an output directory. The directory may belong to
/// another user: a link could name a file of this user, and opening a FIFO could block.
pub fn check_entries(dir: &Path, files: &[&str], dirs: &[&str]) -> anyhow::Result<()> {
    files.iter().try_for_each(|name| check_regular(&dir.join(name)))?;
    for below in dirs.iter().map(|name| dir.join(name)) {
        let Ok(found) = below.symlink_metadata() else { continue };
        if !found.is_dir() {
            bail!("{} is not a directory; remove it", below.display());
        }
        let entries =
            fs::read_dir(&below).with_context(|| format!("cannot read {}", below.display()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|path| path.is_symlink() || !path.is_dir())
            .try_for_each(|path| check_regular(&path))?;
    }
    Ok(())
}

fn check_regular(path: &Path) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        bail!("{} is not a regular file; remove it", path.display());
    }
    Ok(())
}

/// Writes a file in an output directory, or replaces its contents. The file must be a regular file
/// ([`check_entries`]).
pub fn write_report(path: &Path, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("the flags are small");
    let mut options = File::options();
    options.write(true).create(true).custom_flags(flags);
    check_regular(path)?;
    let write = || {
        let mut file = options.open(path)?;
        file.set_len(0)?;
        file.write_all(text.as_ref())
    };
    write().with_context(|| cannot_write(path))
}

/// Creates a file that must not exist.
pub fn create_new(path: &Path) -> Result<File, CommandError> {
    let created = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(already_exists(path)),
        created => created.with_context(|| cannot_write(path)),
    };
    created.or_usage_error()
}

/// Creates the file of a journal. Neither the file nor a file with the name of a further part must exist.
pub fn create_journal_file(path: &Path) -> Result<File, CommandError> {
    let part = journal::existing_part(path);
    part.map_or(Ok(()), |part| Err(already_exists(&part))).or_usage_error()?;
    create_new(path)
}

/// Checks that a file does not exist. A dangling link exists.
pub fn check_absent(path: &Path) -> anyhow::Result<()> {
    path.symlink_metadata().map_or(Ok(()), |_| Err(already_exists(path)))
}

fn already_exists(path: &Path) -> anyhow::Error {
    anyhow!("{} already exists; use a new file", path.display())
}

/// Checks that a file is writable, without truncating an existing file.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    // A dangling link exists. The check must neither create its target nor remove the link.
    let is_new = path.symlink_metadata().is_err();
    File::options().create(is_new).append(true).open(path).with_context(|| cannot_write(path))?;
    if is_new {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Creates the directory `BELOW/NAME-N` with the first free number.
pub fn create_numbered(below: &Path, name: &str) -> anyhow::Result<PathBuf> {
    /// Limit of the search for a free number.
    const N_DIRS_MAX: u32 = 100_000;
    fs::create_dir_all(below).with_context(|| cannot_write(below))?;
    for n in 1..=N_DIRS_MAX {
        let path = below.join(format!("{name}-{n}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.with_context(|| cannot_write(&path)).map(|()| path),
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
        let first = RunDir::make(Some(&dir), "w");
        let second = RunDir::make(Some(&dir), "w").map(|run| run.file(""));
        let _ = fs::remove_dir_all(&dir);
        assert!(first.is_ok());
        assert!(
            second.expect_err("the directory has a run").to_string().contains("choose another")
        );
    }

    #[test]
    fn links_and_fifos_in_an_output_directory_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "keep").expect("can be written");
        fs::create_dir(at("private")).expect("can be created");
        std::os::unix::fs::symlink(at("victim"), at("report.html")).expect("a link");
        std::os::unix::fs::symlink(at("private"), at("jobs")).expect("a link");
        std::os::unix::fs::symlink(at("absent"), at("dangling")).expect("a link");
        let fifo = at("report.json");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a FIFO");
        for name in ["report.html", "report.json"] {
            let error = write_report(&at(name), "text").expect_err(name).to_string();
            assert!(error.ends_with("is not a regular file; remove it"), "{error}");
        }
        let reject = |end: &str| {
            let error = RunDir::make(Some(dir.path()), "w").expect_err(end).to_string();
            assert!(error.ends_with(end), "{error}");
        };
        for name in ["report.json", "report.html"] {
            reject(&format!("{name} is not a regular file; remove it"));
            fs::remove_file(at(name)).expect("permitted");
        }
        reject("jobs is not a directory; remove it");
        fs::remove_file(at("jobs")).expect("permitted");
        fs::create_dir(at("jobs")).expect("can be created");
        std::os::unix::fs::symlink(at("victim"), at("jobs/a.out")).expect("a link");
        reject("jobs/a.out is not a regular file; remove it");
        check_writable(&at("dangling")).expect_err("the target does not exist");
        assert!(!at("absent").exists() && at("dangling").is_symlink() && !at(JOURNAL).exists());
        write_report(&at("victim"), "new").expect("a regular file is replaced");
        assert_eq!(fs::read_to_string(at("victim")).expect("text"), "new");
    }

    #[test]
    fn concurrent_runs_get_different_directories() {
        let dir = std::env::temp_dir().join(format!("evenkeel-numbers-{}", std::process::id()));
        let find = || create_numbered(&dir, "w").expect("a number is free").display().to_string();
        let found: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(find)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        let different: std::collections::BTreeSet<&String> = found.iter().collect();
        let _ = fs::remove_dir_all(&dir);
        assert_eq!(different.len(), 8, "{found:?}");
    }
}
