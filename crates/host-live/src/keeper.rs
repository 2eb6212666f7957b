//! Ends the jobs when evenkeel is killed, if the user wants that (`--die-with-me`).
//!
//! The kernel ends each job's first process with us by itself, but not what that process has started.
//! So a second evenkeel, the keeper, waits at a pipe whose other end only we hold. What runs comes
//! through it, a line each; when it closes without a word of parting, we were killed.
//!
//! ```text
//!   +group PID BORN    a job's process group, with the birth of its first process
//!   -group PID         nothing of it is left
//!   +process PID BORN  a process of a job, whatever its group and environment
//!   -process PID BORN  it is gone
//!   done               the word of parting: nothing is to be killed
//! ```
//!
//! Then the keeper kills, until nothing is left: who has our run in the environment, who was named
//! and has the right birth, the groups in which one of these still is, and the children of all.
//! Numbers are used again: a group in which nobody is known to be ours is somebody else's by now.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use linux::environ::environ;
use linux::procfs::{self, Stat};
use linux::undo::RUN_VARIABLE;
use rustix::process::Signal;

use crate::signals;

/// The argument with which the evenkeel program becomes a keeper; the name of the run follows.
pub const KEEPER_ARGUMENT: &str = "keep-jobs";

/// The parting word.
const DONE: &str = "done";

/// A process stuck in the kernel cannot be waited for for ever: two seconds.
const ROUNDS_MAX: u32 = 200;
const ROUND: Duration = Duration::from_millis(10);

/// A process by number and birth.
type Whose = (u32, u64);

/// Our side of the keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    pipe: ChildStdin,
    told: BTreeSet<Whose>,
}

impl Keeper {
    pub(crate) fn start(tool: &Path, run: &str) -> io::Result<Self> {
        let mut child = Command::new(tool)
            .args([KEEPER_ARGUMENT, run])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .env_remove(linux::fault::VARIABLE)
            .env_remove(RUN_VARIABLE)
            .process_group(0) // Ctrl-C is not for it.
            .spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Keeper { child, pipe, told: BTreeSet::new() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn add(&mut self, group: u32, born_ticks: u64) {
        self.say(&format!("+group {group} {born_ticks}\n"));
    }

    pub(crate) fn remove(&mut self, group: u32) {
        self.say(&format!("-group {group}\n"));
    }

    /// These are all processes of jobs that are known now.
    pub(crate) fn know(&mut self, processes: BTreeSet<Whose>) {
        let gone = self.told.difference(&processes).map(|whose| ('-', whose));
        let fresh = processes.difference(&self.told).map(|whose| ('+', whose));
        let lines: String = gone
            .chain(fresh)
            .map(|(sign, (pid, born_ticks))| format!("{sign}process {pid} {born_ticks}\n"))
            .collect();
        self.say(&lines);
        self.told = processes;
    }

    /// A keeper that is gone cannot be told anything; then the kernel's own tie is what is left.
    fn say(&mut self, lines: &str) {
        let _ = self.pipe.write_all(lines.as_bytes());
    }

    pub(crate) fn dismiss(mut self) {
        self.say(&format!("{DONE}\n"));
        drop(self.pipe);
        let _ = self.child.wait();
    }
}

/// What the keeper does: reads until the end, then kills unless there was a word of parting.
pub fn keep(run: &str, mut orders: impl BufRead) {
    let mut kept = Kept::default();
    let mut line = String::new();
    while orders.read_line(&mut line).is_ok_and(|n_bytes| n_bytes != 0) {
        if line.trim_end() == DONE {
            return;
        }
        kept.take(line.trim_end());
        line.clear();
    }
    for _ in 0..ROUNDS_MAX {
        let (all, marked) = look(run);
        let ours = kept.ours(&all, &marked);
        if ours.is_empty() {
            return;
        }
        for &(pid, born_ticks) in &ours {
            signals::send(pid, born_ticks, Signal::KILL);
        }
        std::thread::sleep(ROUND);
    }
}

/// All processes that live, and those with our run in their environment.
fn look(run: &str) -> (BTreeMap<u32, Stat>, BTreeSet<u32>) {
    let root = Path::new("/");
    let own = std::process::id();
    let pids = procfs::processes(root).unwrap_or_default();
    let stats = pids.into_iter().filter_map(|pid| Some((pid, procfs::stat(root, pid).ok()?)));
    let lives =
        |(pid, stat): &(u32, Stat)| *pid != own && stat.state != 'Z' && !stat.is_kernel_thread;
    let all: BTreeMap<u32, Stat> = stats.filter(lives).collect();
    let is_marked =
        |pid: &u32| environ(root, *pid).is_ok_and(|its| its.variable(RUN_VARIABLE) == Some(run));
    let marked = all.keys().copied().filter(is_marked).collect();
    (all, marked)
}

/// What the keeper was told.
#[derive(Debug, Default)]
struct Kept {
    groups: BTreeSet<Whose>,
    processes: BTreeSet<Whose>,
}

impl Kept {
    /// Takes a line; one that cannot be read says nothing.
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let Some(pid) = number().and_then(|pid| u32::try_from(pid).ok()) else { return };
        let born_ticks = number();
        match (what, born_ticks) {
            ("+group", Some(born_ticks)) => drop(self.groups.insert((pid, born_ticks))),
            ("-group", None) => self.groups.retain(|&(group, _)| group != pid),
            ("+process", Some(born_ticks)) => drop(self.processes.insert((pid, born_ticks))),
            ("-process", Some(born_ticks)) => drop(self.processes.remove(&(pid, born_ticks))),
            _ => {}
        }
    }

    /// Who is to be killed among all that live.
    fn ours(&self, all: &BTreeMap<u32, Stat>, marked: &BTreeSet<u32>) -> BTreeSet<Whose> {
        let is_named = |pid: u32, stat: &Stat| {
            let whose = (pid, stat.born_ticks);
            marked.contains(&pid) || self.groups.contains(&whose) || self.processes.contains(&whose)
        };
        let named = all.iter().filter(|(pid, stat)| is_named(**pid, stat));
        let mut ours: BTreeSet<u32> = named.map(|(&pid, _)| pid).collect();
        let groups: BTreeSet<u32> =
            ours.iter().filter_map(|pid| Some(all.get(pid)?.group)).collect();
        let is_kept = |group: u32| self.groups.iter().any(|&(kept, _)| kept == group);
        let in_group = |stat: &Stat| is_kept(stat.group) && groups.contains(&stat.group);
        ours.extend(all.iter().filter(|(_, stat)| in_group(stat)).map(|(&pid, _)| pid));
        loop {
            let is_child =
                |(pid, stat): &(&u32, &Stat)| !ours.contains(pid) && ours.contains(&stat.parent);
            let children: Vec<u32> = all.iter().filter(is_child).map(|(&pid, _)| pid).collect();
            if children.is_empty() {
                break;
            }
            ours.extend(children);
        }
        ours.iter().filter_map(|pid| Some((*pid, all.get(pid)?.born_ticks))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is killed. `processes`: number, birth, group, parent, and `ours` for who has our run in the
    /// environment.
    fn check(orders: &str, processes: &str, killed: &[u32]) {
        let mut kept = Kept::default();
        orders.lines().for_each(|line| kept.take(line.trim()));
        let mut all = BTreeMap::new();
        let mut marked = BTreeSet::new();
        for line in processes.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [pid, born, group, parent] = [0, 1, 2, 3].map(|idx| words[idx]);
            let zeros = "0 ".repeat(13);
            let rest = "0 ".repeat(20);
            let text = format!("{pid} (x) S {parent} {group} 1 {zeros}1 0 {born} {rest}");
            let stat = procfs::parse_stat(text.as_bytes()).expect("a line");
            let pid: u32 = pid.parse().expect("a number");
            assert_eq!(stat.born_ticks, born.parse::<u64>().expect("a number"), "{text}");
            marked.extend((words.len() == 5).then_some(pid));
            all.insert(pid, stat);
        }
        let ours: Vec<u32> = kept.ours(&all, &marked).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(ours, killed, "{orders} {processes}");
    }

    #[test]
    fn a_group_is_killed_with_all_that_are_in_it_and_their_children() {
        let group = "
            10 100 10 1
            11 101 10 1
            12 102 12 11
            13 103 13 1";
        check("+group 10 100", group, &[10, 11, 12]);
        check("+group 10 100\n-group 10", group, &[]);
    }

    #[test]
    fn a_group_whose_first_process_is_gone_is_known_by_who_is_ours_in_it() {
        check("+group 10 100", "11 101 10 1 ours\n12 102 10 1", &[11, 12]);
        check("+group 10 100\n+process 11 101", "11 101 10 1\n12 102 10 1", &[11, 12]);
    }

    #[test]
    fn a_number_that_somebody_else_has_now_is_left_alone() {
        check("+group 10 100", "10 200 10 1\n11 201 10 10", &[]);
        check("+process 10 100", "10 200 10 1", &[]);
    }

    #[test]
    fn who_hides_from_its_group_and_environment_is_killed_if_he_was_named_and_is_not_gone() {
        check("+process 10 100", "10 100 10 1\n11 101 10 1", &[10]);
        check("+process 10 100\n-process 10 100", "10 100 10 1", &[]);
    }

    #[test]
    fn a_line_that_cannot_be_read_says_nothing() {
        check("+group 10\n+process 11 x\n\nnonsense 1 2\n+group", "10 0 10 1\n11 0 11 1", &[]);
    }
}
