//! Decisions of DFS, text in, text out: [`crate::testing`] says how a world is written.

mod always;
mod extensions;
mod ground;
mod moves;
mod parameters;
mod starts;

use expect_test::Expect;

use crate::testing::{plans, stories};

/// What is planned, with the codes of reasons.
fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

/// What is planned, with the reasons as people read them.
fn check_story(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&stories(machine, policy, script));
}
