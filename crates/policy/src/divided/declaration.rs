//! Declaration of divided scheduling: source, parameters and reasons.

use sched::reasons;

use super::Divided;
use crate::declaration::{self, MILLION, Millionths, READING, Values, names, params};
use crate::memory_intensity::parameters::MISSES_PER_INSTRUCTION;
use crate::notes;
use crate::{IfMissing, PolicyInfo, RequiredSignal};

const SPREADS: IfMissing = IfMissing::Degrades("programs without this signal are spread evenly");

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "divided",
    summary: "Concentrates jobs that slow others down on some sockets, and keeps jobs that they slow down on \
              the other sockets.",
    source: "J. K. Park, J. Kim, Application Characteristic-based Divided Scheduling for Multicore Systems \
             (in Korean), Journal of the Korea Society of Computer and Information, 2017, sections III.2, III.3 and \
             IV; thresholds and workload mixes are not printed",
    signals: &[
        RequiredSignal { if_missing: SPREADS, ..MISSES_PER_INSTRUCTION[1] },
        RequiredSignal { if_missing: SPREADS, ..MISSES_PER_INSTRUCTION[0] },
    ],
    params: &[
        &[
            READING,
            declaration::DOMAINS.help(
                "level of the placement domains that count as sockets; auto is the coarsest level with at least two",
            ),
            declaration::INTERVAL
                .default("10s")
                .published()
                .help("interval after which jobs are grouped and assigned to sockets"),
        ],
        PARAMS,
    ],
    reasons: &[notes::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(Divided::new(Config::new(params)))),
};

const EVENTS: Values =
    Values::Or("none", &Values::integer("events per second of CPU time", 0, 1_000_000_000_000));

params! {
    /// Configuration of the policy.
    pub(super) struct Config from PARAMS {
        version: GroupingVersion = "auto", "grouping by rank, a third of all threads per group, or by thresholds; auto is by \
            thresholds if th_sq and th_ref are given".published().requires(Some("threshold"), &["th_sq", "th_ref"]);
        th_sq: Option<u64> [EVENTS] = "none", "queue-full cycles above which a thread is in Group 1; the \
            guard uses it too (the paper has a threshold and does not print it)"
            .no_effect_with(&["version=rank and guard=off", "version=auto and th_ref=none and guard=off"]);
        th_ref: Option<u64> [EVENTS] = "none", "LLC references above which a thread that is not in Group 1 is in Group 2"
            .no_effect_with(&["version=rank"]).requires(None, &["th_sq"]);
        min_share: Millionths = "5%", "minimum share of the largest rate of queue-full cycles so far for a thread in Group \
            1; a thread without queue-full cycles is never in Group 1 (by rank)"
            .paper("0%").no_effect_with(&["version=threshold", "version=auto and th_sq!=none and th_ref!=none"]);
        repeat: u64 [Values::integer("polls", 1, 1000)] = "2",
            "number of polls in a row with the same result after which a job changes its group".paper("1");
        guard: Option<Millionths> [Values::Or("off", &Values::decimal("", 1000))] = "2", "Group 1 is concentrated only if \
            its queue-full cycles, spread over all sockets, exceed this multiple of th_sq on each"
            .paper("off").no_effect_with(&["th_sq=none"]);
        keep: bool = "yes", "whether a job stays on a socket that belongs to its group".paper("no");
        /// Minimum traffic of a thread in Group 1 if queue-full cycles are not counted, in MB per second.
        bandwidth: u64 [Values::integer("MB per second of CPU time", 0, MILLION)] = "2000",
            "if queue-full cycles are not counted: minimum traffic between cache and memory of a thread in Group 1";
        /// Minimum ratio of a thread in Group 1: prefetches per demand miss, or misses per 1000 instructions.
        ratio: Millionths [Values::decimal("", MILLION)] = "10", "if queue-full cycles are not counted: minimum number of \
            prefetches per demand miss, or of misses per 1000 instructions, of a thread in Group 1";
    }
}

names! {
    /// The criterion that the user selects.
    pub(super) enum GroupingVersion { Auto = "auto", Rank = "rank", Threshold = "threshold" }
}

/// Criterion by which threads are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// A third of all threads in each group.
    Rank,
    /// Thresholds, in events per second of CPU time.
    Threshold { th_sq: u64, th_ref: u64 },
}

impl Config {
    /// Returns the thresholds if both are set and `version` permits them; otherwise returns [`Grouping::Rank`].
    pub fn grouping(&self) -> Grouping {
        match (self.th_sq, self.th_ref) {
            (Some(th_sq), Some(th_ref)) if self.version != GroupingVersion::Rank => {
                Grouping::Threshold { th_sq, th_ref }
            }
            _ => Grouping::Rank,
        }
    }
}

/// The counters of the job, and the criterion of its group.
macro_rules! criterion {
    () => {
        concat!(
            "[criterion=thresholds:  ({queue_full} queue-full cycles and {references}",
            criterion!(@references),
            "thresholds {th_sq} and {th_ref})]",
            "[criterion=rank:  ({queue_full} queue-full cycles and {references}",
            criterion!(@references),
            "ranked among {n_ranked} threads, {n_per_group} per group, ",
            "at least {sq_rank_min} for Group 1)]",
            "[criterion=traffic-thresholds:  (",
            criterion!(@traffic),
            "then {th_ref})]",
            "[criterion=traffic-rank:  (",
            criterion!(@traffic),
            "then ranked among {n_ranked} threads, {n_per_group} in Group 2)]",
        )
    };
    (@references) => {
        " references to the last-level cache per second of CPU time; "
    };
    (@traffic) => {
        concat!(
            "{traffic} MB of cache misses, up to {ratio} prefetches per miss or misses per 1000 ",
            "instructions, and {references}",
            criterion!(@references),
            "thresholds {th_traffic} MB and {th_ratio}, ",
        )
    };
}

/// The start of most templates: lost CPUs, the group of the job, the division of the sockets.
macro_rules! group_and_division {
    () => {
        concat!(
            "[some of the job's CPUs ({lost}) became unusable: ]",
            "[group=unknown: the group of the job is not known yet]",
            "[group=one: the job is in Group 1, which causes contention]",
            "[group=two: the job is in Group 2, which contention slows down]",
            "[group=three: the job is in Group 3, which causes little contention and is slowed down little]",
            "[vote=other: , although the last poll had another result]",
            "[vote=most: , as {n_votes} of {n_voters} threads in the last interval]",
            criterion!(),
            "; ",
            "[division=none: sockets are not divided yet]",
            "[division=apart: Group 1 is assigned to {sockets_one}, the others to {sockets_others}]",
            "[division=below-guard: Group 1 causes too little contention to be concentrated]",
            "[division=no-group-two: there is no Group 2]",
            "[division=one-socket: there is only one socket]",
            "[division=no-group-one: there is no Group 1]",
            "[threads=grouped: , with {n_one}, {n_two} and {n_three} threads of Groups 1, 2 and 3]",
            "[threads=some-unknown: , with {n_one}, {n_two} and {n_three} threads of Groups 1, 2 and 3, ",
            "{n_unknown} without a group]",
        )
    };
}

reasons! {
    /// Group 1 is concentrated on its sockets.
    GROUP_CONCENTRATED = "group-concentrated":
        concat!(group_and_division!(), "[; spread over all sockets, Group 1 would have {sq_each} queue-full cycles on each, more than the minimum of {sq_min}]: the job is placed on {domain}, on {cpus} with the fewest jobs");
    /// The other groups are isolated from Group 1.
    GROUP_ISOLATED = "group-isolated":
        concat!(group_and_division!(), "[; spread over all sockets, Group 1 would have {sq_each} queue-full cycles on each, more than the minimum of {sq_min}]: the job is placed apart from Group 1 on {domain}, on {cpus} with the fewest jobs");
    /// The job fills free slots on any socket: Group 1 is spread, or the sockets of the job's group are full.
    GROUP_FILLS = "group-fills":
        concat!(group_and_division!(), "[; spread over all sockets, Group 1 would have {sq_each} queue-full cycles on each, and the minimum is {sq_min}]: the job fills free slots on {domain}, on {cpus} with the fewest jobs");
    /// The group of the job is spread evenly.
    GROUP_SPREAD = "group-spread":
        concat!(group_and_division!(), "[; spread over all sockets, Group 1 would have {sq_each} queue-full cycles on each, and the minimum is {sq_min}]: the group of the job is spread evenly, this job on {domain}, on {cpus} with the fewest jobs");
    /// The sockets of the job's group are full.
    GROUP_OVERFLOW = "group-overflow":
        concat!(group_and_division!(), ", but the sockets of the job's group are full: the job is placed on {domain}, on {cpus} with the fewest jobs");
    /// The job is placed between two polls.
    GROUP_PLACED = "group-placed":
        concat!(group_and_division!(), ": until the next poll the job is placed on {domain}, [selected=most-free: the socket with the most free slots for it][selected=current: its current socket], on {cpus} with the fewest jobs");
    /// Note: approximate groups.
    GROUPS_APPROXIMATE = "groups-approximate":
        "approximate grouping: queue-full cycles are not counted, so Group 1 is every thread with more than {bandwidth} MB between cache and memory per second of CPU time and more than {ratio} prefetches per demand miss, or misses per 1000 instructions; some of these threads may be harmless";
    /// Note: no groups.
    GROUPS_UNKNOWN = "groups-unknown":
        "neither queue-full cycles nor cache misses per instruction are known: there are no groups, and jobs are spread evenly";
}
