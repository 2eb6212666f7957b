//! A line of a workload as a program to start.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::CpuSet;
use linux::fault;
use linux::mempolicy::Prepared;
use linux::spawn::SpawnRequest;
use linux::undo::{JOB_VARIABLE, RUN_VARIABLE};
use program::{Command, Job, MemoryPolicy};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat, fcntl_getfl, fcntl_setfl};
use rustix::process::Rlimit;

/// What all jobs of a run have in common.
#[derive(Debug)]
pub(crate) struct Common {
    /// The name of this run, which jobs have in their environment.
    pub run: String,
    /// Relative paths of the workload begin here; absolute.
    pub folder: PathBuf,
    /// Where output goes.
    pub output_dir: PathBuf,
    /// The evenkeel program.
    pub tool: PathBuf,
    /// What children get back.
    pub descriptors: Rlimit,
    /// The nice value that children get, when ours is another.
    pub nice: Option<i32>,
    /// Whether the kernel ends jobs with us.
    pub dies_with_us: bool,
    /// Our own environment without what is only for us, `NAME=value` each.
    pub env: Vec<CString>,
    /// `PATH` of our own environment.
    pub search_path: OsString,
}

/// Where and with which memory a job begins.
#[derive(Debug, Default)]
pub(crate) struct Binding {
    pub cpus: Option<CpuSet>,
    pub memory: Option<MemoryPolicy>,
    /// The door of a group that binds its memory instead.
    pub group: Option<OwnedFd>,
}

impl Common {
    /// A job as a program to start. `appends` says that it has run before and its output goes on.
    pub(crate) fn start(
        &self,
        job: &Job,
        binding: Binding,
        appends: bool,
    ) -> Result<SpawnRequest, String> {
        let (program, args) = self.program_and_args(job)?;
        let dir = self.dir(job);
        Ok(SpawnRequest {
            program: c_string(program)?,
            args: args.into_iter().map(c_string).collect::<Result<_, _>>()?,
            env: self.environment(job)?,
            dir: c_string(dir)?,
            files: self.files(job, appends)?,
            cpus: binding.cpus,
            memory: binding.memory.as_ref().map(Prepared::new),
            group: binding.group,
            descriptors: self.descriptors,
            nice: self.nice,
            dies_with_parent: self.dies_with_us,
        })
    }

    /// The folder that a job begins in.
    pub(crate) fn dir(&self, job: &Job) -> PathBuf {
        job.dir.as_ref().map_or_else(|| self.folder.clone(), |dir| self.folder.join(dir))
    }

    /// The file that a job runs.
    pub(crate) fn program(&self, job: &Job) -> Result<PathBuf, String> {
        match &job.command {
            Command::Program { program, .. } => {
                let own = job.env.get("PATH").map(OsStr::new);
                find_program(program, &self.folder, own.unwrap_or(&self.search_path))
            }
            Command::Shell(_) => Ok("/bin/sh".into()),
            Command::Load(_) => Ok(self.tool.clone()),
        }
    }

    fn program_and_args(&self, job: &Job) -> Result<(PathBuf, Vec<OsString>), String> {
        let path = self.program(job)?;
        let args: Vec<OsString> = match &job.command {
            Command::Program { program, args } => {
                let name = program.clone().into_os_string();
                [name].into_iter().chain(args.iter().map(OsString::from)).collect()
            }
            Command::Shell(line) => ["sh", "-c", line].map(OsString::from).into(),
            Command::Load(args) => {
                let own = ["evenkeel", "load"].map(OsString::from);
                own.into_iter().chain(args.iter().map(OsString::from)).collect()
            }
        };
        Ok((path, args))
    }

    fn environment(&self, job: &Job) -> Result<Vec<CString>, String> {
        let is_replaced = |variable: &CString| {
            let name = variable.as_bytes().split(|&byte| byte == b'=').next();
            name.and_then(|name| std::str::from_utf8(name).ok())
                .is_some_and(|name| job.env.contains_key(name))
        };
        let mut env: Vec<CString> = if job.env.is_empty() {
            self.env.clone()
        } else {
            self.env.iter().filter(|variable| !is_replaced(variable)).cloned().collect()
        };
        let own = job.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain([(RUN_VARIABLE, &*self.run), (JOB_VARIABLE, &job.name)]) {
            env.push(c_string(format!("{name}={value}"))?);
        }
        Ok(env)
    }

    fn files(&self, job: &Job, appends: bool) -> Result<[OwnedFd; 3], String> {
        let input = job.input.as_ref().map_or("/dev/null".into(), |file| self.folder.join(file));
        let input = open(OpenOptions::new().read(true), &input)?;
        let output = self.output(job, "out", job.output.as_deref(), appends)?;
        let errors = self.output(job, "err", None, appends)?;
        Ok([input, output, errors])
    }

    fn output(
        &self,
        job: &Job,
        kind: &str,
        wanted: Option<&Path>,
        appends: bool,
    ) -> Result<OwnedFd, String> {
        let path = match wanted {
            Some(path) => self.folder.join(path),
            None => self.output_dir.join(format!("{}.{kind}", file_name(&job.name))),
        };
        let mut options = OpenOptions::new();
        options.create(true).append(appends).write(true).truncate(!appends);
        open(&mut options, &path)
    }
}

/// Opens a file of a job without ever waiting, as a pipe without another end would have us do.
fn open(options: &mut OpenOptions, path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
    let file = fault::retry("openat", || options.open(path)).map_err(|error| at(path, &error))?;
    let meta = file.metadata().map_err(|error| at(path, &error))?;
    check_kind(&meta).map_err(|why| format!("{}: {why}", path.display()))?;
    // The job itself may wait for what it reads and writes.
    let now = fcntl_getfl(&file).map_err(|error| at(path, &error.into()))?;
    fcntl_setfl(&file, now - OFlags::NONBLOCK).map_err(|error| at(path, &error.into()))?;
    Ok(file.into())
}

/// Whether a job can read or write something of this kind without anybody at another end.
pub(crate) fn check_kind(meta: &Metadata) -> Result<(), &'static str> {
    match meta.is_file() || meta.file_type().is_char_device() {
        true => Ok(()),
        false => Err("this is neither a file nor a character device"),
    }
}

/// Our own environment for jobs: without what is only for us.
pub(crate) fn own_environment() -> Vec<CString> {
    let ours = [linux::fault::VARIABLE, RUN_VARIABLE, JOB_VARIABLE];
    linux::spawn::environment(&ours)
}

/// Finds a program as a shell would: a name without a slash in `PATH`, another path below the folder.
pub fn find_program(program: &Path, folder: &Path, search_path: &OsStr) -> Result<PathBuf, String> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        let path = folder.join(program);
        return check_program(&path).map(|()| path);
    }
    let places = std::env::split_paths(search_path).map(|place| folder.join(place).join(program));
    let mut refused = None;
    for path in places {
        match check_program(&path) {
            Ok(()) => return Ok(path),
            Err(error) if path.exists() => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| format!("program {} is not in PATH", program.display())))
}

/// Whether this is a file that may be executed.
pub(crate) fn check_program(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path)
        .map_err(|error| format!("program {}: {}", path.display(), plain(&error)))?;
    if meta.is_dir() {
        return Err(format!("program {} is a folder", path.display()));
    }
    if !meta.is_file() {
        return Err(format!("program {} is no regular file", path.display()));
    }
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|_| format!("program {} may not be executed by this user", path.display()))
}

/// A job's name as the name of a file. Different names stay different: what may not stand in a file
/// name, or would hide the file, is written as `%` and two hexadecimal digits.
pub(crate) fn file_name(job: &str) -> String {
    let mut name = String::new();
    for (idx, byte) in job.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"_-+=@,".contains(&byte);
        if plain || (byte == b'.' && idx != 0) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

fn c_string(word: impl Into<OsString>) -> Result<CString, String> {
    linux::spawn::text(word).map_err(|error| error.to_string())
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {}", path.display(), plain(error))
}

/// What the kernel said, without the number that the library adds.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_jobs_never_share_a_file() {
        assert_eq!(file_name("hog.2"), "hog.2");
        assert_eq!(file_name("a b"), "a%20b");
        assert_eq!(file_name("../x"), "%2e.%2fx");
        assert_ne!(file_name("a/b"), file_name("a%2fb"));
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let find = |program: &str, path: &str| {
            find_program(Path::new(program), Path::new("/usr"), OsStr::new(path))
        };
        assert!(find("sh", "/nonexistent:/bin").is_ok_and(|found| found == Path::new("/bin/sh")));
        assert!(find("bin/env", "").is_ok_and(|found| found == Path::new("/usr/bin/env")));
        assert!(find("no-such-program", "/bin").is_err_and(|text| text.contains("PATH")));
        assert!(find("/etc/passwd", "").is_err_and(|text| text.contains("executed")));
        assert!(find("/etc", "").is_err_and(|text| text.contains("folder")));
    }
}
