//! Restores settings that a killed evenkeel did not restore.
//!
//! A record is processed if its file is not locked and was written in this boot, in this PID namespace and time
//! namespace and by this user. Every recorded thread and every descendant is inspected. The original mask of a thread is restored if the
//! thread has exactly the recorded mask. Any other mask stays, and the report contains the reason. The file is removed
//! when all settings are restored. If a call failed or a process could not be read, the file stays for another attempt.

mod cgroups_and_mon_groups;
mod control;
mod members;
mod newest;
mod passes;
mod record_file;
mod tasks;

use std::io;
use std::path::{Path, PathBuf};

use base::CpuSet;

pub use cgroups_and_mon_groups::{KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction};
pub use control::{MonotonicClock, RestoreClock, RestoreControl, RestoreLimits, RestoreProgress};
pub use passes::{UnfinishedCause, UnfinishedRestore};

use super::dir::{Dir, SUFFIX, TEMPORARY_SUFFIX, is_linked, lock};
use super::mask_index::MaskIndex;
use super::record::{Records, UndoHeader};
use crate::system;
use control::RestoreRun;
use members::{MemberSearch, UnreadableProcesses};
use record_file::{belongs, is_of_other_version, lock_with_timeout, parse, read_all};
use tasks::TaskRestore;

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
    /// Why the restore ended although changed threads may remain; `None` if every thread was inspected.
    pub unfinished: Option<UnfinishedRestore>,
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
    /// The record belongs to another PID namespace or time namespace.
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
    /// The process was started during a watch, has a mask that evenkeel set, and its parent has exited or has another
    /// mask. It may be a descendant of a managed process, so its mask stays.
    UnknownParent {
        /// The current mask.
        mask: CpuSet,
        /// The original mask of the job that had this mask.
        original: CpuSet,
    },
    /// A call failed with this error.
    Failed(String),
}

/// Restores all records in these directories without a stop request. With `dry_run` no setting is changed.
pub fn restore(directories: &[PathBuf], dry_run: bool) -> Restored {
    restore_with(RestoreControl { dry_run, ..RestoreControl::default() }, directories)
}

/// Restores all records in these directories.
pub fn restore_with(control: RestoreControl<'_>, directories: &[PathBuf]) -> Restored {
    let mut run = RestoreRun::new(control);
    let mut restored = Restored::default();
    for (idx, directory) in directories.iter().enumerate() {
        match Dir::for_reading(directory, 0 < idx) {
            Ok(dir) => dir.iter().for_each(|dir| restore_dir(dir, &mut run, &mut restored)),
            Err(error) => restored.problems.push(error.to_string()),
        }
    }
    restored
}

/// Restores the settings in the record of this process, which has locked the file. The caller removes the file.
pub(super) fn restore_own(
    control: RestoreControl<'_>,
    path: PathBuf,
    (header, records): (&UndoHeader, &Records),
) -> Restored {
    let mut report = FileReport::new(path, RestoreVerdict::Complete);
    report.has_changes = !records.is_empty();
    let unreadable = report.restore(header, records, &mut RestoreRun::new(control));
    Restored { files: vec![report], problems: unreadable.into_iter().collect() }
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

fn restore_dir(dir: &Dir, run: &mut RestoreRun<'_>, restored: &mut Restored) {
    let names = dir.names().unwrap_or_else(|error| {
        restored.problems.push(format!("{}: {error}", dir.path.display()));
        Vec::new()
    });
    for name in names {
        if name.ends_with(TEMPORARY_SUFFIX) {
            remove_unfinished(dir, &name, run.control.dry_run);
        } else if name.ends_with(SUFFIX) {
            let mut problems = Vec::new();
            match restore_file(dir, &name, run, &mut problems) {
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
    run: &mut RestoreRun<'_>,
    problems: &mut Vec<String>,
) -> io::Result<Option<FileReport>> {
    let file = match dir.open_file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let path = dir.path.join(name);
    if let Some(verdict) = lock_with_timeout(&file, run)? {
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
        problems.extend(report.restore(header, &records, run));
    }
    if matches!(report.verdict, RestoreVerdict::Complete | RestoreVerdict::OtherBoot)
        && !run.control.dry_run
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
            unfinished: None,
        }
    }

    /// Restores the tasks and groups of a record. The record stays if a setting could not be restored. Returns the
    /// unreadable processes.
    fn restore(
        &mut self,
        header: &UndoHeader,
        records: &Records,
        run: &mut RestoreRun<'_>,
    ) -> UnreadableProcesses {
        let mut unreadable = UnreadableProcesses::new();
        let root = Path::new("/");
        match system::online(root) {
            Ok(online) => {
                let masks = MaskIndex::new(records, &online);
                let search = MemberSearch { root, header, records, masks: &masks };
                (self.entries, self.unfinished) =
                    TaskRestore::new(search, run, &mut unreadable).restore();
            }
            // Without the online CPUs, a recorded mask could be classified as the mask of another program.
            Err(error) => {
                unreadable.insert(format!("cannot read which CPUs are online: {error}"));
            }
        }
        let RestoreControl { groups_root, dry_run, .. } = run.control;
        // After a stop request the next restore removes the groups.
        if !run.is_stop_requested() {
            self.kernel_groups =
                cgroups_and_mon_groups::remove_mon_groups(groups_root, header, records, dry_run);
            let cgroup =
                cgroups_and_mon_groups::remove_cgroup(groups_root, header, records, dry_run);
            self.kernel_groups.extend(cgroup);
        }
        let is_failed = |entry: &Entry| matches!(entry.action, RestoreAction::Failed(_));
        let has_group_failed =
            |entry: &KernelGroupEntry| matches!(entry.action, KernelGroupRestoreAction::Failed(_));
        // The change of a malformed line may still be in effect.
        let is_incomplete =
            0 < self.n_damaged || !unreadable.is_empty() || self.unfinished.is_some();
        if is_incomplete
            || self.entries.iter().any(is_failed)
            || self.kernel_groups.iter().any(has_group_failed)
        {
            self.verdict = RestoreVerdict::Kept;
        }
        unreadable
    }
}

#[cfg(test)]
mod tests;
