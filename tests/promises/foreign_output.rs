//! Output in directories of other users, and on full disks.
//!
//! The owner of a directory can replace any entry by a link at any time. A run of root must never write to the target.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::process::Output;

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::signal;
use tests::tool;

const OTHER_USER: u32 = 65534;
const WORKLOAD: &str = "[[job]]\nname = \"a\"\nshell = \"echo output\"\n";
/// A comparison that starts no process.
const COMPARE: [&str; 9] =
    ["compare", "sim.toml", "--quiet", "--host", "sim", "--machine", "xeon-2x4", "--seeds", "1"];
const FORCE: &str = "--force-foreign-output";

/// A directory with files of root in `victim`, and with the directory `theirs` of another user.
struct Shared(Dir);

impl Shared {
    /// Returns `None` for ordinary users.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("not run: only root can change the owner of a file");
            return None;
        }
        let sim = format!("[[job]]\nname = \"a\"\n{}", SIMULATED.0);
        let dir = Dir::with(&[("w.toml", WORKLOAD), ("sim.toml", &sim), ("victim/file", "keep")]);
        fs::create_dir(dir.path("theirs")).expect("a directory");
        chown(dir.path("theirs"), Some(OTHER_USER), None).expect("root");
        Some(Shared(dir))
    }

    /// Creates a link of the other user, or replaces an entry by it.
    fn plant(&self, link: &str, target: &str) {
        plant(&self.0, link, target);
    }

    fn run(&self, args: &[&str]) -> Output {
        self.0.command_with_state(args).output().expect("evenkeel starts")
    }

    fn rejection(&self, args: &[&str]) -> String {
        let line = tool::rejection(&mut self.0.command_with_state(args));
        self.check_victim();
        line
    }

    fn check_victim(&self) {
        check_victim(&self.0);
    }
}

fn plant(dir: &Dir, link: &str, target: &str) {
    let path = dir.path(link);
    if path.symlink_metadata().is_ok() {
        fs::rename(&path, path.with_extension("old")).expect("renamed");
    }
    symlink(dir.path(target), &path).expect("a link");
    lchown(&path, Some(OTHER_USER), None).expect("root");
}

fn check_victim(dir: &Dir) {
    let names: Vec<_> = fs::read_dir(dir.path("victim")).expect("a directory").flatten().collect();
    assert_eq!((names.len(), dir.read("victim/file").as_str()), (1, "keep"), "{names:?}");
}

#[test]
fn an_output_directory_of_another_user_is_rejected_unless_it_is_forced() {
    let Some(shared) = Shared::new() else { return };
    let report = ["report", "theirs/journal.jsonl", "--out", "theirs"];
    let run = ["run", "w.toml", "--quiet", "--out", "theirs"];
    let line = shared.rejection(&run);
    assert!(line.contains("belongs to another user (UID 65534)") && line.contains(FORCE), "{line}");
    assert_eq!(fs::read_dir(shared.0.path("theirs")).expect("a directory").count(), 0);
    let status = |args: &[&str]| shared.run(args).status.code();
    assert_eq!(status(&[&run[..], &[FORCE]].concat()), Some(0));
    assert_eq!(shared.0.read("theirs/jobs/a.out"), "output\n");
    assert!(shared.rejection(&report).contains(FORCE));
    assert_eq!(status(&[&report[..], &[FORCE]].concat()), Some(0));
    assert!(shared.rejection(&[&COMPARE[..], &["--out", "theirs"]].concat()).contains(FORCE));
    // The parent may belong to another user: `sudo evenkeel run` in the home directory of a user.
    assert_eq!(status(&["run", "w.toml", "--quiet", "--out", "theirs/new"]), Some(0));
}

#[test]
fn root_follows_no_link_of_another_user_to_an_output() {
    let Some(shared) = Shared::new() else { return };
    shared.plant("theirs/out", "victim");
    shared.plant("theirs/link", "victim/file");
    shared.plant("theirs/absent", "victim/absent");
    shared.plant("evenkeel-runs", "victim");
    let fails = |args: &[&str]| {
        let line = shared.rejection(args);
        assert!(line.contains("a symbolic link of another user"), "{args:?}: {line}");
    };
    fails(&["run", "w.toml", "--quiet"]);
    fails(&["run", "w.toml", "--quiet", "--out", "theirs/out"]);
    fails(&["run", "w.toml", "--quiet", "--out", "theirs/out/below"]);
    fails(&[&COMPARE[..], &["--out", "theirs/out"]].concat());
    fails(&["generate", "--n", "2", "--out", "theirs/link"]);
    fails(&["generate", "--n", "2", "--out", "theirs/absent"]);
    for journal in ["theirs/link", "theirs/absent"] {
        let watch = ["watch", "--command", "none", "--for", "1s", "--journal", journal];
        assert!(shared.rejection(&watch).contains("already exists"));
    }
}

#[test]
fn files_of_a_comparison_follow_no_link() {
    let Some(shared) = Shared::new() else { return };
    let compare =
        |args: &[&str]| shared.run(&[&COMPARE[..], &["--policies", "linux,random"], args].concat());
    shared.plant("theirs/table.csv", "victim/file");
    let output = compare(&["--out", "one", "--csv", "theirs/table.csv"]);
    let stderr = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("a symbolic link of another user"), "{stderr}");
    for name in ["runs.jsonl", "compare.html", "timelines"] {
        let dir = format!("theirs/{name}-out");
        fs::create_dir(shared.0.path(&dir)).expect("a directory");
        shared.plant(
            &format!("{dir}/{name}"),
            if name == "timelines" { "victim" } else { "victim/file" },
        );
        let output = compare(&["--out", &dir]);
        let stderr = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains("remove it"), "{name}: {stderr}");
    }
    shared.check_victim();
}

#[test]
fn directories_and_reports_that_become_links_during_a_run_are_not_followed() {
    let Some(Shared(dir)) = Shared::new() else { return };
    let text = "[[job]]\nname = \"a\"\nshell = \"echo $$; kill -STOP $$; exit 0\"\n\
                [[job]]\nname = \"b\"\nstart = \"1.5s\"\nshell = \"echo late\"\n";
    fs::create_dir(dir.path("out")).expect("a directory");
    chown(dir.path("out"), Some(OTHER_USER), None).expect("root");
    let mut run = EvenkeelRun::new(dir, text, &["--quiet", FORCE]);
    let pid = run.printed("a", 1)[0];
    plant(&run.dir, "out/jobs", "victim");
    plant(&run.dir, "out/report.html", "victim/file");
    signal(pid, Signal::CONT);
    run.expect_status(1);
    check_victim(&run.dir);
    assert_eq!(run.dir.read("out/jobs.old/b.out"), "late\n");
    assert!(run.output.contains("report.html: this is not a regular file"), "{}", run.output);
}

/// A simulated or live job, and the part of the command line after the directory.
const SIMULATED: (&str, &str) = (
    "command = [\"470.lbm\"]\nprofile = \"470.lbm\"\nstop_after = \"20s\"\n",
    "--host sim --machine xeon-2x4",
);
const LIVE: (&str, &str) =
    ("load = \"compute --for 1500ms\"\n", "-p random[every=20ms] --counters off");

/// Runs a command that writes `out/FILE`, and again with half of the size of this file as the limit of each file.
/// Returns the directory and the output of the second command.
fn on_a_full_disk(job: &str, command: &str, file: &str) -> (Dir, Output) {
    let dir = Dir::with(&[("w.toml", &format!("[[job]]\nname = \"a\"\n{job}"))]);
    let args: Vec<&str> = command.split_whitespace().collect();
    let run = dir.command_with_state(&args).output().expect("evenkeel starts");
    assert_eq!(run.status.code(), Some(0), "{}", tool::text(&run.stderr));
    let n_bytes = fs::metadata(dir.path("out").join(file)).expect("it is written").len();
    fs::remove_dir_all(dir.path("out")).expect("permitted");
    let mut limited = std::process::Command::new("prlimit");
    limited.arg(format!("--fsize={}", n_bytes / 2)).arg("--").arg(tool::path()).args(args);
    limited.env("XDG_DATA_HOME", "/proc/nonexistent").current_dir(dir.root());
    limited.env(linux::undo::STATE_VARIABLE, dir.path("state"));
    let output = limited.output().expect("prlimit");
    (dir, output)
}

fn check_run_on_a_full_disk((job, options): (&str, &str)) {
    let command = format!("run w.toml --out out {options}");
    let (dir, output) = on_a_full_disk(job, &command, "journal.jsonl");
    let (stdout, stderr) = (tool::text(&output.stdout), tool::text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("the run continues without it").count(), 1, "{stderr}");
    assert!(stdout.contains("jobs      1: 1 "), "{stdout}");
    dir.success(&["report", "out"]); // The first turns are readable.
}

#[test]
fn a_full_disk_ends_neither_a_live_run_nor_its_report() {
    check_run_on_a_full_disk(LIVE);
}

#[test]
fn a_full_disk_ends_neither_a_simulated_run_nor_its_report() {
    check_run_on_a_full_disk(SIMULATED);
}

#[test]
fn a_comparison_on_a_full_disk_prints_its_table() {
    let command = "compare w.toml --out out --seeds 20 --policies linux,dfs";
    let (job, options) = SIMULATED;
    let (_, output) = on_a_full_disk(job, &format!("{command} {options}"), "runs.jsonl");
    let (stdout, stderr) = (tool::text(&output.stdout), tool::text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("the comparison continues").count(), 1, "{stderr}");
    assert!(stdout.contains("dfs"), "{stdout}");
}
