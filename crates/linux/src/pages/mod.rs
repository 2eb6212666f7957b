//! Page migration: find pages, request their migration in batches, and verify the result.
//!
//! ```text
//!   hot_ranges      the order of address ranges, hot ones first
//!   page_migrator   a batch: nodes of the pages? ─► free memory on the target? ─► request ─► nodes again
//!   batch           size of a call that takes 20 ms
//!   process         a process, identified by PID, start time and a descriptor of its memory
//! ```
//!
//! A page counts as moved if a query after the call finds it on the target node. The status that the kernel returns is
//! used only for the cause of a failure. For every migration `requested` = `moved` + failed + `not_attempted`.
//!
//! Only private anonymous memory migrates. Shared memory and pages of files stay, because other processes may use them
//! on other nodes. A huge page is requested by its first address and migrates as a whole.

mod batch;
#[cfg(all(test, debug_assertions))]
mod fault_tests;
mod hot_ranges;
mod page_migrator;
mod process;

pub use batch::BatchSize;
pub use hot_ranges::{MigrationRange, hot_first};
pub use page_migrator::{
    FailedPageCounts, MigratableMemory, PageMigrationRequest, PageMigrationStop,
    ProcessMigrationTotals, ProcessPageMigrator,
};
pub use process::LiveProcessMemory;
