//! Chores of the house: `cargo xtask …`. They stand outside the floors and may know every room.

mod bench;
mod record_machine;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Chores of the house")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Check rules that the compiler does not: dependencies between crates, unsafe, wording, import cycles
    Tidy(tidy::Args),
    /// Measure what evenkeel costs on this machine
    Bench(bench::Args),
    /// Record what evenkeel reads of this machine, with nothing private in it
    RecordMachine(record_machine::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Tidy(args) => tidy::main(&root(), &args),
        Chore::Bench(args) => bench::main(args),
        Chore::RecordMachine(args) => record_machine::main(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the repository").to_owned()
}
