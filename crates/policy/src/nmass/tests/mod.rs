//! Decisions of N-MASS and maximum-local, text in, text out: [`crate::testing`] says how a world is
//! written.

use expect_test::Expect;

use crate::testing::{plans, stories};

mod ground;
mod homes;
mod pressure;

fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

fn check_story(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&stories(machine, policy, script));
}
