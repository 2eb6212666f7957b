//! Putting back what a killed evenkeel left changed.
//!
//! A file is touched when nobody holds its lock and it was written in this boot, in this numbering of
//! processes and by this user. Then every thread that a record names, and every process that comes
//! from one, is looked at: what still has exactly our mask gets back what it had, and everything else
//! is left with the reason why.

mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::{CpuSet, TaskId};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock};

pub use groups::{GroupDeed, GroupEntry, GroupKind};

use super::folder::Folder;
use super::log::{FRESH_SUFFIX, SUFFIX};
use super::record::{Header, Line, Records, Seen};
use super::{JOB_VARIABLE, RUN_VARIABLE};
use crate::environ::{Environ, environ};
use crate::procfs::{self, Stat};
use crate::{affinity, system};

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
    /// Folders that could not be looked at, and why.
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
    pub deed: Deed,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
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
    let mut names: Vec<String> = Vec::new();
    match std::fs::read_dir(&folder.path) {
        Ok(entries) => {
            names
                .extend(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()));
        }
        Err(error) => restored.problems.push(format!("{}: {error}", folder.path.display())),
    }
    names.sort();
    for name in names {
        if name.ends_with(FRESH_SUFFIX) {
            remove_half_made(folder, &name, how.dry_run);
        } else if name.ends_with(SUFFIX) {
            match restore_file(folder, &name, how) {
                Ok(report) => restored.files.extend(report),
                Err(error) => restored.problems.push(format!("{name}: {error}")),
            }
        }
    }
}

/// Removes what a killed evenkeel was about to put in the place of its record, which still stands.
fn remove_half_made(folder: &Folder, name: &str, dry_run: bool) {
    let Ok(file) = open(folder, name) else { return };
    if lock(&file).is_ok() && !dry_run {
        let _ = rustix::fs::unlinkat(&folder.file, name, AtFlags::empty());
    }
    drop(file); // Only now: whoever makes a new one meanwhile must not find it unlocked.
}

/// `None` when the file vanished meanwhile: its owner came to a good end.
fn restore_file(folder: &Folder, name: &str, how: How<'_>) -> io::Result<Option<FileReport>> {
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
    if rustix::fs::fstat(&file)?.st_nlink == 0 {
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
        entries = put_back(Path::new("/"), header, &records, how.dry_run);
        left = groups::remove(how.groups_root, header, &records, how.dry_run);
        left.extend(groups::take_back(how.groups_root, header, &records, how.dry_run));
        let refused = entries.iter().any(|entry| matches!(entry.deed, Deed::Refused(_)));
        // What a damaged line told may still be changed, and nobody can say so but that line.
        if 0 < n_damaged
            || refused
            || left.iter().any(|entry| matches!(entry.deed, GroupDeed::Refused(_)))
        {
            verdict = Verdict::Kept;
        }
    }
    if matches!(verdict, Verdict::Settled | Verdict::OtherBoot) && !how.dry_run {
        rustix::fs::unlinkat(&folder.file, name, AtFlags::empty())?;
    }
    let first_damaged = damaged.first().copied().unwrap_or(0);
    Ok(Some(FileReport { path, verdict, entries, groups: left, n_damaged, first_damaged }))
}

fn open(folder: &Folder, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(&folder.file, name, flags, Mode::empty())?)
}

fn lock(file: &OwnedFd) -> io::Result<()> {
    Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// `None` when it is locked; else why it is left alone. Waits a little when the owner named in the file
/// is dead: then only a child on its way to exec can hold the lock.
fn lock_patiently(file: &OwnedFd) -> io::Result<Option<Verdict>> {
    for _ in 0..LOCK_STEPS {
        if lock(file).is_ok() {
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
    let stat = procfs::stat(Path::new("/"), header.pid).ok();
    stat.is_some_and(|stat| stat.state != 'Z' && is_owner(&stat))
}

fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match rustix::io::pread(file, &mut piece, bytes.len() as u64)? {
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
fn put_back(root: &Path, header: &Header, records: &Records, dry_run: bool) -> Vec<Entry> {
    let online = online(root);
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut counted: BTreeMap<(String, u32, String, Deed), u32> = BTreeMap::new();
    let mut n_waits = 0;
    loop {
        let n_seen = seen.len();
        let (family, has_undecided) = family(root, header, records, &online);
        for (process, (job, comm)) in family {
            for tid in procfs::threads(root, process).unwrap_or_default() {
                if !seen.insert(tid) {
                    continue;
                }
                if let Some(deed) = settle(root, tid, &job, records, &online, dry_run) {
                    *counted.entry((job.clone(), process, comm.clone(), deed)).or_default() += 1;
                }
            }
        }
        if seen.len() == n_seen {
            if !has_undecided || n_waits == EXEC_STEPS {
                break;
            }
            n_waits += 1;
            std::thread::sleep(WAIT_STEP);
        }
    }
    let entry =
        |((job, process, comm, deed), n_threads)| Entry { job, process, comm, n_threads, deed };
    counted.into_iter().map(entry).collect()
}

fn online(root: &Path) -> CpuSet {
    let text = std::fs::read_to_string(root.join("sys/devices/system/cpu/online"));
    text.ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// What is to be done about one thread, and does it; `None` when it is gone.
fn settle(
    root: &Path,
    tid: u32,
    job: &str,
    records: &Records,
    online: &CpuSet,
    dry_run: bool,
) -> Option<Deed> {
    let id = TaskId { tid, born_ticks: procfs::stat(root, tid).ok()?.born_ticks };
    let mask = affinity::get(tid).ok()?;
    let deed = match records.judge(id, job, &mask, online) {
        Seen::Foreign if is_below_a_cpuset(root, id, records, &mask) => {
            // What it shows stays as it is, whatever becomes of what stands below.
            if let (Some(held), false) = (records.of_task(id), dry_run) {
                let _ = affinity::set(tid, &held.old);
            }
            Deed::Foreign(mask)
        }
        Seen::Foreign => Deed::Foreign(mask),
        Seen::AsBefore => Deed::AsBefore(mask),
        Seen::Ours(to) => {
            let set = if dry_run { Ok(()) } else { affinity::set(tid, &to) };
            match set {
                Ok(()) => Deed::PutBack { from: mask, to },
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return None,
                Err(error) => Deed::Refused(format!("cannot give it CPUs {to}: {error}")),
            }
        }
    };
    Some(deed)
}

/// Whether a thread that we had bound was moved to a cpuset that gives it exactly this mask: then what we
/// asked for stands below, and comes up again when it is moved back.
fn is_below_a_cpuset(root: &Path, id: TaskId, records: &Records, mask: &CpuSet) -> bool {
    let held = records.of_task(id);
    held.is_some_and(|held| crate::cpuset::hides(root, id.tid, mask, &held.old))
}

/// Processes with their jobs and the names of their programs.
type Members = BTreeMap<u32, (String, String)>;

/// All processes that come from this run's jobs, and whether there are others of which that cannot be
/// told yet.
fn family(root: &Path, header: &Header, records: &Records, online: &CpuSet) -> (Members, bool) {
    let run = &header.run;
    let mut all: BTreeMap<u32, Stat> = BTreeMap::new();
    for pid in procfs::processes(root).unwrap_or_default() {
        all.extend(procfs::stat(root, pid).ok().filter(|stat| stat.state != 'Z').map(|s| (pid, s)));
    }
    let mut job_of: BTreeMap<u32, String> = BTreeMap::new();
    let mut groups: BTreeMap<u32, String> = BTreeMap::new();
    for (id, held) in records.tasks() {
        let same = procfs::stat(root, id.tid).is_ok_and(|stat| stat.born_ticks == id.born_ticks);
        if same {
            job_of.insert(held.process, held.job.clone());
            let leads = all.get(&held.process).is_some_and(|stat| stat.group == held.process);
            if leads && !header.watches {
                groups.insert(held.process, held.job.clone());
            }
        }
    }
    if !header.watches {
        mark_by_environment(root, run, records, &all, &mut job_of);
    }
    for (&pid, stat) in &all {
        if let Some(job) = groups.get(&stat.group) {
            job_of.entry(pid).or_insert_with(|| job.clone());
        }
    }
    // Who is older than the watch was started by its parent before that was ever ours.
    let since = if header.watches { header.born_ticks } else { 0 };
    all.retain(|pid, stat| since <= stat.born_ticks || job_of.contains_key(pid));
    follow_parents(root, run, &all, &mut job_of);
    let has_undecided = !header.watches
        && all
            .iter()
            .filter(|(pid, _)| !job_of.contains_key(pid))
            .any(|process| is_undecided(root, header, records, online, process));
    let named = |(pid, job)| Some((pid, (job, all.get(&pid)?.comm.clone())));
    (job_of.into_iter().filter_map(named).collect(), has_undecided)
}

/// Whether a process may be ours and cannot be asked, since it is in the middle of an exec. What is
/// older than the run cannot come from it.
fn is_undecided(
    root: &Path,
    header: &Header,
    records: &Records,
    online: &CpuSet,
    (&pid, stat): (&u32, &Stat),
) -> bool {
    header.born_ticks <= stat.born_ticks
        && affinity::get(pid).is_ok_and(|mask| records.has_mask(&mask, online))
        && environ(root, pid).is_ok_and(|environ| environ == Environ::InExec)
}

/// Processes that have our run in their environment, whoever their parent is by now.
fn mark_by_environment(
    root: &Path,
    run: &str,
    records: &Records,
    all: &BTreeMap<u32, Stat>,
    job_of: &mut BTreeMap<u32, String>,
) {
    for (&pid, stat) in all {
        if stat.is_kernel_thread || job_of.contains_key(&pid) {
            continue;
        }
        let environ = procfs::environ(root, pid).unwrap_or_default();
        let variable = |name| procfs::parse_environ(&environ, name);
        if variable(RUN_VARIABLE) == Some(run)
            && let Some(job) = variable(JOB_VARIABLE).filter(|job| records.knows_job(job))
        {
            job_of.insert(pid, job.to_owned());
        }
    }
}

/// Children of ours are ours, unless another run says in their environment that they are its own.
fn follow_parents(
    root: &Path,
    run: &str,
    all: &BTreeMap<u32, Stat>,
    job_of: &mut BTreeMap<u32, String>,
) {
    loop {
        let mut found = Vec::new();
        for (&pid, stat) in all.iter().filter(|(pid, _)| !job_of.contains_key(pid)) {
            if let Some(job) = job_of.get(&stat.parent) {
                let environ = procfs::environ(root, pid).unwrap_or_default();
                let other = procfs::parse_environ(&environ, RUN_VARIABLE).is_some_and(|r| r != run);
                found.extend((!other).then(|| (pid, job.clone())));
            }
        }
        if found.is_empty() {
            return;
        }
        job_of.extend(found);
    }
}

#[cfg(test)]
mod tests;
