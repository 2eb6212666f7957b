//! Tracks the processes of the machine. A busy process becomes a job. A job is detached when it exits, becomes idle or
//! is excluded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos};
use linux::connector::ProcessEvent;
use linux::proc_stat::{ProcStat, comm_text};
use linux::procfs::is_known_running;
use program::Class;
use sched::{Cause, DetachCause, JobEvent, PageMigrationEnd};

use super::discovery::Discovery;
use super::inherited::{InheritedAffinity, InheritedMasks};
use super::jobs::{AttachedJob, AttachedJobs, class_of, describe};
use super::placement_cpus::PlacementCpus;
use super::process_inspector::ProcessInspector;
use super::process_table::{Activity, KnownProcess, ProcessState, ProcessTable};
use super::selection::Selection;
use super::signature_search::{ProgramSignature, SignatureSearch};
use super::status::{ExcludedProcesses, ExclusionReason, WatchStatus};
use crate::session::{AffinityState, Session, task_id};

/// All known processes, and the jobs among them.
pub(super) struct Tracker {
    pub inspector: ProcessInspector,
    pub discovery: Discovery,
    pub table: ProcessTable,
    pub jobs: AttachedJobs,
    pub inherited: InheritedMasks,
    pub cpus: PlacementCpus,
    pub classes: Vec<(String, Class)>,
    pub signatures: SignatureSearch,
    /// Time after which an idle job is detached.
    pub idle_after: Nanos,
    /// Time of the last discovery.
    pub now: Nanos,
}

impl Tracker {
    /// Discovers processes, and samples the processes with a due sample.
    pub(super) fn update(&mut self, session: &mut Session, now: Nanos) {
        self.inherited.release_late_children(session, &self.jobs, now);
        self.discover(session, now);
        while let Some(pid) = self.table.take_due(now) {
            self.sample(session, pid);
        }
    }

    /// Handles all forks, execs and exits until now.
    pub(super) fn discover(&mut self, session: &mut Session, now: Nanos) {
        self.now = now;
        let discovered = self.discovery.poll(now);
        if let Some(reason) = discovered.lost_events {
            session.warn(format!(
                "process events are no longer available ({reason}): new PIDs are polled"
            ));
        }
        // Events are handled in order, so that a child is known before its parent exits.
        for event in discovered.events {
            match event {
                ProcessEvent::Forked { parent, child } => {
                    self.new_pid(session, child, Some(parent));
                }
                ProcessEvent::Exec(pid) => {
                    if let Ok(stat) = self.inspector.proc.stat(pid) {
                        self.inspect(session, pid, &stat, None);
                    }
                }
                ProcessEvent::Exited(pid) => self.handle_exit(session, pid),
                ProcessEvent::Lost => {}
            }
        }
        for pid in discovered.new_pids {
            self.new_pid(session, pid, None);
        }
        if let Some(members) = discovered.members {
            self.set_members(session, &members);
        } else if discovered.needs_scan {
            self.scan(session);
        }
    }

    /// Handles a new PID or TID. The task may have exited.
    fn new_pid(&mut self, session: &mut Session, pid: u32, parent: Option<u32>) {
        let proc = &self.inspector.proc;
        let Ok(stat) = proc.stat(pid) else { return };
        let is_process =
            parent.is_some() || proc.status(pid).is_ok_and(|status| status.process == pid);
        if is_process && self.table.get_same(pid, &stat).is_none() {
            self.inspect(session, pid, &stat, parent);
        }
    }

    fn set_members(&mut self, session: &mut Session, members: &[u32]) {
        for pid in self.table.pids() {
            if members.binary_search(&pid).is_err() {
                self.handle_deselected(session, pid);
            }
        }
        for &pid in members {
            self.inspect_if_new(session, pid);
        }
    }

    fn scan(&mut self, session: &mut Session) {
        let mut pids = Vec::new();
        if self.inspector.proc.list(|pid| pids.push(pid)).is_err() {
            return; // The next scan repeats the read.
        }
        let running: BTreeSet<u32> = pids.iter().copied().collect();
        for pid in self.table.pids() {
            if !running.contains(&pid) {
                self.handle_exit(session, pid);
            }
        }
        for &pid in &pids {
            self.inspect_if_new(session, pid);
        }
        self.find_descendants(session, &pids);
    }

    fn inspect_if_new(&mut self, session: &mut Session, pid: u32) {
        let known = self.table.get(pid);
        // The PID of a kernel thread may have been reused, because kernel threads are sampled rarely.
        let kernel_thread = ProcessState::Excluded(ExclusionReason::KernelThread);
        if known.is_some_and(|known| known.state != kernel_thread) {
            return;
        }
        if let Ok(stat) = self.inspector.proc.stat(pid)
            && self.table.get_same(pid, &stat).is_none()
        {
            self.inspect(session, pid, &stat, None);
        }
    }

    /// Replaces the selection and the classes, and inspects all known processes again.
    pub(super) fn reselect(
        &mut self,
        session: &mut Session,
        selection: Selection,
        classes: Vec<(String, Class)>,
    ) {
        self.now = session.now();
        self.inspector.selection = selection;
        self.table.forget_selected_by_pid();
        let before = std::mem::replace(&mut self.classes, classes);
        for pid in self.table.pids() {
            let Ok(stat) = self.inspector.proc.stat(pid) else { continue };
            let job = self.table.get_same(pid, &stat).and_then(KnownProcess::job);
            let comm = stat.comm_text();
            if let Some(job) = job
                && class_of(&before, &comm) != class_of(&self.classes, &comm)
            {
                self.detach(session, job, DetachCause::Excluded);
                self.table.set_state(pid, ProcessState::Eligible, self.now);
            }
            self.inspect(session, pid, &stat, None);
        }
    }

    /// Searches descendants of selected processes repeatedly until no more are found: after a PID wrap, a child may
    /// have a smaller PID than its parent.
    fn find_descendants(&mut self, session: &mut Session, pids: &[u32]) {
        if self.inspector.selection.pids.is_empty() {
            return;
        }
        loop {
            let mut any_found = false;
            for &pid in pids {
                if self.table.get(pid).is_none_or(|known| known.is_selected_by_pid) {
                    continue;
                }
                let Ok(stat) = self.inspector.proc.stat(pid) else { continue };
                if self.inspector.is_selected_by_pid(&self.table, (pid, &stat), None) {
                    self.inspect(session, pid, &stat, None);
                    any_found = true;
                }
            }
            if !any_found {
                return;
            }
        }
    }

    /// Inspects a process that is new or has executed another program.
    fn inspect(&mut self, session: &mut Session, pid: u32, stat: &ProcStat, parent: Option<u32>) {
        let known = self.table.get_same(pid, stat);
        let was_selected_by_pid = known.is_some_and(|known| known.is_selected_by_pid);
        let job = known.and_then(KnownProcess::job);
        let is_selected_by_pid = was_selected_by_pid
            || self.inspector.is_selected_by_pid(&self.table, (pid, stat), parent);
        let state = self.inspector.inspect(pid, stat, is_selected_by_pid);
        match (job, state) {
            (Some(job), ProcessState::Eligible) => {
                self.table.insert(
                    pid,
                    stat,
                    (ProcessState::Job(job), is_selected_by_pid),
                    self.now,
                );
            }
            (Some(job), other) => {
                self.detach(session, job, DetachCause::Excluded);
                self.table.insert(pid, stat, (other, is_selected_by_pid), self.now);
            }
            (None, state) => {
                if self.table.get(pid).is_some() && self.table.get_same(pid, stat).is_none() {
                    self.handle_exit(session, pid);
                }
                self.table.insert(pid, stat, (state, is_selected_by_pid), self.now);
                let parent = parent.unwrap_or(stat.parent);
                self.inherited.check(session, &self.jobs, (pid, stat), parent);
            }
        }
    }

    fn sample(&mut self, session: &mut Session, pid: u32) {
        let stat = match self.inspector.proc.stat(pid) {
            Ok(stat) if !stat.has_exited() => stat,
            Ok(_) => return self.handle_sampled_exit(session, pid),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.handle_sampled_exit(session, pid);
            }
            Err(_) => return self.table.schedule_retry(pid, self.now),
        };
        let activity = self.table.sample(pid, &stat, self.now);
        let Some(state) = self.table.get(pid).map(|known| known.state) else { return };
        match (activity, state) {
            (Activity::Replaced, _) => self.inspect(session, pid, &stat, None),
            (activity, ProcessState::Job(job)) => {
                self.sample_job(session, job, &stat, activity);
            }
            (Activity::Busy(permille), ProcessState::Eligible) => {
                self.handle_busy(session, pid, &stat, permille);
            }
            (_, ProcessState::Excluded(_) | ProcessState::NotSelected) => {
                self.reconsider(pid, &stat, state);
            }
            _ => {}
        }
    }

    /// Checks whether the reason of an exclusion still applies.
    fn reconsider(&mut self, pid: u32, stat: &ProcStat, before: ProcessState) {
        let is_selected_by_pid = self.table.get(pid).is_some_and(|known| known.is_selected_by_pid);
        let state = self.inspector.inspect(pid, stat, is_selected_by_pid);
        let is_eligible = state == ProcessState::Eligible;
        let is_unrestricted = || self.inspect_closely(pid).is_ok_and(|reason| reason.is_none());
        if state != before && !is_eligible || is_eligible && is_unrestricted() {
            self.table.set_state(pid, state, self.now);
        }
    }

    fn inspect_closely(&self, pid: u32) -> std::io::Result<Option<ExclusionReason>> {
        let inherited = self.inherited.get(pid).map(|it| &*it.mask);
        self.inspector.inspect_closely((pid, self.now), &self.cpus, inherited)
    }

    fn handle_busy(&mut self, session: &mut Session, pid: u32, stat: &ProcStat, permille: u64) {
        // The search may take time. The inspection therefore comes after it, immediately before the attachment.
        let process = task_id(pid, stat.start_time_ticks);
        let Some(signature) = self.signatures.find(process, self.now) else {
            return self.table.set_state(pid, ProcessState::Eligible, self.now); // Sampled after an interval.
        };
        match self.inspect_closely(pid) {
            Ok(Some(reason)) => {
                self.table.set_state(pid, ProcessState::Excluded(reason), self.now);
            }
            Ok(None) => self.attach(session, pid, stat, (permille, signature)),
            Err(_) => self.table.schedule_retry(pid, self.now),
        }
    }

    /// Makes a busy process a job.
    fn attach(
        &mut self,
        session: &mut Session,
        pid: u32,
        stat: &ProcStat,
        (permille, signature): (u64, ProgramSignature),
    ) {
        let Ok(status) = self.inspector.proc.status(pid) else { return };
        let start_time_ticks = stat.start_time_ticks;
        let inherited = self.inherited.get(pid);
        let inherited = inherited.filter(|it| it.start_time_ticks == start_time_ticks).cloned();
        let Some((base, placed)) = self.masks_before(inherited.as_ref(), status.cpus) else {
            // The mask changed after the inspection; the inspection is repeated later.
            return self.table.schedule_retry(pid, self.now);
        };
        let job = self.jobs.new_id();
        let comm = stat.comm_text();
        session.tasks.adopt(job, pid, placed.as_ref().unwrap_or(&base));
        if session.tasks.job_of(pid) != Some(job) {
            return self.jobs.return_id(job); // The process exited after the inspection.
        }
        let affinity = AffinityState::new(job, format!("{comm}.{pid}"), pid, base, placed);
        let pidfd = session.watch_exit(pid);
        if let Some(note) = signature.note {
            match signature.profile {
                Some(_) => session.note_once(note),
                None => session.warn_once(note),
            }
        }
        let usage = (permille, stat.n_threads);
        let event = describe(&affinity, &comm, usage, &self.classes, signature.profile);
        session.report(JobEvent::Attached(Box::new(event)));
        let placed_ticks = inherited.as_ref().map(|_| start_time_ticks);
        let (since, busy_at) = (self.now, self.now);
        let attached = AttachedJob {
            affinity,
            start_time_ticks,
            group: stat.group,
            comm,
            since,
            busy_at,
            placed_ticks,
            pidfd,
        };
        self.table.set_state(pid, ProcessState::Job(job), self.now);
        if inherited.is_some() {
            self.inherited.remove(pid);
            record_inherited(session, &attached.affinity);
        }
        self.jobs.jobs.insert(job, attached);
    }

    /// Returns the mask that a process has without evenkeel, and the assigned mask that it inherited, if any. Returns
    /// `None` if the current mask is neither ordinary nor assigned.
    fn masks_before(
        &self,
        inherited: Option<&InheritedAffinity>,
        cpus: CpuSet,
    ) -> Option<(Arc<CpuSet>, Option<Arc<CpuSet>>)> {
        let ancestor =
            inherited.and_then(|inherited| Some((inherited, self.jobs.get(inherited.job)?)));
        match ancestor {
            Some((inherited, job)) if self.cpus.are_same(&cpus, &inherited.mask) => {
                Some((Arc::clone(&job.affinity.base), Some(Arc::clone(&inherited.mask))))
            }
            _ => self.cpus.is_ordinary(&cpus).then(|| (Arc::new(cpus), None)),
        }
    }

    /// Checks whether a job stays attached.
    fn sample_job(
        &mut self,
        session: &mut Session,
        job: JobId,
        stat: &ProcStat,
        activity: Activity,
    ) {
        let Some(attached) = self.jobs.jobs.get_mut(&job) else { return };
        if matches!(activity, Activity::Busy(_)) {
            attached.busy_at = self.now;
        }
        let pid = attached.affinity.pid;
        let is_idle = attached.busy_at + self.idle_after <= self.now;
        let is_selected_by_pid = self.table.get(pid).is_some_and(|known| known.is_selected_by_pid);
        let state = match self.inspector.inspect(pid, stat, is_selected_by_pid) {
            ProcessState::Eligible if self.inspector.restricts_memory(pid, &self.cpus) => {
                ProcessState::Excluded(ExclusionReason::OwnAffinity)
            }
            ProcessState::Eligible if is_idle => {
                self.detach(session, job, DetachCause::Idle);
                ProcessState::Eligible
            }
            ProcessState::Eligible => ProcessState::Job(job),
            other => other,
        };
        if !matches!(state, ProcessState::Eligible | ProcessState::Job(_)) {
            self.detach(session, job, DetachCause::Excluded);
        }
        self.table.set_state(pid, state, self.now);
    }

    /// Handles an exit that happened after the last events were handled. The next events may contain forks of this
    /// process before its exit.
    fn handle_sampled_exit(&mut self, session: &mut Session, pid: u32) {
        self.discover(session, self.now);
        self.handle_exit(session, pid);
    }

    pub(super) fn handle_exit(&mut self, session: &mut Session, pid: u32) {
        self.inherited.remove(pid);
        let Some(known) = self.table.get(pid) else { return };
        if let Some(job) = known.job() {
            if is_known_running(task_id(pid, known.start_time_ticks)) {
                return; // The PID was reused, or only the main thread has exited.
            }
            self.detach(session, job, DetachCause::Ended);
        }
        self.table.remove(pid);
    }

    /// Handles a process that left all selected cgroups.
    fn handle_deselected(&mut self, session: &mut Session, pid: u32) {
        let Some(known) = self.table.remove(pid) else { return };
        if let Some(job) = known.job() {
            let is_running = is_known_running(task_id(pid, known.start_time_ticks));
            let cause = if is_running { DetachCause::Excluded } else { DetachCause::Ended };
            self.detach(session, job, cause);
        }
    }

    pub(super) fn detach_all(&mut self, session: &mut Session, cause: DetachCause) {
        self.jobs.ids().into_iter().for_each(|job| self.detach(session, job, cause));
    }

    /// Detaches a job and restores its affinity.
    fn detach(&mut self, session: &mut Session, job: JobId, cause: DetachCause) {
        let end = match cause {
            DetachCause::Ended => PageMigrationEnd::Exited,
            _ => PageMigrationEnd::Stopped,
        };
        session.memory.stop_page_migrations_of(job, end);
        self.inherited.release(session, &mut self.jobs, job);
        let Some(attached) = self.jobs.remove(job) else { return };
        if let Some(pidfd) = &attached.pidfd {
            session.wakeups.unwatch(pidfd);
        }
        let counters = Box::new(session.tasks.take_counters_of(job));
        session.remove_process(attached.affinity.pid);
        session.report(JobEvent::Detached(job, cause, counters));
        session.turn.causes.insert(Cause::Ended);
    }

    /// Returns a note if no known process is selected, or if all selected processes are excluded.
    pub(super) fn no_match_note(&self) -> Option<String> {
        let mut excluded: BTreeMap<ExclusionReason, u64> = BTreeMap::new();
        for (_, known) in self.table.all() {
            match known.state {
                ProcessState::Excluded(ExclusionReason::EvenkeelItself)
                | ProcessState::NotSelected => {}
                ProcessState::Excluded(reason) => *excluded.entry(reason).or_default() += 1,
                ProcessState::Eligible | ProcessState::Job(_) => return None,
            }
        }
        let reasons: Vec<String> =
            excluded.iter().map(|(reason, n)| format!("{n}: {reason}")).collect();
        Some(match (reasons.is_empty(), self.inspector.selection.has_patterns()) {
            (false, _) => format!(
                "all selected processes are excluded ({}); the watch waits for new processes",
                reasons.join(", ")
            ),
            (true, false) => "no process is selected; the watch waits for new processes".to_owned(),
            (true, true) => "no process matches; the watch waits for new processes. A pattern \
                             matches the whole name or command line; add * for the rest"
                .to_owned(),
        })
    }

    pub(super) fn status(&self, session: &Session) -> WatchStatus {
        let mut status = WatchStatus {
            discovery: self.discovery.name().to_owned(),
            n_known: self.table.len() as u64,
            n_inherited: self.inherited.len() as u64,
            targets: self.cpus.targets(),
            all_targets: self.cpus.all_targets(),
            managed: self.jobs.jobs.values().map(AttachedJob::status).collect(),
            ..WatchStatus::default()
        };
        let mut excluded: BTreeMap<ExclusionReason, ExcludedProcesses> = BTreeMap::new();
        for (pid, known) in self.table.all() {
            match known.state {
                ProcessState::Excluded(reason) => {
                    excluded.entry(reason).or_default().add(pid, || comm_text(&known.comm));
                }
                ProcessState::Eligible => status.n_idle += 1,
                ProcessState::NotSelected | ProcessState::Job(_) => {}
            }
        }
        for AttachedJob { affinity, start_time_ticks, .. } in self.jobs.jobs.values() {
            if session.memory.has_memory_policy(task_id(affinity.pid, *start_time_ticks)) {
                let comm = affinity.name.rsplit_once('.').map_or("", |(comm, _)| comm);
                let processes = excluded.entry(ExclusionReason::OwnMemoryPolicy).or_default();
                processes.add(affinity.pid, || comm.to_owned());
            }
        }
        status.excluded = excluded;
        status
    }
}

/// Records a job that inherited a mask, under the name of the job. If the write fails, the record keeps the process
/// under the name of its ancestor.
fn record_inherited(session: &mut Session, state: &AffinityState) {
    let Some(mask) = &state.placed else { return };
    let threads = session.tasks.threads_of(state.job);
    let tasks = threads.map(|(pid, t)| (t.id.tid, t.id.start_time_ticks, pid)).collect();
    let _ = session.undo.set(&state.name, [&state.base, mask, mask], tasks);
}
