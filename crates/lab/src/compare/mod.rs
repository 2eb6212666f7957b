//! Comparisons: every policy on every workload with every seed.
//!
//! ```text
//!   columns (policy@variant) ─┐
//!   workloads ────────────────┼─► ComparePlan ─► RunKeys in order ─► run_all ─► RunMetrics of each ─► runs.jsonl
//!   seeds ────────────────────┘            A B C A B C …                      │ (a later start resumes)
//!                                                                             ▼
//!                                    RunSeries by policy and workload ─► summary: stats ─► report::comparison
//! ```
//!
//! A run is identified by its [`RunKey`] within a store. All runs of a store have the same machine, options and version
//! of evenkeel: the store of a comparison is its file ([`RunStore`]), and the experiments of [`crate::reproduce`] have
//! a store in memory for each testbed. In both stores, [`run_all`] simulates the missing runs, and [`RunSeries`] reads
//! them.
//!
//! Runs are ordered by seed, then workload, then policy. An interrupted comparison is therefore almost a complete
//! comparison with fewer seeds, and live runs alternate between the policies (A B A B). A run depends only on its
//! policy, workload and seed, and not on the number of threads or on interruptions.

mod column;
#[cfg(test)]
mod core_kind_tests;
mod lower_bound;
mod metrics;
mod momentary_placement;
mod oracle_search;
mod packed_placement;
mod plan;
mod runner;
mod series;
mod simulate;
mod store;
mod summary;
mod timeline;

pub use column::{Column, ColumnError, MachineVariant, columns, command_columns};
pub use metrics::{
    Completion, ControllerTraffic, JobTimes, MetricsRecorder, OracleSearch, RunMetrics, SoloTimes,
};
pub use plan::{ComparePlan, PlanError, RunKey, seeds};
pub use runner::{RunEvent, run_all};
pub use series::RunSeries;
pub use simulate::{PreparedWorkload, SimBench, SimRunError, SimSetting, jobs_without_ranges};
pub use store::{Identity, RUNS_FILE, RunStore, RunStoreError};
pub(crate) use summary::SIM_EQUAL_WITHIN;
pub use summary::{SummaryContext, median_runs, summarize};
