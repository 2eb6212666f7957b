//! Comparisons of commands without a workload file.

use std::process::Output;

use serde_json::Value;
use tests::tool;

use super::{Comparisons, schema_errors};

/// Runs `evenkeel compare` on commands.
fn compare(dir: &Comparisons, args: &str, commands: &[&str]) -> Output {
    let args: Vec<&str> = ["compare"].into_iter().chain(args.split_whitespace()).collect();
    let output = dir.run(&[&args[..], &["--"], commands].concat());
    assert_eq!(output.status.code(), Some(0), "{}", tool::text(&output.stderr));
    output
}

#[test]
fn commands_alternate_after_their_warm_up_runs() {
    let dir = Comparisons::new();
    let commands = ["sh -c 'echo A >> log'", "sh -c 'echo B >> log'"];
    let output = compare(&dir, "--runs 2 --warmup 1 --out out", &commands);
    assert_eq!(
        dir.read("log"),
        "A\nB\n".repeat(3),
        "one run before the measured runs, then A B A B"
    );
    let json = dir.json("out");
    assert_eq!(schema_errors(&json), [""; 0]);
    assert_eq!(
        (&json["setting"]["compared"], &json["setting"]["host"]),
        (&"commands".into(), &"live".into())
    );
    assert_eq!(json["setting"]["baseline"], "sh -c 'echo A >> log'");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(4), "a warm-up run is not a result");
    assert!(!dir.path("out/runs/warmup").exists());
    let text = tool::text(&output.stdout);
    assert!(text.contains("2 commands") && text.contains("\ncommand "), "{text}");
}

#[test]
fn several_commands_run_under_each_policy_and_one_command_is_the_workload() {
    let dir = Comparisons::new();
    let run = |out: &str, commands: &[&str]| {
        let args = format!("-p linux,spread --runs 1 --json --out {out}");
        let output = compare(&dir, &args, commands);
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (json["setting"]["columns"].clone(), json["setting"]["workloads"].clone())
    };
    let (policies, workloads) = run("a", &["true", "echo a"]);
    assert_eq!(
        policies,
        serde_json::json!(["true (linux)", "true (spread)", "echo a (linux)", "echo a (spread)"])
    );
    assert_eq!(workloads, serde_json::json!(["command"]));
    // The command and the policy are values of their own.
    let json = dir.json("a");
    for (rows, idx) in [("runs", 3), ("summary", 3), ("policies", 3)] {
        let row = &json[rows][idx];
        assert_eq!(
            (&row["command"], &row["policy"]),
            (&"echo a".into(), &"spread".into()),
            "{row}"
        );
        assert_eq!(row["column"], "echo a (spread)");
    }
    assert!(
        json["runs"][0]["user_s"].is_number() && json["runs"][0]["jobs"][0]["system_s"].is_number()
    );
    assert!(dir.read("a/runs.csv").lines().any(|row| row.starts_with("spread,echo a,command,1,")));
    assert!(
        dir.read("a/summary.csv").lines().any(|row| row.starts_with("spread,echo a,command,1,"))
    );
    let (policies, workloads) = run("b", &["sh -c true"]);
    assert_eq!(policies, serde_json::json!(["linux", "spread"]));
    assert_eq!(workloads, serde_json::json!(["sh"]));
}

#[test]
fn a_comparison_is_exported_as_csv_and_markdown() {
    let dir = Comparisons::new();
    let args = "--runs 1 --quiet --out out --export-csv runs.csv --export-markdown summary.md";
    compare(&dir, args, &["true", r#"sh -c "true | true""#]);
    let markdown = dir.read("summary.md");
    let lines: Vec<&str> = markdown.lines().collect();
    assert_eq!(lines.len(), 4, "{markdown}");
    assert!(lines[0].starts_with("| command | workload | runs | mean s |"), "{markdown}");
    assert!(lines[2].starts_with("| true | command | 1 |") && lines[2].ends_with("| baseline |"));
    assert!(lines[3].starts_with(r#"| sh -c "true \| true" | command |"#), "{markdown}");
    let csv = dir.read("runs.csv");
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[1].starts_with("linux,true,command,1,finished,"), "{csv}");
}

#[test]
fn standard_output_of_commands_is_discarded_unless_it_is_requested() {
    let dir = Comparisons::new();
    let files = |args: &str| {
        compare(
            &dir,
            &format!("-q --runs 1 --out {args}"),
            &["sh -c 'echo a; echo b >&2'", "true"],
        );
        let out = args.split_whitespace().next().expect("a directory");
        let is_first = |path: &std::path::PathBuf| path.display().to_string().contains("echo-a");
        let runs = std::fs::read_dir(dir.path(out).join("runs")).expect("runs").flatten();
        let first = runs.map(|run| run.path()).find(is_first).expect("a run");
        let text = |name: &str| std::fs::read_to_string(first.join("jobs").join(name)).ok();
        (text("command.out"), text("command.err"))
    };
    assert_eq!(files("without"), (None, Some("b\n".into())));
    assert_eq!(files("with --keep-output"), (Some("a\n".into()), Some("b\n".into())));
}

#[test]
fn a_hyphen_in_place_of_a_file_is_standard_output() {
    let dir = Comparisons::new();
    for (option, start) in [("--markdown", "| command |"), ("--csv", "policy,command,workload,")] {
        let output = compare(&dir, &format!("--runs 1 {option} -"), &["true", "sh -c true"]);
        let text = tool::text(&output.stdout);
        assert!(text.starts_with(start) && !text.contains("files:"), "{text}");
    }
    assert!(!dir.path("-").exists());
}

#[test]
fn failed_commands_are_in_the_answer_and_in_their_cells() {
    let dir = Comparisons::new();
    let words = ["compare", "--runs", "2", "--time-limit", "500ms", "--out", "out", "--"];
    let commands = ["true", "false", "sh -c \"exit 2\"", "sleep 9"];
    let output = dir.run(&[&words[..], &commands].concat());
    assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stderr));
    let text = tool::text(&output.stdout);
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        one_line.starts_with(
            "No verdict: 2 runs of each command cannot show a difference from true; \
             at least 7 are needed. Of 8 runs: 4 failed, 2 at time limit."
        ),
        "{text}"
    );
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect(name);
    assert!(row("false ").contains("2 failed"), "{text}");
    let csv = dir.read("out/runs.csv");
    assert!(csv.lines().any(|row| row.starts_with("linux,false,command,1,failed,,")), "{csv}");
    assert!(row("sleep 9").contains("2 at time limit"), "{text}");
    let (_, file) = one_line
        .split_once("the first is run 1 of false: exit status 1 (standard error: ")
        .expect("the file of the first failed run");
    let (file, _) = file.split_once(").").expect("the end of the note");
    assert!(dir.path("out").join(file).is_file() && file.ends_with("/command.err"), "{file}");
    assert!(!text.contains("slowdown") && !one_line.contains(" seed"), "{text}");
    let page = dir.read("out/compare.html");
    assert!(page.contains("<li class=\"chip bad\">runs: 4 failed, 2 at time limit</li>"));
    let makespans = page.split("id=\"runs\"").nth(1).expect("a section");
    assert!(makespans.contains("<td>2 at time limit</td>"), "{makespans}");
    assert!(!page.contains(">complete</li>") && !page.contains("id=\"slowdowns\""));

    let all = ["compare", "--runs", "1", "--out", "all", "--", "false", "sh -c \"exit 2\""];
    let text = tool::text(&dir.run(&all).stdout);
    assert!(text.starts_with("No run finished, so there is no time to compare."), "{text}");
    let page = dir.read("all/compare.html");
    assert!(!page.contains("id=\"ratios\""), "there is no ratio to draw");
    assert_eq!(page.matches("No run finished").count(), 1, "the answer is not repeated");
    assert!(!page.contains("<ul class=\"findings\">"));
}

#[test]
fn the_table_of_commands_under_several_policies_has_the_whole_verdict() {
    let dir = Comparisons::new();
    let commands = ["sh -c \"true && true && true\"", "sh -c \"true || true || true\""];
    let output = compare(&dir, "-p linux,spread --runs 9 --out out", &commands);
    let text = tool::text(&output.stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('…'), "{text}");
}
