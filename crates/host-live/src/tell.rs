//! What whoever runs a host may want to know of it beside its turns.

use base::Nanos;
use program::MemoryPolicy;

use crate::LiveHost;
use crate::host::{Slot, Stopping};

impl LiveHost {
    /// What this run is called; no two runs on a machine share it.
    pub fn run_id(&self) -> &str {
        &self.common.run
    }

    /// Which groups jobs have whose memory is bound, and why these.
    pub fn groups(&self) -> String {
        self.job_groups.told()
    }

    /// Whether a job of the workload would have one.
    pub fn needs_groups(&self) -> bool {
        let holds = |slot: &Slot| {
            let of_nodes = slot.job.nodes.clone().map(MemoryPolicy::Bind);
            self.job_groups.would_hold(slot.job.memory.as_ref().or(of_nodes.as_ref()))
        };
        self.slots.iter().any(holds)
    }

    /// The time since the start of the run.
    pub fn now(&mut self) -> Nanos {
        self.wakes.now()
    }

    /// Whether the run was stopped before its jobs were over: by a signal, the time limit, a failed
    /// job, or [`engine::Host::stop`].
    pub fn was_stopped(&self) -> bool {
        self.stopping != Stopping::No
    }
}
