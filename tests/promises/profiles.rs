//! Profiles: what is measured of a program is right, found again, and taken; and however the program
//! behaves, nothing is left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::tool;

/// Whether the tracer is there; says so if not.
fn has_valgrind() -> bool {
    let there = Command::new("valgrind").arg("--version").output().is_ok();
    if !there {
        println!("not run: there is no valgrind; scripts/setup test installs it");
    }
    there
}

/// A place for profiles of one test.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).expect("written");
    }

    /// `evenkeel …` with this home.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = tool::command(args);
        command.env("XDG_DATA_HOME", self.0.path()).current_dir(self.0.path());
        command
    }

    /// Profiles with these options and gives the JSON.
    fn profile(&self, options: &[&str], program: &[&str]) -> Value {
        let args = [&["profile", "--json"], options, &["--"], program].concat();
        let output = self.command(&args).output().expect("it starts");
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }
}

fn own() -> &'static str {
    tool::path().to_str().expect("a plain path")
}

/// A small program whose array of 512 KiB is read across its rows.
fn columns() -> [&'static str; 8] {
    [own(), "load", "columns", "--n", "256", "--ops", "4", "--no-self-check"]
}

const WHOLE: [&str; 7] = ["--once", "--windows", "1", "--refs", "2G", "--lines", "100M"];

/// Misses of a whole run in a cache of this size.
fn misses(profile: &Value, size: u64) -> f64 {
    let points = profile["phases"][0]["curve"].as_array().expect("a curve");
    let fits = |point: &&Value| point["cache_bytes"].as_u64().expect("a size") <= size;
    let point = points.iter().rev().find(fits).expect("such a size");
    let per_1000 = point["misses_per_1000"].as_f64().expect("a number");
    per_1000 * profile["n_instructions"].as_f64().expect("a number") / 1000.0
}

fn cachegrind(program: &[&str], size: u64) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args(["--I1=16384,4,64", "--D1=16384,4,64", &format!("--LL={size},16,64")])
        .args(program)
        .output()
        .expect("valgrind starts");
    let text = tool::text(&output.stderr);
    let (_, rest) = text.split_once("LL misses:").expect("a summary");
    let number = rest.split_whitespace().next().expect("a number").replace(',', "");
    number.parse().expect("a number")
}

#[test]
fn the_curve_is_that_of_cachegrind_at_three_sizes_and_a_sample_is_near() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let exact = home.profile(&WHOLE, &columns());
    let sampled = home.profile(&[&WHOLE[..5], &["--lines", "4K"]].concat(), &columns());
    assert!(sampled["lines_share"].as_f64().expect("a number") < 0.5);
    for size in [64 << 10, 256 << 10, 4 << 20] {
        let (ours, theirs) = (misses(&exact, size), cachegrind(&columns(), size));
        let off = ours / theirs - 1.0;
        assert!(off.abs() < 0.05, "{size}: {ours} misses, cachegrind {theirs}");
        let off = misses(&sampled, size) / ours - 1.0;
        assert!(off.abs() < 0.12, "{size}: off by {off:.3} when sampled");
    }
}

#[test]
fn a_profile_is_written_found_by_its_program_and_its_class_is_taken() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let options = ["--windows", "5", "--refs", "200K", "--frequency", "2GHz", "--llc", "32M"];
    let said = home.profile(&options, &columns());
    let class = said["class"].as_u64().expect("a class");
    assert!(0 < class && said["ended"] == "exited with status 0", "{said}");
    assert!(0.0 < said["covered_share"].as_f64().expect("it was counted"));
    let file = home.path("evenkeel/profiles/load-columns.profile.toml");
    let text = fs::read_to_string(&file).expect("it was written");
    let profile = program::profile::parse_profile(&text, &file).expect("it is a profile");
    assert_eq!(profile.class.map(|(class, _)| u64::from(class.number())), Some(class));
    let page = fs::read_to_string(file.with_extension("html")).expect("it has pictures");
    assert!(page.contains("<svg class=\"chart\"") && page.ends_with("</html>\n"));

    let job =
        "[[job]]\nname = 'a'\nload = ['columns', '--n', '64', '--ops', '1', '--no-self-check']\n";
    home.write("w.toml", job);
    let output = home.command(&["run", "w.toml", "--out", "out"]).output().expect("it starts");
    let heard = tool::text(&output.stderr);
    assert!(output.status.success() && heard.contains("used by its name alone"), "{heard}");
    let recording = journal::read(&home.path("out/journal.jsonl")).expect("a journal");
    let job = &recording.header().jobs[0];
    assert_eq!(job.class.map(|class| u64::from(class.number())), Some(class));
    assert_eq!(job.found.as_deref(), Some(&profile));
}

#[test]
fn a_profile_that_a_job_names_must_be_there() {
    let home = Home::new();
    home.write("w.toml", "[[job]]\nname = 'a'\ncommand = ['true']\nprofile = 'mine'\n");
    let output = home.command(&["run", "w.toml"]).output().expect("it starts");
    let said = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("w.toml:1: job \"a\": there is no profile \"mine\"; make it"), "{said}");
    assert!(said.contains("evenkeel profile --list tells the"), "{said}");
    home.write("broken.profile.toml", "name = 'x'\n[[phase]]\nshare = 'all'\n");
    home.write("w.toml", "[[job]]\ncommand = ['true']\nprofile = 'broken'\n");
    let output = home.command(&["run", "w.toml"]).output().expect("it starts");
    let said = tool::text(&output.stderr);
    assert!(said.contains("broken.profile.toml:3:9: share must be a number"), "{said}");
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    home.write("good.profile.toml", "name = 'x'\nclass = 9\n[[phase]]\n");
    home.write("w.toml", "[[job]]\ncommand = ['true']\nprofile = 'good'\n");
    let output = home.command(&["run", "w.toml", "--out", "out"]).output().expect("it starts");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let recording = journal::read(&home.path("out/journal.jsonl")).expect("a journal");
    assert_eq!(recording.header().jobs[0].class.map(|class| class.number()), Some(9));
}

#[test]
fn the_profiles_that_ship_are_listed_and_nothing_runs() {
    let home = Home::new();
    let output = home.command(&["profile", "--list"]).output().expect("it starts");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let told = tool::text(&output.stdout);
    assert!(told.lines().any(|line| line == "470.lbm"), "{told}");
    home.write("w.toml", "[[job]]\ncommand = ['true']\nprofile = 'nobody'\n");
    let refused = home.command(&["run", "w.toml"]).output().expect("it starts");
    let said = tool::text(&refused.stderr);
    assert!(said.contains(&format!("tells the {} that ship", told.lines().count())), "{said}");
}

#[test]
fn wrong_commands_are_one_line_and_nothing_runs() {
    let home = Home::new();
    home.write("empty", "");
    for (args, word) in [
        (&["profile"][..], "<CMD>"),
        (&["profile", "--"], "<CMD>"),
        (&["profile", "true"], "true"),
        (&["profile", "--list", "--", "true"], "--list"),
        (&["profile", "--", ""], "no program"),
        (&["profile", "--", "no-such-program"], "not in PATH"),
        (&["profile", "--", "/etc"], "folder"),
        (&["profile", "--", "./empty"], "may not be executed"),
        (&["profile", "--frequency", "2.6", "--", "true"], "frequency"),
        (&["profile", "--refs", "0", "--", "true"], "more than 0"),
        (&["profile", "--windows", "0", "--", "true"], "--windows"),
        (&["profile", "--limit", "0", "--", "true"], "longer than 0"),
        (&["profile", "--cpi", "-1", "--", "true"], "0.01"),
        (&["profile", "--input", "nowhere", "--", "cat"], "cannot read the input nowhere"),
        (&["profile", "--output", "/nowhere/p.toml", "--", "true"], "cannot write /nowhere"),
        (&["profile", "--name", "a/b", "--", "true"], "cannot name a profile"),
    ] {
        let output = home.command(args).output().expect("it starts");
        let said = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn without_a_tracer_the_package_is_named() {
    let home = Home::new();
    let mut command = home.command(&["profile", "--engine", "cache-model", "--", "/bin/true"]);
    let output = command.env("PATH", "/nonexistent").output().expect("it starts");
    let said = tool::text(&output.stderr);
    assert!(said.contains("apt install valgrind") && said.lines().count() == 1, "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_program_that_fails_is_told_with_its_last_words() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let said = home.profile(&["--output", "p.toml"], &["sh", "-c", "echo oops >&2; exit 3"]);
    assert_eq!(said["ended"], "exited with status 3");
    let notes = said["notes"].to_string();
    assert!(notes.contains("it exited with status 3; it said: oops"), "{notes}");
    assert!(notes.contains("references only"), "{notes}");
}

#[test]
fn what_it_reads_can_be_given_and_what_it_prints_is_dropped() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    home.write("words", &"word\n".repeat(20_000));
    let few = home.profile(&["--once", "--output", "p.toml"], &["cat", "-n"]);
    let many = home.profile(&["--once", "--output", "p.toml", "--input", "words"], &["cat", "-n"]);
    let n = |said: &Value| said["n_instructions"].as_u64().expect("a number");
    assert!(n(&few) + 1_000_000 < n(&many), "{} and {}", n(&few), n(&many));
}

/// Processes whose command holds a text that nobody else's does.
fn running(mark: &str) -> usize {
    let folders = fs::read_dir("/proc").expect("proc").flatten();
    let commands = folders.filter_map(|folder| fs::read(folder.path().join("cmdline")).ok());
    commands
        .filter(|command| command.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
        .count()
}

#[test]
fn a_program_that_never_ends_is_ended_with_all_its_children() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let script = "setsid sleep 86123.5 & sleep 86123.5 & while :; do :; done";
    let options = ["--limit", "6s", "--output", "p.toml", "--windows", "1000"];
    let said = home.profile(&options, &["sh", "-c", script]);
    let notes = said["notes"].to_string();
    assert!(
        notes.contains("alone and was ended") && notes.contains("time was up after"),
        "{notes}"
    );
    assert!(said["class"].is_null() && notes.contains("no class"), "{notes}");
    assert_eq!(running("86123.5"), 0, "somebody was left behind");
}

#[test]
fn an_interrupt_ends_the_traced_program_and_tells_what_was_covered() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let script = "sleep 86124.5 & while :; do :; done";
    let args = ["profile", "--once", "--refs", "1K", "--windows", "10000", "--skip", "1M"];
    let args = [&args[..], &["--output", "p.toml", "--", "sh", "-c", script]].concat();
    let mut command = home.command(&args);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut heard = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    heard.read_line(&mut line).expect("it says that it traces");
    assert!(line.contains("tracing sh"), "{line}");
    // As long as the shell has not begun its child, nothing of the loop can have been traced.
    while running("86124.5") == 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("ours");
    let output = child.wait_with_output().expect("it ends");
    let said = tool::text(&output.stdout);
    let stopped = said.contains("stopped after") && said.contains("windows");
    let too_early = output.status.code() == Some(1) && said.is_empty();
    assert!(stopped || too_early, "{said}");
    assert_eq!(running("86124.5"), 0, "somebody was left behind");
}

#[test]
fn a_profile_is_never_written_over_by_its_page() {
    let home = Home::new();
    let mut command = home.command(&["profile", "--output", "p.html", "--", "true"]);
    let ended = command.current_dir(home.0.path()).output().expect("it starts");
    let text = tool::text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{text}");
    assert!(text.contains("p.html") && text.contains("--no-html"), "{text}");
    assert!(!home.path("p.html").exists());
}

#[test]
fn what_counters_would_not_heed_is_refused() {
    for option in [["--llc", "4MiB"], ["--refs", "1M"], ["--cpi", "1.5"]] {
        let args = [&["profile", "--engine", "counters"], &option[..], &["--", "true"]].concat();
        let ended = Home::new().command(&args).output().expect("it starts");
        let text = tool::text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{text}");
        assert!(text.contains(option[0]) && text.contains("cache-model"), "{text}");
    }
}
