//! Runs of the engine: the cases in `cases/`, and the loop over a host, an engine and sinks.

use crate::testing::play;

mod run;

testkit::case_files! {
    play: derive guard jobs page_migrations tiers;
}
