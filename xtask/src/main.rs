//! Developer tools: `cargo xtask …`. The crate belongs to no layer and may depend on any crate.

mod record_machine;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Developer tools of evenkeel")]
struct Cli {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Check rules that the compiler does not: dependencies between crates, unsafe, wording, import cycles
    Tidy,
    /// Run the benchmarks of the crate bench in a release build; --help lists them
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Record the files of this machine that evenkeel reads, without private data
    RecordMachine(record_machine::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().tool {
        Tool::Tidy => tidy::main(&root()),
        Tool::Bench { args } => bench(&args),
        Tool::RecordMachine(args) => record_machine::main(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[String]) -> anyhow::Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "bench", "--"])
        .args(args)
        .current_dir(root())
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the benchmark failed ({status})");
    Ok(())
}

/// Returns the root directory of the repository.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask is a directory of the repository").to_owned()
}
