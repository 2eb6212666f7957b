//! A journal is read back bit for bit, and damage is reported with file and line.

mod docs;
mod random;

use std::fs;
use std::path::Path;

use base::{Bytes, JobId, Nanos, Rng, TaskId};
use engine::Sink;
use sched::{Action, DetachCause, JobEvent, Outcome, OutcomeResult, Sample, Target, TaskSample};

use crate::{
    Checkpoint, Header, JobChange, JobHistory, JournalLimits, JournalWriter, RecordedTurn, RunEnd,
    RunStatus, read,
};
pub(crate) use random::{Random, one_of};
use random::{header, random_turn};

fn end() -> RunEnd {
    RunEnd {
        status: RunStatus::Interrupted,
        error: Some("a signal".to_owned()),
        stopped_by: Some(sched::StopCause::TimeLimit),
        wall: Nanos::from_secs(60),
        own_cpu: Some(Nanos::from_millis(12)),
        own_max_resident: Some(Bytes::from_mib(9)),
    }
}

fn new_file(path: &Path) -> files::NewFile {
    files::NewFile::create(path).expect("can be created")
}

fn write(path: &Path, turns: &[RecordedTurn], limits: JournalLimits) -> JournalWriter {
    let mut writer =
        JournalWriter::create(new_file(path), &header(), limits).expect("can be created");
    for turn in turns {
        writer.record(&turn.record()).expect("can be written");
    }
    writer
}

fn turns(seed: u64, n: u64) -> Vec<RecordedTurn> {
    let mut rng = Rng::new(seed);
    (0..n).map(|number| random_turn(number, &mut rng)).collect()
}

fn read_all(path: &Path) -> Vec<RecordedTurn> {
    read(path).expect("a journal").map(|turn| turn.expect("a turn")).collect()
}

fn error_of(path: &Path) -> String {
    let dir = if path.is_dir() { path } else { path.parent().expect("in a directory") };
    let dir = dir.display().to_string();
    let first = match read(path) {
        Err(error) => error,
        Ok(mut recording) => recording.find_map(Result::err).expect("an error"),
    };
    with_causes(&first).replace(&dir, "DIR")
}

/// Returns an error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[test]
fn every_turn_is_read_back_bit_for_bit() {
    let dir = tempfile::tempdir().expect("a directory");
    for seed in 0..60 {
        let path = dir.path().join(format!("{seed}.jsonl"));
        let written = turns(seed, 12);
        write(&path, &written, JournalLimits::default()).finish(&end()).expect("can be written");
        let mut recording = read(&path).expect("a journal");
        let back: Vec<RecordedTurn> =
            recording.by_ref().map(|turn| turn.expect("a turn")).collect();
        assert_eq!(back, written, "seed {seed}");
        assert_eq!(recording.end(), Some(&end()));
        assert_eq!(recording.truncated(), None);
    }
}

#[test]
fn the_header_is_read_back_without_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("j.jsonl");
    let mut header = header();
    header.jobs[0].env.insert("TOKEN".to_owned(), "secret".to_owned());
    JournalWriter::create(new_file(&path), &header, JournalLimits::default())
        .expect("can be created");
    assert!(!fs::read_to_string(&path).expect("text").contains("secret"));
    header.jobs[0].env.clear();
    assert_eq!(*read(&path).expect("a journal").header(), header);
}

#[test]
fn each_line_is_one_json_object_and_the_end_is_written_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("j.jsonl");
    let mut writer = write(&path, &turns(1, 5), JournalLimits::default());
    writer.finish(&end()).expect("can be written");
    writer.finish(&end()).expect("the second is ignored");
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!(text.lines().count(), 7);
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(value.is_object());
    }
}

#[test]
fn a_truncated_last_line_is_ignored_and_reported_at_every_length() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("j.jsonl");
    let written = turns(2, 3);
    write(&path, &written, JournalLimits::default());
    let whole = fs::read(&path).expect("bytes");
    let last_line =
        whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').expect("lines") + 1;
    for length in last_line + 1..whole.len() - 1 {
        fs::write(&path, &whole[..length]).expect("can be written");
        let mut recording = read(&path).expect("a journal");
        let read: Vec<bool> = recording.by_ref().map(|turn| turn.is_ok()).collect();
        assert_eq!(read, [true, true], "cut after {length} bytes");
        assert!(recording.truncated().is_some_and(|place| place.ends_with("j.jsonl:4")));
    }
    // If only the line feed is missing, the line is complete.
    fs::write(&path, &whole[..whole.len() - 1]).expect("can be written");
    assert_eq!(read_all(&path), written);
}

#[test]
fn damage_and_other_formats_are_reported_with_file_and_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("j.jsonl");
    write(&path, &turns(3, 2), JournalLimits::default());
    let good = fs::read_to_string(&path).expect("text");
    let head = good.lines().next().expect("a header");
    let mut errors = String::new();
    for text in [
        "".to_owned(),
        "{}\n".to_owned(),
        "not JSON\n".to_owned(),
        "{\"journal\":99,\"tool\":\"7.0\"}\n".to_owned(),
        "{\"journal\":1,\"tool\":\"0.1.0\",\"run\":\"old\",\"jobs\":[]}\n".to_owned(),
        "{\"journal\":2,\"tool\":\"0.1.0\"}\n".to_owned(),
        head.replacen("\"class\":15", "\"class\":16", 1) + "\n",
        head.replacen("\"id\":1,\"name\"", "\"id\":5,\"name\"", 1) + "\n",
        head.replacen("\"nodes_allowed\":\"0-1\"", "\"nodes_allowed\":\"0-9\"", 1) + "\n",
        format!("{head}\n{{\"turn\":0}}\n{{}}\n"),
        format!("{head}\n{{\"turn\":0,\"at_ns\":0,\"causes\":[\"boredom\"]}}\n"),
        format!(
            "{head}\n{{\"turn\":0,\"at_ns\":0,\"causes\":[],\"sample\":{{\"usable_cpus\":\"3-1\"}}}}\n"
        ),
        format!(
            "{head}\n{{\"end\":\"finished\",\"wall_ns\":1}}\n{{\"turn\":0,\"at_ns\":0,\"causes\":[]}}\n"
        ),
        format!("{head}\n\u{fffd}\n"),
        // Times whose sums do not fit into 64 bits.
        head.replacen("\"start_ns\":250000000", "\"start_ns\":18446744073709551615", 1) + "\n",
        format!("{head}\n{{\"turn\":0,\"at_ns\":4611686018427387905,\"causes\":[]}}\n"),
        format!(
            "{head}\n{{\"turn\":0,\"at_ns\":0,\"causes\":[],\"sample\":{{\"tasks\":[{{\"tid\":1,\
             \"start_time_ticks\":1,\"pid\":1,\"job\":0,\"cpu_ns\":18446744073709551615}}]}}}}\n"
        ),
        format!("{head}\n{{\"end\":\"finished\",\"wall_ns\":18446744073709551615}}\n"),
        head.replacen("\"argv\"", "\"arg\"", 1) + "\n",
    ] {
        fs::write(&path, text).expect("can be written");
        errors += &format!("{}\n", error_of(&path));
    }
    errors += &error_of(&dir.path().join("nothing.jsonl"));
    errors += &format!("\n{}\n", error_of(dir.path()));
    expect_test::expect_file!["expected/damage.txt"].assert_eq(&errors);
}

#[test]
fn a_journal_in_several_parts_is_read_as_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let written = turns(4, 40);
    let limits = JournalLimits { part: Bytes(6000), n_parts: 100 };
    // A link with the name of the next part is replaced.
    let target = dir.path().join("target");
    std::os::unix::fs::symlink(&target, dir.path().join("journal.jsonl.new")).expect("a link");
    write(&path, &written, limits).finish(&end()).expect("can be written");
    assert!(dir.path().join("journal.3.jsonl").exists() && !target.exists());
    let mut recording = read(&path).expect("a journal");
    assert_eq!(recording.n_parts_missing(), 0);
    let back: Vec<RecordedTurn> = recording.by_ref().map(|turn| turn.expect("a turn")).collect();
    assert_eq!(back, written);
    assert_eq!(recording.end(), Some(&end()));
}

#[test]
fn the_oldest_parts_are_removed_and_a_checkpoint_keeps_their_final_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    // With other seeds an attached job can replace a job of the workload, whose ending the header then lacks.
    let written = turns(9, 60);
    let limits = JournalLimits { part: Bytes(5000), n_parts: 3 };
    let mut writer = write(&path, &written, limits);
    writer.finish(&end()).expect("can be written");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 3);
    let mut recording = read(&path).expect("a journal");
    assert_eq!(recording.n_parts_missing(), writer.n_parts_removed());
    let checkpoint = recording.checkpoint().expect("a checkpoint").clone();
    let remaining: Vec<RecordedTurn> =
        recording.by_ref().map(|turn| turn.expect("a turn")).collect();
    let n_removed = written.len() - remaining.len();
    assert_eq!(remaining, written[n_removed..]);
    assert_eq!(checkpoint.turn, n_removed as u64 - 1);
    assert_eq!(checkpoint, checkpoint_after(recording.header(), &written[..n_removed]));
    assert!(!checkpoint.jobs.bound_threads().is_empty(), "threads that are bound one by one");
}

#[test]
fn a_job_is_bound_to_the_cpus_of_its_threads_until_the_whole_job_is_bound_or_detached() {
    let thread = |tid| TaskId { tid, start_time_ticks: 1 };
    let job = Target::Job(JobId(0));
    let mut history = JobHistory::new(&header());
    let mut bind = |sample: Sample, places: &[(Target, &str)]| {
        let outcome = |&(target, cpus): &(Target, &str)| Outcome {
            target,
            action: Some(Action::Place(cpus.parse().expect("a list"))),
            result: OutcomeResult::Done { n: 1 },
        };
        let outcomes = places.iter().map(outcome).collect();
        let turn = RecordedTurn { sample, outcomes, ..RecordedTurn::default() };
        let events = history.apply_events(&turn.record());
        let changes = events.iter().map(|record| match record.change {
            JobChange::Detached { was_placed, .. } => format!("detached, placed: {was_placed}; "),
            _ => "another event".to_owned(),
        });
        let changes = changes.collect::<String>();
        history.apply_outcomes(&turn.record());
        let bound = history.bound_cpus(JobId(0)).map_or("none".to_owned(), |all| all.to_string());
        format!("{changes}{bound}, {} moves", history.jobs()[0].n_moves)
    };
    let tasks = [1, 2, 3].map(|tid| TaskSample::new(thread(tid), JobId(0))).to_vec();
    let sample = Sample { tasks, ..Sample::default() };
    let [one, two] = [1, 2].map(|tid| Target::from(thread(tid)));
    assert_eq!(bind(sample, &[(one, "0-1"), (two, "3")]), "0-1,3, 2 moves");
    let exited = vec![thread(2)];
    assert_eq!(bind(Sample { exited, ..Sample::default() }, &[]), "0-1, 2 moves");
    assert_eq!(bind(Sample::default(), &[(job, "2-3")]), "2-3, 3 moves");
    // Thread 3 has the CPUs of the job.
    assert_eq!(bind(Sample::default(), &[(one, "0")]), "0,2-3, 4 moves");
    let jobs = vec![JobEvent::Detached(JobId(0), DetachCause::Idle, Box::default())];
    let detached = bind(Sample { jobs, ..Sample::default() }, &[]);
    assert_eq!(detached, "detached, placed: true; none, 4 moves");
}

fn checkpoint_after(header: &Header, turns: &[RecordedTurn]) -> Checkpoint {
    let mut checkpoint = Checkpoint::new(header);
    turns.iter().for_each(|turn| checkpoint.observe(&turn.record()));
    checkpoint
}

#[test]
fn a_numbered_part_can_be_read_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let written = turns(6, 40);
    write(&path, &written, JournalLimits { part: Bytes(6000), n_parts: 100 });
    let mut part = read(&dir.path().join("journal.2.jsonl")).expect("a journal");
    assert_eq!(part.n_parts_missing(), 1);
    let from = part.checkpoint().expect("a checkpoint").turn as usize + 1;
    let turns: Vec<RecordedTurn> = part.by_ref().map(|turn| turn.expect("a turn")).collect();
    assert_eq!(turns, written[from..from + turns.len()]);
    assert_eq!(part.end(), None);
}

#[test]
fn parts_of_another_run_in_the_same_directory_are_ignored() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let limits = JournalLimits { part: Bytes(6000), n_parts: 100 };
    write(&path, &turns(7, 40), limits);
    fs::remove_file(&path).expect("the newest part");
    let other = Header { run_id: "another".to_owned(), ..header() };
    let mut writer =
        JournalWriter::create(new_file(&path), &other, limits).expect("can be created");
    let written = turns(8, 4);
    written.iter().for_each(|turn| writer.record(&turn.record()).expect("can be written"));
    assert_eq!(read_all(&path), written);
}

#[test]
fn a_link_in_place_of_the_created_file_is_not_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, target) = (dir.path().join("j.jsonl"), dir.path().join("target"));
    let file = new_file(&path);
    fs::write(&target, "kept").expect("can be written");
    fs::remove_file(&path).expect("it exists");
    std::os::unix::fs::symlink(&target, &path).expect("can be created");
    let written = JournalWriter::create(file, &header(), JournalLimits::default());
    written.expect("can be written").finish(&end()).expect("can be written");
    assert_eq!(fs::read_to_string(&target).expect("text"), "kept");
}
