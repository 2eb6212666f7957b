//! Decisions of policies as text. The cases are in the directory `cases`. [`testkit`] describes the language. This
//! crate adds these words:
//!
//! ```text
//!   job a llc-references=90/s              a counter of a job's task, per second of its CPU time
//!   250ms poll 900 10 with a=800           loads of the domains in the last interval, and of jobs
//!   250ms poll unreadable                  the memory controller counters are not readable
//!   1s counts a/2 in=1s cycles=9; poll     counters of a job's task in the given CPU time; `a` is `a/1`
//!   1s rates a=20 b=0.5/3 c=-@50; poll     LLC misses (/ references) of a job's task per 1000 instructions, `-`
//!                                          if not counted, and its CPU utilization in %
//!   1s threads a=20@50,0.5,0.5@0; poll     as `rates`, of each thread of a job: CPU utilization 0, the thread sleeps
//!   250ms waits a=60ms/190ms; poll         wait time and CPU time of a job
//!   250ms moving a to=1; poll              a page migration is active until it is completed (`moved`)
//!   250ms overflow; poll                   a counter overflow woke the policy
//!   free 0=512 1=1024                      free memory of nodes, in MiB
//!   tier declared                          source of loads from here on; initially `bandwidth`
//!   numa balancing interleaving            automatic NUMA balancing is enabled, tasks interleave their pages
//! ```
//!
//! Values apply until a later event replaces them. After each turn every placement is done, and every job that was due
//! is running.
//!
//! `> dfs` prints the plan of each turn with reason codes, `>> dfs` with sentences. `, with trials` or `, with trials
//! that change nothing` after the policy adds trials of its migrations. A request for a thread has the target `a/2`.

use std::collections::BTreeMap;
use std::fmt::Write;

use base::{Bytes, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::Job;
use sched::{
    Action, ActivePageMigration, Cause, CompletedPageMigration, CounterDeltas, CounterEvent,
    DomainLoads, JobMemory, JobState, JobView, NodeView, NumaSettings, Plan, Policy, Pressure,
    Request, SignalTier, Snapshot, Target, TaskView, Tiers, Turn,
};
use testkit::{Event, World, fields, parse};
use topology::{Domains, Level, Machine};

/// Runs a policy over a script. Returns its plans, one line per time and reason.
pub(crate) fn plans(machine: &str, policy: &str, script: &str) -> String {
    testkit::play(&mut PolicyWorld::new(machine, policy), script)
}

/// Returns the time and text of every request in printed plans.
pub(crate) fn requests(output: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_request =
        |line: &&str| ![" note: ", " observed ", " abort "].iter().any(|word| line.contains(word));
    output.lines().filter(is_request).flat_map(|line| {
        let (time, rest) = line.split_once(' ').expect("a time");
        let (texts, _) = rest.split_once(" because ").expect("a reason");
        texts.split("; ").map(move |text| (time, text))
    })
}

/// Plays a script and passes every request to place a job to `watch`.
pub(crate) fn play_watched(
    machine: &str,
    policy: &str,
    script: &str,
    watch: impl FnMut(WatchedRequest<'_>) + 'static,
) {
    let mut world = PolicyWorld::new(machine, policy);
    world.watch = Some(Box::new(watch));
    testkit::play(&mut world, script);
}

/// Plays a script. Returns the first time at the end of an interval at which a domain is idle while another domain has
/// two tasks that may run there. Every task is runnable, and a task without affinity runs on an idle domain.
pub(crate) fn first_idle_domain(machine: &str, policy: &str, script: &str) -> Option<Nanos> {
    idle_domain_from(machine, policy, script, Nanos::ZERO)
}

/// As [`first_idle_domain`], from a time on.
pub(crate) fn idle_domain_from(
    machine: &str,
    policy: &str,
    script: &str,
    from: Nanos,
) -> Option<Nanos> {
    let mut world = PolicyWorld::new(machine, policy);
    (world.idle_domain_at, world.idle_domain_from) = (Some(None), from);
    testkit::play(&mut world, script);
    world.idle_domain_at.flatten()
}

type Watch = Box<dyn FnMut(WatchedRequest<'_>)>;

/// A request to place a job, with the state at that time.
pub(crate) struct WatchedRequest<'a> {
    pub job: JobId,
    /// Number of polls so far, including this one.
    pub n_polls: u64,
    pub cpus: &'a CpuSet,
    pub allowed: &'a CpuSet,
    pub movable: bool,
    /// The domain that the job leaves because of loads.
    pub moved_from: Option<usize>,
    pub class: u8,
    /// Classes of the movable jobs in the domain `moved_from` that may run in the target.
    pub candidate_classes: Vec<u8>,
    /// Number of movable jobs in the domain `moved_from`, including jobs that may not run in the target.
    pub n_movable_in_domain: usize,
    pub loads: &'a [u64],
}

/// Difference between the ids of two threads of a job.
const TASKS_APART: u32 = 1000;

/// A machine with jobs, and a policy that decides for it.
struct PolicyWorld {
    machine: Machine,
    policy: Box<dyn Policy>,
    prints_sentences: bool,
    usable: CpuSet,
    numa_settings: NumaSettings,
    tier: SignalTier,
    free: Vec<NodeView>,
    loads: Vec<u64>,
    /// The level of the domains that the loads belong to.
    level: Option<Level>,
    readable: bool,
    interval: Nanos,
    polled_at: Nanos,
    n_polls: u64,
    jobs: Vec<JobInWorld>,
    watch: Option<Watch>,
    /// With `Some`: the first time at which the placement was not work-conserving.
    idle_domain_at: Option<Option<Nanos>>,
    /// Earlier turns are not checked for an idle domain.
    idle_domain_from: Nanos,
}

struct JobInWorld {
    job: Job,
    /// Counters per second of CPU time, from the job's line.
    per_second: Vec<(CounterEvent, u64)>,
    state: Option<JobState>,
    placed: Option<CpuSet>,
    /// The CPUs before the release, on which the tasks ran last.
    ran_on: Option<CpuSet>,
    started: Option<Nanos>,
    movable: bool,
    denied: bool,
    load: u64,
    /// Rates of each thread; empty: `rates`.
    thread_rates: Vec<Rates>,
    rates: Option<Rates>,
    /// Counters and CPU time, by number of the task.
    counts: BTreeMap<u32, (CounterDeltas, Nanos)>,
    wait_and_cpu_time: Option<(Nanos, Nanos)>,
    memory: Option<JobMemory>,
    completed_migration: Option<(Nanos, CompletedPageMigration)>,
    active_migration: Option<ActivePageMigration>,
}

/// Rates per thousand instructions, at one instruction per nanosecond. A rate of `None` is not counted.
#[derive(Clone, Copy, Debug)]
struct Rates {
    misses_per_million: Option<u64>,
    references_per_million: Option<u64>,
    /// CPU utilization.
    percent: u64,
}

impl World for PolicyWorld {
    fn set(&mut self, word: &str, rest: &str) {
        match word {
            "job" => self.declare(rest),
            "tier" => self.tier = tier(rest),
            "free" => self.free = fields(rest).map(|(node, mib)| node_view(node, mib)).collect(),
            "deny" => rest.split(' ').for_each(|name| self.job(name).denied = true),
            "numa" => {
                self.numa_settings.numa_balancing = rest.contains("balancing");
                self.numa_settings.interleaves = rest.contains("interleaving");
            }
            _ => panic!("{word} is not a setting"),
        }
    }

    fn event(&mut self, at: Nanos, event: Event<'_>) -> Option<Cause> {
        match event {
            Event::Due(names) => {
                names.into_iter().for_each(|name| self.job(name).restart());
                return Some(Cause::JobsDue);
            }
            Event::Ended(names) => {
                names.into_iter().for_each(|name| self.job(name).state = None);
                return Some(Cause::Ended);
            }
            Event::Usable(cpus) => {
                self.usable = cpus.and(self.machine.allowed());
                return Some(Cause::CpusChanged);
            }
            Event::Unmanaged { job, now_on } => {
                let job = self.job(job);
                job.movable = false;
                job.placed = now_on.or(job.placed.take());
                return Some(Cause::Ended);
            }
            Event::Poll { loads } => return Some(self.poll(at, loads)),
            Event::Memory { owner, nodes } => {
                let memory = JobMemory { nodes, sampled_permille: 1000, n_processes: 1, at };
                self.job(owner).memory = Some(memory);
            }
            Event::Moved { target, values } => {
                let job = self.job(target);
                let id = job.job.id;
                let completed = testkit::completed_page_migration(id.into(), id, values);
                (job.completed_migration, job.active_migration) = (Some((at, completed)), None);
            }
            Event::Other("overflow", _) => return Some(Cause::Overflow),
            Event::Other("counts", rest) => self.counts(rest),
            Event::Other("waits", rest) => fields(rest).for_each(|(name, value)| {
                let (wait, cpu_time) = value.split_once('/').expect("wait/cpu time");
                self.job(name).wait_and_cpu_time = Some((parse(wait), parse(cpu_time)));
            }),
            Event::Other("rates", rest) => fields(rest).for_each(|(name, value)| {
                self.job(name).rates = Some(Rates::parse(value));
            }),
            Event::Other("threads", rest) => fields(rest).for_each(|(name, value)| {
                self.job(name).thread_rates = value.split(',').map(Rates::parse).collect();
            }),
            Event::Other("moving", rest) => {
                let (name, to) = rest.split_once(" to=").expect("a job and to=");
                let job = self.job(name);
                let (target, to) = (job.job.id.into(), NodeId(parse(to)));
                let limit = Action::NO_LIMIT;
                job.active_migration =
                    Some(ActivePageMigration { target, from: None, to, limit, since: at });
            }
            Event::Other(word, _) => panic!("{word} is not an event"),
        }
        None
    }

    fn turn(&mut self, turn: &Turn) -> Vec<String> {
        let plan = self.decide(turn);
        self.act(turn.at, &plan);
        if turn.causes.contains(&Cause::Interval)
            && self.idle_domain_at == Some(None)
            && self.idle_domain_from <= turn.at
            && self.has_idle_domain()
        {
            self.idle_domain_at = Some(Some(turn.at));
        }
        self.lines(&plan)
    }
}

impl PolicyWorld {
    fn new(machine: &str, variant: &str) -> Self {
        let spec = variant.trim_start_matches(['>', ' ']);
        let (spec, trials) = spec
            .split_once(", with trials")
            .map_or((spec, None), |(spec, limit)| (spec, Some(limit.is_empty())));
        let machine = testkit::machine(machine);
        PolicyWorld {
            policy: match trials {
                Some(acts) => crate::build_attached(spec, 1, acts),
                None => crate::build(spec, 1),
            }
            .expect("a policy"),
            prints_sentences: variant.starts_with('>'),
            usable: machine.allowed().clone(),
            numa_settings: NumaSettings::default(),
            tier: SignalTier::Bandwidth,
            free: Vec::new(),
            loads: Vec::new(),
            level: None,
            readable: true,
            interval: Nanos::ZERO,
            polled_at: Nanos::ZERO,
            n_polls: 0,
            jobs: Vec::new(),
            watch: None,
            idle_domain_at: None,
            idle_domain_from: Nanos::ZERO,
            machine,
        }
    }

    fn declare(&mut self, line: &str) {
        let rate = |(key, value): (&str, &str)| {
            Some((CounterEvent::of_name(key)?, parse(value.strip_suffix("/s")?)))
        };
        let per_second: Vec<_> = fields(line).filter_map(rate).collect();
        self.jobs.extend(testkit::jobs(self.jobs.len(), line).into_iter().map(|job| JobInWorld {
            job,
            per_second: per_second.clone(),
            state: None,
            placed: None,
            ran_on: None,
            started: None,
            movable: true,
            denied: false,
            load: 0,
            rates: None,
            thread_rates: Vec::new(),
            counts: BTreeMap::new(),
            wait_and_cpu_time: None,
            memory: None,
            completed_migration: None,
            active_migration: None,
        }));
    }

    fn job(&mut self, name: &str) -> &mut JobInWorld {
        if !self.jobs.iter().any(|job| job.job.name == name) {
            self.declare(name);
        }
        self.jobs.iter_mut().find(|job| job.job.name == name).expect("declared above")
    }

    fn poll(&mut self, at: Nanos, loads: &str) -> Cause {
        self.n_polls += 1;
        self.interval = at.saturating_sub(self.polled_at);
        self.polled_at = at;
        self.readable = loads != "unreadable";
        if self.readable {
            let (loads, of_jobs) = loads.split_once("with").unwrap_or((loads, ""));
            self.loads = loads.split_whitespace().map(parse).collect();
            fields(of_jobs).for_each(|(name, load)| self.job(name).load = parse(load));
        }
        Cause::Interval
    }

    fn counts(&mut self, words: &str) {
        let (task, values) = words.split_once(' ').expect("a task, then values");
        let (name, number) = task.split_once('/').unwrap_or((task, "1"));
        let (mut counters, mut time) = (CounterDeltas::default(), Nanos::ZERO);
        for (key, value) in fields(values) {
            match CounterEvent::of_name(key) {
                Some(event) => counters = counters.with(event, parse(value)),
                None if key == "in" => time = parse(value),
                None => panic!("{key} is not a counter"),
            }
        }
        let job = self.job(name);
        job.rates = None;
        job.counts.insert(parse(number), (counters, time));
    }

    /// Returns the signal tiers: `counters` for every event that is counted for a task.
    fn tiers(&self, tasks: &[TaskView]) -> Tiers {
        let mut tiers = Tiers::default();
        tiers.loads = self.tier;
        for (event, _) in tasks.iter().flat_map(|task| task.counters.iter()) {
            tiers.set(event, SignalTier::Counters);
        }
        tiers
    }

    fn decide(&mut self, turn: &Turn) -> Plan {
        let domains = Domains::select(&self.machine, self.policy.domains(), &self.usable);
        let was_polled = turn.causes.contains(&Cause::Interval);
        if self.level.replace(domains.level()) != Some(domains.level()) && !was_polled {
            self.loads.clear();
        }
        let mut loads = self.loads.clone();
        loads.resize(domains.len(), 0);
        let loads = DomainLoads { tier: self.tier, loads, readable: self.readable };
        let allowed: Vec<CpuSet> = self.jobs.iter().map(|job| self.allowed(&job.job)).collect();
        let jobs: Vec<JobView<'_>> = (self.jobs.iter().zip(&allowed))
            .filter_map(|(job, allowed)| job.view(allowed, &domains, &self.usable, self.interval))
            .collect();
        let running = self.jobs.iter().filter(|job| job.state == Some(JobState::Running));
        let tasks: Vec<TaskView> = running.flat_map(|job| job.tasks(self.interval)).collect();
        let snapshot = Snapshot {
            turn,
            machine: &self.machine,
            usable_cpus: &self.usable,
            domains: &domains,
            loads: &loads,
            tiers: &self.tiers(&tasks),
            interval: self.interval,
            n_intervals: 1,
            numa_settings: &self.numa_settings,
            jobs: &jobs,
            tasks: &tasks,
            nodes: &self.free,
            llcs: &[],
            mon_groups: &[],
            cpus: &[],
            pressure: &Pressure::default(),
        };
        let mut plan = Plan::default();
        self.policy.decide(&snapshot, &mut plan);
        if let Some(watch) = &mut self.watch {
            let n_polls = self.n_polls;
            let requests = plan.requests.iter();
            requests.filter_map(|request| watched(&snapshot, n_polls, request)).for_each(watch);
        }
        plan
    }

    fn has_idle_domain(&self) -> bool {
        let domains = Domains::select(&self.machine, self.policy.domains(), &self.usable);
        let running = || self.jobs.iter().filter(|job| job.state == Some(JobState::Running));
        let is_idle = |domain: &topology::Domain| {
            running()
                .all(|job| job.placed.as_ref().is_some_and(|cpus| !cpus.intersects(&domain.cpus)))
        };
        let n_tasks_for = |idle: &topology::Domain, busy: &topology::Domain| -> u32 {
            let may_run = running().filter(|job| {
                let is_there = job.placed.as_ref().is_some_and(|cpus| cpus.is_subset(&busy.cpus));
                job.movable && is_there && self.allowed(&job.job).intersects(&idle.cpus)
            });
            may_run.map(|job| job.job.threads).sum()
        };
        let mut idle = domains.iter().map(|(_, domain)| domain).filter(|domain| is_idle(domain));
        idle.any(|idle| domains.iter().any(|(_, busy)| 2 <= n_tasks_for(idle, busy)))
    }

    fn allowed(&self, job: &Job) -> CpuSet {
        let of_nodes = job.nodes.as_ref().map(|nodes| self.machine.cpus_of_nodes(nodes));
        let limits = [job.cpus.clone(), of_nodes].into_iter().flatten();
        limits.fold(self.usable.clone(), |left, limit| left.and(&limit))
    }

    /// Returns the name of a job, or of the thread of a job: `a/2`.
    fn name(&self, target: Target) -> String {
        match target {
            Target::Job(id) => self.jobs[id.index()].job.name.clone(),
            Target::Task(TaskId { tid, .. }) => {
                let job = &self.jobs[(tid % TASKS_APART) as usize].job.name;
                format!("{job}/{}", tid / TASKS_APART + 1)
            }
        }
    }

    /// Returns the lines of a plan. Consecutive requests with the same reason share a line.
    fn lines(&self, plan: &Plan) -> Vec<String> {
        let reason_text = |reason: &sched::Reason| {
            let sentence = reason.to_string();
            assert!(!sentence.contains('?'), "a value is missing: {sentence}");
            assert_no_phrase(reason);
            if self.prints_sentences { sentence } else { reason.code.name().to_owned() }
        };
        let mut lines: Vec<(String, String)> = Vec::new();
        for request in &plan.requests {
            let name = self.name(request.target);
            let text = format!("{name} {}", testkit::action_text(&request.action));
            let reason = reason_text(&request.reason);
            match lines.last_mut().filter(|(_, last)| *last == reason) {
                Some((texts, _)) => write!(texts, "; {text}").expect("writing to a string"),
                None => lines.push((text, reason)),
            }
        }
        let notes = plan.notes.iter().map(|note| format!("note: {}", reason_text(note)));
        let observed = plan.observations.iter().map(|observation| {
            let name = self.name(observation.target);
            format!("observed {name}: {}", reason_text(&observation.reason))
        });
        let requests = lines.iter().map(|(text, reason)| format!("{text} because {reason}"));
        let abort =
            plan.abort.iter().map(|reason| format!("abort because {}", reason_text(reason)));
        notes.chain(observed).chain(requests).chain(abort).collect()
    }

    fn act(&mut self, at: Nanos, plan: &Plan) {
        for request in &plan.requests {
            let Target::Job(id) = request.target else { continue };
            let job = &mut self.jobs[id.index()];
            match &request.action {
                Action::Release => job.ran_on = job.placed.take().or(job.ran_on.take()),
                Action::Place(cpus) if !job.denied => job.placed = Some(cpus.clone()),
                _ => {}
            }
        }
        for job in self.jobs.iter_mut().filter(|job| job.state == Some(JobState::Due)) {
            job.state = Some(JobState::Running);
            job.started = Some(at);
        }
    }
}

impl JobInWorld {
    fn restart(&mut self) {
        (self.state, self.placed, self.ran_on) = (Some(JobState::Due), None, None);
        (self.load, self.movable) = (0, true);
    }

    fn tasks(&self, interval: Nanos) -> Vec<TaskView> {
        let (job, process) = (self.job.id, self.job.id.0);
        let view = |number: u32, counters, cpu_time| {
            let task = TaskId { tid: process + TASKS_APART * (number - 1), start_time_ticks: 0 };
            TaskView { task, process, job, cpu_time, wait: None, last_cpu: None, counters }
        };
        if !self.thread_rates.is_empty() {
            let of_thread = |(number, rates): (u32, &Rates)| {
                let cpu_time = Nanos(interval.0 * rates.percent / 100);
                view(number, rates.counters(cpu_time), cpu_time)
            };
            return (1..).zip(&self.thread_rates).map(of_thread).collect();
        }
        if let Some(rates) = self.rates {
            let cpu_time = self.cpu_time(interval);
            return vec![view(1, rates.counters(cpu_time), cpu_time)];
        }
        if !self.per_second.is_empty() && self.counts.is_empty() && Nanos::ZERO < interval {
            let count = |counters: CounterDeltas, &(event, rate): &(CounterEvent, u64)| {
                counters.with(event, rate * (interval.0 / 1_000_000) / 1000)
            };
            let counters = self.per_second.iter().fold(CounterDeltas::default(), count);
            return vec![view(1, counters, interval)];
        }
        let counts = self.counts.iter();
        counts.map(|(&number, (counters, time))| view(number, *counters, *time)).collect()
    }

    fn cpu_time(&self, interval: Nanos) -> Nanos {
        if let Some((_, cpu_time)) = self.wait_and_cpu_time {
            return cpu_time;
        }
        if !self.thread_rates.is_empty() {
            let percent: u64 = self.thread_rates.iter().map(|rates| rates.percent).sum();
            return Nanos(interval.0 * percent / 100);
        }
        if let Some(rates) = self.rates {
            return Nanos(interval.0 * u64::from(self.job.threads) * rates.percent / 100);
        }
        if !self.per_second.is_empty() && self.counts.is_empty() {
            return interval;
        }
        let counted = self.counts.values().map(|(_, time)| *time);
        counted.reduce(Nanos::saturating_add).unwrap_or_default()
    }

    fn view<'a>(
        &'a self,
        allowed: &'a CpuSet,
        domains: &Domains,
        usable: &CpuSet,
        interval: Nanos,
    ) -> Option<JobView<'a>> {
        // The tests assume that most tasks of a job on several domains ran last on its highest CPU.
        let domain = (self.placed.as_ref().or(self.ran_on.as_ref()))
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
            cpu_time: self.cpu_time(interval),
            load: self.load,
            wait: self.wait_and_cpu_time.map(|(wait, _)| wait),
            n_tasks: self.thread_rates.len().max(1) as u32,
            memory: self.memory.as_ref(),
            active_page_migration: self.active_migration.as_ref(),
            last_page_migration: self.completed_migration.as_ref().map(|(at, moved)| (*at, moved)),
        })
    }
}

impl Rates {
    /// Parses `20`, `0.5/3@50` or `-`: misses / references @ CPU utilization in percent.
    fn parse(text: &str) -> Rates {
        let (rates, percent) = text.split_once('@').unwrap_or((text, "100"));
        let (misses, references) = rates.split_once('/').unwrap_or((rates, "-"));
        let per_million =
            |text: &str| (text != "-").then(|| (parse::<f64>(text) * 1000.0).round() as u64);
        Rates {
            misses_per_million: per_million(misses),
            references_per_million: per_million(references),
            percent: parse(percent),
        }
    }

    /// Returns the counters of a task in this CPU time.
    fn counters(self, cpu_time: Nanos) -> CounterDeltas {
        let millions = cpu_time.0 / 1_000_000;
        let mut counters = CounterDeltas::default();
        if let Some(misses) = self.misses_per_million {
            counters = counters.with(CounterEvent::Instructions, millions * 1_000_000);
            counters = counters.with(CounterEvent::LlcMisses, misses * millions);
        }
        if let Some(references) = self.references_per_million {
            counters = counters.with(CounterEvent::LlcReferences, references * millions);
        }
        counters
    }
}

/// Checks that each text in a reason is a word, a measure, or a list of labels or names. Phrases are in the template.
fn assert_no_phrase(reason: &sched::Reason) {
    for (name, value) in reason.values.iter().filter(|(name, _)| name != "jobs") {
        let text = value.to_string();
        let is_label = |part: &str| part.starts_with("llc ") || part.split(' ').count() <= 2;
        let is_phrase = !text.split(", ").all(is_label) || text.contains(['(', ';', '[', '{']);
        assert!(!is_phrase, "{}: the value {name} is a phrase: {text}", reason.code.name());
    }
}

fn watched<'a>(
    snapshot: &'a Snapshot<'a>,
    n_polls: u64,
    request: &'a Request,
) -> Option<WatchedRequest<'a>> {
    let (Target::Job(id), Action::Place(cpus)) = (request.target, &request.action) else {
        return None;
    };
    let job = snapshot.job(id).expect("policies place jobs of the snapshot");
    let is_move = ["load-uneven", "load-double"].contains(&request.reason.code.name());
    let moved_from = job.domain.filter(|_| is_move);
    let class = |job: &JobView<'_>| job.job.class.unwrap_or_default().number();
    let target = snapshot.domains.of_set(cpus).map(|idx| &snapshot.domains.get(idx).cpus);
    let is_movable = |other: &&JobView<'_>| {
        let is_on_source = other.state == JobState::Running && other.domain == moved_from;
        // A job that is on several domains because each domain has too few CPUs stays on these domains.
        let fits = other
            .placed
            .is_none_or(|cpus| snapshot.domains.of_set(&cpus.and(snapshot.usable_cpus)).is_some());
        is_on_source && fits && other.movable
    };
    let may_run_there =
        |other: &&JobView<'_>| target.is_some_and(|target| other.allowed.intersects(target));
    let movable = || snapshot.jobs.iter().filter(is_movable);
    Some(WatchedRequest {
        job: id,
        n_polls,
        cpus,
        allowed: job.allowed,
        movable: job.movable,
        moved_from,
        class: class(job),
        candidate_classes: movable().filter(may_run_there).map(class).collect(),
        n_movable_in_domain: movable().count(),
        loads: &snapshot.loads.loads,
    })
}

fn node_view(node: &str, mib: &str) -> NodeView {
    NodeView {
        node: NodeId(parse(node)),
        memory_free: Some(Bytes::from_mib(parse(mib))),
        memory_reclaimable: None,
        memory_total: None,
        controller_ops: None,
        read_bytes: None,
        written_bytes: None,
    }
}

fn tier(name: &str) -> SignalTier {
    let named = SignalTier::ALL.into_iter().find(|tier| tier.to_string() == name);
    named.unwrap_or_else(|| panic!("{name} is not a signal tier"))
}
