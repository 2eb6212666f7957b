//! Whether the kernel would run a file: asked of its first bytes, since only running it could tell for
//! certain.
//!
//! ```text
//!   \x7fELF …       a program: of this kind of processor, and its loader is there
//!   #!/bin/sh …     a script: what it names is there and may be executed
//!   anything else   only if the kernel was told of formats of its own (binfmt_misc)
//! ```
//!
//! When in doubt the file passes: what the kernel refuses then is an outcome of the job.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::command::{check_program, plain};

/// As much of a file as the kernel itself looks at (`BINPRM_BUF_SIZE`).
const HEAD_BYTES: usize = 256;

/// What keeps the kernel from running a file that may be executed, and what to do.
pub(super) fn check(path: &Path) -> Result<(), String> {
    // A program that may be executed but not read is no fault.
    let Ok(file) = File::open(path) else { return Ok(()) };
    let refuse = |why: String| Err(format!("program {} {why}", path.display()));
    let mut head = [0; HEAD_BYTES];
    let head = match read_head(&file, &mut head) {
        Ok(n_read) => &head[..n_read],
        Err(error) => return refuse(format!("cannot be read: {}", plain(&error))),
    };
    let checked = match head {
        [] => Err("is an empty file".to_owned()),
        [0x7f, b'E', b'L', b'F', ..] => check_elf(&file, head),
        [b'#', b'!', line @ ..] => check_script(line),
        _ if has_own_formats() => Ok(()),
        _ => Err("is neither a program nor a script: begin it with #!/bin/sh or \
                  what else is to read it, or run it with shell"
            .to_owned()),
    };
    checked.or_else(refuse)
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

/// `#!INTERPRETER [ARGUMENT]`, from behind the `#!`.
fn check_script(line: &[u8]) -> Result<(), String> {
    let line = line.split(|&byte| byte == b'\n' || byte == 0).next().unwrap_or_default();
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next() else {
        return Err("names no interpreter behind its #!: write #!/bin/sh or the like".to_owned());
    };
    let interpreter = Path::new(std::ffi::OsStr::from_bytes(interpreter));
    if interpreter.is_relative() {
        return Ok(()); // It begins at the folder in which the job will run: for the kernel to say.
    }
    // The kernel's own word for a script with an interpreter that is not there is that the script is
    // not there.
    check_program(interpreter).map_err(|error| format!("cannot be run: its interpreter, {error}"))
}

/// The fields of an ELF header that the kernel looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// 1 for 32 and 2 for 64 bits.
    class: u8,
    /// 1 for little, 2 for big endian.
    order: u8,
    /// What processor.
    machine: u16,
}

const ELF_BROKEN: &str = "is a broken program: its ELF header makes no sense";
const X86: u16 = 3;
const ARM: u16 = 40;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

fn check_elf(file: &File, head: &[u8]) -> Result<(), String> {
    let broken = || ELF_BROKEN.to_owned();
    let kind = kind(head).ok_or_else(broken)?;
    match own_kind() {
        Some(own) if own == kind => {}
        Some(own) if !is_compatible(own, kind) && !may_have_own_formats() => {
            return Err(format!(
                "is for another processor (ELF machine {}, this one is {})",
                kind.machine, own.machine
            ));
        }
        _ => return Ok(()),
    }
    match loader(file, head, kind) {
        Some(loader) => check_program(&loader)
            .map_err(|error| format!("cannot be run: the loader that it asks for, {error}")),
        None => Ok(()),
    }
}

/// `None` if no kernel would run it.
fn kind(head: &[u8]) -> Option<Kind> {
    let (class, order) = (*head.get(4)?, *head.get(5)?);
    if ![1, 2].contains(&class) || ![1, 2].contains(&order) {
        return None;
    }
    let half = |at: usize| {
        let bytes = head.get(at..at + 2)?.try_into().ok()?;
        Some(if order == 1 { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let n_headers = half(if class == 1 { 44 } else { 56 })?;
    // 2 is a program at fixed addresses, 3 one that can lie anywhere.
    let can_run = [2, 3].contains(&half(16)?) && n_headers != 0;
    can_run.then_some(Kind { class, order, machine: half(18)? })
}

/// What evenkeel itself is made for.
fn own_kind() -> Option<Kind> {
    let mut head = [0; HEAD_BYTES];
    read_head(&File::open("/proc/self/exe").ok()?, &mut head).ok()?;
    kind(&head)
}

/// Kernels of 64 bits usually run the 32 bits of their maker too.
fn is_compatible(own: Kind, other: Kind) -> bool {
    own.order == other.order
        && [(X86_64, X86), (X86_64, X86_64), (AARCH64, ARM)].contains(&(own.machine, other.machine))
}

/// The dynamic loader that a program asks for; looked for where we know the layout, on machines of 64
/// bits with little endian.
fn loader(file: &File, head: &[u8], kind: Kind) -> Option<PathBuf> {
    /// The kind of program header that names the loader.
    const PT_INTERP: u32 = 3;
    /// Bytes of a program header.
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

/// Where the kernel tells of formats that it was taught.
const FORMATS: &str = "/proc/sys/fs/binfmt_misc";

/// Whether the kernel was taught formats of its own: then no file is too odd.
fn has_own_formats() -> bool {
    let entries = fs::read_dir(FORMATS).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name != "register" && name != "status")
}

/// The same, and also where the kernel does not tell: in a container the programs of other processors
/// may run although nothing is mounted there.
fn may_have_own_formats() -> bool {
    let tells_none = !Path::new(FORMATS).exists() || Path::new(FORMATS).join("status").exists();
    has_own_formats() || !tells_none
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_can_be_run() {
        for path in ["/bin/sh", "/usr/bin/env", "/proc/self/exe"] {
            assert_eq!(check(Path::new(path)), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_header_that_is_cut_short_or_makes_no_sense_is_no_program() {
        let mut whole = [0; 64];
        whole[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (whole[16], whole[18], whole[56]) = (3, 62, 1);
        assert!(kind(&whole).is_some_and(|kind| kind.machine == X86_64));
        assert!((0..57).all(|n_bytes| kind(&whole[..n_bytes]).is_none()));
        for (at, byte) in [(4, 3), (5, 0), (16, 1), (56, 0)] {
            let mut broken = whole;
            broken[at] = byte;
            assert!(kind(&broken).is_none(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn of_other_processors_only_the_narrower_kin_runs() {
        let kind = |machine, class| Kind { class, order: 1, machine };
        assert!(is_compatible(kind(X86_64, 2), kind(X86, 1)));
        assert!(is_compatible(kind(AARCH64, 2), kind(ARM, 1)));
        assert!(!is_compatible(kind(X86_64, 2), kind(AARCH64, 2)));
    }
}
