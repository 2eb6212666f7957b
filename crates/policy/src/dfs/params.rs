//! Every parameter of DFS as `evenkeel policies` tells it.

use crate::common;
use crate::{Need, Needed, Origin, ParamInfo, PolicyInfo, Without};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "dfs",
    does: "Starts programs where the memory controllers have least to do, and moves the hungriest \
           away from an overloaded one.",
    source: "a report in Swedish on a user-level scheduler for the TILEPro64, which it calls DFS; \
             chapters 4.1 to 4.5",
    needs: &[Need {
        figure: Needed::Loads,
        without: Without::DoesLess(
            "programs are spread by number at their start, and none is moved",
        ),
    }],
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
            meaning: "the places kept even; auto is the coarsest level with two of them",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "interval",
            takes: common::INTERVAL_TAKES,
            default: "250ms",
            default_paper: None,
            meaning: "time between two polls of the controllers",
            origin: Origin::Published,
        },
        ParamInfo {
            name: "wake",
            takes: common::WAKE_TAKES,
            default: "poll",
            default_paper: None,
            meaning: "extension: a poll in every interval, or only in those in which something was \
                      counted so often on one CPU (or, with fewer rights, of one thread), and every \
                      two seconds",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "trigger",
            takes: "mean_factor or ratio",
            default: "mean_factor",
            default_paper: None,
            meaning: "what is uneven: a load above factor times the mean, or the largest load at \
                      least twice the smallest",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "factor",
            takes: "auto, or a number from 1 to 1000 such as 1.5 or 4/3",
            default: "auto",
            default_paper: None,
            meaning: "how far above the mean is uneven; auto is 2n/(n+1) for n places, which is \
                      one carrying twice what each other does (refused with trigger=ratio, which \
                      has a limit of its own)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "migrations_per_poll",
            takes: "a whole number from 1 to 1000",
            default: "1",
            default_paper: None,
            meaning: "at most so many jobs are moved in one poll",
            origin: Origin::Published,
        },
        ParamInfo {
            name: "cooldown",
            takes: "a whole number of polls up to 1000000",
            default: "8",
            default_paper: Some("0"),
            meaning: "a job that was moved is not moved again for so many polls",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "min_load",
            takes: "auto, a share of the peak such as 1% in steps of 0.0001%, or operations per \
                    interval",
            default: "1%",
            default_paper: Some("0"),
            meaning: "with less total load than this nothing is moved; the peak is the largest load \
                      of one place so far, auto is 1%",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "only_job",
            takes: "stay or move",
            default: "stay",
            default_paper: Some("move"),
            meaning: "whether a job alone on the busiest place is moved, which would only carry the \
                      hot spot along",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "start",
            takes: "estimate or plain",
            default: "estimate",
            default_paper: Some("plain"),
            meaning: "jobs that start between two polls: count what their class has shown, then \
                      programs, then classes; or use loads as measured and the lowest number",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "class_basis",
            takes: "rate or total",
            default: "rate",
            default_paper: Some("total"),
            meaning: "what the declared classes were made from: operations per millisecond, or \
                      millions of operations in the whole run",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "failures",
            takes: "a whole number from 1 to 1000000",
            default: "4",
            default_paper: None,
            meaning: "after so many polls in a row without readable counters the run ends",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "bind",
            takes: "cpu or domain",
            default: "cpu",
            default_paper: None,
            meaning: "a job gets a CPU for each of its threads, or all CPUs of its place",
            origin: Origin::Published,
        },
        ParamInfo {
            name: "placement",
            takes: "load or sens",
            default: "load",
            default_paper: None,
            meaning: "extension: start, victim and destination by the loads of places, or by the sum \
                      of all slow-downs as predicted from each program's sensitivity",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "classes",
            takes: "declared or online",
            default: "declared",
            default_paper: None,
            meaning: "extension: classes as declared, or as the cache misses of a job's tasks show \
                      over 8 polls, once 4 polls agree",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "loads",
            takes: "auto, controller, per-core or both",
            default: "auto",
            default_paper: None,
            meaning: "extension: loads are what the controllers count, or what tasks are counted to \
                      do; both: the controllers tell that somebody goes, the misses of tasks who; \
                      auto is the best there is, and classes tell who goes",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "memory",
            takes: "stay or follow",
            default: "stay",
            default_paper: None,
            meaning: "extension: memory stays where it was touched, or is moved after a job that was \
                      moved to another node, while less than 90 % of it is there and more than 1.2 \
                      times as much is free there",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "gain",
            takes: "off, or a factor up to 1000 such as 1.5",
            default: "off",
            default_paper: None,
            meaning: "extension: a job is moved only if that is expected to gain more than so many \
                      times what it costs: time left × share of the load × slope against pages × \
                      page_move + refill",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "slope",
            takes: "a share from 0 to 1 such as 0.2",
            default: "0.2",
            default_paper: None,
            meaning: "the share of its time that a job with all the load of an overloaded place \
                      loses (guessed; for gain)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "page_move",
            takes: common::SHORT_TAKES,
            default: "2us",
            default_paper: None,
            meaning: "the time of moving a page, until 256 pages have shown it (guessed; for gain)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "refill",
            takes: common::SHORT_TAKES,
            default: "5ms",
            default_paper: None,
            meaning: "the time of filling the caches again after a move (guessed; for gain)",
            origin: Origin::OurChoice,
        },
    ],
};
