//! `--core-kinds`: replaces the detected core kinds of this machine.

use anyhow::Context;
use topology::{DeclaredCoreKinds, Machine};

/// The option, for all commands that read this machine.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CoreKindsArg {
    /// Replace the detected core kinds, except in simulated runs:
    /// performance=0-7:1024,efficiency=8-15:600. The number after the CPUs is the capacity; 1024 is the fastest kind
    #[arg(long, value_name = "KINDS")]
    core_kinds: Option<DeclaredCoreKinds>,
    /// The place of the kinds in a configuration file, for errors.
    #[arg(skip)]
    place: Option<String>,
}

impl CoreKindsArg {
    pub(crate) fn is_given(&self) -> bool {
        self.core_kinds.is_some()
    }

    /// Sets the place of the kinds in a configuration file.
    pub(crate) fn set_place(&mut self, place: Option<String>) {
        self.place = place;
    }

    /// Returns the option as text.
    pub(crate) fn text(&self) -> Option<&str> {
        self.core_kinds.as_ref().map(DeclaredCoreKinds::text)
    }

    /// Returns the machine with the declared kinds, or unchanged without the option.
    pub(crate) fn apply(&self, machine: Machine) -> anyhow::Result<Machine> {
        match &self.core_kinds {
            Some(kinds) => {
                let place = || self.place.as_deref().unwrap_or("--core-kinds").to_owned();
                kinds.apply(&machine).with_context(place)
            }
            None => Ok(machine),
        }
    }
}
