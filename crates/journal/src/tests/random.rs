//! Random turns from a seed, which cover every field of a journal.
//!
//! The macros that define the lines also implement [`Random`] for the types of the lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Bytes, CpuId, CpuSet, IdSet, JobId, LlcId, Nanos, NodeId, Rng, SetId, TaskId};
use engine::LoadSample;
use program::{Class, Command, Ending, FilePosition, Job, MemoryPolicy, Profile, Sensitivity};
use sched::*;
use topology::{Core, Cpu, Llc, Machine, MachineParts, Node};

use crate::{Header, JobPhase, PolicyUsed, RecordedTurn};

/// A type with random values for tests.
pub(crate) trait Random {
    fn random(rng: &mut Rng) -> Self;
}

/// Returns a machine with two nodes, each with two LLC domains of two cores.
pub(crate) fn machine() -> Machine {
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

pub(crate) fn job(id: u32, name: &str) -> Job {
    Job {
        origin: FilePosition { file: "w.toml".into(), line: 3 },
        ..Job::new(JobId(id), name, Command::Program { program: "/bin/true".into(), args: vec![] })
    }
}

/// Jobs of every kind.
pub(crate) fn jobs() -> Vec<Job> {
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
        dir: Some("sub directory".into()),
        input: Some("in".into()),
        output: Some("/tmp/ö \"out\"\n".into()),
        ..job(2, "<script>alert(1)</script>")
    };
    vec![plain, shell, load]
}

pub(crate) fn header() -> Header {
    Header {
        tool: "0.1.0".to_owned(),
        run_id: "2026-11-21-1".to_owned(),
        started_unix_s: 1_795_000_000,
        host: sched::HostKind::Live,
        policy: PolicyUsed {
            name: "dfs".to_owned(),
            spec: "dfs[cooldown=4]".to_owned(),
            reasons: REASONS.to_vec(),
        },
        seed: 7,
        machine: machine(),
        workload: "mixed".to_owned(),
        dir: "/w".into(),
        jobs: jobs(),
        options: [("grace".to_owned(), "2s".to_owned())].into(),
        replay_of: None,
        command: Some("evenkeel run 'a b.toml'".to_owned()),
    }
}

/// Returns a turn with random content.
pub(crate) fn random_turn(number: u64, rng: &mut Rng) -> RecordedTurn {
    let sample: Sample = Random::random(rng);
    let mut outcomes: Vec<Outcome> = Random::random(rng);
    // The random targets of the other outcomes are threads that were never sampled.
    outcomes.extend(sample.tasks.first().map(|task| Outcome {
        target: task.task.into(),
        action: Some(Action::Place(Random::random(rng))),
        result: OutcomeResult::Done { n: 1 },
    }));
    RecordedTurn {
        turn: Turn {
            number,
            at: Nanos(number * 250_000_000 + rng.below(1000)),
            causes: vec![Random::random(rng)],
        },
        sample,
        loads: Random::random(rng),
        load_basis: Random::random(rng),
        signals: Random::random(rng),
        plan: Plan {
            requests: Random::random(rng),
            notes: Random::random(rng),
            observations: Random::random(rng),
            abort: if rng.below(20) == 0 { Some(Random::random(rng)) } else { None },
            quiescent: false,
        },
        rejected: Random::random(rng),
        outcomes,
    }
}

/// Returns an integer with a random number of bits.
fn big(rng: &mut Rng) -> u64 {
    rng.next_u64() >> rng.below(64)
}

/// Returns a random element.
pub(crate) fn one_of<T: Clone>(values: &[T], rng: &mut Rng) -> T {
    values[rng.below(values.len() as u64) as usize].clone()
}

macro_rules! random {
    ($($Type:ty: $random:expr;)*) => {
        $(impl Random for $Type {
            fn random(rng: &mut Rng) -> Self {
                let random: fn(&mut Rng) -> Self = $random;
                random(rng)
            }
        })*
    };
}

random! {
    bool: |rng| rng.below(2) == 0;
    u8: |rng| rng.below(65) as u8;
    // Complete and incomplete samples of memory are equally frequent.
    u16: |rng| if rng.below(2) == 0 { 1000 } else { rng.below(1000) as u16 };
    u32: |rng| big(rng) as u32;
    i32: |rng| rng.below(256) as i32;
    u64: big;
    usize: |rng| rng.below(1000) as usize;
    // The maximum value means that there is no limit.
    Bytes: |rng| if rng.below(4) == 0 { Action::NO_LIMIT } else { Bytes(big(rng)) };
    Nanos: |rng| Nanos(big(rng) >> 2);
    JobId: |rng| JobId(rng.below(3) as u32);
    NodeId: |rng| NodeId(rng.below(8) as u32);
    LlcId: |rng| LlcId(rng.below(32) as u32);
    CpuId: |rng| CpuId(rng.below(9) as u32 * 33);
    TaskId: |rng| TaskId { tid: rng.below(1 << 22) as u32, start_time_ticks: big(rng) };
    String: |rng| {
        let texts = ["", "plain", "\"quoted\"\n", "ö€𝄞", "\u{0}\u{1b}[31m", "</script>"];
        one_of(&texts, rng).to_owned()
    };
    PathBuf: |rng| String::random(rng).into();
    Class: |rng| Class::new(rng.below(16) as u8).expect("a class is at most 15");
    Sensitivity: |rng| Sensitivity::new([(Class::random(rng), big(rng) as u32)], big(rng) as u32);
    Command: |rng| one_of(&jobs(), rng).command;
    Profile: |_| {
        let text = "version = 2\nname = \"sort\"\n[[phase]]\nshare = 1.0\ncycles_per_instruction = 2\n\
            llc_accesses_per_1000 = 10\ncurve = { cache_bytes = [1048576], misses_per_1000 = [8] }\n";
        program::profile::parse_profile(text, Path::new("p.toml")).expect("the text is a profile")
    };
    ReasonValue: |rng| match rng.below(4) {
        0 => ReasonValue::Count(big(rng)),
        1 => ReasonValue::Number(rng.unit() * big(rng) as f64),
        2 => ReasonValue::Number(rng.below(5) as f64),
        _ => ReasonValue::Text(String::random(rng).into()),
    };
    Reason: |rng| {
        let names: Vec<String> = Random::random(rng);
        let values = names.into_iter().map(|name| (name.into(), ReasonValue::random(rng)));
        Reason { values: values.collect(), code: Random::random(rng) }
    };
    Action: |rng| match rng.below(4) {
        0 => Action::Place(Random::random(rng)),
        1 => Action::MemoryPolicy(Random::random(rng)),
        2 => {
            let (from, to, limit) = (Random::random(rng), Random::random(rng), Random::random(rng));
            Action::MovePages { from, to, limit }
        }
        _ => Action::Release,
    };
    OutcomeResult: |rng| match rng.below(3) {
        0 => OutcomeResult::Done { n: big(rng) as u32 },
        1 => OutcomeResult::InProgress,
        _ => OutcomeResult::Rejected { cause: Random::random(rng), detail: Random::random(rng) },
    };
    ReasonCode: |rng| one_of(&REASONS, rng);
    JobPhase: |rng| one_of(&[JobPhase::Waiting, JobPhase::Running, JobPhase::Ended], rng);
    Outcome: |rng| Outcome {
        target: Random::random(rng),
        action: Random::random(rng),
        result: Random::random(rng),
    };
    JobEvent: |rng| {
        let id = JobId::random(rng);
        match rng.below(5) {
            0 => JobEvent::Due(id),
            1 => JobEvent::Attached(Box::new(Random::random(rng))),
            2 => JobEvent::Detached(id, Random::random(rng), Box::new(Random::random(rng))),
            3 => JobEvent::Unmanaged(id, Random::random(rng)),
            _ => JobEvent::Ended(id, Box::new(Random::random(rng))),
        }
    };
    TaskSample: |rng| TaskSample {
        process: big(rng) as u32,
        cpu_time: Random::random(rng),
        unseen_children: Random::random(rng),
        previous_sample_at: Random::random(rng),
        wait: Random::random(rng),
        last_cpu: Random::random(rng),
        counters: Random::random(rng),
        includes_children: Random::random(rng),
        ..TaskSample::new(Random::random(rng), Random::random(rng))
    };
    RawCounter: |rng| {
        let (value, enabled_ns) = (big(rng), big(rng));
        match rng.below(3) {
            0 => RawCounter::unmultiplexed(value),
            1 => RawCounter { value, enabled_ns, running_ns: enabled_ns },
            _ => RawCounter { value, enabled_ns, running_ns: big(rng).min(enabled_ns) },
        }
    };
    Counters: |rng| {
        let mut counters = Counters::NONE;
        for &event in CounterEvent::ALL {
            let raw: Option<RawCounter> = Random::random(rng);
            raw.into_iter().for_each(|raw| counters.set(event, raw));
        }
        counters
    };
    Tiers: |rng| {
        let mut tiers = Tiers::default();
        tiers.loads = Random::random(rng);
        CounterEvent::ALL.iter().for_each(|&event| tiers.set(event, Random::random(rng)));
        tiers
    };
    LoadSample: |rng| LoadSample {
        level: Random::random(rng),
        numbers: vec![0, 7],
        loads: DomainLoads {
            tier: Random::random(rng),
            loads: vec![big(rng), big(rng)],
            readable: Random::random(rng),
        },
        cpu_time: vec![Random::random(rng), Random::random(rng)],
        unattributed: Random::random(rng),
        interval: Random::random(rng),
    };
}

impl<T: Random, U: Random> Random for (T, U) {
    fn random(rng: &mut Rng) -> Self {
        (T::random(rng), U::random(rng))
    }
}

impl<T: Random> Random for Option<T> {
    fn random(rng: &mut Rng) -> Self {
        (rng.below(2) == 0).then(|| T::random(rng))
    }
}

impl<T: Random> Random for Vec<T> {
    fn random(rng: &mut Rng) -> Self {
        (0..rng.below(4)).map(|_| T::random(rng)).collect()
    }
}

impl<T: Random> Random for Arc<T> {
    fn random(rng: &mut Rng) -> Self {
        Arc::new(T::random(rng))
    }
}

impl<T: Random + SetId> Random for IdSet<T> {
    fn random(rng: &mut Rng) -> Self {
        Vec::random(rng).into_iter().collect()
    }
}

const REASONS: [ReasonCode; 3] = [
    ReasonCode::new("fewest-jobs", "{domain} had the fewest jobs"),
    ReasonCode::new("least-load", "{domain} had the lowest load"),
    ReasonCode::new("not-busy", "the job used {used} % of its CPU time"),
];
