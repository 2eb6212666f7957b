//! Runs of the engine as text. The cases are in the directory `cases`. [`testkit`] describes the language. This crate
//! adds the following words:
//!
//! ```text
//!   unattached b class=3                         a job that the host attaches later
//!   domains llc                                  domains, interval and signal overrides of the policy
//!   interval 250ms
//!   signals loads=declared
//!   limits mib_per_s=10 backlog=10s mib_per_minute=150     limits of page migrations
//!   show jobs tasks loads                        parts of the snapshot to print (approvals and rejections: always)
//!   0ms due a; request a on 0-1                  a request of the scripted policy
//!   250ms poll; task a/1 cpu=10 wait=2 on=3 misses=500     raw totals of a task: ms, ms, CPU, LLC misses; also
//!                                                before=250ms (previous sample), `children` (included)
//!   500ms poll; llc 1 640; group a 0 640         bytes counted by resctrl: of LLC domain 1, of job a in LLC domain 0
//!   500ms poll; node 0 ops=70 bits=8; exited a/1
//!   600ms attached b; detached b                 `attached c as b` reuses the id of b
//!   810ms request a pages any 1 20               a page migration: from, to, at most MiB
//!   820ms note no-class; abort                   a note and the abort of the policy
//!   deny a NotPermitted                          from this line on, the host rejects every action on a
//!   allow a                                      ends `deny a`
//! ```
//!
//! After each turn the host carries out the approved requests and starts every job that was due. A line of the snapshot
//! is printed when it differs from the previous snapshot. `absent` means that the job or task is no longer in the
//! snapshot.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{Bytes, CpuId, JobId, LlcId, Nanos, NodeId, TaskId};
use program::Job;
use sched::{
    Action, Cause, CounterEvent, Counters, DetachCause, ExitStatus, JobEvent, JobExit, JobView,
    LlcSample, MonGroupSample, NodeSample, Outcome, OutcomeResult, Plan, Policy, ProcessMemory,
    RawCounter, Reason, ReasonCode, RejectCause, Request, Sample, Snapshot, Target, TaskSample,
    Traffic, Turn, UnmanagedCause,
};
use testkit::{Event, Line, World, field, parse};
use topology::DomainChoice;

use crate::{Engine, PageMigrationLimits, Step};

/// Runs a script and returns the output. `setting` is empty or an additional line of the script.
pub(crate) fn play(machine: &str, setting: &str, script: &str) -> String {
    let script = format!("{setting}\n{script}");
    testkit::play(&mut EngineWorld::new(machine, &script), &script)
}

/// Next plan of the scripted policy, and the lines of its last snapshot by subject.
#[derive(Default)]
struct PolicyScript {
    plan: Plan,
    lines: Vec<(String, String)>,
    show: String,
    names: Vec<String>,
}

struct Scripted {
    script: Rc<RefCell<PolicyScript>>,
    domains: DomainChoice,
    interval: Option<Nanos>,
}

impl Policy for Scripted {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let mut script = self.script.borrow_mut();
        script.lines = snapshot_lines(snapshot, &script.show, &script.names);
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

/// Parses `mib_per_s=10 backlog=10s mib_per_minute=150`. The last limit is per job.
fn page_migration_limits(words: &str) -> PageMigrationLimits {
    let value = |key| field(words, key).expect("three limits");
    let mib = |key| Bytes::from_mib(parse(value(key)));
    PageMigrationLimits {
        per_second: mib("mib_per_s"),
        backlog: parse(value("backlog")),
        per_job_minute: mib("mib_per_minute"),
        ..PageMigrationLimits::default()
    }
}

struct EngineWorld {
    engine: Engine,
    /// Sample of the current turn.
    sample: Sample,
    script: Rc<RefCell<PolicyScript>>,
    /// Jobs that the host attaches later.
    unattached: Vec<Job>,
    denied: Vec<(Target, RejectCause)>,
    /// The last printed line of each subject.
    printed: BTreeMap<String, String>,
}

impl World for EngineWorld {
    fn set(&mut self, word: &str, rest: &str) {
        match word {
            "deny" => {
                let (target, cause) = rest.split_once(' ').expect("deny TARGET CAUSE");
                let cause = RejectCause::ALL.iter().find(|known| format!("{known:?}") == cause);
                self.denied.push((self.target(target), *cause.expect("a cause of rejections")));
            }
            "allow" => {
                let target = self.target(rest);
                self.denied.retain(|(denied, _)| *denied != target);
            }
            "job" | "unattached" | "show" | "signals" | "domains" | "interval" | "limits" => {}
            _ => panic!("{word} is not a setting"),
        }
    }

    fn event(&mut self, at: Nanos, event: Event<'_>) -> Option<Cause> {
        let cause = matches!(event, Event::Poll { .. }).then_some(Cause::Interval);
        let mut sample = std::mem::take(&mut self.sample);
        self.add(&mut sample, at, event);
        self.sample = sample;
        cause
    }

    fn turn(&mut self, turn: &Turn) -> Vec<String> {
        let sample = std::mem::take(&mut self.sample);
        let step = self.engine.step(turn, &sample);
        let lines = self.lines(&step);
        let outcomes = self.outcomes(&sample, &step);
        self.engine.record_outcomes(&outcomes);
        lines
    }
}

impl EngineWorld {
    fn new(machine: &str, script: &str) -> Self {
        let settings = |word: &'static str| {
            testkit::lines(script).filter_map(move |line| match line {
                Line::Setting(first, rest) if first == word => Some(rest),
                _ => None,
            })
        };
        let setting = |word| settings(word).next();
        let declared = |word, first: usize| {
            settings(word).fold(Vec::new(), |mut jobs: Vec<Job>, line| {
                jobs.extend(testkit::jobs(first + jobs.len(), line));
                jobs
            })
        };
        let jobs = declared("job", 0);
        let unattached = declared("unattached", jobs.len());
        let names = jobs.iter().chain(&unattached).map(|job| job.name.clone()).collect();
        let show = setting("show").unwrap_or_default().to_owned();
        let shared = Rc::new(RefCell::new(PolicyScript { show, names, ..PolicyScript::default() }));
        let policy = Scripted {
            script: Rc::clone(&shared),
            domains: setting("domains").map_or(DomainChoice::Auto, parse),
            interval: setting("interval").map(parse),
        };
        let signals = setting("signals").map(parse).unwrap_or_default();
        EngineWorld {
            engine: Engine::new(testkit::machine(machine), jobs, Box::new(policy))
                .with_page_migration_limits(
                    setting("limits").map(page_migration_limits).unwrap_or_default(),
                )
                .with_signals(signals),
            sample: Sample::default(),
            script: shared,
            unattached,
            denied: Vec::new(),
            printed: BTreeMap::new(),
        }
    }

    fn job(&self, name: &str) -> JobId {
        let idx = self.script.borrow().names.iter().position(|known| known == name);
        JobId(idx.map_or(99, |idx| idx as u32))
    }

    fn target(&self, name: &str) -> Target {
        if name.contains('/') { self.task(name).into() } else { self.job(name).into() }
    }

    /// Parses `a/1`, the first task of job a.
    fn task(&self, name: &str) -> TaskId {
        let (job, number) = name.split_once('/').expect("a task is JOB/NUMBER");
        TaskId { tid: self.job(job).0 * 100 + parse::<u32>(number), start_time_ticks: 7 }
    }

    fn job_of_task(&self, name: &str) -> JobId {
        self.job(name.split_once('/').expect("a task is JOB/NUMBER").0)
    }

    fn add(&self, sample: &mut Sample, at: Nanos, event: Event<'_>) {
        let (word, rest) = match event {
            Event::Poll { .. } => return,
            Event::Due(names) => {
                return sample
                    .jobs
                    .extend(names.into_iter().map(|name| JobEvent::Due(self.job(name))));
            }
            Event::Ended(names) => {
                let ended = |name| {
                    JobEvent::Ended(
                        self.job(name),
                        Box::new(JobExit::new(ExitStatus::Exited(0), Nanos::ZERO)),
                    )
                };
                return sample.jobs.extend(names.into_iter().map(ended));
            }
            Event::Usable(cpus) => return sample.usable_cpus = Some(cpus),
            Event::Unmanaged { job, now_on } => {
                let changed = now_on.map(UnmanagedCause::AffinityChanged);
                let cause = changed.unwrap_or(UnmanagedCause::NotPermitted);
                return sample.jobs.push(JobEvent::Unmanaged(self.job(job), cause));
            }
            Event::Memory { owner, nodes } => {
                let (job, process) = (self.job_of_task(owner), self.task(owner));
                return sample.memory.push(ProcessMemory {
                    job,
                    process,
                    nodes,
                    sampled_permille: 1000,
                    at,
                });
            }
            Event::Moved { target, values } => {
                let (id, job) = (self.target(target), self.job(target));
                let completed = testkit::completed_page_migration(id, job, values);
                return sample.page_migrations_completed.push(completed);
            }
            Event::Other(word, rest) => (word, rest),
        };
        let (name, values) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "detached" => {
                let counters = Box::new(Counters::NONE);
                sample.jobs.push(JobEvent::Detached(self.job(name), DetachCause::Ended, counters));
            }
            "attached" => {
                let job = self.unattached.iter().find(|job| job.name == name).expect("unattached");
                let id = values.strip_prefix("as ").map_or(job.id, |other| self.job(other));
                sample.jobs.push(JobEvent::Attached(Box::new(Job { id, ..job.clone() })));
            }
            "task" => sample.tasks.push(self.task_sample(name, values)),
            "exited" => sample.exited.push(self.task(name)),
            "llc" => {
                sample.llcs.push(LlcSample { llc: LlcId(parse(name)), traffic: traffic(values) });
            }
            "group" => {
                let (llc, bytes) = values.split_once(' ').expect("an LLC domain and bytes");
                let (job, llc) = (self.job(name), LlcId(parse(llc)));
                sample.mon_groups.push(MonGroupSample { job, llc, traffic: traffic(bytes) });
            }
            "node" => sample.nodes.push(node_sample(parse(name), values)),
            "request" => {
                let (target, action) = (self.target(name), testkit::action(values));
                let reason = reason("a-test").into();
                self.script.borrow_mut().plan.requests.push(Request { target, action, reason });
            }
            "note" => self.script.borrow_mut().plan.note(reason(rest)),
            "abort" => self.script.borrow_mut().plan.abort = Some(reason("counters-unreadable")),
            _ => panic!("{word} is not an event"),
        }
    }

    fn task_sample(&self, name: &str, values: &str) -> TaskSample {
        let counters = match field(values, "misses").and_then(raw) {
            Some(misses) => Counters::NONE.with(CounterEvent::LlcMisses, misses),
            None => Counters::NONE,
        };
        TaskSample {
            process: 1,
            cpu_time: parse(&format!("{}ms", field(values, "cpu").expect("cpu="))),
            unseen_children: Nanos::ZERO,
            previous_sample_at: field(values, "before").map(parse),
            wait: field(values, "wait").map(|ms| Nanos::from_millis(parse(ms))),
            last_cpu: field(values, "on").map(|cpu| CpuId(parse(cpu))),
            counters,
            includes_children: values.split(' ').any(|word| word == "children"),
            ..TaskSample::new(self.task(name), self.job_of_task(name))
        }
    }

    fn outcomes(&self, sample: &Sample, step: &Step) -> Vec<Outcome> {
        let requested = step.approved.requests().iter();
        let requested =
            requested.map(|request| self.outcome(request.target, Some(request.action.clone())));
        let due = sample.jobs.iter().filter_map(|event| match event {
            JobEvent::Due(job) => Some(self.outcome(Target::Job(*job), None)),
            _ => None,
        });
        requested.chain(due).collect()
    }

    fn outcome(&self, target: Target, action: Option<Action>) -> Outcome {
        let denied = self.denied.iter().find(|(denied, _)| *denied == target);
        let denied = denied.map(|(_, cause)| *cause);
        let denied =
            denied.filter(|cause| (*cause == RejectCause::StartFailed) == action.is_none());
        let result = match denied {
            Some(cause) => OutcomeResult::Rejected { cause, detail: String::new() },
            None if matches!(action, Some(Action::MovePages { .. })) => OutcomeResult::InProgress,
            None => OutcomeResult::Done { n: 1 },
        };
        Outcome { target, action, result }
    }

    fn lines(&mut self, step: &Step) -> Vec<String> {
        let (mut current, show_loads) = {
            let mut script = self.script.borrow_mut();
            (std::mem::take(&mut script.lines), script.show.contains("loads"))
        };
        if let Some(loads) = step.loads.as_ref().filter(|_| show_loads) {
            let cpu: Vec<u64> = loads.cpu_time.iter().map(|time| ms(*time)).collect();
            let loads = &loads.loads;
            let unreadable = if loads.readable { "" } else { " (not readable)" };
            let values = format!("{:?} cpu {cpu:?}{unreadable}", loads.loads);
            current.push((String::from("loads"), format!("{} {values}", loads.tier)));
        }
        let mut lines = self.changed_lines(current);
        let approved = step.approved.requests().iter().map(|request| {
            let part = if step.narrowed.contains(request) { " (narrowed)" } else { "" };
            format!("{}{part}", self.request_text(request))
        });
        let approved: Vec<String> = approved.collect();
        if !approved.is_empty() {
            lines.push(format!("approve {}", approved.join("; ")));
        }
        lines.extend(step.rejected.iter().map(|rejection| {
            let request = self.request_text(&rejection.request);
            format!("reject {request}: {}, {}", rejection.cause.name(), rejection.detail)
        }));
        lines.extend(step.plan.notes.iter().map(|note| format!("note {}", note.code.name())));
        lines.extend(step.plan.abort.iter().map(|_| "abort".to_owned()));
        lines
    }

    /// Returns the lines that differ from the last printed lines, and the names of absent jobs and tasks.
    fn changed_lines(&mut self, current: Vec<(String, String)>) -> Vec<String> {
        let is_item =
            |subject: &&String| ["job ", "task "].iter().any(|kind| subject.starts_with(kind));
        let is_absent = |subject: &&String| current.iter().all(|(other, _)| other != *subject);
        let absent = self.printed.keys().filter(is_item).filter(is_absent);
        let absent: Vec<String> = absent.cloned().collect();
        let mut lines = Vec::new();
        for subject in absent {
            self.printed.remove(&subject);
            let (_, name) = subject.split_once(' ').expect("a kind and a name");
            lines.push(format!("{name} absent"));
        }
        for (subject, line) in current {
            if self.printed.get(&subject) != Some(&line) {
                lines.push(line.clone());
                self.printed.insert(subject, line);
            }
        }
        lines
    }

    fn request_text(&self, request: &Request) -> String {
        let names = &self.script.borrow().names;
        let name = match request.target {
            Target::Job(job) => job_name(names, job),
            Target::Task(task) => task_name(names, task),
        };
        format!("{name} {}", testkit::action_text(&request.action))
    }
}

fn ms(time: Nanos) -> u64 {
    time.0 / 1_000_000
}

fn job_name(names: &[String], job: JobId) -> String {
    names.get(job.index()).cloned().unwrap_or_else(|| job.to_string())
}

fn task_name(names: &[String], task: TaskId) -> String {
    format!("{}/{}", job_name(names, JobId(task.tid / 100)), task.tid % 100)
}

fn reason(code: &str) -> Reason {
    Reason::new(ReasonCode::recorded(code.to_owned(), String::new()))
}

fn node_sample(node: u32, values: &str) -> NodeSample {
    let number = |key| field(values, key).and_then(|value| value.parse::<u64>().ok());
    let counter = |key| number(key).map(RawCounter::unmultiplexed);
    NodeSample {
        node: NodeId(node),
        memory_free: number("free").map(Bytes).or(number("free-mib").map(Bytes::from_mib)),
        memory_reclaimable: number("reclaimable-mib").map(Bytes::from_mib),
        controller_ops: counter("ops"),
        counter_bits: number("bits").unwrap_or(64) as u8,
        read_bytes: counter("read"),
        written_bytes: counter("written"),
    }
}

fn traffic(bytes: &str) -> Traffic {
    Traffic { total_bytes: raw(bytes), ..Traffic::default() }
}

/// Parses `VALUE`, `VALUE/ENABLED/RUNNING`, or `-` for an absent counter.
fn raw(text: &str) -> Option<RawCounter> {
    let mut words = text.split('/').map(|word| word.parse::<u64>());
    let value = words.next()?.ok()?;
    let [enabled_ns, running_ns] =
        [(); 2].map(|()| words.next().map_or(0, |time| time.expect("ns")));
    Some(RawCounter { value, enabled_ns, running_ns })
}

/// Returns the lines of the selected parts of a snapshot, by subject.
fn snapshot_lines(snapshot: &Snapshot<'_>, show: &str, names: &[String]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if show.contains("jobs") {
        let line = |job: &JobView<'_>| (format!("job {}", job.job.name), job_line(snapshot, job));
        lines.extend(snapshot.jobs.iter().map(line));
    }
    if show.contains("tasks") {
        lines.extend(snapshot.tasks.iter().map(|task| {
            let name = task_name(names, task.task);
            let (cpu, wait) = (ms(task.cpu_time), task.wait.map(ms));
            let line =
                format!("{name} cpu {cpu} wait {wait:?} misses {:?}", task.counters.misses());
            (format!("task {name}"), line)
        }));
    }
    if show.contains("nodes") {
        lines.extend(snapshot.nodes.iter().map(|node| {
            let free = node.memory_free.map(|free| free.0);
            let line = format!("{} ops {:?} free {free:?}", node.node, node.controller_ops);
            (node.node.to_string(), line)
        }));
    }
    if show.contains("memory") {
        let line = |job: &JobView<'_>| (format!("job {}", job.job.name), memory_line(job));
        lines.extend(snapshot.jobs.iter().map(line));
    }
    if show.contains("domains") {
        let loads = snapshot.domains.iter().zip(&snapshot.loads.loads);
        let loads = loads.map(|((idx, _), load)| format!("{} {load}", snapshot.domains.label(idx)));
        let loads: Vec<String> = loads.collect();
        lines.push(("domains".into(), format!("{} {}", snapshot.loads.tier, loads.join(", "))));
    }
    if show.contains("interval") {
        lines.push(("interval".into(), format!("interval {}", snapshot.interval)));
    }
    lines
}

fn memory_line(job: &JobView<'_>) -> String {
    let mut line = format!("{} memory", job.job.name);
    for node in job.memory.iter().flat_map(|memory| &memory.nodes) {
        line += &format!(" {}={}", node.node, node.total());
    }
    if let Some(home) = job.memory.and_then(|memory| memory.home()) {
        line += &format!(", home {home}");
    }
    if let Some(active) = job.active_page_migration {
        line += &format!(", moving to {} since {}", active.to, active.since);
    }
    if let Some((at, moved)) = job.last_page_migration {
        let (end, to) = (moved.stopped_by.name(), moved.to);
        line += &format!(", {} of {} moved to {to} by {at} ({end})", moved.moved, moved.requested);
    }
    line
}

fn job_line(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> String {
    let mut line = format!("{} {:?}", job.job.name, job.state).to_lowercase();
    if job.allowed != snapshot.usable_cpus {
        line += &format!(" of {}", job.allowed);
    }
    if let Some(placed) = job.placed {
        line += &format!(" on {placed}");
    }
    if let Some(idx) = job.domain {
        line += &format!(" in {}", snapshot.domains.label(idx));
    }
    if !job.movable {
        line += " unmanaged";
    }
    if let Some(started) = job.started {
        line += &format!(" since {}", ms(started));
    }
    let wait = job.wait.map_or("-".to_owned(), |wait| ms(wait).to_string());
    line + &format!(" tasks {} cpu {} load {} wait {wait}", job.n_tasks, ms(job.cpu_time), job.load)
}
