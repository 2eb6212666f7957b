//! What is not ours any more, or never was: processes of other users, and of other births.

use std::process::Command;

use rustix::process::Signal;

use super::command::Run;
use super::play::{lives, mask, signal, two_cpus};

/// Goes on until a file of a run holds a text.
fn until(run: &Run, file: &str, text: &str) {
    let path = run.world.path(file);
    for _ in 0..10_000 {
        if std::fs::read_to_string(&path).is_ok_and(|found| found.contains(text)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{file} never said {text}: {:?}", std::fs::read_to_string(&path));
}

#[test]
fn a_job_that_the_terminal_stops_is_told_with_what_to_do() {
    let text = "[[job]]\nname = \"a\"\nshell = \"echo $$; kill -TTIN $$; exit 0\"\n";
    let run = Run::start(text, &["--quiet"], "exec \"$@\"");
    let pid = run.lines("a.out", 1)[0];
    until(&run, "out/journal.jsonl", "reads the terminal");
    signal(pid, Signal::CONT);
    let (status, errors, _) = run.end();
    assert!(status.success(), "{errors}");
}

/// A program that becomes root whoever starts it, in the folder of a run by an ordinary user.
const AS_NOBODY: &str = "
    chmod 755 . && chown 65534:65534 . && cp \"$(command -v setpriv)\" become && chmod 4755 become
    exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";

/// Whether an ordinary user can run our program, and become root by a set-uid program beside the
/// tests.
fn can_become_root() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = format!("set -- {} --version && {AS_NOBODY} > said", crate::tool::path().display());
    let script = shell.replace("exec setpriv", "id -u; exec setpriv");
    let tried = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
    let as_nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "./become"];
    let as_root = ["--reuid", "0", "--regid", "0", "--clear-groups", "id", "-u"];
    let became =
        Command::new("setpriv").args(as_nobody).args(as_root).current_dir(folder.path()).output();
    tried.is_ok_and(|output| output.status.success())
        && became.is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn a_job_that_became_another_user_is_told_with_the_capability_and_not_waited_for() {
    if !rustix::process::geteuid().is_root() || !can_become_root() {
        println!("not run: needs root, setpriv, and a folder where set-uid programs may be");
        return;
    }
    let text = r#"
        [[job]]
        name = "a"
        command = ["./become", "--reuid", "0", "--regid", "0", "--clear-groups", "sh", "-c", "echo $$; exec sleep 600"]
    "#;
    let run = Run::start(text, &["--quiet", "--grace", "200ms"], AS_NOBODY);
    let pid = run.lines("a.out", 1)[0];
    signal(run.child.id(), Signal::TERM);
    let (_, errors, world) = run.end();
    let survived = lives(pid);
    signal(pid, Signal::KILL);
    let journal = world.read("out/journal.jsonl");
    assert!(survived, "{errors}");
    assert_eq!(journal.matches("CAP_KILL").count(), 1, "{journal}");
    assert!(journal.contains("\"n_orphans\":1"), "{journal}");
}

#[test]
fn a_job_that_became_another_user_is_not_moved_and_told_with_the_capability() {
    let Some((_, first, _)) = two_cpus() else { return };
    if !rustix::process::geteuid().is_root() || !can_become_root() {
        println!("not run: needs root, setpriv, and a folder where set-uid programs may be");
        return;
    }
    // Both begin on the first CPU, and only the one that becomes root may go to another.
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
    let run = Run::start(&text, &["--quiet", "--grace", "200ms"], AS_NOBODY);
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

/// Gives the number of a job's process that is gone to a stranger, tells evenkeel to stop before it
/// has looked, and says what became of the stranger.
const REUSE: &str = r#"
    "$@" & run=$!
    until grep -qs "\"pid\":$(tail -n1 out/jobs/a.out 2>/dev/null)," out/journal.jsonl; do sleep 0.05; done
    pid=$(tail -n1 out/jobs/a.out)
    kill -STOP $run; kill -KILL $pid
    while [ -d /proc/$pid ]; do sleep 0.01; done
    for i in 1 2 3 4 5 6 7 8 9 10; do
        echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid; sleep 600 & stranger=$!
        [ $stranger = $pid ] && break
    done
    [ $stranger = $pid ] || echo "not reused" >&2
    kill -TERM $run; kill -CONT $run; wait $run
    kill -0 $stranger && echo "spared" >&2
    kill -KILL $stranger
"#;

#[test]
fn a_stranger_that_has_the_number_of_a_jobs_process_is_spared() {
    let namespace = ["-pf", "--mount-proc", "--kill-child"];
    let tried = Command::new("unshare")
        .args(namespace)
        .args(["sh", "-c", "echo 400 > /proc/sys/kernel/ns_last_pid"])
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        println!("not run: needs a numbering of processes of its own (unshare -pf)");
        return;
    }
    let text =
        "[[job]]\nname = \"a\"\nshell = \"setsid sleep 600 & echo $!; wait; exec sleep 600\"\n";
    let inside = format!("exec unshare -pf --mount-proc --kill-child sh -c '{REUSE}' sh \"$@\"");
    let run = Run::start(text, &["--quiet", "--grace", "10s"], &inside);
    let (_, errors, _) = run.end();
    if errors.contains("not reused") {
        println!("not run: somebody else took the number");
        return;
    }
    assert!(errors.contains("spared"), "{errors}");
}
