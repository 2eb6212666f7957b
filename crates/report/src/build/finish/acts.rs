//! Moves, refusals and notes.

use base::CpuSet;
use journal::RunEnd;
use sched::Target;

use super::super::acts::{Move, Note, Refused, Wanted};
use super::super::{ReportBuilder, code, track::Wish};
use super::Names;
use crate::model::{MoveRow, MoveWord, NoteRow, NoteWord, RefusalRow};
use crate::words::action_words;

pub(super) fn moves(builder: &ReportBuilder, names: &Names<'_>) -> Vec<MoveRow> {
    builder.acts.moves.iter().map(|moved| move_row(moved, names)).collect()
}

fn move_row(moved: &Move, names: &Names<'_>) -> MoveRow {
    let (_, name) = names.target(Target::Job(moved.job));
    let places = names.places.of(moved.era);
    let reason = moved.wish.as_ref().map(|wish| &wish.reason);
    MoveRow {
        at_ns: moved.at.0,
        last_at_ns: moved.last_at.0,
        n: moved.n,
        job: moved.job.0,
        name,
        what: moved.what,
        from: moved.from.as_ref().map(|cpus| places.place(cpus)),
        to: moved.to.as_ref().map(|cpus| places.place(cpus)),
        from_cpus: moved.from.as_ref().map(CpuSet::to_string),
        to_cpus: moved.to.as_ref().map(CpuSet::to_string),
        asked_cpus: asked_cpus(moved.wish.as_ref(), moved.to.as_ref()),
        n_tasks: moved.n_tasks,
        code: reason.map(code),
        reason: reason.map(ToString::to_string),
    }
}

/// The CPUs that were asked for, where that is not what came of it.
pub(super) fn asked_cpus(wish: Option<&Wish>, came_of_it: Option<&CpuSet>) -> Option<String> {
    let asked = wish?.cpus()?;
    came_of_it.filter(|&cpus| cpus != asked).map(|_| asked.to_string())
}

pub(super) fn n_moves_left_out(builder: &ReportBuilder) -> u64 {
    let listed = |what: MoveWord| {
        let listed = builder.acts.moves.iter().filter(|moved| moved.what == what);
        listed.map(|moved| moved.n).sum::<u64>()
    };
    if builder.lives.is_replay() {
        let listed = listed(MoveWord::WouldMove) + listed(MoveWord::WouldRelease);
        return builder.acts.n_wishes.saturating_sub(listed);
    }
    builder.counts.moves.saturating_sub(listed(MoveWord::Move))
}

pub(super) fn refusals(builder: &ReportBuilder, names: &Names<'_>) -> Vec<RefusalRow> {
    builder.acts.refusals.iter().map(|refused| refusal_row(refused, names)).collect()
}

fn refusal_row(refused: &Refused, names: &Names<'_>) -> RefusalRow {
    let (job, name) = names.target(refused.target);
    let places = names.places.of(refused.era);
    RefusalRow {
        at_ns: refused.at.0,
        last_at_ns: refused.last_at.0,
        n: refused.n,
        job,
        name,
        what: match &refused.what {
            Wanted::Start => "start".to_owned(),
            Wanted::Do(action) => action_words(action, |cpus| places.place(cpus)),
        },
        by: refused.by,
        why: refused.why.name().to_owned(),
        detail: refused.detail.clone(),
    }
}

pub(super) fn n_refusals_left_out(builder: &ReportBuilder) -> u64 {
    let listed: u64 = builder.acts.refusals.iter().map(|refused| refused.n).sum();
    builder.acts.n_refusals.saturating_sub(listed)
}

pub(super) fn notes(builder: &ReportBuilder, end: Option<&RunEnd>) -> Vec<NoteRow> {
    let row = |note: &Note| NoteRow {
        at_ns: note.at.0,
        kind: note.kind,
        code: note.reason.as_ref().map(code),
        text: note.text.clone(),
    };
    let mut rows: Vec<NoteRow> = builder.acts.notes.iter().map(row).collect();
    let remark =
        |text: String| NoteRow { at_ns: builder.at.0, kind: NoteWord::Record, code: None, text };
    rows.extend(remarks(builder, end).into_iter().map(remark));
    rows
}

/// What must be said about the record itself.
fn remarks(builder: &ReportBuilder, end: Option<&RunEnd>) -> Vec<String> {
    let mut remarks = Vec::new();
    if end.is_none() {
        remarks.push("the record has no end: evenkeel was killed, or still runs".to_owned());
    }
    if builder.n_parts_missing != 0 {
        remarks.push(format!(
            "the first {} parts of the journal were removed by its size limit: what happened in them is not told here",
            builder.n_parts_missing
        ));
    }
    if builder.curves.n_left_out != 0 {
        remarks.push(format!(
            "what loads stand on changed very often: the first {} series of loads are left out here",
            builder.curves.n_left_out
        ));
    }
    remarks
}
