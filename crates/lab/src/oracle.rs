//! Policies by name, the oracle among them.
//!
//! The oracle knows what the simulated machine will do. So it is none of the policies that any host can
//! have, and is built here, for simulated runs alone.

use std::sync::Arc;

use host_sim::hardware::Hardware;
use host_sim::oracle::Oracle;
use host_sim::script::Script;
use policy::PolicyError;
use sched::Policy;

/// Its name in `--policy`.
pub const NAME: &str = "oracle";

/// Whether a text names the oracle.
pub fn is_named(spec: &str) -> bool {
    spec.trim() == NAME
}

/// The policy that a text names, for a simulated run of these scripts.
///
/// # Errors
/// It names none.
pub fn build(
    spec: &str,
    seed: u64,
    hardware: &Arc<Hardware>,
    scripts: &[Arc<Script>],
    contention: bool,
) -> Result<Box<dyn Policy>, PolicyError> {
    match is_named(spec) {
        true => Ok(Box::new(Oracle::new(hardware.clone(), scripts, contention))),
        false => policy::build(spec, seed),
    }
}

/// Whether a text names a policy that a simulated run can have.
///
/// # Errors
/// It names none.
pub fn check(spec: &str) -> Result<(), PolicyError> {
    match is_named(spec) {
        true => Ok(()),
        false => policy::build(spec, 0).map(|_| ()),
    }
}
