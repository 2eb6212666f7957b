//! The initial environment of a process.
//!
//! During execve(2) the old environment is freed some microseconds before the new one can be read. `/proc/PID/environ`
//! is then empty, as it is for a process without environment (`env -i`). `/proc/PID/stat` distinguishes the two cases:
//! during execve(2) the addresses of the environment are 0.

use std::io;
use std::path::Path;

use crate::procfs;

/// Environment of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environ {
    /// Variables as `NAME=value`, each terminated by a zero byte.
    Variables(Vec<u8>),
    /// The process has no variables or is a kernel thread.
    Empty,
    /// The process is executing execve(2). The environment has to be read again.
    InExec,
}

impl Environ {
    /// Returns the value of a variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        match self {
            Environ::Variables(text) => procfs::parse_environ(text, name),
            Environ::Empty | Environ::InExec => None,
        }
    }
}

/// Reads the environment of a process. The error has the kind `NotFound` if the process has exited.
pub fn environ(root: &Path, pid: u32) -> io::Result<Environ> {
    let first = procfs::environ(root, pid)?;
    if !first.is_empty() {
        return Ok(Environ::Variables(first));
    }
    if procfs::stat(root, pid)?.is_in_exec() {
        return Ok(Environ::InExec);
    }
    // execve(2) may have finished between the two reads.
    let second = procfs::environ(root, pid)?;
    Ok(if second.is_empty() { Environ::Empty } else { Environ::Variables(second) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_without_environment_is_distinguished_from_an_exec() {
        let check = |command: &mut Command, accept: &dyn Fn(&Environ) -> bool| {
            let mut child = command.arg("60").spawn().expect("sleep");
            let found = loop {
                match environ(Path::new("/"), child.id()).expect("the child is not reaped") {
                    Environ::InExec => std::thread::yield_now(),
                    found => break found,
                }
            };
            child.kill().expect("a child of the test");
            child.wait().expect("a child of the test");
            assert!(accept(&found), "{found:?}");
        };
        let mut empty = Command::new("sleep");
        check(empty.env_clear(), &|found| *found == Environ::Empty);
        let mut one = Command::new("sleep");
        check(one.env_clear().env("A", "b"), &|found| found.variable("A") == Some("b"));
    }
}
