//! The state file of a running evenkeel, which `evenkeel status` reads.
//!
//! The state file is written only in turns. A turn with an event writes the file immediately (for a run at most once
//! per second). Without events the file is written every few seconds. The state file is optional: if it cannot be
//! written, watch prints one warning and continues.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base::{JobId, Nanos};
use engine::TurnRecord;
use journal::Header;
use linux::state_file::StateFile;
use linux::{procfs, system, undo};
use report::status::{CommandKind, InstanceState, ManagedRow, MeasuredBenefit, STATE_FORMAT};
use sched::{Action, JobEvent, OutcomeResult, Target};

use crate::status::{self, unix_seconds};

/// Write interval without events. A reader detects a stopped writer by the age of the file.
const IDLE_WRITE_INTERVAL: Nanos = Nanos::from_secs(5);
/// Minimum write interval of a run, which limits the overhead.
const RUN_WRITE_INTERVAL: Nanos = Nanos::from_secs(1);

pub struct StateWriter {
    pub state: InstanceState,
    file: Option<StateFile>,
    /// Whether an event has not been written to the file yet.
    is_changed: bool,
    min_interval: Nanos,
    written_at: Option<Nanos>,
}

impl StateWriter {
    /// Creates the state file. Removes stale state files of killed processes.
    pub fn new(header: &Header, kind: CommandKind, acts: bool, journal: Option<&Path>) -> Self {
        // A process that performs actions has already restored the settings of killed processes.
        status::remove_stale(|state| acts || !state.acts);
        let file = StateFile::create(&header.run_id, &undo::dirs());
        if let (Err(error), CommandKind::Watch) = (&file, kind) {
            crate::print::warning(format_args!("status will not show this process: {error}"));
        }
        let min_interval = if kind == CommandKind::Run { RUN_WRITE_INTERVAL } else { Nanos::ZERO };
        let state = state(header, kind, acts, journal);
        StateWriter { state, file: file.ok(), is_changed: false, min_interval, written_at: None }
    }

    /// Records a turn: the load basis and the migrations.
    pub fn update(&mut self, record: &TurnRecord<'_>) {
        self.state.at_ns = record.turn.at.0;
        if let Some(basis) = record.current_load_basis() {
            self.state.signal_tier = basis.tier.to_string();
            self.state.domain_level = basis.level.to_string();
        }
        let placed = record.outcomes.iter().filter(|outcome| {
            let is_done = matches!(outcome.result, OutcomeResult::Done { n } if n != 0);
            is_done && matches!(outcome.action, Some(Action::Place(_)))
        });
        self.state.n_placements += placed.count() as u64;
        let moved = record.sample.page_migrations_completed.iter().map(|moved| moved.moved.0);
        self.state.pages_moved_bytes =
            moved.fold(self.state.pages_moved_bytes, u64::saturating_add);
        self.is_changed |= !record.sample.jobs.is_empty()
            || !record.sample.page_migrations_completed.is_empty()
            || !record.outcomes.is_empty()
            || !record.plan.notes.is_empty();
    }

    /// Returns whether the file must be written in this turn.
    pub fn is_due(&self, at: Nanos) -> bool {
        let interval = if self.is_changed { self.min_interval } else { IDLE_WRITE_INTERVAL };
        self.file.is_some() && self.written_at.is_none_or(|written| written + interval <= at)
    }

    /// Replaces the contents of the file.
    pub fn write(&mut self, at: Nanos) {
        let Some(file) = &self.file else { return };
        (self.written_at, self.is_changed) = (Some(at), false);
        self.state.written_unix_s = unix_seconds();
        let written = base::json::to_line(&self.state)
            .map_err(io::Error::from)
            .and_then(|text| file.write(&text));
        if let Err(error) = written {
            if self.state.kind == CommandKind::Watch {
                crate::print::warning(format_args!(
                    "status will no longer show this process: {error}"
                ));
            }
            self.file = None;
        }
    }
}

fn state(header: &Header, kind: CommandKind, acts: bool, journal: Option<&Path>) -> InstanceState {
    let pid = std::process::id();
    InstanceState {
        evenkeel_state: STATE_FORMAT,
        tool: header.tool.clone(),
        kind,
        run: header.run_id.clone(),
        pid,
        start_time_ticks: procfs::stat("/".as_ref(), pid).map_or(0, |stat| stat.start_time_ticks),
        boot_id: system::boot_id("/".as_ref()).unwrap_or_default(),
        started_unix_s: header.started_unix_s,
        written_unix_s: header.started_unix_s,
        at_ns: 0,
        acts,
        selection: header.workload.clone(),
        policy: header.policy.spec.clone(),
        signal_tier: "none".to_owned(),
        domain_level: String::new(),
        discovery: String::new(),
        target_cpus: None,
        possible_cpus: None,
        n_known: 0,
        n_idle: 0,
        n_inherited: 0,
        n_placements: 0,
        pages_moved_bytes: 0,
        benefit: if acts { MeasuredBenefit::Unknown } else { MeasuredBenefit::DryRun },
        benefit_text: None,
        managed: Vec::new(),
        excluded: Vec::new(),
        journal: journal.map(|path| path.display().to_string()),
    }
}

/// State of a run. A sink of the engine.
pub struct RunState {
    writer: StateWriter,
    names: Vec<String>,
    running: BTreeMap<JobId, ManagedRow>,
}

impl RunState {
    pub fn new(header: &Header, journal: Option<&Path>) -> Self {
        let mut writer = StateWriter::new(header, CommandKind::Run, true, journal);
        writer.state.n_known = header.jobs.len() as u64;
        let names = header.jobs.iter().map(|job| job.name.clone()).collect();
        RunState { writer, names, running: BTreeMap::new() }
    }

    fn update(&mut self, record: &TurnRecord<'_>) {
        self.writer.update(record);
        for event in &record.sample.jobs {
            match event {
                JobEvent::Ended(job, _) => drop(self.running.remove(job)),
                JobEvent::Unmanaged(job, _) => self.change(*job, |row| row.is_unmanaged = true),
                _ => {}
            }
        }
        for outcome in record.outcomes {
            let (Target::Job(job), OutcomeResult::Done { n }) = (outcome.target, &outcome.result)
            else {
                continue;
            };
            match &outcome.action {
                None => self.has_started(job, *n, record.turn.at),
                Some(Action::Place(cpus)) => {
                    self.change(job, |row| row.cpus_placed = Some(cpus.to_string()));
                }
                Some(Action::Release) => {
                    self.change(job, |row| (row.cpus_placed, row.reason) = (None, None));
                }
                _ => {}
            }
        }
        for request in &record.plan.requests {
            if let (Target::Job(job), Action::Place(_)) = (request.target, &request.action) {
                self.change(job, |row| row.reason = Some(request.reason.to_string()));
            }
        }
    }

    fn change(&mut self, job: JobId, change: impl FnOnce(&mut ManagedRow)) {
        if let Some(row) = self.running.get_mut(&job) {
            change(row);
        }
    }

    fn has_started(&mut self, job: JobId, pid: u32, at: Nanos) {
        let name = self.names.get(job.index()).cloned().unwrap_or_default();
        let row = ManagedRow {
            name,
            pid,
            start_time_ticks: procfs::stat("/".as_ref(), pid)
                .map_or(0, |stat| stat.start_time_ticks),
            since_ns: at.0,
            cpus_before: linux::affinity::get(0).map_or(String::new(), |cpus| cpus.to_string()),
            cpus_placed: None,
            reason: None,
            is_unmanaged: false,
        };
        self.running.insert(job, row);
    }
}

impl engine::Sink for RunState {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.update(record);
        if self.writer.is_due(record.turn.at) {
            self.writer.state.managed = self.running.values().cloned().collect();
            self.writer.write(record.turn.at);
        }
        Ok(())
    }
}
