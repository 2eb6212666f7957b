//! A monitoring group of resctrl for each job, so that the traffic of its tasks is counted apart.
//!
//! ```text
//!   record ─► mkdir ─► fork ─► its number into `tasks` ─► what it starts is born there
//!      read in looks in which the job ran
//!   end ─► rmdir ─► record
//! ```
//!
//! A processor has few numbers for groups. When they are used up, further jobs have no group until
//! one of ours is removed: their traffic is absent, and the kernel is not asked again meanwhile.
//! Nothing here keeps a job from starting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::JobId;
use linux::resctrl::{GroupCreation, MonGroupFolder, MonitoredDomains};
use linux::source::Live;
use linux::undo::Log;
use rustix::fs::{Access, access};
use sched::{Measured, MonGroupSample, Sample};
use topology::Machine;

/// The group of a job.
#[derive(Debug)]
struct Group {
    folder: MonGroupFolder,
    /// What its counters stood at when it was made.
    base: u64,
}

/// The groups of all jobs that run.
#[derive(Debug)]
pub(crate) struct MonGroups {
    root: PathBuf,
    run: String,
    source: Live,
    /// The domains that are monitored; absent where there can be no groups.
    monitored: Option<MonitoredDomains>,
    of: BTreeMap<JobId, Group>,
    /// Those that could not be removed yet.
    left: Vec<MonGroupFolder>,
    is_full: bool,
    /// How a group is made: [`GroupFolder::make`] but for tests.
    make: fn(MonGroupFolder, &Path) -> GroupCreation,
    /// What was said, to be said once.
    said: BTreeSet<String>,
    to_say: Vec<String>,
}

impl MonGroups {
    /// Finds out whether there can be groups. `root` is `/` but for tests.
    pub(crate) fn open(root: PathBuf, machine: &Machine, run: &str, is_wanted: bool) -> Self {
        let mut source = Live::new(&root);
        let monitored = is_wanted.then(|| MonitoredDomains::find(&mut source, machine)).flatten();
        let mut groups = MonGroups {
            run: run.to_owned(),
            source,
            monitored,
            of: BTreeMap::new(),
            left: Vec::new(),
            is_full: false,
            make: MonGroupFolder::make,
            said: BTreeSet::new(),
            to_say: Vec::new(),
            root,
        };
        let folder = groups.root.join("sys/fs/resctrl/mon_groups");
        if groups.monitored.is_some()
            && let Err(error) = access(&folder, Access::WRITE_OK)
        {
            groups.monitored = None;
            let error = std::io::Error::from(error);
            groups.say(format!(
                "the traffic of single jobs is not counted: {} cannot be written ({error})",
                folder.display()
            ));
        }
        groups
    }

    /// Makes a group for a job that is about to start.
    pub(crate) fn begin(&mut self, job: JobId, name: &str, undo: &mut Result<Log, String>) {
        if self.monitored.is_none() || self.is_full {
            return;
        }
        let group = MonGroupFolder::of(&self.run, &format!("{}-{name}", job.0));
        if self.left.contains(&group) {
            self.remove_left(undo);
            if self.left.contains(&group) {
                return; // It stays on record until it is gone.
            }
        }
        let Ok(log) = undo else { return }; // What could not be undone is not done.
        if log.announce_mon_group(group.name()).is_err() {
            return;
        }
        let folder = group.name().to_owned();
        match (self.make)(group, &self.root) {
            GroupCreation::Yes(folder) => {
                // Where that cannot be read yet nothing has been counted either.
                let base = self.traffic(&folder).value().unwrap_or(0);
                self.of.insert(job, Group { folder, base });
                return;
            }
            GroupCreation::Full => {
                self.is_full = true;
                self.say(
                    "the processor has no number left for another monitoring group: the traffic of \
                     further jobs is not counted"
                        .to_owned(),
                );
            }
            GroupCreation::Refused(why) => self.say(format!(
                "the traffic of some jobs is not counted: no monitoring group can be made: {why}"
            )),
        }
        // If this cannot be written restore finds nothing of that name.
        let _ = log.mon_group_gone(&folder);
    }

    /// Lets the group of a job count its first process, and what that starts from now on.
    pub(crate) fn add(&mut self, job: JobId, pid: u32, undo: &mut Result<Log, String>) {
        let Some(group) = self.of.get(&job) else { return };
        let Err(error) = group.folder.add(&self.root, pid) else { return };
        if error.raw_os_error() != Some(libc::ESRCH) {
            self.say(format!(
                "the traffic of some jobs is not counted: not taken into their groups: {error}"
            ));
        }
        // Without its job it would tell of no traffic where there is some.
        self.end(job, undo);
    }

    /// Removes the group of a job.
    pub(crate) fn end(&mut self, job: JobId, undo: &mut Result<Log, String>) {
        if let Some(group) = self.of.remove(&job) {
            self.left.push(group.folder);
            self.remove_left(undo);
        }
    }

    /// Removes all groups. Tells whether none is left.
    pub(crate) fn end_all(&mut self, undo: &mut Result<Log, String>) -> bool {
        let all = std::mem::take(&mut self.of);
        self.left.extend(all.into_values().map(|group| group.folder));
        self.remove_left(undo);
        self.left.is_empty()
    }

    fn remove_left(&mut self, undo: &mut Result<Log, String>) {
        for group in std::mem::take(&mut self.left) {
            self.source.forget(&group.folder());
            match group.remove(&self.root) {
                Ok(()) => {
                    self.is_full = false;
                    if let Ok(log) = undo {
                        let _ = log.mon_group_gone(group.name()); // Found gone, if anybody looks.
                    }
                }
                Err(error) => {
                    self.say(format!("a monitoring group cannot be removed yet: {error}"));
                    self.left.push(group);
                }
            }
        }
    }

    /// Reads the groups of jobs that ran, into the sample that says so.
    pub(crate) fn look(&mut self, sample: &mut Sample) {
        let Some(monitored) = &self.monitored else { return };
        let ran: BTreeSet<JobId> = sample.tasks.iter().map(|task| task.job).collect();
        for (&job, group) in self.of.iter().filter(|(job, _)| ran.contains(job)) {
            let traffic = monitored.read_group(&mut self.source, &group.folder);
            let sampled = |(llc, traffic)| MonGroupSample { job, llc, traffic };
            sample.mon_groups.extend(traffic.into_iter().map(sampled));
        }
    }

    /// What the tasks of a job moved since it began, all domains together; read once more before its
    /// group is removed.
    pub(crate) fn traffic_of(&mut self, job: JobId) -> Measured {
        let Some(Group { folder, base }) = self.of.get(&job) else { return Measured::Absent };
        let (folder, base) = (folder.clone(), *base);
        match self.traffic(&folder).value() {
            Some(total) => Measured::Exact(total.saturating_sub(base)),
            None => Measured::Absent,
        }
    }

    fn traffic(&mut self, folder: &MonGroupFolder) -> Measured {
        let Some(monitored) = &self.monitored else { return Measured::Absent };
        let domains = monitored.read_group(&mut self.source, folder);
        let known = domains.iter().map(|(_, traffic)| traffic.total_bytes.value());
        match known.collect::<Option<Vec<u64>>>() {
            Some(totals) if !totals.is_empty() => Measured::Exact(totals.iter().sum()),
            // A sum without one of its parts would be no sum.
            _ => Measured::Absent,
        }
    }

    /// What is to be said and was not yet.
    pub(crate) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.to_say)
    }

    fn say(&mut self, text: String) {
        if self.said.insert(text.clone()) {
            self.to_say.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::fault;

    const GROUPS: &str = "sys/fs/resctrl/mon_groups";

    struct World {
        folder: tempfile::TempDir,
        groups: MonGroups,
        undo: Result<Log, String>,
    }

    /// A machine whose only cache is monitored, and a group of somebody else.
    fn world() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("sys/devices/system/cpu/cpu0/cache/index3/level", "3");
        write("sys/devices/system/cpu/cpu0/cache/index3/id", "0");
        write("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "1\n");
        write("sys/fs/resctrl/mon_groups/theirs/tasks", "1\n");
        let machine = Machine::synthetic("nodes=1 llcs=1 cores=2").expect("a machine");
        let groups = MonGroups::open(folder.path().to_owned(), &machine, "run", true);
        let undo = Log::create_in(&[folder.path().join("state")]).map_err(|e| e.to_string());
        World { folder, groups, undo }
    }

    impl World {
        fn begin(&mut self, job: u32) {
            self.groups.begin(JobId(job), "sort", &mut self.undo);
        }

        fn there(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.folder.path().join(GROUPS)).expect("there");
            let name = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.expect("an entry").file_name().to_string_lossy().into_owned()
            };
            let mut names: Vec<String> = entries.map(name).collect();
            names.sort();
            names
        }

        /// Files of groups that we hold open.
        fn n_open(&self) -> usize {
            let entries = std::fs::read_dir("/proc/self/fd").expect("there").flatten();
            let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let groups = self.folder.path().join(GROUPS);
            targets.filter(|target| target.starts_with(&groups)).count()
        }

        fn recorded(&self) -> Vec<&str> {
            self.undo.as_ref().expect("a record").records().mon_groups().collect()
        }
    }

    #[test]
    fn a_job_has_a_group_from_before_its_start_to_its_end_and_it_is_on_record() {
        let mut world = world();
        world.begin(0);
        world.begin(1);
        world.groups.add(JobId(0), 42, &mut world.undo);
        assert_eq!(world.there(), ["evenkeel-run-0-sort", "evenkeel-run-1-sort", "theirs"]);
        assert_eq!(world.recorded(), ["evenkeel-run-0-sort", "evenkeel-run-1-sort"]);
        world.groups.end(JobId(0), &mut world.undo);
        assert_eq!((world.there().len(), world.recorded().len()), (2, 1));
        assert!(world.groups.end_all(&mut world.undo));
        assert_eq!(world.there(), ["theirs"]);
        assert!(world.recorded().is_empty());
    }

    #[test]
    fn what_a_job_moved_is_told_of_all_its_time_and_no_file_stays_open() {
        let mut world = world();
        for total in [700, 900] {
            world.begin(0);
            let folder =
                world.folder.path().join(GROUPS).join("evenkeel-run-0-sort/mon_data/mon_L3_00");
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::write(folder.join("mbm_total_bytes"), format!("{total}\n")).expect("written");
            assert_eq!(world.groups.traffic_of(JobId(0)), Measured::Exact(total));
            assert_ne!(world.n_open(), 0);
            world.groups.end(JobId(0), &mut world.undo);
            assert_eq!((world.groups.traffic_of(JobId(0)), world.n_open()), (Measured::Absent, 0));
        }
    }

    #[test]
    fn a_group_that_cannot_be_removed_yet_stays_on_record_when_its_job_starts_again() {
        let mut world = world();
        world.begin(0);
        let wish = fault::FaultPlan { seed: 1, permille: 1000 };
        fault::with_errors(wish, || {
            world.groups.end(JobId(0), &mut world.undo);
            world.begin(0);
        });
        assert_eq!((world.recorded(), world.there().len()), (vec!["evenkeel-run-0-sort"], 2));
        world.begin(0);
        assert_eq!((world.recorded(), world.there().len()), (vec!["evenkeel-run-0-sort"], 2));
        assert!(world.groups.end_all(&mut world.undo));
        assert!(world.recorded().is_empty());
    }

    #[test]
    fn a_processor_without_numbers_is_told_of_once_and_asked_again_when_one_is_free() {
        let mut world = world();
        world.begin(0);
        world.groups.make = |_, _| GroupCreation::Full;
        world.begin(1);
        // Nobody asks while it is full.
        world.groups.make = |_, _| panic!("asked again");
        world.begin(2);
        let said = world.groups.take_said();
        assert!(said.len() == 1 && said[0].contains("no number left"), "{said:?}");
        assert_eq!(world.recorded(), ["evenkeel-run-0-sort"]);
        world.groups.end(JobId(0), &mut world.undo);
        world.groups.make = MonGroupFolder::make;
        world.begin(3);
        assert_eq!(world.there(), ["evenkeel-run-3-sort", "theirs"]);
    }

    #[test]
    fn without_a_record_or_when_refused_there_is_no_group_and_that_is_said_once() {
        let mut world = world();
        world.groups.begin(JobId(0), "sort", &mut Err("no record".to_owned()));
        assert_eq!(world.there(), ["theirs"]);
        world.groups.make = |_, _| GroupCreation::Refused("not permitted".to_owned());
        world.begin(0);
        world.begin(1);
        let said = world.groups.take_said();
        assert!(said.len() == 1 && said[0].contains("not permitted"), "{said:?}");
        assert!(world.recorded().is_empty());
    }

    #[test]
    fn whatever_call_fails_no_group_is_there_that_is_not_on_record() {
        for seed in 0..60 {
            let mut world = world();
            let wish = fault::FaultPlan { seed, permille: 300 };
            fault::with_errors(wish, || {
                for job in 0..4 {
                    world.begin(job);
                    world.groups.add(JobId(job), 42, &mut world.undo);
                    world.groups.end(JobId(job / 2), &mut world.undo);
                }
                world.groups.end_all(&mut world.undo);
            });
            let recorded = world.recorded();
            let ours = world.there().into_iter().filter(|name| name != "theirs");
            for name in ours {
                assert!(recorded.contains(&name.as_str()), "seed {seed}: {name}");
            }
            assert!(world.groups.end_all(&mut world.undo), "seed {seed}");
            assert_eq!(world.there(), ["theirs"], "seed {seed}");
        }
    }
}
