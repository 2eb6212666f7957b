//! `cargo xtask bench …`: what evenkeel costs, measured on the machine at hand.
//!
//! Machines are shared and noisy, so an absolute time is not a result. What is printed are shares of
//! a CPU by the kernel's own accounting, and ratios of things run in turn (A B A B), as median and
//! spread over several windows or rounds. Everything runs at normal priority; where the kernel does not
//! permit that, the nice value stands before the figures.

mod chance;
mod compare;
mod counters;
mod crowd;
mod guest;
mod harm;
mod kernel;
mod numad;
mod overhead;
mod physics;
mod policies;
mod profile;
mod settle;
mod simgrid;
mod simulator;
mod start;
mod stats;
mod tool;
mod turn;
mod wake;
mod watch;
mod watcher;

use clap::{Args as ClapArgs, Subcommand};

/// What to measure.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// CPU and memory that evenkeel uses while 0, 16, 100 and 1000 jobs sleep or are busy
    Overhead(overhead::Args),
    /// How right the cache model of profiles is: against exact distances, and against cachegrind
    Profile(profile::Args),
    /// How right the physics of the simulated machine is: copies, pairs, remote memory, each judged on data
    /// left out of the fit
    Physics,
    /// Start-up to the first job, and jobs started per second, beside a shell loop
    Start(start::Args),
    /// CPU time of a whole turn: from a sample to an approved plan, 10,000 tasks on 512 CPUs
    Turn,
    /// Whether watch does harm on a balanced machine: work and run times with and without
    Harm(harm::Args),
    /// CPU time of one turn of every policy, 10,000 tasks on 1,024 CPUs
    Policies(policies::Args),
    /// Events and simulated job-seconds for each second of CPU time of the simulator
    Simulator(simulator::Args),
    /// The simulator beside SimGrid on the same jobs: completed jobs for each second of CPU time
    Simgrid(simgrid::Args),
    /// How long a comparison of 12 policies on 10 workloads with 20 seeds takes in the simulator
    Compare(compare::Args),
    /// How much CPU times and sleeps differ from run to run: sources of the simulator's chance
    Chance(chance::Args),
    /// Cost of a counter sample of a task: a group of four software events
    Counters,
    /// How the simulator's kernel spreads tasks beside a real one, in a guest with four nodes
    Kernel(kernel::Args),
    /// CPU time, system calls and memory of watch beside those of numad, in a guest with two nodes
    Numad(numad::Args),
    /// How long until memory and tasks are together again, and pages moved: watch beside the kernel's
    /// balancing and numad, in a guest with two nodes
    Settle(settle::Args),
    /// CPU time, system calls and memory of watch beside thousands of sleeping processes
    Watch(watch::Args),
    /// CPU of evenkeel while it waits for counters to overflow, beside polling
    Wake(wake::Args),
}

/// Measures one thing, or everything with its defaults.
pub fn main(args: Args) -> anyhow::Result<()> {
    take_normal_priority();
    match args.what {
        Some(What::Overhead(args)) => overhead::main(&args),
        Some(What::Profile(args)) => profile::main(&args),
        Some(What::Start(args)) => start::main(&args),
        Some(What::Harm(args)) => harm::main(&args),
        Some(What::Chance(args)) => chance::main(&args),
        Some(What::Kernel(args)) => kernel::main(&args),
        Some(What::Numad(args)) => numad::main(&args),
        Some(What::Settle(args)) => settle::main(&args),
        Some(What::Watch(args)) => watch::main(&args),
        Some(What::Simgrid(args)) => simgrid::main(&args),
        Some(What::Simulator(args)) => simulator::main(&args),
        Some(What::Compare(args)) => compare::main(&args),
        Some(What::Turn) => turn::run(),
        Some(What::Policies(args)) => policies::main(&args),
        Some(What::Physics) => physics::run(),
        Some(What::Counters) => counters::run(),
        Some(What::Wake(args)) => wake::run(&args),
        None => {
            physics::run()?;
            turn::run()?;
            policies::main(&policies::Args::default())?;
            counters::run()?;
            start::main(&start::Args::default())?;
            profile::main(&profile::Args::default())?;
            overhead::main(&overhead::Args::default())?;
            wake::run(&wake::Args::default())
        }
    }
}

/// What is measured inherits the priority of this thread: a bench begun below `nice` would measure who
/// else is on the machine.
fn take_normal_priority() {
    let nice = linux::system::own_nice();
    if nice != 0 && linux::system::set_own_nice(0).is_err() {
        println!("measured at nice {nice}: times by the clock show whoever goes before");
    }
}
