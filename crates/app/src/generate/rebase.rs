//! Relative paths of a program list in a workload that is written to another folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use program::{Command, ProgramList};

use super::{Form, is_file_name};

/// Makes relative paths of programs, inputs and working directories absolute if the workload is written to another
/// folder than the list's. Outputs stay relative to the workload.
pub(super) fn rebase(
    list: &mut ProgramList,
    path: &Path,
    out: Option<&Path>,
    form: Form,
) -> anyhow::Result<()> {
    let from = folder(path)?;
    if out.filter(|out| is_file_name(out)).is_some_and(|out| folder(out).is_ok_and(|to| to == from))
    {
        return Ok(());
    }
    for program in &mut list.programs {
        let job = &mut program.job;
        if let Command::Program { program, .. } = &mut job.command {
            // A name without a slash is searched in PATH.
            if program.components().count() != 1 || program.starts_with(".") {
                *program = from.join(&*program);
            }
        }
        job.input = job.input.take().map(|input| from.join(input));
        job.dir = match (job.dir.take(), &job.command) {
            (Some(dir), _) => Some(from.join(dir)),
            // Arguments may be relative paths, so the working directory is the list's folder. The classic format has no key for it.
            (None, Command::Program { .. } | Command::Shell(_)) if form == Form::Toml => {
                Some(from.clone())
            }
            (None, _) => None,
        };
    }
    Ok(())
}

/// Absolute path of a file's folder.
fn folder(file: &Path) -> anyhow::Result<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    folder.canonicalize().with_context(|| format!("cannot find the folder {}", folder.display()))
}
