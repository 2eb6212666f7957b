//! How long it takes until programs run where their memory lies, and how much is moved for it: watch
//! beside the kernel's own NUMA balancing and numad, in a guest with two nodes.
//!
//! ```text
//!   before      node 0: all memory, half of the programs        node 1: the other half
//!   settled     every program has nine tenths of its memory on the node that it runs on,
//!               and so it stays for some seconds
//! ```
//!
//! As many programs as CPUs, so that the kernel has no reason to move any for the CPUs' sake, and nobody
//! is bound. Pages are counted by the kernel (`pgmigrate_success` of /proc/vmstat), whoever moved them.
//! After settling everything stays as it is for a while longer; what is moved then was in vain, and the most
//! of all rounds is told. Times are
//! the guest's, which is emulated: compare them, nothing more.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use base::CpuSet;
use linux::numa_maps::{self, MappingKind};

use super::guest::{self, Guest};
use super::stats::Spread;
use super::tool;
use super::watcher::{self, Watcher};

/// How many, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Rounds, each with all four
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// MiB of each program; numad looks only at those of 300 and more
    #[arg(long, default_value_t = 350)]
    size_mib: u64,
    /// Seconds after which whoever has not settled is given up
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Seconds to stay settled, and again to be watched afterwards
    #[arg(long, default_value_t = 5)]
    stay: u64,
    /// Policy of watch
    #[arg(long, default_value = "dfs[interval=1s,memory=follow]")]
    policy: String,
    /// Say what watch decided in its last round, and why
    #[arg(long)]
    explain: bool,
    /// The built program, where this one was built elsewhere
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Already in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

const N_NODES: u32 = 2;
const N_CPUS: u32 = 4;
/// Of the guest, whose files are gone with it.
const JOURNAL: &str = "/tmp/settle.jsonl";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Boots the guest; there, measures and prints.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.inside {
        return measure(args);
    }
    guest::need("numad", "numad")?;
    let tool = tool::given_or_built(args.tool.as_deref())?;
    let each = args.patience + 2 * args.stay + 60;
    let limit = Duration::from_secs(300 + 2 * each * 4 * u64::from(args.rounds.max(1)));
    Guest { n_nodes: N_NODES, n_cpus: N_CPUS, memory: "6G", limit, kernel: "" }
        .run(&words(args, &tool))
}

/// The same again, for the guest.
fn words(args: &Args, tool: &Path) -> Vec<String> {
    let mut words = ["bench", "settle", "--inside"].map(str::to_owned).to_vec();
    let options = [
        ("--rounds", args.rounds.to_string()),
        ("--size-mib", args.size_mib.to_string()),
        ("--patience", args.patience.to_string()),
        ("--stay", args.stay.to_string()),
        ("--policy", args.policy.clone()),
        ("--tool", tool.display().to_string()),
    ];
    words.extend(args.explain.then(|| "--explain".to_owned()));
    words.extend(options.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
    words
}

/// Who brings programs and memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Nobody,
    Kernel,
    Watch,
    Numad,
}

const ALL: [Who; 4] = [Who::Nobody, Who::Kernel, Who::Watch, Who::Numad];

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Nobody => "nobody",
            Who::Kernel => "the kernel",
            Who::Watch => "watch --act",
            Who::Numad => "numad",
        }
    }

    fn start(self, tool: &Path, args: &Args) -> anyhow::Result<Option<Watcher>> {
        fs::write(BALANCING, if self == Who::Kernel { "1" } else { "0" })?;
        let command = match self {
            Who::Nobody | Who::Kernel => return Ok(None),
            Who::Numad => watcher::numad(1),
            Who::Watch => {
                let mut command = Command::new(tool);
                command.args(["watch", "--all", "--act", "--quiet", "--class"]);
                command.arg(tool::class_of(tool));
                command.args(["--policy", &args.policy, "--journal"]).arg(JOURNAL);
                let _ = fs::remove_file(JOURNAL);
                command
            }
        };
        Watcher::start(command).map(Some)
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Seconds; `None` when it never came to rest.
    settled_s: Option<f64>,
    /// MiB moved until then, or in all the time.
    moved_mib: f64,
    /// MiB moved after that.
    after_mib: f64,
    /// How often a program was seen on another node than just before, in all the time.
    n_crossed: u32,
    /// How much of all memory lay where its program ran at the end, as a share.
    together: f64,
}

fn measure(args: &Args) -> anyhow::Result<()> {
    let tool = args.tool.clone().context("the guest is told where evenkeel lies")?;
    println!("{N_CPUS} programs of {} MiB on {N_CPUS} CPUs and {N_NODES} nodes", args.size_mib);
    println!("watch with the policy {}; numad looks every second", args.policy);
    println!(
        "median (lowest to highest) of {} rounds, in turn; moved of who never settled: in all",
        args.rounds.max(1)
    );
    println!("the time; and later: the most of a round; crossed and together: medians");
    let mut all: [Vec<Outcome>; 4] = Default::default();
    for _ in 0..args.rounds.max(1) {
        for (who, outcomes) in ALL.into_iter().zip(&mut all) {
            outcomes.push(outcome(who, &tool, args)?);
        }
    }
    println!(
        "{:<12} {:>7} {:>20} {:>22} {:>9} {:>8} {:>8}",
        "who", "settled", "after s", "MiB moved until then", "and later", "crossed", "together"
    );
    for (who, outcomes) in ALL.into_iter().zip(&all) {
        row(who, outcomes);
    }
    println!("processes that numad says it moved: {}", watcher::numad_moves());
    if args.explain {
        let told = Command::new(&tool).args(["explain", JOURNAL]).output()?;
        print!("{}", String::from_utf8_lossy(&told.stdout));
    }
    Ok(())
}

fn row(who: Who, outcomes: &[Outcome]) {
    let spread = |figure: fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(figure).collect());
    let settled: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.settled_s).collect();
    let n_settled = format!("{} of {}", settled.len(), outcomes.len());
    let after = match settled.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.1}", Spread::of(settled)),
    };
    println!(
        "{:<12} {n_settled:>7} {after:>20} {:>22} {:>9.0} {:>8.0} {:>7.0}%",
        who.name(),
        format!("{:.0}", spread(|outcome| outcome.moved_mib)),
        spread(|outcome| outcome.after_mib).high,
        spread(|outcome| f64::from(outcome.n_crossed)).median,
        100.0 * spread(|outcome| outcome.together).median,
    );
}

fn outcome(who: Who, tool: &Path, args: &Args) -> anyhow::Result<Outcome> {
    fs::write(BALANCING, "0")?;
    let nodes = Nodes::read()?;
    let programs = Programs::start(tool, args.size_mib, &nodes)?;
    let moved_before = moved_pages()?;
    let mut watcher = who.start(tool, args)?;
    let outcome = watched(&programs, &nodes, args, moved_before);
    if let Some(watcher) = &mut watcher {
        watcher.end()?;
    }
    outcome
}

/// Looks four times a second until it has settled and stayed so, or patience is over; then a while longer.
fn watched(
    programs: &Programs,
    nodes: &Nodes,
    args: &Args,
    moved_before: u64,
) -> anyhow::Result<Outcome> {
    let (begin, stay) = (Instant::now(), Duration::from_secs(args.stay));
    let patience = Duration::from_secs(args.patience);
    let mut since: Option<(Duration, u64)> = None;
    let (mut n_crossed, mut last) = (0, Vec::new());
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let (at, moved) = (begin.elapsed(), moved_pages()?);
        let looks = programs.look(nodes)?;
        let now: Vec<u32> = looks.iter().map(|look| look.runs_on).collect();
        n_crossed += now.iter().zip(&last).filter(|(now, last)| now != last).count() as u32;
        last = now;
        let together = looks.iter().all(|look| 0.9 <= look.share());
        since = if together { since.or(Some((at, moved))) } else { None };
        let is_over = match since {
            Some((settled, _)) => settled + 2 * stay <= at,
            None => patience <= at,
        };
        if !is_over {
            continue;
        }
        let there: u64 = looks.iter().map(|look| look.there_kib).sum();
        let all: u64 = looks.iter().map(|look| look.all_kib).sum();
        let until = since.map_or(moved, |(_, moved)| moved);
        return Ok(Outcome {
            settled_s: since.map(|(at, _)| at.as_secs_f64()),
            moved_mib: mib(until - moved_before),
            after_mib: mib(moved - until),
            n_crossed,
            together: there as f64 / all.max(1) as f64,
        });
    }
}

fn mib(pages: u64) -> f64 {
    pages as f64 * 4096.0 / f64::from(1 << 20)
}

/// Pages that the kernel has moved since it booted, whoever asked for it.
fn moved_pages() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("pgmigrate_success "));
    line.and_then(|n| n.trim().parse().ok()).context("/proc/vmstat has no pgmigrate_success")
}

/// The CPUs of each node.
struct Nodes(Vec<CpuSet>);

impl Nodes {
    fn read() -> anyhow::Result<Self> {
        let cpus = |node| {
            let path = format!("/sys/devices/system/node/node{node}/cpulist");
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            Ok(text.trim().parse()?)
        };
        (0..N_NODES).map(cpus).collect::<anyhow::Result<_>>().map(Nodes)
    }

    fn of(&self, cpu: u32) -> Option<u32> {
        let node = self.0.iter().position(|cpus| cpus.contains(base::CpuId(cpu)))?;
        u32::try_from(node).ok()
    }

    fn all(&self) -> CpuSet {
        self.0.iter().fold(CpuSet::new(), |all, cpus| all.or(cpus))
    }
}

/// Where a program runs, and how much of its memory is there.
struct Look {
    runs_on: u32,
    there_kib: u64,
    all_kib: u64,
}

impl Look {
    fn share(&self) -> f64 {
        self.there_kib as f64 / self.all_kib.max(1) as f64
    }
}

/// Programs with all their memory on node 0, half of them running on another node. They end with this.
struct Programs(Vec<Child>);

impl Programs {
    fn start(tool: &Path, size_mib: u64, nodes: &Nodes) -> anyhow::Result<Self> {
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
        let has_all = || {
            let memory = programs.0.iter().map(|child| by_node(child.id()));
            let mut sums = memory.map(|nodes| nodes.values().sum::<u64>());
            sums.all(|kib| size_mib * 1024 <= kib).then_some(())
        };
        watcher::wait_for("the memory of all programs", has_all)?;
        // Half go to the other node; then all may run anywhere again.
        for (idx, child) in programs.0.iter().enumerate() {
            bind(child.id(), &nodes.0[idx % nodes.0.len()])?;
        }
        std::thread::sleep(Duration::from_secs(1));
        for child in &programs.0 {
            bind(child.id(), &nodes.all())?;
        }
        Ok(programs)
    }

    fn look(&self, nodes: &Nodes) -> anyhow::Result<Vec<Look>> {
        let one = |child: &Child| {
            let stat = linux::procfs::stat("/".as_ref(), child.id())
                .context("a program ended while it was measured")?;
            let runs_on = nodes.of(stat.last_cpu).context("a CPU of no node")?;
            let memory = by_node(child.id());
            let there_kib = memory.get(&runs_on).copied().unwrap_or(0);
            Ok(Look { runs_on, there_kib, all_kib: memory.values().sum() })
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

/// Anonymous memory in KiB by node.
fn by_node(pid: u32) -> BTreeMap<u32, u64> {
    let text = fs::read(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    let mappings = text.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line);
    let mut nodes = BTreeMap::new();
    for mapping in mappings.filter(|mapping| mapping.kind == MappingKind::Nothing) {
        for (node, n_pages) in mapping.nodes {
            *nodes.entry(node.0).or_insert(0) += n_pages * mapping.page_size / 1024;
        }
    }
    nodes
}
