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
    let loads = ["<link", "src=", "@import", "url(", "https://"];
    assert!(page.contains("default-src 'none'") && loads.iter().all(|way| !page.contains(way)));
}

#[test]
fn what_it_does_not_know_is_one_clear_line() {
    let refused = [
        (
            &["nothing"][..],
            "there is nothing to reproduce called \"nothing\": write one of dfs, divided",
        ),
        (
            &["dfs", "--only", "fig-9"],
            "dfs has no experiment \"fig-9\": write some of fig-5.1, fig-5.2",
        ),
        (&["dfs", "--seeds", "0"], "--seeds"),
        (&["dfs", "--draws", "0"], "--draws"),
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
    for study in ["dfs", "divided"] {
        let said = told(&[study, "--list"]);
        assert!(5 < said.lines().filter(|line| line.starts_with("  ")).count(), "{said}");
    }
}
