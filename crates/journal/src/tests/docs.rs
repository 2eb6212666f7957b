//! The page about the journal format: its example is a valid journal, and it names all keys.

use std::collections::BTreeSet;
use std::fs;

use base::Rng;
use serde_json::Value;

use super::{Random, header, random_turn};
use crate::wire::{CheckpointLine, Encoded, EndLine, HeaderLine, PartNumber, TurnLine};
use crate::{Checkpoint, Header, JobHistory, RunEnd};

const PAGE: &str = include_str!("../../../../docs/journal-format.md");

#[test]
fn the_example_in_the_docs_is_a_journal() {
    let (_, rest) = PAGE.split_once("```jsonl\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("example.jsonl");
    fs::write(&path, example).expect("can be written");
    let mut recording = crate::read(&path).expect("a journal");
    let read: Vec<bool> = recording.by_ref().map(|turn| turn.is_ok()).collect();
    assert_eq!(read, [true, true]);
    assert!(recording.end().is_some_and(|end| end.own_cpu.is_some()));
    // The rewritten journal is equal, so no field was misspelt and ignored.
    let copy = dir.path().join("copy.jsonl");
    let limits = crate::JournalLimits::default();
    let file = files::NewFile::create(&copy).expect("can be created");
    let mut writer = crate::JournalWriter::create(file, recording.header(), limits).expect("made");
    for turn in crate::read(&path).expect("a journal") {
        let turn = turn.expect("a turn");
        engine::Sink::record(&mut writer, &turn.record()).expect("can be written");
    }
    writer.finish(recording.end().expect("seen above")).expect("can be written");
    let values = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let written = fs::read_to_string(&copy).expect("text");
    for (line, rewritten) in values(example).iter().zip(values(&written)) {
        for (key, value) in line.as_object().expect("an object") {
            assert!(
                key == "machine" || &rewritten[key] == value,
                "{key}: {value} or {}",
                rewritten[key]
            );
        }
    }
}

/// Objects whose keys are data: names of options, codes, values, events and signals; and the machine file, which has a
/// page of its own.
const DATA: [&str; 6] = ["machine", "options", "reasons", "values", "counters", "signal_tiers"];

/// Adds the keys of all objects in a value, except class numbers.
fn add_keys(value: &Value, keys: &mut BTreeSet<String>) {
    for inner in value.as_array().into_iter().flatten() {
        add_keys(inner, keys);
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        if key.parse::<u8>().is_err() {
            keys.insert(key.clone());
        }
        if !DATA.contains(&key.as_str()) {
            add_keys(inner, keys);
        }
    }
}

/// Returns the words in the code spans of the page.
fn words_in_code() -> BTreeSet<&'static str> {
    let text = PAGE.split("```").step_by(2);
    let spans = text.flat_map(|text| text.split('`').skip(1).step_by(2));
    spans.flat_map(|span| span.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c))).collect()
}

#[test]
fn the_page_names_every_key_and_no_other_key() {
    let (mut rng, mut keys) = (Rng::new(1), BTreeSet::new());
    for number in 0..300 {
        let mut add = |line: serde_json::Result<Value>| add_keys(&line.expect("JSON"), &mut keys);
        add(serde_json::to_value(TurnLine::from(&random_turn(number, &mut rng).record())));
        let header = Header {
            dir: "/".into(),
            jobs: Random::random(&mut rng),
            replay_of: Some("a".to_owned()),
            command: Some("evenkeel replay a --policy linux".to_owned()),
            ..header()
        };
        add(serde_json::to_value(HeaderLine::new(&header, PartNumber { part: 2, n_removed: 1 })));
        let mut checkpoint = Checkpoint::default();
        checkpoint.jobs = JobHistory::resume(Random::random(&mut rng), &header);
        add(serde_json::to_value(CheckpointLine::from(&checkpoint)));
        add(serde_json::to_value(Encoded::<EndLine>::encode(&RunEnd::random(&mut rng))));
    }
    let words = words_in_code();
    let missing: Vec<_> = keys.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let is_key = |word: &str| {
        word.contains('_') && !word.starts_with('_') && !word.contains(char::is_uppercase)
    };
    let unknown: Vec<_> =
        words.into_iter().filter(|word| is_key(word) && !keys.contains(*word)).collect();
    assert!(unknown.is_empty(), "not in journals: {unknown:?}");
}
