//! The last step: labels, sentences and sums.

use std::collections::BTreeMap;

use base::{CpuSet, Nanos};
use journal::{Header, HowEnded, RunEnd};
use program::Class;
use sched::{ExitStatus, SignalTier, Target};
use topology::{Level, Machine};

use super::{JobSoFar, Move, Note, Refused, ReportBuilder, What};
use crate::model::{
    CpuRow, DomainRow, EndWord, JobRow, LoadPoint, Loads, MachineSummary, MoveRow, MoveWord,
    NoteRow, NoteWord, RefusalRow, Report, Run, StateWord, Stretch, Totals,
};
use crate::places::PlaceNames;
use crate::words::{action_words, command_line, hands_off_words, tier_words};

pub(super) fn report(builder: &ReportBuilder, end: Option<&RunEnd>) -> Report {
    let header = &builder.header;
    let names = Names::new(builder);
    let jobs: Vec<JobRow> = header
        .jobs
        .iter()
        .zip(&builder.jobs)
        .map(|(job, so_far)| job_row(job, so_far, builder))
        .collect();
    Report {
        format: crate::FORMAT,
        tool: header.tool.clone(),
        run: run(builder, end),
        totals: totals(builder, &jobs),
        machine: machine(&header.machine),
        jobs,
        moves: builder.moves.iter().map(|moved| move_row(moved, &names)).collect(),
        refusals: builder.refusals.iter().map(|refused| refusal_row(refused, &names)).collect(),
        notes: notes(builder, end),
        loads: loads(builder, &names),
    }
}

/// What things are called.
struct Names<'a> {
    header: &'a Header,
    places: PlaceNames,
}

impl<'a> Names<'a> {
    fn new(builder: &'a ReportBuilder) -> Self {
        let header = &builder.header;
        let usable = builder.usable.as_ref().unwrap_or_else(|| header.machine.allowed());
        let places = PlaceNames::new(&header.machine, builder.series.level, usable);
        Names { header, places }
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
    let tier = builder.series.tier();
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
        signal_tier: tier.map(|tier| tier.to_string()),
        signal_meaning: tier.map(|tier| tier_meaning(tier, &builder.series.tiers)),
        domain_level: builder.series.level.map(|level| level.to_string()),
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

/// The tier in a sentence, and in how many intervals it was another.
fn tier_meaning(tier: SignalTier, tiers: &BTreeMap<SignalTier, u64>) -> String {
    let n_all: u64 = tiers.values().sum();
    let others = tiers.iter().filter(|(other, _)| **other != tier);
    let others =
        others.map(|(other, n)| format!("; {n} of {n_all} intervals stood on tier {other}"));
    std::iter::once(tier_words(tier).to_owned()).chain(others).collect()
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

fn job_row(job: &program::Job, so_far: &JobSoFar, builder: &ReportBuilder) -> JobRow {
    let used = so_far.used;
    let (exit_status, signal) = match so_far.status {
        Some(ExitStatus::Exited(status)) => (Some(status), None),
        Some(ExitStatus::Killed(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let all = &so_far.timeline.all;
    JobRow {
        id: job.id.0,
        name: job.name.clone(),
        command: command_line(&job.command),
        class: job.class.map(Class::number).map(u32::from),
        profile: job.profile.clone(),
        threads: job.threads,
        state: so_far.state,
        exit_status,
        signal,
        error: so_far.error.clone(),
        due_ns: job.start.0,
        started_ns: so_far.started.map(|at| at.0),
        ended_ns: so_far.ended.map(|at| at.0),
        wall_ns: used.map(|used| used.wall.0),
        user_ns: used.map(|used| used.user.0),
        system_ns: used.map(|used| used.system.0),
        wait_ns: used.and_then(|used| used.wait),
        max_resident_bytes: used.map(|used| used.max_resident.0),
        n_migrations: used.and_then(|used| used.n_migrations),
        n_moves: so_far.n_moves,
        n_starts: so_far.n_starts,
        n_left_behind: used.map_or(0, |used| used.n_left_behind),
        slowdown: None,
        start_cpus: so_far.start_cpus.as_ref().map(CpuSet::to_string),
        start_reason: so_far.start_reason.as_ref().map(ToString::to_string),
        ran_on: (!all.is_empty()).then(|| all.to_string()),
        hands_off: so_far.hands_off.as_ref().map(hands_off_words),
        timeline: timeline(so_far, builder),
    }
}

fn timeline(so_far: &JobSoFar, builder: &ReportBuilder) -> Vec<Stretch> {
    let pieces = so_far.timeline.pieces();
    let last = pieces.len().wrapping_sub(1);
    let stretch = |(idx, piece): (usize, &super::timeline::Piece)| Stretch {
        from_ns: piece.from.0,
        // The one that goes on goes on to the end of the record.
        to_ns: if idx == last && so_far.timeline.is_open() { builder.at.0 } else { piece.to.0 },
        cpus: builder.sets.get(piece).map(CpuSet::to_string),
        bound: piece.bound,
    };
    pieces.iter().enumerate().map(stretch).collect()
}

fn move_row(moved: &Move, names: &Names<'_>) -> MoveRow {
    let (_, name) = names.target(Target::Job(moved.job));
    MoveRow {
        at_ns: moved.at.0,
        job: moved.job.0,
        name,
        what: if moved.to.is_some() { MoveWord::Move } else { MoveWord::Release },
        from: moved.from.as_ref().map(|cpus| names.places.place(cpus)),
        to: moved.to.as_ref().map(|cpus| names.places.place(cpus)),
        from_cpus: moved.from.as_ref().map(CpuSet::to_string),
        to_cpus: moved.to.as_ref().map(CpuSet::to_string),
        n_tasks: moved.n_tasks,
        code: moved.reason.as_ref().map(|reason| reason.code.name().to_owned()),
        reason: moved.reason.as_ref().map(ToString::to_string),
    }
}

fn refusal_row(refused: &Refused, names: &Names<'_>) -> RefusalRow {
    let (job, name) = names.target(refused.target);
    RefusalRow {
        at_ns: refused.at.0,
        last_at_ns: refused.last_at.0,
        n: refused.n,
        job,
        name,
        what: match &refused.what {
            What::Start => "start".to_owned(),
            What::Do(action) => action_words(action, |cpus| names.places.place(cpus)),
        },
        by: refused.by,
        why: refused.why.name().to_owned(),
        detail: refused.detail.clone(),
    }
}

fn notes(builder: &ReportBuilder, end: Option<&RunEnd>) -> Vec<NoteRow> {
    let row = |note: &Note| NoteRow {
        at_ns: note.at.0,
        kind: note.kind,
        code: note.reason.as_ref().map(|reason| reason.code.name().to_owned()),
        text: note.text.clone(),
    };
    let mut rows: Vec<NoteRow> = builder.notes.iter().map(row).collect();
    let mut remark = |text: String| {
        rows.push(NoteRow { at_ns: builder.at.0, kind: NoteWord::Record, code: None, text });
    };
    if end.is_none() {
        remark("the record has no end: evenkeel was killed, or still runs".to_owned());
    }
    if builder.n_parts_missing != 0 {
        remark(format!(
            "the first {} parts of the journal were removed by its size limit: what happened in them is not told here",
            builder.n_parts_missing
        ));
    }
    rows
}

fn loads(builder: &ReportBuilder, names: &Names<'_>) -> Loads {
    let series = &builder.series;
    let n_domains = series.numbers.len();
    let point = |point: &super::loads::Point| {
        let sums = |idx: usize| point.sums.get(idx).copied().unwrap_or_default();
        LoadPoint {
            from_ns: point.from.0,
            to_ns: point.to.0,
            ops_per_s: (0..n_domains).map(|idx| sums(idx).ops_per_s()).collect(),
            cpus_busy: (0..n_domains).map(|idx| sums(idx).cpus_busy()).collect(),
        }
    };
    Loads {
        level: series.level.map(|level| level.to_string()),
        tier: series.tier().map(|tier| tier.to_string()),
        domains: series
            .numbers
            .iter()
            .map(|&number| domain_row(series.level, number, names))
            .collect(),
        points: series.points.iter().map(point).collect(),
    }
}

fn domain_row(level: Option<Level>, number: u32, names: &Names<'_>) -> DomainRow {
    let level = level.map_or(String::new(), |level| format!("{level} "));
    let domain = names.places.domains();
    let domain = domain.and_then(|all| all.iter().find(|(_, domain)| domain.number == number));
    let cpus = domain.map(|(_, domain)| domain.cpus.to_string()).unwrap_or_default();
    DomainRow { label: format!("{level}{number}"), number, cpus }
}

fn totals(builder: &ReportBuilder, jobs: &[JobRow]) -> Totals {
    let count =
        |states: &[StateWord]| jobs.iter().filter(|job| states.contains(&job.state)).count() as u64;
    let sum = |figure: fn(&JobRow) -> Option<u64>| jobs.iter().filter_map(figure).sum();
    let known = |figure: fn(&JobRow) -> Option<u64>| {
        jobs.iter().filter_map(figure).reduce(u64::saturating_add)
    };
    let counts = &builder.counts;
    let listed = builder.moves.iter().filter(|moved| moved.to.is_some()).count() as u64;
    let refusals_listed: u64 = builder.refusals.iter().map(|refused| refused.n).sum();
    Totals {
        n_jobs: jobs.len() as u64,
        n_done: count(&[StateWord::Done]),
        n_failed: count(&[StateWord::Failed, StateWord::NotStarted]),
        n_stopped: count(&[StateWord::Stopped]),
        n_unfinished: count(&[StateWord::Waiting, StateWord::Running]),
        n_starts: jobs.iter().map(|job| job.n_starts).sum(),
        n_running_max: counts.running_max,
        n_moves: counts.moves,
        n_moves_left_out: counts.moves.saturating_sub(listed),
        n_refusals: counts.refusals,
        n_refusals_left_out: counts.refusals.saturating_sub(refusals_listed),
        n_hands_off: jobs.iter().filter(|job| job.hands_off.is_some()).count() as u64,
        user_ns: sum(|job| job.user_ns),
        system_ns: sum(|job| job.system_ns),
        wait_ns: known(|job| job.wait_ns),
        n_migrations: known(|job| job.n_migrations),
    }
}
