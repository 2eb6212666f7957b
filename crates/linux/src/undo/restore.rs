//! Restores settings that a killed evenkeel did not restore.
//!
//! A record is processed if its file is not locked and was written in this boot, in this PID namespace and by this
//! user. Every recorded thread and every descendant is inspected. The original mask of a thread is restored if the
//! thread has exactly the recorded mask. Any other mask stays, and the report contains the reason. The file is removed
//! when all settings are restored. If a call failed or a process could not be read, the file stays for another attempt.

mod cgroups_and_mon_groups;
mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use base::{CpuSet, TaskId};

pub use cgroups_and_mon_groups::{KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction};

use super::dir::Dir;
use super::log::{SUFFIX, TEMPORARY_SUFFIX, is_linked, lock};
use super::record::{MaskOrigin, Records, UndoHeader, UndoLine};
use crate::proc_stat::ProcStat;
use crate::procfs;
use crate::{affinity, fault, fork_latency, system};
use members::{MemberSearch, UnreadableProcesses, may_exist};

/// Number of attempts to take a lock: a child between fork and exec shares the lock of its exited parent.
const LOCK_STEPS: u32 = 200;
/// Number of attempts to read `/proc/PID/environ`, which is empty during execve(2).
const EXEC_STEPS: u32 = 50;
/// Upper bound of the size of a record. A run rewrites its record when most of its lines are obsolete.
const BYTES_MAX: usize = 64 << 20;
const WAIT_STEP: std::time::Duration = std::time::Duration::from_millis(10);

/// The results of all records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// One report per file, sorted by name.
    pub files: Vec<FileReport>,
    /// Directories, files and processes that could not be read, with reasons.
    pub problems: Vec<String>,
}

/// The result of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Path of the file.
    pub path: PathBuf,
    /// Result for the file as a whole.
    pub verdict: RestoreVerdict,
    /// Results per process.
    pub entries: Vec<Entry>,
    /// Results for the resctrl monitoring groups and the cgroup of the run.
    pub kernel_groups: Vec<KernelGroupEntry>,
    /// Whether the record contains changes that the writer has not restored.
    pub has_changes: bool,
    /// Number of malformed lines. An incomplete last line does not count.
    pub n_damaged: usize,
    /// Number of the first malformed line, from 1; 0 if there is none.
    pub first_damaged: usize,
}

/// Result for a record as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreVerdict {
    /// All settings are restored and the file is removed. A dry run only reports this result.
    Complete,
    /// A setting could not be restored. The file stays for another attempt.
    Kept,
    /// The run of this record is active.
    InUse,
    /// The record was written before the last boot: nothing has to be restored, and the file is removed.
    OtherBoot,
    /// The record belongs to another PID namespace.
    OtherNamespace,
    /// The record belongs to another user.
    OtherUser,
    /// The format is not supported.
    Unknown,
}

/// The result for all threads of one process that had the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the job.
    pub job: String,
    /// PID of the process.
    pub process: u32,
    /// Name of the process.
    pub comm: String,
    /// Number of threads.
    pub n_threads: u32,
    /// The result.
    pub action: RestoreAction,
}

/// The result for a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestoreAction {
    /// The thread had the recorded mask, and its original mask is restored. A dry run only reports this result.
    Restored {
        /// The recorded mask.
        from: CpuSet,
        /// The original mask.
        to: CpuSet,
    },
    /// Another program has set this mask, so the mask stays.
    ChangedByOther(CpuSet),
    /// The thread has its original mask.
    AlreadyOriginal(CpuSet),
    /// A call failed with this error.
    Failed(String),
}

/// Options of a restore.
#[derive(Clone, Copy)]
struct RestoreOptions<'a> {
    groups_root: &'a Path,
    dry_run: bool,
}

/// Restores all records in these directories. With `dry_run` no setting is changed.
pub fn restore(directories: &[PathBuf], dry_run: bool) -> Restored {
    restore_below(Path::new("/"), directories, dry_run)
}

/// Restores all records with resctrl and cgroups below another root, for tests.
pub fn restore_below(groups_root: &Path, directories: &[PathBuf], dry_run: bool) -> Restored {
    let options = RestoreOptions { groups_root, dry_run };
    let mut restored = Restored::default();
    for (idx, directory) in directories.iter().enumerate() {
        match Dir::for_reading(directory, 0 < idx) {
            Ok(dir) => dir.iter().for_each(|dir| restore_dir(dir, options, &mut restored)),
            Err(error) => restored.problems.push(error.to_string()),
        }
    }
    restored
}

/// Returns whether a killed run left settings to restore. A record that cannot be read may contain settings.
pub fn has_changes(directories: &[PathBuf], run: &str) -> bool {
    directories.iter().enumerate().any(|(idx, directory)| {
        let Ok(Some(dir)) = Dir::for_reading(directory, 0 < idx) else { return false };
        let names = dir.names().unwrap_or_default();
        let mut records =
            names.iter().filter(|name| name.starts_with(run) && name.ends_with(SUFFIX));
        records.any(|name| match dir.open_file(name).and_then(|file| read_all(&file)) {
            Ok(bytes) => {
                let (_, records, damaged) = parse(&bytes);
                !records.is_empty() || !damaged.is_empty()
            }
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        })
    })
}

fn restore_dir(dir: &Dir, options: RestoreOptions<'_>, restored: &mut Restored) {
    let names = dir.names().unwrap_or_else(|error| {
        restored.problems.push(format!("{}: {error}", dir.path.display()));
        Vec::new()
    });
    for name in names {
        if name.ends_with(TEMPORARY_SUFFIX) {
            remove_unfinished(dir, &name, options.dry_run);
        } else if name.ends_with(SUFFIX) {
            let mut problems = Vec::new();
            match restore_file(dir, &name, options, &mut problems) {
                Ok(report) => restored.files.extend(report),
                Err(error) => problems.push(error.to_string()),
            }
            restored.problems.extend(problems.iter().map(|problem| format!("{name}: {problem}")));
        }
    }
}

/// Removes a rewritten file that a killed evenkeel did not rename. The record that it would replace is complete.
fn remove_unfinished(dir: &Dir, name: &str, dry_run: bool) {
    let Ok(file) = dir.open_file(name) else { return };
    if lock(&file).unwrap_or(false) && !dry_run {
        let _ = dir.unlink(name); // The next restore tries again.
    }
    drop(file); // The lock is held until here, so that a new file of this name is not affected.
}

/// Restores one record. Returns `None` if the owner has removed the file.
fn restore_file(
    dir: &Dir,
    name: &str,
    options: RestoreOptions<'_>,
    problems: &mut Vec<String>,
) -> io::Result<Option<FileReport>> {
    let file = match dir.open_file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let path = dir.path.join(name);
    if let Some(verdict) = lock_with_timeout(&file)? {
        return Ok(Some(FileReport::new(path, verdict)));
    }
    if !is_linked(&file)? {
        return Ok(None);
    }
    let bytes = read_all(&file)?;
    let (header, records, damaged) = parse(&bytes);
    // In another version the other lines may have another meaning, so they do not count as damaged.
    let (is_other_version, damaged) = match header.is_none() && is_of_other_version(&bytes) {
        true => (true, Vec::new()),
        false => (false, damaged),
    };
    let mut report = FileReport::new(path, RestoreVerdict::Complete);
    report.has_changes = !records.is_empty();
    (report.n_damaged, report.first_damaged) =
        (damaged.len(), damaged.first().copied().unwrap_or(0));
    report.verdict = match &header {
        None if is_other_version => RestoreVerdict::Unknown,
        // A run that was killed before the first line was complete has changed nothing.
        None if damaged.is_empty() => RestoreVerdict::Complete,
        None => RestoreVerdict::Unknown,
        Some(header) => belongs(header)?,
    };
    if let (RestoreVerdict::Complete, Some(header)) = (&report.verdict, &header) {
        problems.extend(report.restore(header, &records, options));
    }
    if matches!(report.verdict, RestoreVerdict::Complete | RestoreVerdict::OtherBoot)
        && !options.dry_run
        && let Err(error) = dir.unlink(name)
    {
        problems.push(format!("the file cannot be removed: {error}"));
        report.verdict = RestoreVerdict::Kept;
    }
    Ok(Some(report))
}

impl FileReport {
    fn new(path: PathBuf, verdict: RestoreVerdict) -> Self {
        let (entries, kernel_groups) = (Vec::new(), Vec::new());
        FileReport {
            path,
            verdict,
            entries,
            kernel_groups,
            has_changes: false,
            n_damaged: 0,
            first_damaged: 0,
        }
    }

    /// Restores the tasks and groups of a record. The record stays if a setting could not be restored. Returns the
    /// unreadable processes.
    fn restore(
        &mut self,
        header: &UndoHeader,
        records: &Records,
        options: RestoreOptions<'_>,
    ) -> UnreadableProcesses {
        let mut unreadable = UnreadableProcesses::new();
        let root = Path::new("/");
        match system::online(root) {
            Ok(online) => {
                let search = MemberSearch { root, header, records, online: &online };
                self.entries = restore_tasks(search, options.dry_run, &mut unreadable);
            }
            // Without the online CPUs, a recorded mask could be classified as the mask of another program.
            Err(error) => {
                unreadable.insert(format!("cannot read which CPUs are online: {error}"));
            }
        }
        self.kernel_groups = cgroups_and_mon_groups::remove_mon_groups(
            options.groups_root,
            header,
            records,
            options.dry_run,
        );
        let cgroup = cgroups_and_mon_groups::remove_cgroup(
            options.groups_root,
            header,
            records,
            options.dry_run,
        );
        self.kernel_groups.extend(cgroup);
        let is_failed = |entry: &Entry| matches!(entry.action, RestoreAction::Failed(_));
        let has_group_failed =
            |entry: &KernelGroupEntry| matches!(entry.action, KernelGroupRestoreAction::Failed(_));
        // The change of a malformed line may still be in effect.
        let is_incomplete = 0 < self.n_damaged || !unreadable.is_empty();
        if is_incomplete
            || self.entries.iter().any(is_failed)
            || self.kernel_groups.iter().any(has_group_failed)
        {
            self.verdict = RestoreVerdict::Kept;
        }
        unreadable
    }
}

/// Locks a file. If the file cannot be locked, returns the reason. If the owner has exited, only a child before its
/// exec can hold the lock, so the call waits for a short time.
fn lock_with_timeout(file: &OwnedFd) -> io::Result<Option<RestoreVerdict>> {
    for _ in 0..LOCK_STEPS {
        if lock(file)? {
            return Ok(None);
        }
        let (Some(header), ..) = parse(&read_all(file)?) else { break };
        match belongs(&header)? {
            RestoreVerdict::Complete if !owner_may_be_running(&header) => {
                std::thread::sleep(WAIT_STEP)
            }
            RestoreVerdict::Complete => break,
            // The record belongs to another user, boot or namespace, so its PIDs are not valid here.
            other => return Ok(Some(other)),
        }
    }
    Ok(Some(RestoreVerdict::InUse))
}

fn owner_may_be_running(header: &UndoHeader) -> bool {
    let is_owner = |stat: &ProcStat| {
        header.start_time_ticks == 0 || stat.start_time_ticks == header.start_time_ticks
    };
    match procfs::stat(Path::new("/"), header.pid) {
        Ok(stat) => !stat.has_exited() && is_owner(&stat),
        // An owner that cannot be read may be running, so its record is not changed.
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
        if BYTES_MAX < bytes.len() {
            return Err(io::Error::other(format!(
                "the file is larger than {} MiB",
                BYTES_MAX >> 20
            )));
        }
    }
}

/// Parses a record. Returns the header, the state after all lines, and the line numbers of malformed lines. An
/// incomplete last line does not count: its writer was killed before the change was made.
fn parse(bytes: &[u8]) -> (Option<UndoHeader>, Records, Vec<usize>) {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    lines.pop();
    let mut records = Records::default();
    let mut damaged = Vec::new();
    let Some((first, following)) = lines.split_first() else { return (None, records, damaged) };
    let header = serde_json::from_slice::<UndoHeader>(first).ok().filter(UndoHeader::is_known);
    damaged.extend(header.is_none().then_some(1));
    for (idx, line) in following.iter().enumerate() {
        match serde_json::from_slice::<UndoLine>(line) {
            Ok(line) => records.apply(&line),
            Err(_) => damaged.push(idx + 2),
        }
    }
    (header, records, damaged)
}

/// Returns whether the first line has a version that is not supported.
fn is_of_other_version(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct UndoVersion {
        evenkeel_undo: u32,
    }
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<UndoVersion>(first)
        .is_ok_and(|found| !UndoHeader::is_known_version(found.evenkeel_undo))
}

fn belongs(header: &UndoHeader) -> io::Result<RestoreVerdict> {
    let root = Path::new("/");
    Ok(if header.uid != rustix::process::geteuid().as_raw() {
        RestoreVerdict::OtherUser
    } else if header.boot != system::boot_id(root)? {
        RestoreVerdict::OtherBoot
    } else if header.pid_namespace != system::pid_namespace(root)? {
        RestoreVerdict::OtherNamespace
    } else {
        RestoreVerdict::Complete
    })
}

/// Restores all threads that have recorded masks. Processes run and fork during the restore, so they are listed
/// repeatedly until no new thread is found and no process in execve(2) may belong to a job.
fn restore_tasks(
    search: MemberSearch<'_>,
    dry_run: bool,
    unreadable: &mut UnreadableProcesses,
) -> Vec<Entry> {
    let mut inspected: BTreeSet<u32> = BTreeSet::new();
    let mut counted: BTreeMap<(String, u32, String, RestoreAction), u32> = BTreeMap::new();
    let mut n_waits = 0;
    // A fork that was in progress when its parent was restored becomes visible later.
    let mut forks_until = Instant::now();
    loop {
        let n_before = inspected.len();
        let (members, has_undecided) = search.members(unreadable);
        for (process, (job, comm)) in members {
            for tid in threads(search.root, process, unreadable) {
                if !inspected.insert(tid) {
                    continue;
                }
                if let Some(action) = restore_thread(search, tid, &job, dry_run) {
                    if matches!(action, RestoreAction::Restored { .. }) && !dry_run {
                        let latency = fork_latency::max_fork_latency(search.root, [process]);
                        forks_until = forks_until.max(Instant::now() + latency);
                    }
                    *counted.entry((job.clone(), process, comm.clone(), action)).or_default() += 1;
                }
            }
        }
        if inspected.len() == n_before {
            let is_complete = !has_undecided || EXEC_STEPS <= n_waits;
            if is_complete && forks_until <= Instant::now() {
                break;
            }
            n_waits += u32::from(has_undecided);
            std::thread::sleep(WAIT_STEP);
        }
    }
    let entry =
        |((job, process, comm, action), n_threads)| Entry { job, process, comm, n_threads, action };
    counted.into_iter().map(entry).collect()
}

fn threads(root: &Path, process: u32, unreadable: &mut UnreadableProcesses) -> Vec<u32> {
    procfs::threads(root, process).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            unreadable.insert(format!("threads of process {process} cannot be listed: {error}"));
        }
        Vec::new()
    })
}

/// Restores one thread if necessary. Returns `None` if the thread has exited.
fn restore_thread(
    search: MemberSearch<'_>,
    tid: u32,
    job: &str,
    dry_run: bool,
) -> Option<RestoreAction> {
    let MemberSearch { root, records, online, .. } = search;
    let has_exited = |error: &io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => !may_exist(root, tid),
        _ => error.kind() == io::ErrorKind::NotFound,
    };
    let unless_exited = |operation: &str, error: io::Error| match has_exited(&error) {
        true => None,
        false => Some(RestoreAction::Failed(format!("{operation}: {error}"))),
    };
    let id = match procfs::stat(root, tid) {
        Ok(stat) => TaskId { tid, start_time_ticks: stat.start_time_ticks },
        Err(error) => return unless_exited("cannot read its state", error),
    };
    let mask = match affinity::get(tid) {
        Ok(mask) => mask,
        Err(error) => return unless_exited("cannot read its affinity", error),
    };
    let set = |cpus: &CpuSet| if dry_run { Ok(()) } else { affinity::set(tid, cpus) };
    match records.classify_mask(id, job, &mask, online) {
        MaskOrigin::OtherProgram => {
            // The mask of the cpuset stays. Only the requested mask, which the kernel stores, is restored.
            let change =
                records.of_task(id).filter(|_| is_hidden_by_a_cpuset(root, id, records, &mask));
            match change.map_or(Ok(()), |change| set(&change.old)) {
                Ok(()) => Some(RestoreAction::ChangedByOther(mask)),
                Err(error) => {
                    unless_exited("cannot restore the affinity that its cpuset hides", error)
                }
            }
        }
        MaskOrigin::Original => Some(RestoreAction::AlreadyOriginal(mask)),
        MaskOrigin::Evenkeel(to) => match set(&to) {
            Ok(()) => Some(RestoreAction::Restored { from: mask, to }),
            Err(error) => unless_exited(&format!("cannot set its affinity to CPUs {to}"), error),
        },
    }
}

/// Returns whether a recorded thread was moved to a cpuset with exactly this mask. The kernel stores the requested mask
/// of the thread and applies it again when the thread is moved back.
fn is_hidden_by_a_cpuset(root: &Path, id: TaskId, records: &Records, mask: &CpuSet) -> bool {
    let change = records.of_task(id);
    change
        .is_some_and(|change| crate::cpuset::hides_requested_mask(root, id.tid, mask, &change.old))
}

#[cfg(test)]
mod tests;
