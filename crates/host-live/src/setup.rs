//! Getting ready: everything that a run needs before its first turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::NodeId;
use linux::undo::{self, Log, Restored};
use linux::{affinity, system};
use program::{Ending, Job, Workload};
use sched::Sample;
use topology::Machine;

use crate::agenda::{Agenda, Item, Ticks};
use crate::command::{Common, own_environment};
use crate::family::{Descriptors, Family};
use crate::host::{
    LiveHost, NodeFile, ORPHANS_MAX, REST_MAX, SELDOM, Slot, State, Stopping, in_one_line,
};
use crate::keeper::Keeper;
use crate::orphans::Orphans;
use crate::wakes::Wakes;
use crate::{LiveError, LiveOptions};

/// More descriptors than this are of no use to us, and cost the kernel memory.
const DESCRIPTORS_ENOUGH: u64 = 65_536;
/// A thousand busy jobs would leave a thousandth of a CPU to the one who is to place them. Where the
/// kernel lets us, we go before them; they have the nice value that we came with.
const OWN_NICE: i32 = -10;

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
        let common = Common {
            folder: absolute(&workload.folder),
            output_dir,
            tool: options.tool.clone().unwrap_or_else(this_program),
            descriptors: limit.inherited,
            nice: go_before(&options),
            dies_with_us: options.die_with_me,
            env: own_environment(),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
        };
        let places = options.undo_folders.clone().unwrap_or_else(undo::folders);
        let restored = undo::restore(&places, false);
        let undo = Log::create_in(&places).map_err(|error| in_one_line(&error));
        let run = undo.as_ref().map_or_else(|_| "none".to_owned(), |log| log.run().to_owned());
        let keeper = match options.die_with_me {
            true => Some(Keeper::start(&common.tool, &run).map_err(LiveError::Keeper)?),
            false => None,
        };
        let descriptors = Descriptors::new(limit.now, workload.jobs.len() as u64);
        let mut host = LiveHost {
            slots: Vec::new(),
            common,
            machine: machine.clone(),
            wakes,
            agenda: Agenda::default(),
            ticks: options.interval.map(Ticks::new),
            family: Family::new(descriptors, run),
            undo,
            keeper,
            own_cpus: Arc::new(affinity::get(0).map_err(LiveError::OwnCpus)?),
            first_process_of: BTreeMap::new(),
            stragglers: BTreeMap::new(),
            orphans: Orphans::default(),
            stopping: Stopping::No,
            causes: BTreeSet::new(),
            pending: Sample::default(),
            due: Vec::new(),
            n_ending_left: 0,
            unconfirmed: Vec::new(),
            nodes: open_nodes(machine),
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
            limit,
            restored,
            options,
        };
        host.take_jobs(workload.jobs);
        // Orphans of jobs come to us and not to the system's first process.
        let own = rustix::process::getpid();
        if rustix::process::set_child_subreaper(Some(own)).is_err() {
            host.degraded("processes whose parent ends cannot be followed: the kernel refused");
        }
        if let Err(error) = &host.undo {
            let text = format!("nothing is placed, because it could not be undone: {error}");
            host.degraded(&text);
        }
        Ok(host)
    }

    /// What the start found left over by killed runs, and did about it.
    pub fn restored(&self) -> &Restored {
        &self.restored
    }

    fn take_jobs(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            self.agenda.add(job.start, Item::Start(job.id));
            self.family.know(&job.name, job.id);
            self.n_ending_left += usize::from(job.ending != Ending::RestartUntilOthersDone);
            self.slots.push(Slot { job, n_runs: 0, state: State::Waiting });
        }
        if let Some(limit) = self.options.time_limit {
            self.agenda.add(limit, Item::TimeLimit);
        }
    }
}

fn open_nodes(machine: &Machine) -> Vec<NodeFile> {
    let open = |node: NodeId| {
        let meminfo = system::open_node_meminfo("/".as_ref(), node).ok()?;
        Some(NodeFile { node, meminfo, seen: None })
    };
    machine.nodes().iter().filter_map(|node| open(node.id)).collect()
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
    let wanted = options.takes_priority && OWN_NICE < inherited;
    (wanted && system::set_own_nice(OWN_NICE).is_ok()).then_some(inherited)
}
