//! End-to-end tests: the built executable, and several crates together. A module for each subject.

mod bad_input;
mod comparisons;
mod decisions;
mod extending;
mod faults;
mod help;
mod journal_sentences;
mod journals;
mod live;
mod machines;
mod predict;
mod profiles;
mod record;
mod reports;
mod reproduce;
mod seeds;
mod simulated;
mod streams;
mod toy_host;
mod undo;
mod watching;
mod workloads;
