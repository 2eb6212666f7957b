//! See the function in `tests/src/parsers.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::parsers::signature(bytes));
