//! The folder of a run: journal, reports, and the jobs' output.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A folder that is there, can be written, and holds no earlier run.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder that was asked for, or one named after the workload with the next free number.
    ///
    /// An earlier run in it is never overwritten.
    pub fn make(asked: Option<&Path>, workload: &str) -> anyhow::Result<Self> {
        let path = match asked {
            Some(path) => path.to_owned(),
            None => unused(workload)?,
        };
        fs::create_dir_all(path.join("jobs"))
            .with_context(|| format!("cannot write the output folder {}", path.display()))?;
        let journal = path.join("journal.jsonl");
        if journal.exists() {
            bail!("{} holds a run already: choose another folder with --out", path.display());
        }
        // Being root does not help on a read-only file system: try.
        fs::File::create(&journal)
            .with_context(|| format!("cannot write into the output folder {}", path.display()))?;
        Ok(Folder(path))
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// `evenkeel-runs/NAME-1`, or the first number that is free.
fn unused(workload: &str) -> anyhow::Result<PathBuf> {
    let below = Path::new("evenkeel-runs");
    let numbered = |n: u32| below.join(format!("{workload}-{n}"));
    let free = (1..N_RUNS_MAX).map(numbered).find(|path| !path.exists());
    free.with_context(|| {
        format!(
            "{} holds {N_RUNS_MAX} runs of {workload}: choose a folder with --out",
            below.display()
        )
    })
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
}
