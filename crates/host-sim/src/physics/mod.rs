//! Speeds of programs that share caches and memory, computed from each program alone.
//!
//! ```text
//!   values of one program ── character.rs ─► misses at any cache size
//!   all programs of a cache ── share.rs ─► cache occupancy of each
//!   all programs of a channel ── channel.rs ─► miss latency, and with it the speed of each
//!   one program at several cache sizes ── solo.rs ─► its share of stall cycles
//!   a profile ── profile.rs ─► the same, as far as the profile has it
//!   latency and peak bandwidth of a memory ── fitted.rs ─► its channel
//! ```
//!
//! Cycles per instruction = core cycles + exposed misses × loaded latency ÷ memory-level parallelism. All results
//! are rates that are valid until a program starts, ends or changes its phase.

mod channel;
mod character;
mod fitted;
mod network;
mod profile;
mod share;
mod solo;

pub use channel::{Channel, Demand, Loaded};
pub use character::{Character, CharacterError, Row};
pub use fitted::Fitted;
pub use network::{Place, User, Visit, settle_one};
pub use profile::{ProfileError, of_phase, of_profile};
pub(crate) use share::LINE;
pub use share::{FillTable, shares, shares_into};
pub use solo::{Behaviour, Counts, Habits};
