//! The fields of a job that have no column, with their labels.

use sched::signal_name;

use crate::format::{bytes, count, duration, per_instruction, ratio, seconds};
use crate::model::{CounterRow, JobRow, JobStateName};
use crate::text::{approximate, narrowed};

/// Returns the end of a job as a phrase.
pub(crate) fn ending(job: &JobRow) -> String {
    let when = job.ended_ns.map_or(String::new(), |at| format!(" at {} s", seconds(at)));
    match (job.state, job.exit_status, job.signal) {
        (JobStateName::Failed, Some(status), _) => format!("failed with status {status}{when}"),
        (JobStateName::Failed, None, Some(signal)) => {
            format!("ended by {}{when}", signal_name(signal))
        }
        (JobStateName::NotStarted, ..) => {
            format!("could not be started: {}", job.error.as_deref().unwrap_or("unknown reason"))
        }
        (JobStateName::OomKilled, ..) => format!("OOM-killed{when}"),
        (JobStateName::TimedOut, ..) => format!("timed out: stopped by the time limit{when}"),
        (JobStateName::Stopped, ..) => format!("stopped by evenkeel{when}"),
        (state, ..) => format!("{}{when}", state.name()),
    }
}

/// Returns the labels and texts of the fields without a column.
pub(crate) fn of_job(job: &JobRow) -> Vec<(&'static str, String)> {
    let several = |n: u64| (n != 1).then(|| count(n));
    let facts: [(&str, Option<String>); 23] = [
        ("command", Some(job.command.clone())),
        ("state", Some(ending(job))),
        ("start_cpus", job.start_cpus.clone()),
        ("start_reason", start_reason(job)),
        ("would_start_cpus", job.would_start_cpus.clone()),
        ("would_start_reason", job.would_start_reason.clone()),
        ("unmanaged", job.unmanaged.clone()),
        ("profile", job.profile.clone()),
        ("profile_file", job.profile_file.clone()),
        ("threads", several(u64::from(job.threads))),
        ("due_ns", Some(format!("{} s", seconds(job.due_ns)))),
        ("user_ns", job.user_ns.map(duration)),
        ("system_ns", job.system_ns.map(duration)),
        ("blocked_ns", job.blocked_ns.map(duration)),
        ("max_resident_bytes", job.max_resident_bytes.map(bytes)),
        ("n_migrations", job.n_migrations.map(count)),
        ("counters", counters(job)),
        ("ipc", job.ipc.map(per_instruction)),
        ("mpki", job.mpki.map(per_instruction)),
        ("traffic_bytes", job.traffic_bytes.map(bytes)),
        ("n_starts", several(job.n_starts)),
        ("n_remaining", (job.n_remaining != 0).then(|| count(job.n_remaining))),
        ("slowdown", job.slowdown.map(ratio)),
    ];
    facts.into_iter().filter_map(|(name, text)| Some((label(name), text?))).collect()
}

/// Returns the counters of a job: `page-faults 12 345, context-switches ~7`; `~` marks estimates.
fn counters(job: &JobRow) -> Option<String> {
    let text = |row: &CounterRow| {
        let approximate = approximate(row.running_permille.is_some());
        format!("{} {approximate}{}", row.event, count(row.value))
    };
    let all: Vec<String> = job.counters.iter().map(text).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Returns the reason of the start, and the requested CPUs if fewer were usable.
pub(crate) fn start_reason(job: &JobRow) -> Option<String> {
    let narrowed = narrowed(job.start_requested_cpus.as_ref(), job.start_cpus.as_ref());
    job.start_reason.as_ref().map(|reason| format!("{reason}{narrowed}"))
}

fn label(name: &str) -> &'static str {
    let field = JobRow::FIELDS.iter().find(|field| field.name == name);
    field.expect("every fact has the name of a field of a job").label
}
