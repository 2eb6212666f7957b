//! `evenkeel compare`: results are reproducible, interrupted comparisons resume, and verdicts state their uncertainty.

mod interrupted;
mod rejected;

use std::path::{Path, PathBuf};
use std::process::Output;

use expect_test::{expect, expect_file};
use serde_json::Value;

use crate::tool;

/// A folder with a small machine, two profiles and a workload.
struct Place(tempfile::TempDir);

/// A memory-hungry program, and one with few cache misses.
const PROFILES: [(&str, &str); 2] = [
    (
        "hungry",
        "3e8\ncycles_per_instruction = 1.4\ncore_cycles_per_instruction = 0.6\noverlap = 3.0\nfootprint_bytes = 268435456\nllc_accesses_per_1000 = 40.0\n[phase.curve]\ncache_bytes = [1048576, 8388608, 33554432]\nmisses_per_1000 = [30.0, 22.0, 12.0]",
    ),
    (
        "calm",
        "6e8\ncycles_per_instruction = 0.7\ncore_cycles_per_instruction = 0.6\noverlap = 2.0\nfootprint_bytes = 16777216\nllc_accesses_per_1000 = 2.0\n[phase.curve]\ncache_bytes = [1048576, 8388608, 33554432]\nmisses_per_1000 = [1.0, 0.3, 0.1]",
    ),
];

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(place.path("profiles")).expect("can be made");
        for (name, phase) in PROFILES {
            let class = if name == "hungry" { 9 } else { 1 };
            let text = format!(
                "version = 1\nname = \"{name}\"\nclass = {class}\nclass_cache_bytes = 33554432\n[[phase]]\ninstructions = {phase}\n"
            );
            place.write(&format!("profiles/{name}.profile.toml"), &text);
        }
        place.workload("small", 3);
        let machine = tool::run(&[
            "machine",
            "--synthetic",
            "nodes=2 llcs=1 cores=2 llc=16M mem=8G",
            "--toml",
        ]);
        place.write("m.toml", &tool::text(&machine.stdout));
        place
    }

    /// Writes a workload with `n` copies of each program.
    fn workload(&self, name: &str, n: u32) {
        let job = |program: &str| {
            format!(
                "[[job]]\nname = \"{program}\"\ncommand = [\"/bin/true\"]\nprofile = \"{program}\"\ncopies = {n}\n{}",
                if n == 1 { "" } else { "every = 0.05\n" }
            )
        };
        let text = format!("name = \"{name}\"\n{}{}", job("hungry"), job("calm"));
        self.write(&format!("{name}.toml"), &text);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("can be written");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("it exists")
    }

    /// `evenkeel compare` in this folder, with arguments separated by blanks.
    fn command(&self, words: &str) -> std::process::Command {
        self.command_of(&format!("compare {words}"))
    }

    /// Any command in this folder.
    fn command_of(&self, words: &str) -> std::process::Command {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = tool::command(&words);
        command.current_dir(self.0.path());
        command
    }

    fn compare(&self, words: &str) -> Output {
        self.command(words).output().expect("it starts")
    }

    /// The JSON of a comparison that must succeed.
    fn compared(&self, words: &str, out: &str) -> Value {
        let output = self.compare(&format!("{words} --machine m.toml --out {out} --quiet"));
        assert_eq!(output.status.code(), Some(0), "{}", tool::text(&output.stderr));
        self.json(out)
    }

    fn json(&self, out: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{out}/compare.json"))).expect("JSON")
    }

    /// The lines of `runs.jsonl`, sorted: parallel runs finish in any order.
    fn runs(&self, out: &str) -> Vec<String> {
        let mut lines: Vec<String> =
            self.read(&format!("{out}/runs.jsonl")).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

fn schema_errors(document: &Value) -> Vec<String> {
    tool::schema_errors("compare.schema.json", document)
}

#[test]
fn no_policy_has_a_shorter_makespan_than_the_oracle_which_reports_its_search() {
    let place = Place::new();
    let comparison =
        place.compared("small.toml -p linux,dio,oracle,dino[limits=article] --seeds 2", "out");
    let mean = |policy: &str| {
        let rows = comparison["summary"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["policy"] == policy).expect("a row of it");
        (row["mean_s"].as_f64().expect("a mean"), row["oracle_gap"].as_f64().expect("a gap"))
    };
    assert_eq!(mean("oracle").1, 0.0);
    for policy in ["linux", "dio"] {
        let (mean_s, gap) = mean(policy);
        assert!(mean("oracle").0 <= mean_s && 0.0 <= gap, "{policy}: {mean_s} {gap}");
    }
    let runs = comparison["runs"].as_array().expect("runs");
    for run in runs {
        let found = &run["oracle"];
        assert_eq!(found.is_null(), run["policy"] != "oracle", "{run}");
        if !found.is_null() {
            // Six jobs on two equal caches: the first job can be fixed to one of them.
            assert_eq!(
                (&found["n_placements"], &found["is_exhaustive"]),
                (&32.into(), &true.into())
            );
            assert!(0.0 <= found["above_bound"].as_f64().expect("a bound"), "{found}");
        }
    }
    assert_eq!(schema_errors(&comparison), Vec::<String>::new());
    let note = comparison["notes"].to_string();
    assert!(note.contains("small: all 32 placements were simulated, at most"), "{note}");
}

#[test]
fn the_oracle_searches_if_there_are_too_many_placements() {
    let place = Place::new();
    let comparison = place.compared("small.toml -p linux,oracle[runs=5] --seeds 1", "out");
    let run = &comparison["runs"][1];
    assert_eq!(
        (&run["oracle"]["n_placements"], &run["oracle"]["is_exhaustive"]),
        (&5.into(), &false.into())
    );
    assert!(comparison["notes"].to_string().contains("small: 5 placements were simulated"));
}

#[test]
fn the_tables_fit_eighty_columns_and_report_the_better_policy() {
    let place = Place::new();
    place.workload("large", 5);
    let comparison = place.compare(
        "small.toml large.toml -p linux,spread,dfs,linux@interleave --seeds 8 --machine m.toml --out out",
    );
    let text = tool::text(&comparison.stdout);
    assert_eq!(comparison.status.code(), Some(0), "{}", tool::text(&comparison.stderr));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}'));
    expect_file!["expected/compare.txt"].assert_eq(&text);
}

#[test]
fn the_last_progress_line_has_the_total_number_of_runs() {
    let place = Place::new();
    let comparison =
        place.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out out");
    let text = tool::text(&comparison.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" of 4 runs")).collect();
    let last = lines.last().expect("a progress line");
    assert!(last.starts_with("evenkeel: 4 of 4 runs") && !last.contains("left"), "{text}");
}

#[test]
fn the_json_is_valid_under_the_shipped_schema() {
    let place = Place::new();
    let comparison = place.compared("small.toml -p linux,spread --seeds 2", "out");
    assert_eq!(schema_errors(&comparison), [""; 0]);
    let printed =
        place.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out out --json");
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).expect("JSON"), comparison);
    for (field, wrong) in [("n_runs", Value::Null), ("seeds", Value::from("1"))] {
        let mut broken = comparison.clone();
        broken["setting"][field] = wrong;
        assert!(!schema_errors(&broken).is_empty(), "{field}");
    }
}

#[test]
fn the_files_do_not_depend_on_the_number_of_parallel_runs() {
    let place = Place::new();
    let words = "small.toml -p linux,dfs,linux@numa-balancing --seeds 6";
    for (jobs, out) in [(1, "one"), (2, "two"), (5, "five")] {
        place.compared(&format!("{words} --jobs {jobs}"), out);
    }
    for other in ["two", "five"] {
        assert_eq!(place.runs("one"), place.runs(other));
        for file in ["compare.json", "compare.html", "runs.csv", "summary.csv"] {
            assert!(
                place.read(&format!("one/{file}")) == place.read(&format!("{other}/{file}")),
                "{file}"
            );
        }
    }
}

#[test]
fn the_runs_of_a_pair_have_the_same_random_variation() {
    let place = Place::new();
    let comparison =
        place.compared("small.toml -p linux,spread,linux@first-touch --seeds 3", "out");
    let runs = comparison["runs"].as_array().expect("a list");
    let of = |policy: &str, seed: u64| {
        runs.iter().find(|run| run["policy"] == policy && run["seed"] == seed).expect("it ran")
    };
    for seed in 1..=3 {
        let starts = |policy| {
            of(policy, seed)["jobs"]
                .as_array()
                .expect("jobs")
                .iter()
                .map(|job| job["start_s"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(starts("linux"), starts("spread"), "random start delays are equal");
        // First touch is the default, so the results are equal.
        assert_eq!(of("linux", seed)["jobs"], of("linux@first-touch", seed)["jobs"]);
    }
    let same = &comparison["summary"][2];
    assert_eq!(
        (&same["ratio_to_baseline"], &same["verdict"]),
        (&Value::from(1.0), &Value::from("inconclusive"))
    );
}

#[test]
fn a_run_of_a_comparison_equals_that_of_evenkeel_run() {
    let place = Place::new();
    let comparison =
        place.compared("small.toml -p linux,dfs --seeds 7-8 --variation counters=off", "out");
    for run in comparison["runs"].as_array().expect("a list") {
        let (policy, seed) = (run["policy"].as_str().expect("text"), run["seed"].to_string());
        let alone = tool::command(&[
            "run",
            "small.toml",
            "--host=sim",
            "--machine=m.toml",
            "--variation=counters=off",
            "--json",
            "--quiet",
            "--seed",
            &seed,
            "--policy",
            policy,
            "--out",
            &format!("run-{policy}-{seed}"),
        ])
        .current_dir(place.path(""))
        .output()
        .expect("it starts");
        let report: Value = serde_json::from_slice(&alone.stdout).expect("JSON");
        let wall_s = report["run"]["wall_ns"].as_u64().expect("a number") as f64 / 1e9;
        assert_eq!(run["makespan_s"].as_f64(), Some(wall_s), "{policy} {seed}");
        assert_eq!(run["n_moves"], report["totals"]["n_moves"]);
    }
}

#[test]
fn slowdowns_are_relative_to_a_run_alone() {
    let place = Place::new();
    place.workload("lonely", 1);
    let text = place.read("lonely.toml");
    let only = text.split("[[job]]").take(2).collect::<Vec<_>>().join("[[job]]");
    place.write("lonely.toml", &only);
    let comparison =
        place.compared("lonely.toml small.toml -p linux,spread --seeds 1 --variation off", "out");
    for run in comparison["runs"].as_array().expect("a list") {
        let slowdowns = run["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .map(|job| job["slowdown"].as_f64().expect("known"));
        if run["workload"] == "lonely" {
            assert_eq!(slowdowns.collect::<Vec<_>>(), [1.0]);
            assert_eq!(run["unfairness"], Value::Null, "unfairness needs two jobs");
        } else {
            let all: Vec<f64> = slowdowns.collect();
            let (least, most) = all
                .iter()
                .fold((f64::MAX, 0f64), |(least, most), it| (least.min(*it), most.max(*it)));
            assert!(1.05 < most, "three memory-hungry jobs share two caches: {all:?}");
            assert!((run["unfairness"].as_f64().expect("known") - most / least).abs() < 1e-12);
        }
    }
}

#[test]
fn the_csv_files_have_a_row_for_each_job_and_for_each_summary() {
    let place = Place::new();
    place.compared(
        "small.toml -p linux,dfs[cooldown=4,domains=node] --seeds 2 --csv here.csv",
        "out",
    );
    let table = place.read("here.csv");
    assert_eq!(table, place.read("out/runs.csv"));
    expect![[r#"
        policy,workload,seed,status,makespan_s,slowdown,unfairness,n_migrations,n_moves,pages_moved_bytes,job,job_start_s,job_end_s,job_slowdown
    "#]]
    .assert_eq(&table.lines().take(1).map(|line| format!("{line}\n")).collect::<String>());
    // Two policies, two seeds, six jobs.
    assert_eq!(table.lines().count(), 1 + 2 * 2 * 6);
    assert!(table.contains("\"dfs[cooldown=4,domains=node]\",small,2,finished,"));
    assert_eq!(place.read("out/summary.csv").lines().count(), 1 + 2);
}

#[test]
fn the_page_is_self_contained_and_links_to_existing_timelines() {
    let place = Place::new();
    place.workload("other", 2);
    let comparison = place.compared("small.toml other.toml -p linux,spread --seeds 3", "out");
    let html = place.read("out/compare.html");
    for outside in ["http://", "https://", "<link", "src=", "@import", "url(", "@font-face"] {
        let found: Vec<_> = html.match_indices(outside).map(|(at, _)| &html[at..at + 40]).collect();
        let harmless = |text: &&str| text.starts_with("http://www.w3.org/2000/svg");
        assert!(found.iter().all(harmless), "{found:?}");
    }
    assert!(html.contains("default-src 'none'") && !html.contains("NaN"));
    for row in comparison["summary"].as_array().expect("a list") {
        let path = row["timeline"].as_str().expect("one for each");
        assert!(html.contains(&format!("href=\"{path}\"")));
        let page = place.read(&format!("out/{path}"));
        assert!(page.ends_with("</html>\n") && page.contains("id=\"timeline\""));
    }
    assert_eq!(std::fs::read_dir(place.path("out/timelines")).expect("it exists").count(), 4);
    place.compared("small.toml other.toml -p linux,spread --seeds 3 --timelines all", "out");
    assert_eq!(std::fs::read_dir(place.path("out/timelines")).expect("it exists").count(), 12);
    place.compared("small.toml -p linux,spread --seeds 3 --timelines none", "none");
    assert!(!place.path("none/timelines").exists());
}

#[test]
fn hostile_names_are_escaped_and_get_safe_file_names() {
    let place = Place::new();
    let evil = "<script>alert(1)<img src=x onerror=alert(2)>'&..";
    let text = place.read("small.toml");
    let text = text.replacen("name = \"small\"", &format!("name = \"{evil}\""), 1);
    place.write("small.toml", &text.replacen("name = \"calm\"", &format!("name = \"{evil}\""), 1));
    let comparison = place.compared("small.toml -p linux,spread --seeds 2", "out");
    let html = place.read("out/compare.html");
    // The only scripts are the data and the program of the page.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    assert!(!html.contains("<img") && html.contains("&lt;script&gt;alert(1)&lt;img src=x"));
    assert_eq!(comparison["summary"][0]["workload"], evil);
    let path = comparison["summary"][0]["timeline"].as_str().expect("one");
    assert!(place.path("out").join(path).is_file() && !path.contains(".."), "{path}");
}

#[test]
fn runs_cut_by_the_time_limit_are_excluded_and_reported() {
    let place = Place::new();
    let words =
        "small.toml -p linux,spread --seeds 2 --machine m.toml --time-limit 300ms --out out";
    let comparison = place.compare(words);
    assert_eq!(comparison.status.code(), Some(1), "runs are missing");
    let text = tool::text(&comparison.stdout);
    assert!(text.contains("4 runs are excluded from all metrics"), "{text}");
    let json = place.json("out");
    assert_eq!(json["summary"][0]["n_excluded"], 2);
    assert_eq!(json["summary"][0]["mean_s"], Value::Null);
    assert_eq!(json["runs"][0]["status"], "stopped");
    assert_eq!(schema_errors(&json), [""; 0]);
    assert!(!place.read("out/compare.html").contains("NaN"));
}

#[test]
fn live_runs_alternate_between_the_policies_and_each_has_a_report() {
    let place = Place::new();
    place.write(
        "live.toml",
        "[[job]]\nname = \"a\"\nload = \"compute --cpu 30ms\"\n[[job]]\nname = \"b\"\nload = \"compute --cpu 10ms\"\n",
    );
    let comparison =
        place.compare("live.toml -p linux,spread --host live --seeds 2 --solo --out out --quiet");
    assert_eq!(comparison.status.code(), Some(0), "{}", tool::text(&comparison.stderr));
    let json = place.json("out");
    assert_eq!(schema_errors(&json), [""; 0]);
    let order: Vec<String> = place
        .read("out/runs.jsonl")
        .lines()
        .skip(2)
        .map(|line| {
            let run: Value = serde_json::from_str(line).expect("JSON");
            format!("{} {}", run["policy"].as_str().expect("text"), run["seed"])
        })
        .collect();
    assert_eq!(order, ["linux 1", "spread 1", "linux 2", "spread 2"]);
    for run in json["runs"].as_array().expect("a list") {
        let report = run["report"].as_str().expect("every run has one");
        assert!(Path::new(&place.path("out").join(report)).is_file());
        assert!(run["jobs"][0]["slowdown"].as_f64().is_some_and(|it| 0.0 < it), "{run}");
    }
    let again =
        place.compare("live.toml -p linux,spread --host live --seeds 2 --solo --out out --json");
    assert_eq!(
        serde_json::from_slice::<Value>(&again.stdout).expect("JSON"),
        json,
        "no run is repeated"
    );
}
