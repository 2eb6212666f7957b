//! The published groups of eleven programs, the policies of experiments, and `divided` with published groups.
//!
//! ```text
//!   "linux"                        a policy, as in compare
//!   "published-groups divided[…]"  divided, with the counters of each program in its snapshots replaced:
//!                                    published Group 1   queue-full events: many
//!                                    published Group 2   queue-full events: none, LLC references: many
//!                                    Group 3             neither
//! ```
//!
//! With published groups, an experiment does not depend on the detection of groups. The policy still selects the
//! placement, with its guard and its period.

use base::StopFlag;
use engine::Sink;
use program::Job;
use sched::{CounterEvent, Plan, Policy, Snapshot, TaskView};

use crate::compare::{Column, ColumnError, MachineVariant, RunMetrics, SimBench, SimRunError};

/// Indexes of the published groups in [`ELEVEN`]. sp.B and ua.B slow other programs down; the paper assigns them to
/// Group 3.
pub(super) const G1: [usize; 3] = [0, 1, 2];
pub(super) const G2: [usize; 3] = [3, 4, 5];
pub(super) const HURTING: [usize; 2] = [6, 7];
pub(super) const HARMLESS: [usize; 3] = [8, 9, 10];

/// The eleven programs: Group 1, Group 2, Group 3.
pub(super) const ELEVEN: [&str; 11] = [
    "lbm",
    "libquantum",
    "lu.B",
    "sphinx3",
    "omnetpp",
    "streamcluster",
    "sp.B",
    "ua.B",
    "canneal",
    "ferret",
    "gromacs",
];

/// Prefix of a policy with published groups.
pub(super) const PREFIX: &str = "published-groups ";

/// Events per second of CPU time that count as many: above the maximum threshold of 10^12.
const MANY_PER_S: u64 = 2_000_000_000_000;

/// A policy of an experiment.
#[derive(Clone, Debug)]
pub(super) struct StudiedPolicy {
    column: Column,
    has_given_groups: bool,
}

impl StudiedPolicy {
    pub fn parse(text: &str) -> Result<Self, ColumnError> {
        let spec = text.strip_prefix(PREFIX);
        let column = Column::parse(spec.unwrap_or(text))?;
        Ok(StudiedPolicy { column, has_given_groups: spec.is_some() })
    }

    pub fn variant(&self) -> MachineVariant {
        self.column.variant
    }

    pub fn run(
        &self,
        bench: &SimBench,
        (workload, seed): (usize, u64),
        stop: &StopFlag,
        observer: Option<&mut dyn Sink>,
    ) -> Result<Option<RunMetrics>, SimRunError> {
        let run = (&self.column, workload, seed);
        if !self.has_given_groups {
            return bench.run(run, stop, observer);
        }
        let inner = policy::build(&self.column.spec, seed)?;
        bench.run_policy(Box::new(PublishedGroups { inner }), run, stop, observer)
    }
}

/// A policy whose snapshots contain the counters that the published groups would have.
struct PublishedGroups {
    inner: Box<dyn Policy>,
}

impl Policy for PublishedGroups {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let job_of = |task: &TaskView| {
            snapshot.jobs.iter().find(|job| job.job.id == task.job).map(|job| job.job)
        };
        let tasks: Vec<TaskView> =
            snapshot.tasks.iter().map(|task| with_group_counters(task, job_of(task))).collect();
        self.inner.decide(&Snapshot { tasks: &tasks, ..*snapshot }, plan);
    }

    sched::forward_policy!(inner: name, reasons, interval, wake, domains, load_source);
}

fn with_group_counters(task: &TaskView, job: Option<&Job>) -> TaskView {
    let many = task.cpu_time.as_secs_f64() * MANY_PER_S as f64;
    let (queue_full, references) = match job.map_or(3, published_group) {
        1 => (many as u64, 0),
        2 => (0, many as u64),
        _ => (0, 0),
    };
    let counters = task.counters.with(CounterEvent::QueueFull, queue_full);
    TaskView { counters: counters.with(CounterEvent::LlcReferences, references), ..*task }
}

/// Returns the published group of a job's program; 3 for a program that the paper does not name.
pub(super) fn published_group(job: &Job) -> u8 {
    ELEVEN.iter().position(|one| *one == plain_name(job)).map_or(3, group_of_eleven)
}

/// Returns the name of a job's program without suite number and length factor.
pub(super) fn plain_name(job: &Job) -> &str {
    let name = job.profile.as_deref().unwrap_or(&job.name);
    let name = name.split('@').next().unwrap_or(name);
    name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// Returns the published group of one of the eleven programs.
pub(super) fn group_of_eleven(idx: usize) -> u8 {
    match idx {
        idx if G1.contains(&idx) => 1,
        idx if G2.contains(&idx) => 2,
        _ => 3,
    }
}

/// Returns all mixes with these sizes of Groups 1, 2 and 3, such as `2,2,2`, as names of workloads.
pub(super) fn multisets(sizes: &str) -> Vec<String> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for (group, size) in (1..).zip(sizes.split(',')) {
        let size: usize = size.parse().expect("the size of a group");
        let of_group: Vec<usize> =
            (0..ELEVEN.len()).filter(|idx| group_of_eleven(*idx) == group).collect();
        for n in 0..size {
            // Within a group, indexes ascend, so that no multiset occurs twice.
            let extended = |mix: &Vec<usize>| -> Vec<Vec<usize>> {
                let from = if n == 0 { 0 } else { mix[mix.len() - 1] };
                let next = of_group.iter().filter(|idx| from <= **idx);
                next.map(|idx| [&mix[..], &[*idx]].concat()).collect()
            };
            all = all.iter().flat_map(extended).collect();
        }
    }
    let name = |mix: &Vec<usize>| {
        let programs: Vec<&str> = mix.iter().map(|idx| ELEVEN[*idx]).collect();
        format!("programs:{}", programs.join("+"))
    };
    all.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_of_given_group_sizes_are_all_multisets() {
        let sizes = ["2,2,2", "3,3,0", "4,4,0", "3,3,2", "3,0,3", "2,0,4", "2,0,6"];
        let n = sizes.map(|sizes| multisets(sizes).len());
        assert_eq!(n, [540, 100, 225, 1500, 350, 420, 1260]);
        assert_eq!(multisets("2,0,4")[0], "programs:lbm+lbm+sp.B+sp.B+sp.B+sp.B");
    }
}
