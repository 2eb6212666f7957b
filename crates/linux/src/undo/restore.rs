//! Putting back what a killed evenkeel left changed.
//!
//! A file is touched when nobody holds its lock and it was written in this boot, in this numbering of
//! processes and by this user. Then every thread that a record names, and every process that comes
//! from one, is looked at: what still has exactly our mask gets back what it had, and everything else
//! is left with the reason why. The record goes when all of it is settled; as long as anything was refused,
//! or could not be looked at, it stays for another try.

mod family;
mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use base::{CpuSet, TaskId};
use rustix::fs::{Mode, OFlags};

pub use groups::{GroupEntry, GroupKind, GroupRestoreAction};

use super::folder::Folder;
use super::log::{FRESH_SUFFIX, SUFFIX, is_linked, lock, unlink};
use super::record::{Header, Line, Records, Seen};
use crate::procfs::{self, Stat};
use crate::{affinity, fault, fork_latency, system};
use family::{Doubts, Search, lives};

/// A child between fork and exec shares the lock of its dead parent. It needs a moment, or a CPU.
const LOCK_STEPS: u32 = 200;
/// In the middle of an exec a child of ours has no environment yet: shorter still.
const EXEC_STEPS: u32 = 50;
const WAIT_STEP: std::time::Duration = std::time::Duration::from_millis(10);

/// What became of every record that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// One for each file, by name.
    pub files: Vec<FileReport>,
    /// Folders, files and processes that could not be looked at, and why.
    pub problems: Vec<String>,
}

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// What was done about it as a whole.
    pub verdict: Verdict,
    /// Process by process.
    pub entries: Vec<Entry>,
    /// Its monitoring groups of resctrl, by name, and then the folder of its groups.
    pub groups: Vec<GroupEntry>,
    /// Lines that could not be read; a torn last line is not one of them.
    pub n_damaged: usize,
    /// The first of them, counted from 1; 0 when there is none.
    pub first_damaged: usize,
}

/// What was done about a record as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is settled and the file is gone (in a dry run: it would be).
    Settled,
    /// Something could not be put back; the file stays for another try.
    Kept,
    /// Its owner lives.
    InUse,
    /// The machine was started anew since: there is nothing to put back, and the file is gone.
    OtherBoot,
    /// Its process numbers mean nothing here.
    OtherNamespace,
    /// It is another user's.
    OtherUser,
    /// It has a form that this version does not know.
    Unknown,
}

/// What was done about the threads of one process that were alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The job that it belongs to.
    pub job: String,
    /// Its process.
    pub process: u32,
    /// The name of its program.
    pub comm: String,
    /// How many threads.
    pub n_threads: u32,
    /// What.
    pub deed: RestoreAction,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestoreAction {
    /// It had our mask and has what it had before (in a dry run: would have).
    PutBack {
        /// Our mask.
        from: CpuSet,
        /// What it had before.
        to: CpuSet,
    },
    /// Somebody else set this mask since, so it stays.
    Foreign(CpuSet),
    /// It has what it had before us.
    AsBefore(CpuSet),
    /// The kernel refused, in these words.
    Refused(String),
}

/// How to restore.
#[derive(Clone, Copy)]
struct How<'a> {
    groups_root: &'a Path,
    dry_run: bool,
}

/// Looks at every record in these folders; with `dry_run` nothing is changed.
pub fn restore(places: &[PathBuf], dry_run: bool) -> Restored {
    restore_below(Path::new("/"), places, dry_run)
}

/// The same with groups of resctrl below another root, for tests.
pub fn restore_below(groups_root: &Path, places: &[PathBuf], dry_run: bool) -> Restored {
    let how = How { groups_root, dry_run };
    let mut restored = Restored::default();
    for place in places {
        match Folder::open(place) {
            Ok(folder) => restore_folder(&folder, how, &mut restored),
            Err(super::UndoError::Folder { source, .. })
                if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => restored.problems.push(error.to_string()),
        }
    }
    restored
}

fn restore_folder(folder: &Folder, how: How<'_>, restored: &mut Restored) {
    let names = names_in(folder).unwrap_or_else(|error| {
        restored.problems.push(format!("{}: {error}", folder.path.display()));
        Vec::new()
    });
    for name in names {
        if name.ends_with(FRESH_SUFFIX) {
            remove_half_made(folder, &name, how.dry_run);
        } else if name.ends_with(SUFFIX) {
            let mut problems = Vec::new();
            match restore_file(folder, &name, how, &mut problems) {
                Ok(report) => restored.files.extend(report),
                Err(error) => problems.push(error.to_string()),
            }
            restored.problems.extend(problems.iter().map(|problem| format!("{name}: {problem}")));
        }
    }
}

/// The names in a folder, sorted.
fn names_in(folder: &Folder) -> io::Result<Vec<String>> {
    let list = || std::fs::read_dir(&folder.path)?.collect::<io::Result<Vec<_>>>();
    let entries = fault::retry("getdents64", list)?;
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Removes what a killed evenkeel was about to put in the place of its record, which still stands.
fn remove_half_made(folder: &Folder, name: &str, dry_run: bool) {
    let Ok(file) = open(folder, name) else { return };
    if lock(&file).unwrap_or(false) && !dry_run {
        let _ = unlink(folder, name); // The next who restores tries again.
    }
    drop(file); // Only now: whoever makes a new one meanwhile must not find it unlocked.
}

/// `None` when the file vanished meanwhile: its owner came to a good end.
fn restore_file(
    folder: &Folder,
    name: &str,
    how: How<'_>,
    problems: &mut Vec<String>,
) -> io::Result<Option<FileReport>> {
    let path = folder.path.join(name);
    let report = |verdict| {
        let (entries, groups) = (vec![], vec![]);
        Some(FileReport {
            path: path.clone(),
            verdict,
            entries,
            groups,
            n_damaged: 0,
            first_damaged: 0,
        })
    };
    let file = match open(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if let Some(verdict) = lock_patiently(&file)? {
        return Ok(report(verdict));
    }
    if !is_linked(&file)? {
        return Ok(None);
    }
    let (header, records, damaged) = parse(&read_all(&file)?);
    let n_damaged = damaged.len();
    let verdict = match &header {
        // Whoever was killed before the first line was whole had changed nothing.
        None if n_damaged == 0 => Verdict::Settled,
        None => Verdict::Unknown,
        Some(header) => belongs(header)?,
    };
    let (mut entries, mut left) = (Vec::new(), Vec::new());
    let mut verdict = verdict;
    if let (Verdict::Settled, Some(header)) = (&verdict, &header) {
        let mut doubts = Doubts::new();
        entries = put_back(Path::new("/"), header, &records, how.dry_run, &mut doubts);
        left = groups::remove(how.groups_root, header, &records, how.dry_run);
        left.extend(groups::take_back(how.groups_root, header, &records, how.dry_run));
        let refused = entries.iter().any(|entry| matches!(entry.deed, RestoreAction::Refused(_)));
        // What a damaged line told may still be changed, and nobody can say so but that line.
        if 0 < n_damaged
            || refused
            || !doubts.is_empty()
            || left.iter().any(|entry| matches!(entry.deed, GroupRestoreAction::Refused(_)))
        {
            verdict = Verdict::Kept;
        }
        problems.extend(doubts);
    }
    if matches!(verdict, Verdict::Settled | Verdict::OtherBoot)
        && !how.dry_run
        && let Err(error) = unlink(folder, name)
    {
        problems.push(format!("it cannot be removed: {error}"));
        verdict = Verdict::Kept;
    }
    let first_damaged = damaged.first().copied().unwrap_or(0);
    Ok(Some(FileReport { path, verdict, entries, groups: left, n_damaged, first_damaged }))
}

fn open(folder: &Folder, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let open = || Ok(rustix::fs::openat(&folder.file, name, flags, Mode::empty())?);
    fault::retry("openat", open)
}

/// `None` when it is locked; else why it is left alone. Waits a little when the owner named in the file
/// is dead: then only a child on its way to exec can hold the lock.
fn lock_patiently(file: &OwnedFd) -> io::Result<Option<Verdict>> {
    for _ in 0..LOCK_STEPS {
        if lock(file)? {
            return Ok(None);
        }
        let (Some(header), ..) = parse(&read_all(file)?) else { break };
        match belongs(&header)? {
            Verdict::Settled if !owner_lives(&header) => std::thread::sleep(WAIT_STEP),
            Verdict::Settled => break,
            other => return Ok(Some(other)), // Its numbers mean nothing here.
        }
    }
    Ok(Some(Verdict::InUse))
}

fn owner_lives(header: &Header) -> bool {
    let is_owner = |stat: &Stat| header.born_ticks == 0 || stat.born_ticks == header.born_ticks;
    match procfs::stat(Path::new("/"), header.pid) {
        Ok(stat) => stat.state != 'Z' && is_owner(&stat),
        // Who cannot be looked at may well live: nothing is lost by leaving his record alone.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let offset = bytes.len() as u64;
        match fault::retry("pread", || Ok(rustix::io::pread(file, &mut piece, offset)?))? {
            0 => return Ok(bytes),
            n_bytes => bytes.extend_from_slice(&piece[..n_bytes]),
        }
    }
}

/// The header, what follows from the lines, and those that could not be read, counted from 1. The last line counts only
/// when it is whole: its writer may have been killed in it, and then the change was not made.
fn parse(bytes: &[u8]) -> (Option<Header>, Records, Vec<usize>) {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    lines.pop();
    let mut records = Records::default();
    let mut damaged = Vec::new();
    let Some((first, rest)) = lines.split_first() else { return (None, records, damaged) };
    let header = serde_json::from_slice::<Header>(first).ok().filter(Header::is_known);
    damaged.extend(header.is_none().then_some(1));
    for (idx, line) in rest.iter().enumerate() {
        match serde_json::from_slice::<Line>(line) {
            Ok(line) => records.apply(&line),
            Err(_) => damaged.push(idx + 2),
        }
    }
    (header, records, damaged)
}

fn belongs(header: &Header) -> io::Result<Verdict> {
    let root = Path::new("/");
    Ok(if header.uid != rustix::process::geteuid().as_raw() {
        Verdict::OtherUser
    } else if header.boot != system::boot_id(root)? {
        Verdict::OtherBoot
    } else if header.pid_namespace != system::pid_namespace(root)? {
        Verdict::OtherNamespace
    } else {
        Verdict::Settled
    })
}

/// Puts back what is still as the records left it. Programs go on meanwhile: who was not bound back
/// yet may start others, so everything is listed again until nothing is new and nobody is in the
/// middle of becoming something that may be ours.
fn put_back(
    root: &Path,
    header: &Header,
    records: &Records,
    dry_run: bool,
    doubts: &mut Doubts,
) -> Vec<Entry> {
    let online = match system::online(root) {
        Ok(online) => online,
        // Without it a mask of ours could be taken for somebody else's.
        Err(error) => {
            doubts.insert(format!("cannot tell which CPUs are online: {error}"));
            return Vec::new();
        }
    };
    let search = Search { root, header, records, online: &online };
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut counted: BTreeMap<(String, u32, String, RestoreAction), u32> = BTreeMap::new();
    let mut n_waits = 0;
    // Whoever was being born while its parent was given back what it had shows only later.
    let mut births_until = Instant::now();
    loop {
        let n_seen = seen.len();
        let (family, has_undecided) = search.family(doubts);
        for (process, (job, comm)) in family {
            for tid in threads(root, process, doubts) {
                if !seen.insert(tid) {
                    continue;
                }
                if let Some(deed) = settle(root, tid, &job, records, &online, dry_run) {
                    if matches!(deed, RestoreAction::PutBack { .. }) && !dry_run {
                        let until =
                            Instant::now() + fork_latency::max_fork_latency(root, [process]);
                        births_until = births_until.max(until);
                    }
                    *counted.entry((job.clone(), process, comm.clone(), deed)).or_default() += 1;
                }
            }
        }
        if seen.len() == n_seen {
            let is_settled = !has_undecided || EXEC_STEPS <= n_waits;
            if is_settled && births_until <= Instant::now() {
                break;
            }
            n_waits += u32::from(has_undecided);
            std::thread::sleep(WAIT_STEP);
        }
    }
    let entry =
        |((job, process, comm, deed), n_threads)| Entry { job, process, comm, n_threads, deed };
    counted.into_iter().map(entry).collect()
}

fn threads(root: &Path, process: u32, doubts: &mut Doubts) -> Vec<u32> {
    procfs::threads(root, process).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            doubts.insert(format!("threads of process {process} cannot be listed: {error}"));
        }
        Vec::new()
    })
}

/// What is to be done about one thread, and does it; `None` when it is gone.
fn settle(
    root: &Path,
    tid: u32,
    job: &str,
    records: &Records,
    online: &CpuSet,
    dry_run: bool,
) -> Option<RestoreAction> {
    let is_gone = |error: &io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => !lives(root, tid),
        _ => error.kind() == io::ErrorKind::NotFound,
    };
    let unless_gone = |what: &str, error: io::Error| match is_gone(&error) {
        true => None,
        false => Some(RestoreAction::Refused(format!("{what}: {error}"))),
    };
    let id = match procfs::stat(root, tid) {
        Ok(stat) => TaskId { tid, start_time_ticks: stat.born_ticks },
        Err(error) => return unless_gone("cannot look at it", error),
    };
    let mask = match affinity::get(tid) {
        Ok(mask) => mask,
        Err(error) => return unless_gone("cannot tell its CPUs", error),
    };
    let give = |cpus: &CpuSet| if dry_run { Ok(()) } else { affinity::set(tid, cpus) };
    match records.judge(id, job, &mask, online) {
        Seen::Foreign => {
            // What it shows stays as it is, whatever becomes of what stands below.
            let held = records.of_task(id).filter(|_| is_below_a_cpuset(root, id, records, &mask));
            match held.map_or(Ok(()), |held| give(&held.old)) {
                Ok(()) => Some(RestoreAction::Foreign(mask)),
                Err(error) => unless_gone("cannot be given what it had below its cpuset", error),
            }
        }
        Seen::AsBefore => Some(RestoreAction::AsBefore(mask)),
        Seen::Ours(to) => match give(&to) {
            Ok(()) => Some(RestoreAction::PutBack { from: mask, to }),
            Err(error) => unless_gone(&format!("cannot give it CPUs {to}"), error),
        },
    }
}

/// Whether a thread that we had bound was moved to a cpuset that gives it exactly this mask: then what we
/// asked for stands below, and comes up again when it is moved back.
fn is_below_a_cpuset(root: &Path, id: TaskId, records: &Records, mask: &CpuSet) -> bool {
    let held = records.of_task(id);
    held.is_some_and(|held| crate::cpuset::hides(root, id.tid, mask, &held.old))
}

#[cfg(test)]
mod tests;
