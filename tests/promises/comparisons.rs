//! `evenkeel compare`: results are reproducible, interrupted comparisons resume, and verdicts state their uncertainty.

mod commands;
mod interrupted;

use std::process::Output;

use expect_test::{expect, expect_file};
use serde_json::Value;
use tests::dir::Dir;
use tests::process::two_cpus;
use tests::{tool, transcript};

/// A memory-hungry program, and a program with few cache misses.
const PROFILES: [(&str, u8, &str); 2] = [
    (
        "hungry",
        9,
        "3e8\ncycles_per_instruction = 1.4\ncore_cycles_per_instruction = 0.6\noverlap = 3.0\nfootprint_bytes = 268435456\nllc_accesses_per_1000 = 40.0\n[phase.curve]\ncache_bytes = [1048576, 8388608, 33554432]\nmisses_per_1000 = [30.0, 22.0, 12.0]",
    ),
    (
        "calm",
        1,
        "6e8\ncycles_per_instruction = 0.7\ncore_cycles_per_instruction = 0.6\noverlap = 2.0\nfootprint_bytes = 16777216\nllc_accesses_per_1000 = 2.0\n[phase.curve]\ncache_bytes = [1048576, 8388608, 33554432]\nmisses_per_1000 = [1.0, 0.3, 0.1]",
    ),
];

/// Comparisons in a directory with a small machine, two profiles and a workload.
struct Comparisons(Dir);

impl std::ops::Deref for Comparisons {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.0
    }
}

/// Writes the machine, the profiles and the workload.
fn prepare(dir: &Dir) {
    for (name, class, phase) in PROFILES {
        let text = format!(
            "version = 2\nname = \"{name}\"\nclass = {class}\nclass_cache_bytes = 33554432\n[[phase]]\ninstructions = {phase}\n"
        );
        dir.write(&format!("profiles/{name}.profile.toml"), text);
    }
    write_workload(dir, "small", 3);
    let machine = "nodes=2 llcs=1 cores=2 llc=16M mem=8G";
    dir.write("m.toml", tool::success(&["machine", "--synthetic", machine, "--toml"]));
}

/// Writes a workload with `n` copies of each program.
fn write_workload(dir: &Dir, name: &str, n: u32) {
    let every = if n == 1 { "" } else { "every = 0.05\n" };
    let job = |program: &str| {
        format!(
            "[[job]]\nname = \"{program}\"\ncommand = [\"/bin/true\"]\nprofile = \"{program}\"\ncopies = {n}\n{every}"
        )
    };
    dir.write(
        &format!("{name}.toml"),
        format!("name = \"{name}\"\n{}{}", job("hungry"), job("calm")),
    );
}

impl Comparisons {
    fn new() -> Self {
        let dir = Dir::new();
        prepare(&dir);
        Comparisons(dir)
    }

    /// Returns the command `evenkeel` in this directory, with arguments separated by spaces.
    fn evenkeel(&self, words: &str) -> std::process::Command {
        self.command(&words.split(' ').collect::<Vec<_>>())
    }

    fn compare(&self, words: &str) -> Output {
        self.evenkeel(&format!("compare {words}")).output().expect("evenkeel starts")
    }

    /// Returns the JSON of a comparison that must succeed.
    fn compared(&self, words: &str, out: &str) -> Value {
        let output = self.compare(&format!("{words} --machine m.toml --out {out} --quiet"));
        assert_eq!(output.status.code(), Some(0), "{}", tool::text(&output.stderr));
        self.json(out)
    }

    fn json(&self, out: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{out}/compare.json"))).expect("JSON")
    }

    /// Reads the lines of `runs.jsonl` in sorted order, because parallel runs finish in any order.
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
fn a_comparison_counts_online_cpus() {
    let dir = Comparisons::new();
    // 60 of the 64 CPUs are online.
    let output = dir.compare("small.toml --machine tilepro64 --seeds 1 --json");
    let comparison: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(comparison["setting"]["n_cpus"], 60);
}

#[test]
fn no_policy_has_a_shorter_makespan_than_the_oracle_which_reports_its_search() {
    let dir = Comparisons::new();
    let comparison =
        dir.compared("small.toml -p linux,dio,oracle,dino[limits=article] --seeds 2", "out");
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
            // Six jobs run on two equal caches, so the first job can be fixed to one cache.
            assert_eq!(
                (&found["n_placements"], &found["is_exhaustive"]),
                (&32.into(), &true.into())
            );
            assert!(0.0 <= found["above_bound"].as_f64().expect("a bound"), "{found}");
        }
    }
    assert_eq!(schema_errors(&comparison), Vec::<String>::new());
    let note = comparison["notes"].to_string();
    assert!(note.contains("small: all placements were simulated (32), at most"), "{note}");
}

#[test]
fn the_oracle_searches_if_there_are_too_many_placements() {
    let dir = Comparisons::new();
    let comparison = dir.compared("small.toml -p linux,oracle[runs=5] --seeds 1", "out");
    let run = &comparison["runs"][1];
    assert_eq!(
        (&run["oracle"]["n_placements"], &run["oracle"]["is_exhaustive"]),
        (&5.into(), &false.into())
    );
    assert!(comparison["notes"].to_string().contains("small: 5 placements simulated"));
}

#[test]
fn the_oracle_reports_that_no_simulated_run_finished() {
    let dir = Comparisons::new();
    let run = |limit: &str| {
        let words = "run small.toml --host sim --machine m.toml --policy oracle --time-limit";
        let output = dir.evenkeel(&format!("{words} {limit} --out {limit}")).output();
        tool::text(&output.expect("evenkeel starts").stderr)
    };
    let none_finished = "no simulated run finished (the time limit expired): it repeats";
    let stopped = run("0.1s");
    assert!(stopped.contains(none_finished) && !stopped.contains("the smallest"), "{stopped}");
    let finished = run("1h");
    assert!(finished.contains("the smallest makespan") && !finished.contains(none_finished));
}

#[test]
fn each_objective_of_the_oracle_is_smallest_for_the_oracle() {
    let dir = Comparisons::new();
    for objective in ["mean-slowdown", "max-slowdown"] {
        let oracle = format!("oracle[runs=4,objective={objective}]");
        let words = format!("small.toml -p linux,dio,spread,{oracle} --seeds 2");
        let comparison = dir.compared(&words, objective);
        for row in comparison["summary"].as_array().expect("rows") {
            let gap = row["oracle_gap"].as_f64().expect("a gap");
            assert!(0.0 <= gap, "{objective}: {} {gap}", row["policy"]);
        }
        let found = &comparison["runs"][3]["oracle"];
        assert!(0.0 <= found["above_bound"].as_f64().expect("a bound"), "{found}");
        assert!(found["bound_term"].is_string(), "{found}");
    }
}

#[test]
fn drawn_profiles_are_the_same_for_all_policies_and_a_draw_is_one_observation() {
    let dir = Comparisons::new();
    let job = |name: &str, profile: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\ncommand = [\"{name}\"]\nprofile = \"{profile}\"\ncopies = 3\n"
        )
    };
    dir.write(
        "w.toml",
        "name = \"w\"\n".to_owned() + &job("lbm", "lbm@0.001") + &job("calm", "calm"),
    );
    let words = "w.toml -p linux,dio --seeds 4 --variation off --draw-profiles 2";
    let drawn = dir.compared(words, "drawn");
    assert_eq!(schema_errors(&drawn), [""; 0]);
    assert_eq!(drawn["setting"]["n_profile_draws"], 2);
    let runs = drawn["runs"].as_array().expect("runs");
    let of = |seed: u64, policy: &str| {
        let is_run = |run: &&Value| run["seed"] == seed && run["policy"] == policy;
        let run = runs.iter().find(is_run).expect("a run");
        (run["profile_draw"].as_u64().expect("a draw"), run["makespan_s"].as_f64().expect("a time"))
    };
    for policy in ["linux", "dio"] {
        // Without random variation, runs differ only in their draw.
        assert_eq!((of(1, policy).0, of(2, policy).0), (1, 2));
        assert_eq!((of(1, policy), of(2, policy)), (of(3, policy), of(4, policy)));
        assert_ne!(of(1, policy).1, of(2, policy).1);
    }
    let row = &drawn["summary"][0];
    assert_eq!((&row["n_runs"], &row["n_pairs"]), (&4.into(), &2.into()));
    let notes = drawn["notes"].to_string();
    assert!(notes.contains("2 draws from the ranges"), "{notes}");
    assert!(notes.contains("have no ranges: calm, calm.2, calm.3."), "{notes}");
    assert!(notes.contains("2 profile draws are too few for a verdict"), "{notes}");
    // Without draws, all runs are equal.
    let fixed = dir.compared("w.toml -p linux,dio --seeds 2 --variation off", "fixed");
    assert_eq!(fixed["runs"][0]["makespan_s"], fixed["runs"][2]["makespan_s"]);
    let output =
        dir.compare(&format!("{} --machine m.toml --out drawn", words.replace(" 2", " 3")));
    assert!(tool::text(&output.stderr).contains("other options"), "{output:?}");
}

#[test]
fn the_tables_fit_eighty_columns_and_report_the_better_policy() {
    let dir = Comparisons::new();
    write_workload(&dir, "large", 5);
    let comparison = dir.compare(
        "small.toml large.toml -p linux,spread,dfs,linux@interleave --seeds 8 --machine m.toml --out out",
    );
    let text = tool::text(&comparison.stdout);
    assert_eq!(comparison.status.code(), Some(0), "{}", tool::text(&comparison.stderr));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}'));
    // The command contains the path of the directory.
    let (head, rest) = text.split_once("repeat:").expect("a command");
    let (_, tables) = rest.split_once("\n\n").expect("tables");
    expect_file!["expected/compare.txt"].assert_eq(&format!("{head}\n{tables}"));
}

#[test]
fn the_last_progress_line_has_the_total_number_of_runs() {
    let dir = Comparisons::new();
    let comparison = dir.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out out");
    let text = tool::text(&comparison.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" of 4 runs")).collect();
    let last = lines.last().expect("a progress line");
    assert!(last.starts_with("evenkeel: 4 of 4 runs") && !last.contains("left"), "{text}");
}

#[test]
fn the_json_is_valid_under_the_shipped_schema() {
    let dir = Comparisons::new();
    let comparison = dir.compared("small.toml -p linux,spread --seeds 2", "out");
    assert_eq!(schema_errors(&comparison), [""; 0]);
    let printed =
        dir.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out out --json");
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).expect("JSON"), comparison);
    for (field, wrong) in [("n_runs", Value::Null), ("seeds", Value::from("1"))] {
        let mut broken = comparison.clone();
        broken["setting"][field] = wrong;
        assert!(!schema_errors(&broken).is_empty(), "{field}");
    }
}

#[test]
fn the_files_do_not_depend_on_the_number_of_parallel_runs() {
    let dir = Comparisons::new();
    let words = "small.toml -p linux,dfs,linux@numa-balancing --seeds 6";
    for (jobs, out) in [(1, "one"), (2, "two"), (5, "five")] {
        dir.compared(&format!("{words} --jobs {jobs}"), out);
    }
    for other in ["two", "five"] {
        assert_eq!(dir.runs("one"), dir.runs(other));
        for file in ["compare.json", "compare.html", "runs.csv", "summary.csv"] {
            assert!(
                dir.read(&format!("one/{file}")) == dir.read(&format!("{other}/{file}")),
                "{file}"
            );
        }
    }
}

#[test]
fn the_runs_of_a_pair_have_the_same_random_variation() {
    let dir = Comparisons::new();
    let comparison = dir.compared("small.toml -p linux,spread,linux@first-touch --seeds 3", "out");
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
    let first_touch = &comparison["summary"][2];
    assert_eq!(
        (&first_touch["ratio_to_baseline"], &first_touch["is_same_as_baseline"]),
        (&Value::from(1.0), &Value::from(true))
    );
}

#[test]
fn a_run_of_a_comparison_equals_the_run_of_evenkeel_run() {
    let dir = Comparisons::new();
    // The makespan includes the time before the first start.
    let late = |text: String| text.replace("[[job]]\n", "[[job]]\nstart = 1\n");
    dir.write("small.toml", late(dir.read("small.toml")));
    let comparison =
        dir.compared("small.toml -p linux,dfs --seeds 7-8 --variation counters=off", "out");
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
        .current_dir(dir.root())
        .output()
        .expect("it starts");
        let report: Value = serde_json::from_slice(&alone.stdout).expect("JSON");
        let makespan_s = report["run"]["makespan_ns"].as_u64().expect("a number") as f64 / 1e9;
        assert_eq!(run["makespan_s"].as_f64(), Some(makespan_s), "{policy} {seed}");
        assert_eq!(run["n_moves"], report["totals"]["n_moves"]);
    }
}

#[test]
fn slowdowns_are_relative_to_a_run_alone() {
    let dir = Comparisons::new();
    write_workload(&dir, "lonely", 1);
    let text = dir.read("lonely.toml");
    let only = text.split("[[job]]").take(2).collect::<Vec<_>>().join("[[job]]");
    dir.write("lonely.toml", &only);
    let comparison =
        dir.compared("lonely.toml small.toml -p linux,spread --seeds 1 --variation off", "out");
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
            let (min, max) =
                all.iter().fold((f64::MAX, 0f64), |(min, max), it| (min.min(*it), max.max(*it)));
            assert!(1.05 < max, "three memory-hungry jobs share two caches: {all:?}");
            assert!((run["unfairness"].as_f64().expect("known") - max / min).abs() < 1e-12);
        }
    }
}

#[test]
fn the_csv_files_have_a_row_for_each_job_and_for_each_summary() {
    let dir = Comparisons::new();
    dir.compared(
        "small.toml -p linux,dfs[cooldown=4,domains=node] --seeds 2 --csv here.csv",
        "out",
    );
    let table = dir.read("here.csv");
    assert_eq!(table, dir.read("out/runs.csv"));
    expect![[r#"
        policy,command,workload,seed,status,makespan_s,user_s,system_s,slowdown,unfairness,n_migrations,n_moves,pages_moved_bytes,profile_draw,model_gap,model_gap_basis,job,job_start_s,job_end_s,job_user_s,job_system_s,job_slowdown
    "#]]
    .assert_eq(&table.lines().take(1).map(|line| format!("{line}\n")).collect::<String>());
    // Two policies, two seeds, six jobs.
    assert_eq!(table.lines().count(), 1 + 2 * 2 * 6);
    assert!(table.contains("\"dfs[cooldown=4,domains=node]\",,small,2,finished,"));
    assert_eq!(dir.read("out/summary.csv").lines().count(), 1 + 2);
}

#[test]
fn the_page_is_self_contained_and_links_to_existing_timelines() {
    let dir = Comparisons::new();
    write_workload(&dir, "other", 2);
    let comparison = dir.compared("small.toml other.toml -p linux,spread --seeds 3", "out");
    let html = dir.read("out/compare.html");
    for outside in ["http://", "https://", "<link", "src=", "@import", "url(", "@font-face"] {
        let found: Vec<_> = html.match_indices(outside).map(|(at, _)| &html[at..at + 40]).collect();
        let harmless = |text: &&str| text.starts_with("http://www.w3.org/2000/svg");
        assert!(found.iter().all(harmless), "{found:?}");
    }
    assert!(html.contains("default-src 'none'") && !html.contains("NaN"));
    for row in comparison["summary"].as_array().expect("a list") {
        let path = row["timeline"].as_str().expect("one for each");
        assert!(html.contains(&format!("href=\"{path}\"")));
        let page = dir.read(&format!("out/{path}"));
        assert!(page.ends_with("</html>\n") && page.contains("id=\"timeline\""));
    }
    assert_eq!(std::fs::read_dir(dir.path("out/timelines")).expect("it exists").count(), 4);
    dir.compared("small.toml other.toml -p linux,spread --seeds 3 --timelines all", "out");
    assert_eq!(std::fs::read_dir(dir.path("out/timelines")).expect("it exists").count(), 12);
    dir.compared("small.toml -p linux,spread --seeds 3 --timelines none", "none");
    assert!(!dir.path("none/timelines").exists());
}

#[test]
fn hostile_names_are_escaped_and_get_safe_file_names() {
    let dir = Comparisons::new();
    let evil = "<script>alert(1)<img src=x onerror=alert(2)>'&..";
    let text = dir.read("small.toml");
    let text = text.replacen("name = \"small\"", &format!("name = \"{evil}\""), 1);
    dir.write("small.toml", text.replacen("name = \"calm\"", &format!("name = \"{evil}\""), 1));
    let comparison = dir.compared("small.toml -p linux,spread --seeds 2", "out");
    let html = dir.read("out/compare.html");
    // The only scripts of the page are the data and the program of the page.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    assert!(!html.contains("<img") && html.contains("&lt;script&gt;alert(1)&lt;img src=x"));
    assert_eq!(comparison["summary"][0]["workload"], evil);
    let path = comparison["summary"][0]["timeline"].as_str().expect("one");
    assert!(dir.path("out").join(path).is_file() && !path.contains(".."), "{path}");
}

#[test]
fn runs_cut_by_the_time_limit_are_excluded_and_reported() {
    let dir = Comparisons::new();
    let words =
        "small.toml -p linux,spread --seeds 2 --machine m.toml --time-limit 300ms --out out";
    let comparison = dir.compare(words);
    assert_eq!(comparison.status.code(), Some(1), "runs are missing");
    let text = tool::text(&comparison.stdout);
    assert!(text.contains("4 runs did not finish"), "{text}");
    let json = dir.json("out");
    assert_eq!(json["summary"][0]["n_failed"], 2);
    assert_eq!(json["summary"][0]["mean_s"], Value::Null);
    let run = &json["runs"][0];
    assert_eq!((&run["status"], &run["makespan_s"]), (&"stopped".into(), &Value::Null));
    let csv = dir.read("out/runs.csv");
    assert!(
        csv.lines().nth(1).is_some_and(|row| row.starts_with("linux,,small,1,stopped,,")),
        "{csv}"
    );
    assert_eq!(schema_errors(&json), [""; 0]);
    assert!(!dir.read("out/compare.html").contains("NaN"));
}

#[test]
fn live_runs_alternate_between_the_policies_and_each_has_a_report() {
    let dir = Comparisons::new();
    dir.write(
        "live.toml",
        "[[job]]\nname = \"a\"\nload = \"compute --cpu 30ms\"\n[[job]]\nname = \"b\"\nload = \"compute --cpu 10ms\"\n",
    );
    let comparison =
        dir.compare("live.toml -p linux,spread --host live --seeds 2 --solo --out out --quiet");
    assert_eq!(comparison.status.code(), Some(0), "{}", tool::text(&comparison.stderr));
    let json = dir.json("out");
    assert_eq!(schema_errors(&json), [""; 0]);
    let order: Vec<String> = dir
        .read("out/runs.jsonl")
        .lines()
        .skip(2)
        .map(|line| {
            let run: Value = serde_json::from_str(line).expect("JSON");
            format!("{} {}", run["column"].as_str().expect("text"), run["seed"])
        })
        .collect();
    assert_eq!(order, ["linux 1", "spread 1", "linux 2", "spread 2"]);
    for run in json["runs"].as_array().expect("a list") {
        let report = run["report"].as_str().expect("every run has one");
        assert!(dir.path("out").join(report).is_file());
        assert!(
            run["jobs"][0]["slowdown"].as_f64().is_some_and(|slowdown| 0.0 < slowdown),
            "{run}"
        );
    }
    let repeated =
        dir.compare("live.toml -p linux,spread --host live --seeds 2 --solo --out out --json");
    assert_eq!(
        serde_json::from_slice::<Value>(&repeated.stdout).expect("JSON"),
        json,
        "no run is repeated"
    );
}

#[test]
fn a_live_comparison_uses_the_declared_core_kinds_and_resumes_only_with_the_same_kinds() {
    let Some((all, fast, _)) = two_cpus() else { return };
    let dir = Comparisons::new();
    dir.write("live.toml", "[[job]]\nname = \"a\"\nload = \"compute --cpu 10ms\"\n");
    let slow = all.minus(&fast);
    let compare = |capacity: u32| {
        dir.compare(&format!(
            "live.toml -p linux,ff --host live --seeds 1 --out out --quiet \
             --core-kinds fast={fast}:1024,slow={slow}:{capacity}"
        ))
    };
    let comparison = compare(512);
    assert_eq!(comparison.status.code(), Some(0), "{}", tool::text(&comparison.stderr));
    let json = dir.json("out");
    let one_kind = "makes no request on this machine";
    let notes = json["notes"].to_string();
    assert!(!notes.contains(one_kind), "{notes}");
    let options = json["setting"]["options"].to_string();
    assert!(options.contains(&format!("slow={slow}:512")), "{options}");
    let other = compare(256);
    let error = tool::text(&other.stderr);
    assert!(other.status.code() == Some(2) && error.contains("another comparison"), "{error}");
}

#[test]
fn invalid_comparisons_are_rejected_before_any_run() {
    transcript::check("comparisons", prepare, |_, step| match step.split_once(' ') {
        Some(("compare", args)) => format!("evenkeel compare {args} --machine m.toml --out out"),
        Some(("live", args)) => format!("evenkeel compare small.toml --host live --out out {args}"),
        _ => panic!("unknown step: {step}"),
    });
}

#[test]
fn the_directory_of_another_comparison_is_not_changed() {
    let dir = Comparisons::new();
    dir.compared("small.toml -p linux,spread --seeds 2", "first");
    let before = dir.runs("first");
    let text = dir.read("first/runs.jsonl");
    for (words, what) in [
        ("small.toml -p linux,spread --seeds 3", "other seeds"),
        ("small.toml -p linux,dfs --seeds 2", "other policies"),
        ("small.toml -p linux,spread --seeds 2 --variation off", "other options"),
        ("small.toml -p linux,spread --seeds 2 --interleave", "other options"),
        ("small.toml -p linux,spread --seeds 2 --grain quantum", "other options"),
    ] {
        let line = tool::rejection(
            &mut dir.evenkeel(&format!("compare {words} --machine m.toml --out first")),
        );
        let expected = format!(
            "evenkeel: first contains another comparison ({what}): choose another directory with --out\n"
        );
        assert_eq!(line, expected);
    }
    dir.write("first/runs.jsonl", "{\"compare\":99}\n");
    let output = dir.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out first");
    assert!(tool::text(&output.stderr).contains("(another version of the file)"));
    dir.write("first/runs.jsonl", &text);
    write_workload(&dir, "small", 2);
    let output = dir.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out first");
    assert!(tool::text(&output.stderr).contains("(other workloads)"));
    assert_eq!(dir.runs("first"), before);
}

#[test]
fn another_baseline_reuses_the_runs() {
    let dir = Comparisons::new();
    let first = dir.compared("small.toml -p linux,spread --seeds 6", "out");
    let runs = dir.runs("out");
    let other = dir.compared("small.toml -p linux,spread --seeds 6 --baseline spread", "out");
    assert_eq!(dir.runs("out"), runs, "no run is repeated");
    let ratio = |output: &serde_json::Value, idx: usize| {
        output["summary"][idx]["ratio_to_baseline"].as_f64().expect("known")
    };
    assert!((ratio(&first, 1) * ratio(&other, 0) - 1.0).abs() < 1e-12);
}
