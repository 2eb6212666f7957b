//! A group for each job whose memory is bound, so that all of it stays on its nodes.
//!
//! ```text
//!   record ─► folder of the run ─► group with its nodes ─► fork ─► the child goes in ─► exec
//!   end of the job ─► rmdir       end of the run ─► who is left goes home ─► rmdir ─► record
//! ```
//!
//! A job without bound memory has no group, and without such a job nothing is made at all. Where a
//! group cannot be had the job starts with a memory policy of its own, as its child sets it, and that
//! is said once. Nothing here keeps a job from starting.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use base::JobId;
use linux::cgroup::{Cgroup, CgroupChoice, CgroupMode, RunCgroups, choose};
use linux::undo::Log;
use program::MemoryPolicy;
use topology::Machine;

/// How far the folder of the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// Nobody needed it yet.
    NotYet,
    /// It is there.
    There,
    /// It cannot be had, and nothing of it is left.
    Never,
    /// It cannot be had, and something of it may be left.
    Broken,
}

/// The groups of all jobs that run.
#[derive(Debug)]
pub(crate) struct JobGroups {
    choice: CgroupChoice,
    run: Option<RunCgroups>,
    folder: Folder,
    /// Whether there is anything that a group could keep memory from.
    is_of_use: bool,
    /// Whether it is to be said that there are none.
    is_wanted: bool,
    of: BTreeMap<JobId, Arc<Cgroup>>,
    /// Those of jobs that ended, with somebody in them still.
    left: BTreeMap<JobId, Arc<Cgroup>>,
    said: BTreeSet<String>,
    to_say: Vec<String>,
}

/// Whether these groups can be had here; else why not and what would help. What is not wanted at any
/// price can always be had.
pub fn check_groups(wish: CgroupMode) -> Result<(), String> {
    let choice = choose("/".as_ref(), wish);
    match (wish, &choice.home) {
        (CgroupMode::Only(_), None) => Err(choice.why),
        _ => Ok(()),
    }
}

impl JobGroups {
    /// Finds out whether there can be groups. `root` is `/` but for tests.
    pub(crate) fn open(root: PathBuf, machine: &Machine, run: &str, wish: CgroupMode) -> Self {
        let choice = choose(&root, wish);
        let home = choice.home.clone();
        JobGroups {
            run: home.and_then(|home| RunCgroups::new(&root, home, run)),
            choice,
            folder: Folder::NotYet,
            is_of_use: 1 < machine.nodes_with_memory().len() || matches!(wish, CgroupMode::Only(_)),
            is_wanted: wish != CgroupMode::None,
            of: BTreeMap::new(),
            left: BTreeMap::new(),
            said: BTreeSet::new(),
            to_say: Vec::new(),
        }
    }

    /// Which groups these are and why, in a line.
    pub(crate) fn told(&self) -> String {
        self.choice.to_string()
    }

    /// Whether a job with this memory would have a group here.
    pub(crate) fn would_hold(&self, memory: Option<&MemoryPolicy>) -> bool {
        let is_bound = matches!(memory, Some(MemoryPolicy::Bind(_)));
        is_bound && self.is_of_use && self.run.is_some()
    }

    /// Makes a group for a job that is about to start, if its memory is bound: the door that its first
    /// process goes through.
    pub(crate) fn begin(
        &mut self,
        job: JobId,
        name: &str,
        memory: Option<&MemoryPolicy>,
        undo: &mut Result<Log, String>,
    ) -> Option<OwnedFd> {
        let Some(MemoryPolicy::Bind(nodes)) = memory.filter(|_| self.is_of_use) else {
            return None;
        };
        self.prepare(undo);
        let run = self.run.as_ref().filter(|_| self.folder == Folder::There)?;
        let made = run.make(job.0, name, nodes).and_then(|group| {
            let door =
                group.open_procs().map_err(|error| format!("{}: {error}", group.path().display()));
            self.left.remove(&job); // What its last run left is in the same group.
            self.of.insert(job, Arc::new(group));
            door
        });
        if let Err(why) = &made {
            self.say(why);
            self.end(job);
        }
        made.ok()
    }

    /// Makes the folder of the run, once.
    fn prepare(&mut self, undo: &mut Result<Log, String>) {
        if self.folder != Folder::NotYet {
            return;
        }
        self.folder = Folder::Never;
        let Some(run) = &self.run else {
            if self.is_wanted {
                self.say(&self.choice.why.clone());
            }
            return;
        };
        // What could not be undone is not done.
        let announced = match undo {
            Ok(log) => {
                log.announce_groups(run.home()).map_err(|error| crate::host::in_one_line(&error))
            }
            Err(why) => Err(why.clone()),
        };
        if let Err(why) = announced.and_then(|()| {
            self.folder = Folder::Broken;
            run.prepare()
        }) {
            self.say(&why);
            self.take_back(undo);
        } else {
            self.folder = Folder::There;
        }
    }

    /// A job's first process has not gone through its door.
    pub(crate) fn stayed_out(&mut self, job: JobId, error: &std::io::Error) {
        self.say(&error.to_string());
        self.end(job);
    }

    /// The group of a job that runs.
    pub(crate) fn of(&self, job: JobId) -> Option<Arc<Cgroup>> {
        self.of.get(&job).cloned()
    }

    /// Removes the group of a job. As long as somebody is in it, it stays to the end of the run.
    pub(crate) fn end(&mut self, job: JobId) {
        self.left.extend(self.of.remove(&job).map(|group| (job, group)));
        self.left.retain(|_, group| group.remove().is_err());
    }

    /// Takes everything back. Tells whether nothing is left.
    pub(crate) fn end_all(&mut self, undo: &mut Result<Log, String>) -> bool {
        self.of.clear();
        self.left.clear();
        if matches!(self.folder, Folder::There | Folder::Broken) {
            self.folder = Folder::Broken;
            self.take_back(undo);
        }
        self.folder != Folder::Broken
    }

    fn take_back(&mut self, undo: &mut Result<Log, String>) {
        let Some(run) = self.run.as_ref().filter(|_| self.folder == Folder::Broken) else { return };
        match run.take_back() {
            Ok(()) => {
                self.folder = Folder::Never;
                if let Ok(log) = undo {
                    let _ = log.groups_gone(); // Found gone, if anybody looks.
                }
            }
            Err(why) => {
                let text = format!("the groups of this run cannot be removed yet: {why}");
                self.say_once(text);
            }
        }
    }

    /// What is to be said and was not yet.
    pub(crate) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.to_say)
    }

    fn say(&mut self, why: &str) {
        self.say_once(format!(
            "the memory of some jobs is bound by a policy of their first process, not by a group: {why}"
        ));
    }

    fn say_once(&mut self, text: String) {
        if self.said.insert(text.clone()) {
            self.to_say.push(text);
        }
    }
}
