//! Flags about memory: when it is looked at, and how much of it may be moved.

use std::collections::BTreeMap;

use base::Bytes;
use engine::MoveLimits;
use host_live::{MemoryLooks, MemoryOptions};

use crate::input;

/// When memory by node is looked at, and how much of it policies may move.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct MemoryArgs {
    /// Look every few seconds on which nodes the memory of the programs lies (auto: where there are
    /// several)
    #[arg(long, value_enum, default_value_t = Looks::Auto)]
    memory_by_node: Looks,
    /// Memory that all moves together may carry in a second
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = input::some_size, allow_hyphen_values = true)]
    move_pace: Bytes,
    /// Memory of one program that may be moved in a minute
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = input::some_size, allow_hyphen_values = true)]
    move_budget: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Looks {
    Auto,
    On,
    Off,
}

impl MemoryArgs {
    /// What the host is to know of them.
    pub fn options(&self) -> MemoryOptions {
        let looks = match self.memory_by_node {
            Looks::Auto => MemoryLooks::Auto,
            Looks::On => MemoryLooks::On,
            Looks::Off => MemoryLooks::Off,
        };
        MemoryOptions { looks, moves_per_second: self.move_pace, ..MemoryOptions::default() }
    }

    /// What the guard is to know of them.
    pub fn limits(&self) -> MoveLimits {
        limits(self.move_pace, self.move_budget)
    }

    /// What a journal tells of them, where they are not the defaults, so that a replay has the same.
    pub fn told(&self) -> impl Iterator<Item = (String, String)> {
        let default = MoveLimits::default();
        let pace = (self.move_pace, default.per_second, PACE);
        let budget = (self.move_budget, default.per_process_minute, BUDGET);
        let other = |(size, default, name): (Bytes, Bytes, &str)| {
            (size != default).then(|| (name.to_owned(), size.0.to_string()))
        };
        [pace, budget].into_iter().filter_map(other)
    }
}

const PACE: &str = "move-pace-bytes";
const BUDGET: &str = "move-budget-bytes";

/// The limits of a recorded run.
pub fn limits_of(options: &BTreeMap<String, String>) -> MoveLimits {
    let default = MoveLimits::default();
    let size = |name, default| {
        let recorded = options.get(name).and_then(|text| text.parse().ok());
        recorded.map_or(default, Bytes)
    };
    limits(size(PACE, default.per_second), size(BUDGET, default.per_process_minute))
}

fn limits(per_second: Bytes, per_process_minute: Bytes) -> MoveLimits {
    MoveLimits { per_second, per_process_minute, ..MoveLimits::default() }
}
