//! How new and ended processes are noticed without looking through everything each turn.
//!
//! | way | who | what it costs |
//! |---|---|---|
//! | events | the kernel tells every birth, exec and end (proc connector; needs `CAP_NET_ADMIN` outside any container) | one read a turn |
//! | groups | only cgroups were chosen: their own lists of processes, every two seconds | one read a cgroup |
//! | numbers | otherwise: nobody was born as long as the kernel's last number is the same; else only the numbers since are asked | one read a turn, and two for each number given since |
//!
//! Whoever could be missed by these is found by looking through everything: after events were lost,
//! after too many births to ask for each, and every minute (ten, where the kernel tells events).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::Nanos;
use linux::connector::{Connector, ProcessEvent};
use linux::glance::parse_last_number;
use linux::{fault, procfs};

/// More numbers than this are not asked one by one: listing all is cheaper then.
const NUMBERS_MAX: u32 = 2048;
/// Everything is looked through so often where nothing tells of births.
const ALL_EVERY: Nanos = Nanos::from_secs(60);
/// And so often where the kernel tells.
const ALL_SELDOM: Nanos = Nanos::from_secs(600);
/// Lists of cgroups are read so often.
const GROUPS_EVERY: Nanos = Nanos::from_secs(2);
/// Deeper hierarchies than this are cut off.
const DEPTH_MAX: u32 = 32;

/// How processes are noticed.
#[derive(Debug)]
pub(crate) enum Way {
    Events(Connector),
    Groups(Vec<PathBuf>),
    Numbers { loadavg: Option<OwnedFd>, last: Option<u32> },
}

/// Notices births, execs and ends.
#[derive(Debug)]
pub(crate) struct Notice {
    pub way: Way,
    all_at: Nanos,
    groups_at: Nanos,
}

/// What was noticed.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// What the kernel told, oldest first.
    pub heard: Vec<ProcessEvent>,
    /// Numbers that were given: to processes or threads, and some of them are gone again.
    pub numbers: Vec<u32>,
    /// Everything is to be looked through.
    pub all: bool,
    /// Exactly these are the processes of the chosen cgroups now.
    pub members: Option<Vec<u32>>,
    /// The way that was used is lost, and why.
    pub lost_way: Option<String>,
}

impl Notice {
    /// The best way there is; `groups` are the folders of the chosen cgroups if only such were chosen.
    pub(crate) fn new(groups: Vec<PathBuf>, may_hear: bool) -> Self {
        let way = match (groups.is_empty(), may_hear.then(Connector::open)) {
            (false, _) => Way::Groups(groups),
            (true, Some(Ok(connector))) => Way::Events(connector),
            _ => Way::numbers(),
        };
        Notice { way, all_at: Nanos::ZERO, groups_at: Nanos::ZERO }
    }

    /// In words.
    pub(crate) fn name(&self) -> &'static str {
        match self.way {
            Way::Events(_) => "events",
            Way::Groups(_) => "groups",
            Way::Numbers { .. } => "numbers",
        }
    }

    /// What happened since the last call.
    pub(crate) fn news(&mut self, now: Nanos) -> News {
        let mut news = News::default();
        let every = match &mut self.way {
            Way::Events(connector) => {
                if let Err(error) = hear(connector, &mut news) {
                    news.lost_way = Some(error.to_string());
                    news.all = true;
                    self.way = Way::numbers();
                }
                ALL_SELDOM
            }
            Way::Groups(folders) => {
                if self.groups_at <= now {
                    self.groups_at = now + GROUPS_EVERY;
                    // What cannot be read now is read the next time.
                    news.members = members(folders).ok();
                }
                return news;
            }
            Way::Numbers { loadavg, last } => {
                ask_numbers(loadavg.as_ref(), last, &mut news);
                ALL_EVERY
            }
        };
        if self.all_at <= now || news.all {
            self.all_at = now + every;
            news.all = true;
        }
        news
    }
}

impl Way {
    fn numbers() -> Self {
        Way::Numbers { loadavg: procfs::open("/proc/loadavg".as_ref()).ok(), last: None }
    }
}

fn hear(connector: &Connector, news: &mut News) -> io::Result<()> {
    connector.drain(|heard| match heard {
        ProcessEvent::Lost => news.all = true,
        heard => news.heard.push(heard),
    })
}

fn ask_numbers(loadavg: Option<&OwnedFd>, last: &mut Option<u32>, news: &mut News) {
    let mut buffer = [0; 128];
    let text = loadavg.and_then(|file| procfs::read_again(file, &mut buffer).ok());
    let now = text.and_then(parse_last_number);
    match given_since(std::mem::replace(last, now), now) {
        Some(numbers) => news.numbers.extend(numbers),
        None => news.all = true,
    }
}

/// The numbers that may have been given; `None`: all are to be asked. After the largest number the
/// kernel begins again with small ones.
fn given_since(before: Option<u32>, now: Option<u32>) -> Option<std::ops::RangeInclusive<u32>> {
    let (before, now) = before.zip(now)?;
    let is_few = before <= now && now - before <= NUMBERS_MAX;
    is_few.then(|| before.saturating_add(1)..=now)
}

/// The processes of some cgroups and of those below them.
///
/// # Errors
/// A list that is there cannot be read; a cgroup that is gone has nobody.
pub(crate) fn members(folders: &[PathBuf]) -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    folders.iter().try_for_each(|folder| add_members(folder, 0, &mut pids))?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn add_members(folder: &Path, depth: u32, pids: &mut Vec<u32>) -> io::Result<()> {
    let read = || std::fs::read(folder.join("cgroup.procs"));
    let Some(text) = unless_gone(fault::retry("read", read))? else { return Ok(()) };
    pids.extend(procfs::parse_children(&text));
    if depth == DEPTH_MAX {
        return Ok(());
    }
    let list = || std::fs::read_dir(folder);
    let Some(entries) = unless_gone(fault::retry("getdents64", list))? else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_members(&entry.path(), depth + 1, pids)?;
        }
    }
    Ok(())
}

/// A cgroup may be removed at any moment: its list says that it is not there, or no device.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        // A threaded cgroup lists no processes: they are those of a cgroup above.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<u32>, now: Option<u32>, expected: Option<(u32, u32)>) {
        let range = given_since(before, now).map(|range| (*range.start(), *range.end()));
        assert_eq!(range, expected, "{before:?} {now:?}");
    }

    #[test]
    fn as_long_as_the_last_number_is_the_same_nobody_is_asked() {
        assert!(given_since(Some(70), Some(70)).expect("known").is_empty());
        check(Some(70), Some(72), Some((71, 72)));
    }

    #[test]
    fn after_a_turn_of_the_numbers_or_too_many_births_all_are_asked() {
        check(Some(32_000), Some(301), None);
        check(Some(1), Some(1 + NUMBERS_MAX), Some((2, 1 + NUMBERS_MAX)));
        check(Some(1), Some(2 + NUMBERS_MAX), None);
        check(None, Some(5), None);
        check(Some(5), None, None);
    }

    #[test]
    fn the_lists_of_a_cgroup_and_of_those_below_it_are_one() {
        let world = tempfile::tempdir().expect("a folder");
        let below = world.path().join("a/b");
        std::fs::create_dir_all(&below).expect("ours");
        std::fs::write(world.path().join("a/cgroup.procs"), "7\n3\n").expect("ours");
        std::fs::write(below.join("cgroup.procs"), "9\n3\n").expect("ours");
        assert_eq!(members(&[world.path().join("a")]).expect("lists"), [3, 7, 9]);
        assert!(members(&[world.path().join("gone")]).expect("nobody").is_empty());
        // A list that cannot be read is no list of nobody.
        let all = fault::FaultPlan { seed: 1, permille: 1000 };
        let refused = fault::with_errors(all, || members(&[world.path().join("a")]));
        assert!(refused.is_err(), "{refused:?}");
    }
}
