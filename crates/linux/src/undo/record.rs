//! The lines of an undo record, and the state that results from them.
//!
//! The writer applies each line to its own [`Records`]. `restore` applies the lines of a file to an empty
//! one. Both therefore agree on what has to be restored. The keys of version 1 are kept, so that `restore` reads
//! the records of earlier releases.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::{CpuSet, TaskId};
use serde::{Deserialize, Serialize};

use crate::cgroup::{DelegatedCgroup, Version};

/// Version of the format. A record of another version is left to the evenkeel that wrote it.
const VERSION: u32 = 1;

/// The first line: boot, namespace, user and run of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the format.
    evenkeel_undo: u32,
    /// Boot id that PIDs and start times belong to.
    pub boot: String,
    /// PID namespace.
    pub pid_namespace: String,
    /// Effective UID.
    pub uid: u32,
    /// Id of the run, as in the environment of its jobs.
    pub run: String,
    /// The process that owns the record.
    pub pid: u32,
    /// Start time of that process in clock ticks since boot; 0 if unknown.
    #[serde(default, rename = "born_ticks")]
    pub start_time_ticks: u64,
    /// The processes were not started by evenkeel: only named processes and their later children are
    /// restored. Process group and environment do not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watches: bool,
}

impl Header {
    /// The header of a new record.
    pub fn new(boot: String, pid_namespace: String, uid: u32, run: String, pid: u32) -> Self {
        Header {
            evenkeel_undo: VERSION,
            boot,
            pid_namespace,
            uid,
            run,
            pid,
            start_time_ticks: 0,
            watches: false,
        }
    }

    /// Whether this version is supported.
    pub fn is_known(&self) -> bool {
        self.evenkeel_undo == VERSION
    }
}

/// A thread: TID, start time in clock ticks since boot, PID.
pub type Whose = (u32, u64, u32);

/// A line after the first. CPUs are written as Linux list text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Line {
    /// A child of this job is about to be forked, and sets its own affinity.
    Bind {
        /// Number of the change.
        nr: u64,
        /// The job.
        job: String,
        /// The mask that it would have otherwise.
        #[serde(with = "list_text")]
        old: CpuSet,
        /// The mask that it sets.
        #[serde(with = "list_text")]
        new: CpuSet,
    },
    /// That child was forked.
    #[serde(rename = "born")]
    Forked {
        /// Number of its [`Line::Bind`].
        nr: u64,
        /// The child.
        task: Whose,
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
        tasks: Vec<Whose>,
    },
    /// A change was made or aborted: the previous mask no longer counts.
    Done {
        /// Number of the change.
        nr: u64,
    },
    /// Nothing of this job has to be restored any more.
    Free {
        /// The job.
        job: String,
    },
    /// A monitoring group of resctrl is about to be created under this name.
    MonGroup {
        /// Name of its folder.
        name: String,
    },
    /// It is removed, or was not created.
    #[serde(rename = "mon-gone")]
    MonGroupRemoved {
        /// Name of its folder.
        name: String,
    },
    /// The cgroup of this run is about to be created.
    #[serde(rename = "groups")]
    Cgroup {
        /// Version of the hierarchy.
        version: Version,
        /// The parent cgroup.
        home: PathBuf,
        /// The parent has to enable the controller for its children, and does not do so yet.
        enables: bool,
    },
    /// It is removed with its children, or was not created.
    #[serde(rename = "groups-gone")]
    CgroupRemoved,
}

/// The change of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its job.
    pub job: String,
    /// Its process.
    pub process: u32,
    /// The mask to restore.
    pub old: CpuSet,
    /// The mask that was set, or was about to be set.
    pub new: CpuSet,
    /// The previous mask, until the change is confirmed.
    before: Option<CpuSet>,
    nr: u64,
}

/// A child that was announced and not named yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Announced {
    nr: u64,
    job: String,
    old: CpuSet,
    new: CpuSet,
}

/// Everything that has to be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    tasks: BTreeMap<TaskId, Held>,
    announced: Vec<Announced>,
    mon_groups: BTreeSet<String>,
    groups: Option<(Version, PathBuf, bool)>,
}

/// How the current mask of a thread relates to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It was set by evenkeel. Contains the mask before.
    Ours(CpuSet),
    /// It is the mask before the first change.
    AsBefore,
    /// Another program set it.
    Foreign,
}

impl Records {
    /// Applies a line.
    pub fn apply(&mut self, line: &Line) {
        match line {
            Line::Bind { nr, job, old, new } => self.announced.push(Announced {
                nr: *nr,
                job: job.clone(),
                old: old.clone(),
                new: new.clone(),
            }),
            Line::Forked { nr, task } => self.name_child(*nr, *task),
            Line::Set { nr, job, old, now, new, tasks } => {
                for &whose in tasks {
                    self.hold(whose, job, [old, new], Some(now.clone()), *nr);
                }
            }
            Line::Done { nr } => {
                self.announced.retain(|announced| announced.nr != *nr);
                let changed = self.tasks.values_mut().filter(|held| held.nr == *nr);
                changed.for_each(|held| held.before = None);
            }
            Line::Free { job } => {
                self.announced.retain(|announced| announced.job != *job);
                self.tasks.retain(|_, held| held.job != *job);
            }
            Line::MonGroup { name } => drop(self.mon_groups.insert(name.clone())),
            Line::MonGroupRemoved { name } => drop(self.mon_groups.remove(name)),
            Line::Cgroup { version, home, enables } => {
                self.groups = Some((*version, home.clone(), *enables));
            }
            Line::CgroupRemoved => self.groups = None,
        }
    }

    fn name_child(&mut self, nr: u64, whose: Whose) {
        let Some(idx) = self.announced.iter().position(|announced| announced.nr == nr) else {
            return; // The line that announced it was damaged.
        };
        let Announced { job, old, new, .. } = self.announced.remove(idx);
        self.hold(whose, &job, [&old, &new], None, nr);
    }

    fn hold(
        &mut self,
        whose: Whose,
        job: &str,
        [old, new]: [&CpuSet; 2],
        before: Option<CpuSet>,
        nr: u64,
    ) {
        let (tid, start_time_ticks, process) = whose;
        let id = TaskId { tid, start_time_ticks };
        // The mask before the first change is restored, no matter what later lines contain.
        let old = self.tasks.get(&id).map_or_else(|| old.clone(), |held| held.old.clone());
        let held = Held { job: job.to_owned(), process, old, new: new.clone(), before, nr };
        self.tasks.insert(id, held);
    }

    /// Whether nothing has to be restored.
    pub fn is_empty(&self) -> bool {
        let no_masks = self.tasks.is_empty() && self.announced.is_empty();
        no_masks && self.mon_groups.is_empty() && self.groups.is_none()
    }

    /// The change of a thread.
    pub fn of_task(&self, id: TaskId) -> Option<&Held> {
        self.tasks.get(&id)
    }

    /// All threads with changes.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &Held)> {
        self.tasks.iter().map(|(&id, held)| (id, held))
    }

    /// The resctrl monitoring groups that exist, or were about to be created.
    pub fn mon_groups(&self) -> impl Iterator<Item = &str> {
        self.mon_groups.iter().map(String::as_str)
    }

    /// The parent of the cgroup that exists, or was about to be created.
    pub fn cgroup_home(&self) -> Option<DelegatedCgroup> {
        let (version, folder, enables) = self.groups.clone()?;
        // Where processes have to move follows from the existing folders.
        Some(DelegatedCgroup { version, folder, enables, moves_in: false })
    }

    /// Whether the record contains this job.
    pub fn knows_job(&self, job: &str) -> bool {
        self.announced.iter().any(|announced| announced.job == job)
            || self.tasks.values().any(|held| held.job == job)
    }

    /// Compares the current mask of a thread with the record. Masks are compared among the online CPUs,
    /// because the kernel does not report the others.
    pub fn judge(&self, id: TaskId, job: &str, mask: &CpuSet, online: &CpuSet) -> Seen {
        let shown = |set: &CpuSet| set == mask || (set.and(online) == *mask && !mask.is_empty());
        if let Some(held) = self.tasks.get(&id) {
            return if shown(&held.old) {
                Seen::AsBefore
            } else if shown(&held.new) || held.before.as_ref().is_some_and(shown) {
                Seen::Ours(held.old.clone())
            } else {
                Seen::Foreign
            };
        }
        // It was forked later, and has inherited one of the masks of the job's tasks.
        let mut verdict = Seen::Foreign;
        for (old, new, before) in self.masks_of(job) {
            if shown(old) {
                return Seen::AsBefore;
            }
            if shown(new) || before.is_some_and(shown) {
                verdict = Seen::Ours(old.clone());
            }
        }
        verdict
    }

    /// Whether any task may have this mask from evenkeel.
    pub fn has_mask(&self, mask: &CpuSet, online: &CpuSet) -> bool {
        let announced = self.announced.iter().map(|announced| &announced.new);
        let held = self.tasks.values().flat_map(|held| [Some(&held.new), held.before.as_ref()]);
        announced.chain(held.flatten()).any(|ours| ours == mask || ours.and(online) == *mask)
    }

    /// The masks of a job's tasks: before the first change, set, and previous ones that are unconfirmed.
    fn masks_of(&self, job: &str) -> impl Iterator<Item = (&CpuSet, &CpuSet, Option<&CpuSet>)> {
        let announced = self.announced.iter().filter(move |announced| announced.job == job);
        let tasks = self.tasks.values().filter(move |held| held.job == job);
        announced
            .map(|announced| (&announced.old, &announced.new, None))
            .chain(tasks.map(|held| (&held.old, &held.new, held.before.as_ref())))
    }

    /// The lines of a rewritten file, which lead to the same state.
    pub fn lines(&self) -> Vec<Line> {
        let announced = self.announced.iter().map(|a| Line::Bind {
            nr: a.nr,
            job: a.job.clone(),
            old: a.old.clone(),
            new: a.new.clone(),
        });
        let tasks = self.tasks.iter().map(|(id, held)| Line::Set {
            nr: held.nr,
            job: held.job.clone(),
            old: held.old.clone(),
            // A change that is confirmed leaves only the new mask.
            now: held.before.clone().unwrap_or_else(|| held.new.clone()),
            new: held.new.clone(),
            tasks: vec![(id.tid, id.start_time_ticks, held.process)],
        });
        let mon_groups = self.mon_groups.iter().map(|name| Line::MonGroup { name: name.clone() });
        let groups = self.groups.clone();
        let groups = groups.map(|(version, home, enables)| Line::Cgroup { version, home, enables });
        announced.chain(tasks).chain(mon_groups).chain(groups).collect()
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

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    /// Applies lines and judges the mask of a thread. Thread 7 was named, 9 was forked later.
    fn check(lines: &str, tid: u32, mask: &str, expected: &Seen) {
        let mut records = Records::default();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            records.apply(&serde_json::from_str(line).expect(line));
        }
        let id = TaskId { tid, start_time_ticks: 100 };
        assert_eq!(&records.judge(id, "a", &set(mask), &set("0-7")), expected, "{lines}");
        let mut again = Records::default();
        records.lines().iter().for_each(|line| again.apply(line));
        assert_eq!(&again.judge(id, "a", &set(mask), &set("0-7")), expected, "rewritten: {lines}");
    }

    const BOUND: &str = r#"
        {"bind":{"nr":1,"job":"a","old":"0-3","new":"1"}}
        {"born":{"nr":1,"task":[7,100,7]}}"#;
    const MOVING: &str = r#"
        {"bind":{"nr":1,"job":"a","old":"0-3","new":"1"}}
        {"born":{"nr":1,"task":[7,100,7]}}
        {"set":{"nr":2,"job":"a","old":"0-3","now":"1","new":"2","tasks":[[7,100,7]]}}"#;

    fn ours() -> Seen {
        Seen::Ours(set("0-3"))
    }

    #[test]
    fn only_a_recorded_mask_was_set_by_evenkeel() {
        check(BOUND, 7, "1", &ours());
        check(BOUND, 7, "2", &Seen::Foreign);
        check(BOUND, 7, "0-3", &Seen::AsBefore);
    }

    #[test]
    fn a_child_is_recorded_from_its_announcement() {
        let announced = r#"{"bind":{"nr":1,"job":"a","old":"0-3","new":"1"}}"#;
        check(announced, 9, "1", &ours());
        check(announced, 9, "0", &Seen::Foreign);
    }

    #[test]
    fn both_masks_of_an_unconfirmed_change_were_set_by_evenkeel() {
        check(MOVING, 7, "1", &ours());
        check(MOVING, 7, "2", &ours());
        let done = format!("{MOVING}\n{}", r#"{"done":{"nr":2}}"#);
        check(&done, 7, "1", &Seen::Foreign);
        check(&done, 7, "2", &ours());
    }

    #[test]
    fn a_thread_that_is_named_for_the_first_time_may_have_an_earlier_mask_of_its_job() {
        let found = format!(
            "{BOUND}\n{}",
            r#"{"set":{"nr":2,"job":"a","old":"0-3","now":"1","new":"2","tasks":[[9,100,9]]}}"#
        );
        check(&found, 9, "1", &ours());
        check(&found, 9, "2", &ours());
        check(&found, 9, "3", &Seen::Foreign);
    }

    #[test]
    fn descendants_are_changed_only_with_a_mask_of_their_job() {
        check(BOUND, 9, "1", &ours());
        check(BOUND, 9, "0-3", &Seen::AsBefore);
        check(BOUND, 9, "3", &Seen::Foreign);
    }

    #[test]
    fn cpus_that_went_offline_do_not_hide_a_mask() {
        let wide = r#"{"bind":{"nr":1,"job":"a","old":"0-3","new":"7-9"}}"#;
        check(wide, 9, "7", &ours());
    }

    #[test]
    fn a_monitoring_group_is_recorded_from_its_announcement_to_its_removal() {
        let mut records = Records::default();
        let line = |text: &str| serde_json::from_str::<Line>(text).expect(text);
        records.apply(&line(r#"{"mon-group":{"name":"evenkeel-r-0-a"}}"#));
        records.apply(&line(r#"{"mon-group":{"name":"evenkeel-r-1-b"}}"#));
        records.apply(&line(r#"{"mon-gone":{"name":"evenkeel-r-0-a"}}"#));
        let mut again = Records::default();
        records.lines().iter().for_each(|line| again.apply(line));
        for records in [&records, &again] {
            assert_eq!(records.mon_groups().collect::<Vec<_>>(), ["evenkeel-r-1-b"]);
            assert!(!records.is_empty());
        }
    }

    #[test]
    fn a_record_of_an_earlier_release_is_read() {
        let header = r#"{"evenkeel_undo":1,"boot":"b","pid_namespace":"p","uid":0,"run":"r","pid":7,"born_ticks":5}"#;
        let header: Header = serde_json::from_str(header).expect("a header");
        assert!(header.is_known() && header.start_time_ticks == 5 && !header.watches);
        check(BOUND, 7, "1", &ours());
        let groups = r#"{"groups":{"version":"v2","home":"/sys/fs/cgroup","enables":true}}"#;
        let mut records = Records::default();
        records.apply(&serde_json::from_str(groups).expect("a line"));
        assert!(records.cgroup_home().is_some_and(|home| home.enables));
        records.apply(&serde_json::from_str(r#""groups-gone""#).expect("a line"));
        assert!(records.is_empty());
    }

    #[test]
    fn a_job_that_was_freed_has_nothing_to_restore() {
        let freed = format!("{BOUND}\n{}", r#"{"free":{"job":"a"}}"#);
        check(&freed, 7, "1", &Seen::Foreign);
    }
}
