//! Namespaces of tests that start many processes.

use std::process::{Command, Stdio};

/// Environment variable of a test that runs in its namespaces.
const ISOLATED: &str = "EVENKEEL_TEST_ISOLATED";

/// Runs a test again in a PID namespace and a mount namespace of its own, whose processes end with the test. Returns
/// false if this process is in these namespaces, or if the kernel does not permit them: the test then runs here.
pub fn rerun(test: &str) -> bool {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]);
        command
    };
    if std::env::var_os(ISOLATED).is_some() {
        return false;
    }
    let tried = unshare().arg("true").stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("not isolated: namespaces need root");
        return false;
    }
    let thread = std::thread::current();
    let is_name = thread.name().is_none_or(|name| name == test || name == "main");
    assert!(is_name, "another test is named: {thread:?}");
    // The shell is the init process of the namespace and reaps orphans.
    let executable = std::env::current_exe().expect("this executable");
    let status = unshare()
        .args(["sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(executable)
        .args(["--exact", test, "--nocapture"])
        .env(ISOLATED, "1")
        .status()
        .expect("unshare");
    assert!(status.success(), "in namespaces: {status}");
    true
}
