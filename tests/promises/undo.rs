//! Undo records: after a kill of evenkeel at any call of `linux::fault::point`, `restore` undoes the changes of evenkeel
//! and no other change.
//!
//! `EVENKEEL_FAULT=kill-at:N` kills the run at its N-th call of this function. N increases from 1 until a run ends
//! normally, so every call is tried once. The run itself is an ignored test of this executable, and does nothing unless [`TEST_DIR`] is
//! set.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::CpuSet;
use linux::undo::{self, RestoreAction, RestoreVerdict};
use rustix::process::Signal;
use sched::Action;
use tests::dir::Dir;
use tests::live_run::LiveRun;
use tests::process::{is_running, mask, signal, two_cpus, variable, wait_for};

use crate::live::cgroups::{cgroup_dir, creatable};

/// Environment variable with the directory of the run to kill.
const TEST_DIR: &str = "EVENKEEL_TEST_DIR";
/// A file that exists after this test has changed the affinity of the last job.
const CHANGED: &str = "changed";
/// Upper bound of the number of steps of the run.
const N_STEPS_MAX: u32 = 500;

/// Workload of the killed run. The first job has a child and a grandchild in another session. The second job has a
/// cgroup if cgroups are available. The test changes the affinity of the last job, and no restore may change this
/// affinity.
const WORKLOAD: &str = r#"
    [[job]]
    name = "family"
    shell = "sleep 600 & setsid sleep 600 & wait"
    [[job]]
    name = "single"
    command = ["sleep", "600"]
    memory = "bind:0"
    [[job]]
    name = "other"
    command = ["sleep", "600"]
"#;

/// Runs in a separate process, which is killed.
#[test]
#[ignore = "a part of after_a_kill_at_any_step_restore_undoes_all_changes_of_the_run; does nothing alone"]
fn run_to_be_killed() {
    let Some(path) = std::env::var_os(TEST_DIR) else { return };
    let Some((_, first, last)) = two_cpus() else { return };
    let path = PathBuf::from(path);
    let changed = path.join(CHANGED);
    let mut run = LiveRun::within(Dir::inside(&path), WORKLOAD, |options| {
        options.undo_dirs = None; // EVENKEEL_STATE_DIR selects the directories.
        options.cgroups = creatable().unwrap_or_default();
    });
    run.request("family", Action::Place(first.clone()));
    run.request("single", Action::Place(last.clone()));
    let other = run.wait_until_started("other");
    linux::affinity::set(other, &first).expect("permitted");
    std::fs::write(changed, "").expect("permitted");
    run.until("the family", |run| {
        let tasks = run.turns.iter().flat_map(|turn| &turn.sample.tasks);
        let family = run.job("family");
        3 <= tasks
            .filter(|task| task.job == family)
            .map(|task| task.process)
            .collect::<BTreeSet<_>>()
            .len()
    });
    run.request("family", Action::Place(last));
    run.request("single", Action::Place(first));
    run.until("the moves", |run| run.placements("family").len() == 2);
    run.request("single", Action::Release);
    run.until("the release", |run| run.placements("single").len() == 3);
    run.stop();
}

/// Returns the PIDs of the processes of one run, found by their environment.
fn processes_of(dir: &Dir) -> Vec<u32> {
    let path = dir.root().to_str().expect("a plain path");
    let belongs_to_run = |pid: &u32| {
        variable(*pid, TEST_DIR).as_deref() == Some(path)
            && variable(*pid, undo::RUN_VARIABLE).is_some()
    };
    let pids = linux::procfs::processes(Path::new("/"))
        .expect("all processes")
        .into_iter()
        .filter(belongs_to_run);
    pids.filter(|&pid| is_running(pid)).collect()
}

/// Waits for the processes of a killed run that meet `condition`. A job that was starting at the kill has its
/// environment only after its exec.
fn remaining(dir: &Dir, condition: impl Fn(u32) -> bool) -> Vec<u32> {
    wait_for("such a process", || {
        let pids: Vec<u32> = processes_of(dir).into_iter().filter(|&pid| condition(pid)).collect();
        (!pids.is_empty()).then_some(pids)
    })
}

fn killed_at(dir: &Dir, step: u32) -> std::process::ExitStatus {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "undo::run_to_be_killed", "--ignored", "--test-threads=1"])
        .env(TEST_DIR, dir.root())
        .env(undo::STATE_VARIABLE, dir.path("state"))
        .env(linux::fault::VARIABLE, format!("kill-at:{step}"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("this program")
}

fn n_files(dir: &Dir) -> usize {
    std::fs::read_dir(dir.path("state")).map_or(0, Iterator::count)
}

/// Returns the run ids of the undo records, whose file names are `RUN-0.undo`.
fn runs(dir: &Dir) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir.path("state")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.rsplit_once('-')?.0.to_owned())).collect()
}

#[test]
fn after_a_kill_at_any_step_restore_undoes_all_changes_of_the_run() {
    let Some((all, first, _)) = two_cpus() else { return };
    for step in 1..N_STEPS_MAX {
        let dir = Dir::new();
        let status = killed_at(&dir, step);
        if status.success() {
            println!("{} steps", step - 1);
            assert!(20 < step, "too few steps: {step}");
            assert_eq!((processes_of(&dir).len(), n_files(&dir)), (0, 0));
            return;
        }
        check_restored(&dir, step, &all, &first);
    }
    panic!("more than {N_STEPS_MAX} steps");
}

/// Kills the remaining processes of a killed run.
struct RemainingProcesses<'a>(&'a Dir);

impl Drop for RemainingProcesses<'_> {
    fn drop(&mut self) {
        // The loop ends when no process remains: a shell may be starting another process.
        loop {
            let pids = processes_of(self.0);
            if pids.is_empty() {
                return;
            }
            pids.into_iter().for_each(|pid| signal(pid, Signal::KILL));
            std::thread::yield_now();
        }
    }
}

/// Checks after a kill that running processes have their original affinity, except the process that was changed from
/// outside.
fn check_restored(dir: &Dir, step: u32, all: &CpuSet, first: &CpuSet) {
    let _processes = RemainingProcesses(dir);
    let runs = runs(dir);
    let restored = undo::restore(&dir.state(), false);
    assert_eq!(restored.problems, Vec::<String>::new(), "step {step}");
    assert!(
        restored.files.iter().all(|file| file.verdict == RestoreVerdict::Complete),
        "{restored:?}"
    );
    assert!(restored.files.iter().all(|file| file.n_damaged == 0), "{restored:?}");
    assert_eq!(n_files(dir), 0, "step {step}");
    for dir in runs.iter().filter_map(|run| cgroup_dir(run)) {
        assert!(!dir.exists(), "step {step}: {} is left, {restored:?}", dir.display());
    }
    // The list includes processes that were starting at the kill, or have started since the kill.
    for pid in processes_of(dir) {
        let expected = if is_other(pid) && dir.path(CHANGED).exists() { first } else { all };
        let mask = mask(pid).filter(|_| is_running(pid));
        assert!(mask.is_none_or(|mask| mask == *expected), "step {step}: {pid}, {restored:?}");
    }
}

fn is_other(pid: u32) -> bool {
    variable(pid, undo::JOB_VARIABLE).as_deref() == Some("other")
}

#[test]
fn an_affinity_set_after_the_kill_is_kept() {
    let Some((all, first, last)) = two_cpus() else { return };
    let dir = Dir::new();
    // Both jobs are placed at this step.
    let status = killed_at(&dir, 12);
    assert!(!status.success());
    let _processes = RemainingProcesses(&dir);
    let bound = remaining(&dir, |pid| mask(pid).is_some_and(|mask| mask != all))[0];
    let other = if mask(bound).as_ref() == Some(&first) { last } else { first };
    linux::affinity::set(bound, &other).expect("permitted");
    let restored = undo::restore(&dir.state(), false);
    let entries = restored.files.iter().flat_map(|file| &file.entries);
    let about = entries.into_iter().find(|entry| entry.process == bound).expect("restore read it");
    assert_eq!(about.action, RestoreAction::ChangedByOther(other.clone()));
    assert_eq!(mask(bound), Some(other));
}

#[test]
fn the_next_run_restores_the_changes_of_a_killed_run() {
    let Some((all, ..)) = two_cpus() else { return };
    let dir = Dir::new();
    assert!(!killed_at(&dir, 12).success());
    let _processes = RemainingProcesses(&dir);
    let processes = remaining(&dir, |pid| mask(pid).is_some_and(|mask| mask != all));
    let state = dir.state();
    let mut run = LiveRun::with("[[job]]\ncommand = [\"true\"]\n", |options| {
        options.undo_dirs = Some(state);
    });
    assert_eq!(run.host().restored().files.len(), 1);
    for &pid in &processes {
        assert_eq!(mask(pid).as_ref(), Some(&all));
    }
    run.finish();
}

#[test]
fn an_orphan_of_a_jobs_first_run_does_not_remove_the_record_of_its_second_run() {
    let Some((_, first, _)) = two_cpus() else { return };
    let mut run = LiveRun::with(
        r#"
        [[job]]
        name = "again"
        shell = """
        [ -s again.out ] && exec sleep 600
        sh -c 'trap "" TERM; echo $$; exec sleep 600' & while [ ! -s again.out ]; do sleep 0.05; done
        """
        restart = "until-others-done"
        [[job]]
        name = "other"
        command = ["sleep", "600"]
        "#,
        |options| options.grace = base::Nanos::from_secs(600),
    );
    run.request("again", Action::Place(first.clone()));
    let before = run.wait_until_started("again");
    while run.pid("again") == Some(before) {
        run.request("again", Action::Place(first.clone())); // Also for the second run.
        run.step();
    }
    let leftover: u32 = run.dir.read("again.out").trim().parse().expect("a number");
    assert!(is_running(leftover));
    signal(leftover, Signal::KILL);
    while Path::new(&format!("/proc/{leftover}")).exists() {
        run.step();
    }
    let file = std::fs::read_dir(&run.dir.state()[0]).expect("there").next().expect("one");
    let text = std::fs::read_to_string(file.expect("one").path()).expect("permitted");
    let last = |what: &str| text.rfind(what);
    let pid = run.pid("again").expect("it runs");
    assert!(last("\"free\"") < last(&format!("[{pid},")), "{text}");
    signal(run.pid("other").expect("it runs"), Signal::KILL);
    run.request_stop();
    signal(pid, Signal::KILL);
    run.finish();
}

#[test]
fn restore_does_not_touch_the_record_of_a_running_run() {
    let Some((_, first, _)) = two_cpus() else { return };
    let mut run = LiveRun::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    run.request("a", Action::Place(first.clone()));
    let pid = run.wait_until_started("a");
    let restored = undo::restore(&run.dir.state(), false);
    assert_eq!(restored.files[0].verdict, RestoreVerdict::InUse);
    assert_eq!(mask(pid), Some(first));
    run.stop();
}

#[test]
fn without_an_undo_record_nothing_is_placed_and_the_job_runs() {
    let Some((all, first, _)) = two_cpus() else { return };
    let dir = Dir::with(&[("state", "not a directory")]);
    let text = "[[job]]\nname = \"a\"\nshell = \"grep Cpus_allowed_list /proc/self/status\"\n";
    let mut run = LiveRun::within(dir, text, |_| {});
    run.request("a", Action::Place(first));
    run.finish();
    assert_eq!(run.dir.read("a.out"), format!("Cpus_allowed_list:\t{all}\n"));
    let warnings = run.turns.iter().flat_map(|turn| &turn.sample.degraded);
    assert!(warnings.into_iter().any(|text| text.contains("the undo record cannot be written")));
}
