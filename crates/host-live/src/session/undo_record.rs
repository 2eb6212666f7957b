//! The undo record of a session. Every change of a setting is recorded before the change is made.
//!
//! Without a record no setting is changed. If a line cannot be written, the change is rejected. If a line that
//! *removes* an entry cannot be written, `restore` finds that the setting is already restored.

use std::path::Path;

use base::CpuSet;
use linux::cgroup::DelegatedCgroup;
use linux::fault;
use linux::undo::{Log, Records, RestoreControl, Restored};
use sched::{CauseAndDetail, RejectCause};

use crate::errors::with_causes;

/// Identity of a thread in the undo record: TID, start time in clock ticks since boot, PID.
pub(crate) type TaskEntry = (u32, u64, u32);

/// The undo record, or the reason for its absence.
#[derive(Debug)]
pub(crate) struct UndoRecord {
    log: Result<Log, String>,
    /// Unconfirmed changes: a thread that was forked during the change may have the previous mask.
    unconfirmed: Vec<u64>,
    /// Settings that could not be restored, after [`UndoRecord::close`].
    remaining: Option<Restored>,
    /// Changes of killed runs that evenkeel restored at its start.
    pub restored: Restored,
}

impl UndoRecord {
    pub(crate) fn new(log: Result<Log, String>, restored: Restored) -> Self {
        UndoRecord { log, unconfirmed: Vec::new(), remaining: None, restored }
    }

    pub(crate) fn missing_because(&self) -> Option<&str> {
        self.log.as_ref().err().map(String::as_str)
    }

    pub(crate) fn records(&self) -> Option<&Records> {
        self.log.as_ref().ok().map(Log::records)
    }

    /// Records the affinity that the next child of the job will set. Call this function before fork(2). Returns the
    /// number of the change.
    pub(crate) fn record_before_fork(
        &mut self,
        job: &str,
        old: &CpuSet,
        new: &CpuSet,
    ) -> Result<u64, CauseAndDetail> {
        self.log()?.record_before_fork(job, old, new).map_err(failed)
    }

    /// Records the PID of the child. Call this function after fork(2). If the line cannot be written, `restore`
    /// identifies the child by its environment.
    pub(crate) fn name_child(&mut self, change: u64, child: TaskEntry) {
        if let Ok(log) = &mut self.log {
            let _ = log.name_child(change, child);
        }
    }

    /// Records a change of the masks of running threads. `masks` contains the mask that `restore` sets, the current
    /// mask and the new mask. Call this function before sched_setaffinity(2).
    pub(crate) fn set(
        &mut self,
        job: &str,
        masks: [&CpuSet; 3],
        tasks: Vec<TaskEntry>,
    ) -> Result<(), CauseAndDetail> {
        let change = self.log()?.set(job, masks, tasks).map_err(failed)?;
        self.unconfirmed.push(change);
        Ok(())
    }

    /// Confirms that a change was made or aborted. If the line cannot be written, the old and the new mask count as set
    /// by evenkeel.
    pub(crate) fn confirm(&mut self, change: u64) {
        if let Ok(log) = &mut self.log {
            let _ = log.confirm(change);
        }
    }

    /// Confirms all changes. Call this function after every thread that was forked during the changes has been read.
    pub(crate) fn confirm_all(&mut self) {
        for change in std::mem::take(&mut self.unconfirmed) {
            self.confirm(change);
            fault::point();
        }
    }

    pub(crate) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Removes a job from the record.
    pub(crate) fn free(&mut self, job: &str) {
        if let Ok(log) = &mut self.log {
            let _ = log.free(job);
        }
    }

    /// Keeps the file after the run, because a setting could not be restored.
    pub(crate) fn keep(&mut self) {
        if let Ok(log) = &mut self.log {
            log.keep();
        }
    }

    /// Records a monitoring group before it is created. Returns whether the record was written.
    pub(crate) fn record_mon_group(&mut self, name: &str) -> bool {
        self.log.as_mut().is_ok_and(|log| log.record_mon_group(name).is_ok())
    }

    /// Records that a monitoring group was removed or not created.
    pub(crate) fn mon_group_removed(&mut self, name: &str) {
        if let Ok(log) = &mut self.log {
            let _ = log.mon_group_removed(name);
        }
    }

    /// Records the cgroups of the run before they are created.
    pub(crate) fn record_cgroups(&mut self, home: &DelegatedCgroup) -> Result<(), String> {
        let log = self.log.as_mut().map_err(|error| error.clone())?;
        log.record_cgroup(home).map_err(|error| with_causes(&error))
    }

    /// Removes the cgroups of the run from the record.
    pub(crate) fn cgroups_removed(&mut self) {
        if let Ok(log) = &mut self.log {
            let _ = log.cgroup_removed();
        }
    }

    /// Closes the record. If a setting could not be restored, the restore of a killed run is applied to the record,
    /// because the threads may have exited since. The file stays only if this restore is incomplete.
    pub(crate) fn close(&mut self, groups_root: &Path) {
        let closed = Err("the run has ended".to_owned());
        if let Ok(mut log) = std::mem::replace(&mut self.log, closed) {
            let control = RestoreControl { groups_root, ..RestoreControl::default() };
            self.remaining = log.restore_kept(control);
            // If the file cannot be removed, the next run of evenkeel finds a record without changes and removes it.
            let _ = log.remove();
        }
    }

    /// Returns the settings that could not be restored if [`UndoRecord::close`] kept the file.
    pub(crate) fn remaining(&self) -> Option<&Restored> {
        self.remaining.as_ref()
    }

    fn log(&mut self) -> Result<&mut Log, CauseAndDetail> {
        self.log.as_mut().map_err(|error| (RejectCause::UndoRecordFailed, error.clone()))
    }
}

fn failed(error: linux::undo::UndoError) -> CauseAndDetail {
    (RejectCause::UndoRecordFailed, with_causes(&error))
}
