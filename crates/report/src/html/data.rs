//! The data of the charts: a compact copy of the report. Times are whole microseconds; sets of CPUs are
//! interned and referred to by index.

use std::collections::BTreeMap;

use base::CpuSet;
use serde::Serialize;

use super::facts;
use crate::model::{JobRow, JobStateName, LoadPoint, LoadSeries, MoveRow, Report};
use crate::text::{moved_name, reason_of_move};

#[derive(Serialize)]
pub(crate) struct ChartData {
    end: u64,
    domains: Vec<ChartDomain>,
    domain_of_cpu: BTreeMap<u32, usize>,
    cpus: Vec<ChartCpu>,
    sets: Vec<ChartCpuSet>,
    jobs: Vec<ChartJob>,
    moves: Vec<ChartMove>,
    /// Whether the moves are requests of a replay.
    is_replay: bool,
    loads: Vec<LoadCurves>,
    /// Index of the longest series.
    main_loads: usize,
}

#[derive(Serialize)]
pub(crate) struct ChartDomain {
    pub label: String,
}

#[derive(Serialize)]
struct ChartCpu {
    id: u32,
}

#[derive(Serialize)]
struct ChartCpuSet {
    text: String,
    cpus: Vec<u32>,
}

#[derive(Serialize)]
struct ChartJob {
    name: String,
    state: &'static str,
    /// Kind of the mark at the end of the job.
    mark: Option<&'static str>,
    due: u64,
    ended: Option<u64>,
    ending: String,
    start_reason: Option<String>,
    would_start: Option<String>,
    /// Segments: start, end, and the indexes of the CPU set and of the set to which evenkeel bound the job.
    segments: Vec<(u64, u64, Option<usize>, Option<usize>)>,
    moves: Vec<usize>,
    facts: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct ChartMove {
    at: u64,
    name: String,
    from: Option<String>,
    to: Option<String>,
    reason: Option<String>,
}

/// Loads of one level and one unit, by domain and then by time.
#[derive(Serialize)]
struct LoadCurves {
    level: String,
    unit: String,
    domains: Vec<ChartDomain>,
    times: Vec<(u64, u64)>,
    ops: Vec<Vec<Option<f64>>>,
    cpus: Vec<Vec<Option<f64>>>,
}

impl ChartData {
    pub fn new(report: &Report) -> Self {
        let named_domains = domains(report);
        let mut sets = CpuSetTable::default();
        let mut moves_of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (idx, moved) in report.moves.iter().enumerate() {
            moves_of.entry(moved.job).or_default().push(idx);
        }
        let jobs = report.jobs.iter().map(|job| {
            let moves = moves_of.remove(&job.id).unwrap_or_default();
            job_of(job, moves, &mut sets)
        });
        let jobs = jobs.collect();
        ChartData {
            end: us(report.run.wall_ns),
            domain_of_cpu: domain_of_cpu(&named_domains),
            domains: named_domains.into_iter().map(|(label, _)| ChartDomain { label }).collect(),
            cpus: report.machine.cpus.iter().map(|cpu| ChartCpu { id: cpu.id }).collect(),
            sets: sets.list,
            jobs,
            moves: report.moves.iter().map(move_of).collect(),
            is_replay: report.run.replay_of.is_some(),
            loads: report.loads.iter().map(load_curves).collect(),
            main_loads: main_loads(report).unwrap_or(0),
        }
    }

    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(|domain| domain.label.as_str())
    }
}

/// Returns the index of the longest series; ties: the first.
fn main_loads(report: &Report) -> Option<usize> {
    let length = |(_, loads): &(usize, &LoadSeries)| loads.to_ns - loads.from_ns;
    report.loads.iter().enumerate().rev().max_by_key(length).map(|(idx, _)| idx)
}

fn us(nanos: u64) -> u64 {
    nanos / 1000
}

/// Returns the placement domains and their CPUs, from the longest series of loads or from the whole machine.
fn domains(report: &Report) -> Vec<(String, CpuSet)> {
    let Some(idx) = main_loads(report) else { return domains_of_machine(report) };
    let domains = report.loads[idx].domains.iter();
    domains.map(|domain| (domain.label.clone(), domain.cpus.parse().unwrap_or_default())).collect()
}

/// Returns the domains of the level that jobs were placed on; nodes if no job was placed.
fn domains_of_machine(report: &Report) -> Vec<(String, CpuSet)> {
    let level = report.run.domain_level.as_deref().unwrap_or("node");
    let mut domains: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in &report.machine.cpus {
        let number = match level {
            "core" => cpu.core,
            "llc" => cpu.llc,
            _ => Some(cpu.node.unwrap_or(0)),
        };
        if let Some(number) = number {
            domains.entry(number).or_default().insert(base::CpuId(cpu.id));
        }
    }
    domains.into_iter().map(|(number, cpus)| (format!("{level} {number}"), cpus)).collect()
}

fn domain_of_cpu(named_domains: &[(String, CpuSet)]) -> BTreeMap<u32, usize> {
    let cpu_and_idx = |(idx, (_, cpus)): (usize, &(String, CpuSet))| {
        cpus.iter().map(|cpu| (cpu.0, idx)).collect::<Vec<_>>()
    };
    named_domains.iter().enumerate().flat_map(cpu_and_idx).collect()
}

#[derive(Default)]
struct CpuSetTable {
    list: Vec<ChartCpuSet>,
    idx_of: BTreeMap<String, usize>,
}

impl CpuSetTable {
    fn idx(&mut self, text: &str) -> usize {
        if let Some(&idx) = self.idx_of.get(text) {
            return idx;
        }
        let cpus: CpuSet = text.parse().unwrap_or_default();
        let idx = self.list.len();
        self.list.push(ChartCpuSet {
            text: text.to_owned(),
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
        });
        self.idx_of.insert(text.to_owned(), idx);
        idx
    }
}

fn job_of(job: &JobRow, moves: Vec<usize>, sets: &mut CpuSetTable) -> ChartJob {
    let segments = job.timeline.iter().map(|segment| {
        let mut idx = |cpus: &Option<String>| cpus.as_deref().map(|cpus| sets.idx(cpus));
        let (set, bound) = (idx(&segment.cpus), idx(&segment.bound_cpus));
        (us(segment.from_ns), us(segment.to_ns), set, bound)
    });
    ChartJob {
        name: job.name.clone(),
        state: job.state.name(),
        mark: end_mark(job.state),
        due: us(job.due_ns),
        ended: job.ended_ns.map(us),
        ending: facts::ending(job),
        start_reason: facts::start_reason(job),
        would_start: would_start(job),
        segments: segments.collect(),
        moves,
        facts: facts::of_job(job),
    }
}

/// Returns the kind of the mark of a job that failed or was stopped.
fn end_mark(state: JobStateName) -> Option<&'static str> {
    match state {
        JobStateName::Failed | JobStateName::OomKilled | JobStateName::NotStarted => Some("failed"),
        JobStateName::TimedOut => Some("timed out"),
        JobStateName::Stopped => Some("stopped"),
        JobStateName::Waiting
        | JobStateName::Running
        | JobStateName::Done
        | JobStateName::Detached => None,
    }
}

/// Returns the requested CPUs of the start with the reason, only in a replay.
fn would_start(job: &JobRow) -> Option<String> {
    let (cpus, reason) = (job.would_start_cpus.as_ref()?, job.would_start_reason.as_ref()?);
    Some(format!("would have been started on the CPUs {cpus} because {reason}"))
}

fn move_of(moved: &MoveRow) -> ChartMove {
    ChartMove {
        at: us(moved.at_ns),
        name: moved_name(moved),
        from: moved.from.clone(),
        to: moved.to.clone(),
        reason: reason_of_move(moved),
    }
}

fn load_curves(loads: &LoadSeries) -> LoadCurves {
    let points = &loads.points;
    let by_domain = |values: fn(&LoadPoint) -> &Vec<Option<f64>>| {
        let column = |idx: usize| {
            let at = |point| values(point).get(idx).copied().flatten().map(rounded);
            points.iter().map(at).collect::<Vec<_>>()
        };
        (0..loads.domains.len()).map(column).collect()
    };
    LoadCurves {
        level: loads.level.clone(),
        unit: format!("{} per second", loads.unit),
        domains: loads.domains.iter().map(|row| ChartDomain { label: row.label.clone() }).collect(),
        times: points.iter().map(|point| (us(point.from_ns), us(point.to_ns))).collect(),
        ops: by_domain(|point| &point.ops_per_s),
        cpus: by_domain(|point| &point.cpus_busy),
    }
}

/// Rounds to four significant digits, which is more than a screen shows and halves the size of the data.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
