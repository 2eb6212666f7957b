//! Small worlds as text, for decision tests.
//!
//! ```text
//!   job a class=5 threads=2 cpus=0-3      what is declared of a job
//!   job a curve=1M:20,16M:5               what its profile tells of its misses
//!   0ms due a b                           a turn: its time, then what happens, `;` between
//!   250ms poll 900 10 with a=800          loads of the domains in this interval, and of jobs
//!   250ms poll unreadable; ended b
//!   300ms usable 0-2; hands-off a; hands-off b on 3
//!   250ms misses a=700/10ms; poll 900 10  cache misses of a job's task and its CPU time, until told anew
//!   1s rates a=20 b=0.5/3 c=-@50; poll    per 1000 instructions misses (/ accesses) of a job's task, `-`:
//!                                         not counted, and its use of CPUs in %; until told anew
//!   1s counts a in=1s cycles=9 llc-misses=3; poll 0 0  what is counted of a job's task, until told anew
//!   1s counts a.2 in=1s queue-full=7; poll 0 0         the same of its second task
//!   250ms waits a=60ms/190ms; poll 900 10 time that a job waited and ran, until told anew
//!   250ms memory a 0=64 1=8; poll 900 10  where the memory of a job lies, in MiB by node, until told anew
//!   free 0=512 1=1024                     free memory of nodes, in MiB
//!   250ms moving a to=1; poll 900 10        a move of its memory is under way, until it is told how it ended
//!   250ms moved a to=1 mib=64 in=32ms; …  how a move of its memory ended
//!   tier declared                         what loads stand on from here on (bandwidth at first)
//!   rules numa-balancing interleaves      how the system places memory
//!   deny a                                from here on the machine refuses to place a
//! ```
//!
//! After each turn the world does what the plan says, and every job that was due runs. What comes
//! out is the plan of each turn, a wish a line.

use std::collections::BTreeMap;
use std::fmt::Write;

use base::{Bytes, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::{Class, Command, Job, MemoryPolicy, Sensitivity};
use sched::{
    Action, ActivePageMove, Cause, CompletedPageMove, CounterDeltas, CounterEvent, DomainLoads,
    FailedPages, JobMemory, JobState, JobView, NodeMemory, NodeView, NumaSettings, PageMoveEnd,
    Plan, Policy, Pressure, Reason, Request, SignalTier, Snapshot, Target, TaskView, Tiers, Turn,
};
use topology::{Domains, Level, Machine};

mod rates;

use rates::{Rates, profile};

/// A machine with jobs, and a policy that decides for it.
pub(crate) struct World {
    machine: Machine,
    policy: Box<dyn Policy>,
    usable: CpuSet,
    rules: NumaSettings,
    tier: SignalTier,
    free: BTreeMap<NodeId, Bytes>,
    loads: Vec<u64>,
    /// What the loads are loads of.
    level: Option<Level>,
    readable: bool,
    interval: Nanos,
    polled_at: Nanos,
    n_turns: u64,
    n_polls: u64,
    jobs: Vec<JobInWorld>,
    told: String,
    how: Tell,
    watch: Option<Watch>,
}

/// Looks at each wish to place a job.
type Watch = Box<dyn FnMut(Watched<'_>)>;

/// A wish to place a job, with what was known when it was made.
pub(crate) struct Watched<'a> {
    pub job: JobId,
    /// How many polls there were up to now, this one too.
    pub n_polls: u64,
    pub cpus: &'a CpuSet,
    pub allowed: &'a CpuSet,
    pub movable: bool,
    /// The domain that it moves away from because of loads.
    pub moved_from: Option<usize>,
    pub class: u8,
    /// Classes of the jobs in that domain that may go where it goes.
    pub classes_there: Vec<u8>,
    /// How many jobs in that domain are ours to move, wherever they may go.
    pub n_movable_there: usize,
    pub loads: &'a [u64],
}

/// How much of a reason is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Codes,
    Sentences,
}

struct JobInWorld {
    job: Job,
    state: Option<JobState>,
    placed: Option<CpuSet>,
    /// Where it was put before it was given back: its tasks ran there last.
    ran_on: Option<CpuSet>,
    started: Option<Nanos>,
    movable: bool,
    denied: bool,
    load: u64,
    /// Cache misses of its task and its CPU time.
    misses: Option<(u64, Nanos)>,
    rates: Option<Rates>,
    /// What was counted of its tasks and their CPU time, by number.
    counts: BTreeMap<u32, (CounterDeltas, Nanos)>,
    /// Time that it waited and ran.
    waits: Option<(Nanos, Nanos)>,
    memory: Option<JobMemory>,
    moved: Option<(Nanos, CompletedPageMove)>,
    moving: Option<ActivePageMove>,
}

/// What a policy plans in a world, with the codes of its reasons.
pub(crate) fn plans(machine: &str, policy: &str, script: &str) -> String {
    World::new(machine, policy, Tell::Codes).play(script)
}

/// The same with the reasons as people read them.
pub(crate) fn stories(machine: &str, policy: &str, script: &str) -> String {
    World::new(machine, policy, Tell::Sentences).play(script)
}

/// Plays a script and lets `watch` look at every wish to place a job.
pub(crate) fn play_watched(
    machine: &str,
    policy: &str,
    script: &str,
    watch: impl FnMut(Watched<'_>) + 'static,
) {
    let mut world = World::new(machine, policy, Tell::Codes);
    world.watch = Some(Box::new(watch));
    world.play(script);
}

impl World {
    pub fn new(machine: &str, policy: &str, how: Tell) -> Self {
        let machine = self::machine(machine);
        World {
            policy: crate::build(policy, 1).expect("a policy"),
            usable: machine.allowed().clone(),
            rules: NumaSettings::default(),
            tier: SignalTier::Bandwidth,
            free: BTreeMap::new(),
            loads: Vec::new(),
            level: None,
            readable: true,
            interval: Nanos::ZERO,
            polled_at: Nanos::ZERO,
            n_turns: 0,
            n_polls: 0,
            jobs: Vec::new(),
            told: String::new(),
            how,
            watch: None,
            machine,
        }
    }

    /// The same with trials of the migrations.
    pub fn with_trials(mut self, acts: bool) -> Self {
        self.policy = crate::with_trials(self.policy, acts);
        self
    }

    pub fn play(mut self, script: &str) -> String {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (first, rest) = line.split_once(' ').expect("two words in a line");
            match first {
                "job" => self.declare(rest),
                "tier" => self.tier = tier(rest),
                "free" => {
                    let free = by_number(rest).into_iter();
                    self.free = free.map(|(n, mib)| (NodeId(n), Bytes::from_mib(mib))).collect();
                }
                "deny" => rest.split(' ').for_each(|name| self.job(name).denied = true),
                "rules" => {
                    self.rules.numa_balancing = rest.contains("numa-balancing");
                    self.rules.interleaves = rest.contains("interleaves");
                }
                time => self.turn(time, rest),
            }
        }
        self.told
    }

    fn declare(&mut self, line: &str) {
        let mut words = line.split(' ');
        let mut job = Job::new(
            JobId(self.jobs.len() as u32),
            words.next().expect("a name").to_owned(),
            Command::Shell("true".to_owned()),
        );
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "class" => job.class = Class::new(value.parse().expect("a number")),
                "threads" => job.threads = value.parse().expect("a number"),
                "cpus" => job.cpus = Some(value.parse().expect("CPUs")),
                "nodes" => job.nodes = Some(value.parse().expect("nodes")),
                "curve" => job.found = Some(profile(value).into()),
                "mpki" => job.found = Some(profile(value).into()),
                "sens" => job.sensitivity = Some(sensitivity(value)),
                "memory" => job.memory = Some(MemoryPolicy::Bind(value.parse().expect("nodes"))),
                other => panic!("{other} is no key of a job"),
            }
        }
        self.jobs.push(JobInWorld {
            job,
            state: None,
            placed: None,
            ran_on: None,
            started: None,
            movable: true,
            denied: false,
            load: 0,
            misses: None,
            rates: None,
            counts: BTreeMap::new(),
            waits: None,
            memory: None,
            moved: None,
            moving: None,
        });
    }

    fn job(&mut self, name: &str) -> &mut JobInWorld {
        let found = self.jobs.iter_mut().find(|job| job.job.name == name);
        found.unwrap_or_else(|| panic!("{name} is no job here"))
    }

    fn turn(&mut self, time: &str, events: &str) {
        let at: Nanos = time.parse().expect("a time");
        let mut causes = Vec::new();
        for event in events.split(';').map(str::trim) {
            let (what, rest) = event.split_once(' ').unwrap_or((event, ""));
            match what {
                "misses" => self.misses(rest),
                "rates" => self.rates(rest),
                "counts" => self.counts(rest),
                "waits" => self.waits(rest),
                "memory" => self.memory(at, rest),
                "moved" => self.moved(at, rest),
                "moving" => self.moving(at, rest),
                _ => {}
            }
            if ["misses", "rates", "counts", "waits", "memory", "moved", "moving"].contains(&what) {
                continue;
            }
            causes.push(match what {
                "due" => self.due(rest),
                "poll" => self.poll(at, rest),
                "overflow" => Cause::Overflow,
                "ended" => self.ended(rest),
                "usable" => {
                    self.usable = rest.parse().expect("CPUs");
                    Cause::CpusChanged
                }
                "hands-off" => self.hands_off(rest),
                other => panic!("{other} is nothing that happens"),
            });
        }
        let turn = Turn { number: self.n_turns, at, causes };
        self.n_turns += 1;
        let plan = self.decide(&turn);
        self.tell(time, &plan);
        self.act(at, &plan);
    }

    fn due(&mut self, names: &str) -> Cause {
        for name in names.split(' ') {
            let job = self.job(name);
            (job.state, job.placed, job.load) = (Some(JobState::Due), None, 0);
            job.ran_on = None;
            job.movable = true;
        }
        Cause::JobsDue
    }

    fn ended(&mut self, names: &str) -> Cause {
        names.split(' ').for_each(|name| self.job(name).state = None);
        Cause::Ended
    }

    fn hands_off(&mut self, what: &str) -> Cause {
        let (name, cpus) = what.split_once(" on ").unwrap_or((what, ""));
        let job = self.job(name);
        job.movable = false;
        if !cpus.is_empty() {
            job.placed = Some(cpus.parse().expect("CPUs"));
        }
        Cause::Ended
    }

    fn poll(&mut self, at: Nanos, what: &str) -> Cause {
        self.n_polls += 1;
        self.interval = at.saturating_sub(self.polled_at);
        self.polled_at = at;
        self.readable = what != "unreadable";
        if self.readable {
            let (loads, of_jobs) = what.split_once("with").unwrap_or((what, ""));
            let number = |text: &str| text.parse().expect("a load");
            self.loads = loads.split_whitespace().map(number).collect();
            for (name, load) in of_jobs.split_whitespace().filter_map(|word| word.split_once('=')) {
                self.job(name).load = number(load);
            }
        }
        Cause::Interval
    }

    fn misses(&mut self, words: &str) {
        for (name, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            let (misses, time) = value.split_once('/').expect("misses/time");
            let time = time.parse().expect("a time");
            self.job(name).misses = Some((misses.parse().expect("a number"), time));
        }
    }

    fn counts(&mut self, words: &str) {
        let (whom, figures) = words.split_once(' ').expect("name, then figures");
        let (name, task) = whom.split_once('.').unwrap_or((whom, "1"));
        let (mut counted, mut time) = (CounterDeltas::default(), Nanos::ZERO);
        for (key, value) in figures.split(' ').filter_map(|word| word.split_once('=')) {
            match CounterEvent::of_name(key) {
                Some(event) => counted = counted.with(event, value.parse().expect("a number")),
                None if key == "in" => time = value.parse().expect("a time"),
                None => panic!("{key} is not counted"),
            }
        }
        let task = task.parse().expect("a number");
        self.job(name).counts.insert(task, (counted, time));
    }

    fn waits(&mut self, words: &str) {
        for (name, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            let (waited, ran) = value.split_once('/').expect("waited/ran");
            let time = |text: &str| text.parse().expect("a time");
            self.job(name).waits = Some((time(waited), time(ran)));
        }
    }

    fn rates(&mut self, words: &str) {
        for (name, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            self.job(name).rates = Some(Rates::read(value));
        }
    }

    fn memory(&mut self, at: Nanos, words: &str) {
        let (name, by_node) = words.split_once(' ').unwrap_or((words, ""));
        let on_node = |(node, mib): (u32, u64)| NodeMemory {
            node: NodeId(node),
            small: Bytes::from_mib(mib),
            ..NodeMemory::default()
        };
        let nodes: Vec<NodeMemory> = by_number(by_node).into_iter().map(on_node).collect();
        let memory = JobMemory { nodes, sampled_permille: 1000, n_processes: 1, at };
        self.job(name).memory = Some(memory);
    }

    fn moved(&mut self, at: Nanos, words: &str) {
        let (name, how) = words.split_once(' ').expect("name, then how");
        let value =
            |key: &str| how.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let bytes = Bytes::from_mib(value("mib").expect("mib=").parse().expect("a number"));
        let in_kernel = value("in").expect("in=").parse().expect("a time");
        let id = self.job(name).job.id;
        let moved = CompletedPageMove {
            target: id.into(),
            job: id,
            from: None,
            to: NodeId(value("to").expect("to=").parse().expect("a number")),
            limit: Action::NO_LIMIT,
            requested: bytes,
            moved: bytes,
            failed: FailedPages::default(),
            not_attempted: Bytes::ZERO,
            duration: in_kernel,
            in_kernel,
            stopped_by: PageMoveEnd::Done,
            detail: String::new(),
        };
        let job = self.job(name);
        (job.moved, job.moving) = (Some((at, moved)), None);
    }

    fn moving(&mut self, since: Nanos, words: &str) {
        let (name, to) = words.split_once(" to=").expect("name, then to=");
        let to = NodeId(to.parse().expect("a number"));
        let target = self.job(name).job.id.into();
        let limit = Action::NO_LIMIT;
        self.job(name).moving = Some(ActivePageMove { target, from: None, to, limit, since });
    }

    /// All nodes of which something is told.
    fn nodes(&self) -> Vec<NodeView> {
        let node = |(&node, &free)| NodeView {
            node,
            memory_free: Some(free),
            memory_reclaimable: None,
            memory_total: None,
            controller_ops: None,
            read_bytes: None,
            written_bytes: None,
        };
        self.free.iter().map(node).collect()
    }

    /// One task for each job of which misses are told, and as many as there are counts of.
    fn tasks(&self) -> Vec<TaskView> {
        let running = self.jobs.iter().filter(|job| job.state == Some(JobState::Running));
        running.flat_map(|job| job.tasks(self.interval)).collect()
    }

    /// What is counted of anybody stands on counters.
    fn tiers(&self, tasks: &[TaskView]) -> Tiers {
        let mut tiers = Tiers::default();
        tiers.loads = self.tier;
        for (event, _) in tasks.iter().flat_map(|task| task.counters.iter()) {
            tiers.set(event, SignalTier::Counters);
        }
        tiers
    }

    fn decide(&mut self, turn: &Turn) -> Plan {
        let domains = Domains::of(&self.machine, self.policy.domains(), &self.usable);
        let was_polled = turn.causes.contains(&Cause::Interval);
        if self.level.replace(domains.level()) != Some(domains.level()) && !was_polled {
            self.loads.clear();
        }
        let mut loads = self.loads.clone();
        loads.resize(domains.len(), 0);
        let loads = DomainLoads { tier: self.tier, loads, readable: self.readable };
        let allowed: Vec<CpuSet> = self.jobs.iter().map(|job| self.allowed(&job.job)).collect();
        let jobs: Vec<JobView<'_>> = (self.jobs.iter().zip(&allowed))
            .filter_map(|(job, allowed)| job.seen(allowed, &domains, &self.usable, self.interval))
            .collect();
        let (tasks, nodes) = (self.tasks(), self.nodes());
        let tiers = self.tiers(&tasks);
        let seen = Snapshot {
            turn,
            machine: &self.machine,
            usable_cpus: &self.usable,
            domains: &domains,
            loads: &loads,
            tiers: &tiers,
            interval: self.interval,
            n_intervals: 1,
            numa_settings: &self.rules,
            jobs: &jobs,
            tasks: &tasks,
            nodes: &nodes,
            llcs: &[],
            mon_groups: &[],
            cpus: &[],
            pressure: &Pressure::default(),
        };
        let mut plan = Plan::default();
        self.policy.decide(&seen, &mut plan);
        if let Some(watch) = &mut self.watch {
            let n_polls = self.n_polls;
            plan.requests.iter().filter_map(|ask| watched(&seen, n_polls, ask)).for_each(watch);
        }
        plan
    }

    fn allowed(&self, job: &Job) -> CpuSet {
        let of_nodes = job.nodes.as_ref().map(|nodes| self.machine.cpus_of_nodes(nodes));
        let wishes = [job.cpus.clone(), of_nodes].into_iter().flatten();
        wishes.fold(self.usable.clone(), |left, wish| left.and(&wish))
    }

    fn tell(&mut self, time: &str, plan: &Plan) {
        let how = self.how;
        let because = |reason: &Reason| {
            let sentence = reason.to_string();
            assert!(!sentence.contains('?'), "a figure is missing: {sentence}");
            match how {
                Tell::Codes => reason.code.name().to_owned(),
                Tell::Sentences => sentence,
            }
        };
        for note in &plan.notes {
            writeln!(self.told, "{time} note: {}", because(note)).expect("text");
        }
        for ask in &plan.requests {
            let wish = self.wish(ask);
            writeln!(self.told, "{time} {wish} because {}", because(&ask.reason)).expect("text");
        }
        if let Some(reason) = &plan.abort {
            writeln!(self.told, "{time} gives up because {}", because(reason)).expect("text");
        }
    }

    fn wish(&self, ask: &Request) -> String {
        let Target::Job(id) = ask.target else { panic!("no policy here places single tasks") };
        let name = &self.jobs[id.index()].job.name;
        match &ask.action {
            Action::Place(cpus) => format!("{name} on {cpus}"),
            Action::MemoryPolicy(MemoryPolicy::Bind(nodes)) => format!("{name} memory {nodes}"),
            Action::MemoryPolicy(other) => format!("{name} memory {other:?}"),
            Action::Release => format!("{name} released"),
            Action::MovePages { from, to, limit } => {
                let from = from.map_or("anywhere".to_owned(), |from| from.to_string());
                let most = match *limit {
                    Action::NO_LIMIT => String::new(),
                    limit => format!(", at most {limit}"),
                };
                format!("{name} pages from {from} to {to}{most}")
            }
        }
    }

    fn act(&mut self, at: Nanos, plan: &Plan) {
        for ask in &plan.requests {
            if let (Target::Job(id), Action::Release) = (ask.target, &ask.action) {
                let job = &mut self.jobs[id.index()];
                job.ran_on = job.placed.take().or(job.ran_on.take());
            }
            let (Target::Job(id), Action::Place(cpus)) = (ask.target, &ask.action) else {
                continue;
            };
            let job = &mut self.jobs[id.index()];
            if !job.denied {
                job.placed = Some(cpus.clone());
            }
        }
        for job in self.jobs.iter_mut().filter(|job| job.state == Some(JobState::Due)) {
            job.state = Some(JobState::Running);
            job.started = Some(at);
        }
    }
}

impl JobInWorld {
    fn tasks(&self, interval: Nanos) -> Vec<TaskView> {
        if let Some(rates) = self.rates {
            return vec![rates.task(self.job.id, self.ran(interval))];
        }
        let misses =
            |(misses, time)| (CounterDeltas::default().with(CounterEvent::LlcMisses, misses), time);
        let first = self.misses.map(misses).map(|told| (1, told));
        let all = first.into_iter().chain(self.counts.iter().map(|(&task, &told)| (task, told)));
        let (job, process) = (self.job.id, self.job.id.0);
        let task = |(number, (counted, cpu_time))| {
            let task = TaskId { tid: process + 1000 * (number - 1), start_time_ticks: 0 };
            TaskView { task, process, job, cpu_time, wait: None, last_cpu: None, counters: counted }
        };
        all.map(task).collect()
    }

    fn ran(&self, interval: Nanos) -> Nanos {
        if let Some(rates) = self.rates.filter(|_| self.waits.is_none()) {
            return rates.cpu_time(interval, self.job.threads);
        }
        let of_waits = self.waits.map(|(_, ran)| ran);
        let counted = self.counts.values().map(|(_, time)| *time).reduce(Nanos::saturating_add);
        of_waits.or(counted).or(self.misses.map(|(_, time)| time)).unwrap_or_default()
    }

    fn seen<'a>(
        &'a self,
        allowed: &'a CpuSet,
        domains: &Domains,
        usable: &CpuSet,
        interval: Nanos,
    ) -> Option<JobView<'a>> {
        // Of a job that lies on several places, most tasks ran last on the highest of its CPUs.
        let place = self.placed.as_ref().or(self.ran_on.as_ref());
        let domain = place
            .map(|cpus| cpus.and(usable))
            .and_then(|cpus| domains.of_set(&cpus).or_else(|| domains.of_cpu(cpus.last()?)));
        Some(JobView {
            job: &self.job,
            state: self.state?,
            allowed,
            placed: self.placed.as_ref(),
            domain,
            movable: self.movable,
            started: self.started,
            cpu_time: self.ran(interval),
            load: self.load,
            wait: self.waits.map(|(waited, _)| waited),
            n_tasks: 1,
            memory: self.memory.as_ref(),
            active_page_move: self.moving.as_ref(),
            last_page_move: self.moved.as_ref().map(|(at, moved)| (*at, moved)),
        })
    }
}

fn watched<'a>(seen: &'a Snapshot<'a>, n_polls: u64, ask: &'a Request) -> Option<Watched<'a>> {
    let (Target::Job(id), Action::Place(cpus)) = (ask.target, &ask.action) else { return None };
    let job = seen.job(id).expect("policies place jobs that are there");
    let is_move = ["load-uneven", "load-double"].contains(&ask.reason.code.name());
    let moved_from = job.domain.filter(|_| is_move);
    let class = |job: &JobView<'_>| job.job.class.unwrap_or_default().number();
    let target = seen.domains.of_set(cpus).map(|idx| &seen.domains.get(idx).cpus);
    let is_movable = |other: &&JobView<'_>| {
        let there = other.state == JobState::Running && other.domain == moved_from;
        // What lies on several places, for want of CPUs in one, stays there.
        let fits = other
            .placed
            .is_none_or(|cpus| seen.domains.of_set(&cpus.and(seen.usable_cpus)).is_some());
        there && fits && other.movable
    };
    let could =
        |other: &&JobView<'_>| target.is_some_and(|target| other.allowed.intersects(target));
    let movable = || seen.jobs.iter().filter(is_movable);
    Some(Watched {
        job: id,
        n_polls,
        cpus,
        allowed: job.allowed,
        movable: job.movable,
        moved_from,
        class: class(job),
        classes_there: movable().filter(could).map(class).collect(),
        n_movable_there: movable().count(),
        loads: &seen.loads.loads,
    })
}

/// `0=64 1=8`.
fn by_number(text: &str) -> BTreeMap<u32, u64> {
    let pair = |word: &str| {
        let (number, value) = word.split_once('=')?;
        Some((number.parse().ok()?, value.parse().ok()?))
    };
    text.split_whitespace().map(|word| pair(word).expect("number=number")).collect()
}

/// `4:50,9:300,remote:200`, in thousandths.
fn sensitivity(text: &str) -> Sensitivity {
    let mut given = Vec::new();
    let mut remote = 0;
    for (name, value) in text.split(',').filter_map(|part| part.split_once(':')) {
        let value = value.parse().expect("thousandths");
        match name.parse().ok().and_then(Class::new) {
            Some(class) => given.push((class, value)),
            None => remote = value,
        }
    }
    Sensitivity::new(given, remote)
}

/// A made-up machine; with ` no-llcs` at the end one that tells nothing of its caches.
fn machine(text: &str) -> Machine {
    let shape = text.strip_suffix(" no-llcs");
    let machine = Machine::synthetic(shape.unwrap_or(text)).expect("a machine");
    if shape.is_none() {
        return machine;
    }
    let mut parts = machine.parts().clone();
    parts.llcs.clear();
    parts.cpus.iter_mut().for_each(|cpu| cpu.llc = None);
    Machine::new(parts).expect("a machine without caches")
}

fn tier(name: &str) -> SignalTier {
    let named = SignalTier::ALL.into_iter().find(|tier| tier.to_string() == name);
    named.unwrap_or_else(|| panic!("{name} is no signal tier"))
}
