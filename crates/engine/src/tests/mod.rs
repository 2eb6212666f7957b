//! Small runs, text in, text out: [`crate::testing`] says how they are written.

mod derive;
mod guard;
mod life;
mod looping;
mod moves;
mod tiers;

use expect_test::Expect;

use crate::testing::play;

fn check(machine: &str, script: &str, expected: Expect) {
    expected.assert_eq(&play(machine, script));
}
