//! The text language of decision tests. A case contains a small machine, jobs, turns and the expected plans.
//!
//! The tests of `engine` and `policy` share this language. Their cases are files, see [`case_files`]. The first line
//! of a case is a synthetic machine, the script follows, and each line that starts with `>` opens the expected output
//! of one variant, such as a policy:
//!
//! ```text
//!   nodes=2 cores=2
//!   job a b class=5 threads=2          settings of jobs: also cpus=0-3 nodes=0 memory=0 (bind) mpki=20
//!                                      curve=1M:20,16M:5/30 sens=4:50,remote:200; `due` declares other jobs
//!   0ms due a b                        a turn: its time, then its events, separated by `;`
//!   500ms..1s/250ms poll 900 10        one turn each at 500, 750 and 1000 ms
//!   1100ms memory a 0=64 1=8; poll
//!   > dfs
//!   0ms a on 0; b on 1 because lowest-number
//! ```
//!
//! The first table lists the words that both crates share, the second table the words of each
//! crate:
//!
//! ```text
//!   due a b                   the jobs start in this turn
//!   ended a                   the job has ended
//!   usable 0-2                the usable CPUs
//!   unmanaged a on 3          the host must not place the job; it is on CPU 3 (optional)
//!   poll                      the policy's interval has elapsed; policy: with loads of domains
//!   memory a 0=64 1=8         pages of a job (policy) or of a process `a/1` (engine): node=MiB
//!   moved a to=1 mib=64       a completed page migration; also left=MIB by=limit in=32ms
//!   deny a                    setting: the host rejects every action on the job; engine: with the cause
//!
//!   engine   raw samples      task exited node llc group   and   attached detached request note abort
//!            settings         unattached domains interval signals limits show allow
//!   policy   derived values   counts rates waits           and   moving overflow
//!            settings         tier free numa
//! ```
//!
//! `a/2` is the second task of job a. The `testing` module of each crate describes the words of that crate. Job ids
//! are assigned in the order in which a script first names the jobs.

mod cases;

pub use cases::{check_file, check_names};

use std::fmt::Write;
use std::str::FromStr;

use base::{Bytes, CpuSet, JobId, Nanos, NodeId};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use program::{Class, Command, Job, MemoryPolicy, Profile, Sensitivity};
use sched::{
    Action, Cause, CompletedPageMigration, CounterEvent, FailedPages, NodeMemory, PageMigrationEnd,
    Target, Turn,
};
use topology::Machine;

/// Returns a synthetic machine. Text that ends with ` no-llcs` describes a machine without LLC domains, text that ends
/// with ` two-kinds` a machine with all cores above the capacity 512 in one core kind.
pub fn machine(text: &str) -> Machine {
    let (without_llcs, two_kinds) =
        (text.strip_suffix(" no-llcs"), text.strip_suffix(" two-kinds"));
    let shape = without_llcs.or(two_kinds).unwrap_or(text);
    let mut parts = Machine::synthetic(shape).expect("a machine").parts().clone();
    if without_llcs.is_some() {
        parts.llcs.clear();
        parts.cpus.iter_mut().for_each(|cpu| cpu.llc = None);
    }
    for core in parts.cores.iter_mut().filter(|_| two_kinds.is_some()) {
        core.kind = if 512 < core.capacity { "performance" } else { "efficiency" }.to_owned();
    }
    Machine::new(parts).expect("a machine")
}

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A word and the text after it.
    Setting(&'a str, &'a str),
    /// One turn: its time, the text of the time, and its events.
    Turn(Nanos, String, Vec<&'a str>),
}

/// An event of a turn. Job names are not resolved to ids.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the tables above describe the words")]
pub enum Event<'a> {
    Due(Vec<&'a str>),
    Ended(Vec<&'a str>),
    Usable(CpuSet),
    Unmanaged {
        job: &'a str,
        now_on: Option<CpuSet>,
    },
    Poll {
        loads: &'a str,
    },
    Memory {
        owner: &'a str,
        nodes: Vec<NodeMemory>,
    },
    Moved {
        target: &'a str,
        values: &'a str,
    },
    /// A word of only one crate, and the text after it.
    Other(&'a str, &'a str),
}

/// The state that a script changes: jobs on a machine, and the policy.
pub trait World {
    /// Applies a setting.
    fn set(&mut self, word: &str, rest: &str);
    /// Applies an event. Returns the cause of the turn for this event, if it has one.
    fn event(&mut self, at: Nanos, event: Event<'_>) -> Option<Cause>;
    /// Runs the turn and returns its output. The host then applies the approved requests.
    fn turn(&mut self, turn: &Turn) -> Vec<String>;
}

/// Runs a script and returns the output. Each output line starts with the time of its turn.
pub fn play(world: &mut impl World, script: &str) -> String {
    let (mut output, mut number) = (String::new(), 0);
    for line in lines(script) {
        match line {
            Line::Setting(word, rest) => world.set(word, rest),
            Line::Turn(at, time, events) => {
                let events = events.into_iter().map(Event::parse);
                let causes = events.filter_map(|event| world.event(at, event)).collect();
                for line in world.turn(&Turn { number, at, causes }) {
                    writeln!(output, "{time} {line}").expect("writing to a string");
                }
                number += 1;
            }
        }
    }
    output
}

impl<'a> Event<'a> {
    fn parse(text: &'a str) -> Self {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (subject, values) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "due" => Event::Due(rest.split(' ').collect()),
            "ended" => Event::Ended(rest.split(' ').collect()),
            "usable" => Event::Usable(parse(rest)),
            "unmanaged" => {
                Event::Unmanaged { job: subject, now_on: values.strip_prefix("on ").map(parse) }
            }
            "poll" => Event::Poll { loads: rest },
            "memory" => Event::Memory { owner: subject, nodes: node_memory(values) },
            "moved" => Event::Moved { target: subject, values },
            _ => Event::Other(word, rest),
        }
    }
}

/// Returns the lines of a script. A range of times such as `1s..3s/1s` gives one turn per time.
pub fn lines(script: &str) -> impl Iterator<Item = Line<'_>> {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.flat_map(|line| {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !first.starts_with(|c: char| c.is_ascii_digit()) {
            return vec![Line::Setting(first, rest)];
        }
        let events: Vec<&str> = rest.split(';').map(str::trim).filter(|e| !e.is_empty()).collect();
        let turn = |(at, time)| Line::Turn(at, time, events.clone());
        times(first).into_iter().map(turn).collect()
    })
}

/// Returns the times in `250ms` or `1s..3s/1s`, each with its text.
fn times(text: &str) -> Vec<(Nanos, String)> {
    let Some((from, rest)) = text.split_once("..") else {
        return vec![(text.parse().expect("a time"), text.to_owned())];
    };
    let (to, step) = rest.split_once('/').expect("FROM..TO/STEP");
    let [from, to, step]: [Nanos; 3] = [from, to, step].map(|time| time.parse().expect("a time"));
    let unit = if step.0 % 1_000_000_000 == 0 { ("s", 1_000_000_000) } else { ("ms", 1_000_000) };
    let steps = (0..).map(|n| Nanos(from.0 + n * step.0)).take_while(|&at| at <= to);
    steps.map(|at| (at, format!("{}{}", at.0 / unit.1, unit.0))).collect()
}

/// Returns the value of `key=value` in a list of words.
pub fn field<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    fields(words).find(|(found, _)| *found == key).map(|(_, value)| value)
}

/// Returns every `key=value` in a list of words.
pub fn fields(words: &str) -> impl Iterator<Item = (&str, &str)> + Clone {
    words.split_whitespace().filter_map(|word| word.split_once('='))
}

/// Parses a value. Panics with the text and the expected type.
pub fn parse<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a {}", std::any::type_name::<T>()))
}

/// Returns the jobs of a line `a b class=5`: words without `=` are names. `first` is the id of the first job.
pub fn jobs(first: usize, line: &str) -> Vec<Job> {
    let names = line.split_whitespace().filter(|word| !word.contains('='));
    names.enumerate().map(|(idx, name)| job(first + idx, name, line)).collect()
}

/// Returns a job with the fields of a line.
fn job(idx: usize, name: &str, line: &str) -> Job {
    let mut job = Job::new(JobId(idx as u32), name.to_owned(), Command::Shell("true".to_owned()));
    for (key, value) in fields(line) {
        match key {
            "class" => job.class = Class::new(parse(value)),
            "threads" => job.threads = parse(value),
            "cpus" => job.cpus = Some(parse(value)),
            "nodes" => job.nodes = Some(parse(value)),
            "memory" => job.memory = Some(MemoryPolicy::Bind(parse(value))),
            "sens" => job.sensitivity = Some(sensitivity(value)),
            "mpki" | "curve" => job.found = Some(profile(value).into()),
            // The rate of a counter, which the tests of `policy` use.
            _ => assert!(CounterEvent::of_name(key).is_some(), "jobs have no field {key}"),
        }
    }
    job
}

/// Parses `4:50,9:300,remote:200`, in permille.
fn sensitivity(text: &str) -> Sensitivity {
    let (mut by_class, mut remote) = (Vec::new(), 0);
    for (name, value) in text.split(',').filter_map(|part| part.split_once(':')) {
        match name.parse().ok().and_then(Class::new) {
            Some(class) => by_class.push((class, parse(value))),
            None => remote = parse(value),
        }
    }
    Sensitivity::new(by_class, remote)
}

/// Parses a profile that has only a miss-ratio curve: `20`, or `1M:20,16M:5`, in misses per 1000 instructions; `/30` after
/// the curve adds accesses per 1000 instructions.
fn profile(text: &str) -> Profile {
    let (text, accesses) = text.split_once('/').map_or((text, None), |(text, n)| (text, Some(n)));
    let point = |part: &str| {
        let (size, misses) = part.split_once(':').unwrap_or(("1M", part));
        let mib = size.strip_suffix('M').expect("a size such as 4M");
        let cache = Bytes::from_mib(parse(mib));
        CurvePoint { cache, misses: parse(misses), ..CurvePoint::default() }
    };
    let points = text.split(',').map(point).collect();
    let curve = MissRatioCurve::new(ValueSource::Declared, points).expect("sizes rise");
    let llc_accesses = accesses.and_then(|n| ProfileValue::new(parse(n), ValueSource::Declared));
    let phases = vec![Phase { curve, llc_accesses, ..Phase::default() }];
    Profile { name: "p".to_owned(), phases, ..Profile::default() }
}

/// Parses `0=64 1=8`: node=MiB.
fn node_memory(words: &str) -> Vec<NodeMemory> {
    let on_node = |(node, mib)| NodeMemory {
        node: NodeId(parse(node)),
        small: Bytes::from_mib(parse(mib)),
        ..NodeMemory::default()
    };
    fields(words).map(on_node).collect()
}

/// Parses `to=1 mib=20 left=0 by=limit in=32ms`.
pub fn completed_page_migration(target: Target, job: JobId, words: &str) -> CompletedPageMigration {
    let mib = |key| Bytes::from_mib(field(words, key).map_or(0, parse));
    let (moved, not_attempted) = (mib("mib"), mib("left"));
    let in_kernel = field(words, "in").map_or(Nanos::ZERO, parse);
    let by = field(words, "by").unwrap_or("done");
    CompletedPageMigration {
        target,
        job,
        from: None,
        to: NodeId(field(words, "to").map_or(0, parse)),
        limit: Action::NO_LIMIT,
        requested: moved + not_attempted,
        moved,
        failed: FailedPages::default(),
        not_attempted,
        duration: in_kernel,
        in_kernel,
        stopped_by: PageMigrationEnd::ALL.into_iter().find(|end| end.name() == by).expect("an end"),
        detail: String::new(),
    }
}

/// Parses `on 0-3`, `memory bind 0`, `memory prefer 0`, `released`, `pages any 1 20` (from, to, maximum in MiB).
pub fn action(words: &str) -> Action {
    match words.split_whitespace().collect::<Vec<_>>()[..] {
        ["on", cpus] => Action::Place(parse(cpus)),
        ["memory", "bind", nodes] => Action::MemoryPolicy(MemoryPolicy::Bind(parse(nodes))),
        ["memory", "prefer", nodes] => Action::MemoryPolicy(MemoryPolicy::Preferred(parse(nodes))),
        ["released"] => Action::Release,
        ["pages", from, to, ref limit @ ..] => Action::MovePages {
            from: from.parse().ok().map(NodeId),
            to: NodeId(parse(to)),
            limit: limit.first().map_or(Action::NO_LIMIT, |mib| Bytes::from_mib(parse(mib))),
        },
        _ => panic!("{words} is not an action"),
    }
}

/// Returns an action in the format of test output.
pub fn action_text(action: &Action) -> String {
    match action {
        Action::Place(cpus) => format!("on {cpus}"),
        Action::MemoryPolicy(MemoryPolicy::Bind(nodes)) => format!("memory bind {nodes}"),
        Action::MemoryPolicy(MemoryPolicy::Preferred(nodes)) => format!("memory prefer {nodes}"),
        Action::MemoryPolicy(other) => format!("memory {other:?}"),
        Action::Release => "released".to_owned(),
        Action::MovePages { from, to, limit } => {
            let from = from.map_or("anywhere".to_owned(), |from| from.to_string());
            let limit = match *limit {
                Action::NO_LIMIT => String::new(),
                limit => format!(", at most {limit}"),
            };
            format!("pages from {from} to {to}{limit}")
        }
    }
}
