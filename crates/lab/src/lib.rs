//! Experiments: what needs policies, hosts and figures of programs together.

pub mod shipped;
