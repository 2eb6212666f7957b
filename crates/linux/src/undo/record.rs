//! The lines of an undo record, and the state that results from them.
//!
//! The writer applies each line to its own [`Records`]. `restore` applies the lines of a file to empty [`Records`].
//! Writer and `restore` therefore have the same state. `restore` also reads version 1 (its keys are aliases), so that
//! after an upgrade masks changed by the previous version can be restored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::{CpuSet, TaskId};
use serde::{Deserialize, Serialize};

use crate::cgroup::{DelegatedCgroup, HierarchyVersion};

/// Version of the format. Version 1 has other keys and the same content. A record of a later version can be restored
/// only by a later evenkeel.
const VERSION: u32 = 2;

/// The first line: boot, namespace, user and run of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoHeader {
    /// Version of the format.
    evenkeel_undo: u32,
    /// Boot id. PIDs and start times are valid only for this boot.
    pub boot: String,
    /// PID namespace.
    pub pid_namespace: String,
    /// Time namespace, in which the start times are valid. Empty before Linux 5.6, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_namespace: String,
    /// Effective UID.
    pub uid: u32,
    /// Id of the run, as in the environment of its jobs.
    pub run: String,
    /// PID of the process that owns the record.
    pub pid: u32,
    /// Start time of the process that owns the record, in clock ticks since boot; 0 if unknown.
    #[serde(default, alias = "born_ticks")]
    pub start_time_ticks: u64,
    /// Whether evenkeel did not start the processes (`evenkeel watch`). In this case only recorded processes and their
    /// later children are restored; process group and environment are not used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watches: bool,
}

impl UndoHeader {
    /// Creates the header of a new record.
    pub fn new(boot: String, pid_namespace: String, uid: u32, run: String, pid: u32) -> Self {
        UndoHeader {
            evenkeel_undo: VERSION,
            boot,
            pid_namespace,
            time_namespace: String::new(),
            uid,
            run,
            pid,
            start_time_ticks: 0,
            watches: false,
        }
    }

    /// Returns whether the version of the record is supported.
    pub fn is_known(&self) -> bool {
        Self::is_known_version(self.evenkeel_undo)
    }

    /// Returns whether a version of the format is supported.
    pub(super) fn is_known_version(version: u32) -> bool {
        (1..=VERSION).contains(&version)
    }
}

/// A thread: TID, start time in clock ticks since boot, PID.
pub type RecordedTask = (u32, u64, u32);

/// A line after the header. CPUs are written as Linux list text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum UndoLine {
    /// A child of this job is about to be forked. The child sets its own affinity.
    Bind {
        /// Number of the change.
        nr: u64,
        /// The job.
        job: String,
        /// The mask that the child would inherit.
        #[serde(with = "list_text")]
        old: CpuSet,
        /// The mask that the child sets.
        #[serde(with = "list_text")]
        new: CpuSet,
    },
    /// The child was forked.
    #[serde(alias = "born")]
    Forked {
        /// Number of the change in [`UndoLine::Bind`].
        nr: u64,
        /// The child.
        task: RecordedTask,
    },
    /// Masks of running threads are about to be changed.
    Set {
        /// Number of the change.
        nr: u64,
        /// The job.
        job: String,
        /// The mask before the first change.
        #[serde(with = "list_text")]
        old: CpuSet,
        /// The current mask.
        #[serde(with = "list_text")]
        now: CpuSet,
        /// The new mask.
        #[serde(with = "list_text")]
        new: CpuSet,
        /// The threads.
        tasks: Vec<RecordedTask>,
    },
    /// A change was made or aborted. The thread no longer has the previous mask.
    Done {
        /// Number of the change.
        nr: u64,
    },
    /// No setting of this job has to be restored any more.
    Free {
        /// The job.
        job: String,
    },
    /// A monitoring group of resctrl is about to be created under this name.
    MonGroup {
        /// Name of the directory of the group.
        name: String,
    },
    /// The monitoring group is removed, or was not created.
    #[serde(alias = "mon-gone")]
    MonGroupRemoved {
        /// Name of the directory of the group.
        name: String,
    },
    /// The cgroup of this run is about to be created.
    #[serde(alias = "groups")]
    Cgroup {
        /// Version of the hierarchy.
        version: HierarchyVersion,
        /// The parent cgroup.
        home: PathBuf,
        /// Whether evenkeel enables the controller for the children of the parent cgroup.
        enables: bool,
    },
    /// The cgroup of this run is removed with its children, or was not created.
    #[serde(alias = "groups-gone")]
    CgroupRemoved,
}

/// The recorded change of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadChange {
    /// Name of the job.
    pub job: String,
    /// PID of the process.
    pub process: u32,
    /// The mask to restore.
    pub old: CpuSet,
    /// The mask that was set, or was about to be set.
    pub new: CpuSet,
    /// The previous mask; `None` if the change is confirmed.
    before: Option<CpuSet>,
    nr: u64,
}

/// The original mask of a task, the mask that evenkeel set, and the previous mask if the change is unconfirmed.
pub(super) type ChangedMasks<'a> = (&'a CpuSet, &'a CpuSet, Option<&'a CpuSet>);

impl ThreadChange {
    fn masks(&self) -> ChangedMasks<'_> {
        (&self.old, &self.new, self.before.as_ref())
    }

    /// Returns the origin of the current mask of the recorded thread.
    pub(super) fn classify(&self, mask: &CpuSet, online: &CpuSet) -> MaskOrigin {
        let matches = |set: &CpuSet| is_shown_as(set, mask, online);
        if matches(&self.old) {
            MaskOrigin::Original
        } else if matches(&self.new) || self.before.as_ref().is_some_and(matches) {
            MaskOrigin::Evenkeel(self.old.clone())
        } else {
            MaskOrigin::OtherProgram
        }
    }
}

/// Returns the origin of the mask of a thread that was forked later and inherited a mask from a task of its job.
pub(super) fn classify_inherited<'a>(
    masks: impl IntoIterator<Item = ChangedMasks<'a>>,
    mask: &CpuSet,
    online: &CpuSet,
) -> MaskOrigin {
    let matches = |set: &CpuSet| is_shown_as(set, mask, online);
    let mut origin = MaskOrigin::OtherProgram;
    for (old, new, before) in masks {
        if matches(old) {
            return MaskOrigin::Original;
        }
        if matches(new) || before.is_some_and(matches) {
            origin = MaskOrigin::Evenkeel(old.clone());
        }
    }
    origin
}

/// Returns whether the kernel reports `set` as `mask`: without the offline CPUs.
fn is_shown_as(set: &CpuSet, mask: &CpuSet, online: &CpuSet) -> bool {
    set == mask || (set.and(online) == *mask && !mask.is_empty())
}

/// A child whose fork is recorded and whose PID is not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnnamedChild {
    nr: u64,
    job: String,
    old: CpuSet,
    new: CpuSet,
}

/// All settings that have to be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    tasks: BTreeMap<TaskId, ThreadChange>,
    /// Tasks of each job, so that a line costs the same whatever the number of other jobs.
    by_job: BTreeMap<String, BTreeSet<TaskId>>,
    /// The original mask and the mask that was set, of each change of a job, each once, the newest last. A process that a
    /// task forked before its last change has an earlier mask.
    masks: BTreeMap<String, Vec<(CpuSet, CpuSet)>>,
    /// Tasks of each unconfirmed change.
    unconfirmed: BTreeMap<u64, Vec<TaskId>>,
    unnamed: Vec<UnnamedChild>,
    mon_groups: BTreeSet<String>,
    cgroup: Option<(HierarchyVersion, PathBuf, bool)>,
}

/// The program that set the current mask of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskOrigin {
    /// evenkeel set the mask. Contains the original mask.
    Evenkeel(CpuSet),
    /// The thread has its original mask.
    Original,
    /// Another program set the mask.
    OtherProgram,
}

impl Records {
    /// Applies a line.
    pub fn apply(&mut self, line: &UndoLine) {
        match line {
            UndoLine::Bind { nr, job, old, new } => self.unnamed.push(UnnamedChild {
                nr: *nr,
                job: job.clone(),
                old: old.clone(),
                new: new.clone(),
            }),
            UndoLine::Forked { nr, task } => self.name_child(*nr, *task),
            UndoLine::Set { nr, job, old, now, new, tasks } => {
                self.add_masks(job, old, new);
                for &task in tasks {
                    self.insert_change(task, job, [old, new], Some(now.clone()), *nr);
                }
            }
            UndoLine::Done { nr } => {
                self.unnamed.retain(|child| child.nr != *nr);
                for id in self.unconfirmed.remove(nr).unwrap_or_default() {
                    let change = self.tasks.get_mut(&id).filter(|change| change.nr == *nr);
                    change.into_iter().for_each(|change| change.before = None);
                }
            }
            UndoLine::Free { job } => self.free(job),
            UndoLine::MonGroup { name } => drop(self.mon_groups.insert(name.clone())),
            UndoLine::MonGroupRemoved { name } => drop(self.mon_groups.remove(name)),
            UndoLine::Cgroup { version, home, enables } => {
                self.cgroup = Some((*version, home.clone(), *enables));
            }
            UndoLine::CgroupRemoved => self.cgroup = None,
        }
    }

    fn name_child(&mut self, nr: u64, task: RecordedTask) {
        let Some(idx) = self.unnamed.iter().position(|child| child.nr == nr) else {
            return; // The line of the fork was damaged.
        };
        let UnnamedChild { job, old, new, .. } = self.unnamed.remove(idx);
        self.add_masks(&job, &old, &new);
        self.insert_change(task, &job, [&old, &new], None, nr);
    }

    fn add_masks(&mut self, job: &str, old: &CpuSet, new: &CpuSet) {
        let masks = self.masks.entry(job.to_owned()).or_default();
        masks.retain(|known| (&known.0, &known.1) != (old, new));
        masks.push((old.clone(), new.clone()));
    }

    fn free(&mut self, job: &str) {
        self.masks.remove(job);
        self.unnamed.retain(|child| child.job != *job);
        for id in self.by_job.remove(job).unwrap_or_default() {
            self.tasks.remove(&id);
        }
    }

    fn insert_change(
        &mut self,
        task: RecordedTask,
        job: &str,
        [old, new]: [&CpuSet; 2],
        before: Option<CpuSet>,
        nr: u64,
    ) {
        let (tid, start_time_ticks, process) = task;
        let id = TaskId { tid, start_time_ticks };
        let earlier = self.tasks.get(&id);
        // The mask before the first change is restored. Later lines do not replace this mask.
        let old = earlier.map_or_else(|| old.clone(), |change| change.old.clone());
        if let Some(earlier) = earlier.filter(|change| change.job != job)
            && let Some(tasks) = self.by_job.get_mut(&earlier.job)
        {
            tasks.remove(&id);
        }
        self.by_job.entry(job.to_owned()).or_default().insert(id);
        if before.is_some() {
            self.unconfirmed.entry(nr).or_default().push(id);
        }
        let change =
            ThreadChange { job: job.to_owned(), process, old, new: new.clone(), before, nr };
        self.tasks.insert(id, change);
    }

    /// Returns whether no setting has to be restored.
    pub fn is_empty(&self) -> bool {
        let no_masks = self.tasks.is_empty() && self.unnamed.is_empty();
        no_masks && self.mon_groups.is_empty() && self.cgroup.is_none()
    }

    /// Returns the change of a thread.
    pub fn of_task(&self, id: TaskId) -> Option<&ThreadChange> {
        self.tasks.get(&id)
    }

    /// Returns all threads of a job with changes.
    pub fn tasks_of(&self, job: &str) -> impl Iterator<Item = (TaskId, &ThreadChange)> {
        let ids = self.by_job.get(job).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.tasks.get(id)?)))
    }

    /// Returns all threads with changes.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &ThreadChange)> {
        self.tasks.iter().map(|(&id, change)| (id, change))
    }

    /// Returns the resctrl monitoring groups that exist or were about to be created.
    pub fn mon_groups(&self) -> impl Iterator<Item = &str> {
        self.mon_groups.iter().map(String::as_str)
    }

    /// Returns the parent of the cgroup that exists or was about to be created.
    pub fn delegated_cgroup(&self) -> Option<DelegatedCgroup> {
        let (version, dir, enables) = self.cgroup.clone()?;
        // `moves_in` is derived from the existing directories at the removal.
        Some(DelegatedCgroup { version, dir, enables, moves_in: false })
    }

    /// Returns whether the record contains this job.
    pub fn contains_job(&self, job: &str) -> bool {
        self.unnamed.iter().any(|child| child.job == job)
            || self.by_job.get(job).is_some_and(|tasks| !tasks.is_empty())
    }

    /// Compares the current mask of a thread with the record. Only online CPUs are compared, because the kernel does
    /// not report offline CPUs.
    pub fn classify_mask(
        &self,
        id: TaskId,
        job: &str,
        mask: &CpuSet,
        online: &CpuSet,
    ) -> MaskOrigin {
        match self.tasks.get(&id) {
            Some(change) => change.classify(mask, online),
            None => classify_inherited(self.masks_of(job), mask, online),
        }
    }

    /// Returns whether evenkeel may have set this mask for any task.
    pub fn has_mask(&self, mask: &CpuSet, online: &CpuSet) -> bool {
        self.assigned_masks().any(|assigned| assigned == mask || assigned.and(online) == *mask)
    }

    /// Returns every mask that evenkeel set or was about to set.
    pub(super) fn assigned_masks(&self) -> impl Iterator<Item = &CpuSet> {
        let children = self.unnamed.iter().map(|child| &child.new);
        let changes =
            self.tasks.values().flat_map(|change| [Some(&change.new), change.before.as_ref()]);
        let earlier = self.masks.values().flatten().map(|(_, new)| new);
        children.chain(changes.flatten()).chain(earlier)
    }

    /// Returns the masks of each change of a job.
    pub(super) fn masks_of(&self, job: &str) -> impl Iterator<Item = ChangedMasks<'_>> {
        let children = self.unnamed.iter().filter(move |child| child.job == job);
        let tasks = self.tasks_of(job).map(|(_, change)| change.masks());
        let earlier = self.masks.get(job).into_iter().flatten().map(|(old, new)| (old, new, None));
        earlier.chain(children.map(|child| (&child.old, &child.new, None))).chain(tasks)
    }

    /// Returns the names of all jobs.
    pub(super) fn jobs(&self) -> BTreeSet<&str> {
        let unnamed = self.unnamed.iter().map(|child| child.job.as_str());
        unnamed.chain(self.by_job.keys().map(String::as_str)).collect()
    }

    /// Returns the lines of a rewritten file. Applying these lines gives the same state.
    pub fn lines(&self) -> Vec<UndoLine> {
        let children = self.unnamed.iter().map(|a| UndoLine::Bind {
            nr: a.nr,
            job: a.job.clone(),
            old: a.old.clone(),
            new: a.new.clone(),
        });
        // Without tasks, a line contains only masks.
        let masks = self.masks.iter().flat_map(|(job, masks)| {
            masks.iter().map(move |(old, new)| UndoLine::Set {
                nr: 0,
                job: job.clone(),
                old: old.clone(),
                now: new.clone(),
                new: new.clone(),
                tasks: Vec::new(),
            })
        });
        let tasks = self.tasks.iter().map(|(id, change)| UndoLine::Set {
            nr: change.nr,
            job: change.job.clone(),
            old: change.old.clone(),
            // A confirmed change has only the new mask.
            now: change.before.clone().unwrap_or_else(|| change.new.clone()),
            new: change.new.clone(),
            tasks: vec![(id.tid, id.start_time_ticks, change.process)],
        });
        let mon_groups =
            self.mon_groups.iter().map(|name| UndoLine::MonGroup { name: name.clone() });
        let cgroup = self.cgroup.clone();
        let cgroup =
            cgroup.map(|(version, home, enables)| UndoLine::Cgroup { version, home, enables });
        children.chain(masks).chain(tasks).chain(mon_groups).chain(cgroup).collect()
    }
}

/// CPU sets as Linux list text.
mod list_text {
    use base::CpuSet;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(set: &CpuSet, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(set)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<CpuSet, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::mask_index::MaskIndex;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    /// Applies lines of a record, and classifies the mask of a thread of job `a` for each line `TID: CPUS`. The lines
    /// of a rewritten file must give the same origin.
    fn origins(input: &str) -> String {
        let (mut records, mut output) = (Records::default(), String::new());
        for line in input.lines() {
            let Some((tid, mask)) = line.split_once(": ").filter(|_| !line.starts_with('{')) else {
                records.apply(&serde_json::from_str(line).expect(line));
                continue;
            };
            let id = TaskId { tid: tid.parse().expect("a number"), start_time_ticks: 100 };
            let origin =
                |records: &Records| records.classify_mask(id, "a", &set(mask), &set("0-7"));
            let mut rewritten = Records::default();
            records.lines().iter().for_each(|line| rewritten.apply(line));
            assert_eq!(origin(&records), origin(&rewritten), "{input}");
            let online = set("0-7");
            let index = MaskIndex::new(&records, &online);
            assert_eq!(origin(&records), index.classify(id, "a", &set(mask)), "{input}");
            assert_eq!(records.has_mask(&set(mask), &online), index.contains(&set(mask)));
            output += &match origin(&records) {
                MaskOrigin::Evenkeel(old) => format!("{line} set by evenkeel, {old} before\n"),
                MaskOrigin::Original => format!("{line} original\n"),
                MaskOrigin::OtherProgram => format!("{line} set by another program\n"),
            };
        }
        output
    }

    #[test]
    fn only_a_mask_of_the_record_was_set_by_evenkeel() {
        let recorded = include_str!("../../cases/undo_masks.txt");
        expect_test::expect_file!["../../cases/undo_masks.txt"]
            .assert_eq(&base::transcript(recorded, origins));
    }

    #[test]
    fn a_monitoring_group_is_recorded_from_before_its_creation_to_its_removal() {
        let mut records = Records::default();
        let line = |text: &str| serde_json::from_str::<UndoLine>(text).expect(text);
        records.apply(&line(r#"{"mon-group":{"name":"evenkeel-r-0-a"}}"#));
        records.apply(&line(r#"{"mon-group":{"name":"evenkeel-r-1-b"}}"#));
        records.apply(&line(r#"{"mon-group-removed":{"name":"evenkeel-r-0-a"}}"#));
        let mut rewritten = Records::default();
        records.lines().iter().for_each(|line| rewritten.apply(line));
        for records in [&records, &rewritten] {
            assert_eq!(records.mon_groups().collect::<Vec<_>>(), ["evenkeel-r-1-b"]);
            assert!(!records.is_empty());
        }
    }

    #[test]
    fn a_record_of_an_earlier_release_is_read() {
        let header = r#"{"evenkeel_undo":1,"boot":"b","pid_namespace":"p","uid":0,"run":"r","pid":7,"born_ticks":5}"#;
        let header: UndoHeader = serde_json::from_str(header).expect("a header");
        assert!(header.is_known() && header.start_time_ticks == 5 && !header.watches);
        let bound = r#"{"bind":{"nr":1,"job":"a","old":"0-3","new":"1"}}
{"born":{"nr":1,"task":[7,100,7]}}
7: 1"#;
        assert_eq!(origins(bound), "7: 1 set by evenkeel, 0-3 before\n");
        let cgroup = r#"{"groups":{"version":"v2","home":"/sys/fs/cgroup","enables":true}}"#;
        let mut records = Records::default();
        records.apply(&serde_json::from_str(cgroup).expect("a line"));
        assert!(records.delegated_cgroup().is_some_and(|home| home.enables));
        records.apply(&serde_json::from_str(r#""groups-gone""#).expect("a line"));
        for line in [r#"{"mon-group":{"name":"g"}}"#, r#"{"mon-gone":{"name":"g"}}"#] {
            records.apply(&serde_json::from_str(line).expect(line));
        }
        assert!(records.is_empty());
    }
}
