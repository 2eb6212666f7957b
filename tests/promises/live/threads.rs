//! Placement of single threads of a real parallel program on core kinds. The programs work until their operations are
//! done; the placements depend on the runnable threads of the intervals, not on elapsed time.

use std::collections::BTreeSet;

use tests::dir::Dir;
use tests::process::two_cpus;

/// Runs a program with one fast and one slow CPU, which starts on the fast one. Returns its output, its events of
/// `explain`, and the number of its threads that were placed on the slow CPU.
fn run(load: &str) -> Option<(serde_json::Value, String, usize)> {
    let (_, fast, slow) = two_cpus()?;
    let dir =
        Dir::with(&[("w.toml", &format!("[[job]]\nname = \"p\"\nload = \"{load} --json\"\n"))]);
    let kinds = format!("fast={fast}:1024,slow={slow}:512");
    let policy = "ib[tlp=yes,lrt=yes,cosched=yes,interval=20ms]";
    dir.success(&["run", "w.toml", "--core-kinds", &kinds, "--policy", policy, "--out", "r"]);
    let lines = dir.text("r/journal.jsonl");
    let turns = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
    let outcomes = turns.flat_map(|turn: serde_json::Value| {
        turn["outcomes"].as_array().cloned().unwrap_or_default()
    });
    let on_slow = outcomes.filter(|outcome| outcome["place"] == slow.to_string());
    let threads: BTreeSet<u64> = on_slow
        .filter(|outcome| outcome["done"].is_u64())
        .filter_map(|it| it["task"][0].as_u64())
        .collect();
    let output = serde_json::from_str(&dir.text("r/jobs/p.out")).expect("one JSON object");
    let events = dir.success(&["explain", "r"]);
    // The lines are wrapped.
    let events = events.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((output, events, threads.len()))
}

/// Returns whether both kinds have runnable tasks in an event. A thread that stays on the CPU of the start has no event of
/// its own.
fn uses_both_kinds(events: &str) -> bool {
    let is_positive = |text: &str| text.parse::<u64>().is_ok_and(|n| n != 0);
    events.split("fast ").any(|rest| {
        let of_slow = rest.split_once(", slow ").filter(|(fast, _)| is_positive(fast));
        of_slow.is_some_and(|(_, slow)| is_positive(slow.split(' ').next().unwrap_or_default()))
    })
}

#[test]
fn the_threads_of_a_fork_are_placed_on_both_kinds() {
    let load = "forkjoin --works 1,1,3 --serial 30 --rounds 4 --ops 200000";
    let Some((output, events, n_on_slow)) = run(load) else { return };
    // 70 % of the operations are in the team.
    assert_eq!(output["ops_by_thread"], serde_json::json!([28_000, 28_000, 84_000]));
    assert_eq!(output["serial_ops"], 60_000);
    assert!(n_on_slow != 0 && uses_both_kinds(&events), "{n_on_slow}\n{events}");
    assert!(events.contains("thread ") && events.contains("it gets the slow cores"), "{events}");
}

#[test]
fn the_stages_of_a_pipeline_are_placed_on_both_kinds() {
    let load = "pipeline --stages 1,1,3 --items 50 --queue 2 --ops 200000";
    let Some((output, events, n_on_slow)) = run(load) else { return };
    assert_eq!(output["ops_by_stage"], serde_json::json!([40_000, 40_000, 120_000]));
    assert!(n_on_slow != 0 && uses_both_kinds(&events), "{n_on_slow}\n{events}");
}
