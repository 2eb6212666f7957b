//! One module per promise; each tries the built program, or whole rooms together.

mod bad_input;
mod comparisons;
mod contention;
mod decisions;
mod extending;
mod faults;
mod helps;
mod journal_sentences;
mod journals;
mod live;
mod machines;
mod predict;
mod profiles;
mod recording;
mod reports;
mod reproduce;
mod scripted;
mod seeds;
mod senses;
mod simulated;
mod tool;
mod undo;
mod watching;
mod workloads;
