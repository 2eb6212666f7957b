//! Runs of the engine.

mod derive;
mod guard;
mod life;
mod looping;
mod moves;
mod tiers;
