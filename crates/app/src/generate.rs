//! `evenkeel generate`: a random workload from a program list and a seed.
//!
//! The first line of the output is the command that reproduces the output.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use base::{Bytes, Nanos, shell};
use program::{Command, GeneratorOptions, ProgramList, Workload};

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;
use crate::output::{is_stdout, write};

/// Default program list.
const BUILT_IN: &str = include_str!("../../../workloads/programs/built-in.toml");

/// Generate a random workload from a program list and a seed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the number of jobs
    #[arg(long, allow_hyphen_values = true, value_name = "N", default_value_t = 20, value_parser = input::integer::<usize>(1..=program::N_JOBS_MAX))]
    n: usize,
    /// Set the random seed; the same seed, list and options give the same workload
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", default_value_t = 1, value_parser = input::seed)]
    seed: u64,
    /// Draw the start times of jobs uniformly from 0 to this time
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", default_value = "30s", value_parser = input::time)]
    span: Nanos,
    /// Set the share of jobs that are memory hogs, from 0 to 1
    #[arg(long, allow_hyphen_values = true, value_name = "SHARE", default_value_t = 0.0, value_parser = fraction)]
    hog_fraction: f64,
    /// Set relative weights of suites, such as SPEC=2,cBench=1; other suites are excluded (default:
    /// program weights of the list)
    #[arg(long, value_name = "SUITE=WEIGHT,…", value_delimiter = ',', value_parser = suite_weight)]
    suite_weights: Vec<(String, u64)>,
    /// Limit the total memory of concurrent programs, from the footprints in the list (default: no limit)
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Read programs from this list (default: the built-in synthetic programs)
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Print the program list instead of a workload, as a template
    #[arg(long)]
    print_list: bool,
    /// Write this format (default: TOML, or the format that the name of --out implies)
    #[arg(long, value_enum)]
    format: Option<WorkloadFormat>,
    /// Write to this file (default: -, standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Format of a workload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WorkloadFormat {
    /// All keys of a job
    Toml,
    /// Start, class, absolute path and arguments, one job per line
    Classic,
}

fn fraction(text: &str) -> Result<f64, String> {
    let fraction = text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
    fraction.ok_or_else(|| "write a share from 0 to 1, such as 0.25".to_owned())
}

fn suite_weight(text: &str) -> Result<(String, u64), String> {
    let usage = || "write SUITE=WEIGHT with an integer, such as SPEC=2".to_owned();
    let (suite, weight) = text.split_once('=').ok_or_else(usage)?;
    // The maximum limits the sum of the weights to 64 bits.
    let weight = weight.parse().ok().filter(|weight| *weight <= 1_000_000).ok_or_else(usage)?;
    Ok((suite.to_owned(), weight))
}

pub fn main(args: &Args) -> CommandResult {
    let text = list_text(args.list.as_deref())?;
    if args.print_list {
        return Ok(write!(crate::print::stdout(), "{text}")?);
    }
    let format = output_format(args).or_usage_error()?;
    let path = args.list.as_deref().unwrap_or(Path::new("built-in.toml"));
    let mut list = ProgramList::parse(&text, path).or_usage_error()?;
    if let Some(path) = &args.list {
        let out = args.out.as_deref().filter(|out| !is_stdout(out));
        rebase(&mut list, path, out, format).or_usage_error()?;
    }
    let mut workload = program::generate(&list, &generator_options(args)?).or_usage_error()?;
    warn_about_unlimited_programs(args, &list);
    // The workload has the name of its file: all tables show the file name.
    let stem = args.out.as_deref().filter(|out| is_file_name(out)).and_then(Path::file_stem);
    if let Some(name) = stem.and_then(|stem| stem.to_str()).filter(|name| !name.is_empty()) {
        workload.name = name.to_owned();
    }
    let text = format!("{}\n{}", first_line(args), written(format, workload).or_usage_error()?);
    match &args.out {
        None => crate::print::stdout().write_all(text.as_bytes())?,
        Some(out) => write(out, text).or_usage_error()?,
    }
    Ok(())
}

fn list_text(path: Option<&Path>) -> Result<String, CommandError> {
    let Some(path) = path else { return Ok(BUILT_IN.to_owned()) };
    input::text("program list", path).or_usage_error()
}

/// Warns if `--memory` does not apply to all programs.
fn warn_about_unlimited_programs(args: &Args, list: &ProgramList) {
    let drawn = || list.programs.iter().filter(|program| 0 < program.weight);
    let n_free = drawn().filter(|program| program.footprint == Bytes::ZERO).count();
    if args.memory.is_some() && 0 < n_free {
        crate::print::note(format_args!(
            "--memory does not limit {n_free} of {}: the list has no footprint for these programs",
            base::counted_noun(drawn().count(), "program")
        ));
    }
}

fn generator_options(args: &Args) -> Result<GeneratorOptions, CommandError> {
    let suite_weights: BTreeMap<String, u64> = args.suite_weights.iter().cloned().collect();
    if suite_weights.len() != args.suite_weights.len() {
        return Err(anyhow!("--suite-weights has a suite twice; give each suite once"))
            .or_usage_error();
    }
    Ok(GeneratorOptions {
        n_jobs: args.n,
        seed: args.seed,
        span: args.span,
        hog_fraction: args.hog_fraction,
        suite_weights,
        memory: args.memory,
    })
}

/// Returns the comment with the command that reproduces this workload.
fn first_line(args: &Args) -> String {
    let mut line = format!(
        "# evenkeel generate --n {} --seed {} --span {}ns --hog-fraction {}",
        args.n, args.seed, args.span.0, args.hog_fraction
    );
    if !args.suite_weights.is_empty() {
        let pairs = args.suite_weights.iter().map(|(suite, weight)| format!("{suite}={weight}"));
        line.push_str(&format!(" --suite-weights {}", pairs.collect::<Vec<_>>().join(",")));
    }
    if let Some(memory) = args.memory {
        line.push_str(&format!(" --memory {}", memory.0));
    }
    line = line.replace("000000000ns", "s");
    for (option, path) in [("--list", &args.list), ("--out", &args.out)] {
        if let Some(path) = path {
            line.push_str(&format!(" {option} {}", shell::quote(path)));
        }
    }
    if let Some(format) = args.format {
        line.push_str(if format == WorkloadFormat::Toml {
            " --format toml"
        } else {
            " --format classic"
        });
    }
    line
}

/// Returns the requested format, or the format that readers assume from the file name.
fn output_format(args: &Args) -> anyhow::Result<WorkloadFormat> {
    let named = args.out.as_deref().filter(|out| is_file_name(out));
    let named = named.map(|out| {
        if program::is_toml(out) { WorkloadFormat::Toml } else { WorkloadFormat::Classic }
    });
    match (args.format, named) {
        (Some(format), Some(named)) if format != named => {
            let name = args.out.as_deref().unwrap_or(Path::new("")).display();
            Err(match format {
                WorkloadFormat::Toml => {
                    anyhow!("{name} would not be read as TOML; use a name that ends in .toml")
                }
                WorkloadFormat::Classic => {
                    anyhow!("{name} would be read as TOML; use a name without .toml")
                }
            })
        }
        (format, named) => Ok(format.or(named).unwrap_or(WorkloadFormat::Toml)),
    }
}

/// Returns whether the path is the name of a regular file, and not standard output, a device or a pipe.
fn is_file_name(out: &Path) -> bool {
    !is_stdout(out) && !out.starts_with("/dev") && !out.starts_with("/proc")
}

fn written(format: WorkloadFormat, workload: Workload) -> anyhow::Result<String> {
    match format {
        WorkloadFormat::Toml => Ok(program::to_toml(&workload)?),
        WorkloadFormat::Classic => Ok(program::to_classic(&with_own_path(workload)?)?),
    }
}

/// Replaces built-in programs by the evenkeel executable, because the classic format has no key for built-in programs.
fn with_own_path(mut workload: Workload) -> anyhow::Result<Workload> {
    let own_path = std::env::current_exe().context("cannot find the path of evenkeel")?;
    for job in &mut workload.jobs {
        if let Command::Load(args) = &job.command {
            let args = std::iter::once("load".to_owned()).chain(args.iter().cloned()).collect();
            job.command = Command::Program { program: own_path.clone(), args };
            // The classic format has no key for the number of threads. The program starts its threads by its own
            // option.
            job.threads = 1;
        }
    }
    Ok(workload)
}

/// Makes relative paths of programs, inputs and working directories absolute if the workload is written to another
/// directory than the list. Outputs stay relative to the workload.
fn rebase(
    list: &mut ProgramList,
    path: &Path,
    out: Option<&Path>,
    format: WorkloadFormat,
) -> anyhow::Result<()> {
    let from = parent_dir(path)?;
    if out
        .filter(|out| is_file_name(out))
        .is_some_and(|out| parent_dir(out).is_ok_and(|to| to == from))
    {
        return Ok(());
    }
    for program in &mut list.programs {
        let job = &mut program.job;
        if let Command::Program { program, .. } = &mut job.command {
            // A program name without a slash is searched in PATH.
            if program.components().count() != 1 || program.starts_with(".") {
                *program = from.join(&*program);
            }
        }
        job.input = job.input.take().map(|input| from.join(input));
        job.dir = match (job.dir.take(), &job.command) {
            (Some(dir), _) => Some(from.join(dir)),
            // Arguments may be relative paths, so the working directory is the directory of the list. The classic
            // format has no key for the working directory.
            (None, Command::Program { .. } | Command::Shell(_))
                if format == WorkloadFormat::Toml =>
            {
                Some(from.clone())
            }
            (None, _) => None,
        };
    }
    Ok(())
}

/// Returns the absolute path of the directory of a file.
fn parent_dir(file: &Path) -> anyhow::Result<PathBuf> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    dir.canonicalize().with_context(|| format!("cannot find the directory {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn args(text: &str) -> Args {
        TestCli::parse_from(std::iter::once("generate").chain(text.split_whitespace())).args
    }

    #[test]
    fn the_first_line_is_the_command_that_reproduces_the_workload() {
        for text in [
            "--n 40 --seed 101 --span 120s --hog-fraction 0.1",
            "--n 1 --seed 1 --span 30s --hog-fraction 0 --out w.toml --format toml",
            "--n 2 --seed 0 --span 1500000000ns --hog-fraction 0 --suite-weights SPEC=2,cBench=1 --memory 1024 --list my.toml",
        ] {
            assert_eq!(first_line(&args(text)), format!("# evenkeel generate {text}"));
        }
    }

    #[test]
    fn the_written_format_matches_the_file_name() {
        for (text, expected) in [
            ("", Some(WorkloadFormat::Toml)),
            ("--out a.toml", Some(WorkloadFormat::Toml)),
            ("--out a.TOML", Some(WorkloadFormat::Toml)),
            ("--out a", Some(WorkloadFormat::Classic)),
            ("--out a.txt", Some(WorkloadFormat::Classic)),
            ("--out /dev/stdout", Some(WorkloadFormat::Toml)),
            ("--out -", Some(WorkloadFormat::Toml)),
            ("--format classic", Some(WorkloadFormat::Classic)),
            ("--out a.txt --format classic", Some(WorkloadFormat::Classic)),
            ("--out a --format toml", None),
            ("--out a.toml --format classic", None),
        ] {
            assert_eq!(output_format(&args(text)).ok(), expected, "{text}");
        }
    }

    #[test]
    fn every_program_of_the_built_in_list_is_valid() {
        let list = ProgramList::parse(BUILT_IN, Path::new("built-in.toml")).expect("it is valid");
        for program in &list.programs {
            let Command::Load(args) = &program.job.command else {
                panic!("all programs are built in")
            };
            assert_eq!(crate::load::check(args), Ok(()), "{}", program.job.name);
        }
    }
}
