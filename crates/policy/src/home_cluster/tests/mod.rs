//! Decisions of the home-cluster policy, text in, text out: [`crate::testing`] says how a world is
//! written.

use expect_test::Expect;

use crate::testing::{plans, stories};

mod pages;
mod processors;

fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

fn check_story(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&stories(machine, policy, script));
}
