//! Seeded workloads on shipped servers: the comparison behind the policy `auto`.
//!
//! ```text
//!   server × number of jobs × workload seed ─► jobs: programs drawn from SPEC CPU2006 ─┐
//!   policies × run seeds ─────────────────────────────────────────────────────────────┴─► ratio to linux
//! ```
//!
//! The number of jobs is half of the CPUs, three quarters, all, and one and a half times the CPUs; on the two servers with
//! about 200 CPUs it is at most half of them. 403.gcc runs for less than a minute alone, the other programs for one to
//! twenty minutes. The metric is the sum of the run times of all jobs, relative to `linux` with the same seed.

use std::sync::Arc;

use base::{JobId, Nanos, Rng, StopFlag};
use program::{Command, Job};

use crate::compare::{Column, Completion, SimBench, SimRunError, SimSetting};
use crate::shipped;

/// The servers: shipped machines with several nodes or last-level caches, with the numbers of jobs.
pub const SERVERS: [(&str, &[usize]); 7] = [
    ("opteron-8356-2x4", &[4, 6, 8, 12]),
    ("xeon-e5520-2x4", &[4, 6, 8, 12]),
    ("xeon-2x4", &[4, 6, 8, 12]),
    ("xeon-e5-2697-2x14", &[14, 21, 28, 42]),
    ("xeon-x5365-4x2", &[4, 6, 8, 12]),
    ("epyc-9654", &[24, 48, 96]),
    ("xeon-2s-snc4", &[8, 16, 32]),
];

/// Jobs start within this time.
const SPAN_MS: u64 = 5000;

/// Results of a policy on one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerCase {
    /// Number of jobs.
    pub n_jobs: usize,
    /// Seed of the workload.
    pub workload: u64,
    /// Logarithm of the ratio to `linux` for each run seed.
    pub log_ratios: Vec<f64>,
}

impl ServerCase {
    /// Returns the geometric mean of the ratios.
    pub fn ratio(&self) -> f64 {
        libm::exp(crate::stats::mean(&self.log_ratios))
    }
}

/// Returns the jobs of a workload.
///
/// # Panics
/// A shipped profile does not exist.
pub fn jobs(n_jobs: usize, seed: u64) -> Vec<Job> {
    let is_spec = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    let programs: Vec<String> = shipped::profiles().into_iter().filter(is_spec).collect();
    let mut rng = Rng::new(seed);
    let mut drawn: Vec<(Nanos, &String)> = (0..n_jobs)
        .map(|_| {
            let program = &programs[rng.below(programs.len() as u64) as usize];
            (Nanos(rng.below(SPAN_MS) * 1_000_000), program)
        })
        .collect();
    drawn.sort();
    let job = |(id, (start, program)): (usize, (Nanos, &String))| {
        let profile = shipped::profile(program).expect("a shipped profile");
        let command = Command::Load(vec!["hog".to_owned()]);
        let job = Job::new(JobId(id as u32), format!("{program}-{id}"), command);
        Job { start, found: Some(Arc::new(profile)), ..job }
    };
    drawn.into_iter().enumerate().map(job).collect()
}

/// Simulates `linux` and a policy on `n_workloads` workloads for each number of jobs, with the run seeds 1 to `n_seeds`.
///
/// # Errors
/// The policy does not exist, or a run failed.
///
/// # Panics
/// The server does not exist.
pub fn compare(
    (server, sizes): (&str, &[usize]),
    policy: &str,
    (n_workloads, n_seeds): (u64, u64),
) -> Result<Vec<ServerCase>, ServerRunError> {
    let machine = shipped::machine(server).expect("a shipped machine");
    let cases: Vec<(usize, u64)> =
        sizes.iter().flat_map(|&n| (1..=n_workloads).map(move |seed| (n, seed))).collect();
    let workloads = cases.iter().map(|&(n, seed)| jobs(n, 1000 * seed + n as u64)).collect();
    let (options, limits, signals) = Default::default();
    let setting = SimSetting { machine, options, limits, signals };
    let bench = SimBench::without_solo_runs(setting, workloads).map_err(SimRunError::from)?;
    let columns = ["linux", policy].map(|text| Column::parse(text).expect("a policy"));
    let case = |(idx, &(n_jobs, workload)): (usize, &(usize, u64))| {
        let log_ratio = |seed| -> Result<f64, ServerRunError> {
            let [linux, policy] = &columns;
            let time = |column| sum_of_times(&bench, (column, idx, seed));
            Ok(libm::log(time(policy)? / time(linux)?))
        };
        let log_ratios = (1..=n_seeds).map(log_ratio).collect::<Result<_, _>>()?;
        Ok(ServerCase { n_jobs, workload, log_ratios })
    };
    cases.iter().enumerate().map(case).collect()
}

/// Returns the sum of the run times of all jobs, in seconds.
fn sum_of_times(bench: &SimBench, run: (&Column, usize, u64)) -> Result<f64, ServerRunError> {
    let metrics = bench.run(run, &StopFlag::default(), None)?.expect("not interrupted");
    let times: Option<Vec<f64>> = (0..metrics.jobs.len()).map(|idx| metrics.job_s(idx)).collect();
    match times.filter(|_| metrics.status == Completion::Finished) {
        Some(times) => Ok(times.iter().sum()),
        None => Err(ServerRunError::Failed {
            policy: run.0.to_string(),
            workload: run.1,
            seed: run.2,
            error: metrics.error.unwrap_or_else(|| "a job did not end".to_owned()),
        }),
    }
}

/// A run that gives no ratio.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages are the documentation")]
pub enum ServerRunError {
    #[error(transparent)]
    Sim(#[from] SimRunError),
    /// A run failed: an invariant does not hold, or jobs did not end.
    #[error("the run of {policy} on workload {workload} with seed {seed} failed: {error}")]
    Failed { policy: String, workload: usize, seed: u64, error: String },
}

#[cfg(test)]
mod tests {
    use host_sim::SimOptions;
    use host_sim::kernel::KernelVersion;

    use super::*;
    use crate::stats;

    /// Returns the mean logarithm of the ratio over all cases of the first servers.
    fn mean_log(policy: &str, n_servers: usize, runs: (u64, u64)) -> f64 {
        let cases = SERVERS[..n_servers]
            .iter()
            .flat_map(|&server| compare(server, policy, runs).expect("a policy"));
        stats::mean(&cases.flat_map(|case| case.log_ratios).collect::<Vec<_>>())
    }

    #[test]
    fn on_every_shipped_machine_the_invariants_hold() {
        for name in shipped::machines() {
            let machine = shipped::machine(name).expect("a shipped machine");
            let (limits, signals) = Default::default();
            let kernel = Some(KernelVersion::default());
            let options = SimOptions { kernel, ..SimOptions::default() };
            let setting = SimSetting { machine, options, limits, signals };
            let bench = SimBench::without_solo_runs(setting, vec![jobs(8, 1), jobs(8, 2)])
                .expect("a bench");
            for policy in ["linux", "linux@interleave", "linux@numa-balancing", "dino"] {
                let column = Column::parse(policy).expect("a policy");
                for workload in [0, 1] {
                    let time = sum_of_times(&bench, (&column, workload, 1));
                    time.unwrap_or_else(|error| panic!("{name}: {error}"));
                }
            }
        }
    }

    #[test]
    fn auto_keeps_at_least_half_of_the_gain_of_the_policy_that_it_tries() {
        let (alone, auto) = (mean_log("dino", 4, (3, 2)), mean_log("auto", 4, (3, 2)));
        assert!(alone < -0.01, "dino has no gain: {alone}");
        assert!(auto < 0.5 * alone, "auto {auto}, dino alone {alone}");
    }

    /// Two of the servers have one node, on which `auto` binds nothing.
    #[test]
    fn on_one_node_and_with_few_jobs_on_eight_nodes_auto_equals_linux() {
        for server in &SERVERS[4..] {
            let sizes = &server.1[..1];
            let cases = compare((server.0, sizes), "auto", (1, 2)).expect("a policy");
            assert!(cases.iter().all(|case| case.log_ratios == [0.0, 0.0]), "{cases:?}");
        }
    }

    #[test]
    fn auto_is_on_no_server_slower_than_linux_beyond_its_interval() {
        for &server in &SERVERS[..4] {
            let cases = compare(server, "auto", (3, 2)).expect("a policy");
            let means: Vec<f64> = cases.iter().map(|case| stats::mean(&case.log_ratios)).collect();
            let of = |at: &[usize]| stats::mean(&at.iter().map(|&i| means[i]).collect::<Vec<_>>());
            let interval = stats::interval(means.len(), of).expect("several cases");
            assert!(interval.low <= 0.0, "{}: {means:?}", server.0);
        }
    }
}
