//! Machine files: the example of the module, the errors after one change to it, and writing.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::{AttributeSource, CacheAttributes, Machine, MemoryAccess, SourcedValue};

const SMALL: &str = r#"
format_version = 1
name = "two small nodes"
nodes = [
  { id = 0, cpus = "0-1", memory_bytes = 8589934592, distances = { 0 = 10, 1 = 21 } },
  { id = 1, cpus = "2-3", memory_bytes = 8589934592, distances = { 0 = 21, 1 = 10 } },
]
llcs = [{ id = 0, cpus = "0-1", node = 0, size_bytes = 8388608, level = 3, latency = { ns = 40, source = "assumed" } }]
cores = [{ id = 0, cpus = "0-1" }, { id = 1, cpus = "2-3" }]
cpus = [{ id = 0 }, { id = 1 }, { id = 2 }, { id = 3 }, { id = 4, online = false }]
accesses = [{ from_node = 0, to_node = 1, latency = { ns = 138, source = "measured" } }]
"#;

/// The errors after one change to [`SMALL`] each, `OLD => NEW`.
fn check_all(expected: Expect) {
    let error = |change: &str| {
        let (from, to) = change.split_once(" =>").expect("a change");
        assert!(SMALL.contains(from), "{from} is not in the example");
        let text = SMALL.replacen(from, to.strip_prefix(' ').unwrap_or(to), 1);
        let message = with_causes(&parse_toml(&text, "box.toml").expect_err("the text is invalid"));
        assert!(!message.contains('\n'), "{message:?} is more than a line");
        message
    };
    expected.assert_eq(&base::transcript(expected.data(), error));
}

/// An error as a command prints it.
fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

#[test]
fn the_example_is_a_machine_with_performance_attributes() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    assert_eq!(machine.online().to_string(), "0-3");
    assert_eq!(machine.nodes_allowed().to_string(), "0-1");
    let measured = SourcedValue { value: 138, source: AttributeSource::Measured };
    assert_eq!(machine.perf_attributes().accesses[0].latency_ns, Some(measured));
    let assumed = SourcedValue { value: 40, source: AttributeSource::Assumed };
    assert_eq!(machine.perf_attributes().llcs[&base::LlcId(0)].latency_ns, Some(assumed));
}

#[test]
fn syntax_errors_unknown_keys_and_wrong_types_have_their_position() {
    check_all(expect![[r#"
        > cpus = "0-1", mem => cpus = 0, mem
        box.toml:5:20: cpus: must be a string, not an integer
        > memory_bytes => memory_byte
        box.toml:5:27: unknown key "memory_byte"; did you mean "memory_bytes"?
        > llcs = => lcs =
        box.toml:8:1: unknown key "lcs"; did you mean "llcs"?
        > { id = 1 } => { id = 1
        box.toml:10:31: invalid TOML: missing key for inline table element, expected key
        > id = 2 } => id = -2 }
        box.toml:10:40: id: -2 is out of range; write an integer from 0 to 4294967295
        > cpus = [{ id = 0 } => cpu = [{ id = 0 }
        box.toml:10:1: unknown key "cpu"; did you mean "cpus"?
        > source = "measured" => source = "hearsay"
        box.toml:11:74: source: "hearsay" is not a known value; write one of measured, firmware, assumed
    "#]]);
}

#[test]
fn a_machine_that_contradicts_itself_is_rejected() {
    check_all(expect![[r#"
        > format_version = 1 => format_version = 2
        box.toml:2:18: format_version is 2; this evenkeel reads version 1
        # Another version may have other keys.
        > format_version = 1 => stages = 3
        > format_version = 2
        box.toml:3:18: format_version is 2; this evenkeel reads version 1
        > cpus = "2-3" => cpus = "1-3"
        box.toml:6:20: cpus: cpu1 belongs to node0 and to node1
        > cpus = "2-3" => cpus = "2-9"
        box.toml:6:20: cpus: node1 has cpu5, which is not among the machine's CPUs
        > cpus = "2-3" => cpus = "3-2"
        box.toml:6:20: cpus of node1: the range "3-2" ends before it starts
        > { id = 1 } => { id = 1, node = 1 }
        box.toml:10:38: cpu1 names node1, but node1 does not list it
        > { id = 1 } => { id = 0 }
        box.toml:10:28: id: cpu0 is defined twice
        > 1 = 21 } => 7 = 21 }
        box.toml:5:66: distances: node0 has a distance to node7, which is not a node of this machine
        > 1 = 21 } => 1 = 9 }
        box.toml:5:66: distances: node0 has distance 9 to node1: 10 is local, others are larger
        > 0 = 10 => 0 = 11
        box.toml:5:66: distances: node0 has distance 11 to node0: 10 is local, others are larger
        > { id = 3 } => { id = 3, online = false }
        box.toml:10:64: online: cpu3 is offline, but a node, an llc or a core lists it
        > 1 = 21 } => one = 21 }
        box.toml:5:66: distances of node0: "one" is not a node number
        > node = 0, size => node = 1, size
        box.toml:8:40: llc0 names a node that does not have all its CPUs
        > size_bytes = 8388608 => size_bytes = 9000000000000000000
        box.toml:8:56: size_bytes: llc0 has 9000000000000000000, which is above the largest possible value
        > to_node = 1 => to_node = 3
        box.toml:11:13: accesses: the access from node0 to node3 names node3, which is not a node of this machine
        > id = 4, online => id = 4000000000, online
        box.toml:10:64: cpu 4000000000: ids are at most 65535
        > "two small nodes" => "x"
        > nodes_allowed = "5"
        box.toml:4:17: nodes_allowed has node5, which is not a node of this machine
        > cores = [{ id = 0, cpus = "0-1" } => cores = [{ id = 0, cpus = "0-1", capacity = 0 }
        box.toml:9:45: core0 has capacity 0: capacities are 1 to 1024
    "#]]);
}

#[test]
fn cores_in_two_domains_or_without_an_online_cpu_are_rejected() {
    check_all(expect![[r#"
        > cores = [{ id = 0, cpus = "0-1" }, { id = 1, cpus = "2-3" }] => cores = [{ id = 0, cpus = "0-1" }]
        box.toml:10:40: id: cpu2 is online and in no core, although cores are listed
        > cores = [{ id = 0, cpus = "0-1" }, { id = 1, cpus = "2-3" }] => cores = [{ id = 0, cpus = "0,2" }, { id = 1, cpus = "1,3" }]
        box.toml:9:27: cpus: core0 is in node0 and in node1: a core is in one
        > llcs = [{ id = 0, cpus = "0-1" => llcs = [{ id = 1, cpus = "1" },
        >   { id = 0, cpus = "0"
        box.toml:10:27: cpus: core0 is in llc0 and in llc1: a core is in one
    "#]]);
}

#[test]
fn caches_without_cpus_or_with_an_invalid_level_are_rejected() {
    check_all(expect![[r#"
        > cpus = "0-1", node = 0 => cpus = "", node = 0
        box.toml:8:26: cpus: llc0 has no CPU: remove the entry
        > level = 3 => level = 0
        box.toml:8:73: llc0 has level 0: cache levels are 1 to 9
        > level = 3 => level = 4294967295
        box.toml:8:73: llc0 has level 4294967295: cache levels are 1 to 9
    "#]]);
}

#[test]
fn distances_are_given_for_all_pairs_or_for_none() {
    check_all(expect![[r#"
        > distances = { 0 = 21, 1 = 10 } => distances = { 1 = 10 }
        box.toml:6:66: node1 has no distance to node0: give all distances or none
        > , distances = { 0 = 21, 1 = 10 } =>
        box.toml:6:3: node1 has no distance to node0: give all distances or none
    "#]]);
}

#[test]
fn attributes_of_value_zero_are_rejected() {
    check_all(expect![[r#"
        > ns = 138 => ns = 0
        box.toml:11:53: latency: the access from node0 to node1 has a value of 0: remove the key if the value is unknown
        > accesses = => core_kinds = [{ frequency = { mhz = 0, source = "assumed" } }]
        > accesses =
        box.toml:11:14: core_kinds: the kind "uniform" has a value of 0: remove the key if the value is unknown
        > accesses = => core_kinds = [{ smt = { permille = 1001, source = "assumed" } }]
        > accesses =
        box.toml:11:14: core_kinds: the kind "uniform" is faster with a busy sibling than alone: smt is at most 1000
        > accesses = => core_kinds = [{ kind = "large" }]
        > accesses =
        box.toml:11:14: core_kinds: the kind "large" has attributes, but no core is of this kind
    "#]]);
}

#[test]
fn distance_keys_are_plain_node_numbers() {
    check_all(expect![[r#"
        > 0 = 10, 1 = 21 => 0 = 10, '00' = 10, 1 = 21
        box.toml:5:66: distances of node0: "00" is not a node number
        > 0 = 10, 1 = 21 => '+0' = 10, 1 = 21
        box.toml:5:66: distances of node0: "+0" is not a node number
    "#]]);
}

#[test]
fn an_unknown_key_without_a_similar_one_lists_all_keys() {
    check_all(expect![[r#"
        > memory_bytes => zebra
        box.toml:5:27: unknown key "zebra"; known are id, cpus, memory_bytes, memory_free_bytes, distances
        > format_version = 1 =>
        box.toml:1:1: format_version is missing; add it
        > { id = 1 } => 1
        box.toml:10:21: must be a table, not an integer
    "#]]);
}

#[test]
fn a_duplicate_key_is_reported_at_its_second_definition() {
    check_all(expect![[r#"
        > name = "two => name = "x"
        > name = "two
        box.toml:4:1: invalid TOML: key name is defined twice
    "#]]);
}

#[test]
fn an_offline_cpu_is_not_allowed() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    let cpu = machine.cpu(base::CpuId(4)).expect("the CPU is present");
    assert!(!cpu.online && !cpu.allowed);
}

#[test]
fn values_that_evenkeel_machine_prints_beside_the_machine_are_ignored() {
    let text = format!("{SMALL}placement = {{ level = \"llc\" }}\nsignals = [1, \"x\"]\n");
    assert_eq!(parse_toml(&text, "x"), parse_toml(SMALL, "x"));
}

#[test]
fn a_written_machine_is_read_back_equal() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    let again = read_toml(&to_toml(&machine), "again.toml").expect("TOML");
    assert_eq!(again, MachineFile::from(&machine));
}

#[test]
fn every_part_of_a_machine_is_one_line() {
    let machine = Machine::synthetic("cores=2 smt=2").expect("a machine");
    expect![[r##"
        # A machine for evenkeel. CPU sets are in the list format of Linux.
        format_version = 1
        name = "synthetic cores=2 smt=2"
        nodes_allowed = "0"
        warnings = []
        nodes = [
          { id = 0, cpus = "0-3", memory_bytes = 17179869184, memory_free_bytes = 8589934592, distances = { 0 = 10 } },
        ]
        llcs = [
          { id = 0, cpus = "0-3", node = 0, size_bytes = 33554432, level = 3 },
        ]
        cores = [
          { id = 0, cpus = "0-1", kind = "uniform", capacity = 1024 },
          { id = 1, cpus = "2-3", kind = "uniform", capacity = 1024 },
        ]
        cpus = [
          { id = 0, online = true, allowed = true, core = 0, llc = 0, node = 0 },
          { id = 1, online = true, allowed = true, core = 0, llc = 0, node = 0 },
          { id = 2, online = true, allowed = true, core = 1, llc = 0, node = 0 },
          { id = 3, online = true, allowed = true, core = 1, llc = 0, node = 0 },
        ]
        accesses = []
    "##]].assert_eq(&to_toml(&machine));
}

fn sourced_value() -> impl Strategy<Value = Option<SourcedValue>> {
    let sources = prop_oneof![
        Just(AttributeSource::Measured),
        Just(AttributeSource::Firmware),
        Just(AttributeSource::Assumed)
    ];
    let known =
        (0..=1u64 << 60, sources).prop_map(|(value, source)| SourcedValue { value, source });
    proptest::option::of(known)
}

proptest! {
    #[test]
    fn any_machine_survives_being_written_and_read(
        nodes in 1u32..4, llcs in 1u32..3, cores in 1u32..4, smt in 1u32..3,
        latency_ns in sourced_value(), bandwidth_bytes_per_s in sourced_value(), name in ".{0,12}",
    ) {
        let text = format!("nodes={nodes} llcs={llcs} cores={cores} smt={smt}");
        let mut parts = Machine::synthetic(&text).expect("a machine").parts().clone();
        parts.name = name;
        parts.warnings = vec!["something\nodd \"here\"".to_owned()];
        let (from, to) = (base::NodeId(0), base::NodeId(nodes - 1));
        parts.perf_attributes.accesses = vec![MemoryAccess { from, to, latency_ns, bandwidth_bytes_per_s }];
        if latency_ns.is_some() {
            let attributes = CacheAttributes { latency_ns, bandwidth_bytes_per_s };
            parts.perf_attributes.llcs.insert(base::LlcId(0), attributes);
        }
        let machine = Machine::new(parts).expect("still a machine");
        let text = to_toml(&machine);
        prop_assert_eq!(parse_toml(&text, "x").map_err(|e| e.to_string()), Ok(machine));
    }

    #[test]
    fn any_text_is_a_machine_or_one_line(text in "[a-z0-9_=\\[\\]{}\", \n-]{0,80}") {
        if let Err(error) = parse_toml(&text, "x.toml") {
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }

    #[test]
    fn the_example_with_any_byte_changed_is_a_machine_or_one_line(at in 0..SMALL.len(), new in 32u8..127) {
        let mut bytes = SMALL.as_bytes().to_vec();
        bytes[at] = new;
        let text = String::from_utf8(bytes).expect("the example is ASCII");
        match parse_toml(&text, "x.toml") {
            Ok(machine) => { let _ = crate::draw::draw(&machine); }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }
}
