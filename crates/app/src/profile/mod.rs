//! `evenkeel profile -- CMD`: measures a program alone and writes its profile.
//!
//! ```text
//!   counters      the processor counts while the program runs once
//!   cache-model   alone (CPU time) ─► counted (instructions) ─► traced (reuse distances) ─► curve
//! ```
//!
//! Where no counters can be opened the program runs up to three times, so it must not mind being run
//! again. All of it takes no longer than `--limit`.

mod assemble;
mod child;
mod counted;
mod here;
mod show;
mod sketch;
mod target;
mod tools;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use base::{Bytes, Nanos};
use linux::child_exit::ChildStatus;
use linux::perf::PmuGroups;
use program::Profile;
use trace::{Meter, Plan, Sampling};

use crate::asked::Asked;
use crate::exit::{Done, OrWrong, Stop as Ended};
use crate::{input, profiles};
use assemble::Learnt;
use child::Why;
use here::Here;
use show::{Account, Shown};
use target::Target;
use tools::{Traced, Valgrind, Wish};

/// Measure a program alone and write its profile
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program and its arguments, after two dashes
    #[arg(last = true, required_unless_present = "list", value_name = "CMD")]
    command: Vec<OsString>,
    /// Tell the profiles that ship, which a job takes by its key profile, and run nothing
    #[arg(long, exclusive = true)]
    list: bool,
    /// What to measure with
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// Where to write the profile [default: the profile folder, by name and build id]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What the profile is called [default: the program's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What the program reads as standard input [default: nothing]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// References before the first window (they warm the model)
    #[arg(long, value_name = "N", default_value = "0", value_parser = number, allow_hyphen_values = true)]
    skip: u64,
    /// Windows at most
    #[arg(long, value_name = "N", default_value_t = WINDOWS, value_parser = input::whole::<u32>(1..=10_000), allow_hyphen_values = true)]
    windows: u32,
    /// References of a window: fetched instructions, loads, stores
    #[arg(long, value_name = "N", default_value_t = REFS, value_parser = some_number, allow_hyphen_values = true)]
    refs: u64,
    /// Time for all of it
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = input::some_time, allow_hyphen_values = true)]
    limit: Nanos,
    /// Cycles a second, for cycles per instruction [default: as the machine says]
    #[arg(long, value_name = "2.6GHz", value_parser = here::frequency, allow_hyphen_values = true)]
    frequency: Option<f64>,
    /// Cycles per instruction, where you know them
    #[arg(long, value_name = "NUMBER", value_parser = ratio, allow_hyphen_values = true)]
    cpi: Option<f64>,
    /// Bytes of the last-level cache that the class is for [default: this machine's]
    #[arg(long, value_name = "SIZE")]
    llc: Option<Bytes>,
    /// Bytes of a core's own caches [default: this machine's]
    #[arg(long, value_name = "SIZE")]
    private_cache: Option<Bytes>,
    /// Lines that the model keeps at most; more of them are sampled
    #[arg(long, value_name = "N", default_value_t = LINES, value_parser = some_number, allow_hyphen_values = true)]
    lines: u64,
    /// Run it once only, traced: no cycles per instruction, no class
    #[arg(long)]
    once: bool,
    /// No pictures beside the profile
    #[arg(long)]
    no_html: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// What is traced where nothing else is asked for.
const WINDOWS: u32 = 20;
const REFS: u64 = 5_000_000;
const LINES: u64 = 65_536;

/// What measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Counters where they can be opened, else the cache model
    Auto,
    /// The processor's counters
    Counters,
    /// A traced run and a model of caches
    CacheModel,
}

/// The alone run takes at most this part of the limit, the counted one that: the tracer has the rest.
const ALONE_PART: f64 = 1.0 / 6.0;
const COUNT_PART: f64 = 1.0 / 3.0;

/// Measures, writes, prints.
pub fn main(args: &Args) -> Done {
    if args.list {
        use std::io::Write;
        let lines: String =
            lab::shipped::profiles().iter().map(|name| format!("{name}\n")).collect();
        return Ok(std::io::stdout().write_all(lines.as_bytes())?);
    }
    let target =
        Target::find(&args.command, args.input.as_deref(), args.name.as_deref()).or_wrong()?;
    check_name(&target.name).or_wrong()?;
    let output = output(args, &target).or_wrong()?;
    let here = Here::read(Path::new("/"), args.llc, args.private_cache, args.frequency);
    let why_no_counters = match counters(args)? {
        Ok(chosen) => return count(args, &target, chosen, &output),
        Err(why) => why,
    };
    let valgrind = Valgrind::find().or_wrong()?;
    let mut stop = Asked::watch()?;
    let mut account = Account::default();
    account.assumed.clone_from(&here.assumed);
    if args.engine == Engine::Auto {
        account.note(format!("no counters ({why_no_counters}): the cache model measures"));
    }
    let mut learnt = Learnt { cpi_declared: args.cpi, ..Learnt::default() };
    let until = Instant::now() + Duration::from(args.limit);
    let limit = Duration::from(args.limit);
    if !args.once {
        learn(&valgrind, &target, limit, &mut stop, &mut learnt, &mut account)?;
    }
    say(
        args,
        &format!("tracing {}, until {} windows are full or time is up", target.name, args.windows),
    );
    let traced = tools::trace(&valgrind, &target, &wish(args, &learnt, until), &mut stop)?;
    drop(stop);
    account.take(&traced, &learnt);
    let profile = assemble::from_windows(&target, traced.meter.windows(), &learnt, &here)
        .ok_or_else(|| anyhow!("the trace ended before there was anything to measure"))?;
    account.judge(&profile, &target);
    publish(args, &profile, Some(&traced), &account, &output)
}

fn wish(args: &Args, learnt: &Learnt, until: Instant) -> Wish {
    Wish {
        plan: Plan { skip: args.skip, window: args.refs, n_windows: args.windows, gap: 0 },
        sampling: Sampling::FixedSize(usize::try_from(args.lines).unwrap_or(usize::MAX)),
        n_instructions: learnt.n_instructions,
        until,
    }
}

/// The first two runs.
fn learn(
    valgrind: &Valgrind,
    target: &Target,
    limit: Duration,
    stop: &mut Asked,
    learnt: &mut Learnt,
    account: &mut Account,
) -> Result<(), Ended> {
    let begin = Instant::now();
    let run = tools::alone(target, begin + limit.mul_f64(ALONE_PART), stop)?;
    if run.why == Why::Stopped {
        return Err(anyhow!("stopped before anything was traced").into());
    }
    if run.why != Why::Ended {
        let waited = Nanos::from(run.wall);
        account.note(format!(
            "it ran for more than {waited} alone and was ended: its instructions are not counted"
        ));
        return Ok(());
    }
    account.ended = Some(run.reaped.status);
    if run.reaped.status != ChildStatus::Exited(0) {
        let words = run.last_words;
        let words = if words.is_empty() { words } else { format!("; it said: {words}") };
        account.note(format!("it {}{words}", show::how(run.reaped.status)));
    }
    learnt.cpu_time = Some(run.reaped.user + run.reaped.system);
    learnt.wall = Some(Nanos::from(run.wall));
    let until = Instant::now() + limit.mul_f64(COUNT_PART);
    let counted = tools::count(valgrind, target, until, stop)?;
    if stop.asked() {
        return Err(anyhow!("stopped before anything was traced").into());
    }
    learnt.n_instructions = counted.map(|counted| counted.n);
    if let Some(n) = counted.map(|counted| counted.n_silent).filter(|n| *n != 0) {
        account.note(format!(
            "{n} of its processes were replaced or killed before they told how many instructions they ran: \
             these are not counted"
        ));
    }
    if learnt.n_instructions.is_none() {
        account.note("its instructions could not be counted to its end in time".to_owned());
    }
    Ok(())
}

/// What the processor can count, or why the cache model is to measure. An error if only counters will do.
fn counters(args: &Args) -> Result<Result<Vec<PmuGroups>, String>, Ended> {
    if let (Engine::Counters, Some(option)) = (args.engine, of_the_model(args)) {
        let text = "is for the cache model: leave it out, or use --engine cache-model";
        return Err(anyhow!("{option} {text}")).or_wrong();
    }
    match (args.engine, counted::choose()) {
        (Engine::CacheModel, _) => Ok(Err("the cache model was asked for".to_owned())),
        (Engine::Counters, Err(why)) => {
            let text = "counters cannot be opened here";
            Err(anyhow!("{text}: {why}; use --engine cache-model")).or_wrong()
        }
        (_, found) => Ok(found),
    }
}

/// The first option that only the cache model heeds.
fn of_the_model(args: &Args) -> Option<&'static str> {
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

/// The counters engine.
fn count(args: &Args, target: &Target, chosen: Vec<PmuGroups>, output: &Path) -> Done {
    // What is counted is counted behind this machine's own caches, whatever was asked for.
    let here = Here::read(Path::new("/"), None, None, None);
    let mut stop = Asked::watch()?;
    let until = Instant::now() + Duration::from(args.limit);
    say(args, &format!("counting {} until it ends or time is up", target.name));
    let (readings, run) = counted::run(target, chosen, until, &mut stop)?;
    drop(stop);
    let mut account = Account { assumed: here.assumed.clone(), ..Account::default() };
    account.counted(&run);
    if let Some(unused) = of_the_model(args) {
        account.note(format!("{unused} was not used: counters measured, not the cache model"));
    }
    let profile = assemble::from_readings(target, &readings, &run, &here)
        .ok_or_else(|| anyhow!("no instruction was counted; use --engine cache-model"))?;
    account.judge(&profile, target);
    publish(args, &profile, None, &account, output)
}

fn say(args: &Args, text: &str) {
    if !args.json {
        eprintln!("evenkeel: {text}");
    }
}

/// A name that can name a file.
fn check_name(name: &str) -> anyhow::Result<()> {
    let fine = (1..=100).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || c.is_control());
    fine.then_some(()).ok_or_else(|| anyhow!("{name:?} cannot name a profile; say --name NAME"))
}

/// Where the profile goes: known to be writable before anything runs.
fn output(args: &Args, target: &Target) -> anyhow::Result<PathBuf> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None => profiles::default_file(&target.name, target.build_id.as_deref())?,
    };
    let page = path.with_extension("html");
    if !args.no_html && page == path {
        let name = path.display();
        bail!("{name} would be its page of pictures too: name it .toml, or say --no-html");
    }
    let refused = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent().filter(|folder| args.output.is_none() && !folder.exists()) {
        std::fs::create_dir_all(folder).with_context(refused)?;
    }
    probe(&path)?;
    if !args.no_html {
        probe(&page)?;
    }
    Ok(path)
}

/// Whether a file can be written. Opened without emptying it: an old one stays until there is a new one.
fn probe(path: &Path) -> anyhow::Result<()> {
    let refused = || format!("cannot write {}", path.display());
    let is_new = !path.exists();
    std::fs::File::options().create(true).append(true).open(path).with_context(refused)?;
    if is_new {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn publish(
    args: &Args,
    profile: &Profile,
    traced: Option<&Traced>,
    account: &Account,
    output: &Path,
) -> Done {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(output, profile.to_toml())?;
    let page = (!args.no_html).then(|| output.with_extension("html"));
    if let Some(page) = &page {
        let none = Meter::new(Plan::default(), Sampling::default());
        let meter = traced.map_or(&none, |traced| &traced.meter);
        let (windows, view) = (meter.windows(), meter.view());
        write(page, report::profile::page(profile, windows, view, &account.notes))?;
    }
    let shown = Shown { profile, traced, account, output, page: page.as_deref() };
    let text = if args.json { shown.json()? } else { shown.text() };
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// A count as a user writes it: `5M` are five million.
fn number(text: &str) -> Result<u64, String> {
    let refuse = || "write a whole number, or one with K, M or G such as 5M".to_owned();
    let units = [('K', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let upper = text.trim().to_ascii_uppercase();
    let unit = units.iter().find_map(|(unit, by)| Some((upper.strip_suffix(*unit)?, *by)));
    let (digits, by) = unit.unwrap_or((&upper, 1));
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(by)).ok_or_else(refuse)
}

fn some_number(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("it must be more than 0".to_owned()),
        number => Ok(number),
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let fine = text.parse::<f64>().ok().filter(|number| (0.01..=1000.0).contains(number));
    fine.ok_or_else(|| "write a number from 0.01 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units_of_a_thousand() {
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
