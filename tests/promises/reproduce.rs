//! Promise: `evenkeel reproduce` tells what papers say beside what comes out here, the same bytes from the same
//! command, and refuses with one line what it does not know.

use serde_json::Value;

use crate::tool;

/// Exit status, standard output, standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = tool::run(&[&["reproduce"], args].concat());
    (output.status.code(), tool::text(&output.stdout), tool::text(&output.stderr))
}

fn told(args: &[&str]) -> String {
    let (status, said, notes) = run(args);
    assert_eq!(status, Some(0), "{args:?}: {notes}");
    said
}

const FIGURE: [&str; 6] = ["dfs", "--only", "fig-5.1", "--seeds", "2", "--quiet"];
const DRAWN: [&str; 6] = ["divided", "--only", "fig-1,fig-6", "--draws", "4", "--quiet"];

#[test]
fn the_same_command_prints_the_same_bytes_however_many_runs_take_place_at_a_time() {
    let one = told(&[&FIGURE[..], &["--jobs", "1"]].concat());
    assert_eq!(one, told(&[&FIGURE[..], &["--jobs", "3"]].concat()));
    let drawn = told(&DRAWN);
    assert_eq!(drawn, told(&DRAWN));
    for said in [one, drawn] {
        let wide: Vec<&str> = said.lines().filter(|line| 80 < line.chars().count()).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

/// What the schema that ships has against a document.
fn faults(document: &Value) -> Vec<String> {
    let schema = std::fs::read_to_string(tool::root().join("docs/reproduce.schema.json"));
    let schema: Value = serde_json::from_str(&schema.expect("it ships")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors = validator.iter_errors(document);
    errors.map(|error| format!("{error} at {}", error.instance_path())).collect()
}

#[test]
fn the_json_holds_to_the_schema_that_ships_and_says_what_prints_it_again() {
    let said = told(&[&DRAWN[..], &["--seeds", "3,5", "--json"]].concat());
    let account: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(faults(&account), [""; 0]);
    let command = "evenkeel reproduce divided --only fig-1,fig-6 --seeds 3,5 --draws 4";
    assert_eq!((&account["command"], &account["format"]), (&command.into(), &2.into()));
    assert_eq!(account["machines"], serde_json::json!(["xeon-2x4"]));
    let words: Vec<&str> = command.split(' ').skip(2).chain(["--quiet", "--json"]).collect();
    assert_eq!(told(&words), said);
    for (field, wrong) in [("format", "1".into()), ("n_draws", Value::Null)] {
        let mut broken = account.clone();
        broken[field] = wrong;
        assert!(!faults(&broken).is_empty(), "{field}");
    }
}

#[test]
fn figures_are_numbers_with_units_and_intervals_and_the_papers_are_marked() {
    let said = told(&[&FIGURE[..], &["--json"]].concat());
    let account: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(faults(&account), [""; 0]);
    let table = &account["experiments"][0]["tables"][0];
    let marks: Vec<bool> = table["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| column["is_published"].as_bool().expect("a flag"))
        .collect();
    assert_eq!(marks, [false, true, false, false]);
    let row = &table["rows"][0];
    let (paper, ours) = (&row[1]["values"][0], &row[3]["values"][0]);
    assert_eq!((&paper["low"], &paper["high"]), (&(-0.8).into(), &4.5.into()));
    assert_eq!((&ours["unit"], &paper["unit"]), (&"%".into(), &"%".into()));
    let [low, value, high] =
        ["low", "value", "high"].map(|end| ours[end].as_f64().expect("a number"));
    assert!(low <= value && value <= high, "{ours}");
    let half = (high - low) / 2.0;
    assert_eq!(row[3]["text"], format!("{value:+.1}±{half:.1}"));
    let claim = &account["experiments"][0]["claims"][0];
    assert_eq!(claim["values"].as_array().map(Vec::len), Some(5), "{claim}");
}

#[test]
fn every_claim_has_both_readings_or_says_that_nothing_hangs_on_them() {
    let said = told(&[&FIGURE[..], &["--json"]].concat());
    let account: Value = serde_json::from_str(&said).expect("it is JSON");
    let claims = account["experiments"][0]["claims"].as_array().expect("claims");
    let n_of = |reading: &str| claims.iter().filter(|claim| claim["reading"] == reading).count();
    assert_eq!((n_of("paper"), n_of("ours"), n_of("either")), (9, 9, 0));
    let verdicts = ["reproduces", "does-not-reproduce", "depends-on-the-profile", "not-judged"];
    for claim in claims {
        assert!(verdicts.contains(&claim["verdict"].as_str().unwrap_or("")), "{claim}");
    }
}

#[test]
fn the_page_holds_every_claim_and_loads_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    let file = file.to_str().expect("UTF-8");
    told(&[&DRAWN[..], &["--html", file]].concat());
    let page = std::fs::read_to_string(file).expect("it was written");
    assert!(page.contains("fig-1") && page.contains("class=\"heat small\""));
    assert!(page.contains("does not reproduce") && page.contains("not judged"));
    let command = "evenkeel reproduce divided --only fig-1,fig-6 --seeds 20 --draws 4";
    let version = format!("evenkeel {}", env!("CARGO_PKG_VERSION"));
    assert!([command, &version, "xeon-2x4"].iter().all(|words| page.contains(words)));
    let loads = ["<link", "src=", "@import", "url(", "https://"];
    assert!(page.contains("default-src 'none'") && loads.iter().all(|way| !page.contains(way)));
}

#[test]
fn what_it_does_not_know_is_one_clear_line() {
    let refused = [
        (&["nothing"][..], "there is no study \"nothing\": write one of dfs, divided"),
        (
            &["dfs", "--only", "fig-9"],
            "dfs has no experiment \"fig-9\": write some of fig-5.1, fig-5.2",
        ),
        (&["dfs", "--seeds", "0"], "--seeds"),
        (
            &["dfs", "--seeds", "-1"],
            "evenkeel: --seeds -1: not a number; write a number of seeds (20)",
        ),
        (&["dfs", "--draws", "0"], "'--draws <N>': write an integer from 1 to 100000;"),
        (&["dfs", "--draws", "-1"], "'--draws <N>': write an integer from 1 to 100000;"),
        (&["dfs", "-j", "0"], "'--jobs <N>': write an integer from 1 to 1024;"),
        (&["dfs", "-j", "99999"], "'--jobs <N>': write an integer from 1 to 1024;"),
        (&["dfs", "-j", "few"], "'--jobs <N>': write an integer from 1 to 1024;"),
        (
            &["dfs", "--list", "--json"],
            "evenkeel: --json prints results, and --list runs no experiment: omit one of them\n",
        ),
        (
            &["dfs", "--list", "--html", "/nonexistent/page.html"],
            "evenkeel: --html prints results, and --list runs no experiment: omit one of them\n",
        ),
        (
            &["dfs", "--only", "fig-5.1", "--html", "/nonexistent/page.html"],
            "/nonexistent/page.html",
        ),
    ];
    for (args, expected) in refused {
        let (status, said, notes) = run(args);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{args:?}: {notes}");
        assert_eq!(notes.lines().count(), 1, "{args:?}: {notes}");
        assert!(notes.contains(expected), "{args:?}: {notes}");
    }
}

#[test]
fn there_is_a_list_of_what_there_is() {
    for study in ["dfs", "divided", "contention"] {
        let said = told(&[study, "--list"]);
        assert!(5 < said.lines().filter(|line| line.starts_with("  ")).count(), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    }
    let some = told(&["dfs", "--only", "ceiling", "--list"]);
    let names: Vec<&str> = some.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(names, ["  ceiling  upper bound of the gain of any scheduler"]);
}
