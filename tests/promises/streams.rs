//! Recorded streams of machines with counters: replay derives the values that the recordings contain.
//!
//! A separate program wrote the streams and their expected values (`*.truth.json`) from the kernel documentation. This
//! program shares no code with the reader.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base::{JobId, Rng};
use linux::collectors::StreamCollectors;
use linux::stream;
use serde_json::Value;
use tests::dir::Dir;
use tests::tool;

fn streams() -> PathBuf {
    tool::root().join("fixtures/streams")
}

/// Returns the turns that `replay --json` prints for a stream.
fn replayed(name: &str) -> Vec<Value> {
    let path = streams().join(format!("{name}.stream"));
    let out = tool::success(&["replay", "--json", path.to_str().expect("UTF-8")]);
    out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Compares every expected value with the replayed value. Replayed values without an expected value are not compared,
/// but an unexpected task is an error.
fn check(name: &str) {
    let shown = replayed(name);
    let text =
        std::fs::read_to_string(streams().join(format!("{name}.truth.json"))).expect("a truth");
    let truth: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(shown.len(), truth.len() + 1, "counting starts in the first turn");
    for (shown, truth) in shown[1..].iter().zip(&truth) {
        let turn = &truth["turn"];
        let check_equal = |property: &str, shown: &Value, truth: &Value| {
            assert_eq!(shown, truth, "{name}, turn {turn}: {property}");
        };
        check_equal("turn", &shown["turn"], turn);
        check_equal("tier", &shown["tier"], &truth["tier"]);
        check_list(shown, truth, "tasks", "tid", &check_equal);
        check_list(shown, truth, "nodes", "node", &check_equal);
        check_list(shown, truth, "llcs", "llc", &check_equal);
        if let Some(some) = truth.get("pressure_cpu_some_ns") {
            check_equal("pressure", &shown["pressure"]["cpu"]["some_ns"], some);
        }
        if let Some(ran) = truth.get("cpu1_ran_ns") {
            check_equal("times of CPU 1", &shown["cpus"][1]["run_ns"], ran);
        }
    }
}

/// Returns the key of `replay --json` for a field of a truth file, which has the field names of its recording.
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
        let expected = truth.get(&number).and_then(Value::as_object).expect("an expected entry");
        for (field, value) in expected {
            same(&format!("{list} {number} {field}"), &entry[replay_key(field)], value);
        }
        if list == "llcs" {
            same(
                "has traffic",
                &entry.get("total_bytes").is_some().into(),
                &expected.contains_key("total_bytes").into(),
            );
        }
    }
}

#[test]
fn two_intel_sockets_with_shared_counters_wrapping_controllers_and_an_unavailable_cache() {
    check("intel-skylake-2s");
    let warnings = replayed("intel-skylake-2s")[0]["degraded"].to_string();
    assert!(!warnings.contains("not counted"), "{warnings}");
}

#[test]
fn an_event_that_was_not_recorded_is_named() {
    let text = std::fs::read_to_string(streams().join("intel-skylake-2s.stream")).expect("text");
    let dir = Dir::with(&[("old.stream", &text.replace("[434,0,0]", "[435,0,0]"))]);
    let out = dir.success(&["replay", "--json", "old.stream"]);
    let first: Value = serde_json::from_str(out.lines().next().expect("a turn")).expect("JSON");
    let note = "some tasks are not counted: the recording has no queue-full";
    assert_eq!(first["degraded"][0], note);
}

#[test]
fn all_counts_of_the_first_turn_are_zero() {
    for name in ["recorded-software", "intel-skylake-2s", "amd-zen4"] {
        let first = &replayed(name)[0];
        for task in first["tasks"].as_array().expect("a list") {
            assert_eq!(task["cpu_ns"], 0, "{name}: {task}");
            let counters = task["counters"].as_object().into_iter().flatten();
            counters.for_each(|(event, count)| assert_eq!(count, 0, "{name}: {event}"));
        }
    }
}

#[test]
fn loads_without_recorded_bandwidth_are_absent_not_zero() {
    let path = streams().join("recorded-software.stream");
    let path = path.to_str().expect("UTF-8");
    let out = tool::success(&["replay", "--json", "--signal", "loads=bandwidth", path]);
    for line in out.lines() {
        let turn: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&turn["tier"], turn.get("loads")), (&"none".into(), None));
    }
}

#[test]
fn counters_reserved_by_another_program_are_absent_and_reported_once() {
    let warnings: Vec<String> =
        replayed("intel-skylake-2s").iter().map(|turn| turn["degraded"].to_string()).collect();
    let n_reported = warnings
        .iter()
        .filter(|text| text.contains("another profiler occupies the hardware counters"))
        .count();
    assert_eq!(n_reported, 1, "{warnings:?}");
}

#[test]
fn a_task_that_migrates_between_core_kinds_is_counted_on_both() {
    check("intel-hybrid");
}

#[test]
fn a_task_whose_misses_change_is_counted_in_each_interval() {
    check("intel-hybrid-phases");
}

#[test]
fn a_short_lived_thread_is_counted_once() {
    check("amd-zen4");
}

#[test]
fn a_recording_with_other_counter_groups_is_replayed_with_these_groups() {
    check("amd-zen4-wide");
    let warnings = replayed("amd-zen4-wide")[0]["degraded"].to_string();
    assert!(!warnings.contains("does not count"), "{warnings}");
}

#[test]
fn a_memory_controller_without_an_event_file_is_reported() {
    check("arm-neoverse-n1");
    let warnings = replayed("arm-neoverse-n1")[0]["degraded"].to_string();
    assert!(warnings.contains("the events of arm_cmn_0 are not supported"), "{warnings}");
}

#[test]
fn a_recording_of_software_events_on_a_real_kernel_is_replayed() {
    let turns = replayed("recorded-software");
    let counted: BTreeSet<String> = (turns.iter())
        .flat_map(|turn| turn["tasks"].as_array().expect("a list"))
        .filter_map(|task| task["counters"].as_object())
        .flat_map(|counted| counted.keys().cloned())
        .collect();
    let all = ["context-switches", "cpu-migrations", "page-faults", "task-clock"];
    assert_eq!(counted, all.map(str::to_owned).into());
    // The shell slept while its unsampled children ran: the events of the children count for the shell.
    let clock = |turn: &Value| turn["tasks"][0]["counters"]["task-clock"].as_u64().unwrap_or(0);
    let cpu_ns = |turn: &Value| turn["tasks"][0]["cpu_ns"].as_u64().unwrap_or(0);
    let (clocks, owns): (u64, u64) =
        (turns[1..].iter().map(clock).sum(), turns[1..].iter().map(cpu_ns).sum());
    assert!(2 * owns < clocks, "{owns} ns alone, {clocks} ns with its children");
}

#[test]
fn a_stream_replays_to_the_same_bytes_every_time() {
    let path = streams().join("intel-skylake-2s.stream");
    let path = path.to_str().expect("UTF-8");
    let replay = || tool::success(&["replay", "--json", "--policy", "dfs", path]);
    assert_eq!(replay(), replay());
}

/// Replays a stream up to its end or its first error. Returns the number of turns.
fn replay_file(path: &Path) -> Result<usize, stream::StreamError> {
    let recorded = stream::read(path)?;
    let machine = recorded.machine.clone();
    let jobs = recorded.header.jobs.iter().map(|job| job.pid).zip((0..).map(JobId)).collect();
    let mut collectors = StreamCollectors::open(recorded, &machine, jobs);
    let mut n_turns = 0;
    while collectors.source().next_turn()?.is_some() {
        collectors.sample();
        n_turns += 1;
    }
    Ok(n_turns)
}

#[test]
fn the_turn_in_which_the_last_task_exits_has_its_own_values_of_the_machine() {
    let dir = Dir::new();
    let stream = std::fs::read_to_string(streams().join("recorded-software.stream"));
    let stream = stream.expect("a stream");
    let (before, last) = stream.split_at(stream.find("{\"turn\":4").expect("turn 4"));
    // The task has exited: its reads fail with ENOENT.
    let is_of_machine = |line: &&str| !line.contains("proc/27759") && !line.contains("\"group\"");
    let mut lines: Vec<&str> = last.lines().filter(is_of_machine).collect();
    lines.extend(["{\"file\":\"proc/27759/task/27759/stat\",\"errno\":2}"; 2]);
    dir.write("exit.stream", format!("{before}{}\n", lines.join("\n")));
    let turns = dir.success(&["replay", "--json", "exit.stream"]);
    let last = turns.lines().last().expect("a turn");
    let last: Value = serde_json::from_str(last).expect(last);
    let stalled = |resource: &str| last["pressure"][resource]["some_ns"].as_u64();
    // Differences of the totals in turns 3 and 4.
    assert_eq!((stalled("cpu"), stalled("io")), (Some(112_717_000), Some(1_223_000)));
    assert_eq!(last["nodes"][0]["free_bytes"], 18_423_672_u64 << 10);
}

#[test]
fn a_damaged_stream_is_one_error_line_with_its_position_and_no_panic() {
    let dir = Dir::new();
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
            dir.write("damaged.stream", &bytes);
            let Err(error) = replay_file(&dir.path("damaged.stream")) else { continue };
            let text = error.to_string();
            assert!(text.contains("damaged.stream:") && !text.contains('\n'), "{text}");
            n_wrong += 1;
        }
    }
    assert!(100 < n_wrong, "only {n_wrong} of 240 were detected");
}

#[test]
fn a_recording_of_this_machine_can_be_taken_and_replayed() {
    let dir = Dir::new();
    let options = ["record", "--for", "200ms", "--interval", "50ms"];
    dir.success(&[&options[..], &["-o", "now.stream", "--", "sleep", "30"]].concat());
    let n_turns = replay_file(&dir.path("now.stream")).expect("a stream");
    assert!(2 <= n_turns, "{n_turns} turns");
}
