//! An open output directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, linkat, openat, renameat, statat, unlinkat,
};

use crate::error;
use crate::resolve::{self, Absent};

/// Mode of a new file before the umask.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// An open directory. All operations take a single name, and none follows a symbolic link.
#[derive(Clone, Debug)]
pub struct OutputDir {
    path: PathBuf,
    file: Arc<OwnedFd>,
    uid: u32,
}

/// Whether an existing directory of another user is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignDir {
    /// The directory is accepted. Its owner can remove and replace files, but evenkeel follows no link in it.
    Accept,
    /// The directory is rejected.
    Reject,
}

impl OutputDir {
    /// Opens a directory. Creates the directory and its parents if they do not exist.
    ///
    /// # Errors
    /// The directory cannot be opened or created, or belongs to another user.
    pub fn create(path: &Path, foreign: ForeignDir) -> io::Result<Self> {
        OutputDir::new(path.to_owned(), resolve::dir(path, Absent::Create)?)?.checked(foreign)
    }

    /// Opens the existing directory of a file that must not exist, and returns the name of the file. The name can be
    /// that of a link. The directory may belong to another user.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn of_new_file(path: &Path) -> io::Result<(Self, OsString)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(error(io::ErrorKind::IsADirectory, "this is a directory"));
        };
        let file = resolve::dir(parent, Absent::Fail)?;
        Ok((OutputDir::new(parent.to_owned(), file)?, name.to_owned()))
    }

    /// Opens the existing directory of a file, and returns the name of the file. If the path is a link, the result is
    /// the directory and the name of its target. The directory may belong to another user.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let (file, name) = resolve::parent(path)?;
        let shown = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok((OutputDir::new(shown, file)?, name))
    }

    fn new(path: PathBuf, file: OwnedFd) -> io::Result<Self> {
        let uid = rustix::fs::fstat(&file)?.st_uid;
        Ok(OutputDir { path, file: Arc::new(file), uid })
    }

    fn checked(self, foreign: ForeignDir) -> io::Result<Self> {
        match foreign == ForeignDir::Accept || self.is_own() {
            true => Ok(self),
            false => Err(error(
                io::ErrorKind::PermissionDenied,
                &format!(
                    "the directory belongs to another user (UID {}); choose another one, or add \
                     --force-foreign-output",
                    self.uid
                ),
            )),
        }
    }

    fn is_own(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    /// Opens or creates a directory in this directory. An existing directory must have the same owner as this directory
    /// or belong to this user.
    ///
    /// # Errors
    /// The directory cannot be opened or created, or has another owner.
    pub fn subdir(&self, name: &str) -> io::Result<Self> {
        let file = resolve::enter(&self.file, name.as_ref(), Absent::Create);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => {
                error(source.kind(), "this is not a directory; remove it")
            }
            _ => source,
        })?;
        let below = OutputDir::new(self.path.join(name), file)?;
        let foreign = if below.uid == self.uid { ForeignDir::Accept } else { ForeignDir::Reject };
        below.checked(foreign)
    }

    /// Creates a directory that must not exist.
    ///
    /// # Errors
    /// The directory exists or cannot be created.
    pub fn create_subdir(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&*self.file, name, Mode::from_raw_mode(0o777))?;
        self.subdir(name)
    }

    /// Returns the path for messages. No operation uses it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether an entry exists. A dangling link exists.
    pub fn contains(&self, name: impl AsRef<OsStr>) -> bool {
        self.stat(name).is_ok()
    }

    /// Returns the names of all entries.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(self.anchor())?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Removes a directory in this directory with its content. Succeeds if the directory does not exist.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub fn remove_subdir_all(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(self.anchor().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns a path of this directory that no other user can redirect.
    fn anchor(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Creates a file that must not exist.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Creates an empty file with a mode before the umask. Removes an earlier file or link with this name.
    fn create_in_place_of(&self, name: impl AsRef<OsStr>, mode: Mode) -> io::Result<File> {
        match self.remove(name.as_ref()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.open_with(name.as_ref(), flags, mode)
    }

    /// Returns the attributes of an entry, also of a link.
    pub(crate) fn stat(&self, name: impl AsRef<OsStr>) -> io::Result<Stat> {
        Ok(statat(&*self.file, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens a file for reading.
    pub(crate) fn open_for_reading(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open(name, OFlags::RDONLY)
    }

    /// Opens a file for reading and writing, and creates it if it does not exist. The content is kept.
    ///
    /// # Errors
    /// The file cannot be opened, is not a regular file, or is a file with another name in a directory of another user.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.checked_file(name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Opens a file for appending, and creates it if it does not exist.
    ///
    /// # Errors
    /// See [`OutputDir::open_or_create`].
    pub fn append(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.checked_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)
    }

    /// Creates an empty file. Replaces a regular file.
    ///
    /// # Errors
    /// The file cannot be created, or an entry with this name is not a regular file.
    pub fn recreate(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.check_regular(name.as_ref())?;
        self.create_temporary(name)
    }

    /// Creates an empty file with a name that only evenkeel uses. Replaces an earlier file, and a link that another
    /// user created to prevent the write; the target of the link is unchanged.
    ///
    /// # Errors
    /// The file cannot be created, or an entry with this name is a directory.
    pub fn create_temporary(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.create_in_place_of(name, MODE)
    }

    /// Writes a complete file, or replaces a regular file atomically.
    ///
    /// # Errors
    /// The file cannot be written, or an entry with this name is not a regular file. An existing file is unchanged.
    pub fn replace(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        self.replace_with_mode(name.as_ref(), bytes, MODE)
    }

    /// Like [`OutputDir::replace`]; only the owner may write the new file.
    pub(crate) fn replace_unshared(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        self.replace_with_mode(name.as_ref(), bytes, MODE.difference(Mode::WGRP | Mode::WOTH))
    }

    fn replace_with_mode(&self, name: &OsStr, bytes: &[u8], mode: Mode) -> io::Result<()> {
        self.check_regular(name)?;
        self.replace_after(name, mode, |mut file| file.write_all(bytes))
    }

    /// Writes a new file with this mode, before the umask, and gives it the name if that succeeds. Other users cannot
    /// create an entry with its temporary name in advance, because the name is random.
    pub(crate) fn replace_after(
        &self,
        name: &OsStr,
        mode: Mode,
        write: impl FnOnce(File) -> io::Result<()>,
    ) -> io::Result<()> {
        let temporary = format!(".evenkeel-{:016x}.new", RandomState::new().hash_one(0));
        let written = self
            .create_in_place_of(&temporary, mode)
            .and_then(write)
            .and_then(|()| self.rename(&temporary, name));
        written.inspect_err(|_| drop(self.remove(&temporary)))
    }

    /// Checks that an entry is a regular file or does not exist.
    ///
    /// # Errors
    /// The entry is another kind of file, for example a link.
    pub fn check_regular(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match self.stat(name) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                Err(not_regular())
            }
            _ => Ok(()),
        }
    }

    /// Renames a file. Replaces a file with the new name.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&*self.file, from.as_ref(), &*self.file, to.as_ref())?)
    }

    /// Gives a file a second name, which must not exist.
    ///
    /// # Errors
    /// The file system does not support hard links, or the name exists.
    pub fn link(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(linkat(&*self.file, from.as_ref(), &*self.file, to.as_ref(), AtFlags::empty())?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&*self.file, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub fn remove_subdir(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&*self.file, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens a file and checks it after the open, so that it cannot be replaced in between.
    fn checked_file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
        let file = self.open(name, flags)?;
        let found = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_nlink <= 1 || self.is_own() => Ok(file),
            FileType::RegularFile => Err(error(
                io::ErrorKind::InvalidInput,
                "this file has another name (hard link); remove it",
            )),
            _ => Err(not_regular()),
        }
    }

    /// Opens a file. The open does not wait for the other end of a FIFO.
    fn open(&self, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
        self.open_with(name.as_ref(), flags, MODE)
    }

    fn open_with(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&*self.file, name, flags, mode) {
            // ELOOP: a link. ENXIO: a FIFO without a reader, or a socket.
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => Err(not_regular()),
            opened => Ok(opened?.into()),
        }
    }
}

pub(crate) fn not_regular() -> io::Error {
    error(io::ErrorKind::InvalidInput, "this is not a regular file; remove it")
}

#[cfg(test)]
mod tests;
