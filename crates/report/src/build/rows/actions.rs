//! Moves, rejections and notes.

use base::CpuSet;
use journal::RunEnd;
use sched::{Reason, Target};

use super::super::ReportBuilder;
use super::super::action_lists::{ListedMove, Note, RejectedAction};
use super::super::job_track::PlacementRequest;
use super::ReportNames;
use crate::format::{duration, percent};
use crate::model::{MoveKind, MoveRow, NoteKind, NoteRow, RejectionRow};
use crate::phrases::action_phrase;

pub(super) fn moves(builder: &ReportBuilder, names: &ReportNames<'_>) -> Vec<MoveRow> {
    builder.lists.moves.iter().map(|moved| move_row(moved, names)).collect()
}

fn move_row(moved: &ListedMove, names: &ReportNames<'_>) -> MoveRow {
    let (_, name) = names.target(Target::Job(moved.job));
    let domain_names = names.domain_names.of(moved.epoch);
    let reason = moved.request.as_ref().map(|request| &request.reason);
    MoveRow {
        at_ns: moved.at.0,
        last_at_ns: moved.last_at.0,
        n: moved.n,
        job: moved.job.0,
        name,
        tid: moved.thread.map(|task| task.tid),
        kind: moved.kind,
        from: moved.from.as_ref().map(|cpus| domain_names.label(cpus)),
        to: moved.to.as_ref().map(|cpus| domain_names.label(cpus)),
        from_cpus: moved.from.as_ref().map(CpuSet::to_string),
        to_cpus: moved.to.as_ref().map(CpuSet::to_string),
        requested_cpus: requested_cpus(moved.request.as_ref(), moved.to.as_ref()),
        n_tasks: moved.n_tasks,
        code: reason.map(code),
        reason: reason.map(ToString::to_string),
    }
}

fn code(reason: &Reason) -> String {
    reason.code.name().to_owned()
}

/// Returns the requested CPUs, if they differ from the actual CPUs.
pub(super) fn requested_cpus(
    request: Option<&PlacementRequest>,
    actual: Option<&CpuSet>,
) -> Option<String> {
    let requested = request?.cpus()?;
    actual.filter(|&cpus| cpus != requested).map(|_| requested.to_string())
}

pub(super) fn n_moves_omitted(builder: &ReportBuilder) -> u64 {
    let n_listed = |kind: MoveKind| {
        let listed = builder.lists.moves.iter().filter(|moved| moved.kind == kind);
        listed.map(|moved| moved.n).sum::<u64>()
    };
    if builder.jobs.is_replay() {
        let n_listed = n_listed(MoveKind::WouldMove) + n_listed(MoveKind::WouldRelease);
        return builder.lists.n_would_move.saturating_sub(n_listed);
    }
    builder.counts.moves.saturating_sub(n_listed(MoveKind::Move))
}

pub(super) fn rejections(builder: &ReportBuilder, names: &ReportNames<'_>) -> Vec<RejectionRow> {
    builder.lists.rejections.iter().map(|rejected| rejection_row(rejected, names)).collect()
}

fn rejection_row(rejected: &RejectedAction, names: &ReportNames<'_>) -> RejectionRow {
    let (job, name) = names.target(rejected.target);
    let domain_names = names.domain_names.of(rejected.epoch);
    let phrase = |action| action_phrase(action, |cpus| domain_names.label(cpus));
    RejectionRow {
        at_ns: rejected.at.0,
        last_at_ns: rejected.last_at.0,
        n: rejected.n,
        job,
        name,
        action: rejected.action.as_ref().map_or("start".to_owned(), phrase),
        by: rejected.by,
        cause: rejected.cause.name().to_owned(),
        detail: rejected.detail.clone(),
    }
}

pub(super) fn n_rejections_omitted(builder: &ReportBuilder) -> u64 {
    let n_listed: u64 = builder.lists.rejections.iter().map(|rejected| rejected.n).sum();
    builder.lists.n_rejections.saturating_sub(n_listed)
}

pub(super) fn notes(builder: &ReportBuilder, end: Option<&RunEnd>) -> Vec<NoteRow> {
    let row = |note: &Note| NoteRow {
        at_ns: note.at.0,
        kind: note.kind,
        code: note.reason.as_ref().map(code),
        text: note.text.clone(),
    };
    let mut rows: Vec<NoteRow> = builder.lists.notes.iter().map(row).collect();
    let record_note =
        |text: String| NoteRow { at_ns: builder.at.0, kind: NoteKind::Record, code: None, text };
    rows.extend(record_notes(builder, end).into_iter().map(record_note));
    rows
}

fn record_notes(builder: &ReportBuilder, end: Option<&RunEnd>) -> Vec<String> {
    let mut notes = Vec::new();
    if end.is_none() {
        notes.push("the record has no end: evenkeel was killed or still runs".to_owned());
    }
    if builder.n_parts_missing != 0 {
        notes.push(format!(
            "{}: a report from the journal has no events of this time",
            crate::phrases::parts_missing_phrase(builder.n_parts_missing)
        ));
    }
    notes.extend(unattributed_note(builder));
    if builder.loads.n_dropped != 0 {
        notes.push(format!(
            "the source of the loads changed very often: the first {} series of loads are omitted",
            builder.loads.n_dropped
        ));
    }
    notes
}

/// Returns a note if more than this share of the CPU time of the jobs is not attributed to a domain. Guessed: a smaller
/// part does not change the reading of a chart.
const UNATTRIBUTED_MAX: f64 = 0.05;

fn unattributed_note(builder: &ReportBuilder) -> Option<String> {
    let (mut unattributed, mut attributed) = (0u64, 0u64);
    for series in &builder.loads.list {
        unattributed = unattributed.saturating_add(series.unattributed.0);
        let sums = series.points().flat_map(|(_, sums)| sums);
        attributed = sums.fold(attributed, |sum, domain| sum.saturating_add(domain.cpu.0));
    }
    let share = unattributed as f64 / unattributed.saturating_add(attributed).max(1) as f64;
    (UNATTRIBUTED_MAX < share).then(|| {
        format!(
            "{} of CPU time ({} of all) is not in the number of busy CPUs of any domain: its CPU or interval is unknown, for example of children that started and exited between two samples",
            duration(unattributed),
            percent(share)
        )
    })
}
