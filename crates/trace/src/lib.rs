//! What a trace of memory references tells of a program: how often it would miss in a cache of any size.
//!
//! ```text
//!   lackey's text ──► references ──► lines ──► sampled stack ──► windows ──► phases ──► Profile
//!   lackey.rs                        meter.rs   sampler.rs       windows.rs  phases.rs   figures.rs
//!                                       │        └ stack.rs, table.rs
//!                                       └► view.rs: addresses and reuse, as a picture
//!
//!   readings of the processor's counters ──► phases ──► Profile          counted.rs
//! ```
//!
//! The idea: in a cache that forgets what was used least recently, a reference misses exactly if more
//! other lines were used since its last use than the cache holds. So one pass that measures that number,
//! the reuse distance, knows the misses of every cache size at once (Mattson, Gecsei, Slutz, Traiger,
//! IBM Systems Journal 9(2), 1970). Looking at a random part of the lines only makes it cheap
//! (`sampler.rs`).
//!
//! What is modelled is one fully associative cache of 64-byte lines for instructions and data of all
//! threads. By the same stack, misses of a core's private caches are what the last level is asked for:
//! the curve at the private size is its accesses, the curve at its own size its misses.
//!
//! Left out: prefetchers, limited associativity, other replacement than LRU, and the addresses of the
//! kernel.

pub mod counted;
mod figures;
mod lackey;
mod meter;
mod phases;
mod sampler;
mod sizes;
mod stack;
mod table;
mod view;
mod windows;

pub use figures::{CurveFound, curve, phase_figures, working_set};
pub use lackey::{Kind, Parser, Reference};
pub use meter::Meter;
pub use phases::split;
pub use sampler::{Sampler, Sampling};
pub use sizes::{LINE_BYTES, N_SIZES, size_bytes};
pub use stack::LruStack;
pub use view::{Dot, View};
pub use windows::{Plan, Window};
