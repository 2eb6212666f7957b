//! The environment that a process was started with, and whether it has one yet.
//!
//! In the middle of an exec the old environment is gone before the new one can be read, for some
//! microseconds of CPU time. That looks like a process that was given none at all (`env -i`), but for
//! one thing: `/proc/PID/stat` tells where the environment lies, and that is nowhere then.

use std::io;
use std::path::Path;

use crate::procfs;

/// What a process has in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environ {
    /// These variables, `NAME=value` with a zero byte after each.
    Has(Vec<u8>),
    /// It was started without any, or is the kernel's own.
    Empty,
    /// It is becoming another program just now: ask again.
    InExec,
}

impl Environ {
    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        match self {
            Environ::Has(text) => procfs::parse_environ(text, name),
            Environ::Empty | Environ::InExec => None,
        }
    }
}

/// The environment of a process. An error of the kind `NotFound` says that it is gone.
pub fn environ(root: &Path, pid: u32) -> io::Result<Environ> {
    let first = procfs::environ(root, pid)?;
    if !first.is_empty() {
        return Ok(Environ::Has(first));
    }
    let text = procfs::stat_line(root, pid)?;
    if is_in_exec(&text) {
        return Ok(Environ::InExec);
    }
    // The exec may have been over between the two looks.
    let again = procfs::environ(root, pid)?;
    Ok(if again.is_empty() { Environ::Empty } else { Environ::Has(again) })
}

/// Whether a line of `/proc/PID/stat` is that of a living program whose environment has no place yet.
/// Numbered as in proc(5): the state is field 3, the flags 9, the end of the environment 51.
fn is_in_exec(line: &[u8]) -> bool {
    let close = line.iter().rposition(|&byte| byte == b')').map_or(0, |at| at + 1);
    let Ok(rest) = std::str::from_utf8(&line[close..]) else { return false };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    let lives = fields.first().is_some_and(|state| *state != "Z" && *state != "X");
    let is_kernel_thread = number(9).is_none_or(|flags| flags & procfs::PF_KTHREAD != 0);
    lives && !is_kernel_thread && number(51) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn check(command: &mut Command, judge: impl Fn(&Environ) -> bool) {
        let mut child: Child = command.spawn().expect("a program of every system");
        let found = loop {
            match environ(Path::new("/"), child.id()).expect("it is not waited for") {
                Environ::InExec => std::thread::yield_now(),
                found => break found,
            }
        };
        child.kill().expect("our child");
        child.wait().expect("our child");
        assert!(judge(&found), "{found:?}");
    }

    #[test]
    fn a_program_without_any_environment_is_not_taken_for_one_in_an_exec() {
        check(Command::new("sleep").arg("60").env_clear(), |found| *found == Environ::Empty);
        let named = |found: &Environ| found.variable("A") == Some("b");
        check(Command::new("sleep").arg("60").env_clear().env("A", "b"), named);
    }

    #[test]
    fn only_a_living_program_without_a_place_for_its_environment_is_in_an_exec() {
        let line = |state: &str, flags: u64, end: u64| {
            let zeros = |n: usize| "0 ".repeat(n);
            format!("7 (a) b) {state} {}{flags} {}{end} 0\n", zeros(5), zeros(41))
        };
        let check = |line: String, expected| assert_eq!(is_in_exec(line.as_bytes()), expected);
        check(line("R", 0, 0), true);
        check(line("R", 0, 4096), false);
        check(line("Z", 0, 0), false);
        check(line("S", procfs::PF_KTHREAD, 0), false);
        check("no line".to_owned(), false);
    }
}
