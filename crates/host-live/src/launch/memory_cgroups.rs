//! Cgroups of jobs with bound memory, so that all pages of a job stay on its nodes.
//!
//! ```text
//!   undo record ─► cgroup of the run ─► cgroup of the job, cpuset.mems ─► fork ─► cgroup.procs ─► exec
//!   exit of the job ─► rmdir      end of the run ─► move remaining processes out ─► rmdir ─► record
//! ```
//!
//! Jobs without bound memory have no cgroup. If no job has bound memory, no cgroup is created. If a cgroup cannot be
//! created, the job starts with a memory policy that its main process sets, and one warning is reported. Errors of
//! cgroups never prevent a job from starting.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use base::JobId;
use linux::cgroup::{Cgroup, CgroupChoice, CgroupMode, RunCgroups, choose};
use program::MemoryPolicy;
use topology::Machine;

use crate::errors::Warnings;
use crate::session::UndoRecord;

/// State of the cgroup of the run, which contains the cgroups of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunCgroup {
    /// No job has needed the cgroup yet.
    NotCreated,
    Created,
    /// The cgroup cannot be created. All partial changes were reverted.
    Unavailable,
    /// The cgroup cannot be created or removed. Some directories may remain.
    Broken,
}

/// The cgroups of all running jobs.
#[derive(Debug)]
pub(super) struct MemoryCgroups {
    choice: CgroupChoice,
    run: Option<RunCgroups>,
    state: RunCgroup,
    /// Whether several nodes have memory, so that a cgroup has an effect.
    has_effect: bool,
    is_enabled: bool,
    by_job: BTreeMap<JobId, Arc<Cgroup>>,
    /// Cgroups of exited jobs that still contain processes.
    not_removed: BTreeMap<JobId, Arc<Cgroup>>,
    pub warnings: Warnings,
}

/// Checks whether cgroups of this mode can be used. Only a mode with an explicit version can fail.
///
/// # Errors
/// The reason, and what to do.
pub fn check_cgroups(mode: CgroupMode) -> Result<(), String> {
    let choice = choose("/".as_ref(), mode);
    match (mode, &choice.delegated) {
        (CgroupMode::Only(_), None) => Err(choice.reason),
        _ => Ok(()),
    }
}

impl MemoryCgroups {
    /// Checks whether cgroups can be created. `root` is `/` outside of tests.
    pub(super) fn open(root: PathBuf, machine: &Machine, run: &str, mode: CgroupMode) -> Self {
        let choice = choose(&root, mode);
        let delegated = choice.delegated.clone();
        MemoryCgroups {
            run: delegated.and_then(|delegated| RunCgroups::new(&root, delegated, run)),
            choice,
            state: RunCgroup::NotCreated,
            has_effect: 1 < machine.nodes_with_memory().len()
                || matches!(mode, CgroupMode::Only(_)),
            is_enabled: mode != CgroupMode::None,
            by_job: BTreeMap::new(),
            not_removed: BTreeMap::new(),
            warnings: Warnings::default(),
        }
    }

    /// Returns the version of cgroups in use and the reason, in one line.
    pub(super) fn description(&self) -> String {
        self.choice.to_string()
    }

    /// Returns whether a job with this memory policy gets a cgroup on this machine.
    pub(super) fn would_bind(&self, memory: Option<&MemoryPolicy>) -> bool {
        let is_bound = matches!(memory, Some(MemoryPolicy::Bind(_)));
        is_bound && self.has_effect && self.run.is_some()
    }

    /// Creates the cgroup of a job that is about to start, if its memory is bound. Returns the open `cgroup.procs`. The
    /// main process joins the cgroup by a write to this file.
    pub(super) fn begin(
        &mut self,
        job: JobId,
        name: &str,
        memory: Option<&MemoryPolicy>,
        undo: &mut UndoRecord,
    ) -> Option<OwnedFd> {
        let Some(MemoryPolicy::Bind(nodes)) = memory.filter(|_| self.has_effect) else {
            return None;
        };
        self.prepare(undo);
        let run = self.run.as_ref().filter(|_| self.state == RunCgroup::Created)?;
        let created = run.create(job.0, name, nodes).and_then(|group| {
            let procs =
                group.open_procs().map_err(|error| format!("{}: {error}", group.path().display()));
            self.not_removed.remove(&job); // The cgroup may contain processes of the previous run.
            self.by_job.insert(job, Arc::new(group));
            procs
        });
        if let Err(reason) = &created {
            self.warn(reason);
            self.end(job);
        }
        created.ok()
    }

    /// Creates the cgroup of the run at the first call.
    fn prepare(&mut self, undo: &mut UndoRecord) {
        if self.state != RunCgroup::NotCreated {
            return;
        }
        self.state = RunCgroup::Unavailable;
        let Some(run) = &self.run else {
            if self.is_enabled {
                self.warn(&self.choice.reason.clone());
            }
            return;
        };
        // Without an undo record nothing is changed.
        let created = undo.record_cgroups(run.delegated()).and_then(|()| {
            self.state = RunCgroup::Broken;
            run.prepare()
        });
        match created {
            Ok(()) => self.state = RunCgroup::Created,
            Err(reason) => {
                self.warn(&reason);
                self.remove_broken(undo);
            }
        }
    }

    /// Handles the error of a main process that could not join the cgroup of its job.
    pub(super) fn handle_join_error(&mut self, job: JobId, error: &std::io::Error) {
        self.warn(&error.to_string());
        self.end(job);
    }

    pub(super) fn cgroup_of(&self, job: JobId) -> Option<Arc<Cgroup>> {
        self.by_job.get(&job).cloned()
    }

    /// Removes the cgroup of a job. If the cgroup contains a process, the removal is repeated later.
    pub(super) fn end(&mut self, job: JobId) {
        self.not_removed.extend(self.by_job.remove(&job).map(|group| (job, group)));
        self.not_removed.retain(|_, group| group.remove().is_err());
    }

    /// Removes all cgroups. Returns whether all calls succeeded.
    pub(super) fn end_all(&mut self, undo: &mut UndoRecord) -> bool {
        self.by_job.clear();
        self.not_removed.clear();
        if matches!(self.state, RunCgroup::Created | RunCgroup::Broken) {
            self.state = RunCgroup::Broken;
            self.remove_broken(undo);
        }
        self.state != RunCgroup::Broken
    }

    fn remove_broken(&mut self, undo: &mut UndoRecord) {
        let is_broken = self.state == RunCgroup::Broken;
        let Some(run) = self.run.as_ref().filter(|_| is_broken) else { return };
        match run.remove_all() {
            Ok(()) => {
                self.state = RunCgroup::Unavailable;
                undo.cgroups_removed();
            }
            Err(reason) => {
                self.warnings
                    .add(format!("the cgroups of this run cannot be removed yet: {reason}"));
            }
        }
    }

    fn warn(&mut self, reason: &str) {
        self.warnings.add(format!(
            "the memory of some jobs is bound by a policy of their main process, not by a cgroup: {reason}"
        ));
    }
}
