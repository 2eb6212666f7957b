//! How a kernel spread tasks, out of the journal of a run: the same figures of a real one and of a simulated.
//!
//! ```text
//!   between two looks, for each task:  ran + waited = wanted to run       on the CPU it was seen on last
//!   over all tasks:                    Σ ran, Σ waited;  CPUs − Σ ran = idle
//! ```
//!
//! Figures of an interval are weighed by its length. What ran for less than a look between two others is not
//! seen where it was, and a task that went away and came back between two looks has not moved.
//!
//! Memory lies where it was seen last: as the journal tells, or where somebody looked more often ([`super::lies`])
//! as he tells.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use anyhow::Context;
use base::{CpuId, JobId, Nanos, NodeId, TaskId};
use journal::RecordedTurn;
use sched::{Cause, JobEvent, JobExit, NodeMemory, TaskSample};
use topology::Machine;

use super::lies::{self, Look};

/// What came of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Seconds until the last job had ended.
    pub whole_s: f64,
    /// Of the first kind of jobs: the longest over the shortest.
    pub slowest: f64,
    /// Of the first kind of jobs: the most CPU time that one got over the least.
    pub unfair: f64,
    /// The part of the time in which tasks wanted to run that they waited.
    pub waited: f64,
    /// CPUs that were idle while as many tasks waited.
    pub lost_cpus: f64,
    /// Tasks that wanted to run: most on a node less fewest on a node.
    pub uneven: f64,
    /// Times that a task was seen on another CPU of its node, for each second of wanting to run.
    pub within_s: f64,
    /// The same for a CPU of another node.
    pub across_s: f64,
    /// The part of memory on the node that its program runs on; first and second half of the time.
    pub own: [f64; 2],
    /// The part on nodes at the next distance.
    pub near: f64,
    /// The part farther away.
    pub far: f64,
    /// Seconds in a row that a program had less than nine tenths of its memory on its node.
    pub away_s: f64,
    /// How often that began, of all programs.
    pub n_away: f64,
    /// MiB of all programs that came to another node.
    pub moved_mib: f64,
}

/// A figure with its name.
pub type Row = (&'static str, fn(&Figures) -> f64);

/// Of jobs that end by themselves.
pub const ENDING: &[Row] =
    &[("whole time, s", |f| f.whole_s), ("longest / shortest job", |f| f.slowest)];

/// Of jobs that go on.
pub const ENDLESS: &[Row] = &[("most / least CPU got", |f| f.unfair)];

/// Of all.
pub const ALWAYS: &[Row] = &[
    ("waited, part of runnable", |f| f.waited),
    ("idle CPUs while as many wait", |f| f.lost_cpus),
    ("nodes: most - fewest tasks", |f| f.uneven),
    ("CPU changes/s in the node", |f| f.within_s),
    ("  to another node", |f| f.across_s),
];

/// Of jobs with memory.
pub const MEMORY: &[Row] = &[
    ("memory on its node, 1st half", |f| f.own[0]),
    ("  second half", |f| f.own[1]),
    ("  on the next nodes, in all", |f| f.near),
    ("  on farther ones", |f| f.far),
    ("times away from memory", |f| f.n_away),
    ("  seconds each", |f| f.away_s),
    ("MiB moved", |f| f.moved_mib),
];

/// A run, and when each of its jobs really began, in seconds, by number.
pub struct Run {
    /// What came of it.
    pub figures: Figures,
    /// From the start of the run.
    pub starts_s: Vec<f64>,
    /// The CPU that the first job was seen on first.
    pub first_cpu: Option<CpuId>,
    /// The machine as it was at the start.
    pub machine: Machine,
}

/// Of the journal in a file. Looks of the first seconds do not count, if so told; nor does what comes after
/// the first end then.
pub fn of(journal: &Path, from_s: f64, to_s: f64) -> anyhow::Result<Run> {
    let mut recording =
        journal::read(journal).with_context(|| format!("cannot read {}", journal.display()))?;
    let header = recording.header();
    let name_of = |job: &program::Job| kind(&job.name).to_owned();
    let kinds: Vec<String> = header.jobs.iter().map(name_of).collect();
    let machine = header.machine.clone();
    let mut tally =
        Tally { from_s, half_s: (from_s + to_s) / 2.0, ..Tally::new(machine.clone(), kinds) };
    let run = journal.parent().context("a journal lies in a folder")?;
    tally.looks = lies::read(run)?.into();
    tally.is_told_more = !tally.looks.is_empty();
    for turn in recording.by_ref() {
        tally.turn(&turn.with_context(|| format!("in {}", journal.display()))?);
    }
    let (figures, first_cpu) = (tally.figures(), tally.first_cpu);
    Ok(Run { figures, starts_s: tally.starts_s, first_cpu, machine })
}

/// Copies are called `name-0`, `name-1`, `name-2`.
fn kind(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// What a task had come to when it was looked at last.
#[derive(Clone, Copy, Debug)]
struct Last {
    ran: Nanos,
    waited: u64,
    on: Option<CpuId>,
}

/// Sums over a run.
struct Tally {
    machine: Machine,
    kinds: Vec<String>,
    tasks: BTreeMap<TaskId, Last>,
    looked_at: Nanos,
    /// Shortest and longest of the first kind.
    jobs_s: Option<(f64, f64)>,
    starts_s: Vec<f64>,
    first_cpu: Option<CpuId>,
    whole: Nanos,
    from_s: f64,
    /// Jobs that were to go on have ended: what happens with fewer of them does not count.
    is_over: bool,
    /// CPU time of each job, by number.
    got_s: Vec<f64>,
    /// Seconds of looks in which somebody wanted to run.
    time_s: f64,
    ran_s: f64,
    waited_s: f64,
    lost_s: f64,
    uneven_s: f64,
    n_within: u32,
    n_across: u32,
    /// Where the middle of the time is that counts.
    half_s: f64,
    memory: BTreeMap<JobId, Held>,
    /// What others saw of memory and was not come to yet.
    looks: VecDeque<Look>,
    /// Whose the processes are.
    jobs: BTreeMap<u32, JobId>,
    is_told_more: bool,
    /// From seconds since boot to seconds of the run: the nearest that the births of tasks tell.
    since_boot_s: f64,
    /// Seconds of programs with memory, in both halves, and how much of it where, in parts of all.
    held_s: [f64; 2],
    own_s: [f64; 2],
    near_s: f64,
    far_s: f64,
    away_s: f64,
    n_away: u32,
    moved_bytes: u64,
}

/// The memory of a job.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Bytes by place of the node in the machine's list.
    on: Vec<u64>,
    is_away: bool,
}

impl Tally {
    fn new(machine: Machine, kinds: Vec<String>) -> Self {
        Tally {
            machine,
            starts_s: vec![0.0; kinds.len()],
            first_cpu: None,
            from_s: 0.0,
            is_over: false,
            got_s: vec![0.0; kinds.len()],
            kinds,
            tasks: BTreeMap::new(),
            looked_at: Nanos::ZERO,
            jobs_s: None,
            whole: Nanos::ZERO,
            time_s: 0.0,
            ran_s: 0.0,
            waited_s: 0.0,
            lost_s: 0.0,
            uneven_s: 0.0,
            n_within: 0,
            n_across: 0,
            half_s: f64::INFINITY,
            memory: BTreeMap::new(),
            looks: VecDeque::new(),
            jobs: BTreeMap::new(),
            is_told_more: false,
            since_boot_s: f64::INFINITY,
            held_s: [0.0; 2],
            own_s: [0.0; 2],
            near_s: 0.0,
            far_s: 0.0,
            away_s: 0.0,
            n_away: 0,
            moved_bytes: 0,
        }
    }

    fn turn(&mut self, recorded: &RecordedTurn) {
        for event in &recorded.sample.jobs {
            if let JobEvent::Ended(job, end) = event {
                self.whole = self.whole.max(recorded.turn.at);
                self.ended(recorded.turn.at, *job, end);
            }
        }
        if !self.is_told_more {
            recorded.sample.memory.iter().for_each(|found| self.lies(found.job, &found.nodes));
        }
        if recorded.turn.causes.contains(&Cause::Interval) {
            self.look(recorded.turn.at, &recorded.sample.tasks);
        }
    }

    fn ended(&mut self, at: Nanos, job: JobId, end: &JobExit) {
        self.is_over |= 0.0 < self.from_s;
        self.starts_s[job.index()] = at.saturating_sub(end.wall).as_secs_f64();
        if self.kinds[job.index()] == self.kinds[0] && !end.stopped_by_host {
            let wall_s = end.wall.as_secs_f64();
            let (shortest, longest) = self.jobs_s.unwrap_or((wall_s, wall_s));
            self.jobs_s = Some((shortest.min(wall_s), longest.max(wall_s)));
        }
    }

    fn look(&mut self, at: Nanos, tasks: &[TaskSample]) {
        self.take_looks(at, tasks);
        let passed_s = at.saturating_sub(std::mem::replace(&mut self.looked_at, at)).as_secs_f64();
        let counts = self.from_s <= at.as_secs_f64() - passed_s && !self.is_over;
        let (mut ran_s, mut waited_s) = (0.0, 0.0);
        let mut by_node = vec![0.0; self.machine.nodes().len()];
        for task in tasks {
            if task.job == JobId(0) {
                self.first_cpu = self.first_cpu.or(task.last_cpu);
            }
            let (ran, waited) = self.grown(task, counts);
            ran_s += ran;
            waited_s += waited;
            if counts {
                self.got_s[task.job.index()] += ran;
            }
            if let Some(node) = task.last_cpu.and_then(|cpu| self.node_of(cpu)) {
                by_node[node] += ran + waited;
                if counts {
                    self.holds(task.job, node, at.as_secs_f64(), passed_s);
                }
            }
        }
        if !counts || passed_s <= 0.0 || ran_s + waited_s <= 0.0 {
            return;
        }
        let idle = (self.machine.cpus().len() as f64 - ran_s / passed_s).max(0.0);
        let most = by_node.iter().fold(0.0, |most: f64, sum| most.max(*sum));
        let fewest = by_node.iter().fold(f64::INFINITY, |fewest: f64, sum| fewest.min(*sum));
        self.uneven_s += most - fewest;
        self.lost_s += idle.min(waited_s / passed_s) * passed_s;
        self.time_s += passed_s;
        self.ran_s += ran_s;
        self.waited_s += waited_s;
    }

    /// Takes in what others saw up to a look.
    fn take_looks(&mut self, at: Nanos, tasks: &[TaskSample]) {
        let at_s = at.as_secs_f64();
        for task in tasks {
            let born_s = task.task.start_time_ticks as f64 / TICKS_PER_S;
            self.since_boot_s = self.since_boot_s.min(at_s - born_s);
            self.jobs.insert(task.process, task.job);
        }
        let is_past = |look: &&Look| look.at_s + self.since_boot_s <= at_s;
        let n_past = self.looks.iter().take_while(is_past).count();
        let past: Vec<Look> = self.looks.drain(..n_past).collect();
        for look in past {
            if let Some(&job) = self.jobs.get(&look.pid) {
                self.lies(job, &look.nodes);
            }
        }
    }

    /// Where a job's memory was found; each has one process.
    fn lies(&mut self, job: JobId, found: &[NodeMemory]) {
        let now: Vec<u64> =
            self.machine.nodes().iter().map(|node| own_on(found, node.id)).collect();
        let held = self.memory.entry(job).or_default();
        let before = std::mem::replace(&mut held.on, now);
        let gains = |from: &[u64], to: &[u64]| -> u64 {
            from.iter().zip(to).map(|(from, to)| to.saturating_sub(*from)).sum()
        };
        self.moved_bytes += gains(&before, &held.on).min(gains(&held.on, &before));
    }

    /// A program ran on a node for so long, up to now.
    fn holds(&mut self, job: JobId, node: usize, at_s: f64, passed_s: f64) {
        let distance = |from: usize, to: usize| {
            let nodes = self.machine.nodes();
            nodes[from].distances.get(&nodes[to].id).copied().unwrap_or(topology::DISTANCE_LOCAL)
        };
        let next = (0..self.machine.nodes().len()).filter(|&other| other != node);
        let next = next.map(|other| distance(node, other)).min();
        let Some(held) = self.memory.get_mut(&job) else { return };
        let total: u64 = held.on.iter().sum();
        if total < MEMORY_MIN {
            return; // Nothing of its own yet.
        }
        let part = |bytes: u64| bytes as f64 / total as f64;
        let is_next = |other: &usize| Some(distance(node, *other)) == next && *other != node;
        let own = part(held.on[node]);
        let near = part((0..held.on.len()).filter(is_next).map(|other| held.on[other]).sum());
        let half = usize::from(self.half_s < at_s);
        self.held_s[half] += passed_s;
        self.own_s[half] += own * passed_s;
        self.near_s += near * passed_s;
        self.far_s += (1.0 - own - near) * passed_s;
        let is_away = own < TOGETHER;
        self.n_away += u32::from(is_away && !held.is_away);
        held.is_away = is_away;
        self.away_s += if is_away { passed_s } else { 0.0 };
    }

    /// Seconds that a task ran and waited since it was looked at last; whether it moved is counted.
    fn grown(&mut self, task: &TaskSample, counts: bool) -> (f64, f64) {
        let now =
            Last { ran: task.cpu_time, waited: task.wait.value().unwrap_or(0), on: task.last_cpu };
        let before = self.tasks.insert(task.task, now);
        let last = before.unwrap_or(Last { ran: Nanos::ZERO, waited: 0, on: now.on });
        if let (Some(from), Some(to)) = (last.on, now.on)
            && from != to
            && counts
        {
            let is_near = self.node_of(from) == self.node_of(to);
            *(if is_near { &mut self.n_within } else { &mut self.n_across }) += 1;
        }
        let ran = now.ran.saturating_sub(last.ran).as_secs_f64();
        (ran, Nanos(now.waited.saturating_sub(last.waited)).as_secs_f64())
    }

    /// The place of a CPU's node in the machine's list.
    fn node_of(&self, cpu: CpuId) -> Option<usize> {
        let node = self.machine.cpu(cpu)?.node?;
        self.machine.nodes().iter().position(|known| known.id == node)
    }

    fn figures(&self) -> Figures {
        let wanted_s = self.ran_s + self.waited_s;
        let per = |sum: f64, of: f64| if 0.0 < of { sum / of } else { 0.0 };
        let first = self.kinds.iter().zip(&self.got_s).filter(|(kind, _)| **kind == self.kinds[0]);
        let got = first.map(|(_, got_s)| *got_s);
        let (least, most) = got.fold((f64::INFINITY, 0.0_f64), |(least, most), got_s| {
            (least.min(got_s), most.max(got_s))
        });
        Figures {
            whole_s: self.whole.as_secs_f64(),
            slowest: self.jobs_s.map_or(1.0, |(shortest, longest)| per(longest, shortest)),
            unfair: per(most, least),
            waited: per(self.waited_s, wanted_s),
            lost_cpus: per(self.lost_s, self.time_s),
            uneven: per(self.uneven_s, self.time_s),
            within_s: per(f64::from(self.n_within), wanted_s),
            across_s: per(f64::from(self.n_across), wanted_s),
            own: [0, 1].map(|half| per(self.own_s[half], self.held_s[half])),
            near: per(self.near_s, self.held_s.iter().sum()),
            far: per(self.far_s, self.held_s.iter().sum()),
            away_s: per(self.away_s, f64::from(self.n_away)),
            n_away: f64::from(self.n_away),
            moved_mib: self.moved_bytes as f64 / 1_048_576.0,
        }
    }
}

/// Bytes of its own on a node.
fn own_on(found: &[NodeMemory], node: NodeId) -> u64 {
    found.iter().filter(|lies| lies.node == node).map(|lies| lies.own().0).sum()
}

/// Clock ticks of a second, in which births are told.
const TICKS_PER_S: f64 = 100.0;
/// A program whose memory is on its node to this part is together with it.
const TOGETHER: f64 = 0.9;
/// With less than this a program has not touched its memory yet, only what every program has.
const MEMORY_MIN: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use sched::{Counters, Measured};

    use super::*;

    fn task(tid: u32, ran_ms: u64, waited_ms: u64, on: u32) -> TaskSample {
        let task = TaskId { tid, start_time_ticks: 0 };
        TaskSample {
            task,
            process: tid,
            job: JobId(0),
            cpu_time: Nanos::from_millis(ran_ms),
            previous_sample_at: None,
            wait: Measured::Exact(Nanos::from_millis(waited_ms).0),
            last_cpu: Some(CpuId(on)),
            counters: Counters::NONE,
        }
    }

    #[test]
    fn what_tasks_ran_and_waited_tells_idle_cpus_and_uneven_nodes() {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        let mut tally = Tally::new(machine, vec!["a".to_owned()]);
        // Two tasks share cpu 0 for a second, then one of them goes to the other node.
        tally.look(Nanos::from_secs(1), &[task(1, 500, 500, 0), task(2, 500, 500, 0)]);
        tally.look(Nanos::from_secs(2), &[task(1, 1500, 500, 0), task(2, 1500, 500, 2)]);
        let figures = tally.figures();
        assert_eq!(figures.lost_cpus, 0.5, "one of two seconds");
        assert_eq!((figures.uneven, figures.waited), (1.0, 0.25));
        assert_eq!((figures.within_s, figures.across_s), (0.0, 0.25));
    }

    #[test]
    fn memory_elsewhere_counts_as_away_until_nine_tenths_are_on_the_node() {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        let mut tally = Tally { half_s: 2.0, ..Tally::new(machine, vec!["a".to_owned()]) };
        let lies = |node: u32, mib: u64| NodeMemory {
            node: NodeId(node),
            small: base::Bytes::from_mib(mib),
            ..NodeMemory::default()
        };
        // A second near its memory, two away from it (cpu 2 is on node 1), one after most of it came.
        tally.lies(JobId(0), &[lies(0, 64)]);
        tally.look(Nanos::from_secs(1), &[task(1, 1000, 0, 0)]);
        tally.look(Nanos::from_secs(2), &[task(1, 2000, 0, 2)]);
        tally.look(Nanos::from_secs(3), &[task(1, 3000, 0, 2)]);
        tally.lies(JobId(0), &[lies(0, 4), lies(1, 60)]);
        tally.look(Nanos::from_secs(4), &[task(1, 4000, 0, 2)]);
        let figures = tally.figures();
        assert_eq!(figures.own, [0.5, 60.0 / 128.0]);
        assert_eq!((figures.n_away, figures.away_s, figures.moved_mib), (1.0, 2.0, 60.0));
    }

    #[test]
    fn what_others_saw_of_memory_is_taken_in_when_its_time_comes() {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        let mut tally = Tally::new(machine, vec!["a".to_owned()]);
        let seen = |at_s: f64, mib: u64| Look {
            at_s,
            pid: 1,
            nodes: vec![NodeMemory {
                node: NodeId(0),
                small: base::Bytes::from_mib(mib),
                ..NodeMemory::default()
            }],
        };
        // Born 10 s after boot and seen first after a second of the run.
        tally.looks = [seen(9.5, 1), seen(10.5, 40), seen(12.0, 64)].into();
        let mut born = task(1, 1000, 0, 0);
        born.task.start_time_ticks = 1000;
        tally.look(Nanos::from_secs(1), &[born.clone()]);
        assert_eq!(tally.memory[&JobId(0)].on, [1 << 20, 0], "the next one is yet to come");
        tally.look(Nanos::from_secs(3), &[born]);
        assert_eq!(tally.memory[&JobId(0)].on, [64 << 20, 0]);
    }
}
