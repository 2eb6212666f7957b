//! Decisions of divided scheduling, text in, text out: [`crate::testing`] says how a world is written.

use std::fmt::Write;

use expect_test::Expect;

use crate::testing::{plans, stories};

mod groups;
mod sockets;

fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

fn check_story(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&stories(machine, policy, script));
}

/// Jobs that start together, with the cycles of full queues and the references that each has in a second
/// of CPU time, and so many periods.
fn periods(jobs: &[(&str, u64, u64)], n: u64) -> String {
    let mut script = String::new();
    for (name, ..) in jobs {
        writeln!(script, "job {name}").expect("text");
    }
    let names: Vec<&str> = jobs.iter().map(|(name, ..)| *name).collect();
    writeln!(script, "0ms due {}", names.join(" ")).expect("text");
    write!(script, "10s ").expect("text");
    for (name, sq, refs) in jobs {
        let (sq, refs) = (10 * sq, 10 * refs);
        write!(script, "counts {name} in=10s queue-full={sq} llc-references={refs}; ")
            .expect("text");
    }
    writeln!(script, "poll 0 0").expect("text");
    for period in 2..=n {
        writeln!(script, "{period}0s poll 0 0").expect("text");
    }
    script
}

/// Two that hurt, two that are hurt and two others.
const SIX: &[(&str, u64, u64)] = &[
    ("lbm", 900, 800),
    ("sphinx", 10, 500),
    ("gromacs", 5, 20),
    ("libquantum", 700, 900),
    ("omnetpp", 8, 600),
    ("canneal", 6, 100),
];
