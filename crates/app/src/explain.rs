//! `evenkeel explain`: why jobs ran where they did, out of a journal.

use std::io::Write;
use std::path::PathBuf;

use base::JobId;
use program::Job;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::recorded;

/// Tell from a journal why jobs ran where they did
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The journal of a run, or the folder of the run
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Tell of this job only
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Print the same as JSON
    #[arg(long)]
    json: bool,
}

/// Tells.
pub fn main(args: &Args) -> CommandResult {
    let recording = recorded::open(&args.journal)?;
    let only = match &args.job {
        Some(name) => Some(job_named(name, &recording.header().jobs)?),
        None => None,
    };
    let told = report::explain::explain(recording, only).or_usage_error()?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", told.to_json()?)?,
        false => write!(out, "{}", told.to_text(80))?,
    }
    Ok(())
}

fn job_named(name: &str, jobs: &[Job]) -> Result<JobId, CommandError> {
    if let Some(job) = jobs.iter().find(|job| job.name == name) {
        return Ok(job.id);
    }
    let hint = match recorded::nearest(name, jobs.iter().map(|job| job.name.as_str())) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("it has {}", base::counted_noun(jobs.len(), "other")),
    };
    Err(CommandError::Usage(anyhow::anyhow!("the journal has no job {name:?}: {hint}")))
}
