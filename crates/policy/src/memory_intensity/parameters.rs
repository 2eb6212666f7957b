//! Parameters and reasons of all policies that distribute memory-hungry threads over caches.

use sched::reasons;
use topology::DomainChoice;

use super::rates::Rate;
use crate::declaration::{
    self, MILLION, Param, ParamValue, READING, Values, names, params, parse_integer,
};
use crate::{IfMissing, RequiredSignal, Signal};

/// Parameters that precede the parameters of a policy. `domains=auto` prefers LLC domains.
pub(crate) const FIRST_PARAMS: &[Param] = &[
    READING,
    Param {
        values: Values::Domains(DomainChoice::Caches),
        ..declaration::DOMAINS.help(
            "level of the placement domains that count as caches; auto is LLC domains if there are at least two, \
             else nodes, else cores",
        )
    },
    // Clavis samples once a second.
    declaration::INTERVAL
        .default("1s")
        .published()
        .help("time between two samples of the threads' activity"),
];

params! {
    /// Configuration of all policies that distribute memory-hungry threads over caches.
    pub(crate) struct Common from COMMON_PARAMS {
        busy: BusyTime = "runnable", "a job whose utilization is below 90 % per thread is released to the kernel; \
            utilization: runnable, CPU time plus wait time; ran, CPU time only".paper("ran");
    }
}

names! {
    /// Time that counts as use of a CPU.
    pub(crate) enum BusyTime {
        /// CPU time and wait time.
        Runnable = "runnable",
        /// CPU time.
        Ran = "ran",
    }
}

/// The last parameter of a policy that counts misses.
pub(crate) const FAILURES: Param = Param::new(
    "failures",
    Values::integer("", 1, MILLION),
    "4",
    "number of intervals in a row without misses and instructions, counted or declared, after which the run \
     ends",
);

/// A rate in a parameter is in events per 10 000 instructions, the unit of Clavis.
impl ParamValue for Rate {
    const VALUES: Values = Values::integer("events per 10000 instructions", 1, 10_000);
    fn read(text: &str, _: &Values) -> Option<Self> {
        parse_integer(text).map(Rate::per_10_000)
    }
}

/// Signals that a policy with counted rates requires.
pub(crate) const MISSES_PER_INSTRUCTION: &[RequiredSignal] = &[
    RequiredSignal { signal: Signal::Instructions, if_missing: IfMissing::EndsRun },
    RequiredSignal { signal: Signal::LlcMisses, if_missing: IfMissing::EndsRun },
];

reasons! {
    /// A job that uses little CPU time is released to the kernel.
    NOT_BUSY = "not-busy":
        "the job used {used} % of the CPU time of its threads ({n_threads}) in the last interval, less than {limit} %: the kernel schedules it";
    /// Pages follow a job to another node.
    MEMORY_MOVES_WITH_JOB = "memory-moves-with-job":
        "the job migrates from [origin=node: {from}][origin=several: several nodes] to {to}, and its private pages[ ({size})] with it";
}
