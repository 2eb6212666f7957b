//! Benchmarks of evenkeel on the machine at hand: `cargo xtask bench …`, or `cargo run --release -p bench -- …`.
//!
//! Machines are shared and noisy, so absolute times are not comparable. The benchmarks print shares of a CPU from the
//! kernel's accounting, and ratios of two alternating measurements (A B A B, [`ab`]), as median and range over several
//! windows or rounds. All processes run at nice 0. If the kernel does not permit nice 0, the benchmark prints the nice
//! value first.

mod ab;
mod auto;
mod compare;
mod convergence;
mod counters;
mod decisions;
mod evenkeel;
mod guest;
mod harm;
mod kernel;
mod numad;
mod overhead;
mod physics;
mod processes;
mod profile;
mod restore;
mod simgrid;
mod simulator;
mod start;
mod stats;
mod tune;
mod turn;
mod variation;
mod wake;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Benchmarks of evenkeel
#[derive(Debug, Parser)]
#[command(name = "bench", max_term_width = 100, args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Run two commands alternately and print the ratio of their times, or of the values they print
    Ab(ab::Args),
    /// Compare the policy auto with linux: on simulated servers, or on this machine with --live
    Auto(auto::Args),
    /// Measure a simulated comparison of 12 policies on 10 workloads with 20 seeds
    Compare(compare::Args),
    /// Measure the time until memory and tasks are on the same node, for watch, the kernel's NUMA balancing and numad,
    /// in a guest with two nodes
    Convergence(convergence::Args),
    /// Measure the cost of a counter sample of a task: a group of four software events
    Counters,
    /// Measure the time of decisions on core kinds, per task and as a share of the managed CPU time: in simulated runs of
    /// the published sets, with threads, and with up to 2,048 tasks
    Decisions,
    /// Measure whether watch slows down a balanced machine: work and run times with watch and without
    Harm(harm::Args),
    /// Compare the task placement of the simulated kernel with a real kernel, in a guest with four nodes
    Kernel(kernel::Args),
    /// Measure CPU time, system calls and memory of watch and of numad, in a guest with two nodes
    Numad(numad::Args),
    /// Measure CPU time and memory of evenkeel while 1 to 1000 jobs sleep or compute
    Overhead(overhead::Args),
    /// Validate the physics of the simulator on measured slowdowns that were excluded from the fit
    Physics,
    /// Measure the CPU time of one turn of every policy, for 10,000 tasks on 1,024 CPUs
    Policies(turn::PolicyArgs),
    /// Validate the cache model of profiles: sampled against exact, and exact against cachegrind
    Profile(profile::Args),
    /// Measure the time of restore with 10 to 10,000 processes, alone and while other programs fork
    Restore(restore::Args),
    /// Compare the simulator with SimGrid on the same jobs: completed jobs per second of CPU time
    Simgrid(simgrid::Args),
    /// Measure events and simulated job seconds per second of CPU time of the simulator
    Simulator(simulator::Args),
    /// Measure the time to the first job, and jobs started per second, compared with a shell loop
    Start(start::Args),
    /// Measure a search for parameters: 100 settings on 7 workloads with 5 seeds
    Tune(tune::Args),
    /// Measure the CPU time of one turn, from a sample to an approved plan, for 10,000 tasks on 512 CPUs
    Turn,
    /// Measure how CPU times and sleeps vary between runs: the data behind the random variation of the simulator
    Variation(variation::Args),
    /// Measure the CPU time of evenkeel while it waits for counter overflows, compared with polling
    Wake(wake::Args),
    /// Measure CPU time, system calls and memory of watch with thousands of sleeping processes
    Watch(watch::Args),
}

fn main() -> ExitCode {
    set_normal_priority();
    let result = match Cli::parse().benchmark {
        Some(Benchmark::Ab(args)) => ab::main(&args),
        Some(Benchmark::Auto(args)) => auto::main(&args),
        Some(Benchmark::Compare(args)) => compare::main(&args),
        Some(Benchmark::Convergence(args)) => convergence::main(&args),
        Some(Benchmark::Counters) => counters::main(),
        Some(Benchmark::Harm(args)) => harm::main(&args),
        Some(Benchmark::Kernel(args)) => kernel::main(&args),
        Some(Benchmark::Numad(args)) => numad::main(&args),
        Some(Benchmark::Overhead(args)) => overhead::main(&args),
        Some(Benchmark::Physics) => physics::main(),
        Some(Benchmark::Decisions) => decisions::main(),
        Some(Benchmark::Policies(args)) => turn::policies(&args),
        Some(Benchmark::Profile(args)) => profile::main(&args),
        Some(Benchmark::Restore(args)) => restore::main(&args),
        Some(Benchmark::Simgrid(args)) => simgrid::main(&args),
        Some(Benchmark::Simulator(args)) => simulator::main(&args),
        Some(Benchmark::Start(args)) => start::main(&args),
        Some(Benchmark::Tune(args)) => tune::main(&args),
        Some(Benchmark::Turn) => turn::dfs(),
        Some(Benchmark::Variation(args)) => variation::main(&args),
        Some(Benchmark::Wake(args)) => wake::main(&args),
        Some(Benchmark::Watch(args)) => watch::main(&args),
        None => all(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmarks that need neither a guest nor other packages, with their defaults.
fn all() -> anyhow::Result<()> {
    physics::main()?;
    turn::dfs()?;
    turn::policies(&turn::PolicyArgs::default())?;
    counters::main()?;
    start::main(&start::Args::default())?;
    profile::main(&profile::Args::default())?;
    overhead::main(&overhead::Args::default())?;
    wake::main(&wake::Args::default())
}

/// Sets nice 0, which the measured programs inherit from this process.
fn set_normal_priority() {
    let nice = linux::system::own_nice();
    if nice != 0 && linux::system::set_own_nice(0).is_err() {
        println!("measured at nice {nice}: wall times depend on other load on this machine");
    }
}

/// Returns the root directory of the repository.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("bench is a directory of the repository").to_owned()
}
