//! Small runs as text: what a host would tell, what a policy would wish, what the engine makes of it.
//!
//! ```text
//!   job a class=3 cpus=0-3 nodes=0 memory=0      what is declared of a job
//!   stranger b class=3                           a job that nobody knows until it appears
//!   signals loads=declared                       what figures shall stand on
//!   show jobs tasks loads                        what to tell of each turn (wishes always)
//!   0ms due a; wish a on 0-1                     a turn: what is sampled and what is wished
//!   250ms poll; task a/1 cpu=10 wait=2 on=3 misses=500     totals: milliseconds, CPU, misses
//!   500ms poll; llc 1 640; group a 0 640         bytes that resctrl counted: of a cache, of a job there
//!   500ms poll; node 0 ops=70 bits=8; gone a/1; ended a; usable 0-2; hands-off a
//!   600ms appeared b; left b                     it ran already; it is watched no longer
//!   750ms poll; bound a 3                        somebody else bound it to this CPU
//!   800ms memory a/1 0=64 1=8                    where the memory of a process lies: node=MiB
//!   810ms wish a pages any 1 20                  a move of its pages: from, to, at most so many MiB
//!   820ms moved a to=1 mib=20 left=0 by=limit    how it ended
//!   deny a not-permitted                         in the turns below the host refuses what concerns a
//!   allow a                                      from here on no longer
//! ```
//!
//! After each turn the host does what was approved, and starts every job that was due.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use base::{JobId, LlcId, Nanos, NodeId, TaskId};
use program::{Class, Command, Job, MemoryPolicy};
use sched::{
    Action, Cause, CompletedPageMove, CounterEvent, CounterReading, Counters, DetachCause,
    ExitStatus, JobEvent, JobExit, JobView, LlcSample, MonGroupSample, NodeMemory, NodeSample,
    Outcome, OutcomeResult, PageMoveEnd, Plan, Policy, ProcessMemory, Reason, ReasonCode,
    RejectCause, Request, Sample, Snapshot, Target, TaskSample, Traffic, Turn, UnmanagedCause,
};
use topology::{DomainChoice, Machine};

use crate::{Engine, MoveLimits, Step};

/// Plays a run and tells of it.
pub(crate) fn play(machine: &str, script: &str) -> String {
    play_with(machine, script, MoveLimits::default())
}

/// The same with other limits for moves of memory.
pub(crate) fn play_with(machine: &str, script: &str, limits: MoveLimits) -> String {
    let mut world = World::new(machine, script, limits);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (first, rest) = line.split_once(' ').expect("two words in a line");
        match first {
            "job" | "stranger" | "show" | "signals" | "domains" | "interval" => {}
            "deny" => world.deny(rest),
            "allow" => world.allow(rest),
            time => world.turn(time, rest),
        }
    }
    world.told
}

/// What the scripted policy is to wish next, and what it saw.
#[derive(Default)]
struct Script {
    plan: Plan,
    saw: String,
    show: String,
    names: Vec<String>,
}

struct Scripted {
    script: Rc<RefCell<Script>>,
    domains: DomainChoice,
    interval: Option<Nanos>,
}

impl Policy for Scripted {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let mut script = self.script.borrow_mut();
        script.saw = saw(seen, &script.show, &script.names);
        *plan = std::mem::take(&mut script.plan);
    }

    fn name(&self) -> &str {
        "scripted"
    }

    fn interval(&self) -> Option<Nanos> {
        self.interval
    }

    fn domains(&self) -> DomainChoice {
        self.domains
    }
}

struct World {
    engine: Engine,
    script: Rc<RefCell<Script>>,
    names: Vec<String>,
    strangers: Vec<Job>,
    denied: Vec<(Target, RejectCause)>,
    show_loads: bool,
    n_turns: u64,
    told: String,
}

impl World {
    fn new(machine: &str, script: &str, limits: MoveLimits) -> Self {
        let line = |word: &'static str| {
            script.lines().filter_map(move |line| line.trim().strip_prefix(word))
        };
        let jobs: Vec<Job> = line("job ").enumerate().map(|(idx, text)| job(idx, text)).collect();
        let n_known = jobs.len();
        let strangers = line("stranger ").enumerate();
        let strangers: Vec<Job> = strangers.map(|(idx, text)| job(n_known + idx, text)).collect();
        let all = jobs.iter().chain(&strangers);
        let names: Vec<String> = all.map(|job| job.name.clone()).collect();
        let show = line("show ").next().unwrap_or("").to_owned();
        let show_loads = show.contains("loads");
        let domains = line("domains ").next().map_or(DomainChoice::Auto, |d| d.parse().unwrap());
        let script = Script { show, names: names.clone(), ..Script::default() };
        let script = Rc::new(RefCell::new(script));
        let interval = line("interval ").next().map(|time| time.parse().expect("a time"));
        let policy = Scripted { script: Rc::clone(&script), domains, interval };
        let machine = Machine::synthetic(machine).expect("a machine");
        let signals = line("signals ").next().map(|wish| wish.parse().expect("a wish"));
        let signals = signals.unwrap_or_default();
        World {
            engine: Engine::new(machine, jobs, Box::new(policy))
                .with_move_limits(limits)
                .with_signals(signals),
            script,
            names,
            strangers,
            denied: Vec::new(),
            show_loads,
            n_turns: 0,
            told: String::new(),
        }
    }

    fn deny(&mut self, rest: &str) {
        let (whom, why) = rest.split_once(' ').expect("deny JOB WHY");
        let why =
            RejectCause::ALL.iter().find(|known| known.name() == why).expect("a sort of refusal");
        self.denied.push((self.target(whom), *why));
    }

    fn allow(&mut self, whom: &str) {
        let target = self.target(whom);
        self.denied.retain(|(denied, _)| *denied != target);
    }

    fn job(&self, name: &str) -> JobId {
        let idx = self.names.iter().position(|known| known == name);
        JobId(idx.map_or(99, |idx| idx as u32))
    }

    fn target(&self, name: &str) -> Target {
        match name.contains('/') {
            true => Target::Task(self.task(name)),
            false => Target::Job(self.job(name)),
        }
    }

    fn task(&self, name: &str) -> TaskId {
        let (job, number) = name.split_once('/').expect("a task is JOB/NUMBER");
        let number: u32 = number.parse().expect("a number");
        TaskId { tid: self.job(job).0 * 100 + number, start_time_ticks: 7 }
    }

    fn turn(&mut self, time: &str, events: &str) {
        let mut turn =
            Turn { number: self.n_turns, at: time.parse().expect("a time"), causes: Vec::new() };
        let mut sample = Sample::default();
        for event in events.split(';').map(str::trim) {
            self.event(event, &mut turn, &mut sample);
        }
        self.n_turns += 1;
        let step = self.engine.step(&turn, &sample);
        self.tell(time, &step);
        let outcomes = self.outcomes(&sample, &step);
        self.engine.record_outcomes(&outcomes);
    }

    fn event(&mut self, event: &str, turn: &mut Turn, sample: &mut Sample) {
        let words: Vec<&str> = event.split_whitespace().collect();
        match words[..] {
            ["poll"] => turn.causes.push(Cause::Interval),
            ["due", ref names @ ..] => {
                sample.jobs.extend(names.iter().map(|name| JobEvent::Due(self.job(name))));
            }
            ["ended", name] => sample.jobs.push(JobEvent::Ended(self.job(name), Box::new(end()))),
            ["left", name] => {
                let counted = Box::new(Counters::NONE);
                sample.jobs.push(JobEvent::Detached(self.job(name), DetachCause::Ended, counted));
            }
            ["appeared", name] => {
                let job = self.strangers.iter().find(|job| job.name == name);
                let job = job.expect("a stranger").clone();
                sample.jobs.push(JobEvent::Attached(Box::new(job)));
            }
            ["appeared", name, "as", other] => {
                let job = self.strangers.iter().find(|job| job.name == name);
                let job = Job { id: self.job(other), ..job.expect("a stranger").clone() };
                sample.jobs.push(JobEvent::Attached(Box::new(job)));
            }
            ["hands-off", name] => {
                sample.jobs.push(JobEvent::Unmanaged(self.job(name), UnmanagedCause::NotPermitted));
            }
            ["bound", name, cpus] => {
                let foreign = UnmanagedCause::AffinityChanged(cpus.parse().expect("CPUs"));
                sample.jobs.push(JobEvent::Unmanaged(self.job(name), foreign));
            }
            ["usable", cpus] => sample.usable_cpus = Some(cpus.parse().expect("CPUs")),
            ["task", name, ref figures @ ..] => sample.tasks.push(self.task_sample(name, figures)),
            ["llc", number, bytes] => {
                sample.llcs.push(LlcSample { llc: LlcId(n(number)), traffic: traffic(bytes) });
            }
            ["group", name, number, bytes] => {
                let (job, llc) = (self.job(name), LlcId(n(number)));
                sample.mon_groups.push(MonGroupSample { job, llc, traffic: traffic(bytes) });
            }
            ["gone", name] => sample.exited.push(self.task(name)),
            ["memory", name, ref nodes @ ..] => {
                sample.memory.push(self.process_memory(name, turn.at, nodes));
            }
            ["moved", name, ref figures @ ..] => {
                sample.page_moves_completed.push(self.move_ended(name, figures))
            }
            ["node", number, ref figures @ ..] => sample.nodes.push(node_sample(number, figures)),
            ["wish", name, ref wish @ ..] => {
                let reason = Reason::new(ReasonCode::new("next-in-turn", "a test"));
                let target = self.target(name);
                self.script.borrow_mut().plan.requests.push(Request {
                    target,
                    action: action(wish),
                    reason: reason.into(),
                });
            }
            ["note", code] => self.script.borrow_mut().plan.note(reason(code)),
            ["give-up"] => {
                self.script.borrow_mut().plan.abort = Some(reason("counters-unreadable"));
            }
            ["nothing"] => {}
            _ => panic!("{event} is nothing that happens"),
        }
    }

    fn task_sample(&self, name: &str, figures: &[&str]) -> TaskSample {
        let (job, _) = name.split_once('/').expect("a task is JOB/NUMBER");
        let figure = |key: &str| {
            figures.iter().filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key)
        };
        let number = |key: &str| figure(key).map(|(_, value)| value.parse::<u64>());
        let misses = figure("misses").and_then(|(_, text)| reading(text));
        TaskSample {
            task: self.task(name),
            process: 1,
            job: self.job(job),
            cpu_time: format!("{}ms", figure("cpu").expect("cpu=").1).parse().expect("a time"),
            previous_sample_at: figure("before").map(|(_, at)| at.parse().expect("a time")),
            wait: number("wait").and_then(Result::ok).map(Nanos::from_millis),
            last_cpu: figure("on").map(|(_, cpu)| base::CpuId(cpu.parse().expect("a CPU"))),
            counters: misses.map_or(Counters::NONE, |misses| {
                Counters::NONE.with(CounterEvent::LlcMisses, misses)
            }),
            includes_children: figures.contains(&"children"),
        }
    }

    /// `NODE=MIB`; nothing at all for a process that has no memory any more.
    fn process_memory(&self, name: &str, at: Nanos, nodes: &[&str]) -> ProcessMemory {
        let (job, _) = name.split_once('/').expect("a process is JOB/NUMBER");
        let lies = nodes.iter().map(|text| {
            let (node, mib) = text.split_once('=').expect("NODE=MIB");
            let small = base::Bytes::from_mib(mib.parse().expect("MiB"));
            NodeMemory { node: NodeId(node.parse().expect("a node")), small, ..Default::default() }
        });
        ProcessMemory {
            job: self.job(job),
            process: self.task(name),
            nodes: lies.collect(),
            sampled_permille: 1000,
            at,
        }
    }

    /// `to=NODE mib=MOVED left=MIB by=WHY`.
    fn move_ended(&self, name: &str, figures: &[&str]) -> CompletedPageMove {
        let word = |key: &str| {
            let found = figures.iter().filter_map(|f| f.split_once('=')).find(|(k, _)| *k == key);
            found.map(|(_, value)| value)
        };
        let number = |key: &str| word(key).map_or(0, |text| text.parse().expect("a number"));
        let (moved, left) =
            (base::Bytes::from_mib(number("mib")), base::Bytes::from_mib(number("left")));
        let by = word("by").unwrap_or("done");
        CompletedPageMove {
            target: self.target(name),
            job: self.job(name),
            from: None,
            to: NodeId(number("to") as u32),
            limit: Action::NO_LIMIT,
            requested: moved + left,
            moved,
            failed: Default::default(),
            not_attempted: left,
            duration: Nanos::ZERO,
            in_kernel: Nanos::ZERO,
            stopped_by: PageMoveEnd::ALL.into_iter().find(|s| s.name() == by).expect("a word"),
            detail: String::new(),
        }
    }

    fn outcomes(&self, sample: &Sample, step: &Step) -> Vec<Outcome> {
        let asked = step.approved.requests().iter().map(|ask| {
            let deed = match &ask.action {
                Action::Place(cpus) => Action::Place(cpus.clone()),
                Action::MemoryPolicy(policy) => Action::MemoryPolicy(policy.clone()),
                Action::Release => Action::Release,
                Action::MovePages { from, to, limit } => {
                    Action::MovePages { from: *from, to: *to, limit: *limit }
                }
            };
            self.outcome(ask.target, Some(deed))
        });
        let due = sample.jobs.iter().filter_map(|event| match event {
            JobEvent::Due(job) => Some(self.outcome(Target::Job(*job), None)),
            _ => None,
        });
        asked.chain(due).collect()
    }

    fn outcome(&self, target: Target, action: Option<Action>) -> Outcome {
        let denied = self.denied.iter().find(|(whom, _)| *whom == target).map(|(_, why)| *why);
        let denied = denied.filter(|why| (*why == RejectCause::StartFailed) == action.is_none());
        let result = match denied {
            Some(why) => OutcomeResult::Rejected { cause: why, detail: String::new() },
            None if matches!(action, Some(Action::MovePages { .. })) => OutcomeResult::InProgress,
            None => OutcomeResult::Done { n: 1 },
        };
        Outcome { target, action, result }
    }

    fn tell(&mut self, time: &str, step: &Step) {
        let mut lines = std::mem::take(&mut self.script.borrow_mut().saw);
        if let Some(loads) = step.loads.as_ref().filter(|_| self.show_loads) {
            let cpu: Vec<u64> = loads.cpu_time.iter().map(|time| time.0 / MILLI).collect();
            let loads = &loads.loads;
            let unreadable = if loads.readable { "" } else { " (not readable)" };
            writeln!(lines, "{} {:?} cpu {cpu:?}{unreadable}", loads.tier, loads.loads).unwrap();
        }
        for ask in step.approved.requests() {
            let part = if step.narrowed.contains(ask) { " (narrowed)" } else { "" };
            writeln!(lines, "do {}{part}", self.wish(ask)).unwrap();
        }
        for refusal in &step.rejected {
            let why = refusal.cause.name();
            writeln!(lines, "not {}: {why}, {}", self.wish(&refusal.request), refusal.detail)
                .unwrap();
        }
        for note in &step.plan.notes {
            writeln!(lines, "note {}", note.code.name()).unwrap();
        }
        if step.plan.abort.is_some() {
            writeln!(lines, "gives up").unwrap();
        }
        lines.lines().for_each(|line| writeln!(self.told, "{time} {line}").unwrap());
    }

    fn wish(&self, ask: &Request) -> String {
        let whom = match ask.target {
            Target::Job(job) => name(&self.names, job),
            Target::Task(task) => task_name(&self.names, task),
        };
        match &ask.action {
            Action::Place(cpus) => format!("{whom} on {cpus}"),
            Action::MemoryPolicy(policy) => format!("{whom} memory {policy:?}"),
            Action::Release => format!("{whom} released"),
            Action::MovePages { from, to, limit } => {
                let from = from.map_or("anywhere".to_owned(), |from| from.to_string());
                let limit = match *limit {
                    Action::NO_LIMIT => String::new(),
                    limit => format!(", at most {limit}"),
                };
                format!("{whom} pages from {from} to {to}{limit}")
            }
        }
    }
}

const MILLI: u64 = 1_000_000;

fn name(names: &[String], job: JobId) -> String {
    names.get(job.index()).cloned().unwrap_or_else(|| job.to_string())
}

fn task_name(names: &[String], task: TaskId) -> String {
    format!("{}/{}", name(names, JobId(task.tid / 100)), task.tid % 100)
}

fn reason(code: &str) -> Reason {
    Reason::new(ReasonCode::recorded(code.to_owned(), String::new()))
}

fn action(words: &[&str]) -> Action {
    match words {
        ["on", cpus] => Action::Place(cpus.parse().expect("CPUs")),
        ["memory", nodes] => Action::MemoryPolicy(MemoryPolicy::Bind(nodes.parse().unwrap())),
        ["prefer", nodes] => Action::MemoryPolicy(MemoryPolicy::Preferred(nodes.parse().unwrap())),
        ["released"] => Action::Release,
        ["pages", from, to, limit @ ..] => Action::MovePages {
            from: from.parse().ok().map(NodeId),
            to: NodeId(to.parse().expect("a node")),
            limit: limit
                .first()
                .map_or(Action::NO_LIMIT, |mib| base::Bytes::from_mib(mib.parse().expect("MiB"))),
        },
        _ => panic!("{words:?} is nothing to wish"),
    }
}

fn node_sample(number: &str, figures: &[&str]) -> NodeSample {
    let figure = |key: &str| {
        let pair = figures.iter().filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key);
        pair.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    NodeSample {
        node: NodeId(number.parse().expect("a node")),
        memory_free: figure("free")
            .map(base::Bytes)
            .or(figure("free-mib").map(base::Bytes::from_mib)),
        memory_reclaimable: figure("reclaimable-mib").map(base::Bytes::from_mib),
        controller_ops: figure("ops").map(CounterReading::unmultiplexed),
        counter_bits: figure("bits").unwrap_or(64) as u8,
        read_bytes: figure("read").map(CounterReading::unmultiplexed),
        written_bytes: figure("written").map(CounterReading::unmultiplexed),
    }
}

fn end() -> JobExit {
    JobExit {
        status: ExitStatus::Exited(0),
        stopped_by_host: false,
        restarts: false,
        wall: Nanos::ZERO,
        user: Nanos::ZERO,
        system: Nanos::ZERO,
        max_resident: base::Bytes::ZERO,
        wait: None,
        n_migrations: None,
        counters: sched::Counters::NONE,
        traffic: None,
        n_orphans: 0,
    }
}

fn saw(seen: &Snapshot<'_>, show: &str, names: &[String]) -> String {
    let mut lines = String::new();
    if show.contains("jobs") {
        seen.jobs.iter().for_each(|job| writeln!(lines, "{}", saw_job(seen, job)).unwrap());
    }
    if show.contains("tasks") {
        for task in seen.tasks {
            let name = task_name(names, task.task);
            let wait = task.wait.map(|wait| wait.0 / MILLI);
            let (cpu, misses) = (task.cpu_time.0 / MILLI, task.counters.misses());
            writeln!(lines, "{name} cpu {cpu} wait {wait:?} misses {misses:?}").unwrap();
        }
    }
    if show.contains("nodes") {
        for node in seen.nodes {
            let free = node.memory_free.map(|free| free.0);
            writeln!(lines, "{} ops {:?} free {free:?}", node.node, node.controller_ops).unwrap();
        }
    }
    if show.contains("memory") {
        seen.jobs.iter().for_each(|job| lines.push_str(&saw_memory(job)));
    }
    if show.contains("places") {
        let loads = seen.domains.iter().zip(&seen.loads.loads);
        let loads = loads.map(|((idx, _), load)| format!("{} {load}", seen.domains.label(idx)));
        let loads = loads.collect::<Vec<_>>().join(", ");
        writeln!(lines, "{} of {loads}", seen.loads.tier).unwrap();
    }
    if show.contains("interval") {
        writeln!(lines, "interval {}", seen.interval).unwrap();
    }
    lines
}

fn saw_memory(job: &JobView<'_>) -> String {
    let mut line = format!("{} lies", job.job.name);
    for lies in job.memory.iter().flat_map(|memory| &memory.nodes) {
        write!(line, " {}={}", lies.node, lies.total()).unwrap();
    }
    if let Some(home) = job.memory.and_then(|memory| memory.home()) {
        write!(line, ", home {home}").unwrap();
    }
    if let Some(moving) = job.active_page_move {
        write!(line, ", moving to {} since {}", moving.to, moving.since).unwrap();
    }
    if let Some((at, moved)) = job.last_page_move {
        let (by, to) = (moved.stopped_by.name(), moved.to);
        write!(line, ", {} of {} moved to {to} by {at} ({by})", moved.moved, moved.requested)
            .unwrap();
    }
    line + "\n"
}

fn saw_job(seen: &Snapshot<'_>, job: &JobView<'_>) -> String {
    let mut line = format!("{} {:?}", job.job.name, job.state).to_lowercase();
    let mut add = |text: String| line.push_str(&text);
    if job.allowed != seen.usable_cpus {
        add(format!(" of {}", job.allowed));
    }
    if let Some(placed) = job.placed {
        add(format!(" on {placed}"));
    }
    if let Some(idx) = job.domain {
        add(format!(" in {}", seen.domains.label(idx)));
    }
    if !job.movable {
        add(" hands off".to_owned());
    }
    if let Some(started) = job.started {
        add(format!(" since {}", started.0 / MILLI));
    }
    let wait = job.wait.map_or("-".to_owned(), |wait| (wait.0 / MILLI).to_string());
    add(format!(" tasks {} cpu {} load {}", job.n_tasks, job.cpu_time.0 / MILLI, job.load));
    add(format!(" wait {wait}"));
    line
}

fn job(idx: usize, line: &str) -> Job {
    let mut words = line.split_whitespace();
    let mut job = Job::new(
        JobId(idx as u32),
        words.next().expect("a name").to_owned(),
        Command::Shell("true".to_owned()),
    );
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match key {
            "class" => job.class = Class::new(value.parse().expect("a number")),
            "cpus" => job.cpus = Some(value.parse().expect("CPUs")),
            "nodes" => job.nodes = Some(value.parse().expect("nodes")),
            "memory" => job.memory = Some(MemoryPolicy::Bind(value.parse().expect("nodes"))),
            other => panic!("{other} is no key of a job"),
        }
    }
    job
}

fn n(text: &str) -> u32 {
    text.parse().expect("a number")
}

fn traffic(bytes: &str) -> Traffic {
    Traffic { total_bytes: reading(bytes), ..Traffic::default() }
}

/// `VALUE`, `VALUE/ENABLED/RUNNING`, or `-` for an absent counter.
fn reading(text: &str) -> Option<CounterReading> {
    let mut words = text.split('/').map(|word| word.parse::<u64>());
    let value = words.next()?.ok()?;
    let [enabled_ns, running_ns] =
        [(); 2].map(|()| words.next().map_or(0, |time| time.expect("ns")));
    Some(CounterReading { value, enabled_ns, running_ns })
}
