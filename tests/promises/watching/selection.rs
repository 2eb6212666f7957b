//! Every way to select processes, with real processes: which ones `evenkeel watch` manages, and which not.
//!
//! Each test starts shells that use CPU time, runs `evenkeel watch`, and reads the managed processes from
//! `evenkeel status --json`. A test that this machine cannot run (no other user, no cgroup) prints `skipped`.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{BURN, PATIENCE, Program, affinity, mask, tool, two_cpus};

/// UID of an unprivileged user.
const UNPRIVILEGED: u32 = 65534;
/// Samples busy processes ten times per second. A single program with a class loads one core only, and this policy then
/// migrates it.
const POLICY: &str = "dfs[interval=100ms,domains=core,only_job=move,cooldown=0]";

/// `evenkeel watch` with its own state folder.
struct Watch {
    program: Program,
    state: tempfile::TempDir,
    user: Option<u32>,
}

impl Watch {
    fn new(args: &[&str]) -> Self {
        Self::of(None, args)
    }

    fn of(user: Option<u32>, args: &[&str]) -> Self {
        let state = tempfile::tempdir().expect("a temporary folder");
        user.inspect(|&user| {
            chown(state.path(), Some(user), Some(user)).expect("this user is root")
        });
        let mut command = evenkeel(user, state.path(), &["watch", "--policy", POLICY]);
        command.args(args).arg("--journal").arg(state.path().join("w.jsonl"));
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let stderr = std::fs::File::create(state.path().join("stderr")).expect("a file");
        command.stderr(stderr);
        let program = Program(command.spawn().expect("it starts"));
        Watch { program, state, user }
    }

    fn run(&self, args: &[&str]) -> Output {
        evenkeel(self.user, self.state.path(), args).output().expect("it starts")
    }

    /// Its state in `status --json`; null until it has written one.
    fn status(&self) -> serde_json::Value {
        let output = self.run(&["status", "--json"]);
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all[0]["state"].clone()
    }

    fn until(&mut self, event: &str, done: impl Fn(&serde_json::Value) -> bool) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if done(&status) {
                return;
            }
            let stderr = self.stderr();
            let ended = self.program.0.try_wait().expect("permitted");
            assert!(ended.is_none(), "it exited before {event}: {ended:?} {stderr}");
            assert!(begun.elapsed() < PATIENCE, "timeout: {event}: {status} {stderr}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until `expected` are managed. Checks that `others` are not.
    fn wait_until_managed(&mut self, expected: &[&Program], others: &[&Program]) {
        let is_managed = |status: &serde_json::Value, pid: u32| {
            let managed = status["managed"].as_array();
            managed.is_some_and(|all| all.iter().any(|one| one["pid"] == pid))
        };
        self.until("all selected processes", |status| {
            expected.iter().all(|program| is_managed(status, program.pid()))
        });
        let status = self.status();
        for other in others {
            assert!(!is_managed(&status, other.pid()), "{} of {status}", other.pid());
        }
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(self.state.path().join("stderr")).unwrap_or_default()
    }

    /// Ends it with SIGTERM. Returns its standard error and exit status.
    fn end(mut self) -> (String, Option<i32>) {
        let pid = rustix::process::Pid::from_raw(self.program.pid().cast_signed());
        rustix::process::kill_process(pid.expect("a number"), rustix::process::Signal::TERM)
            .expect("permitted");
        let status = self.program.0.wait().expect("permitted");
        (self.stderr(), status.code())
    }
}

/// The executable, optionally as another user.
fn evenkeel(user: Option<u32>, state: &Path, args: &[&str]) -> Command {
    let mut command = match user {
        None => Command::new(tool::path()),
        Some(user) => {
            let mut command = Command::new("setpriv");
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(tool::path());
            command
        }
    };
    command.args(args).env("XDG_DATA_HOME", "/nonexistent");
    command.env("EVENKEEL_STATE_DIR", state.join("state"));
    command
}

/// A busy shell with another name, and the folder of its link.
fn busy_shell_named(name: &str) -> (Program, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    symlink("/bin/sh", &path).expect("permitted");
    (Program::new(Command::new(path).args(["-c", BURN])), folder)
}

/// A busy shell of an unprivileged user; `None` without permission to start one.
fn busy_shell_of_other_user() -> Option<Program> {
    let may = rustix::process::geteuid().is_root()
        && Command::new("setpriv").arg("--version").output().is_ok_and(|o| o.status.success());
    if !may {
        println!("skipped: needs root and setpriv");
        return None;
    }
    let user = UNPRIVILEGED.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "sh", "-c", BURN]);
    Some(Program::new(&mut command))
}

/// Whether another user can execute evenkeel.
fn can_other_user_execute() -> bool {
    let state = std::env::temp_dir();
    let can = evenkeel(Some(UNPRIVILEGED), &state, &["--version"]).output();
    let can = can.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: another user cannot access the folder of the executable");
    }
    can
}

#[test]
fn pid_selects_the_process_and_its_children() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (go, pid_file) = (folder.path().join("go"), folder.path().join("child"));
    let script = format!(
        "while [ ! -e {go} ]; do sleep 0.05; done; sh -c '{BURN}' & echo $! > {file}.new; \
         mv {file}.new {file}; wait",
        go = go.display(),
        file = pid_file.display()
    );
    let (parent, other) = (Program::shell(&script), Program::shell(BURN));
    let mut watch = Watch::new(&["--pid", &parent.pid().to_string()]);
    watch.until("its first state", |status| status["n_known"].as_u64().is_some());
    std::fs::write(&go, "").expect("permitted");
    let child = || std::fs::read_to_string(&pid_file).ok()?.trim().parse::<u32>().ok();
    watch.until("the child", |status| {
        let managed = status["managed"].as_array();
        managed.is_some_and(|all| all.iter().any(|one| child().is_some_and(|c| one["pid"] == c)))
    });
    watch.wait_until_managed(&[], &[&other]);
    let child = child().expect("the script wrote it");
    super::kill(child);
    assert_eq!(watch.end().1, Some(0));
}

#[test]
fn watch_ends_when_all_selected_processes_and_their_children_have_exited() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pid_file = folder.path().join("child");
    let script =
        format!("sleep 600 & echo $! > {t}.new; mv {t}.new {t}; {BURN}", t = pid_file.display());
    let parent = Program::shell(&script);
    let mut watch = Watch::new(&["--pid", &parent.pid().to_string()]);
    watch.wait_until_managed(&[&parent], &[]);
    let child: u32 = std::fs::read_to_string(&pid_file)
        .expect("the script wrote it")
        .trim()
        .parse()
        .expect("a number");
    drop(parent);
    watch.until("its end", |status| status["managed"].as_array().is_some_and(Vec::is_empty));
    assert!(watch.program.0.try_wait().expect("permitted").is_none(), "its child is running");
    super::kill(child);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = watch.program.0.try_wait().expect("permitted") {
            break status;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "watch does not end without processes: {}",
            watch.stderr()
        );
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(0), "{}", watch.stderr());
    let stderr = watch.stderr();
    assert_eq!(stderr.matches("and their children have exited").count(), 1, "{stderr}");
    // With another selection, more processes may match later.
    let exited = Program::shell(BURN);
    let name = format!("evk{}none", std::process::id());
    let mut watch = Watch::new(&["--pid", &exited.pid().to_string(), "--command", &name]);
    watch.wait_until_managed(&[&exited], &[]);
    drop(exited);
    watch.until("its end", |status| status["managed"].as_array().is_some_and(Vec::is_empty));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(watch.end().1, Some(0), "it was still running");
}

#[test]
fn watch_with_a_restricted_affinity_uses_only_these_cpus_and_reports_it() {
    let Some((all, _)) = two_cpus() else { return };
    let first: base::CpuSet = all.first().into_iter().collect();
    let busy = Program::shell(BURN);
    let args = ["--pid", &busy.pid().to_string(), "--act", "--class", "*=8"];
    affinity::set(0, &first).expect("permitted"); // Of this thread and its children.
    let mut watch = Watch::new(&args);
    affinity::set(0, &all).expect("permitted");
    watch.wait_until_managed(&[&busy], &[]);
    let status = watch.status();
    let cpus = (status["target_cpus"].as_str(), status["possible_cpus"].as_str());
    assert_eq!(cpus, (Some(&*first.to_string()), Some(&*all.to_string())));
    let text = String::from_utf8_lossy(&watch.run(&["status"]).stdout).into_owned();
    assert!(text.contains(&format!("places on       {first} of the CPUs {all}")), "{text}");
    let (stderr, code) = watch.end();
    assert_eq!((code, mask(busy.pid())), (Some(0), all.clone()), "{stderr}");
    let line = format!("programs are placed on {first} of the CPUs {all}");
    assert_eq!(stderr.matches(&line).count(), 1, "{stderr}");
}

#[test]
fn watch_reports_once_if_no_move_is_possible_and_the_remedy() {
    let stderr = |args: &[&str]| {
        let busy = Program::shell(BURN);
        let pid = busy.pid().to_string();
        let all = [&["--pid", &pid, "--signal", "loads=declared", "--for", "3s"], args].concat();
        let mut watch = Watch::new(&all);
        watch.wait_until_managed(&[&busy], &[]);
        assert!(watch.program.0.wait().expect("permitted").success());
        let stderr = watch.stderr();
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
fn command_selects_matching_names_except_excluded_ones() {
    let name = format!("evk{}", std::process::id());
    let (selected, _folder) = busy_shell_named(&format!("{name}a"));
    let (excluded, _folder_too) = busy_shell_named(&format!("{name}b"));
    let other = Program::shell(BURN);
    let args = ["--command", &format!("{name}*"), "--exclude", &format!("{name}b")];
    let mut watch = Watch::new(&args);
    watch.wait_until_managed(&[&selected], &[&excluded, &other]);
    let unmanaged = watch.status()["excluded"].to_string();
    assert!(unmanaged.contains("excluded-name"), "{unmanaged}");
    assert!(unmanaged.contains(&format!("{name}b.{}", excluded.pid())), "{unmanaged}");
    watch.end();
}

#[test]
fn all_selects_everything_except_excluded_processes() {
    let (excluded, _folder) = busy_shell_named(&format!("evk{}x", std::process::id()));
    let selected = Program::shell(BURN);
    let mut watch = Watch::new(&["--all", "--exclude", &format!("evk{}x", std::process::id())]);
    watch.wait_until_managed(&[&selected], &[&excluded]);
    let unmanaged = watch.status()["excluded"].to_string();
    assert!(unmanaged.contains("first-process") && unmanaged.contains("ourselves"), "{unmanaged}");
    watch.end();
}

#[test]
fn user_selects_the_processes_of_a_user_and_root_can_place_them() {
    let Some((all, _)) = two_cpus() else { return };
    let Some(foreign) = busy_shell_of_other_user() else { return };
    let own = Program::shell(BURN);
    let user = UNPRIVILEGED.to_string();
    let mut watch = Watch::new(&["--user", &user, "--act", "--class", "*=8"]);
    watch.wait_until_managed(&[&foreign], &[&own]);
    watch.until("its placement", |_| mask(foreign.pid()).len() == 1);
    let (stderr, code) = watch.end();
    assert_eq!((code, mask(foreign.pid())), (Some(0), all.clone()), "{stderr}");
    let excludes = ["--all", "--exclude-user", &user];
    let mut watch = Watch::new(&excludes);
    watch.wait_until_managed(&[&own], &[&foreign]);
    watch.end();
}

#[test]
fn without_permission_for_other_users_watch_reports_the_missing_capability_and_continues() {
    let Some((all, _)) = two_cpus() else { return };
    let Some(foreign) = busy_shell_of_other_user() else { return };
    if !can_other_user_execute() {
        return;
    }
    let of_root = Program::shell(BURN);
    let args = ["--user", "0", "--user", &UNPRIVILEGED.to_string(), "--act", "--class", "*=8"];
    let mut watch = Watch::of(Some(UNPRIVILEGED), &args);
    watch.wait_until_managed(&[&foreign], &[]);
    watch.until("the rejection", |status| {
        let alone = status["excluded"].as_array();
        let is_rejected = |one: &serde_json::Value| one["cause"] == "not-permitted";
        alone.is_some_and(|all| all.iter().any(is_rejected))
    });
    watch.wait_until_managed(&[&foreign], &[&of_root]);
    let unmanaged = String::from_utf8_lossy(&watch.run(&["status"]).stdout).into_owned();
    assert!(unmanaged.contains("CAP_SYS_NICE"), "{unmanaged}");
    assert_eq!(mask(of_root.pid()), all);
    let (stderr, code) = watch.end();
    assert_eq!((code, mask(foreign.pid()), mask(of_root.pid())), (Some(0), all.clone(), all));
    assert_eq!(stderr.lines().filter(|line| line.contains("CAP_SYS_NICE")).count(), 1, "{stderr}");
}

/// A cgroup of the test, in the hierarchy that groups processes.
struct TestCgroup {
    folder: PathBuf,
    top: PathBuf,
    made: Vec<PathBuf>,
}

impl TestCgroup {
    /// `None` if it cannot be created.
    fn new(top: &str, path: &str) -> Option<Self> {
        let top = PathBuf::from(top);
        let mut group = TestCgroup { folder: top.join(path), top: top.clone(), made: Vec::new() };
        let mut folder = top.clone();
        for part in Path::new(path) {
            folder.push(part);
            if !folder.is_dir() {
                if let Err(error) = std::fs::create_dir(&folder) {
                    println!("skipped: cannot create {}: {error}", folder.display());
                    return None;
                }
                group.made.push(folder.clone());
            }
        }
        Some(group)
    }

    /// A cgroup in the hierarchy that groups processes: the unified one, or systemd's named hierarchy.
    fn of_processes(path: &str) -> Option<Self> {
        if Path::new("/run/systemd/system").is_dir() {
            println!("skipped: systemd manages the cgroups");
            return None;
        }
        let is_unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        TestCgroup::new(if is_unified { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/systemd" }, path)
    }

    fn take(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        for made in self.made.iter().rev() {
            for _ in 0..100 {
                let inside = std::fs::read_to_string(made.join("cgroup.procs")).unwrap_or_default();
                for pid in inside.lines() {
                    let _ = std::fs::write(self.top.join("cgroup.procs"), pid);
                }
                if std::fs::remove_dir(made).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Watches a cgroup: one process is in it, another joins, and the first one leaves.
fn check_group(group: &TestCgroup, args: &[&str]) {
    let (inside, outside) = (Program::shell(BURN), Program::shell(BURN));
    group.take(inside.pid());
    let mut watch = Watch::new(args);
    watch.wait_until_managed(&[&inside], &[&outside]);
    assert_eq!(watch.status()["discovery"], "cgroups");
    group.take(outside.pid());
    watch.wait_until_managed(&[&inside, &outside], &[]);
    std::fs::write(group.top.join("cgroup.procs"), inside.pid().to_string())
        .expect("the root cgroup");
    watch.until("that it left the cgroup", |status| {
        let managed = status["managed"].as_array().cloned().unwrap_or_default();
        !managed.iter().any(|one| one["pid"] == inside.pid())
    });
    watch.wait_until_managed(&[&outside], &[&inside]);
    assert_eq!(watch.end().1, Some(0));
    // An excluded process is unmanaged, whatever else is selected.
    let folder = group.folder.display().to_string();
    let (inside, outside) = (outside, inside);
    let pids = [inside.pid().to_string(), outside.pid().to_string()];
    let mut watch =
        Watch::new(&["--pid", &pids[0], "--pid", &pids[1], "--exclude-cgroup", &folder]);
    watch.wait_until_managed(&[&outside], &[&inside]);
    watch.end();
}

#[test]
fn cgroup_selects_its_current_members_by_path_or_folder() {
    let name = format!("evenkeel-test-{}", std::process::id());
    let Some(group) = TestCgroup::of_processes(&format!("{name}/below")) else { return };
    check_group(&group, &["--cgroup", &format!("/{name}")]);
    check_group(&group, &["--cgroup", &group.folder.display().to_string()]);
}

#[test]
fn unit_selects_the_members_of_its_cgroup_in_any_slice() {
    let name = format!("evenkeel-test-{}", std::process::id());
    let path = format!("system.slice/{name}.service");
    let Some(group) = TestCgroup::of_processes(&path) else { return };
    // Other hierarchies have cgroups of the same name, which are irrelevant for units.
    let controllers = TestCgroup::new("/sys/fs/cgroup/cpu", &path);
    check_group(&group, &["--unit", &format!("{name}.service")]);
    check_group(&group, &["--unit", &name]);
    drop(controllers);
}

#[test]
fn a_cgroup_of_one_v1_controller_is_selected_by_its_folder() {
    if !Path::new("/sys/fs/cgroup/cpu/cgroup.procs").is_file() {
        println!("skipped: no cgroup v1 controllers");
        return;
    }
    let name = format!("evenkeel-test-{}-cpu", std::process::id());
    let Some(group) = TestCgroup::new("/sys/fs/cgroup/cpu", &name) else { return };
    check_group(&group, &["--cgroup", &group.folder.display().to_string()]);
}

#[test]
fn state_files_are_readable_only_by_their_user() {
    let busy = Program::shell(BURN);
    let mut watch = Watch::new(&["--pid", &busy.pid().to_string()]);
    watch.wait_until_managed(&[&busy], &[]);
    let folder = watch.state.path().join("state");
    let mode = |path: &Path| std::fs::metadata(path).expect("the file exists").permissions().mode();
    assert_eq!(mode(&folder) & 0o777, 0o700);
    for entry in std::fs::read_dir(&folder).expect("permitted").flatten() {
        assert_eq!(mode(&entry.path()) & 0o777, 0o600, "{}", entry.path().display());
    }
    assert!(affinity::get(busy.pid()).is_ok());
    watch.end();
}
