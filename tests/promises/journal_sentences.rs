//! Sentences of explain and values of reports, from journals whose lines the test writes.

use std::fs;
use std::io::Write;
use std::path::Path;

use expect_test::{Expect, expect};
use journal::{Header, JournalLimits, JournalWriter, PolicyUsed};
use program::{Class, Command, Job};
use report::Report;
use topology::Machine;

use tests::tool;

/// A machine with two nodes; each node has two LLC domains of two CPUs.
const MACHINE: &str = "nodes=2 llcs=2 cores=2";

fn job((id, (name, class)): (usize, &(&str, u8))) -> Job {
    Job {
        class: Class::new(*class),
        ..Job::new(base::JobId(id as u32), *name, Command::Load(vec!["hog".to_owned()]))
    }
}

/// Returns the reasons of all policies, each reason once.
fn reasons() -> Vec<sched::ReasonCode> {
    let all: std::collections::BTreeSet<_> =
        policy::registry().iter().flat_map(|info| info.reasons.concat()).collect();
    all.into_iter().collect()
}

/// Writes a journal of these jobs. The turns have consecutive numbers.
fn write(path: &Path, jobs: &[(&str, u8)], replay_of: Option<&str>, turns: &str) {
    let header = Header {
        tool: "0.1.0".to_owned(),
        run_id: "example".to_owned(),
        started_unix_s: 1_795_294_997,
        host: sched::HostKind::Live,
        policy: PolicyUsed { name: "dfs".to_owned(), spec: "dfs".to_owned(), reasons: reasons() },
        seed: 1,
        machine: Machine::synthetic(MACHINE).expect("a machine"),
        workload: "example".to_owned(),
        dir: "/w".into(),
        jobs: jobs.iter().enumerate().map(job).collect(),
        options: Default::default(),
        replay_of: replay_of.map(str::to_owned),
        command: None,
    };
    let file = files::NewFile::create(path).expect("can be created");
    JournalWriter::create(file, &header, JournalLimits::default()).expect("can be written");
    let mut file = fs::OpenOptions::new().append(true).open(path).expect("it is there");
    for (n, turn) in turns.lines().map(str::trim).filter(|turn| !turn.is_empty()).enumerate() {
        let (at_ms, rest) = turn.split_once(' ').expect("a time and a turn");
        let at = base::Nanos::from_millis(at_ms.parse().expect("milliseconds")).0;
        writeln!(file, "{{\"turn\":{n},\"at_ns\":{at},{rest}}}").expect("can be written");
    }
}

/// Returns the explanation and the report of a journal.
fn explained(jobs: &[(&str, u8)], replay_of: Option<&str>, turns: &str) -> (String, Report) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    write(&path, jobs, replay_of, turns);
    let open = || journal::read(&path).expect("a journal");
    let explanation = report::explain::explain(open(), None).expect("whole");
    (explanation.to_text(80), report::from_journal(open()).expect("whole"))
}

/// Checks the paragraphs of the jobs.
fn check_jobs(jobs: &[(&str, u8)], replay_of: Option<&str>, turns: &str, expected: Expect) {
    let (text, _) = explained(jobs, replay_of, turns);
    let jobs = text.split_once("\n\n").map_or("", |(_, jobs)| jobs);
    expected.assert_eq(jobs);
}

const DUE: &str = r#""causes":["jobs-due"],"sample":{"jobs":[{"due":0}],"usable_cpus":"0-7"}"#;
const REASON: &str =
    r#""reason":{"code":"round-robin","values":{"domain":"node 0","cpus":"cpus 0-3"}}"#;

#[test]
fn a_narrowed_request_keeps_its_reason_and_states_the_requested_cpus() {
    let turns = format!(
        r#"
        0 {DUE},"load_basis":{{"level":"node","tier":"declared"}},"requests":[{{"job":0,"place":"0-3",{REASON}}}],"outcomes":[{{"job":0,"start":{{}},"done":10}},{{"job":0,"place":"0-1","done":1}}]
        500 "causes":["interval"],"requests":[{{"job":0,"place":"4-7",{REASON}}}],"outcomes":[{{"job":0,"place":"4-6","done":1}}]
        "#
    );
    let (_, report) = explained(&[("a", 6)], None, &turns);
    let (job, moved) = (&report.jobs[0], &report.moves[0]);
    assert_eq!(job.start_requested_cpus.as_deref(), Some("0-3"));
    assert!(job.start_reason.as_ref().is_some_and(|reason| reason.starts_with("node 0 was next")));
    assert_eq!(
        (moved.requested_cpus.as_deref(), moved.to_cpus.as_deref()),
        (Some("4-7"), Some("4-6"))
    );
    assert_eq!(moved.code.as_deref(), Some("round-robin"));
    check_jobs(
        &[("a", 6)],
        None,
        &turns,
        expect![[r#"
            a (class 6): evenkeel load hog
              moves: 1
                0.000 s  started on cpus 0-1 on node 0 because node 0 was next in
                         round-robin order; cpus 0-3 had the fewest jobs there; narrowed
                         from the requested node 0 to cpus 0-1 on node 0
                0.500 s  moved from cpus 0-1 on node 0 to cpus 4-6 on node 1 because node 0
                         was next in round-robin order; cpus 0-3 had the fewest jobs there;
                         narrowed from the requested node 1 to cpus 4-6 on node 1
        "#]],
    );
}

#[test]
fn a_placement_that_changes_no_task_is_not_a_move() {
    let turns = format!(
        r#"
        0 {DUE},"load_basis":{{"level":"node","tier":"declared"}},"requests":[{{"job":0,"place":"0-3",{REASON}}}],"outcomes":[{{"job":0,"start":{{}},"done":10}},{{"job":0,"place":"0-3","done":1}}]
        500 "causes":["interval"],"requests":[{{"job":0,"place":"4-7",{REASON}}}],"outcomes":[{{"job":0,"place":"4-7","done":0}}]
        "#
    );
    let (_, report) = explained(&[("a", 6)], None, &turns);
    assert_eq!((report.totals.n_moves, report.jobs[0].n_moves, report.moves.len()), (0, 0, 0));
    check_jobs(
        &[("a", 6)],
        None,
        &turns,
        expect![[r#"
            a (class 6): evenkeel load hog
                0.000 s  started on node 0 because node 0 was next in round-robin order;
                         cpus 0-3 had the fewest jobs there
                0.500 s  unchanged: already bound to node 1, which was requested because
                         node 0 was next in round-robin order; cpus 0-3 had the fewest jobs
                         there
        "#]],
    );
}

/// Turns in which CPUs of a node go offline: the domain level changes from node to LLC, and the signal tier changes
/// with the level.
const FALLING: &str = r#"
    0 "causes":["jobs-due"],"sample":{"jobs":[{"due":0}],"usable_cpus":"0-7"},"load_basis":{"level":"node","tier":"counters"},"outcomes":[{"job":0,"start":{},"done":10},{"job":0,"place":"0-3","done":1}]
    250 "causes":["interval"],"loads":{"level":"node","tier":"counters","domains":[0,1],"loads":[1000000,0],"cpu_ns":[100000000,0]}
    300 "causes":["cpus-changed"],"sample":{"usable_cpus":"0-3"},"load_basis":{"level":"llc","tier":"declared"},"outcomes":[{"job":0,"place":"2-3","done":1}]
    500 "causes":["interval"],"loads":{"level":"llc","tier":"declared","domains":[0,1],"loads":[6300,0],"cpu_ns":[100000000,0]}
    1000 "causes":["interval"],"loads":{"level":"llc","tier":"declared","domains":[0,1],"loads":[6300,0],"cpu_ns":[100000000,0]}
"#;

#[test]
fn places_are_named_by_the_domain_level_of_their_turn() {
    let (_, report) = explained(&[("a", 6)], None, FALLING);
    let moved = &report.moves[0];
    assert_eq!(moved.to.as_deref(), Some("llc 1"));
    check_jobs(
        &[("a", 6)],
        None,
        FALLING,
        expect![[r#"
            a (class 6): evenkeel load hog
              moves: 1
                0.000 s  started on node 0
                0.300 s  moved from cpus 0-3 to llc 1
        "#]],
    );
}

#[test]
fn loads_of_another_level_or_tier_are_a_separate_series() {
    let (_, report) = explained(&[("a", 6)], None, FALLING);
    let series: Vec<String> = report
        .loads
        .iter()
        .map(|one| {
            let ops: Vec<String> =
                one.points.iter().map(|point| format!("{:?}", point.ops_per_s)).collect();
            let domains: Vec<String> =
                one.domains.iter().map(|row| format!("{} ({})", row.label, row.cpus)).collect();
            format!(
                "{}-{} ms, {} of {}: {}\n",
                one.from_ns / 1_000_000,
                one.to_ns / 1_000_000,
                one.unit,
                domains.join(" and "),
                ops.join(" ")
            )
        })
        .collect();
    expect![[r#"
        0-250 ms, cache misses of node 0 (0-3) and node 1 (4-7): [Some(4000000.0), Some(0.0)]
        250-1000 ms, declared memory operations of llc 0 (0-1) and llc 1 (2-3): [Some(25200.0), Some(0.0)] [Some(12600.0), Some(0.0)]
    "#]].assert_eq(&series.concat());
    let run = &report.run;
    assert_eq!(
        (run.domain_level.as_deref(), run.signal_tier.as_deref()),
        (Some("llc"), Some("declared"))
    );
    let text = run.signal_tier_text.as_deref().unwrap_or_default();
    assert!(text.ends_with("; from 0.000 s to 0.250 s they were cache misses per node"));
    let html = report.to_html();
    assert!(html.contains("node, counters: 0.000 to 0.250 s"), "a series can be selected");
}

/// Replays with a policy that requests other CPUs for the start, and a move that the recorded run makes only in the
/// last of three turns.
fn replay() -> String {
    let request = |cpus: &str| format!(r#""requests":[{{"job":0,"place":"{cpus}",{REASON}}}]"#);
    format!(
        r#"
        0 {DUE},"load_basis":{{"level":"node","tier":"declared"}},{},"outcomes":[{{"job":0,"start":{{}},"done":10}},{{"job":0,"place":"4-7","done":1}}]
        250 "causes":["interval"],{}
        500 "causes":["interval"],{}
        750 "causes":["interval"],{},"outcomes":[{{"job":0,"place":"0-3","done":1}}]
        1000 "causes":["jobs-due"],"sample":{{"jobs":[{{"due":1}}]}},"outcomes":[{{"job":1,"start":{{}},"done":11}},{{"job":1,"place":"4-7","done":1}}]
        1250 "causes":["interval"],"outcomes":[{{"job":1,"place":"0-3","done":1}}]
        "#,
        request("0-3"),
        request("0-3"),
        request("0-3"),
        request("0-3"),
    )
}

/// A job with two threads, which are placed separately.
const THREADS: &str = r#""sample":{"tasks":[{"tid":1001,"start_time_ticks":1,"pid":1001,"job":0,"cpu_ns":1},{"tid":1002,"start_time_ticks":1,"pid":1001,"job":0,"cpu_ns":1}]}"#;

#[test]
fn every_action_on_a_thread_that_the_report_lists_is_explained() {
    let turns = format!(
        r#"
        0 {DUE},"load_basis":{{"level":"node","tier":"declared"}},"outcomes":[{{"job":0,"start":{{}},"done":10}}]
        250 "causes":["interval"],{THREADS},"requests":[{{"task":[1001,1],"place":"0-3",{REASON}}},{{"task":[1002,1],"place":"4-7",{REASON}}}],"rejected":[{{"task":[1002,1],"place":"4-7",{REASON},"cause":"unchanged","detail":"it is there"}}],"outcomes":[{{"task":[1001,1],"place":"0-3","done":1}}]
        500 "causes":["interval"],"outcomes":[{{"task":[1001,1],"place":"4-7","done":1}},{{"task":[1002,1],"place":"0-3","cause":"not-permitted","detail":"EPERM"}}]
        750 "causes":["interval"],"outcomes":[{{"task":[1001,1],"place":"4-7","done":0}}]
        1000 "causes":["interval"],"outcomes":[{{"task":[1001,1],"release":{{}},"done":1}}]
        "#
    );
    let (_, report) = explained(&[("a", 6)], None, &turns);
    assert_eq!((report.moves.len(), report.rejections.len()), (3, 2));
    check_jobs(
        &[("a", 6)],
        None,
        &turns,
        expect![[r#"
        a (class 6): evenkeel load hog
          moves: 2
            0.000 s  started without a CPU binding
            0.250 s  thread 1002: rejected by evenkeel's guard: place on node 1: it is
                     there. It was requested because node 0 was next in round-robin
                     order; cpus 0-3 had the fewest jobs there
            0.250 s  thread 1001: bound to node 0 because node 0 was next in round-robin
                     order; cpus 0-3 had the fewest jobs there
            0.500 s  thread 1001: moved from node 0 to node 1
            0.500 s  thread 1002: rejected by the kernel: place on node 0: EPERM
            0.750 s  thread 1001: unchanged: already bound to node 1, which was
                     requested
            1.000 s  thread 1001: released: its earlier affinity was restored
    "#]],
    );
}

#[test]
fn requests_for_threads_that_a_replay_does_not_carry_out_are_one_event_per_thread() {
    let requests = format!(
        r#""requests":[{{"task":[1001,1],"place":"0-3",{REASON}}},{{"task":[1002,1],"place":"4-7",{REASON}}}]"#
    );
    let turns = format!(
        r#"
        0 {DUE},"load_basis":{{"level":"node","tier":"declared"}},"outcomes":[{{"job":0,"start":{{}},"done":10}},{{"job":0,"place":"4-7","done":1}}]
        250 "causes":["interval"],{THREADS},{requests}
        500 "causes":["interval"],{requests}
        750 "causes":["interval"],{requests},"outcomes":[{{"task":[1001,1],"place":"4-6","done":1}}]
        "#
    );
    let (_, report) = explained(&[("a", 6)], Some("original"), &turns);
    assert_eq!(report.totals.n_would_move, 6);
    check_jobs(
        &[("a", 6)],
        Some("original"),
        &turns,
        expect![[r#"
        a (class 6): evenkeel load hog
          moves: 1
            0.000 s  started on node 1 in the recorded run; this policy requested
                     nothing
            0.250 s  thread 1001: would have been moved from node 1 to node 0 because
                     node 0 was next in round-robin order; cpus 0-3 had the fewest jobs
                     there; requested 2 times, the last time at 0.500 s
            0.250 s  thread 1002: would have been moved from node 1 to node 1 because
                     node 0 was next in round-robin order; cpus 0-3 had the fewest jobs
                     there; requested 3 times, the last time at 0.750 s
            0.750 s  thread 1001: would have been moved from node 1 to node 0 because
                     node 0 was next in round-robin order; cpus 0-3 had the fewest jobs
                     there; the recorded run moved it from node 1 to cpus 4-6 on node 1
    "#]],
    );
}

#[test]
fn a_replay_separates_requests_from_recorded_actions() {
    let jobs = [("a", 6), ("b", 6)];
    check_jobs(
        &jobs,
        Some("original"),
        &replay(),
        expect![[r#"
            a (class 6): evenkeel load hog
              moves: 1
                0.000 s  would have been started on node 0 because node 0 was next in
                         round-robin order; cpus 0-3 had the fewest jobs there; the recorded
                         run started it on node 1
                0.250 s  would have been moved from node 1 to node 0 because node 0 was next
                         in round-robin order; cpus 0-3 had the fewest jobs there; requested
                         2 times, the last time at 0.500 s
                0.750 s  would have been moved from node 1 to node 0, as in the recorded
                         run, because node 0 was next in round-robin order; cpus 0-3 had the
                         fewest jobs there

            b (class 6): evenkeel load hog
              moves: 1
                1.000 s  started on node 1 in the recorded run; this policy requested
                         nothing
                1.250 s  moved from node 1 to node 0 in the recorded run; this policy
                         requested nothing
        "#]],
    );
    let (text, report) = explained(&jobs, Some("original"), &replay());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the events of jobs are those of the recorded run"), "{text}");
    assert_eq!((report.totals.n_moves, report.totals.n_would_move), (2, 3));
    let job = &report.jobs[0];
    assert_eq!((job.start_cpus.as_deref(), job.start_reason.as_deref()), (Some("4-7"), None));
    assert_eq!(job.would_start_cpus.as_deref(), Some("0-3"));
    assert!(report.jobs[1].would_start_reason.is_none());
    expect![[r#"
        This is an open-loop replay: the values of jobs are those of the recorded run
        original. The decisions and the listed moves are those of dfs; none was carried
        out.

        result    no end is recorded after 1.25 s: evenkeel was killed or still runs; 2
                  of 2 jobs did not end
        run       example of workload example
        started   2026-11-21 21:03:17 UTC
        policy    dfs, seed 1
        machine   2 nodes, 4 LLC domains, 8 cores, 8 CPUs, 32.0 GiB; placed by node
        jobs      2: 2 unfinished; at most 2 concurrently
        moves     3 requested, 0 rejected; 2 in the recorded run
        loads     declared: no memory counter is readable: loads are estimated as
                  declared class times CPU time of each job

        job  state    start s  wall s  cpu s  wait s  memory  moves  ran on
        a    running    0.000       -      -       -       -      1  0-7
        b    running    1.000       -      -       -       -      1  0-7

        requested moves (not carried out)
            0.250 s  a  node 1 -> node 0 (3 times, the last time at 0.750 s)
                     because node 0 was next in round-robin order; cpus 0-3 had the
                     fewest jobs there

        notes
        - the record has no end: evenkeel was killed or still runs
    "#]]
    .assert_eq(&report.to_text(80));
    assert!(report.to_html().contains("Requested moves (not carried out)"));
}

#[test]
fn a_multiplexed_counter_is_marked_as_an_estimate() {
    let turns = format!(
        r#"
        0 {DUE},"outcomes":[{{"job":0,"start":{{}},"done":10}}]
        90 "causes":["ended"],"sample":{{"jobs":[{{"ended":0,"exit":0,"wall_ns":90000000,"user_ns":1000000,"system_ns":0,"max_resident_bytes":4096,"counters":{{"page-faults":[70,20,10],"context-switches":[3,20]}}}}]}}
        "#
    );
    let (_, report) = explained(&[("a", 6)], None, &turns);
    let row = |event: &str| report.jobs[0].counters.iter().find(|row| row.event == event);
    let of = |event| row(event).map(|row| (row.value, row.running_permille));
    assert_eq!(of("page-faults"), Some((140, Some(500))));
    assert_eq!(of("context-switches"), Some((3, None)));
    assert!(report.to_text(80).contains("~140"), "{}", report.to_text(80));
}

#[test]
fn a_replay_that_differs_only_in_reasons_has_the_same_decisions() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let turns = format!(
        r#"
        0 {DUE},"requests":[{{"job":0,"place":"0","reason":{{"code":"least-load"}}}}],"outcomes":[{{"job":0,"start":{{}},"done":10}},{{"job":0,"place":"4","done":1}}]
        "#
    );
    write(path("run.jsonl").as_ref(), &[("a", 6)], None, &turns);
    let run = |args: &[&str]| tool::text(&tool::run(args).stdout);
    let text =
        run(&["replay", &path("run.jsonl"), "--policy", "spread", "--out", &path("new.jsonl")]);
    assert!(text.contains("no decision differs from the recorded run (1 turn)"), "{text}");
    assert!(text.contains("only reasons or notes differ in 1 turn"), "{text}");
    let report = run(&["report", &path("new.jsonl")]);
    assert!(report.starts_with("This is an open-loop replay"), "{report}");
    let text = run(&["explain", &path("new.jsonl")]);
    assert!(text.contains("would have been started on cpu 0 on node 0 because"), "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the recorded run started it on cpu 4 on node 1"), "{text}");
}
