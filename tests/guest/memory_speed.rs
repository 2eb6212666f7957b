//! `evenkeel machine --measure` on several nodes. The guest is emulated, so that only the pairs are checked and not the
//! values.

use serde_json::Value;
use tests::tool;

use super::{Promise, cpuset};

pub const ALL: &[Promise] = &[(
    "each_pair_of_the_permitted_nodes_is_measured",
    each_pair_of_the_permitted_nodes_is_measured,
)];

/// Number of attempts. In an emulated guest all nodes have equal memory, and the memory of another node can be faster
/// than local memory by chance, which no machine file accepts. Two nodes have two pairs that can contradict, four nodes
/// twelve.
const N_ATTEMPTS: u32 = 5;

fn each_pair_of_the_permitted_nodes_is_measured() {
    let cgroup = cpuset("evenkeel-measure", "2-5", "1-2");
    cgroup.add(std::process::id());
    let json = || {
        let output = tool::run(&["machine", "--measure", "--for", "500ms", "--json"]);
        let stderr = tool::text(&output.stderr);
        let is_noise = stderr.contains("the measured values contradict each other");
        assert!(output.status.success() || is_noise, "{stderr}");
        for node in [0, 3] {
            let excluded = format!("node{node} is not measured: this process may use neither");
            assert!(stderr.contains(&excluded), "{stderr}");
        }
        output.status.success().then(|| serde_json::from_slice::<Value>(&output.stdout))
    };
    let measured = (0..N_ATTEMPTS).find_map(|_| json());
    cgroup.remove(std::process::id());
    let Some(json) = measured else {
        println!("not run: {N_ATTEMPTS} measurements of the emulated memory contradict each other");
        return;
    };
    let json = json.expect("JSON");
    let accesses = json["accesses"].as_array().expect("a list");
    let is_measured = |access: &&Value| access["latency"]["source"] == "measured";
    let pairs: Vec<(u64, u64)> = accesses
        .iter()
        .filter(is_measured)
        .map(|access| {
            assert!(0 < access["bandwidth"]["bytes_per_s"].as_u64().expect("a value"), "{access}");
            (
                access["from_node"].as_u64().expect("a node"),
                access["to_node"].as_u64().expect("a node"),
            )
        })
        .collect();
    assert_eq!(pairs, [(1, 1), (1, 2), (2, 1), (2, 2)], "{accesses:?}");
}
