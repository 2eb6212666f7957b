//! Kills the jobs when evenkeel itself is killed, with the option `--kill-on-exit`.
//!
//! When evenkeel is killed, the kernel kills the main process of each job (`PR_SET_PDEATHSIG`), but not its children. A
//! second evenkeel process, the supervisor, therefore reads from a pipe whose only writer is the run. The run writes a
//! line to the pipe for each process and each process group of a job that is added or removed. If the pipe closes
//! before the line `done`, the run was killed.
//!
//! ```text
//!   +group PID START     process group of a job, with the start time of its main process
//!   -group PID           no process of the group is left
//!   +process PID START   a process of a job, in any group and with any environment
//!   -process PID START   the process has exited
//!   done                 the last line: the run has ended, and no process is killed
//! ```
//!
//! The supervisor then sends SIGKILL until none of these processes is left:
//!
//! - processes with the id of the run in their environment,
//! - listed processes with the listed start time,
//! - all members of a listed group that contains one of the processes above,
//! - all descendants of the processes above.
//!
//! PIDs are reused: a listed group without any of these processes belongs to another program.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use linux::environ::environ;
use linux::inherited_children::ProcessKey;
use linux::proc_stat::ProcStat;
use linux::procfs;
use linux::undo::RUN_VARIABLE;
use rustix::process::Signal;

use crate::process_signals;

/// The hidden subcommand of evenkeel that runs [`supervise`]. The argument of the subcommand is the id of the run.
pub const SUPERVISOR_ARGUMENT: &str = "supervise-jobs";

const DONE: &str = "done";

/// Maximum number of rounds of SIGKILL, two seconds in total. A process may be in uninterruptible sleep forever.
const ROUNDS_MAX: u32 = 200;
const ROUND: Duration = Duration::from_millis(10);

/// Handle of the supervisor process.
#[derive(Debug)]
pub(super) struct Supervisor {
    child: Child,
    pipe: ChildStdin,
    reported: BTreeSet<ProcessKey>,
}

impl Supervisor {
    pub(super) fn start(tool: &Path, run: &str) -> io::Result<Self> {
        let mut child = Command::new(tool)
            .args([SUPERVISOR_ARGUMENT, run])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .env_remove(linux::fault::VARIABLE)
            .env_remove(RUN_VARIABLE)
            .process_group(0) // Ctrl-C must not reach the supervisor.
            .spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Supervisor { child, pipe, reported: BTreeSet::new() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn add_group(&mut self, group: u32, start_time_ticks: u64) {
        self.write(&format!("+group {group} {start_time_ticks}\n"));
    }

    pub(super) fn remove_group(&mut self, group: u32) {
        self.write(&format!("-group {group}\n"));
    }

    /// Updates the list of known processes of jobs in the supervisor.
    pub(super) fn set_processes(&mut self, processes: BTreeSet<ProcessKey>) {
        let exited = self.reported.difference(&processes).map(|process| ('-', process));
        let new = processes.difference(&self.reported).map(|process| ('+', process));
        let lines: String = exited
            .chain(new)
            .map(|(sign, (pid, start))| format!("{sign}process {pid} {start}\n"))
            .collect();
        self.write(&lines);
        self.reported = processes;
    }

    /// Writes lines to the pipe. If the supervisor has exited, only the kernel kills the main processes.
    fn write(&mut self, lines: &str) {
        let _ = self.pipe.write_all(lines.as_bytes());
    }

    /// Ends the supervisor without killing a process.
    pub(super) fn dismiss(mut self) {
        self.write(&format!("{DONE}\n"));
        drop(self.pipe);
        let _ = self.child.wait();
    }
}

/// Runs the supervisor process: reads the list of processes, and kills them if the pipe closes early.
pub fn supervise(run: &str, mut lines: impl BufRead) {
    let mut listed = ListedProcesses::default();
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|n_bytes| n_bytes != 0) {
        if line.trim_end() == DONE {
            return;
        }
        listed.take(line.trim_end());
        line.clear();
    }
    for _ in 0..ROUNDS_MAX {
        let all = running_processes();
        // Reading the environments of all processes takes longer than a signal to the listed ones.
        kill(&listed.members(&all, &BTreeSet::new()));
        let members = listed.members(&all, &marked(run, &all));
        if members.is_empty() {
            return;
        }
        kill(&members);
        std::thread::sleep(ROUND);
    }
}

fn kill(members: &BTreeSet<ProcessKey>) {
    for &(pid, start_time_ticks) in members {
        process_signals::send(pid, start_time_ticks, Signal::KILL);
    }
}

/// Returns all other running processes.
fn running_processes() -> BTreeMap<u32, ProcStat> {
    let own = std::process::id();
    // An unreadable process has exited or belongs to another user.
    let mut all = procfs::running_processes(Path::new("/"), |_, _| ());
    all.retain(|&pid, stat| pid != own && !stat.is_kernel_thread);
    all
}

/// Returns the PIDs of processes with the id of the run in their environment.
fn marked(run: &str, all: &BTreeMap<u32, ProcStat>) -> BTreeSet<u32> {
    let is_marked =
        |pid: &u32| environ(Path::new("/"), *pid).is_ok_and(|env| env.run() == Some(run));
    all.keys().copied().filter(is_marked).collect()
}

/// The processes and groups that the run reported.
#[derive(Debug, Default)]
struct ListedProcesses {
    groups: BTreeSet<ProcessKey>,
    processes: BTreeSet<ProcessKey>,
}

impl ListedProcesses {
    /// Applies a line. A malformed line is ignored.
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        let verb = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let Some(pid) = number().and_then(|pid| u32::try_from(pid).ok()) else { return };
        let start_time = number();
        match (verb, start_time) {
            ("+group", Some(start)) => drop(self.groups.insert((pid, start))),
            ("-group", None) => self.groups.retain(|&(group, _)| group != pid),
            ("+process", Some(start)) => drop(self.processes.insert((pid, start))),
            ("-process", Some(start)) => drop(self.processes.remove(&(pid, start))),
            _ => {}
        }
    }

    /// Selects the running processes that are killed.
    fn members(
        &self,
        all: &BTreeMap<u32, ProcStat>,
        marked: &BTreeSet<u32>,
    ) -> BTreeSet<ProcessKey> {
        let is_listed = |pid: u32, stat: &ProcStat| {
            let process = (pid, stat.start_time_ticks);
            marked.contains(&pid)
                || self.groups.contains(&process)
                || self.processes.contains(&process)
        };
        let listed = all.iter().filter(|(pid, stat)| is_listed(**pid, stat));
        let mut members: BTreeSet<u32> = listed.map(|(&pid, _)| pid).collect();
        let groups: BTreeSet<u32> =
            members.iter().filter_map(|pid| Some(all.get(pid)?.group)).collect();
        let is_listed_group = |group: u32| self.groups.iter().any(|&(listed, _)| listed == group);
        let in_group =
            |stat: &ProcStat| is_listed_group(stat.group) && groups.contains(&stat.group);
        members.extend(all.iter().filter(|(_, stat)| in_group(stat)).map(|(&pid, _)| pid));
        loop {
            let is_child = |(pid, stat): &(&u32, &ProcStat)| {
                !members.contains(pid) && members.contains(&stat.parent)
            };
            let children: Vec<u32> = all.iter().filter(is_child).map(|(&pid, _)| pid).collect();
            if children.is_empty() {
                break;
            }
            members.extend(children);
        }
        members.iter().filter_map(|pid| Some((*pid, all.get(pid)?.start_time_ticks))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the processes that are killed. A line of `processes`: PID, start time, group, parent, and `marked` for a
    /// process with the id of the run in its environment.
    fn check(lines: &str, processes: &str, killed: &[u32]) {
        let mut listed = ListedProcesses::default();
        lines.lines().for_each(|line| listed.take(line.trim()));
        let mut all = BTreeMap::new();
        let mut marked = BTreeSet::new();
        for line in processes.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [pid, start, group, parent] = [0, 1, 2, 3].map(|idx| words[idx]);
            let zeros = "0 ".repeat(13);
            let tail = "0 ".repeat(20);
            let text = format!("{pid} (x) S {parent} {group} 1 {zeros}1 0 {start} {tail}");
            let stat = linux::proc_stat::parse_stat(text.as_bytes()).expect("a line");
            let pid: u32 = pid.parse().expect("a number");
            assert_eq!(stat.start_time_ticks, start.parse::<u64>().expect("a number"), "{text}");
            marked.extend((words.len() == 5).then_some(pid));
            all.insert(pid, stat);
        }
        let members: Vec<u32> =
            listed.members(&all, &marked).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(members, killed, "{lines} {processes}");
    }

    #[test]
    fn a_group_is_killed_with_its_members_and_their_children() {
        let group = "
            10 100 10 1
            11 101 10 1
            12 102 12 11
            13 103 13 1";
        check("+group 10 100", group, &[10, 11, 12]);
        check("+group 10 100\n-group 10", group, &[]);
    }

    #[test]
    fn a_group_whose_main_process_has_exited_is_killed_if_it_contains_a_known_process() {
        check("+group 10 100", "11 101 10 1 marked\n12 102 10 1", &[11, 12]);
        check("+group 10 100\n+process 11 101", "11 101 10 1\n12 102 10 1", &[11, 12]);
    }

    #[test]
    fn a_reused_pid_is_not_killed() {
        check("+group 10 100", "10 200 10 1\n11 201 10 10", &[]);
        check("+process 10 100", "10 200 10 1", &[]);
    }

    #[test]
    fn a_listed_process_is_killed_without_its_group_and_environment_unless_it_exited() {
        check("+process 10 100", "10 100 10 1\n11 101 10 1", &[10]);
        check("+process 10 100\n-process 10 100", "10 100 10 1", &[]);
    }

    #[test]
    fn a_malformed_line_is_ignored() {
        check("+group 10\n+process 11 x\n\nnonsense 1 2\n+group", "10 0 10 1\n11 0 11 1", &[]);
    }
}
