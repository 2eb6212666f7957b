//! The variables of evenkeel in the initial environment of a process.
//!
//! During execve(2) the old environment is freed some microseconds before the new one can be read. `/proc/PID/environ`
//! is then empty, as it is for a process without environment (`env -i`). `/proc/PID/stat` distinguishes the two cases:
//! during execve(2) the addresses of the environment are 0.
//!
//! A process can set these addresses to any mapped memory (`PR_SET_MM`), also to terabytes that use no memory, and every
//! page takes time to read. Reading therefore ends when the variables are found, and after [`ENVIRON_BYTES_MAX`].

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::fault;
use crate::procfs::{self, not_found_if_exited};

/// Environment variable of every job, with the id of the run.
pub const RUN_VARIABLE: &str = "EVENKEEL_RUN";
/// Environment variable of every job, with the name of the job.
pub const JOB_VARIABLE: &str = "EVENKEEL_JOB";

/// Upper bound of bytes that are read of an environment. execve(2) rejects longer environments at any stack size limit
/// since Linux 4.13.
const ENVIRON_BYTES_MAX: u64 = 6 << 20;
/// Bytes per read(2). The usual environment is shorter.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes of a variable that are compared. Longer variables are not variables of evenkeel.
const VARIABLE_BYTES_MAX: usize = 64 << 10;

/// Environment of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environ {
    /// The process has variables.
    Variables(RunVariables),
    /// The process has no variables or is a kernel thread.
    Empty,
    /// The process is executing execve(2). The environment has to be read again.
    InExec,
}

/// The variables that evenkeel sets in the environment of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunVariables {
    /// Value of [`RUN_VARIABLE`].
    pub run: Option<String>,
    /// Value of [`JOB_VARIABLE`].
    pub job: Option<String>,
}

impl Environ {
    /// Returns the id of the run.
    pub fn run(&self) -> Option<&str> {
        self.variables()?.run.as_deref()
    }

    /// Returns the name of the job.
    pub fn job(&self) -> Option<&str> {
        self.variables()?.job.as_deref()
    }

    fn variables(&self) -> Option<&RunVariables> {
        match self {
            Environ::Variables(variables) => Some(variables),
            Environ::Empty | Environ::InExec => None,
        }
    }
}

/// Reads the environment of a process. The error has the kind `NotFound` if the process has exited.
pub fn environ(root: &Path, pid: u32) -> io::Result<Environ> {
    let path = root.join(format!("proc/{pid}/environ"));
    let found = match read(&path) {
        Ok(None) => {
            if procfs::stat(root, pid)?.is_in_exec() {
                return Ok(Environ::InExec);
            }
            read(&path)? // execve(2) may have finished between the two reads.
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => of_other_thread(root, pid)?,
        found => found?,
    };
    Ok(found.map_or(Environ::Empty, Environ::Variables))
}

/// Reads the environment of a process whose main thread has exited, from a running thread.
fn of_other_thread(root: &Path, pid: u32) -> io::Result<Option<RunVariables>> {
    let tids = procfs::threads(root, pid)?;
    let read = |tid: &u32| read(&root.join(format!("proc/{pid}/task/{tid}/environ")));
    let has_exited = |found: &io::Result<Option<RunVariables>>| {
        found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    tids.iter().map(read).find(|found| !has_exited(found)).unwrap_or_else(|| Err(not_found()))
}

fn not_found() -> io::Error {
    not_found_if_exited(io::Error::from_raw_os_error(libc::ESRCH))
}

/// Returns `None` if the file is empty.
fn read(path: &Path) -> io::Result<Option<RunVariables>> {
    let read = || variables(File::open(path)?);
    fault::retry("read", read).map_err(not_found_if_exited)
}

/// Searches the variables in a text of the form `NAME=value`, where a zero byte ends each variable. Returns `None` if
/// the text is empty.
pub fn variables(text: impl Read) -> io::Result<Option<RunVariables>> {
    let mut text = text.take(ENVIRON_BYTES_MAX);
    let (mut piece, mut variable) = ([0; PIECE_BYTES], Vec::new());
    let mut found = None;
    loop {
        let n_bytes = text.read(&mut piece)?;
        if n_bytes == 0 {
            break;
        }
        let found: &mut RunVariables = found.get_or_insert_default();
        for part in piece[..n_bytes].split_inclusive(|&byte| byte == 0) {
            let n_kept = part.len().min(VARIABLE_BYTES_MAX.saturating_sub(variable.len()));
            variable.extend_from_slice(&part[..n_kept]);
            if part.ends_with(&[0]) {
                found.take(&variable);
                variable.clear();
            }
        }
        if found.run.is_some() && found.job.is_some() {
            break;
        }
    }
    if let Some(found) = &mut found {
        found.take(&variable);
    }
    Ok(found)
}

impl RunVariables {
    /// Takes the value of a variable of evenkeel. The first variable of a name applies, as in getenv(3).
    fn take(&mut self, variable: &[u8]) {
        for (name, value) in [(RUN_VARIABLE, &mut self.run), (JOB_VARIABLE, &mut self.job)] {
            let rest = variable.strip_prefix(name.as_bytes());
            let Some(text) = rest.and_then(|rest| rest.strip_prefix(b"=")) else { continue };
            let text = std::str::from_utf8(text).ok().map(|text| text.trim_end_matches('\0'));
            *value = value.take().or(text.map(str::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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
        check(one.env_clear().env(JOB_VARIABLE, "b"), &|found| found.job() == Some("b"));
    }

    fn check(text: &[u8], run: Option<&str>, job: Option<&str>) {
        let found = variables(text).expect("a slice can be read").expect("a text");
        assert_eq!((found.run.as_deref(), found.job.as_deref()), (run, job));
    }

    #[test]
    fn the_first_variable_of_a_name_is_found_at_any_position() {
        check(b"A=1\0EVENKEEL_RUN=x y\0", Some("x y"), None);
        check(b"NOT_EVENKEEL_RUN=x\0EVENKEEL_RUNS=x\0EVENKEEL_JOB=", None, Some(""));
        check(b"EVENKEEL_RUN=x\0EVENKEEL_RUN=y\0EVENKEEL_JOB=z", Some("x"), Some("z"));
        for n_before in [PIECE_BYTES - 3, PIECE_BYTES, 5 << 20] {
            let text = [&vec![b'A'; n_before], &b"\0EVENKEEL_RUN=x\0EVENKEEL_JOB=b\0"[..]].concat();
            check(&text, Some("x"), Some("b"));
        }
        assert_eq!(variables(&b""[..]).expect("a slice can be read"), None);
    }

    /// Counts the bytes that are read.
    struct Counted<R>(R, u64);

    impl<R: Read> Read for &mut Counted<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n_bytes = self.0.read(buffer)?;
            self.1 += n_bytes as u64;
            Ok(n_bytes)
        }
    }

    #[test]
    fn of_an_endless_environment_only_a_bounded_part_is_read() {
        let check = |start: &str, byte, n_bytes_max: u64| {
            let mut endless = Counted(start.as_bytes().chain(io::repeat(byte)), 0);
            let found = variables(&mut endless).expect("it can be read").expect("a text");
            assert!(endless.1 <= n_bytes_max, "{}", endless.1);
            found
        };
        for byte in [0, b'A'] {
            assert_eq!(check("A=1\0", byte, ENVIRON_BYTES_MAX), RunVariables::default());
            let start = "EVENKEEL_RUN=x\0EVENKEEL_JOB=b\0";
            let found = check(start, byte, 2 * PIECE_BYTES as u64);
            assert_eq!((found.run.as_deref(), found.job.as_deref()), (Some("x"), Some("b")));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_search_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = variables(&*text);
        }
    }
}
