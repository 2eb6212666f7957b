//! `--core-kinds`: replaces the detected core kinds of this machine.

use anyhow::Context;
use topology::{DeclaredCoreKinds, Machine};

/// The option, for all commands that read this machine.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CoreKindsArg {
    /// Replace the detected core kinds: performance=0-7:1024,efficiency=8-15:600. The number after the CPUs is the
    /// capacity; 1024 is the fastest kind
    #[arg(long, value_name = "KINDS")]
    core_kinds: Option<DeclaredCoreKinds>,
}

impl CoreKindsArg {
    pub(crate) fn is_given(&self) -> bool {
        self.core_kinds.is_some()
    }

    /// Returns the machine with the declared kinds, or unchanged without the option.
    pub(crate) fn apply(&self, machine: Machine) -> anyhow::Result<Machine> {
        match &self.core_kinds {
            Some(kinds) => kinds.apply(&machine).context("--core-kinds"),
            None => Ok(machine),
        }
    }
}
