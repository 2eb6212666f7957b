//! Random changes of valid files, for every parser. A failed seed is printed.

use base::Rng;
use tests::parsers::{PARSERS, Parser, mutated};
use tests::tool;

fn check(parser: &Parser) {
    let read = |path: &&str| std::fs::read(tool::root().join(path)).expect(path);
    let seed_files: Vec<Vec<u8>> = parser.seeds.iter().map(read).collect();
    seed_files.iter().for_each(|file| (parser.check)(file));
    for seed in crate::seeds::upto(parser.n_inputs) {
        let mut rng = Rng::new(seed);
        let file = &seed_files[rng.below(seed_files.len() as u64) as usize];
        let input = mutated(file, &mut rng);
        let check = std::panic::AssertUnwindSafe(|| (parser.check)(&input));
        if let Err(panic) = std::panic::catch_unwind(check) {
            eprintln!("{} with seed {seed}: {}", parser.name, String::from_utf8_lossy(&input));
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn every_parser_returns_a_value_or_an_error_of_one_line_for_any_input() {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            PARSERS.iter().map(|parser| (parser.name, scope.spawn(|| check(parser)))).collect();
        let failed: Vec<_> = threads
            .into_iter()
            .filter_map(|(name, thread)| thread.join().err().map(|_| name))
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
    });
}

#[test]
fn every_parser_has_a_fuzz_target() {
    for parser in &PARSERS {
        let target = tool::root().join(format!("fuzz/fuzz_targets/{}.rs", parser.name));
        let text = std::fs::read_to_string(target).expect(parser.name);
        assert!(text.contains(&format!("tests::parsers::{}(", parser.name)), "{text}");
        let manifest = std::fs::read_to_string(tool::root().join("fuzz/Cargo.toml"));
        assert!(manifest.expect("a manifest").contains(&format!("\"{}\"", parser.name)));
    }
}

#[test]
fn the_first_inputs_of_the_undo_record_are_valid_lines() {
    let text = std::fs::read_to_string(tool::root().join("fuzz/seeds/undo_record/lines"));
    for (nr, line) in text.expect("a file").lines().enumerate() {
        let parsed = match nr {
            0 => serde_json::from_str::<linux::undo::UndoHeader>(line).map(drop),
            _ => serde_json::from_str::<linux::undo::UndoLine>(line).map(drop),
        };
        assert!(parsed.is_ok(), "{line}: {parsed:?}");
    }
}
