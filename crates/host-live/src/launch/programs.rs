//! Finds the programs and names the files of jobs.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::errors::kernel_message;

/// A program that cannot be started. The text contains the problem and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// There is no such file.
    #[error("{0}")]
    NotFound(String),
    /// The file cannot be executed.
    #[error("{0}")]
    NotExecutable(String),
}

impl From<ProgramError> for String {
    fn from(error: ProgramError) -> Self {
        error.to_string()
    }
}

/// Finds a program as a shell does: a name without a slash in `PATH`, and any other path relative to `dir`, also `.`
/// and `..`.
///
/// # Errors
/// There is no such program, or it may not be executed.
pub fn find_program(
    program: &Path,
    dir: &Path,
    search_path: &OsStr,
) -> Result<PathBuf, ProgramError> {
    let is_dots = matches!(program.as_os_str().as_bytes(), b"." | b"..");
    if is_dots || program.as_os_str().as_bytes().contains(&b'/') {
        let path = dir.join(program);
        return check_program(&path).map(|()| path);
    }
    let paths = std::env::split_paths(search_path).map(|entry| dir.join(entry).join(program));
    let mut not_executable = None;
    for path in paths {
        match check_program(&path) {
            Ok(()) => return Ok(path),
            Err(error) if path.exists() => not_executable = not_executable.or(Some(error)),
            Err(_) => {}
        }
    }
    let is_missing = || format!("program {} is not in PATH", program.display());
    Err(not_executable.unwrap_or_else(|| ProgramError::NotFound(is_missing())))
}

/// Checks that a file exists and may be executed.
pub(super) fn check_program(path: &Path) -> Result<(), ProgramError> {
    let path_text = path.display();
    let meta = std::fs::metadata(path).map_err(|error| {
        let text = format!("program {path_text}: {}", kernel_message(&error));
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ProgramError::NotFound(text),
            _ => ProgramError::NotExecutable(text),
        }
    })?;
    let problem = match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        _ if meta.is_dir() => "is a directory",
        _ if !meta.is_file() => "is not a regular file",
        Err(_) => "may not be executed by this user",
        Ok(()) => return Ok(()),
    };
    Err(ProgramError::NotExecutable(format!("program {path_text} {problem}")))
}

/// Returns the file name of a job. Different job names have different file names: a byte that is not allowed or that
/// would hide the file becomes `%` and two hexadecimal digits.
pub(super) fn file_name(job: &str) -> String {
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

/// Checks that a job can read or write a file of this type without a process at the other end.
pub(super) fn check_kind(meta: &Metadata) -> Result<(), &'static str> {
    match meta.is_file() || meta.file_type().is_char_device() {
        true => Ok(()),
        false => Err("this is neither a regular file nor a character device"),
    }
}

/// Returns a path that does not depend on the current directory.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { ".".as_ref() } else { path };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_jobs_have_different_files() {
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
        assert!(
            find("no-such-program", "/bin").is_err_and(|error| error.to_string().contains("PATH"))
        );
        assert!(find("/etc/passwd", "").is_err_and(|error| error.to_string().contains("executed")));
        for dir in ["/etc", ".", ".."] {
            assert!(find(dir, "/bin").is_err_and(|error| error.to_string().contains("directory")));
        }
    }
}
