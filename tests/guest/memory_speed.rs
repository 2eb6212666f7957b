//! `evenkeel machine --measure` on several nodes. The guest is emulated, so that only the pairs are checked and not the
//! values.

use serde_json::Value;
use tests::tool;

use super::Promise;

pub const ALL: &[Promise] = &[("each_pair_of_nodes_is_measured", each_pair_of_nodes_is_measured)];

/// Number of attempts, about a minute each. In an emulated guest all nodes have equal memory, and the memory of another
/// node can be faster than local memory by chance, which no machine file accepts.
const N_ATTEMPTS: u32 = 5;

fn each_pair_of_nodes_is_measured() {
    let json = || {
        let output = tool::run(&["machine", "--measure", "--for", "500ms", "--json"]);
        let stderr = tool::text(&output.stderr);
        let is_noise = stderr.contains("the measured values contradict each other");
        assert!(output.status.success() || is_noise, "{stderr}");
        output.status.success().then(|| serde_json::from_slice::<Value>(&output.stdout))
    };
    let Some(json) = (0..N_ATTEMPTS).find_map(|_| json()) else {
        println!("not run: {N_ATTEMPTS} measurements of the emulated memory contradict each other");
        return;
    };
    let json = json.expect("JSON");
    let nodes = json["nodes"].as_array().expect("a list").len();
    let accesses = json["accesses"].as_array().expect("a list");
    let pairs: std::collections::BTreeSet<(u64, u64)> = accesses
        .iter()
        .map(|access| {
            (
                access["from_node"].as_u64().expect("a node"),
                access["to_node"].as_u64().expect("a node"),
            )
        })
        .collect();
    assert_eq!(pairs.len(), nodes * nodes, "{accesses:?}");
    for access in accesses {
        assert_eq!(access["latency"]["source"], "measured", "{access}");
        assert!(0 < access["bandwidth"]["bytes_per_s"].as_u64().expect("a value"), "{access}");
    }
}
