//! Measures a program alone and estimates its misses in a cache of any size.
//!
//! ```text
//!   measure/   runs the program: alone, with counters, or under valgrind
//!      │ lackey trace ──► references ──► lines ──► sampled stack ──► windows ──► phases ──► Profile
//!      │ lackey_trace.rs                 window_meter.rs sampler.rs  windows.rs            curve.rs
//!      │                                     │           └ stack.rs
//!      │                                     └► access_pattern.rs: addresses and reuse, for charts
//!      └ counter samples ──► phases ──► Profile                                counter_phases.rs
//! ```
//!
//! In an LRU cache, a reference misses if and only if its reuse distance is at least the number of lines of the cache.
//! The reuse distance is the number of distinct other lines used since the last use of the line. One pass over all reuse
//! distances therefore yields the misses of every cache size (R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger,
//! *Evaluation techniques for storage hierarchies*, IBM Systems Journal 9(2), 1970). Sampling lines at random makes the
//! pass cheap (`sampler.rs`).
//!
//! The model is one fully associative LRU cache of 64-byte lines for instructions and data of all threads.
//! The misses at the size of the private caches are the accesses of the last-level cache.
//!
//! Out of scope: prefetchers, limited associativity, other replacement policies than LRU, and kernel addresses.
//!
//! The analysis is pure: `clippy.toml` forbids clocks and files. Only `measure` runs programs.

mod access_pattern;
mod cache_sizes;
pub mod counter_phases;
mod curve;
mod lackey_trace;
pub mod measure;
mod sampler;
mod stack;
mod window_meter;
mod windows;

pub use access_pattern::{AccessPattern, DataReference};
pub use cache_sizes::{N_SIZES, size_bytes};
pub use curve::{CurveEstimate, curve, phase_from_windows, working_set};
pub use lackey_trace::{LackeyParser, Reference, ReferenceKind};
pub use sampler::{LineSampler, Sampling};
pub use stack::LruStack;
pub use window_meter::WindowMeter;
pub use windows::{Window, WindowPlan, split_phases};
