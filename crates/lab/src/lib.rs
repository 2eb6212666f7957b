//! What needs policies and hosts together: experiments, and what may be said of them.
//!
//! ```text
//!   shipped: machines, profiles, workloads of the papers ─┐
//!   policies × workloads × seeds ─► compare: runs, kept as they finish ─► stats ─► report::comparison
//! ```

pub mod compare;
pub mod oracle;
pub mod reproduce;
pub mod shipped;
pub mod stats;
