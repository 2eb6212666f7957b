//! Builds a report from turns, in bounded memory.
//!
//! During the run the builder stores values of `base` and `sched`; labels and sentences are composed at the end. Lists
//! of moves and rejections contain the last entries. When a timeline or a load series reaches its size limit, its
//! resolution is reduced. A turn without changes needs no allocation.

mod action_lists;
mod job_track;
mod load_history;
mod rows;
mod sampled_cpus;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuSet, JobId, Nanos, TaskId};
use engine::{LoadBasis, Sink, TurnRecord};
use journal::{
    Checkpoint, Header, JobChange, JobHistory, JobPhase, JobRecord, JournalError, Recording,
};
use sched::{
    Action, Cause, CounterEvent, JobEvent, RejectCause, Rejection, Request, SignalTier, Target,
    Tiers, UnmanagedCause,
};

use crate::domain_names::Epochs;
use crate::model::{MoveKind, NoteKind, RejectedBy, Report};
use action_lists::{ActionLists, ListedMove, RejectedAction};
use job_track::{JobTrack, PlacementRequest};
use load_history::LoadHistory;
use sampled_cpus::SampledCpus;
use timeline::CpuSets;

/// Maximum number of segments of all timelines together, 24 bytes each.
const N_SEGMENTS_MAX: usize = 64 * 1024;
/// Maximum number of segments of an attached job. A thousand jobs may be attached in one turn.
const N_SEGMENTS_ATTACHED: usize = 64;

/// Builds a report during a run, or from its journal.
#[derive(Debug)]
pub struct ReportBuilder {
    header: Header,
    jobs: JobHistory,
    tracks: Vec<JobTrack>,
    cpu_sets: CpuSets,
    loads: LoadHistory,
    lists: ActionLists,
    sampled_cpus: SampledCpus,
    epochs: Epochs,
    load_basis: Option<LoadBasis>,
    /// All signal tiers that each event had during the run.
    event_tiers: BTreeMap<CounterEvent, BTreeSet<SignalTier>>,
    counts: RunCounts,
    at: Nanos,
    n_parts_missing: u32,
}

#[derive(Debug, Default)]
struct RunCounts {
    turns: u64,
    moves: u64,
    running_max: u64,
    /// Number of placement requests, approved or rejected. If the number is 0, the loads had no effect.
    placements: u64,
}

/// Reads a journal to its end. The report equals the report that the run wrote.
///
/// # Errors
/// A line of the journal is invalid.
pub fn from_journal(mut recording: Recording) -> Result<Report, JournalError> {
    let mut builder = ReportBuilder::new(recording.header());
    if let Some(checkpoint) = recording.checkpoint() {
        builder.resume(checkpoint, recording.n_parts_missing());
    }
    for turn in &mut recording {
        builder.observe(&turn?.record());
    }
    if let Some(place) = recording.truncated() {
        builder.add_note(format!(
            "the last line of the journal is truncated and was ignored: {place}"
        ));
    }
    Ok(builder.finish(recording.end()))
}

impl ReportBuilder {
    /// Creates a builder in the state before the first turn.
    pub fn new(header: &Header) -> Self {
        let n_segments = (N_SEGMENTS_MAX / header.jobs.len().max(1)).clamp(16, 2000);
        ReportBuilder {
            header: header.clone(),
            jobs: JobHistory::new(header),
            tracks: header.jobs.iter().map(|_| JobTrack::new(n_segments)).collect(),
            cpu_sets: CpuSets::default(),
            loads: LoadHistory::default(),
            lists: ActionLists::default(),
            sampled_cpus: SampledCpus::default(),
            epochs: Epochs::new(&header.machine),
            load_basis: None,
            event_tiers: BTreeMap::new(),
            counts: RunCounts::default(),
            at: Nanos::ZERO,
            n_parts_missing: 0,
        }
    }

    /// Starts from the checkpoint of a journal whose first parts are missing.
    pub fn resume(&mut self, checkpoint: &Checkpoint, n_parts_missing: u32) {
        self.n_parts_missing = n_parts_missing;
        self.at = checkpoint.at;
        self.load_basis = checkpoint.load_basis;
        self.observe_tiers(checkpoint.signals.as_ref());
        self.counts.turns = checkpoint.turn + 1;
        self.loads.start_at(checkpoint.at);
        let sample = checkpoint.sample();
        let level = checkpoint.load_basis.map(|basis| basis.level);
        self.epochs.update(level, sample.usable_cpus.as_ref());
        self.jobs = checkpoint.jobs.clone();
        for idx in 0..self.tracks.len().min(self.jobs.jobs().len()) {
            self.resume_job(idx);
        }
        self.counts.running_max = self.jobs.n_running();
        for note in &checkpoint.notes {
            self.lists.add_reason(self.at, NoteKind::Note, note);
        }
        self.observe_sample(&sample);
    }

    fn resume_job(&mut self, idx: usize) {
        let (track, job) = (&mut self.tracks[idx], &self.jobs.jobs()[idx]);
        self.counts.moves += u64::from(job.n_moves);
        track.started = job.started;
        track.unmanaged = job.unmanaged.clone();
        if let Some((at, exit)) = &job.ended {
            track.end(*at, exit);
        }
        if job.phase == JobPhase::Running {
            let from = job.started.unwrap_or(self.at);
            let bound = self.jobs.bound_cpus(JobId(idx as u32));
            let foreign = job.placed.as_ref().filter(|_| bound.is_none());
            track.timeline.set_cpus(&mut self.cpu_sets, from, foreign, bound.as_ref());
            let request = job.placed.clone().map(Action::Place).zip(job.reason.clone());
            track.start_cpus = job.placed.clone();
            track.start_request =
                request.map(|(action, reason)| PlacementRequest { action, reason });
        }
    }

    /// Sets the number of first parts of the journal that the size limit removed.
    pub fn set_journal_parts_missing(&mut self, n: u32) {
        self.n_parts_missing = n;
    }

    /// Adds a note about the record itself, for example a truncated line.
    pub fn add_note(&mut self, text: String) {
        self.lists.add_text(self.at, NoteKind::Record, text);
    }

    /// Returns whether a job failed or could not be started.
    pub fn has_failed_jobs(&self) -> bool {
        self.jobs.n_failed() != 0
    }

    /// Returns the report after the last turn.
    pub fn finish(&self, end: Option<&journal::RunEnd>) -> Report {
        rows::report(self, end)
    }

    /// Adds a turn.
    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        self.counts.turns += 1;
        self.epochs.observe(record);
        self.load_basis = record.current_load_basis().or(self.load_basis);
        self.observe_tiers(record.signals.as_ref());
        self.header.add_attached_jobs(record.sample);
        self.observe_last_cpus(record.sample);
        for job in self.jobs.apply_events(record) {
            self.observe_job(&job);
        }
        self.observe_sample(record.sample);
        if record.turn.causes.contains(&Cause::Interval) {
            self.observe_sampled_cpus();
        }
        if let Some(loads) = record.loads {
            self.loads.add(self.at, loads, self.epochs.current());
        }
        self.observe_plan(record);
        let records = self.jobs.apply_outcomes(record);
        records.iter().for_each(|record| self.observe_job(record));
        self.observe_bindings(&records);
        self.counts.running_max = self.counts.running_max.max(self.jobs.n_running());
    }

    fn observe_tiers(&mut self, tiers: Option<&Tiers>) {
        for (event, tier) in tiers.into_iter().flat_map(Tiers::events_with_source) {
            self.event_tiers.entry(event).or_default().insert(tier);
        }
    }

    fn observe_sample(&mut self, sample: &sched::Sample) {
        for task in &sample.tasks {
            if self.jobs.job(task.job).is_some_and(|job| job.phase == JobPhase::Running) {
                self.sampled_cpus.observe(task.job, task.task, task.last_cpu);
            }
        }
        for memory in &sample.memory {
            if let Some(track) = self.tracks.get_mut(memory.job.index()) {
                track.add_memory(memory);
            }
        }
        for &task in &sample.exited {
            self.tracks.iter_mut().for_each(|track| track.process_exited(task));
            self.sampled_cpus.exited(task);
        }
        for text in &sample.degraded {
            self.lists.add_text(self.at, NoteKind::Degraded, text.clone());
        }
        for text in &sample.host_notes {
            self.lists.add_text(self.at, NoteKind::Note, text.clone());
        }
    }

    /// Takes the CPUs of jobs that ended before their first sample in an interval from their last sample.
    fn observe_last_cpus(&mut self, sample: &sched::Sample) {
        for event in &sample.jobs {
            let JobEvent::Ended(id, _) = event else { continue };
            let Some(track) = self.tracks.get_mut(id.index()) else { continue };
            if track.timeline.lacks_sample() {
                let bound = self.jobs.bound_cpus(*id);
                let tasks = sample.tasks.iter().filter(|task| task.job == *id);
                let cpus: CpuSet = tasks.filter_map(|task| task.last_cpu).collect();
                let cpus = Some(cpus).filter(|cpus| !cpus.is_empty());
                let sets = &mut self.cpu_sets;
                track.timeline.set_cpus(sets, self.at, cpus.as_ref(), bound.as_ref());
            }
        }
    }

    fn observe_plan(&mut self, record: &TurnRecord<'_>) {
        let (at, plan) = (self.at, record.plan);
        let is_place = |request: &&Request| matches!(request.action, Action::Place(_));
        self.counts.placements += plan.requests.iter().filter(is_place).count() as u64;
        for note in &plan.notes {
            self.lists.add_reason(at, NoteKind::Note, note);
        }
        if let Some(reason) = &plan.abort {
            self.lists.add_reason(at, NoteKind::Aborted, reason);
        }
        for Rejection { request, cause, detail } in record.rejected {
            let rejected = (RejectedBy::Guard, *cause, detail.as_str());
            self.reject(request.target, Some(&request.action), rejected);
        }
    }

    fn observe_job(&mut self, record: &JobRecord<'_>) {
        let (request, at) = (record.request, self.at);
        if let JobChange::Rejected(action, cause, detail) = record.change {
            let rejected = (RejectedBy::Kernel, cause, detail);
            return self.reject(record.target, Some(action), rejected);
        }
        let Some(id) = self.jobs.job_of(record.target) else { return };
        let subject = (id, record.target.task());
        match &record.change {
            JobChange::Ended(exit) => {
                self.sampled_cpus.remove(id);
                self.tracks[id.index()].end(at, exit);
            }
            JobChange::Unmanaged(cause) => self.unmanaged(id, cause),
            JobChange::Attached(_) => self.start_attached(id),
            JobChange::Detached { counters, .. } => {
                self.sampled_cpus.remove(id);
                self.tracks[id.index()].detach(at, counters);
            }
            JobChange::Started(cpus) => self.started(id, *cpus, request),
            JobChange::StartFailed(cause, detail) => {
                self.reject(record.target, None, (RejectedBy::Kernel, *cause, detail));
            }
            JobChange::Moved { from, to, n_tasks } => {
                self.counts.moves += 1;
                self.add_move(subject, (from.as_ref(), Some(to)), *n_tasks, request);
            }
            JobChange::Released { from, n_tasks } => {
                self.add_move(subject, (from.as_ref(), None), *n_tasks, request);
            }
            JobChange::Unchanged(cpus) => self.would_move(subject, Some(cpus), request),
            JobChange::NotCarriedOut(from) => self.would_move(subject, from.as_ref(), request),
            JobChange::MemoryPolicySet(_)
            | JobChange::PageMigrationStarted(_)
            | JobChange::PageMigrationEnded(_)
            | JobChange::Rejected(..) => {}
        }
    }

    /// Starts the track of an attached job, which replaces a detached job with the same number.
    fn start_attached(&mut self, id: JobId) {
        let mut track = JobTrack::new(N_SEGMENTS_ATTACHED);
        track.started = Some(self.at);
        track.timeline.set_cpus(&mut self.cpu_sets, self.at, None, None);
        match self.tracks.get_mut(id.index()) {
            Some(slot) => *slot = track,
            None => self.tracks.push(track),
        }
        self.sampled_cpus.remove(id);
    }

    fn unmanaged(&mut self, id: JobId, cause: &UnmanagedCause) {
        let track = &mut self.tracks[id.index()];
        track.unmanaged = Some(cause.clone());
        if let UnmanagedCause::AffinityChanged(cpus) = cause {
            track.timeline.set_cpus(&mut self.cpu_sets, self.at, Some(cpus), None);
            self.sampled_cpus.mark_changed(id);
        }
    }

    fn started(&mut self, id: JobId, cpus: Option<&CpuSet>, request: Option<&Request>) {
        let track = &mut self.tracks[id.index()];
        track.started.get_or_insert(self.at);
        track.timeline.set_cpus(&mut self.cpu_sets, self.at, None, cpus);
        track.start_cpus = cpus.cloned();
        track.start_request = request.map(PlacementRequest::from);
    }

    /// Records the CPUs of the jobs and threads that were bound or released.
    fn observe_bindings(&mut self, records: &[JobRecord<'_>]) {
        let is_binding = |record: &&JobRecord<'_>| {
            use JobChange::{Moved, Released, Unchanged};
            matches!(record.change, Moved { .. } | Released { .. } | Unchanged(_))
        };
        let bindings = records.iter().filter(is_binding);
        let jobs: BTreeSet<JobId> =
            bindings.filter_map(|record| self.jobs.job_of(record.target)).collect();
        for id in jobs {
            let (track, bound) = (&mut self.tracks[id.index()], self.jobs.bound_cpus(id));
            if track.timeline.is_open() {
                track.timeline.set_cpus(&mut self.cpu_sets, self.at, None, bound.as_ref());
            }
            self.sampled_cpus.mark_changed(id);
        }
    }

    /// Records a move. In a replay, the list contains the requests of the policy instead of the recorded moves.
    fn add_move(
        &mut self,
        subject: (JobId, Option<TaskId>),
        (from, to): (Option<&CpuSet>, Option<&CpuSet>),
        n_tasks: u32,
        request: Option<&Request>,
    ) {
        if self.jobs.is_replay() {
            return self.would_move(subject, from, request);
        }
        let kind = if to.is_some() { MoveKind::Move } else { MoveKind::Release };
        let moved = ListedMove { n_tasks, ..self.new_move(subject, kind, (from, to), request) };
        self.lists.add_move(moved);
    }

    fn would_move(
        &mut self,
        subject: (JobId, Option<TaskId>),
        from: Option<&CpuSet>,
        request: Option<&Request>,
    ) {
        let Some(request) = request.filter(|_| self.jobs.is_replay()) else { return };
        let (kind, to) = match &request.action {
            Action::Place(cpus) => (MoveKind::WouldMove, Some(cpus)),
            Action::Release => (MoveKind::WouldRelease, None),
            Action::MemoryPolicy(_) | Action::MovePages { .. } => return,
        };
        let moved = self.new_move(subject, kind, (from, to), Some(request));
        self.lists.add_would_move(moved);
    }

    fn new_move(
        &self,
        (job, thread): (JobId, Option<TaskId>),
        kind: MoveKind,
        (from, to): (Option<&CpuSet>, Option<&CpuSet>),
        request: Option<&Request>,
    ) -> ListedMove {
        let (at, epoch, request) =
            (self.at, self.epochs.current(), request.map(PlacementRequest::from));
        let (from, to) = (from.cloned(), to.cloned());
        ListedMove {
            at,
            last_at: at,
            n: 1,
            job,
            thread,
            kind,
            from,
            to,
            n_tasks: 0,
            request,
            epoch,
        }
    }

    fn reject(
        &mut self,
        target: Target,
        action: Option<&Action>,
        (by, cause, detail): (RejectedBy, RejectCause, &str),
    ) {
        self.lists.add_rejection(RejectedAction {
            at: self.at,
            last_at: self.at,
            n: 1,
            target,
            action: action.cloned(),
            by,
            cause,
            detail: detail.to_owned(),
            epoch: self.epochs.current(),
        });
    }

    /// Adds the sampled CPUs of jobs that changed their CPUs.
    fn observe_sampled_cpus(&mut self) {
        let jobs = &self.jobs;
        for (id, cpus) in self.sampled_cpus.take_changes(|id, task| jobs.cpus_of_thread(id, task)) {
            let Some(track) = self.tracks.get_mut(id.index()) else { continue };
            if track.timeline.is_open() {
                let (sets, bound) = (&mut self.cpu_sets, jobs.bound_cpus(id));
                track.timeline.set_cpus(sets, self.at, Some(&cpus), bound.as_ref());
            }
        }
    }
}

impl Sink for ReportBuilder {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.observe(record);
        Ok(())
    }
}
