//! The result of a run in one sentence: the first line of the report.

use base::counted_noun;
use journal::{RunEnd, RunStatus};
use sched::signal_name;

use crate::format::{count, duration};
use crate::model::{JobRow, JobStateName, Totals};
use crate::phrases::stop_cause;

/// Number of failed jobs that the sentence names.
const N_NAMED: usize = 3;

/// Returns the result: the end of the run, the number of jobs by result, and the time.
pub(super) fn sentence(
    end: Option<&RunEnd>,
    totals: &Totals,
    jobs: &[JobRow],
    wall: u64,
) -> String {
    let (jobs, time) = (by_result(totals, jobs), duration(wall));
    let Some(end) = end else {
        return format!(
            "no end is recorded after {time}: evenkeel was killed or still runs; {jobs}"
        );
    };
    match (end.status, &end.error) {
        (RunStatus::Failed, Some(error)) => {
            format!("evenkeel failed after {time} ({error}); {jobs}")
        }
        (RunStatus::Interrupted, _) => {
            format!("stopped {} after {time}; {jobs}", stop_cause(end.stopped_by))
        }
        (RunStatus::Finished, _) if totals.are_all_attached() => format!("{jobs} for {time}"),
        (RunStatus::Finished, _) if totals.n_jobs == 0 => {
            format!("the run ended without a job after {time}")
        }
        (RunStatus::Finished | RunStatus::Failed, _) => format!("{jobs} after {time}"),
    }
}

/// Returns the number of jobs by result: `2 of 8 jobs failed (a: exit status 3; b: oom-killed), 6 ended with status 0`.
fn by_result(totals: &Totals, jobs: &[JobRow]) -> String {
    if totals.n_done == totals.n_jobs && totals.n_jobs != 0 {
        return match totals.n_jobs {
            1 => "the job ended with status 0".to_owned(),
            n => format!("all {} jobs ended with status 0", count(n)),
        };
    }
    if totals.are_all_attached() {
        return format!("managed {}", counted_noun(totals.n_jobs, "job"));
    }
    let n_waiting = jobs.iter().filter(|job| job.state == JobStateName::Waiting).count() as u64;
    let results = [
        (totals.n_failed, format!("failed ({})", failed(jobs))),
        (totals.n_timed_out, "reached the time limit".to_owned()),
        (totals.n_stopped, "stopped by evenkeel".to_owned()),
        (n_waiting, "did not start".to_owned()),
        (totals.n_unfinished.saturating_sub(n_waiting), "did not end".to_owned()),
        (totals.n_attached(), "managed while running".to_owned()),
        (totals.n_done, "ended with status 0".to_owned()),
    ];
    let mut present = results.into_iter().filter(|(n, _)| *n != 0);
    let Some((n, text)) = present.next() else { return "no job".to_owned() };
    let first = format!("{} of {} {text}", count(n), counted_noun(totals.n_jobs, "job"));
    present.fold(first, |all, (n, text)| format!("{all}, {} {text}", count(n)))
}

/// Names the first failed jobs with their states.
fn failed(jobs: &[JobRow]) -> String {
    let all: Vec<&JobRow> = jobs.iter().filter(|job| job.state.is_failure()).collect();
    let named = all.iter().take(N_NAMED).map(|job| format!("{}: {}", job.name, failure(job)));
    let mut parts: Vec<String> = named.collect();
    if N_NAMED < all.len() {
        parts.push(format!("{} more", count((all.len() - N_NAMED) as u64)));
    }
    parts.join("; ")
}

fn failure(job: &JobRow) -> String {
    match (job.state, job.exit_status, job.signal) {
        (JobStateName::Failed, Some(status), _) => format!("exit status {status}"),
        (JobStateName::Failed, None, Some(signal)) => format!("ended by {}", signal_name(signal)),
        (state, ..) => state.name().to_owned(),
    }
}
