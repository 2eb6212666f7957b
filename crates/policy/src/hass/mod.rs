//! HASS: places the jobs with the largest speedup on the fast cores.
//!
//! ```text
//!   hass-s   speedup from the signature of a program    placed at its start      (static)
//!   hass-d   speedup from the counters of a job         sorted at each change    (dynamic)
//! ```

mod dynamic_rules;
mod static_rules;

pub(crate) use dynamic_rules::INFO as HASS_D;
pub(crate) use static_rules::INFO as HASS_S;
