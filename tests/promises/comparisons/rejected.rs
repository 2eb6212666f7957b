//! Invalid comparisons: one line, exit status 2, no run, no folder.

use super::Place;
use crate::tool;

/// The error line of a command.
fn rejection(place: &Place, words: &str) -> String {
    let line = tool::rejection(&mut place.command(words));
    for folder in ["out", "evenkeel-comparisons"] {
        assert!(!place.path(folder).exists(), "{words}: {folder} was created");
    }
    line
}

#[test]
fn invalid_comparisons_are_rejected_before_any_run() {
    let place = Place::new();
    place.write("bare.toml", "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n");
    place.write(
        "same.toml",
        "name = \"small\"\n[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nprofile = \"calm\"\n",
    );
    let check = |words: &str, expected: &str| {
        let found = rejection(&place, &format!("{words} --machine m.toml --out out"));
        assert!(found.contains(expected), "{words}:\n  {found}\n  {expected}");
    };
    check("small.toml -p linux,dsf", "there is no policy \"dsf\" (did you mean dfs?)");
    check("small.toml -p linux,nope", "home-cluster, divided, oracle (simulated runs alone)");
    check("small.toml -p linux,orcle", "there is no policy \"orcle\" (did you mean oracle?)");
    check("small.toml -p linux,dfs[cooldwn=4]", "policy dfs has no parameter \"cooldwn\"");
    check("small.toml -p linux,linux", "policy linux is given twice");
    check("small.toml -p linux -p dfs,linux[]", "policy linux is given twice");
    check("small.toml -p linux@striped,dfs", "there is no variant \"striped\"");
    check(
        "small.toml -p linux,oracle[steps=3]",
        "oracle has one parameter: write oracle, or oracle[runs=128]",
    );
    check("small.toml -p linux", "there is nothing to compare linux with");
    check(
        "small.toml -p linux,dfs --baseline spread",
        "the baseline spread is not among the policies: write one of linux, dfs",
    );
    check("small.toml --seeds 0", "--seeds 0: at least one seed is needed");
    check("small.toml --seeds -1", "--seeds -1: not a number");
    check("small.toml --seeds 1,1", "a seed occurs twice");
    check("small.toml --jobs 0", "invalid value '0' for '--jobs <N>'");
    check("nowhere.toml", "cannot read the workload nowhere.toml");
    check("small.toml same.toml", "two workloads have the name \"small\"");
    check(
        "bare.toml",
        "bare.toml:1: job \"a\": its program has no profile, and the simulator cannot run it",
    );
    check(
        "small.toml --kernel linux-2.6.27 -p linux,linux@numa-balancing",
        "policy linux@numa-balancing: linux-2.6.27 cannot balance between nodes",
    );
    check(
        "small.toml --readable none -p linux,dio",
        "policy dio needs the instructions per second of CPU time",
    );
    check(
        "small.toml --csv nowhere/x.csv",
        "cannot write nowhere/x.csv: there is no folder nowhere",
    );
    check("small.toml --csv profiles", "cannot write profiles: it is a folder");
    check("small.toml --solo", "--solo applies to --host live");
    assert!(
        rejection(&place, "small.toml --machine nowhere.toml --out out").contains("nowhere.toml")
    );
    assert!(tool::rejection(&mut tool::command(&["compare"])).contains("<WORKLOAD>"));
}

#[test]
fn options_of_the_simulated_machine_are_rejected_for_live_runs() {
    let place = Place::new();
    let check = |words: &str, expected: &str| {
        let found = rejection(&place, &format!("small.toml --host live --out out {words}"));
        assert!(found.contains(expected), "{words}:\n  {found}\n  {expected}");
    };
    check("--machine m.toml", "--machine applies to a simulated machine");
    check("-p linux,oracle", "the oracle is only available for simulated runs");
    check("-p oracle", "the oracle is only available for simulated runs");
    check("--jobs 2", "--jobs applies to simulated runs");
    check(
        "-p linux,linux@numa-balancing",
        "linux@numa-balancing: NUMA balancing is a setting of the whole machine",
    );
}

#[test]
fn the_folder_of_another_comparison_is_not_changed() {
    let place = Place::new();
    place.compared("small.toml -p linux,spread --seeds 2", "first");
    let before = place.runs("first");
    let text = place.read("first/runs.jsonl");
    for (words, what) in [
        ("small.toml -p linux,spread --seeds 3", "other seeds"),
        ("small.toml -p linux,dfs --seeds 2", "other policies"),
        ("small.toml -p linux,spread --seeds 2 --variation off", "other options"),
        ("small.toml -p linux,spread --seeds 2 --interleave", "other options"),
    ] {
        let line =
            tool::rejection(&mut place.command(&format!("{words} --machine m.toml --out first")));
        let expected = format!(
            "evenkeel: first holds another comparison ({what}): choose another folder with --out\n"
        );
        assert_eq!(line, expected);
    }
    place.write("first/runs.jsonl", "{\"compare\":99}\n");
    let output = place.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out first");
    assert!(tool::text(&output.stderr).contains("(another version of the file)"));
    place.write("first/runs.jsonl", &text);
    place.workload("small", 2);
    let output = place.compare("small.toml -p linux,spread --seeds 2 --machine m.toml --out first");
    assert!(tool::text(&output.stderr).contains("(other workloads)"));
    assert_eq!(place.runs("first"), before);
}

#[test]
fn another_baseline_reuses_the_runs() {
    let place = Place::new();
    let one = place.compared("small.toml -p linux,spread --seeds 6", "out");
    let runs = place.runs("out");
    let other = place.compared("small.toml -p linux,spread --seeds 6 --baseline spread", "out");
    assert_eq!(place.runs("out"), runs, "no run is repeated");
    let ratio = |output: &serde_json::Value, idx: usize| {
        output["summary"][idx]["ratio_to_baseline"].as_f64().expect("known")
    };
    assert!((ratio(&one, 1) * ratio(&other, 0) - 1.0).abs() < 1e-12);
}
