//! Profiles: the measured values are correct, the search finds the profile of a program, and `profile` leaves no
//! process behind, whatever the program does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tests::dir::Dir;
use tests::process::{signal, until};
use tests::tool;

/// Returns whether valgrind is installed. Without valgrind, prints that the test is skipped.
pub fn has_valgrind() -> bool {
    let is_installed = Command::new("valgrind").arg("--version").output().is_ok();
    if !is_installed {
        println!("skipped: valgrind is not installed; run scripts/setup test");
    }
    is_installed
}

#[test]
fn a_workload_finds_the_profile_by_the_line_that_profile_prints() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let options = ["--engine", "cache-model", "--no-html", "--limit", "5min"];
    let profile = home.profile(&options, &columns());
    let line = profile["workload_line"].as_str().expect("text");
    let name = profile["name"].as_str().expect("text");
    assert_eq!(line, format!("profile = {name:?}"));
    home.write("w.toml", format!("[[job]]\ncommand = [\"true\"]\n{line}\n"));
    let run = home.command(&["run", "w.toml", "--host", "sim", "--out", "out", "--json"]);
    let output = { run }.output().expect("it starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["jobs"][0]["profile"], name, "{}", tool::text(&output.stderr));
}

/// Profile directory of one test.
struct Home(Dir);

impl std::ops::Deref for Home {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.0
    }
}

impl Home {
    fn new() -> Self {
        Home(Dir::new())
    }

    /// Returns the command `evenkeel …` with this profile directory.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.env("XDG_DATA_HOME", self.root());
        command
    }

    /// Runs `evenkeel profile --json` with these options.
    fn profile(&self, options: &[&str], program: &[&str]) -> Value {
        let args = [&["profile", "--json"], options, &["--"], program].concat();
        let output = self.command(&args).output().expect("it starts");
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }
}

fn own_path() -> &'static str {
    tool::path().to_str().expect("a plain path")
}

/// Returns a small program that reads an array of 250 x 250 elements column by column. The length of a row is no power
/// of two, so that a column uses all sets of a cache and not a few.
fn columns() -> [&'static str; 8] {
    [own_path(), "load", "columns", "--n", "250", "--ops", "4", "--no-self-check"]
}

const WHOLE: [&str; 9] =
    ["--once", "--limit", "20min", "--windows", "1", "--refs", "2G", "--lines", "100M"];

/// Returns the misses of the whole run in a cache of this size.
fn misses(profile: &Value, size: u64) -> f64 {
    let points = profile["phases"][0]["curve"].as_array().expect("a curve");
    let fits = |point: &&Value| point["cache_bytes"].as_u64().expect("a size") <= size;
    let point = points.iter().rev().find(fits).expect("a point of that size");
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

/// Uses random lines of four nested arrays. Few uses are at its start, and no line has many uses: these would decide the
/// result of a sample.
const RANDOM_LINES: &str = "
    static volatile unsigned char lines[1 << 14][64];
    int main(void) {
        unsigned state = 1;
        for (int i = 0; i < 300000; i++) {
            state = state * 1664525 + 1013904223;
            unsigned n_lines = 1u << (14 - (state >> 30));
            state = state * 1664525 + 1013904223;
            lines[state >> 8 & (n_lines - 1)][0]++;
        }
        return 0;
    }
";

#[test]
fn the_curve_matches_cachegrind_at_three_sizes_within_5_percent_and_sampled_within_12() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    home.write("lines.c", RANDOM_LINES);
    let (source, program) = (home.path("lines.c"), home.path("lines"));
    let compiled = Command::new("cc").args(["-O1", "-o"]).args([&program, &source]).status();
    assert!(compiled.expect("cc starts").success());
    let program = [program.to_str().expect("a plain path")];
    let exact = home.profile(&WHOLE, &program);
    let sampled = home.profile(&[&WHOLE[..7], &["--lines", "4K"]].concat(), &program);
    assert_eq!([&exact["exit"], &sampled["exit"]], ["exited with status 0"; 2]);
    assert!(sampled["sampled_lines_share"].as_f64().expect("a number") < 0.5);
    for size in [64 << 10, 256 << 10, 4 << 20] {
        let (modelled, simulated) = (misses(&exact, size), cachegrind(&program, size));
        let off = modelled / simulated - 1.0;
        assert!(off.abs() < 0.05, "{size}: {modelled} misses, cachegrind {simulated}");
        let off = misses(&sampled, size) / modelled - 1.0;
        assert!(off.abs() < 0.12, "{size}: off by {off:.3} when sampled");
    }
}

#[test]
fn a_profile_is_written_and_found_by_its_program_which_gets_its_class() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let options = ["--windows", "5", "--refs", "200K", "--frequency", "2GHz", "--llc", "32M"];
    let result = home.profile(&options, &columns());
    let class = result["class"].as_u64().expect("a class");
    assert!(0 < class && result["exit"] == "exited with status 0", "{result}");
    assert!(0.0 < result["covered_share"].as_f64().expect("the instructions were counted"));
    let file = home.path("evenkeel/profiles/load-columns.profile.toml");
    let text = fs::read_to_string(&file).expect("it was written");
    let profile = program::profile::parse_profile(&text, &file).expect("it is a profile");
    assert_eq!(profile.class.map(|(class, _)| u64::from(class.number())), Some(class));
    let page = fs::read_to_string(file.with_extension("html")).expect("it has charts");
    assert!(page.contains("<svg class=\"plot\"") && page.ends_with("</html>\n"));
    let command = result["repeat_command"].as_str().expect("a command");
    let command = command.replace('&', "&amp;");
    assert!(page.contains(&format!("<code>{command}</code>")), "{command}");

    let job =
        "[[job]]\nname = 'a'\nload = ['columns', '--n', '64', '--ops', '1', '--no-self-check']\n";
    home.write("w.toml", job);
    let output = home.command(&["run", "w.toml", "--out", "out"]).output().expect("it starts");
    let stderr = tool::text(&output.stderr);
    assert!(output.status.success() && stderr.contains("matched by name only"), "{stderr}");
    let recording = journal::read(&home.path("out/journal.jsonl")).expect("a journal");
    let job = &recording.header().jobs[0];
    assert_eq!(job.class.map(|class| u64::from(class.number())), Some(class));
    assert_eq!(job.found.as_deref(), Some(&profile));
}

#[test]
fn a_profile_that_a_job_names_must_exist_and_be_valid() {
    let home = Home::new();
    home.write("w.toml", "[[job]]\nname = 'a'\ncommand = ['true']\nprofile = 'mine'\n");
    let stderr = tool::rejection(&mut home.command(&["run", "w.toml"]));
    assert!(
        stderr.contains("w.toml:1: job \"a\": there is no profile \"mine\"; create it"),
        "{stderr}"
    );
    assert!(stderr.contains("evenkeel profile --list prints the"), "{stderr}");
    home.write("broken.profile.toml", "name = 'x'\n[[phase]]\nshare = 'all'\n");
    home.write("w.toml", "[[job]]\ncommand = ['true']\nprofile = 'broken'\n");
    let stderr = tool::rejection(&mut home.command(&["run", "w.toml"]));
    assert!(stderr.contains("broken.profile.toml:3:9: \"share\" must be a number"), "{stderr}");
    home.write("good.profile.toml", "name = 'x'\nclass = 9\n[[phase]]\n");
    home.write("w.toml", "[[job]]\ncommand = ['true']\nprofile = 'good'\n");
    let output = home.command(&["run", "w.toml", "--out", "out"]).output().expect("it starts");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let recording = journal::read(&home.path("out/journal.jsonl")).expect("a journal");
    assert_eq!(recording.header().jobs[0].class.map(|class| class.number()), Some(9));
}

#[test]
fn list_prints_the_shipped_profiles_and_runs_nothing() {
    let home = Home::new();
    let output = home.command(&["profile", "--list"]).output().expect("it starts");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let stdout = tool::text(&output.stdout);
    assert!(stdout.lines().any(|line| line == "470.lbm"), "{stdout}");
    home.write("w.toml", "[[job]]\ncommand = ['true']\nprofile = 'missing'\n");
    let stderr = tool::rejection(&mut home.command(&["run", "w.toml"]));
    assert!(
        stderr.contains(&format!("prints the {} shipped profiles", stdout.lines().count())),
        "{stderr}"
    );
}

#[test]
fn a_failed_program_is_reported_with_its_last_error_message() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let program = ["sh", "-c", "echo oops >&2; exit 3"];
    let args = [&["profile", "--json", "--output", "p.toml", "--"], &program[..]].concat();
    let output = home.command(&args).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(result["exit"], "exited with status 3");
    let notes = result["notes"].to_string();
    assert!(
        notes.contains(
            "of a run that failed: the program exited with status 3; its last error message: oops"
        ),
        "{notes}"
    );
    assert!(notes.contains("describe the start of the program"), "{notes}");
    assert!(home.path("p.toml").is_file(), "the profile is written");

    let once = home.run(&["profile", "--once", "--output", "once.toml", "--", "false"]);
    assert_eq!(once.status.code(), Some(1), "{}", tool::text(&once.stderr));
}

#[test]
fn standard_input_can_be_set_and_standard_output_is_discarded() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    home.write("words", "word\n".repeat(20_000));
    let few = home.profile(&["--once", "--output", "p.toml"], &["cat", "-n"]);
    let many = home.profile(&["--once", "--output", "p.toml", "--input", "words"], &["cat", "-n"]);
    let n = |result: &Value| result["n_instructions"].as_u64().expect("a number");
    assert!(n(&few) + 1_000_000 < n(&many), "{} and {}", n(&few), n(&many));
}

/// Returns the number of processes with this argument.
fn running(mark: &str) -> usize {
    let dirs = fs::read_dir("/proc").expect("proc").flatten();
    let commands = dirs.filter_map(|dir| fs::read(dir.path().join("cmdline")).ok());
    commands
        .filter(|command| command.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
        .count()
}

#[test]
fn a_program_that_does_not_exit_is_killed_with_all_its_descendants() {
    if !has_valgrind() {
        return;
    }
    let home = Home::new();
    let script = "setsid sleep 86123.5 & sleep 86123.5 & while :; do :; done";
    let options = ["--limit", "6s", "--output", "p.toml", "--windows", "1000"];
    let result = home.profile(&options, &["sh", "-c", script]);
    let notes = result["notes"].to_string();
    assert!(
        notes.contains("the run alone was terminated") && notes.contains("--limit reached after"),
        "{notes}"
    );
    assert!(result["class"].is_null() && notes.contains("no class"), "{notes}");
    assert_eq!(running("86123.5"), 0, "a process is left");
}

#[test]
fn an_interrupt_ends_the_traced_program_and_reports_the_complete_windows() {
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
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it prints a progress line");
    assert!(line.contains("tracing sh"), "{line}");
    // The loop runs after the shell has started its child.
    until("the child of the shell", || running("86124.5") != 0);
    signal(child.id(), Signal::TERM);
    let output = child.wait_with_output().expect("it ends");
    let stdout = tool::text(&output.stdout);
    let stopped = stdout.contains("interrupted after") && stdout.contains("windows");
    let too_early = output.status.code() == Some(1) && stdout.is_empty();
    assert!(stopped || too_early, "{stdout}");
    assert_eq!(running("86124.5"), 0, "a process is left");
}
