//! Resolves the command line of `evenkeel profile` to an executable.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use profiler::measure::MeasuredProgram;
use profiler::measure::valgrind::Valgrind;

/// Finds the program as a shell does. Checks that the program is executable and that its input is readable.
pub(super) fn program(
    command: &[OsString],
    input: Option<&Path>,
    name: Option<&str>,
) -> anyhow::Result<MeasuredProgram> {
    let Some((argv0, args)) = command.split_first().filter(|(argv0, _)| !argv0.is_empty()) else {
        bail!("no program given; write evenkeel profile -- PROGRAM ARGUMENT…")
    };
    let path = host_live::find_runnable(argv0.as_ref(), &std::env::current_dir()?, &search_path())?;
    if let Some(input) = input {
        std::fs::File::open(input)
            .map_err(|error| anyhow!("cannot read the input {}: {error}", input.display()))?;
    }
    let is_load = is_own(&path) && args.first().is_some_and(|word| word == "load");
    let default_name = match args.get(1).filter(|_| is_load) {
        Some(kind) => program::profile::load_name(&kind.to_string_lossy()),
        None => Path::new(argv0).file_name().unwrap_or(argv0).to_string_lossy().into_owned(),
    };
    let build_id = if is_load { None } else { crate::profiles::build_id(&path) };
    Ok(MeasuredProgram {
        argv0: argv0.clone(),
        path,
        args: args.to_vec(),
        input: input.map(Path::to_owned),
        name: name.map_or(default_name, str::to_owned),
        build_id,
    })
}

pub(super) fn valgrind() -> anyhow::Result<Valgrind> {
    let found = host_live::find_program("valgrind".as_ref(), "/".as_ref(), &search_path());
    found.map(Valgrind::new).map_err(|_| {
        anyhow!("the cache model needs valgrind, which is not in PATH; run apt install valgrind")
    })
}

/// Finds a program as a shell does. The program may need an interpreter or architecture that this machine lacks.
pub(super) fn path(program: &Path) -> anyhow::Result<PathBuf> {
    host_live::find_program(program, Path::new(""), &search_path()).map_err(|error| {
        let is_here = !program.as_os_str().as_bytes().contains(&b'/') && program.is_file();
        match is_here {
            true => {
                let here = base::shell::quote(Path::new(".").join(program));
                anyhow!("{error}; write {here} for the program in this directory")
            }
            false => error.into(),
        }
    })
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Returns whether `path` is the executable of evenkeel.
pub(super) fn is_own(path: &Path) -> bool {
    let own_path = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    own_path.is_some() && own_path == std::fs::canonicalize(path).ok()
}
