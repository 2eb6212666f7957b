//! Declarations of N-MASS and maximum-local: parameters, reasons and source.

use base::Nanos;
use sched::reasons;
use topology::DomainChoice;

use super::NMass;
use crate::declaration::{self, MILLION, Param, READING, Values, names};
use crate::memory_intensity::parameters::{FAILURES, MISSES_PER_INSTRUCTION};
use crate::{Params, PolicyInfo, notes};

const SOURCE: &str = "Z. Majo, T. R. Gross, Memory Management in NUMA Multicore Systems: Trapped between Cache \
                      Contention and Interconnect Overhead, ISMM 2011";

pub(crate) const MAXIMUM_LOCAL: PolicyInfo = PolicyInfo {
    name: "maximum-local",
    summary: "Runs each job on the node of its memory, jobs with the highest remote penalty first.",
    source: SOURCE,
    signals: &[],
    params: &[DOMAINS, INTERVAL, WINDOW, EVEN, NP_STEP],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, _seed| {
        Ok(Box::new(NMass::new(Config::maximum_local(params), MAXIMUM_LOCAL.name)))
    }),
};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "nmass",
    summary: "Runs each job on the node of its memory, and migrates jobs with a low remote penalty away from a \
              processor whose jobs have many more cache misses than those of another.",
    source: SOURCE,
    signals: &[MISSES_PER_INSTRUCTION[1], MISSES_PER_INSTRUCTION[0]],
    params: &[
        READING,
        DOMAINS,
        INTERVAL,
        Param::new(
            "d_min",
            Values::decimal("misses per 1000 instructions", MILLION),
            "2",
            "minimum difference in pressure between two processors for a migration",
        ),
        Param::new(
            "k",
            Values::decimal("", MILLION),
            "0.01",
            "the largest accepted penalty is 1 + k × the difference in pressure: with 0.01 a difference of 20 \
             justifies 20 %",
        ),
        Param::new(
            "swap",
            Swap::VALUES,
            "yes",
            "whether a job swaps its core with a job that has fewer misses, if the target has no free core",
        )
        .paper("no"),
        WINDOW,
        EVEN,
        NP_STEP,
        FAILURES,
    ],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(NMass::new(Config::nmass(params), INFO.name)))),
};

const DOMAINS: Param = declaration::DOMAINS.help(
    "level of the placement domains that count as processors; auto is the coarsest level with at least two",
);

const INTERVAL: Param = declaration::INTERVAL
    .default("1s")
    .help("time between two decisions; starts and ends cause a decision immediately");

const WINDOW: Param = Param::new(
    "window",
    Values::whole("intervals", 1, 1000),
    "10",
    "number of intervals over which cycles and misses per instruction are averaged (guessed)",
);

const EVEN: Param = Param::new(
    "even",
    Values::Decimal { unit: "", min: MILLION, max: 1000 * MILLION },
    "1.25",
    "pages are spread evenly if no node holds more than this multiple of an equal share (guessed)",
);

const NP_STEP: Param = Param::new(
    "np_step",
    Values::Decimal { unit: "", min: 1000, max: MILLION },
    "0.05",
    "minimum change of a counted penalty, so that noise causes no migration (guessed)",
);

names! {
    enum Swap { Yes = "yes", No = "no" }
}

reasons! {
    /// The home has free slots.
    HOME_FREE = "home-free":
        "[some of the job's CPUs ({lost}) became unusable: ]its home is {home}, {domain} had {free} of {slots} slots free when the job was placed, and its remote penalty is {penalty} ({penalty_by}); {cpus} had the fewest jobs there";
    /// The home is full.
    HOME_FULL = "home-full":
        "[some of the job's CPUs ({lost}) became unusable: ]its home is {home}, which had no free slot when the job was placed (remote penalty {penalty}, {penalty_by}); {domain} was the least occupied of the others ({taken} of {slots} slots); {cpus} had the fewest jobs there";
    /// The job has no home.
    NO_HOME = "no-home":
        "[some of the job's CPUs ({lost}) became unusable: ]its home is {home}; {domain} was the least occupied ({taken} of {slots} slots); {cpus} had the fewest jobs there";
    /// The job has no home and keeps its domain.
    STAYS_THERE = "stays-there":
        "its home is {home}, so the job stays on {domain}; {cpus} had the fewest jobs there";
    /// No domain has a free slot.
    PLACES_FULL = "places-full":
        "[some of the job's CPUs ({lost}) became unusable: ]no slot was free when the job was placed (remote penalty {penalty}, {penalty_by}; home {home}); {domain} was the least occupied of the domains that it may use ({taken} of {slots} slots); {cpus} had the fewest jobs there";
    /// The job leaves a cache with too much pressure.
    PRESSURE_UNEVEN = "pressure-uneven":
        "{from} had a pressure of {press_from} misses per 1000 instructions and {to} {press_to}, a difference of more than {d_min}; this job has the lowest remote penalty ({penalty}, {penalty_by}; home {home}; at most {penalty_max} is accepted) of the jobs on {from} whose migration lowers the larger pressure: with its {mpki} on {to}[ and the {other_mpki} of {other} on {from}], {left_from} and {left_to} remain; {cpus} had the fewest jobs on {domain}";
    /// The job swaps with one that leaves.
    PRESSURE_SWAPPED = "pressure-swapped":
        "{from} had a pressure of {press_from} misses per 1000 instructions and {to} {press_to}, a difference of more than {d_min}, and {to} had no free slot: {other} ({other_mpki}) migrates there, and this job ({mpki}), which has the fewest misses of the movable jobs there (remote penalty {penalty}, {penalty_by}; home {home}; at most {penalty_max} is accepted), migrates to {from}; {left_from} and {left_to} remain; {cpus} had the fewest jobs on {domain}";
    /// Note: misses are unknown.
    PRESSURE_UNKNOWN = "pressure-unknown":
        "cache misses per instruction are neither counted nor declared by a profile: jobs stay on the node of their memory, whatever the pressure on its cache";
}

/// Configuration of both policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    /// Intervals per average.
    pub window: u64,
    /// Pages are spread evenly if no node holds more than this share of an equal part.
    pub even_permille: u64,
    /// Minimum change of a counted penalty.
    pub step_permille: u64,
    /// The third step; `None` in maximum-local.
    pub refine: Option<Refine>,
}

/// Configuration of the third step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refine {
    /// Minimum difference in pressure, in thousandths of a miss per 1000 instructions.
    pub d_min_milli: u64,
    /// Penalty that a miss per 1000 instructions of difference justifies, in millionths.
    pub k_millionths: u64,
    /// Whether two jobs may swap if the target has no free slot.
    pub swap: bool,
    /// Intervals in a row without signals after which the run ends.
    pub failures: u64,
}

impl Config {
    pub fn nmass(params: &Params<'_>) -> Self {
        let refine = Refine {
            d_min_milli: params.permille("d_min"),
            k_millionths: params.millionths("k"),
            swap: params.named::<Swap>("swap") == Swap::Yes,
            failures: params.whole("failures"),
        };
        Config { refine: Some(refine), ..Config::maximum_local(params) }
    }

    pub fn maximum_local(params: &Params<'_>) -> Self {
        Config {
            domains: params.domains(),
            interval: params.time("interval"),
            window: params.whole("window"),
            even_permille: params.permille("even"),
            step_permille: params.permille("np_step"),
            refine: None,
        }
    }
}
