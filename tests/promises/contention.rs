//! `evenkeel reproduce contention` prints the source, the limit, the results and a verdict for each claim. The output
//! does not depend on the number of threads.

use expect_test::expect_file;
use serde_json::Value;

use crate::tool;

fn reproduce(args: &[&str]) -> String {
    tool::success(&[&["reproduce", "contention"], args].concat())
}

#[test]
fn the_turtles_experiment_prints_its_source_limit_values_and_verdicts() {
    let text = reproduce(&["--only", "turtles", "--seeds", "1", "--quiet"]);
    expect_file!["expected/contention-turtles.txt"].assert_eq(&text);
}

#[test]
fn the_output_does_not_depend_on_the_number_of_threads() {
    let of = |jobs: &str| {
        let args = ["--only", "published-moves,turtles", "--seeds", "2", "--jobs", jobs, "--json"];
        reproduce(&args)
    };
    let one = of("1");
    assert_eq!(one, of("3"));
    let output: Value = serde_json::from_str(&one).expect("it is JSON");
    let verdicts: Vec<&str> = output["experiments"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|one| one["claims"].as_array().into_iter().flatten())
        .filter_map(|claim| claim["verdict"].as_str())
        .collect();
    assert!(verdicts.contains(&"not-judged") && verdicts.contains(&"reproduces"), "{verdicts:?}");
}

#[test]
fn an_unknown_experiment_is_rejected_with_the_known_ones() {
    let line =
        tool::rejection(&mut tool::command(&["reproduce", "contention", "--only", "turtle"]));
    assert!(line.contains("\"turtle\"") && line.contains("turtles"), "{line}");
}
