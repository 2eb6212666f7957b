//! The directory of undo records, to which only its owner can write.
//!
//! The directory is `/run/evenkeel` for root. For other users it is `$XDG_RUNTIME_DIR/evenkeel`, or
//! `/run/user/UID/evenkeel` if that variable is not set, or a private directory in `/tmp`. Owner and mode are checked,
//! because another user could have created the directory. All of these directories are empty after a boot.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use super::UndoError;
use crate::fault;

/// Environment variable that replaces the directory.
pub const STATE_VARIABLE: &str = "EVENKEEL_STATE_DIR";

/// Suffix of record files.
pub(super) const SUFFIX: &str = ".undo";
/// Suffix of a rewritten file before it replaces the record.
pub(super) const TEMPORARY_SUFFIX: &str = ".undo.new";

/// An open directory whose owner and mode were checked.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) path: PathBuf,
    pub(crate) file: OwnedFd,
}

/// Returns the directories for records of this user, the preferred one first.
pub fn dirs() -> Vec<PathBuf> {
    candidates(|name| std::env::var_os(name), rustix::process::geteuid().as_raw())
}

/// Returns the fallback directory if another user created it. It contains no record of this user.
pub fn planted_dir() -> Option<PathBuf> {
    let fallback = dirs().into_iter().skip(1).last()?;
    belongs_to_another_user(&fallback).then_some(fallback)
}

fn belongs_to_another_user(path: &Path) -> bool {
    // No fault injection: if lstat(2) fails, the directory does not count as created by another user, and the error of
    // `Dir::open` is returned.
    let owner = rustix::fs::lstat(path).map(|stat| stat.st_uid);
    owner.is_ok_and(|uid| uid != rustix::process::geteuid().as_raw())
}

/// Rejects a relative path in the variable, because a run in another working directory would not find the records.
pub fn check_variable() -> Result<(), UndoError> {
    let named = std::env::var_os(STATE_VARIABLE).map(PathBuf::from);
    match named.filter(|path| !path.as_os_str().is_empty() && !path.is_absolute()) {
        Some(path) => Err(UndoError::Relative { path }),
        None => Ok(()),
    }
}

fn candidates(variable: impl Fn(&str) -> Option<OsString>, uid: u32) -> Vec<PathBuf> {
    let named = |name| variable(name).filter(|value| Path::new(value).is_absolute());
    if let Some(dir) = named(STATE_VARIABLE) {
        return vec![dir.into()];
    }
    let mut dirs = Vec::new();
    if uid == 0 {
        dirs.push(PathBuf::from("/run/evenkeel"));
    } else {
        let usual = PathBuf::from(format!("/run/user/{uid}"));
        let runtime = named("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| *path != usual);
        dirs.extend(runtime.into_iter().chain([usual]).map(|path| path.join("evenkeel")));
    }
    dirs.push(PathBuf::from(format!("/tmp/evenkeel-{uid}")));
    dirs
}

impl Dir {
    /// Opens the first usable directory, which is created if it does not exist.
    pub(crate) fn for_writing(directories: &[PathBuf]) -> Result<Self, UndoError> {
        let mut first_error = None;
        for path in directories {
            let mkdir = || match rustix::fs::mkdir(path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            };
            let made = fault::retry("mkdir", mkdir)
                .map_err(|error| unusable(path, error))
                .and_then(|()| Dir::open(path));
            match made {
                Ok(dir) => return Ok(dir),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| {
            unusable(Path::new("(none)"), io::Error::from(io::ErrorKind::NotFound))
        }))
    }

    /// Opens a directory to read records. Returns `None` if the directory does not exist. Another user can have created
    /// a fallback in `/tmp`. Such a directory contains no record of this user, because evenkeel writes only to
    /// directories of its user. The content of such a directory is not trusted.
    pub(crate) fn for_reading(path: &Path, is_fallback: bool) -> Result<Option<Self>, UndoError> {
        let is_of_another_user = || is_fallback && belongs_to_another_user(path);
        match Dir::open(path) {
            Ok(dir) => Ok(Some(dir)),
            Err(UndoError::Dir { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(_) if is_of_another_user() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens an existing directory. A symbolic link is not followed, and no other user may have access.
    pub(crate) fn open(path: &Path) -> Result<Self, UndoError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::open(path, flags, Mode::empty())?);
        let file = fault::retry("open", open).map_err(|error| unusable(path, error))?;
        let stat = fault::retry("fstat", || Ok(rustix::fs::fstat(&file)?))
            .map_err(|error| unusable(path, error))?;
        let path = path.to_owned();
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(UndoError::OtherOwner { path });
        }
        if stat.st_mode & 0o077 != 0 {
            return Err(UndoError::OpenToOthers { path, mode: stat.st_mode & 0o7777 });
        }
        Ok(Dir { path, file })
    }
}

impl Dir {
    /// Lists the names in the directory, sorted.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let list = || std::fs::read_dir(&self.path)?.collect::<io::Result<Vec<_>>>();
        let entries = fault::retry("getdents64", list)?;
        let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Creates a file that only its owner can read. exec closes the descriptor, so that jobs do not hold a lock of the
    /// file.
    pub(crate) fn create(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let flags = flags | OFlags::NONBLOCK; // The open of a FIFO fails instead of waiting for a reader.
        let mode = Mode::RUSR | Mode::WUSR;
        fault::retry("openat", || Ok(rustix::fs::openat(&self.file, name, flags, mode)?))
    }

    /// Opens a regular file. The open does not wait for the writer of a FIFO and follows no symbolic link.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = || Ok(rustix::fs::openat(&self.file, name, flags, Mode::empty())?);
        let file = fault::retry("openat", open).map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => io::Error::other("this is a symbolic link; remove it"),
            _ => error,
        })?;
        let mode = fault::retry("fstat", || Ok(rustix::fs::fstat(&file)?))?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Ok(file),
            _ => Err(io::Error::other("this is not a regular file; remove it")),
        }
    }

    /// Renames a file. Replaces a file that has the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let at = &self.file;
        fault::retry("renameat", || Ok(rustix::fs::renameat(at, from, at, to)?))
    }

    /// Removes a file.
    pub(crate) fn unlink(&self, name: &str) -> io::Result<()> {
        fault::retry("unlinkat", || Ok(rustix::fs::unlinkat(&self.file, name, AtFlags::empty())?))
    }
}

/// Locks a file. Returns false if another process has locked it.
pub(super) fn lock(file: &OwnedFd) -> io::Result<bool> {
    fault::retry("flock", || match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    })
}

/// Returns whether an open file still has a name.
pub(super) fn is_linked(file: &OwnedFd) -> io::Result<bool> {
    Ok(fault::retry("fstat", || Ok(rustix::fs::fstat(file)?))?.st_nlink != 0)
}

fn unusable(path: &Path, source: io::Error) -> UndoError {
    UndoError::Dir { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn check(uid: u32, variables: &[(&str, &str)], expected: &[&str]) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        let found = candidates(variable, uid);
        assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
    }

    #[test]
    fn root_and_users_with_or_without_a_runtime_directory_have_a_directory() {
        check(0, &[("XDG_RUNTIME_DIR", "/run/user/0")], &["/run/evenkeel", "/tmp/evenkeel-0"]);
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/7");
        let usual = ["/run/user/7/evenkeel", "/tmp/evenkeel-7"];
        check(7, &[runtime], &usual);
        check(7, &[], &usual);
        let (runtime_dir, usual) =
            (("XDG_RUNTIME_DIR", "/x"), [&["/x/evenkeel"], &usual[..]].concat());
        check(7, &[runtime_dir], &usual);
        check(7, &[runtime, (STATE_VARIABLE, "/x")], &["/x"]);
    }

    #[test]
    fn a_directory_with_access_for_others_and_a_symbolic_link_are_rejected() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let directory = |name: &str| test_dir.path().join(name);
        let open = |name: &str| Dir::open(&directory(name)).map(|_| ()).map_err(|e| e.to_string());
        Dir::for_writing(&[directory("new")]).expect("a new directory");
        assert_eq!(
            fs::metadata(directory("new")).expect("made").permissions().mode() & 0o777,
            0o700
        );
        fs::create_dir(directory("wide")).expect("a directory");
        fs::set_permissions(directory("wide"), fs::Permissions::from_mode(0o755))
            .expect("the directory belongs to the test");
        let error = open("wide").expect_err("access for others");
        assert!(error.contains("mode 0755") && error.contains("chmod 700"), "{error}");
        symlink(directory("new"), directory("link")).expect("a link");
        assert!(open("link").is_err());
        assert!(open("absent").expect_err("the directory does not exist").contains(STATE_VARIABLE));
    }

    #[test]
    fn a_fifo_is_rejected_without_waiting() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let dir = Dir::for_writing(&[test_dir.path().join("new")]).expect("a directory");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(&dir.file, "fifo", mode).expect("a FIFO");
        let error = dir.open_file("fifo").expect_err("a FIFO");
        assert!(error.to_string().contains("not a regular file"), "{error}");
        assert!(dir.create("fifo", OFlags::TRUNC).is_err());
    }

    #[test]
    fn a_fallback_dir_of_another_user_is_no_error_when_records_are_read() {
        if rustix::process::geteuid().as_raw() != 0 {
            return println!("not run: only root can change the owner of a directory");
        }
        let test_dir = tempfile::tempdir().expect("a directory");
        let (own_dir, planted) = (test_dir.path().join("own"), test_dir.path().join("planted"));
        Dir::for_writing(std::slice::from_ref(&own_dir)).expect("a directory");
        fs::create_dir(&planted).expect("a directory");
        std::os::unix::fs::chown(&planted, Some(65534), None).expect("root may");
        let link = test_dir.path().join("link");
        symlink(&own_dir, &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(65534), None).expect("root may");
        for path in [&planted, &link] {
            assert!(Dir::for_reading(path, true).expect("no records of this user").is_none());
            assert!(Dir::for_reading(path, false).is_err(), "the user named this dir");
        }
        assert!(Dir::for_reading(&own_dir, true).expect("a directory").is_some());
    }

    #[test]
    fn if_the_first_dir_cannot_be_created_the_next_one_is_used() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let (no, yes) = (test_dir.path().join("no/such/parent"), test_dir.path().join("yes"));
        assert_eq!(Dir::for_writing(&[no, yes.clone()]).expect("the second directory").path, yes);
    }
}
