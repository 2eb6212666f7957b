//! Processes that outlive their job are found, ended and reported.

use super::live_run::{LiveRun, is_running};
use super::run_process::Run;

#[test]
fn a_process_started_by_an_orphan_during_its_end_is_ended() {
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "a"
        shell = """
        sh -c 'trap "setsid sleep 600 & echo \\$!; exit" TERM; echo $$; while :; do sleep 0.05; done' &
        while [ ! -s a.out ]; do sleep 0.05; done
        """
        "#,
    );
    run.finish();
    let output = run.world.read("a.out");
    assert_eq!(output.lines().count(), 2, "{output}");
    assert!(!output.lines().any(|pid| is_running(pid.parse().expect("a number"))), "{output}");
}

/// Job `a` leaves a process without its process group and environment; job `b` runs at the same time.
const HIDDEN: &str = r#"
    [[job]]
    name = "a"
    shell = "sleep 0.1; (env -i setsid sh -c 'echo $$; exec sleep 600' &); while [ ! -s out/jobs/a.out ]; do sleep 0.05; done"
    [[job]]
    name = "b"
    command = ["true"]
"#;

#[test]
fn a_process_without_group_and_environment_of_its_job_is_ended_with_the_run_and_reported() {
    let run = Run::start(HIDDEN, &["--quiet"], "exec \"$@\"");
    let (status, errors, world) = run.end();
    assert!(status.success(), "{errors}");
    let pid = world.read("out/jobs/a.out").trim().parse().expect("a number");
    assert!(!is_running(pid));
    // Its job is known only if it was sampled before its parent exited.
    let journal = world.read("out/journal.jsonl");
    let is_reported = journal.contains("without a job's group and environment");
    assert!(is_reported || journal.contains("\"n_orphans\":1"), "{journal}");
}

#[test]
fn such_a_process_is_assigned_to_the_job_if_there_is_only_one() {
    let text = "[[job]]\nname = \"a\"\nshell = \"(env -i setsid sh -c 'echo $$; exec sleep 600' &); while [ ! -s out/jobs/a.out ]; do sleep 0.05; done\"\n";
    let run = Run::start(text, &["--quiet"], "exec \"$@\"");
    let (status, errors, world) = run.end();
    assert!(status.success(), "{errors}");
    let pid = world.read("out/jobs/a.out").trim().parse().expect("a number");
    assert!(!is_running(pid));
    let report: serde_json::Value =
        serde_json::from_str(&world.read("out/report.json")).expect("JSON");
    let n_orphans = &report["jobs"][0]["n_orphans"];
    assert_eq!(*n_orphans, 1, "{}", report["jobs"][0]);
}

#[test]
fn cpu_time_of_an_orphan_counts_for_its_job() {
    // The job itself uses almost no CPU time; the orphan counts to a hundred thousand.
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "a"
        shell = """
        (setsid sh -c 'echo $$; while [ ! -e go ]; do sleep 0.05; done
            i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; times >&2' &)
        while [ ! -s a.err ] || [ -e /proc/$(cat a.out)/exe ]; do sleep 0.05; done
        """
        "#,
    );
    run.until("the orphan", |run| {
        let pid = std::fs::read_to_string(run.world.path("a.out")).unwrap_or_default();
        let tasks = run.turns.iter().flat_map(|turn| &turn.sample.tasks);
        pid.trim().parse().is_ok_and(|pid: u32| tasks.into_iter().any(|task| task.process == pid))
    });
    std::fs::write(run.world.path("go"), "").expect("writable");
    run.finish();
    let output = run.world.read("a.err");
    let user = output.split_whitespace().next().and_then(|time| time.strip_prefix("0m"));
    let user: f64 = user.and_then(|t| t.trim_end_matches('s').parse().ok()).expect("seconds");
    let end = run.exits("a")[0];
    assert!(0.02 < user && user * 1e9 <= (end.user.0 + 20_000_000) as f64, "{user} {end:?}");
}
