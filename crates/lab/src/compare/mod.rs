//! Comparisons: every policy on every workload with every seed.
//!
//! ```text
//!   columns (policy@variant) ─┐
//!   workloads ────────────────┼─► Plan ─► runs in order ─► threads ─► Figures of each ─► runs.jsonl
//!   seeds ────────────────────┘            A B C A B C …                   │ (a start later goes on)
//!                                                                          ▼
//!                                                    summary: stats ─► report::comparison
//! ```
//!
//! Runs are ordered by seed, then workload, then policy: whenever it is interrupted, what is done is nearly
//! a whole comparison with fewer seeds, and live the policies take turns (A B A B). Each run hangs on
//! nothing but its own place in the plan, so that neither the number of threads nor an interruption changes
//! a figure.

mod column;
mod figures;
mod plan;
mod runner;
mod simulate;
mod store;
mod summary;
mod timeline;

pub use column::{Column, ColumnError, Variant, columns};
pub use figures::{Controller, Ended, Figures, Found, JobFigures, Tally};
pub use plan::{Key, Plan, PlanError, seeds};
pub use runner::{Landed, run_all};
pub use simulate::{Ready, SimBench, SimRunError, SimSetting};
pub use store::{Identity, Store, StoreError};
pub use summary::{About, summarize};
pub use timeline::median_runs;
