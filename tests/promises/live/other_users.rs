//! Processes of other users, and unrelated processes that reuse a PID.

use std::process::Command;

use rustix::process::Signal;

use super::live_run::{is_running, mask, signal, two_cpus};
use super::run_process::Run;

/// Waits until a file of a run contains a text.
fn until(run: &Run, file: &str, text: &str) {
    let path = run.world.path(file);
    for _ in 0..10_000 {
        if std::fs::read_to_string(&path).is_ok_and(|found| found.contains(text)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("timeout: no {text} in {file}: {:?}", std::fs::read_to_string(&path));
}

#[test]
fn a_job_stopped_by_the_terminal_is_reported_with_advice() {
    let text = "[[job]]\nname = \"a\"\nshell = \"echo $$; kill -TTIN $$; exit 0\"\n";
    let run = Run::start(text, &["--quiet"], "exec \"$@\"");
    let pid = run.lines("a.out", 1)[0];
    until(&run, "out/journal.jsonl", "reads the terminal");
    signal(pid, Signal::CONT);
    let (status, errors, _) = run.end();
    assert!(status.success(), "{errors}");
}

/// A set-uid root program in the folder of a run by an ordinary user.
const AS_ORDINARY_USER: &str = "
    chmod 755 . && chown 65534:65534 . && cp \"$(command -v setpriv)\" become && chmod 4755 become
    exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";

/// Whether an ordinary user can execute evenkeel, and become root through a set-uid program in the
/// temporary folder.
fn can_become_root() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = format!(
        "set -- {} --version && {AS_ORDINARY_USER} > output",
        crate::tool::path().display()
    );
    let script = shell.replace("exec setpriv", "id -u; exec setpriv");
    let tried = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
    let as_ordinary_user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "./become"];
    let as_root = ["--reuid", "0", "--regid", "0", "--clear-groups", "id", "-u"];
    let became = Command::new("setpriv")
        .args(as_ordinary_user)
        .args(as_root)
        .current_dir(folder.path())
        .output();
    tried.is_ok_and(|output| output.status.success())
        && became.is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn a_job_that_changed_its_user_is_reported_with_the_missing_capability_and_not_awaited() {
    if !rustix::process::geteuid().is_root() || !can_become_root() {
        println!("skipped: needs root, setpriv, and a folder that permits set-uid programs");
        return;
    }
    let text = r#"
        [[job]]
        name = "a"
        command = ["./become", "--reuid", "0", "--regid", "0", "--clear-groups", "sh", "-c", "echo $$; exec sleep 600"]
    "#;
    let run = Run::start(text, &["--quiet", "--grace", "200ms"], AS_ORDINARY_USER);
    let pid = run.lines("a.out", 1)[0];
    signal(run.child.id(), Signal::TERM);
    let (_, errors, world) = run.end();
    let survived = is_running(pid);
    signal(pid, Signal::KILL);
    let journal = world.read("out/journal.jsonl");
    assert!(survived, "{errors}");
    assert_eq!(journal.matches("CAP_KILL").count(), 1, "{journal}");
    assert!(journal.contains("\"n_orphans\":1"), "{journal}");
}

#[test]
fn a_job_that_changed_its_user_is_not_migrated_and_reported_with_the_missing_capability() {
    let Some((_, first, _)) = two_cpus() else { return };
    if !rustix::process::geteuid().is_root() || !can_become_root() {
        println!("skipped: needs root, setpriv, and a folder that permits set-uid programs");
        return;
    }
    // Both start on the first CPU; only the job that becomes root can be migrated.
    let text = format!(
        r#"
        [[job]]
        name = "a"
        class = 9
        command = ["./become", "--reuid", "0", "--regid", "0", "--clear-groups", "sh", "-c", "echo $$; while :; do :; done"]
        [[job]]
        name = "b"
        class = 1
        cpus = "{first}"
        shell = "while :; do :; done"
        "#
    );
    let run = Run::start(&text, &["--quiet", "--grace", "200ms"], AS_ORDINARY_USER);
    let pid = run.lines("a.out", 1)[0];
    until(&run, "out/journal.jsonl", "CAP_SYS_NICE");
    let bound = mask(pid);
    signal(pid, Signal::KILL);
    signal(run.child.id(), Signal::TERM);
    let (_, errors, world) = run.end();
    assert_eq!(bound, Some(first), "{errors}");
    let journal = world.read("out/journal.jsonl");
    assert_eq!(journal.matches("\"not-permitted\":{}").count(), 1, "left alone: {journal}");
}

/// Lets an unrelated process reuse the PID of an exited process of a job, ends evenkeel before it has
/// sampled, and prints whether the unrelated process is alive.
const REUSE: &str = r#"
    "$@" & run=$!
    until grep -qs "\"pid\":$(tail -n1 out/jobs/a.out 2>/dev/null)," out/journal.jsonl; do sleep 0.05; done
    pid=$(tail -n1 out/jobs/a.out)
    kill -STOP $run; kill -KILL $pid
    while [ -d /proc/$pid ]; do sleep 0.01; done
    for i in 1 2 3 4 5 6 7 8 9 10; do
        echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid; sleep 600 & unrelated=$!
        [ $unrelated = $pid ] && break
    done
    [ $unrelated = $pid ] || echo "not reused" >&2
    kill -TERM $run; kill -CONT $run; wait $run
    kill -0 $unrelated && echo "alive" >&2
    kill -KILL $unrelated
"#;

#[test]
fn an_unrelated_process_that_reuses_a_pid_is_not_killed() {
    let namespace = ["-pf", "--mount-proc", "--kill-child"];
    let tried = Command::new("unshare")
        .args(namespace)
        .args(["sh", "-c", "echo 400 > /proc/sys/kernel/ns_last_pid"])
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs a PID namespace (unshare -pf)");
        return;
    }
    let text =
        "[[job]]\nname = \"a\"\nshell = \"setsid sleep 600 & echo $!; wait; exec sleep 600\"\n";
    let inside = format!("exec unshare -pf --mount-proc --kill-child sh -c '{REUSE}' sh \"$@\"");
    let run = Run::start(text, &["--quiet", "--grace", "10s"], &inside);
    let (_, errors, _) = run.end();
    if errors.contains("not reused") {
        println!("skipped: another process took the PID");
        return;
    }
    assert!(errors.contains("alive"), "{errors}");
}
