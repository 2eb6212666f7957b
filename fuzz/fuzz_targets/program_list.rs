//! Any text is a program list or gives an error of one line; a list gives a workload or an error.
#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &str)| {
    let (seed, text) = input;
    match program::ProgramList::parse(text, Path::new("list.toml")) {
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        Ok(list) => {
            let options = program::GeneratorOptions {
                n_jobs: 1 + (seed % 50) as usize,
                seed,
                span: span(seed),
                hog_fraction: (seed % 5) as f64 / 4.0,
                suite_weights: BTreeMap::new(),
                memory: None,
            };
            let (one, other) = (program::generate(&list, &options), program::generate(&list, &options));
            assert_eq!(one, other, "the same seed");
        }
    }
});

/// Returns a span of at most a minute.
fn span(seed: u64) -> base::Nanos {
    base::Nanos::from_millis(seed % 60_000)
}
