//! Memory policies of jobs, set before their program begins.

use base::{NodeId, NodeSet};
use program::MemoryPolicy;
use sched::Action;

use crate::Promise;
use crate::nodes;
use crate::play::Play;

pub const ALL: &[Promise] = &[
    ("policies::memory_bound_to_a_node_comes_from_there_wherever_the_job_runs", bound),
    ("policies::memory_preferred_elsewhere_comes_from_there", preferred),
    ("policies::interleaved_memory_lies_evenly_on_its_nodes", interleaved),
    ("policies::a_policy_wishes_for_memory_and_the_host_sets_it", wished),
];

const HOG: &str = "hog --size 24M --for 120s --no-self-check";
const HOG_KIB: u64 = 24 * 1024;

/// Memory by node of a hog with these further lines in its part of the file, on the CPUs of node 0.
fn memory_of(lines: &str, wish: Option<MemoryPolicy>) -> std::collections::BTreeMap<u32, u64> {
    let text = format!("[[job]]\nname = \"hog\"\nload = \"{HOG}\"\n{lines}\n");
    let mut play = Play::with(&text, |options| options.tool = Some(crate::tool::path().to_owned()));
    play.wish("hog", Action::Place(nodes::cpus(0)));
    wish.into_iter().for_each(|policy| play.wish("hog", Action::MemoryPolicy(policy)));
    let pid = play.begin("hog");
    let memory = nodes::anonymous_from(pid, HOG_KIB);
    play.host_stop();
    play.finish();
    memory
}

fn bound() {
    let memory = memory_of("memory = \"bind:3\"", None);
    assert!(980 <= nodes::permille_on(&memory, 3), "{memory:?}");
}

fn preferred() {
    let memory = memory_of("memory = \"preferred:1\"", None);
    assert!(980 <= nodes::permille_on(&memory, 1), "{memory:?}");
}

fn interleaved() {
    let memory = memory_of("memory = \"interleave:1-2\"", None);
    for node in [1, 2] {
        let share = nodes::permille_on(&memory, node);
        assert!((450..=550).contains(&share), "node {node}: {memory:?}");
    }
}

fn wished() {
    let node2: NodeSet = [NodeId(2)].into_iter().collect();
    let memory = memory_of("", Some(MemoryPolicy::Bind(node2)));
    assert!(980 <= nodes::permille_on(&memory, 2), "{memory:?}");
}
