//! Decisions of DFS.

mod always;
mod extensions;
mod ground;
mod moves;
mod parameters;
mod starts;
