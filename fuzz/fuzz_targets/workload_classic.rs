//! Any bytes are a classic workload or give an error of one line; a workload is equal after writing and parsing.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzz/w.txt");
    match program::parse_bytes(bytes, path) {
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        Ok(workload) => {
            let text = program::to_classic(&workload).expect("the classic format can express it");
            let mut again = program::parse_classic(&text, path).expect("evenkeel wrote it");
            for (again, job) in again.jobs.iter_mut().zip(&workload.jobs) {
                again.origin = job.origin.clone();
            }
            assert_eq!(again, workload, "{text}");
        }
    }
});
