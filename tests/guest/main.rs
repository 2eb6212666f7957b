//! Promises that only a machine with several nodes can keep, tried on a real kernel.
//!
//! `make test-vm` boots a guest with four nodes and runs all of this in it, one test after another:
//! one boot serves them all. The guest is emulated, so its times mean nothing and no test asks for
//! them; where threads run and where pages lie is as real as anywhere.
//!
//! Elsewhere (`cargo test` on a machine with one node) every test is listed as ignored and a line
//! says why: what was not tried has not passed.

mod balancing;
mod contention;
mod cpusets;
mod groups;
mod homes;
mod hotplug;
mod nodes;
mod pages;
mod placement;
#[allow(dead_code, reason = "the other test program uses the rest of it")]
#[path = "../promises/live/play.rs"]
mod play;
mod policies;
mod stage;
#[allow(dead_code, reason = "the other test program uses the rest of it")]
#[path = "../promises/tool.rs"]
mod tool;
#[allow(dead_code, reason = "the other test program uses the rest of it")]
#[path = "../promises/watching/turns.rs"]
mod turns;
mod undo;
mod watched;
mod watching;

use libtest_mimic::{Arguments, Failed, Trial};

/// Nodes with memory and CPUs that the tests are written for.
const NODES_NEEDED: usize = 4;

/// A test by its name.
type Promise = (&'static str, fn());

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, node] = &words[..]
        && word == groups::BINDS_ITSELF
    {
        return groups::bind_yourself(node);
    }
    let mut arguments = Arguments::from_args();
    // They share one machine, whose CPUs and nodes they take away and give back.
    arguments.test_threads = Some(1);
    let all: [&[Promise]; 6] =
        [placement::ALL, policies::ALL, cpusets::ALL, groups::ALL, hotplug::ALL, balancing::ALL];
    let promises = all.into_iter().chain([pages::ALL, undo::ALL, watching::ALL, watched::ALL]);
    let promises = promises.chain([contention::ALL, homes::ALL]).flatten();
    let reason = why_not();
    if let Some(reason) = &reason {
        println!("not run: {reason}; make test-vm runs these in a guest");
    }
    let trial = |&(name, promise): &Promise| {
        Trial::test(name, move || {
            promise();
            Ok::<(), Failed>(())
        })
        .with_ignored_flag(reason.is_some())
    };
    libtest_mimic::run(&arguments, promises.map(trial).collect()).exit();
}

/// Why these tests cannot run here.
fn why_not() -> Option<String> {
    let n_nodes = nodes::all().len();
    let is_root = rustix::process::getuid().is_root();
    match (n_nodes < NODES_NEEDED, is_root, std::env::var_os("NUMA_VM").is_some()) {
        (true, ..) => Some(format!("this machine has {n_nodes} node(s) of {NODES_NEEDED}")),
        (_, false, _) => Some("taking CPUs offline and making cgroups needs root".to_owned()),
        // They take CPUs and memory away from everybody.
        (_, _, false) => Some("this is not a throw-away guest".to_owned()),
        _ => None,
    }
}
