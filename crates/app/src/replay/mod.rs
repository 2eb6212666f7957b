//! `evenkeel replay`: runs a policy on the samples of a journal or of a stream of kernel data (open loop). The first
//! line of the file shows whether the file is a journal or a stream.

mod stream;
mod stream_turn;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use base::counted_noun;
use engine::Engine;
use files::NewFile;
use journal::{
    Header, JournalLimits, JournalWriter, PolicyUsed, Recording, ReplayError, ReplaySummary, RunEnd,
};

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;
use crate::output::{cannot_write, create_journal_file};
use crate::tier_override::SignalArgs;

/// Replay a journal or a stream with a policy and print the decisions
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Replay this journal, the journal in the directory of a run, or a stream of evenkeel record
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Use this policy [default: the policy of the run; dfs for a stream]
    #[arg(long, short, value_name = "NAME[key=value,…]")]
    policy: Option<String>,
    /// Set the random seed [default: the seed of the run]
    #[arg(long, value_name = "N", value_parser = input::seed, allow_hyphen_values = true)]
    seed: Option<u64>,
    /// Write a journal of the replay to this file, which must not exist
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    signals: SignalArgs,
}

/// Replays the samples and compares the decisions with the recorded decisions.
pub fn main(args: &Args) -> CommandResult {
    if linux::stream::is_stream(&args.journal) {
        return replay_stream(args);
    }
    let mut recording = input::journal_or_stream(&args.journal)?;
    let original = recording.header().clone();
    let spec = args.policy.as_ref().unwrap_or(&original.policy.spec);
    let seed = args.seed.unwrap_or(original.seed);
    check_policy(spec)?;
    let policy = build(spec, seed, &original.options).or_usage_error()?;
    let used = PolicyUsed::new(&*policy, spec);
    let header = Header {
        command: crate::repeat::command_line(),
        ..original.replayed(env!("CARGO_PKG_VERSION"), used, seed)
    };
    let limits = crate::run::limits_of(&original.options);
    let signals = args.signals.or_recorded(&original.options).or_usage_error()?;
    let mut engine = Engine::new(original.machine.clone(), original.jobs.clone(), policy)
        .with_page_migration_limits(limits)
        .with_signals(signals);
    let replayed = match &args.out {
        Some(path) => into_journal(&mut recording, &mut engine, &header, path)?,
        None => journal::replay(&mut recording, &mut engine, &mut []).map_err(command_error)?,
    };
    print(args, &original, spec, replayed)?;
    Ok(())
}

/// Rejects the oracle, which searches for the best placement by simulation.
fn check_policy(spec: &str) -> CommandResult {
    match lab::oracle::is_named(spec) {
        true => Err(lab::oracle::OracleError::Replay).or_usage_error(),
        false => Ok(()),
    }
}

fn replay_stream(args: &Args) -> CommandResult {
    if args.out.is_some() {
        let text = "--out needs a journal as input; remove it for a stream";
        return Err(CommandError::Usage(anyhow!(text)));
    }
    let policy = args.policy.as_deref().unwrap_or("dfs");
    check_policy(policy)?;
    let signals = args.signals.overrides().or_usage_error()?;
    stream::main(&args.journal, (policy, args.seed.unwrap_or(0), signals), args.json)
}

/// If a watch wrote the journal, the replay tests moves in trials, as the watch did. Only such journals have the option
/// `act`: whether actions were performed.
fn build(
    spec: &str,
    seed: u64,
    options: &std::collections::BTreeMap<String, String>,
) -> Result<Box<dyn sched::Policy>, policy::PolicyError> {
    match options.get("act") {
        Some(act) => policy::build_attached(spec, seed, act == "yes"),
        None => policy::build(spec, seed),
    }
}

fn into_journal(
    recording: &mut Recording,
    engine: &mut Engine,
    header: &Header,
    path: &Path,
) -> Result<ReplaySummary, CommandError> {
    let file = create_journal_file(path)?;
    let (dir, name) = (file.dir.clone(), file.name.clone());
    write(recording, engine, header, file).inspect_err(|_| {
        let _ = dir.remove(name); // An incomplete journal cannot be used.
    })
}

fn write(
    recording: &mut Recording,
    engine: &mut Engine,
    header: &Header,
    file: NewFile,
) -> Result<ReplaySummary, CommandError> {
    let path = file.path();
    let cannot_write = || cannot_write(&path);
    let writer = JournalWriter::create(file, header, JournalLimits::default());
    let mut writer = writer.with_context(cannot_write).or_usage_error()?;
    let replayed = journal::replay(recording, engine, &mut [&mut writer]).map_err(command_error)?;
    let end =
        recording.end().map(|end| RunEnd { own_cpu: None, own_max_resident: None, ..end.clone() });
    // A killed run has no end record. The replay of a killed run has no end record either.
    if let Some(end) = end {
        writer.finish(&end).with_context(cannot_write)?;
    }
    Ok(replayed)
}

/// Maps a read error of the journal to a usage error, and a write error to a failure.
fn command_error(error: ReplayError) -> CommandError {
    match error {
        ReplayError::Sink(_) => CommandError::Failed(error.into()),
        _ => CommandError::Usage(error.into()),
    }
}

fn print(
    args: &Args,
    original: &Header,
    spec: &str,
    replayed: ReplaySummary,
) -> anyhow::Result<()> {
    let mut out = crate::print::stdout();
    if args.json {
        let result = serde_json::json!({
            "open_loop": true,
            "recorded_run": original.run_id,
            "recorded_policy": original.policy.spec,
            "policy": spec,
            "n_turns": replayed.n_turns,
            "n_turns_same": replayed.n_same,
            "n_turns_other_reasons": replayed.n_other_reasons,
            "first_different_turn": replayed.first_difference,
            "lacks_first_parts": replayed.lacks_first_parts,
        });
        return Ok(writeln!(out, "{result:#}")?);
    }
    writeln!(
        out,
        "open loop: {spec} on the recording of {} (policy {}); no action was performed",
        original.run_id, original.policy.spec
    )?;
    if replayed.lacks_first_parts {
        writeln!(
            out,
            "the first parts of the journal are deleted: the state of the policy at the start of the replay is empty, \
             unlike in the recorded run"
        )?;
    }
    writeln!(out, "{}", compared(&replayed))?;
    if let Some(path) = &args.out {
        writeln!(out, "the decisions are in {}; evenkeel explain prints them", path.display())?;
    }
    Ok(())
}

/// Compares the decisions. Differences in reasons are counted separately.
fn compared(replayed: &ReplaySummary) -> String {
    let n_other = replayed.n_turns - replayed.n_same;
    let decided = match replayed.first_difference {
        None => {
            let turns = counted_noun(replayed.n_turns, "turn");
            format!("no decision differs from the recorded run ({turns})")
        }
        Some(first) => {
            let turns = counted_noun(replayed.n_turns, "turn");
            format!("decisions differ in {n_other} of {turns}, first in turn {first}")
        }
    };
    match replayed.n_other_reasons {
        0 => decided,
        n => format!("{decided}; only reasons or notes differ in {}", counted_noun(n, "turn")),
    }
}
