//! Reasons for placements of single threads, and the text of the rule that they share with the reasons of jobs.

use sched::reasons;

/// The rule that selected a kind, as text of a reason.
macro_rules! rule {
    () => {
        concat!(
            "[rule=below: below {bound}, the highest on the {beside} cores]",
            "[rule=above: above {bound}, the lowest on the {beside} cores]",
            "[rule=between: between those on the other cores, so the kind with fewer tasks per core]",
            "[rule=idle: a faster core is idle]",
            "[rule=only: the only kind with enough CPUs for the job]",
        )
    };
}

pub(super) use rule;

reasons! {
    /// A thread gets its first kind.
    IB_THREAD_STARTED = "ib-thread-started":
        concat!("the thread starts with integrated behaviour {ib} ([global=known: from the profile of its program][global=unknown: its program has no profile]): ", rule!(), "; tasks {before} before and {after} after: it gets the {kind} cores ({cpus})");
    /// A thread changes its kind because of a new phase.
    IB_THREAD_PHASE = "ib-thread-phase":
        concat!("a new phase of the thread is [phase=stable: stable][phase=unstable: not stable after {n_intervals} intervals]: local behaviour {local}, global {global}, integrated {ib}: ", rule!(), "; tasks {before} before and {after} after: it migrates from the {from} to the {kind} cores ({cpus})");
    /// A thread changes its kind for balance.
    IB_THREAD_BALANCED = "ib-thread-balanced":
        "the {from} cores had more tasks per core than beta {beta} permits ({before}), and integrated behaviour {ib} was the [end=highest: highest][end=lowest: lowest] there[similar=highest: , of similar threads the one with the least remaining work ({remaining})][similar=lowest: , of similar threads the one with the most remaining work ({remaining})]: the thread migrates to the {kind} cores ({cpus}), tasks {after}";
    /// A thread migrates to an idle core of a faster kind.
    IB_THREAD_IDLE = "ib-thread-idle-core":
        "a {kind} core was idle (tasks {before}), and integrated behaviour {ib} was the lowest on the {from} cores[similar=lowest: , of similar threads the one with the most remaining work ({remaining})]: the thread migrates to the {kind} cores ({cpus}), tasks {after}";
    /// The only runnable thread of a program gets the fastest cores.
    IB_SERIAL = "ib-serial-phase":
        "a serial phase: only this thread of its program was runnable in the last {n_intervals} intervals, so its integrated behaviour {ib} counts as 0; tasks {before} before and {after} after: it migrates from the {from} to the {kind} cores ({cpus})";
    /// A serial phase ended.
    IB_PARALLEL = "ib-serial-end":
        concat!("the serial phase ended ({n_threads} threads are runnable), and integrated behaviour {ib} counts again: ", rule!(), "; tasks {before} before and {after} after: it migrates from the {from} to the {kind} cores ({cpus})");
    /// The threads of a program are placed on several kinds together.
    IB_COSCHEDULED = "ib-coscheduled":
        "co-scheduling of {n_threads} runnable threads ({split}): the work of the last interval is predicted to take {after} ms instead of {before} ms; the thread migrates from the {from} to the {kind} cores ({cpus})";
}
