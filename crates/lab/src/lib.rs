//! Experiments with policies on hosts, and the statistics of their results.
//!
//! ```text
//!   shipped: machines, profiles, workloads of the papers ─┐
//!   policies × workloads × seeds ─► compare: runs, kept as they finish ─► stats ─► report::comparison
//!   parameters of a policy ─► tune: search on training runs ─► held-out runs, stats ─► report::tuning
//! ```

pub mod assignment;
pub mod compare;
pub mod oracle;
pub mod reproduce;
pub mod servers;
pub mod shipped;
pub mod stats;
pub mod tune;
