//! Interrupted and killed comparisons, and their continuation.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::Place;
use crate::tool;

/// Long enough to be interrupted.
const WORDS: &str = "small.toml -p linux,dfs,spread --seeds 400 --machine m.toml --timelines none";

fn n_lines(place: &Place, out: &str) -> usize {
    std::fs::read_to_string(place.path(&format!("{out}/runs.jsonl")))
        .map_or(0, |text| text.lines().count())
}

/// Starts a comparison and waits until `n_least` lines are recorded.
fn begun(place: &Place, out: &str, n_least: usize) -> Child {
    let mut command = place.command(&format!("{WORDS} --out {out}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while n_lines(place, out) < n_least {
        assert!(begun.elapsed() < Duration::from_secs(60), "timeout: no run finishes");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it runs");
}

#[test]
fn an_interrupted_and_killed_comparison_resumes_to_the_same_result() {
    let place = Place::new();
    let whole = place.compare(&format!("{WORDS} --out whole --json"));
    assert_eq!(whole.status.code(), Some(0));

    let child = begun(&place, "parts", 5);
    send(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let (text, error) = (tool::text(&output.stdout), tool::text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    let n_kept = n_lines(&place, "parts") - 1;
    assert!((4..1200).contains(&n_kept), "{n_kept}");
    assert!(error.contains("evenkeel: interrupted; finished runs are kept; the same command with --out parts resumes"), "{error}");
    assert!(text.contains(&format!("{n_kept} of 1200 runs done")), "{text}");
    assert!(text.contains("note: Interrupted:"), "{text}");
    assert_eq!(place.json("parts")["setting"]["n_runs_done"], n_kept);

    let mut child = begun(&place, "parts", n_kept + 20);
    send(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    let n_now = n_lines(&place, "parts") - 1;
    assert!(n_kept < n_now && n_now < 1200, "{n_now}");

    let rest = place.compare(&format!("{WORDS} --out parts --json"));
    assert_eq!(rest.status.code(), Some(0), "{}", tool::text(&rest.stderr));
    assert!(tool::text(&rest.stderr).contains("of 1200 runs are complete"));
    assert!(rest.stdout == whole.stdout, "the same JSON");
    assert_eq!(place.runs("parts"), place.runs("whole"));
}

#[test]
fn a_second_comparison_in_the_same_folder_is_rejected() {
    let place = Place::new();
    let mut child = begun(&place, "busy", 3);
    let output = place.compare(&format!("{WORDS} --out busy"));
    send(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        tool::text(&output.stderr),
        "evenkeel: another evenkeel runs the comparison in busy: wait for it, or choose another folder with --out\n"
    );
}

#[test]
fn an_interrupted_live_run_is_discarded_and_repeated() {
    let place = Place::new();
    place.write("live.toml", "[[job]]\nname = \"a\"\nload = \"compute --for 60s\"\n");
    let words = "live.toml -p linux,spread --host live --seeds 1 --out out";
    let mut command = place.command(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    // The output file of the job is created at its start.
    while !place.path("out/runs/00000-live-linux-seed-1/jobs/a.out").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "timeout: it does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stderr));
    assert!(
        tool::text(&output.stdout).contains("0 of 2 runs are done"),
        "{}",
        tool::text(&output.stdout)
    );
    assert_eq!(n_lines(&place, "out"), 1, "only the header");
    let limited = place.compare(&format!("{words} --time-limit 100ms"));
    assert_eq!(limited.status.code(), Some(2), "a time limit makes it another comparison");
    let again = place.compare(
        "live.toml -p linux,spread --host live --seeds 1 --time-limit 100ms --out limited",
    );
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(place.json("limited")["summary"][0]["n_excluded"], 1);
}

/// A workload that runs for months, with more jobs than CPUs.
fn months(place: &Place) {
    let text = place.read("profiles/hungry.profile.toml").replace("3e8", "3e15");
    place.write("profiles/months.profile.toml", &text.replace("\"hungry\"", "\"months\""));
    let job =
        "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"months\"\ncopies = 9\n";
    place.write("months.toml", job);
}

/// Interrupts a command as soon as a file exists. Returns its standard error.
fn interrupted(place: &Place, words: &str, file: &str) -> String {
    let mut command = place.command_of(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while !place.path(file).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "timeout: it does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let error = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    error
}

#[test]
fn an_interrupted_simulated_run_completes_its_journal_and_report() {
    let place = Place::new();
    months(&place);
    for policy in ["linux", "dio"] {
        let words =
            format!("run months.toml --host sim --machine m.toml -p {policy} -o {policy} -q");
        interrupted(&place, &words, &format!("{policy}/journal.jsonl"));
        let journal = place.read(&format!("{policy}/journal.jsonl"));
        let last = journal.lines().last().expect("lines");
        assert!(last.starts_with("{\"end\":\"interrupted\","), "{policy}: {last}");
        let report = place.read(&format!("{policy}/report.json"));
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["run"]["status"], "interrupted", "{policy}");
    }
}

#[test]
fn a_comparison_is_interrupted_during_a_long_run() {
    let place = Place::new();
    months(&place);
    let words = "compare months.toml -p linux,dio,oracle --seeds 1 --machine m.toml --out out";
    let error = interrupted(&place, words, "out/runs.jsonl");
    assert!(error.contains("evenkeel: interrupted; finished runs are kept"), "{error}");
    assert_eq!(n_lines(&place, "out"), 1, "only the header");
}

#[test]
fn with_fail_fast_a_simulated_run_stops_at_the_first_failure() {
    let place = Place::new();
    let small = tool::run(&["machine", "--synthetic", "cores=5 llc=16M mem=1G", "--toml"]);
    place.write("small.machine.toml", &tool::text(&small.stdout));
    let job =
        "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"hungry\"\ncopies = 5\n";
    place.write("tight.toml", job);
    // The memory suffices for four of five jobs.
    for (more, end) in [("", "finished"), (" --fail-fast", "interrupted")] {
        let words = format!(
            "run tight.toml --host sim --machine small.machine.toml -p linux -q -o {end}{more}"
        );
        let output = place.command_of(&words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stderr));
        let journal = place.read(&format!("{end}/journal.jsonl"));
        let last = journal.lines().last().expect("lines");
        assert!(last.starts_with(&format!("{{\"end\":\"{end}\",")), "{more}: {last}");
    }
}
