//! The simulated machine.
//!
//! ```text
//!   character of a program ─┐
//!   caches, channels        ├─► physics: who holds how much cache, how long a miss takes,
//!   who runs where          ┘            how fast everybody is ─► predict
//! ```

pub mod calibrate;
pub mod copies;
pub mod physics;
pub mod predict;
pub mod sheet;
