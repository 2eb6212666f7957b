//! Help texts of all commands: complete, equal to the golden files, and at most 100 columns wide.

use std::path::Path;

use expect_test::expect_file;

use tests::dir::Dir;
use tests::tool;

/// All commands, including the programs of `load`.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["machine"],
    &["run"],
    &["calibrate"],
    &["compare"],
    &["tune"],
    &["watch"],
    &["status"],
    &["policies"],
    &["predict"],
    &["reproduce"],
    &["profile"],
    &["generate"],
    &["load"],
    &["load", "hog"],
    &["load", "compute"],
    &["load", "rows"],
    &["load", "columns"],
    &["load", "sleep"],
    &["load", "fork"],
    &["load", "phases"],
    &["load", "forkjoin"],
    &["load", "pipeline"],
    &["load", "throttle"],
    &["explain"],
    &["record"],
    &["replay"],
    &["report"],
    &["restore"],
    &["completions"],
];

fn help(command: &[&str]) -> String {
    let mut tool = tool::command(&[command, &["--help"]].concat());
    // The variable COLUMNS would set the width.
    let output = tool.env_remove("COLUMNS").output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{command:?}");
    tool::text(&output.stdout)
}

#[test]
fn the_help_of_every_command_is_as_in_its_golden_file() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("promises/expected/help");
    for command in COMMANDS {
        let name = if command.is_empty() { "evenkeel".to_owned() } else { command.join("-") };
        let golden = dir.join(format!("{name}.txt"));
        expect_file![golden].assert_eq(&help(command));
    }
}

#[test]
fn every_command_has_a_golden_file() {
    let is_listed = |parent: &[&str], name: &str| {
        let path: Vec<&str> = parent.iter().copied().chain([name]).collect();
        COMMANDS.contains(&path.as_slice()) || name == "help"
    };
    for parent in [&[][..], &["load"]] {
        let text = help(parent);
        let list = text.split("Commands:\n").nth(1).expect("it has commands");
        let names = list.lines().take_while(|line| !line.is_empty());
        // Continuation lines have a larger indentation.
        let names = names.filter(|line| !line.starts_with("   "));
        for name in names.filter_map(|line| line.split_whitespace().next()) {
            assert!(is_listed(parent, name), "{parent:?} {name}");
        }
    }
}

#[test]
fn the_help_of_every_command_has_two_examples() {
    for command in COMMANDS {
        let text = help(command);
        let examples = text.split("\nExamples:\n").nth(1).unwrap_or_default();
        let is_example =
            |line: &&str| ["  evenkeel ", "  sudo "].iter().any(|it| line.starts_with(it));
        assert!(2 <= examples.lines().filter(is_example).count(), "{command:?}: {examples}");
        // A folded example cannot be copied.
        let wide = examples.lines().find(|line| !is_example(line) && !line.is_empty());
        assert_eq!(wide, None, "{command:?}");
    }
}

/// Returns the examples of a command from its page.
fn examples(command: &str) -> Vec<String> {
    let page = tool::root().join(format!("docs/commands/{command}.md"));
    let page = std::fs::read_to_string(page).expect("a page");
    let (_, below) = page.split_once("\n## Examples\n").expect("examples");
    let block = below.split("```").nth(1).expect("a block").trim_start_matches("sh\n");
    block.replace("\\\n", "").lines().map(str::to_owned).collect()
}

#[test]
fn the_examples_need_only_the_executable() {
    let dir = Dir::new();
    for command in ["generate", "machine", "policies", "predict", "calibrate", "run", "compare"] {
        let needs_no_program = |line: &&String| {
            !["run", "compare"].contains(&command) || line.contains(" sim ") || line.contains("wl1")
        };
        for example in examples(command).iter().filter(needs_no_program) {
            let output = dir.shell(example);
            assert!(output.status.success(), "{example}: {}", tool::text(&output.stderr));
        }
    }
}

#[test]
fn no_line_of_help_is_wider_than_a_hundred_columns() {
    for command in COMMANDS {
        let text = help(command);
        let wide = text.lines().find(|line| 100 < line.chars().count());
        assert_eq!(wide, None, "{command:?}");
    }
}
