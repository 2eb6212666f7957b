//! Case files of decision tests. A case is one paragraph of a text file.
//!
//! ```text
//!   Migrations of DFS: trigger, victim and target.      all other paragraphs are comments
//!
//!   start three-and-one                                 first lines of several cases
//!   nodes=2 cores=2
//!   job mild wild class=2
//!   0ms due mild wild
//!
//!   # without load no job migrates                      a case starts with its claim
//!   // Both nodes have a load of zero.
//!   after three-and-one
//!   250ms poll
//!   > dfs                                               a variant, followed by its output
//!   > dfs[reading=paper]
//!   250ms wild on 3 because load-uneven
//! ```
//!
//! `after NAME` runs a start before the script. Only the output of the script is in the file. An output ends at a
//! line with a machine, `after` or a comment. A machine or `after` begins the next script of the same claim.
//!
//! Each script is run twice, because equal inputs must give equal outputs. All cases are run, even after a failure.
//! `UPDATE_EXPECT=1` rewrites the outputs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{env, fs};

/// Declares one test per file in the directory `cases` of a crate, and a test that fails if a file there has no test.
///
/// The function before the file names receives a machine, the text after `>` and a script, and returns the
/// output.
#[macro_export]
macro_rules! case_files {
    ($($play:path: $($name:ident)+;)+) => {
        $($(#[test]
        fn $name() {
            $crate::check_file(env!("CARGO_MANIFEST_DIR"), stringify!($name), $play);
        })+)+

        #[test]
        fn every_case_file_has_a_test() {
            $crate::check_names(env!("CARGO_MANIFEST_DIR"), &[$($(stringify!($name)),+),+]);
        }
    };
}

/// Compares the files in the directory `cases` of a crate with the names of its tests.
pub fn check_names(root: &str, names: &[&str]) {
    let dir = fs::read_dir(Path::new(root).join("cases")).expect("a directory cases");
    let path = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").path();
    let mut files: Vec<String> =
        dir.map(|entry| path(entry).file_stem().expect("a name").display().to_string()).collect();
    files.sort_unstable();
    let mut names = names.to_vec();
    names.sort_unstable();
    assert_eq!(files, names, "the files in cases/ and their tests differ");
}

/// Runs every case of a file. Panics with the name and the differing lines of each case that fails.
pub fn check_file(root: &str, name: &str, play: impl Fn(&str, &str, &str) -> String) {
    let path = Path::new(root).join("cases").join(name).with_extension("txt");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let (actual, failures) = play_text(&text, play);
    if failures.is_empty() {
        return;
    }
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, actual).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    } else {
        panic!("{name}.txt: UPDATE_EXPECT=1 accepts the new output (+)\n{failures}");
    }
}

/// Returns the text with the outputs of this run, and a description of the cases with different outputs.
fn play_text(text: &str, play: impl Fn(&str, &str, &str) -> String) -> (String, String) {
    let (mut starts, mut claims) = (BTreeMap::new(), BTreeMap::new());
    let (mut actual, mut failures) = (Vec::new(), String::new());
    for paragraph in text.trim_end().split("\n\n") {
        let (head, body) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let mut played = paragraph.to_owned();
        if let Some(name) = head.strip_prefix("start ") {
            starts.insert(name, body);
        } else if let Some(claim) = head.strip_prefix("# ") {
            let case = || play_case(paragraph, &starts, &play);
            match catch_unwind(AssertUnwindSafe(case)) {
                _ if claims.insert(claim, ()).is_some() => {
                    failures += &format!("# {claim}: a second case has this claim\n")
                }
                Ok(output) if output == paragraph => {}
                Ok(output) => {
                    failures += &format!("# {claim}\n{}", difference(paragraph, &output));
                    played = output;
                }
                Err(_) => failures += &format!("# {claim}: panicked, see above\n"),
            }
        }
        actual.push(played);
    }
    assert!(!claims.is_empty(), "no paragraph starts with `# `");
    (actual.join("\n\n") + "\n", failures)
}

/// Returns the text of a case with the output of every variant.
fn play_case(
    case: &str,
    starts: &BTreeMap<&str, &str>,
    play: impl Fn(&str, &str, &str) -> String,
) -> String {
    let is_machine = |line: &str| line.starts_with("nodes=") || line.starts_with("llcs=");
    let (mut actual, mut start, mut lines) = (String::new(), "", Vec::new());
    let (mut is_output, mut n_variants) = (false, 0);
    for line in case.lines() {
        let is_comment = line.starts_with("# ") || line.starts_with("//");
        let begins_script = is_machine(line) || line.starts_with("after ");
        if is_output && !(is_comment || begins_script || line.starts_with('>')) {
            continue;
        }
        writeln!(actual, "{line}").expect("writing to a string");
        if is_output && begins_script {
            start = "";
            lines.clear();
        }
        is_output = line.starts_with('>') || is_output && is_comment;
        if let Some(variant) = line.strip_prefix('>') {
            n_variants += 1;
            let machine = lines.iter().copied().chain(start.lines()).find(|line| is_machine(line));
            let play = |lines: &[&str]| {
                let all = start.lines().chain(lines.iter().copied());
                let script: Vec<&str> = all.filter(|line| !is_machine(line)).collect();
                play(machine.unwrap_or_default(), variant.trim_start(), &script.join("\n"))
            };
            let (output, again) = (play(&lines), play(&lines));
            assert_eq!(output, again, "equal scripts give different outputs");
            let before = if start.is_empty() { String::new() } else { play(&[]) };
            actual += output.strip_prefix(&before).expect("the output of the start comes first");
        } else if let Some(name) = line.strip_prefix("after ") {
            start = starts.get(name).unwrap_or_else(|| panic!("no start {name}"));
        } else if !is_comment {
            lines.push(line);
        }
    }
    assert!(0 < n_variants, "the case has no variant");
    actual.trim_end().to_owned()
}

/// Returns the differing lines, without equal lines at the start and at the end.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) =
        (expected.lines().collect(), actual.lines().collect());
    let n_same = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let (expected, actual) = (&expected[n_same..], &actual[n_same..]);
    let n_last = expected.iter().rev().zip(actual.iter().rev()).take_while(|(a, b)| a == b).count();
    let signed = |sign: &'static str| move |line: &&str| format!("  {sign} {line}\n");
    let expected = expected[..expected.len() - n_last].iter().map(signed("-"));
    expected.chain(actual[..actual.len() - n_last].iter().map(signed("+"))).collect()
}

#[cfg(test)]
mod tests {
    use super::play_text;

    /// Returns a line with machine and variant for each line of the script.
    fn echo(machine: &str, variant: &str, script: &str) -> String {
        script.lines().map(|line| format!("1 {machine} {variant} {line}\n")).collect()
    }

    const FILE: &str = "Cases.\n\nstart two\nnodes=2\na\n\n# passes\nafter two\nb\n> x\n1 nodes=2 x b\nnodes=1\nc\n> y\n1 nodes=1 y c\n";

    #[test]
    fn a_file_with_the_expected_outputs_passes_unchanged() {
        assert_eq!(play_text(FILE, echo), (FILE.to_owned(), String::new()));
    }

    #[test]
    fn every_failing_case_is_named_with_its_differing_lines() {
        let damaged = format!(
            "{}\n# also fails\nnodes=1\n> z\n1 more\n\n# panics\nafter three\n> z\n\n# has no variant\nnodes=1\n",
            FILE.replace("y c", "y d")
        );
        let (rewritten, failures) = play_text(&damaged, echo);
        assert!(
            rewritten.starts_with(FILE)
                && rewritten.contains("# also fails\nnodes=1\n> z\n\n# panics")
        );
        assert_eq!(
            failures,
            "# passes\n  - 1 nodes=1 y d\n  + 1 nodes=1 y c\n# also fails\n  - 1 more\n\
             # panics: panicked, see above\n# has no variant: panicked, see above\n"
        );
    }
}
