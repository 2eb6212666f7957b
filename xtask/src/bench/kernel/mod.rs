//! The kernel of the simulator beside a real one: the same jobs, the same machine, the same figures.
//!
//! ```text
//!   guest        evenkeel run SCENE --policy linux       ─► journals ┐
//!     and its machine file ──┐                                       ├─► figures side by side
//!   simulator    evenkeel run SCENE --policy linux --host sim ─► … ──┘   with chance, and without
//! ```
//!
//! In the guest a program takes long to start, so the simulator's begin when the guest's did: each of its runs
//! is simulated with several seeds, and what is compared is what both kernels made of the same arrivals.
//!
//! The guest has a thread of the host for each CPU, and these share what the host has: its CPU times and its
//! clock both go on meanwhile, so that tasks and balancing see a machine whose CPUs stutter. Where jobs do not
//! end, only what happens once all run is counted. evenkeel itself
//! runs in it four times a second, which nobody does in the simulator.

mod figures;
mod scenes;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use base::CpuId;
use host_sim::hardware::Hardware;
use topology::Machine;

use super::guest::Guest;
use super::stats::Spread;
use super::tool;
use figures::{Figures, Row, Run};
use scenes::Scene;

/// How often, and what is there already.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Runs of each scene in the guest
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seeds of each scene in the simulator
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Only these scenes
    #[arg(long, value_delimiter = ',')]
    scenes: Vec<String>,
    /// Keep the guest's runs in this folder, and take those that are there instead of booting a guest
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The built program, where this one was built elsewhere
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Already in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

/// The file of the guest's machine, in the folder of its runs.
const MACHINE: &str = "machine.toml";
/// Interrupts that an emulated CPU is slow to serve count as time of the task that they interrupt: else much
/// of the time would be nobody's.
const KERNEL: &str = "tsc=noirqtime";
/// In the guest's memory: programs are not read through the host's files at each start.
const PROGRAM: &str = "/dev/shm/evenkeel";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Boots the guest and lets it run every scene, then simulates the same and prints both.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.inside {
        return run_scenes(args);
    }
    let tool = tool::given_or_built(args.tool.as_deref())?;
    let own = std::env::temp_dir().join(format!("evenkeel-bench-kernel-{}", std::process::id()));
    let folder = args.keep.clone().unwrap_or_else(|| own.clone());
    if !folder.join(MACHINE).is_file() {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = fs::canonicalize(&folder)?;
        // A scene takes some seconds, more than twice as many where the host has other work.
        let n_runs = u64::from(args.rounds.max(1)) * chosen(args)?.len() as u64;
        let limit = Duration::from_secs(120 + 30 * n_runs);
        let guest = Guest { n_nodes: 4, n_cpus: 8, memory: "4G", limit, kernel: KERNEL };
        guest.run_sharing(&words(args, &tool, &folder), &folder)?;
    }
    let compared = compare(args, &tool, &folder);
    if args.keep.is_none() {
        let _ = fs::remove_dir_all(&own);
    }
    compared
}

/// The scenes that were asked for.
fn chosen(args: &Args) -> anyhow::Result<Vec<&'static Scene>> {
    for name in &args.scenes {
        if !scenes::ALL.iter().any(|scene| scene.name == name) {
            let known: Vec<_> = scenes::ALL.iter().map(|scene| scene.name).collect();
            bail!("there is no scene {name}: write some of {}", known.join(","));
        }
    }
    let is_chosen = |scene: &&Scene| {
        args.scenes.is_empty() || args.scenes.iter().any(|name| name == scene.name)
    };
    Ok(scenes::ALL.iter().filter(is_chosen).collect())
}

/// The same again, for the guest.
fn words(args: &Args, tool: &Path, folder: &Path) -> Vec<String> {
    let mut words = ["bench", "kernel", "--inside"].map(str::to_owned).to_vec();
    let mut option = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    option("--rounds", args.rounds.to_string());
    option("--keep", folder.display().to_string());
    option("--tool", tool.display().to_string());
    if !args.scenes.is_empty() {
        option("--scenes", args.scenes.join(","));
    }
    words
}

/// In the guest: every scene so many times, in turn.
fn run_scenes(args: &Args) -> anyhow::Result<()> {
    let tool = args.tool.as_deref().context("the guest is told where evenkeel lies")?;
    fs::copy(tool, PROGRAM).with_context(|| format!("cannot copy {}", tool.display()))?;
    let tool = Path::new(PROGRAM);
    let folder = args.keep.clone().context("the guest is told where to write")?;
    fs::write(BALANCING, "0")?;
    let machine = Command::new(tool).args(["machine", "--toml"]).output()?.stdout;
    let text = String::from_utf8(machine)?;
    let per_ns = per_ns(&topology::file::parse_toml(&text, MACHINE)?)?;
    for round in 0..args.rounds.max(1) {
        for scene in chosen(args)? {
            let place = folder.join(scene.name);
            scene.write(&place, per_ns, &[])?;
            if place.join(format!("guest-{round}/report.json")).is_file() {
                continue; // From before the guest failed.
            }
            println!("guest: {} {}", scene.name, round + 1);
            run(tool, &place, &format!("guest-{round}"), &[])?;
        }
    }
    // Last: it tells that all runs are there.
    fs::write(folder.join(MACHINE), text)?;
    Ok(())
}

/// One run of the scene in a folder.
fn run(tool: &Path, place: &Path, out: &str, more: &[&str]) -> anyhow::Result<()> {
    // What is left of a try before: a run writes into no folder that holds one.
    let _ = fs::remove_dir_all(place.join(out));
    let done = Command::new(tool)
        .args(["run", scenes::WORKLOAD, "--quiet", "--policy", "linux", "--out", out])
        .args(more)
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot start evenkeel")?;
    if !done.success() {
        bail!("evenkeel run in {} ended with {done}", place.display());
    }
    Ok(())
}

/// Instructions that the simulated CPUs of a machine do in a nanosecond, one a cycle.
fn per_ns(machine: &Machine) -> anyhow::Result<scenes::PerNs> {
    let hardware = Hardware::new(machine);
    Ok(hardware.cpus.first().context("the machine has no CPU")?.ghz)
}

/// Simulates each scene with and without chance, and prints it beside the guest's runs.
fn compare(args: &Args, tool: &Path, folder: &Path) -> anyhow::Result<()> {
    let file = fs::canonicalize(folder)?.join(MACHINE);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let per_ns = per_ns(&topology::file::parse_toml(&text, MACHINE)?)?;
    println!("median (lowest to highest); a difference whose ranges do not meet has a *");
    for scene in chosen(args)? {
        let place = folder.join(scene.name);
        let from_s = if scene.is_endless() { scenes::SETTLES_S } else { 0.0 };
        let real = runs(&place, from_s)?;
        let Some(first) = real.first() else {
            println!("\n{}: the guest did not run it", scene.name);
            continue;
        };
        let n_seeds = args.seeds.max(1).div_ceil(real.len() as u64);
        let mut simulated = Vec::new();
        for run in &real {
            scene.write(&place, per_ns, &run.starts_s)?;
            simulated.extend(simulate(n_seeds, tool, (&place, from_s), &file, "on,start=off")?);
        }
        scene.write(&place, per_ns, &first.starts_s)?;
        let plain = simulate(1, tool, (&place, from_s), &file, "off")?;
        let figures: Vec<Figures> = real.iter().map(|run| run.figures).collect();
        print(scene, &figures, &simulated, &plain);
        causes(scene, &real);
    }
    Ok(())
}

fn simulate(
    seeds: u64,
    tool: &Path,
    (place, from_s): (&Path, f64),
    machine: &Path,
    chance: &str,
) -> anyhow::Result<Vec<Figures>> {
    let machine = machine.display().to_string();
    let out = "simulated";
    let mut all = Vec::new();
    for seed in 1..=seeds {
        let seed = seed.to_string();
        let more = ["--host", "sim", "--machine", &machine, "--no-contention", "--numa-balancing"];
        let more = [&more[..], &["off", "--seed", &seed, "--chance", chance]].concat();
        run(tool, place, out, &more)?;
        all.push(figures::of(&place.join(out).join("journal.jsonl"), from_s)?.figures);
        fs::remove_dir_all(place.join(out))?;
    }
    Ok(all)
}

/// The guest's runs of the scene in a folder.
fn runs(place: &Path, from_s: f64) -> anyhow::Result<Vec<Run>> {
    let mut journals: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten() {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("guest-") {
            journals.push(entry.path().join("journal.jsonl"));
        }
    }
    journals.sort();
    journals.iter().map(|journal| figures::of(journal, from_s)).collect()
}

fn print(scene: &Scene, real: &[Figures], simulated: &[Figures], plain: &[Figures]) {
    println!("\n{}: {} ({} runs, {} seeds)", scene.name, scene.asks, real.len(), simulated.len());
    println!(
        "  {:<27} {:>23} {:>23} {:>9} {:>9}",
        "", "guest", "simulator", "no chance", "differs"
    );
    let spread = |runs: &[Figures], figure: fn(&Figures) -> f64| {
        Spread::of(runs.iter().map(figure).collect())
    };
    let own: &[Row] = if scene.is_endless() { figures::ENDLESS } else { figures::ENDING };
    for (name, figure) in own.iter().chain(figures::ALWAYS) {
        let (guest, sim) = (spread(real, *figure), spread(simulated, *figure));
        let is_apart = guest.high < sim.low || sim.high < guest.low;
        println!(
            "  {name:<27} {:>23} {:>23} {:>9.2} {:>+8.2}{}",
            format!("{guest:.2}"),
            format!("{sim:.2}"),
            spread(plain, *figure).median,
            sim.median - guest.median,
            if is_apart { "*" } else { " " },
        );
    }
    if !scene.is_endless() {
        let part = |runs: &[Figures]| {
            let whole = spread(runs, |f| f.whole_s);
            format!("{:.1} %", 100.0 * (whole.high - whole.low) / whole.median)
        };
        let (guest, sim) = (part(real), part(simulated));
        println!("  {:<27} {guest:>23} {sim:>23}", "whole times lie within");
    }
}

/// What differed between the guest's runs before a kernel had chosen anything: sources for causes of chance.
fn causes(scene: &Scene, real: &[Run]) {
    let due = scene.due_s();
    let late = |run: &Run| -> Vec<f64> {
        run.starts_s.iter().zip(&due).map(|(start, due)| 1000.0 * (start - due)).collect()
    };
    let late = Spread::of(real.iter().flat_map(late).collect());
    let cpus: BTreeSet<CpuId> = real.iter().filter_map(|run| run.first_cpu).collect();
    let cpus: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
    println!(
        "  guest: jobs begin {late:.0} ms late; the first was seen first on cpu {}",
        cpus.join(", ")
    );
}
