//! A simulated machine with its workloads and with the programs of one draw.
//!
//! ```text
//!   "tilepro64 memory=16 remote=1.50 bandwidth=1/2"  ─► Testbed ◄── a draw from the ranges of the profiles
//!    └ machine  └ variations
//! ```
//!
//! A testbed is written as a line of text, so that experiments are data. The line is the name of the testbed. Together
//! with workload, policy and seed, the name identifies a run.
//!
//! | variation | effect |
//! |---|---|
//! | `memory=16` | 16 times the memory of every node |
//! | `remote=1.5` | mean latency of remote memory over that of local memory; distances keep their proportions |
//! | `bandwidth=100`, `bandwidth=1/2` | factor of the bandwidth of memory controllers and links |
//! | `links=100` | factor of the bandwidth of links only |
//! | `cache=4`, `cache=1/2` | factor of the size of last-level caches |
//! | `outstanding=4` | largest number of outstanding misses of a core |
//! | `private-cache=65536` | bytes of the private caches of each core |
//! | `one-memory` | all nodes become one, with the sum of their bandwidths |
//! | `overhead=762000` | a job that uses this many nanoseconds of a CPU after each poll of `dfs` |
//! | `length=120` | programs that take 120 s alone; workloads are those of [`super::program_sets`] |
//! | `phase-amplitude=0.3` | with `length`: alternating phases with 30 % more and 30 % fewer misses |
//! | `latency=2` | factor of the latency of memory |
//! | `scale=0.1` | shipped workloads with programs of a tenth of their length |
//! | `copies=8` | 8 jobs for each job of a shipped workload |
//! | `phases` | shipped workloads with phases from the ranges of [`super::phases`], by the number of the draw |
//! | `page-migration=unlimited` | the only limit of page migration is 1 GiB per second |
//! | `programs=4` | with `length`: only the first four programs of a set |
//! | `first-node=3` | with `length`: memory of the first three programs on the first node, of the other programs on the second node |
//! | `penalty=declared` | with `length`: jobs declare their slowdown by remote memory, as measured alone |

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Bytes, CpuSet, JobId, Nanos, NodeId, NodeSet};
use engine::PageMigrationLimits;
use host_sim::SimOptions;
use host_sim::hardware::Hardware;
use host_sim::variation::Variation;
use program::profile::{ProfileValue, ValueSource};
use program::{Class, Ending, Job, MemoryPolicy, Profile, Sensitivity};
use sched::TierOverride;
use topology::{AttributeSource, Machine, MemoryAccess, SourcedValue};

use super::ReproduceError;
use super::phases::{with_alternating_phases, with_drawn_phases};
use super::program_sets::{self, N_PROGRAMS};
use super::published_groups::plain_name;
use crate::compare::{MachineVariant, SimBench, SimSetting};
use crate::shipped::{self, DrawPosition, ProfileDraw, ProfileSet};
use crate::stats::mean;

/// A machine, the options of its simulation, and its workloads.
#[derive(Clone, Debug)]
pub struct Testbed {
    /// The machine and all variations.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// Options of the simulator.
    pub options: SimOptions,
    /// Position of program values in their ranges.
    pub draw: ProfileDraw,
    /// Limits on page migration.
    pub limits: PageMigrationLimits,
    /// Workloads that were added, by name; their jobs have profiles.
    pub workloads: BTreeMap<String, Vec<Job>>,
    /// CPU time of the scheduler for each poll, if the experiment charges this time to a core.
    overhead: Option<Nanos>,
    equal_length: Option<EqualLength>,
    /// Factor of the length of the programs of shipped workloads.
    scale: Option<f64>,
    /// Jobs for each job of a shipped workload.
    copies: u32,
    /// Whether programs of shipped workloads have drawn phases.
    has_drawn_phases: bool,
}

/// Programs that are scaled to take the same time alone.
#[derive(Clone, Debug)]
struct EqualLength {
    seconds: f64,
    phase_amplitude: f64,
    n_programs: usize,
    n_on_first_node: Option<usize>,
    /// Slowdown by remote memory in permille, by program; empty if it is not declared.
    penalties: BTreeMap<String, u32>,
}

/// Value from which the class of a job is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeclaredClassBasis {
    /// Memory operations per millisecond.
    Rate,
    /// Millions of memory operations of the whole run.
    Total,
}

impl DeclaredClassBasis {
    /// Returns the basis that a policy assumes for declared classes.
    pub fn of_policy(policy: &str) -> Self {
        let is_paper = policy.contains("reading=paper");
        if is_paper { DeclaredClassBasis::Total } else { DeclaredClassBasis::Rate }
    }
}

/// A program of a workload on a testbed with `length`.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramPart {
    pub program: String,
    /// Affinity mask; any CPU if absent.
    pub cpus: Option<CpuSet>,
    /// Preferred memory node; first touch if absent.
    pub memory: Option<NodeId>,
    /// Declared slowdown by remote memory, in permille.
    pub penalty: Option<u32>,
    /// Seed of the alternating phases of `phase-amplitude`; without a seed the program has its single shipped phase.
    pub phase_seed: Option<u64>,
}

impl ProgramPart {
    pub fn new(program: &str) -> Self {
        ProgramPart { program: program.to_owned(), ..ProgramPart::default() }
    }
}

/// Page migration with the rate of copying as its only limit.
const UNLIMITED_PAGE_MIGRATION: PageMigrationLimits = PageMigrationLimits {
    per_second: Bytes::from_mib(1024),
    backlog: Nanos(u64::MAX),
    per_job_minute: Bytes(u64::MAX),
    n_returns_max: u32::MAX,
    n_repeats_max: u32::MAX,
    reserve_permille: 20,
};

impl Testbed {
    /// Parses a shipped machine with variations. Jobs start up to 200 ms late: the tolerance of ±100 ms is shifted, so
    /// that no job starts early.
    pub fn parse(text: &str) -> Result<Self, ReproduceError> {
        let mut words = text.split_whitespace();
        let machine = shipped::machine(words.next().unwrap_or_default())?;
        let variation = Variation { start: Nanos::from_millis(200), ..Variation::default() };
        let testbed =
            Testbed::with_options(text, machine, SimOptions { variation, ..SimOptions::default() });
        Ok(words.fold(testbed, Testbed::varied))
    }

    fn with_options(name: &str, machine: Machine, options: SimOptions) -> Self {
        Testbed {
            name: name.to_owned(),
            machine,
            options,
            draw: ProfileDraw::MIDDLE,
            limits: PageMigrationLimits::default(),
            workloads: BTreeMap::new(),
            overhead: None,
            equal_length: None,
            scale: None,
            copies: 1,
            has_drawn_phases: false,
        }
    }

    /// Returns the settings of the runs on this testbed.
    pub fn setting(&self) -> SimSetting {
        SimSetting {
            machine: self.machine.clone(),
            options: self.options.clone(),
            limits: self.limits,
            signals: TierOverride::default(),
        }
    }

    /// Returns the run time of each job of a workload alone on the idle machine.
    pub(super) fn alone(&self, workload: &str) -> Result<Vec<Option<Nanos>>, ReproduceError> {
        let jobs = self.jobs(workload, DeclaredClassBasis::Rate)?;
        let bench = SimBench::new(self.setting(), vec![jobs])?;
        Ok(bench.alone(MachineVariant::default(), 0, 0).to_vec())
    }

    /// Returns this testbed with these profiles.
    #[must_use]
    pub(super) fn with_profiles(mut self, set: ProfileSet) -> Self {
        if set == ProfileSet::Printed {
            self.name.push_str(" profiles=printed");
        }
        self.draw.set = set;
        self
    }

    /// Returns this testbed with the programs of a draw.
    #[must_use]
    pub fn drawn(self, seed: u64) -> Self {
        Testbed {
            name: format!("{} draw {seed}", self.name),
            draw: ProfileDraw { position: DrawPosition::Seed(seed), ..self.draw },
            ..self
        }
    }

    /// Applies one variation.
    fn varied(mut self, variation: &str) -> Self {
        let (key, value) = variation.split_once('=').unwrap_or((variation, ""));
        let number = || value.parse::<f64>().unwrap_or_else(|_| panic!("{variation}: a number"));
        let (times, part) = value.split_once('/').unwrap_or((value, "1"));
        let whole = |text: &str| text.parse().unwrap_or_else(|_| panic!("{variation}: a factor"));
        let scaled = |value: u64| value.saturating_mul(whole(times)) / whole(part);
        match key {
            "memory" => self.change(|parts| {
                for node in &mut parts.nodes {
                    node.memory = node.memory.map(|bytes| Bytes(scaled(bytes.0)));
                    node.memory_free = node.memory_free.map(|bytes| Bytes(scaled(bytes.0)));
                }
            }),
            "cache" => self.change(|parts| {
                parts
                    .llcs
                    .iter_mut()
                    .for_each(|llc| llc.size = llc.size.map(|b| Bytes(scaled(b.0))));
            }),
            "outstanding" => self.change(|parts| {
                let kinds = parts.perf_attributes.kinds.values_mut();
                for count in kinds.filter_map(|kind| kind.max_outstanding_misses.as_mut()) {
                    count.value = whole(value);
                }
            }),
            "private-cache" => self.change(|parts| {
                let size = SourcedValue { value: whole(value), source: AttributeSource::Assumed };
                let kinds = parts.perf_attributes.kinds.values_mut();
                kinds.for_each(|kind| kind.private_cache_bytes = Some(size));
            }),
            "bandwidth" | "links" => self.change_accesses(|access| {
                let is_changed = key == "bandwidth" || access.from != access.to;
                if let Some(bandwidth) =
                    access.bandwidth_bytes_per_s.as_mut().filter(|_| is_changed)
                {
                    bandwidth.value = scaled(bandwidth.value);
                }
            }),
            "latency" => self.change_accesses(|access| {
                if let Some(latency) = access.latency_ns.as_mut() {
                    latency.value = scaled(latency.value);
                }
            }),
            "scale" => self.scale = Some(number()),
            "copies" => self.copies = whole(value) as u32,
            "phases" => self.has_drawn_phases = true,
            "remote" => self.set_remote_latency(number()),
            "one-memory" => self.machine = one_memory(&self.machine),
            "overhead" => self.overhead = Some(Nanos(whole(value))),
            "page-migration" => self.limits = UNLIMITED_PAGE_MIGRATION,
            "length" => {
                self.options.variation = Variation::default();
                self.equal_length = Some(EqualLength {
                    seconds: number(),
                    phase_amplitude: 0.0,
                    n_programs: N_PROGRAMS,
                    n_on_first_node: None,
                    penalties: BTreeMap::new(),
                });
            }
            _ => {
                let equal = self.equal_length.as_mut().expect("the variation follows length=");
                match key {
                    "phase-amplitude" => equal.phase_amplitude = number(),
                    "programs" => equal.n_programs = whole(value) as usize,
                    "first-node" => equal.n_on_first_node = Some(whole(value) as usize),
                    "penalty" => {} // Measured by `measured_penalties`.
                    _ => panic!("{variation}: no such variation"),
                }
            }
        }
        self
    }

    fn change(&mut self, change: impl Fn(&mut topology::MachineParts)) {
        let mut parts = self.machine.parts().clone();
        change(&mut parts);
        self.machine = Machine::new(parts).expect("a variation keeps a machine valid");
    }

    fn change_accesses(&mut self, change: impl Fn(&mut MemoryAccess)) {
        self.change(|parts| parts.perf_attributes.accesses.iter_mut().for_each(&change));
    }

    fn set_remote_latency(&mut self, ratio: f64) {
        let mean_ns = |is_local: bool| {
            let all = self.machine.perf_attributes().accesses.iter();
            let latencies = all.filter(|access| (access.from == access.to) == is_local);
            let latencies = latencies.filter_map(|access| access.latency_ns);
            mean(&latencies.map(|latency| latency.value as f64).collect::<Vec<f64>>())
        };
        let factor = ratio * mean_ns(true) / mean_ns(false);
        self.change_accesses(|access| {
            if let Some(latency) = access.latency_ns.as_mut().filter(|_| access.from != access.to) {
                latency.value = (latency.value as f64 * factor).round() as u64;
            }
        });
    }

    /// Returns this testbed with a workload whose jobs start so far apart that each job runs alone. Only the length of
    /// a job is random. Jobs keep their numbers, so the drawn lengths are those of the original workload. `alone` is
    /// the estimated run time of each job. The call fails if a job does not exit.
    pub fn one_by_one(
        &self,
        workload: &str,
        alone: &[Option<Nanos>],
    ) -> Result<Self, ReproduceError> {
        let endless = || ReproduceError::Failed {
            run: format!("{workload} one by one"),
            cause: "a job of it does not exit".to_owned(),
        };
        let mut jobs = self.jobs(workload, DeclaredClassBasis::Rate)?;
        let mut start = Nanos::ZERO;
        for (job, alone) in jobs.iter_mut().zip(alone) {
            job.start = start;
            // The distance of two starts is twice the time alone: random variation adds at most one percent.
            start = start + alone.ok_or_else(endless)? + alone.ok_or_else(endless)?;
        }
        let variation = Variation { length: self.options.variation.length, ..Variation::OFF };
        Ok(Testbed {
            name: format!("{}, one by one", self.name),
            options: SimOptions { variation, ..self.options.clone() },
            workloads: BTreeMap::from([(workload.to_owned(), jobs)]),
            ..self.clone()
        })
    }

    /// Returns the jobs of a shipped workload without profiles.
    pub(super) fn shipped_jobs(&self, workload: &str) -> Result<Vec<Job>, ReproduceError> {
        Ok(copied(shipped::workload(workload)?.jobs, self.copies))
    }

    /// Returns the jobs of a workload with the profiles of this draw and classes of one basis. A workload is an added
    /// workload, a shipped workload, `programs:lbm+lbm+sphinx3`, or with `length` a set, `alone PROGRAM` or `arrivals
    /// LOAD NUMBER`.
    pub fn jobs(
        &self,
        workload: &str,
        basis: DeclaredClassBasis,
    ) -> Result<Vec<Job>, ReproduceError> {
        if let Some(jobs) = self.workloads.get(workload) {
            return Ok(jobs.clone());
        }
        if self.equal_length.is_some() {
            return self.jobs_of_equal_length(workload);
        }
        let mut jobs = match workload.strip_prefix("programs:") {
            Some(names) => listed(names)?,
            None => self.shipped_jobs(workload)?,
        };
        let hardware = Hardware::new(&self.machine);
        let mut known: BTreeMap<String, (Arc<Profile>, Option<Class>)> = BTreeMap::new();
        for job in &mut jobs {
            let Some(name) = &job.profile else { continue };
            if !known.contains_key(name) {
                let scaled = self.scale.map(|scale| format!("{name}@{scale:.6}"));
                let profile = shipped::profile_drawn(scaled.as_ref().unwrap_or(name), self.draw)?;
                let profile = match (self.has_drawn_phases, self.draw.position) {
                    (true, DrawPosition::Seed(draw)) => {
                        with_drawn_phases(profile, name, draw, &hardware)
                    }
                    _ => profile,
                };
                let class = class(&profile, &hardware, basis);
                known.insert(name.clone(), (Arc::new(profile), class));
            }
            let (profile, class) = &known[name];
            job.class = job.class.and(*class);
            job.found = Some(Arc::clone(profile));
        }
        if let (Some(each), Some(template)) = (self.overhead, jobs.first()) {
            // The scheduler is the last job, so that the numbers of all other jobs stay unchanged.
            let id = JobId(jobs.len() as u32);
            jobs.push(Job { id, ..scheduler_job(each, template, &hardware)? });
        }
        Ok(jobs)
    }

    fn jobs_of_equal_length(&self, workload: &str) -> Result<Vec<Job>, ReproduceError> {
        if let Some(arguments) = workload.strip_prefix("arrivals ") {
            let (load, number) = arguments.split_once(' ').unwrap_or((arguments, "1"));
            let load = load.parse().expect("arrivals LOAD NUMBER");
            return arrivals(self, load, number.parse().expect("arrivals LOAD NUMBER"));
        }
        let programs = self.programs(workload)?;
        if workload.starts_with("alone ") {
            return self.jobs_of(&[ProgramPart::new(&programs[0])]);
        }
        let equal = self.equal_length();
        let part = |(idx, program): (usize, &String)| ProgramPart {
            memory: equal.n_on_first_node.map(|n| NodeId(u32::from(n <= idx))),
            penalty: equal.penalties.get(program).copied(),
            phase_seed: Some(idx as u64),
            ..ProgramPart::new(program)
        };
        self.jobs_of(&programs.iter().enumerate().map(part).collect::<Vec<ProgramPart>>())
    }

    /// Returns the indexes of the jobs of each program of a shipped workload, or of the program with this name.
    pub(super) fn copies(
        &self,
        workload: &str,
        program: Option<&str>,
    ) -> Result<Vec<Vec<usize>>, ReproduceError> {
        let mut all: Vec<(String, Vec<usize>)> = Vec::new();
        for (idx, job) in self.shipped_jobs(workload)?.iter().enumerate() {
            let name = plain_name(job);
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, jobs)) => jobs.push(idx),
                None => all.push((name.to_owned(), vec![idx])),
            }
        }
        let is_selected = |name: &str| program.is_none_or(|program| program == name);
        Ok(all.into_iter().filter(|(name, _)| is_selected(name)).map(|(_, jobs)| jobs).collect())
    }

    /// Returns the programs of a set, of `alone PROGRAM` or of `programs:A+B`.
    pub(super) fn programs(&self, workload: &str) -> Result<Vec<String>, ReproduceError> {
        if let Some(program) = workload.strip_prefix("alone ") {
            return Ok(vec![program.to_owned()]);
        }
        if let Some(programs) = workload.strip_prefix("programs:") {
            return Ok(programs.split('+').map(str::to_owned).collect());
        }
        let set = program_sets::by_name(workload, &self.machine, self.draw)?;
        let mut set = set.unwrap_or_else(|| panic!("{workload}: no such set of programs"));
        set.truncate(self.equal_length().n_programs);
        Ok(set)
    }

    fn equal_length(&self) -> &EqualLength {
        self.equal_length.as_ref().expect("a testbed with length=")
    }

    /// Returns the approximate run time of each program alone, in seconds.
    pub(super) fn alone_s(&self) -> f64 {
        self.equal_length().seconds
    }

    /// Adds a workload of these programs.
    pub(super) fn add(&mut self, name: &str, parts: &[ProgramPart]) -> Result<(), ReproduceError> {
        let jobs = self.jobs_of(parts)?;
        self.workloads.insert(name.to_owned(), jobs);
        Ok(())
    }

    fn jobs_of(&self, parts: &[ProgramPart]) -> Result<Vec<Job>, ReproduceError> {
        let hardware = Hardware::new(&self.machine);
        let template = shipped::workload("basic01")?.jobs.swap_remove(0);
        let amplitude = self.equal_length().phase_amplitude;
        let job = |(number, part): (u32, &ProgramPart)| {
            let profile = self.program(&part.program, &hardware)?;
            let profile = match part.phase_seed {
                Some(seed) if amplitude != 0.0 => {
                    with_alternating_phases(profile, (amplitude, seed), self.alone_s())
                }
                _ => profile,
            };
            let memory =
                part.memory.map(|node| MemoryPolicy::Preferred(NodeSet::from_iter([node])));
            Ok(Job {
                id: JobId(number),
                name: format!("{}.{number}", part.program),
                profile: None,
                found: Some(Arc::new(profile)),
                cpus: part.cpus.clone(),
                memory,
                sensitivity: part.penalty.map(|permille| Sensitivity::new([], permille)),
                ..template.clone()
            })
        };
        (0..).zip(parts).map(job).collect()
    }

    /// Returns a program scaled to the length of this testbed.
    pub(super) fn program(
        &self,
        name: &str,
        hardware: &Hardware,
    ) -> Result<Profile, ReproduceError> {
        let whole = shipped::profile_drawn(name, self.draw)?;
        let seconds = self.alone_s();
        let alone_s = shipped::alone(&whole, hardware).map_or(seconds, |alone| alone.seconds);
        Ok(shipped::profile_drawn(&format!("{name}@{:.6}", seconds / alone_s), self.draw)?)
    }

    /// Declares the slowdown of each program by remote memory, in permille.
    ///
    /// # Panics
    /// The testbed has no `length=`.
    pub(super) fn set_penalties(&mut self, penalties: BTreeMap<String, u32>) {
        self.equal_length.as_mut().expect("a testbed with length=").penalties = penalties;
    }
}

/// Jobs of an `arrivals` workload.
const N_ARRIVALS: u32 = 32;
/// Limit of the threads of an arriving job: more than a cluster has CPUs (4), so that some threads run outside their
/// cluster.
const THREADS_MAX: u64 = 6;
/// Base of the seeds: an `arrivals` workload has the seed this value + its number.
const ARRIVALS_SEED: u64 = 2000;

/// Returns the jobs of `arrivals LOAD NUMBER`, with one to six threads each. The jobs start at random times in an
/// interval. The length of the interval is such that LOAD is the mean share of busy CPUs.
fn arrivals(testbed: &Testbed, load: f64, number: u64) -> Result<Vec<Job>, ReproduceError> {
    let machine = &testbed.machine;
    let hardware = Hardware::new(machine);
    let (devils, turtles) = program_sets::devils_and_turtles(machine, testbed.draw)?;
    let all = [devils, turtles].concat();
    let span_s = f64::from(N_ARRIVALS) * testbed.alone_s() / (load * machine.cpus().len() as f64);
    let mut rng = base::Rng::new(ARRIVALS_SEED + number);
    let template = shipped::workload("basic01")?.jobs.swap_remove(0);
    let mut known = BTreeMap::new();
    let mut jobs = Vec::new();
    for _ in 0..N_ARRIVALS {
        let program = all[rng.below(all.len() as u64) as usize].clone();
        if !known.contains_key(&program) {
            let profile = testbed.program(&program, &hardware)?;
            known.insert(program.clone(), Arc::new(profile));
        }
        let start = Nanos((rng.unit() * span_s * 1e9) as u64);
        let threads = 1 + rng.below(THREADS_MAX) as u32;
        let found = known.get(&program).cloned();
        jobs.push(Job { name: program, profile: None, found, start, threads, ..template.clone() });
    }
    jobs.sort_by_key(|job| job.start);
    for (id, job) in (0..).zip(&mut jobs) {
        job.id = JobId(id);
        job.name = format!("{}.{id}", job.name);
    }
    Ok(jobs)
}

/// Returns `n` jobs for each job.
fn copied(jobs: Vec<Job>, n: u32) -> Vec<Job> {
    let copies = jobs.iter().flat_map(|job| (0..n).map(move |_| job.clone()));
    (0..).zip(copies).map(|(id, job)| Job { id: JobId(id), ..job }).collect()
}

/// Returns the jobs of the programs with these profiles, all due at the start.
fn listed(names: &str) -> Result<Vec<Job>, ReproduceError> {
    let jobs = shipped::workload("basic01")?.jobs;
    let template = jobs.first().expect("the mix has six programs");
    let job = |(number, name): (u32, &str)| Job {
        id: JobId(number),
        name: format!("{name}.{number}"),
        profile: Some(name.to_owned()),
        ..template.clone()
    };
    Ok((0..).zip(names.split('+')).map(job).collect())
}

/// Returns a job that computes for `each` in every poll interval of `dfs`, and otherwise sleeps. It exits after all
/// other jobs.
fn scheduler_job(each: Nanos, template: &Job, hardware: &Hardware) -> Result<Job, ReproduceError> {
    let mut profile = shipped::profile("bitcount")?;
    let per_s = shipped::alone(&profile, hardware).map_or(0.0, |alone| alone.instructions);
    let declared = |value: f64| ProfileValue::new(value, ValueSource::Declared);
    for phase in &mut profile.phases {
        let burst = (per_s * each.as_secs_f64()).max(1.0);
        phase.burst_instructions = declared(burst);
        phase.sleep_ns = declared(super::interval_of("dfs").0 as f64);
        // The length is about a month of polls: the job ends when all other jobs have exited.
        phase.instructions = declared(1e7 * burst);
    }
    Ok(Job {
        name: "scheduler".to_owned(),
        start: Nanos::ZERO,
        class: None,
        profile: None,
        found: Some(Arc::new(profile)),
        ending: Ending::RestartUntilOthersDone,
        ..template.clone()
    })
}

/// Returns the class of a program, from its memory operations alone on a machine.
fn class(profile: &Profile, hardware: &Hardware, basis: DeclaredClassBasis) -> Option<Class> {
    let alone = shipped::alone(profile, hardware).ok()?;
    let lines_per_s = alone.bandwidth / base::LINE_BYTES as f64;
    Some(Class::of_rate(match basis {
        DeclaredClassBasis::Rate => lines_per_s / 1000.0,
        DeclaredClassBasis::Total => lines_per_s * alone.seconds / 1e6,
    }))
}

/// Merges all nodes into one node. Its latency is local for every CPU, and its bandwidth is the sum of all nodes.
fn one_memory(machine: &Machine) -> Machine {
    let mut parts = machine.parts().clone();
    let Some(mut only) = parts.nodes.first().cloned() else { return machine.clone() };
    for other in &parts.nodes[1..] {
        only.cpus = only.cpus.or(&other.cpus);
        only.memory = only.memory.zip(other.memory).map(|(one, other)| one.saturating_add(other));
        only.memory_free =
            only.memory_free.zip(other.memory_free).map(|(one, other)| one.saturating_add(other));
    }
    only.distances.retain(|node, _| *node == only.id);
    let local: Vec<MemoryAccess> = parts
        .perf_attributes
        .accesses
        .iter()
        .filter(|access| access.from == access.to)
        .cloned()
        .collect();
    let sum = local.iter().filter_map(|access| access.bandwidth_bytes_per_s);
    let sum = sum.map(|bandwidth| bandwidth.value).sum::<u64>();
    if let Some(mut access) = local.into_iter().find(|access| access.from == only.id) {
        if let Some(bandwidth) = access.bandwidth_bytes_per_s.as_mut() {
            bandwidth.value = sum;
        }
        parts.perf_attributes.accesses = vec![access];
    }
    parts.llcs.iter_mut().for_each(|llc| llc.node = Some(only.id));
    parts.cpus.iter_mut().for_each(|cpu| cpu.node = Some(only.id));
    parts.nodes_allowed = NodeSet::from_iter([only.id]);
    parts.nodes = vec![only];
    Machine::new(parts).expect("merged nodes of a valid machine are valid")
}

#[cfg(test)]
mod tests {
    use base::StopFlag;

    use super::*;
    use crate::reproduce::RunPool;

    fn alone_s(testbed: &Testbed, workload: &str, n_jobs: usize) -> Vec<f64> {
        let stop = StopFlag::default();
        let pool = RunPool::new(vec![1], 1, 1, &stop, &|_, _| ());
        let runs = pool.series(testbed, ("linux", workload), &[1]).expect("it runs");
        (0..n_jobs).map(|job| runs.job_s(job)[0]).collect()
    }

    #[test]
    fn remote_memory_has_the_requested_latency_ratio() {
        let testbed = Testbed::parse("tilepro64 remote=2.00").expect("it ships");
        let mean_ns = |is_local: bool| {
            let all = testbed.machine.perf_attributes().accesses.iter();
            let all = all.filter(|access| (access.from == access.to) == is_local);
            mean(&all.map(|access| access.latency_ns.expect("ns").value as f64).collect::<Vec<_>>())
        };
        assert_eq!(format!("{:.2}", mean_ns(false) / mean_ns(true)), "2.00");
    }

    #[test]
    fn more_outstanding_misses_shorten_a_program_with_misses_and_hardly_one_without() {
        let seconds = |on: &str, program: &str| {
            let testbed = Testbed::parse(on).expect("it ships");
            alone_s(&testbed, &format!("programs:{program}"), 1)[0]
        };
        let [few, more] = ["tilepro64 outstanding=1", "tilepro64 outstanding=4"];
        assert!(1.5 * seconds(more, "lbm@0.01") < seconds(few, "lbm@0.01"));
        assert!(0.999 * seconds(few, "bitcount@0.1") < seconds(more, "bitcount@0.1"));
    }

    #[test]
    fn smaller_private_caches_access_the_last_level_cache_more_often() {
        let on = |bytes| Testbed::parse(&format!("tilepro64 private-cache={bytes}"));
        let alone = |bytes| alone_s(&on(bytes).expect("it ships"), "programs:patricia@0.1", 1)[0];
        assert!(1.02 * alone(262_144) < alone(65536));
    }

    #[test]
    fn two_nodes_become_one_with_the_bandwidth_of_both_and_unchanged_caches() {
        let one = Testbed::parse("opteron-8356-2x4 one-memory").expect("it ships").machine;
        assert_eq!((one.nodes().len(), one.llcs().len(), one.cpus().len()), (1, 2, 8));
        let accesses = &one.perf_attributes().accesses;
        let bandwidth = accesses[0].bandwidth_bytes_per_s.map(|measured| measured.value);
        assert_eq!((accesses.len(), bandwidth), (1, Some(21_400_000_000)));
    }

    #[test]
    fn programs_of_one_length_take_about_the_same_time_alone() {
        let testbed = Testbed::parse("xeon-e5520-2x4 length=60").expect("it ships");
        for program in ["470.lbm", "444.namd", "429.mcf"] {
            let seconds = alone_s(&testbed, &format!("alone {program}"), 1)[0];
            assert!((57.0..=63.0).contains(&seconds), "{program}: {seconds}");
        }
    }

    #[test]
    fn two_programs_on_one_cpu_take_twice_the_time() {
        let mut testbed = Testbed::parse("xeon-e5520-2x4 length=10").expect("it ships");
        let cpus = Some(CpuSet::from_iter([base::CpuId(0)]));
        let two = ["444.namd", "444.namd"]
            .map(|name| ProgramPart { cpus: cpus.clone(), ..ProgramPart::new(name) });
        testbed.add("two", &two).expect("profiles ship");
        let alone = alone_s(&testbed, "alone 444.namd", 1)[0];
        let together = alone_s(&testbed, "two", 2);
        assert!(together.iter().all(|s| (1.9..2.1).contains(&(s / alone))), "{together:?} {alone}");
    }
}
