//! Memory policies of jobs, set before their programs start.

use base::{NodeId, NodeSet};
use program::MemoryPolicy;
use sched::Action;
use tests::live_run::LiveRun;

use crate::Promise;
use crate::nodes::{self, hog};

pub const ALL: &[Promise] = &[
    ("policies::bound_memory_is_allocated_on_its_node_independent_of_the_placement", bound),
    ("policies::preferred_memory_is_allocated_on_the_preferred_node", preferred),
    ("policies::interleaved_memory_is_distributed_evenly", interleaved),
    ("policies::the_host_sets_a_requested_memory_policy", requested),
];

const HOG_KIB: u64 = 24 * 1024;

/// Runs a hog on the CPUs of node 0, with further keys in its section of the file. Returns its memory by node.
fn memory_of(lines: &str, requested: Option<MemoryPolicy>) -> std::collections::BTreeMap<u32, u64> {
    let mut run = LiveRun::with_tool(&hog("hog", "24M", lines));
    run.request("hog", Action::Place(nodes::cpus(0)));
    requested.into_iter().for_each(|policy| run.request("hog", Action::MemoryPolicy(policy)));
    let pid = run.wait_until_started("hog");
    let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
    run.stop();
    memory
}

fn bound() {
    let memory = memory_of("memory = \"bind:3\"", None);
    nodes::check_share(&memory, 3, 980);
}

fn preferred() {
    let memory = memory_of("memory = \"preferred:1\"", None);
    nodes::check_share(&memory, 1, 980);
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
    nodes::check_share(&memory, 2, 980);
}
