//! Declaration of DFS: parameters, reasons and source.

use base::Nanos;
use sched::{CounterEvent, Wake, reasons};

use super::Dfs;
use crate::declaration::{
    DOMAINS, INTERVAL, MILLION, Millionths, ParamValue, READING, Values, names, params,
    parse_decimal, parse_integer, percent,
};
use crate::placement::Bind;
use crate::{IfMissing, PolicyInfo, RequiredSignal, Signal, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "dfs",
    summary: "Starts each job on the domain with the lowest memory load, and migrates the most \
              memory-hungry job away from an overloaded domain.",
    source: "D. Edholm, A. Löfgren, V. Nilsson, Processchemaläggare för mångkärniga processorer – Fördelning av \
             minnesbelastning i NUMA-system (in Swedish), bachelor's thesis, Chalmers University of Technology and University of \
             Gothenburg, 2014, sections 4.1 to 4.5",
    signals: &[RequiredSignal {
        signal: Signal::Loads,
        if_missing: IfMissing::Degrades(
            "jobs are spread evenly over the domains at start, and none migrates",
        ),
    }],
    params: &[
        &[
            READING,
            DOMAINS,
            INTERVAL.published().help("time between two polls of the memory controllers"),
        ],
        PARAMS,
    ],
    reasons: &[notes::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(Dfs::new(Config::new(params)))),
};

const UP_TO_A_MINUTE: Values = Values::Time(Nanos::ZERO, Nanos::from_secs(60));
/// Ratios of gain to cost. With 0, neither the cost nor the slope would have an effect.
const RATIO: Values = Values::Decimal { unit: "", min: 1000, max: 1000 * MILLION };
/// Slopes. With 0, no migration would have a gain.
const SLOPE: Values = Values::Decimal { unit: "", min: 1000, max: MILLION };

params! {
    /// The configuration of DFS.
    pub(super) struct Config from PARAMS {
        wake: Wake = "poll", "extension: a poll in every interval, or only in intervals in which a counter of EVENT \
            reached COUNT on one CPU (or, with fewer privileges, of one thread), and every two seconds";
        trigger: Trigger = "mean_factor", "imbalance that causes a migration: mean_factor, a load above factor times the \
            mean; ratio, a largest load of at least twice the smallest";
        factor: Factor = "auto", "largest accepted ratio of a load to the mean; auto is 2n/(n+1) for n domains: one \
            domain carries twice the load of each other domain".no_effect_with(&["trigger=ratio"]);
        migrations_per_poll: u64 [Values::integer("", 1, 1000)] = "1",
            "maximum number of jobs that migrate in one poll".published();
        cooldown: u64 [Values::integer("polls", 0, MILLION)] = "8",
            "minimum number of polls between two migrations of a job".paper("0");
        min_load: MinLoad = "1%", "minimum total load for a migration; the peak is the largest load of one domain so \
            far, auto is 1%".paper("0");
        only_job: OnlyJob = "stay", "whether the only job on the busiest domain migrates, which would only relocate the \
            hot spot".paper("move");
        start: Start = "estimate", "loads for jobs that start between two polls: measured plus the mean load of each \
            started job's class, ties by number of jobs, then by classes; or as measured, ties by domain number"
            .paper("plain");
        failures: u64 [Values::integer("", 1, MILLION)] = "4",
            "number of polls in a row with unreadable counters after which the run ends";
        bind: Bind = "cpu", "a CPU for each thread of a job, or all CPUs of its domain".published();
        placement: PlacementCriterion = "load", "extension: criterion for start, victim and target: the loads of domains, or the \
            sum of the slowdowns predicted from each program's sensitivity";
        classes: Classification = "declared", "extension: classes as declared, or from the cache misses of a job's tasks \
            over 8 polls, once 4 polls agree";
        loads: Loads = "auto", "extension: source of loads: the memory controllers, or the counters of tasks; both: the \
            controllers select the domain, the misses of tasks select the victim; auto is the best available source, and \
            classes select the victim".no_effect_with(&["loads=both and placement=sens"]);
        memory: PageFollowing = "stay", "extension: pages stay on the node of their first touch, or follow a job to another \
            node, while less than 90 % of them are there and more than 1.2 times their size is free there"
            .no_effect_with(&["memory=follow and domains=llc", "memory=follow and domains=core"]);
        /// Minimum ratio of gain to cost; `None`: gain and cost are not estimated.
        gain: Option<Millionths> [Values::Or("off", &RATIO)] = "off", "extension: minimum ratio of \
            gain to cost for a migration; gain: time left × share of the load × slope, cost: pages × page_migration + refill";
        slope: Millionths [SLOPE] = "0.2", "share of its time that a job with all the load of an \
            overloaded domain loses (guessed)".no_effect_with(&["gain=off"]);
        page_migration: Nanos [UP_TO_A_MINUTE] = "2us", "cost of migrating a page, until 256 pages have been measured \
            (guessed)".no_effect_with(&["gain=off", "memory=stay", "domains=llc", "domains=core"]);
        refill: Nanos [UP_TO_A_MINUTE] = "5ms", "cost of refilling the caches after a migration (guessed)"
            .no_effect_with(&["gain=off"]);
    }
}

names! {
    /// Placement of the pages of a job that migrated.
    pub(super) enum PageFollowing { Stay = "stay", Follow = "follow" }
}

names! {
    /// Criterion for start, victim and target.
    pub(super) enum PlacementCriterion {
        /// Loads of domains and classes of jobs.
        Load = "load",
        /// Predicted slowdowns of all jobs.
        Sens = "sens",
    }
}

names! {
    /// Source of loads, and of the order of victims.
    pub(super) enum Loads {
        /// The best available signal of a domain; victims by class.
        Auto = "auto",
        /// Memory controllers only; victims by class.
        Controller = "controller",
        /// Counters of tasks; victims by class.
        PerCore = "per-core",
        /// Memory controllers; victims by the misses of their tasks.
        Both = "both",
    }
}

names! {
    /// The imbalance that causes a migration.
    pub(super) enum Trigger {
        /// The largest load is above the mean times the factor.
        MeanFactor = "mean_factor",
        /// The largest load is at least twice the smallest.
        Ratio = "ratio",
    }
}

names! {
    /// Whether the only job on the busiest domain migrates.
    pub(super) enum OnlyJob { Stay = "stay", Move = "move" }
}

names! {
    /// Loads for jobs that start between two polls.
    pub(super) enum Start {
        /// Each start adds the mean load of its class; ties: fewer jobs, then the smaller sum of classes.
        Estimate = "estimate",
        /// The measured loads; ties: the lower number.
        Plain = "plain",
    }
}

names! {
    /// Source of classes.
    pub(super) enum Classification { Declared = "declared", Online = "online" }
}

/// Largest accepted ratio of a load to the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    /// 2n/(n+1) for n domains: the ratio if one domain carries twice the load of each other domain.
    Auto,
    /// A rational number, so that all computations use integers.
    Fixed { num: u64, den: u64 },
}

/// Minimum total load for a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MinLoad {
    /// A share of the largest load of one domain so far, in millionths.
    OfPeak(u64),
    /// Operations per interval.
    Ops(u64),
}

impl ParamValue for Wake {
    const VALUES: Values = Values::Other(
        "poll, or overflow:EVENT:COUNT such as overflow:llc-misses:1000000 (COUNT up to 10^15)",
        |text| Wake::read(text, &Self::VALUES).is_some(),
    );

    fn read(text: &str, _: &Values) -> Option<Self> {
        if text == "poll" {
            return Some(Wake::Poll);
        }
        let (event, every) = text.strip_prefix("overflow:")?.split_once(':')?;
        // A count of 0 would overflow continuously.
        let every =
            parse_integer(every).filter(|every| (1..=1_000_000_000_000_000).contains(every))?;
        Some(Wake::Overflow { event: CounterEvent::of_name(event)?, every })
    }
}

impl ParamValue for Factor {
    const VALUES: Values =
        Values::Other("auto, or a number from 1 to 1000 such as 1.5 or 4/3", |text| {
            Factor::read(text, &Self::VALUES).is_some()
        });

    fn read(text: &str, _: &Values) -> Option<Self> {
        if text == "auto" {
            return Some(Factor::Auto);
        }
        let part = |text| parse_integer(text).filter(|part| (1..=MILLION).contains(part));
        let (num, den) = match text.split_once('/') {
            Some((num, den)) => (part(num)?, part(den)?),
            None => (parse_decimal(text)?, MILLION),
        };
        // Below 1, equal loads would be an imbalance.
        (den <= num && num <= den.checked_mul(1000)?).then_some(Factor::Fixed { num, den })
    }
}

impl ParamValue for MinLoad {
    const VALUES: Values = Values::Other(
        "auto, a share of the peak such as 1% in steps of 0.0001%, or operations per interval",
        |text| MinLoad::read(text, &Self::VALUES).is_some(),
    );

    fn read(text: &str, _: &Values) -> Option<Self> {
        match text {
            "auto" => Some(MinLoad::OfPeak(MILLION / 100)),
            share if share.ends_with('%') => percent(share).map(MinLoad::OfPeak),
            ops => parse_integer(ops).map(MinLoad::Ops),
        }
    }
}

reasons! {
    /// Start: the domain with the lowest load.
    LEAST_LOAD = "least-load":
        "{domain} had the lowest load ({load} of {total} {unit} in the last interval); {cpus} had the fewest jobs there";
    /// Start: the domain with the lowest load, expected loads included.
    LEAST_EXPECTED_LOAD = "least-expected-load":
        "{domain} had the lowest load ({load} of {total} {unit} in the last interval, of which {expected} are expected of jobs that started after it); {cpus} had the fewest jobs there";
    /// Start: the domain with the smallest sum of slowdowns.
    LEAST_SLOWDOWN = "least-slowdown":
        "the predicted sum of slowdowns was lowest on {domain} (this job adds {slowdown} of a job's time; load {load} of {total} {unit} in the last interval[, of which {expected} are expected of jobs that started after it]); {cpus} had the fewest jobs there";
    /// Start: equal loads; the number of jobs decides.
    FEWEST_JOBS = "fewest-jobs":
        "{domain} had the fewest jobs ({n_jobs}) of the domains with the lowest load ({load} of {total} {unit}[, of which {expected} are expected of jobs that started after it]); {cpus} had the fewest jobs there";
    /// Start: equal loads and numbers of jobs; the sum of classes decides.
    SMALLEST_CLASSES = "smallest-classes":
        "{domain} had the smallest sum of classes ({class_sum}) of the domains with the lowest load ({load} of {total} {unit}[, of which {expected} are expected of jobs that started after it]) and the fewest jobs ({n_jobs}); {cpus} had the fewest jobs there";
    /// Start: all criteria are equal; the number decides.
    LOWEST_NUMBER = "lowest-number":
        "{n_equal} domains have equal [equal_in=load: load][equal_in=load-jobs-classes: load, jobs and classes][equal_in=slowdowns-load: slowdowns and load][equal_in=slowdowns-load-jobs-classes: slowdowns, load, jobs and classes]; {domain} has the lowest id (load {load} of {total} {unit}[, of which {expected} are expected of jobs that started after it]); {cpus} had the fewest jobs there";
    /// Start: the job may use only one domain.
    ONLY_DOMAIN = "only-domain":
        "{domain} is the only domain that the job may use (load {load} of {total} {unit}[, of which {expected} are expected of jobs that started after it]); {cpus} had the fewest jobs there";
    /// Migration: a load too far above the mean.
    LOAD_UNEVEN = "load-uneven":
        "the load of {from} was {load_from} {unit} in the last interval, more than {factor} times the mean ({mean}); {to} had the lowest load ({load_to}); this job had the highest class ({class}, [basis=counted: from counted cache misses][basis=declared: as declared]) of the movable jobs on {from}; {cpus} had the fewest jobs on {to}[; estimated gain {gain}, cost {cost}]";
    /// Migration: a load that is at least twice the smallest load.
    LOAD_DOUBLE = "load-double":
        "the load of {from} was {load_from} {unit} in the last interval, at least {factor} times that of {to} ({load_to}; mean {mean}); this job had the highest class ({class}, [basis=counted: from counted cache misses][basis=declared: as declared]) of the movable jobs on {from}; {cpus} had the fewest jobs on {to}[; estimated gain {gain}, cost {cost}]";
    /// Migration: the victim selected by misses or predicted slowdowns.
    LOAD_RELIEVED = "load-relieved":
        "the load of {from} was {load_from} {unit} in the last interval, [trigger=mean_factor: more than {factor} times the mean ({mean})][trigger=ratio: at least {factor} times the load of {idlest} ({load_to})]; of the movable jobs on {from}, this one [chosen_by=misses: had the most cache misses ({misses})][chosen_by=relief: lowers the sum of predicted slowdowns most on {to} (by {relief} of a job's time)]; {cpus} had the fewest jobs on {to}[; estimated gain {gain}, cost {cost}]";
    /// Pages follow a job that migrated.
    MEMORY_FOLLOWS = "memory-follows":
        "the job migrated to {to}, which has {local} % of its memory ({size}); its other private pages ({rest}) follow, and {to} has {free} free";
    /// CPUs of the job became unusable.
    CPUS_UNUSABLE = "cpus-unusable":
        "some of the job's CPUs ({lost}) became unusable, so it was placed like a new job: on {domain} ([by=only-domain: the only domain that the job may use][by=slowdown: the lowest sum of predicted slowdowns][by=load: the lowest load][by=jobs: the fewest jobs of equal loads][by=classes: the smallest sum of classes of equal loads and numbers of jobs][by=number: the lowest id of {n_equal} domains with equal ][equal_in=load: load][equal_in=load-jobs-classes: load, jobs and classes][equal_in=slowdowns-load: slowdowns and load][equal_in=slowdowns-load-jobs-classes: slowdowns, load, jobs and classes]) with a load of {load} of {total} {unit}[, of which {expected} are expected of jobs that started after it]; {cpus} had the fewest jobs there";
    /// Note: pages can follow only if domains are nodes.
    MEMORY_CANNOT_FOLLOW = "memory-cannot-follow":
        "memory=follow has no effect: jobs are placed on {level} domains, and pages follow only if domains are nodes";
    /// Note: loads come from declared classes.
    LOADS_DECLARED = "loads-declared":
        "in the last interval, loads were counted neither by memory controllers nor as cache misses of all tasks: the load of a domain is the sum of declared class times CPU time over its tasks";
    /// Note: loads come from the counters of tasks.
    LOADS_ARE_MISSES = "loads-are-misses":
        "memory controller counters are not readable: the load of a domain is the sum of the cache misses of its tasks";
    /// Note: jobs without a class.
    NO_CLASS = "no-class":
        "jobs without a class ({jobs}) count as class 0";
    /// The run ends: counters unreadable.
    COUNTERS_UNREADABLE = "counters-unreadable":
        "the memory controller counters were unreadable {n_failures} times in a row";
}
