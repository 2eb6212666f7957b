//! `evenkeel predict`: slowdowns of programs that share an LLC domain, and their best assignment to several domains.
//!
//! ```text
//!   machine file ─► LLC domains ─┐
//!   profiles, tables ─► programs ┴─► host_sim::predict ─► slowdowns, best assignment
//! ```
//!
//! Each assumption about a value that no file contains is printed to standard error as one line.

mod show;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base::suggest::did_you_mean;
use base::{counted_noun, noun};
use host_sim::SimOptions;
use host_sim::physics::{Calibration, CpiModel};
use host_sim::predict::{
    LlcDomain, PlaceableProgram, Prediction, PredictionSetup, ProgramPlacement, ProgramSet,
    best_placement, llc_domains, predict_together,
};
use lab::shipped::ShippedKind;
use program::is_toml;
use program::profile::parse_profile;

use crate::command_result::{CommandResult, OrUsageError};
use crate::{input, machine};

/// Predict slowdowns of programs that run together, and the best assignment to domains
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Use this machine: a machine file, in the format of evenkeel machine --toml, or a shipped machine such as xeon-2x4
    #[arg(long, value_name = "FILE|NAME")]
    machine: PathBuf,
    /// Read measurements of each program alone from these files: profiles (.toml), or tables (.csv) with the columns that
    /// the documentation of predict lists; or from the shipped table corun; may be repeated
    #[arg(long, value_name = "FILE[,FILE…]", value_delimiter = ',', required = true)]
    programs: Vec<PathBuf>,
    /// Predict these programs together, each on its own CPU, without running them; a name may be repeated
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Also find the best assignment to N LLC domains
    #[arg(long, value_name = "N", value_parser = input::integer::<u32>(1..=N_DOMAINS_MAX), allow_hyphen_values = true)]
    domains: Option<u32>,
    /// Print JSON: slowdowns (of each program, in the order of the names), notes, command, and with --domains assignment
    /// (names by LLC domain), assignment_slowdowns, assignment_found_by and mean_slowdown
    #[arg(long)]
    json: bool,
}

/// Maximum of `--domains`. Existing machines have fewer LLC domains.
const N_DOMAINS_MAX: u32 = 1024;

struct PredictOutput<'a> {
    names: &'a [String],
    setup: PredictionSetup,
    /// Predictions on the first domain; empty if the domain has fewer CPUs than programs.
    slowdowns: Vec<Prediction>,
    assignment: Option<ProgramPlacement>,
    /// Assumptions, one sentence each.
    notes: Vec<String>,
}

/// Computes and prints the predictions.
pub fn main(args: &Args) -> CommandResult {
    let output = predict(args).or_usage_error()?;
    output.notes.iter().for_each(crate::print::note);
    let text = if args.json { show::json(&output)? } else { show::text(&output) };
    crate::print::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn predict(args: &Args) -> anyhow::Result<PredictOutput<'_>> {
    let machine = machine::file_or_shipped(&args.machine)?;
    host_sim::check_machine(&machine, &SimOptions::default())
        .with_context(|| args.machine.display().to_string())?;
    let mut set = ProgramSet::default();
    args.programs.iter().try_for_each(|path| read(path, &mut set))?;
    let n_domains = args.domains.unwrap_or(1) as usize;
    let domains = llc_domains(&machine, set.ghz);
    let setup = PredictionSetup::new(domains, n_domains, &set, Calibration::default());
    let programs: Vec<PlaceableProgram> =
        args.names.iter().map(|name| find(name, &set, &setup)).collect::<Result<_, _>>()?;
    let mut notes: Vec<String> = set.notes.iter().chain(&setup.notes).cloned().collect();
    notes.extend(
        setup
            .llc_domains
            .iter()
            .filter_map(|llc_domain| slower_cores_note(llc_domain, programs.len())),
    );
    let slowdowns = predict_on_first_domain(args, &programs, &setup, &mut notes)?;
    let assignment = match args.domains {
        Some(_) => Some(best_placement(&programs, &setup.llc_domains)?),
        None => None,
    };
    notes.extend(assignment.as_ref().and_then(|it| siblings_note(it, &setup.llc_domains)));
    Ok(PredictOutput { names: &args.names, setup, slowdowns, assignment, notes })
}

/// Reads a profile or a table. The extension of the file selects the format.
fn read(path: &Path, set: &mut ProgramSet) -> anyhow::Result<()> {
    let file = path.display().to_string();
    let text = input::text_or_shipped(ShippedKind::SoloTable, "programs file", path)?;
    match is_toml(path) {
        true => set.add_profile(parse_profile(&text, path)?, &file)?,
        false => set.add_table(&text, &file)?,
    }
    Ok(())
}

fn find(name: &str, set: &ProgramSet, setup: &PredictionSetup) -> anyhow::Result<PlaceableProgram> {
    setup.placeable(set, name)?.ok_or_else(|| {
        let names: Vec<&str> = set.names().collect();
        anyhow!("no file contains a program {name:?}; {}", did_you_mean(name, names))
    })
}

/// Returns a note if some of the programs would run on slower cores.
fn slower_cores_note(llc_domain: &LlcDomain, n_programs: usize) -> Option<String> {
    let (n_fast, n_cores) = (llc_domain.n_fast, llc_domain.n_cores);
    (n_fast < n_programs.min(n_cores)).then(|| {
        format!(
            "LLC domain {} has cores of different speed: all {n_cores} are assumed to have the speed of the {n_fast} fastest",
            llc_domain.llc.0
        )
    })
}

/// Returns a note if domains have more programs than cores in an assignment.
fn siblings_note(assignment: &ProgramPlacement, llc_domains: &[LlcDomain]) -> Option<String> {
    let n_in = |domain: usize| assignment.domains.iter().filter(|at| **at == domain).count();
    let crowded = (0..llc_domains.len()).filter(|&idx| llc_domains[idx].n_cores < n_in(idx));
    let crowded: Vec<String> = crowded.map(|idx| idx.to_string()).collect();
    (!crowded.is_empty()).then(|| {
        format!(
            "the assignment has more programs than cores in {} {}: contention between SMT siblings is not included",
            noun(crowded.len() == 1, "domain"),
            crowded.join(", ")
        )
    })
}

/// Predicts the slowdowns on the first domain, if the domain has enough CPUs.
fn predict_on_first_domain(
    args: &Args,
    programs: &[PlaceableProgram],
    setup: &PredictionSetup,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Prediction>> {
    let Some(llc_domain) = setup.llc_domains.first() else { return Ok(Vec::new()) };
    let n = programs.len();
    let (cpus, n_programs) = (counted_noun(llc_domain.n_cpus, "CPU"), counted_noun(n, "program"));
    let too_few_cpus = format!("the first LLC domain has {cpus} for {n_programs}");
    if llc_domain.n_cpus < n && args.domains.is_none() {
        bail!("{too_few_cpus}; omit some, or give more domains with --domains");
    }
    if llc_domain.n_cpus < n {
        notes.push(format!("{too_few_cpus}: slowdowns are only printed for the assignment"));
        return Ok(Vec::new());
    }
    if llc_domain.n_cores < n {
        notes.push(format!(
            "the first LLC domain has {} for {n_programs}: contention between SMT siblings is not included",
            counted_noun(llc_domain.n_cores, "core")
        ));
    }
    let programs: Vec<&CpiModel> =
        programs.iter().filter_map(PlaceableProgram::first_model).collect();
    Ok(predict_together(&programs, &llc_domain.domain))
}
