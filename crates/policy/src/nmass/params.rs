//! Every parameter of N-MASS and maximum-local as `evenkeel policies` tells it.

use crate::common;
use crate::intensity::params::FAILURES_PARAM;
use crate::{Need, Needed, Origin, ParamInfo, PolicyInfo, Without};

const SOURCE: &str = "Majo and Gross, Memory management in NUMA multicore systems: trapped between \
                      cache contention and interconnect overhead, ISMM 2011";

const DOMAINS: ParamInfo = ParamInfo {
    name: "domains",
    takes: common::DOMAINS_TAKES,
    default: "auto",
    default_paper: None,
    meaning: "what counts as a processor; auto is the coarsest level with two of them",
    origin: Origin::OurChoice,
};

const INTERVAL: ParamInfo = ParamInfo {
    name: "interval",
    takes: common::INTERVAL_TAKES,
    default: "1s",
    default_paper: None,
    meaning: "time between two looks; whatever starts or ends is looked at at once",
    origin: Origin::OurChoice,
};

const WINDOW: ParamInfo = ParamInfo {
    name: "window",
    takes: "a whole number of intervals from 1 to 1000",
    default: "10",
    default_paper: None,
    meaning: "cycles and misses per instruction are those of so many intervals together (guessed)",
    origin: Origin::OurChoice,
};

const EVEN: ParamInfo = ParamInfo {
    name: "even",
    takes: "a number from 1 to 1000 such as 1.25",
    default: "1.25",
    default_paper: None,
    meaning: "pages are spread evenly when no node holds more than so many times an equal part of \
              them (guessed)",
    origin: Origin::OurChoice,
};

const NP_STEP: ParamInfo = ParamInfo {
    name: "np_step",
    takes: "a number from 0.001 to 1",
    default: "0.05",
    default_paper: None,
    meaning: "a penalty that was counted holds until another differs by so much, so that noise moves \
              nobody (guessed)",
    origin: Origin::OurChoice,
};

pub(crate) const MAXIMUM_LOCAL: PolicyInfo = PolicyInfo {
    name: "maximum-local",
    does: "Runs programs where their memory is, those first that suffer most from being away.",
    source: SOURCE,
    needs: &[],
    params: &[DOMAINS, INTERVAL, WINDOW, EVEN, NP_STEP],
};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "nmass",
    does: "Runs programs where their memory is, and takes those that suffer least from being away \
           off a processor whose programs miss its cache far more than another's.",
    source: SOURCE,
    needs: &[
        Need { figure: Needed::LlcMisses, without: Without::Refuses },
        Need { figure: Needed::Instructions, without: Without::Refuses },
    ],
    params: &[
        ParamInfo {
            name: "reading",
            takes: "ours or paper",
            default: "ours",
            default_paper: None,
            meaning: "the published rules with what we mend in them, or as they are known",
            origin: Origin::OurChoice,
        },
        DOMAINS,
        INTERVAL,
        ParamInfo {
            name: "d_min",
            takes: "misses per 1000 instructions, up to 1000000, such as 2.5",
            default: "2",
            default_paper: None,
            meaning: "processors whose pressures are no further apart are left alone",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "k",
            takes: "a number up to 1000000 in steps of 0.000001",
            default: "0.01",
            default_paper: None,
            meaning: "a penalty of at most 1 + k × the difference of pressures is accepted: with \
                      0.01 a difference of 20 justifies 20 %",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "swap",
            takes: "yes or no",
            default: "yes",
            default_paper: Some("no"),
            meaning: "whether a program changes places with one that misses less when no core is \
                      free where it goes",
            origin: Origin::OurChoice,
        },
        WINDOW,
        EVEN,
        NP_STEP,
        FAILURES_PARAM,
    ],
};
