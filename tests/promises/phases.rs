//! Phases of a program as the policy ib sees them: in a simulated run, and in a stream of counters.
//!
//! `explain` prints when a phase begins, whether it is filtered as too short, and each reschedule with the numbers of
//! tasks before and after, also if the job keeps its core kind.

use expect_test::expect;
use tests::dir::Dir;
use tests::tool;

/// Parts of the run of a program, with LLC misses per 1000 instructions. The second part takes about one interval.
const PARTS: [(f64, f64); 4] = [(0.3, 3.0), (0.02, 20.0), (0.28, 3.0), (0.4, 20.0)];

fn profile(name: &str, parts: &[(f64, f64)]) -> String {
    let part = |&(share, misses): &(f64, f64)| {
        format!(
            "[[phase]]\nshare = {share:?}\ninstructions = {:?}\ncycles_per_instruction = 1.0\n\
             llc_accesses_per_1000 = 40.0\n[phase.curve]\ncache_bytes = [1048576, 1073741824]\n\
             misses_per_1000 = [{misses:?}, {misses:?}]\n",
            share * 2e10
        )
    };
    let parts: String = parts.iter().map(part).collect();
    format!("version = 2\nname = \"{name}\"\ncpu_time_ns = 10000000000\n{parts}")
}

/// Runs the phased program beside three others in the simulator. Returns the output of `explain` for it.
fn explained(policy: &str, threads: &str, options: &[&str]) -> String {
    let dir = Dir::new();
    dir.write("phased.profile.toml", profile("phased", &PARTS));
    dir.write("steady.profile.toml", profile("steady", &[(1.0, 12.0)]));
    let job = |name: &str, rest: &str| {
        format!("[[job]]\nname = \"{name}\"\ncommand = [\"x\"]\nprofile = \"{name}\"\n{rest}\n")
    };
    dir.write("w.toml", job("phased", threads) + &job("steady", "copies = 3"));
    let sim = ["--host", "sim", "--machine", "opteron-2384-uma", "--quiet", "--out", "a"];
    dir.success(&[&["run", "w.toml", "--policy", policy][..], &sim].concat());
    dir.success(&[&["explain", "a/journal.jsonl", "--job", "phased"][..], options].concat())
}

/// With one interval in the local behaviour, a single interval can be recognized as a short phase.
#[test]
fn explain_prints_the_phases_of_a_job_those_that_were_too_short_and_each_reschedule() {
    let explained = explained("ib[window=1]", "", &[]);
    let (_, events) = explained.split_once("\n\n").expect("the paragraph of the job");
    expect![[r#"
        phased (no class): x
          phases: 3, filtered: 1, reschedules: 2, moves: 1
            0.009 s  started on cpus 0-1 because the job starts with integrated
                     behaviour 0.338 (from its profile): at the start 0.338, below
                     0.400, the highest at the start of those compared on the fast
                     cores; tasks fast 2, slow 0 before and fast 3, slow 0 after: it
                     gets the fast cores (cpus 0-1)
            0.400 s  the first phase of the job begins in interval 1: local behaviour
                     0.106
            0.800 s  the phase since interval 1 is stable in interval 3: local behaviour
                     0.107, global 0.338, integrated 0.176: below 0.399, the highest
                     compared on the fast cores; tasks fast 2, slow 2 before and fast 2,
                     slow 2 after: its queue is that of the fast cores
            2.600 s  the local behaviour changed from 0.106 to 0.439 in interval 12: a
                     new phase may begin
            3.000 s  the phase since interval 12 is filtered: it was too short, in
                     interval 14 the local behaviour 0.104 is as before it
            5.000 s  the local behaviour changed from 0.105 to 0.257 in interval 24: a
                     new phase may begin
            5.400 s  moved from cpus 0-1 to cpus 2-3 because the phase since interval 24
                     is stable in interval 26: local behaviour 0.672, global 0.338,
                     integrated 0.571: above 0.404, the lowest compared on the slow
                     cores; tasks fast 2, slow 2 before and fast 1, slow 3 after: it
                     migrates from the fast to the slow cores (cpus 2-3)
            8.999 s  exited with status 0 after 8.990 s: 8.99 s of CPU time (8.99 s
                     user, 0 s system), 0 s of wait time, 2 migrations, maximum resident
                     set 0 B
    "#]]
    .assert_eq(events);
}

#[test]
fn explain_prints_the_phases_of_each_thread_that_is_placed_separately() {
    let explained = explained("ib[tlp=yes,window=1]", "threads = 2", &["--json"]);
    let explained: serde_json::Value = serde_json::from_str(&explained).expect("JSON");
    let job = &explained["jobs"][0];
    let counts = ["n_phases", "n_phases_filtered", "n_reschedules", "n_moves"];
    assert_eq!(counts.map(|name| job[name].as_u64()), [6, 2, 4, 4].map(Some));
    let events = explained["jobs"][0]["events"].as_array().expect("a list");
    let lines = events.iter().filter(|event| event["kind"] == "observed").map(|event| {
        let mut values = event["values"].as_array().expect("a list").iter();
        let local = values.find(|value| value["name"] == "local").expect("it has a value");
        format!("thread {}: {} {}\n", event["tid"], event["code"], local["value"])
    });
    expect![[r#"
        thread 1002: "ib-change" 0.165514
        thread 1003: "ib-change" 0.160023
        thread 1002: "ib-phase-queued" 0.16444
        thread 1003: "ib-phase-queued" 0.162975
        thread 1002: "ib-change" 0.35815
        thread 1003: "ib-change" 0.280637
        thread 1002: "ib-phase-filtered" 0.161993
        thread 1003: "ib-phase-filtered" 0.154242
        thread 1002: "ib-change" 0.201521
        thread 1003: "ib-change" 0.607835
    "#]]
    .assert_eq(&lines.collect::<String>());
}

/// The stream is synthetic in the format of the kernel: no machine with such counters was available. The misses per 1000
/// instructions are 6, 10 in one interval, 6, 2 in one interval, 6, then 24.
#[test]
fn the_phases_of_a_counter_stream_are_those_of_its_misses() {
    let path = tool::root().join("fixtures/streams/intel-hybrid-phases.stream");
    let stream = path.to_str().expect("UTF-8");
    let text = tool::success(&["replay", "--policy", "ib", "--json", stream]);
    let turns =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
    // The requests are not carried out, so that each turn repeats the start of the job.
    let lines = turns.flat_map(|turn| {
        let of = |key: &str| turn[key].as_array().cloned().unwrap_or_default();
        let all = [of("observations"), of("requests")].concat();
        let texts = all.into_iter().map(|one| one.as_str().expect("text").to_owned());
        let new = texts.filter(|text| !text.ends_with("ib-started"));
        new.map(|text| format!("{} {text}\n", turn["turn"])).collect::<Vec<_>>()
    });
    expect![[r#"
        4 phased: the first phase of the job begins in interval 3: local behaviour 0.200
        6 phased: would place on cpus 0 because ib-phase
        8 phased: the local behaviour changed from 0.200 to 0.244 in interval 7: a new phase may begin
        10 phased: the phase since interval 7 is filtered: it was too short, in interval 9 the local behaviour 0.200 is as before it
        11 phased: the local behaviour changed from 0.200 to 0.156 in interval 10: a new phase may begin
        13 phased: the phase since interval 10 is filtered: it was too short, in interval 12 the local behaviour 0.200 is as before it
        15 phased: the local behaviour changed from 0.200 to 0.400 in interval 14: a new phase may begin
        18 phased: would place on cpus 0 because ib-phase
    "#]].assert_eq(&lines.collect::<String>());
}
