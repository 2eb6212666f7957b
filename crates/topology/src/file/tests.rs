//! Tests of machine files: the example of the module, the errors after one change to the example, and writing.

use expect_test::{expect, expect_file};
use proptest::prelude::*;

use super::*;
use crate::{
    AttributeSource, CacheAttributes, Machine, MemoryAccess, QuantumAttributes, QueueScope,
    SourcedValue,
};

const SMALL: &str = r#"
format_version = 2
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

/// Each case is one change of [`SMALL`], `OLD => NEW`, with the resulting error.
#[test]
fn changed_machine_files() {
    let error = |change: &str| {
        let (from, to) = change.split_once(" =>").expect("a change");
        assert!(SMALL.contains(from), "{from} is not in the example");
        let text = SMALL.replacen(from, to.strip_prefix(' ').unwrap_or(to), 1);
        let error = parse_toml(&text, "box.toml").err();
        let message = error.map_or("valid".to_owned(), |error| with_causes(&error));
        assert!(!message.contains('\n'), "{message:?} is more than a line");
        message
    };
    let cases = expect_file!["../../cases/machine-file-errors.txt"];
    cases.assert_eq(&base::transcript(&cases.data(), error));
}

/// Returns an error as a command prints it.
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
fn an_offline_cpu_is_not_allowed() {
    let machine = parse_toml(SMALL, "box.toml").expect("a machine");
    let cpu = machine.cpu(base::CpuId(4)).expect("the CPU is present");
    assert!(!cpu.online && !cpu.allowed);
}

#[test]
fn further_keys_that_evenkeel_machine_prints_are_ignored() {
    let text = format!("{SMALL}placement = {{ level = \"llc\" }}\nsignals = [1, \"x\"]\n");
    assert_eq!(parse_toml(&text, "x"), parse_toml(SMALL, "x"));
}

#[test]
fn a_written_machine_is_read_back_equal() {
    let physics = "physics = { replacement = \"random\", smt = \"by-pair\", open_streams = { count = 16, permille = 700, source = \"assumed\" } }\n";
    let machine = parse_toml(&format!("{SMALL}{physics}"), "box.toml").expect("a machine");
    let read_back = read_toml(&to_toml(&machine), "again.toml").expect("TOML");
    assert_eq!(read_back, MachineFile::from(&machine));
}

#[test]
fn private_caches_and_clusters_are_written_and_read_back_equal() {
    let text = format!(
        "{SMALL}clusters = [{{ id = 0, cpus = \"0-1\", cache = {{ bytes = 4194304, source = \"published\" }} }}]\n"
    )
    .replace(r#"cpus = "2-3" }]"#, r#"cpus = "2-3", kind = "big" }]"#)
        + "core_kinds = [{ kind = \"big\", private_cache = { bytes = 2097152, source = \"assumed\" } }]\n";
    let machine = parse_toml(&text, "box.toml").expect("a machine");
    assert_eq!(machine.perf_attributes().clusters[0].cpus.to_string(), "0-1");
    assert_eq!(parse_toml(&to_toml(&machine), "again.toml"), Ok(machine));
}

#[test]
fn every_part_of_a_written_machine_is_on_one_line() {
    let machine = Machine::synthetic("cores=2 smt=2").expect("a machine");
    expect![[r##"
        # A machine for evenkeel. CPU sets are in the list format of Linux.
        format_version = 2
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

fn sourced_value(max: u64) -> impl Strategy<Value = Option<SourcedValue>> {
    let sources = prop_oneof![
        Just(AttributeSource::Measured),
        Just(AttributeSource::Firmware),
        Just(AttributeSource::Assumed)
    ];
    // A value of 0 is rejected.
    let known = (1..=max, sources).prop_map(|(value, source)| SourcedValue { value, source });
    proptest::option::of(known)
}

proptest! {
    #[test]
    fn any_written_machine_is_read_back_equal(
        nodes in 1u32..4, llcs in 1u32..3, cores in 1u32..4, smt in 1u32..3,
        latency_ns in sourced_value(1000), slice_ns in proptest::option::of(10_000..=10_000_000_000u64), bandwidth_bytes_per_s in sourced_value(1 << 60), name in ".{0,12}",
    ) {
        let text = format!("nodes={nodes} llcs={llcs} cores={cores} smt={smt}");
        let mut parts = Machine::synthetic(&text).expect("a machine").parts().clone();
        parts.name = name;
        parts.warnings = vec!["something\nodd \"here\"".to_owned()];
        let (from, to) = (base::NodeId(0), base::NodeId(nodes - 1));
        parts.perf_attributes.accesses = vec![MemoryAccess { latency_ns, bandwidth_bytes_per_s, ..MemoryAccess::unknown(from, to) }];
        if latency_ns.is_some() {
            let attributes = CacheAttributes { latency_ns, bandwidth_bytes_per_s, ..CacheAttributes::default() };
            parts.perf_attributes.llcs.insert(base::LlcId(0), attributes);
        }
        let slice_ns = slice_ns.map(|value| SourcedValue { value, source: AttributeSource::Assumed });
        parts.system.grain = slice_ns.map(|_| "quantum".to_owned());
        parts.system.quantum = slice_ns.map(|_| QuantumAttributes { queue: Some(QueueScope::Llc), slice_ns, ..QuantumAttributes::default() });
        let machine = Machine::new(parts).expect("still a machine");
        let text = to_toml(&machine);
        prop_assert_eq!(parse_toml(&text, "x").map_err(|e| e.to_string()), Ok(machine));
    }

    #[test]
    fn any_text_gives_a_machine_or_an_error_of_one_line(text in "[a-z0-9_=\\[\\]{}\", \n-]{0,80}") {
        if let Err(error) = parse_toml(&text, "x.toml") {
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }

    #[test]
    fn the_example_with_a_changed_byte_gives_a_machine_or_an_error_of_one_line(at in 0..SMALL.len(), new in 32u8..127) {
        let mut bytes = SMALL.as_bytes().to_vec();
        bytes[at] = new;
        let text = String::from_utf8(bytes).expect("the example is ASCII");
        match parse_toml(&text, "x.toml") {
            Ok(machine) => { let _ = crate::draw::draw(&machine); }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }
}
