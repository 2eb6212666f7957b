//! Task and memory placement of the simulated kernel and of a real kernel, on the same machine with the same jobs.
//!
//! ```text
//!   guest        evenkeel run SCENARIO --policy linux       ─► journals ┐
//!     and its machine file ──┐                                       ├─► metrics side by side
//!   simulator    evenkeel run SCENARIO --policy linux --host sim ─► … ──┘   with and without random variation
//! ```
//!
//! Programs start slowly in the guest, so the simulated jobs start at the times of the guest's jobs. Each guest run is
//! simulated with several seeds. The comparison covers the decisions of both kernels for the same start times.
//!
//! The guest has one host thread per CPU, and these threads share the CPUs of the host. While a host thread waits, CPU
//! time and clock of the guest advance: a guest CPU then appears stalled to tasks and load balancing. For endless jobs,
//! only the time in which all jobs of the first group run counts. evenkeel itself runs in the guest four times per
//! second, but not in the simulation. Runs that other load of the host disturbed are repeated ([`host_load`]).
//!
//! Scenarios with SMT siblings run in a guest of their own. CPUs of unlike capacity are not compared: an x86 guest has
//! none.

mod host_load;
mod metrics;
pub mod node_pages;
mod scenarios;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use base::CpuId;
use host_sim::hardware::Hardware;
use topology::Machine;
use topology::file::MachineFile;

use crate::evenkeel;
use crate::guest::NumaGuest;
use crate::processes::NUMA_BALANCING;
use crate::stats::MedianRange;
use metrics::{KernelRun, Metrics};
use node_pages::pages_of_vmstat;
use scenarios::KernelScenario;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Set the number of runs of each scenario in the guest; up to as many disturbed runs are repeated
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Set the number of seeds of each scenario in the simulator
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Run only these scenarios (default: all)
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Keep the guest's runs in this directory; if it has runs already, use them instead of booting a guest
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Set in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

/// Machine file of the guest, in the directory of its runs.
const MACHINE: &str = "machine.toml";
/// Kernel option that accounts interrupt time to the interrupted task. Interrupt time is long on an emulated CPU.
const KERNEL: &str = "tsc=noirqtime";
/// Copy of the executable in the memory of the guest, so that program starts do not read files of the host.
const PROGRAM: &str = "/dev/shm/evenkeel";
/// File with the pages that NUMA balancing migrated in a run; in the directory of the journal.
const MIGRATED: &str = "migrated";
/// Machine file of a simulated run: the machine of the guest with the memory that was free in the guest.
const FREE: &str = "free.toml";

/// Boots the guest, runs every scenario in the guest and in the simulator, and prints both results.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.inside {
        return run_scenarios(args);
    }
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    let temporary_dir =
        std::env::temp_dir().join(format!("evenkeel-bench-kernel-{}", std::process::id()));
    let dir = args.keep.clone().unwrap_or_else(|| temporary_dir.clone());
    let compared = [false, true].into_iter().try_for_each(|smt| {
        let mut scenarios = chosen(args)?;
        scenarios.retain(|scenario| scenario.smt == smt);
        let dir = if smt { dir.join("smt") } else { dir.clone() };
        if scenarios.is_empty() {
            return Ok(());
        }
        run_in_guest(args, &tool, &dir, &scenarios)?;
        compare(args, &tool, &dir, &scenarios)
    });
    println!("\nCPUs of unlike capacity: not run ({})", why_no_unlike_cpus());
    if args.keep.is_none() {
        let _ = fs::remove_dir_all(&temporary_dir);
    }
    compared
}

/// Runs the scenarios in a guest, unless the directory has their runs.
fn run_in_guest(
    args: &Args,
    tool: &Path,
    dir: &Path,
    scenarios: &[KernelScenario],
) -> anyhow::Result<()> {
    if dir.join(MACHINE).is_file() {
        return Ok(());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let dir = fs::canonicalize(dir)?;
    // The time includes some seconds of reserve for other load on the host.
    let each_s = scenarios.iter().map(|scenario| u64::from(scenario.ends_s) + 20).sum::<u64>();
    let limit = Duration::from_secs(120 + 2 * u64::from(args.rounds.max(1)) * each_s);
    let (n_nodes, n_threads) = if scenarios[0].smt { (2, 2) } else { (4, 1) };
    let guest = NumaGuest { n_nodes, n_cpus: 8, n_threads, memory: "4G", limit, kernel: KERNEL };
    guest.run(tool, Some(&dir))
}

/// Returns the reason why no guest with CPUs of unlike capacity runs. On x86, `cpu_capacity` of a guest is always 1024.
/// A device tree for Arm can contain unlike capacities (`capacity-dmips-mhz`).
fn why_no_unlike_cpus() -> &'static str {
    let has_qemu = Command::new("qemu-system-aarch64")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    match has_qemu {
        true => "scripts/numa-vm boots only x86 kernels",
        false => "qemu-system-aarch64 is not installed",
    }
}

/// Returns the selected scenarios.
fn chosen(args: &Args) -> anyhow::Result<Vec<KernelScenario>> {
    let mut all = scenarios::all()?;
    for name in &args.scenarios {
        if !all.iter().any(|scenario| scenario.name == *name) {
            let names: Vec<_> = all.iter().map(|scenario| scenario.name.as_str()).collect();
            bail!("unknown scenario {name}; available: {}", names.join(","));
        }
    }
    all.retain(|scenario| args.scenarios.is_empty() || args.scenarios.contains(&scenario.name));
    Ok(all)
}

/// Runs all scenarios of this guest `rounds` times, alternating, and repeats disturbed runs. Called in the guest.
fn run_scenarios(args: &Args) -> anyhow::Result<()> {
    let tool = args.tool.as_deref().context("--inside needs --tool")?;
    fs::copy(tool, PROGRAM).with_context(|| format!("cannot copy {}", tool.display()))?;
    let tool = Path::new(PROGRAM);
    let dir = args.keep.clone().context("--inside needs --keep")?;
    let balanced_before = fs::read_to_string(NUMA_BALANCING)?;
    let machine = Command::new(tool).args(["machine", "--toml"]).output()?.stdout;
    let text = String::from_utf8(machine)?;
    let machine = topology::file::parse_toml(&text, MACHINE)?;
    let per_ns = per_ns(&machine)?;
    let has_smt = machine.cores().iter().any(|core| 1 < core.cpus.iter().count());
    let mut scenarios = chosen(args)?;
    scenarios.retain(|scenario| scenario.smt == has_smt);
    let rounds = args.rounds.max(1);
    for round in 0..2 * rounds {
        for scenario in &scenarios {
            let place = dir.join(&scenario.name);
            scenario.write(&place, per_ns, &[])?;
            let n_kept = dirs(&place)?
                .iter()
                .filter(|run| run.join(MIGRATED).is_file())
                .filter(|run| !host_load::is_disturbed(host_load::read(run)))
                .count();
            if n_kept == rounds as usize
                || place.join(format!("guest-{round}/{MIGRATED}")).is_file()
            {
                continue; // The run was completed before a failure of the guest.
            }
            println!("guest: {} {}", scenario.name, round + 1);
            fs::write(NUMA_BALANCING, if scenario.balances { "1" } else { "0" })?;
            let moved = pages_of_vmstat("numa_pages_migrated")?;
            let (out, seed) = (format!("guest-{round}"), (round + 1).to_string());
            let slowdown = host_load::measure();
            let started = start(tool, scenario, &place, &out, &["--seed", &seed])?;
            let (status, samples) = node_pages::sample_until_exit(started)?;
            check(&place, status)?;
            if scenario.has_memory() {
                fs::write(place.join(&out).join(node_pages::FILE), samples)?;
            }
            let moved = (pages_of_vmstat("numa_pages_migrated")? - moved).to_string();
            host_load::write(&place.join(&out), slowdown.max(host_load::measure()))?;
            // This file is written last and marks the run as complete.
            fs::write(place.join(out).join(MIGRATED), moved)?;
        }
    }
    fs::write(NUMA_BALANCING, balanced_before)?;
    // This file is written last and marks the runs as complete.
    fs::write(dir.join(MACHINE), text)?;
    Ok(())
}

/// Starts a run of the scenario in a directory.
fn start(
    tool: &Path,
    scenario: &KernelScenario,
    place: &Path,
    out: &str,
    more: &[&str],
) -> anyhow::Result<Child> {
    // Removes an incomplete run: evenkeel does not overwrite runs.
    let _ = fs::remove_dir_all(place.join(out));
    Command::new(tool)
        .args(["run", scenarios::WORKLOAD, "--quiet", "--policy", &scenario.policy, "--out", out])
        .args(more)
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start evenkeel")
}

fn check(place: &Path, status: ExitStatus) -> anyhow::Result<()> {
    match status.success() {
        true => Ok(()),
        false => bail!("evenkeel run in {} exited with {status}", place.display()),
    }
}

/// Instructions per ns of the simulated CPUs, at one instruction per cycle.
fn per_ns(machine: &Machine) -> anyhow::Result<scenarios::PerNs> {
    let hardware = Hardware::new(machine);
    Ok(hardware.cpus.first().context("the machine has no CPU")?.speed.ghz)
}

/// Simulates each scenario with and without random variation, and prints the results beside those of the guest.
fn compare(
    args: &Args,
    tool: &Path,
    dir: &Path,
    scenarios: &[KernelScenario],
) -> anyhow::Result<()> {
    let file = dir.join(MACHINE);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let per_ns = per_ns(&topology::file::parse_toml(&text, MACHINE)?)?;
    println!("median (lowest to highest); * marks differences with disjoint ranges");
    println!("the range of n runs contains the true median with a probability of 1 - 2^(1-n)");
    for scenario in scenarios {
        let place = fs::canonicalize(dir)?.join(&scenario.name);
        let (kept, disturbed) = host_load::kept(dirs(&place)?);
        let real: Vec<KernelRun> =
            kept.iter().map(|dir| metrics::read(scenario, dir)).collect::<anyhow::Result<_>>()?;
        let Some(first) = real.first() else {
            println!("\n{}: no run in the guest", scenario.name);
            continue;
        };
        let n_seeds = args.seeds.max(1).div_ceil(real.len() as u64);
        let mut simulated = Vec::new();
        for run in &real {
            scenario.write(&place, per_ns, &run.starts_s)?;
            fs::write(place.join(FREE), with_free_memory(&run.machine)?)?;
            simulated.extend(simulate(n_seeds, tool, scenario, &place, "on,start=off")?);
        }
        scenario.write(&place, per_ns, &first.starts_s)?;
        let plain = simulate(1, tool, scenario, &place, "off")?;
        let guest: Vec<Metrics> = real.iter().map(|run| run.metrics.clone()).collect();
        print(scenario, &guest, &simulated, &plain);
        print_start_variation(scenario, &real);
        println!("  guest: {disturbed}");
        if scenario.balances {
            println!("  guest: numa_pages_migrated grew by {:.0} MiB", migrated_mib(&kept)?);
        }
    }
    Ok(())
}

/// Returns the machine file of the guest with the memory that was free at the start of a run.
fn with_free_memory(machine: &Machine) -> anyhow::Result<String> {
    let mut file = MachineFile::from(machine);
    for node in &mut file.nodes {
        node.memory_bytes = node.memory_free_bytes.or(node.memory_bytes);
    }
    Ok(topology::file::to_toml(&Machine::try_from(file)?))
}

/// Returns the MiB migrated by NUMA balancing in these runs of the guest.
fn migrated_mib(runs: &[PathBuf]) -> anyhow::Result<MedianRange> {
    let of = |run: &PathBuf| -> anyhow::Result<f64> {
        let pages: u64 = fs::read_to_string(run.join(MIGRATED))?.trim().parse()?;
        Ok(pages as f64 * 4096.0 / 1_048_576.0)
    };
    Ok(MedianRange::of(runs.iter().map(of).collect::<anyhow::Result<_>>()?))
}

fn simulate(
    seeds: u64,
    tool: &Path,
    scenario: &KernelScenario,
    place: &Path,
    variation: &str,
) -> anyhow::Result<Vec<Metrics>> {
    let out = "simulated";
    let balances = if scenario.balances { "on" } else { "off" };
    let mut all = Vec::new();
    for seed in 1..=seeds {
        let seed = seed.to_string();
        let more = ["--host", "sim", "--machine", FREE, "--no-contention", "--numa-balancing"];
        let more = [&more[..], &[balances, "--seed", &seed, "--variation", variation]].concat();
        check(place, start(tool, scenario, place, out, &more)?.wait()?)?;
        all.push(metrics::read(scenario, &place.join(out))?.metrics);
        fs::remove_dir_all(place.join(out))?;
    }
    Ok(all)
}

/// Lists the directories of the guest's runs of a scenario.
fn dirs(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten() {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("guest-") {
            dirs.push(entry.path());
        }
    }
    dirs.sort();
    Ok(dirs)
}

fn print(scenario: &KernelScenario, real: &[Metrics], simulated: &[Metrics], plain: &[Metrics]) {
    println!(
        "\n{}: {} ({} runs, {} seeds)",
        scenario.name,
        scenario.description,
        real.len(),
        simulated.len()
    );
    println!(
        "  {:<27} {:>23} {:>23} {:>9} {:>9}",
        "", "guest", "simulator", "no random", "differs"
    );
    let spread = |runs: &[Metrics], idx: usize| {
        MedianRange::of(runs.iter().map(|metrics| metrics[idx].1).collect())
    };
    for (idx, (name, _)) in real[0].iter().enumerate() {
        let (guest, sim) = (spread(real, idx), spread(simulated, idx));
        let is_apart = guest.high < sim.low || sim.high < guest.low;
        println!(
            "  {name:<27} {:>23} {:>23} {:>9.2} {:>+8.2}{}",
            format!("{guest:.2}"),
            format!("{sim:.2}"),
            spread(plain, idx).median,
            sim.median - guest.median,
            if is_apart { "*" } else { " " },
        );
    }
    if real[0][0].0 == metrics::MAKESPAN {
        let range = |runs: &[Metrics]| {
            let MedianRange { median, low, high } = spread(runs, 0);
            format!("{:.1} %", 100.0 * (high - low) / median)
        };
        println!("  {:<27} {:>23} {:>23}", "range of makespans", range(real), range(simulated));
    }
}

/// Prints the differences between the guest's runs before any decision of the kernel. These differences are data for
/// the random variation of the simulator.
fn print_start_variation(scenario: &KernelScenario, real: &[KernelRun]) {
    let due = scenario.due_s();
    let late = |run: &KernelRun| -> Vec<f64> {
        run.starts_s.iter().zip(&due).map(|(start, due)| 1000.0 * (start - due)).collect()
    };
    let late = MedianRange::of(real.iter().flat_map(late).collect());
    let cpus: BTreeSet<CpuId> = real.iter().filter_map(|run| run.first_cpu).collect();
    let cpus: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
    println!(
        "  guest: jobs start {late:.0} ms late; first CPU of the first job: {}",
        cpus.join(", ")
    );
}
