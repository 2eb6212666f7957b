//! The files of jobs: programs, working directories, inputs and outputs.
//!
//! A job truncates its output when it starts. An output must therefore not be the input of its job, the workload
//! file, a program of a job, or the output of another job. Device and inode number identify a file with several
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use program::{Command, Job, Workload};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};

use super::runnable;
use crate::errors::kernel_message;
use crate::launch::programs::{absolute, check_kind, file_name, find_program};

/// Maximum length of a file name in Linux, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileId {
    /// An existing file: device and inode number.
    Existing(u64, u64),
    /// A file that would be created: device and inode number of its directory, and its name.
    New(u64, u64, OsString),
}

/// The files of a workload that have been checked.
pub(super) struct Files<'w> {
    dir: PathBuf,
    search_path: OsString,
    /// Programs that were checked.
    programs: BTreeSet<PathBuf>,
    program_ids: BTreeSet<FileId>,
    /// Directories in which a file could be created.
    written: BTreeSet<PathBuf>,
    /// Outputs, each with its job.
    outputs: BTreeMap<FileId, &'w Job>,
}

impl<'w> Files<'w> {
    pub(super) fn new(workload: &Workload) -> Self {
        Files {
            dir: absolute(&workload.dir),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            programs: BTreeSet::new(),
            program_ids: BTreeSet::new(),
            written: BTreeSet::new(),
            outputs: BTreeMap::new(),
        }
    }

    pub(super) fn check(&mut self, job: &'w Job) -> Result<(), String> {
        self.check_program(job)?;
        if let Some(dir) = &job.dir {
            check_dir(&self.dir.join(dir))?;
        }
        if let Some(input) = &job.input {
            check_input(&self.dir.join(input))?;
        }
        if let Some(output) = &job.output {
            let output = self.dir.join(output);
            self.check_output(&output)?;
            self.assign_output(job, &output)?;
        }
        match file_name(&job.name).len() + ".out".len() {
            ..=NAME_BYTES_MAX => Ok(()),
            _ => Err("its name is too long for the files of its output: \
                      characters other than ASCII letters, digits and _-+=@,. take three bytes or more"
                .to_owned()),
        }
    }

    fn check_program(&mut self, job: &Job) -> Result<(), String> {
        let Command::Program { program, .. } = &job.command else { return Ok(()) };
        let own = job.env.get("PATH").map(OsStr::new);
        let path = find_program(program, &self.dir, own.unwrap_or(&self.search_path))?;
        if !self.programs.contains(&path) {
            runnable::check(&path)?;
            self.program_ids.extend(file_id(&path));
            self.programs.insert(path);
        }
        Ok(())
    }

    fn check_output(&mut self, output: &Path) -> Result<(), String> {
        let problem = |error: &io::Error| {
            Err(format!("output {} cannot be written: {}", output.display(), kernel_message(error)))
        };
        match fs::metadata(output) {
            Ok(meta) if meta.is_dir() => Err(format!("output {} is a directory", output.display())),
            Ok(meta) => {
                check_kind(&meta)
                    .map_err(|reason| format!("output {}: {reason}", output.display()))?;
                try_to_write(output, &meta).or_else(|error| problem(&error))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => problem(&error),
            Err(_) => {
                let dir = output.parent().unwrap_or(&self.dir);
                if !dir.is_dir() {
                    let (output, dir) = (output.display(), dir.display());
                    return Err(format!(
                        "output {output} cannot be written: its directory {dir} does not exist: create it"
                    ));
                }
                if output.file_name().is_some_and(|name| NAME_BYTES_MAX < name.len()) {
                    return problem(&rustix::io::Errno::NAMETOOLONG.into());
                }
                if !self.written.contains(dir) {
                    try_to_create_file(dir).or_else(|error| problem(&error))?;
                    self.written.insert(dir.to_owned());
                }
                Ok(())
            }
        }
    }

    /// Assigns an output to a job. The output must not be the input of the job, the workload file or the output of
    /// another job.
    fn assign_output(&mut self, job: &'w Job, output: &Path) -> Result<(), String> {
        let Some(output_id) = truncated_id(output) else { return Ok(()) };
        let output = output.display();
        let is_output = |path: &Path| file_id(path).as_ref() == Some(&output_id);
        if job.input.as_ref().is_some_and(|input| is_output(&self.dir.join(input))) {
            return Err(format!(
                "output {output} is also its input, and would be truncated before the job reads it"
            ));
        }
        if is_output(&job.origin.file) {
            return Err(format!("output {output} is the workload file, which would be truncated"));
        }
        match self.outputs.insert(output_id, job) {
            Some(other) => {
                let (name, line) = (&other.name, other.origin.line);
                Err(format!("output {output} is already the output of job {name:?} in line {line}"))
            }
            None => Ok(()),
        }
    }

    /// Returns the first output that is the program of a job. Call this function after all jobs were
    /// checked.
    pub(super) fn overwritten_program(&self) -> Option<(&'w Job, String)> {
        let mut outputs = self.outputs.iter();
        let (_, job) = outputs.find(|(id, _)| self.program_ids.contains(id))?;
        let output = self.dir.join(job.output.as_ref()?);
        let problem = format!(
            "output {} is a program that a job runs, and would be truncated",
            output.display()
        );
        Some((job, problem))
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    if let Ok(meta) = fs::metadata(path) {
        return Some(FileId::Existing(meta.dev(), meta.ino()));
    }
    let dir = fs::metadata(path.parent()?).ok()?;
    Some(FileId::New(dir.dev(), dir.ino(), path.file_name()?.to_owned()))
}

/// Returns the identity of a file that is truncated when a job opens it for writing; `None` for a device.
fn truncated_id(path: &Path) -> Option<FileId> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => None,
        _ => file_id(path),
    }
}

fn check_dir(dir: &Path) -> Result<(), String> {
    let path = dir.display();
    match fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => Err(format!("working directory {path} is not a directory")),
        Ok(_) => check_access(dir, Access::EXEC_OK)
            .map_err(|error| format!("working directory {path} cannot be entered: {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("working directory {path} does not exist: create it"))
        }
        Err(error) => Err(format!("working directory {path}: {}", kernel_message(&error))),
    }
}

fn check_input(input: &Path) -> Result<(), String> {
    let problem = |reason: &str| Err(format!("input {}: {reason}", input.display()));
    let readable = match fs::metadata(input) {
        Ok(meta) if meta.is_dir() => return problem("this is a directory; give a file"),
        Ok(meta) if meta.is_file() => File::open(input).map(drop),
        // Other kinds of files are not opened, because open(2) may block or have side effects.
        Ok(meta) => {
            check_kind(&meta).or_else(problem)?;
            return check_access(input, Access::READ_OK).or_else(|error| problem(&error));
        }
        Err(error) => Err(error),
    };
    readable.or_else(|error| problem(&kernel_message(&error)))
}

/// Checks a permission of the effective user.
fn check_access(path: &Path, access: Access) -> Result<(), String> {
    accessat(CWD, path, access, AtFlags::EACCESS).map_err(|error| kernel_message(&error.into()))
}

/// Checks that a regular file can be opened for writing. The file does not change. For other kinds of files only the
/// permission is checked.
fn try_to_write(path: &Path, meta: &Metadata) -> io::Result<()> {
    if !meta.is_file() {
        return Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?);
    }
    OpenOptions::new().write(true).open(path).map(drop)
}

/// Creates a temporary file without a name (O_TMPFILE). If the file system does not support O_TMPFILE, creates a file
/// with a unique name and removes it.
fn try_to_create_file(dir: &Path) -> io::Result<()> {
    let nameless = (OFlags::TMPFILE | OFlags::CLOEXEC).bits() as i32;
    if OpenOptions::new().write(true).mode(0o600).custom_flags(nameless).open(dir).is_ok() {
        return Ok(());
    }
    let path = dir.join(format!(".evenkeel-try-{}", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)
}
