//! Promise: `evenkeel machine` sees recorded machines as they are, the odd ones too.
//!
//! `fixtures/machines` holds the `/sys` and `/proc` of machines and what hwloc reads from them. The two
//! must agree, but for the few differences in [`EXCEPTIONS`], each with its reason, and two habits of
//! hwloc: it leaves out what the recorder was not allowed to use, and it gives a node without CPUs
//! those that are near it. What evenkeel prints for each machine is kept under `golden/`; after a
//! wanted change, `UPDATE_EXPECT=1 cargo test -p tests machines` writes it anew.

mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base::CpuSet;
use tempfile::TempDir;
use topology::Machine;

use self::truth::Truth;
use crate::tool;

/// What may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fact {
    Cores,
}

/// Where evenkeel means to say something else than hwloc.
const EXCEPTIONS: [(&str, Fact, &str); 1] = [(
    "4fake-4gr1nu1pu",
    Fact::Cores,
    "its topology folders name packages only: hwloc knows no cores then, for us a CPU is one",
)];

/// One test for both claims, since unpacking is most of the work.
#[test]
fn recorded_machines_are_what_hwloc_says_and_are_printed_as_before() {
    let (mut faults, mut n_compared) = (Vec::new(), 0);
    for name in names() {
        let unpacked = unpack(&name);
        if let Some(truth) = truth(&name) {
            let machine = linux::topology::read(&unpacked.root).expect(&name);
            faults.extend(compare(&name, &machine, &truth));
            n_compared += 1;
        }
        check_printed(&name, &unpacked.root);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(19 <= n_compared, "only {n_compared} machines could be compared");
}

/// Machines that were recorded with our own chore have no word of hwloc beside them.
fn truth(name: &str) -> Option<Truth> {
    let xml = fs::read_to_string(folder().join(format!("{name}.lstopo.xml")));
    xml.ok().map(|xml| Truth::parse(&xml))
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
        let golden = folder().join("golden").join(format!("{name}.{ending}"));
        expect_test::expect_file![golden].assert_eq(&printed);
    }
}

#[test]
fn a_machine_that_is_none_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |args: &[&str], expected: expect_test::Expect| {
        let output = tool::command(args).current_dir(folder.path()).output().expect("it starts");
        let said = tool::text(&output.stderr);
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(2), [].as_slice()),
            "{said}"
        );
        expected.assert_eq(&said);
    };
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    fs::create_dir(folder.path().join("empty")).expect("made");
    write(
        "twice.toml",
        "format_version = 1\nnodes = [\n  { id = 0, cpus = \"0\" },\n  { id = 1, cpus = \"0\" },\n]\ncpus = [{ id = 0 }]\n",
    );
    write("typo.toml", "format_version = 1\ncpus = [\n  { id = 0, onlin = true },\n]\n");
    check(
        &["machine", "--root", "nowhere"],
        expect_test::expect![[r#"
        evenkeel: nowhere is not a folder; name one that contains sys and proc of a machine
    "#]],
    );
    check(
        &["machine", "--root", "empty"],
        expect_test::expect![[r#"
        evenkeel: empty has neither sys/devices/system/cpu nor proc/cpuinfo; name a folder that contains sys and proc of a machine
    "#]],
    );
    check(
        &["machine", "--root", "typo.toml"],
        expect_test::expect![[r#"
        evenkeel: typo.toml is not a folder; name one that contains sys and proc of a machine
    "#]],
    );
    check(
        &["machine", "--synthetic", "nodes=2 cors=4"],
        expect_test::expect![[r#"
        evenkeel: --synthetic: unknown key "cors"; did you mean "cores"?
    "#]],
    );
    check(
        &["machine", "--synthetic", "nodes=0"],
        expect_test::expect![[r#"
        evenkeel: --synthetic: nodes=0: write an integer from 1 to 1024
    "#]],
    );
    check(
        &["machine", "--file", "twice.toml"],
        expect_test::expect![[r#"
            evenkeel: twice.toml:4:20: cpus: cpu0 belongs to node0 and to node1
        "#]],
    );
    check(
        &["machine", "--file", "typo.toml"],
        expect_test::expect![[r#"
        evenkeel: typo.toml:3:13: unknown key "onlin"; did you mean "online"?
    "#]],
    );
    check(
        &["machine", "--file", "none.toml"],
        expect_test::expect![[r#"
            evenkeel: cannot read the machine file none.toml: No such file or directory (os error 2)
        "#]],
    );
    check(
        &["machine", "--json", "--toml"],
        expect_test::expect![[r#"
        evenkeel: the argument '--json' cannot be used with '--toml'; see evenkeel --help
    "#]],
    );
}

#[test]
fn a_machine_file_shows_the_machine_that_it_was_written_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("box.toml");
    let run = |args: &[&str]| {
        let output = tool::run(args);
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
        tool::text(&output.stdout)
    };
    let synthetic = ["machine", "--synthetic", "nodes=2 llcs=2 cores=4 smt=2"];
    fs::write(&path, run(&[&synthetic[..], &["--toml"]].concat())).expect("written");
    let file = ["machine", "--file", path.to_str().expect("UTF-8")];
    assert_eq!(run(&file), run(&synthetic));
    assert_eq!(
        run(&[&file[..], &["--json"]].concat()),
        run(&[&synthetic[..], &["--json"]].concat())
    );
}

#[test]
fn a_machine_is_read_from_the_json_that_was_printed_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("box.json");
    let file = path.to_str().expect("UTF-8");
    let synthetic = ["machine", "--synthetic", "nodes=2 llcs=2 cores=4 smt=2"];
    for args in [&synthetic[..], &["machine"]] {
        let printed = tool::run(&[args, &["--json"]].concat());
        fs::write(&path, &printed.stdout).expect("written");
        let again = tool::run(&["machine", "--file", file, "--toml"]);
        assert!(again.status.success(), "{}", tool::text(&again.stderr));
        let machine = topology::file::parse_toml(&tool::text(&again.stdout), "again").expect("one");
        let json: serde_json::Value = serde_json::from_slice(&printed.stdout).expect("JSON");
        assert_eq!(Some(machine.cpus().len()), json["cpus"].as_array().map(Vec::len));
    }
    for shipped in ["hybrid-desktop", "xeon-2x4"] {
        let told = |file: &str, form: &str| tool::run(&["machine", "--file", file, form]).stdout;
        fs::write(&path, told(shipped, "--json")).expect("written");
        let (again, before) = (told(file, "--toml"), told(shipped, "--toml"));
        assert_eq!(tool::text(&again), tool::text(&before), "kinds of cores and the kernel too");
    }
    for (text, words) in [
        ("{\"format_version\": 1}", "box.json:1:21: cpus is missing"),
        ("{\"format_version\": 1, \"cpus\": 3}", "box.json:1:31: must be an array"),
        ("{\"format_version\": 1, \"cpus\": []}", "no CPU online"),
        ("{", "box.json:1:1"),
    ] {
        fs::write(&path, text).expect("written");
        let refused = tool::run(&["machine", "--file", file]);
        let said = tool::text(&refused.stderr);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[test]
fn machine_files_that_are_no_text_or_have_no_end_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("box\u{1b}[31m.toml");
    fs::write(&path, b"# \xff\n").expect("written");
    for (file, words) in [
        (path.to_str().expect("UTF-8"), ":1:3: the file is not UTF-8 text"),
        ("/dev/zero", "larger than 64 MiB"),
    ] {
        let refused = tool::run(&["machine", "--file", file]);
        let said = tool::text(&refused.stderr);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(words) && !said.contains('\u{1b}'), "{said:?}");
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

/// The differences, in words.
fn compare(name: &str, machine: &Machine, truth: &Truth) -> Vec<String> {
    let mut faults = Vec::new();
    let mut same = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            faults.push(format!("{name}: {what}:\n    ours   {ours}\n    hwloc  {theirs}"));
        }
    };
    let present: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    same("present", present.to_string(), truth.present.to_string());
    same("allowed", machine.allowed().to_string(), truth.usable.to_string());
    if !is_exception(name, Fact::Cores) {
        same("cores", show(&cores(machine, truth)), show(&truth.cores));
    }
    same("caches", format!("{:?}", llcs(machine, truth)), format!("{:?}", truth.llcs));
    same("nodes", format!("{:?}", nodes(machine, truth)), format!("{:?}", truth.nodes));
    if !truth.distances.is_empty() {
        same("distances", format!("{:?}", distances(machine)), format!("{:?}", truth.distances));
    }
    let (ours, theirs) = (kinds(machine, truth), truth_kinds(truth));
    same("kinds", show(&ours), show(&theirs));
    faults
}

fn is_exception(name: &str, fact: Fact) -> bool {
    EXCEPTIONS.iter().any(|(machine, excepted, _)| *machine == name && *excepted == fact)
}

fn show(sets: &BTreeSet<CpuSet>) -> String {
    sets.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" | ")
}

fn cores(machine: &Machine, truth: &Truth) -> BTreeSet<CpuSet> {
    let cores = machine.cores().iter().filter(|core| core.cpus.intersects(&truth.usable));
    cores.map(|core| core.cpus.clone()).collect()
}

fn llcs(machine: &Machine, truth: &Truth) -> BTreeSet<(CpuSet, Option<base::Bytes>)> {
    let llcs = machine.llcs().iter().filter(|llc| llc.cpus.intersects(&truth.usable));
    llcs.map(|llc| (llc.cpus.clone(), llc.size)).collect()
}

/// Nodes that the recorder was allowed to use. For a node without CPUs hwloc's word on who is near it
/// is taken over, since the kernel says nothing to compare it with.
fn nodes(
    machine: &Machine,
    truth: &Truth,
) -> BTreeMap<base::NodeId, (CpuSet, Option<base::Bytes>)> {
    let allowed = machine.nodes().iter().filter(|node| machine.nodes_allowed().contains(node.id));
    let told = allowed.map(|node| {
        let near = truth.nodes.get(&node.id).filter(|_| node.cpus.is_empty());
        (node.id, (near.map_or(node.cpus.clone(), |(cpus, _)| cpus.clone()), node.memory))
    });
    told.collect()
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

fn kinds(machine: &Machine, truth: &Truth) -> BTreeSet<CpuSet> {
    let mut by_kind: BTreeMap<&str, CpuSet> = BTreeMap::new();
    for core in machine.cores() {
        by_kind.entry(&core.kind).or_default().extend(core.cpus.and(&truth.usable).iter());
    }
    by_kind.into_values().collect()
}

/// Where hwloc tells no kinds, all CPUs are of one.
fn truth_kinds(truth: &Truth) -> BTreeSet<CpuSet> {
    let told = truth.kinds.iter().cloned();
    if truth.kinds.is_empty() { [truth.usable.clone()].into() } else { told.collect() }
}

struct Unpacked {
    root: PathBuf,
    _keeper: TempDir,
}

fn folder() -> PathBuf {
    tool::root().join("fixtures/machines")
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("fixtures/machines is there").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|n| n.strip_suffix(".tar.bz2").map(str::to_owned)).collect();
    names.sort();
    assert!(19 <= names.len(), "recorded machines are missing: {names:?}");
    names
}

/// Into a folder of its own; what no reader of ours looks at (devices, huge pages) is left packed.
/// Written by hand: the archive's own unpacking asks the kernel a dozen things for each small file.
fn unpack(name: &str) -> Unpacked {
    let keeper = tempfile::tempdir().expect("a folder");
    let file = File::open(folder().join(format!("{name}.tar.bz2"))).expect(name);
    let mut archive = tar::Archive::new(bzip2::read::BzDecoder::new(file));
    let mut folders = BTreeSet::new();
    for entry in archive.entries().expect(name) {
        let mut entry = entry.expect(name);
        let path = entry.path().expect(name).to_string_lossy().trim_end_matches('/').to_owned();
        if is_read(&path) {
            write(keeper.path(), &path, &mut entry, &mut folders);
        }
    }
    let mut inside = fs::read_dir(keeper.path()).expect(name).flatten();
    let root = inside.next().expect("one folder").path();
    Unpacked { root, _keeper: keeper }
}

fn write(
    to: &Path,
    path: &str,
    entry: &mut tar::Entry<'_, impl Read>,
    folders: &mut BTreeSet<PathBuf>,
) {
    let path = to.join(path);
    let kind = entry.header().entry_type();
    let folder = if kind.is_dir() { &path } else { path.parent().expect("a folder") };
    if folders.insert(folder.to_owned()) {
        fs::create_dir_all(folder).expect("a folder");
    }
    if kind.is_symlink() {
        let target = entry.link_name().expect("a link").expect("with a target").into_owned();
        std::os::unix::fs::symlink(target, path).expect("a link");
    } else if !kind.is_dir() {
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the archive is whole");
        fs::write(path, bytes).expect("a file");
    }
}

/// Folders are few; of files those that a recording needs, and cpusets with the way to them.
fn is_read(path: &str) -> bool {
    let inside = path.split_once('/').map_or("", |(_, inside)| inside);
    let is_cpuset = inside.starts_with("dev/") || inside.starts_with("sys/fs/cgroup");
    let is_cpu =
        inside.strip_prefix("sys/devices/system/cpu/").is_some_and(|rest| !rest.contains('/'));
    let is_way = ["proc/mounts", "proc/self/cgroup", "proc/self/cpuset"].contains(&inside);
    // The masks beside them say the same, and these are a third of all files.
    let is_double = inside.ends_with("_list");
    is_cpuset || is_cpu || is_way || (linux::topology::files::is_read(inside) && !is_double)
}
