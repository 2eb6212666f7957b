//! The oracle: a policy for simulated runs that repeats the best run found by simulation.
//!
//! The oracle uses the random draws, and properties of the simulated machine that no counter provides. It is therefore
//! only available for simulated runs. The best run is an upper bound for the other policies with their defaults.
//! `compare::oracle_search` is the search; this module contains the name, the parameter, and the policies that repeat a
//! run.

use base::{CpuId, CpuSet, Nanos};
use policy::{Param, ParamValue, Params, PolicyError, PolicyInfo, Values};
use sched::{Action, JobState, Plan, Policy, Reason, ReasonCode, Snapshot, reasons};

/// Name of the oracle in `--policy`.
pub const NAME: &str = "oracle";

/// Limit of the parameter `runs`: more simulated runs would take days.
const N_RUNS_MAX: usize = 1_000_000;

/// Declaration of the oracle for `evenkeel policies`.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "Repeats the best of many simulated runs of the same workload: an upper bound for the other \
              policies, only for simulated runs (--host sim, compare).",
    source: "evenkeel: exhaustive search up to `runs` placements, else hill climbing; with a lower bound of the objective",
    signals: &[],
    params: &[&[
        Param::new(
            "runs",
            Values::integer("", 1, N_RUNS_MAX as u64),
            "128", // The number of all placements of eight programs on two equal caches.
            "maximum number of simulated placements of whole runs",
        ),
        Param::new(
            "objective",
            Objective::VALUES,
            "makespan",
            "what the best run has the smallest value of",
        ),
    ]],
    reasons: &[REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: None,
};

reasons! {
    /// The best of all simulated runs.
    ORACLE_CHOSE = "oracle-chose":
        "the oracle simulated this run {n_runs} times before it began (every policy with its defaults, and {searched} of jobs for the whole run): {candidate} had the smallest {objective}, {reached}[, {above} above the lower bound of all placements, which follows from {term}]";
    /// No simulated run finished: the run that is repeated is not a best run.
    ORACLE_NONE_FINISHED = "oracle-none-finished":
        "the oracle simulated this run {n_runs} times before it began (every policy with its defaults, and {searched} of jobs for the whole run), and no simulated run finished ({cause}): it repeats {candidate}, which is no bound for other policies";
}

/// The value that the oracle minimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Time from the start of the run to the end of its last job.
    Makespan,
    /// Mean of the slowdowns of the jobs.
    MeanSlowdown,
    /// Largest slowdown of a job.
    MaxSlowdown,
}

impl Objective {
    /// Returns the objective as a noun.
    pub fn noun(self) -> &'static str {
        match self {
            Objective::Makespan => "makespan",
            Objective::MeanSlowdown => "mean slowdown",
            Objective::MaxSlowdown => "maximum slowdown",
        }
    }
}

impl ParamValue for Objective {
    const VALUES: Values = Values::Names(&["makespan", "mean-slowdown", "max-slowdown"]);

    fn read(text: &str, _: &Values) -> Option<Self> {
        match text {
            "makespan" => Some(Objective::Makespan),
            "mean-slowdown" => Some(Objective::MeanSlowdown),
            "max-slowdown" => Some(Objective::MaxSlowdown),
            _ => None,
        }
    }
}

/// Parameters of the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OracleParams {
    /// Maximum number of simulated placements of whole runs.
    pub n_runs_max: usize,
    /// The minimized value.
    pub objective: Objective,
}

/// Invalid use of the oracle. Each message contains a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum OracleError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(
        "the oracle is only available for simulated runs: write --host sim, or name another policy"
    )]
    Live,
    #[error(
        "the oracle is only available for simulated runs, not for a replay: name another policy with --policy"
    )]
    Replay,
}

/// Returns whether a text names the oracle.
pub fn is_named(spec: &str) -> bool {
    let suffix = spec.trim().strip_prefix(NAME).map(str::trim_start);
    suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('['))
}

/// Returns the parameters of the oracle; `None` if the text names another policy.
///
/// # Errors
/// An unknown parameter, or an invalid value.
pub fn params(spec: &str) -> Result<Option<OracleParams>, OracleError> {
    let spec: String = spec.chars().filter(|c| !c.is_whitespace()).collect();
    if !is_named(&spec) {
        return Ok(None);
    }
    let params = Params::parse(&INFO, &spec)?;
    let n_runs_max = params.get::<u64>("runs") as usize;
    Ok(Some(OracleParams { n_runs_max, objective: params.get("objective") }))
}

/// Adds the oracle to the policies that an error lists.
pub fn with_oracle(error: PolicyError) -> PolicyError {
    error.with_policy(NAME)
}

/// Checks that a text names a policy for simulated runs.
///
/// # Errors
/// The policy does not exist, or its parameters are invalid.
pub fn check(spec: &str) -> Result<(), OracleError> {
    if params(spec)?.is_none() {
        policy::build(spec, 0).map_err(with_oracle)?;
    }
    Ok(())
}

/// A policy that places each job once, when it starts.
#[derive(Debug)]
pub(crate) struct FixedPlacement {
    /// CPUs of each job, by number; `None`: the kernel places the job.
    pub cpus: Vec<Option<CpuSet>>,
    /// The reason of every placement.
    pub reason: Reason,
}

impl Policy for FixedPlacement {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Due && job.movable) {
            let Some(Some(assigned)) = self.cpus.get(job.job.id.index()) else { continue };
            let cpus: CpuSet =
                job.allowed.iter().filter(|cpu: &CpuId| assigned.contains(*cpu)).collect();
            if !cpus.is_empty() {
                plan.request(job.job.id, Action::Place(cpus), self.reason.clone());
            }
        }
    }

    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        REASONS.to_vec()
    }

    fn interval(&self) -> Option<Nanos> {
        None
    }
}

/// Another policy under the name of the oracle.
pub(crate) struct RenamedPolicy {
    pub inner: Box<dyn Policy>,
    /// Note in the first plan.
    pub reason: Option<Reason>,
}

impl Policy for RenamedPolicy {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.inner.decide(snapshot, plan);
        self.reason.take().into_iter().for_each(|reason| plan.note(reason));
    }

    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        [self.inner.reasons(), REASONS.to_vec()].concat()
    }

    sched::forward_policy!(inner: interval, wake, domains, load_source);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_is_named_with_or_without_its_parameters_as_declared() {
        let runs = INFO.param("runs").expect("the oracle declares it");
        let n_runs_max = |spec: &str| params(spec).map(|all| all.map(|all| all.n_runs_max));
        assert_eq!(n_runs_max("oracle"), Ok(runs.default.parse().ok()));
        assert!(runs.values.words().contains(&N_RUNS_MAX.to_string()));
        assert_eq!(n_runs_max(" oracle [ runs=7 ]"), Ok(Some(7)));
        assert_eq!((n_runs_max("dfs"), n_runs_max("oracles")), (Ok(None), Ok(None)));
        let fair = params("oracle[runs=7,objective=max-slowdown]").expect("it is valid");
        let expected = OracleParams { n_runs_max: 7, objective: Objective::MaxSlowdown };
        assert_eq!(fair, Some(expected));
        for wrong in [
            "oracle[runs=0]",
            "oracle[runs=]",
            "oracle[steps=3]",
            "oracle[runs=1000001]",
            "oracle[objective=unfairness]",
            "oracle[",
            "oracle[runs=7",
            "oracle[[runs=7]]",
        ] {
            params(wrong).expect_err(wrong);
        }
    }
}
