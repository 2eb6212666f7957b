//! The options that select processes, tested with real processes. The tests check the managed and the unmanaged
//! processes of `evenkeel watch`.
//!
//! Each test starts shells that use CPU time, runs `evenkeel watch`, and reads the managed processes from
//! `evenkeel status --json`. A test that this machine cannot run (no other user, no cgroup) prints `skipped`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::cgroup::TestCgroup;
use tests::evenkeel::{MIGRATES_ONLY_JOB, command_of, setpriv};

use super::{BURN, Dir, EvenkeelWatch, Process, Signal, affinity, signal, two_cpus, wait_for};

/// UID of an unprivileged user.
const UNPRIVILEGED: u32 = 65534;

/// Starts a watch that samples busy processes ten times per second.
fn start_as(user: Option<u32>, args: &[&str]) -> EvenkeelWatch {
    EvenkeelWatch::of(user, &[&["--policy", MIGRATES_ONLY_JOB], args].concat())
}

fn start(args: &[&str]) -> EvenkeelWatch {
    start_as(None, args)
}

/// Starts a busy shell with another name. Returns the shell and the directory of its link.
fn busy_shell_named(name: &str) -> (Process, Dir) {
    let dir = Dir::new();
    let path = dir.path(name);
    symlink("/bin/sh", &path).expect("permitted");
    (Process::new(Command::new(path).args(["-c", BURN])), dir)
}

/// Starts a busy shell of an unprivileged user. Returns `None` without permission.
fn busy_shell_of_other_user() -> Option<Process> {
    let may = rustix::process::geteuid().is_root()
        && Command::new("setpriv").arg("--version").output().is_ok_and(|o| o.status.success());
    if !may {
        println!("skipped: needs root and setpriv");
        return None;
    }
    let mut command = Command::new("setpriv");
    Some(Process::new(command.args(setpriv(UNPRIVILEGED)).args(["sh", "-c", BURN])))
}

/// Returns whether another user can execute evenkeel.
fn can_other_user_execute() -> bool {
    let can = command_of(Some(UNPRIVILEGED)).arg("--version").output();
    let can = can.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: another user cannot access the directory of the executable");
    }
    can
}

#[test]
fn a_selection_without_a_matching_process_prints_one_note() {
    for (args, expected) in [
        (&["--comm", "no-such-name"][..], "no process matches; the watch waits for new processes"),
        (&["--command", "/no such/*"], "no process matches; the watch waits for new processes"),
        (&["--comm", "sh", "--exclude", "sh"], "all selected processes are excluded ("),
    ] {
        let _shell = Process::busy();
        let mut watch = start(args);
        watch.until("the first state", |status| status["n_known"].as_u64() > Some(0));
        let (stderr, _) = watch.end();
        assert_eq!(stderr.matches(expected).count(), 1, "{args:?}: {stderr}");
        assert_eq!(stderr.matches("selected").count() + stderr.matches("matches;").count(), 1);
    }
}

#[test]
fn pid_selects_the_process_and_its_children() {
    let dir = Dir::new();
    let script = format!(
        "while [ ! -e {go} ]; do sleep 0.05; done; sh -c '{BURN}' & echo $! > {file}.new; \
         mv {file}.new {file}; wait",
        go = dir.arg("go"),
        file = dir.arg("child")
    );
    let (parent, other) = (Process::shell(&script), Process::busy());
    let mut watch = start(&["--pid", &parent.pid().to_string()]);
    watch.until("its first state", |status| status["n_known"].as_u64().is_some());
    dir.write("go", "");
    let child = || dir.text("child").trim().parse::<u32>().ok();
    watch.until("the child", |status| {
        let managed = status["managed"].as_array();
        managed.is_some_and(|all| {
            all.iter().any(|process| child().is_some_and(|c| process["pid"] == c))
        })
    });
    watch.wait_until_managed(&[], &[&other]);
    let child = child().expect("the script wrote it");
    signal(child, Signal::KILL);
    assert_eq!(watch.end().1, Some(0));
}

#[test]
fn watch_ends_when_all_selected_processes_and_their_children_have_exited() {
    let dir = Dir::new();
    let script =
        format!("sleep 600 & echo $! > {t}.new; mv {t}.new {t}; {BURN}", t = dir.arg("child"));
    let parent = Process::shell(&script);
    let mut watch = start(&["--pid", &parent.pid().to_string()]);
    watch.wait_until_managed(&[&parent], &[]);
    let child: u32 = dir.read("child").trim().parse().expect("a number");
    drop(parent);
    watch.until("its end", |status| status["managed"].as_array().is_some_and(Vec::is_empty));
    assert!(watch.process.0.try_wait().expect("permitted").is_none(), "its child is running");
    signal(child, Signal::KILL);
    let status =
        wait_for("the end without processes", || watch.process.0.try_wait().expect("permitted"));
    let stderr = watch.stderr();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(stderr.matches("and their children have exited").count(), 1, "{stderr}");
    // With another selection, more processes may match later.
    let exited = Process::busy();
    let name = format!("evk{}none", std::process::id());
    let mut watch = start(&["--pid", &exited.pid().to_string(), "--comm", &name]);
    watch.wait_until_managed(&[&exited], &[]);
    drop(exited);
    watch.until("its end", |status| status["managed"].as_array().is_some_and(Vec::is_empty));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(watch.end().1, Some(0), "it was still running");
}

#[test]
fn watch_with_a_restricted_affinity_uses_and_reports_only_these_cpus() {
    let Some((all, _)) = two_cpus() else { return };
    let first: base::CpuSet = all.first().into_iter().collect();
    let busy = Process::busy();
    let args = ["--pid", &busy.pid().to_string(), "--act", "--class", "*=8"];
    affinity::set(0, &first).expect("permitted"); // The mask applies to this thread and its children.
    let mut watch = start(&args);
    affinity::set(0, &all).expect("permitted");
    watch.wait_until_managed(&[&busy], &[]);
    let status = watch.status();
    let cpus = (status["target_cpus"].as_str(), status["possible_cpus"].as_str());
    assert_eq!(cpus, (Some(&*first.to_string()), Some(&*all.to_string())));
    let text = String::from_utf8_lossy(&watch.run(&["status"]).stdout).into_owned();
    assert!(text.contains(&format!("places on       {first} of the CPUs {all}")), "{text}");
    let (stderr, code) = watch.end();
    assert_eq!((code, busy.mask()), (Some(0), all.clone()), "{stderr}");
    let line = format!("programs are placed on {first} of the CPUs {all}");
    assert_eq!(stderr.matches(&line).count(), 1, "{stderr}");
}

#[test]
fn watch_reports_once_if_no_move_is_possible_and_the_remedy() {
    let stderr = |args: &[&str]| {
        let busy = Process::busy();
        let pid = busy.pid().to_string();
        let all = [&["--pid", &pid, "--signal", "loads=declared", "--for", "3s"], args].concat();
        let mut watch = start(&all);
        watch.wait_until_managed(&[&busy], &[]);
        let (stderr, code) = watch.wait();
        assert_eq!(code, Some(0), "{stderr}");
        assert!(!stderr.contains("no job has a class"), "{stderr}");
        stderr
    };
    for act in [&["--act"][..], &[]] {
        let stderr = stderr(act);
        assert_eq!(stderr.matches("no job migrates").count(), 1, "{stderr}");
        assert!(stderr.contains("--class 'PATTERN=CLASS'"), "{stderr}");
    }
    let stderr = stderr(&["--act", "--class", "*=8"]);
    assert!(!stderr.contains("no job migrates"), "{stderr}");
}

#[test]
fn comm_selects_matching_names_except_excluded_names() {
    let name = format!("evk{}", std::process::id());
    let (selected, _dir) = busy_shell_named(&format!("{name}a"));
    let (excluded, _dir_too) = busy_shell_named(&format!("{name}b"));
    let other = Process::busy();
    let args = ["--comm", &format!("{name}*"), "--exclude", &format!("{name}b")];
    let mut watch = start(&args);
    watch.wait_until_managed(&[&selected], &[&excluded, &other]);
    let unmanaged = watch.status()["excluded"].to_string();
    assert!(unmanaged.contains("excluded-name"), "{unmanaged}");
    assert!(unmanaged.contains(&format!("{name}b.{}", excluded.pid())), "{unmanaged}");
    watch.end();
}

#[test]
fn command_selects_matching_command_lines_except_excluded_command_lines() {
    let name = format!("evk{}", std::process::id());
    let busy = |arg: &str| Process::new(Command::new("sh").args(["-c", BURN, "a", arg]));
    let (selected, excluded) = (busy(&format!("{name}-x")), busy(&format!("{name}-y")));
    let other = Process::busy();
    let args = ["--command", &format!("*{name}-*"), "--exclude-command", &format!("*{name}-y")];
    let mut watch = start(&args);
    watch.wait_until_managed(&[&selected], &[&excluded, &other]);
    assert!(watch.status()["excluded"].to_string().contains("excluded-name"));
    watch.end();
}

#[test]
fn names_command_lines_and_all_select_processes_of_other_users_only_with_all_users() {
    let Some(foreign) = busy_shell_of_other_user() else { return };
    let own_process = Process::busy();
    for select in [&["--all"][..], &["--comm", "sh"], &["--command", "sh -c*"]] {
        let mut watch = start(select);
        watch.wait_until_managed(&[&own_process], &[&foreign]);
        assert!(watch.status()["excluded"].to_string().contains("other-user"), "{select:?}");
        watch.end();
        let mut watch = start(&[select, &["--all-users"]].concat());
        watch.wait_until_managed(&[&own_process, &foreign], &[]);
        watch.end();
    }
}

#[test]
fn all_selects_all_processes_except_excluded_processes() {
    let (excluded, _dir) = busy_shell_named(&format!("evk{}x", std::process::id()));
    let selected = Process::busy();
    let mut watch = start(&["--all", "--exclude", &format!("evk{}x", std::process::id())]);
    watch.wait_until_managed(&[&selected], &[&excluded]);
    let unmanaged = watch.status()["excluded"].to_string();
    assert!(
        unmanaged.contains("first-process") && unmanaged.contains("evenkeel-itself"),
        "{unmanaged}"
    );
    watch.end();
}

#[test]
fn user_selects_the_processes_of_a_user_and_root_can_place_them() {
    let Some((all, _)) = two_cpus() else { return };
    let Some(foreign) = busy_shell_of_other_user() else { return };
    let own_process = Process::busy();
    let user = UNPRIVILEGED.to_string();
    let mut watch = start(&["--user", &user, "--act", "--class", "*=8"]);
    watch.wait_until_managed(&[&foreign], &[&own_process]);
    watch.until("its placement", |_| foreign.mask().len() == 1);
    let (stderr, code) = watch.end();
    assert_eq!((code, foreign.mask()), (Some(0), all.clone()), "{stderr}");
    let excludes = ["--all", "--all-users", "--exclude-user", &user];
    let mut watch = start(&excludes);
    watch.wait_until_managed(&[&own_process], &[&foreign]);
    watch.end();
}

#[test]
fn without_permission_for_other_users_watch_reports_the_missing_capability_and_continues() {
    let Some((all, _)) = two_cpus() else { return };
    let Some(foreign) = busy_shell_of_other_user() else { return };
    if !can_other_user_execute() {
        return;
    }
    let of_root = Process::busy();
    let args = ["--user", "0", "--user", &UNPRIVILEGED.to_string(), "--act", "--class", "*=8"];
    let mut watch = start_as(Some(UNPRIVILEGED), &args);
    watch.wait_until_managed(&[&foreign], &[]);
    watch.until("the rejection", |status| {
        let alone = status["excluded"].as_array();
        let is_rejected = |process: &serde_json::Value| process["cause"] == "not-permitted";
        alone.is_some_and(|all| all.iter().any(is_rejected))
    });
    watch.wait_until_managed(&[&foreign], &[&of_root]);
    let unmanaged = String::from_utf8_lossy(&watch.run(&["status"]).stdout).into_owned();
    assert!(unmanaged.contains("CAP_SYS_NICE"), "{unmanaged}");
    assert_eq!(of_root.mask(), all);
    let (stderr, code) = watch.end();
    assert_eq!((code, foreign.mask(), of_root.mask()), (Some(0), all.clone(), all));
    assert_eq!(stderr.lines().filter(|line| line.contains("CAP_SYS_NICE")).count(), 1, "{stderr}");
}

/// Watches a cgroup that has one process. Another process joins, and the first process leaves.
fn check_cgroup(cgroup: &TestCgroup, args: &[&str]) {
    let (inside, outside) = (Process::busy(), Process::busy());
    cgroup.add(inside.pid());
    let mut watch = start(args);
    watch.wait_until_managed(&[&inside], &[&outside]);
    assert_eq!(watch.status()["discovery"], "cgroups");
    cgroup.add(outside.pid());
    watch.wait_until_managed(&[&inside, &outside], &[]);
    cgroup.remove(inside.pid());
    watch.until("that it left the cgroup", |status| {
        let managed = status["managed"].as_array().cloned().unwrap_or_default();
        !managed.iter().any(|process| process["pid"] == inside.pid())
    });
    watch.wait_until_managed(&[&outside], &[&inside]);
    assert_eq!(watch.end().1, Some(0));
    // An excluded process is unmanaged, even if another option selects the process.
    let dir = cgroup.dir.display().to_string();
    let (inside, outside) = (outside, inside);
    let pids = [inside.pid().to_string(), outside.pid().to_string()];
    let mut watch = start(&["--pid", &pids[0], "--pid", &pids[1], "--exclude-cgroup", &dir]);
    watch.wait_until_managed(&[&outside], &[&inside]);
    watch.end();
}

#[test]
fn cgroup_selects_its_current_members_by_path_or_directory() {
    let name = format!("evenkeel-test-{}", std::process::id());
    let Some(cgroup) = TestCgroup::of_processes(&format!("{name}/below")) else { return };
    check_cgroup(&cgroup, &["--cgroup", &format!("/{name}")]);
    check_cgroup(&cgroup, &["--cgroup", &cgroup.dir.display().to_string()]);
}

#[test]
fn unit_selects_the_members_of_its_cgroup_in_any_slice() {
    let name = format!("evenkeel-test-{}", std::process::id());
    let path = format!("system.slice/{name}.service");
    let Some(cgroup) = TestCgroup::of_processes(&path) else { return };
    // Other hierarchies have cgroups of the same name, which are irrelevant for units.
    let controllers = TestCgroup::new("/sys/fs/cgroup/cpu", &path);
    check_cgroup(&cgroup, &["--unit", &format!("{name}.service")]);
    check_cgroup(&cgroup, &["--unit", &name]);
    drop(controllers);
}

#[test]
fn a_cgroup_of_one_v1_controller_is_selected_by_its_directory() {
    if !Path::new("/sys/fs/cgroup/cpu/cgroup.procs").is_file() {
        println!("skipped: no cgroup v1 controllers");
        return;
    }
    let name = format!("evenkeel-test-{}-cpu", std::process::id());
    let Some(cgroup) = TestCgroup::new("/sys/fs/cgroup/cpu", &name) else { return };
    check_cgroup(&cgroup, &["--cgroup", &cgroup.dir.display().to_string()]);
}

#[test]
fn state_files_are_readable_only_by_their_user() {
    let busy = Process::busy();
    let mut watch = start(&["--pid", &busy.pid().to_string()]);
    watch.wait_until_managed(&[&busy], &[]);
    let dir = watch.dir.path("state");
    let mode = |path: &Path| std::fs::metadata(path).expect("the file exists").permissions().mode();
    assert_eq!(mode(&dir) & 0o777, 0o700);
    for entry in std::fs::read_dir(&dir).expect("permitted").flatten() {
        assert_eq!(mode(&entry.path()) & 0o777, 0o600, "{}", entry.path().display());
    }
    assert!(affinity::get(busy.pid()).is_ok());
    watch.end();
}
