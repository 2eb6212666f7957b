//! What DFS can be told, and what the two readings of the published text imply.

use base::Nanos;
use sched::Wake;
use topology::DomainChoice;

use crate::PolicyError;
use crate::common::{self, INTERVAL, MILLION, decimal, whole};
use crate::spec::Given;

/// Everything that DFS can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    /// What brings a poll about (spec 1.10).
    pub wake: Wake,
    pub trigger: Trigger,
    pub factor: Factor,
    pub migrations_per_poll: u64,
    pub cooldown: u64,
    pub min_load: MinLoad,
    pub only_job: OnlyJob,
    pub start: Start,
    pub class_basis: ClassBasis,
    pub failures: u64,
    pub bind: Bind,
    pub placement: Placement,
    /// Classes follow what jobs show.
    pub online: bool,
    pub loads: Loads,
    pub memory: Memory,
    /// A move must gain more than so many thousandths of what it costs; `None`: nobody asks.
    pub gain_permille: Option<u64>,
    /// The share of its time that a program with all the load of an overloaded domain loses.
    pub slope_permille: u64,
    /// The time of moving a page, until moves have shown it.
    pub page_move: Nanos,
    /// The time of filling the caches again.
    pub refill: Nanos,
}

/// What becomes of a job's memory when the job is moved (spec 1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// It stays where it is.
    Stay,
    /// It is moved after the job.
    Follow,
}

/// What decides where a program belongs (spec 1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The loads of domains, and the classes of programs.
    Load,
    /// The predicted slow-downs of all programs.
    Sens,
}

/// What loads stand on, and what tells who loads most (spec 1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loads {
    /// The best signal of a place that is there; the class tells who goes.
    Auto,
    /// The memory controllers and nothing else; the class tells who goes.
    Controller,
    /// What tasks are counted to do; the class tells who goes.
    PerCore,
    /// The controllers tell that somebody has to go, the misses of each task who.
    Both,
}

/// Which imbalance is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The largest load is above the mean times the factor.
    MeanFactor,
    /// The largest load is at least twice the smallest.
    Ratio,
}

/// How far above the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    /// 2n/(n+1) for n domains: where the mean lies when one domain carries twice what each other does.
    Auto,
    /// A rational, so that whole numbers suffice.
    Fixed { num: u64, den: u64 },
}

/// The least total load that is worth acting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MinLoad {
    /// A share of the largest load of one domain so far, in millionths.
    OfPeak(u64),
    /// Operations per interval.
    Ops(u64),
}

/// What happens to a job that is alone on the busiest domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnlyJob {
    Stay,
    Move,
}

/// How programs that start between two polls are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Each adds what its class has shown to a copy of the loads; ties fall to fewer programs, then
    /// to the smaller sum of classes.
    Estimate,
    /// Loads as measured; ties fall to the lower number.
    Plain,
}

/// What the class of a program was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassBasis {
    /// Operations per millisecond.
    Rate,
    /// Operations in the whole run.
    Total,
}

/// What a program is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bind {
    /// A CPU for each of its threads.
    Cpu,
    /// All CPUs of the domain.
    Domain,
}

impl ClassBasis {
    pub fn name(self) -> &'static str {
        match self {
            ClassBasis::Rate => "rate",
            ClassBasis::Total => "total",
        }
    }
}

/// Who mends the published text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Ours,
    Paper,
}

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, PolicyError> {
        let reading = [("ours", Reading::Ours), ("paper", Reading::Paper)];
        let implied = match given.choice("reading", Reading::Ours, &reading)? {
            Reading::Ours => Config::ours(),
            Reading::Paper => Config::paper(),
        };
        let trigger = given.choice("trigger", implied.trigger, TRIGGERS)?;
        if trigger == Trigger::Ratio {
            given.forbid("factor", "trigger=ratio")?;
        }
        Ok(Config {
            domains: given.get("domains", implied.domains, common::domains)?,
            interval: given.get("interval", implied.interval, common::interval)?,
            wake: given.get("wake", implied.wake, common::wake)?,
            trigger,
            factor: given.get("factor", implied.factor, factor)?,
            migrations_per_poll: given.get("migrations_per_poll", 1, |t| whole(t, 1, 1000))?,
            cooldown: given.get("cooldown", implied.cooldown, |t| whole(t, 0, MILLION))?,
            min_load: given.get("min_load", implied.min_load, min_load)?,
            only_job: given.choice("only_job", implied.only_job, ONLY_JOB)?,
            start: given.choice("start", implied.start, STARTS)?,
            class_basis: given.choice("class_basis", implied.class_basis, BASES)?,
            failures: given.get("failures", implied.failures, |t| whole(t, 1, MILLION))?,
            bind: given.choice("bind", implied.bind, BINDS)?,
            placement: given.choice("placement", implied.placement, PLACEMENTS)?,
            online: given.choice("classes", implied.online, CLASSES)?,
            loads: given.choice("loads", implied.loads, LOADS)?,
            memory: given.choice("memory", implied.memory, MEMORY)?,
            gain_permille: given.get("gain", implied.gain_permille, gain)?,
            slope_permille: given.get("slope", implied.slope_permille, share)?,
            page_move: given.get("page_move", implied.page_move, common::short)?,
            refill: given.get("refill", implied.refill, common::short)?,
        })
    }

    /// As we mend it.
    fn ours() -> Self {
        Config {
            domains: DomainChoice::Auto,
            interval: INTERVAL,
            wake: Wake::Poll,
            trigger: Trigger::MeanFactor,
            factor: Factor::Auto,
            migrations_per_poll: 1,
            cooldown: 8,
            min_load: MinLoad::OfPeak(MILLION / 100),
            only_job: OnlyJob::Stay,
            start: Start::Estimate,
            class_basis: ClassBasis::Rate,
            failures: 4,
            bind: Bind::Cpu,
            placement: Placement::Load,
            online: false,
            loads: Loads::Auto,
            memory: Memory::Stay,
            gain_permille: None,
            slope_permille: 200,
            page_move: Nanos(2_000),
            refill: Nanos::from_millis(5),
        }
    }

    /// As printed. Where nothing is printed ours holds.
    fn paper() -> Self {
        Config {
            cooldown: 0,
            min_load: MinLoad::Ops(0),
            only_job: OnlyJob::Move,
            start: Start::Plain,
            class_basis: ClassBasis::Total,
            ..Config::ours()
        }
    }
}

const TRIGGERS: &[(&str, Trigger)] =
    &[("mean_factor", Trigger::MeanFactor), ("ratio", Trigger::Ratio)];
const ONLY_JOB: &[(&str, OnlyJob)] = &[("stay", OnlyJob::Stay), ("move", OnlyJob::Move)];
const STARTS: &[(&str, Start)] = &[("estimate", Start::Estimate), ("plain", Start::Plain)];
const BASES: &[(&str, ClassBasis)] = &[("rate", ClassBasis::Rate), ("total", ClassBasis::Total)];
const BINDS: &[(&str, Bind)] = &[("cpu", Bind::Cpu), ("domain", Bind::Domain)];
const PLACEMENTS: &[(&str, Placement)] = &[("load", Placement::Load), ("sens", Placement::Sens)];
const CLASSES: &[(&str, bool)] = &[("declared", false), ("online", true)];
const LOADS: &[(&str, Loads)] = &[
    ("auto", Loads::Auto),
    ("controller", Loads::Controller),
    ("per-core", Loads::PerCore),
    ("both", Loads::Both),
];

const MEMORY: &[(&str, Memory)] = &[("stay", Memory::Stay), ("follow", Memory::Follow)];

/// `off`, or a factor up to 1000 such as `1.5`.
fn gain(text: &str) -> Option<Option<u64>> {
    if text == "off" {
        return Some(None);
    }
    let permille = decimal(text)? / 1000;
    (permille <= MILLION).then_some(Some(permille))
}

/// A share from 0 to 1 such as `0.2`, in thousandths.
fn share(text: &str) -> Option<u64> {
    let permille = decimal(text)? / 1000;
    (permille <= 1000).then_some(permille)
}

/// `auto`, `3/2` or `1.5`, from 1 to 1000: below 1 even equal loads would be too uneven.
fn factor(text: &str) -> Option<Factor> {
    if text == "auto" {
        return Some(Factor::Auto);
    }
    let (num, den) = match text.split_once('/') {
        Some((num, den)) => (whole(num, 1, MILLION)?, whole(den, 1, MILLION)?),
        None => (decimal(text)?, MILLION),
    };
    (den <= num && num <= den.checked_mul(1000)?).then_some(Factor::Fixed { num, den })
}

/// `auto` (which is `1%`), a share of the peak such as `0.5%`, or operations per interval. A share
/// finer than a millionth would be rounded, perhaps to nothing.
fn min_load(text: &str) -> Option<MinLoad> {
    if text == "auto" {
        return Some(Config::ours().min_load);
    }
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = decimal(percent)?;
            let is_share = percent <= 100 * MILLION && percent % 100 == 0;
            is_share.then_some(MinLoad::OfPeak(percent / 100))
        }
        None => whole(text, 0, u64::MAX).map(MinLoad::Ops),
    }
}
