//! Resctrl monitoring groups, one per job. A group counts the memory traffic of the tasks of its job.
//!
//! ```text
//!   undo record ─► mkdir ─► fork ─► PID into `tasks` ─► children inherit the group
//!      counters are read in turns in which the job ran
//!   exit of the job ─► rmdir ─► undo record
//! ```
//!
//! A processor has few RMIDs (monitoring ids). If all RMIDs are in use, further jobs have no group and their traffic is
//! absent. The next group is created after another group was removed. Errors of groups never prevent a job from
//! starting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::{Bytes, JobId};
use linux::resctrl::{GroupCreation, MonGroupDir, MonitoredDomains};
use linux::source::Live;
use rustix::fs::{Access, access};
use sched::{MonGroupSample, Sample};
use topology::Machine;

use crate::errors::Warnings;
use crate::session::UndoRecord;

/// The monitoring group of a job.
#[derive(Debug)]
struct MonGroup {
    dir: MonGroupDir,
    /// Counted bytes at the creation of the group.
    base: u64,
}

/// The monitoring groups of all running jobs.
#[derive(Debug)]
pub(super) struct MonGroups {
    root: PathBuf,
    run: String,
    source: Live,
    /// The monitored LLC domains; `None` if groups cannot be created.
    domains: Option<MonitoredDomains>,
    by_job: BTreeMap<JobId, MonGroup>,
    /// Groups whose removal failed.
    not_removed: Vec<MonGroupDir>,
    /// Whether all RMIDs are in use.
    is_full: bool,
    /// Function that creates a group: [`MonGroupDir::create`], or a replacement in tests.
    create: fn(MonGroupDir, &Path) -> GroupCreation,
    pub warnings: Warnings,
}

impl MonGroups {
    /// Checks whether groups can be created. `root` is `/` outside of tests.
    pub(super) fn open(root: PathBuf, machine: &Machine, run: &str, is_counted: bool) -> Self {
        let mut source = Live::new(&root);
        let mut domains =
            is_counted.then(|| MonitoredDomains::find(&mut source, machine)).flatten();
        let mut warnings = Warnings::default();
        let dir = root.join("sys/fs/resctrl/mon_groups");
        if domains.is_some()
            && let Err(error) = access(&dir, Access::WRITE_OK)
        {
            domains = None;
            let (dir, error) = (dir.display(), std::io::Error::from(error));
            warnings.add(format!(
                "the memory traffic of single jobs is not counted: {dir} is not writable ({error})"
            ));
        }
        MonGroups {
            run: run.to_owned(),
            source,
            domains,
            by_job: BTreeMap::new(),
            not_removed: Vec::new(),
            is_full: false,
            create: MonGroupDir::create,
            warnings,
            root,
        }
    }

    /// Creates the group of a job that is about to start.
    pub(super) fn begin(&mut self, job: JobId, name: &str, undo: &mut UndoRecord) {
        if self.domains.is_none() || self.is_full {
            return;
        }
        let group = MonGroupDir::for_job(&self.run, &format!("{}-{name}", job.0));
        if self.not_removed.contains(&group) {
            self.retry_removals(undo);
            if self.not_removed.contains(&group) {
                return; // The undo record contains the group until the group is removed.
            }
        }
        // Without an undo record nothing is changed.
        if !undo.record_mon_group(group.name()) {
            return;
        }
        let name = group.name().to_owned();
        match (self.create)(group, &self.root) {
            GroupCreation::Created(dir) => {
                // Counters that cannot be read yet have counted nothing.
                let base = self.read_total(&dir).unwrap_or(0);
                self.by_job.insert(job, MonGroup { dir, base });
                return;
            }
            GroupCreation::NoFreeRmid => {
                self.is_full = true;
                self.warnings.add(
                    "the processor has no RMID left for another monitoring group: the memory traffic \
                     of further jobs is not counted",
                );
            }
            GroupCreation::Rejected(reason) => self.warnings.add(format!(
                "the memory traffic of some jobs is not counted: no monitoring group can be created: {reason}"
            )),
        }
        // If the line cannot be written, `restore` finds that the group does not exist.
        undo.mon_group_removed(&name);
    }

    /// Adds the main process of a job to its group. Later children inherit the group.
    pub(super) fn add(&mut self, job: JobId, pid: u32, undo: &mut UndoRecord) {
        let Some(group) = self.by_job.get(&job) else { return };
        let Err(error) = group.dir.add(&self.root, pid) else { return };
        if error.raw_os_error() != Some(libc::ESRCH) {
            self.warnings.add(format!(
                "the memory traffic of some jobs is not counted: \
                 they cannot be added to their monitoring groups: {error}"
            ));
        }
        // Without the process the group would report zero, although the traffic is unknown.
        self.end(job, undo);
    }

    pub(super) fn end(&mut self, job: JobId, undo: &mut UndoRecord) {
        if let Some(group) = self.by_job.remove(&job) {
            self.not_removed.push(group.dir);
            self.retry_removals(undo);
        }
    }

    /// Removes all groups. Returns whether all calls succeeded.
    pub(super) fn end_all(&mut self, undo: &mut UndoRecord) -> bool {
        let all = std::mem::take(&mut self.by_job);
        self.not_removed.extend(all.into_values().map(|group| group.dir));
        self.retry_removals(undo);
        self.not_removed.is_empty()
    }

    fn retry_removals(&mut self, undo: &mut UndoRecord) {
        for group in std::mem::take(&mut self.not_removed) {
            self.source.close_below(&group.dir());
            match group.remove(&self.root) {
                Ok(()) => {
                    self.is_full = false;
                    undo.mon_group_removed(group.name());
                }
                Err(error) => {
                    self.warnings.add(format!("a monitoring group cannot be removed yet: {error}"));
                    self.not_removed.push(group);
                }
            }
        }
    }

    /// Adds the traffic of the monitoring groups to a sample, for all jobs that ran since the last sample.
    pub(super) fn sample(&mut self, sample: &mut Sample) {
        let Some(domains) = &self.domains else { return };
        let ran: BTreeSet<JobId> = sample.tasks.iter().map(|task| task.job).collect();
        for (&job, group) in self.by_job.iter().filter(|(job, _)| ran.contains(job)) {
            let traffic = domains.read_group(&mut self.source, &group.dir);
            let sampled = |(llc, traffic)| MonGroupSample { job, llc, traffic };
            sample.mon_groups.extend(traffic.into_iter().map(sampled));
        }
    }

    /// Returns the bytes that the tasks of a job transferred since its start, in all domains. Call this function before
    /// the group is removed.
    pub(super) fn traffic_of(&mut self, job: JobId) -> Option<Bytes> {
        let MonGroup { dir, base } = self.by_job.get(&job)?;
        let (dir, base) = (dir.clone(), *base);
        Some(Bytes(self.read_total(&dir)?.saturating_sub(base)))
    }

    /// Returns the sum of the bytes in all domains, or `None` if the counter of a domain cannot be read.
    fn read_total(&mut self, dir: &MonGroupDir) -> Option<u64> {
        let domains = self.domains.as_ref()?.read_group(&mut self.source, dir);
        let bytes = domains.iter().map(|(_, traffic)| Some(traffic.total_bytes?.value));
        let totals = bytes.collect::<Option<Vec<u64>>>()?;
        (!totals.is_empty()).then(|| totals.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::fault;
    use linux::undo::{Log, Restored};

    const GROUPS: &str = "sys/fs/resctrl/mon_groups";

    struct TestMachine {
        dir: tempfile::TempDir,
        groups: MonGroups,
        undo: UndoRecord,
    }

    /// Creates a machine with one monitored cache, and a group of another program.
    fn test_machine() -> TestMachine {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            std::fs::write(path, text).expect("written");
        };
        write("sys/devices/system/cpu/cpu0/cache/index3/level", "3");
        write("sys/devices/system/cpu/cpu0/cache/index3/id", "0");
        write("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "1\n");
        write("sys/fs/resctrl/mon_groups/other/tasks", "1\n");
        let machine = Machine::synthetic("nodes=1 llcs=1 cores=2").expect("a machine");
        let groups = MonGroups::open(dir.path().to_owned(), &machine, "run", true);
        let log = Log::create_in(&[dir.path().join("state")]).map_err(|e| e.to_string());
        let undo = UndoRecord::new(log, Restored::default());
        TestMachine { dir, groups, undo }
    }

    impl TestMachine {
        fn begin(&mut self, job: u32) {
            self.groups.begin(JobId(job), "sort", &mut self.undo);
        }

        fn names(&self) -> Vec<String> {
            let entries =
                std::fs::read_dir(self.dir.path().join(GROUPS)).expect("the directory exists");
            let name = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.expect("an entry").file_name().to_string_lossy().into_owned()
            };
            let mut names: Vec<String> = entries.map(name).collect();
            names.sort();
            names
        }

        fn n_open(&self) -> usize {
            let entries =
                std::fs::read_dir("/proc/self/fd").expect("the directory exists").flatten();
            let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let groups = self.dir.path().join(GROUPS);
            targets.filter(|target| target.starts_with(&groups)).count()
        }

        fn recorded(&self) -> Vec<&str> {
            self.undo.records().expect("a record").mon_groups().collect()
        }
    }

    #[test]
    fn the_group_of_a_job_exists_from_its_start_to_its_exit_and_is_recorded() {
        let mut test = test_machine();
        test.begin(0);
        test.begin(1);
        test.groups.add(JobId(0), 42, &mut test.undo);
        assert_eq!(test.names(), ["evenkeel-run-0-sort", "evenkeel-run-1-sort", "other"]);
        assert_eq!(test.recorded(), ["evenkeel-run-0-sort", "evenkeel-run-1-sort"]);
        test.groups.end(JobId(0), &mut test.undo);
        assert_eq!((test.names().len(), test.recorded().len()), (2, 1));
        assert!(test.groups.end_all(&mut test.undo));
        assert_eq!(test.names(), ["other"]);
        assert!(test.recorded().is_empty());
    }

    #[test]
    fn traffic_counts_from_the_start_of_the_job_and_no_file_stays_open() {
        let mut test = test_machine();
        for total in [700, 900] {
            test.begin(0);
            let dir = test.dir.path().join(GROUPS).join("evenkeel-run-0-sort/mon_data/mon_L3_00");
            std::fs::create_dir_all(&dir).expect("a directory");
            std::fs::write(dir.join("mbm_total_bytes"), format!("{total}\n")).expect("written");
            assert_eq!(test.groups.traffic_of(JobId(0)), Some(Bytes(total)));
            assert_ne!(test.n_open(), 0);
            test.groups.end(JobId(0), &mut test.undo);
            assert_eq!((test.groups.traffic_of(JobId(0)), test.n_open()), (None, 0));
        }
    }

    #[test]
    fn a_group_that_cannot_be_removed_yet_is_still_recorded_when_its_job_starts_again() {
        let mut test = test_machine();
        test.begin(0);
        let faults = fault::FaultPlan { seed: 1, permille: 1000 };
        fault::with_errors(faults, || {
            test.groups.end(JobId(0), &mut test.undo);
            test.begin(0);
        });
        assert_eq!((test.recorded(), test.names().len()), (vec!["evenkeel-run-0-sort"], 2));
        test.begin(0);
        assert_eq!((test.recorded(), test.names().len()), (vec!["evenkeel-run-0-sort"], 2));
        assert!(test.groups.end_all(&mut test.undo));
        assert!(test.recorded().is_empty());
    }

    #[test]
    fn a_missing_rmid_is_reported_once_and_a_group_is_created_when_an_rmid_is_free() {
        let mut test = test_machine();
        test.begin(0);
        test.groups.create = |_, _| GroupCreation::NoFreeRmid;
        test.begin(1);
        // While all RMIDs are in use, no group is created.
        test.groups.create = |_, _| panic!("tried again");
        test.begin(2);
        let warnings = test.groups.warnings.take();
        assert!(warnings.len() == 1 && warnings[0].contains("no RMID left"), "{warnings:?}");
        assert_eq!(test.recorded(), ["evenkeel-run-0-sort"]);
        test.groups.end(JobId(0), &mut test.undo);
        test.groups.create = MonGroupDir::create;
        test.begin(3);
        assert_eq!(test.names(), ["evenkeel-run-3-sort", "other"]);
    }

    #[test]
    fn without_a_record_or_permission_there_is_no_group_and_one_warning() {
        let mut test = test_machine();
        let mut none = UndoRecord::new(Err("no record".to_owned()), Restored::default());
        test.groups.begin(JobId(0), "sort", &mut none);
        assert_eq!(test.names(), ["other"]);
        test.groups.create = |_, _| GroupCreation::Rejected("not permitted".to_owned());
        test.begin(0);
        test.begin(1);
        let warnings = test.groups.warnings.take();
        assert!(warnings.len() == 1 && warnings[0].contains("not permitted"), "{warnings:?}");
        assert!(test.recorded().is_empty());
    }

    #[test]
    fn after_any_failed_call_every_group_is_recorded() {
        for seed in 0..60 {
            let mut test = test_machine();
            let faults = fault::FaultPlan { seed, permille: 300 };
            fault::with_errors(faults, || {
                for job in 0..4 {
                    test.begin(job);
                    test.groups.add(JobId(job), 42, &mut test.undo);
                    test.groups.end(JobId(job / 2), &mut test.undo);
                }
                test.groups.end_all(&mut test.undo);
            });
            let recorded = test.recorded();
            let created = test.names().into_iter().filter(|name| name != "other");
            for name in created {
                assert!(recorded.contains(&name.as_str()), "seed {seed}: {name}");
            }
            assert!(test.groups.end_all(&mut test.undo), "seed {seed}");
            assert_eq!(test.names(), ["other"], "seed {seed}");
        }
    }
}
