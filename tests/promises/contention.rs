//! Promise: `evenkeel reproduce contention` tells what was published, what comes out, and a verdict for each
//! claim; the same whatever the number of threads.

use expect_test::expect_file;
use serde_json::Value;

use crate::tool;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = tool::run(&[&["reproduce", "contention"], args].concat());
    (output.status.code(), tool::text(&output.stdout), tool::text(&output.stderr))
}

fn told(args: &[&str]) -> String {
    let (status, said, notes) = run(args);
    assert_eq!(status, Some(0), "{args:?}: {notes}");
    said
}

#[test]
fn what_holds_for_turtles_is_told_with_its_source_limit_figures_and_verdicts() {
    let said = told(&["--only", "turtles", "--seeds", "1", "--quiet"]);
    expect_file!["expected/contention-turtles.txt"].assert_eq(&said);
}

#[test]
fn one_thread_and_three_find_the_same() {
    let of = |jobs: &str| {
        let args = ["--only", "published-moves,turtles", "--seeds", "2", "--jobs", jobs, "--json"];
        told(&args)
    };
    let one = of("1");
    assert_eq!(one, of("3"));
    let told: Value = serde_json::from_str(&one).expect("it is JSON");
    let verdicts: Vec<&str> = told["experiments"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|one| one["claims"].as_array().into_iter().flatten())
        .filter_map(|claim| claim["verdict"].as_str())
        .collect();
    assert!(verdicts.contains(&"not-judged") && verdicts.contains(&"reproduces"), "{verdicts:?}");
}

#[test]
fn an_experiment_that_there_is_not_is_one_line_that_names_those_that_there_are() {
    let (status, said, notes) = run(&["--only", "turtle"]);
    assert_eq!((status, said.as_str(), notes.lines().count()), (Some(2), "", 1), "{notes}");
    assert!(notes.contains("\"turtle\"") && notes.contains("turtles"), "{notes}");
}
