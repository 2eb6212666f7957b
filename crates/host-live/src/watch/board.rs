//! What watching shows of itself: who is looked after, what was changed, who is left alone and why.

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos};

use super::respect::LeftAlone;

/// So many examples are named for each reason to leave somebody alone.
const EXAMPLES: usize = 4;

/// What there is to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    /// How new processes are noticed: `events`, `groups` or `numbers`.
    pub way: String,
    /// Processes that are known, chosen or not.
    pub n_known: u64,
    /// Chosen, not left alone, and not busy.
    pub n_asleep: u64,
    /// Those that are busy.
    pub managed: Vec<Managed>,
    /// Chosen and left alone.
    pub left_alone: BTreeMap<LeftAlone, Alone>,
    /// Started by processes that we had bound, with their mask, and not busy.
    pub n_heirs: u64,
    /// The CPUs that programs are placed on.
    pub targets: CpuSet,
    /// Those that they would be placed on if we might use all that are online and not isolated.
    pub whole: CpuSet,
}

/// A process that is looked after.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    /// Its job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// Its birth, in clock ticks since boot.
    pub born_ticks: u64,
    /// Since when it is looked after.
    pub since: Nanos,
    /// The CPUs that it had.
    pub before: CpuSet,
    /// The CPUs that we gave it.
    pub placed: Option<CpuSet>,
    /// Somebody else placed it since, or the kernel does not let us.
    pub hands_off: bool,
}

/// Processes that are left alone for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alone {
    /// How many.
    pub n: u64,
    /// Some of them: number and name.
    pub examples: Vec<(u32, String)>,
}

impl Alone {
    /// One more.
    pub(super) fn add(&mut self, pid: u32, name: impl FnOnce() -> String) {
        self.n += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push((pid, name()));
        }
    }
}
