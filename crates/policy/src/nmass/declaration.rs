//! Declarations of N-MASS and maximum-local: source, parameters and reasons.

use sched::reasons;

use super::NMass;
use crate::PolicyInfo;
use crate::declaration::{self, MILLION, Millionths, Param, READING, Values, params};
use crate::memory_intensity::parameters::{FAILURES, MISSES_PER_INSTRUCTION};
use crate::notes;

pub(crate) const MAXIMUM_LOCAL: PolicyInfo = PolicyInfo {
    name: "maximum-local",
    summary: "Runs each job on the node of its memory, jobs with the highest remote penalty first.",
    source: "Z. Majo, T. R. Gross, Memory Management in NUMA Multicore Systems: Trapped between Cache \
             Contention and Interconnect Overhead, ISMM 2011",
    signals: &[],
    params: &[FIRST_PARAMS, PARAMS],
    reasons: &[notes::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(NMass::new(params, None))),
};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "nmass",
    summary: "Runs each job on the node of its memory, and migrates jobs with a low remote penalty away from a \
              processor whose jobs have many more cache misses than those of another.",
    signals: &[MISSES_PER_INSTRUCTION[1], MISSES_PER_INSTRUCTION[0]],
    params: &[&[READING], FIRST_PARAMS, REFINE_PARAMS, PARAMS, &[FAILURES]],
    rules: Some(|params, _seed| Box::new(NMass::new(params, Some(Refine::new(params))))),
    ..MAXIMUM_LOCAL
};

const FIRST_PARAMS: &[Param] = &[
    declaration::DOMAINS.help(
        "level of the placement domains that count as processors; auto is the coarsest level with at least two",
    ),
    declaration::INTERVAL
        .default("1s")
        .help("time between two decisions; starts and ends cause a decision immediately"),
];

params! {
    /// Configuration of both policies.
    pub(super) struct Config from PARAMS {
        window: u64 [Values::integer("intervals", 1, 1000)] = "10",
            "number of intervals over which cycles and misses per instruction are averaged (guessed)";
        even: Millionths [Values::Decimal { unit: "", min: MILLION, max: 1000 * MILLION }] = "1.25",
            "pages are spread evenly if no node has more than this multiple of an equal share (guessed)";
        np_step: Millionths [Values::Decimal { unit: "", min: 1000, max: MILLION }] = "0.05",
            "minimum change of a counted penalty, so that noise causes no migration (guessed)";
    }
}

params! {
    /// Configuration of the third step.
    pub(super) struct Refine from REFINE_PARAMS {
        d_min: Millionths [Values::decimal("misses per 1000 instructions", MILLION)] = "2",
            "minimum difference in pressure between two processors for a migration";
        k: Millionths [Values::decimal("", MILLION)] = "0.01",
            "the largest accepted penalty is 1 + k × the difference in pressure: with 0.01 a difference of 20 justifies \
            20 %";
        swap: bool = "yes",
            "whether a job swaps its core with a job that has fewer misses, if the target has no free core".paper("no");
    }
}

/// The home of a job and its source.
macro_rules! home {
    () => {
        concat!(
            "[home_source=memory: {home} (which has {on_node} of its {total})]",
            "[home_source=declared: {home} (its declared memory node)]",
            "[home_source=start: {home} (where it started)]",
            "[home_source=even: any node (no node has more than {on_node} of its {total})]",
            "[home_source=no-pages: any node (it has no pages yet)]",
        )
    };
}

/// The source of the remote penalty of a job.
macro_rules! penalty_source {
    () => {
        concat!(
            "[penalty_source=no-home: it has no home][penalty_source=counted: as counted]",
            "[penalty_source=declared: as declared][penalty_source=unknown: unknown]",
        )
    };
}

reasons! {
    /// The home has free slots.
    HOME_FREE = "home-free":
        concat!("[some of the job's CPUs ({lost}) became unusable: ]its home is ", home!(), ", {domain} had {free} of {slots} slots free when the job was placed, and its remote penalty is {penalty} (", penalty_source!(), "); {cpus} had the fewest jobs there");
    /// The home is full.
    HOME_FULL = "home-full":
        concat!("[some of the job's CPUs ({lost}) became unusable: ]its home is ", home!(), ", which had no free slot when the job was placed (remote penalty {penalty}, ", penalty_source!(), "); {domain} was the least occupied of the others ({taken} of {slots} slots); {cpus} had the fewest jobs there");
    /// The job has no home.
    NO_HOME = "no-home":
        concat!("[some of the job's CPUs ({lost}) became unusable: ]its home is ", home!(), "; {domain} was the least occupied ({taken} of {slots} slots); {cpus} had the fewest jobs there");
    /// The job has no home and keeps its domain.
    STAYS_THERE = "stays-there":
        concat!("its home is ", home!(), ", so the job stays on {domain}; {cpus} had the fewest jobs there");
    /// No domain has a free slot.
    NO_FREE_SLOT = "no-free-slot":
        concat!("[some of the job's CPUs ({lost}) became unusable: ]no slot was free when the job was placed (remote penalty {penalty}, ", penalty_source!(), "; home ", home!(), "); {domain} was the least occupied of the domains that it may use ({taken} of {slots} slots); {cpus} had the fewest jobs there");
    /// The job migrates from the processor with the largest pressure.
    PRESSURE_UNEVEN = "pressure-uneven":
        concat!("{from} had a pressure of {pressure_from} misses per 1000 instructions and {to} {pressure_to}, a difference of more than {d_min}; this job has the lowest remote penalty ({penalty}, ", penalty_source!(), "; home ", home!(), "; at most {penalty_max} is accepted) of the jobs on {from} whose migration lowers the larger pressure: with its {mpki} on {to}[ and the {other_mpki} of {other} on {from}], {left_from} and {left_to} remain; {cpus} had the fewest jobs on {domain}");
    /// The job swaps with a job that migrates.
    PRESSURE_SWAPPED = "pressure-swapped":
        concat!("{from} had a pressure of {pressure_from} misses per 1000 instructions and {to} {pressure_to}, a difference of more than {d_min}, and {to} had no free slot: {other} ({other_mpki}) migrates there, and this job ({mpki}), which has the fewest misses of the movable jobs there (remote penalty {penalty}, ", penalty_source!(), "; home ", home!(), "; at most {penalty_max} is accepted), migrates to {from}; {left_from} and {left_to} remain; {cpus} had the fewest jobs on {domain}");
    /// Note: misses are unknown.
    PRESSURE_UNKNOWN = "pressure-unknown":
        "cache misses per instruction are neither counted nor declared by a profile: jobs stay on the node of their memory, independent of the pressure on its cache";
}
