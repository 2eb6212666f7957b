//! Small trees for every known exception (`cases/topology.txt`), and random trees.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use ::topology::file::{parse_toml, to_toml};
use proptest::prelude::*;

use super::*;
use crate::test_support::dir_of;

const CPUS: &str = "sys/devices/system/cpu";

/// Returns the machine of a list of files in the format of `cases/topology.txt`: cores with kinds, caches, nodes,
/// allowed CPUs and nodes, and warnings, one line each.
fn machine_of(files: &str) -> String {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for line in files.lines() {
        if let Some(n) = line.strip_prefix("cpus ") {
            let n: u32 = n.parse().expect("a number");
            all.insert(format!("{CPUS}/online"), format!("0-{}\n", n - 1));
            all.extend((0..n).map(|cpu| (format!("{CPUS}/cpu{cpu}/online"), "1".to_owned())));
        } else if line == "nodes" {
            for (node, cpus, distances) in [(0, "3", "10 21"), (4, "c", "21 10")] {
                let path = |file: &str| format!("sys/devices/system/node/node{node}/{file}");
                all.insert(path("cpumap"), cpus.to_owned());
                all.insert(path("distance"), distances.to_owned());
                all.insert(path("meminfo"), format!("Node {node} MemTotal: 8 kB\n"));
            }
        } else {
            let (path, text) = line.split_once(" =").expect("PATH = TEXT");
            let path = if path.starts_with("cpu") { format!("{CPUS}/{path}") } else { path.into() };
            match text.trim_start() {
                "(removed)" => drop(all.remove(&path).expect("a file")),
                text => drop(all.insert(path, text.replace("\\n", "\n").replace("\\t", "\t"))),
            }
        }
    }
    let root = dir_of(all);
    describe(root.path())
}

fn describe(root: &Path) -> String {
    let machine = match read(root) {
        Ok(machine) => machine,
        Err(error) => {
            let cause = error.source().map_or(String::new(), |cause| format!(": {cause}"));
            return format!("{error}{cause}").replace(&root.display().to_string(), "DIR");
        }
    };
    let cores = machine.cores().iter();
    let cores =
        cores.map(|core| format!("{} {} {} {}", core.id, core.cpus, core.kind, core.capacity));
    let llcs = machine.llcs().iter().map(|llc| format!("{} {} L{}", llc.id, llc.cpus, llc.level));
    let nodes = machine.nodes().iter();
    let nodes =
        nodes.map(|node| format!("{} {} {:?}", node.id, node.cpus, node.distances.values()));
    let allowed = format!("may use {} and {}", machine.allowed(), machine.nodes_allowed());
    let warnings = machine.warnings().iter().map(|warning| format!("warning: {warning}"));
    let source = machine.core_kinds_source().map(ToString::to_string);
    let lines: Vec<String> =
        cores.chain(source).chain(llcs).chain(nodes).chain([allowed]).chain(warnings).collect();
    lines.join("\n")
}

#[test]
fn every_tree_gives_its_machine() {
    let recorded = include_str!("../../cases/topology.txt");
    expect_test::expect_file!["../../cases/topology.txt"]
        .assert_eq(&base::transcript(recorded, machine_of));
}

#[test]
fn sources_that_separate_more_kinds_than_possible_are_ignored() {
    let midr = |cpu: u32| {
        format!("\ncpu{cpu}/regs/identification/midr_el1 = 0x{:x}", 0x410f_0000 + (cpu << 4))
    };
    let kinds = |n: u32| {
        machine_of(
            &std::iter::once(format!("cpus {n}")).chain((0..n).map(midr)).collect::<String>(),
        )
    };
    assert!(!kinds(64).contains("uniform"), "{}", kinds(64));
    let lines = kinds(65);
    assert!(lines.contains("\ncore64 64 uniform 1024"), "{lines}");
    let warning = "sysfs files separate more than 64 core kinds; all cores are of one kind; --core-kinds sets others";
    assert!(lines.contains(warning), "{lines}");
}

#[test]
fn a_missing_directory_is_an_error() {
    let error = read(Path::new("/nowhere/at/all")).expect_err("no such directory").to_string();
    assert_eq!(
        error,
        "/nowhere/at/all is not a directory; name a directory that contains sys and proc of a machine"
    );
}

#[test]
fn a_directory_without_permission_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        eprintln!("not run: root may read every directory");
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let set =
        |mode| fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).expect("set");
    set(0o000);
    let error = "cannot read the machine below DIR: Permission denied (os error 13)";
    assert_eq!(describe(root.path()), error);
    set(0o700);
}

#[test]
fn a_named_pipe_in_place_of_a_file_does_not_block() {
    let files = [("online", "0-1"), ("cpu0/topology/core_id", "0"), ("cpu1/online", "1")];
    let root = dir_of(files.map(|(path, text)| (format!("{CPUS}/{path}"), text)));
    let pipe = root.path().join(CPUS).join("cpu0/topology/thread_siblings");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe");
    assert_eq!(read(root.path()).expect("a machine").cores().len(), 2);
}

/// Returns paths that `read` uses on a machine with two nodes and four CPUs.
fn path() -> impl Strategy<Value = String> {
    let cpu = "sys/devices/system/cpu";
    let of_cpu = prop_oneof![
        Just("online"),
        Just("cpu_capacity"),
        Just("topology/core_cpus"),
        Just("topology/thread_siblings_list"),
        Just("topology/core_id"),
        Just("cache/index0/level"),
        Just("cache/index0/shared_cpu_map"),
        Just("cache/index3/level"),
        Just("cache/index3/size"),
        Just("cache/index3/shared_cpu_list"),
        Just("cpufreq/cpuinfo_max_freq"),
        Just("cpufreq/base_frequency"),
        Just("cpufreq/scaling_max_freq"),
        Just("acpi_cppc/highest_perf"),
        Just("acpi_cppc/nominal_perf"),
        Just("regs/identification/midr_el1"),
    ];
    let of_node = prop_oneof![
        Just("cpumap"),
        Just("cpulist"),
        Just("distance"),
        Just("meminfo"),
        Just("access0/initiators/read_latency"),
        Just("access1/initiators/node1"),
    ];
    let single = prop_oneof![
        Just("sys/devices/system/cpu/online"),
        Just("sys/devices/system/cpu/present"),
        Just("sys/devices/system/node/online"),
        Just("sys/devices/cpu_atom/cpus"),
        Just("sys/devices/cpu_core/cpus"),
        Just("proc/cpuinfo"),
        Just("proc/meminfo"),
        Just("proc/self/status"),
        Just("proc/self/cgroup"),
        Just("proc/self/mounts"),
        Just("proc/self/cpuset"),
        Just("sys/fs/cgroup/cpuset.cpus.effective"),
        Just("dev/cpuset/cpus"),
    ];
    prop_oneof![
        6 => (0u32..4, of_cpu).prop_map(move |(n, file)| format!("{cpu}/cpu{n}/{file}")),
        3 => (0u32..3, of_node).prop_map(|(n, file)| format!("sys/devices/system/node/node{n}/{file}")),
        2 => single.prop_map(str::to_owned),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[0-9a-f]{1,2}",
        4 => "[0-3](-[0-3])?(,[0-3])?",
        3 => "[0-9]{1,20}K?",
        1 => "[ 0-9]{0,12}",
        1 => "Node 0 MemTotal: [0-9]{1,21} kB\nNode 0 MemFree: [0-9]{1,3} kB",
        1 => "processor : [0-9]{1,11}\ncore id : [0-9]\nphysical id : [0-9]",
        1 => "Cpus_allowed_list:\t[0-9]-[0-9]\n0::/[a-z./]{0,9}\nx / cgroup2 rw",
        1 => ".{0,30}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_tree_gives_an_error_or_a_machine_that_can_be_written_and_drawn(
        files in proptest::collection::vec((path(), text()), 0..40),
    ) {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in &files {
            let path = root.path().join(path);
            // A path is skipped if its directory exists as a file.
            let _ = fs::create_dir_all(path.parent().expect("a directory"));
            let _ = fs::write(path, text);
        }
        if let Ok(machine) = read(root.path()) {
            let text = to_toml(&machine);
            prop_assert_eq!(parse_toml(&text, "x").map_err(|e| e.to_string()), Ok(machine.clone()));
            let _ = ::topology::draw::draw(&machine);
        }
        let _ = crate::signal_sources::read(root.path());
    }
}
