//! Declaration of divided scheduling: parameters, reasons and source.

use base::Nanos;
use sched::reasons;
use topology::DomainChoice;

use super::Divided;
use crate::declaration::{self, MILLION, Param, READING, Values, decimal, names, percent, whole};
use crate::memory_intensity::parameters::MISSES_PER_INSTRUCTION;
use crate::{IfMissing, Params, PolicyError, PolicyInfo, RequiredSignal, notes};

const SPREADS: IfMissing = IfMissing::Degrades("programs without it are spread evenly");

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "divided",
    summary: "Concentrates jobs that slow others down on some sockets, and keeps jobs that they slow down on \
              the other sockets.",
    source: "J. K. Park, J. Kim, Application Characteristic-based Divided Scheduling for Multicore Systems, \
             2017; thresholds and workload mixes are not printed",
    signals: &[
        RequiredSignal { if_missing: SPREADS, ..MISSES_PER_INSTRUCTION[1] },
        RequiredSignal { if_missing: SPREADS, ..MISSES_PER_INSTRUCTION[0] },
    ],
    params: &[
        READING,
        declaration::DOMAINS.help(
            "level of the placement domains that count as sockets; auto is the coarsest level with at least two",
        ),
        declaration::INTERVAL
            .default("10s")
            .published()
            .help("period after which jobs are grouped and assigned to sockets"),
        Param::new(
            "version",
            Version::VALUES,
            "auto",
            "grouping by rank, a third of all threads per group, or by thresholds; auto is by thresholds if \
             th_sq and th_ref are given",
        )
        .published(),
        Param::new(
            "th_sq",
            EVENTS,
            "none",
            "cycles with a full request queue above which a thread is in Group 1; the guard uses it too (the \
             paper has a threshold and does not print it)",
        ),
        Param::new(
            "th_ref",
            EVENTS,
            "none",
            "LLC references above which a thread that is not in Group 1 is in Group 2",
        )
        .no_effect_with(&[("version", "rank")]),
        Param::new(
            "min_share",
            Values::Percent,
            "5%",
            "minimum share of the largest rate of full queues so far for a thread in Group 1; a thread without \
             full queues is never in Group 1 (by rank)",
        )
        .paper("0%")
        .no_effect_with(&[("version", "threshold")]),
        Param::new(
            "repeat",
            Values::whole("periods", 1, 1000),
            "2",
            "number of periods in a row with the same result after which a job changes its group",
        )
        .paper("1"),
        Param::new(
            "guard",
            Values::Or("off", &Values::decimal("", 1000)),
            "2",
            "Group 1 is concentrated only if its full queues, spread over all sockets, exceed this multiple of \
             th_sq on each",
        )
        .paper("off")
        .no_effect_with(&[("th_sq", "none")]),
        Param::new("keep", Keep::VALUES, "yes", "whether a job stays on a socket that fits its group").paper("no"),
        Param::new(
            "bandwidth",
            Values::whole("MB per second of CPU time", 0, MILLION),
            "2000",
            "where full queues are not counted: minimum traffic between cache and memory of a thread in Group 1",
        ),
        Param::new(
            "ratio",
            Values::decimal("", MILLION),
            "10",
            "where full queues are not counted: minimum number of prefetches per demand miss, or of misses per \
             1000 instructions, of a thread in Group 1",
        ),
    ],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(Divided::new(Config::new(params)?)))),
};

const EVENTS: Values =
    Values::Or("none", &Values::whole("events per second of CPU time", 0, 1_000_000_000_000));

reasons! {
    /// Group 1 is concentrated.
    GROUP_APART = "group-apart":
        "[some of the job's CPUs ({lost}) became unusable: ]{group}; {parted}[, with {threads}][; spread over all sockets, Group 1 would have {sq_each} cycles with full queues on each, more than the minimum of {sq_least}]: it is placed on {domain}, on {cpus} with the fewest jobs";
    /// The other groups are kept apart from Group 1.
    GROUP_SHELTERED = "group-sheltered":
        "[some of the job's CPUs ({lost}) became unusable: ]{group}; {parted}[, with {threads}][; spread over all sockets, Group 1 would have {sq_each} cycles with full queues on each, more than the minimum of {sq_least}]: it is placed apart from Group 1 on {domain}, on {cpus} with the fewest jobs";
    /// Free slots on any socket.
    GROUP_FILLS = "group-fills":
        "[some of the job's CPUs ({lost}) became unusable: ]{group}; {parted}[, with {threads}][; spread over all sockets, Group 1 would have {sq_each} cycles with full queues on each, and the minimum is {sq_least}]: it fills free slots on {domain}, on {cpus} with the fewest jobs";
    /// Spread evenly.
    GROUP_SPREAD = "group-spread":
        "[some of the job's CPUs ({lost}) became unusable: ]{group}; {parted}[, with {threads}][; spread over all sockets, Group 1 would have {sq_each} cycles with full queues on each, and the minimum is {sq_least}]: its group is spread evenly, this job on {domain}, on {cpus} with the fewest jobs";
    /// The sockets of its group are full.
    GROUP_OVERFLOW = "group-overflow":
        "[some of the job's CPUs ({lost}) became unusable: ]{group}; {parted}[, with {threads}], but the sockets of its group are full: it is placed on {domain}, on {cpus} with the fewest jobs";
    /// Placed between two periods.
    GROUP_PLACED = "group-placed":
        "[some of the job's CPUs ({lost}) became unusable: ]{group}; {parted}[, with {threads}]: until the next period it is placed on {domain}, {how}, on {cpus} with the fewest jobs";
    /// Note: approximate groups.
    GROUPS_APPROXIMATE = "groups-approximate":
        "approximate grouping: full request queues are not counted, so Group 1 is every thread with more than {bandwidth} MB between cache and memory per second of CPU time and more than {ratio} prefetches per demand miss, or misses per 1000 instructions; some of these threads may be harmless";
    /// Note: no groups.
    GROUPS_UNKNOWN = "groups-unknown":
        "neither full request queues nor cache misses per instruction are known: there are no groups, and jobs are spread evenly";
}

/// Configuration of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub grouping: Grouping,
    /// Threshold of full queues, also for the guard.
    pub th_sq: Option<u64>,
    /// Minimum share of the largest rate so far for Group 1, in millionths.
    pub min_share: u64,
    /// Periods in a row that must agree on a group.
    pub repeat: u64,
    /// Minimum of full queues per socket in permille of `th_sq`; `None`: no minimum.
    pub guard_permille: Option<u64>,
    /// Whether jobs stay on a socket that fits their group.
    pub keep: bool,
    /// Without full queues: Group 1 has more than this traffic, in MB per second, …
    pub bandwidth: u64,
    /// … and more than this ratio, in millionths: prefetches per demand miss, or misses per 1000 instructions.
    pub ratio: u64,
}

/// Criterion of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// A third of all threads each.
    Rank,
    /// Thresholds, in events per second of CPU time.
    Threshold { th_sq: u64, th_ref: u64 },
}

names! {
    enum Version { Auto = "auto", Rank = "rank", Threshold = "threshold" }
}

names! {
    enum Keep { Yes = "yes", No = "no" }
}

impl Config {
    pub fn new(params: &Params<'_>) -> Result<Self, PolicyError> {
        let th_sq = params.unless("th_sq", "none", whole);
        let guard = params.unless("guard", "off", decimal).filter(|_| th_sq.is_some());
        let grouping = grouping(params, th_sq)?;
        if grouping != Grouping::Rank && params.is_given("min_share") {
            return Err(params.no_effect("min_share", "th_sq and th_ref".to_owned()));
        }
        if grouping == Grouping::Rank && th_sq.is_some() && guard.is_none() {
            return Err(params.no_effect("th_sq", "grouping by rank and guard=off".to_owned()));
        }
        Ok(Config {
            domains: params.domains(),
            interval: params.time("interval"),
            grouping,
            th_sq,
            min_share: params.read("min_share", percent),
            repeat: params.whole("repeat"),
            guard_permille: guard.map(|guard| guard / 1000),
            keep: params.named::<Keep>("keep") == Keep::Yes,
            bandwidth: params.whole("bandwidth"),
            ratio: params.millionths("ratio"),
        })
    }
}

/// By thresholds if both are given, else by rank.
fn grouping(params: &Params<'_>, th_sq: Option<u64>) -> Result<Grouping, PolicyError> {
    let requires = |given, missing| PolicyError::Needs { policy: INFO.name, given, missing };
    match (params.named("version"), th_sq, params.unless("th_ref", "none", whole)) {
        (Version::Auto | Version::Threshold, Some(th_sq), Some(th_ref)) => {
            Ok(Grouping::Threshold { th_sq, th_ref })
        }
        (Version::Threshold, ..) => Err(requires("version=threshold", "th_sq and th_ref")),
        (Version::Auto, None, Some(_)) => Err(requires("th_ref", "th_sq")),
        _ => Ok(Grouping::Rank),
    }
}
