//! Discovery of new and exited processes, without a scan of /proc in each turn.
//!
//! | source | condition | cost |
//! |---|---|---|
//! | events | the kernel reports every fork, exec and exit (proc connector); requires `CAP_NET_ADMIN` and the initial PID and user namespaces | one read per turn |
//! | cgroups | only cgroups are selected: `cgroup.procs`, every two seconds | one read per cgroup |
//! | pids | otherwise: the PIDs since the last poll are read if the last PID of the kernel (`/proc/loadavg`) has changed | one read per turn, and two per new PID |
//!
//! The sources `events` and `pids` can miss processes. With these sources, /proc is therefore scanned after lost
//! events, after too many new PIDs, and every minute (with events: every ten minutes).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::Nanos;
use linux::connector::{Connector, ProcessEvent};
use linux::proc_dir::parse_last_pid;
use linux::{fault, procfs};

/// Maximum number of new PIDs that are read individually. For more PIDs a scan is cheaper.
const NEW_PIDS_MAX: u32 = 2048;
/// Time between two scans of /proc if process events are not available.
const SCAN_EVERY: Nanos = Nanos::from_secs(60);
const SCAN_EVERY_WITH_EVENTS: Nanos = Nanos::from_secs(600);
const CGROUPS_EVERY: Nanos = Nanos::from_secs(2);
const DEPTH_MAX: u32 = 32;

/// Source of new and exited processes.
#[derive(Debug)]
pub(super) enum DiscoverySource {
    Events(Connector),
    Cgroups(Vec<PathBuf>),
    LastPid { loadavg: Option<OwnedFd>, last: Option<u32> },
}

/// State of the discovery: the source, and the times of the next reads.
#[derive(Debug)]
pub(super) struct Discovery {
    source: DiscoverySource,
    scan_at: Nanos,
    cgroups_at: Nanos,
}

/// Result of one poll.
#[derive(Debug, Default)]
pub(super) struct Discovered {
    /// Events of the kernel, oldest first.
    pub events: Vec<ProcessEvent>,
    /// New PIDs and TIDs. Some of these tasks may have exited.
    pub new_pids: Vec<u32>,
    /// Whether a scan of /proc is due.
    pub needs_scan: bool,
    /// All processes of the selected cgroups.
    pub members: Option<Vec<u32>>,
    /// The error after which events are no longer available.
    pub lost_events: Option<String>,
}

impl Discovery {
    /// Selects the cheapest source. `cgroups` is empty unless only cgroups are selected.
    pub(super) fn new(cgroups: Vec<PathBuf>, use_events: bool) -> Self {
        let source = match (cgroups.is_empty(), use_events.then(Connector::open)) {
            (false, _) => DiscoverySource::Cgroups(cgroups),
            (true, Some(Ok(connector))) => DiscoverySource::Events(connector),
            _ => DiscoverySource::last_pid(),
        };
        Discovery { source, scan_at: Nanos::ZERO, cgroups_at: Nanos::ZERO }
    }

    /// Returns the name of the source in status files.
    pub(super) fn name(&self) -> &'static str {
        match self.source {
            DiscoverySource::Events(_) => "events",
            DiscoverySource::Cgroups(_) => "cgroups",
            DiscoverySource::LastPid { .. } => "pids",
        }
    }

    /// Returns all changes since the last call.
    pub(super) fn poll(&mut self, now: Nanos) -> Discovered {
        let mut discovered = Discovered::default();
        let scan_every = match &mut self.source {
            DiscoverySource::Events(connector) => {
                if let Err(error) = read_events(connector, &mut discovered) {
                    discovered.lost_events = Some(error.to_string());
                    discovered.needs_scan = true;
                    self.source = DiscoverySource::last_pid();
                }
                SCAN_EVERY_WITH_EVENTS
            }
            DiscoverySource::Cgroups(dirs) => {
                if self.cgroups_at <= now {
                    self.cgroups_at = now + CGROUPS_EVERY;
                    // After an error the lists are read again in the next poll.
                    discovered.members = members(dirs).ok();
                }
                return discovered;
            }
            DiscoverySource::LastPid { loadavg, last } => {
                read_new_pids(loadavg.as_ref(), last, &mut discovered);
                SCAN_EVERY
            }
        };
        if self.scan_at <= now || discovered.needs_scan {
            self.scan_at = now + scan_every;
            discovered.needs_scan = true;
        }
        discovered
    }
}

impl DiscoverySource {
    fn last_pid() -> Self {
        let loadavg = procfs::open("/proc/loadavg".as_ref()).ok();
        DiscoverySource::LastPid { loadavg, last: None }
    }
}

fn read_events(connector: &Connector, discovered: &mut Discovered) -> io::Result<()> {
    connector.drain(|event| match event {
        ProcessEvent::Lost => discovered.needs_scan = true,
        event => discovered.events.push(event),
    })
}

fn read_new_pids(loadavg: Option<&OwnedFd>, last: &mut Option<u32>, discovered: &mut Discovered) {
    let mut buffer = [0; 128];
    let text = loadavg.and_then(|file| procfs::read_again(file, &mut buffer).ok());
    let now = text.and_then(parse_last_pid);
    match new_pids(std::mem::replace(last, now), now) {
        Some(pids) => discovered.new_pids.extend(pids),
        None => discovered.needs_scan = true,
    }
}

/// Returns the PIDs that may be new, or `None` if a scan is needed: after the largest PID the kernel continues with the
/// smallest free PID.
fn new_pids(before: Option<u32>, now: Option<u32>) -> Option<std::ops::RangeInclusive<u32>> {
    let (before, now) = before.zip(now)?;
    let is_few = before <= now && now - before <= NEW_PIDS_MAX;
    is_few.then(|| before.saturating_add(1)..=now)
}

/// Returns the processes of cgroups and their descendants.
///
/// # Errors
/// A list cannot be read. A removed cgroup has no processes.
pub(super) fn members(dirs: &[PathBuf]) -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    dirs.iter().try_for_each(|dir| add_members(dir, 0, &mut pids))?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn add_members(dir: &Path, depth: u32, pids: &mut Vec<u32>) -> io::Result<()> {
    let text = procfs::read_whole(&dir.join("cgroup.procs"));
    let Some(text) = unless_removed(text)? else { return Ok(()) };
    pids.extend(procfs::parse_children(&text));
    if depth == DEPTH_MAX {
        return Ok(());
    }
    let list = || std::fs::read_dir(dir);
    let Some(entries) = unless_removed(fault::retry("getdents64", list))? else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_members(&entry.path(), depth + 1, pids)?;
        }
    }
    Ok(())
}

/// Returns `None` if the cgroup was removed.
fn unless_removed<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        // A threaded cgroup has no `cgroup.procs`: its processes are listed in an ancestor.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<u32>, now: Option<u32>, expected: Option<(u32, u32)>) {
        let range = new_pids(before, now).map(|range| (*range.start(), *range.end()));
        assert_eq!(range, expected, "{before:?} {now:?}");
    }

    #[test]
    fn with_the_same_last_pid_no_process_is_read() {
        assert!(new_pids(Some(70), Some(70)).expect("known").is_empty());
        check(Some(70), Some(72), Some((71, 72)));
    }

    #[test]
    fn after_a_pid_wrap_or_too_many_new_pids_a_scan_is_needed() {
        check(Some(32_000), Some(301), None);
        check(Some(1), Some(1 + NEW_PIDS_MAX), Some((2, 1 + NEW_PIDS_MAX)));
        check(Some(1), Some(2 + NEW_PIDS_MAX), None);
        check(None, Some(5), None);
        check(Some(5), None, None);
    }

    #[test]
    fn the_processes_of_a_cgroup_include_the_processes_of_its_descendants() {
        let dir = tempfile::tempdir().expect("a directory");
        let below = dir.path().join("a/b");
        std::fs::create_dir_all(&below).expect("a temporary directory of the test");
        std::fs::write(dir.path().join("a/cgroup.procs"), "7\n3\n")
            .expect("a temporary directory of the test");
        std::fs::write(below.join("cgroup.procs"), "9\n3\n")
            .expect("a temporary directory of the test");
        assert_eq!(members(&[dir.path().join("a")]).expect("lists"), [3, 7, 9]);
        assert!(members(&[dir.path().join("removed")]).expect("no process").is_empty());
        // An unreadable list is an error, not an empty list.
        let all = fault::FaultPlan { seed: 1, permille: 1000 };
        let failed = fault::with_errors(all, || members(&[dir.path().join("a")]));
        assert!(failed.is_err(), "{failed:?}");
    }
}
