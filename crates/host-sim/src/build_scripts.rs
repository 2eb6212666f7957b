//! Converts jobs with profiles to scripts.
//!
//! A job without a profile cannot be simulated. If a profile lacks a value, the error names the value. Missing values
//! are not assumed, with two exceptions: without first-level misses, the accesses to the last-level cache are used;
//! without a footprint, the job allocates no memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Bytes, CpuSet, Nanos, NodeSet};
use program::profile::{Phase, ProfileValue};
use program::{Job, Profile, Sections};

use crate::hardware::Hardware;
use crate::physics::{Calibration, PAGE_BYTES, ProfileError, SharedFills, of_phase};
use crate::script::{Script, ScriptPhase};

/// An error for a job that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: job {job:?}{problem}")]
pub struct ScriptError {
    origin: String,
    job: String,
    problem: ScriptProblem,
}

/// Problem of a job. The message continues a text that ends with the name of the job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ScriptProblem {
    #[error(
        ": its program has no profile, and the simulator cannot run it: name one with profile = \"NAME\" in a workload file, measure it with evenkeel profile, or run it on this machine with --host live"
    )]
    NoProfile,
    #[error(": profile {profile:?}, phase {phase}: {problem}")]
    Profile { profile: String, phase: usize, problem: String },
    #[error(
        " is restarted until the others are done, but there are no others, so the run never ends; let one job end"
    )]
    EndlessRun,
    #[error(": {node} does not exist; this machine has {has}")]
    UnknownNode { node: base::NodeId, has: String },
    #[error(": this machine has no {} {cpus}: it has {has}", base::noun(cpus.len() == 1, "CPU"))]
    UnknownCpus { cpus: CpuSet, has: CpuSet },
    #[error(" needs {needs} of memory, {place} has {has}")]
    TooLarge { needs: Bytes, place: String, has: Bytes },
    #[error(
        " has a memory policy, but no memory: add footprint_bytes to profile {profile:?}, or remove memory"
    )]
    NoPages { profile: String },
    #[error(" would run {run_time} alone on this machine: correct the values of its profile{hint}")]
    TooLong { run_time: String, hint: &'static str },
    #[error(": {0}")]
    Sections(String),
    #[error(" may use none of the machine's CPUs")]
    NoCpu,
}

impl ScriptProblem {
    fn for_job(self, job: &Job) -> ScriptError {
        ScriptError { origin: job.origin.to_string(), job: job.name.clone(), problem: self }
    }
}

/// Returns the scripts of all jobs, in the order of the jobs. Jobs with the same profile, number of
/// threads and sections share a script.
///
/// # Errors
/// Returns an error for the first job that cannot be simulated.
pub fn build_scripts(jobs: &[Job], hardware: &Hardware) -> Result<Vec<Arc<Script>>, ScriptError> {
    if let Some(job) = jobs.first().filter(|_| !jobs.iter().any(|job| job.ending.is_awaited())) {
        return Err(ScriptProblem::EndlessRun.for_job(job));
    }
    let mut known: BTreeMap<(usize, u32, Option<&Sections>), Arc<Script>> = BTreeMap::new();
    let mut scripts = Vec::with_capacity(jobs.len());
    for job in jobs {
        let profile = job.found.as_ref().ok_or_else(|| ScriptProblem::NoProfile.for_job(job))?;
        let key = (Arc::as_ptr(profile) as usize, job.threads, job.sections.as_ref());
        let script = match known.get(&key) {
            Some(script) => script.clone(),
            None => known.entry(key).or_insert(Arc::new(script(job, profile, hardware)?)).clone(),
        };
        check_cpus(job, hardware)?;
        check_nodes(job, hardware)?;
        check_fits(job, &script, hardware)?;
        scripts.push(script);
    }
    Ok(scripts)
}

/// Maximum simulated run time without a time limit, 100 days.
const RUN_TIME_MAX_UNLIMITED: Nanos = Nanos::from_secs(100 * 86_400);

/// Maximum simulated run time with a time limit, 100 years.
const RUN_TIME_MAX: Nanos = Nanos::from_secs(36_525 * 86_400);

/// Checks the start time plus the run time alone of each job. The maximum is 100 days. With a time limit of the run,
/// and for jobs that the run may end before their program exits, it is 100 years.
///
/// The check finds mistyped profiles, which are too long by orders of magnitude. It is based on the fastest core with local
/// memory, because the placement is not known before the run: with the slowest core and the most distant memory, runs would
/// be rejected that are short under most placements.
///
/// # Errors
/// Returns an error for the first job that runs too long.
pub fn check_lengths(
    jobs: &[Job],
    scripts: &[Arc<Script>],
    hardware: &Hardware,
    limit: Option<Nanos>,
) -> Result<(), ScriptError> {
    for (job, script) in jobs.iter().zip(scripts) {
        let ns = script.run_ns_alone(hardware) + job.start.0 as f64;
        let is_cut = limit.is_some() || !job.ending.is_program_exit();
        let is_below = |most: Nanos| ns < most.0 as f64;
        if !is_below(if is_cut { RUN_TIME_MAX } else { RUN_TIME_MAX_UNLIMITED }) {
            let hint = if is_below(RUN_TIME_MAX) { TIME_LIMIT_HINT } else { "" };
            return Err(ScriptProblem::TooLong { run_time: long_time_text(ns), hint }.for_job(job));
        }
    }
    Ok(())
}

const TIME_LIMIT_HINT: &str = ", or end the run earlier with --time-limit";

fn long_time_text(ns: f64) -> String {
    let days = ns / 86_400e9;
    match days / 365.25 {
        years if 1e6 <= years || years.is_nan() => "longer than a million years".to_owned(),
        years if 2.0 <= years => format!("{years:.0} years"),
        _ => format!("{days:.0} days"),
    }
}

fn check_cpus(job: &Job, hardware: &Hardware) -> Result<(), ScriptError> {
    let has: CpuSet = hardware.cpus.iter().map(|cpu| cpu.id).collect();
    let missing = job.cpus.as_ref().map(|cpus| cpus.minus(&has));
    match missing.filter(|cpus| !cpus.is_empty()) {
        Some(cpus) => Err(ScriptProblem::UnknownCpus { cpus, has }.for_job(job)),
        None => Ok(()),
    }
}

fn check_nodes(job: &Job, hardware: &Hardware) -> Result<(), ScriptError> {
    let existing: NodeSet = hardware.nodes.iter().filter_map(|node| node.id).collect();
    let named = job.nodes.iter().chain(job.memory.as_ref().map(program::MemoryPolicy::nodes));
    match named.flat_map(NodeSet::iter).find(|node| !existing.contains(*node)) {
        Some(node) => {
            let has = match existing.is_empty() {
                true => "no nodes".to_owned(),
                false => format!("nodes {existing}"),
            };
            Err(ScriptProblem::UnknownNode { node, has }.for_job(job))
        }
        None => Ok(()),
    }
}

fn check_fits(job: &Job, script: &Script, hardware: &Hardware) -> Result<(), ScriptError> {
    let bound = match (&job.memory, &job.nodes) {
        (Some(program::MemoryPolicy::Bind(nodes)), _) | (None, Some(nodes)) => Some(nodes.clone()),
        _ => None,
    };
    let is_usable = |node: &&crate::hardware::HardwareNode| {
        bound.as_ref().is_none_or(|nodes| node.id.is_some_and(|id| nodes.contains(id)))
    };
    let has = Bytes(hardware.nodes.iter().filter(is_usable).map(|node| node.memory.0).sum());
    let needs = Bytes(script.footprint_max());
    if let Some(profile) =
        job.found.as_ref().filter(|_| job.memory.is_some() && needs.0 < PAGE_BYTES)
    {
        return Err(ScriptProblem::NoPages { profile: profile.name.clone() }.for_job(job));
    }
    if has < needs {
        let place = match bound {
            Some(nodes) => format!("its nodes {nodes}"),
            None => "the machine".to_owned(),
        };
        return Err(ScriptProblem::TooLarge { needs, place, has }.for_job(job));
    }
    match may_use(job, hardware).contains(&true) {
        true => Ok(()),
        false => Err(ScriptProblem::NoCpu.for_job(job)),
    }
}

/// Returns for each CPU whether the keys `cpus` and `nodes` of a job allow the CPU.
pub(crate) fn may_use(job: &Job, hardware: &Hardware) -> Vec<bool> {
    let is_allowed = |cpu: &crate::hardware::HardwareCpu| {
        let node = hardware.nodes[cpu.node].id;
        job.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu.id))
            && job.nodes.as_ref().is_none_or(|nodes| node.is_some_and(|id| nodes.contains(id)))
    };
    hardware.cpus.iter().map(is_allowed).collect()
}

fn script(job: &Job, profile: &Profile, hardware: &Hardware) -> Result<Script, ScriptError> {
    let phases = profile.phases.iter().enumerate().map(|(idx, phase)| {
        script_phase(job, profile, phase, hardware).map_err(|problem| {
            let profile = profile.name.clone();
            ScriptProblem::Profile { profile, phase: idx + 1, problem }.for_job(job)
        })
    });
    let mut phases: Vec<ScriptPhase> = phases.collect::<Result<_, _>>()?;
    if job.sections.as_ref().is_some_and(Sections::names_phases) {
        // The phases are executed in turn or at the same time, in one memory.
        let largest = phases.iter().map(|phase| phase.footprint).max().unwrap_or(0);
        phases.iter_mut().for_each(|phase| phase.footprint = largest);
    }
    let script = Script { phases, n_threads: job.threads, plan: None };
    let plan = job.sections.as_ref().map(|sections| script.plan_of(sections)).transpose();
    let plan = plan.map_err(|problem| ScriptProblem::Sections(problem).for_job(job))?;
    Ok(Script { plan, ..script })
}

fn script_phase(
    job: &Job,
    profile: &Profile,
    phase: &Phase,
    hardware: &Hardware,
) -> Result<ScriptPhase, String> {
    let value = |measured: Option<ProfileValue>| measured.map(ProfileValue::value);
    let cpu = hardware.fastest_cpu();
    let channel = hardware.memory(cpu.node);
    let bytes = hardware.caches[cpu.cache].bytes;
    let parameters = Calibration::default().parameters(cpu.speed);
    let behaviour = of_phase(phase, profile.class_cache, bytes, channel, parameters)
        .map_err(|error: ProfileError| error.to_string())?;
    let instructions = instructions(profile, phase)?;
    if instructions < 1.0 {
        return Err(
            "the phase has no instructions; remove the phase, or set instructions".to_owned()
        );
    }
    let fills = hardware.fill_tables(&behaviour);
    let shared = value(phase.shared_footprint).filter(|_| 1 < job.threads);
    let shared = shared.and_then(|share| SharedFills::new(share, &fills));
    let accesses = behaviour.counts(bytes).accesses;
    let threads = f64::from(job.threads);
    Ok(ScriptPhase {
        fills: Arc::new(fills),
        shared: shared.map(Arc::new),
        instructions: instructions / threads,
        sleeps: sleeps(phase, instructions)?,
        footprint: value(phase.footprint_bytes).unwrap_or(0.0) as u64,
        l1_misses: value(phase.l1_misses).unwrap_or(accesses),
        behaviour: Arc::new(behaviour),
    })
}

/// Largest number of bursts of a phase. Each burst is an event of the simulation.
const N_BURSTS_MAX: f64 = 1e7;

fn sleeps(phase: &Phase, instructions: f64) -> Result<Option<(f64, u64)>, String> {
    let Some((burst, sleep)) = phase.burst_instructions.zip(phase.sleep_ns) else {
        return Ok(None);
    };
    let burst = burst.value();
    if N_BURSTS_MAX < instructions / burst {
        return Err(format!(
            "burst_instructions is {burst}: the {instructions} instructions are more than {N_BURSTS_MAX} bursts"
        ));
    }
    Ok(Some((burst, sleep.value() as u64)))
}

/// Returns the instructions of a phase: the value of the profile, else the phase's share of the instructions executed
/// in the CPU time.
fn instructions(profile: &Profile, phase: &Phase) -> Result<f64, String> {
    if let Some(value) = phase.instructions {
        return Ok(value.value());
    }
    let rate = profile.cpu_time.zip(profile.frequency());
    let cpi = profile.average(|phase| Some(phase.cycles_per_instruction?.value()));
    match (rate, cpi.filter(|cpi| 0.0 < *cpi)) {
        (Some((time, hertz)), Some(cpi)) => {
            Ok(phase.share.value() * time.as_secs_f64() * hertz / cpi)
        }
        _ => Err("it has no instructions, so its end is unknown; set instructions".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bursts_than_a_run_can_simulate_are_an_error() {
        let known = |value: f64| ProfileValue::new(value, Default::default());
        let phase =
            Phase { burst_instructions: known(1.0), sleep_ns: known(0.0), ..Phase::default() };
        assert_eq!(sleeps(&phase, 1e7), Ok(Some((1.0, 0))));
        assert!(sleeps(&phase, 1e8).expect_err("too many").contains("more than 10000000 bursts"));
    }

    #[test]
    fn a_memory_policy_without_memory_is_an_error() {
        let machine = topology::Machine::synthetic("nodes=2 cores=1 mem=1G").expect("a machine");
        let job = Job {
            memory: Some(program::MemoryPolicy::Bind(NodeSet::from_iter([base::NodeId(1)]))),
            found: Some(Arc::new(Profile { name: "hog".to_owned(), ..Profile::default() })),
            ..Job::new(base::JobId(0), "hog", program::Command::Shell("hog".to_owned()))
        };
        let error = check_fits(&job, &Script::default(), &Hardware::new(&machine));
        let error = error.expect_err("no memory").to_string();
        assert!(
            error.ends_with("add footprint_bytes to profile \"hog\", or remove memory"),
            "{error}"
        );
    }
}
