//! `evenkeel predict`: how much slower programs are side by side than alone, and how to split them over
//! LLC domains.
//!
//! ```text
//!   machine file ─► LLC domains ─┐
//!   profiles, tables ─► programs ┴─► host_sim::predict ─► slow-downs, best split
//! ```
//!
//! Whatever is assumed because no file tells it is said on standard error, a line each.

mod show;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base::counted_noun;
use host_sim::physics::{Calibration, CpiModel};
use host_sim::predict::{
    LlcDomain, PlaceableProgram, Prediction, PredictionSetup, ProgramPlacement, ProgramSet,
    best_placement, llc_domains, predict_together,
};
use program::is_toml;
use program::profile::parse_profile;

use crate::command_result::{CommandResult, OrUsageError, print_error};
use crate::{input, machine};
use base::suggest::nearest;

/// Which programs, and where.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The machine: a file as evenkeel machine --toml writes it, with the bandwidth of its memory
    #[arg(long, value_name = "FILE")]
    machine: PathBuf,
    /// What programs do alone, separated by commas: profiles (.toml), or tables with the columns of
    /// workloads/data/corun/solo.csv
    #[arg(long, value_name = "FILE", value_delimiter = ',', required = true)]
    programs: Vec<PathBuf>,
    /// Which of them run, each on a core of its own; a name may stand several times
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Find the best assignment to so many LLC domains too
    #[arg(long, value_name = "N", value_parser = input::whole::<u32>(1..=N_DOMAINS_MAX), allow_hyphen_values = true)]
    domains: Option<u32>,
    /// Print JSON: slowdowns (of each program, in the order asked for), and with --domains split (names
    /// by LLC domain), split_slowdowns and mean_slowdown
    #[arg(long)]
    json: bool,
}

/// Of no machine are more known.
const N_DOMAINS_MAX: u32 = 1024;

/// What is told.
struct Told<'a> {
    names: &'a [String],
    stage: PredictionSetup,
    /// On the first domain; none where the programs are more than its CPUs.
    slowdowns: Vec<Prediction>,
    split: Option<ProgramPlacement>,
    /// What was assumed, a sentence each.
    notes: Vec<String>,
}

/// Predicts.
pub fn main(args: &Args) -> CommandResult {
    let told = predict(args).or_usage_error()?;
    told.notes.iter().for_each(print_error);
    let text = if args.json { show::json(&told)? } else { show::text(&told) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn predict(args: &Args) -> anyhow::Result<Told<'_>> {
    let machine = machine::file_or_shipped(&args.machine)?;
    let mut cast = ProgramSet::default();
    args.programs.iter().try_for_each(|path| read(path, &mut cast))?;
    let n_domains = args.domains.unwrap_or(1) as usize;
    let there =
        llc_domains(&machine, cast.ghz).with_context(|| args.machine.display().to_string())?;
    let stage = PredictionSetup::new(there, n_domains, &cast, Calibration::default());
    let programs: Vec<PlaceableProgram> =
        args.names.iter().map(|name| find(name, &cast, &stage)).collect::<Result<_, _>>()?;
    let mut notes: Vec<String> = cast.notes.iter().chain(&stage.notes).cloned().collect();
    notes.extend(stage.sites.iter().filter_map(|site| unlike_cores(site, programs.len())));
    let slowdowns = on_first(args, &programs, &stage, &mut notes)?;
    let split = match args.domains {
        Some(_) => Some(best_placement(&programs, &stage.sites, &stage.domains)?),
        None => None,
    };
    Ok(Told { names: &args.names, stage, slowdowns, split, notes })
}

/// A profile or a table, by the end of its name.
fn read(path: &Path, cast: &mut ProgramSet) -> anyhow::Result<()> {
    let file = path.display().to_string();
    let text = input::text("programs file", path)?;
    match is_toml(path) {
        true => cast.add_profile(parse_profile(&text, path)?, &file)?,
        false => cast.add_table(&text, &file)?,
    }
    Ok(())
}

fn find(
    name: &str,
    cast: &ProgramSet,
    stage: &PredictionSetup,
) -> anyhow::Result<PlaceableProgram> {
    stage.placeable(cast, name)?.ok_or_else(|| match nearest(name, cast.names()) {
        Some(like) => anyhow!("no file tells of a program \"{name}\"; did you mean \"{like}\"?"),
        None => {
            let known = cast.names().collect::<Vec<_>>().join(", ");
            anyhow!("no file tells of a program \"{name}\"; known are {known}")
        }
    })
}

/// Where so many programs may have to do with slow cores.
fn unlike_cores(site: &LlcDomain, n_programs: usize) -> Option<String> {
    let (n_fast, n_cores) = (site.n_fast, site.n_cores);
    (n_fast < n_programs.min(n_cores)).then(|| {
        format!(
            "of the {n_cores} cores of LLC domain {} {n_fast} are the fastest: all are taken to be as fast as those",
            site.llc.0
        )
    })
}

/// What becomes of them on the first domain, if they have room there.
fn on_first(
    args: &Args,
    programs: &[PlaceableProgram],
    stage: &PredictionSetup,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Prediction>> {
    let (Some(site), Some(domain)) = (stage.sites.first(), stage.domains.first()) else {
        return Ok(Vec::new());
    };
    let n = programs.len();
    let cpus = counted_noun(site.n_cpus, "CPU");
    let crowded = format!("{n} programs are more than the {cpus} of the first LLC domain");
    if site.n_cpus < n && args.domains.is_none() {
        bail!("{crowded}; leave some out, or ask for more domains with --domains");
    }
    if site.n_cpus < n {
        notes.push(format!("{crowded}: slow-downs are told of the split alone"));
        return Ok(Vec::new());
    }
    if site.n_cores < n {
        notes.push(format!(
            "{n} programs are more than the {} of the first LLC domain: what SMT siblings take from each other is not in this",
            counted_noun(site.n_cores, "core")
        ));
    }
    let programs: Vec<&CpiModel> = programs.iter().filter_map(PlaceableProgram::on_first).collect();
    Ok(predict_together(&programs, domain))
}
