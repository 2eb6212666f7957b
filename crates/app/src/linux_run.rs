//! The run of the same command under the policy `linux`, for the report of a run.
//!
//! ```text
//!   runs/
//!   ├── a/report.json    evenkeel run --policy linux --seed 0 w.toml  ◄── the commands differ only in the policy
//!   └── b/report.json    evenkeel run --policy dfs --seed 0 w.toml    ◄── this run
//! ```
//!
//! The directories beside the directory of the run are searched, the newest report first. The jobs must have the same
//! names and commands. One run under each policy is one observation: `evenkeel compare` measures an interval.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use report::{LinuxRun, Report};

use crate::stored_report::StoredReport;

/// Policy that the other policies are compared with.
const LINUX: &str = "linux";
/// Number of reports that are read.
const N_REPORTS_MAX: usize = 50;

/// Adds the run under `linux` to the report of a run in `run_dir`. The path is relative to the page, which is in
/// `page_dir`.
pub fn add(report: &mut Report, run_dir: &Path, page_dir: &Path) {
    let run = &report.run;
    let Some(command) = run.command.as_deref().filter(|_| run.policy != LINUX) else { return };
    let Some((command, run_dir)) = without_policy(command).zip(run_dir.canonicalize().ok()) else {
        return;
    };
    let found = beside(&run_dir).into_iter().take(N_REPORTS_MAX).find_map(|dir| {
        let stored = StoredReport::read(&dir)?;
        is_same_run(&stored, &command, report).then_some((dir, stored))
    });
    let Some((dir, stored)) = found else { return };
    for (job, linux) in report.jobs.iter_mut().zip(&stored.jobs) {
        job.linux_wall_ns = linux.wall_ns();
    }
    report.linux = Some(LinuxRun {
        path: relative(&dir, page_dir),
        has_page: dir.join("report.html").is_file(),
        started_unix_s: stored.run.started_unix_s,
        result: stored.run.result,
        makespan_ns: stored.run.makespan_ns,
    });
}

/// Returns the directories with a report beside a directory, the newest report first.
fn beside(run_dir: &Path) -> Vec<PathBuf> {
    let entries = run_dir.parent().and_then(|parent| fs::read_dir(parent).ok());
    let report = |entry: fs::DirEntry| {
        let dir = entry.path();
        let written = dir.join("report.json").symlink_metadata().ok()?.modified().ok()?;
        (dir != run_dir).then_some((written, dir))
    };
    let mut all: Vec<(SystemTime, PathBuf)> =
        entries.into_iter().flatten().flatten().filter_map(report).collect();
    all.sort_by_key(|newest_first| Reverse(newest_first.clone()));
    all.into_iter().map(|(_, dir)| dir).collect()
}

fn is_same_run(stored: &StoredReport, command: &str, report: &Report) -> bool {
    let is_same_job = || {
        let jobs = stored.jobs.iter().zip(&report.jobs);
        jobs.into_iter().all(|(one, other)| one.name == other.name && one.command == other.command)
    };
    let run = &stored.run;
    run.policy_spec == LINUX
        && run.host == report.run.host
        && run.command.as_deref().and_then(without_policy).as_deref() == Some(command)
        && stored.jobs.len() == report.jobs.len()
        && is_same_job()
}

/// Returns a command without its first option `--policy`; `None` if it has no such option.
fn without_policy(command: &str) -> Option<String> {
    let mut words = base::shell::words(command);
    let option = words.iter().position(|word| *word == "--policy")?;
    words.drain(option..words.len().min(option + 2));
    Some(words.join(" "))
}

/// Returns the path of a directory beside a run, for a link of a page in `page_dir`.
fn relative(dir: &Path, page_dir: &Path) -> String {
    let page_parent = page_dir.canonicalize().ok().and_then(|dir| dir.parent().map(Path::to_owned));
    match (page_parent == dir.parent().map(Path::to_owned), dir.file_name()) {
        (true, Some(name)) => format!("../{}", name.to_string_lossy()),
        _ => dir.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_equal_if_they_differ_only_in_the_policy() {
        let rest = Some("evenkeel run --seed 0 w.toml".to_owned());
        assert_eq!(without_policy("evenkeel run --policy linux --seed 0 w.toml"), rest);
        let quoted = "evenkeel run --policy 'dfs[x=1, y=2]' --seed 0 w.toml";
        assert_eq!(without_policy(quoted), rest);
        assert_eq!(without_policy("evenkeel run --seed 0 w.toml"), None);
        let job = "evenkeel run --policy dfs -- x --policy y";
        assert_eq!(without_policy(job), Some("evenkeel run -- x --policy y".to_owned()));
    }
}
