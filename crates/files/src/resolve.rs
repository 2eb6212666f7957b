//! Resolution of a path to a directory descriptor, one component at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::error;

/// Maximum number of links in a path, as in the kernel.
const N_LINKS_MAX: u32 = 40;

/// Treatment of a directory of a path that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    Create,
    Fail,
}

/// Opens a directory without any permission but the search permission (O_PATH).
pub(crate) fn dir(path: &Path, absent: Absent) -> io::Result<OwnedFd> {
    Walk::new(path)?.all_dirs(absent)
}

/// Opens the directory of a file, and returns the name of the file in it. The name is not a link that would be followed:
/// a followed link is replaced by its target.
pub(crate) fn parent(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let mut walk = Walk::new(path)?;
    loop {
        let Some(last) = walk.rest.pop_back() else {
            return Err(error(io::ErrorKind::IsADirectory, "this is a directory"));
        };
        walk.enter_rest(Absent::Fail)?;
        match walk.followed_link(&last)? {
            Some(target) => walk.push(&target)?,
            None if last == ".." => {
                return Err(error(io::ErrorKind::IsADirectory, "this is a directory"));
            }
            None => return Ok((walk.at, last)),
        }
    }
}

/// A directory, and the components of the path that follow.
struct Walk {
    at: OwnedFd,
    rest: VecDeque<OsString>,
    n_links: u32,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        let mut walk = Walk { at: open_dir(CWD, ".")?, rest: VecDeque::new(), n_links: 0 };
        walk.push(path)?;
        Ok(walk)
    }

    /// Adds the components of a path before the remaining components. An absolute path starts at the root.
    fn push(&mut self, path: &Path) -> io::Result<()> {
        if path.is_absolute() {
            self.at = open_dir(CWD, "/")?;
        }
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::ParentDir => Some(OsStr::new("..")),
            _ => None,
        });
        for name in names.collect::<Vec<_>>().into_iter().rev() {
            self.rest.push_front(name.to_owned());
        }
        Ok(())
    }

    fn all_dirs(mut self, absent: Absent) -> io::Result<OwnedFd> {
        self.enter_rest(absent)?;
        Ok(self.at)
    }

    fn enter_rest(&mut self, absent: Absent) -> io::Result<()> {
        while let Some(name) = self.rest.pop_front() {
            match self.followed_link(&name)? {
                Some(target) => self.push(&target)?,
                None => self.at = enter(&self.at, &name, absent)?,
            }
        }
        Ok(())
    }

    /// Returns the target of a link in the current directory; `None` if the name is not a link.
    fn followed_link(&mut self, name: &OsStr) -> io::Result<Option<PathBuf>> {
        let found = match statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            return Ok(None);
        }
        // The link itself is opened: its owner and its target then belong to the same link.
        let link = openat(
            &self.at,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let uid = rustix::fs::fstat(&link)?.st_uid;
        if !is_followed(uid, rustix::process::geteuid().as_raw()) {
            let name = name.to_string_lossy();
            let message =
                format!("{name} is a symbolic link of another user; use the path of its target");
            return Err(error(io::ErrorKind::PermissionDenied, &message));
        }
        self.n_links += 1;
        if N_LINKS_MAX < self.n_links {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&link, "", Vec::new())?;
        Ok(Some(OsString::from_vec(target.into_bytes()).into()))
    }
}

/// Returns whether a link with this owner is followed.
fn is_followed(owner: u32, euid: u32) -> bool {
    euid != 0 || owner == 0
}

/// Opens a directory by its name. A link is not followed.
pub(crate) fn enter(at: &OwnedFd, name: &OsStr, absent: Absent) -> io::Result<OwnedFd> {
    match open_dir(at, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && absent == Absent::Create => {
            match mkdirat(at, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                Ok(()) | Err(Errno::EXIST) => open_dir(at, name),
                Err(error) => Err(error.into()),
            }
        }
        opened => opened,
    }
}

fn open_dir(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_follows_only_links_of_root() {
        assert!(is_followed(0, 0) && is_followed(7, 7) && is_followed(8, 7) && !is_followed(7, 0));
    }

    #[test]
    fn a_chain_of_links_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).expect("a link");
        for path in ["loop", "loop/x"] {
            let found = parent(&dir.path().join(path)).expect_err("a loop");
            assert_eq!(found.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        }
    }

    #[test]
    fn a_path_without_a_file_name_is_a_directory() {
        for path in ["/", ".", "", "..", "a/.."] {
            assert!(parent(Path::new(path)).is_err(), "{path}");
        }
    }
}
