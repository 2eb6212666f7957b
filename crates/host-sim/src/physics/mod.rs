//! How fast programs are that share caches and memory, from what each is alone.
//!
//! ```text
//!   own figures ── character.rs ─► misses at any cache size
//!   all of a cache ── share.rs ─► who holds how much
//!   all of a channel ── channel.rs ─► how long a miss takes, and so how fast everybody is
//!   figures of one program at several sizes ── solo.rs ─► what of its cycles is waiting
//!   a profile ── profile.rs ─► the same, as far as it is told
//!   two figures of a machine's memory ── fitted.rs ─► its channel
//! ```
//!
//! Cycles per instruction = the core's own + exposed misses × loaded latency ÷ overlap. Everything is
//! a rate that holds as long as nobody comes, goes or changes.

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
