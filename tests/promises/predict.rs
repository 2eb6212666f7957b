//! Promise: `evenkeel predict` tells slow-downs and splits from files that anybody can write, says what it
//! assumed, and refuses what cannot be with one line.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

use crate::tool;

const SOLO: &str = "workloads/data/corun/solo.csv";
const PAIR: &str = "workloads/machines/corun-pair.toml";
const QUAD: &str = "workloads/machines/corun-quad.toml";

/// Runs it in the repository: exit status, standard output, standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let args = [&["predict"], args].concat();
    let output = tool::command(&args).current_dir(tool::root()).output().expect("it starts");
    (output.status.code(), tool::text(&output.stdout), tool::text(&output.stderr))
}

fn told(args: &[&str]) -> (String, String) {
    let (status, said, notes) = run(args);
    assert_eq!(status, Some(0), "{args:?}: {notes}");
    (said, notes)
}

fn json(args: &[&str]) -> Value {
    let (said, _) = told(&[args, &["--json"]].concat());
    serde_json::from_str(&said).expect("it is JSON")
}

fn slowdown(told: &Value, idx: usize) -> f64 {
    told["slowdowns"][idx]["slowdown"].as_f64().expect("a number")
}

#[test]
fn slow_downs_come_in_the_order_in_which_programs_were_named() {
    let names = ["stream", "xz", "perl", "xz"];
    let all = json(&[&["--machine", QUAD, "--programs", SOLO], &names[..]].concat());
    let order: Vec<&str> =
        (0..4).filter_map(|idx| all["slowdowns"][idx]["program"].as_str()).collect();
    assert_eq!(order, names);
    assert_eq!(slowdown(&all, 1), slowdown(&all, 3), "a program beside itself");
    assert!(all.get("split").is_none());
}

#[test]
fn the_pages_examples_are_what_is_printed() {
    let page = std::fs::read_to_string(tool::root().join("docs/predict.md")).expect("the page");
    let mut n_checked = 0;
    for block in page.split("```sh\nevenkeel predict ").skip(1) {
        let (command, rest) = block.split_once("\n```\n").expect("the end of the command");
        let Some(printed) = rest.strip_prefix("\n```text\n") else { continue };
        let printed = printed.split("```").next().expect("the end of what was printed");
        let args: Vec<&str> = command.split_whitespace().filter(|word| *word != "\\").collect();
        let (said, notes) = told(&args);
        assert_eq!(format!("{notes}{said}"), printed, "{command}");
        n_checked += 1;
    }
    assert!(2 <= n_checked, "{n_checked}");
}

#[test]
fn the_best_split_names_everybody_once() {
    let names = ["hmmsim", "stream", "bzip2", "xz"];
    let all =
        json(&[&["--machine", PAIR, "--programs", SOLO, "--domains", "2"], &names[..]].concat());
    let split = all["split"].as_array().expect("a list of domains");
    let mut there: Vec<&str> =
        split.iter().flat_map(|who| who.as_array().unwrap()).filter_map(Value::as_str).collect();
    there.sort_unstable();
    assert_eq!(there, ["bzip2", "hmmsim", "stream", "xz"]);
    assert_eq!(split.len(), 2);
    assert_eq!(all["split_found_by"], "exhaustive");
    assert_eq!(all["slowdowns"], serde_json::json!([]), "four do not fit on two CPUs");
    let each = all["split_slowdowns"].as_array().expect("each program");
    let sum: f64 = each.iter().filter_map(|its| its["slowdown"].as_f64()).sum();
    assert!((all["mean_slowdown"].as_f64().unwrap() - sum / 4.0).abs() < 1e-9);
}

/// A folder with the shipped files, in which some words are others.
fn changed(file: &str, from: &str, to: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(tool::root().join(file)).expect("the file");
    let other = text.replace(from, to);
    assert_ne!(text, other, "{from} is not in {file}");
    let path = folder.path().join(Path::new(file).file_name().expect("a name"));
    std::fs::write(&path, other).expect("it can be written");
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn what_a_machine_file_leaves_out_is_assumed_and_said() {
    let full = json(&["--machine", PAIR, "--programs", SOLO, "xz", "stream"]);
    for (from, to, expected, off) in [
        (
            "latency = { ns = 45, source = \"measured\" }, ",
            "",
            expect!["evenkeel: the machine has no latency for node 0: assumed 70 ns\n"],
            0.25,
        ),
        (
            "frequency = { mhz = 4000, source = \"assumed\" }",
            "",
            expect![
                "evenkeel: the machine has no frequency: computed 4.04 GHz from the programs' bandwidths\n"
            ],
            0.02,
        ),
        (
            "bytes_per_s = 12800000000",
            "bytes_per_s = 7700000000",
            expect![
                "evenkeel: stream alone moves 7.77 GB/s, more than the 4.67 GB/s derived from a peak of 7.70 GB/s: assumed 7.70 GB/s\n"
            ],
            0.08,
        ),
    ] {
        let (_folder, machine) = changed(PAIR, from, to);
        let args = ["--machine", &machine, "--programs", SOLO, "xz", "stream"];
        expected.assert_eq(&told(&args).1);
        let less = slowdown(&json(&args), 0) / slowdown(&full, 0);
        assert!((less - 1.0).abs() < off, "{from}: {less}");
    }
}

#[test]
fn a_profile_tells_a_program_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.profile.toml");
    let text = "version = 1\nname = \"mine\"\n[[phase]]\nshare = 1.0\ncycles_per_instruction = 1.2\n\
                llc_accesses_per_1000 = 20\n[phase.curve]\ncache_bytes = [131072, 1048576]\n\
                misses_per_1000 = [12, 4]\nwrite_backs_per_1000 = [3, 1]\n";
    std::fs::write(&path, text).expect("it can be written");
    let both = format!("{SOLO},{}", path.display());
    let all = json(&["--machine", PAIR, "--programs", &both, "mine", "stream"]);
    // 15 exposed misses of 165 ns at 4 GHz, 1.33 at a time, and half a cycle for the core: 8 for 1.2.
    assert!(5.0 < slowdown(&all, 0) && slowdown(&all, 0) < 7.0, "{all}");
    let bare = text.replace("cycles_per_instruction = 1.2\n", "");
    std::fs::write(&path, bare).expect("it can be written");
    let (status, _, said) = run(&["--machine", PAIR, "--programs", &both, "mine"]);
    assert_eq!(status, Some(2));
    let said = said.replace(&path.display().to_string(), "FILE");
    expect!["evenkeel: FILE: program mine: it has neither core_cycles_per_instruction nor cycles_per_instruction; set one\n"].assert_eq(&said);
}

/// A machine of two domains with memories of their own, of so many MiB of cache each.
fn two_domains(folder: &TempDir, mib: [u64; 2]) -> String {
    let text = format!(
        "format_version = 1
nodes = [{{ id = 0, cpus = \"0-1\" }}, {{ id = 1, cpus = \"2-3\" }}]
llcs = [
  {{ id = 0, cpus = \"0-1\", node = 0, size_bytes = {} }},
  {{ id = 1, cpus = \"2-3\", node = 1, size_bytes = {} }},
]
cores = [{{ id = 0, cpus = \"0\" }}, {{ id = 1, cpus = \"1\" }}, {{ id = 2, cpus = \"2\" }}, {{ id = 3, cpus = \"3\" }}]
cpus = [{{ id = 0 }}, {{ id = 1 }}, {{ id = 2 }}, {{ id = 3 }}]
accesses = [
  {{ from_node = 0, to_node = 0, latency = {{ ns = 45, source = \"measured\" }}, bandwidth = {{ bytes_per_s = 12800000000, source = \"assumed\" }} }},
  {{ from_node = 1, to_node = 1, latency = {{ ns = 45, source = \"measured\" }}, bandwidth = {{ bytes_per_s = 12800000000, source = \"assumed\" }} }},
]
core_kinds = [{{ kind = \"uniform\", frequency = {{ mhz = 4000, source = \"assumed\" }} }}]
",
        mib[0] << 20,
        mib[1] << 20
    );
    let path = folder.path().join("two.toml");
    std::fs::write(&path, text).expect("it can be written");
    path.display().to_string()
}

#[test]
fn a_small_domain_is_not_for_free() {
    let folder = tempfile::tempdir().expect("a folder");
    for (mib, roomy) in [([2, 1], 0), ([1, 2], 1)] {
        let machine = two_domains(&folder, mib);
        let args =
            ["--machine", &machine, "--programs", SOLO, "--domains", "2", "hmmsim", "hmmsim"];
        let all = json(&args);
        let (of, slow) = (&all["split_slowdowns"], |its: &Value| its["slowdown"].as_f64().unwrap());
        let (well, badly) =
            if of[0]["domain"] == roomy { (&of[0], &of[1]) } else { (&of[1], &of[0]) };
        assert!((slow(well) - 1.0).abs() < 1e-9, "{all}");
        // Nobody is beside it, but of 1 MiB it gets 0.7409 instructions in a cycle and of 2 MiB 0.7494.
        assert!((slow(badly) - 0.7494 / 0.7409).abs() < 1e-3, "{all}");
        expect!["evenkeel: the LLC domains differ: in the split, slowdowns are relative to a program alone on its fastest domain\n"].assert_eq(&told(&args).1);
    }
    let alike = two_domains(&folder, [1, 1]);
    let args = ["--machine", &alike, "--programs", SOLO, "--domains", "2", "hmmsim", "hmmsim"];
    assert_eq!(told(&args).1, "");
}

#[test]
fn tables_from_other_systems_say_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(tool::root().join(SOLO)).expect("the table");
    let each = |of: &dyn Fn(Vec<&str>) -> String| -> String {
        text.lines().map(|line| of(line.split(',').collect()) + "\n").collect()
    };
    let expected = told(&["--machine", PAIR, "--programs", SOLO, "hmmsim", "stream"]);
    for (name, table) in [
        ("crlf", format!("{}\r\n\r\n", text.trim().replace('\n', "\r\n"))),
        ("mark", format!("\u{feff}{text}\n  \n,,,\n")),
        ("quoted", each(&|cells| format!("\"{}\"", cells.join("\",\"")))),
        ("turned", each(&|cells| cells.into_iter().rev().collect::<Vec<_>>().join(" , "))),
    ] {
        let path = folder.path().join(format!("{name}.csv"));
        std::fs::write(&path, table).expect("it can be written");
        let path = path.display().to_string();
        let said = told(&["--machine", PAIR, "--programs", &path, "hmmsim", "stream"]);
        assert_eq!(said, expected, "{name}");
    }
}

#[test]
fn without_a_column_for_writes_bandwidths_tell_them() {
    let (_folder, solo) = changed(SOLO, "dram_write_lines_pki", "other");
    let of = |table: &str| json(&["--machine", PAIR, "--programs", table, "hmmsim", "bwaindex"]);
    let (full, less) = (of(SOLO), of(&solo));
    for idx in 0..2 {
        let off = slowdown(&less, idx) / slowdown(&full, idx) - 1.0;
        assert!(off.abs() < 0.03, "{full} {less}");
    }
    assert!(
        less["notes"][0].as_str().unwrap().contains("assumed that the bandwidth dram_gbs"),
        "{less}"
    );
}

#[test]
fn a_cache_that_is_far_larger_than_a_program_needs_never_starves_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.csv");
    std::fs::write(&path, "program,llc_kib,ipc,llc_apki,llc_mpki\nsmall,128,2,30,0\n").unwrap();
    let both = format!("{SOLO},{}", path.display());
    for mib in [8, 32, 256] {
        let machine = two_domains(&folder, [mib, mib]);
        let all = json(&["--machine", &machine, "--programs", &both, "small", "stream"]);
        assert!(slowdown(&all, 0) < 1.05, "{mib} MiB: {all}");
    }
}

fn refused(args: &[&str], expected: Expect) {
    let (status, said, line) = run(args);
    assert_eq!((status, said.as_str()), (Some(2), ""), "{args:?}: {line}");
    let folder = std::env::temp_dir().display().to_string();
    let line = line.split(' ').map(|word| match word.strip_prefix(&folder) {
        Some(rest) => format!("FOLDER/{}", rest.rsplit('/').next().unwrap_or(rest)),
        None => word.to_owned(),
    });
    expected.assert_eq(&line.collect::<Vec<_>>().join(" "));
}

fn refused_table(from: &str, to: &str, expected: Expect) {
    let (_folder, solo) = changed(SOLO, from, to);
    refused(&["--machine", PAIR, "--programs", &solo, "xz"], expected);
}

fn refused_machine(from: &str, to: &str, expected: Expect) {
    let (_folder, machine) = changed(PAIR, from, to);
    refused(&["--machine", &machine, "--programs", SOLO, "xz"], expected);
}

#[test]
fn programs_that_cannot_be_are_refused_with_their_place() {
    refused_table(
        "bzip2,512,1207101,1261092,0.9572",
        "bzip2,512,1207101,1261092,fast",
        expect![[r#"
            evenkeel: FOLDER/solo.csv:19:27: ipc is "fast"; write a number from 0
        "#]],
    );
    refused_table(
        "perl,128,1445782,1140116,1.2681",
        "perl,128,1445782,1140116,0",
        expect![[r#"
            evenkeel: FOLDER/solo.csv:22:26: the value is 0; write instructions per cycle
        "#]],
    );
    refused_table(
        "llc_mpki",
        "llc_misses",
        expect![[r#"
        evenkeel: FOLDER/solo.csv:1:1: there is no column "llc_mpki"; the columns are program, llc_kib, instructions, cycles, ipc, demand_apki, demand_mpki, llc_apki, llc_misses, llc_writeback_pki, dram_read_lines_pki, dram_write_lines_pki, dram_gbs
    "#]],
    );
    refused_table(
        "5.0261",
        "7.0261",
        expect![[r#"
        evenkeel: FOLDER/solo.csv:7:1: program xz: misses rise from 512 KiB to 1024 KiB of cache
    "#]],
    );
    refused_table(
        "xz,256,",
        "xz,512,",
        expect![[r#"
        evenkeel: FOLDER/solo.csv:7:1: program xz: 512 KiB is defined twice
    "#]],
    );
    refused_table(
        "xz,128,535532,",
        "xz,128,",
        expect![[r#"
        evenkeel: FOLDER/solo.csv:7:1: 12 cells, 13 in the header
    "#]],
    );
}

#[test]
fn machines_that_cannot_be_are_refused() {
    refused_machine(
        "llcs = [",
        "# llcs = [",
        expect![[r#"
        evenkeel: FOLDER/corun-pair.toml: the machine has no last-level cache; write llcs = [{ id = 0, cpus = "0-1", node = 0, size_bytes = 1048576 }]
    "#]],
    );
    refused_machine(
        ", bandwidth = { bytes_per_s = 12800000000, source = \"assumed\" }",
        "",
        expect![[r#"
            evenkeel: FOLDER/corun-pair.toml: the machine has no bandwidth for the memory of the last-level cache 0; write accesses = [{ from_node = 0, to_node = 0, bandwidth = { bytes_per_s = 12800000000, source = "assumed" } }]
        "#]],
    );
    refused_machine(
        "size_bytes = 1048576, ",
        "",
        expect![[r#"
        evenkeel: FOLDER/corun-pair.toml: the last-level cache 0 has no size; write size_bytes
    "#]],
    );
    refused_machine(
        "bytes_per_s = 12800000000",
        "bytes_per_s = 12.8e9",
        expect![[r#"
        evenkeel: FOLDER/corun-pair.toml:12:105: bytes_per_s: must be an integer from 0, not a decimal number
    "#]],
    );
}

#[test]
fn wishes_that_make_no_sense_are_refused() {
    let ask = |more: &[&str], expected: Expect| {
        refused(&[&["--machine", PAIR, "--programs", SOLO], more].concat(), expected);
    };
    ask(
        &["steam"],
        expect![[r#"
        evenkeel: no file tells of a program "steam"; did you mean "stream"?
    "#]],
    );
    ask(
        &["qqq"],
        expect![[r#"
        evenkeel: no file tells of a program "qqq"; known are bwaindex, xz, hmmsim, bzip2, perl, stream
    "#]],
    );
    ask(
        &["xz", "perl", "stream"],
        expect![[r#"
        evenkeel: 3 programs are more than the 2 CPUs of the first LLC domain; leave some out, or ask for more domains with --domains
    "#]],
    );
    ask(
        &["xz", "perl", "stream", "--domains", "1"],
        expect![[r#"
        evenkeel: 3 programs are more than the 2 CPUs of 1 LLC domain
    "#]],
    );
    ask(
        &["xz", "--domains", "0"],
        expect![[r#"
        evenkeel: invalid value '0' for '--domains <N>': write an integer from 1 to 1024; see evenkeel --help
    "#]],
    );
    ask(
        &["xz", "--domains", "-1"],
        expect![[r#"
        evenkeel: invalid value '-1' for '--domains <N>': write an integer from 1 to 1024; see evenkeel --help
    "#]],
    );
    ask(
        &[],
        expect![[r#"
        evenkeel: the following required arguments were not provided: (<NAME>...); see evenkeel --help
    "#]],
    );
    refused(
        &["--machine", PAIR, "--programs", "nowhere.csv", "xz"],
        expect![[r#"
        evenkeel: cannot read the programs file nowhere.csv: No such file or directory (os error 2)
    "#]],
    );
    let twice = format!("{SOLO},{SOLO}");
    refused(
        &["--machine", PAIR, "--programs", &twice, "xz"],
        expect![[r#"
        evenkeel: program bwaindex is in workloads/data/corun/solo.csv and in workloads/data/corun/solo.csv; remove one of them
    "#]],
    );
}
