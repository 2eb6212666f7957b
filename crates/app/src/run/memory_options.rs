//! Options for memory sampling and page migration.

use std::collections::BTreeMap;

use base::Bytes;
use engine::PageMigrationLimits;
use host_live::{MemoryOptions, MemorySampling};

use crate::input;

/// Options for memory sampling and page migration.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct MemoryArgs {
    /// Read the memory of each job by node (auto: if several nodes have memory)
    #[arg(long, value_enum, default_value_t = MemoryByNode::Auto)]
    memory_by_node: MemoryByNode,
    /// Limit the memory that all page migrations together move per second
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = input::nonzero_size, allow_hyphen_values = true)]
    page_migration_rate: Bytes,
    /// Limit the memory that page migrations move per minute for each job
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = input::nonzero_size, allow_hyphen_values = true)]
    page_migration_budget: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MemoryByNode {
    Auto,
    On,
    Off,
}

impl MemoryArgs {
    pub fn options(&self) -> MemoryOptions {
        let sampling = match self.memory_by_node {
            MemoryByNode::Auto => MemorySampling::Auto,
            MemoryByNode::On => MemorySampling::On,
            MemoryByNode::Off => MemorySampling::Off,
        };
        MemoryOptions {
            sampling,
            page_migration_rate: self.page_migration_rate,
            ..MemoryOptions::default()
        }
    }

    pub fn limits(&self) -> PageMigrationLimits {
        limits(self.page_migration_rate, self.page_migration_budget)
    }

    /// Returns the journal options that differ from the defaults, so that a replay uses the same limits.
    pub fn journal_options(&self) -> impl Iterator<Item = (String, String)> {
        let default = PageMigrationLimits::default();
        let rate = (self.page_migration_rate, default.per_second, RATE);
        let budget = (self.page_migration_budget, default.per_job_minute, BUDGET);
        let other = |(size, default, name): (Bytes, Bytes, &str)| {
            (size != default).then(|| (name.to_owned(), size.0.to_string()))
        };
        [rate, budget].into_iter().filter_map(other)
    }
}

const RATE: &str = "page-migration-rate-bytes";
const BUDGET: &str = "page-migration-budget-bytes";

/// Returns the limits of a recorded run.
pub fn limits_of(options: &BTreeMap<String, String>) -> PageMigrationLimits {
    let default = PageMigrationLimits::default();
    let size = |name, default| {
        let recorded = options.get(name).and_then(|text| text.parse().ok());
        recorded.map_or(default, Bytes)
    };
    limits(size(RATE, default.per_second), size(BUDGET, default.per_job_minute))
}

fn limits(per_second: Bytes, per_job_minute: Bytes) -> PageMigrationLimits {
    PageMigrationLimits { per_second, per_job_minute, ..PageMigrationLimits::default() }
}
