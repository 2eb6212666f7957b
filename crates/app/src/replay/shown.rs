//! What a policy saw in one turn of a stream, as text and as JSON.
//!
//! Everything is growth in the turn's interval. Times are nanoseconds, sizes bytes; what was not
//! counted is left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use report::phrases::action_phrase;
use sched::{
    CounterDeltas, CounterEvent, Plan, Request, SignalTier, Snapshot, StallTimes, Target,
    TrafficDelta,
};
use serde::Serialize;

/// One turn.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Its number.
    pub turn: u64,
    /// When, since the start of the recording.
    pub at_ns: u64,
    /// How long the interval was.
    pub interval_ns: u64,
    /// What loads stand on.
    pub tier: String,
    /// The load of each place, by number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub loads: BTreeMap<u32, u64>,
    /// Every task.
    pub tasks: Vec<TaskShown>,
    /// Every node.
    pub nodes: Vec<NodeShown>,
    /// LLC domains whose traffic is counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub llcs: Vec<LlcShown>,
    /// CPUs whose times are told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuShown>,
    /// Time stood still, by what was wanted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<&'static str, StalledShown>,
    /// What the policy would have wanted, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<String>,
    /// What cannot be counted, said once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
}

/// A task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskShown {
    /// Its number.
    pub tid: u32,
    /// Its job's name.
    pub job: String,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time spent runnable and not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    /// The CPU that it ran on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<u32>,
    /// What was counted, by event.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<&'static str, u64>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeShown {
    /// Its number.
    pub node: u32,
    /// Free memory now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Operations of its controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Bytes read from its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

/// An LLC domain.
#[derive(Clone, Debug, Serialize)]
pub struct LlcShown {
    /// Its number.
    pub llc: u32,
    /// Bytes between it and all memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Bytes between it and its own node's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_bytes: Option<u64>,
    /// What it holds now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_bytes: Option<u64>,
}

/// A CPU.
#[derive(Clone, Debug, Serialize)]
pub struct CpuShown {
    /// Its number.
    pub cpu: u32,
    /// Time that tasks ran on it.
    pub ran_ns: u64,
    /// Time that tasks waited for it.
    pub waited_ns: u64,
}

/// Time that stood still.
#[derive(Clone, Debug, Serialize)]
pub struct StalledShown {
    /// In which at least one task waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub some_ns: Option<u64>,
    /// In which all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_ns: Option<u64>,
}

impl Shown {
    /// What is seen, and what was wanted of it.
    pub fn new(seen: &Snapshot<'_>, plan: &Plan) -> Self {
        let numbers = seen.domains.iter().map(|(_, domain)| domain.number);
        // What could not be read is no load of nothing.
        let is_known = seen.loads.readable && seen.loads.tier != SignalTier::None;
        let loads = is_known.then(|| numbers.zip(seen.loads.loads.iter().copied()).collect());
        let asks = plan.requests.iter().map(|ask| want(seen, ask));
        Shown {
            turn: seen.turn.number,
            at_ns: seen.turn.at.0,
            interval_ns: seen.interval.0,
            tier: seen.loads.tier.to_string(),
            loads: loads.unwrap_or_default(),
            tasks: seen.tasks.iter().map(|task| task_shown(seen, task)).collect(),
            nodes: seen.nodes.iter().map(node_shown).collect(),
            llcs: seen.llcs.iter().map(|llc| llc_shown(llc.llc.0, &llc.traffic)).collect(),
            cpus: seen.cpus.iter().map(cpu_shown).collect(),
            pressure: pressure_shown(seen),
            wants: asks.collect(),
            degraded: Vec::new(),
        }
    }
}

/// A wish in words.
fn want(seen: &Snapshot<'_>, ask: &Request) -> String {
    let whom = match ask.target {
        Target::Job(job) => {
            seen.job(job).map_or_else(|| job.to_string(), |job| job.job.name.clone())
        }
        Target::Task(task) => format!("task {}", task.tid),
    };
    let code = ask.reason.code.name();
    let what = action_phrase(&ask.action, |cpus| format!("cpus {cpus}"));
    format!("{whom}: would {what} because {code}")
}

fn task_shown(seen: &Snapshot<'_>, task: &sched::TaskView) -> TaskShown {
    TaskShown {
        tid: task.task.tid,
        job: seen.job(task.job).map_or_else(String::new, |job| job.job.name.clone()),
        cpu_ns: task.cpu_time.0,
        wait_ns: task.wait.map(|wait| wait.0),
        on: task.last_cpu.map(|cpu| cpu.0),
        counted: counted(&task.counters),
    }
}

fn counted(counted: &CounterDeltas) -> BTreeMap<&'static str, u64> {
    counted.iter().map(|(event, grown)| (event.name(), grown)).collect()
}

fn node_shown(node: &sched::NodeView) -> NodeShown {
    NodeShown {
        node: node.node.0,
        free_bytes: node.memory_free.map(|free| free.0),
        ops: node.controller_ops,
        read_bytes: node.read_bytes,
        written_bytes: node.written_bytes,
    }
}

fn llc_shown(llc: u32, traffic: &TrafficDelta) -> LlcShown {
    LlcShown {
        llc,
        total_bytes: traffic.total_bytes,
        local_bytes: traffic.local_bytes,
        holds_bytes: traffic.occupancy.map(|bytes| bytes.0),
    }
}

fn cpu_shown(times: &sched::CpuTimes) -> CpuShown {
    CpuShown { cpu: times.cpu.0, ran_ns: times.ran.0, waited_ns: times.waited.0 }
}

fn pressure_shown(seen: &Snapshot<'_>) -> BTreeMap<&'static str, StalledShown> {
    let of =
        [("cpu", seen.pressure.cpu), ("memory", seen.pressure.memory), ("io", seen.pressure.io)];
    let told = of.into_iter().filter(|(_, stalled)| *stalled != StallTimes::default());
    let shown = |stalled: StallTimes| StalledShown {
        some_ns: stalled.some.map(|time| time.0),
        full_ns: stalled.full.map(|time| time.0),
    };
    told.map(|(name, stalled)| (name, shown(stalled))).collect()
}

/// What was counted of a event; the clock of a task counts time, not events.
fn pair(name: &str, grown: u64) -> String {
    match name == CounterEvent::TaskClock.name() {
        true => format!("{name} {:.1} ms", grown as f64 / 1e6),
        false => format!("{name} {grown}"),
    }
}

/// A turn for people.
pub fn lines(shown: &Shown) -> String {
    let mut text = String::new();
    let ms = |ns: u64| ns as f64 / 1e6;
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    // Writing into a string cannot fail.
    let _ = writeln!(text, "turn {} at {:.0} ms, tier {}", shown.turn, ms(shown.at_ns), shown.tier);
    for task in &shown.tasks {
        let wait =
            task.wait_ns.map_or_else(String::new, |wait| format!(", wait {:.1} ms", ms(wait)));
        let on = task.on.map_or_else(String::new, |cpu| format!(" on cpu {cpu}"));
        let _ =
            writeln!(text, "  {} task {}{on}: {:.1} ms{wait}", task.job, task.tid, ms(task.cpu_ns));
        let pairs: Vec<String> =
            task.counted.iter().map(|(name, grown)| pair(name, *grown)).collect();
        for few in pairs.chunks(3) {
            let _ = writeln!(text, "    {}", few.join("  "));
        }
    }
    for node in &shown.nodes {
        let Some(ops) = node.ops else { continue };
        let bytes = |name, bytes: Option<u64>| {
            bytes.map_or_else(String::new, |bytes| format!(", {name} {:.1} MiB", mib(bytes)))
        };
        let (read, written) =
            (bytes("read", node.read_bytes), bytes("written", node.written_bytes));
        let _ = writeln!(text, "  node {}: {ops} operations{read}{written}", node.node);
    }
    for llc in &shown.llcs {
        let total = llc.total_bytes.map_or("not told".to_owned(), |b| format!("{:.1} MiB", mib(b)));
        let _ = writeln!(text, "  llc {}: traffic {total}", llc.llc);
    }
    for (name, stalled) in &shown.pressure {
        let some = stalled.some_ns.map_or(0.0, ms);
        if some != 0.0 {
            let _ = writeln!(text, "  pressure on {name}: {some:.1} ms");
        }
    }
    for line in shown.wants.iter().chain(&shown.degraded) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_told_as_time_and_events_by_their_number() {
        assert_eq!(pair("task-clock", 35_771_299), "task-clock 35.8 ms");
        assert_eq!(pair("page-faults", 35), "page-faults 35");
    }
}
