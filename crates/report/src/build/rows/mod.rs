//! The rows of the report: labels, sentences and sums.

mod actions;
mod jobs;
mod loads;
mod result;

use std::collections::BTreeMap;

use base::Nanos;
use journal::{Header, RunEnd, RunStatus};
use sched::{StopCause, Target};
use topology::{CoreKind, Machine};

use super::ReportBuilder;
use crate::domain_names::EpochNames;
use crate::model::{
    CoreKindRow, CpuRow, JobRow, JobStateName, MachineSummary, Report, Run, RunStatusName,
    StopCauseName, Totals,
};

pub(super) fn report(builder: &ReportBuilder, end: Option<&RunEnd>) -> Report {
    let header = &builder.header;
    let names = ReportNames::new(builder);
    let jobs = jobs::rows(builder, end);
    let totals = totals(builder, &jobs);
    let run = run(builder, end);
    let result = result::sentence(end, &totals, &jobs, run.wall_ns);
    let status = end.map(|end| status_word(end.status, &totals));
    let has_makespan = status == Some(RunStatusName::Finished);
    Report {
        format: crate::FORMAT,
        tool: header.tool.clone(),
        run: Run { result, status, makespan_ns: makespan(&jobs).filter(|_| has_makespan), ..run },
        linux: None,
        totals,
        machine: machine(&header.machine),
        jobs,
        moves: actions::moves(builder, &names),
        rejections: actions::rejections(builder, &names),
        notes: actions::notes(builder, end),
        loads: loads::rows(builder, &names),
    }
}

/// Names of jobs, tasks and domains.
struct ReportNames<'a> {
    header: &'a Header,
    domain_names: EpochNames,
}

impl<'a> ReportNames<'a> {
    fn new(builder: &'a ReportBuilder) -> Self {
        let header = &builder.header;
        ReportNames { header, domain_names: builder.epochs.names(&header.machine) }
    }

    fn target(&self, target: Target) -> (Option<u32>, String) {
        match target {
            Target::Job(id) => {
                let name = self.header.jobs.get(id.index()).map(|job| job.name.clone());
                (Some(id.0), name.unwrap_or_else(|| id.to_string()))
            }
            Target::Task(task) => (None, format!("thread {}", task.tid)),
        }
    }
}

fn run(builder: &ReportBuilder, end: Option<&RunEnd>) -> Run {
    let header = &builder.header;
    let wall = end.map_or(builder.at, |end| end.wall.max(builder.at));
    let own_cpu = end.and_then(|end| end.own_cpu);
    let basis = loads::main_basis(builder);
    Run {
        id: header.run_id.clone(),
        workload: header.workload.clone(),
        policy: header.policy.name.clone(),
        policy_spec: header.policy.spec.clone(),
        host: header.host.name().to_owned(),
        replay_of: header.replay_of.clone(),
        seed: header.seed,
        started_unix_s: header.started_unix_s,
        wall_ns: wall.0,
        makespan_ns: None,
        status: None,
        stopped_by: end.and_then(|end| end.stopped_by).map(stop_cause),
        result: String::new(),
        command: header.command.clone(),
        error: end.and_then(|end| end.error.clone()),
        n_turns: builder.counts.turns,
        signal_tier: basis.map(|basis| basis.tier.to_string()),
        signal_tier_text: basis.map(|basis| loads::tier_text(builder, basis)),
        task_signal_tiers: task_signal_tiers(builder),
        domain_level: basis.map(|basis| basis.level.to_string()),
        own_cpu_ns: own_cpu.map(|time| time.0),
        own_cpu_share: own_cpu
            .filter(|_| wall != Nanos::ZERO)
            .map(|time| time.as_secs_f64() / wall.as_secs_f64()),
        own_max_resident_bytes: end.and_then(|end| end.own_max_resident).map(|size| size.0),
        n_journal_parts_missing: builder.n_parts_missing,
    }
}

/// Returns the time from the start of the run to the last end of a job.
fn makespan(jobs: &[JobRow]) -> Option<u64> {
    jobs.iter().filter_map(|job| job.ended_ns).max()
}

/// Returns the signal tiers of events: `counters: cycles, instructions; counters and declared: llc-misses`. `None`: no
/// event has a source.
fn task_signal_tiers(builder: &ReportBuilder) -> Option<String> {
    let mut events_by_tiers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (event, tiers) in &builder.event_tiers {
        let tiers: Vec<String> = tiers.iter().map(ToString::to_string).collect();
        events_by_tiers.entry(tiers.join(" and ")).or_default().push(event.name());
    }
    let phrases: Vec<String> = events_by_tiers
        .iter()
        .map(|(tiers, events)| format!("{tiers}: {}", events.join(", ")))
        .collect();
    (!phrases.is_empty()).then(|| phrases.join("; "))
}

/// Returns the status of a run. Journals of earlier versions contain `finished` for a run with failed jobs.
fn status_word(status: RunStatus, totals: &Totals) -> RunStatusName {
    match status {
        RunStatus::Finished if totals.n_failed != 0 => RunStatusName::Failed,
        RunStatus::Finished => RunStatusName::Finished,
        RunStatus::Interrupted => RunStatusName::Interrupted,
        RunStatus::Failed => RunStatusName::Failed,
    }
}

fn stop_cause(cause: StopCause) -> StopCauseName {
    match cause {
        StopCause::Signal => StopCauseName::Signal,
        StopCause::TimeLimit => StopCauseName::TimeLimit,
        StopCause::FailedJob => StopCauseName::FailedJob,
        StopCause::Error => StopCauseName::Error,
        StopCause::Reload => StopCauseName::Reload,
    }
}

fn machine(machine: &Machine) -> MachineSummary {
    let memory: Option<u64> =
        machine.nodes().iter().map(|node| node.memory.map(|size| size.0)).sum();
    let row = |cpu: &topology::Cpu| CpuRow {
        id: cpu.id.0,
        node: cpu.node.map(|id| id.0),
        llc: cpu.llc.map(|id| id.0),
        core: cpu.core.map(|id| id.0),
    };
    MachineSummary {
        name: machine.name().to_owned(),
        n_nodes: machine.nodes().len() as u64,
        n_llcs: machine.llcs().len() as u64,
        n_cores: machine.cores().len() as u64,
        n_cpus: machine.online().len() as u64,
        n_cpus_allowed: machine.allowed().len() as u64,
        core_kinds: core_kinds(machine).iter().map(kind_row).collect(),
        memory_bytes: memory.filter(|_| !machine.nodes().is_empty()),
        cpus: machine.cpus().iter().filter(|cpu| cpu.online).map(row).collect(),
    }
}

/// Returns the core kinds of a machine; none if all cores are of one kind.
fn core_kinds(machine: &Machine) -> Vec<CoreKind<'_>> {
    let kinds = machine.core_kinds();
    if kinds.len() == 1 { Vec::new() } else { kinds }
}

fn kind_row(kind: &CoreKind<'_>) -> CoreKindRow {
    CoreKindRow {
        name: kind.name.to_owned(),
        n_cores: kind.cores.len() as u64,
        capacity: kind.capacity(),
        cpus: kind.cpus().to_string(),
    }
}

fn totals(builder: &ReportBuilder, jobs: &[JobRow]) -> Totals {
    let count = |states: &[JobStateName]| {
        jobs.iter().filter(|job| states.contains(&job.state)).count() as u64
    };
    let sum = |value: fn(&JobRow) -> Option<u64>| {
        jobs.iter().filter_map(value).reduce(u64::saturating_add)
    };
    let lists = &builder.lists;
    Totals {
        n_jobs: jobs.len() as u64,
        n_done: count(&[JobStateName::Done]),
        n_failed: jobs.iter().filter(|job| job.state.is_failure()).count() as u64,
        n_oom_killed: count(&[JobStateName::OomKilled]),
        n_timed_out: count(&[JobStateName::TimedOut]),
        n_stopped: count(&[JobStateName::Stopped]),
        n_unfinished: count(&[JobStateName::Waiting, JobStateName::Running]),
        n_starts: jobs.iter().map(|job| job.n_starts).sum(),
        n_running_max: builder.counts.running_max,
        n_moves: builder.counts.moves,
        n_would_move: lists.n_would_move,
        n_moves_omitted: actions::n_moves_omitted(builder),
        n_rejections: lists.n_rejections,
        n_rejections_omitted: actions::n_rejections_omitted(builder),
        n_unmanaged: jobs.iter().filter(|job| job.unmanaged.is_some()).count() as u64,
        user_ns: sum(|job| job.user_ns).unwrap_or(0),
        system_ns: sum(|job| job.system_ns).unwrap_or(0),
        wait_ns: sum(|job| job.wait_ns),
        n_migrations: sum(|job| job.n_migrations),
    }
}
