//! `evenkeel generate`: a random workload from a program list and a seed.
//!
//! The first line of what it prints is the command that would print it again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use base::{Bytes, Nanos};
use program::{Command, ProgramList, Wish, Workload};

use crate::exit::{Done, OrWrong, Stop};

/// The list that is used when none is given.
const BUILT_IN: &str = include_str!("../../../workloads/programs/built-in.toml");

/// Make a random workload from a list of programs and a seed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many jobs
    #[arg(long, value_name = "N", default_value_t = 20)]
    n: usize,
    /// Where chance begins: the same seed, list and options give the same workload
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Jobs start between 0 and this
    #[arg(long, value_name = "TIME", default_value = "30s")]
    span: Nanos,
    /// Share of the jobs that are hogs, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    hog_fraction: f64,
    /// Relative weights of suites, such as SPEC=2,cBench=1; suites not named are left out
    #[arg(long, value_name = "SUITE=WEIGHT,…", value_delimiter = ',', value_parser = suite_weight)]
    suite_weights: Vec<(String, u64)>,
    /// Memory for all programs that run at a time, by the footprints of the list
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Program list (default: the built-in synthetic programs)
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Print the list instead of a workload, as an example to begin from
    #[arg(long)]
    print_list: bool,
    /// How to write it (default: as the name of --out says, else TOML)
    #[arg(long, value_enum)]
    form: Option<Form>,
    /// Where to write it (default: standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The two forms of a workload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// Everything a job can have
    Toml,
    /// Start, class, absolute path and arguments, a job a line
    Classic,
}

fn suite_weight(text: &str) -> Result<(String, u64), String> {
    let refuse = || "write SUITE=WEIGHT with a whole number, such as SPEC=2".to_owned();
    let (suite, weight) = text.split_once('=').ok_or_else(refuse)?;
    // Sums of weights must fit; nobody needs a finer ratio than this.
    let weight = weight.parse().ok().filter(|weight| *weight <= 1_000_000).ok_or_else(refuse)?;
    Ok((suite.to_owned(), weight))
}

/// Prints or writes the workload.
pub fn main(args: &Args) -> Done {
    let text = list_text(args.list.as_deref())?;
    if args.print_list {
        return Ok(write!(std::io::stdout(), "{text}")?);
    }
    let path = args.list.as_deref().unwrap_or(Path::new("built-in.toml"));
    let list = ProgramList::parse(&text, path).or_wrong()?;
    let workload = program::generate(&list, &wish(args)?).or_wrong()?;
    let text = format!("{}\n{}", first_line(args), written(args, workload).or_wrong()?);
    match &args.out {
        None => std::io::stdout().write_all(text.as_bytes())?,
        Some(out) => std::fs::write(out, text)
            .with_context(|| format!("cannot write {}", out.display()))
            .or_wrong()?,
    }
    Ok(())
}

fn list_text(path: Option<&Path>) -> Result<String, Stop> {
    let Some(path) = path else { return Ok(BUILT_IN.to_owned()) };
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the program list {}", path.display()))
        .or_wrong()
}

fn wish(args: &Args) -> Result<Wish, Stop> {
    let suite_weights: BTreeMap<String, u64> = args.suite_weights.iter().cloned().collect();
    if suite_weights.len() != args.suite_weights.len() {
        return Err(anyhow!("--suite-weights names a suite twice; name each once")).or_wrong();
    }
    Ok(Wish {
        n_jobs: args.n,
        seed: args.seed,
        span: args.span,
        hog_fraction: args.hog_fraction,
        suite_weights,
        memory: args.memory,
    })
}

/// A comment with the seed and every value: the command that makes this workload.
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
    if let Some(list) = &args.list {
        line.push_str(&format!(" --list {}", list.display()));
    }
    line.replace(['\n', '\r'], " ").replace("000000000ns", "s")
}

fn written(args: &Args, workload: Workload) -> anyhow::Result<String> {
    let named = args.out.as_deref().and_then(Path::extension).is_some_and(|end| end != "toml");
    match args.form.unwrap_or(if named { Form::Classic } else { Form::Toml }) {
        Form::Toml => Ok(program::to_toml(&workload)?),
        Form::Classic => Ok(program::to_classic(&with_own_path(workload)?)?),
    }
}

/// The classic form has no place for built-in programs, but for evenkeel itself as a program.
fn with_own_path(mut workload: Workload) -> anyhow::Result<Workload> {
    let own = std::env::current_exe().context("cannot find evenkeel's own path")?;
    for job in &mut workload.jobs {
        if let Command::Load(args) = &job.command {
            let args = std::iter::once("load".to_owned()).chain(args.iter().cloned()).collect();
            job.command = Command::Program { program: own.clone(), args };
            // It keeps its threads without being told, and there is no place to tell.
            job.threads = 1;
        }
    }
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }

    fn args(text: &str) -> Args {
        Alone::parse_from(std::iter::once("generate").chain(text.split_whitespace())).args
    }

    #[test]
    fn the_first_line_is_the_command_that_made_it() {
        for text in [
            "--n 40 --seed 101 --span 120s --hog-fraction 0.1",
            "--n 2 --seed 0 --span 1500000000ns --hog-fraction 0 --suite-weights SPEC=2,cBench=1 --memory 1024 --list my.toml",
        ] {
            assert_eq!(first_line(&args(text)), format!("# evenkeel generate {text}"));
        }
    }

    #[test]
    fn every_built_in_program_would_run() {
        let list = ProgramList::parse(BUILT_IN, Path::new("built-in.toml")).expect("it is sound");
        for program in &list.programs {
            let Command::Load(args) = &program.job.command else { panic!("all are built in") };
            assert_eq!(crate::load::check(args), Ok(()), "{}", program.job.name);
        }
    }
}
