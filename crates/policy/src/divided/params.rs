//! Every parameter of divided scheduling as `evenkeel policies` tells it.

use crate::common;
use crate::{Need, Needed, Origin, ParamInfo, PolicyInfo, Without};

const EVENTS: &str = "none, or events in a second of CPU time up to 10^12";

/// What it does where nothing is known of a program.
const SPREADS: Without = Without::DoesLess("programs of which nothing is known are spread evenly");

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "divided",
    does: "Collects programs that hurt others on some sockets, and keeps those that are hurt off them.",
    source: "a paper in Korean on divided scheduling by application groups for multicore sockets; its \
             thresholds and mixes are not printed",
    needs: &[
        Need { figure: Needed::LlcMisses, without: SPREADS },
        Need { figure: Needed::Instructions, without: SPREADS },
    ],
    params: &[
        ParamInfo {
            name: "reading",
            takes: "ours or paper",
            default: "ours",
            default_paper: None,
            meaning: "the published rules with what we mend in them, or as printed",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "domains",
            takes: common::DOMAINS_TAKES,
            default: "auto",
            default_paper: None,
            meaning: "what counts as a socket; auto is the coarsest level with two of them",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "interval",
            takes: common::INTERVAL_TAKES,
            default: "10s",
            default_paper: None,
            meaning: "the period in which programs are given a group and a socket",
            origin: Origin::Published,
        },
        ParamInfo {
            name: "version",
            takes: "auto, rank or threshold",
            default: "auto",
            default_paper: None,
            meaning: "groups by rank, a third of all threads each, or by limits; auto is by limits once \
                      th_sq and th_ref are given",
            origin: Origin::Published,
        },
        ParamInfo {
            name: "th_sq",
            takes: EVENTS,
            default: "none",
            default_paper: None,
            meaning: "above so many cycles with a full queue of requests a thread is of Group 1; the \
                      guard uses it too (the paper has one and does not print it)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "th_ref",
            takes: EVENTS,
            default: "none",
            default_paper: None,
            meaning: "above so many references to the last-level cache one that is not of Group 1 is of \
                      Group 2 (refused with version=rank)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "floor",
            takes: "a share such as 5% in steps of 0.0001%",
            default: "5%",
            default_paper: Some("0%"),
            meaning: "with less than this share of the largest rate of full queues so far a thread is \
                      never of Group 1, and never without any (by rank)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "repeat",
            takes: "a whole number of periods from 1 to 1000",
            default: "2",
            default_paper: Some("1"),
            meaning: "a group holds once so many periods in a row have come to it",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "guard",
            takes: "off, or a factor up to 1000 such as 2",
            default: "2",
            default_paper: Some("off"),
            meaning: "Group 1 is collected only if, spread over all sockets, its full queues would come \
                      to more than so many times th_sq on each; without th_sq nobody asks",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "keep",
            takes: "yes or no",
            default: "yes",
            default_paper: Some("no"),
            meaning: "whether a job stays where it is when that socket fits its group",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "bandwidth",
            takes: "megabytes in a second of CPU time, up to 1000000",
            default: "2000",
            default_paper: None,
            meaning: "where full queues are not counted, Group 1 moves more than this between cache and \
                      memory",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "ratio",
            takes: "a number up to 1000000 such as 10",
            default: "10",
            default_paper: None,
            meaning: "and has more than so many prefetches for each miss that it waits for, or misses \
                      per 1000 instructions",
            origin: Origin::OurChoice,
        },
    ],
};
