//! Decides whether a process is managed: selection, exclusions, permissions.
//!
//! The first inspection of a process reads `stat` and the inputs of the selection. If the process is busy, a second
//! inspection reads the mask and the scheduling class of each thread, the cpuset and the environment.

use std::cell::Cell;
use std::io;

use base::{CpuSet, Nanos};
use linux::environ::{Environ, environ};
use linux::proc_dir::{ProcDir, ProcStatus};
use linux::proc_stat::ProcStat;
use linux::{affinity, procfs};

use super::placement_cpus::PlacementCpus;
use super::process_table::{ProcessState, ProcessTable};
use super::selection::{Candidate, Selected, Selection};
use super::status::ExclusionReason;

pub(super) struct ProcessInspector {
    pub proc: ProcDir,
    /// Users and capabilities of evenkeel.
    own: ProcStatus,
    pub selection: Selection,
    /// Whether plans are carried out.
    acts: bool,
    large_environs: LargeEnvirons,
}

/// Maximum number of large environments that are read in one turn. Guessed: together they take some hundred milliseconds.
const LARGE_ENVIRONS_PER_TURN: u32 = 8;

/// Number of large environments that were read in a turn, with the time of the turn. A stop request is read between two
/// turns, so a turn must not take long.
#[derive(Default)]
struct LargeEnvirons(Cell<(Nanos, u32)>);

impl LargeEnvirons {
    /// Returns whether another one may be read in the turn at this time.
    fn may_read(&self, now: Nanos) -> bool {
        let (at, n_read) = self.0.get();
        let n_read = if at == now { n_read } else { 0 };
        self.0.set((now, n_read + 1));
        n_read < LARGE_ENVIRONS_PER_TURN
    }
}

impl ProcessInspector {
    /// Creates an inspector.
    ///
    /// # Errors
    /// The status of evenkeel cannot be read.
    pub(super) fn new(proc: ProcDir, selection: Selection, acts: bool) -> io::Result<Self> {
        let own = proc.status(std::process::id())?;
        Ok(ProcessInspector {
            proc,
            own,
            selection,
            acts,
            large_environs: LargeEnvirons::default(),
        })
    }

    /// Returns whether processes of other users cannot be placed.
    pub(super) fn is_restricted(&self) -> bool {
        let other = ProcStatus { uid: u32::MAX, uid_effective: u32::MAX, ..self.own.clone() };
        self.acts && !self.own.may_bind(&other)
    }

    /// Returns whether only PIDs are selected, and these processes and, except with `ends_with_pids`, their descendants have
    /// exited.
    pub(super) fn have_all_exited(&self, table: &ProcessTable) -> bool {
        let has_exited = |(&pid, &start): (&u32, &u64)| match self.proc.stat(pid) {
            Ok(stat) => stat.start_time_ticks != start || stat.has_exited(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        self.selection.only_pids()
            && (self.selection.ends_with_pids || table.n_selected_by_pid() == 0)
            && self.selection.pids.iter().all(has_exited)
    }

    /// Returns whether a process is selected by PID, or is a child of such a process.
    pub(super) fn is_selected_by_pid(
        &self,
        table: &ProcessTable,
        (pid, stat): (u32, &ProcStat),
        parent: Option<u32>,
    ) -> bool {
        let named = &self.selection.pids;
        let is_selected = named.get(&pid) == Some(&stat.start_time_ticks);
        let is_child_of =
            |parent: u32| table.get(parent).is_some_and(|known| known.is_selected_by_pid);
        let is_child = is_child_of(stat.parent) || parent.is_some_and(is_child_of);
        !named.is_empty() && (is_selected || is_child)
    }

    /// Returns the state of a process from the first inspection.
    pub(super) fn inspect(
        &self,
        pid: u32,
        stat: &ProcStat,
        is_selected_by_pid: bool,
    ) -> ProcessState {
        match self.selected(pid, stat, is_selected_by_pid) {
            Selected::No => ProcessState::NotSelected,
            selected => match exclusion(pid, stat, selected) {
                Some(reason) => ProcessState::Excluded(reason),
                None => ProcessState::Eligible,
            },
        }
    }

    fn selected(&self, pid: u32, stat: &ProcStat, is_selected_by_pid: bool) -> Selected {
        let Selection { excluded, .. } = &self.selection;
        let comm = stat.comm_text();
        let status = self.selection.needs_users().then(|| self.proc.status(pid));
        let cgroups = self.selection.needs_cgroups().then(|| self.proc.cgroups(pid));
        // If an exclusion cannot be checked, the process is not selected until the next inspection.
        let line = self.selection.needs_command_lines().then(|| self.proc.command_line(pid));
        let is_unknown = !excluded.users.is_empty() && matches!(status, Some(Err(_)))
            || !excluded.cgroups.is_empty() && matches!(cgroups, Some(Err(_)))
            || !excluded.commands.is_empty() && matches!(line, Some(Err(_)));
        if is_unknown {
            return Selected::No;
        }
        let (status, cgroups) = (status.and_then(Result::ok), cgroups.and_then(Result::ok));
        self.selection.check(&Candidate {
            comm: &comm,
            command_line: &line.and_then(Result::ok).unwrap_or_default(),
            uid: status.map(|status| status.uid),
            cgroups: cgroups.as_deref().unwrap_or_default(),
            is_selected_by_pid,
        })
    }

    /// Inspects a busy process. Returns the reason for excluding the process, if any. `inherited` is an assigned mask
    /// that the process may have.
    ///
    /// # Errors
    /// A value cannot be read. The process must not be changed.
    pub(super) fn inspect_closely(
        &self,
        (pid, now): (u32, Nanos),
        cpus: &PlacementCpus,
        inherited: Option<&CpuSet>,
    ) -> io::Result<Option<ExclusionReason>> {
        let status = self.proc.status(pid)?;
        if self.acts && !self.own.may_bind(&status) {
            return Ok(Some(ExclusionReason::NotPermitted));
        }
        if cpus.restricts_memory(status.nodes.as_ref()) {
            return Ok(Some(ExclusionReason::OwnAffinity));
        }
        for tid in procfs::threads("/".as_ref(), pid)? {
            let Some(mask) = unless_exited(affinity::get(tid))? else { continue };
            if mask != cpus.ordinary && inherited != Some(&mask) {
                return Ok(Some(ExclusionReason::OwnAffinity));
            }
            let stat = unless_exited(self.proc.thread_stat(pid, tid))?;
            if stat.is_some_and(|stat| ProcStat::is_real_time(stat.class)) {
                return Ok(Some(ExclusionReason::RealTime));
            }
        }
        if self.proc.stat(pid)?.has_large_environ() && !self.large_environs.may_read(now) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let is_managed = match environ("/".as_ref(), pid) {
            Ok(Environ::InExec) => return Err(io::ErrorKind::WouldBlock.into()),
            Ok(environ) => environ.run().is_some(),
            // A process with an unreadable environment counts as a process without the variable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
            Err(error) => return Err(error),
        };
        Ok(is_managed.then_some(ExclusionReason::OtherEvenkeel))
    }

    /// Returns whether a job has been moved to a cpuset that restricts its memory. Cpusets that restrict CPUs are
    /// detected by the verification of masks.
    pub(super) fn restricts_memory(&self, pid: u32, cpus: &PlacementCpus) -> bool {
        self.proc.status(pid).is_ok_and(|status| cpus.restricts_memory(status.nodes.as_ref()))
    }
}

/// Returns the reason why a selected process is excluded, if any.
fn exclusion(pid: u32, stat: &ProcStat, selected: Selected) -> Option<ExclusionReason> {
    if pid == std::process::id() {
        Some(ExclusionReason::EvenkeelItself)
    } else if pid == 1 {
        Some(ExclusionReason::FirstProcess)
    } else if stat.is_kernel_thread {
        Some(ExclusionReason::KernelThread)
    } else {
        match selected {
            Selected::OtherUser => Some(ExclusionReason::OtherUser),
            Selected::ExcludedName => Some(ExclusionReason::ExcludedName),
            Selected::ExcludedUser => Some(ExclusionReason::ExcludedUser),
            Selected::ExcludedCgroup => Some(ExclusionReason::ExcludedCgroup),
            _ => ProcStat::is_real_time(stat.class).then_some(ExclusionReason::RealTime),
        }
    }
}

/// Returns `None` if the error means that the thread has exited.
fn unless_exited<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_large_environments_that_a_turn_reads_is_bounded() {
        let reads = LargeEnvirons::default();
        let n_read = |at| (0..100).filter(|_| reads.may_read(Nanos(at))).count();
        assert_eq!([n_read(1), n_read(1), n_read(2)], [8, 0, 8]);
    }
}
