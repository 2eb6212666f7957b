//! Every way of choosing, on real processes: whom the built program looks after, and whom it does not.
//!
//! Each test has some shells that burn CPU time, watches with `evenkeel watch`, and reads from
//! `evenkeel status --json` who became one of those that are looked after. What this machine has no
//! place for (another user, a cgroup) prints `not run`.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{BURN, PATIENCE, Program, affinity, mask, tool, two_cpus};

/// Nobody at all.
const NOBODY: u32 = 65534;
/// Busy processes are looked at ten times a second. A program with a class that is alone loads one
/// place and no other, and this reading moves it then.
const POLICY: &str = "dfs[interval=100ms,domains=core,only_job=move,cooldown=0]";

/// `evenkeel watch` with a folder of its own for what it keeps.
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
        let state = tempfile::tempdir().expect("a folder");
        user.inspect(|&user| chown(state.path(), Some(user), Some(user)).expect("we are root"));
        let mut command = evenkeel(user, state.path(), &["watch", "--policy", POLICY]);
        command.args(args).arg("--journal").arg(state.path().join("w.jsonl"));
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let said = std::fs::File::create(state.path().join("said")).expect("a file");
        command.stderr(said);
        let program = Program(command.spawn().expect("it starts"));
        Watch { program, state, user }
    }

    fn tell(&self, args: &[&str]) -> Output {
        evenkeel(self.user, self.state.path(), args).output().expect("it starts")
    }

    /// What `status --json` shows of it; null until it has written something.
    fn status(&self) -> serde_json::Value {
        let output = self.tell(&["status", "--json"]);
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all[0]["state"].clone()
    }

    fn until(&mut self, what: &str, done: impl Fn(&serde_json::Value) -> bool) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if done(&status) {
                return;
            }
            let said = self.said();
            let ended = self.program.0.try_wait().expect("ours");
            assert!(ended.is_none(), "it ended before {what}: {ended:?} {said}");
            assert!(begun.elapsed() < PATIENCE, "{what} does not come: {status} {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Who must be looked after, and nobody else of the second ones.
    fn looks_after(&mut self, wanted: &[&Program], others: &[&Program]) {
        let is_managed = |status: &serde_json::Value, pid: u32| {
            let managed = status["managed"].as_array();
            managed.is_some_and(|all| all.iter().any(|one| one["pid"] == pid))
        };
        self.until("everybody chosen", |status| {
            wanted.iter().all(|program| is_managed(status, program.pid()))
        });
        let status = self.status();
        for other in others {
            assert!(!is_managed(&status, other.pid()), "{} of {status}", other.pid());
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.state.path().join("said")).unwrap_or_default()
    }

    /// Ends it as whoever presses Control-C does, and tells what it said and its exit status.
    fn end(mut self) -> (String, Option<i32>) {
        let pid = rustix::process::Pid::from_raw(self.program.pid().cast_signed());
        rustix::process::kill_process(pid.expect("a number"), rustix::process::Signal::INT)
            .expect("ours");
        let status = self.program.0.wait().expect("ours");
        (self.said(), status.code())
    }
}

/// The program, as another user if so wished.
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

/// A burning shell under another name, with the folder that the name lies in.
fn named(name: &str) -> (Program, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    symlink("/bin/sh", &path).expect("ours");
    (Program::new(Command::new(path).args(["-c", BURN])), folder)
}

/// A burning shell of nobody's; `None` where we may not start one.
fn of_nobody() -> Option<Program> {
    let may = rustix::process::geteuid().is_root()
        && Command::new("setpriv").arg("--version").output().is_ok_and(|o| o.status.success());
    if !may {
        println!("not run: needs root and setpriv");
        return None;
    }
    let user = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "sh", "-c", BURN]);
    Some(Program::new(&mut command))
}

/// Whether somebody else may start the built program.
fn can_nobody_run_it() -> bool {
    let state = std::env::temp_dir();
    let can = evenkeel(Some(NOBODY), &state, &["--version"]).output();
    let can = can.is_ok_and(|output| output.status.success());
    if !can {
        println!("not run: the built program lies where another user may not look");
    }
    can
}

#[test]
fn by_number_it_is_that_process_and_what_it_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (go, told) = (folder.path().join("go"), folder.path().join("told"));
    let script = format!(
        "while [ ! -e {go} ]; do sleep 0.05; done; sh -c '{BURN}' & echo $! > {told}.new; \
         mv {told}.new {told}; wait",
        go = go.display(),
        told = told.display()
    );
    let (parent, other) = (Program::shell(&script), Program::shell(BURN));
    let mut watch = Watch::new(&["--pid", &parent.pid().to_string()]);
    watch.until("its first words", |status| status["n_known"].as_u64().is_some());
    std::fs::write(&go, "").expect("ours");
    let child = || std::fs::read_to_string(&told).ok()?.trim().parse::<u32>().ok();
    watch.until("the child", |status| {
        let managed = status["managed"].as_array();
        managed.is_some_and(|all| all.iter().any(|one| child().is_some_and(|c| one["pid"] == c)))
    });
    watch.looks_after(&[], &[&other]);
    let child = child().expect("it was told");
    let born_ticks = linux::procfs::stat("/".as_ref(), child).expect("it lives").born_ticks;
    super::kill(base::TaskId { tid: child, start_time_ticks: born_ticks });
    assert_eq!(watch.end().1, Some(0));
}

#[test]
fn when_all_that_were_named_have_ended_and_what_they_started_watching_ends_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("told");
    let script =
        format!("sleep 600 & echo $! > {t}.new; mv {t}.new {t}; {BURN}", t = told.display());
    let parent = Program::shell(&script);
    let mut watch = Watch::new(&["--pid", &parent.pid().to_string()]);
    watch.looks_after(&[&parent], &[]);
    let child = std::fs::read_to_string(&told).expect("told").trim().parse().expect("a number");
    let born_ticks = linux::procfs::stat("/".as_ref(), child).expect("it lives").born_ticks;
    drop(parent);
    watch.until("its end", |status| status["managed"].as_array().is_some_and(Vec::is_empty));
    assert!(watch.program.0.try_wait().expect("ours").is_none(), "what it started lives");
    super::kill(base::TaskId { tid: child, start_time_ticks: born_ticks });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = watch.program.0.try_wait().expect("ours") {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it goes on for nobody: {}", watch.said());
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(0), "{}", watch.said());
    let said = watch.said();
    assert_eq!(said.matches("have ended, and whatever they started").count(), 1, "{said}");
    // Others may come where others were chosen too.
    let gone = Program::shell(BURN);
    let name = format!("evk{}none", std::process::id());
    let mut watch = Watch::new(&["--pid", &gone.pid().to_string(), "--command", &name]);
    watch.looks_after(&[&gone], &[]);
    drop(gone);
    watch.until("its end", |status| status["managed"].as_array().is_some_and(Vec::is_empty));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(watch.end().1, Some(0), "it was there to be ended");
}

#[test]
fn who_was_started_on_some_cpus_places_on_these_and_says_so() {
    let Some((all, _)) = two_cpus() else { return };
    let first: base::CpuSet = all.first().into_iter().collect();
    let busy = Program::shell(BURN);
    let args = ["--pid", &busy.pid().to_string(), "--act", "--class", "*=8"];
    affinity::set(0, &first).expect("ours"); // Of this thread alone, and what it starts.
    let mut watch = Watch::new(&args);
    affinity::set(0, &all).expect("ours");
    watch.looks_after(&[&busy], &[]);
    let status = watch.status();
    let told = (status["cpus_targets"].as_str(), status["cpus_whole"].as_str());
    assert_eq!(told, (Some(&*first.to_string()), Some(&*all.to_string())));
    let shown = String::from_utf8_lossy(&watch.tell(&["status"]).stdout).into_owned();
    assert!(shown.contains(&format!("places on       {first} of the CPUs {all}")), "{shown}");
    let (said, code) = watch.end();
    assert_eq!((code, mask(busy.pid())), (Some(0), all.clone()), "{said}");
    let line = format!("programs are placed on {first} of the CPUs {all}");
    assert_eq!(said.matches(&line).count(), 1, "{said}");
}

#[test]
fn whether_anything_can_be_moved_is_said_once_and_what_to_do() {
    let said = |args: &[&str]| {
        let busy = Program::shell(BURN);
        let pid = busy.pid().to_string();
        let all = [&["--pid", &pid, "--signal", "loads=declared", "--for", "3s"], args].concat();
        let mut watch = Watch::new(&all);
        watch.looks_after(&[&busy], &[]);
        assert!(watch.program.0.wait().expect("ours").success());
        let said = watch.said();
        assert!(!said.contains("no job has a class"), "{said}");
        said
    };
    for act in [&["--act"][..], &[]] {
        let said = said(act);
        assert_eq!(said.matches("nothing will be moved").count(), 1, "{said}");
        assert!(said.contains("--class 'PATTERN=CLASS'"), "{said}");
    }
    let said = said(&["--act", "--class", "*=8"]);
    assert!(!said.contains("nothing will be moved"), "{said}");
}

#[test]
fn by_name_it_is_every_program_that_fits_but_those_excluded() {
    let name = format!("evk{}", std::process::id());
    let (chosen, _folder) = named(&format!("{name}a"));
    let (excluded, _folder_too) = named(&format!("{name}b"));
    let other = Program::shell(BURN);
    let args = ["--command", &format!("{name}*"), "--exclude", &format!("{name}b")];
    let mut watch = Watch::new(&args);
    watch.looks_after(&[&chosen], &[&excluded, &other]);
    let told = watch.status()["left_alone"].to_string();
    assert!(told.contains("excluded-name"), "{told}");
    assert!(told.contains(&format!("{name}b.{}", excluded.pid())), "{told}");
    watch.end();
}

#[test]
fn all_is_everybody_but_those_excluded() {
    let (excluded, _folder) = named(&format!("evk{}x", std::process::id()));
    let chosen = Program::shell(BURN);
    let mut watch = Watch::new(&["--all", "--exclude", &format!("evk{}x", std::process::id())]);
    watch.looks_after(&[&chosen], &[&excluded]);
    let told = watch.status()["left_alone"].to_string();
    assert!(told.contains("first-process") && told.contains("ourselves"), "{told}");
    watch.end();
}

#[test]
fn by_user_it_is_whatever_they_run_and_root_places_it() {
    let Some((all, _)) = two_cpus() else { return };
    let Some(theirs) = of_nobody() else { return };
    let ours = Program::shell(BURN);
    let user = NOBODY.to_string();
    let mut watch = Watch::new(&["--user", &user, "--act", "--class", "*=8"]);
    watch.looks_after(&[&theirs], &[&ours]);
    watch.until("its placement", |_| mask(theirs.pid()).len() == 1);
    let (said, code) = watch.end();
    assert_eq!((code, mask(theirs.pid())), (Some(0), all.clone()), "{said}");
    let excludes = ["--all", "--exclude-user", &user];
    let mut watch = Watch::new(&excludes);
    watch.looks_after(&[&ours], &[&theirs]);
    watch.end();
}

#[test]
fn who_may_not_place_other_users_programs_says_which_right_is_missing_and_goes_on() {
    let Some((all, _)) = two_cpus() else { return };
    let Some(theirs) = of_nobody() else { return };
    if !can_nobody_run_it() {
        return;
    }
    let roots = Program::shell(BURN);
    let args = ["--user", "0", "--user", &NOBODY.to_string(), "--act", "--class", "*=8"];
    let mut watch = Watch::of(Some(NOBODY), &args);
    watch.looks_after(&[&theirs], &[]);
    watch.until("the refusal", |status| {
        let alone = status["left_alone"].as_array();
        let is_it = |one: &serde_json::Value| one["why"] == "not-permitted";
        alone.is_some_and(|all| all.iter().any(is_it))
    });
    watch.looks_after(&[&theirs], &[&roots]);
    let told = String::from_utf8_lossy(&watch.tell(&["status"]).stdout).into_owned();
    assert!(told.contains("CAP_SYS_NICE"), "{told}");
    assert_eq!(mask(roots.pid()), all);
    let (said, code) = watch.end();
    assert_eq!((code, mask(theirs.pid()), mask(roots.pid())), (Some(0), all.clone(), all));
    assert_eq!(said.lines().filter(|line| line.contains("CAP_SYS_NICE")).count(), 1, "{said}");
}

/// A cgroup of the test, in whichever hierarchy tells who belongs together.
struct Group {
    folder: PathBuf,
    top: PathBuf,
    made: Vec<PathBuf>,
}

impl Group {
    /// `None` where none can be made.
    fn new(top: &str, path: &str) -> Option<Self> {
        let top = PathBuf::from(top);
        let mut group = Group { folder: top.join(path), top: top.clone(), made: Vec::new() };
        let mut folder = top.clone();
        for part in Path::new(path) {
            folder.push(part);
            if !folder.is_dir() {
                if let Err(error) = std::fs::create_dir(&folder) {
                    println!("not run: cannot make {}: {error}", folder.display());
                    return None;
                }
                group.made.push(folder.clone());
            }
        }
        Some(group)
    }

    /// Where those are told that belong together: the unified hierarchy, or systemd's own.
    fn of_processes(path: &str) -> Option<Self> {
        if Path::new("/run/systemd/system").is_dir() {
            println!("not run: the groups here are systemd's");
            return None;
        }
        let is_unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        Group::new(if is_unified { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/systemd" }, path)
    }

    fn take(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}

impl Drop for Group {
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

/// Watches by something that names the group; one process is in it, another comes, and the first goes.
fn check_group(group: &Group, args: &[&str]) {
    let (inside, outside) = (Program::shell(BURN), Program::shell(BURN));
    group.take(inside.pid());
    let mut watch = Watch::new(args);
    watch.looks_after(&[&inside], &[&outside]);
    assert_eq!(watch.status()["way"], "groups");
    group.take(outside.pid());
    watch.looks_after(&[&inside, &outside], &[]);
    std::fs::write(group.top.join("cgroup.procs"), inside.pid().to_string()).expect("its top");
    watch.until("that it left", |status| {
        let managed = status["managed"].as_array().cloned().unwrap_or_default();
        !managed.iter().any(|one| one["pid"] == inside.pid())
    });
    watch.looks_after(&[&outside], &[&inside]);
    assert_eq!(watch.end().1, Some(0));
    // Excluded, it is left alone whatever else is chosen.
    let folder = group.folder.display().to_string();
    let (inside, outside) = (outside, inside);
    let pids = [inside.pid().to_string(), outside.pid().to_string()];
    let mut watch =
        Watch::new(&["--pid", &pids[0], "--pid", &pids[1], "--exclude-cgroup", &folder]);
    watch.looks_after(&[&outside], &[&inside]);
    watch.end();
}

#[test]
fn by_cgroup_it_is_whoever_is_in_it_now_by_its_path_or_its_folder() {
    let name = format!("evenkeel-test-{}", std::process::id());
    let Some(group) = Group::of_processes(&format!("{name}/below")) else { return };
    check_group(&group, &["--cgroup", &format!("/{name}")]);
    check_group(&group, &["--cgroup", &group.folder.display().to_string()]);
}

#[test]
fn by_unit_it_is_whoever_is_in_its_group_below_whatever_slice() {
    let name = format!("evenkeel-test-{}", std::process::id());
    let path = format!("system.slice/{name}.service");
    let Some(group) = Group::of_processes(&path) else { return };
    // Other hierarchies have folders of that name too, and tell nothing of units.
    let controllers = Group::new("/sys/fs/cgroup/cpu", &path);
    check_group(&group, &["--unit", &format!("{name}.service")]);
    check_group(&group, &["--unit", &name]);
    drop(controllers);
}

#[test]
fn a_group_of_one_controller_is_named_by_its_folder() {
    if !Path::new("/sys/fs/cgroup/cpu/cgroup.procs").is_file() {
        println!("not run: controllers have no hierarchies of their own here");
        return;
    }
    let name = format!("evenkeel-test-{}-cpu", std::process::id());
    let Some(group) = Group::new("/sys/fs/cgroup/cpu", &name) else { return };
    check_group(&group, &["--cgroup", &group.folder.display().to_string()]);
}

#[test]
fn what_a_watch_tells_of_itself_is_for_its_user_alone() {
    let busy = Program::shell(BURN);
    let mut watch = Watch::new(&["--pid", &busy.pid().to_string()]);
    watch.looks_after(&[&busy], &[]);
    let folder = watch.state.path().join("state");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(mode(&folder) & 0o777, 0o700);
    for entry in std::fs::read_dir(&folder).expect("ours").flatten() {
        assert_eq!(mode(&entry.path()) & 0o777, 0o600, "{}", entry.path().display());
    }
    assert!(affinity::get(busy.pid()).is_ok());
    watch.end();
}
