//! Time until memory and tasks are on the same node, and pages moved until then, with watch, with the kernel's NUMA
//! balancing and with numad, in a guest with two nodes.
//!
//! ```text
//!   before      node 0: all memory, half of the programs        node 1: the other half
//!   converged   every program has at least 90 % of its memory on the node that it runs on,
//!               and remains so for some seconds
//! ```
//!
//! The number of programs equals the number of CPUs, so that load balancing migrates no task. No program is bound. The
//! kernel counts all page migrations (`pgmigrate_success` in /proc/vmstat). The measurement continues after
//! convergence, because page migrations in this time are unnecessary; the maximum over the rounds is printed. The guest
//! is emulated, so its times are comparable only with each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use base::CpuSet;

use crate::evenkeel;
use crate::guest::{self, NumaGuest};
use crate::kernel::node_pages::{anonymous_by_node, pages_of_vmstat};
use crate::processes::{self, Mechanism, NUMA_BALANCING, ProcessSet, Watcher};
use crate::stats::MedianRange;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Set the number of rounds, each with all four mechanisms
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Set the memory of each program in MiB; numad ignores programs below 300 MiB
    #[arg(long, default_value_t = 350)]
    size_mib: u64,
    /// End a run after this many seconds without convergence
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Set the time in seconds that the placement must stay converged, and that is measured afterwards
    #[arg(long, default_value_t = 5)]
    stay: u64,
    /// Set the policy of watch
    #[arg(long, default_value = "dfs[interval=1s,memory=follow]")]
    policy: String,
    /// Print the decisions of watch in the last round, with reasons
    #[arg(long)]
    explain: bool,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Set in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

const N_NODES: u32 = 2;
const N_CPUS: u32 = 4;
/// Path of the journal in the guest.
const JOURNAL: &str = "/tmp/convergence.jsonl";
const MECHANISMS: [Mechanism; 4] =
    [Mechanism::Nothing, Mechanism::NumaBalancing, Mechanism::WatchAct, Mechanism::Numad];

/// Boots the guest and runs the measurement in the guest.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.inside {
        return measure(args);
    }
    guest::need("numad", "numad")?;
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    let each = args.timeout + 2 * args.stay + 60;
    let limit = Duration::from_secs(300 + 2 * each * 4 * u64::from(args.rounds.max(1)));
    NumaGuest { n_nodes: N_NODES, n_cpus: N_CPUS, n_threads: 1, memory: "6G", limit, kernel: "" }
        .run(&tool, None)
}

/// Result of one run.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Convergence {
    /// Seconds until convergence; `None` if not reached.
    converged_s: Option<f64>,
    /// MiB moved until convergence, or in total.
    moved_mib: f64,
    /// MiB moved after convergence.
    after_mib: f64,
    /// Number of samples in which a program was on another node than in the previous sample.
    n_node_changes: u32,
    /// Share of all memory that is on the node of its program at the end.
    local_share: f64,
}

fn measure(args: &Args) -> anyhow::Result<()> {
    let tool = args.tool.clone().context("--inside needs --tool")?;
    println!("{N_CPUS} programs of {} MiB on {N_CPUS} CPUs and {N_NODES} nodes", args.size_mib);
    println!("watch with the policy {}; numad scans every second", args.policy);
    println!(
        "median (lowest to highest) of {} rounds, alternating; without convergence, MiB migrated are the",
        args.rounds.max(1)
    );
    println!("total; migrated later: maximum of a round; node changes and local memory: medians");
    let mut all: [Vec<Convergence>; 4] = Default::default();
    for round in 0..args.rounds.max(1) {
        for (mechanism, outcomes) in MECHANISMS.into_iter().zip(&mut all) {
            let name = format!("convergence-{round}-{}", mechanism.name());
            outcomes.push(guest::stored(&name, || outcome(mechanism, &tool, args))?);
        }
    }
    println!(
        "{:<15} {:>9} {:>20} {:>23} {:>9} {:>12} {:>8}",
        "mechanism",
        "converged",
        "after s",
        "MiB migrated until then",
        "later",
        "node changes",
        "local"
    );
    for (mechanism, outcomes) in MECHANISMS.into_iter().zip(&all) {
        row(mechanism, outcomes);
    }
    println!("moves by numad: {}", processes::numad_moves());
    if args.explain {
        let explanation = Command::new(&tool).args(["explain", JOURNAL]).output()?;
        print!("{}", String::from_utf8_lossy(&explanation.stdout));
    }
    Ok(())
}

fn row(mechanism: Mechanism, outcomes: &[Convergence]) {
    let spread =
        |value: fn(&Convergence) -> f64| MedianRange::of(outcomes.iter().map(value).collect());
    let converged: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.converged_s).collect();
    let n_converged = format!("{} of {}", converged.len(), outcomes.len());
    let after = match converged.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.1}", MedianRange::of(converged)),
    };
    println!(
        "{:<15} {n_converged:>9} {after:>20} {:>23} {:>9.0} {:>12.0} {:>7.0}%",
        mechanism.name(),
        format!("{:.0}", spread(|outcome| outcome.moved_mib)),
        spread(|outcome| outcome.after_mib).high,
        spread(|outcome| f64::from(outcome.n_node_changes)).median,
        100.0 * spread(|outcome| outcome.local_share).median,
    );
}

fn outcome(mechanism: Mechanism, tool: &Path, args: &Args) -> anyhow::Result<Convergence> {
    fs::write(NUMA_BALANCING, "0")?;
    let nodes = NodeCpus::read()?;
    let programs = Programs::start(tool, args.size_mib, &nodes)?;
    let moved_before = moved_pages()?;
    fs::write(NUMA_BALANCING, if mechanism == Mechanism::NumaBalancing { "1" } else { "0" })?;
    let _ = fs::remove_file(JOURNAL);
    let options = ["--policy", &args.policy, "--journal", JOURNAL];
    let command = mechanism.command(tool, 1, &options);
    let mut watcher = command.map(Watcher::start).transpose()?;
    let outcome = observe(&programs, &nodes, args, moved_before);
    if let Some(watcher) = &mut watcher {
        watcher.end()?;
    }
    outcome
}

/// Samples four times per second until placement has stayed converged for the given time, or until the timeout.
fn observe(
    programs: &Programs,
    nodes: &NodeCpus,
    args: &Args,
    moved_before: u64,
) -> anyhow::Result<Convergence> {
    let (begin, stay) = (Instant::now(), Duration::from_secs(args.stay));
    let timeout = Duration::from_secs(args.timeout);
    let mut since: Option<(Duration, u64)> = None;
    let (mut n_node_changes, mut last) = (0, Vec::new());
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let (at, moved) = (begin.elapsed(), moved_pages()?);
        let samples = programs.sample(nodes)?;
        let now: Vec<u32> = samples.iter().map(|sample| sample.runs_on).collect();
        n_node_changes += now.iter().zip(&last).filter(|(now, last)| now != last).count() as u32;
        last = now;
        let is_local = samples.iter().all(|sample| 0.9 <= sample.share());
        since = if is_local { since.or(Some((at, moved))) } else { None };
        let is_finished = match since {
            Some((converged, _)) => converged + 2 * stay <= at,
            None => timeout <= at,
        };
        if !is_finished {
            continue;
        }
        let local: u64 = samples.iter().map(|sample| sample.local_kib).sum();
        let all: u64 = samples.iter().map(|sample| sample.all_kib).sum();
        let until = since.map_or(moved, |(_, moved)| moved);
        return Ok(Convergence {
            converged_s: since.map(|(at, _)| at.as_secs_f64()),
            moved_mib: mib(until - moved_before),
            after_mib: mib(moved - until),
            n_node_changes,
            local_share: local as f64 / all.max(1) as f64,
        });
    }
}

fn mib(pages: u64) -> f64 {
    pages as f64 * 4096.0 / f64::from(1 << 20)
}

/// Reads the number of pages migrated since boot.
fn moved_pages() -> anyhow::Result<u64> {
    pages_of_vmstat("pgmigrate_success")
}

/// The CPUs of each node.
struct NodeCpus(Vec<CpuSet>);

impl NodeCpus {
    fn read() -> anyhow::Result<Self> {
        let cpus = |node| {
            let path = format!("/sys/devices/system/node/node{node}/cpulist");
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            Ok(text.trim().parse()?)
        };
        (0..N_NODES).map(cpus).collect::<anyhow::Result<_>>().map(NodeCpus)
    }

    fn node_of(&self, cpu: u32) -> Option<u32> {
        let node = self.0.iter().position(|cpus| cpus.contains(base::CpuId(cpu)))?;
        u32::try_from(node).ok()
    }

    fn all(&self) -> CpuSet {
        self.0.iter().fold(CpuSet::new(), |all, cpus| all.or(cpus))
    }
}

/// The node of a program, and the share of its memory on this node.
struct PlacementSample {
    runs_on: u32,
    local_kib: u64,
    all_kib: u64,
}

impl PlacementSample {
    fn share(&self) -> f64 {
        self.local_kib as f64 / self.all_kib.max(1) as f64
    }
}

/// Programs with all memory on node 0; half of the programs run on node 1.
struct Programs {
    _processes: ProcessSet,
    pids: Vec<u32>,
}

impl Programs {
    fn start(tool: &Path, size_mib: u64, nodes: &NodeCpus) -> anyhow::Result<Self> {
        linux::affinity::set(0, &nodes.0[0])?;
        let processes = ProcessSet::start_hogs(0, N_CPUS, tool, size_mib);
        linux::affinity::set(0, &nodes.all())?;
        let processes = processes?;
        let pids = processes.larger_than(size_mib << 10);
        // Migrates half of the programs to the other node, then allows all CPUs again.
        for (&pid, cpus) in pids.iter().zip(nodes.0.iter().cycle()) {
            bind(pid, cpus)?;
        }
        std::thread::sleep(Duration::from_secs(1));
        for &pid in &pids {
            bind(pid, &nodes.all())?;
        }
        Ok(Programs { _processes: processes, pids })
    }

    fn sample(&self, nodes: &NodeCpus) -> anyhow::Result<Vec<PlacementSample>> {
        let sample = |&pid: &u32| {
            let stat = linux::procfs::stat("/".as_ref(), pid)
                .context("a program exited during the measurement")?;
            let runs_on = nodes.node_of(stat.last_cpu).context("a CPU without a node")?;
            let memory = anonymous_by_node(pid);
            let local_kib = memory.get(&runs_on).copied().unwrap_or(0) / 1024;
            Ok(PlacementSample { runs_on, local_kib, all_kib: memory.values().sum::<u64>() / 1024 })
        };
        self.pids.iter().map(sample).collect()
    }
}

fn bind(pid: u32, cpus: &CpuSet) -> anyhow::Result<()> {
    for tid in linux::procfs::threads("/".as_ref(), pid)? {
        linux::affinity::set(tid, cpus)?;
    }
    Ok(())
}
