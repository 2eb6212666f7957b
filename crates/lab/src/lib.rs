//! Experiments with policies on hosts, and the statistics of their results.
//!
//! ```text
//!   shipped: machines, profiles, workloads of the papers ─┐
//!   policies × workloads × seeds ─► compare: runs, kept as they finish ─► stats ─► report::comparison
//! ```

pub mod compare;
pub mod oracle;
pub mod reproduce;
pub mod servers;
pub mod shipped;
pub mod stats;
