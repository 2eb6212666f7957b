//! Declaration of DFS: parameters, reasons and source.

use base::Nanos;
use sched::Wake;
use sched::{CounterEvent, reasons};
use topology::DomainChoice;

use super::Dfs;
use crate::declaration::{
    DOMAINS, INTERVAL, MILLION, Param, READING, Values, decimal, names, percent, time, whole,
};
use crate::{IfMissing, Params, PolicyInfo, RequiredSignal, Signal, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "dfs",
    summary: "Starts each job on the domain with the lowest memory load, and migrates the most \
              memory-hungry job away from an overloaded domain.",
    source: "D. Edholm, A. Löfgren, V. Nilsson, Processchemaläggare för mångkärniga processorer – Fördelning av \
             minnesbelastning i NUMA-system, bachelor's thesis, Chalmers University of Technology and University of \
             Gothenburg, 2014, sections 4.1 to 4.5",
    signals: &[RequiredSignal {
        signal: Signal::Loads,
        if_missing: IfMissing::Degrades("jobs are spread by domain number at start, and none migrates"),
    }],
    params: &[
        READING,
        DOMAINS,
        INTERVAL.published().help("time between two polls of the memory controllers"),
        Param::new(
            "wake",
            Values::Other {
                words: "poll, or overflow:EVENT:COUNT such as overflow:llc-misses:1000000 (COUNT up to 10^15)",
                accepts: |text| wake(text).is_some(),
            },
            "poll",
            "extension: a poll in every interval, or only in intervals in which a counter of EVENT reached \
             COUNT on one CPU (or, with fewer rights, of one thread), and every two seconds",
        ),
        Param::new(
            "trigger",
            Trigger::VALUES,
            "mean_factor",
            "imbalance that causes a migration: a load above factor times the mean, or a largest load of at \
             least twice the smallest",
        ),
        Param::new(
            "factor",
            Values::Other {
                words: "auto, or a number from 1 to 1000 such as 1.5 or 4/3",
                accepts: |text| factor(text).is_some(),
            },
            "auto",
            "largest accepted ratio of a load to the mean; auto is 2n/(n+1) for n domains: one domain \
             carries twice the load of each other",
        )
        .no_effect_with(&[("trigger", "ratio")]),
        Param::new(
            "migrations_per_poll",
            Values::whole("", 1, 1000),
            "1",
            "maximum number of jobs that migrate in one poll",
        )
        .published(),
        Param::new(
            "cooldown",
            Values::whole("polls", 0, MILLION),
            "8",
            "minimum number of polls between two migrations of a job",
        )
        .paper("0"),
        Param::new(
            "min_load",
            Values::Other {
                words: "auto, a share of the peak such as 1% in steps of 0.0001%, or operations per interval",
                accepts: |text| min_load(text).is_some(),
            },
            "1%",
            "minimum total load for a migration; the peak is the largest load of one domain so far, auto is 1%",
        )
        .paper("0"),
        Param::new(
            "only_job",
            OnlyJob::VALUES,
            "stay",
            "whether the only job on the busiest domain migrates, which would only relocate the hot spot",
        )
        .paper("move"),
        Param::new(
            "start",
            Start::VALUES,
            "estimate",
            "loads for jobs that start between two polls: measured plus the mean load of each started job's \
             class, ties by number of jobs, then by classes; or as measured, ties by domain number",
        )
        .paper("plain"),
        Param::new(
            "class_basis",
            ClassBasis::VALUES,
            "rate",
            "unit of the declared classes: operations per millisecond, or millions of operations in the \
             whole run",
        )
        .paper("total"),
        Param::new(
            "failures",
            Values::whole("", 1, MILLION),
            "4",
            "number of polls in a row with unreadable counters after which the run ends",
        ),
        Param::new("bind", Bind::VALUES, "cpu", "a CPU for each thread of a job, or all CPUs of its domain")
            .published(),
        Param::new(
            "placement",
            Placement::VALUES,
            "load",
            "extension: criterion for start, victim and target: the loads of domains, or the sum of the \
             slowdowns predicted from each program's sensitivity",
        ),
        Param::new(
            "classes",
            Classification::VALUES,
            "declared",
            "extension: classes as declared, or from the cache misses of a job's tasks over 8 polls, once 4 \
             polls agree",
        ),
        Param::new(
            "loads",
            Loads::VALUES,
            "auto",
            "extension: source of loads: the memory controllers, or the counters of tasks; both: the \
             controllers select the domain, the misses of tasks select the victim; auto is the best \
             available source, and classes select the victim",
        ),
        Param::new(
            "memory",
            Memory::VALUES,
            "stay",
            "extension: pages stay on the node of their first touch, or follow a job to another node, while \
             less than 90 % of them are there and more than 1.2 times their size is free there",
        ),
        Param::new(
            "gain",
            Values::Or("off", &Values::decimal("", 1000)),
            "off",
            "extension: minimum ratio of gain to cost for a migration; gain: time left × share of the load \
             × slope, cost: pages × page_move + refill",
        ),
        Param::new(
            "slope",
            Values::decimal("", 1),
            "0.2",
            "share of its time that a job with all the load of an overloaded domain loses (guessed)",
        )
        .no_effect_with(&[("gain", "off")]),
        Param::new(
            "page_move",
            UP_TO_A_MINUTE,
            "2us",
            "cost of migrating a page, until 256 pages have been measured (guessed)",
        )
        .no_effect_with(&[("gain", "off"), ("memory", "stay")]),
        Param::new("refill", UP_TO_A_MINUTE, "5ms", "cost of refilling the caches after a migration (guessed)")
            .no_effect_with(&[("gain", "off")]),
    ],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(Dfs::new(Config::new(params))))),
};

const UP_TO_A_MINUTE: Values = Values::Time { min: Nanos::ZERO, max: Nanos::from_secs(60) };

reasons! {
    /// Start: the domain with the lowest load.
    LEAST_LOAD = "least-load":
        "{domain} had the lowest load ({load} of {total} {unit} in the last interval); {cpus} had the fewest jobs there";
    /// Start: the same, with expected loads.
    LEAST_EXPECTED_LOAD = "least-expected-load":
        "{domain} had the lowest load ({load} of {total} {unit} in the last interval, of which {expected} are expected of jobs started since); {cpus} had the fewest jobs there";
    /// Start: the domain with the smallest sum of slowdowns.
    LEAST_SLOWDOWN = "least-slowdown":
        "the predicted sum of slowdowns was lowest on {domain} (this job adds {slowdown} of a job's time; load {load} of {total} {unit} in the last interval[, of which {expected} are expected of jobs started since]); {cpus} had the fewest jobs there";
    /// Start: equal loads; the number of jobs decides.
    FEWEST_JOBS = "fewest-jobs":
        "{domain} had the fewest jobs ({n_jobs}) of the domains with the lowest load ({load} of {total} {unit}[, of which {expected} are expected of jobs started since]); {cpus} had the fewest jobs there";
    /// Start: equal loads and numbers of jobs; the sum of classes decides.
    SMALLEST_CLASSES = "smallest-classes":
        "{domain} had the smallest sum of classes ({class_sum}) of the domains with the lowest load ({load} of {total} {unit}[, of which {expected} are expected of jobs started since]) and the fewest jobs ({n_jobs}); {cpus} had the fewest jobs there";
    /// Start: equal in everything; the number decides.
    LOWEST_NUMBER = "lowest-number":
        "{domain} has the lowest number of {n_equal} domains with equal {equal_in} (load {load} of {total} {unit}[, of which {expected} are expected of jobs started since]); {cpus} had the fewest jobs there";
    /// Start: the job may use one domain only.
    ONLY_DOMAIN = "only-domain":
        "{domain} is the only domain that the job may use (load {load} of {total} {unit}[, of which {expected} are expected of jobs started since]); {cpus} had the fewest jobs there";
    /// Migration: a load too far above the mean.
    LOAD_UNEVEN = "load-uneven":
        "{from} had a load of {load_from} {unit} in the last interval and {to} {load_to}: more than {factor} times the mean ({mean}); this job had the highest class ({class}, by {basis}) of the movable jobs on {from}; {cpus} had the fewest jobs on {to}[; estimated gain {gain}, cost {cost}]";
    /// Migration: a load that is a multiple of another.
    LOAD_DOUBLE = "load-double":
        "{from} had a load of {load_from} {unit} in the last interval and {to} {load_to}: a ratio of at least {factor} (mean {mean}); this job had the highest class ({class}, by {basis}) of the movable jobs on {from}; {cpus} had the fewest jobs on {to}[; estimated gain {gain}, cost {cost}]";
    /// Migration: the victim selected by misses or predicted slowdowns.
    LOAD_RELIEVED = "load-relieved":
        "{from} had a load of {load_from} {unit} in the last interval, {how}; of the movable jobs on {from}, this one {chosen}; {cpus} had the fewest jobs on {to}[; estimated gain {gain}, cost {cost}]";
    /// Pages follow a job that migrated.
    MEMORY_FOLLOWS = "memory-follows":
        "the job migrated to {to}, which holds {there} % of its memory ({size}); its other own pages ({rest}) follow, and {to} has {free} free";
    /// CPUs of the job became unusable.
    CPUS_UNUSABLE = "cpus-unusable":
        "some of the job's CPUs ({lost}) became unusable, so it was placed like a new job: on {domain}[ ({by})] with a load of {load} of {total} {unit}[, of which {expected} are expected of jobs started since]; {cpus} had the fewest jobs there";
    /// Note: pages can follow only where domains are nodes.
    MEMORY_CANNOT_FOLLOW = "memory-cannot-follow":
        "memory=follow has no effect: jobs are placed on {level} domains, and pages follow only where domains are nodes";
    /// Note: loads come from declared classes.
    LOADS_DECLARED = "loads-declared":
        "memory counters are not readable: the load of a domain is the sum of declared class times CPU time over its tasks";
    /// Note: loads come from the counters of tasks.
    LOADS_ARE_MISSES = "loads-are-misses":
        "memory controller counters are not readable: the load of a domain is the sum of the cache misses of its tasks";
    /// Note: classes of another unit are used as rates.
    TOTALS_AS_RATES = "totals-as-rates":
        "classes are declared as operations per run but used as operations per millisecond: declared loads are approximate";
    /// Note: jobs without a class.
    NO_CLASS = "no-class":
        "jobs without a class ({jobs}) count as class 0";
    /// The run ends: counters unreadable.
    COUNTERS_UNREADABLE = "counters-unreadable":
        "the memory controller counters were unreadable {n_failures} times in a row";
}

/// The configuration of DFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub wake: Wake,
    pub trigger: Trigger,
    pub factor: Factor,
    pub migrations_per_poll: u64,
    /// In polls.
    pub cooldown: u64,
    pub min_load: MinLoad,
    pub only_job: OnlyJob,
    pub start: Start,
    pub class_basis: ClassBasis,
    pub failures: u64,
    pub bind: Bind,
    pub placement: Placement,
    pub classes: Classification,
    pub loads: Loads,
    pub memory: Memory,
    /// Minimum ratio of gain to cost, in permille; `None`: not required.
    pub gain_permille: Option<u64>,
    /// Share of its time that a job with all the load of an overloaded domain loses.
    pub slope_permille: u64,
    /// Cost of migrating a page, until moves have been measured.
    pub page_move: Nanos,
    /// Cost of refilling the caches.
    pub refill: Nanos,
}

names! {
    /// Pages of a job that migrated.
    pub(super) enum Memory { Stay = "stay", Follow = "follow" }
}

names! {
    /// Criterion for start, victim and target.
    pub(super) enum Placement {
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
    /// The only job on the busiest domain.
    pub(super) enum OnlyJob { Stay = "stay", Move = "move" }
}

names! {
    /// Loads for jobs that start between two polls.
    pub(super) enum Start {
        /// Each start adds the mean load of its class; ties: fewer jobs, then the smaller sum of classes.
        Estimate = "estimate",
        /// As measured; ties: the lower number.
        Plain = "plain",
    }
}

names! {
    /// Unit of declared classes.
    pub(super) enum ClassBasis {
        /// Operations per millisecond.
        Rate = "rate",
        /// Operations in the whole run.
        Total = "total",
    }
}

names! {
    /// CPUs that a job is bound to.
    pub(super) enum Bind {
        /// A CPU for each thread.
        Cpu = "cpu",
        /// All CPUs of the domain.
        Domain = "domain",
    }
}

names! {
    /// Source of classes.
    pub(super) enum Classification { Declared = "declared", Online = "online" }
}

/// Largest accepted ratio of a load to the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    /// 2n/(n+1) for n domains: the ratio when one domain carries twice the load of each other.
    Auto,
    /// A rational number, so that integers suffice.
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

impl ClassBasis {
    pub fn name(self) -> &'static str {
        match self {
            ClassBasis::Rate => "rate",
            ClassBasis::Total => "total",
        }
    }
}

impl Config {
    pub fn new(params: &Params<'_>) -> Self {
        Config {
            domains: params.domains(),
            interval: params.time("interval"),
            wake: params.read("wake", wake),
            trigger: params.named("trigger"),
            factor: params.read("factor", factor),
            migrations_per_poll: params.whole("migrations_per_poll"),
            cooldown: params.whole("cooldown"),
            min_load: params.read("min_load", min_load),
            only_job: params.named("only_job"),
            start: params.named("start"),
            class_basis: params.named("class_basis"),
            failures: params.whole("failures"),
            bind: params.named("bind"),
            placement: params.named("placement"),
            classes: params.named("classes"),
            loads: params.named("loads"),
            memory: params.named("memory"),
            gain_permille: params.unless("gain", "off", decimal).map(|gain| gain / 1000),
            slope_permille: params.permille("slope"),
            page_move: params.read("page_move", time),
            refill: params.read("refill", time),
        }
    }
}

/// A count of 0 would overflow continuously.
fn wake(text: &str) -> Option<Wake> {
    if text == "poll" {
        return Some(Wake::Poll);
    }
    let (event, every) = text.strip_prefix("overflow:")?.split_once(':')?;
    let every = whole(every).filter(|every| (1..=1_000_000_000_000_000).contains(every))?;
    Some(Wake::Overflow { event: CounterEvent::of_name(event)?, every })
}

/// `auto`, `3/2` or `1.5`, from 1 to 1000. Below 1, equal loads would be an imbalance.
fn factor(text: &str) -> Option<Factor> {
    if text == "auto" {
        return Some(Factor::Auto);
    }
    let part = |text| whole(text).filter(|part| (1..=MILLION).contains(part));
    let (num, den) = match text.split_once('/') {
        Some((num, den)) => (part(num)?, part(den)?),
        None => (decimal(text)?, MILLION),
    };
    (den <= num && num <= den.checked_mul(1000)?).then_some(Factor::Fixed { num, den })
}

/// `auto` (1 %), a share of the peak such as `0.5%`, or operations per interval.
fn min_load(text: &str) -> Option<MinLoad> {
    match text {
        "auto" => Some(MinLoad::OfPeak(MILLION / 100)),
        share if share.ends_with('%') => percent(share).map(MinLoad::OfPeak),
        ops => whole(ops).map(MinLoad::Ops),
    }
}
