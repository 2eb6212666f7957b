//! Whose an orphan is that came to us.

use std::path::Path;

use base::JobId;
use linux::procfs;
use linux::undo::{JOB_VARIABLE, RUN_VARIABLE};

use super::Family;

impl Family {
    /// Whose an orphan is: by its process group (that of a job's first process) or its environment.
    pub(crate) fn claim(&self, pid: u32, is_first: impl Fn(JobId, u32) -> bool) -> Option<JobId> {
        let stat = procfs::stat(root(), pid).ok()?;
        let by_group = self.job_of(stat.group).filter(|&job| is_first(job, stat.group));
        by_group.or_else(|| {
            let environ = if stat.state == 'Z' { Vec::new() } else { environ_outside_exec(pid)? };
            let variable = |name| procfs::parse_environ(&environ, name);
            (variable(RUN_VARIABLE) == Some(&self.run))
                .then(|| self.names.get(variable(JOB_VARIABLE)?).copied())?
        })
    }
}

/// What a process has in its environment. In the middle of an exec the old one is gone before the
/// new one can be read, for some microseconds of CPU time: then it is asked again, a few times, so
/// that an orphan is not taken for a stranger.
fn environ_outside_exec(pid: u32) -> Option<Vec<u8>> {
    for _ in 0..EXEC_LOOKS {
        let environ = procfs::environ(root(), pid).ok()?;
        if !environ.is_empty() {
            return Some(environ);
        }
        std::thread::sleep(EXEC_WAIT);
    }
    None
}

/// Two milliseconds in all: an exec is over by then unless the machine is very busy, and a process
/// without any environment costs no more than that.
const EXEC_LOOKS: u32 = 20;
const EXEC_WAIT: std::time::Duration = std::time::Duration::from_micros(100);

fn root() -> &'static Path {
    Path::new("/")
}
