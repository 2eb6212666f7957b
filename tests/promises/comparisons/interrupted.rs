//! Interrupted and killed comparisons, and their continuation.

use std::process::{Child, Output, Stdio};

use rustix::process::Signal;
use tests::dir::Dir;
use tests::process::{signal, until};
use tests::tool;

use super::Comparisons;

/// Arguments of a comparison that takes long enough to be interrupted.
const WORDS: &str = "small.toml -p linux,dfs,spread --seeds 400 --machine m.toml --timelines none";

fn n_lines(dir: &Dir, out: &str) -> usize {
    dir.text(&format!("{out}/runs.jsonl")).lines().count()
}

/// Starts a command and waits for a condition.
fn started(dir: &Comparisons, words: &str, holds: impl Fn() -> bool) -> Child {
    let mut command = dir.evenkeel(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    until("the first result", holds);
    child
}

/// Starts a comparison and waits until the store has at least `n_min` lines.
fn begun(dir: &Comparisons, out: &str, n_min: usize) -> Child {
    let words = format!("compare {WORDS} --out {out}");
    started(dir, &words, || n_min <= n_lines(dir, out))
}

/// Interrupts a command. Checks that its exit status is 1.
fn interrupt(child: Child) -> Output {
    signal(child.id(), Signal::INT);
    let output = child.wait_with_output().expect("own child");
    assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stderr));
    output
}

#[test]
fn an_interrupted_and_killed_comparison_resumes_to_the_same_result() {
    let dir = Comparisons::new();
    let whole = dir.compare(&format!("{WORDS} --out whole --json"));
    assert_eq!(whole.status.code(), Some(0));

    let output = interrupt(begun(&dir, "parts", 5));
    let (text, error) = (tool::text(&output.stdout), tool::text(&output.stderr));
    let n_kept = n_lines(&dir, "parts") - 1;
    assert!((4..1200).contains(&n_kept), "{n_kept}");
    assert!(error.contains("evenkeel: interrupted; finished runs are kept; the same command with --out parts resumes"), "{error}");
    assert!(text.contains(&format!("{n_kept} of 1200 runs done")), "{text}");
    assert!(text.contains("note: Interrupted:"), "{text}");
    assert_eq!(dir.json("parts")["setting"]["n_runs_done"], n_kept);

    let mut child = begun(&dir, "parts", n_kept + 20);
    child.kill().expect("own child");
    child.wait().expect("it ends");
    let n_now = n_lines(&dir, "parts") - 1;
    assert!(n_kept < n_now && n_now < 1200, "{n_now}");

    let resumed = dir.compare(&format!("{WORDS} --out parts --json"));
    assert_eq!(resumed.status.code(), Some(0), "{}", tool::text(&resumed.stderr));
    assert!(tool::text(&resumed.stderr).contains("of 1200 runs complete"));
    assert!(resumed.stdout == whole.stdout, "the same JSON");
    assert_eq!(dir.runs("parts"), dir.runs("whole"));
}

#[test]
fn a_second_comparison_in_the_same_directory_is_rejected() {
    let dir = Comparisons::new();
    let mut child = begun(&dir, "busy", 3);
    let output = dir.compare(&format!("{WORDS} --out busy"));
    child.kill().expect("own child");
    child.wait().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        tool::text(&output.stderr),
        "evenkeel: another evenkeel runs the comparison in busy: wait for it, or choose another directory with --out\n"
    );
}

#[test]
fn an_interrupted_live_run_is_discarded_and_repeated() {
    let dir = Comparisons::new();
    dir.write("live.toml", "[[job]]\nname = \"a\"\nload = \"compute --for 60s\"\n");
    let words = "live.toml -p linux,spread --host live --seeds 1 --out out";
    // The output file of the job is created at its start.
    let file = dir.path("out/runs/00000-live-linux-seed-1/jobs/a.out");
    let output = interrupt(started(&dir, &format!("compare {words}"), || file.exists()));
    assert!(
        tool::text(&output.stdout).contains("0 of 2 runs done"),
        "{}",
        tool::text(&output.stdout)
    );
    assert_eq!(n_lines(&dir, "out"), 1, "only the header");
    let limited = dir.compare(&format!("{words} --time-limit 100ms"));
    assert_eq!(limited.status.code(), Some(2), "a time limit makes it another comparison");
    let repeated = dir.compare(
        "live.toml -p linux,spread --host live --seeds 1 --time-limit 100ms --out limited",
    );
    assert_eq!(repeated.status.code(), Some(1));
    assert_eq!(dir.json("limited")["summary"][0]["n_failed"], 1);
}

/// Writes a workload that runs for months, with more jobs than CPUs.
fn months(dir: &Comparisons) {
    let text = dir.read("profiles/hungry.profile.toml").replace("3e8", "3e15");
    dir.write("profiles/months.profile.toml", text.replace("\"hungry\"", "\"months\""));
    let job =
        "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"months\"\ncopies = 9\n";
    dir.write("months.toml", job);
}

/// Interrupts a command as soon as a file exists. Returns its standard error.
fn interrupted(dir: &Comparisons, words: &str, file: &str) -> String {
    let output = interrupt(started(dir, words, || dir.path(file).exists()));
    tool::text(&output.stderr)
}

#[test]
fn an_interrupted_simulated_run_completes_its_journal_and_report() {
    let dir = Comparisons::new();
    months(&dir);
    for policy in ["linux", "dio"] {
        let words =
            format!("run months.toml --host sim --machine m.toml -p {policy} -o {policy} -q");
        interrupted(&dir, &words, &format!("{policy}/journal.jsonl"));
        let journal = dir.read(&format!("{policy}/journal.jsonl"));
        let last = journal.lines().last().expect("lines");
        assert!(last.starts_with("{\"end\":\"interrupted\","), "{policy}: {last}");
        let report = dir.read(&format!("{policy}/report.json"));
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["run"]["status"], "interrupted", "{policy}");
    }
}

#[test]
fn a_comparison_is_interrupted_during_a_long_run() {
    let dir = Comparisons::new();
    months(&dir);
    let words = "compare months.toml -p linux,dio,oracle --seeds 1 --machine m.toml --out out";
    let error = interrupted(&dir, words, "out/runs.jsonl");
    assert!(error.contains("evenkeel: interrupted; finished runs are kept"), "{error}");
    assert_eq!(n_lines(&dir, "out"), 1, "only the header");
}

#[test]
fn with_fail_fast_a_simulated_run_stops_at_the_first_failure() {
    let dir = Comparisons::new();
    let small = tool::success(&["machine", "--synthetic", "cores=5 llc=16M mem=1G", "--toml"]);
    dir.write("small.machine.toml", small);
    let job =
        "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"hungry\"\ncopies = 5\n";
    dir.write("tight.toml", job);
    // The memory suffices for four of five jobs.
    for (option, end) in [("", "failed"), (" --fail-fast", "interrupted")] {
        let words = format!(
            "run tight.toml --host sim --machine small.machine.toml -p linux -q -o {end}{option}"
        );
        let output = dir.evenkeel(&words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stderr));
        let journal = dir.read(&format!("{end}/journal.jsonl"));
        let last = journal.lines().last().expect("lines");
        assert!(last.starts_with(&format!("{{\"end\":\"{end}\",")), "{option}: {last}");
        let report: serde_json::Value =
            serde_json::from_str(&dir.read(&format!("{end}/report.json"))).expect("JSON");
        assert_eq!((&report["run"]["status"], &report["run"]["error"]), (&end.into(), &().into()));
        assert!(report["run"]["makespan_ns"].is_null());
        let text = dir.success(&["explain", &format!("{end}/journal.jsonl")]);
        assert!(!text.lines().next().expect("a line").contains("finished"), "{text}");
    }
}
