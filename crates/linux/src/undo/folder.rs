//! Where undo records lie: a folder that nobody else can write to.
//!
//! As root `/run/evenkeel`; else `$XDG_RUNTIME_DIR/evenkeel`; else `/run/user/UID/evenkeel`, which is the
//! same where that variable got lost on the way; else a private folder in `/tmp`, whose owner and mode
//! are checked, since anybody could have made it before us. All of them vanish with
//! the boot for which the records hold.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::UndoError;
use crate::fault;

/// The variable that puts the folder somewhere else.
pub const STATE_VARIABLE: &str = "EVENKEEL_STATE_DIR";

/// A folder that was opened and checked.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) file: OwnedFd,
}

/// Where records of this user may lie, the best place first.
pub fn folders() -> Vec<PathBuf> {
    candidates(|name| std::env::var_os(name), rustix::process::geteuid().as_raw())
}

/// Refuses a folder whose place would depend on where we are: the next run would not find it.
pub fn check_variable() -> Result<(), UndoError> {
    let named = std::env::var_os(STATE_VARIABLE).map(PathBuf::from);
    match named.filter(|path| !path.as_os_str().is_empty() && !path.is_absolute()) {
        Some(path) => Err(UndoError::Relative { path }),
        None => Ok(()),
    }
}

fn candidates(variable: impl Fn(&str) -> Option<OsString>, uid: u32) -> Vec<PathBuf> {
    let named = |name| variable(name).filter(|value| Path::new(value).is_absolute());
    if let Some(folder) = named(STATE_VARIABLE) {
        return vec![folder.into()];
    }
    let mut folders = Vec::new();
    if uid == 0 {
        folders.push(PathBuf::from("/run/evenkeel"));
    } else {
        let usual = PathBuf::from(format!("/run/user/{uid}"));
        let runtime = named("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|own| *own != usual);
        folders.extend(runtime.into_iter().chain([usual]).map(|path| path.join("evenkeel")));
    }
    folders.push(PathBuf::from(format!("/tmp/evenkeel-{uid}")));
    folders
}

impl Folder {
    /// The first of the places that can be used, made if it is not there.
    pub(crate) fn for_writing(places: &[PathBuf]) -> Result<Self, UndoError> {
        let mut first_error = None;
        for path in places {
            let mkdir = || match rustix::fs::mkdir(path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            };
            let made = fault::retry("mkdir", mkdir)
                .map_err(|error| unusable(path, error))
                .and_then(|()| Folder::open(path));
            match made {
                Ok(folder) => return Ok(folder),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| {
            unusable(Path::new("(none)"), io::Error::from(io::ErrorKind::NotFound))
        }))
    }

    /// Opens a folder that is there; a link is not followed, and nobody else may be able to write.
    pub(crate) fn open(path: &Path) -> Result<Self, UndoError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::open(path, flags, Mode::empty())?);
        let file = fault::retry("open", open).map_err(|error| unusable(path, error))?;
        let stat = fault::retry("fstat", || Ok(rustix::fs::fstat(&file)?))
            .map_err(|error| unusable(path, error))?;
        let problem = if stat.st_uid != rustix::process::geteuid().as_raw() {
            Some("it belongs to somebody else")
        } else if stat.st_mode & 0o077 != 0 {
            Some("others may enter it, its mode must be 0700")
        } else {
            None
        };
        match problem {
            Some(problem) => Err(UndoError::Unsafe { path: path.to_owned(), problem }),
            None => Ok(Folder { path: path.to_owned(), file }),
        }
    }
}

fn unusable(path: &Path, source: io::Error) -> UndoError {
    UndoError::Folder { path: path.to_owned(), source }
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
    fn root_users_with_and_without_a_runtime_folder_each_have_a_place() {
        check(0, &[("XDG_RUNTIME_DIR", "/run/user/0")], &["/run/evenkeel", "/tmp/evenkeel-0"]);
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/7");
        let usual = ["/run/user/7/evenkeel", "/tmp/evenkeel-7"];
        check(7, &[runtime], &usual);
        check(7, &[], &usual);
        let (own, usual) = (("XDG_RUNTIME_DIR", "/x"), [&["/x/evenkeel"], &usual[..]].concat());
        check(7, &[own], &usual);
        check(7, &[runtime, (STATE_VARIABLE, "/x")], &["/x"]);
    }

    #[test]
    fn a_folder_that_others_may_enter_or_that_is_a_link_is_refused() {
        let world = tempfile::tempdir().expect("a folder");
        let place = |name: &str| world.path().join(name);
        let open = |name: &str| Folder::open(&place(name)).map(|_| ()).map_err(|e| e.to_string());
        Folder::for_writing(&[place("new")]).expect("a fresh folder");
        assert_eq!(fs::metadata(place("new")).expect("made").permissions().mode() & 0o777, 0o700);
        fs::create_dir(place("wide")).expect("a folder");
        fs::set_permissions(place("wide"), fs::Permissions::from_mode(0o755)).expect("ours");
        assert!(open("wide").expect_err("others may enter").contains("0700"));
        symlink(place("new"), place("link")).expect("a link");
        assert!(open("link").is_err());
        assert!(open("absent").expect_err("it is not there").contains(STATE_VARIABLE));
    }

    #[test]
    fn the_next_place_is_taken_when_the_first_cannot_be_made() {
        let world = tempfile::tempdir().expect("a folder");
        let (no, yes) = (world.path().join("no/such/parent"), world.path().join("yes"));
        assert_eq!(Folder::for_writing(&[no, yes.clone()]).expect("the second").path, yes);
    }
}
