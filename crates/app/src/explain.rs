//! `evenkeel explain`: the reasons for the placement of jobs, from a journal.

use std::io::Write;
use std::path::PathBuf;

use base::{JobId, suggest};
use program::Job;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;

/// Print the reasons for the placement of jobs, from a journal
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this journal, or the journal in the directory of a run
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Print only this job (default: all jobs)
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> CommandResult {
    let recording = input::journal(&args.journal)?;
    let only = match &args.job {
        Some(name) => Some(job_named(name, &recording.header().jobs)?),
        None => None,
    };
    let explanation = report::explain::explain(recording, only).or_usage_error()?;
    let mut out = crate::print::stdout();
    match args.json {
        true => writeln!(out, "{}", explanation.to_json()?)?,
        false => write!(out, "{}", explanation.to_text(80))?,
    }
    Ok(())
}

/// Largest number of jobs whose names are in an error.
const N_LISTED_MAX: usize = 5;

/// Returns the copies of the named program, or the jobs if the program has no copies.
fn hint(name: &str, jobs: &[Job]) -> String {
    let program = name.rsplit_once('.').map_or(name, |(program, _)| program);
    let is_copy = |job: &&Job| {
        let suffix = job.name.strip_prefix(program);
        suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
    };
    let mut copies = jobs.iter().filter(is_copy).map(|job| job.name.as_str());
    match (copies.next(), copies.next_back()) {
        (Some(first), Some(last)) => format!("jobs of that program are {first} to {last}"),
        (Some(only), None) => suggest::question(&[only]).unwrap_or_default(),
        (None, _) => {
            let names: Vec<&str> =
                jobs.iter().take(N_LISTED_MAX).map(|job| job.name.as_str()).collect();
            let rest = if names.len() < jobs.len() { ", …" } else { "" };
            let n_jobs = base::counted_noun(jobs.len(), "job");
            format!("it has {n_jobs}: {}{rest}", names.join(", "))
        }
    }
}

fn job_named(name: &str, jobs: &[Job]) -> Result<JobId, CommandError> {
    if let Some(job) = jobs.iter().find(|job| job.name == name) {
        return Ok(job.id);
    }
    let near = suggest::nearest(name, jobs.iter().map(|job| job.name.as_str()));
    let hint = suggest::question(near.as_slice()).unwrap_or_else(|| hint(name, jobs));
    Err(CommandError::Usage(anyhow::anyhow!("the journal has no job {name:?}: {hint}")))
}

#[cfg(test)]
mod tests {
    use report::explain::{PHASE_CHANGED, PHASE_FILTERED, PHASE_RESCHEDULED};

    /// The crate `report` does not depend on the policies.
    #[test]
    fn the_codes_by_which_phases_are_counted_are_declared_by_a_policy() {
        let declared: Vec<_> =
            policy::registry().iter().flat_map(|info| info.reasons.concat()).collect();
        for code in [&[PHASE_CHANGED, PHASE_FILTERED][..], &PHASE_RESCHEDULED].concat() {
            assert!(declared.iter().any(|reason| reason.name() == code), "{code}");
        }
    }
}
