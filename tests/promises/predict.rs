//! `evenkeel predict` computes slowdowns and assignments from files of the user, prints its assumptions, and rejects
//! invalid files with one line.

use std::path::Path;

use expect_test::expect;
use serde_json::Value;
use tests::dir::Dir;
use tests::{tool, transcript};

const SOLO: &str = "workloads/data/corun/solo.csv";
const PAIR: &str = "workloads/machines/corun-pair.toml";
const QUAD: &str = "workloads/machines/corun-quad.toml";

fn command(args: &[&str]) -> std::process::Command {
    let mut command = tool::command(&[&["predict"], args].concat());
    command.current_dir(tool::root());
    command
}

/// Runs `evenkeel predict`. Returns standard output and standard error.
fn predict(args: &[&str]) -> (String, String) {
    let output = command(args).output().expect("it starts");
    let notes = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {notes}");
    (tool::text(&output.stdout), notes)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&predict(&[args, &["--json"]].concat()).0).expect("JSON")
}

fn slowdown(output: &Value, idx: usize) -> f64 {
    output["slowdowns"][idx]["slowdown"].as_f64().expect("a number")
}

#[test]
fn slowdowns_are_in_the_order_of_the_arguments() {
    let names = ["stream", "xz", "perl", "xz"];
    let all = json(&[&["--machine", QUAD, "--programs", SOLO], &names[..]].concat());
    let order: Vec<&str> =
        (0..4).filter_map(|idx| all["slowdowns"][idx]["program"].as_str()).collect();
    assert_eq!(order, names);
    assert_eq!(slowdown(&all, 1), slowdown(&all, 3), "the same program twice");
    assert!(all.get("assignment").is_none());
}

#[test]
fn the_examples_of_the_page_are_the_current_output() {
    let page = std::fs::read_to_string(tool::root().join("docs/predict.md")).expect("the page");
    let mut n_checked = 0;
    for block in page.split("```sh\nevenkeel predict ").skip(1) {
        let (command, rest) = block.split_once("\n```\n").expect("the end of the command");
        let Some(printed) = rest.strip_prefix("\n```text\n") else { continue };
        let printed = printed.split("```").next().expect("the end of the output");
        let args: Vec<&str> = command.split_whitespace().filter(|word| *word != "\\").collect();
        let (text, notes) = predict(&args);
        assert_eq!(format!("{notes}{text}"), printed, "{command}");
        n_checked += 1;
    }
    assert!(2 <= n_checked, "{n_checked}");
}

#[test]
fn the_best_assignment_has_every_program_once() {
    let names = ["hmmsim", "stream", "bzip2", "xz"];
    let all =
        json(&[&["--machine", PAIR, "--programs", SOLO, "--domains", "2"], &names[..]].concat());
    let split = all["assignment"].as_array().expect("a list of domains");
    let mut programs: Vec<&str> = split
        .iter()
        .flat_map(|domain| domain.as_array().unwrap())
        .filter_map(Value::as_str)
        .collect();
    programs.sort_unstable();
    assert_eq!(programs, ["bzip2", "hmmsim", "stream", "xz"]);
    assert_eq!(split.len(), 2);
    assert_eq!(all["assignment_found_by"], "exhaustive");
    assert_eq!(all["slowdowns"], serde_json::json!([]), "four do not fit on two CPUs");
    let each = all["assignment_slowdowns"].as_array().expect("each program");
    let sum: f64 = each.iter().filter_map(|row| row["slowdown"].as_f64()).sum();
    assert!((all["mean_slowdown"].as_f64().unwrap() - sum / 4.0).abs() < 1e-9);
}

/// Creates a directory with a copy of a shipped file in which `from` is replaced by `to`. Returns the path of the copy.
fn changed(file: &str, from: &str, to: &str) -> (Dir, String) {
    let dir = Dir::new();
    let text = std::fs::read_to_string(tool::root().join(file)).expect("the file");
    assert!(text.contains(from), "{from} is not in {file}");
    let name = Path::new(file).file_name().expect("a name").to_string_lossy();
    dir.write(&name, text.replace(from, to));
    let path = dir.arg(&name);
    (dir, path)
}

#[test]
fn missing_values_of_a_machine_file_are_assumed_and_reported() {
    let full = json(&["--machine", PAIR, "--programs", SOLO, "xz", "stream"]);
    for (from, to, expected, off) in [
        (
            "latency = { ns = 45, source = \"measured\" }, ",
            "",
            expect![[r#"
            evenkeel: assumed values that the machine file does not have: 90 ns for a miss to local memory
        "#]],
            0.35,
        ),
        (
            ", bandwidth = { bytes_per_s = 12800000000, source = \"assumed\" }",
            "",
            expect![[r#"
            evenkeel: assumed values that the machine file does not have: 8 GB/s of memory bandwidth for each core
        "#]],
            0.3,
        ),
        (
            " size_bytes = 1048576,",
            "",
            expect![[r#"
            evenkeel: assumed values that the machine file does not have: 1.0 MiB for each last-level cache
        "#]],
            0.01,
        ),
        (
            "frequency = { mhz = 4000, source = \"assumed\" }, ",
            "",
            expect![
                "evenkeel: assumed values that the machine file does not have: 4.04 GHz for the fastest cores, computed from the bandwidths of the programs\n"
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
        let (_dir, machine) = changed(PAIR, from, to);
        let args = ["--machine", &machine, "--programs", SOLO, "xz", "stream"];
        expected.assert_eq(&predict(&args).1);
        let less = slowdown(&json(&args), 0) / slowdown(&full, 0);
        assert!((less - 1.0).abs() < off, "{from}: {less}");
    }
}

#[test]
fn a_profile_can_describe_a_program() {
    let dir = Dir::new();
    let text = "version = 2\nname = \"mine\"\n[[phase]]\nshare = 1.0\ncycles_per_instruction = 1.2\n\
                llc_accesses_per_1000 = 20\n[phase.curve]\ncache_bytes = [131072, 1048576]\n\
                misses_per_1000 = [12, 4]\nwrite_backs_per_1000 = [3, 1]\n";
    dir.write("mine.profile.toml", text);
    let path = dir.arg("mine.profile.toml");
    let both = format!("{SOLO},{path}");
    let all = json(&["--machine", PAIR, "--programs", &both, "mine", "stream"]);
    // Per 1000 instructions, 15 exposed misses of 165 ns at 4 GHz with an MLP of 1.33 take 7400 cycles, and the core
    // 500 cycles. Alone, 1000 instructions take 1200 cycles. The slowdown is about 6.6.
    assert!(5.0 < slowdown(&all, 0) && slowdown(&all, 0) < 7.0, "{all}");
    let bare = text.replace("cycles_per_instruction = 1.2\n", "");
    dir.write("mine.profile.toml", bare);
    let line = tool::rejection(&mut command(&["--machine", PAIR, "--programs", &both, "mine"]));
    let line = line.replace(&path, "FILE");
    expect!["evenkeel: FILE: program mine: it has neither core_cycles_per_instruction nor cycles_per_instruction; set one\n"].assert_eq(&line);
}

/// Returns a machine with two LLC domains, each on a separate node. `mib` are the cache sizes.
fn two_domains(dir: &Dir, mib: [u64; 2]) -> String {
    let memory = "latency = { ns = 45, source = \"measured\" }, bandwidth = { bytes_per_s = 12800000000, source = \"assumed\" }, achievable = { permille = 607, source = \"measured\" }, loaded_latency = { utilization_permille = [0, 1000], latency_permille = [1000, 2220], source = \"measured\" }";
    let text = format!(
        "format_version = 2
nodes = [
  {{ id = 0, cpus = \"0-1\", memory_bytes = 1073741824, distances = {{ 0 = 10, 1 = 20 }} }},
  {{ id = 1, cpus = \"2-3\", memory_bytes = 1073741824, distances = {{ 0 = 20, 1 = 10 }} }},
]
llcs = [
  {{ id = 0, cpus = \"0-1\", node = 0, size_bytes = {}, latency = {{ ns = 8, source = \"assumed\" }} }},
  {{ id = 1, cpus = \"2-3\", node = 1, size_bytes = {}, latency = {{ ns = 8, source = \"assumed\" }} }},
]
cores = [{{ id = 0, cpus = \"0\" }}, {{ id = 1, cpus = \"1\" }}, {{ id = 2, cpus = \"2\" }}, {{ id = 3, cpus = \"3\" }}]
cpus = [{{ id = 0 }}, {{ id = 1 }}, {{ id = 2 }}, {{ id = 3 }}]
accesses = [
  {{ from_node = 0, to_node = 0, {memory} }},
  {{ from_node = 1, to_node = 1, {memory} }},
  {{ from_node = 0, to_node = 1, latency = {{ ns = 90, source = \"assumed\" }} }},
  {{ from_node = 1, to_node = 0, latency = {{ ns = 90, source = \"assumed\" }} }},
]
core_kinds = [{{ frequency = {{ mhz = 4000, source = \"assumed\" }}, max_outstanding_misses = {{ count = 16, source = \"assumed\" }} }}]
",
        mib[0] << 20,
        mib[1] << 20
    );
    dir.write("two.toml", text);
    dir.arg("two.toml")
}

#[test]
fn a_smaller_domain_slows_a_program_that_is_alone_on_it() {
    let dir = Dir::new();
    for (mib, roomy) in [([2, 1], 0), ([1, 2], 1)] {
        let machine = two_domains(&dir, mib);
        let args =
            ["--machine", &machine, "--programs", SOLO, "--domains", "2", "hmmsim", "hmmsim"];
        let all = json(&args);
        let rows = &all["assignment_slowdowns"];
        let slow = |row: &Value| row["slowdown"].as_f64().expect("a number");
        let (well, badly) =
            if rows[0]["domain"] == roomy { (&rows[0], &rows[1]) } else { (&rows[1], &rows[0]) };
        assert!((slow(well) - 1.0).abs() < 1e-9, "{all}");
        // The IPC of the program alone is 0.7409 with 1 MiB and 0.7494 with 2 MiB.
        assert!((slow(badly) - 0.7494 / 0.7409).abs() < 1e-3, "{all}");
        expect!["evenkeel: the LLC domains differ: the slowdowns of the placement are relative to a program alone on its fastest domain\n"].assert_eq(&predict(&args).1);
    }
    let equal = two_domains(&dir, [1, 1]);
    let args = ["--machine", &equal, "--programs", SOLO, "--domains", "2", "hmmsim", "hmmsim"];
    assert_eq!(predict(&args).1, "");
}

#[test]
fn more_programs_than_cores_in_a_domain_of_an_assignment_are_reported() {
    let dir = Dir::new();
    let shape = ["machine", "--synthetic", "nodes=1 llcs=1 cores=2 smt=2", "--toml"];
    dir.write("smt.toml", tool::command(&shape).output().expect("it starts").stdout);
    let machine = dir.arg("smt.toml");
    let notes = |names: &[&str]| {
        let args = ["--machine", &machine, "--programs", SOLO, "--domains", "2"];
        let notes = predict(&[&args, names].concat()).1;
        let of_siblings = notes.lines().filter(|note| note.contains("SMT siblings is"));
        of_siblings.map(|note| format!("{note}\n")).collect::<String>()
    };
    let five = ["hmmsim", "hmmsim", "xz", "perl", "stream"];
    assert_eq!(
        notes(&five),
        "evenkeel: the assignment has more programs than cores in domain 0: contention between SMT siblings is not included\n"
    );
    assert_eq!(
        notes(&five[..3]),
        "evenkeel: the first LLC domain has 2 cores for 3 programs: contention between SMT siblings is not included\n"
    );
}

#[test]
fn tables_with_other_line_ends_quotes_and_column_orders_give_the_same_result() {
    let dir = Dir::new();
    let text = std::fs::read_to_string(tool::root().join(SOLO)).expect("the table");
    let each = |row: &dyn Fn(Vec<&str>) -> String| -> String {
        text.lines().map(|line| row(line.split(',').collect()) + "\n").collect()
    };
    // The command that repeats the prediction contains the name of the file.
    let values = |(text, notes): (String, String)| {
        (text.split("\nrepeat:").next().unwrap_or_default().to_owned(), notes)
    };
    let expected = values(predict(&["--machine", PAIR, "--programs", SOLO, "hmmsim", "stream"]));
    for (name, table) in [
        ("crlf", format!("{}\r\n\r\n", text.trim().replace('\n', "\r\n"))),
        ("mark", format!("\u{feff}{text}\n  \n,,,\n")),
        ("quoted", each(&|cells| format!("\"{}\"", cells.join("\",\"")))),
        ("reversed", each(&|cells| cells.into_iter().rev().collect::<Vec<_>>().join(" , "))),
    ] {
        dir.write(name, table);
        let path = dir.arg(name);
        let result = predict(&["--machine", PAIR, "--programs", &path, "hmmsim", "stream"]);
        assert_eq!(values(result), expected, "{name}");
    }
}

#[test]
fn a_table_without_writes_derives_the_writes_from_bandwidths() {
    let (_dir, solo) = changed(SOLO, "dram_write_lines_pki", "other");
    let predicted =
        |table: &str| json(&["--machine", PAIR, "--programs", table, "hmmsim", "bwaindex"]);
    let (full, less) = (predicted(SOLO), predicted(&solo));
    for idx in 0..2 {
        let off = slowdown(&less, idx) / slowdown(&full, idx) - 1.0;
        assert!(off.abs() < 0.03, "{full} {less}");
    }
    assert!(
        less["notes"][0]
            .as_str()
            .unwrap()
            .contains("assumed that the writes are dram_gbs minus the lines read"),
        "{less}"
    );
}

#[test]
fn a_small_program_in_a_large_cache_is_not_slowed_down() {
    let dir = Dir::new();
    dir.write("small.csv", "program,llc_kib,ipc,llc_apki,llc_mpki\nsmall,128,2,30,0\n");
    let both = format!("{SOLO},{}", dir.arg("small.csv"));
    for mib in [8, 32, 256] {
        let machine = two_domains(&dir, [mib, mib]);
        let all = json(&["--machine", &machine, "--programs", &both, "small", "stream"]);
        assert!(slowdown(&all, 0) < 1.05, "{mib} MiB: {all}");
    }
}

#[test]
fn invalid_tables_machines_and_arguments_are_rejected() {
    let set_up = |dir: &Dir| {
        for (name, file) in [("solo.csv", SOLO), ("corun-pair.toml", PAIR)] {
            dir.write(name, std::fs::read(tool::root().join(file)).expect("the file"));
        }
    };
    transcript::check("predictions", set_up, |dir, step| {
        let (kind, rest) = step.split_once(' ').unwrap_or((step, ""));
        let change = |file: &str| {
            let rest = rest.replace(" | ", "\n");
            let (from, to) = rest.split_once(" =>").expect("FROM => TO");
            set_up(dir);
            let text = dir.read(file);
            assert!(text.contains(from), "{from} is not in {file}");
            dir.write(file, text.replace(from, to.trim()));
            "xz"
        };
        let args = match kind {
            "programs" => change("solo.csv"),
            "machine" => change("corun-pair.toml"),
            "predict" => rest,
            _ => panic!("unknown step: {step}"),
        };
        let table = if args.contains("--programs") { "" } else { "--programs solo.csv" };
        format!("evenkeel predict --machine corun-pair.toml {table} {args}")
    });
}
