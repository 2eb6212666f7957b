//! The files of jobs: programs, working directories, inputs and outputs.
//!
//! A job that begins empties its output. So an output must be nobody's input, program or output
//! besides, under whatever names; here, where one can look, two names of one file are found by
//! what the file is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use program::{Command, Job, Workload};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};

use super::runnable;
use crate::command::{check_kind, file_name, find_program, plain};

/// What Linux takes as the name of a file.
const NAME_BYTES_MAX: usize = 255;

/// Which file a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// One that is there: its device and its number.
    There(u64, u64),
    /// One that would be made: device and number of its folder, and its name.
    New(u64, u64, OsString),
}

/// The files of a workload as they are looked at.
pub(super) struct Files<'w> {
    folder: PathBuf,
    search_path: OsString,
    /// Programs that were looked at.
    programs: BTreeSet<PathBuf>,
    /// Which files they are.
    program_places: BTreeSet<Place>,
    /// Folders in which a file was made, to try.
    written: BTreeSet<PathBuf>,
    /// Files that jobs write, with the first job that does.
    outputs: BTreeMap<Place, &'w Job>,
}

impl<'w> Files<'w> {
    pub(super) fn new(workload: &Workload) -> Self {
        Files {
            folder: crate::setup::absolute(&workload.folder),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            programs: BTreeSet::new(),
            program_places: BTreeSet::new(),
            written: BTreeSet::new(),
            outputs: BTreeMap::new(),
        }
    }

    /// Whether a job's files are there and can be used.
    pub(super) fn check(&mut self, job: &'w Job) -> Result<(), String> {
        self.check_program(job)?;
        if let Some(dir) = &job.dir {
            check_dir(&self.folder.join(dir))?;
        }
        if let Some(input) = &job.input {
            check_input(&self.folder.join(input))?;
        }
        if let Some(output) = &job.output {
            let output = self.folder.join(output);
            self.check_output(&output)?;
            self.claim(job, &output)?;
        }
        match file_name(&job.name).len() + ".out".len() {
            ..=NAME_BYTES_MAX => Ok(()),
            _ => Err("its name is too long for the files of its output: \
                      letters other than a-z and digits take three bytes or more"
                .to_owned()),
        }
    }

    fn check_program(&mut self, job: &Job) -> Result<(), String> {
        let Command::Program { program, .. } = &job.command else { return Ok(()) };
        let own = job.env.get("PATH").map(OsStr::new);
        let path = find_program(program, &self.folder, own.unwrap_or(&self.search_path))?;
        if !self.programs.contains(&path) {
            runnable::check(&path)?;
            self.program_places.extend(place(&path));
            self.programs.insert(path);
        }
        Ok(())
    }

    fn check_output(&mut self, output: &Path) -> Result<(), String> {
        let refuse = |error: &io::Error| {
            Err(format!("output {} cannot be written: {}", output.display(), plain(error)))
        };
        match fs::metadata(output) {
            Ok(meta) if meta.is_dir() => Err(format!("output {} is a folder", output.display())),
            Ok(meta) => {
                check_kind(&meta).map_err(|why| format!("output {}: {why}", output.display()))?;
                try_to_write(output, &meta).or_else(|error| refuse(&error))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => refuse(&error),
            Err(_) => {
                let folder = output.parent().unwrap_or(&self.folder);
                if !folder.is_dir() {
                    let (output, folder) = (output.display(), folder.display());
                    return Err(format!(
                        "output {output} cannot be written: its folder {folder} is not there: make it"
                    ));
                }
                if output.file_name().is_some_and(|name| NAME_BYTES_MAX < name.len()) {
                    return refuse(&rustix::io::Errno::NAMETOOLONG.into());
                }
                if !self.written.contains(folder) {
                    try_to_make_a_file(folder).or_else(|error| refuse(&error))?;
                    self.written.insert(folder.to_owned());
                }
                Ok(())
            }
        }
    }

    /// Takes an output for a job; what several jobs write, or one reads, is refused.
    fn claim(&mut self, job: &'w Job, output: &Path) -> Result<(), String> {
        let Some(output_place) = emptied(output) else { return Ok(()) };
        let output = output.display();
        let is_output = |path: &Path| place(path).as_ref() == Some(&output_place);
        if job.input.as_ref().is_some_and(|input| is_output(&self.folder.join(input))) {
            return Err(format!("output {output} is its input too, and would be emptied first"));
        }
        if is_output(&job.origin.file) {
            return Err(format!("output {output} is the workload file, which would be emptied"));
        }
        match self.outputs.insert(output_place, job) {
            Some(other) => {
                let (name, line) = (&other.name, other.origin.line);
                Err(format!("output {output} is that of job {name} in line {line} already"))
            }
            None => Ok(()),
        }
    }

    /// Whether any output is a program that some job runs; to be asked when all jobs were looked at.
    pub(super) fn overwritten_program(&self) -> Option<(&'w Job, String)> {
        let mut outputs = self.outputs.iter();
        let (_, job) = outputs.find(|(place, _)| self.program_places.contains(place))?;
        let output = self.folder.join(job.output.as_ref()?);
        let problem = format!(
            "output {} is a program that a job runs, and would be emptied",
            output.display()
        );
        Some((job, problem))
    }
}

/// Which file that is, if it can be told.
fn place(path: &Path) -> Option<Place> {
    if let Ok(meta) = fs::metadata(path) {
        return Some(Place::There(meta.dev(), meta.ino()));
    }
    let folder = fs::metadata(path.parent()?).ok()?;
    Some(Place::New(folder.dev(), folder.ino(), path.file_name()?.to_owned()))
}

/// The same for what loses what it holds when a job begins to write: files, no devices.
fn emptied(path: &Path) -> Option<Place> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => None,
        _ => place(path),
    }
}

fn check_dir(dir: &Path) -> Result<(), String> {
    let shown = dir.display();
    match fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => Err(format!("working directory {shown} is no folder")),
        Ok(_) => may(dir, Access::EXEC_OK)
            .map_err(|error| format!("working directory {shown} cannot be entered: {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("working directory {shown} is not there: make it"))
        }
        Err(error) => Err(format!("working directory {shown}: {}", plain(&error))),
    }
}

fn check_input(input: &Path) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("input {}: {why}", input.display()));
    let readable = match fs::metadata(input) {
        Ok(meta) if meta.is_dir() => return refuse("this is a folder; name a file in it"),
        Ok(meta) if meta.is_file() => File::open(input).map(drop),
        // Opening something else may wait, or change it.
        Ok(meta) => {
            check_kind(&meta).or_else(refuse)?;
            return may(input, Access::READ_OK).or_else(|error| refuse(&error));
        }
        Err(error) => Err(error),
    };
    readable.or_else(|error| refuse(&plain(&error)))
}

/// Whether we, as who we act, may do that; the kernel's word if not.
fn may(path: &Path, access: Access) -> Result<(), String> {
    accessat(CWD, path, access, AtFlags::EACCESS).map_err(|error| plain(&error.into()))
}

/// Opens a file for writing and leaves it as it is; of something else it is only asked whether one may.
fn try_to_write(path: &Path, meta: &Metadata) -> io::Result<()> {
    if !meta.is_file() {
        return Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?);
    }
    OpenOptions::new().write(true).open(path).map(drop)
}

/// Makes a file in a folder: one without a name, or where that cannot be, one with a name that nobody
/// else has, gone at once.
fn try_to_make_a_file(folder: &Path) -> io::Result<()> {
    let nameless = (OFlags::TMPFILE | OFlags::CLOEXEC).bits() as i32;
    if OpenOptions::new().write(true).mode(0o600).custom_flags(nameless).open(folder).is_ok() {
        return Ok(());
    }
    let path = folder.join(format!(".evenkeel-try-{}", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)
}
