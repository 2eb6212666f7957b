//! `evenkeel profile -- CMD`: measures a program alone and writes its profile.
//!
//! ```text
//!   counters      one run with hardware counters
//!   cache-model   alone (CPU time) ─► counted (instructions) ─► traced (reuse distances) ─► curve
//! ```
//!
//! Without hardware counters the program runs up to three times, so repeated runs must be harmless. `--limit` bounds
//! the total time. The crate `profiler` performs the measurement. With `--embed` the profile becomes the signature of
//! the program.

mod find;
mod profile_output;
mod signing;
mod text_charts;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use base::{Bytes, Nanos};
use linux::perf::PmuGroups;
use linux::stop_signals::StopSignals;
use profiler::measure::assemble::{self, WholeRun};
use profiler::measure::machine_parameters::{MachineParameters, parse_frequency};
use profiler::measure::program_run::StopCause;
use profiler::measure::valgrind::{self, TraceOptions, TracedRun, Valgrind};
use profiler::measure::{MeasuredProgram, counters};
use profiler::{Sampling, WindowMeter, WindowPlan};
use program::Profile;
use serde_json::{Value, json};

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::output::{check_writable, create_dir, write};
use crate::signatures::SignedProgram;
use crate::{input, profiles};
use profile_output::{ProfileOutput, RunNotes};

/// Options of a measurement, which do not apply to `--list` and `--show`.
const MEASUREMENT: [&str; 18] = [
    "embed",
    "from",
    "beside",
    "engine",
    "output",
    "name",
    "input",
    "skip",
    "windows",
    "refs",
    "limit",
    "frequency",
    "cpi",
    "llc",
    "private_cache",
    "lines",
    "once",
    "no_html",
];

/// Measure a program alone and write its profile
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure this command, written after --; with --embed, only the arguments of the program
    #[arg(
        last = true,
        required_unless_present_any = ["list", "show", "remove", "embed", "from"],
        conflicts_with_all = ["list", "show", "remove", "from"],
        value_name = "CMD"
    )]
    command: Vec<OsString>,
    /// Print the names of the shipped profiles, which a job selects with its key profile, and exit. With paths: list
    /// the signatures of these programs, and of the programs in these directories
    #[arg(long, num_args = 0.., value_name = "PATH", conflicts_with_all = MEASUREMENT)]
    list: Option<Vec<PathBuf>>,
    /// Measure this program and store the profile in it as its signature; in a side file if it is a script or cannot be
    /// changed
    #[arg(long, value_name = "PROGRAM")]
    embed: Option<PathBuf>,
    /// With --embed, store this profile instead of measuring the program
    #[arg(long, value_name = "FILE", requires = "embed")]
    from: Option<PathBuf>,
    /// With --embed, store the signature in a side file, and do not change the program
    #[arg(long, requires = "embed")]
    beside: bool,
    /// Print the signature of this program, and exit
    #[arg(long, value_name = "PROGRAM", conflicts_with = "list", conflicts_with_all = MEASUREMENT)]
    show: Option<PathBuf>,
    /// Remove the signature of this program, restore its original bytes, and exit
    #[arg(long, value_name = "PROGRAM", exclusive = true)]
    remove: Option<PathBuf>,
    /// Measure with this engine
    #[arg(long, value_enum, default_value_t = ProfileEngine::Auto)]
    engine: ProfileEngine,
    /// Write the profile to this file [default: by name and build id in the profile directory]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Set the name of the profile [default: the name of the program]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Use this file as standard input of the program [default: /dev/null]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Skip this many references before the first window; they warm up the model
    #[arg(long, value_name = "N", default_value = "0", value_parser = number, allow_hyphen_values = true)]
    skip: u64,
    /// Trace at most this many windows
    #[arg(long, value_name = "N", default_value_t = WINDOWS, value_parser = input::integer::<u32>(1..=10_000), allow_hyphen_values = true)]
    windows: u32,
    /// Set the references per window: instruction fetches, loads and stores
    #[arg(long, value_name = "N", default_value_t = REFS, value_parser = some_number, allow_hyphen_values = true)]
    refs: u64,
    /// Limit the total time of all runs
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    limit: Nanos,
    /// Set the clock frequency from which cycles per instruction are computed [default: of this machine]
    #[arg(long, value_name = "HZ", value_parser = parse_frequency, allow_hyphen_values = true)]
    frequency: Option<f64>,
    /// Set the cycles per instruction [default: estimated from CPU time and frequency]
    #[arg(long, value_name = "NUMBER", value_parser = ratio, allow_hyphen_values = true)]
    cpi: Option<f64>,
    /// Set the size of the last-level cache for which the class is computed [default: of this machine]
    #[arg(long, value_name = "SIZE", value_parser = input::nonzero_size, allow_hyphen_values = true)]
    llc: Option<Bytes>,
    /// Set the size of the private caches of a core [default: of this machine]
    #[arg(long, value_name = "SIZE", value_parser = input::nonzero_size, allow_hyphen_values = true)]
    private_cache: Option<Bytes>,
    /// Keep at most this many cache lines in the model; beyond that, sample the lines
    #[arg(long, value_name = "N", default_value_t = LINES, value_parser = some_number, allow_hyphen_values = true)]
    lines: u64,
    /// Run the program only once, under valgrind; the profile has no cycles per instruction and no class
    #[arg(long)]
    once: bool,
    /// Do not write charts (HTML) next to the profile
    #[arg(long)]
    no_html: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Default number of windows, and default number of references per window, of the cache model.
const WINDOWS: u32 = 20;
const REFS: u64 = 5_000_000;
const LINES: u64 = 65_536;

/// Source of the measured values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ProfileEngine {
    /// Hardware counters if they can be opened, else the cache model
    Auto,
    /// Hardware counters
    Counters,
    /// A trace under valgrind and a model of caches
    CacheModel,
}

/// Largest shares of the time limit for the run alone and for the counted run. The traced run gets the remaining time.
const ALONE_PART: f64 = 1.0 / 6.0;
const COUNT_PART: f64 = 1.0 / 3.0;

pub fn main(args: &Args) -> CommandResult {
    match (&args.list, &args.show, &args.remove, &args.embed, &args.from) {
        (Some(paths), ..) if paths.is_empty() => {
            let names = lab::shipped::profiles();
            if args.json {
                return print_json(&json!({ "profiles": names }));
            }
            return print(&names.iter().map(|name| format!("{name}\n")).collect::<String>());
        }
        (Some(paths), ..) => return signing::list(paths, args.json),
        (_, Some(program), ..) => return signing::show(program, args.json),
        (_, _, Some(program), ..) => return signing::remove(program),
        (_, _, _, Some(program), Some(file)) => {
            return signing::embed_file(program, file, args.beside);
        }
        _ => {}
    }
    crate::check_proc()?;
    let command: Vec<OsString> =
        args.embed.iter().map(OsString::from).chain(args.command.iter().cloned()).collect();
    let target =
        find::program(&command, args.input.as_deref(), args.name.as_deref()).or_usage_error()?;
    check_name(&target.name).or_usage_error()?;
    let signed = args.embed.as_ref().map(|_| signing::open(&target, args.beside));
    let output =
        Output { path: output(args, &target).or_usage_error()?, signed: signed.transpose()? };
    match select_counters(args)? {
        Ok(chosen) => measure_with_counters(args, &target, chosen, &output),
        Err(cause) => measure_with_cache_model(args, &target, &cause, &output),
    }
}

/// Where the profile is written.
struct Output {
    path: PathBuf,
    /// The program that gets the profile as its signature.
    signed: Option<SignedProgram>,
}

/// Measures with the cache model. `reason` is the reason why counters are not used.
fn measure_with_cache_model(
    args: &Args,
    target: &MeasuredProgram,
    no_counters_cause: &str,
    output: &Output,
) -> CommandResult {
    let machine =
        MachineParameters::read(Path::new("/"), args.llc, args.private_cache, args.frequency);
    let valgrind = find::valgrind().or_usage_error()?;
    let mut stop = StopSignals::block()?;
    let mut notes = RunNotes { assumed: machine.assumed.clone(), ..RunNotes::default() };
    if args.engine == ProfileEngine::Auto {
        notes.push(format!("no counters ({no_counters_cause}): using the cache model"));
    }
    let mut whole = WholeRun { cpi_declared: args.cpi, ..WholeRun::default() };
    let limit = Duration::from(args.limit);
    let until = Instant::now() + limit;
    if !args.once {
        measure_whole_run(&valgrind, target, limit, &mut stop, &mut whole, &mut notes)?;
    }
    let (name, windows) = (&target.name, base::counted_noun(args.windows, "complete window"));
    progress(args, &format!("tracing {name} up to {windows} or until --limit is reached"));
    let options = trace_options(args, &whole, until);
    let traced = valgrind::trace(&valgrind, target, &options, &mut stop)?;
    drop(stop);
    notes.add_traced(&traced, &whole);
    let profile = assemble::from_windows(target, traced.meter.windows(), &whole, &machine)
        .ok_or_else(|| {
            anyhow!("the trace ended before the first window; raise --limit or lower --skip")
        })?;
    notes.add_missing(&profile, target);
    publish(args, &profile, Some(&traced), &notes, output)
}

fn trace_options(args: &Args, whole: &WholeRun, until: Instant) -> TraceOptions {
    TraceOptions {
        plan: WindowPlan { skip: args.skip, window: args.refs, n_windows: args.windows, gap: 0 },
        sampling: Sampling::FixedSize(usize::try_from(args.lines).unwrap_or(usize::MAX)),
        n_instructions: whole.n_instructions,
        until,
    }
}

/// Performs the first two runs of the cache model: alone, and with counted instructions.
fn measure_whole_run(
    valgrind: &Valgrind,
    target: &MeasuredProgram,
    limit: Duration,
    stop: &mut StopSignals,
    whole: &mut WholeRun,
    notes: &mut RunNotes,
) -> Result<(), CommandError> {
    let begin = Instant::now();
    let run = valgrind::run_alone(target, begin + limit.mul_f64(ALONE_PART), stop)?;
    if run.stop_cause == StopCause::Interrupted {
        return Err(anyhow!("interrupted before the traced run").into());
    }
    if run.stop_cause != StopCause::Exited {
        let waited = Nanos::from(run.wall);
        notes.push(format!(
            "the run alone was terminated after {waited}: the instructions of the whole run are not counted"
        ));
        return Ok(());
    }
    notes.add_exit(run.reaped.status, &run.last_stderr_line);
    whole.cpu_time = Some(run.reaped.user + run.reaped.system);
    whole.wall = Some(Nanos::from(run.wall));
    let until = Instant::now() + limit.mul_f64(COUNT_PART);
    let counted = valgrind::count_instructions(valgrind, target, until, stop)?;
    if stop.received() {
        return Err(anyhow!("interrupted before the traced run").into());
    }
    whole.n_instructions = counted.map(|counted| counted.n);
    if let Some(n) = counted.map(|counted| counted.n_unreported).filter(|n| *n != 0) {
        notes.push(format!(
            "{n} processes called execve or were killed before they reported their instructions: \
             these instructions are not counted"
        ));
    }
    if whole.n_instructions.is_none() {
        notes.push("the run with counted instructions did not finish in time".to_owned());
    }
    Ok(())
}

/// Returns the hardware counters to use, or the reason to use the cache model.
///
/// # Errors
/// Counters are requested with `--engine counters` and cannot be opened.
fn select_counters(args: &Args) -> Result<Result<Vec<PmuGroups>, String>, CommandError> {
    if let (ProfileEngine::Counters, Some(option)) = (args.engine, cache_model_option(args)) {
        let hint = "applies to the cache model only; remove it or use --engine cache-model";
        return Err(anyhow!("{option} {hint}")).or_usage_error();
    }
    match (args.engine, counters::choose()) {
        (ProfileEngine::CacheModel, _) => Ok(Err("--engine cache-model is set".to_owned())),
        (ProfileEngine::Counters, Err(cause)) => {
            Err(anyhow!("cannot open counters: {cause}; use --engine cache-model")).or_usage_error()
        }
        (_, found) => Ok(found),
    }
}

/// Returns the first option on the command line that applies to the cache model only.
fn cache_model_option(args: &Args) -> Option<&'static str> {
    let options = [
        (args.skip != 0, "--skip"),
        (args.windows != WINDOWS, "--windows"),
        (args.refs != REFS, "--refs"),
        (args.lines != LINES, "--lines"),
        (args.llc.is_some(), "--llc"),
        (args.private_cache.is_some(), "--private-cache"),
        (args.frequency.is_some(), "--frequency"),
        (args.cpi.is_some(), "--cpi"),
        (args.once, "--once"),
    ];
    options.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
}

/// Measures with hardware counters.
fn measure_with_counters(
    args: &Args,
    target: &MeasuredProgram,
    chosen: Vec<PmuGroups>,
    output: &Output,
) -> CommandResult {
    // The counters measure the caches of this machine; options for other sizes do not apply.
    let machine = MachineParameters::read(Path::new("/"), None, None, None);
    let mut stop = StopSignals::block()?;
    let until = Instant::now() + Duration::from(args.limit);
    progress(args, &format!("counting {} until it exits or --limit is reached", target.name));
    let (intervals, run) = counters::run(target, chosen, until, &mut stop)?;
    drop(stop);
    let mut notes = RunNotes { assumed: machine.assumed.clone(), ..RunNotes::default() };
    notes.add_counted(&run);
    if let Some(unused) = cache_model_option(args) {
        notes
            .push(format!("{unused} has no effect: counters were used instead of the cache model"));
    }
    let profile = assemble::from_counters(target, &intervals, &run, &machine)
        .ok_or_else(|| anyhow!("no instruction was counted; use --engine cache-model"))?;
    notes.add_missing(&profile, target);
    publish(args, &profile, None, &notes, output)
}

/// Prints a progress line, except with `--json`.
fn progress(args: &Args, text: &str) {
    if !args.json {
        crate::print::note(text);
    }
}

/// Checks that the profile name is valid as a file name.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_valid = (1..=100).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || !base::is_printable(c));
    is_valid
        .then_some(())
        .ok_or_else(|| anyhow!("{name:?} is not a valid profile name; set --name NAME"))
}

/// Returns the path of the profile. Checks before any run that the path is writable.
fn output(args: &Args, target: &MeasuredProgram) -> anyhow::Result<PathBuf> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None => profiles::default_file(&target.name, target.build_id.as_deref())?,
    };
    let page = path.with_extension("html");
    if !args.no_html && page == path {
        let name = path.display();
        bail!("--output {name} is also the path of the charts; use .toml or --no-html");
    }
    if let Some(dir) = path.parent().filter(|dir| args.output.is_none() && !dir.exists()) {
        create_dir(dir, files::ForeignDir::Reject)?;
    }
    check_writable(&path)?;
    if !args.no_html {
        check_writable(&page)?;
    }
    Ok(path)
}

/// Writes and prints the profile. A profile of a program that failed is written too, because the status of some programs
/// is a result (`grep`, `diff`), but the command fails and writes no signature.
fn publish(
    args: &Args,
    profile: &Profile,
    traced: Option<&TracedRun>,
    notes: &RunNotes,
    output: &Output,
) -> CommandResult {
    let Output { path: output, signed } = output;
    write(output, profile.to_toml())?;
    let signature = match signed {
        Some(_) if notes.has_failed => {
            crate::print::note(format!(
                "no signature is written because the program failed; to write it: {}",
                signing::command_from(args, output)
            ));
            None
        }
        signed => signed.as_ref().map(|program| program.write(profile)).transpose()?,
    };
    let page = (!args.no_html).then(|| output.with_extension("html"));
    if let Some(page) = &page {
        let none = WindowMeter::new(WindowPlan::default(), Sampling::default());
        let meter = traced.map_or(&none, |traced| &traced.meter);
        let (windows, pattern) = (meter.windows(), meter.access_pattern());
        let command = crate::repeat::command_line();
        let html =
            report::profile::page(profile, windows, pattern, &notes.notes, command.as_deref());
        write(page, html)?;
    }
    let result = ProfileOutput { profile, traced, notes, output, page: page.as_deref(), signature };
    match args.json {
        true => print_json(&result.json())?,
        false => print(&result.text())?,
    }
    if notes.has_failed { Err(CommandError::Reported) } else { Ok(()) }
}

fn print_json(value: &Value) -> CommandResult {
    print(&format!("{}\n", base::json::to_indented(value)?))
}

/// Returns a path for a line of text, without control characters.
fn shown(path: &Path) -> String {
    base::printable(&path.display().to_string())
}

fn print(text: &str) -> CommandResult {
    use std::io::Write;
    Ok(crate::print::stdout().write_all(text.as_bytes())?)
}

/// Parses a count with an optional unit: `5M` is five million.
fn number(text: &str) -> Result<u64, String> {
    let usage = || "write an integer, optionally with K, M or G such as 5M".to_owned();
    let units = [('K', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let upper = text.trim().to_ascii_uppercase();
    let unit = units.iter().find_map(|(unit, by)| Some((upper.strip_suffix(*unit)?, *by)));
    let (digits, by) = unit.unwrap_or((&upper, 1));
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(by)).ok_or_else(usage)
}

fn some_number(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("it must be more than 0".to_owned()),
        number => Ok(number),
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.01..=1000.0).contains(number));
    number.ok_or_else(|| "write a number from 0.01 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_decimal_units() {
        for (text, n) in
            [("0", 0), ("17", 17), ("5M", 5_000_000), ("64k", 64_000), ("2G", 2_000_000_000)]
        {
            assert_eq!(number(text), Ok(n), "{text}");
        }
        for text in ["", "M", "-1", "1.5M", "99999999999G", "5MB"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(some_number("0").is_err());
    }
}
