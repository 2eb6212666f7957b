//! Explain, the report and replay from a journal: the journal is their only input.

use std::fs;
use std::path::{Path, PathBuf};

use base::Nanos;
use engine::{Engine, Sink};
use expect_test::expect_file;
use journal::{Header, JournalLimits, JournalWriter, PolicyUsed, RunEnd, RunStatus};
use sched::{ExitStatus, Policy};
use topology::Machine;

use crate::toy_host::{Part, Scripted, part};
use tests::tool;

fn fixture() -> PathBuf {
    tool::root().join("fixtures/journals/two-cores.jsonl")
}

fn policy(spec: &str) -> Box<dyn Policy> {
    policy::build(spec, 1).expect("a policy")
}

/// Returns jobs with every possible end.
fn parts() -> Vec<Part> {
    let mut parts = vec![
        part(0, "hog", Some(11), 0, 6000),
        part(1, "hog.2", Some(11), 0, 6000),
        part(2, "xz", Some(6), 500, 3000),
        part(3, "missing", Some(1), 1500, 100),
        part(4, "djpeg", Some(2), 2000, 900),
        part(5, "gcc", Some(4), 2500, 2500),
        part(6, "no-class", None, 2500, 500),
    ];
    parts[3].broken = Some("no such file: /usr/bin/missing".to_owned());
    parts[4].status = ExitStatus::Exited(3);
    parts[5].rebound = Some((Nanos::from_millis(500), "0".parse().expect("a list")));
    parts
}

/// Runs the parts on the scripted host, with these sinks.
pub fn play(
    parts: Vec<Part>,
    spec: &str,
    make: impl FnOnce(&Header) -> Vec<Box<dyn Sink>>,
) -> (Header, Vec<Box<dyn Sink>>) {
    let machine = Machine::synthetic("nodes=1 llcs=1 cores=2").expect("a machine");
    let mut host = Scripted::new(machine.clone(), parts, 5);
    let header = Header {
        tool: "0.1.0".to_owned(),
        run_id: "scripted-1".to_owned(),
        started_unix_s: 1_795_294_997,
        host: sched::HostKind::Live,
        policy: PolicyUsed::new(&*policy(spec), spec),
        seed: 1,
        machine: machine.clone(),
        workload: "scripted".to_owned(),
        dir: "/w".into(),
        jobs: host.jobs(),
        options: Default::default(),
        replay_of: None,
        command: None,
    };
    let mut engine = Engine::new(machine, host.jobs(), policy(spec));
    let mut sinks = make(&header);
    let mut refs: Vec<&mut dyn Sink> = sinks.iter_mut().map(|sink| &mut **sink as _).collect();
    engine::run(&mut host, &mut engine, &mut refs).expect("the run succeeds");
    (header, sinks)
}

/// Returns the journal of the parts without its last line.
fn recorded(path: &Path, spec: &str, limits: JournalLimits) -> Header {
    let writer = |header: &Header| -> Vec<Box<dyn Sink>> {
        let file = files::NewFile::create(path).expect("can be created");
        vec![Box::new(JournalWriter::create(file, header, limits).expect("can be written"))]
    };
    play(parts(), spec, writer).0
}

/// Replays a journal into a new journal with this header.
fn replayed(from: &Path, to: &Path, header: &Header, spec: &str) -> journal::ReplaySummary {
    let mut recording = journal::read(from).expect("a journal");
    let jobs = recording.header().jobs.clone();
    let mut engine = Engine::new(recording.header().machine.clone(), jobs, policy(spec));
    let file = files::NewFile::create(to).expect("can be created");
    let mut writer =
        JournalWriter::create(file, header, JournalLimits::default()).expect("can be written");
    let replayed = journal::replay(&mut recording, &mut engine, &mut [&mut writer]).expect("whole");
    if let Some(end) = recording.end() {
        writer.finish(end).expect("can be written");
    }
    replayed
}

#[test]
fn a_replay_of_a_real_recording_under_the_same_policy_is_the_same_journal_byte_for_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let replay_path = dir.path().join("again.jsonl");
    let header = journal::read(&fixture()).expect("a journal").header().clone();
    let summary = replayed(&fixture(), &replay_path, &header, &header.policy.spec);
    let (old, new) = (fs::read(fixture()).expect("text"), fs::read(&replay_path).expect("text"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        // The file is replaced by a rename, because other tests read the file at the same time.
        let beside = fixture().with_extension("new");
        fs::write(&beside, new).and_then(|()| fs::rename(&beside, fixture())).expect("written");
        return;
    }
    assert_eq!(summary.first_difference, None, "see fixtures/journals/README.md");
    assert!(old == new, "the bytes differ although every plan is the same");
    let text = String::from_utf8(old).expect("text");
    assert!(text.contains("load-uneven"), "the recording has a move in it");
}

#[test]
fn a_recording_replayed_twice_gives_identical_journals_under_any_policy() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    recorded(&file("run.jsonl"), "dfs", JournalLimits::default());
    for from in [file("run.jsonl"), fixture()] {
        for spec in ["dfs", "spread", "linux", "dfs[cooldown=0]"] {
            let header = journal::read(&from).expect("a journal").header().clone();
            let used =
                PolicyUsed { name: spec.to_owned(), ..PolicyUsed::new(&*policy(spec), spec) };
            let header = header.replayed("0.1.0", used, 1);
            replayed(&from, &file("one.jsonl"), &header, spec);
            replayed(&from, &file("two.jsonl"), &header, spec);
            let [one, two] = ["one.jsonl", "two.jsonl"].map(|name| {
                let text = fs::read(file(name)).expect("text");
                fs::remove_file(file(name)).expect("permitted");
                text
            });
            assert!(one == two, "{spec} over {}", from.display());
        }
    }
}

#[test]
fn a_replay_counts_the_turns_with_other_decisions() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let header = recorded(&file("run.jsonl"), "dfs", JournalLimits::default());
    let replayed_with_dfs = replayed(&file("run.jsonl"), &file("same.jsonl"), &header, "dfs");
    assert_eq!(
        (replayed_with_dfs.n_same, replayed_with_dfs.first_difference),
        (replayed_with_dfs.n_turns, None)
    );
    let other = replayed(&file("run.jsonl"), &file("other.jsonl"), &header, "linux");
    assert_eq!(other.n_turns, replayed_with_dfs.n_turns);
    assert_eq!(other.first_difference, Some(0), "linux places nothing");
}

#[test]
fn the_last_parts_of_a_long_run_can_be_replayed_without_the_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let limits = JournalLimits { part: base::Bytes::from_kib(6), n_parts: 2 };
    let header = recorded(&file("run.jsonl"), "dfs", limits);
    let summary = replayed(&file("run.jsonl"), &file("again.jsonl"), &header, "dfs");
    assert!(summary.lacks_first_parts);
    assert!(0 < summary.n_turns);
    // Turns without starts and moves do not depend on the missing history.
    assert!(summary.n_turns <= 2 * summary.n_same, "{summary:?}");
}

#[test]
fn explain_needs_only_the_journal() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    recorded(&path, "dfs", JournalLimits::default());
    let output = tool::run(&["explain", dir.path().to_str().expect("text")]);
    assert_eq!(tool::text(&output.stderr), "");
    let text = tool::text(&output.stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "80 columns");
    expect_file!["expected/explain.txt"].assert_eq(&text);
}

#[test]
fn explain_selects_one_job_and_prints_json() {
    let path = fixture().display().to_string();
    let output = tool::run(&["explain", &path, "--job", "long"]);
    expect_file!["expected/explain-job.txt"].assert_eq(&tool::text(&output.stdout));
    let output = tool::run(&["explain", &path, "--job", "long", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let events = json["jobs"][0]["events"].as_array().expect("events");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds, ["start", "move", "end"]);
    assert_eq!(events[1]["code"], "load-uneven");
}

#[test]
fn explain_answers_an_unknown_job_with_the_nearest_name() {
    let path = fixture().display().to_string();
    for (name, line) in [
        ("lang", "evenkeel: the journal has no job \"lang\": did you mean \"long\"?\n"),
        (
            "zzz",
            "evenkeel: the journal has no job \"zzz\": it has 6 jobs: brief, brief.2, long, long.2, missing-file, …\n",
        ),
    ] {
        assert_eq!(tool::rejection(&mut tool::command(&["explain", &path, "--job", name])), line);
    }
}

#[test]
fn a_file_that_is_not_a_journal_is_one_line_and_status_2() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.jsonl");
    fs::write(&file, "{\"journal\":99,\"tool\":\"9.0\"}\n").expect("can be written");
    let file = file.display().to_string();
    for command in ["explain", "report", "replay"] {
        for path in [file.as_str(), "/nonexistent", "/dev/null"] {
            let error = tool::rejection(&mut tool::command(&[command, path]));
            assert!(error.contains(path), "{error}");
        }
    }
}

#[test]
fn replay_prints_and_records_that_it_is_open_loop() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, out) = (fixture().display().to_string(), dir.path().join("new.jsonl"));
    let out_text = out.display().to_string();
    let output = tool::run(&["replay", &path, "--policy", "linux", "--out", &out_text]);
    let text = tool::text(&output.stdout);
    assert!(text.starts_with("open loop: linux on the recording of two-cores-1"), "{text}");
    assert!(text.contains("first in turn 0"), "{text}");
    let recording = journal::read(&out).expect("a journal");
    assert_eq!(recording.header().replay_of.as_deref(), Some("two-cores-1"));
    let text = tool::text(&tool::run(&["explain", &out_text]).stdout);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("were not carried out"), "{text}");
    // A journal is never overwritten.
    tool::rejection(&mut tool::command(&["replay", &path, "--out", &out_text]));
}

#[test]
fn a_truncated_journal_is_explained_up_to_its_last_whole_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("cut.jsonl");
    let whole = fs::read(fixture()).expect("bytes");
    fs::write(&path, &whole[..whole.len() / 2]).expect("can be written");
    let path = path.display().to_string();
    let output = tool::run(&["explain", &path]);
    assert_eq!(output.status.code(), Some(0));
    let text = tool::text(&output.stdout);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("evenkeel was killed or still runs"), "{text}");
    assert!(text.contains("is truncated and was ignored"), "{text}");
    let report = tool::run(&["report", &path, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(json["run"]["status"], serde_json::Value::Null);
    assert_eq!(json["jobs"][2]["state"], "running");
    assert_eq!(json["jobs"][2]["user_ns"], serde_json::Value::Null, "absent, not zero");
}

#[test]
fn the_end_of_a_run_has_the_usage_of_evenkeel_itself() {
    let recording = journal::read(&fixture()).expect("a journal");
    let mut recording = recording;
    assert!(recording.by_ref().all(|turn| turn.is_ok()));
    let end: &RunEnd = recording.end().expect("an end");
    assert_eq!(end.status, RunStatus::Finished);
    assert!(end.own_cpu.is_some_and(|time| time != Nanos::ZERO));
}
