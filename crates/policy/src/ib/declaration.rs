//! Declaration of the integrated-behaviour policy: parameters and source.

use base::Nanos;

use super::{IntegratedBehaviour, reasons};
use crate::declaration::{INTERVAL_TIMES, Millionths, READING, Values, names, params};
use crate::{IfMissing, PolicyInfo, RequiredSignal, Signal, core_kinds};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "ib",
    summary: "Places memory-bound jobs on slow cores and compute-bound jobs on fast cores, and migrates them only at \
              the start of a stable phase.",
    source: "R. Chen, D. Qi, W. Lin, J. Li, Comprehensive Scheduling Algorithm for Asymmetric Multi-core Processors \
             (in Chinese), Journal of Software 24(2), 2013",
    signals: &[
        RequiredSignal {
            signal: Signal::LlcMisses,
            if_missing: IfMissing::Degrades("a job keeps the integrated behaviour of its profile"),
        },
        RequiredSignal {
            signal: Signal::MissCurve,
            if_missing: IfMissing::Degrades(
                "the global behaviour of a job is the mean of its intervals, used after 20 intervals",
            ),
        },
    ],
    params: &[&[READING], PARAMS],
    reasons: &[core_kinds::REASONS, reasons::REASONS],
    work_conserving: false,
    needs_core_kinds: true,
    rules: Some(|params, _seed| Box::new(IntegratedBehaviour::new(Config::new(params)))),
};

/// Beta is below 1: with 1, every imbalance would be permitted.
const BETAS: Values = Values::Decimal { unit: "", min: 0, max: 999_999 };

/// Signal of `metric=miss-ratio`.
const ACCESSES: RequiredSignal = RequiredSignal {
    signal: Signal::LlcReferences,
    if_missing: IfMissing::Degrades("a job keeps the integrated behaviour of its profile"),
};

params! {
    /// Configuration of the policy.
    pub(super) struct Config from PARAMS {
        metric: Metric = "mpki", "behaviour of an interval: mpki, LLC misses per 1000 instructions divided by 30, at most \
            1; miss-ratio, LLC misses per access, which ranks programs with few accesses too high".paper("miss-ratio").requires_signal("miss-ratio", ACCESSES);
        alpha: Millionths [Values::decimal("", 1)] = "0.3", "weight of the global behaviour (whole run) in the integrated \
            behaviour; the rest is the local behaviour (last intervals). Published: 0.3 with one node, 0.8 and 0.6 with \
            four. The more a migration costs, the nearer to 1".published();
        beta: Millionths [BETAS] = "0", "permitted imbalance of load between two kinds: 0, none. With load=time, a \
            migration for balance must gain more than this share of the time of one task, and more than 5 %. Published: 0 \
            with one node, 0.3 with four".published();
        change: Millionths = "12%", "relative change of the local behaviour that begins a new phase".published();
        stable: Millionths = "5%", "relative change of the local behaviour below which a phase is stable".published();
        window: u64 [Values::integer("intervals", 1, 100)] = "3", "number of intervals whose mean is the local behaviour".published();
        check: Check = "repeated", "repeated: from the second interval after a change on, until the phase is stable; once: \
            only in the second interval, so that most large changes are missed".paper("once");
        first_window_is_change: bool = "yes", "whether the first phase of a job is handled as a change".paper("no");
        unknown_start: StartValue = "global", "integrated behaviour of a job that starts: global, its global behaviour, \
            and jobs without a counted phase are compared by these values; zero-local, as if its local behaviour were 0, and \
            all jobs are compared by their integrated behaviours".paper("zero-local");
        balance: Balance = "improving", "improving: a job migrates for balance only if that lowers the imbalance, does not \
            leave a fast core idle, and the job was not placed in this step; jobs also migrate when jobs end; always: as printed"
            .paper("always");
        load: Load = "time", "load of a core kind: time, the predicted time of a task there, from the number of tasks, the \
            capacity of the kind, SMT and the memory time of the task; tasks, the number of tasks per core".paper("tasks");
        margin: Millionths [Values::decimal("", 1)] = "0.1", "difference of integrated behaviour above which a job changes \
            its kind (guessed)".paper("0");
        tlp: bool = "no", "thread-level parallelism: the only runnable thread of a program in a serial phase gets a fast \
            core. With tlp, lrt or cosched, each thread of a job with several threads is placed separately"
            .for_several_threads();
        lrt: bool = "no", "longest remaining time first: of threads with about the same behaviour, the one with more remaining \
            work is nearer to the fast cores".for_several_threads();
        cosched: bool = "no", "co-scheduling: the runnable threads of a program migrate to all core kinds in one step if \
            the predicted time of the slowest thread decreases by more than 5 %".for_several_threads();
        interval: Nanos [INTERVAL_TIMES] = "200ms", "time between two samples".published();
    }
}

names! {
    /// Behaviour of an interval.
    pub(super) enum Metric { Mpki = "mpki", MissRatio = "miss-ratio" }
}

names! {
    /// When a new phase is checked for stability.
    pub(super) enum Check { Repeated = "repeated", Once = "once" }
}

names! {
    /// Integrated behaviour of a job that starts.
    pub(super) enum StartValue { Global = "global", ZeroLocal = "zero-local" }
}

names! {
    /// Conditions of a migration for balance.
    pub(super) enum Balance { Improving = "improving", Always = "always" }
}

names! {
    /// Load of a core kind.
    pub(super) enum Load { Time = "time", Tasks = "tasks" }
}

impl Config {
    /// Returns whether the threads of parallel programs are placed separately.
    pub fn uses_threads(&self) -> bool {
        self.tlp || self.lrt || self.cosched
    }
}
