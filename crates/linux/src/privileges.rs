//! Whether a program gains privileges at execve(2), so that an ordinary user cannot set its affinity afterwards.
//!
//! ```text
//!   #! script ─► interpreter ─► set-user-ID bit or file capabilities ─► privileges
//!                                └ ignored with no_new_privs and on nosuid mounts
//! ```
//!
//! The kernel permits sched_setaffinity(2) on a process of the same user whose capabilities are a subset of the
//! capabilities of the caller. A program with more capabilities needs CAP_SYS_NICE (capabilities(7), sched(7)).

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;

use crate::fault;
use crate::proc_dir::parse_status;

/// The mode bit S_ISUID.
const SET_USER_ID: u32 = 0o4000;
/// Number of bytes of a file that the kernel reads (`BINPRM_BUF_SIZE`).
const HEAD_BYTES: usize = 256;
/// Maximum number of interpreters of interpreters, as in the kernel.
const N_INTERPRETERS_MAX: u32 = 5;

/// Privileges that a program gains at execve(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GainedPrivileges {
    /// The set-user-ID bit of a program of this user.
    User(u32),
    /// File capabilities.
    Capabilities,
}

/// Returns whether this process has CAP_SYS_NICE, so that it may set the affinity of every process. False if the
/// capabilities cannot be read.
pub fn has_sys_nice() -> bool {
    let text = fault::retry("read", || fs::read_to_string("/proc/self/status"));
    text.ok().and_then(|text| parse_status(&text)).is_some_and(|status| status.has_sys_nice())
}

/// Returns the privileges that a program gains, if any.
///
/// # Errors
/// The program or its interpreter cannot be inspected.
pub fn gained(program: &Path) -> io::Result<Option<GainedPrivileges>> {
    // No fault injection: the call cannot fail for the own process.
    if rustix::thread::no_new_privs().unwrap_or(false) {
        return Ok(None);
    }
    let file = interpreter_of(program)?;
    let mount = fault::retry("statvfs", || Ok(rustix::fs::statvfs(&file)?))?;
    if mount.f_flag.contains(StatVfsMountFlags::NOSUID) {
        return Ok(None);
    }
    let meta = fault::retry("stat", || fs::metadata(&file))?;
    let own = rustix::process::geteuid().as_raw();
    if meta.permissions().mode() & SET_USER_ID != 0 && meta.uid() != own {
        return Ok(Some(GainedPrivileges::User(meta.uid())));
    }
    Ok(has_capabilities(&file)?.then_some(GainedPrivileges::Capabilities))
}

fn has_capabilities(file: &Path) -> io::Result<bool> {
    let mut value = [0u8; 64];
    let read = || Ok(rustix::fs::getxattr(file, "security.capability", &mut value)?);
    match fault::retry("getxattr", read) {
        Ok(n_bytes) => Ok(n_bytes != 0),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Returns the file whose mode and capabilities the kernel applies: the interpreter of a script, else the program. A
/// program without read permission is not a script.
fn interpreter_of(program: &Path) -> io::Result<PathBuf> {
    let mut file = program.to_owned();
    for _ in 0..N_INTERPRETERS_MAX {
        let mut head = [0; HEAD_BYTES];
        let n_bytes = match read_head(&file, &mut head) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => 0,
            n_bytes => n_bytes?,
        };
        match interpreter(&head[..n_bytes]) {
            Some(next) => file = next,
            None => break,
        }
    }
    Ok(file)
}

fn read_head(file: &Path, head: &mut [u8]) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let file = fault::retry("open", || File::open(file))?;
    fault::retry("pread", || file.read_at(head, 0))
}

/// Parses `#!/bin/sh -e`. A path that is relative to the working directory of the job is not followed.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n' || byte == 0).next()?;
    let path = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    path.is_absolute().then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).expect("the directory is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("own file");
        path
    }

    #[test]
    fn the_interpreter_of_a_script_decides_about_its_privileges() {
        let name = |text: &str| interpreter(text.as_bytes()).map(|path| path.display().to_string());
        assert_eq!(name("#! /bin/sh -e\nrest").as_deref(), Some("/bin/sh"));
        assert_eq!((name("#!sh\n"), name("#!\n"), name("\u{7f}ELF")), (None, None, None));
        let dir = tempfile::tempdir().expect("a directory");
        let program = write(dir.path(), "program", "\u{7f}ELF", 0o755);
        let script = write(dir.path(), "a", &format!("#!{}\n", program.display()), 0o755);
        let nested = write(dir.path(), "b", &format!("#!{} x\n", script.display()), 0o755);
        assert_eq!(interpreter_of(&nested).expect("readable"), program);
        let own = write(dir.path(), "own", "#!/nonexistent/program\n", 0o755);
        assert!(gained(&own).is_err(), "the interpreter does not exist");
    }

    #[test]
    fn a_set_user_id_program_of_another_user_gains_privileges() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = write(dir.path(), "program", "\u{7f}ELF", 0o4755);
        let script = write(dir.path(), "a", &format!("#!{}\n", program.display()), 0o755);
        assert_eq!(gained(&program).expect("readable"), None, "it is of this user");
        let mount = rustix::fs::statvfs(dir.path()).expect("a directory");
        if !rustix::process::geteuid().is_root() || mount.f_flag.contains(StatVfsMountFlags::NOSUID)
        {
            return println!("not run: needs root and a mount without nosuid");
        }
        std::os::unix::fs::chown(&program, Some(65534), None).expect("root may");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("own file");
        let expected = Some(GainedPrivileges::User(65534));
        assert_eq!(gained(&program).expect("readable"), expected);
        assert_eq!(gained(&script).expect("readable"), expected);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o4755)).expect("own file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
        assert_eq!(gained(&script).expect("readable"), None, "the bit of a script is ignored");
    }

    #[test]
    fn a_program_with_file_capabilities_gains_privileges() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = write(dir.path(), "program", "\u{7f}ELF", 0o755);
        assert_eq!(gained(&program).expect("readable"), None);
        // VFS_CAP_REVISION_2, effective: CAP_NET_BIND_SERVICE (bit 10) is permitted.
        let mut value = [0u8; 20];
        value[..8].copy_from_slice(&[1, 0, 0, 2, 0, 4, 0, 0]);
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::setxattr(&program, "security.capability", &value, flags) {
            Ok(()) => {
                let expected = Some(GainedPrivileges::Capabilities);
                assert_eq!(gained(&program).expect("readable"), expected);
            }
            Err(error) => println!("not run: file capabilities cannot be set: {error}"),
        }
    }
}
