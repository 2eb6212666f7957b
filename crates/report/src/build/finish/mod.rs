//! The last step: labels, sentences and sums.

mod acts;
mod jobs;
mod loads;

use base::Nanos;
use journal::{Header, HowEnded, RunEnd};
use sched::Target;
use topology::Machine;

use super::ReportBuilder;
use crate::eras::EraNames;
use crate::model::{CpuRow, EndWord, JobRow, MachineSummary, Report, Run, StateWord, Totals};

pub(super) fn report(builder: &ReportBuilder, end: Option<&RunEnd>) -> Report {
    let header = &builder.header;
    let names = Names::new(builder);
    let jobs = jobs::rows(builder);
    Report {
        format: crate::FORMAT,
        tool: header.tool.clone(),
        run: run(builder, end),
        totals: totals(builder, &jobs),
        machine: machine(&header.machine),
        jobs,
        moves: acts::moves(builder, &names),
        refusals: acts::refusals(builder, &names),
        notes: acts::notes(builder, end),
        loads: loads::rows(builder, &names),
    }
}

/// What things are called.
struct Names<'a> {
    header: &'a Header,
    places: EraNames,
}

impl<'a> Names<'a> {
    fn new(builder: &'a ReportBuilder) -> Self {
        let header = &builder.header;
        Names { header, places: builder.eras.names(&header.machine) }
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
    let footing = loads::main_footing(builder);
    Run {
        id: header.run_id.clone(),
        workload: header.workload.clone(),
        policy: header.policy.name.clone(),
        policy_spec: header.policy.spec.clone(),
        host: header.host.clone(),
        replay_of: header.replay_of.clone(),
        seed: header.seed,
        started_unix_s: header.started_unix_s,
        wall_ns: wall.0,
        end: end.map(|end| end_word(end.how)),
        error: end.and_then(|end| end.error.clone()),
        n_turns: builder.counts.turns,
        signal_tier: footing.map(|footing| footing.tier.to_string()),
        signal_meaning: footing.map(|footing| loads::meaning(builder, footing)),
        task_signals: builder.signals.told(),
        domain_level: footing.map(|footing| footing.level.to_string()),
        own_cpu_ns: own_cpu.map(|time| time.0),
        own_cpu_share: own_cpu
            .filter(|_| wall != Nanos::ZERO)
            .map(|time| time.as_secs_f64() / wall.as_secs_f64()),
        own_max_resident_bytes: end.and_then(|end| end.own_max_resident).map(|size| size.0),
        n_journal_parts_missing: builder.n_parts_missing,
    }
}

fn end_word(how: HowEnded) -> EndWord {
    match how {
        HowEnded::Finished => EndWord::Finished,
        HowEnded::Interrupted => EndWord::Interrupted,
        HowEnded::Failed => EndWord::Failed,
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
        memory_bytes: memory.filter(|_| !machine.nodes().is_empty()),
        cpus: machine.cpus().iter().filter(|cpu| cpu.online).map(row).collect(),
    }
}

fn totals(builder: &ReportBuilder, jobs: &[JobRow]) -> Totals {
    let count =
        |states: &[StateWord]| jobs.iter().filter(|job| states.contains(&job.state)).count() as u64;
    let known = |figure: fn(&JobRow) -> Option<u64>| {
        jobs.iter().filter_map(figure).reduce(u64::saturating_add)
    };
    let (n_moves, acts) = (builder.counts.moves, &builder.acts);
    Totals {
        n_jobs: jobs.len() as u64,
        n_done: count(&[StateWord::Done]),
        n_failed: count(&[StateWord::Failed, StateWord::NotStarted]),
        n_stopped: count(&[StateWord::Stopped]),
        n_unfinished: count(&[StateWord::Waiting, StateWord::Running]),
        n_starts: jobs.iter().map(|job| job.n_starts).sum(),
        n_running_max: builder.counts.running_max,
        n_moves,
        n_wishes: acts.n_wishes,
        n_moves_left_out: acts::n_moves_left_out(builder),
        n_refusals: acts.n_refusals,
        n_refusals_left_out: acts::n_refusals_left_out(builder),
        n_hands_off: jobs.iter().filter(|job| job.hands_off.is_some()).count() as u64,
        user_ns: known(|job| job.user_ns).unwrap_or(0),
        system_ns: known(|job| job.system_ns).unwrap_or(0),
        wait_ns: known(|job| job.wait_ns),
        wait_is_estimate: jobs.iter().any(|job| job.wait_is_estimate),
        n_migrations: known(|job| job.n_migrations),
        n_migrations_is_estimate: jobs.iter().any(|job| job.n_migrations_is_estimate),
    }
}
