//! An existing file whose content is replaced, while its owner, mode and extended attributes are kept: a program.
//!
//! The file is opened once, and all checks use the descriptor. The new content is a new file, which is renamed over the
//! old one, so that running processes keep the old content and no reader reads half of it. A hard link would keep the
//! old content, and is therefore rejected.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Stat, StatxAttributes, StatxFlags, Uid, XattrFlags, fchmod,
    fchown, fgetxattr, flistxattr, fsetxattr, fstat, statx,
};

use crate::dir::not_regular;
use crate::{OutputDir, error};

/// Size limits of the kernel for the names of all extended attributes of a file, and for one value (xattr(7)).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// An open regular file in an open directory.
#[derive(Debug)]
pub struct ExistingFile {
    dir: OutputDir,
    name: OsString,
    file: File,
    stat: Stat,
}

impl ExistingFile {
    /// Opens a file for reading. Links are followed by the rules of [`crate`]; then the file is that of the target.
    ///
    /// # Errors
    /// The file cannot be opened or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (dir, name) = OutputDir::of_file(path)?;
        // The remedy of `not_regular` is for entries beside a program.
        let plain = |source: io::Error| match source.kind() {
            io::ErrorKind::InvalidInput => error(source.kind(), "this is not a regular file"),
            _ => source,
        };
        ExistingFile::open_in(&dir, name).map_err(plain)
    }

    /// Returns an open file with the directory in which this path is. The path is not opened.
    ///
    /// # Errors
    /// The path is that of another file: the file was replaced, or the path is of another mount namespace.
    pub fn from_open(file: File, path: &Path) -> io::Result<Self> {
        let (dir, name) = OutputDir::of_file(path)?;
        let stat = fstat(&file)?;
        let found = dir.stat(&name)?;
        match (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino) {
            true => Ok(ExistingFile { dir, name, file, stat }),
            false => Err(error(io::ErrorKind::NotFound, "another file has this path")),
        }
    }

    fn open_in(dir: &OutputDir, name: OsString) -> io::Result<Self> {
        let file = dir.open_for_reading(&name)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            true => Ok(ExistingFile { dir: dir.clone(), name, file, stat }),
            false => Err(not_regular()),
        }
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether the file has the set-user-ID or the set-group-ID bit.
    pub fn is_set_id(&self) -> bool {
        Mode::from_raw_mode(self.stat.st_mode).intersects(Mode::SUID | Mode::SGID)
    }

    /// Returns the directory of the file, and the name of a file beside it.
    pub fn beside(&self, suffix: &str) -> (&OutputDir, OsString) {
        let mut name = self.name.clone();
        name.push(suffix);
        (&self.dir, name)
    }

    /// Opens the file with this suffix in the same directory; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be opened, is not a regular file, or is a link.
    pub fn open_beside(&self, suffix: &str) -> io::Result<Option<Self>> {
        let (dir, name) = self.beside(suffix);
        match ExistingFile::open_in(dir, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Checks that only root and the owner of another file could write this file.
    ///
    /// # Errors
    /// The reason, with the remedy.
    pub fn check_writers(&self, other: &ExistingFile) -> io::Result<()> {
        let owner = self.stat.st_uid;
        let reason = if owner != 0 && owner != other.stat.st_uid {
            "it belongs to another user than its program; remove it, or use chown"
        } else if Mode::from_raw_mode(self.stat.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
            "other users can write it; use chmod go-w"
        } else {
            return Ok(());
        };
        Err(error(io::ErrorKind::PermissionDenied, reason))
    }

    /// Writes the file with this suffix in the same directory, or replaces it atomically. Only its owner may write the
    /// new file.
    ///
    /// # Errors
    /// The file cannot be written. An existing file is unchanged.
    pub fn replace_beside(&self, suffix: &str, bytes: &[u8]) -> io::Result<()> {
        let (dir, name) = self.beside(suffix);
        dir.replace_unshared(name, bytes)
    }

    /// Checks that this user is root or the owner of the file.
    ///
    /// # Errors
    /// The file belongs to another user.
    pub fn check_own(&self) -> io::Result<()> {
        let user = rustix::process::geteuid();
        match user.is_root() || user.as_raw() == self.stat.st_uid {
            true => Ok(()),
            false => Err(error(io::ErrorKind::PermissionDenied, "it belongs to another user")),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or is larger than `n_bytes_max`.
    pub fn read(&self, n_bytes_max: u64) -> io::Result<Vec<u8>> {
        let too_large = || error(io::ErrorKind::FileTooLarge, "the file is too large");
        if n_bytes_max < self.stat.st_size as u64 {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(self.stat.st_size as usize);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        file.take(n_bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if n_bytes_max < bytes.len() as u64 { Err(too_large()) } else { Ok(bytes) }
    }

    /// Checks that the content may be replaced: this user owns the file or is root, and the file has one name, neither a
    /// set-user-ID nor a set-group-ID bit, and no attribute with which the kernel rejects the rename.
    ///
    /// # Errors
    /// The reason.
    pub fn check_replaceable(&self) -> io::Result<()> {
        self.check_own()?;
        let reason = if self.is_set_id() {
            "it has the set-user-ID or set-group-ID bit"
        } else if 1 < self.stat.st_nlink {
            "it has more than one hard link"
        } else if let Some(reason) = self.fixed_reason() {
            reason
        } else {
            return Ok(());
        };
        Err(error(io::ErrorKind::PermissionDenied, reason))
    }

    /// Returns the reason why the kernel would reject a new file with this name. An older kernel does not report all
    /// attributes; the replacement then fails.
    fn fixed_reason(&self) -> Option<&'static str> {
        let flags = AtFlags::EMPTY_PATH;
        let attributes = statx(&self.file, c"", flags, StatxFlags::empty()).ok()?.stx_attributes;
        if attributes.contains(StatxAttributes::IMMUTABLE) {
            Some("it is immutable (chattr +i)")
        } else if attributes.contains(StatxAttributes::APPEND) {
            Some("it is append-only (chattr +a)")
        } else if attributes.contains(StatxAttributes::MOUNT_ROOT) {
            Some("it is a mount point")
        } else {
            None
        }
    }

    /// Replaces the content atomically. Keeps owner, group, mode and extended attributes (capabilities, ACLs, labels).
    ///
    /// # Errors
    /// The file must not be replaced, was replaced or written since it was opened, or the new file cannot be written.
    /// The file is unchanged then.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.check_replaceable()?;
        self.dir.replace_after(&self.name, Mode::RUSR | Mode::WUSR, |file| {
            self.write_copy(file, bytes)?;
            self.check_unchanged()
        })
    }

    /// Writes the new content. The owner is changed first, because this removes capabilities and set-ID bits.
    fn write_copy(&self, mut new: File, bytes: &[u8]) -> io::Result<()> {
        new.write_all(bytes)?;
        let created = fstat(&new)?;
        if (created.st_uid, created.st_gid) != (self.stat.st_uid, self.stat.st_gid) {
            let (uid, gid) = (Uid::from_raw(self.stat.st_uid), Gid::from_raw(self.stat.st_gid));
            fchown(&new, Some(uid), Some(gid))?;
        }
        fchmod(&new, Mode::from_raw_mode(self.stat.st_mode))?;
        self.copy_attributes(&new)?;
        new.sync_all()
    }

    fn copy_attributes(&self, new: &File) -> io::Result<()> {
        let mut names = Vec::with_capacity(XATTR_BYTES_MAX);
        match flistxattr(&self.file, rustix::buffer::spare_capacity(&mut names)) {
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()), // The file system has none.
            listed => listed?,
        };
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let mut value = Vec::with_capacity(XATTR_BYTES_MAX);
            fgetxattr(&self.file, name, rustix::buffer::spare_capacity(&mut value))?;
            // The kernel gives a new file some attributes, such as a label.
            let mut present = Vec::with_capacity(XATTR_BYTES_MAX);
            let is_same = fgetxattr(new, name, rustix::buffer::spare_capacity(&mut present))
                .is_ok()
                && present == value;
            if !is_same {
                fsetxattr(new, name, &value, XattrFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Checks that the path has this file with its content and attributes since the open.
    ///
    /// # Errors
    /// The file was replaced or written, or it cannot be read.
    pub fn check_unchanged(&self) -> io::Result<()> {
        let now = fstat(self.dir.open_for_reading(&self.name)?)?;
        match version_of(&now) == version_of(&self.stat) {
            true => Ok(()),
            false => Err(error(io::ErrorKind::Other, "it changed meanwhile; try again")),
        }
    }
}

/// Device and inode of a file, its size, and the times of the last change of its content and of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileVersion([i128; 7]);

impl FileVersion {
    /// Returns the version of an open file.
    ///
    /// # Errors
    /// The file system cannot be read.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(version_of(&fstat(file)?))
    }
}

fn version_of(stat: &Stat) -> FileVersion {
    // The types of these fields depend on the architecture.
    FileVersion([
        i128::from(stat.st_dev),
        i128::from(stat.st_ino),
        i128::from(stat.st_size),
        i128::from(stat.st_mtime),
        i128::from(stat.st_mtime_nsec),
        i128::from(stat.st_ctime),
        i128::from(stat.st_ctime_nsec),
    ])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use rustix::fs::IFlags;

    use super::*;

    fn program(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("prog");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).expect("permitted");
        path
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    fn check_content(path: &Path, content: &str) {
        assert_eq!(fs::read_to_string(path).expect("a file"), content);
        let dir = path.parent().expect("a directory");
        assert_eq!(fs::read_dir(dir).expect("a directory").count(), 1, "no temporary file");
    }

    #[test]
    fn mode_owner_and_attributes_are_kept_and_the_old_content_stays_for_its_readers() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        if is_root() {
            chown(&path, Some(1234), Some(2345)).expect("root");
        }
        let attributes = [("user.note", b"kept".as_slice())];
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]; // cap_net_bind_service
        let capability = is_root().then_some(("security.capability", capability.as_slice()));
        let has_attributes = attributes.into_iter().chain(capability).all(|(name, value)| {
            rustix::fs::setxattr(&path, name, value, XattrFlags::empty()).is_ok()
        });
        let before = fs::metadata(&path).expect("a file");
        let file = ExistingFile::open(&path).expect("it exists");
        file.replace(b"new").expect("it is replaceable");
        check_content(&path, "new");
        for _ in 0..2 {
            assert_eq!(file.read(3).expect("still open"), b"old");
        }
        let after = fs::metadata(&path).expect("a file");
        let kept = |meta: &fs::Metadata| (meta.mode(), meta.uid(), meta.gid());
        assert_eq!(kept(&after), kept(&before));
        for (name, value) in attributes.into_iter().chain(capability).filter(|_| has_attributes) {
            let mut found = Vec::with_capacity(100);
            rustix::fs::getxattr(&path, name, rustix::buffer::spare_capacity(&mut found))
                .expect(name);
            assert_eq!(found, value, "{name}");
        }
    }

    #[test]
    fn set_id_programs_and_hard_links_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        for (mode, is_set_id) in [(0o4755, true), (0o2755, true), (0o755, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permitted");
            let file = ExistingFile::open(&path).expect("it exists");
            assert_eq!(file.replace(b"new").is_err(), is_set_id, "{mode:o}");
        }
        check_content(&path, "new");
        let elsewhere = tempfile::tempdir_in(dir.path().parent().expect("a parent")).expect("one");
        fs::hard_link(&path, elsewhere.path().join("other")).expect("a link");
        let file = ExistingFile::open(&path).expect("it exists");
        let error = file.replace(b"newer").expect_err("two names").to_string();
        assert!(error.contains("hard link"), "{error}");
        check_content(&path, "new");
    }

    #[test]
    fn an_immutable_and_an_append_only_file_are_rejected_before_the_replacement() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        let open = File::open(&path).expect("readable");
        let set_flags = |flags| rustix::fs::ioctl_setflags(&open, flags);
        for (flags, word) in [(IFlags::IMMUTABLE, "immutable"), (IFlags::APPEND, "append-only")] {
            if let Err(error) = set_flags(flags) {
                println!("not run: the attribute cannot be set: {error}");
                return;
            }
            let file = ExistingFile::open(&path).expect("it exists");
            let checked = file.check_replaceable();
            set_flags(IFlags::empty()).expect("it was set");
            let error = checked.expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
        let file = ExistingFile::open(&path).expect("it exists");
        file.check_replaceable().expect("the attributes are removed");
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        let file = ExistingFile::open(&path).expect("it exists");
        fs::write(&path, "patched").expect("written");
        assert!(file.replace(b"new").is_err());
        check_content(&path, "patched");
    }

    #[test]
    fn root_follows_no_link_of_another_user_and_a_side_file_is_no_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        symlink(&path, dir.path().join("prog.side")).expect("a link");
        let file = ExistingFile::open(&path).expect("it exists");
        assert!(file.open_beside(".side").is_err());
        assert!(file.open_beside(".none").expect("no file is no error").is_none());
        if is_root() {
            std::os::unix::fs::lchown(dir.path().join("prog.side"), Some(1234), None)
                .expect("root");
            assert!(ExistingFile::open(&dir.path().join("prog.side")).is_err());
        }
    }

    #[test]
    fn only_root_and_the_owner_of_a_program_may_be_able_to_write_a_side_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        let file = ExistingFile::open(&path).expect("it exists");
        file.replace_beside(".side", b"text").expect("written");
        let side = dir.path().join("prog.side");
        let checked = || {
            let side = file.open_beside(".side").expect("readable").expect("it exists");
            side.check_writers(&file).map_err(|error| error.to_string())
        };
        assert_eq!(checked(), Ok(()));
        for mode in [0o664, 0o646] {
            fs::set_permissions(&side, fs::Permissions::from_mode(mode)).expect("permitted");
            assert!(checked().expect_err("writable").starts_with("other users can write it"));
        }
        file.replace_beside(".side", b"text").expect("written");
        assert_eq!(checked(), Ok(()), "a new file has another mode");
        if is_root() {
            chown(&side, Some(1234), None).expect("root");
            assert!(checked().expect_err("foreign").starts_with("it belongs to another user"));
            chown(&path, Some(1234), None).expect("root");
            let file = ExistingFile::open(&path).expect("it exists");
            for owner in [0, 1234] {
                chown(&side, Some(owner), None).expect("root");
                let side = file.open_beside(".side").expect("readable").expect("it exists");
                side.check_writers(&file).expect("root and the owner of the program");
            }
        }
    }

    #[test]
    fn an_open_file_is_not_the_other_file_with_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        let open = || File::open(&path).expect("readable");
        let file = ExistingFile::from_open(open(), &path).expect("the same file");
        file.replace_beside(".side", b"text").expect("written");
        let replaced = open();
        file.replace(b"new").expect("it is replaceable");
        assert!(ExistingFile::from_open(replaced, &path).is_err());
        let file = ExistingFile::from_open(open(), &path).expect("the same file");
        assert!(file.open_beside(".side").expect("readable").is_some());
    }

    #[test]
    fn every_entry_beside_a_program_that_is_no_regular_file_has_the_same_remedy() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        let entry = |name: &str| dir.path().join(format!("prog.{name}"));
        rustix::fs::mknodat(rustix::fs::CWD, entry("fifo"), FileType::Fifo, Mode::RWXU, 0)
            .expect("a FIFO");
        fs::create_dir(entry("dir")).expect("a directory");
        symlink("/dev/null", entry("link")).expect("a link");
        let file = ExistingFile::open(&path).expect("it exists");
        for suffix in [".fifo", ".dir", ".link"] {
            let error = file.open_beside(suffix).expect_err(suffix).to_string();
            assert_eq!(error, "this is not a regular file; remove it", "{suffix}");
        }
    }

    #[test]
    fn a_large_file_and_a_fifo_are_not_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = program(dir.path());
        assert!(ExistingFile::open(&path).expect("it exists").read(2).is_err());
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
        assert!(ExistingFile::open(&fifo).is_err(), "and the open does not wait for a writer");
    }
}
