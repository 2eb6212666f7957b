//! One turn of a replayed stream, with the values that the policy receives, as text and as JSON.
//!
//! All counts are deltas over the interval of the turn. Times are in ns and sizes in bytes. Values that were not
//! counted are absent.

use std::collections::BTreeMap;
use std::fmt::Write;

use base::printable;
use report::format::{bytes, duration, seconds};
use report::phrases::action_phrase;
use sched::{
    CounterDeltas, CounterEvent, Observation, Plan, Request, SignalTier, Snapshot, StallTimes,
    Target, TrafficDelta,
};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct ReplayTurn {
    pub turn: u64,
    pub at_ns: u64,
    pub interval_ns: u64,
    pub tier: String,
    /// Load of each domain, by domain number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub loads: BTreeMap<u32, u64>,
    pub tasks: Vec<ReplayTask>,
    pub nodes: Vec<ReplayNode>,
    /// LLC domains with traffic counters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub llcs: Vec<ReplayLlc>,
    /// CPUs with schedstat times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<ReplayCpu>,
    /// Stall times (PSI) per resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<&'static str, ReplayPressure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    /// Facts about jobs that the policy derived, such as phases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<String>,
    /// Events that cannot be counted, reported once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct ReplayTask {
    pub tid: u32,
    pub job: String,
    pub cpu_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cpu: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
pub struct ReplayNode {
    pub node: u32,
    /// Free memory at the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_ops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct ReplayLlc {
    pub llc: u32,
    /// Bytes transferred to and from all memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Bytes transferred to and from the memory of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct ReplayCpu {
    pub cpu: u32,
    pub run_ns: u64,
    pub wait_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct ReplayPressure {
    /// Time in which at least one task was stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub some_ns: Option<u64>,
    /// Time in which all tasks were stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_ns: Option<u64>,
}

impl ReplayTurn {
    pub fn new(snapshot: &Snapshot<'_>, plan: &Plan) -> Self {
        let numbers = snapshot.domains.iter().map(|(_, domain)| domain.number);
        // Unreadable loads are absent and not zero.
        let is_known = snapshot.loads.readable && snapshot.loads.tier != SignalTier::None;
        let loads = is_known.then(|| numbers.zip(snapshot.loads.loads.iter().copied()).collect());
        let requests = plan.requests.iter().map(|request| request_text(snapshot, request));
        ReplayTurn {
            turn: snapshot.turn.number,
            at_ns: snapshot.turn.at.0,
            interval_ns: snapshot.interval.0,
            tier: snapshot.loads.tier.to_string(),
            loads: loads.unwrap_or_default(),
            tasks: snapshot.tasks.iter().map(|task| task_row(snapshot, task)).collect(),
            nodes: snapshot.nodes.iter().map(node_row).collect(),
            llcs: snapshot.llcs.iter().map(|llc| llc_row(llc.llc.0, &llc.traffic)).collect(),
            cpus: snapshot.cpus.iter().map(cpu_row).collect(),
            pressure: pressure_rows(snapshot),
            requests: requests.collect(),
            observations: plan.observations.iter().map(|one| observed(snapshot, one)).collect(),
            degraded: Vec::new(),
        }
    }
}

fn target_name(snapshot: &Snapshot<'_>, target: Target) -> String {
    match target {
        Target::Job(id) => {
            snapshot.job(id).map_or_else(|| id.to_string(), |job| job.job.name.clone())
        }
        Target::Task(task) => format!("task {}", task.tid),
    }
}

fn observed(snapshot: &Snapshot<'_>, observation: &Observation) -> String {
    format!("{}: {}", target_name(snapshot, observation.target), observation.reason)
}

fn request_text(snapshot: &Snapshot<'_>, request: &Request) -> String {
    let target = target_name(snapshot, request.target);
    let code = request.reason.code.name();
    let action = action_phrase(&request.action, |cpus| format!("cpus {cpus}"));
    format!("{target}: would {action} because {code}")
}

fn task_row(snapshot: &Snapshot<'_>, task: &sched::TaskView) -> ReplayTask {
    ReplayTask {
        tid: task.task.tid,
        job: snapshot.job(task.job).map_or_else(String::new, |job| job.job.name.clone()),
        cpu_ns: task.cpu_time.0,
        wait_ns: task.wait.map(|wait| wait.0),
        last_cpu: task.last_cpu.map(|cpu| cpu.0),
        counters: counters(&task.counters),
    }
}

fn counters(deltas: &CounterDeltas) -> BTreeMap<&'static str, u64> {
    deltas.iter().map(|(event, delta)| (event.name(), delta)).collect()
}

fn node_row(node: &sched::NodeView) -> ReplayNode {
    ReplayNode {
        node: node.node.0,
        free_bytes: node.memory_free.map(|free| free.0),
        controller_ops: node.controller_ops,
        read_bytes: node.read_bytes,
        written_bytes: node.written_bytes,
    }
}

fn llc_row(llc: u32, traffic: &TrafficDelta) -> ReplayLlc {
    ReplayLlc {
        llc,
        total_bytes: traffic.total_bytes,
        local_bytes: traffic.local_bytes,
        occupancy_bytes: traffic.occupancy.map(|bytes| bytes.0),
    }
}

fn cpu_row(times: &sched::CpuTimes) -> ReplayCpu {
    ReplayCpu { cpu: times.cpu.0, run_ns: times.run.0, wait_ns: times.wait.0 }
}

fn pressure_rows(snapshot: &Snapshot<'_>) -> BTreeMap<&'static str, ReplayPressure> {
    let resources = [
        ("cpu", snapshot.pressure.cpu),
        ("memory", snapshot.pressure.memory),
        ("io", snapshot.pressure.io),
    ];
    let reported = resources.into_iter().filter(|(_, stalled)| *stalled != StallTimes::default());
    let row = |stalled: StallTimes| ReplayPressure {
        some_ns: stalled.some.map(|time| time.0),
        full_ns: stalled.full.map(|time| time.0),
    };
    reported.map(|(name, stalled)| (name, row(stalled))).collect()
}

/// Returns the text of a counter. The event task-clock is a time.
fn counter_text(name: &str, delta: u64) -> String {
    match name == CounterEvent::TaskClock.name() {
        true => format!("{name} {}", duration(delta)),
        false => format!("{name} {delta}"),
    }
}

pub fn lines(turn: &ReplayTurn) -> String {
    let mut text = String::new();
    let (at, tier) = (seconds(turn.at_ns), &turn.tier);
    let _ = writeln!(text, "turn {} at {at} s, tier {tier}", turn.turn);
    for task in &turn.tasks {
        let wait =
            task.wait_ns.map_or_else(String::new, |wait| format!(", wait {}", duration(wait)));
        let on = task.last_cpu.map_or_else(String::new, |cpu| format!(" on cpu {cpu}"));
        let cpu_time = duration(task.cpu_ns);
        let job = printable(&task.job);
        let _ = writeln!(text, "  {job} task {}{on}: {cpu_time}{wait}", task.tid);
        let pairs: Vec<String> =
            task.counters.iter().map(|(name, delta)| counter_text(name, *delta)).collect();
        for few in pairs.chunks(3) {
            let _ = writeln!(text, "    {}", few.join("  "));
        }
    }
    for node in &turn.nodes {
        let Some(ops) = node.controller_ops else { continue };
        let traffic =
            |name, n: Option<u64>| n.map_or_else(String::new, |n| format!(", {name} {}", bytes(n)));
        let (read, written) =
            (traffic("read", node.read_bytes), traffic("written", node.written_bytes));
        let _ = writeln!(text, "  node {}: {ops} operations{read}{written}", node.node);
    }
    for llc in &turn.llcs {
        let total = llc.total_bytes.map_or("unknown".to_owned(), bytes);
        let _ = writeln!(text, "  llc {}: traffic {total}", llc.llc);
    }
    for (name, stalled) in &turn.pressure {
        if let Some(some) = stalled.some_ns.filter(|some| *some != 0) {
            let _ = writeln!(text, "  pressure on {name}: {}", duration(some));
        }
    }
    for line in turn.requests.iter().chain(&turn.observations).chain(&turn.degraded) {
        let _ = writeln!(text, "  {}", printable(line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_clock_is_a_time_and_other_events_are_counts() {
        assert_eq!(counter_text("task-clock", 35_771_299), "task-clock 35.8 ms");
        assert_eq!(counter_text("page-faults", 35), "page-faults 35");
    }
}
