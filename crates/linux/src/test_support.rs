//! Test support: directories of files, and a process that runs a single test, for tests that count resources such as
//! descriptors.

use std::process::Command;

const VARIABLE: &str = "EVENKEEL_TEST_ALONE";

/// Runs the body of a test in a child process that runs no other test. `module` is `module_path!()`.
pub fn run_isolated(module: &str, test: &str, body: impl FnOnce()) {
    let (_crate, module) = module.split_once("::").expect("a test is in a module");
    let test = format!("{module}::{test}");
    if std::env::var_os(VARIABLE).is_some_and(|selected| selected == *test) {
        return body();
    }
    let this = std::env::current_exe().expect("the test program");
    let mut child = Command::new(this);
    child.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(VARIABLE, &test);
    let ended = child.output().expect("the test program starts");
    let stdout = String::from_utf8_lossy(&ended.stdout);
    println!("{stdout}");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    // With a wrong test name the child would run no test and succeed.
    assert!(ended.status.success() && stdout.contains("1 passed"), "{test}: {stdout}{stderr}");
}

/// Returns the number of open descriptors, including the descriptor of the listing.
pub fn n_open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("own descriptors").count()
}

/// Creates a temporary directory with these files.
pub fn dir_of<P: AsRef<str>, T: AsRef<str>>(
    files: impl IntoIterator<Item = (P, T)>,
) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = root.path().join(path.as_ref());
        std::fs::create_dir_all(path.parent().expect("a directory"))
            .expect("the directory is writable");
        std::fs::write(path, text.as_ref()).expect("the directory is writable");
    }
    root
}
