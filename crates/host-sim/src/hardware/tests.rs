//! Tests of the hardware of simulated machines.

use super::*;

#[test]
fn the_next_of_several_equally_distant_nodes_is_the_first_fallback() {
    let ring = |from: u32| {
        let hops = |to: u32| from.abs_diff(to).min(4 - from.abs_diff(to));
        let to: Vec<String> = (0..4).map(|to| format!("{to} = {}", 10 + 10 * hops(to))).collect();
        let distances = to.join(", ");
        format!("{{ id = {from}, cpus = \"{from}\", distances = {{ {distances} }} }}")
    };
    let nodes: Vec<String> = (0..4).map(ring).collect();
    let list = |of: &str| -> Vec<String> {
        (0..4).map(|id| format!("{{ id = {id}{} }}", of.replace('N', &id.to_string()))).collect()
    };
    let text = format!(
        "format_version = 2\nnodes = [{}]\ncores = [{}]\ncpus = [{}]\n",
        nodes.join(", "),
        list(", cpus = \"N\"").join(", "),
        list("").join(", ")
    );
    let machine = topology::file::parse_toml(&text, "ring").expect("a machine");
    let hardware = Hardware::new(&machine);
    let nearest = |node: usize| hardware.nodes[node].fallback_order.clone();
    assert_eq!(nearest(0), [1, 3, 2]);
    assert_eq!(nearest(1), [2, 0, 3]);
    assert_eq!(nearest(2), [3, 1, 0]);
    // Both neighbours of node 3 have lower numbers, and node 2 is already the first choice of node 1.
    assert_eq!(nearest(3), [0, 2, 1]);
}

/// Returns the tables of a machine with two CPUs per core and these keys of its core kind.
fn with_kind(keys: &str, smt: usize) -> Hardware {
    let cpus = |core: usize| format!("{}-{}", core * smt, core * smt + smt - 1);
    let list: Vec<String> = (0..2 * smt).map(|id| format!("{{ id = {id} }}")).collect();
    let text = format!(
        "format_version = 2\ncores = [{{ id = 0, cpus = \"{}\" }}, {{ id = 1, cpus = \"{}\", kind = \"small\", capacity = 512 }}]\ncpus = [{}]\ncore_kinds = [{keys}]\n",
        cpus(0),
        cpus(1),
        list.join(", ")
    );
    Hardware::new(&topology::file::parse_toml(&text, "x").expect("a machine"))
}

#[test]
fn cpus_that_the_process_may_not_use_do_not_exist() {
    let mut parts =
        Machine::synthetic("nodes=2 llcs=2 cores=2 smt=2").expect("a machine").parts().clone();
    parts.cpus.iter_mut().skip(7).for_each(|cpu| cpu.allowed = false);
    let hardware = |parts| Hardware::new(&Machine::new(parts).expect("a machine"));
    let usable = hardware(parts.clone());
    assert_eq!(usable.cpus.iter().map(|cpu| cpu.id.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(usable.cores, [vec![0, 1], vec![2, 3], vec![4, 5], vec![6]]);
    assert_eq!((usable.caches.len(), usable.nodes[1].cpus.len()), (2, 0));
    parts.cpus.iter_mut().for_each(|cpu| cpu.allowed = false);
    assert_eq!(hardware(parts).cpus.len(), 16);
}

#[test]
fn smt_throughput_by_number_of_busy_siblings_is_bounded() {
    let shares = |keys: &str, smt: usize| with_kind(keys, smt).smt_shares[0].clone();
    let list = "{ smt_throughput = { permille = [1300, 1500], source = \"assumed\" } }";
    assert_eq!(shares(list, 2), [1.0, 0.65]);
    assert_eq!(shares(list, 4), [1.0, 0.65, 0.5, 0.375]);
    for smt in [1, 2, 4, 8] {
        let shares = shares("", smt);
        let throughput: Vec<f64> =
            (1..).zip(&shares).map(|(n, share)| f64::from(n) * share).collect();
        assert!(throughput.iter().all(|value| *value <= 2.0), "{throughput:?}");
        assert!(throughput.is_sorted() && shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
    }
    let former = "{ smt = { permille = 620, source = \"assumed\" } }";
    assert_eq!(shares(former, 2), [1.0, 0.62]);
}

#[test]
fn capacity_decides_the_throughput_and_frequency_the_length_of_a_cycle() {
    let speed = |keys: &str| with_kind(keys, 1).cpus[1].speed;
    assert_eq!((speed("").ghz, speed("").relative_cycles), (GHZ / 2.0, 1.0));
    let fast = "{ frequency = { mhz = 4000, source = \"assumed\" } }";
    let small = |more: &str| {
        speed(&format!(
            "{fast}, {{ kind = \"small\", frequency = {{ mhz = 3000, source = \"assumed\" }}{more} }}"
        ))
    };
    assert_eq!((small("").ghz, small("").relative_cycles), (3.0, 1.5));
    let given = small(
        ", core_cycles = { permille = 1500, source = \"assumed\" }, max_outstanding_misses = { count = 2, source = \"assumed\" }, prefetcher = false",
    );
    assert_eq!(
        (given.relative_cycles, given.outstanding_max, given.has_prefetcher),
        (1.5, 2.0, false)
    );
}

#[test]
fn dram_reaches_a_share_of_its_peak_and_a_link_all_of_its_bandwidth() {
    let machine = |local: &str, remote: &str| {
        let access = |from: u32, to: u32| {
            let keys = if from == to { local } else { remote };
            format!(
                "{{ from_node = {from}, to_node = {to}, bandwidth = {{ bytes_per_s = 10000000000, source = {keys} }}"
            )
        };
        let text = format!(
            "format_version = 2\nnodes = [{{ id = 0, cpus = \"0\" }}, {{ id = 1, cpus = \"1\" }}]\ncpus = [{{ id = 0 }}, {{ id = 1 }}]\naccesses = [{}, {}, {}, {}]\nlinks = [{{ id = 7, bandwidth = {{ bytes_per_s = 4000000000, source = \"assumed\" }} }}]\n",
            access(0, 0),
            access(0, 1),
            access(1, 0),
            access(1, 1)
        );
        Hardware::new(&topology::file::parse_toml(&text, "x").expect("a machine"))
    };
    let shared = machine(
        "\"assumed\", }, achievable = { permille = 600, source = \"assumed\" }",
        "\"assumed\" }, link = 7",
    );
    assert_eq!(shared.memory(0).capacity, 6.0);
    let capacities = |from, to| {
        let links = shared.path_between(from, to).links;
        links.map(|link| link.map(|link| shared.channels[link].capacity))
    };
    assert_eq!(capacities(0, 1), [Some(10.0), Some(4.0)]);
    assert_eq!(shared.path_between(0, 1).links[1], shared.path_between(1, 0).links[1]);
    let measured = machine("\"measured\" }", "\"assumed\" }, link = 7");
    assert_eq!(measured.memory(0).capacity, 10.0, "a program has reached a measured bandwidth");
}
