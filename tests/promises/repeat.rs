//! The command that a report prints, run by a POSIX shell in another directory.

use std::process::Output;

use tests::dir::Dir;
use tests::tool;

const WORKLOAD: &str = r#"
[[job]]
name = "a"
shell = "true"
profile = "429.mcf@0.01"
copies = 3
"#;

/// Returns the command after `repeat` in the text of a report.
fn printed(text: &str) -> String {
    let from = text.lines().skip_while(|line| !line.starts_with("repeat"));
    let mut command = String::new();
    for line in from {
        let line = line.trim_start_matches("repeat:").trim_start_matches("repeat").trim();
        match line.strip_suffix('\\') {
            Some(part) => command.push_str(part),
            None => return command + line,
        }
    }
    panic!("no command in {text}");
}

fn report(output: &Output) -> String {
    tool::text(&output.stdout) + &tool::text(&output.stderr)
}

/// Runs a command line and the command that it prints. Returns both reports; their exit statuses are equal.
fn run_twice(dir: &Dir, args: &[&str]) -> [String; 2] {
    let first = dir.command_with_state(args).output().expect("it starts");
    let command = printed(&report(&first));
    let second = dir.shell(&format!("cd / && {command}"));
    assert_eq!(first.status, second.status, "{command}: {}", report(&second));
    [report(&first), report(&second)]
}

#[test]
fn the_printed_command_of_a_simulated_result_has_the_same_result() {
    let workload = "in a dir/it's.toml";
    let dir = Dir::with(&[(workload, WORKLOAD)]);
    let sim = ["--machine", "xeon-2x4"];
    let run = ["run", workload, "--host=sim", "--policy", "dfs[interval=100ms]", "--seed", "7"];
    let args = [&run[..], &sim, &["-q", "--out", "one"]].concat();
    dir.success(&args);
    let read = |out: &str| -> serde_json::Value {
        serde_json::from_str(&dir.read(&format!("{out}/report.json"))).expect("JSON")
    };
    let one = read("one");
    let command = one["run"]["command"].as_str().expect("a command");
    let escaped = command.replace('&', "&amp;").replace('\'', "&#39;");
    assert!(dir.read("one/report.html").contains(&format!("<code>{escaped}</code>")));
    let second = dir.shell(&format!("cd / && {command} --quiet --out two"));
    assert!(second.status.success(), "{command}: {}", report(&second));
    assert_eq!(one, read("two"));
    assert_eq!(dir.read("one/journal.jsonl"), dir.read("two/journal.jsonl"));
    let compare = ["compare", workload, "--policies", "linux,dfs", "--seeds", "3"];
    let [first, second] = run_twice(&dir, &[&compare[..], &sim].concat());
    let tables = |text: &str| text.split("\nfiles:").next().map(str::to_owned);
    assert_eq!(tables(&first), tables(&second));
}

#[test]
fn the_printed_command_of_a_live_run_starts_the_same_program() {
    let dir = Dir::with(&[("here", "")]);
    // The words contain every kind of quotation.
    let script =
        "test -e here && test \"$1$2$3\" = \"$(printf 'it\\047s\\011a\\134$x')\" && exit 7";
    let [first, _] =
        run_twice(&dir, &["run", "--", "sh", "-c", script, "sh", "it's", "\t", "a\\$x"]);
    assert!(first.contains("status 7"), "{first}");
    let [first, _] = run_twice(&dir, &["run", "--job", "sh -c 'test -e here'", "--job", "true"]);
    assert!(first.contains("all 2 jobs"), "{first}");
    run_twice(&dir, &["compare", "--seeds", "2", "--", "sh -c 'test -e here'", "true"]);
}
