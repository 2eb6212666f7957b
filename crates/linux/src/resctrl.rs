//! resctrl monitoring: traffic of LLC domains and of monitoring groups.
//!
//! ```text
//!   sys/fs/resctrl/mon_data/mon_L3_01/mbm_total_bytes              all tasks
//!   sys/fs/resctrl/mon_groups/evenkeel-RUN-JOB/tasks               tasks of the group, and their children
//!   sys/fs/resctrl/mon_groups/evenkeel-RUN-JOB/mon_data/mon_L3_01/…
//! ```
//!
//! A value may be `Unavailable` (currently no data), `Unassigned` or `Error`; such a value is absent, not zero.
//! The kernel extends the counters to 64 bits. evenkeel creates and removes only monitoring groups with a name of
//! its run. The number of groups is limited by the RMIDs of the processor; without a free RMID the kernel returns
//! ENOSPC.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base::{Bytes, LlcId};
use sched::{RawCounter, Traffic};
use topology::Machine;

use crate::fault;
use crate::source::{Source, text};

/// Mount point of resctrl.
const ROOT: &str = "sys/fs/resctrl";

/// The monitored LLC domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitoredDomains {
    /// LLC domain of each directory in `mon_data`.
    domains: BTreeMap<String, LlcId>,
}

/// Result of creating a monitoring group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupCreation {
    /// The group was created.
    Created(MonGroupDir),
    /// No RMID is free.
    NoFreeRmid,
    /// The kernel rejected the group with this error.
    Rejected(String),
}

/// A monitoring group of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonGroupDir {
    name: String,
}

impl MonitoredDomains {
    /// Finds the monitored domains; `None` if resctrl is not mounted or does not monitor LLC domains.
    pub fn find(source: &mut dyn Source, machine: &Machine) -> Option<Self> {
        let dirs = source.list(&format!("{ROOT}/mon_data")).ok()?;
        let by_number = cache_numbers(source, machine);
        let domain = |dir: String| {
            let number: u32 = dir.strip_prefix("mon_L3_")?.parse().ok()?;
            Some((dir, *by_number.get(&number)?))
        };
        let domains: BTreeMap<String, LlcId> = dirs.into_iter().filter_map(domain).collect();
        (!domains.is_empty()).then_some(MonitoredDomains { domains })
    }

    /// Reads the traffic of all tasks in each domain.
    pub fn read(&self, source: &mut dyn Source) -> Vec<(LlcId, Traffic)> {
        self.read_below(source, ROOT)
    }

    /// Reads the traffic of a monitoring group in each domain.
    pub fn read_group(
        &self,
        source: &mut dyn Source,
        group: &MonGroupDir,
    ) -> Vec<(LlcId, Traffic)> {
        self.read_below(source, &group.dir())
    }

    fn read_below(&self, source: &mut dyn Source, dir: &str) -> Vec<(LlcId, Traffic)> {
        let of_domain = |(name, llc): (&String, &LlcId)| {
            let mut value = |file: &str| {
                let bytes = source.file(&format!("{dir}/mon_data/{name}/{file}"));
                parse(&bytes.ok()?)
            };
            let traffic = Traffic {
                total_bytes: value("mbm_total_bytes"),
                local_bytes: value("mbm_local_bytes"),
                occupancy: value("llc_occupancy").map(|raw| Bytes(raw.value)),
            };
            (*llc, traffic)
        };
        self.domains.iter().map(of_domain).collect()
    }
}

/// Parses a monitoring file. Returns `None` for `Unavailable`, `Error` and `Unassigned`.
pub fn parse(bytes: &[u8]) -> Option<RawCounter> {
    let value = std::str::from_utf8(bytes).ok()?.trim().parse().ok()?;
    Some(RawCounter::unmultiplexed(value))
}

/// Returns the LLC domains by the cache id of the kernel, which sysfs lists for the CPUs of the cache.
fn cache_numbers(source: &mut dyn Source, machine: &Machine) -> BTreeMap<u32, LlcId> {
    let mut numbers = BTreeMap::new();
    for llc in machine.llcs().iter().filter(|llc| llc.level == 3) {
        let Some(cpu) = llc.cpus.first() else { continue };
        let dir = format!("sys/devices/system/cpu/cpu{}/cache", cpu.0);
        for index in 0..8 {
            let mut attribute = |name: &str| -> Option<u32> {
                text(source, &format!("{dir}/index{index}/{name}")).ok()?.parse().ok()
            };
            if attribute("level") == Some(3) {
                numbers.extend(attribute("id").map(|number| (number, llc.id)));
                break;
            }
        }
    }
    numbers
}

impl MonGroupDir {
    /// Returns the monitoring group of a job. Characters that are not permitted in its name are omitted.
    pub fn for_job(run: &str, job: &str) -> Self {
        let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let short = |text: &str, n: usize| text.chars().filter(plain).take(n).collect::<String>();
        MonGroupDir { name: format!("evenkeel-{}-{}", short(run, 36), short(job, 40)) }
    }

    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the group with this name; `None` if it is not a name of this run.
    pub fn of_run(run: &str, name: &str) -> Option<Self> {
        let prefix = MonGroupDir::for_job(run, "").name;
        let suffix = name.strip_prefix(&prefix)?;
        let is_plain = suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (is_plain && prefix != "evenkeel--").then(|| MonGroupDir { name: name.to_owned() })
    }

    /// Returns the absolute path of the group.
    pub fn path(&self, root: &Path) -> PathBuf {
        root.join(ROOT).join("mon_groups").join(&self.name)
    }

    /// Returns whether the group exists.
    pub fn exists(&self, root: &Path) -> io::Result<bool> {
        fault::retry("stat", || self.path(root).try_exists())
    }

    /// Creates the group. The caller has to write the group to the undo record first.
    pub fn create(self, root: &Path) -> GroupCreation {
        let done = fault::inject("mkdir").and_then(|()| std::fs::create_dir(self.path(root)));
        match done {
            Ok(()) => GroupCreation::Created(self),
            // EBUSY: all free RMIDs still tag cache lines.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EBUSY)) => {
                GroupCreation::NoFreeRmid
            }
            Err(error) => GroupCreation::Rejected(error.to_string()),
        }
    }

    /// Adds a process to the group. Future children of the process are in the group too.
    pub fn add(&self, root: &Path, pid: u32) -> io::Result<()> {
        fault::retry("write", || std::fs::write(self.path(root).join("tasks"), pid.to_string()))
    }

    /// Returns the path of the group below the root.
    pub fn dir(&self) -> String {
        format!("{ROOT}/mon_groups/{}", self.name)
    }

    /// Lists the tasks of the group.
    pub fn tasks(&self, root: &Path) -> io::Result<Vec<u32>> {
        let path = self.path(root).join("tasks");
        let text = fault::retry("read", || std::fs::read_to_string(&path))?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// Removes the group; its tasks are no longer monitored. A missing group is no error.
    ///
    /// The kernel removes the files of a group with its directory. If the root is not `/` (tests), this function
    /// removes the files.
    pub fn remove(&self, root: &Path) -> io::Result<()> {
        fault::inject("rmdir")?;
        let path = self.path(root);
        let is_kernel = root == Path::new("/");
        let done =
            if is_kernel { std::fs::remove_dir(path) } else { std::fs::remove_dir_all(path) };
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Live;
    use crate::test_support::dir_of;

    #[test]
    fn an_unavailable_value_is_absent_and_not_zero() {
        assert_eq!(parse(b"12345\n"), Some(RawCounter::unmultiplexed(12345)));
        for text in ["Unavailable\n", "Error\n", "", "Unassigned\n"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn domains_are_found_by_the_id_of_their_cache() {
        let cpu0 = "sys/devices/system/cpu/cpu0/cache";
        let root = dir_of([
            (&*format!("{cpu0}/index3/level"), "3"),
            (&*format!("{cpu0}/index3/id"), "7"),
            ("sys/fs/resctrl/mon_data/mon_L3_07/mbm_total_bytes", "640\n"),
            ("sys/fs/resctrl/mon_data/mon_L3_07/mbm_local_bytes", "Unavailable\n"),
            ("sys/fs/resctrl/mon_data/mon_L3_07/llc_occupancy", "4096\n"),
            ("sys/fs/resctrl/mon_data/mon_L3_09/mbm_total_bytes", "1\n"),
        ]);
        let machine = Machine::synthetic("nodes=1 llcs=1 cores=2").expect("a machine");
        let mut source = Live::new(root.path());
        let monitored = MonitoredDomains::find(&mut source, &machine).expect("mounted");
        let traffic = Traffic {
            total_bytes: Some(RawCounter::unmultiplexed(640)),
            local_bytes: None,
            occupancy: Some(Bytes(4096)),
        };
        assert_eq!(monitored.read(&mut source), [(LlcId(0), traffic)]);
        let nothing = dir_of::<&str, &str>([]);
        assert_eq!(MonitoredDomains::find(&mut Live::new(nothing.path()), &machine), None);
    }

    #[test]
    fn only_groups_with_names_of_this_run_are_created_and_removed() {
        let root = dir_of([("sys/fs/resctrl/mon_groups/other/tasks", "1\n")]);
        let group = MonGroupDir::for_job("3f-a/../b", "job 1/é");
        assert_eq!(group.name(), "evenkeel-3f-ab-job1");
        assert_eq!(group.clone().create(root.path()), GroupCreation::Created(group.clone()));
        assert!(matches!(group.clone().create(root.path()), GroupCreation::Rejected(_)));
        group.add(root.path(), 42).expect("written");
        assert_eq!(group.tasks(root.path()).expect("read"), [42]);
        group.remove(root.path()).expect("removed");
        group.remove(root.path()).expect("a missing group is no error");
        assert_eq!(MonGroupDir::of_run("3f-a/../b", group.name()), Some(group));
        for name in ["other", "evenkeel-3f-ab-x/../../y", "evenkeel-other-job1", "evenkeel-"] {
            assert_eq!(MonGroupDir::of_run("3f-a/../b", name), None, "{name}");
        }
        assert_eq!(MonGroupDir::of_run("", "evenkeel--a"), None, "a run without a name");
        assert!(root.path().join("sys/fs/resctrl/mon_groups/other/tasks").exists());
    }
}
