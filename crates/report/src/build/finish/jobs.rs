//! The row of each job.

use base::CpuSet;
use journal::{JobSoFar, LifeState};
use program::{Class, Job};
use sched::{CounterEvent, Counters, ExitStatus, JobExit, Measured, NodeMemory};

use super::super::ReportBuilder;
use super::super::timeline::Piece;
use super::super::track::{Track, Used, Wish};
use super::acts::asked_cpus;
use crate::model::{CountedRow, JobRow, NodeMemoryRow, StateWord, Stretch};
use crate::words::{command_line, hands_off_words};

pub(super) fn rows(builder: &ReportBuilder) -> Vec<JobRow> {
    let parts = builder.header.jobs.iter().zip(builder.lives.jobs()).zip(&builder.tracks);
    parts.map(|((job, life), track)| row(builder, job, life, track)).collect()
}

fn row(builder: &ReportBuilder, job: &Job, life: &JobSoFar, track: &Track) -> JobRow {
    let row = from_workload(job);
    let row = with_life(row, life, track);
    let row = with_start(row, builder.lives.is_replay(), track);
    let row = with_used(row, track.used.unwrap_or_default(), track.used.is_some());
    let row = with_counted(row, &track.counters);
    JobRow { timeline: timeline(builder, track), ..row }
}

/// Before anything happened to it.
fn from_workload(job: &Job) -> JobRow {
    JobRow {
        id: job.id.0,
        name: job.name.clone(),
        command: command_line(&job.command),
        class: job.class.map(Class::number).map(u32::from),
        profile: job.profile.clone(),
        threads: job.threads,
        due_ns: job.start.0,
        ..JobRow::default()
    }
}

fn with_life(row: JobRow, life: &JobSoFar, track: &Track) -> JobRow {
    let (exit_status, signal) = match life.ended.as_ref().map(|(_, end)| end.status) {
        Some(ExitStatus::Exited(status)) => (Some(status), None),
        Some(ExitStatus::Signaled(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let all = &track.timeline.all;
    JobRow {
        state: state(life),
        exit_status,
        signal,
        error: life.cannot_start.as_ref().map(|(_, detail)| detail.clone()),
        started_ns: track.started.map(|at| at.0),
        ended_ns: life.ended.as_ref().map(|(at, _)| at.0),
        n_moves: u64::from(life.n_moves),
        n_page_moves: u64::from(life.pages.n_moves),
        pages_requested_bytes: life.pages.requested.0,
        pages_moved_bytes: life.pages.moved.0,
        memory: track.memory.iter().flat_map(|memory| &memory.nodes).map(memory_row).collect(),
        memory_looked_permille: track.memory.as_ref().map(|m| u32::from(m.sampled_permille)),
        n_starts: u64::from(life.n_starts),
        ran_on: (!all.is_empty()).then(|| all.to_string()),
        hands_off: track.hands_off.as_ref().map(hands_off_words),
        ..row
    }
}

fn memory_row(memory: &NodeMemory) -> NodeMemoryRow {
    NodeMemoryRow {
        node: memory.node.0,
        small_bytes: memory.small.0,
        huge_bytes: memory.huge.0,
        file_bytes: memory.file.0,
        shared_bytes: memory.shared.0,
    }
}

fn state(life: &JobSoFar) -> StateWord {
    match (life.state, &life.ended) {
        (LifeState::Waiting, _) => StateWord::Waiting,
        (LifeState::Running, _) => StateWord::Running,
        (LifeState::NotStarted, _) => StateWord::NotStarted,
        (LifeState::Left, _) => StateWord::Left,
        (LifeState::Ended, Some((_, JobExit { stopped_by_host: true, .. }))) => StateWord::Stopped,
        (LifeState::Ended, Some((_, JobExit { status: ExitStatus::Exited(0), .. }))) => {
            StateWord::Done
        }
        (LifeState::Ended, _) => StateWord::Failed,
    }
}

/// In a replay the place is the recorded run's and the reason would be another policy's, so the two
/// stand apart.
fn with_start(row: JobRow, is_replay: bool, track: &Track) -> JobRow {
    let (cpus, wish) = (track.start.cpus.as_ref(), track.start.wish.as_ref());
    let start_cpus = cpus.map(CpuSet::to_string);
    let reason = wish.map(|wish| wish.reason.to_string());
    match is_replay {
        false => JobRow {
            start_cpus,
            start_asked_cpus: asked_cpus(wish, cpus),
            start_reason: reason.filter(|_| cpus.is_some()),
            ..row
        },
        true => JobRow {
            start_cpus,
            would_start_cpus: wish.and_then(Wish::cpus).map(CpuSet::to_string),
            would_start_reason: reason,
            ..row
        },
    }
}

fn with_used(row: JobRow, used: Used, is_known: bool) -> JobRow {
    JobRow {
        wall_ns: is_known.then_some(used.wall.0),
        user_ns: is_known.then_some(used.user.0),
        system_ns: is_known.then_some(used.system.0),
        wait_ns: used.wait.value,
        wait_is_estimate: used.wait.is_estimate,
        max_resident_bytes: is_known.then_some(used.max_resident.0),
        n_migrations: used.n_migrations.value,
        n_migrations_is_estimate: used.n_migrations.is_estimate,
        traffic_bytes: used.traffic.value,
        n_left_behind: used.n_left_behind,
        ..row
    }
}

fn with_counted(row: JobRow, counters: &Counters) -> JobRow {
    JobRow {
        counted: counters.iter().filter_map(counted_row).collect(),
        instructions_per_cycle: ratio(counters, CounterEvent::Instructions, CounterEvent::Cycles),
        misses_per_kilo_instruction: misses_per_kilo(counters),
        ..row
    }
}

fn counted_row((event, measured): (CounterEvent, Measured)) -> Option<CountedRow> {
    Some(CountedRow {
        what: event.name().to_owned(),
        n: measured.value()?,
        unit: event.unit().to_owned(),
        ran_permille: measured.ran_permille().map(u32::from),
    })
}

fn ratio(counters: &Counters, of: CounterEvent, to: CounterEvent) -> Option<f64> {
    let (of, to) = (counters.get(of).value()?, counters.get(to).value()?);
    (to != 0).then(|| of as f64 / to as f64)
}

fn misses_per_kilo(counters: &Counters) -> Option<f64> {
    let instructions = counters.get(CounterEvent::Instructions).value().filter(|n| *n != 0)?;
    Some(counters.misses().value()? as f64 * 1000.0 / instructions as f64)
}

fn timeline(builder: &ReportBuilder, track: &Track) -> Vec<Stretch> {
    let pieces = track.timeline.pieces();
    let last = pieces.len().wrapping_sub(1);
    let stretch = |(idx, piece): (usize, &Piece)| Stretch {
        from_ns: piece.from.0,
        // The one that goes on goes on to the end of the record.
        to_ns: if idx == last && track.timeline.is_open() { builder.at.0 } else { piece.to.0 },
        cpus: builder.sets.get(piece).map(CpuSet::to_string),
        bound: piece.bound,
    };
    pieces.iter().enumerate().map(stretch).collect()
}
