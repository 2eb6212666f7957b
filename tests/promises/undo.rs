//! Whatever happens to evenkeel, what it changed is put back, and nothing else.
//!
//! The kills here fall on counted moments and not on instants: `EVENKEEL_FAULT=kill-at:N` ends the run
//! at the N-th moment that it passes, and N goes up from 1 until a run comes to its end. So every
//! moment between two steps of a run is tried once. The run itself is a test of this program that
//! does nothing unless it is called with a world to run in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::CpuSet;
use linux::undo::{self, RestoreAction, Verdict};
use rustix::process::Signal;
use sched::Action;

use crate::live::cgroups::{folder, possible};
use crate::live::play::{Play, World, lives, mask, signal, two_cpus};

/// Where the run that is to be killed finds its folder; its absence says that nobody wants it.
const WORLD: &str = "EVENKEEL_TEST_WORLD";
/// A file that says that the last job has been bound by somebody else.
const MEDDLED: &str = "meddled";
/// More moments than a run of this size has.
const MOMENTS_MAX: u32 = 500;

/// The workload of the run that is killed. `MARK` tells its processes from all others. The first job
/// has a child and a grandchild in another session. The second has a group where there can be some. The last one is bound by somebody else, and every
/// restore has to leave it there.
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

/// Runs in a process of its own, until it is killed or at its end.
#[test]
#[ignore = "a part of every_moment_of_a_run_can_be_the_last; does nothing by itself"]
fn run_to_be_killed() {
    let Some(path) = std::env::var_os(WORLD) else { return };
    let Some((_, first, last)) = two_cpus() else { return };
    let path = PathBuf::from(path);
    let meddled = path.join(MEDDLED);
    let folder = tempfile::Builder::new().disable_cleanup(true).tempdir_in(path).expect("a folder");
    let mut play = Play::within(World { folder }, WORKLOAD, |options| {
        options.undo_folders = None; // As the environment says.
        options.groups = possible().unwrap_or_default();
    });
    play.wish("family", Action::Place(first.clone()));
    play.wish("single", Action::Place(last.clone()));
    let other = play.begin("other");
    linux::affinity::set(other, &first).expect("ours");
    std::fs::write(meddled, "").expect("ours");
    play.until("the family", |play| {
        let tasks = play.story.iter().flat_map(|scene| &scene.sample.tasks);
        let family = play.job("family");
        3 <= tasks
            .filter(|task| task.job == family)
            .map(|task| task.process)
            .collect::<BTreeSet<_>>()
            .len()
    });
    play.wish("family", Action::Place(last));
    play.wish("single", Action::Place(first));
    play.until("the moves", |play| play.places("family").len() == 2);
    play.wish("single", Action::Release);
    play.until("the release", |play| play.places("single").len() == 3);
    play.host_stop();
    play.finish();
}

/// Processes of one world, by number, found by their environment.
fn processes_of(world: &Path) -> Vec<u32> {
    let root = Path::new("/");
    let world = world.to_str().expect("a plain path");
    let ours = |pid: &u32| {
        let environ = linux::procfs::environ(root, *pid).unwrap_or_default();
        linux::procfs::parse_environ(&environ, WORLD) == Some(world)
            && linux::procfs::parse_environ(&environ, undo::RUN_VARIABLE).is_some()
    };
    let pids = linux::procfs::processes(root).expect("all processes").into_iter().filter(ours);
    pids.filter(|&pid| lives(pid)).collect()
}

/// Those processes of a killed run for which something holds, as soon as there are some: a job that
/// was being started at the kill needs a moment to have its environment.
fn survivors(world: &Path, holds: impl Fn(u32) -> bool) -> Vec<u32> {
    for _ in 0..10_000 {
        let pids: Vec<u32> = processes_of(world).into_iter().filter(|&pid| holds(pid)).collect();
        if !pids.is_empty() {
            return pids;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("nothing of the run lives");
}

fn killed_at(world: &Path, moment: u32) -> std::process::ExitStatus {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "undo::run_to_be_killed", "--ignored", "--test-threads=1"])
        .env(WORLD, world)
        .env(undo::STATE_VARIABLE, world.join("state"))
        .env(linux::fault::VARIABLE, format!("kill-at:{moment}"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("this program")
}

fn places(world: &Path) -> Vec<PathBuf> {
    vec![world.join("state")]
}

fn files(world: &Path) -> usize {
    std::fs::read_dir(world.join("state")).map_or(0, Iterator::count)
}

/// The names of the runs that left a record: `RUN-0.undo`.
fn runs(world: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(world.join("state")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.rsplit_once('-')?.0.to_owned())).collect()
}

#[test]
fn every_moment_of_a_run_can_be_the_last() {
    let Some((all, first, _)) = two_cpus() else { return };
    for moment in 1..MOMENTS_MAX {
        let world = tempfile::tempdir().expect("a folder");
        let status = killed_at(world.path(), moment);
        if status.success() {
            println!("{} moments", moment - 1);
            assert!(20 < moment, "a run of this size has more moments than {moment}");
            assert_eq!((processes_of(world.path()).len(), files(world.path())), (0, 0));
            return;
        }
        check_restored(world.path(), moment, &all, &first);
    }
    panic!("the run did not come to its end");
}

/// Ends what a killed run left, when the test is over.
struct Survivors<'a>(&'a Path);

impl Drop for Survivors<'_> {
    fn drop(&mut self) {
        // Until there are none: a shell may be on its way to start another.
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

/// After a kill: what lives has what it had before us, and what somebody set meanwhile stays.
fn check_restored(world: &Path, moment: u32, all: &CpuSet, first: &CpuSet) {
    let _survivors = Survivors(world);
    let runs = runs(world);
    let restored = undo::restore(&places(world), false);
    assert_eq!(restored.problems, Vec::<String>::new(), "moment {moment}");
    assert!(restored.files.iter().all(|file| file.verdict == Verdict::Settled), "{restored:?}");
    assert!(restored.files.iter().all(|file| file.n_damaged == 0), "{restored:?}");
    assert_eq!(files(world), 0, "moment {moment}");
    for folder in runs.iter().filter_map(|run| folder(run)) {
        assert!(!folder.exists(), "moment {moment}: {} is left, {restored:?}", folder.display());
    }
    // Also those that were only being started at the kill, or have been started since.
    for pid in processes_of(world) {
        let expected = if is_other(pid) && world.join(MEDDLED).exists() { first } else { all };
        let mask = mask(pid).filter(|_| lives(pid));
        assert!(mask.is_none_or(|mask| mask == *expected), "moment {moment}: {pid}, {restored:?}");
    }
}

fn is_other(pid: u32) -> bool {
    let environ = linux::procfs::environ(Path::new("/"), pid).unwrap_or_default();
    linux::procfs::parse_environ(&environ, undo::JOB_VARIABLE) == Some("other")
}

#[test]
fn what_somebody_set_after_the_kill_stays() {
    let Some((all, first, last)) = two_cpus() else { return };
    let world = tempfile::tempdir().expect("a folder");
    // A moment in the middle: both jobs are bound.
    let status = killed_at(world.path(), 12);
    assert!(!status.success());
    let _survivors = Survivors(world.path());
    let bound = survivors(world.path(), |pid| mask(pid).is_some_and(|mask| mask != all))[0];
    let other = if mask(bound).as_ref() == Some(&first) { last } else { first };
    linux::affinity::set(bound, &other).expect("ours");
    let restored = undo::restore(&places(world.path()), false);
    let entries = restored.files.iter().flat_map(|file| &file.entries);
    let about = entries.into_iter().find(|entry| entry.process == bound).expect("it is looked at");
    assert_eq!(about.deed, RestoreAction::Foreign(other.clone()));
    assert_eq!(mask(bound), Some(other));
}

#[test]
fn the_next_start_puts_back_what_the_last_one_left() {
    let Some((all, ..)) = two_cpus() else { return };
    let world = tempfile::tempdir().expect("a folder");
    assert!(!killed_at(world.path(), 12).success());
    let _survivors = Survivors(world.path());
    let survivors = survivors(world.path(), |pid| mask(pid).is_some_and(|mask| mask != all));
    let state = places(world.path());
    let mut play = Play::with("[[job]]\ncommand = [\"true\"]\n", |options| {
        options.undo_folders = Some(state);
    });
    assert_eq!(play.host().restored().files.len(), 1);
    for &pid in &survivors {
        assert_eq!(mask(pid).as_ref(), Some(&all));
    }
    play.finish();
}

#[test]
fn what_is_left_of_a_jobs_last_run_does_not_take_the_record_of_its_next_one_away() {
    let Some((_, first, _)) = two_cpus() else { return };
    let mut play = Play::with(
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
    play.wish("again", Action::Place(first.clone()));
    let before = play.begin("again");
    while play.pid("again") == Some(before) {
        play.wish("again", Action::Place(first.clone())); // Also for its second run.
        play.step();
    }
    let leftover: u32 = play.world.read("again.out").trim().parse().expect("a number");
    assert!(lives(leftover));
    signal(leftover, Signal::KILL);
    while Path::new(&format!("/proc/{leftover}")).exists() {
        play.step();
    }
    let file = std::fs::read_dir(&play.world.state()[0]).expect("there").next().expect("one");
    let text = std::fs::read_to_string(file.expect("one").path()).expect("ours");
    let last = |what: &str| text.rfind(what);
    let pid = play.pid("again").expect("it runs");
    assert!(last("\"free\"") < last(&format!("[{pid},")), "{text}");
    signal(play.pid("other").expect("it runs"), Signal::KILL);
    play.host_stop();
    signal(pid, Signal::KILL);
    play.finish();
}

#[test]
fn two_runs_leave_each_other_alone() {
    let Some((_, first, _)) = two_cpus() else { return };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    play.wish("a", Action::Place(first.clone()));
    let pid = play.begin("a");
    let restored = undo::restore(&play.world.state(), false);
    assert_eq!(restored.files[0].verdict, Verdict::InUse);
    assert_eq!(mask(pid), Some(first));
    play.host_stop();
    play.finish();
}

#[test]
fn without_a_place_for_the_record_nothing_is_placed_and_the_job_runs() {
    let Some((all, first, _)) = two_cpus() else { return };
    let world = World::new();
    std::fs::write(world.path("state"), "not a folder").expect("ours");
    let text = "[[job]]\nname = \"a\"\nshell = \"grep Cpus_allowed_list /proc/self/status\"\n";
    let mut play = Play::within(world, text, |_| {});
    play.wish("a", Action::Place(first));
    play.finish();
    assert_eq!(play.world.read("a.out"), format!("Cpus_allowed_list:\t{all}\n"));
    let said = play.story.iter().flat_map(|scene| &scene.sample.degraded);
    assert!(said.into_iter().any(|text| text.contains("undone")));
}

#[test]
fn a_folder_for_records_that_depends_on_where_we_are_is_refused() {
    for args in [&["restore"][..], &["run", "none.toml"]] {
        let mut command = crate::tool::command(args);
        let output = command.env(undo::STATE_VARIABLE, "state").output().expect("it runs");
        let said = crate::tool::text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(undo::STATE_VARIABLE) && said.contains("whole path"), "{said}");
    }
}
