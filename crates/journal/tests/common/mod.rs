//! Random turns from a seed, which cover every field of a journal.

#![allow(dead_code, reason = "each test file uses some of these functions")]

use base::{Bytes, CpuId, CpuSet, JobId, LlcId, Nanos, NodeId, NodeSet, Rng, TaskId};
use engine::{LoadBasis, LoadSample};
use journal::{Header, PolicyUsed, RecordedTurn};
use program::{Class, Command, Ending, Job, MemoryPolicy, Origin, Sensitivity};
use sched::*;
use topology::{Core, Cpu, Level, Llc, Machine, MachineParts, Node};

/// Two nodes, two LLC domains and two cores each.
pub fn machine() -> Machine {
    let cpus = |range: std::ops::Range<u32>| range.map(CpuId).collect::<CpuSet>();
    let nodes = (0..2u32).map(|id| Node {
        id: NodeId(id),
        cpus: cpus(id * 4..id * 4 + 4),
        memory: Some(Bytes::from_mib(4096)),
        memory_free: Some(Bytes::from_mib(1000)),
        distances: (0..2u32).map(|to| (NodeId(to), if to == id { 10 } else { 21 })).collect(),
    });
    let llcs = (0..4u32).map(|id| Llc {
        id: base::LlcId(id),
        cpus: cpus(id * 2..id * 2 + 2),
        node: Some(NodeId(id / 2)),
        size: Some(Bytes::from_mib(32)),
        level: 3,
    });
    let cores = (0..8u32).map(|id| Core {
        id: base::CoreId(id),
        cpus: cpus(id..id + 1),
        kind: "uniform".to_owned(),
        capacity: 1024,
    });
    let all =
        (0..8u32).map(|id| Cpu { id: CpuId(id), online: true, allowed: true, ..Cpu::default() });
    Machine::new(MachineParts {
        name: "test".to_owned(),
        nodes: nodes.collect(),
        llcs: llcs.collect(),
        cores: cores.collect(),
        cpus: all.collect(),
        nodes_allowed: "0-1".parse().expect("a list"),
        ..MachineParts::default()
    })
    .expect("the parts agree")
}

pub fn job(id: u32, name: &str) -> Job {
    Job {
        origin: Origin { file: "w.toml".into(), line: 3 },
        ..Job::new(JobId(id), name, Command::Program { program: "/bin/true".into(), args: vec![] })
    }
}

/// Jobs of every kind.
pub fn jobs() -> Vec<Job> {
    let plain = job(0, "plain");
    let shell = Job {
        command: Command::Shell("echo \"a b\" | wc > /dev/null".to_owned()),
        class: Class::new(15),
        sensitivity: Some(Sensitivity::new(Class::new(9).map(|class| (class, 300)), 200)),
        ending: Ending::After(Nanos::from_millis(1500)),
        start: Nanos::from_millis(250),
        ..job(1, "shell")
    };
    let load = Job {
        command: Command::Load(vec!["hog".to_owned(), "--mib".to_owned(), "64".to_owned()]),
        profile: Some("hog".to_owned()),
        ending: Ending::RestartUntilOthersDone,
        threads: 4,
        cpus: Some("0-3,7".parse().expect("a list")),
        nodes: Some("1".parse().expect("a list")),
        memory: Some(MemoryPolicy::Interleave("0-1".parse().expect("a list"))),
        dir: Some("sub folder".into()),
        input: Some("in".into()),
        output: Some("/tmp/ö \"out\"\n".into()),
        ..job(2, "<script>alert(1)</script>")
    };
    vec![plain, shell, load]
}

pub fn header() -> Header {
    Header {
        tool: "0.1.0".to_owned(),
        run_id: "2026-11-21-1".to_owned(),
        started_unix_s: 1_795_000_000,
        host: "live".to_owned(),
        policy: PolicyUsed {
            name: "dfs".to_owned(),
            spec: "dfs[cooldown=4]".to_owned(),
            reasons: REASONS.to_vec(),
        },
        seed: 7,
        machine: machine(),
        workload: "mixed".to_owned(),
        folder: "/w".into(),
        jobs: jobs(),
        options: [("grace".to_owned(), "2s".to_owned())].into(),
        replay_of: None,
    }
}

/// A turn with random content.
pub fn random_turn(number: u64, rng: &mut Rng) -> RecordedTurn {
    let causes = [
        Cause::Interval,
        Cause::JobsDue,
        Cause::Ended,
        Cause::CpusChanged,
        Cause::Stopping,
        Cause::MemoryMoved,
        Cause::Overflow,
    ];
    RecordedTurn {
        turn: Turn {
            number,
            at: Nanos(number * 250_000_000 + rng.below(1000)),
            causes: vec![causes[rng.below(6) as usize].clone()],
        },
        sample: sample(rng),
        loads: some(rng, loads),
        load_basis: some(rng, load_basis),
        signals: some(rng, signals),
        plan: Plan {
            requests: many(rng, request),
            notes: many(rng, reason),
            abort: if rng.below(20) == 0 { Some(reason(rng)) } else { None },
            quiescent: false,
        },
        rejected: many(rng, |rng| Rejection {
            request: request(rng),
            cause: reject_cause(rng),
            detail: text(rng),
        }),
        outcomes: many(rng, outcome),
    }
}

fn signals(rng: &mut Rng) -> Tiers {
    let mut tiers = Tiers::default();
    let tier = |rng: &mut Rng| SignalTier::ALL[rng.below(4) as usize];
    tiers.loads = tier(rng);
    for &event in CounterEvent::ALL {
        tiers.set(event, tier(rng));
    }
    tiers
}

fn some<T>(rng: &mut Rng, make: impl Fn(&mut Rng) -> T) -> Option<T> {
    (rng.below(2) == 0).then(|| make(rng))
}

fn many<T>(rng: &mut Rng, make: impl Fn(&mut Rng) -> T) -> Vec<T> {
    (0..rng.below(4)).map(|_| make(rng)).collect()
}

fn text(rng: &mut Rng) -> String {
    const ODD: [&str; 6] = ["", "plain", "\"quoted\"\n", "ö€𝄞", "\u{0}\u{1b}[31m", "</script>"];
    ODD[rng.below(6) as usize].to_owned()
}

fn cpus(rng: &mut Rng) -> CpuSet {
    many(rng, |rng| CpuId(rng.below(9) as u32 * 33)).into_iter().collect()
}

fn nodes(rng: &mut Rng) -> NodeSet {
    many(rng, |rng| NodeId(rng.below(4) as u32)).into_iter().collect()
}

fn big(rng: &mut Rng) -> u64 {
    rng.next_u64() >> rng.below(64)
}

fn reading(rng: &mut Rng) -> Option<CounterReading> {
    let (value, enabled_ns) = (big(rng), big(rng));
    let reading = |enabled_ns, running_ns| Some(CounterReading { value, enabled_ns, running_ns });
    match rng.below(4) {
        0 => None,
        1 => Some(CounterReading::unmultiplexed(value)),
        2 => reading(enabled_ns, enabled_ns),
        _ => reading(enabled_ns, big(rng).min(enabled_ns)),
    }
}

fn maybe(rng: &mut Rng) -> Option<u64> {
    (rng.below(3) != 0).then(|| big(rng))
}

fn task(rng: &mut Rng) -> TaskId {
    TaskId { tid: rng.below(1 << 22) as u32, start_time_ticks: big(rng) }
}

fn job_id(rng: &mut Rng) -> JobId {
    JobId(rng.below(3) as u32)
}

fn target(rng: &mut Rng) -> Target {
    if rng.below(4) == 0 { Target::Task(task(rng)) } else { Target::Job(job_id(rng)) }
}

fn memory(rng: &mut Rng) -> MemoryPolicy {
    match rng.below(4) {
        0 => MemoryPolicy::Bind(nodes(rng)),
        1 => MemoryPolicy::Preferred(nodes(rng)),
        2 => MemoryPolicy::Interleave(nodes(rng)),
        _ => MemoryPolicy::WeightedInterleave(nodes(rng)),
    }
}

fn value(rng: &mut Rng) -> ReasonValue {
    match rng.below(4) {
        0 => ReasonValue::Count(big(rng)),
        1 => ReasonValue::Number(rng.unit() * big(rng) as f64),
        2 => ReasonValue::Number(rng.below(5) as f64),
        _ => ReasonValue::Text(text(rng).into()),
    }
}

const REASONS: [ReasonCode; 3] = [
    ReasonCode::new("fewest-jobs", "{domain} had the fewest jobs"),
    ReasonCode::new("least-load", "{domain} had the lowest load"),
    ReasonCode::new("not-busy", "the job used {used} % of its CPU time"),
];

fn reason(rng: &mut Rng) -> Reason {
    let code = REASONS[rng.below(REASONS.len() as u64) as usize].clone();
    let values = many(rng, |rng| (text(rng).into(), value(rng)));
    Reason { code, values }
}

fn request(rng: &mut Rng) -> Request {
    let action = match rng.below(4) {
        0 => Action::Place(cpus(rng)),
        1 => Action::MemoryPolicy(memory(rng)),
        2 => {
            let (from, to, limit) = pages(rng);
            Action::MovePages { from, to, limit }
        }
        _ => Action::Release,
    };
    Request { target: target(rng), action, reason: reason(rng).into() }
}

fn reject_cause(rng: &mut Rng) -> RejectCause {
    RejectCause::ALL[rng.below(RejectCause::ALL.len() as u64) as usize]
}

fn outcome(rng: &mut Rng) -> Outcome {
    let action = match rng.below(5) {
        0 => None,
        1 => Some(Action::Place(cpus(rng))),
        2 => Some(Action::MemoryPolicy(memory(rng))),
        3 => {
            let (from, to, limit) = pages(rng);
            Some(Action::MovePages { from, to, limit })
        }
        _ => Some(Action::Release),
    };
    let result = match rng.below(3) {
        1 => OutcomeResult::InProgress,
        0 => OutcomeResult::Done { n: big(rng) as u32 },
        _ => OutcomeResult::Rejected { cause: reject_cause(rng), detail: text(rng) },
    };
    Outcome { target: target(rng), action, result }
}

fn event(rng: &mut Rng) -> JobEvent {
    let id = job_id(rng);
    match rng.below(6) {
        0 => JobEvent::Due(id),
        4 => JobEvent::Attached(Box::new(jobs().swap_remove(rng.below(3) as usize))),
        5 => {
            JobEvent::Detached(id, DetachCause::ALL[rng.below(4) as usize], Box::new(counters(rng)))
        }
        1 => JobEvent::Unmanaged(id, UnmanagedCause::AffinityChanged(cpus(rng))),
        2 => JobEvent::Unmanaged(id, UnmanagedCause::NotPermitted),
        _ => JobEvent::Ended(id, Box::new(job_exit(rng))),
    }
}

fn job_exit(rng: &mut Rng) -> JobExit {
    JobExit {
        status: match rng.below(2) {
            0 => ExitStatus::Exited(rng.below(256) as i32),
            _ => ExitStatus::Signaled(rng.below(65) as i32),
        },
        stopped_by_host: rng.below(2) == 0,
        restarts: rng.below(2) == 0,
        wall: Nanos(big(rng)),
        user: Nanos(big(rng)),
        system: Nanos(big(rng)),
        max_resident: Bytes(big(rng)),
        wait: maybe(rng).map(Nanos),
        n_migrations: maybe(rng),
        counters: counters(rng),
        traffic: maybe(rng).map(Bytes),
        n_orphans: rng.below(3) as u32,
    }
}

fn counters(rng: &mut Rng) -> Counters {
    let mut counters = Counters::NONE;
    for &event in CounterEvent::ALL {
        reading(rng).into_iter().for_each(|reading| counters.set(event, reading));
    }
    counters
}

fn llc(rng: &mut Rng) -> LlcId {
    LlcId(rng.below(32) as u32)
}

fn traffic(rng: &mut Rng) -> Traffic {
    Traffic {
        total_bytes: reading(rng),
        local_bytes: reading(rng),
        occupancy: some(rng, |rng| Bytes(big(rng))),
    }
}

fn stall_times(rng: &mut Rng) -> StallTimes {
    StallTimes { some: some(rng, |rng| Nanos(big(rng))), full: some(rng, |rng| Nanos(big(rng))) }
}

fn sample(rng: &mut Rng) -> Sample {
    Sample {
        jobs: many(rng, event),
        tasks: many(rng, |rng| TaskSample {
            task: task(rng),
            process: rng.below(99) as u32,
            job: job_id(rng),
            cpu_time: Nanos(big(rng)),
            previous_sample_at: some(rng, |rng| Nanos(big(rng))),
            wait: maybe(rng).map(Nanos),
            last_cpu: some(rng, |rng| CpuId(rng.below(512) as u32)),
            counters: counters(rng),
            includes_children: rng.below(2) == 0,
        }),
        exited: many(rng, task),
        nodes: many(rng, |rng| NodeSample {
            node: NodeId(rng.below(8) as u32),
            memory_free: some(rng, |rng| Bytes(big(rng))),
            memory_reclaimable: some(rng, |rng| Bytes(big(rng))),
            controller_ops: reading(rng),
            counter_bits: rng.below(65) as u8,
            read_bytes: reading(rng),
            written_bytes: reading(rng),
        }),
        llcs: many(rng, |rng| LlcSample { llc: llc(rng), traffic: traffic(rng) }),
        mon_groups: many(rng, |rng| MonGroupSample {
            job: job_id(rng),
            llc: llc(rng),
            traffic: traffic(rng),
        }),
        cpus: many(rng, |rng| CpuTimes {
            cpu: CpuId(rng.below(512) as u32),
            ran: Nanos(big(rng)),
            waited: Nanos(big(rng)),
        }),
        pressure: some(rng, |rng| Pressure {
            cpu: stall_times(rng),
            memory: stall_times(rng),
            io: stall_times(rng),
        }),
        usable_cpus: some(rng, cpus),
        numa_settings: some(rng, |rng| NumaSettings {
            numa_balancing: rng.below(2) == 0,
            interleaves: rng.below(2) == 0,
        }),
        degraded: many(rng, text),
        memory: many(rng, process_memory),
        page_moves_completed: many(rng, completed_page_move),
    }
}

fn pages(rng: &mut Rng) -> (Option<NodeId>, NodeId, Bytes) {
    let node = |rng: &mut Rng| NodeId(rng.below(8) as u32);
    let limit = if rng.below(2) == 0 { Action::NO_LIMIT } else { Bytes(big(rng)) };
    (some(rng, node), node(rng), limit)
}

fn process_memory(rng: &mut Rng) -> ProcessMemory {
    ProcessMemory {
        job: job_id(rng),
        process: task(rng),
        nodes: many(rng, |rng| NodeMemory {
            node: NodeId(rng.below(8) as u32),
            small: Bytes(big(rng)),
            huge: Bytes(big(rng)),
            file: Bytes(big(rng)),
            shared: Bytes(big(rng)),
        }),
        sampled_permille: rng.below(1001) as u16,
        at: Nanos(big(rng)),
    }
}

fn completed_page_move(rng: &mut Rng) -> CompletedPageMove {
    let (from, to, limit) = pages(rng);
    let mut bytes = || Bytes(big(rng));
    let failed = FailedPages {
        busy: bytes(),
        no_memory: bytes(),
        not_present: bytes(),
        not_permitted: bytes(),
        elsewhere: bytes(),
        exited: bytes(),
        other: bytes(),
    };
    CompletedPageMove {
        requested: bytes(),
        moved: bytes(),
        not_attempted: bytes(),
        failed,
        target: target(rng),
        job: job_id(rng),
        from,
        to,
        limit,
        duration: Nanos(big(rng)),
        in_kernel: Nanos(big(rng)),
        stopped_by: PageMoveEnd::ALL[rng.below(PageMoveEnd::ALL.len() as u64) as usize],
        detail: text(rng),
    }
}

fn load_basis(rng: &mut Rng) -> LoadBasis {
    LoadBasis {
        level: Level::ALL[rng.below(3) as usize],
        tier: SignalTier::ALL[rng.below(4) as usize],
    }
}

fn loads(rng: &mut Rng) -> LoadSample {
    LoadSample {
        level: Level::ALL[rng.below(3) as usize],
        numbers: vec![0, 7],
        loads: DomainLoads {
            tier: SignalTier::ALL[rng.below(4) as usize],
            loads: vec![big(rng), big(rng)],
            readable: rng.below(2) == 0,
        },
        cpu_time: vec![Nanos(big(rng)), Nanos(big(rng))],
    }
}
