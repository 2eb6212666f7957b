//! Small trees for every known special case, and random trees.

mod corrections;

use std::error::Error;
use std::fs;
use std::path::Path;

use ::topology::file::{parse_toml, to_toml};
use proptest::prelude::*;

use super::*;

/// A tree of small files in a temporary folder.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    root
}

/// `n` CPUs and other files; paths are below `cpu/` unless they start with `sys` or `proc`.
fn cpus(n: u32, files: &[(&str, &str)]) -> tempfile::TempDir {
    let online = format!("0-{}\n", n - 1);
    let mut all = vec![("sys/devices/system/cpu/online".to_owned(), online)];
    all.extend(
        (0..n).map(|cpu| (format!("sys/devices/system/cpu/cpu{cpu}/online"), "1".to_owned())),
    );
    all.extend(files.iter().map(|(path, text)| {
        let is_cpu = path.starts_with("cpu");
        let start = if is_cpu { "sys/devices/system/cpu/" } else { "" };
        (format!("{start}{path}"), (*text).to_owned())
    }));
    let all: Vec<(&str, &str)> =
        all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    tree(&all)
}

/// Cores with kinds, caches, nodes, allowed CPUs and nodes, and warnings, one line each.
fn check(root: &tempfile::TempDir, expected: expect_test::Expect) {
    let machine = match read(root.path()) {
        Ok(machine) => machine,
        Err(error) => {
            let cause = error.source().map_or(String::new(), |cause| format!(": {cause}"));
            let message = format!("{error}{cause}\n");
            return expected.assert_eq(&message.replace(&root.path().display().to_string(), "DIR"));
        }
    };
    let mut lines: Vec<String> = Vec::new();
    for core in machine.cores() {
        lines.push(format!("{} {} {} {}", core.id, core.cpus, core.kind, core.capacity));
    }
    lines
        .extend(machine.llcs().iter().map(|llc| format!("{} {} L{}", llc.id, llc.cpus, llc.level)));
    for node in machine.nodes() {
        lines.push(format!("{} {} {:?}", node.id, node.cpus, node.distances.values()));
    }
    lines.push(format!("may use {} and {}", machine.allowed(), machine.nodes_allowed()));
    lines.extend(machine.warnings().iter().map(|warning| format!("warning: {warning}")));
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn siblings_are_cpus_that_list_each_other() {
    let root = cpus(
        4,
        &[
            ("cpu0/topology/thread_siblings", "3"),
            ("cpu1/topology/thread_siblings", "3"),
            ("cpu2/topology/thread_siblings", "c"),
            ("cpu3/topology/thread_siblings", "8"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0-1 uniform 1024
        core1 2 uniform 1024
        core2 3 uniform 1024
        node0 0-3 []
        may use 0-3 and 0
        warning: CPUs 2 disagree with others about their SMT siblings; CPUs that list each other are siblings
    "#]],
    );
}

#[test]
fn the_new_file_of_siblings_is_preferred() {
    let root = cpus(
        2,
        &[
            ("cpu0/topology/core_cpus", "1"),
            ("cpu0/topology/thread_siblings", "3"),
            ("cpu1/topology/core_cpus_list", "1"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        node0 0-1 []
        may use 0-1 and 0
    "#]],
    );
}

#[test]
fn the_last_level_is_the_highest_that_covers_a_cpu_and_has_a_size() {
    let root = cpus(
        3,
        &[
            ("cpu0/cache/index0/level", "1"),
            ("cpu0/cache/index0/shared_cpu_map", "1"),
            ("cpu0/cache/index3/level", "3"),
            ("cpu0/cache/index3/size", "8192K"),
            ("cpu0/cache/index3/shared_cpu_map", "3"),
            ("cpu1/cache/index3/level", "3"),
            ("cpu1/cache/index3/size", "8192K"),
            ("cpu1/cache/index3/shared_cpu_map", "3"),
            ("cpu2/cache/index2/level", "2"),
            ("cpu2/cache/index2/size", "1024K"),
            ("cpu2/cache/index2/shared_cpu_map", "4"),
            ("cpu2/cache/index3/level", "3"),
            ("cpu2/cache/index3/size", "0K"),
            ("cpu2/cache/index3/shared_cpu_map", "7"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        llc0 0-1 L3
        llc1 2 L2
        node0 0-2 []
        may use 0-2 and 0
    "#]],
    );
}

#[test]
fn core_types_come_from_pmus_and_capacities_from_the_firmware() {
    let root = cpus(
        3,
        &[
            ("sys/devices/cpu_core/cpus", "0"),
            ("sys/devices/cpu_atom/cpus", "1-2"),
            ("cpu0/acpi_cppc/highest_perf", "60"),
            ("cpu1/acpi_cppc/highest_perf", "36"),
            ("cpu2/acpi_cppc/highest_perf", "36"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0 performance 1024
        core1 1 efficiency 614
        core2 2 efficiency 614
        node0 0-2 []
        may use 0-2 and 0
    "#]],
    );
}

#[test]
fn a_favoured_core_is_of_the_same_kind() {
    let root = cpus(
        2,
        &[
            ("cpu0/cpufreq/cpuinfo_max_freq", "5100000"),
            ("cpu1/cpufreq/cpuinfo_max_freq", "4900000"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        node0 0-1 []
        may use 0-1 and 0
    "#]],
    );
}

#[test]
fn an_amd_module_has_two_cores() {
    let root = cpus(
        2,
        &[
            ("proc/cpuinfo", "vendor_id : AuthenticAMD\ncpu family : 21\n"),
            ("cpu0/topology/thread_siblings", "3"),
            ("cpu0/topology/core_id", "0"),
            ("cpu1/topology/thread_siblings", "3"),
            ("cpu1/topology/core_id", "1"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        node0 0-1 []
        may use 0-1 and 0
    "#]],
    );
}

const NODES: [(&str, &str); 6] = [
    ("sys/devices/system/node/node0/cpumap", "3"),
    ("sys/devices/system/node/node0/distance", "10 21"),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 8 kB\n"),
    ("sys/devices/system/node/node4/cpumap", "c"),
    ("sys/devices/system/node/node4/distance", "21 10"),
    ("sys/devices/system/node/node4/meminfo", "Node 4 MemTotal: 8 kB\n"),
];

#[test]
fn a_v2_cpuset_applies_to_descendant_cgroups() {
    let mut files = NODES.to_vec();
    files.extend([
        ("proc/self/cgroup", "0::/a/b/c\n"),
        ("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"),
        ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-2\n"),
        ("sys/fs/cgroup/a/cpuset.mems.effective", "0\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
    ]);
    check(
        &cpus(4, &files),
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10, 21]
        node4 2-3 [21, 10]
        may use 0-2 and 0
    "#]],
    );
}

#[test]
fn a_v1_cpuset_and_an_affinity_both_apply() {
    let mut files = NODES.to_vec();
    files.extend([
        ("proc/self/cgroup", "4:memory:/x\n3:cpuset,cpu:/group one\n0::/y\n"),
        (
            "proc/mounts",
            "c /mnt/my\\040sets cgroup rw,cpuset,cpu 0 0\nc2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        ),
        ("mnt/my sets/group one/cpuset.cpus", "1-3"),
        ("mnt/my sets/group one/cpuset.mems", "4"),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2\nMems_allowed_list:\t0,4\n"),
    ]);
    check(
        &cpus(4, &files),
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10, 21]
        node4 2-3 [21, 10]
        may use 1-2 and 4
    "#]],
    );
}

#[test]
fn a_recording_does_not_lead_out_of_its_folder() {
    let root = cpus(
        2,
        &[
            ("proc/self/cgroup", "0::/../../../../sys/fs/cgroup\n"),
            ("proc/self/mounts", "c /../.. cgroup2 rw 0 0\n"),
        ],
    );
    check(
        &root,
        expect_test::expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        node0 0-1 []
        may use 0-1 and 0
    "#]],
    );
}

#[test]
fn without_topology_in_sysfs_cpuinfo_is_used() {
    let root = tree(&[(
        "proc/cpuinfo",
        "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 1\nphysical id : 0\ncore id : 0\n\n\
         processor : 2\nphysical id : 1\ncore id : 0\n",
    )]);
    check(
        &root,
        expect_test::expect![[r#"
        core0 0-1 uniform 1024
        core1 2 uniform 1024
        node0 0-2 []
        may use 0-2 and 0
    "#]],
    );
}

#[test]
fn a_tree_without_a_machine_is_an_error() {
    check(
        &tree(&[("etc/passwd", "")]),
        expect_test::expect![[r#"
        DIR has neither sys/devices/system/cpu nor proc/cpuinfo; name a folder that contains sys and proc of a machine
    "#]],
    );
    check(
        &tree(&[("sys/devices/system/cpu/online", "")]),
        expect_test::expect![[r#"
        DIR: the machine has no CPU online
    "#]],
    );
    let error = read(Path::new("/nowhere/at/all")).expect_err("not there").to_string();
    assert_eq!(
        error,
        "/nowhere/at/all is not a folder; name one that contains sys and proc of a machine"
    );
}

#[test]
fn a_named_pipe_in_place_of_a_file_does_not_block() {
    let root = cpus(2, &[("cpu0/topology/core_id", "0")]);
    let pipe = root.path().join("sys/devices/system/cpu/cpu0/topology/thread_siblings");
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

/// Paths that are read, of two nodes and four CPUs.
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
        Just("acpi_cppc/highest_perf"),
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
    fn any_tree_is_a_machine_that_can_be_written_and_drawn_or_an_error(
        files in proptest::collection::vec((path(), text()), 0..40),
    ) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in &files {
            let path = root.path().join(path);
            // A path is skipped if its folder exists as a file.
            let _ = fs::create_dir_all(path.parent().expect("a folder"));
            let _ = fs::write(path, text);
        }
        if let Ok(machine) = read(root.path()) {
            let text = to_toml(&machine);
            prop_assert_eq!(parse_toml(&text, "x").map_err(|e| e.to_string()), Ok(machine.clone()));
            let _ = ::topology::draw::draw(&machine);
        }
        let _ = crate::metric_sources::read(root.path());
    }
}
