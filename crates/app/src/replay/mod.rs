//! `evenkeel replay`: a policy again over a journal, or over a stream of what the kernel said. Open
//! loop: what would have been decided. Which of the two a file is, its first line tells.

mod shown;
mod stream;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use engine::Engine;
use journal::{
    Header, JournalWriter, Limits, PolicyUsed, Recording, ReplayError, ReplaySummary, RunEnd,
};

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::signals::SignalArgs;
use crate::{input, recorded};

/// Run a policy again over a journal or a stream: what would have been decided
///
/// Open loop: what was recorded happens again whatever the policy says now, and nothing is started
/// or moved. So this tells what a policy would have wanted at each moment, not how the run would
/// have gone under it. Of a stream (evenkeel record) each turn is shown as the policy sees it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The journal of a run, the folder of the run, or a stream of evenkeel record
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// The policy that decides anew [default: the one of the run; dfs over a stream]
    #[arg(long, short, value_name = "NAME[key=value,…]")]
    policy: Option<String>,
    /// Seed of everything random [default: the one of the run]
    #[arg(long, value_name = "N", value_parser = input::seed, allow_hyphen_values = true)]
    seed: Option<u64>,
    /// The new journal; it must not be there yet
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    signals: SignalArgs,
}

/// Replays and tells how much was decided otherwise.
pub fn main(args: &Args) -> CommandResult {
    if linux::stream::is_stream(&args.journal) {
        return over_stream(args);
    }
    let mut recording = recorded::open(&args.journal)?;
    let original = recording.header().clone();
    let spec = args.policy.as_ref().unwrap_or(&original.policy.spec);
    let seed = args.seed.unwrap_or(original.seed);
    let policy = with_judge(policy::build(spec, seed).or_usage_error()?, &original.options);
    let used = PolicyUsed { name: policy.name().to_owned(), spec: spec.clone() };
    let header = original.replayed(env!("CARGO_PKG_VERSION"), used, seed);
    let limits = crate::run::limits_of(&original.options);
    let signals = args.signals.or_recorded(&original.options).or_usage_error()?;
    let mut engine = Engine::new(original.machine.clone(), original.jobs.clone(), policy)
        .with_move_limits(limits)
        .with_signals(signals);
    let replayed = match &args.out {
        Some(path) => into_journal(&mut recording, &mut engine, &header, path)?,
        None => journal::replay(&mut recording, &mut engine, &mut []).map_err(stop)?,
    };
    tell(args, &original, spec, replayed)?;
    Ok(())
}

fn over_stream(args: &Args) -> CommandResult {
    if args.out.is_some() {
        let text = "--out writes a journal, and a stream has none: leave it out";
        return Err(CommandError::Usage(anyhow!(text)));
    }
    let policy = args.policy.as_deref().unwrap_or("dfs");
    let signals = args.signals.wish().or_usage_error()?;
    stream::main(&args.journal, (policy, args.seed.unwrap_or(0), signals), args.json)
}

/// Programs that were only looked after were decided about with a judge around the policy; the
/// option `act` says so, and whether it could do anything.
fn with_judge(
    policy: Box<dyn sched::Policy>,
    options: &std::collections::BTreeMap<String, String>,
) -> Box<dyn sched::Policy> {
    match options.get("act") {
        Some(act) => policy::careful(policy, act == "yes"),
        None => policy,
    }
}

fn into_journal(
    recording: &mut Recording,
    engine: &mut Engine,
    header: &Header,
    path: &Path,
) -> Result<ReplaySummary, CommandError> {
    let refused = || format!("cannot write {}", path.display());
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!("{} is there already: name a new file", path.display());
            return Err(CommandError::Usage(anyhow!(text)));
        }
        made => made.with_context(refused).or_usage_error()?,
    };
    write(recording, engine, header, path).inspect_err(|_| {
        let _ = fs::remove_file(path); // Half a journal is of no use to anybody.
    })
}

fn write(
    recording: &mut Recording,
    engine: &mut Engine,
    header: &Header,
    path: &Path,
) -> Result<ReplaySummary, CommandError> {
    let refused = || format!("cannot write {}", path.display());
    let writer = JournalWriter::create(path, header, Limits::default());
    let mut writer = writer.with_context(refused).or_usage_error()?;
    let replayed = journal::replay(recording, engine, &mut [&mut writer]).map_err(stop)?;
    let end =
        recording.end().map(|end| RunEnd { own_cpu: None, own_max_resident: None, ..end.clone() });
    // A run that was killed has no end, and neither has its replay.
    if let Some(end) = end {
        writer.finish(&end).with_context(refused)?;
    }
    Ok(replayed)
}

/// A journal that cannot be read on is the caller's; one that cannot be written on is not.
fn stop(error: ReplayError) -> CommandError {
    match error {
        ReplayError::Sink(_) => CommandError::Failed(error.into()),
        _ => CommandError::Usage(error.into()),
    }
}

fn tell(args: &Args, original: &Header, spec: &str, replayed: ReplaySummary) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let told = serde_json::json!({
            "open_loop": true,
            "recorded_run": original.run_id,
            "recorded_policy": original.policy.spec,
            "policy": spec,
            "n_turns": replayed.n_turns,
            "n_turns_same": replayed.n_same,
            "n_turns_same_for_other_reasons": replayed.n_other_reasons,
            "first_turn_other": replayed.first_difference,
            "began_late": replayed.lacks_first_parts,
        });
        return Ok(writeln!(out, "{told:#}")?);
    }
    writeln!(
        out,
        "open loop: {spec} over the recording of {} (decided by {}); nothing was carried out",
        original.run_id, original.policy.spec
    )?;
    if replayed.lacks_first_parts {
        writeln!(out, "the first parts of the journal are gone: the policy began without a past")?;
    }
    writeln!(out, "{}", compared(&replayed))?;
    if let Some(path) = &args.out {
        writeln!(out, "the decisions are in {}: evenkeel explain tells them", path.display())?;
    }
    Ok(())
}

/// How much was decided otherwise: what was to be done counts, and reasons apart from that.
fn compared(replayed: &ReplaySummary) -> String {
    let n_other = replayed.n_turns - replayed.n_same;
    let decided = match replayed.first_difference {
        None => format!("all {} turns were decided as they were recorded", replayed.n_turns),
        Some(first) => format!(
            "{n_other} of {} turns would have been decided otherwise, turn {first} first",
            replayed.n_turns
        ),
    };
    match replayed.n_other_reasons {
        0 => decided,
        n => format!("{decided}; {n} more the same way, for other reasons or with other notes"),
    }
}
