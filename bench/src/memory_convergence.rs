//! Time until memory and tasks are on the same node, and pages moved for it: watch, the kernel's NUMA balancing
//! and numad, in a guest with two nodes.
//!
//! ```text
//!   before      node 0: all memory, half of the programs        node 1: the other half
//!   converged   every program has at least 90 % of its memory on the node that it runs on,
//!               and stays so for some seconds
//! ```
//!
//! There are as many programs as CPUs, so that the kernel has no reason to migrate tasks for load balancing. No program is
//! bound. The kernel counts page migrations (`pgmigrate_success` in /proc/vmstat), whatever requested them.
//! After convergence the measurement continues; pages moved in this time are wasted, and the maximum over the
//! rounds is printed. The guest is emulated: its times are only comparable with each other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use base::CpuSet;
use linux::numa_maps::{self, MappingKind};

use crate::evenkeel;
use crate::guest::{self, NumaGuest};
use crate::processes::{self, Watcher};
use crate::stats::MedianRange;

/// Options of `bench settle`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Set the number of rounds, each with all four mechanisms
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Set the memory of each program in MiB; numad ignores programs below 300 MiB
    #[arg(long, default_value_t = 350)]
    size_mib: u64,
    /// Give up after this many seconds without convergence
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Set the seconds that placement must stay converged, and the time measured after it
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
/// A file of the guest.
const JOURNAL: &str = "/tmp/settle.jsonl";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Boots the guest and measures there.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.inside {
        return measure(args);
    }
    guest::need("numad", "numad")?;
    let tool = evenkeel::given_or_built(args.tool.as_deref())?;
    let each = args.patience + 2 * args.stay + 60;
    let limit = Duration::from_secs(300 + 2 * each * 4 * u64::from(args.rounds.max(1)));
    NumaGuest { n_nodes: N_NODES, n_cpus: N_CPUS, memory: "6G", limit, kernel: "" }.run(&tool, None)
}

/// The mechanism that migrates tasks or pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Nothing,
    Kernel,
    Watch,
    Numad,
}

const ALL: [Mechanism; 4] =
    [Mechanism::Nothing, Mechanism::Kernel, Mechanism::Watch, Mechanism::Numad];

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Mechanism::Nothing => "none",
            Mechanism::Kernel => "NUMA balancing",
            Mechanism::Watch => "watch --act",
            Mechanism::Numad => "numad",
        }
    }

    fn start(self, tool: &Path, args: &Args) -> anyhow::Result<Option<Watcher>> {
        fs::write(BALANCING, if self == Mechanism::Kernel { "1" } else { "0" })?;
        let command = match self {
            Mechanism::Nothing | Mechanism::Kernel => return Ok(None),
            Mechanism::Numad => processes::numad(1),
            Mechanism::Watch => {
                let mut command = Command::new(tool);
                command.args(["watch", "--all", "--act", "--quiet", "--class"]);
                command.arg(evenkeel::class_of(tool));
                command.args(["--policy", &args.policy, "--journal"]).arg(JOURNAL);
                let _ = fs::remove_file(JOURNAL);
                command
            }
        };
        Watcher::start(command).map(Some)
    }
}

/// Result of one run.
#[derive(Clone, Copy, Debug)]
struct Convergence {
    /// Seconds until convergence; `None` if not reached.
    converged_s: Option<f64>,
    /// MiB moved until convergence, or in total.
    moved_mib: f64,
    /// MiB moved after convergence.
    after_mib: f64,
    /// Number of times a program was sampled on another node than before.
    n_node_changes: u32,
    /// Share of all memory on the node of its program at the end.
    local_share: f64,
}

fn measure(args: &Args) -> anyhow::Result<()> {
    let tool = args.tool.clone().context("--inside needs --tool")?;
    println!("{N_CPUS} programs of {} MiB on {N_CPUS} CPUs and {N_NODES} nodes", args.size_mib);
    println!("watch with the policy {}; numad scans every second", args.policy);
    println!(
        "median (lowest to highest) of {} rounds, alternating; without convergence, MiB moved are the",
        args.rounds.max(1)
    );
    println!("total; moved after it: maximum of a round; node changes and local memory: medians");
    let mut all: [Vec<Convergence>; 4] = Default::default();
    for _ in 0..args.rounds.max(1) {
        for (mechanism, outcomes) in ALL.into_iter().zip(&mut all) {
            outcomes.push(outcome(mechanism, &tool, args)?);
        }
    }
    println!(
        "{:<15} {:>9} {:>20} {:>22} {:>9} {:>12} {:>8}",
        "mechanism",
        "converged",
        "after s",
        "MiB moved until then",
        "after it",
        "node changes",
        "local"
    );
    for (mechanism, outcomes) in ALL.into_iter().zip(&all) {
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
        "{:<15} {n_converged:>9} {after:>20} {:>22} {:>9.0} {:>12.0} {:>7.0}%",
        mechanism.name(),
        format!("{:.0}", spread(|outcome| outcome.moved_mib)),
        spread(|outcome| outcome.after_mib).high,
        spread(|outcome| f64::from(outcome.n_node_changes)).median,
        100.0 * spread(|outcome| outcome.local_share).median,
    );
}

fn outcome(mechanism: Mechanism, tool: &Path, args: &Args) -> anyhow::Result<Convergence> {
    fs::write(BALANCING, "0")?;
    let nodes = NodeCpus::read()?;
    let programs = Programs::start(tool, args.size_mib, &nodes)?;
    let moved_before = moved_pages()?;
    let mut watcher = mechanism.start(tool, args)?;
    let outcome = observe(&programs, &nodes, args, moved_before);
    if let Some(watcher) = &mut watcher {
        watcher.end()?;
    }
    outcome
}

/// Samples four times per second until placement has converged and stayed so, or time is up.
fn observe(
    programs: &Programs,
    nodes: &NodeCpus,
    args: &Args,
    moved_before: u64,
) -> anyhow::Result<Convergence> {
    let (begin, stay) = (Instant::now(), Duration::from_secs(args.stay));
    let patience = Duration::from_secs(args.patience);
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
            None => patience <= at,
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

/// Pages migrated since boot.
fn moved_pages() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("pgmigrate_success "));
    line.and_then(|n| n.trim().parse().ok()).context("/proc/vmstat has no pgmigrate_success")
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

    fn of(&self, cpu: u32) -> Option<u32> {
        let node = self.0.iter().position(|cpus| cpus.contains(base::CpuId(cpu)))?;
        u32::try_from(node).ok()
    }

    fn all(&self) -> CpuSet {
        self.0.iter().fold(CpuSet::new(), |all, cpus| all.or(cpus))
    }
}

/// Node of a program, and its memory there.
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

/// Programs with all their memory on node 0; half of them run on node 1. Drop kills them.
struct Programs(Vec<Child>);

impl Programs {
    fn start(tool: &Path, size_mib: u64, nodes: &NodeCpus) -> anyhow::Result<Self> {
        let mut programs = Programs(Vec::new());
        linux::affinity::set(0, &nodes.0[0])?;
        for _ in 0..N_CPUS {
            let size = format!("{size_mib}M");
            let started = Command::new(tool)
                .args(["load", "hog", "--for", "86400", "--no-self-check", "--size", &size])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn();
            programs.0.push(started.context("cannot start a program")?);
        }
        linux::affinity::set(0, &nodes.all())?;
        let is_allocated = || {
            let memory = programs.0.iter().map(|child| by_node(child.id()));
            let mut sums = memory.map(|nodes| nodes.values().sum::<u64>());
            sums.all(|kib| size_mib * 1024 <= kib).then_some(())
        };
        processes::wait_for("memory of all programs", is_allocated)?;
        // Migrates half of the programs to the other node, then allows all CPUs again.
        for (idx, child) in programs.0.iter().enumerate() {
            bind(child.id(), &nodes.0[idx % nodes.0.len()])?;
        }
        std::thread::sleep(Duration::from_secs(1));
        for child in &programs.0 {
            bind(child.id(), &nodes.all())?;
        }
        Ok(programs)
    }

    fn sample(&self, nodes: &NodeCpus) -> anyhow::Result<Vec<PlacementSample>> {
        let one = |child: &Child| {
            let stat = linux::procfs::stat("/".as_ref(), child.id())
                .context("a program exited during the measurement")?;
            let runs_on = nodes.of(stat.last_cpu).context("a CPU without a node")?;
            let memory = by_node(child.id());
            let local_kib = memory.get(&runs_on).copied().unwrap_or(0);
            Ok(PlacementSample { runs_on, local_kib, all_kib: memory.values().sum() })
        };
        self.0.iter().map(one).collect()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn bind(pid: u32, cpus: &CpuSet) -> anyhow::Result<()> {
    for tid in linux::procfs::threads("/".as_ref(), pid)? {
        linux::affinity::set(tid, cpus)?;
    }
    Ok(())
}

/// Anonymous memory in KiB per node.
fn by_node(pid: u32) -> BTreeMap<u32, u64> {
    let text = fs::read(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    let mappings = text.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line);
    let mut nodes = BTreeMap::new();
    for mapping in mappings.filter(|mapping| mapping.kind == MappingKind::Anonymous) {
        for (node, n_pages) in mapping.nodes {
            *nodes.entry(node.0).or_insert(0) += n_pages * mapping.page_size / 1024;
        }
    }
    nodes
}
