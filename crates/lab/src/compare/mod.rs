//! Comparisons: every policy on every workload with every seed.
//!
//! ```text
//!   columns (policy@variant) ─┐
//!   workloads ────────────────┼─► ComparePlan ─► runs in order ─► threads ─► RunMetrics of each ─► runs.jsonl
//!   seeds ────────────────────┘            A B C A B C …                   │ (a later start resumes)
//!                                                                          ▼
//!                                                    summary: stats ─► report::comparison
//! ```
//!
//! Runs are ordered by seed, then workload, then policy. An interrupted comparison is therefore nearly a complete one
//! with fewer seeds, and live runs alternate between the policies (A B A B). A run depends only on its policy, workload
//! and seed, and not on the number of threads or on interruptions.

mod column;
mod metrics;
mod momentary_placement;
mod oracle_search;
mod plan;
mod runner;
mod simulate;
mod store;
mod summary;
mod timeline;

pub use column::{Column, ColumnError, MachineVariant, columns};
pub use metrics::{
    Completion, ControllerTraffic, JobTimes, MetricsRecorder, OracleSearch, RunMetrics,
};
pub use plan::{ComparePlan, PlanError, RunKey, seeds};
pub use runner::{RunEvent, run_all};
pub use simulate::{PreparedWorkload, SimBench, SimRunError, SimSetting};
pub use store::{Identity, RunStore, RunStoreError};
pub use summary::{SummaryContext, summarize};
pub use timeline::median_runs;
