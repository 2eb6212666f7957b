//! Reasons for the placements of jobs and threads, and observations about their phases.

use sched::reasons;

/// The rule that selected a kind, as text of a reason.
macro_rules! rule {
    () => {
        concat!(
            "[rule=below: below {bound}, the highest compared on the {beside} cores]",
            "[rule=below-start: at the start {start}, below {bound}, the highest at the start of those compared on the {beside} cores]",
            "[rule=below-similar: below {bound}, the behaviour of the thread with the least remaining work among those similar to the highest on the {beside} cores]",
            "[rule=above: above {bound}, the lowest compared on the {beside} cores]",
            "[rule=above-start: at the start {start}, above {bound}, the lowest at the start of those compared on the {beside} cores]",
            "[rule=above-similar: above {bound}, the behaviour of the thread with the most remaining work among those similar to the lowest on the {beside} cores]",
            "[rule=between: between those on the other cores, so the kind with the lower load]",
            "[rule=stays: between those on the other cores, and the gain on the other kind is too small]",
            "[rule=idle: between those on the other cores, and a faster core would be idle without this {unit}]",
            "[rule=idle-slower: between those on the other cores, and only a slower core would be idle without this {unit}]",
            "[rule=left: between those on the other cores, and a job with a higher behaviour leaves a core for an idle slower one]",
            "[rule=nearly-equal: compared with {bound} on the {beside} cores it would change its kind, but the speeds of both kinds differ by at most 5 %]",
            "[rule=only: the only kind with enough CPUs for the job]",
            "[rule=serial: in a serial phase the only runnable thread of its program gets the fastest cores]",
        )
    };
}

/// The job or thread that changes its kind for balance, as text of a reason.
macro_rules! end {
    () => {
        concat!(
            "integrated behaviour {ib} was the [end=highest: highest][end=lowest: lowest] of those on the {from} cores that can migrate",
            "[similar=highest: , or less than 0.05 below it: of these threads it has the least remaining work ({remaining} {work})]",
            "[similar=lowest: , or less than 0.05 above it: of these threads it has the most remaining work ({remaining} {work})]",
            ": the {unit} migrates from the {from} to the {kind} cores ({cpus}), tasks {after}",
        )
    };
}

/// A phase and its reschedule, as text of a reason.
macro_rules! phase {
    () => {
        concat!(
            "the phase since interval {began} is [phase=stable: stable in interval {interval}]",
            "[phase=unstable: not stable after {n_intervals} intervals]: local behaviour {local}, global {global}, ",
            "integrated {ib}: ",
            rule!(),
            "; tasks {before} before and {after} after",
        )
    };
}

reasons! {
    /// A job or thread gets its first kind.
    IB_STARTED = "ib-started":
        concat!("the {unit} starts with integrated behaviour {ib} ([global=known: from its profile][global=unknown: it has no profile, so it counts as computing]): ", rule!(), "; tasks {before} before and {after} after[; a later step of this turn moves it from the {left} cores]: it gets the {kind} cores ({cpus})");
    /// A job or thread changes its kind because of a new phase.
    IB_PHASE = "ib-phase":
        concat!(phase!(), ": it migrates[ from the {from}] to the {kind} cores ({cpus})");
    /// A job or thread is rescheduled because of a new phase; its request, if any, has another reason.
    IB_PHASE_QUEUED = "ib-phase-queued":
        concat!(phase!(), ": its queue is that of the {kind} cores");
    /// A phase may begin.
    IB_CHANGE = "ib-change":
        "[first=yes: the first phase of the {unit} begins in interval {interval}: local behaviour {local}][first=no: the local behaviour changed from {from} to {local} in interval {interval}: a new phase may begin]";
    /// A phase is filtered.
    IB_FILTERED = "ib-phase-filtered":
        "the phase since interval {began} is filtered: [why=too-short: it was too short, in interval {interval} the local behaviour {local} is as before it][why=unchecked: it was not stable in interval {interval} (local behaviour {local}), and is checked only once]";
    /// A job or thread changes its kind for balance of the tasks per core.
    IB_BALANCED = "ib-balanced":
        concat!("the load of the {from} cores was higher than beta {beta} permits (tasks {before}), and ", end!());
    /// A job or thread changes its kind for balance of the predicted times.
    IB_SHORTER = "ib-shorter-times":
        concat!("the predicted times of all tasks shorten, in total by {gain} of the time of one task (tasks {before}), and ", end!());
    /// A job or thread migrates to an idle core of another kind.
    IB_IDLE = "ib-idle-core":
        concat!("a {kind} core was idle (tasks {before}), and ", end!());
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
