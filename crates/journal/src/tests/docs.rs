//! The example on the page about the journal format is a valid journal.

use std::fs;

#[test]
fn the_example_in_the_docs_is_a_journal() {
    let page = include_str!("../../../../docs/journal-format.md");
    let (_, rest) = page.split_once("```jsonl\n").expect("an example");
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
    let mut writer = crate::JournalWriter::create(&copy, recording.header(), limits).expect("made");
    for turn in crate::read(&path).expect("a journal") {
        let turn = turn.expect("a turn");
        engine::Sink::record(&mut writer, &turn.record()).expect("can be written");
    }
    writer.finish(recording.end().expect("seen above")).expect("can be written");
    let values = |text: &str| -> Vec<serde_json::Value> {
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
