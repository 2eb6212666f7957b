//! Processes of other users, and unrelated processes that reuse a PID.

use std::process::Command;

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::{is_running, mask, signal, two_cpus, until};
use tests::tool;

#[test]
fn a_job_stopped_by_the_terminal_is_reported_with_advice() {
    let text = "[[job]]\nname = \"a\"\nshell = \"echo $$; kill -TTIN $$; exit 0\"\n";
    let mut run = EvenkeelRun::new(Dir::new(), text, &["--quiet"]);
    let pid = run.printed("a", 1)[0];
    run.wait_for_journal("reads the terminal");
    signal(pid, Signal::CONT);
    run.expect_status(0);
}

/// A set-uid root program in the directory of a run by an ordinary user.
const AS_ORDINARY_USER: &str = "
    chmod 755 . && chown 65534:65534 . && cp \"$(command -v setpriv)\" become && chmod 4755 become
    exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";

/// Returns whether an ordinary user can execute evenkeel, and become root through a set-uid program in the temporary
/// directory.
fn can_become_root() -> bool {
    let dir = tempfile::tempdir().expect("a directory");
    let shell =
        format!("set -- {} --version && {AS_ORDINARY_USER} > output", tool::path().display());
    let script = shell.replace("exec setpriv", "id -u; exec setpriv");
    let tried = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output();
    let as_ordinary_user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "./become"];
    let as_root = ["--reuid", "0", "--regid", "0", "--clear-groups", "id", "-u"];
    let became = Command::new("setpriv")
        .args(as_ordinary_user)
        .args(as_root)
        .current_dir(dir.path())
        .output();
    tried.is_ok_and(|output| output.status.success())
        && became.is_ok_and(|output| output.stdout == b"0\n")
}

/// Starts a run by an ordinary user, whose jobs can become root by `./become`. Returns `None` if this test cannot.
fn run_by_ordinary_user(text: &str, args: &[&str]) -> Option<EvenkeelRun> {
    if !rustix::process::geteuid().is_root() || !can_become_root() {
        println!("skipped: needs root, setpriv, and a directory that permits set-uid programs");
        return None;
    }
    let args = [&["--quiet", "--grace", "200ms"], args].concat();
    Some(EvenkeelRun::by_shell(AS_ORDINARY_USER, Dir::new(), text, &args))
}

#[test]
fn a_running_job_of_another_user_is_not_awaited_and_not_reported_as_ended() {
    let text = r#"
        [[job]]
        name = "a"
        command = ["./become", "--reuid", "0", "--regid", "0", "--clear-groups", "sh", "-c", "echo $$; exec sleep 600"]
    "#;
    let Some(mut run) = run_by_ordinary_user(text, &[]) else { return };
    let pid = run.printed("a", 1)[0];
    run.end_by(Signal::TERM);
    let survived = is_running(pid);
    signal(pid, Signal::KILL);
    let journal = run.journal();
    assert!(survived, "{}", run.output);
    assert_eq!(journal.matches("CAP_KILL").count(), 1, "{journal}");
    assert_eq!(journal.matches("\"ended\":0").count(), 0, "{journal}");
    let report = tool::text(&run.dir.run(&["report", "--json", "out"]).stdout);
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(report["jobs"][0]["state"], "running", "{report}");
}

#[test]
fn a_job_that_would_gain_privileges_starts_on_all_cpus_and_is_never_placed() {
    let Some((all, first, _)) = two_cpus() else { return };
    // The policy places job a at its start and again beside job b.
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
    let Some(mut run) = run_by_ordinary_user(&text, &["--policy", "dfs"]) else { return };
    let pid = run.printed("a", 1)[0];
    run.wait_for_journal("CAP_SYS_NICE");
    let bound = mask(pid);
    signal(pid, Signal::KILL);
    run.end_by(Signal::TERM);
    assert_eq!(bound, Some(all), "{}", run.output);
    let journal = run.journal();
    assert_eq!(journal.matches("\"not-permitted\":{}").count(), 1, "never placed: {journal}");
    assert!(journal.contains("runs as user 0 (set-user-ID)"), "{journal}");
    assert_eq!(run.records(), Vec::<std::path::PathBuf>::new(), "nothing was changed");
}

#[test]
fn a_child_that_gained_privileges_keeps_its_affinity_and_the_record_and_the_remedy_is_printed() {
    let Some((all, ..)) = two_cpus() else { return };
    // The shell starts on one CPU. Its child inherits this CPU, then becomes root.
    let text = r#"
        [[job]]
        name = "a"
        class = 9
        shell = "./become --reuid 0 --regid 0 --clear-groups sh -c 'echo $$; exec sleep 600'; true"
    "#;
    let args = ["--policy", "dfs[domains=core]"];
    let Some(mut run) = run_by_ordinary_user(text, &args) else { return };
    let pid = run.printed("a", 1)[0];
    let bound = mask(pid).expect("it is running");
    run.end_by(Signal::TERM);
    let survived = mask(pid);
    signal(pid, Signal::KILL);
    assert!(bound.len() == 1 && survived == Some(bound), "of {all}: {}", run.output);
    assert!(run.output.contains(&format!("as root: taskset -pc {all} {pid}")), "{}", run.output);
    assert!(run.output.contains("run evenkeel restore"), "{}", run.output);
    let is_record = |path: &&std::path::PathBuf| path.extension().is_some_and(|it| it == "undo");
    assert_eq!(run.records().iter().filter(is_record).count(), 1);
    until("the exit of the process", || !is_running(pid));
    run.restore(Some(65534));
    assert_eq!(run.records().iter().filter(is_record).count(), 0);
}

/// A program in the directory of a run by an ordinary user that the user can execute and not read: its process is not
/// dumpable, and its environment is not readable.
const NOT_DUMPABLE: &str = "
    chmod 755 . && chown 65534:65534 . && cp \"$(command -v sleep)\" agent && chmod 711 agent
    exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";

/// Kills a run whose job has started a process without a readable environment and without the group of the job.
/// Returns the run, the mask of the process before the run, and both processes.
fn killed_with_agent() -> Option<(EvenkeelRun, base::CpuSet, [u32; 2])> {
    let (all, ..) = two_cpus()?;
    if !rustix::process::geteuid().is_root() || !can_become_root() {
        println!("skipped: needs root, setpriv, and a directory that ordinary users can read");
        return None;
    }
    let text = r#"
        [[job]]
        name = "a"
        class = 9
        shell = "echo $$; setsid ./agent 600 & echo $!; wait"
    "#;
    let args = ["--quiet", "--policy", "dfs[domains=core]"];
    let mut run = EvenkeelRun::by_shell(NOT_DUMPABLE, Dir::new(), text, &args);
    let printed = run.printed("a", 2);
    let processes = [printed[0], printed[1]];
    let comm = |pid| tests::process::comm(pid);
    until("the start of the agent", || comm(processes[1]).as_deref() == Some("agent"));
    run.end_by(Signal::KILL);
    assert!(processes.map(mask).iter().all(|mask| mask.as_ref() != Some(&all)));
    Some((run, all, processes))
}

#[test]
fn a_child_without_a_readable_environment_is_restored_by_its_parent_and_its_affinity() {
    let Some((run, all, processes)) = killed_with_agent() else { return };
    run.restore(Some(65534));
    let masks = processes.map(mask);
    processes.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    assert_eq!(masks, [Some(all.clone()), Some(all)]);
    assert_eq!(run.records(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_process_without_a_readable_environment_and_without_its_parent_is_named_with_the_remedy() {
    let Some((run, all, [parent, agent])) = killed_with_agent() else { return };
    signal(parent, Signal::KILL);
    until("the exit of its parent", || !is_running(parent));
    let (text, bound) = (run.restore(Some(65534)), mask(agent));
    signal(agent, Signal::KILL);
    assert_ne!(bound, Some(all.clone()));
    assert!(text.contains(&format!("run taskset -apc {all} {agent}\n")), "{text}");
    assert_eq!(run.records(), Vec::<std::path::PathBuf>::new());
}

/// A script that lets an unrelated process reuse the PID of an exited process of a job. The script ends evenkeel before
/// its next sample, and prints whether the unrelated process is running.
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
    kill -0 $unrelated && echo "still running" >&2
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
    let mut run = EvenkeelRun::by_shell(&inside, Dir::new(), text, &["--quiet", "--grace", "10s"]);
    run.wait();
    if run.output.contains("not reused") {
        println!("skipped: another process took the PID");
        return;
    }
    assert!(run.output.contains("still running"), "{}", run.output);
}

#[test]
fn the_record_keeps_a_privileged_child_that_a_move_could_not_bind() {
    let Some((all, ..)) = two_cpus() else { return };
    // The child inherits an affinity and becomes root. The policy then migrates the job.
    let text = r#"
        [[job]]
        name = "a"
        class = 9
        shell = "./become --reuid 0 --regid 0 --clear-groups sh -c 'echo $$; exec sleep 600' & while :; do :; done"
        "#;
    let policy = "dfs[domains=core,interval=50ms,cooldown=0,only_job=move]";
    let Some(mut run) = run_by_ordinary_user(text, &["--policy", policy]) else { return };
    let pid = run.printed("a", 1)[0];
    run.wait_for_journal("\"turn\":40,");
    run.end_by(Signal::TERM);
    let left = mask(pid).expect("evenkeel cannot signal it");
    let journal = run.journal();
    signal(pid, Signal::KILL);
    assert_ne!(left, all, "{journal}");
    assert_eq!(run.records().len(), 1, "{} {journal}", run.output);
    assert!(run.output.contains(&format!("taskset -pc {all} {pid}")), "{}", run.output);
}
