//! The program that is to be measured: found, and known to run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// As the user called it.
    pub called: OsString,
    /// The file.
    pub path: PathBuf,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    /// What it reads; absent: nothing.
    pub input: Option<PathBuf>,
    /// What its profile is called.
    pub name: String,
    /// Its build id; absent for scripts and files without one.
    pub build_id: Option<String>,
}

impl Target {
    /// Finds the program as a shell would and looks whether it can be run.
    pub(super) fn find(
        command: &[OsString],
        input: Option<&Path>,
        name: Option<&str>,
    ) -> anyhow::Result<Self> {
        let Some((called, args)) = command.split_first().filter(|(called, _)| !called.is_empty())
        else {
            bail!("there is no program to profile: evenkeel profile -- PROGRAM ARGUMENT…")
        };
        let folder = std::env::current_dir()?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let path =
            host_live::find_program(called.as_ref(), &folder, &search).map_err(|e| anyhow!(e))?;
        host_live::check_runnable(&path).map_err(|error| anyhow!(error))?;
        if let Some(input) = input {
            std::fs::File::open(input)
                .map_err(|error| anyhow!("cannot read the input {}: {error}", input.display()))?;
        }
        let is_load = is_own(&path) && args.first().is_some_and(|word| word == "load");
        let own_name = match args.get(1).filter(|_| is_load) {
            Some(kind) => program::profile::load_name(&kind.to_string_lossy()),
            None => file_name(called),
        };
        let build_id = if is_load { None } else { crate::profiles::build_id(&path) };
        Ok(Target {
            called: called.clone(),
            path,
            args: args.to_vec(),
            input: input.map(Path::to_owned),
            name: name.map_or(own_name, str::to_owned),
            build_id,
        })
    }

    /// The command as the user wrote it.
    pub(super) fn command(&self) -> Vec<String> {
        let words = std::iter::once(&self.called).chain(&self.args);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

fn file_name(called: &OsString) -> String {
    let name = Path::new(called).file_name().unwrap_or(called);
    name.to_string_lossy().into_owned()
}

fn is_own(path: &Path) -> bool {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    own.is_some() && own == std::fs::canonicalize(path).ok()
}
