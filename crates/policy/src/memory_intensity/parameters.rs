//! Parameters and reasons that all policies of this family have.

use base::Nanos;
use sched::reasons;
use topology::DomainChoice;

use crate::declaration::{self, MILLION, Param, Values, names};
use crate::{IfMissing, Params, RequiredSignal, Signal};

/// Configuration that all policies of this family have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub busy: BusyTime,
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

impl Common {
    pub fn new(params: &Params<'_>) -> Self {
        Common {
            domains: params.cache_domains(),
            interval: params.time("interval"),
            busy: params.named("busy"),
        }
    }
}

pub(crate) const DOMAINS: Param = declaration::DOMAINS.help(
    "level of the placement domains that count as caches; auto is LLC domains if there are at least two, \
     else nodes, else cores",
);

/// Once a second [confirmed: Clavis].
pub(crate) const INTERVAL: Param = declaration::INTERVAL
    .default("1s")
    .published()
    .help("time between two samples of the threads' activity");

pub(crate) const BUSY: Param = Param::new(
    "busy",
    BusyTime::VALUES,
    "runnable",
    "a job that uses less than 90 % of a CPU for each of its threads is left to the kernel; used is CPU \
     time, or CPU time plus wait time",
)
.paper("ran");

pub(crate) const FAILURES: Param = Param::new(
    "failures",
    Values::whole("", 1, MILLION),
    "4",
    "number of intervals in a row without misses and instructions, counted or declared, after which the run \
     ends",
);

/// The signals of a policy that counts.
pub(crate) const MISSES_PER_INSTRUCTION: &[RequiredSignal] = &[
    RequiredSignal { signal: Signal::Instructions, if_missing: IfMissing::EndsRun },
    RequiredSignal { signal: Signal::LlcMisses, if_missing: IfMissing::EndsRun },
];

reasons! {
    /// A job that uses little CPU time is left to the kernel.
    NOT_BUSY = "not-busy":
        "the job used {used} % of the CPU time of its {n_threads} threads in the last interval, less than {limit} %: the kernel schedules it";
    /// Pages follow a job to another node.
    MEMORY_MOVES_WITH_JOB = "memory-moves-with-job":
        "the job migrates from {from} to {to}, and its own pages[ ({size})] with it";
}
