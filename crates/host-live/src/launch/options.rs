//! Options of a run.

use std::path::PathBuf;

use base::Nanos;
use files::OutputDir;
use linux::tasks::CounterMode;
use linux::undo::RestoreProgress;

use crate::session::memory::MemoryOptions;

/// Options of a run. The default values are the defaults of the command line.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// Period of interval turns. With `None` only events cause turns.
    pub interval: Option<Nanos>,
    /// The intervals that cause a turn. If counter overflows cannot be counted, the host polls and reports a warning.
    pub wake: sched::Wake,
    /// Grace period between SIGTERM and SIGKILL.
    pub grace: Nanos,
    /// Whether a failed job stops the run.
    pub fail_fast: bool,
    /// Whether the jobs are killed when evenkeel is killed.
    pub kill_on_exit: bool,
    /// Standard streams of jobs that name no file.
    pub standard_streams: StandardStreams,
    /// Time after which the run is stopped.
    pub time_limit: Option<Nanos>,
    /// The evenkeel executable, for built-in loads and the supervisor; `None`: this executable.
    pub tool: Option<PathBuf>,
    /// Whether signals that terminate a process are blocked and stop the run. The signals are blocked in the calling
    /// thread and in threads that it starts later.
    pub takes_signals: bool,
    /// Whether the priority of the calling thread is raised above the priority of the jobs, if the kernel permits
    /// the change. Jobs keep the inherited nice value. At the end the nice value of the thread is restored.
    pub takes_priority: bool,
    /// Whether all children of this process are jobs. Unknown children are then orphans of jobs and are reaped.
    pub is_sole_parent: bool,
    /// Mode of the counters of tasks.
    pub counters: CounterMode,
    /// Directories for undo records; `None`: the default directories ([`linux::undo::dirs`]).
    pub undo_dirs: Option<Vec<PathBuf>>,
    /// Receives the progress of a long restore of killed runs at the start.
    pub on_restore_progress: fn(&RestoreProgress),
    /// Use of cgroups for jobs with bound memory.
    pub cgroups: linux::cgroup::CgroupMode,
    /// Root of the resctrl and cgroup file systems: `/` outside of tests.
    pub resctrl_root: PathBuf,
    /// Options of page migration and of memory samples.
    pub memory: MemoryOptions,
}

/// Standard streams of jobs that name no file.
#[derive(Clone, Debug)]
pub struct StandardStreams {
    /// Standard input.
    pub input: StandardInput,
    /// Directory of standard output (`NAME.out`); `None`: standard output of evenkeel.
    pub output_dir: Option<OutputDir>,
    /// Directory of standard error (`NAME.err`); `None`: standard error of evenkeel.
    pub errors_dir: Option<OutputDir>,
}

/// Standard input of jobs that name no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardInput {
    /// `/dev/null`.
    Null,
    /// Standard input of evenkeel, and `/dev/null` in place of a terminal: the kernel stops a job that reads the terminal
    /// in the background.
    Inherited,
    /// Standard input of evenkeel, which may be a terminal: the only job is in the foreground ([`linux::foreground`]).
    Foreground,
}

impl StandardStreams {
    /// Input is `/dev/null`. Output goes to files in this directory.
    pub fn in_dir(dir: &OutputDir) -> Self {
        let dir = Some(dir.clone());
        StandardStreams { input: StandardInput::Null, output_dir: dir.clone(), errors_dir: dir }
    }

    /// The standard streams of evenkeel.
    pub fn inherited() -> Self {
        StandardStreams { input: StandardInput::Inherited, output_dir: None, errors_dir: None }
    }
}

impl Default for LaunchOptions {
    fn default() -> Self {
        LaunchOptions {
            interval: Some(Nanos::from_millis(250)),
            wake: sched::Wake::Poll,
            grace: Nanos::from_secs(5),
            fail_fast: false,
            kill_on_exit: false,
            standard_streams: StandardStreams::inherited(),
            time_limit: None,
            tool: None,
            takes_signals: true,
            takes_priority: true,
            is_sole_parent: true,
            counters: CounterMode::Auto,
            undo_dirs: None,
            on_restore_progress: |_| (),
            cgroups: linux::cgroup::CgroupMode::Auto,
            resctrl_root: PathBuf::from("/"),
            memory: MemoryOptions::default(),
        }
    }
}
