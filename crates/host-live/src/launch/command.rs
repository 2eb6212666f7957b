//! Builds the spawn request of a job: program, environment, standard streams and limits.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base::CpuSet;
use files::OutputDir;
use linux::fault;
use linux::mempolicy::Prepared;
use linux::privileges::{self, GainedPrivileges};
use linux::spawn::SpawnRequest;
use linux::system::{self, DescriptorLimit};
use linux::undo::{JOB_VARIABLE, RUN_VARIABLE};
use program::{Command, Job, MemoryPolicy, Workload};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Rlimit;
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::isatty;

use super::programs::{absolute, check_kind, file_name, find_program};
use super::{LaunchOptions, StandardInput, StandardStreams};
use crate::errors::kernel_message;

/// Nice value of evenkeel if the kernel permits it and the nice value of the jobs is 0 or more. Below 0, evenkeel has
/// a nice value 10 below that of the jobs. With the same nice value as a thousand busy jobs, evenkeel would get a
/// thousandth of a CPU. Jobs keep the inherited value.
const OWN_NICE: i32 = -10;
const NICE_MIN: i32 = -20;

/// Properties that all jobs of a run share.
#[derive(Debug)]
pub(super) struct LaunchContext {
    /// Id of the run, which is in the environment of each job.
    pub run: String,
    /// Base directory of relative paths in the workload, as an absolute path.
    pub dir: PathBuf,
    /// Standard streams of jobs.
    pub standard_streams: StandardStreams,
    /// The evenkeel executable.
    pub tool: PathBuf,
    /// RLIMIT_NOFILE of the jobs.
    pub descriptors: Rlimit,
    /// Nice value of the jobs, if it differs from the value of evenkeel.
    pub nice: Option<i32>,
    /// Whether the kernel kills jobs when evenkeel exits.
    pub dies_with_parent: bool,
    /// Inherited environment without variables of evenkeel, as `NAME=value`.
    pub env: Vec<CString>,
    /// Inherited `PATH`.
    pub search_path: OsString,
    /// Whether evenkeel may set the affinity of every process (CAP_SYS_NICE).
    pub may_bind_all: bool,
}

/// CPUs and memory of a job at its start.
#[derive(Debug, Default)]
pub(super) struct Binding {
    pub cpus: Option<CpuSet>,
    pub memory: Option<MemoryPolicy>,
    /// Open `cgroup.procs` of the cgroup that binds the memory in place of the memory policy.
    pub cgroup: Option<OwnedFd>,
}

impl LaunchContext {
    /// Creates the context of a run. Raises the priority of the calling thread if `takes_priority` is set and the
    /// kernel permits the change.
    pub(super) fn new(
        workload: &Workload,
        options: &LaunchOptions,
        limit: &DescriptorLimit,
    ) -> Self {
        let own_variables = [linux::fault::VARIABLE, RUN_VARIABLE, JOB_VARIABLE];
        LaunchContext {
            run: run_id(),
            dir: absolute(&workload.dir),
            standard_streams: options.standard_streams.clone(),
            tool: options.tool.clone().unwrap_or_else(own_executable),
            descriptors: limit.inherited,
            nice: raise_priority(options),
            dies_with_parent: options.kill_on_exit,
            env: linux::spawn::environment(&own_variables),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            may_bind_all: privileges::has_sys_nice(),
        }
    }

    /// Returns why the affinity of a job could not be restored after its start; `None` if it can be restored. A program
    /// that gains privileges at execve(2) can be bound only before, and only a privileged user can restore it.
    pub(super) fn not_restorable(&self, job: &Job) -> Option<String> {
        if self.may_bind_all {
            return None;
        }
        let program = self.program(job).ok()?;
        let cause = match privileges::gained(&program) {
            Ok(None) => return None,
            Ok(Some(GainedPrivileges::User(uid))) => format!("runs as user {uid} (set-user-ID)"),
            Ok(Some(GainedPrivileges::Capabilities)) => "has file capabilities".to_owned(),
            Err(error) => format!("cannot be inspected: {}", kernel_message(&error)),
        };
        Some(format!(
            "program {} {cause}: restoring its affinity needs CAP_SYS_NICE, so it is not placed",
            program.display()
        ))
    }

    /// Builds the request to start a job. If `appends` is set, as for a restart, the job appends to its output.
    pub(super) fn spawn_request(
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
            is_foreground: job.input.is_none()
                && self.standard_streams.input == StandardInput::Foreground,
            cpus: binding.cpus,
            memory: binding.memory.as_ref().map(Prepared::new),
            group: binding.cgroup,
            descriptors: self.descriptors,
            nice: self.nice,
            dies_with_parent: self.dies_with_parent,
        })
    }

    pub(super) fn dir(&self, job: &Job) -> PathBuf {
        job.dir.as_ref().map_or_else(|| self.dir.clone(), |dir| self.dir.join(dir))
    }

    pub(super) fn program(&self, job: &Job) -> Result<PathBuf, String> {
        match &job.command {
            Command::Program { program, .. } => {
                let own = job.env.get("PATH").map(OsStr::new);
                Ok(find_program(program, &self.dir, own.unwrap_or(&self.search_path))?)
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
        // The variables of evenkeel are first, so that they are found in the first bytes of a long environment.
        let own = [(RUN_VARIABLE, &*self.run), (JOB_VARIABLE, &*job.name)].into_iter();
        let of_job = job.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let added = own.chain(of_job).map(|(name, value)| c_string(format!("{name}={value}")));
        let inherited = self.env.iter().filter(|variable| !is_replaced(variable)).cloned().map(Ok);
        added.chain(inherited).collect()
    }

    fn files(&self, job: &Job, appends: bool) -> Result<[OwnedFd; 3], String> {
        let StandardStreams { input, output_dir, errors_dir } = &self.standard_streams;
        let input = match (&job.input, input) {
            (Some(file), _) => open_input(&self.dir.join(file))?,
            (None, StandardInput::Foreground) => duplicate(stdin())?,
            (None, StandardInput::Inherited) if !isatty(stdin()) => duplicate(stdin())?,
            (None, _) => open_input("/dev/null".as_ref())?,
        };
        let output = match &job.output {
            Some(path) => {
                let path = self.dir.join(path);
                let open = || files::open_job_output(&path, appends);
                job_file(opened(&path, open)?, &path)?
            }
            None => dir_output(job, (output_dir, "out"), stdout(), appends)?,
        };
        let errors = dir_output(job, (errors_dir, "err"), stderr(), appends)?;
        Ok([input, output, errors])
    }
}

/// Opens the file of an output in a directory; without a directory duplicates the output of evenkeel.
fn dir_output(
    job: &Job,
    (dir, kind): (&Option<OutputDir>, &str),
    own: BorrowedFd<'_>,
    appends: bool,
) -> Result<OwnedFd, String> {
    let Some(dir) = dir else { return duplicate(own) };
    let name = format!("{}.{kind}", file_name(&job.name));
    let path = dir.path().join(&name);
    let open = || if appends { dir.append(&name) } else { dir.recreate(&name) };
    job_file(opened(&path, open)?, &path)
}

/// Opens an output. An interrupted call is repeated.
fn opened(path: &Path, open: impl FnMut() -> io::Result<File>) -> Result<File, String> {
    fault::retry("openat", open).map_err(|error| at(path, &error))
}

/// Duplicates a standard stream of evenkeel for a job.
fn duplicate(file: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    file.try_clone_to_owned().map_err(|error| kernel_message(&error))
}

/// Opens the input of a job. Opening does not block, even for a pipe without a process at the other end.
fn open_input(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = fault::retry("openat", || options.open(path)).map_err(|error| at(path, &error))?;
    job_file(file, path)
}

/// Checks the kind of an open file, and clears O_NONBLOCK: reads and writes of the job may block.
fn job_file(file: File, path: &Path) -> Result<OwnedFd, String> {
    let meta = file.metadata().map_err(|error| at(path, &error))?;
    check_kind(&meta).map_err(|reason| format!("{}: {reason}", path.display()))?;
    let now = fcntl_getfl(&file).map_err(|error| at(path, &error.into()))?;
    fcntl_setfl(&file, now - OFlags::NONBLOCK).map_err(|error| at(path, &error.into()))?;
    Ok(file.into())
}

/// Returns a unique id of the run. If the kernel provides no random id, PID and time are used.
fn run_id() -> String {
    system::random_id("/".as_ref()).unwrap_or_else(|_| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        format!("{}-{}", std::process::id(), since.map_or(0, |since| since.as_nanos()))
    })
}

/// Returns the path of the evenkeel executable, or `/proc/self/exe` if the file was removed or replaced.
fn own_executable() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.is_file());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}

/// Raises the priority of this thread if `takes_priority` is set and the kernel permits the change. Returns the nice
/// value of jobs; `None` if the priority was not raised.
fn raise_priority(options: &LaunchOptions) -> Option<i32> {
    let inherited = system::own_nice();
    let own = own_nice(inherited);
    let raises_priority = options.takes_priority && own < inherited;
    (raises_priority && system::set_own_nice(own).is_ok()).then_some(inherited)
}

/// Returns the nice value of evenkeel for the nice value of the jobs.
fn own_nice(inherited: i32) -> i32 {
    OWN_NICE.min(inherited + OWN_NICE).max(NICE_MIN)
}

fn c_string(word: impl Into<OsString>) -> Result<CString, String> {
    linux::spawn::text(word).map_err(|error| error.to_string())
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {}", path.display(), kernel_message(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenkeel_has_a_higher_priority_than_jobs_with_a_high_priority() {
        assert_eq!([19, 0, -5, -15, -20].map(own_nice), [-10, -10, -15, -20, -20]);
    }
}
