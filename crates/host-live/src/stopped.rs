//! Jobs that wait for ever because they want the terminal.
//!
//! The terminal belongs to the process group in the foreground, which is ours. Who reads it from
//! another group is stopped by the kernel, silently: without a word the run would wait with it.

use rustix::process::Signal;

use crate::host::LiveHost;

impl LiveHost {
    /// Says once for a job that it was stopped by the terminal, and what to do.
    pub(crate) fn say_stopped(&mut self) {
        if !self.options.is_sole_parent {
            return; // Whoever uses this library may wait for its own children that way.
        }
        while let Some((pid, signal)) = linux::child_exit::next_stopped() {
            let verb = match signal {
                _ if signal == Signal::TTIN.as_raw() => "reads",
                _ if signal == Signal::TTOU.as_raw() => "changes",
                _ => continue, // Somebody wants it so.
            };
            let Some(&job) = self.first_process_of.get(&pid) else { continue };
            let name = self.slots[job.index()].job.name.clone();
            let said = self.running(job).map(|running| &mut running.said_stopped);
            if said.is_some_and(|said| !std::mem::replace(said, true)) {
                self.degraded(&format!(
                    "{name}: stopped by the kernel, since it {verb} the terminal, which no job has: \
                     give it an input file, or end it (kill -KILL {pid})"
                ));
            }
        }
    }
}
