//! A journal holds everything that explain, the report and replay need.

use std::fs;
use std::path::{Path, PathBuf};

use base::Nanos;
use engine::{Engine, Sink};
use expect_test::expect_file;
use journal::{Header, HowEnded, JournalWriter, Limits, PolicyUsed, RunEnd};
use sched::{ExitStatus, Policy};
use topology::Machine;

use crate::scripted::{Part, Scripted, part};
use crate::tool;

fn fixture() -> PathBuf {
    tool::root().join("fixtures/journals/two-cores.jsonl")
}

fn policy(spec: &str) -> Box<dyn Policy> {
    policy::build(spec, 1).expect("a policy")
}

/// Jobs of every fate.
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
    parts[5].meddled = Some((Nanos::from_millis(500), "0".parse().expect("a list")));
    parts
}

/// Runs the parts on the make-believe host and tells the sinks.
pub fn play(
    parts: Vec<Part>,
    spec: &str,
    make: impl FnOnce(&Header) -> Vec<Box<dyn Sink>>,
) -> (Header, Vec<Box<dyn Sink>>) {
    let machine = Machine::synthetic("nodes=1 llcs=1 cores=2").expect("a machine");
    let mut host = Scripted::new(machine.clone(), parts, false, 5);
    let header = Header {
        tool: "0.1.0".to_owned(),
        run_id: "scripted-1".to_owned(),
        started_unix_s: 1_795_294_997,
        host: "live".to_owned(),
        policy: PolicyUsed { name: policy(spec).name().to_owned(), spec: spec.to_owned() },
        seed: 1,
        machine: machine.clone(),
        workload: "scripted".to_owned(),
        folder: "/w".into(),
        jobs: host.jobs(),
        options: Default::default(),
        replay_of: None,
    };
    let mut engine = Engine::new(machine, host.jobs(), policy(spec));
    let mut sinks = make(&header);
    let mut refs: Vec<&mut dyn Sink> = sinks.iter_mut().map(|sink| &mut **sink as _).collect();
    engine::run(&mut host, &mut engine, &mut refs).expect("nothing fails here");
    (header, sinks)
}

/// A journal of the parts, without its last line.
fn recorded(path: &Path, spec: &str, limits: Limits) -> Header {
    let writer = |header: &Header| -> Vec<Box<dyn Sink>> {
        vec![Box::new(JournalWriter::create(path, header, limits).expect("can be created"))]
    };
    play(parts(), spec, writer).0
}

/// Replays a journal into a new one under this header.
fn replayed(from: &Path, to: &Path, header: &Header, spec: &str) -> journal::Replayed {
    let mut recording = journal::read(from).expect("a journal");
    let jobs = recording.header().jobs.clone();
    let mut engine = Engine::new(recording.header().machine.clone(), jobs, policy(spec));
    let mut writer = JournalWriter::create(to, header, Limits::default()).expect("can be created");
    let replayed = journal::replay(&mut recording, &mut engine, &mut [&mut writer]).expect("whole");
    if let Some(end) = recording.end() {
        writer.finish(end).expect("can be written");
    }
    replayed
}

#[test]
fn a_real_recording_decided_again_by_the_same_policy_is_the_same_journal_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let again = folder.path().join("again.jsonl");
    let header = journal::read(&fixture()).expect("a journal").header().clone();
    let came_of_it = replayed(&fixture(), &again, &header, &header.policy.spec);
    let (old, new) = (fs::read(fixture()).expect("text"), fs::read(&again).expect("text"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        // In one step: other tests read it at the same time.
        let beside = fixture().with_extension("new");
        fs::write(&beside, new).and_then(|()| fs::rename(&beside, fixture())).expect("written");
        return;
    }
    assert_eq!(came_of_it.first_other, None, "see fixtures/journals/README.md");
    assert!(old == new, "the bytes differ although every plan is the same");
    let text = String::from_utf8(old).expect("text");
    assert!(text.contains("load-uneven"), "the recording has a move in it");
}

#[test]
fn a_recording_replayed_twice_gives_identical_journals_under_any_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    recorded(&file("run.jsonl"), "dfs", Limits::default());
    for from in [file("run.jsonl"), fixture()] {
        for spec in ["dfs", "spread", "linux", "dfs[cooldown=0]"] {
            let header = journal::read(&from).expect("a journal").header().clone();
            let used = PolicyUsed { name: spec.to_owned(), spec: spec.to_owned() };
            let header = header.replayed("0.1.0", used, 1);
            replayed(&from, &file("one.jsonl"), &header, spec);
            replayed(&from, &file("two.jsonl"), &header, spec);
            let read = |name: &str| fs::read(file(name)).expect("text");
            assert!(read("one.jsonl") == read("two.jsonl"), "{spec} over {}", from.display());
        }
    }
}

#[test]
fn a_replay_counts_the_turns_that_would_have_been_decided_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let header = recorded(&file("run.jsonl"), "dfs", Limits::default());
    let same = replayed(&file("run.jsonl"), &file("same.jsonl"), &header, "dfs");
    assert_eq!((same.n_same, same.first_other), (same.n_turns, None));
    let other = replayed(&file("run.jsonl"), &file("other.jsonl"), &header, "linux");
    assert_eq!(other.n_turns, same.n_turns);
    assert_eq!(other.first_other, Some(0), "linux places nothing");
}

#[test]
fn the_last_parts_of_a_long_run_can_be_replayed_without_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let limits = Limits { part: base::Bytes::from_kib(6), n_parts: 2 };
    let header = recorded(&file("run.jsonl"), "dfs", limits);
    let came_of_it = replayed(&file("run.jsonl"), &file("again.jsonl"), &header, "dfs");
    assert!(came_of_it.began_late);
    assert!(0 < came_of_it.n_turns);
    // Of the turns in which nothing is started or moved, nothing depends on the lost past.
    assert!(came_of_it.n_turns <= 2 * came_of_it.n_same, "{came_of_it:?}");
}

#[test]
fn explain_tells_each_jobs_story_from_the_journal_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.jsonl");
    recorded(&path, "dfs", Limits::default());
    let told = tool::run(&["explain", folder.path().to_str().expect("text")]);
    assert_eq!(tool::text(&told.stderr), "");
    let text = tool::text(&told.stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "80 columns");
    expect_file!["expected/explain.txt"].assert_eq(&text);
}

#[test]
fn explain_tells_of_one_job_and_as_json_too() {
    let path = fixture().display().to_string();
    let told = tool::run(&["explain", &path, "--job", "long"]);
    expect_file!["expected/explain-job.txt"].assert_eq(&tool::text(&told.stdout));
    let told = tool::run(&["explain", &path, "--job", "long", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
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
        ("zzz", "evenkeel: the journal has no job \"zzz\": it has 6 others\n"),
    ] {
        let told = tool::run(&["explain", &path, "--job", name]);
        assert_eq!(told.status.code(), Some(2));
        assert_eq!(
            (tool::text(&told.stdout).as_str(), tool::text(&told.stderr).as_str()),
            ("", line)
        );
    }
}

#[test]
fn what_is_no_journal_is_one_line_and_status_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.jsonl");
    fs::write(&file, "{\"journal\":99,\"tool\":\"9.0\"}\n").expect("can be written");
    let file = file.display().to_string();
    for command in ["explain", "report", "replay"] {
        for path in [file.as_str(), "/nonexistent", "/dev/null"] {
            let told = tool::run(&[command, path]);
            assert_eq!(told.status.code(), Some(2), "{command} {path}");
            let error = tool::text(&told.stderr);
            assert!(error.starts_with("evenkeel: ") && error.lines().count() == 1, "{error}");
            assert!(error.contains(path), "{error}");
        }
    }
}

#[test]
fn replay_says_that_it_is_open_loop_and_writes_a_journal_that_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (fixture().display().to_string(), folder.path().join("new.jsonl"));
    let out_text = out.display().to_string();
    let told = tool::run(&["replay", &path, "--policy", "linux", "--out", &out_text]);
    let text = tool::text(&told.stdout);
    assert!(text.starts_with("open loop: linux over the recording of two-cores-1"), "{text}");
    assert!(text.contains("would have been decided otherwise, turn 0 first"), "{text}");
    let recording = journal::read(&out).expect("a journal");
    assert_eq!(recording.header().replay_of.as_deref(), Some("two-cores-1"));
    let told = tool::text(&tool::run(&["explain", &out_text]).stdout);
    assert!(told.contains("nothing of it was carried out"), "{told}");
    // A journal is never overwritten.
    let again = tool::run(&["replay", &path, "--out", &out_text]);
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn a_journal_without_its_end_is_told_as_far_as_it_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.jsonl");
    let whole = fs::read(fixture()).expect("bytes");
    fs::write(&path, &whole[..whole.len() / 2]).expect("can be written");
    let path = path.display().to_string();
    let told = tool::run(&["explain", &path]);
    assert_eq!(told.status.code(), Some(0));
    let text = tool::text(&told.stdout);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("evenkeel was killed, or still runs"), "{text}");
    assert!(text.contains("is torn and was left out"), "{text}");
    let report = tool::run(&["report", &path, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(json["run"]["end"], serde_json::Value::Null);
    assert_eq!(json["jobs"][2]["state"], "running");
    assert_eq!(json["jobs"][2]["user_ns"], serde_json::Value::Null, "absent, not zero");
}

#[test]
fn the_end_of_a_run_says_what_evenkeel_itself_used() {
    let recording = journal::read(&fixture()).expect("a journal");
    let mut recording = recording;
    assert!(recording.by_ref().all(|turn| turn.is_ok()));
    let end: &RunEnd = recording.end().expect("an end");
    assert_eq!(end.how, HowEnded::Finished);
    assert!(end.own_cpu.is_some_and(|time| time != Nanos::ZERO));
}
