//! What must hold throughout a simulated run, and is looked at in every one.
//!
//! | rule | when |
//! | --- | --- |
//! | every task is on a CPU that it may use and that is online | each turn |
//! | no CPU idles while a task that may run there has been waiting for longer than [`WAITS_MAX`] | each turn |
//! | of each node, what is held and what is free make its memory | each turn |
//! | of a move of pages, moved and refused make what was asked for, within its limit | each move |
//! | all CPU time together is no more than there was | each turn |
//! | every job ends | at the end |
//!
//! A broken rule is a fault of the simulator, never of a policy: the run ends with what was broken.

use base::Nanos;

use crate::fluid::{Fluid, PageMove};

/// A task may wait for so long beside an idle CPU: the kernel's even-outs between nodes of a large machine
/// take some rounds of 64 ms each.
pub const WAITS_MAX: Nanos = Nanos::from_secs(1);

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the simulated machine broke a rule of its own at {at}: {what} (this is a bug of evenkeel)"
)]
pub struct Broken {
    /// When.
    pub at: Nanos,
    /// Which, and how.
    pub what: String,
}

/// Looks at the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checker;

impl Checker {
    /// Looks at everything that can be seen at an instant.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn look(self, fluid: &Fluid) -> Result<(), Broken> {
        let broken = |what| Broken { at: Nanos(fluid.now()), what };
        fluid.check_places().map_err(broken)?;
        fluid.check_pages().map_err(broken)?;
        fluid.check_cpu_time().map_err(broken)?;
        if let Some((task, cpu, ns)) = fluid.left_waiting().filter(|(.., ns)| WAITS_MAX.0 < *ns) {
            let for_ms = ns / 1_000_000;
            return Err(broken(format!(
                "thread {task} has waited for {for_ms} ms beside the idle {cpu}"
            )));
        }
        Ok(())
    }

    /// Looks at a move of pages that is over.
    ///
    /// # Errors
    /// Bytes were counted twice or lost, or more was moved than was allowed.
    pub fn look_at_move(self, fluid: &Fluid, done: &PageMove) -> Result<(), Broken> {
        let adds_up = done.moved + done.no_memory + done.busy == done.requested;
        if adds_up && done.requested <= done.limit {
            return Ok(());
        }
        let what = format!(
            "a move of {} bytes with a limit of {}: {} moved, {} refused",
            done.requested,
            done.limit,
            done.moved,
            done.no_memory + done.busy
        );
        Err(Broken { at: Nanos(fluid.now()), what })
    }
}
