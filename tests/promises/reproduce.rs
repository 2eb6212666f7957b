//! `evenkeel reproduce` prints published results beside simulated results, and the same bytes for the same command.

use expect_test::expect_file;
use serde_json::Value;
use tests::tool;

fn reproduce(args: &[&str]) -> String {
    tool::success(&[&["reproduce"], args].concat())
}

fn json(args: &[&str]) -> Value {
    let report = serde_json::from_str(&reproduce(&[args, &["--json"]].concat())).expect("JSON");
    assert_eq!(schema_errors(&report), [""; 0]);
    report
}

fn schema_errors(document: &Value) -> Vec<String> {
    tool::schema_errors("reproduce.schema.json", document)
}

const EXPERIMENT: [&str; 6] = ["dfs", "--only", "fig-5.1", "--seeds", "2", "--quiet"];
const DRAWN: [&str; 6] = ["divided", "--only", "fig-1,fig-6", "--draws", "20", "--quiet"];

#[test]
fn the_start_of_each_experiment_is_a_line_without_a_terminal() {
    let run = |args: &[&str]| tool::text(&tool::run(args).stderr);
    let args = ["reproduce", "divided", "--only", "fig-1,fig-6", "--draws", "2"];
    let titles = tool::success(&[&args[..], &["--list"]].concat());
    let title = |name: &str| {
        let line = titles.lines().find(|line| line.trim().starts_with(name)).expect("it is listed");
        line.trim().trim_start_matches(name).trim().to_owned()
    };
    let line =
        |n: u32, name: &str| format!("evenkeel: experiment {n} of 2, {name}: {}\n", title(name));
    assert_eq!(run(&args), line(1, "fig-1") + &line(2, "fig-6"));
    assert_eq!(run(&[&args[..], &["--quiet"]].concat()), "");
}

#[test]
fn the_output_does_not_depend_on_the_number_of_parallel_runs() {
    let sequential = reproduce(&[&EXPERIMENT[..], &["--jobs", "1"]].concat());
    assert_eq!(sequential, reproduce(&[&EXPERIMENT[..], &["--jobs", "3"]].concat()));
    let drawn = reproduce(&DRAWN);
    assert_eq!(drawn, reproduce(&DRAWN));
    for text in [sequential, drawn] {
        let wide: Vec<&str> = text.lines().filter(|line| 80 < line.chars().count()).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

#[test]
fn the_json_has_the_command_that_prints_it_again() {
    let text = reproduce(&[&DRAWN[..], &["--seeds", "3,5", "--json"]].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(schema_errors(&report), [""; 0]);
    let command = "evenkeel reproduce divided --only fig-1,fig-6 --seeds 3,5 --draws 20";
    assert_eq!((&report["command"], &report["format"]), (&command.into(), &2.into()));
    assert_eq!(report["machines"], serde_json::json!(["xeon-2x4"]));
    let words: Vec<&str> = command.split(' ').skip(2).chain(["--quiet", "--json"]).collect();
    assert_eq!(reproduce(&words), text);
    for (field, wrong) in [("format", "1".into()), ("n_draws", Value::Null)] {
        let mut broken = report.clone();
        broken[field] = wrong;
        assert!(!schema_errors(&broken).is_empty(), "{field}");
    }
}

#[test]
fn the_columns_of_a_matrix_of_programs_have_the_names_of_its_rows() {
    let report = json(&DRAWN);
    let table = &report["experiments"][0]["tables"][0];
    let names = |list: &str, name: &str| -> Vec<Value> {
        let all = table[list].as_array().expect("a list").iter();
        all.map(|one| one.pointer(name).expect("a name").clone()).collect()
    };
    // The last row is a mean.
    assert_eq!(names("columns", "/head")[1..], names("rows", "/0/text")[..11]);
}

#[test]
fn values_have_units_and_intervals_and_published_columns_are_marked() {
    let report = json(&EXPERIMENT);
    let table = &report["experiments"][0]["tables"][0];
    let marks: Vec<bool> = table["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| column["is_published"].as_bool().expect("a flag"))
        .collect();
    assert_eq!(marks, [false, true, false, false, false]);
    let row = &table["rows"][0];
    let (paper, corrected) = (&row[1]["values"][0], &row[4]["values"][0]);
    assert_eq!((&paper["low"], &paper["high"]), (&(-0.8).into(), &4.5.into()));
    assert_eq!((&corrected["unit"], &paper["unit"]), (&"%".into(), &"%".into()));
    let [low, value, high] =
        ["low", "value", "high"].map(|end| corrected[end].as_f64().expect("a number"));
    assert!(low <= value && value <= high, "{corrected}");
    let half = (high - low) / 2.0;
    assert_eq!(row[4]["text"], format!("{value:+.1}±{half:.1}"));
    // The accepted range, which is judged with every ceiling above -1 %.
    let claim = &report["experiments"][0]["claims"][2];
    assert_eq!(claim["values"].as_array().map(Vec::len), Some(5), "{claim}");
}

#[test]
fn every_claim_has_a_verdict_for_both_readings() {
    let report = json(&EXPERIMENT);
    let claims = report["experiments"][0]["claims"].as_array().expect("claims");
    let n_of = |reading: &str| claims.iter().filter(|claim| claim["reading"] == reading).count();
    assert_eq!((n_of("paper"), n_of("corrected"), n_of("either")), (9, 9, 0));
    let verdicts = ["reproduces", "does-not-reproduce", "depends-on-the-profile", "not-judged"];
    for claim in claims {
        assert!(verdicts.contains(&claim["verdict"].as_str().unwrap_or("")), "{claim}");
    }
}

#[test]
fn the_page_has_every_claim_and_loads_no_other_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("page.html");
    let file = file.to_str().expect("UTF-8");
    reproduce(&[&DRAWN[..], &["--html", file]].concat());
    let page = std::fs::read_to_string(file).expect("it was written");
    assert!(page.contains("fig-1") && page.contains("class=\"heat small\""));
    assert!(page.contains("does not reproduce") && page.contains("not judged"));
    let command = "evenkeel reproduce divided --only fig-1,fig-6 --seeds 20 --draws 20";
    let version = format!("evenkeel {}", env!("CARGO_PKG_VERSION"));
    assert!([command, &version, "xeon-2x4"].iter().all(|words| page.contains(words)));
    let loads = ["<link", "src=", "@import", "url(", "https://"];
    assert!(page.contains("default-src 'none'") && loads.iter().all(|text| !page.contains(text)));
}

#[test]
fn list_prints_the_experiments_of_a_study() {
    for study in ["dfs", "divided", "contention"] {
        let text = reproduce(&[study, "--list"]);
        assert!(5 < text.lines().filter(|line| line.starts_with("  ")).count(), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let some = reproduce(&["dfs", "--only", "upper-bound", "--list"]);
    let names: Vec<&str> = some.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(names, ["  upper-bound  upper bound of the gain of any scheduler"]);
}

#[test]
fn the_turtles_experiment_prints_its_source_limit_values_and_verdicts() {
    let text = reproduce(&["contention", "--only", "turtles", "--seeds", "1", "--quiet"]);
    expect_file!["expected/contention-turtles.txt"].assert_eq(&text);
}

#[test]
fn verdicts_of_contention_do_not_depend_on_the_number_of_threads() {
    let args = ["contention", "--only", "published-moves,turtles", "--seeds", "2", "--json"];
    let output = |jobs: &str| reproduce(&[&args[..], &["--jobs", jobs]].concat());
    let text = output("1");
    assert_eq!(text, output("3"));
    let output: Value = serde_json::from_str(&text).expect("it is JSON");
    let verdicts: Vec<&str> = output["experiments"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|experiment| experiment["claims"].as_array().into_iter().flatten())
        .filter_map(|claim| claim["verdict"].as_str())
        .collect();
    assert!(verdicts.contains(&"not-judged") && verdicts.contains(&"reproduces"), "{verdicts:?}");
}
