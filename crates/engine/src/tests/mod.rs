//! Runs of the engine.

mod derive;
mod guard;
mod jobs;
mod moves;
mod run;
mod tiers;
