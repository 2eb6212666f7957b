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
mod lies;
mod scenes;

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
/// What its NUMA balancing moved in a run, in pages; beside the journal.
const MIGRATED: &str = "migrated";
/// The machine of a simulated run: the guest's, with as much memory as was free there.
const FREE: &str = "free.toml";
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
        // A scene takes some seconds more than its jobs where the host has other work.
        let each_s = chosen(args)?.iter().map(|scene| u64::from(scene.ends_s) + 20).sum::<u64>();
        let limit = Duration::from_secs(120 + u64::from(args.rounds.max(1)) * each_s);
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
    let balanced_before = fs::read_to_string(BALANCING)?;
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
            fs::write(BALANCING, if scene.balances { "1" } else { "0" })?;
            let moved = migrated_pages()?;
            let (out, seed) = (format!("guest-{round}"), (round + 1).to_string());
            let started = start(tool, scene, &place, &out, &["--seed", &seed])?;
            let (status, looks) = lies::watch(started)?;
            check(&place, status)?;
            if scene.has_memory() {
                fs::write(place.join(&out).join(lies::FILE), looks)?;
            }
            let moved = (migrated_pages()? - moved).to_string();
            fs::write(place.join(out).join(MIGRATED), moved)?;
        }
    }
    fs::write(BALANCING, balanced_before)?;
    // Last: it tells that all runs are there.
    fs::write(folder.join(MACHINE), text)?;
    Ok(())
}

/// Pages that NUMA balancing has moved since the kernel booted.
fn migrated_pages() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("numa_pages_migrated "));
    line.and_then(|n| n.trim().parse().ok()).context("/proc/vmstat has no numa_pages_migrated")
}

/// Begins a run of the scene in a folder.
fn start(
    tool: &Path,
    scene: &Scene,
    place: &Path,
    out: &str,
    more: &[&str],
) -> anyhow::Result<Child> {
    // What is left of a try before: a run writes into no folder that holds one.
    let _ = fs::remove_dir_all(place.join(out));
    Command::new(tool)
        .args(["run", scenes::WORKLOAD, "--quiet", "--policy", scene.policy, "--out", out])
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
        false => bail!("evenkeel run in {} ended with {status}", place.display()),
    }
}

/// Instructions that the simulated CPUs of a machine do in a nanosecond, one a cycle.
fn per_ns(machine: &Machine) -> anyhow::Result<scenes::PerNs> {
    let hardware = Hardware::new(machine);
    Ok(hardware.cpus.first().context("the machine has no CPU")?.ghz)
}

/// Simulates each scene with and without chance, and prints it beside the guest's runs.
fn compare(args: &Args, tool: &Path, folder: &Path) -> anyhow::Result<()> {
    let file = folder.join(MACHINE);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let per_ns = per_ns(&topology::file::parse_toml(&text, MACHINE)?)?;
    println!("median (lowest to highest); a difference whose ranges do not meet has a *");
    for scene in chosen(args)? {
        let place = fs::canonicalize(folder)?.join(scene.name);
        let real = runs(scene, &place)?;
        let Some(first) = real.first() else {
            println!("\n{}: the guest did not run it", scene.name);
            continue;
        };
        let n_seeds = args.seeds.max(1).div_ceil(real.len() as u64);
        let mut simulated = Vec::new();
        for run in &real {
            scene.write(&place, per_ns, &run.starts_s)?;
            fs::write(place.join(FREE), with_what_was_free(&run.machine)?)?;
            simulated.extend(simulate(n_seeds, tool, scene, &place, "on,start=off")?);
        }
        scene.write(&place, per_ns, &first.starts_s)?;
        let plain = simulate(1, tool, scene, &place, "off")?;
        let figures: Vec<Figures> = real.iter().map(|run| run.figures).collect();
        print(scene, &figures, &simulated, &plain);
        causes(scene, &real);
        if scene.balances {
            println!("  guest: numa_pages_migrated grew by {:.0} MiB", migrated_mib(&place)?);
        }
    }
    Ok(())
}

/// A machine file of the guest with as much memory as was free when a run began there.
fn with_what_was_free(machine: &Machine) -> anyhow::Result<String> {
    let mut file = MachineFile::from(machine);
    for node in &mut file.nodes {
        node.memory_bytes = node.memory_free_bytes.or(node.memory_bytes);
    }
    Ok(topology::file::to_toml(&Machine::try_from(file)?))
}

/// What NUMA balancing moved in the guest's runs of the scene in a folder.
fn migrated_mib(place: &Path) -> anyhow::Result<Spread> {
    let of = |run: &PathBuf| -> anyhow::Result<f64> {
        let pages: u64 = fs::read_to_string(run.join(MIGRATED))?.trim().parse()?;
        Ok(pages as f64 * 4096.0 / 1_048_576.0)
    };
    Ok(Spread::of(folders(place)?.iter().map(of).collect::<anyhow::Result<_>>()?))
}

fn simulate(
    seeds: u64,
    tool: &Path,
    scene: &Scene,
    place: &Path,
    chance: &str,
) -> anyhow::Result<Vec<Figures>> {
    let out = "simulated";
    let balances = if scene.balances { "on" } else { "off" };
    let mut all = Vec::new();
    for seed in 1..=seeds {
        let seed = seed.to_string();
        let more = ["--host", "sim", "--machine", FREE, "--no-contention", "--numa-balancing"];
        let more = [&more[..], &[balances, "--seed", &seed, "--chance", chance]].concat();
        check(place, start(tool, scene, place, out, &more)?.wait()?)?;
        all.push(read(scene, &place.join(out))?.figures);
        fs::remove_dir_all(place.join(out))?;
    }
    Ok(all)
}

/// The guest's runs of the scene in a folder.
fn runs(scene: &Scene, place: &Path) -> anyhow::Result<Vec<Run>> {
    folders(place)?.iter().map(|folder| read(scene, folder)).collect()
}

/// Where the guest's runs of a scene lie.
fn folders(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten() {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("guest-") {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

/// A run of a scene, out of its folder.
fn read(scene: &Scene, run: &Path) -> anyhow::Result<Run> {
    let from_s = if scene.is_endless() { scenes::SETTLES_S } else { 0.0 };
    figures::of(&run.join("journal.jsonl"), from_s, f64::from(scene.ends_s))
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
    let memory: &[Row] = if scene.has_memory() { figures::MEMORY } else { &[] };
    for (name, figure) in own.iter().chain(figures::ALWAYS).chain(memory) {
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
