//! Time of `evenkeel restore` after a kill, with many processes, alone and while other programs fork all the time.
//!
//! A shell is the recorded process. Its children have the changed affinity and are not recorded, as after the kill of
//! a watch. Rounds without and with forking programs alternate (A B A B).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base::CpuSet;
use linux::undo::{Log, STATE_VARIABLE};
use linux::{affinity, procfs};

use crate::evenkeel;
use crate::processes::ProcessSet;
use crate::stats::{MedianRange, cpu_time_of_children};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the numbers of processes with a changed affinity
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1000, 10_000])]
    processes: Vec<u32>,
    /// Set the number of programs that fork
    #[arg(long, default_value_t = 3)]
    forkers: u32,
    /// Set the number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
}

/// A program that starts about a hundred children per second, each of which lives for two seconds.
const FORKER: &str = "while :; do sleep 2 & sleep 0.01; done";

/// The cost of one restore, in ms.
struct Cost {
    wall: f64,
    cpu: f64,
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    println!("evenkeel restore: median (lowest to highest) of {} rounds;", args.rounds);
    println!("{} programs fork about 100 processes per second each", args.forkers);
    println!("| processes | wall ms | CPU ms | wall ms while other programs fork | ratio |");
    println!("| --- | --- | --- | --- | --- |");
    for &n in &args.processes {
        let (mut alone, mut cpu, mut forking, mut ratios) = (vec![], vec![], vec![], vec![]);
        for _ in 0..args.rounds.max(1) {
            let [without, with] = [0, args.forkers].map(|n_forkers| restore(&tool, n, n_forkers));
            let (without, with) = (without?, with?);
            alone.push(without.wall);
            cpu.push(without.cpu);
            forking.push(with.wall);
            ratios.push(with.wall / without.wall);
        }
        let [alone, cpu, forking] = [alone, cpu, forking].map(MedianRange::of);
        let ratio = MedianRange::of(ratios);
        println!("| {n} | {alone:.0} | {cpu:.0} | {forking:.0} | {ratio:.2} |");
    }
    Ok(())
}

/// Starts processes, leaves them as a killed watch does, and measures a restore.
fn restore(tool: &Path, n_processes: u32, n_forkers: u32) -> anyhow::Result<Cost> {
    let temporary = tempfile::tempdir().context("cannot create a directory")?;
    let dir = temporary.path().join("state");
    let processes = ProcessSet::start_forkers(n_processes, n_forkers, FORKER)?;
    std::thread::sleep(Duration::from_millis(500)); // The forkers have children.
    let all = affinity::get(0)?;
    let first: CpuSet = all.first().into_iter().collect();
    change(processes.shell(), &dir, [&all, &first])?;
    let (begin, cpu_before) = (Instant::now(), cpu_time_of_children());
    let status = Command::new(tool)
        .arg("restore")
        .env(STATE_VARIABLE, &dir)
        .stdout(Stdio::null())
        .status()
        .context("cannot start evenkeel")?;
    let cost = Cost {
        wall: begin.elapsed().as_secs_f64() * 1e3,
        cpu: (cpu_time_of_children() - cpu_before).as_secs_f64() * 1e3,
    };
    let is_changed = |pid: &u32| affinity::get(*pid).is_ok_and(|mask| mask == first);
    let n_changed = descendants(processes.shell()).iter().filter(|pid| is_changed(pid)).count();
    if !status.success() || n_changed != 0 {
        bail!("evenkeel restore ended with {status}; {n_changed} processes are not restored");
    }
    Ok(cost)
}

/// Records the shell, and changes its affinity and the affinity of its descendants. Parents are changed first, so that
/// later children inherit the change.
fn change(shell: u32, dir: &Path, [all, first]: [&CpuSet; 2]) -> anyhow::Result<()> {
    // The header of a watch would exclude children that are older than the record.
    let mut log = Log::create_in(&[dir.to_owned()])?;
    let start = procfs::stat("/".as_ref(), shell)?.start_time_ticks;
    log.set("bench", [all, all, first], vec![(shell, start, shell)])?;
    affinity::set(shell, first)?;
    for pid in descendants(shell) {
        let _ = affinity::set(pid, first); // The process may have exited.
    }
    Ok(())
}

fn descendants(shell: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut parents = vec![shell];
    while let Some(parent) = parents.pop() {
        let children = procfs::all_children("/".as_ref(), parent).unwrap_or_default();
        parents.extend(&children);
        all.extend(children);
    }
    all
}
