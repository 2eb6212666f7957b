//! The folder of a run: journal, reports, and the jobs' output.
//!
//! Two runs that begin at the same instant must not end up in one folder. So nothing is looked for
//! and then made: a folder, or the journal in it, is made in one step that fails if it is there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A folder that is there, can be written, and holds no earlier run.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder that was asked for, or one named after the workload with the next free number.
    ///
    /// An earlier run in it is never overwritten.
    pub fn make(asked: Option<&Path>, workload: &str) -> anyhow::Result<Self> {
        let path = match asked {
            Some(path) => {
                fs::create_dir_all(path).with_context(|| refused(path))?;
                path.to_owned()
            }
            None => numbered(Path::new("evenkeel-runs"), workload)?,
        };
        // Being root does not help on a read-only file system: try.
        match File::create_new(path.join("journal.jsonl")) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} holds a run already: choose another folder with --out", path.display())
            }
            made => made.with_context(|| refused(&path))?,
        };
        fs::create_dir_all(path.join("jobs")).with_context(|| refused(&path))?;
        Ok(Folder(path))
    }

    /// Takes it away again, as far as nothing else is in it: the run did not begin.
    pub fn forget(&self) {
        let _ = fs::remove_file(self.file("journal.jsonl"));
        let _ = fs::remove_dir(self.file("jobs"));
        let _ = fs::remove_dir(&self.0);
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn refused(path: &Path) -> String {
    format!("cannot write the output folder {}", path.display())
}

/// Makes `evenkeel-runs/NAME-1`, or the one with the first number that nobody has.
fn numbered(below: &Path, workload: &str) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(below).with_context(|| refused(below))?;
    for n in 1..N_RUNS_MAX {
        let path = below.join(format!("{workload}-{n}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.with_context(|| refused(&path)).map(|()| path),
        }
    }
    let below = below.display();
    bail!("{below} holds {N_RUNS_MAX} runs of {workload}: choose a folder with --out")
}

/// Looking for a free number must end.
const N_RUNS_MAX: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_run_is_never_overwritten() {
        let place = std::env::temp_dir().join(format!("evenkeel-folder-{}", std::process::id()));
        let first = Folder::make(Some(&place), "w");
        let second = Folder::make(Some(&place), "w").map(|folder| folder.file(""));
        let _ = fs::remove_dir_all(&place);
        assert!(first.is_ok());
        assert!(second.expect_err("it is taken").to_string().contains("choose another"));
    }

    #[test]
    fn runs_that_look_for_a_number_at_once_find_different_ones() {
        let place = std::env::temp_dir().join(format!("evenkeel-numbers-{}", std::process::id()));
        let find = || numbered(&place, "w").expect("there are enough").display().to_string();
        let found: Vec<String> = std::thread::scope(|scope| {
            let seekers: Vec<_> = (0..8).map(|_| scope.spawn(find)).collect();
            seekers.into_iter().map(|seeker| seeker.join().expect("it ends")).collect()
        });
        let different: std::collections::BTreeSet<&String> = found.iter().collect();
        let _ = fs::remove_dir_all(&place);
        assert_eq!(different.len(), 8, "{found:?}");
    }
}
