//! Checks a workload before anything is started: files, CPUs and nodes of each job.
//!
//! The checks leave no change on the machine.

mod files;
mod runnable;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use base::{CpuSet, NodeSet};
use program::{FilePosition, Job, Workload};
use topology::Machine;

use super::programs::{ProgramError, find_program};
use files::Files;

/// Finds a program as [`find_program`], and checks from the first bytes of the file whether the kernel can execute it.
///
/// # Errors
/// There is no such program, or it cannot be executed.
pub fn find_runnable(
    program: &Path,
    dir: &Path,
    search_path: &OsStr,
) -> Result<PathBuf, ProgramError> {
    let path = find_program(program, dir, search_path)?;
    runnable::check(&path).map_err(ProgramError::NotExecutable)?;
    Ok(path)
}

/// A job that cannot run on this machine, with its line in the workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: job {job:?}: {problem}")]
pub struct PreflightError {
    /// File and line of the job.
    pub origin: FilePosition,
    /// Name of the job.
    pub job: String,
    /// The problem, and what to do.
    pub problem: String,
}

/// Checks whether every job of a workload can start on this machine.
///
/// # Errors
/// The first job that cannot start.
pub fn preflight(workload: &Workload, machine: &Machine) -> Result<(), PreflightError> {
    let failed = |job: &Job, problem| {
        Err(PreflightError { origin: job.origin.clone(), job: job.name.clone(), problem })
    };
    let mut files = Files::new(workload);
    for job in &workload.jobs {
        files
            .check(job)
            .and_then(|()| check_cpus_and_nodes(job, machine))
            .or_else(|problem| failed(job, problem))?;
    }
    match files.overwritten_program() {
        Some((job, problem)) => failed(job, problem),
        None => Ok(()),
    }
}

fn check_cpus_and_nodes(job: &Job, machine: &Machine) -> Result<(), String> {
    let present: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    if let Some(cpus) = &job.cpus {
        if !cpus.is_subset(&present) {
            let missing = cpus.minus(&present);
            let cpus = base::noun(missing.len() == 1, "CPU");
            return Err(format!("this machine has no {cpus} {missing}: it has {present}"));
        }
        if !cpus.is_subset(machine.allowed()) {
            let (missing, allowed) = (cpus.minus(machine.allowed()), machine.allowed());
            return Err(format!("CPUs {missing} are not allowed here: choose from {allowed}"));
        }
    }
    if let Some(nodes) = &job.nodes {
        check_nodes(nodes, machine)?;
        let cpus = machine.cpus_of_nodes(nodes).and(machine.allowed());
        let cpus = job.cpus.as_ref().map_or_else(|| cpus.clone(), |own| cpus.and(own));
        if cpus.is_empty() {
            return Err(format!("it is not allowed to use any CPU of nodes {nodes}"));
        }
    }
    match &job.memory {
        Some(policy) => check_nodes(policy.nodes(), machine),
        None => Ok(()),
    }
}

fn check_nodes(nodes: &NodeSet, machine: &Machine) -> Result<(), String> {
    let present: NodeSet = machine.nodes().iter().map(|node| node.id).collect();
    if present.is_empty() {
        return Err("this machine has no memory nodes to choose from".to_owned());
    }
    if !nodes.is_subset(&present) {
        let missing = nodes.minus(&present);
        let nodes = base::noun(missing.len() == 1, "node");
        return Err(format!("this machine has no {nodes} {missing}: it has {present}"));
    }
    if !nodes.is_subset(machine.nodes_allowed()) {
        let missing = nodes.minus(machine.nodes_allowed());
        let allowed = machine.nodes_allowed();
        return Err(format!(
            "memory of nodes {missing} is not allowed here: choose from {allowed}"
        ));
    }
    Ok(())
}
