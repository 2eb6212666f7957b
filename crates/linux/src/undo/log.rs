//! The writer of an undo record, which opens the record, appends a line before each change, and removes the record at
//! the end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::CpuSet;
use rustix::fs::OFlags;

use super::UndoError;
use super::dir::{Dir, SUFFIX, TEMPORARY_SUFFIX, dirs, is_linked, lock};
use super::record::{RecordedTask, Records, UndoHeader, UndoLine};
use super::restore::{FileReport, RestoreControl, RestoreVerdict, Restored, restore_own};
use crate::cgroup::DelegatedCgroup;
use crate::{fault, procfs, system};

/// A file is rewritten when it is larger than this value and larger than twice its size after the last rewrite.
const REWRITE_BYTES: u64 = 4 << 20;

/// Flags for a new record, to which lines are appended.
const EXCLUSIVE: OFlags = OFlags::EXCL.union(OFlags::APPEND);

/// The undo record of this run. The file is locked until drop.
#[derive(Debug)]
pub struct Log {
    dir: Dir,
    file: OwnedFd,
    name: String,
    header: UndoHeader,
    records: Records,
    n_bytes: u64,
    n_bytes_rewritten: u64,
    last_nr: u64,
    is_kept: bool,
    /// Whether the file ends with an incomplete line.
    is_truncated: bool,
}

impl Log {
    /// Creates a record in the preferred directory.
    pub fn create() -> Result<Self, UndoError> {
        Log::create_in(&dirs())
    }

    /// Creates a record in the first usable directory of `directories`.
    pub fn create_in(directories: &[PathBuf]) -> Result<Self, UndoError> {
        let run = system::random_id(Path::new("/")).map_err(UndoError::System)?;
        Log::create_for(run, directories)
    }

    /// Creates a record for the run with this unique id.
    pub fn create_for(run: String, directories: &[PathBuf]) -> Result<Self, UndoError> {
        Log::create_with(run, directories, false)
    }

    /// Creates a record for processes that evenkeel did not start.
    pub fn create_watching(run: String, directories: &[PathBuf]) -> Result<Self, UndoError> {
        Log::create_with(run, directories, true)
    }

    fn create_with(run: String, directories: &[PathBuf], watches: bool) -> Result<Self, UndoError> {
        let root = Path::new("/");
        let dir = Dir::for_writing(directories)?;
        let uid = rustix::process::geteuid().as_raw();
        let boot = system::boot_id(root).map_err(UndoError::System)?;
        let namespace = system::pid_namespace(root).map_err(UndoError::System)?;
        let pid = std::process::id();
        let start_time_ticks = procfs::stat(root, pid).map_err(UndoError::System)?.start_time_ticks;
        let mut header = UndoHeader::new(boot, namespace, uid, run, pid);
        header.time_namespace = system::time_namespace(root).map_err(UndoError::System)?;
        (header.start_time_ticks, header.watches) = (start_time_ticks, watches);
        let (name, file) = create_locked(&dir, &header.run)?;
        let mut log = Log {
            dir,
            file,
            name,
            header,
            records: Records::default(),
            n_bytes: 0,
            n_bytes_rewritten: 0,
            last_nr: 0,
            is_kept: false,
            is_truncated: false,
        };
        let first = json(&log.header);
        if let Err(error) = log.append(&first) {
            // The file is empty. If the file cannot be removed here, `restore` removes it.
            let _ = log.dir.unlink(&log.name);
            return Err(error);
        }
        Ok(log)
    }

    /// Returns the id of this run, for the environment of its jobs.
    pub fn run(&self) -> &str {
        &self.header.run
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.path.join(&self.name)
    }

    /// Records the affinity that the next child of the job will set. Must be called before fork(2). Returns the number
    /// of the change.
    pub fn record_before_fork(
        &mut self,
        job: &str,
        old: &CpuSet,
        new: &CpuSet,
    ) -> Result<u64, UndoError> {
        let nr = self.next_nr();
        self.write(UndoLine::Bind { nr, job: job.to_owned(), old: old.clone(), new: new.clone() })?;
        Ok(nr)
    }

    /// Records PID and start time of the child. Must be called after fork(2).
    pub fn name_child(&mut self, nr: u64, child: RecordedTask) -> Result<(), UndoError> {
        self.write(UndoLine::Forked { nr, task: child })
    }

    /// Records a change of the masks of running threads from `now` to `new`; `restore` sets `old`. Must be called
    /// before sched_setaffinity(2). Returns the number of the change.
    pub fn set(
        &mut self,
        job: &str,
        [old, now, new]: [&CpuSet; 3],
        tasks: Vec<RecordedTask>,
    ) -> Result<u64, UndoError> {
        let nr = self.next_nr();
        let [old, now, new] = [old.clone(), now.clone(), new.clone()];
        self.write(UndoLine::Set { nr, job: job.to_owned(), old, now, new, tasks })?;
        Ok(nr)
    }

    /// Confirms that a change was made or aborted.
    pub fn confirm(&mut self, nr: u64) -> Result<(), UndoError> {
        self.write(UndoLine::Done { nr })
    }

    /// Removes a job from the record. Writes no line for an unknown job.
    pub fn free(&mut self, job: &str) -> Result<(), UndoError> {
        match self.records.contains_job(job) {
            true => self.write(UndoLine::Free { job: job.to_owned() }),
            false => Ok(()),
        }
    }

    /// Records the name of a monitoring group. Must be called before mkdir(2).
    pub fn record_mon_group(&mut self, name: &str) -> Result<(), UndoError> {
        self.write(UndoLine::MonGroup { name: name.to_owned() })
    }

    /// Removes a monitoring group from the record.
    pub fn mon_group_removed(&mut self, name: &str) -> Result<(), UndoError> {
        self.write(UndoLine::MonGroupRemoved { name: name.to_owned() })
    }

    /// Records the cgroup of the run. Must be called before mkdir(2).
    pub fn record_cgroup(&mut self, home: &DelegatedCgroup) -> Result<(), UndoError> {
        let DelegatedCgroup { version, ref dir, enables, .. } = *home;
        self.write(UndoLine::Cgroup { version, home: dir.clone(), enables })
    }

    /// Removes the cgroup of the run from the record.
    pub fn cgroup_removed(&mut self) -> Result<(), UndoError> {
        self.write(UndoLine::CgroupRemoved)
    }

    /// Returns all settings that have to be restored.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Leaves the file in place after the run, because a setting could not be restored. The next start or `evenkeel
    /// restore` tries again.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Returns whether the file stays after the run.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Restores the settings that are still recorded in the same way as `evenkeel restore`, if a setting could not be
    /// restored before. Returns the report if the file stays.
    pub fn restore_kept(&mut self, control: RestoreControl<'_>) -> Option<Restored> {
        if !self.is_kept {
            return None;
        }
        let restored = restore_own(control, self.path(), (&self.header, &self.records));
        let is_complete = |file: &FileReport| file.verdict == RestoreVerdict::Complete;
        self.is_kept = !restored.files.iter().all(is_complete);
        self.is_kept.then_some(restored)
    }

    /// Removes the file after all settings were restored. A file that has to stay is only unlocked.
    pub fn remove(self) -> Result<(), UndoError> {
        if self.is_kept {
            return Ok(());
        }
        fault::point();
        self.dir.unlink(&self.name).map_err(|error| self.cannot_write(error))?;
        fault::point();
        Ok(())
    }

    fn next_nr(&mut self) -> u64 {
        self.last_nr += 1;
        self.last_nr
    }

    fn write(&mut self, line: UndoLine) -> Result<(), UndoError> {
        self.append(&json(&line))?;
        self.records.apply(&line);
        if REWRITE_BYTES.max(2 * self.n_bytes_rewritten) < self.n_bytes {
            // A failed rewrite (ENOSPC) does not prevent the line from being written. The next rewrite is attempted
            // when the file has doubled.
            if self.rewrite().is_err() {
                let _ = self.dir.unlink(&self.temporary_name());
                self.n_bytes_rewritten = self.n_bytes;
            }
        }
        Ok(())
    }

    fn temporary_name(&self) -> String {
        self.name.replace(SUFFIX, TEMPORARY_SUFFIX)
    }

    /// Appends a line with one system call, so that a kill can leave only the last line incomplete.
    fn append(&mut self, line: &str) -> Result<(), UndoError> {
        fault::point();
        if self.is_truncated {
            self.truncate().map_err(|error| self.cannot_write(error))?;
        }
        let n_written =
            fault::retry("write", || Ok(rustix::io::write(&self.file, line.as_bytes())?))
                .map_err(|error| self.cannot_write(error))?;
        if n_written != line.len() {
            self.is_truncated = true;
            let _ = self.truncate(); // If the truncation fails, it is repeated before the next line.
            return Err(self.cannot_write(io::ErrorKind::StorageFull.into()));
        }
        self.n_bytes += n_written as u64;
        fault::point();
        Ok(())
    }

    /// Removes an incomplete last line.
    fn truncate(&mut self) -> io::Result<()> {
        fault::retry("ftruncate", || Ok(rustix::fs::ftruncate(&self.file, self.n_bytes)?))?;
        self.is_truncated = false;
        Ok(())
    }

    /// Replaces the file by a file that contains only the settings that have to be restored. The new file is locked
    /// before the rename, so the name never refers to an unlocked file.
    fn rewrite(&mut self) -> io::Result<()> {
        let lines: Vec<String> = self.records.lines().iter().map(json).collect();
        let text = json(&self.header) + &lines.concat();
        let temporary_name = self.temporary_name();
        // This file exists if an earlier attempt failed.
        let _ = self.dir.unlink(&temporary_name);
        let fresh = self.dir.create(&temporary_name, EXCLUSIVE)?;
        if !lock(&fresh)? {
            // The lock is held by `restore`, which may treat the file as the record of a killed run.
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let n_written = fault::retry("write", || Ok(rustix::io::write(&fresh, text.as_bytes())?))?;
        if n_written != text.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        fault::point();
        self.dir.rename(&temporary_name, &self.name)?;
        fault::point();
        self.file = fresh;
        self.n_bytes = n_written as u64;
        self.n_bytes_rewritten = self.n_bytes;
        Ok(())
    }

    fn cannot_write(&self, source: io::Error) -> UndoError {
        UndoError::Write { path: self.path(), source }
    }
}

/// Creates and locks a file. Before the file is locked, `restore` may treat it as the record of a killed run, lock it
/// and remove it. If the file is locked or removed, another name is tried.
fn create_locked(dir: &Dir, run: &str) -> Result<(String, OwnedFd), UndoError> {
    for attempt in 0..100 {
        let name = format!("{run}-{attempt}{SUFFIX}");
        let cannot_write = |source| UndoError::Write { path: dir.path.join(&name), source };
        let file = dir.create(&name, EXCLUSIVE).map_err(cannot_write)?;
        let is_owned = lock(&file).and_then(|is_locked| Ok(is_locked && is_linked(&file)?));
        match is_owned {
            Ok(true) => return Ok((name, file)),
            Ok(false) => {}
            Err(error) => {
                let _ = dir.unlink(&name); // The file is empty. If it remains, `restore` removes it.
                return Err(cannot_write(error));
            }
        }
    }
    let source = io::Error::from(io::ErrorKind::ResourceBusy);
    Err(UndoError::Write { path: dir.path.clone(), source })
}

fn json(value: &impl serde::Serialize) -> String {
    let mut text = base::json::to_line(value).expect("numbers and texts always have a JSON form");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_rewritten_grows() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::create_in(&[test_dir.path().join("state")]).expect("a record");
        let set = |text: &str| text.parse::<CpuSet>().expect("a list");
        log.record_before_fork("kept", &set("0-3"), &set("1")).expect("a line");
        // A directory with the name of the new file cannot be removed as a file.
        let new_file = test_dir.path().join("state").join(log.temporary_name());
        std::fs::create_dir(&new_file).expect("the directory is writable");
        log.n_bytes = REWRITE_BYTES + 1;
        log.record_before_fork("a", &set("0-3"), &set("1")).expect("a line");
        let bytes_before = log.n_bytes;
        assert!(REWRITE_BYTES < bytes_before, "the file was not rewritten");
        std::fs::remove_dir(&new_file).expect("the directory is empty");
        // The file of a failed attempt is replaced.
        std::fs::write(&new_file, "half").expect("the directory is writable");
        log.n_bytes_rewritten = 0;
        log.record_before_fork("b", &set("0-3"), &set("1")).expect("a line");
        assert!(log.n_bytes < 1000 && !new_file.exists(), "the file was rewritten");
        let text = std::fs::read_to_string(log.path()).expect("the file is readable");
        assert_eq!(["kept", "\"a\"", "\"b\""].map(|job| text.matches(job).count()), [1, 1, 1]);
    }
}
