//! End-to-end tests of the built executable, and of several crates together. Each subject has a module.

mod bad_input;
mod comparisons;
mod decisions;
mod extending;
mod faults;
mod foreign_output;
mod guests;
mod help;
mod journal_sentences;
mod journals;
mod live;
mod machines;
mod one_line;
mod predict;
mod profiles;
mod record;
mod reports;
mod reproduce;
mod restoring;
mod seeds;
mod simulated;
mod streams;
mod toy_host;
mod undo;
mod watching;
mod workloads;
