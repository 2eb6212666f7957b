//! What DINO can be told.

use super::classes::{Hysteresis, Limits};
use crate::common::whole;
use crate::intensity::params::{
    BUSY_PARAM, Common, DOMAINS_PARAM, FAILURES_PARAM, INTERVAL_PARAM, READING_PARAM, Reading,
    reading,
};
use crate::intensity::rates::Rate;
use crate::spec::Given;
use crate::{Need, Needed, Origin, ParamInfo, PolicyError, PolicyInfo, Without};

/// Everything that DINO can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub common: Common,
    pub limits: Limits,
    pub hysteresis: Hysteresis,
    pub memory: Memory,
    pub keep: Keep,
}

/// What becomes of memory when a job comes to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Whole,
    None,
    /// Windows around sampled addresses; done as `Whole` as long as nothing samples them.
    Partial,
}

/// Who stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Who has a class that its cache is to have.
    Cache,
    /// Who has the class that its core had and is to have.
    Core,
}

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, PolicyError> {
        let reading = reading(given)?;
        let keep = match reading {
            Reading::Ours => Keep::Cache,
            Reading::Paper => Keep::Core,
        };
        let min_delta: u64 = given.get("hyst_min_delta_mpki", 0, |t| whole(t, 0, 1000))?;
        Ok(Config {
            common: Common::read(given, reading)?,
            limits: given.choice("limits", Limits::Released, LIMITS)?,
            hysteresis: Hysteresis {
                hits: given.get("hyst_hits", 7, |t| whole(t, 1, 10))?,
                min_delta: Rate::per_10_000(min_delta * 10),
            },
            memory: given.choice("memory", Memory::Whole, MEMORY)?,
            keep: given.choice("keep", keep, KEEP)?,
        })
    }
}

const LIMITS: &[(&str, Limits)] = &[("released", Limits::Released), ("article", Limits::Article)];
const MEMORY: &[(&str, Memory)] =
    &[("whole", Memory::Whole), ("none", Memory::None), ("partial", Memory::Partial)];
const KEEP: &[(&str, Keep)] = &[("cache", Keep::Cache), ("core", Keep::Core)];

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "dino",
    does: "Spreads classes of programs over caches, moves only when classes change, and moves memory to \
           the node that its program comes to.",
    source: "Blagodurov, Zhuravlev, Dashti, Fedorova, USENIX ATC 2011, as released in their scheduler \
             Clavis 6.5.5",
    needs: &[
        Need { figure: Needed::Instructions, without: Without::Refuses },
        Need { figure: Needed::LlcMisses, without: Without::Refuses },
    ],
    params: &[
        READING_PARAM,
        DOMAINS_PARAM,
        INTERVAL_PARAM,
        ParamInfo {
            name: "limits",
            takes: "released or article",
            default: "released",
            default_paper: None,
            meaning: "misses per 1000 instructions from which a thread is a devil, and a super-devil: as \
                      in the released code (1.5 and 50.5), or as in the article (2 and 100)",
            origin: Origin::Published,
        },
        ParamInfo {
            name: "hyst_hits",
            takes: "a whole number from 1 to 10",
            default: "7",
            default_paper: None,
            meaning: "of the last 10 intervals so many must lie in a class before a thread takes it; of \
                      fewer the same share",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "hyst_min_delta_mpki",
            takes: "misses per 1000 instructions, from 0 to 1000",
            default: "0",
            default_paper: None,
            meaning: "and their mean must be so far from what it was when the old class was taken",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "memory",
            takes: "whole, none or partial",
            default: "whole",
            default_paper: None,
            meaning: "when a job comes to another node its memory goes along, and of devils what was left \
                      behind is called again; or stays; partial would move 4096 pages around sampled \
                      addresses, which nothing here samples yet, and does as whole",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "keep",
            takes: "cache or core",
            default: "cache",
            default_paper: Some("core"),
            meaning: "a thread stays where it is when its cache is to have one more of its class, or only \
                      when its very core is, and neither had another class before",
            origin: Origin::OurChoice,
        },
        BUSY_PARAM,
        FAILURES_PARAM,
    ],
};
