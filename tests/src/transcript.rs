//! Rejected commands and their error lines, as data files.
//!
//! ```text
//!   # unknown keys are rejected       a case; it starts in a new directory
//!   + w.toml: [[job]] | class = 1     writes a file; ` | ` separates its lines
//!   $ mkdir sub                       set-up by the shell; must succeed and print nothing
//!   $ evenkeel run w.toml             rejected: exit status 2, one line, nothing printed, no new file
//!       evenkeel: w.toml:1:1: …       its error line; `UPDATE_EXPECT=1` rewrites it
//!   job class = 1                     any other step: the test writes files and returns the shell command
//! ```
//!
//! An empty line separates cases. DIR is the path of the directory. All cases run, and the names of failed cases are
//! printed.

use std::process::{Command, Stdio};

use expect_test::expect_file;

use crate::dir::Dir;
use crate::tool;

/// Checks the cases of a file of `tests/promises/rejected` in directories that `set_up` has prepared.
pub fn check(file: &str, set_up: impl Fn(&Dir), expand: impl Fn(&Dir, &str) -> String) {
    let path = tool::root().join(format!("tests/promises/rejected/{file}.txt"));
    let expected = std::fs::read_to_string(&path).expect(file);
    let mut actual = Vec::new();
    for case in expected.trim_end().split("\n\n") {
        let dir = Dir::new();
        set_up(&dir);
        let mut text = String::new();
        for step in case.lines().filter(|line| !line.starts_with("    ")) {
            text += &format!("{step}\n");
            let command = match step.split_once(' ') {
                Some(("#", _)) => continue,
                Some(("+", file)) => {
                    let (name, text) = file.split_once(": ").expect("+ FILE: TEXT");
                    dir.write(name, text.replace(" | ", "\n") + "\n");
                    continue;
                }
                Some(("$", command)) => command.to_owned(),
                _ => expand(&dir, step),
            };
            text += &output(&dir, &command);
        }
        if text.trim_end() != case.trim_end() {
            println!("differs: {}", case.lines().next().unwrap_or_default());
        }
        actual.push(text);
    }
    expect_file![path].assert_eq(&actual.join("\n"));
}

/// Checks like [`check`] a file in which all steps are shell commands.
pub fn check_commands(file: &str) {
    check(file, |_| (), |_, step| panic!("unknown step: {step}"));
}

/// Returns the error line of a command, and a line in brackets for each missing property of a rejection.
fn output(dir: &Dir, command: &str) -> String {
    let (before, data) = (dir.listing(), Dir::new());
    let mut shell = Command::new("sh");
    let path = tool::path().parent().expect("a directory").display();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    shell.args(["-c", command]).current_dir(dir.root()).stdin(Stdio::null());
    shell.env("PATH", path).env("XDG_DATA_HOME", data.root());
    let output = shell.output().expect("a shell");
    let mut text = tool::text(&output.stderr);
    let is_rejection = command.contains("evenkeel ");
    if output.status.code() != Some(if is_rejection { 2 } else { 0 }) {
        text += &format!("[{}]\n", output.status);
    }
    if !output.stdout.is_empty() {
        text += "[standard output is not empty]\n";
    }
    if is_rejection && dir.listing() != before {
        text += &format!("[{:?} instead of {before:?}]\n", dir.listing());
    }
    if is_rejection && !(text.starts_with("evenkeel: ") && text.lines().count() == 1) {
        text += "[not one error line]\n";
    }
    let text = text.replace(&dir.root().display().to_string(), "DIR");
    text.lines().map(|line| format!("    {line}\n")).collect()
}
