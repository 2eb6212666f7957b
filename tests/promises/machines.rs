//! `evenkeel machine` reads the topology of recorded machines like hwloc.
//!
//! `fixtures/machines` has the `/sys` and `/proc` files of machines and the XML that hwloc exports for the same
//! machines. Both must agree, except for [`EXCEPTIONS`], [`JOINED_KINDS`] and two properties of hwloc: hwloc omits resources outside the
//! cpuset of the recording process, and assigns a node without CPUs the CPUs of its locality. The output for each
//! machine is under `golden/`; `UPDATE_EXPECT=1 cargo test -p tests machines` updates the output.

mod hwloc_xml;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base::CpuSet;
use tempfile::TempDir;
use topology::Machine;

use self::hwloc_xml::HwlocMachine;
use tests::dir::Dir;
use tests::tool;

/// Machines whose cores differ from the cores of hwloc, with the reason.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "4fake-4gr1nu1pu",
    "its topology directories have packages only: hwloc detects no cores; evenkeel treats each CPU as a core",
)];

/// Machines whose core kinds are unions of the core kinds of hwloc, with the reason.
const JOINED_KINDS: [(&str, &str); 1] = [(
    "nvidia-dgx-gb10",
    "hwloc separates cores of one type whose capacities differ by 2 %, such as a preferred core; evenkeel does not",
)];

#[test]
fn declared_core_kinds_replace_those_of_a_synthetic_machine_and_of_a_file() {
    let dir = Dir::new();
    let own = "cores=4 kinds=1024x1+512x3";
    dir.write("m.toml", tool::success(&["machine", "--synthetic", own, "--toml"]));
    let file = dir.arg("m.toml");
    for which in [["--synthetic", own], ["--file", &file]] {
        let kinds = ["--core-kinds", "fast=0-1:1024,slow=2-3:600", "--json"];
        let text = tool::success(&[&["machine"][..], &which, &kinds].concat());
        let machine: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let cores = machine["cores"].as_array().expect("cores").iter();
        let capacities: Vec<u64> = cores.filter_map(|core| core["capacity"].as_u64()).collect();
        assert_eq!(capacities, [1024, 1024, 600, 600], "{which:?}");
    }
}

/// Checks both claims in one test, because unpacking takes most of the time.
#[test]
fn recorded_machines_agree_with_hwloc_and_with_their_golden_output() {
    let (mut differences, mut n_compared) = (Vec::new(), 0);
    for name in names() {
        let unpacked = unpack(&name);
        if let Some(expected) = hwloc_machine(&name) {
            let machine = linux::topology::read(&unpacked.root).expect(&name);
            differences.extend(compare(&name, &machine, &expected));
            n_compared += 1;
        }
        check_printed(&name, &unpacked.root);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(19 <= n_compared, "only {n_compared} machines could be compared");
}

/// Reads the machine of hwloc. Returns `None` for machines recorded by `xtask`, without hwloc.
fn hwloc_machine(name: &str) -> Option<HwlocMachine> {
    let xml = fs::read_to_string(dir().join(format!("{name}.lstopo.xml")));
    xml.ok().map(|xml| HwlocMachine::parse(&xml))
}

fn check_printed(name: &str, root: &Path) {
    let root = root.to_str().expect("UTF-8");
    for (option, ending) in [(None, "txt"), (Some("--json"), "json")] {
        let args: Vec<&str> = ["machine", "--root", root].into_iter().chain(option).collect();
        let output = tool::run(&args);
        assert!(output.status.success(), "{name}: {}", tool::text(&output.stderr));
        let printed = tool::text(&output.stdout);
        let widest = printed.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(option.is_some() || widest <= 80, "{name}: {widest} columns");
        let golden = dir().join("golden").join(format!("{name}.{ending}"));
        expect_test::expect_file![golden].assert_eq(&printed);
    }
}

#[test]
fn a_machine_file_describes_the_machine_that_it_was_written_from() {
    let dir = Dir::new();
    let synthetic = ["machine", "--synthetic", "nodes=2 llcs=2 cores=4 smt=2"];
    dir.write("box.toml", tool::success(&[&synthetic[..], &["--toml"]].concat()));
    let file = ["machine", "--file", &dir.arg("box.toml")];
    assert_eq!(tool::success(&file), tool::success(&synthetic));
    assert_eq!(
        tool::success(&[&file[..], &["--json"]].concat()),
        tool::success(&[&synthetic[..], &["--json"]].concat())
    );
}

#[test]
fn the_json_output_is_a_valid_machine_file() {
    let dir = Dir::new();
    let file = &*dir.arg("box.json");
    let synthetic = ["machine", "--synthetic", "nodes=2 llcs=2 cores=4 smt=2"];
    for args in [&synthetic[..], &["machine"]] {
        let printed = tool::run(&[args, &["--json"]].concat());
        dir.write("box.json", &printed.stdout);
        let printed_toml = tool::success(&["machine", "--file", file, "--toml"]);
        let machine = topology::file::parse_toml(&printed_toml, "again").expect("a machine");
        let json: serde_json::Value = serde_json::from_slice(&printed.stdout).expect("JSON");
        assert_eq!(Some(machine.cpus().len()), json["cpus"].as_array().map(Vec::len));
    }
    for shipped in ["hybrid-desktop", "xeon-2x4"] {
        let print = |file: &str, form: &str| tool::success(&["machine", "--file", file, form]);
        dir.write("box.json", print(shipped, "--json"));
        let (reprinted, before) = (print(file, "--toml"), print(shipped, "--toml"));
        assert_eq!(reprinted, before, "including core kinds and the kernel");
    }
}

#[test]
fn the_json_of_this_machine_has_every_list() {
    let output = tool::run(&["machine", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for list in ["nodes", "llcs", "cores", "cpus", "signals", "warnings"] {
        assert!(json[list].is_array(), "no {list}");
    }
    assert!(json["cpus"][0]["online"].is_boolean() && json["cores"][0]["cpus"].is_string());
    assert!(json["nodes"][0]["distances"].is_object() && json["placement"]["level"].is_string());
}

/// Lists the differences as text.
fn compare(name: &str, machine: &Machine, expected: &HwlocMachine) -> Vec<String> {
    let mut differences = Vec::new();
    let mut check_equal = |property: &str, read: String, exported: String| {
        if read != exported {
            differences.push(format!(
                "{name}: {property}:\n    evenkeel  {read}\n    hwloc     {exported}"
            ));
        }
    };
    let present: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    check_equal("present", present.to_string(), expected.present.to_string());
    check_equal("allowed", machine.allowed().to_string(), expected.usable.to_string());
    if !EXCEPTIONS.iter().any(|(machine, _)| *machine == name) {
        check_equal("cores", show(&cores(machine, expected)), show(&expected.cores));
    }
    check_equal("caches", format!("{:?}", llcs(machine, expected)), format!("{:?}", expected.llcs));
    check_equal(
        "nodes",
        format!("{:?}", nodes(machine, expected)),
        format!("{:?}", expected.nodes),
    );
    if !expected.distances.is_empty() {
        check_equal(
            "distances",
            format!("{:?}", distances(machine)),
            format!("{:?}", expected.distances),
        );
    }
    let (read, exported) = (kinds(machine, expected), hwloc_kinds(expected));
    if JOINED_KINDS.iter().any(|(machine, _)| *machine == name) {
        let joined = |read: &CpuSet| {
            exported
                .iter()
                .filter(|kind| kind.is_subset(read))
                .fold(CpuSet::new(), |all, kind| all.or(kind))
        };
        let joined: BTreeSet<CpuSet> = read.iter().map(joined).collect();
        check_equal("kinds, joined", show(&read), show(&joined));
    } else {
        check_equal("kinds", show(&read), show(&exported));
    }
    differences
}

fn show(sets: &BTreeSet<CpuSet>) -> String {
    sets.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" | ")
}

fn cores(machine: &Machine, expected: &HwlocMachine) -> BTreeSet<CpuSet> {
    let cores = machine.cores().iter().filter(|core| core.cpus.intersects(&expected.usable));
    cores.map(|core| core.cpus.clone()).collect()
}

fn llcs(machine: &Machine, expected: &HwlocMachine) -> BTreeSet<(CpuSet, Option<base::Bytes>)> {
    let llcs = machine.llcs().iter().filter(|llc| llc.cpus.intersects(&expected.usable));
    llcs.map(|llc| (llc.cpus.clone(), llc.size)).collect()
}

/// Returns the nodes in the cpuset of the recording process. The CPUs near a node without CPUs are taken from hwloc,
/// because the kernel does not report these CPUs.
fn nodes(
    machine: &Machine,
    expected: &HwlocMachine,
) -> BTreeMap<base::NodeId, (CpuSet, Option<base::Bytes>)> {
    let allowed = machine.nodes().iter().filter(|node| machine.nodes_allowed().contains(node.id));
    let nodes = allowed.map(|node| {
        let near = expected.nodes.get(&node.id).filter(|_| node.cpus.is_empty());
        (node.id, (near.map_or(node.cpus.clone(), |(cpus, _)| cpus.clone()), node.memory))
    });
    nodes.collect()
}

fn distances(machine: &Machine) -> BTreeMap<(base::NodeId, base::NodeId), u32> {
    let allowed = |id: &base::NodeId| machine.nodes_allowed().contains(*id);
    let from = machine.nodes().iter().filter(|node| allowed(&node.id));
    from.flat_map(|from| {
        let to = from.distances.iter().filter(|(to, _)| allowed(to));
        to.map(|(&to, &cost)| ((from.id, to), cost))
    })
    .collect()
}

fn kinds(machine: &Machine, expected: &HwlocMachine) -> BTreeSet<CpuSet> {
    let mut by_kind: BTreeMap<&str, CpuSet> = BTreeMap::new();
    for core in machine.cores() {
        by_kind.entry(&core.kind).or_default().extend(core.cpus.and(&expected.usable).iter());
    }
    by_kind.into_values().collect()
}

/// Returns the core kinds of hwloc. Without core kinds, all CPUs have the same kind.
fn hwloc_kinds(expected: &HwlocMachine) -> BTreeSet<CpuSet> {
    let kinds = expected.kinds.iter().cloned();
    if expected.kinds.is_empty() { [expected.usable.clone()].into() } else { kinds.collect() }
}

struct Unpacked {
    root: PathBuf,
    _dir: TempDir,
}

fn dir() -> PathBuf {
    tool::root().join("fixtures/machines")
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(dir()).expect("fixtures/machines exists").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|n| n.strip_suffix(".tar.bz2").map(str::to_owned)).collect();
    names.sort();
    assert!(19 <= names.len(), "recorded machines are missing: {names:?}");
    names
}

/// Unpacks the files that evenkeel reads. `tar::Archive::unpack` would make a dozen system calls for each small file.
fn unpack(name: &str) -> Unpacked {
    let dir = tempfile::tempdir().expect("a directory");
    let file = File::open(self::dir().join(format!("{name}.tar.bz2"))).expect(name);
    let mut archive = tar::Archive::new(bzip2::read::BzDecoder::new(file));
    let mut dirs = BTreeSet::new();
    for entry in archive.entries().expect(name) {
        let mut entry = entry.expect(name);
        let path = entry.path().expect(name).to_string_lossy().trim_end_matches('/').to_owned();
        if is_read(&path) {
            write(dir.path(), &path, &mut entry, &mut dirs);
        }
    }
    let mut inside = fs::read_dir(dir.path()).expect(name).flatten();
    let root = inside.next().expect("one directory").path();
    Unpacked { root, _dir: dir }
}

fn write(
    to: &Path,
    path: &str,
    entry: &mut tar::Entry<'_, impl Read>,
    dirs: &mut BTreeSet<PathBuf>,
) {
    let path = to.join(path);
    let kind = entry.header().entry_type();
    let dir = if kind.is_dir() { &path } else { path.parent().expect("a directory") };
    if dirs.insert(dir.to_owned()) {
        fs::create_dir_all(dir).expect("a directory");
    }
    if kind.is_symlink() {
        let target = entry.link_name().expect("a link").expect("with a target").into_owned();
        std::os::unix::fs::symlink(target, path).expect("a link");
    } else if !kind.is_dir() {
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the archive is complete");
        fs::write(path, bytes).expect("a file");
    }
}

/// Returns whether evenkeel reads a file of the archive: topology files, cpusets, and the files that locate the
/// cpusets.
fn is_read(path: &str) -> bool {
    let inside = path.split_once('/').map_or("", |(_, inside)| inside);
    let is_cpuset = inside.starts_with("dev/") || inside.starts_with("sys/fs/cgroup");
    let is_cpu =
        inside.strip_prefix("sys/devices/system/cpu/").is_some_and(|rest| !rest.contains('/'));
    let locates_cpusets = ["proc/mounts", "proc/self/cgroup", "proc/self/cpuset"].contains(&inside);
    // The mask files have the same contents, and the lists are a third of all files.
    let is_duplicate = inside.ends_with("_list");
    is_cpuset
        || is_cpu
        || locates_cpusets
        || (linux::topology::files::is_read(inside) && !is_duplicate)
}

#[test]
fn measured_accesses_between_nodes_are_in_the_machine_file_with_their_source() {
    if !Path::new("/sys/devices/system/node").is_dir() {
        println!("skipped: the kernel reports no nodes");
        return;
    }
    let dir = Dir::new();
    let toml = tool::success(&["machine", "--measure", "--for", "20ms", "--toml"]);
    dir.write("m.toml", &toml);
    let file = dir.success(&["machine", "--file", "m.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    let accesses = json["accesses"].as_array().expect("a list");
    assert!(!accesses.is_empty(), "{toml}");
    for access in accesses {
        for value in ["latency", "bandwidth"] {
            assert_eq!(access[value]["source"], "measured", "{access}");
        }
    }
}
