//! Comparisons that are ended on the way, in order and not, and gone on with.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::Place;
use crate::tool;

/// Long enough to be stopped on the way.
const WORDS: &str = "small.toml -p linux,dfs,spread --seeds 400 --machine m.toml --timelines none";

fn n_lines(place: &Place, out: &str) -> usize {
    std::fs::read_to_string(place.path(&format!("{out}/runs.jsonl")))
        .map_or(0, |text| text.lines().count())
}

/// A comparison of which some runs are done.
fn begun(place: &Place, out: &str, n_least: usize) -> Child {
    let mut command = place.command(&format!("{WORDS} --out {out}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while n_lines(place, out) < n_least {
        assert!(begun.elapsed() < Duration::from_secs(60), "no run finishes");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it runs");
}

#[test]
fn interrupted_and_killed_and_gone_on_with_it_is_what_it_would_have_been() {
    let place = Place::new();
    let whole = place.compare(&format!("{WORDS} --out whole --json"));
    assert_eq!(whole.status.code(), Some(0));

    let child = begun(&place, "parts", 5);
    send(&child, rustix::process::Signal::INT);
    let told = child.wait_with_output().expect("it ends");
    let (text, error) = (tool::text(&told.stdout), tool::text(&told.stderr));
    assert_eq!(told.status.code(), Some(1), "{error}");
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
    assert!(tool::text(&rest.stderr).contains("of 1200 runs were done before"));
    assert!(rest.stdout == whole.stdout, "the same JSON");
    assert_eq!(place.runs("parts"), place.runs("whole"));
}

#[test]
fn two_at_once_in_one_folder_are_refused() {
    let place = Place::new();
    let mut child = begun(&place, "busy", 3);
    let told = place.compare(&format!("{WORDS} --out busy"));
    send(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    assert_eq!(told.status.code(), Some(2));
    assert_eq!(
        tool::text(&told.stderr),
        "evenkeel: another evenkeel runs the comparison in busy: wait for it, or choose another folder with --out\n"
    );
}

#[test]
fn of_real_programs_a_run_that_was_interrupted_is_not_kept_and_comes_again() {
    let place = Place::new();
    place.write("live.toml", "[[job]]\nname = \"a\"\nload = \"compute --for 60s\"\n");
    let words = "live.toml -p linux,spread --host live --seeds 1 --out out";
    let mut command = place.command(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    // Where the job's output goes is made when it starts.
    while !place.path("out/runs/00000-live-linux-seed-1/jobs/a.out").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, rustix::process::Signal::INT);
    let told = child.wait_with_output().expect("it ends");
    assert_eq!(told.status.code(), Some(1), "{}", tool::text(&told.stderr));
    assert!(
        tool::text(&told.stdout).contains("0 of 2 runs are done"),
        "{}",
        tool::text(&told.stdout)
    );
    assert_eq!(n_lines(&place, "out"), 1, "only whose folder it is");
    let limited = place.compare(&format!("{words} --time-limit 100ms"));
    assert_eq!(limited.status.code(), Some(2), "a time limit makes it another comparison");
    let again = place.compare(
        "live.toml -p linux,spread --host live --seeds 1 --time-limit 100ms --out limited",
    );
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(place.json("limited")["summary"][0]["n_excluded"], 1);
}

/// Of months, on more programs than CPUs.
fn months(place: &Place) {
    let text = place.read("profiles/hungry.profile.toml").replace("3e8", "3e15");
    place.write("profiles/months.profile.toml", &text.replace("\"hungry\"", "\"months\""));
    let job =
        "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"months\"\ncopies = 9\n";
    place.write("months.toml", job);
}

/// Interrupted as soon as there is a file; what it says on its error output.
fn interrupted(place: &Place, words: &str, file: &str) -> String {
    let mut command = place.command_of(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while !place.path(file).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, rustix::process::Signal::INT);
    let told = child.wait_with_output().expect("it ends");
    let error = tool::text(&told.stderr);
    assert_eq!(told.status.code(), Some(1), "{error}");
    error
}

#[test]
fn a_simulated_run_that_is_interrupted_ends_its_journal_and_reports_what_was() {
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
fn a_comparison_of_endless_runs_is_interrupted_in_the_middle_of_one() {
    let place = Place::new();
    months(&place);
    let words = "compare months.toml -p linux,dio,oracle --seeds 1 --machine m.toml --out out";
    let error = interrupted(&place, words, "out/runs.jsonl");
    assert!(error.contains("evenkeel: interrupted; finished runs are kept"), "{error}");
    assert_eq!(n_lines(&place, "out"), 1, "only whose folder it is");
}

#[test]
fn a_simulated_run_stops_at_the_first_failure_if_that_is_wished() {
    let place = Place::new();
    let small = tool::run(&["machine", "--synthetic", "cores=5 llc=16M mem=1G", "--toml"]);
    place.write("small.machine.toml", &tool::text(&small.stdout));
    let job =
        "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"hungry\"\ncopies = 5\n";
    place.write("tight.toml", job);
    // Four of five find room.
    for (more, end) in [("", "finished"), (" --fail-fast", "interrupted")] {
        let words = format!(
            "run tight.toml --host sim --machine small.machine.toml -p linux -q -o {end}{more}"
        );
        let told = place.command_of(&words).output().expect("it starts");
        assert_eq!(told.status.code(), Some(1), "{}", tool::text(&told.stderr));
        let journal = place.read(&format!("{end}/journal.jsonl"));
        let last = journal.lines().last().expect("lines");
        assert!(last.starts_with(&format!("{{\"end\":\"{end}\",")), "{more}: {last}");
    }
}
