//! Machine files: the example of the module, what is wrong with it after one change, and the way back.

use proptest::prelude::*;

use super::*;
use crate::{Access, CacheFigures, Figure, Machine, Source};

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

/// The error that a text gives after one change to [`SMALL`].
fn check(from: &str, to: &str, expected: expect_test::Expect) {
    assert!(SMALL.contains(from), "{from} is not in the example");
    let error = parse_toml(&SMALL.replacen(from, to, 1), "box.toml").expect_err("it is wrong");
    let said = with_causes(&error);
    assert!(!said.contains('\n'), "{said:?} is more than a line");
    expected.assert_eq(&said);
}

/// An error as a command prints it.
fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

#[test]
fn the_example_is_a_machine_with_its_figures() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    assert_eq!(machine.online().to_string(), "0-3");
    assert_eq!(machine.nodes_allowed().to_string(), "0-1");
    let measured = Figure { value: 138, source: Source::Measured };
    assert_eq!(machine.figures().accesses[0].latency_ns, Some(measured));
    let assumed = Figure { value: 40, source: Source::Assumed };
    assert_eq!(machine.figures().llcs[&base::LlcId(0)].latency_ns, Some(assumed));
}

#[test]
fn what_is_no_toml_or_no_key_is_named_with_its_line() {
    check(
        "cpus = \"0-1\", mem",
        "cpus = 0, mem",
        expect_test::expect![
            "box.toml:5: cpus: must be a text in quotation marks, not a whole number"
        ],
    );
    check(
        "memory_bytes",
        "memory_byte",
        expect_test::expect![[
            r#"box.toml:5: unknown key "memory_byte"; did you mean "memory_bytes"?"#
        ]],
    );
    check(
        "llcs =",
        "lcs =",
        expect_test::expect![[r#"box.toml:8: unknown key "lcs"; did you mean "llcs"?"#]],
    );
    check(
        "{ id = 1 }",
        "{ id = 1",
        expect_test::expect!["box.toml:10: missing key for inline table element, expected key"],
    );
    check(
        "id = 2 }",
        "id = -2 }",
        expect_test::expect![
            "box.toml:10: id: -2 does not fit: write a whole number, 0 to 4294967295"
        ],
    );
    check(
        "cpus = [{ id = 0 }",
        "cpu = [{ id = 0 }",
        expect_test::expect![[r#"box.toml:10: unknown key "cpu"; did you mean "cpus"?"#]],
    );
    check(
        "source = \"measured\"",
        "source = \"hearsay\"",
        expect_test::expect![[
            r#"box.toml:11: source: "hearsay" is not known here; write one of measured, firmware, assumed"#
        ]],
    );
}

#[test]
fn a_machine_that_contradicts_itself_is_refused() {
    check(
        "format_version = 1",
        "format_version = 2",
        expect_test::expect!["box.toml:2: format_version is 2, this evenkeel reads 1"],
    );
    // Another version may have other keys.
    check(
        "format_version = 1",
        "stages = 3\nformat_version = 2",
        expect_test::expect!["box.toml:3: format_version is 2, this evenkeel reads 1"],
    );
    check(
        "cpus = \"2-3\"",
        "cpus = \"1-3\"",
        expect_test::expect!["box.toml:6: cpus: cpu1 belongs to node0 and to node1"],
    );
    check(
        "cpus = \"2-3\"",
        "cpus = \"2-9\"",
        expect_test::expect![
            "box.toml:6: cpus: node1 has cpu5, which is not among the machine's CPUs"
        ],
    );
    check(
        "cpus = \"2-3\"",
        "cpus = \"3-2\"",
        expect_test::expect![[
            r#"box.toml:6: cpus of node1: the range "3-2" ends before it starts"#
        ]],
    );
    check(
        "{ id = 1 }",
        "{ id = 1, node = 1 }",
        expect_test::expect![
            "box.toml:10: cpu1 says that it belongs to node1, but node1 does not list it"
        ],
    );
    check("{ id = 1 }", "{ id = 0 }", expect_test::expect!["box.toml:10: id: cpu0 stands twice"]);
    check(
        "1 = 21 }",
        "7 = 21 }",
        expect_test::expect![
            "box.toml:5: distances: node0 has a distance to node7, which is not a node of this machine"
        ],
    );
    check(
        "1 = 21 }",
        "1 = 9 }",
        expect_test::expect![
            "box.toml:5: distances: node0 is 9 from node1: 10 is local, others are farther"
        ],
    );
    check(
        "0 = 10",
        "0 = 11",
        expect_test::expect![
            "box.toml:5: distances: node0 is 11 from node0: 10 is local, others are farther"
        ],
    );
    check(
        "{ id = 3 }",
        "{ id = 3, online = false }",
        expect_test::expect![
            "box.toml:10: online: cpu3 is offline, yet a node, an llc or a core lists it"
        ],
    );
    check(
        "1 = 21 }",
        "one = 21 }",
        expect_test::expect![[r#"box.toml:5: distances of node0: "one" is no node number"#]],
    );
    check(
        "node = 0, size",
        "node = 1, size",
        expect_test::expect!["box.toml:8: llc0 names a node that does not hold its CPUs"],
    );
    check(
        "size_bytes = 8388608",
        "size_bytes = 9000000000000000000",
        expect_test::expect![
            "box.toml:8: size_bytes: llc0 has 9000000000000000000: no machine has so much"
        ],
    );
    check(
        "to_node = 1",
        "to_node = 3",
        expect_test::expect![
            "box.toml:11: accesses: the access from node0 to node3 names node3, which is not a node of this machine"
        ],
    );
    check(
        "id = 4, online",
        "id = 4000000000, online",
        expect_test::expect!["box.toml:10: id: cpu 4000000000: numbers go up to 65535"],
    );
    check(
        "\"two small nodes\"",
        "\"x\"\nnodes_allowed = \"5\"",
        expect_test::expect![
            "box.toml:4: nodes_allowed has node5, which is not a node of this machine"
        ],
    );
    check(
        "cores = [{ id = 0, cpus = \"0-1\" }",
        "cores = [{ id = 0, cpus = \"0-1\", capacity = 0 }",
        expect_test::expect!["box.toml:9: core0 has capacity 0: 1 to 1024"],
    );
}

#[test]
fn cores_that_lie_in_two_places_or_leave_a_cpu_out_are_refused() {
    let cores = |cores: &str, expected| {
        check("cores = [{ id = 0, cpus = \"0-1\" }, { id = 1, cpus = \"2-3\" }]", cores, expected);
    };
    cores(
        "cores = [{ id = 0, cpus = \"0-1\" }]",
        expect_test::expect![
            "box.toml:10: id: cpu2 is online and in no core, though cores are listed"
        ],
    );
    cores(
        "cores = [{ id = 0, cpus = \"0,2\" }, { id = 1, cpus = \"1,3\" }]",
        expect_test::expect![
            "box.toml:9: cpus: core0 lies in node0 and in node1: a core lies in one"
        ],
    );
    check(
        "llcs = [{ id = 0, cpus = \"0-1\"",
        "llcs = [{ id = 1, cpus = \"1\" },\n  { id = 0, cpus = \"0\"",
        expect_test::expect![
            "box.toml:10: cpus: core0 lies in llc0 and in llc1: a core lies in one"
        ],
    );
}

#[test]
fn caches_without_cpus_or_of_no_level_are_refused() {
    check(
        "cpus = \"0-1\", node = 0",
        "cpus = \"\", node = 0",
        expect_test::expect!["box.toml:8: cpus: llc0 has no CPU: leave it out"],
    );
    check(
        "level = 3",
        "level = 0",
        expect_test::expect!["box.toml:8: llc0 has level 0: caches have 1 to 9"],
    );
    check(
        "level = 3",
        "level = 4294967295",
        expect_test::expect!["box.toml:8: llc0 has level 4294967295: caches have 1 to 9"],
    );
}

#[test]
fn distances_are_told_of_all_pairs_or_of_none() {
    check(
        "distances = { 0 = 21, 1 = 10 }",
        "distances = { 1 = 10 }",
        expect_test::expect![
            "box.toml:6: distances: node1 tells no distance to node0: tell all of them or none"
        ],
    );
    check(
        ", distances = { 0 = 21, 1 = 10 }",
        "",
        expect_test::expect![
            "box.toml:6: distances: node1 tells no distance to node0: tell all of them or none"
        ],
    );
}

#[test]
fn a_figure_of_nothing_is_left_out_and_not_zero() {
    check(
        "ns = 138",
        "ns = 0",
        expect_test::expect![
            "box.toml:11: latency: the access from node0 to node1 has a figure of 0: leave it out if it is not known"
        ],
    );
    let kinds =
        |text: &str, expected| check("accesses =", &format!("{text}\naccesses ="), expected);
    kinds(
        "core_kinds = [{ frequency = { mhz = 0, source = \"assumed\" } }]",
        expect_test::expect![[
            r#"box.toml:11: core_kinds: the kind "uniform" has a figure of 0: leave it out if it is not known"#
        ]],
    );
    kinds(
        "core_kinds = [{ smt = { permille = 1001, source = \"assumed\" } }]",
        expect_test::expect![[
            r#"box.toml:11: core_kinds: the kind "uniform" is faster beside a busy sibling than alone: smt goes up to 1000"#
        ]],
    );
    kinds(
        "core_kinds = [{ kind = \"large\" }]",
        expect_test::expect![[
            r#"box.toml:11: core_kinds: the kind "large" has figures, and no core is of it"#
        ]],
    );
}

#[test]
fn one_node_has_one_name_in_distances() {
    check(
        "0 = 10, 1 = 21",
        "0 = 10, '00' = 10, 1 = 21",
        expect_test::expect![[r#"box.toml:5: distances of node0: "00" is no node number"#]],
    );
    check(
        "0 = 10, 1 = 21",
        "'+0' = 10, 1 = 21",
        expect_test::expect![[r#"box.toml:5: distances of node0: "+0" is no node number"#]],
    );
}

#[test]
fn keys_that_nothing_resembles_are_answered_with_all_there_are() {
    check(
        "memory_bytes",
        "zebra",
        expect_test::expect![[
            r#"box.toml:5: unknown key "zebra"; known are id, cpus, memory_bytes, memory_free_bytes, distances"#
        ]],
    );
    check(
        "format_version = 1\n",
        "",
        expect_test::expect!["box.toml:1: format_version is missing; add it"],
    );
    check(
        "{ id = 1 }",
        "1",
        expect_test::expect!["box.toml:10: must be a table, not a whole number"],
    );
}

#[test]
fn a_key_that_stands_twice_is_named_where_it_stands_again() {
    check(
        "name = \"two",
        "name = \"x\"\nname = \"two",
        expect_test::expect!["box.toml:4: name stands twice"],
    );
}

#[test]
fn what_is_offline_cannot_be_allowed() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    let cpu = machine.cpu(base::CpuId(4)).expect("it is there");
    assert!(!cpu.online && !cpu.allowed);
}

#[test]
fn what_is_printed_beside_a_machine_is_no_part_of_it() {
    let text = format!("{SMALL}placement = {{ level = \"llc\" }}\nsignals = [1, \"x\"]\n");
    assert_eq!(parse_toml(&text, "x"), parse_toml(SMALL, "x"));
}

#[test]
fn what_is_written_is_read_as_the_same_file() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    let again = read_toml(&to_toml(&machine), "again.toml").expect("TOML");
    assert_eq!(again, MachineFile::from(&machine));
}

#[test]
fn a_machine_is_one_line_for_each_of_its_parts() {
    let machine = Machine::synthetic("cores=2 smt=2").expect("a machine");
    expect_test::expect![[r##"
        # A machine for evenkeel. Sets of CPUs are Linux list text.
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

fn figure() -> impl Strategy<Value = Option<Figure>> {
    let sources =
        prop_oneof![Just(Source::Measured), Just(Source::Firmware), Just(Source::Assumed)];
    let known = (0..=1u64 << 60, sources).prop_map(|(value, source)| Figure { value, source });
    proptest::option::of(known)
}

proptest! {
    #[test]
    fn any_machine_survives_being_written_and_read(
        nodes in 1u32..4, llcs in 1u32..3, cores in 1u32..4, smt in 1u32..3,
        latency_ns in figure(), bandwidth_bytes_per_s in figure(), name in ".{0,12}",
    ) {
        let text = format!("nodes={nodes} llcs={llcs} cores={cores} smt={smt}");
        let mut parts = Machine::synthetic(&text).expect("a machine").parts().clone();
        parts.name = name;
        parts.warnings = vec!["something\nodd \"here\"".to_owned()];
        let (from, to) = (base::NodeId(0), base::NodeId(nodes - 1));
        parts.figures.accesses = vec![Access { from, to, latency_ns, bandwidth_bytes_per_s }];
        if latency_ns.is_some() {
            let figures = CacheFigures { latency_ns, bandwidth_bytes_per_s };
            parts.figures.llcs.insert(base::LlcId(0), figures);
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
