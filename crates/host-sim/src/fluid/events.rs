//! Events of the fluid model. Events at one instant have this order: CPUs, threads that wait for each other, wake-ups,
//! events of the kernel, page migration.

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FluidEvent {
    /// The first segment on a CPU ends.
    Cpu(usize),
    /// Threads of a job that wait for each other have executed a part. The generation shows whether the job has ended.
    Threads(usize, u64),
    /// The sleep of a task ends. The generation shows whether the slot of the task was reused.
    Wake(usize, u64),
    /// Load balancing of the whole machine.
    Balance,
    /// Load balancing among the busy CPUs of a domain.
    BalanceBusy(usize),
    /// NUMA balancing scans the pages of a job. The generation has the same purpose as in `Wake`.
    NumaScan(usize, u64),
    /// A batch of a page migration ended.
    PagesMoved,
}
