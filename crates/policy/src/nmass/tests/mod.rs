//! Decisions of N-MASS and maximum-local.

mod ground;
mod homes;
mod pressure;
