//! Checks from the first bytes of a file whether the kernel can execute the file.
//!
//! ```text
//!   \x7fELF …       a program: the ELF machine must match, and its dynamic loader must exist
//!   #!/bin/sh …     a script: its interpreter must exist and be executable
//!   anything else   accepted only with further binary formats (binfmt_misc)
//! ```
//!
//! The check rejects only files that execve(2) certainly rejects. Any other error of execve(2) is an outcome of the
//! job.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::errors::kernel_message;
use crate::launch::programs::check_program;

/// Number of bytes of a file that the kernel reads (`BINPRM_BUF_SIZE`).
const HEAD_BYTES: usize = 256;

/// Checks an executable file. The error contains what to do.
pub(super) fn check(path: &Path) -> Result<(), String> {
    // A program without read permission can be executed; it is not checked.
    let Ok(file) = File::open(path) else { return Ok(()) };
    let problem = |reason: String| Err(format!("program {} {reason}", path.display()));
    let mut head = [0; HEAD_BYTES];
    let head = match read_head(&file, &mut head) {
        Ok(n_read) => &head[..n_read],
        Err(error) => return problem(format!("cannot be read: {}", kernel_message(&error))),
    };
    let checked = match head {
        [] => Err("is an empty file".to_owned()),
        [0x7f, b'E', b'L', b'F', ..] => check_elf(&file, head),
        [b'#', b'!', line @ ..] => check_script(line),
        _ if has_registered_formats() => Ok(()),
        _ => Err("is neither a program nor a script: start it with #!/bin/sh or \
                  another interpreter, or run it with shell"
            .to_owned()),
    };
    checked.or_else(problem)
}

fn read_head(file: &File, head: &mut [u8]) -> io::Result<usize> {
    let mut n_read = 0;
    while n_read < head.len() {
        match file.read_at(&mut head[n_read..], n_read as u64)? {
            0 => break,
            more => n_read += more,
        }
    }
    Ok(n_read)
}

fn check_script(line: &[u8]) -> Result<(), String> {
    let line = line.split(|&byte| byte == b'\n' || byte == 0).next().unwrap_or_default();
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next() else {
        return Err("has no interpreter after #!: write for example #!/bin/sh".to_owned());
    };
    let interpreter = Path::new(std::ffi::OsStr::from_bytes(interpreter));
    if interpreter.is_relative() {
        return Ok(()); // A path relative to the working directory of the job is not checked.
    }
    // For a missing interpreter the kernel would report that the script does not exist.
    check_program(interpreter).map_err(|error| format!("cannot be run: its interpreter, {error}"))
}

/// The fields of an ELF header that the kernel checks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ElfHeader {
    /// 1 for 32 bits, 2 for 64 bits.
    class: u8,
    /// 1 for little endian, 2 for big endian.
    order: u8,
    /// The processor architecture (`e_machine`).
    machine: u16,
}

const ELF_BROKEN: &str = "is a broken program: its ELF header is invalid";
const X86: u16 = 3;
const ARM: u16 = 40;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

fn check_elf(file: &File, head: &[u8]) -> Result<(), String> {
    let broken = || ELF_BROKEN.to_owned();
    let kind = header(head).ok_or_else(broken)?;
    match own_header() {
        Some(own) if own == kind => {}
        Some(own) if !is_compatible(own, kind) && !may_have_registered_formats() => {
            return Err(format!(
                "is for another processor (ELF machine {}, this one is {})",
                kind.machine, own.machine
            ));
        }
        _ => return Ok(()),
    }
    match loader(file, head, kind) {
        Some(loader) => check_program(&loader)
            .map_err(|error| format!("cannot be run: its dynamic loader, {error}")),
        None => Ok(()),
    }
}

/// Parses an ELF header. Returns `None` if the header is invalid.
fn header(head: &[u8]) -> Option<ElfHeader> {
    let (class, order) = (*head.get(4)?, *head.get(5)?);
    if ![1, 2].contains(&class) || ![1, 2].contains(&order) {
        return None;
    }
    let half = |at: usize| {
        let bytes = head.get(at..at + 2)?.try_into().ok()?;
        Some(if order == 1 { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let n_headers = half(if class == 1 { 44 } else { 56 })?;
    // ET_EXEC (fixed addresses) and ET_DYN (position-independent).
    let can_run = [2, 3].contains(&half(16)?) && n_headers != 0;
    can_run.then_some(ElfHeader { class, order, machine: half(18)? })
}

/// Returns the header of the evenkeel executable.
fn own_header() -> Option<ElfHeader> {
    let mut head = [0; HEAD_BYTES];
    read_head(&File::open("/proc/self/exe").ok()?, &mut head).ok()?;
    header(&head)
}

/// Returns whether the kernel usually runs programs of this kind: 64-bit kernels for x86 and Arm run 32-bit programs of
/// the same architecture family.
fn is_compatible(own: ElfHeader, other: ElfHeader) -> bool {
    own.order == other.order
        && [(X86_64, X86), (X86_64, X86_64), (AARCH64, ARM)].contains(&(own.machine, other.machine))
}

/// Returns the dynamic loader of a program (`PT_INTERP`). Only 64-bit little-endian programs are read.
fn loader(file: &File, head: &[u8], kind: ElfHeader) -> Option<PathBuf> {
    /// Type of the program header that contains the path of the loader.
    const PT_INTERP: u32 = 3;
    const HEADER_BYTES: usize = 56;
    if (kind.class, kind.order) != (2, 1) {
        return None;
    }
    let begin = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
    let n_headers = u16::from_le_bytes(head.get(56..58)?.try_into().ok()?);
    for idx in 0..u64::from(n_headers) {
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, begin.checked_add(idx * HEADER_BYTES as u64)?).ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
        if header.get(..4)? != PT_INTERP.to_le_bytes() {
            continue;
        }
        let (at, size) = (word(8)?, word(32)?);
        let mut path = vec![0; usize::try_from(size).ok().filter(|size| *size <= 4096)?];
        file.read_exact_at(&mut path, at).ok()?;
        let path = path.split(|&byte| byte == 0).next()?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        return path.is_absolute().then_some(path);
    }
    None
}

const FORMATS: &str = "/proc/sys/fs/binfmt_misc";

/// Returns whether further binary formats are registered.
fn has_registered_formats() -> bool {
    let entries = fs::read_dir(FORMATS).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name != "register" && name != "status")
}

/// Returns whether further binary formats may be registered. If the list cannot be read, the result is true: in a
/// container, programs for other processors may run although binfmt_misc is not mounted.
fn may_have_registered_formats() -> bool {
    let is_readable = !Path::new(FORMATS).exists() || Path::new(FORMATS).join("status").exists();
    has_registered_formats() || !is_readable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_this_machine_can_be_executed() {
        for path in ["/bin/sh", "/usr/bin/env", "/proc/self/exe"] {
            assert_eq!(check(Path::new(path)), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_truncated_or_invalid_header_is_rejected() {
        let mut whole = [0; 64];
        whole[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (whole[16], whole[18], whole[56]) = (3, 62, 1);
        assert!(header(&whole).is_some_and(|kind| kind.machine == X86_64));
        assert!((0..57).all(|n_bytes| header(&whole[..n_bytes]).is_none()));
        for (at, byte) in [(4, 3), (5, 0), (16, 1), (56, 0)] {
            let mut broken = whole;
            broken[at] = byte;
            assert!(header(&broken).is_none(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn a_64_bit_processor_runs_32_bit_programs_only_of_its_own_architecture_family() {
        let kind = |machine, class| ElfHeader { class, order: 1, machine };
        assert!(is_compatible(kind(X86_64, 2), kind(X86, 1)));
        assert!(is_compatible(kind(AARCH64, 2), kind(ARM, 1)));
        assert!(!is_compatible(kind(X86_64, 2), kind(AARCH64, 2)));
    }
}
