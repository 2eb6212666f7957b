//! Tests that count what a process has: in a process of their own, where no other test opens or closes
//! anything meanwhile.

use std::process::Command;

const VARIABLE: &str = "EVENKEEL_TEST_ALONE";

/// Runs a test's body in a child that runs nothing else; `module` is the test's `module_path!()`.
pub fn run_isolated(module: &str, test: &str, body: impl FnOnce()) {
    let (_crate, module) = module.split_once("::").expect("a test stands in a module");
    let test = format!("{module}::{test}");
    if std::env::var_os(VARIABLE).is_some_and(|wanted| wanted == *test) {
        return body();
    }
    let this = std::env::current_exe().expect("the test program");
    let mut child = Command::new(this);
    child.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(VARIABLE, &test);
    let ended = child.output().expect("it starts");
    let told = String::from_utf8_lossy(&ended.stdout);
    println!("{told}");
    let why = String::from_utf8_lossy(&ended.stderr);
    // A test of another name would run none, and succeed.
    assert!(ended.status.success() && told.contains("1 passed"), "{test} alone: {told}{why}");
}

/// Open descriptors, that of the list itself among them.
pub fn n_open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("own descriptors").count()
}
