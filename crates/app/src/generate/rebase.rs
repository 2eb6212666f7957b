//! The paths of a list in a workload that lies elsewhere.

use std::path::{Path, PathBuf};

use anyhow::Context;
use program::{Command, ProgramList};

use super::{Form, is_file_name};

/// Where the list lies elsewhere than the workload that is written, its relative paths are made to
/// mean the same: programs, inputs and working directories begin at the list's folder. Outputs belong
/// to the new workload.
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
            // A name without a slash is looked up in PATH.
            if program.components().count() != 1 || program.starts_with(".") {
                *program = from.join(&*program);
            }
        }
        job.input = job.input.take().map(|input| from.join(input));
        job.dir = match (job.dir.take(), &job.command) {
            (Some(dir), _) => Some(from.join(dir)),
            // What the arguments name is looked for there; the classic form cannot say so.
            (None, Command::Program { .. } | Command::Shell(_)) if form == Form::Toml => {
                Some(from.clone())
            }
            (None, _) => None,
        };
    }
    Ok(())
}

/// The folder that a file lies in, from the root.
fn folder(file: &Path) -> anyhow::Result<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    folder.canonicalize().with_context(|| format!("cannot find the folder {}", folder.display()))
}
