//! What `/proc` tells of processes and threads: text in, values out.
//!
//! Opening files is at the bottom, below a root that is a parameter. Who samples often keeps the
//! descriptor and reads it again from its start ([`read_again`]): 0.3 µs instead of 2 to 4 µs for
//! opening a file each time. A descriptor of `/proc/TID/…` stays with its thread: when the thread is
//! gone, reading fails, even if its number has been given to another one since.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use base::TaskId;
use rustix::fs::{Mode, OFlags};

use crate::fault;

/// What `/proc/TID/stat` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The name of its program, cut to 15 bytes by the kernel.
    pub comm: String,
    /// `R` runs, `S` sleeps, `D` waits for a device, `Z` has ended and is not waited for, …
    pub state: char,
    /// The process that started it, or that adopted it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// How many threads its process has.
    pub n_threads: u32,
    /// When it was created, in clock ticks since boot.
    pub born_ticks: u64,
    /// The CPU that it ran on last.
    pub last_cpu: u32,
    /// Whether the kernel made it for itself (`PF_KTHREAD`).
    pub is_kernel_thread: bool,
}

/// What `/proc/TID/schedstat` tells, since the thread's birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds runnable and not running.
    pub wait_ns: u64,
}

/// The kernel's flag for its own threads.
pub(crate) const PF_KTHREAD: u64 = 0x0020_0000;

/// Reads a line of `/proc/TID/stat`. The name may hold blanks and brackets, so fields are counted
/// from the last bracket.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    // Numbered as in proc(5); the state is field 3.
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(2)?.parse().ok()?;
    let n_threads = fields.nth(10)?.parse().ok()?;
    let born_ticks = fields.nth(1)?.parse().ok()?;
    let last_cpu = fields.nth(16)?.parse().ok()?;
    let is_kernel_thread = flags & PF_KTHREAD != 0;
    let stat = Stat {
        comm,
        state,
        parent,
        group,
        session,
        n_threads,
        born_ticks,
        last_cpu,
        is_kernel_thread,
    };
    Some(stat)
}

/// The last CPU alone, from a line of `/proc/TID/stat`, without allocating: it is asked for often.
pub fn parse_last_cpu(text: &[u8]) -> Option<u32> {
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// CPU time of the children of a process that have ended and were waited for, and of theirs, in
/// nanoseconds, from a line of `/proc/PID/stat`. The kernel tells whole ticks.
pub fn parse_children_time(text: &[u8]) -> Option<u64> {
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace().skip(13); // From the 16th: cutime, cstime.
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let sum = ticks()?.checked_add(ticks()?)?;
    sum.checked_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Reads `/proc/TID/schedstat`: three numbers, of which the third counts slices.
pub fn parse_schedstat(text: &[u8]) -> Option<Schedstat> {
    let mut numbers = Numbers(text);
    Some(Schedstat { run_ns: numbers.next()?, wait_ns: numbers.next()? })
}

/// Reads `/proc/TID/task/TID/children`: process numbers between blanks.
pub fn parse_children(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    Numbers(text).filter_map(|number| u32::try_from(number).ok())
}

/// How often a thread changed its CPU, from `/proc/TID/sched`.
pub fn parse_migrations(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// One variable of `/proc/PID/environ`, where variables stand between zero bytes.
pub fn parse_environ<'a>(text: &'a [u8], name: &str) -> Option<&'a str> {
    let value = text
        .split(|&byte| byte == 0)
        .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()
}

/// Free memory in bytes, from a node's `meminfo`.
pub fn parse_node_free(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find(|line| line.contains("MemFree:"))?;
    let kib: u64 = line.split("MemFree:").nth(1)?.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Decimal numbers in a text, whatever stands between them. One that is too large ends the list.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let start = self.0.iter().position(u8::is_ascii_digit)?;
        let digits = &self.0[start..];
        let len = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        self.0 = &digits[len..];
        digits[..len].iter().try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
    }
}

/// What is known of a thread or process now. An error of the kind `NotFound` says that it is gone.
pub fn stat(root: &Path, tid: u32) -> io::Result<Stat> {
    parse_stat(&stat_line(root, tid)?).ok_or_else(malformed)
}

/// The same as the kernel writes it.
pub(crate) fn stat_line(root: &Path, tid: u32) -> io::Result<Vec<u8>> {
    read(&root.join(format!("proc/{tid}/stat")))
}

/// What is known of one thread of a process. An error of the kind `NotFound` says that it is gone, or
/// belongs to another process now.
pub fn thread_stat(root: &Path, pid: u32, tid: u32) -> io::Result<Stat> {
    let path = root.join(format!("proc/{pid}/task/{tid}/stat"));
    parse_stat(&read(&path)?).ok_or_else(malformed)
}

/// The thread numbers of a process, rising.
pub fn threads(root: &Path, pid: u32) -> io::Result<Vec<u32>> {
    numbered(&root.join(format!("proc/{pid}/task")))
}

/// The numbers of all processes, rising.
pub fn processes(root: &Path) -> io::Result<Vec<u32>> {
    numbered(&root.join("proc"))
}

fn numbered(folder: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fault::retry("getdents64", || fs::read_dir(folder)).map_err(gone)? {
        let name = entry.map_err(gone)?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The children of one thread. The kernel lists them per thread that started them.
pub fn children(root: &Path, pid: u32, tid: u32) -> io::Result<Vec<u32>> {
    let path = root.join(format!("proc/{pid}/task/{tid}/children"));
    Ok(parse_children(&read(&path)?).collect())
}

/// The children of a process, whichever of its threads started them. A thread that ends meanwhile has
/// none; an error of the kind `NotFound` says that the process itself is gone.
pub fn all_children(root: &Path, pid: u32) -> io::Result<Vec<u32>> {
    let mut all = Vec::new();
    for tid in threads(root, pid)? {
        match children(root, pid, tid) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            some => all.extend(some?),
        }
    }
    Ok(all)
}

/// The user to whom a process belongs, as far as others may look into it: the system's first user where
/// nobody may.
pub fn owner(root: &Path, pid: u32) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    let path = root.join(format!("proc/{pid}"));
    Ok(fault::retry("stat", || fs::metadata(&path)).map_err(gone)?.uid())
}

/// How often a thread changed its CPU; `None` where the kernel does not tell.
pub fn migrations(root: &Path, tid: u32) -> Option<u64> {
    let text = read(&root.join(format!("proc/{tid}/sched"))).ok()?;
    parse_migrations(&String::from_utf8_lossy(&text))
}

/// The environment with which a process was started, as the kernel keeps it.
pub fn environ(root: &Path, pid: u32) -> io::Result<Vec<u8>> {
    read(&root.join(format!("proc/{pid}/environ")))
}

/// Whether a task is still running: the tid is in use, by the same task, and that is no zombie.
///
/// # Errors
/// `/proc/TID/stat` cannot be read, so that the state of the task is unknown.
pub fn is_alive(id: TaskId) -> io::Result<bool> {
    match stat(Path::new("/"), id.tid) {
        Ok(stat) => Ok(stat.born_ticks == id.start_time_ticks && stat.state != 'Z'),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a task is known to be running. False where its state is unknown.
pub fn lives(id: TaskId) -> bool {
    is_alive(id).unwrap_or(false)
}

/// Whether a task may be running. True where its state is unknown.
pub fn may_live(id: TaskId) -> bool {
    is_alive(id).unwrap_or(true)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fault::retry("read", || fs::read(path)).map_err(gone)
}

/// Opens a file to be read again and again.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    fault::retry("open", || Ok(rustix::fs::open(path, flags, Mode::empty())?)).map_err(gone)
}

/// Reads a kept descriptor from its start into a buffer; a text longer than the buffer is cut.
pub fn read_again(file: impl AsFd, buffer: &mut [u8]) -> io::Result<&[u8]> {
    let read = || Ok(rustix::io::pread(file.as_fd(), &mut *buffer, 0)?);
    let n_bytes = fault::retry("pread", read).map_err(gone)?;
    Ok(&buffer[..n_bytes])
}

/// How many threads the process has whose `task` folder was opened: the folder has a link for each,
/// and two for itself. Much cheaper than listing it.
pub fn count_threads(task_folder: impl AsFd) -> io::Result<u32> {
    fault::refuse("fstat")?;
    let links = rustix::fs::fstat(task_folder).map_err(|e| gone(e.into()))?.st_nlink;
    u32::try_from(links).ok().and_then(|links| links.checked_sub(2)).ok_or_else(malformed)
}

/// A thread that is gone shows as a missing file, or as "no such process" for a file that was open.
fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => io::Error::new(io::ErrorKind::NotFound, "the process is gone"),
        _ => error,
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer has an unknown form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &[u8] = b"5779 (a) b (x) S 5778 5770 5771 0 -1 4194560 4042 49802 0 1 1 4 43 16 20 0 3 0 \
        124425 5124096 970 18446744073709551615 1 2 3 0 0 0 65536 4 1132560123 1 0 0 17 1 0 0 0 0 0";

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = parse_stat(LINE).expect("a line of the kernel");
        assert_eq!(stat.comm, "a) b (x");
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('S', 5778, 5770, 5771));
        assert_eq!((stat.n_threads, stat.born_ticks, stat.last_cpu), (3, 124425, 1));
        assert!(!stat.is_kernel_thread);
        assert_eq!(parse_last_cpu(LINE), Some(1));
        assert_eq!(parse_children_time(LINE), Some(590_000_000), "43 and 16 ticks");
    }

    #[test]
    fn figures_are_read_by_name_and_place() {
        assert_eq!(
            parse_schedstat(b"52704104 37708598 145\n"),
            Some(Schedstat { run_ns: 52_704_104, wait_ns: 37_708_598 })
        );
        assert_eq!(parse_children(b"12 345 \n").collect::<Vec<_>>(), [12, 345]);
        assert_eq!(parse_children(b"").count(), 0);
        assert_eq!(parse_migrations("se.nr_migrations    :    15\n"), Some(15));
        assert_eq!(parse_environ(b"A=1\0EVENKEEL_RUN=x y\0", "EVENKEEL_RUN"), Some("x y"));
        assert_eq!(parse_environ(b"NOT_EVENKEEL_RUN=x\0", "EVENKEEL_RUN"), None);
        assert_eq!(parse_node_free(b"Node 0 MemTotal: 9 kB\nNode 0 MemFree: 4 kB\n"), Some(4096));
    }

    #[test]
    fn this_process_is_found_with_its_threads_and_is_older_than_its_child() {
        let root = Path::new("/");
        let pid = std::process::id();
        let own = stat(root, pid).expect("own line");
        let threads = threads(root, pid).expect("own threads");
        assert!(threads.contains(&pid));
        let folder = open(&root.join(format!("proc/{pid}/task"))).expect("own folder");
        assert!(1 <= count_threads(folder).expect("a count"));
        assert_eq!(owner(root, pid).expect("ours"), rustix::process::geteuid().as_raw());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let born = stat(root, child.id()).expect("the child's line").born_ticks;
        assert!(own.born_ticks <= born);
        child.kill().expect("our child");
        child.wait().expect("our child");
        let error = stat(root, child.id()).expect_err("it is gone");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_child_is_found_whichever_thread_started_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let starter = std::thread::spawn(move || {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
            let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            tell.send((own, child.id())).expect("somebody listens");
            child.wait().expect("our child");
        });
        let (tid, child) = told.recv().expect("a child");
        let (root, pid) = (Path::new("/"), std::process::id());
        assert!(all_children(root, pid).expect("ours").contains(&child));
        assert!(children(root, pid, tid).expect("its own").contains(&child));
        let child = rustix::process::Pid::from_raw(child.cast_signed()).expect("a number");
        rustix::process::kill_process(child, rustix::process::Signal::KILL).expect("our child");
        starter.join().expect("the thread");
        let gone = all_children(root, u32::MAX).expect_err("nobody has this number");
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_kept_descriptor_stays_with_its_process() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let kept = open(Path::new(&format!("/proc/{}/schedstat", child.id()))).expect("its file");
        let mut buffer = [0; 128];
        assert!(parse_schedstat(read_again(&kept, &mut buffer).expect("alive")).is_some());
        child.kill().expect("our child");
        child.wait().expect("our child");
        let error = read_again(&kept, &mut buffer).expect_err("it is gone");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse_stat(&text), parse_last_cpu(&text), parse_schedstat(&text));
            let _ = parse_children_time(&text);
            let _ = (parse_children(&text).count(), parse_node_free(&text));
            let _ = parse_environ(&text, "A");
            let _ = parse_migrations(&String::from_utf8_lossy(&text));
        }
    }
}
