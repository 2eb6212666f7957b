//! `evenkeel report`: the report of a run, from its journal.

use std::io::Write;
use std::path::{Path, PathBuf};

use files::OutputDir;
use report::Report;

use crate::command_result::{CommandResult, OrUsageError};
use crate::input;
use crate::output::{self, ForeignArg};

/// Print the report of a run from its journal
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this journal, or the journal in the directory of a run
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Also write report.json and report.html to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    foreign: ForeignArg,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> CommandResult {
    let recording = input::journal(&args.journal)?;
    let mut report = report::from_journal(recording).or_usage_error()?;
    let run_dir = if args.journal.is_dir() { Some(&*args.journal) } else { args.journal.parent() };
    let run_dir = run_dir.filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    let out = args.out.as_deref().map(|dir| output::create_dir(dir, args.foreign));
    let out = out.transpose().or_usage_error()?;
    let page_dir = out.as_ref().map_or(run_dir, OutputDir::path);
    crate::linux_run::add(&mut report, run_dir, page_dir);
    if let Some(dir) = &out {
        write_files(&report, dir).or_usage_error()?;
    }
    let mut out = crate::print::stdout();
    match args.json {
        true => writeln!(out, "{}", report.to_json()?)?,
        false => write!(out, "{}", report.to_text(80))?,
    }
    Ok(())
}

/// Writes `report.json` and `report.html`.
pub fn write_files(report: &Report, dir: &OutputDir) -> anyhow::Result<()> {
    output::write_report(dir, "report.json", report.to_json()? + "\n")?;
    output::write_report(dir, "report.html", report.to_html())
}
