//! Memory policies of jobs, set before their programs start.

use base::{NodeId, NodeSet};
use program::MemoryPolicy;
use sched::Action;

use crate::Promise;
use crate::live_run::LiveRun;
use crate::nodes;

pub const ALL: &[Promise] = &[
    ("policies::bound_memory_is_allocated_on_its_node_independent_of_the_placement", bound),
    ("policies::preferred_memory_is_allocated_on_the_preferred_node", preferred),
    ("policies::interleaved_memory_is_distributed_evenly", interleaved),
    ("policies::the_host_sets_a_requested_memory_policy", requested),
];

const HOG: &str = "hog --size 24M --for 120s --no-self-check";
const HOG_KIB: u64 = 24 * 1024;

/// Memory by node of a hog on the CPUs of node 0, with further keys in its section of the file.
fn memory_of(lines: &str, requested: Option<MemoryPolicy>) -> std::collections::BTreeMap<u32, u64> {
    let text = format!("[[job]]\nname = \"hog\"\nload = \"{HOG}\"\n{lines}\n");
    let mut run =
        LiveRun::with(&text, |options| options.tool = Some(crate::tool::path().to_owned()));
    run.request("hog", Action::Place(nodes::cpus(0)));
    requested.into_iter().for_each(|policy| run.request("hog", Action::MemoryPolicy(policy)));
    let pid = run.wait_until_started("hog");
    let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
    run.stop();
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

fn requested() {
    let node2: NodeSet = [NodeId(2)].into_iter().collect();
    let memory = memory_of("", Some(MemoryPolicy::Bind(node2)));
    assert!(980 <= nodes::permille_on(&memory, 2), "{memory:?}");
}
