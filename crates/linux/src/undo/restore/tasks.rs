//! Restores the masks of the threads of one record: first the recorded threads, then all processes of their jobs, in
//! passes ([`super::passes`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use base::{CpuSet, TaskId};

use super::control::RestoreRun;
use super::members::{MemberSearch, UnreadableProcesses, may_exist};
use super::passes::{NextStep, Pass, PassRule, UnfinishedRestore};
use super::{Entry, RestoreAction};
use crate::proc_stat::ProcStat;
use crate::undo::record::{MaskOrigin, Records};
use crate::{affinity, fork_latency, procfs};

/// The restoration of the threads of one record.
pub(super) struct TaskRestore<'a, 'c> {
    pub(super) search: MemberSearch<'a>,
    pub(super) run: &'a mut RestoreRun<'c>,
    unreadable: &'a mut UnreadableProcesses,
    rule: PassRule,
    /// Whether the last pass found processes of this user without a readable environment.
    has_denied: bool,
    inspected: BTreeSet<TaskId>,
    /// Number of threads per job, process, name and result.
    counted: BTreeMap<(String, u32, String, RestoreAction), u32>,
}

impl<'a, 'c> TaskRestore<'a, 'c> {
    pub(super) fn new(
        search: MemberSearch<'a>,
        run: &'a mut RestoreRun<'c>,
        unreadable: &'a mut UnreadableProcesses,
    ) -> Self {
        let rule = PassRule::new(run.control.limits, run.deadline);
        let (inspected, counted) = (BTreeSet::new(), BTreeMap::new());
        TaskRestore { search, run, unreadable, rule, has_denied: false, inspected, counted }
    }

    /// Restores all threads. Returns the results, and the reason if changed threads may remain.
    pub(super) fn restore(mut self) -> (Vec<Entry>, Option<UnfinishedRestore>) {
        self.restore_recorded();
        let unfinished = loop {
            let pass = self.pass();
            self.run.progress.n_passes += 1;
            let is_stop_requested = self.run.is_stop_requested();
            match self.rule.after(pass, self.run.now(), is_stop_requested) {
                NextStep::Pass => {}
                NextStep::PassAfter(time) => self.run.control.clock.pause(time),
                NextStep::End(unfinished) => break unfinished,
            }
        };
        if unfinished.is_none() && (self.search.header.watches || self.has_denied) {
            let run = &*self.run;
            let must_end = |is_large| must_end(run, is_large);
            for (pid, stat, job, [mask, original]) in
                self.search.with_unknown_parent(&must_end, self.unreadable)
            {
                let action = RestoreAction::UnknownParent { mask, original };
                self.count(&job, (pid, &stat), action);
            }
        }
        let entry = |((job, process, comm, action), n_threads)| Entry {
            job,
            process,
            comm,
            n_threads,
            action,
        };
        (self.counted.into_iter().map(entry).collect(), unfinished)
    }

    /// Restores the recorded threads before all processes are listed, so that their next children inherit the original
    /// mask.
    fn restore_recorded(&mut self) {
        let records = self.search.records;
        let mut restored = BTreeSet::new();
        for (id, change) in records.tasks() {
            if self.run.is_stop_requested() {
                return;
            }
            let stat = procfs::stat(self.search.root, id.tid);
            let stat = self.search.ok_or_unreadable(id.tid, stat, self.unreadable);
            let is_same = |stat: &ProcStat| {
                stat.start_time_ticks == id.start_time_ticks && !stat.has_exited()
            };
            let Some(stat) = stat.filter(is_same) else { continue };
            let process = change.process;
            // A thread can have another name than its process.
            let named = (process != id.tid).then(|| procfs::stat(self.search.root, process).ok());
            if self.restore_thread(id, (process, &named.flatten().unwrap_or(stat)), &change.job) {
                restored.insert(process);
            }
        }
        let latency = fork_latency::max_fork_latency(self.search.root, restored);
        self.rule.wait_for_forks(self.run.now(), latency);
    }

    /// Inspects all processes of the jobs once.
    fn pass(&mut self) -> Pass {
        let mut pass = Pass::default();
        let newest_before = procfs::newest_pid(self.search.root).ok();
        let run = &*self.run;
        let found = self.search.members(&|is_large| must_end(run, is_large), self.unreadable);
        (pass.has_undecided, pass.n_unread) = (found.has_undecided, found.n_unread);
        self.has_denied = !found.denied.is_empty();
        let members = found.jobs;
        let mut restored = Vec::new();
        for (&pid, (job, stat)) in &members {
            if self.rule.interrupts(self.run.now(), self.run.is_stop_requested()) {
                let is_new = |(pid, (_, stat)): &(&u32, &(String, ProcStat))| {
                    !self.inspected.contains(&main_thread(**pid, stat))
                };
                pass.n_not_inspected = members.iter().filter(is_new).count();
                break;
            }
            let n_restored = self.restore_process(pid, job, stat);
            if n_restored != 0 {
                restored.push(pid);
            }
            pass.n_restored += n_restored;
            self.run.report();
        }
        let newest = procfs::newest_pid(self.search.root).ok();
        if pass.n_restored == 0
            && pass.n_not_inspected == 0
            && newest != newest_before
            && let Some((pid, n_restored)) = self.restore_newest()
        {
            pass.n_restored = n_restored;
            restored.push(pid);
        }
        pass.fork_latency = fork_latency::max_fork_latency(self.search.root, restored);
        pass
    }

    /// Restores the threads of a process that were not inspected yet. Returns the number of restored threads.
    pub(super) fn restore_process(&mut self, pid: u32, job: &str, stat: &ProcStat) -> u64 {
        if stat.n_threads == 1 && self.inspected.contains(&main_thread(pid, stat)) {
            return 0;
        }
        let mut n_restored = 0;
        for tid in threads(self.search.root, pid, self.unreadable) {
            let root = self.search.root;
            let start = match procfs::stat(root, tid) {
                Ok(thread) => thread.start_time_ticks,
                Err(error) => {
                    let failed = unless_exited(root, tid, "cannot read its state", &error);
                    failed.into_iter().for_each(|action| self.count(job, (pid, stat), action));
                    continue;
                }
            };
            let id = TaskId { tid, start_time_ticks: start };
            n_restored += u64::from(self.restore_thread(id, (pid, stat), job));
        }
        n_restored
    }

    /// Restores one thread if necessary. Returns whether its mask was changed.
    fn restore_thread(&mut self, id: TaskId, process: (u32, &ProcStat), job: &str) -> bool {
        if !self.inspected.insert(id) {
            return false;
        }
        self.run.progress.n_inspected += 1;
        let Some(action) = self.action(id, job) else { return false };
        let is_restored = matches!(action, RestoreAction::Restored { .. });
        self.run.progress.n_restored += u64::from(is_restored);
        self.count(job, process, action);
        is_restored && !self.run.control.dry_run
    }

    fn count(&mut self, job: &str, (pid, stat): (u32, &ProcStat), action: RestoreAction) {
        *self.counted.entry((job.to_owned(), pid, stat.comm_text(), action)).or_default() += 1;
    }

    /// Restores one thread if necessary. Returns `None` if the thread has exited, or if it was not recorded and has its
    /// original mask.
    fn action(&self, id: TaskId, job: &str) -> Option<RestoreAction> {
        let MemberSearch { root, records, .. } = self.search;
        let failed =
            |operation: &str, error: io::Error| unless_exited(root, id.tid, operation, &error);
        let mask = match affinity::get(id.tid) {
            Ok(mask) => mask,
            Err(error) => return failed("cannot read its affinity", error),
        };
        match self.search.masks.classify(id, job, &mask) {
            MaskOrigin::OtherProgram => {
                // The mask of the cpuset stays. Only the requested mask, which the kernel stores, is restored.
                let is_hidden = is_hidden_by_a_cpuset(root, id, records, &mask);
                let change = records.of_task(id).filter(|_| is_hidden);
                match change.map_or(Ok(()), |change| self.set(id, &change.old)) {
                    Ok(()) => Some(RestoreAction::ChangedByOther(mask)),
                    Err(error) => {
                        failed("cannot restore the affinity that its cpuset hides", error)
                    }
                }
            }
            MaskOrigin::Original => {
                records.of_task(id).map(|_| RestoreAction::AlreadyOriginal(mask))
            }
            MaskOrigin::Evenkeel(to) => match self.set(id, &to) {
                Ok(()) => Some(RestoreAction::Restored { from: mask, to }),
                Err(error) => failed(&cannot_set(id.tid, &to, &error), error),
            },
        }
    }

    fn set(&self, id: TaskId, cpus: &CpuSet) -> io::Result<()> {
        if self.run.control.dry_run { Ok(()) } else { affinity::set(id.tid, cpus) }
    }
}

/// Returns whether no further environment is read. The time limit applies to large environments only, so that the first
/// pass over all other processes is complete.
fn must_end(run: &RestoreRun<'_>, is_large: bool) -> bool {
    run.is_stop_requested() || is_large && run.deadline <= run.now()
}

fn main_thread(pid: u32, stat: &ProcStat) -> TaskId {
    TaskId { tid: pid, start_time_ticks: stat.start_time_ticks }
}

fn threads(root: &Path, process: u32, unreadable: &mut UnreadableProcesses) -> Vec<u32> {
    procfs::threads(root, process).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            unreadable.insert(format!("threads of process {process} cannot be listed: {error}"));
        }
        Vec::new()
    })
}

fn cannot_set(tid: u32, to: &CpuSet, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("cannot set its affinity to CPUs {to} (as root: taskset -pc {to} {tid})")
        }
        _ => format!("cannot set its affinity to CPUs {to}"),
    }
}

/// Returns the failure of an operation on a thread, or `None` if the thread has exited.
fn unless_exited(
    root: &Path,
    tid: u32,
    operation: &str,
    error: &io::Error,
) -> Option<RestoreAction> {
    let has_exited = match error.raw_os_error() {
        Some(libc::ESRCH) => !may_exist(root, tid),
        _ => error.kind() == io::ErrorKind::NotFound,
    };
    (!has_exited).then(|| RestoreAction::Failed(format!("{operation}: {error}")))
}

/// Returns whether a recorded thread was moved to a cpuset with exactly this mask. The kernel stores the requested mask
/// of the thread and applies it again when the thread is moved back.
fn is_hidden_by_a_cpuset(root: &Path, id: TaskId, records: &Records, mask: &CpuSet) -> bool {
    let change = records.of_task(id);
    change
        .is_some_and(|change| crate::cpuset::hides_requested_mask(root, id.tid, mask, &change.old))
}
