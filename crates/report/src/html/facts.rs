//! The facts about a job that have no column, with the labels of the table of fields.

use crate::model::{CountedRow, JobRow, StateWord};
use crate::text::{about, narrowed};
use crate::units::{bytes, count, duration, seconds};

/// How a job ended, in a sentence.
pub(crate) fn ending(job: &JobRow) -> String {
    let when = job.ended_ns.map_or(String::new(), |at| format!(" at {} s", seconds(at)));
    match (job.state, job.exit_status, job.signal) {
        (StateWord::Failed, Some(status), _) => format!("failed with status {status}{when}"),
        (StateWord::Failed, None, Some(signal)) => format!("ended by signal {signal}{when}"),
        (StateWord::NotStarted, ..) => {
            format!("could not be started: {}", job.error.as_deref().unwrap_or("no reason told"))
        }
        (StateWord::Stopped, ..) => format!("ended by evenkeel{when}"),
        (state, ..) => format!("{}{when}", state.word()),
    }
}

/// Label and text of everything that is known of a job beyond its row.
pub(crate) fn of_job(job: &JobRow) -> Vec<(&'static str, String)> {
    let several = |n: u64| (n != 1).then(|| count(n));
    let facts: [(&str, Option<String>); 21] = [
        ("command", Some(job.command.clone())),
        ("state", Some(ending(job))),
        ("start_cpus", job.start_cpus.clone()),
        ("start_reason", start_reason(job)),
        ("would_start_cpus", job.would_start_cpus.clone()),
        ("would_start_reason", job.would_start_reason.clone()),
        ("hands_off", job.hands_off.clone()),
        ("profile", job.profile.clone()),
        ("threads", several(u64::from(job.threads))),
        ("due_ns", Some(format!("{} s", seconds(job.due_ns)))),
        ("user_ns", job.user_ns.map(duration)),
        ("system_ns", job.system_ns.map(duration)),
        ("max_resident_bytes", job.max_resident_bytes.map(bytes)),
        ("n_migrations", job.n_migrations.map(|n| about(job.n_migrations_is_estimate) + &count(n))),
        ("counted", counted(job)),
        ("instructions_per_cycle", job.instructions_per_cycle.map(|n| format!("{n:.2}"))),
        ("misses_per_kilo_instruction", job.misses_per_kilo_instruction.map(|n| format!("{n:.2}"))),
        ("traffic_bytes", job.traffic_bytes.map(bytes)),
        ("n_starts", several(job.n_starts)),
        ("n_left_behind", (job.n_left_behind != 0).then(|| count(job.n_left_behind))),
        ("slowdown", job.slowdown.map(|slowdown| format!("{slowdown:.2}"))),
    ];
    let told = facts.into_iter().filter_map(|(name, text)| Some((label(name), text?)));
    told.collect()
}

/// `page-faults 12,345, context-switches 7`; `~` stands before estimates.
fn counted(job: &JobRow) -> Option<String> {
    let one = |row: &CountedRow| {
        format!("{} {}{}", row.what, about(row.ran_permille.is_some()), count(row.n))
    };
    let all: Vec<String> = job.counted.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Why it was started there, and what of the wish was possible.
pub(crate) fn start_reason(job: &JobRow) -> Option<String> {
    let narrowed = narrowed(job.start_asked_cpus.as_ref(), job.start_cpus.as_ref());
    job.start_reason.as_ref().map(|reason| format!("{reason}{narrowed}"))
}

fn label(name: &str) -> &'static str {
    let field = JobRow::FIELDS.iter().find(|field| field.name == name);
    field.expect("every fact is named after a field of a job").label
}
