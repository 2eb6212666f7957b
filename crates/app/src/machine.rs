//! `evenkeel machine`: the topology of a machine, and its readable signals.
//!
//! With `--measure` the values between nodes are measured on this machine (`measure.rs`).
//!
//! The source is this machine, a recording of another machine's `/sys` and `/proc`, a synthetic machine or a machine
//! file. The output is a drawing, JSON, or a machine file for the simulator.

mod measure;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use base::Nanos;
use base::toml_reader::{SourceText, serde_fault};
use lab::shipped::ShippedKind;
use linux::cgroup::{self, CgroupChoice, CgroupMode};
use linux::signal_sources::{self, Availability, EventMapping, SignalSource};
use report::table::Align::Left;
use report::table::{ReportTable, fold};
use serde::Serialize;
use topology::file::{FormatVersion, MachineFile, parse_toml, to_toml};
use topology::{DomainChoice, Domains, Machine, draw};

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::core_kinds::CoreKindsArg;
use crate::input;

/// Print the topology of this machine and the signals that evenkeel can read on it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read a recorded /sys and /proc below this directory (default: this machine)
    #[arg(long, value_name = "DIR", group = "which")]
    root: Option<PathBuf>,
    /// Use a synthetic machine: 'nodes=2 llcs=2 cores=4 smt=2 mem=16G llc=32M distance=21'
    #[arg(long, value_name = "TEXT", group = "which")]
    synthetic: Option<String>,
    /// Read a machine file, as written by --toml or --json, or a shipped machine by name
    #[arg(long, value_name = "FILE", group = "which")]
    file: Option<PathBuf>,
    #[command(flatten)]
    core_kinds: CoreKindsArg,
    /// Measure latency and bandwidth from the CPUs of each node to the memory of each node of this machine
    #[arg(long, conflicts_with = "which")]
    measure: bool,
    /// Set the time of the repetitions of --measure, for all pairs of nodes together; the allocation of the buffers takes
    /// additional time
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = input::nonzero_time, allow_hyphen_values = true, requires = "measure")]
    measure_time: Nanos,
    /// Print JSON, including signals
    #[arg(long, group = "how")]
    json: bool,
    /// Print a machine file (TOML)
    #[arg(long, group = "how")]
    toml: bool,
}

pub fn main(args: &Args) -> CommandResult {
    let (machine, signals) = machine(args)?;
    let mut machine = args.core_kinds.apply(machine).or_usage_error()?;
    if args.measure {
        machine = measure::measured(&machine, args.measure_time)?;
    }
    let accesses = if args.measure { measure::draw_accesses(&machine) } else { String::new() };
    let events = events(args);
    let text = match (args.json, args.toml) {
        (true, _) => json(&machine, &signals, events.as_ref(), cgroups(args))?,
        (_, true) => to_toml(&machine),
        _ => {
            draw::draw(&machine)
                + &accesses
                + &draw_signals(&signals)
                + &draw_events(events.as_ref())
                + &draw_cgroups(cgroups(args))
        }
    };
    crate::print::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Reads the machine and its signals. A described machine has no signals.
fn machine(args: &Args) -> Result<(Machine, Vec<SignalSource>), CommandError> {
    if let Some(text) = &args.synthetic {
        let machine = Machine::synthetic(text).context("--synthetic").or_usage_error()?;
        return Ok((machine, Vec::new()));
    }
    if let Some(path) = &args.file {
        return Ok((file_or_shipped(path).or_usage_error()?, Vec::new()));
    }
    match &args.root {
        Some(root) => {
            Ok((linux::topology::read(root).or_usage_error()?, signal_sources::read(root)))
        }
        None => Ok((linux::topology::read(Path::new("/"))?, signal_sources::read(Path::new("/")))),
    }
}

/// Reads a machine file in TOML or in the JSON of this command, or returns the shipped machine of this name.
pub fn file_or_shipped(path: &Path) -> anyhow::Result<Machine> {
    let name = path.display().to_string();
    let text = input::text_or_shipped(ShippedKind::Machine, "machine file", path)?;
    if !text.trim_start().starts_with('{') {
        return Ok(parse_toml(&text, &name)?);
    }
    if let Ok(version) = serde_json::from_str::<FormatVersion>(&text) {
        version.check().with_context(|| name.clone())?;
    }
    let file: MachineFile = serde_json::from_str(&text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        let source = SourceText::new(&text, path);
        let offset = source.start_of(error.line()) + error.column().saturating_sub(1);
        anyhow!(source.error_at(offset, serde_fault(message)))
    })?;
    Machine::try_from(file).context(name)
}

type PmuEvents = (&'static linux::pmu::Uarch, Vec<EventMapping>);

/// Returns the PMU events. A described machine has no CPU model and therefore no events.
fn events(args: &Args) -> Option<PmuEvents> {
    let is_described = args.synthetic.is_some() || args.file.is_some();
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    (!is_described).then(|| signal_sources::events(root))
}

/// Returns the cgroups that jobs can use. Only known for this machine.
fn cgroups(args: &Args) -> Option<CgroupChoice> {
    let is_here = args.root.is_none() && args.synthetic.is_none() && args.file.is_none();
    is_here.then(|| cgroup::choose(Path::new("/"), CgroupMode::Auto))
}

fn draw_cgroups(groups: Option<CgroupChoice>) -> String {
    groups.map_or_else(String::new, |choice| {
        format!(
            "cgroups for jobs with bound memory:\n{}",
            fold(&choice.to_string(), draw::WIDTH, "  ", 2)
        )
    })
}

#[derive(Serialize)]
struct CgroupsJson {
    /// `v2`, `v1` or `none`.
    version: String,
    /// Parent cgroup of the jobs' cgroups; null without a parent.
    parent: Option<String>,
    /// The reason why other cgroup versions are not used; empty without a reason.
    reason: String,
}

impl From<CgroupChoice> for CgroupsJson {
    fn from(choice: CgroupChoice) -> Self {
        let delegated = choice.delegated.as_ref();
        CgroupsJson {
            version: delegated.map_or("none".to_owned(), |delegated| delegated.version.to_string()),
            parent: delegated.map(|delegated| delegated.dir.display().to_string()),
            reason: choice.reason,
        }
    }
}

#[derive(Serialize)]
struct EventJson<'a> {
    event: &'static str,
    unit: &'static str,
    /// Name of the vendor's event; null if this CPU has no such event.
    pmu_event: Option<&'a str>,
    /// Terms of the PMU's format.
    terms: Option<&'a str>,
    /// The reason why the CPU has no such event; null if the CPU has the event.
    reason: Option<&'a str>,
}

fn events_json(events: &[EventMapping]) -> Vec<EventJson<'_>> {
    events.iter().map(EventJson::new).collect()
}

impl<'a> EventJson<'a> {
    fn new(counted: &'a EventMapping) -> Self {
        let event = counted.event.as_ref();
        EventJson {
            event: counted.counter_event.name(),
            unit: counted.counter_event.unit(),
            pmu_event: event.ok().map(|(name, _)| name.as_str()),
            terms: event.ok().map(|(_, terms)| terms.as_str()),
            reason: event.err().map(String::as_str),
        }
    }
}

#[derive(Serialize)]
struct PlacementJson {
    /// `node`, `llc` or `core`.
    level: String,
    /// Number of domains with CPUs that this process may use.
    n_domains: usize,
}

#[derive(Serialize)]
struct SignalJson {
    tier: String,
    signal: &'static str,
    /// Null if the signal can only be determined on the machine itself.
    readable: Option<bool>,
    reason: String,
}

/// Returns the fields of the machine file, then placement and signals. Each list entry is one line, for `diff`.
fn json(
    machine: &Machine,
    signals: &[SignalSource],
    events: Option<&PmuEvents>,
    groups: Option<CgroupChoice>,
) -> Result<String, CommandError> {
    let domains = Domains::select(machine, DomainChoice::Auto, machine.allowed());
    let placement = PlacementJson { level: domains.level().to_string(), n_domains: domains.len() };
    let signals: Vec<SignalJson> = signals.iter().map(signal_json).collect();
    let file = MachineFile::from(machine);
    let mut fields = vec![
        field("format_version", &file.format_version)?,
        field("name", &file.name)?,
        rows("warnings", &file.warnings)?,
        field("nodes_allowed", &file.nodes_allowed)?,
        rows("nodes", &file.nodes)?,
        rows("llcs", &file.llcs)?,
        rows("cores", &file.cores)?,
        rows("cpus", &file.cpus)?,
        rows("accesses", &file.accesses)?,
        rows("core_kinds", &file.core_kinds)?,
    ];
    if let Some(source) = &file.core_kinds_source {
        fields.push(field("core_kinds_source", source)?);
    }
    // Only machine files have these lists.
    if !file.links.is_empty() {
        fields.push(rows("links", &file.links)?);
    }
    if !file.clusters.is_empty() {
        fields.push(rows("clusters", &file.clusters)?);
    }
    if !file.physics.is_default() {
        fields.push(field("physics", &file.physics)?);
    }
    fields.extend([
        field("kernel", &file.kernel)?,
        field("numa_balancing", &file.numa_balancing)?,
        field("placement", &placement)?,
        rows("signals", &signals)?,
        field("uarch", &events.map(|(uarch, _)| &uarch.file))?,
        field("uarch_name", &events.map(|(uarch, _)| &uarch.name))?,
        rows("events", &events.map_or_else(Vec::new, |(_, events)| events_json(events)))?,
        field("cgroups", &groups.map(CgroupsJson::from))?,
    ]);
    if let Some(grain) = &file.grain {
        fields.push(field("grain", grain)?);
    }
    if let Some(quantum) = &file.quantum {
        fields.push(field("quantum", quantum)?);
    }
    Ok(format!("{{\n{}\n}}\n", fields.join(",\n")))
}

fn field(key: &str, value: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(format!("  \"{key}\": {}", base::json::to_line(value)?))
}

fn rows<T: Serialize>(key: &str, entries: &[T]) -> Result<String, serde_json::Error> {
    let entries: Vec<String> = entries.iter().map(base::json::to_line).collect::<Result<_, _>>()?;
    let (open, close) = if entries.is_empty() { ("", "") } else { ("\n    ", "\n  ") };
    Ok(format!("  \"{key}\": [{open}{}{close}]", entries.join(",\n    ")))
}

fn signal_json(signal: &SignalSource) -> SignalJson {
    let readable = match signal.readable {
        Availability::Yes => Some(true),
        Availability::No => Some(false),
        Availability::Unknown => None,
    };
    let (tier, cause) = (signal.tier.to_string(), signal.reason.clone());
    SignalJson { tier, signal: signal.name, readable, reason: cause }
}

/// Draws readable and unreadable signals with the reasons. Signals with the same reason share a row.
fn draw_signals(signals: &[SignalSource]) -> String {
    if signals.is_empty() {
        return String::new();
    }
    let (unknown, known): (Vec<&SignalSource>, Vec<&SignalSource>) =
        signals.iter().partition(|signal| signal.reason == signal_sources::ONLY_ON_MACHINE);
    let heads = ["readable", "tier", "signal: interface or reason"];
    let mut table =
        ReportTable::new(heads.map(|head| (head, Left))).indented(2).with_folded_column();
    let key = |signal: &&SignalSource| (signal.readable, signal.tier);
    for group in known.chunk_by(|one, next| key(one) == key(next) && one.reason == next.reason) {
        let readable = match group[0].readable {
            Availability::Yes => "yes",
            Availability::No => "no",
            Availability::Unknown => "?",
        };
        let names: Vec<&str> = group.iter().map(|signal| signal.name).collect();
        let names = format!("{}: {}", names.join(",\n"), group[0].reason);
        table.row([readable.to_owned(), group[0].tier.to_string(), names]);
    }
    if !unknown.is_empty() {
        table.row(["?", "", "other signals: only known on the machine itself"]);
    }
    format!("signals:\n{}", table.to_text(draw::WIDTH))
}

fn draw_events(events: Option<&PmuEvents>) -> String {
    let Some((uarch, events)) = events else { return String::new() };
    let heads = [("event", Left), ("event of the PMU", Left)];
    let mut table = ReportTable::new(heads).indented(2).with_folded_column();
    let mut absent = Vec::new();
    for counted in events {
        let name = counted.counter_event.name();
        match &counted.event {
            Ok((event, _)) => table.row([name, event]),
            Err(_) => absent.push(name),
        }
    }
    let mut text =
        format!("PMU events of this CPU ({}):\n{}", uarch.name, table.to_text(draw::WIDTH));
    if !absent.is_empty() {
        let absent = format!("no event for {} (reasons: --json)", absent.join(", "));
        text += &fold(&absent, draw::WIDTH, "  ", 2);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_file_is_a_shipped_machine() {
        let machine_or_error =
            |name: &str| file_or_shipped(Path::new(name)).map_err(|error| format!("{error:#}"));
        assert_eq!(machine_or_error("xeon-2x4").map(|machine| machine.cpus().len()), Ok(8));
        assert_eq!(
            machine_or_error("xeon-2x5").expect_err("there is no such machine"),
            "there is no file xeon-2x5, and there is no shipped machine \"xeon-2x5\"; did you mean \"xeon-2x4\" or \"xeon-2s\"?"
        );
        let missing = machine_or_error("xeon-2x4.toml").expect_err("that names a file");
        assert!(missing.starts_with("cannot read the machine file xeon-2x4.toml"), "{missing}");
    }
}
