//! Tests of the engine: the cases in `cases/`, and runs with a host, an engine and sinks.

use crate::testing::play;

mod run;

testkit::case_files! {
    play: derive guard jobs page_migrations tiers;
}
