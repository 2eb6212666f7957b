//! Getting ready: everything that a run needs before its first turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base::CpuSet;
use linux::child_exit::SigchldGuard;
use linux::system::DescriptorLimit;
use linux::undo::{self, Log, Restored};
use linux::{affinity, system};
use program::{Ending, Job, Workload};
use sched::Sample;
use topology::Machine;

use crate::agenda::{Agenda, Item, Ticks};
use crate::cgroups::JobGroups;
use crate::command::{Common, own_environment};
use crate::groups::MonGroups;
use crate::host::{LiveHost, REST_MAX, Slot, State, Stopping, in_one_line};
use crate::keeper::Keeper;
use crate::look::{ORPHANS_MAX, SELDOM};
use crate::memory::{Manner, Memory};
use crate::nodes::Nodes;
use crate::orphans::Orphans;
use crate::overflow::Overflow;
use crate::wakes::Wakes;
use crate::{CounterMode, LiveError, LiveOptions};
use linux::collectors::LiveCollectors;
use linux::tasks::{DescriptorBudget, TaskCounters, TaskReader};

/// More descriptors than this are of no use to us, and cost the kernel memory.
const DESCRIPTORS_ENOUGH: u64 = 65_536;
/// A thousand busy jobs would leave a thousandth of a CPU to the one who is to place them. Where the
/// kernel lets us, we go before them; they have the nice value that we came with.
const OWN_NICE: i32 = -10;
/// Nothing goes before this one.
const NICE_MIN: i32 = -20;

/// What a run stands on and may not be had.
struct Parts {
    common: Common,
    wakes: Wakes,
    keeper: Option<Keeper>,
    own_cpus: CpuSet,
    limit: DescriptorLimit,
}

impl LiveHost {
    /// Gets ready to run a workload. Leftovers of killed runs are put back first
    /// ([`LiveHost::restored`]). No job is started before the first turn.
    pub fn new(
        workload: Workload,
        machine: &Machine,
        options: LiveOptions,
    ) -> Result<Self, LiveError> {
        let limit = system::raise_descriptors(DESCRIPTORS_ENOUGH);
        let wakes = Wakes::new(options.takes_signals)?;
        let output_dir = absolute(&options.output_dir);
        std::fs::create_dir_all(&output_dir)
            .map_err(|source| LiveError::OutputDir { path: output_dir.clone(), source })?;
        let common = common(&workload, &options, output_dir, &limit);
        let keeper = match options.die_with_me {
            true => Some(Keeper::start(&common.tool, &common.run).map_err(LiveError::Keeper)?),
            false => None,
        };
        let own_cpus = affinity::get(0).map_err(LiveError::OwnCpus)?;
        let parts = Parts { common, wakes, keeper, own_cpus, limit };
        let mut host = LiveHost::idle(parts, machine, options, workload.jobs.len() as u64);
        host.take_jobs(workload.jobs);
        host.take_over_orphans();
        if let Err(error) = &host.undo {
            let text = format!("nothing is placed, because it could not be undone: {error}");
            host.degraded(&text);
        }
        Ok(host)
    }

    /// Puts back what others left, opens the record, and knows no jobs yet.
    fn idle(parts: Parts, machine: &Machine, options: LiveOptions, n_jobs: u64) -> Self {
        let Parts { common, wakes, keeper, own_cpus, limit } = parts;
        let places = options.undo_folders.clone().unwrap_or_else(undo::folders);
        let restored = undo::restore_below(&options.resctrl_root, &places, false);
        let undo = Log::create_for(common.run.clone(), &places);
        let descriptors = DescriptorBudget::new(limit.now, n_jobs);
        let manner = Manner {
            options: options.memory,
            interval: options.interval,
            nice: common.nice,
            of_strangers: false,
        };
        let (senses, chosen, mut said) = LiveCollectors::open(machine, options.counters);
        let overflow = Overflow::open(options.wake, &own_cpus, &wakes).unwrap_or_else(|why| {
            said.push(why);
            None
        });
        let is_counted = options.counters != CounterMode::Off;
        let root = options.resctrl_root.clone();
        let job_groups = JobGroups::open(root.clone(), machine, &common.run, options.groups);
        let mut groups = MonGroups::open(root, machine, &common.run, is_counted);
        said.append(&mut groups.take_said());
        LiveHost {
            family: TaskReader::new(
                descriptors,
                TaskCounters::of_run(chosen, options.counters),
                common.run.clone(),
            ),
            undo: undo.map_err(|error| in_one_line(&error)),
            slots: Vec::new(),
            common,
            machine: machine.clone(),
            wakes,
            agenda: Agenda::default(),
            ticks: options.interval.map(Ticks::new),
            overflow,
            keeper,
            own_cpus: Arc::new(own_cpus),
            first_process_of: BTreeMap::new(),
            stragglers: BTreeMap::new(),
            orphans: Orphans::default(),
            stopping: Stopping::No,
            causes: BTreeSet::new(),
            pending: Sample { degraded: said, ..Sample::default() },
            due: Vec::new(),
            n_ending_left: 0,
            unconfirmed: Vec::new(),
            nodes: Nodes::open(machine),
            memory: Memory::new(machine, manner),
            senses,
            groups,
            job_groups,
            woken: Vec::new(),
            n_turns: 0,
            seldom_at: SELDOM,
            was_quiet: false,
            rests: false,
            rest_until: REST_MAX,
            has_stirred: true,
            orphans_at: ORPHANS_MAX,
            is_first_sample: true,
            said_ran_out: false,
            said_blind: false,
            said_no_weights: false,
            limit,
            restored,
            is_record_kept: false,
            _statuses: SigchldGuard::keep(),
            options,
        }
    }

    /// Orphans of jobs come to us and not to the system's first process.
    fn take_over_orphans(&mut self) {
        let own = rustix::process::getpid();
        if rustix::process::set_child_subreaper(Some(own)).is_err() {
            self.degraded("processes whose parent ends cannot be followed: the kernel refused");
        }
    }

    /// What the start found left over by killed runs, and did about it.
    pub fn restored(&self) -> &Restored {
        &self.restored
    }

    fn take_jobs(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            self.agenda.add(job.start, Item::Start(job.id));
            self.family.register_job_name(&job.name, job.id);
            self.n_ending_left += usize::from(job.ending != Ending::RestartUntilOthersDone);
            self.slots.push(Slot { job, n_runs: 0, state: State::Waiting });
        }
        if let Some(limit) = self.options.time_limit {
            self.agenda.add(limit, Item::TimeLimit);
        }
    }
}

fn common(
    workload: &Workload,
    options: &LiveOptions,
    output_dir: PathBuf,
    limit: &DescriptorLimit,
) -> Common {
    Common {
        run: run_name(),
        folder: absolute(&workload.folder),
        output_dir,
        tool: options.tool.clone().unwrap_or_else(this_program),
        descriptors: limit.inherited,
        nice: go_before(options),
        dies_with_us: options.die_with_me,
        env: own_environment(),
        search_path: std::env::var_os("PATH").unwrap_or_default(),
    }
}

/// A name that no other run has, with an undo record or without: jobs are known by it. Where the
/// kernel gives no random name, our number and the time are one.
fn run_name() -> String {
    system::random_id("/".as_ref()).unwrap_or_else(|_| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        format!("{}-{}", std::process::id(), since.map_or(0, |since| since.as_nanos()))
    })
}

/// A path that does not depend on the folder that we are in.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { ".".as_ref() } else { path };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The file of this program. When it was replaced since it was started, only the kernel's own link
/// still leads to it.
fn this_program() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.is_file());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}

/// Goes before the jobs, if asked to and permitted: the nice value that they get back.
fn go_before(options: &LiveOptions) -> Option<i32> {
    let inherited = system::own_nice();
    let before = nice_before(inherited);
    let wanted = options.takes_priority && before < inherited;
    (wanted && system::set_own_nice(before).is_ok()).then_some(inherited)
}

/// What goes before jobs of this nice value, as far as there is anything before it.
fn nice_before(inherited: i32) -> i32 {
    OWN_NICE.min(inherited + OWN_NICE).max(NICE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_go_before_jobs_that_came_before_others_already() {
        assert_eq!([19, 0, -5, -15, -20].map(nice_before), [-10, -10, -15, -20, -20]);
    }
}
