//! The row of each job.

use std::collections::BTreeMap;

use base::{CpuSet, Nanos};
use journal::{JobPhase, JobProgress, RunEnd};
use program::{Class, Ending, Job};
use sched::{CounterDeltas, CounterEvent, Counters, ExitStatus, JobEnd, NodeMemory, StopCause};

use super::super::ReportBuilder;
use super::super::job_track::{JobTrack, PlacementRequest, Usage};
use super::super::timeline::Segment;
use super::actions::requested_cpus;
use crate::model::{
    BoundKindRow, CounterRow, JobRow, JobStateName, NodeMemoryRow, TimelineSegment,
};
use crate::phrases::{command_line, unmanaged_phrase};

pub(super) fn rows(builder: &ReportBuilder, end: Option<&RunEnd>) -> Vec<JobRow> {
    let stopped_by = end.and_then(|end| end.stopped_by);
    let kinds = super::core_kinds(&builder.header.machine);
    let kinds: Vec<(&str, CpuSet)> = kinds.iter().map(|kind| (kind.name, kind.cpus())).collect();
    let parts = builder.header.jobs.iter().zip(builder.jobs.jobs()).zip(&builder.tracks);
    let row = |((job, progress), track): ((&Job, &JobProgress), &JobTrack)| {
        let state = state(progress, job.ending, stopped_by);
        let core_kinds = core_kinds(builder, track, &kinds);
        JobRow { state, core_kinds, ..row(builder, job, progress, track) }
    };
    parts.map(row).collect()
}

fn row(builder: &ReportBuilder, job: &Job, progress: &JobProgress, track: &JobTrack) -> JobRow {
    let row = from_workload(job);
    let row = with_progress(row, progress, track);
    let row = with_start(row, builder.jobs.is_replay(), track);
    let row = with_usage(row, track.usage.unwrap_or_default(), track.usage.is_some());
    let row = with_counters(row, &track.counters);
    JobRow { timeline: timeline(builder, track), ..row }
}

/// Returns the fields that the workload declares.
fn from_workload(job: &Job) -> JobRow {
    JobRow {
        id: job.id.0,
        name: job.name.clone(),
        command: command_line(&job.command),
        class: job.class.map(Class::number).map(u32::from),
        profile: job.profile.clone(),
        profile_file: job.found_in.as_ref().map(|file| file.display().to_string()),
        threads: job.threads,
        due_ns: job.start.0,
        ..JobRow::default()
    }
}

fn with_progress(row: JobRow, progress: &JobProgress, track: &JobTrack) -> JobRow {
    let (exit_status, signal) = match progress.ended.as_ref().map(|(_, end)| end.status) {
        Some(ExitStatus::Exited(status)) => (Some(status), None),
        Some(ExitStatus::Signaled(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let all = &track.timeline.all;
    JobRow {
        exit_status,
        signal,
        error: progress.start_failure.as_ref().map(|(_, detail)| detail.clone()),
        started_ns: track.started.map(|at| at.0),
        ended_ns: progress.ended.as_ref().map(|(at, _)| at.0),
        n_moves: u64::from(progress.n_moves),
        n_page_migrations: u64::from(progress.page_migrations.n),
        pages_requested_bytes: progress.page_migrations.requested.0,
        pages_moved_bytes: progress.page_migrations.moved.0,
        memory: track.memory.iter().flat_map(|memory| &memory.nodes).map(memory_row).collect(),
        memory_sampled_permille: track.memory.as_ref().map(|m| u32::from(m.sampled_permille)),
        n_starts: u64::from(progress.n_starts),
        cpus_used: (!all.is_empty()).then(|| all.to_string()),
        unmanaged: track.unmanaged.as_ref().map(unmanaged_phrase),
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

fn state(progress: &JobProgress, ending: Ending, stopped_by: Option<StopCause>) -> JobStateName {
    match (progress.phase, &progress.ended) {
        (JobPhase::Waiting, _) => JobStateName::Waiting,
        (JobPhase::Running, _) => JobStateName::Running,
        (JobPhase::NotStarted, _) => JobStateName::NotStarted,
        (JobPhase::Detached, _) => JobStateName::Detached,
        (JobPhase::Ended, Some((_, exit))) => match exit.end().in_run(stopped_by, ending) {
            JobEnd::Succeeded => JobStateName::Done,
            JobEnd::Stopped => JobStateName::Stopped,
            JobEnd::TimedOut => JobStateName::TimedOut,
            JobEnd::OomKilled => JobStateName::OomKilled,
            JobEnd::Failed(_) | JobEnd::Killed(_) | JobEnd::Lost => JobStateName::Failed,
        },
        (JobPhase::Ended, None) => JobStateName::Failed,
    }
}

/// Adds the CPUs and the reason of the start. In a replay, the CPUs are from the recorded run and the reason is from
/// the replayed policy, so both are in separate fields.
fn with_start(row: JobRow, is_replay: bool, track: &JobTrack) -> JobRow {
    let (cpus, request) = (track.start_cpus.as_ref(), track.start_request.as_ref());
    let start_cpus = cpus.map(CpuSet::to_string);
    let reason = request.map(|request| request.reason.to_string());
    match is_replay {
        false => JobRow {
            start_cpus,
            start_requested_cpus: requested_cpus(request, cpus),
            start_reason: reason.filter(|_| cpus.is_some()),
            ..row
        },
        true => JobRow {
            start_cpus,
            would_start_cpus: request.and_then(PlacementRequest::cpus).map(CpuSet::to_string),
            would_start_reason: reason,
            ..row
        },
    }
}

fn with_usage(row: JobRow, usage: Usage, is_known: bool) -> JobRow {
    JobRow {
        wall_ns: is_known.then_some(usage.wall.0),
        user_ns: is_known.then_some(usage.user.0),
        system_ns: is_known.then_some(usage.system.0),
        wait_ns: usage.wait.map(|wait| wait.0),
        blocked_ns: usage.blocked.map(|blocked| blocked.0),
        max_resident_bytes: is_known.then_some(usage.max_resident.0),
        n_migrations: usage.n_migrations,
        traffic_bytes: usage.traffic.map(|bytes| bytes.0),
        n_remaining: usage.n_remaining,
        ..row
    }
}

fn with_counters(row: JobRow, counters: &Counters) -> JobRow {
    let deltas = engine::deltas_since_opened(counters);
    JobRow {
        counters: deltas.iter().map(|(event, n)| counter_row(event, n, &deltas)).collect(),
        ipc: ratio(&deltas, CounterEvent::Instructions, CounterEvent::Cycles),
        mpki: mpki(&deltas),
        ..row
    }
}

fn counter_row(event: CounterEvent, value: u64, deltas: &CounterDeltas) -> CounterRow {
    CounterRow {
        event: event.name().to_owned(),
        value,
        unit: event.unit().to_owned(),
        running_permille: deltas.measured(event).running_permille().map(u32::from),
    }
}

fn ratio(deltas: &CounterDeltas, of: CounterEvent, to: CounterEvent) -> Option<f64> {
    let (of, to) = (deltas.get(of)?, deltas.get(to)?);
    (to != 0).then(|| of as f64 / to as f64)
}

fn mpki(deltas: &CounterDeltas) -> Option<f64> {
    let instructions = deltas.get(CounterEvent::Instructions).filter(|n| *n != 0)?;
    Some(deltas.misses()? as f64 * 1000.0 / instructions as f64)
}

/// Returns the segments of a job with their ends. An open segment lasts to the end of the record.
fn segments<'a>(
    builder: &'a ReportBuilder,
    track: &'a JobTrack,
) -> impl Iterator<Item = (&'a Segment, Nanos)> {
    let all = track.timeline.segments();
    let open = all.last().filter(|_| track.timeline.is_open());
    all.iter().map(move |segment| match open {
        Some(last) if std::ptr::eq(last, segment) => (segment, builder.at),
        _ => (segment, segment.to),
    })
}

fn timeline(builder: &ReportBuilder, track: &JobTrack) -> Vec<TimelineSegment> {
    let row = |(segment, to): (&Segment, Nanos)| {
        let (cpus, bound) = (builder.cpu_sets.cpus(segment), builder.cpu_sets.bound(segment));
        TimelineSegment {
            from_ns: segment.from.0,
            to_ns: to.0,
            cpus: cpus.map(CpuSet::to_string),
            bound: bound.is_some() && bound == cpus,
            bound_cpus: bound.map(CpuSet::to_string),
        }
    };
    segments(builder, track).map(row).collect()
}

/// Returns the core kinds that the job was bound to, with their shares of the run time. `kinds` are all kinds with
/// their CPUs.
fn core_kinds(
    builder: &ReportBuilder,
    track: &JobTrack,
    kinds: &[(&str, CpuSet)],
) -> Vec<BoundKindRow> {
    let mut time_of: BTreeMap<Option<usize>, Nanos> = BTreeMap::new();
    let mut all = Nanos::ZERO;
    for (segment, to) in segments(builder, track).filter(|_| !kinds.is_empty()) {
        let time = to.saturating_sub(segment.from);
        all = all.saturating_add(time);
        if let Some(bound) = builder.cpu_sets.bound(segment) {
            let only = kinds.iter().position(|(_, cpus)| bound.is_subset(cpus));
            let sum = time_of.entry(only).or_default();
            *sum = sum.saturating_add(time);
        }
    }
    let mut times: Vec<_> = time_of.into_iter().filter(|(_, time)| *time != Nanos::ZERO).collect();
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let row = |(kind, time): (Option<usize>, Nanos)| BoundKindRow {
        kind: kind.map(|idx| kinds[idx].0.to_owned()),
        share: time.as_secs_f64() / all.as_secs_f64(),
    };
    times.into_iter().map(row).collect()
}
