//! From the kernel's bytes to what a policy sees: streams of machines with counters, written from the
//! kernel's documentation by a program that shares no code with the reader.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base::{JobId, Rng};
use linux::collectors::StreamCollectors;
use linux::stream;
use serde_json::Value;

use crate::tool;

fn streams() -> PathBuf {
    tool::root().join("fixtures/streams")
}

/// What a command prints that succeeds.
fn succeeds(args: &[&str]) -> String {
    let out = tool::run(args);
    assert!(out.status.success(), "{args:?}: {}", tool::text(&out.stderr));
    tool::text(&out.stdout)
}

/// What replaying a stream shows, a JSON value a turn.
fn shown(name: &str) -> Vec<Value> {
    let path = streams().join(format!("{name}.stream"));
    let out = succeeds(&["replay", "--json", path.to_str().expect("UTF-8")]);
    out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Compares every figure of the truth with what is shown; what the truth leaves out is not compared,
/// except that nothing may be counted of a task that the truth does not know.
fn check(name: &str) {
    let shown = shown(name);
    let text =
        std::fs::read_to_string(streams().join(format!("{name}.truth.json"))).expect("a truth");
    let truth: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(shown.len(), truth.len() + 1, "the first turn is where counting begins");
    for (shown, truth) in shown[1..].iter().zip(&truth) {
        let turn = &truth["turn"];
        let same = |what: &str, shown: &Value, truth: &Value| {
            assert_eq!(shown, truth, "{name}, turn {turn}: {what}");
        };
        same("turn", &shown["turn"], turn);
        same("tier", &shown["tier"], &truth["tier"]);
        check_list(shown, truth, "tasks", "tid", &same);
        check_list(shown, truth, "nodes", "node", &same);
        check_list(shown, truth, "llcs", "llc", &same);
        if let Some(some) = truth.get("pressure_cpu_some_ns") {
            same("pressure", &shown["pressure"]["cpu"]["some_ns"], some);
        }
        if let Some(ran) = truth.get("cpu1_ran_ns") {
            same("times of CPU 1", &shown["cpus"][1]["run_ns"], ran);
        }
    }
}

/// The key of `replay --json` for a field of a truth file, which keeps the names of its recording.
fn replay_key(field: &str) -> &str {
    match field {
        "counted" => "counters",
        "on" => "last_cpu",
        "ops" => "controller_ops",
        "holds_bytes" => "occupancy_bytes",
        field => field,
    }
}

fn check_list(
    shown: &Value,
    truth: &Value,
    list: &str,
    key: &str,
    same: &impl Fn(&str, &Value, &Value),
) {
    let Some(truth) = truth.get(list).and_then(Value::as_object) else { return };
    let shown = shown[list].as_array().expect("a list");
    assert_eq!(shown.len(), truth.len(), "{list}");
    for entry in shown {
        let number = entry[key].to_string();
        let told = truth.get(&number).and_then(Value::as_object).expect("an entry of the truth");
        for (field, value) in told {
            same(&format!("{list} {number} {field}"), &entry[replay_key(field)], value);
        }
        if list == "llcs" {
            same(
                "what is told of it",
                &entry.get("total_bytes").is_some().into(),
                &told.contains_key("total_bytes").into(),
            );
        }
    }
}

#[test]
fn two_intel_sockets_with_shared_counters_wrapping_controllers_and_an_unavailable_cache() {
    check("intel-skylake-2s");
    let first = &shown("intel-skylake-2s")[0];
    let said = first["degraded"].to_string();
    assert!(!said.contains("not counted"), "{said}");
}

#[test]
fn the_first_look_is_where_counting_begins() {
    for name in ["recorded-software", "intel-skylake-2s", "amd-zen4"] {
        let first = &shown(name)[0];
        for task in first["tasks"].as_array().expect("a list") {
            assert_eq!(task["cpu_ns"], 0, "{name}: {task}");
            let counted = task["counters"].as_object().into_iter().flatten();
            counted.for_each(|(what, grown)| assert_eq!(grown, 0, "{name}: {what}"));
        }
    }
}

#[test]
fn loads_that_a_recording_cannot_tell_are_none_and_not_zeros() {
    let path = streams().join("recorded-software.stream");
    let path = path.to_str().expect("UTF-8");
    let out = succeeds(&["replay", "--json", "--signal", "loads=bandwidth", path]);
    for line in out.lines() {
        let turn: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&turn["tier"], turn.get("loads")), (&"none".into(), None));
    }
}

#[test]
fn counters_that_somebody_else_holds_are_absent_and_said_once() {
    let said: Vec<String> =
        shown("intel-skylake-2s").iter().map(|turn| turn["degraded"].to_string()).collect();
    let n_said = said.iter().filter(|text| text.contains("another profiler occupies")).count();
    assert_eq!(n_said, 1, "{said:?}");
}

#[test]
fn a_task_that_wanders_between_kinds_of_cores_is_counted_on_both() {
    check("intel-hybrid");
}

#[test]
fn a_thread_that_comes_and_goes_counts_once() {
    check("amd-zen4");
}

#[test]
fn a_recording_whose_groups_were_cut_otherwise_is_read_as_it_was_recorded() {
    check("amd-zen4-wide");
    let said = shown("amd-zen4-wide")[0]["degraded"].to_string();
    assert!(!said.contains("does not count"), "{said}");
}

#[test]
fn a_processor_that_counts_reads_only_says_what_it_has() {
    check("arm-neoverse-n1");
    let said = shown("arm-neoverse-n1")[0]["degraded"].to_string();
    assert!(said.contains("knows no event of arm_cmn_0"), "{said}");
}

#[test]
fn what_a_real_kernel_said_of_software_events_is_read_again() {
    let turns = shown("recorded-software");
    let counted: BTreeSet<String> = (turns.iter())
        .flat_map(|turn| turn["tasks"].as_array().expect("a list"))
        .filter_map(|task| task["counters"].as_object())
        .flat_map(|counted| counted.keys().cloned())
        .collect();
    let all = ["context-switches", "cpu-migrations", "page-faults", "task-clock"];
    assert_eq!(counted, all.map(str::to_owned).into());
    // The shell slept and its children worked: they are counted with it, unseen as they were.
    let clock = |turn: &Value| turn["tasks"][0]["counters"]["task-clock"].as_u64().unwrap_or(0);
    let own = |turn: &Value| turn["tasks"][0]["cpu_ns"].as_u64().unwrap_or(0);
    let (clocks, owns): (u64, u64) =
        (turns[1..].iter().map(clock).sum(), turns[1..].iter().map(own).sum());
    assert!(2 * owns < clocks, "{owns} ns of its own, {clocks} ns with its children");
}

#[test]
fn a_stream_replays_to_the_same_bytes_every_time() {
    let path = streams().join("intel-skylake-2s.stream");
    let path = path.to_str().expect("UTF-8");
    let replay = || succeeds(&["replay", "--json", "--policy", "dfs", path]);
    assert_eq!(replay(), replay());
}

/// Plays a stream to its end, or to the first thing wrong with it.
fn play(path: &Path) -> Result<usize, stream::StreamError> {
    let mut recorded = stream::read(path)?;
    let machine = recorded.machine.clone();
    let jobs = recorded.header.jobs.iter().map(|job| job.pid).zip((0..).map(JobId)).collect();
    let mut listener = StreamCollectors::open(&mut recorded, &machine, jobs);
    let mut n_turns = 0;
    while recorded.next_turn()?.is_some() {
        listener.sample(&mut recorded, n_turns == 0);
        n_turns += 1;
    }
    Ok(n_turns)
}

#[test]
fn a_damaged_stream_is_one_clear_line_with_its_number_and_never_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged.stream");
    let (mut n_wrong, mut rng) = (0, Rng::new(5));
    for name in ["intel-skylake-2s", "intel-hybrid", "amd-zen4", "recorded-software"] {
        let whole = std::fs::read(streams().join(format!("{name}.stream"))).expect("a stream");
        for _ in 0..60 {
            let mut bytes = whole.clone();
            match rng.below(3) {
                0 => bytes.truncate(rng.below(whole.len() as u64) as usize),
                1 => {
                    let at = rng.below(whole.len() as u64) as usize;
                    bytes[at] = rng.below(256) as u8;
                }
                _ => {
                    let at = rng.below(whole.len() as u64) as usize;
                    let n = rng.below(40) as usize;
                    bytes.splice(at..(at + n).min(whole.len()), *b"9");
                }
            }
            std::fs::write(&path, &bytes).expect("written");
            let Err(error) = play(&path) else { continue };
            let text = error.to_string();
            assert!(text.contains("damaged.stream:") && !text.contains('\n'), "{text}");
            n_wrong += 1;
        }
    }
    assert!(100 < n_wrong, "only {n_wrong} of 240 were found out");
}

#[test]
fn recording_refuses_what_is_wrong_before_it_starts_anything() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there.stream");
    std::fs::write(&there, "x").expect("written");
    let new = folder.path().join("new.stream");
    for (args, said) in [
        (vec!["record", "-o", new.to_str().expect("UTF-8")], "no process to record"),
        (vec!["record", "--pid", "4194303", "-o", new.to_str().expect("UTF-8")], "no such process"),
        (vec!["record", "-o", there.to_str().expect("UTF-8"), "--", "true"], "already exists"),
        (
            vec!["record", "-o", new.to_str().expect("UTF-8"), "--", "no-such-program-here"],
            "cannot start",
        ),
        (vec!["replay", there.to_str().expect("UTF-8")], "not an evenkeel journal"),
    ] {
        let out = tool::run(&args);
        let line = tool::text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {line}");
        assert!(line.contains(said), "{args:?}: {line}");
        assert!(!new.exists(), "{args:?}");
    }
}

#[test]
fn a_recording_of_this_machine_can_be_taken_and_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("now.stream");
    let out = path.to_str().expect("UTF-8");
    succeeds(&["record", "--for", "200ms", "--interval", "50ms", "-o", out, "--", "sleep", "30"]);
    let n_turns = play(&path).expect("a stream");
    assert!(2 <= n_turns, "{n_turns} turns");
}
