//! What DI and its kin can be told.

use crate::common::whole;
use crate::intensity::params::{
    BUSY_PARAM, Common, DOMAINS_PARAM, FAILURES_PARAM, INTERVAL_PARAM, READING_PARAM, Reading,
    reading,
};
use crate::intensity::rates::Rate;
use crate::spec::Given;
use crate::{Need, Needed, Origin, ParamInfo, PolicyError, PolicyInfo, Without};

/// Where the miss rates come from, and what moves with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rates from profiles.
    Offline,
    /// Rates as counted.
    Online,
    /// As counted, and memory goes along.
    Migrate,
}

/// Everything that they can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub kind: Kind,
    pub common: Common,
    /// Above this a thread is a devil.
    pub devil: Rate,
    /// Whether threads share CPUs where there are too few.
    pub shares: bool,
    /// Whether who stays in its cache keeps its CPU.
    pub keeps: bool,
}

/// In misses per 10 000 instructions [confirmed: Clavis, `DEVIL_HORIZON`].
const DEVIL: u64 = 15;

impl Config {
    pub fn read(given: &Given<'_>, kind: Kind) -> Result<Self, PolicyError> {
        let reading = reading(given)?;
        let is_ours = reading == Reading::Ours;
        Ok(Config {
            kind,
            common: match kind {
                Kind::Offline => Common::read_without_counters(given, reading)?,
                Kind::Online | Kind::Migrate => Common::read(given, reading)?,
            },
            devil: Rate::per_10_000(given.get("devil", DEVIL, |t| whole(t, 1, 10_000))?),
            shares: given.choice("crowded", is_ours, CROWDED)?,
            keeps: given.choice("keep", is_ours, KEEP)?,
        })
    }
}

const CROWDED: &[(&str, bool)] = &[("layers", true), ("leave", false)];
const KEEP: &[(&str, bool)] = &[("cpu", true), ("none", false)];

const DEVIL_PARAM: ParamInfo = ParamInfo {
    name: "devil",
    takes: "misses per 10000 instructions, from 1 to 10000",
    default: "15",
    default_paper: None,
    meaning: "above it a thread is a devil; one of which nothing is known counts as one at this limit",
    origin: Origin::Published,
};

const CROWDED_PARAM: ParamInfo = ParamInfo {
    name: "crowded",
    takes: "layers or leave",
    default: "layers",
    default_paper: Some("leave"),
    meaning: "more threads than CPUs: they share CPUs, as evenly as can be, or who finds none free \
              stays where it is",
    origin: Origin::OurChoice,
};

const KEEP_PARAM: ParamInfo = ParamInfo {
    name: "keep",
    takes: "cpu or none",
    default: "cpu",
    default_paper: Some("none"),
    meaning: "a thread that stays in its cache keeps its CPU, or takes the first that is free as all \
              others do",
    origin: Origin::OurChoice,
};

const SOURCE: &str = "Zhuravlev, Blagodurov, Fedorova, ASPLOS 2010, as released in their scheduler Clavis \
                      6.5.5";

pub(crate) const DI: PolicyInfo = PolicyInfo {
    name: "di",
    does: "Deals programs out to caches by the miss rates that were measured of them before, highest \
           first.",
    source: SOURCE,
    needs: &[Need {
        figure: Needed::MissCurve,
        without: Without::DoesLess("a program without it counts as one at the limit of devils"),
    }],
    params: &[
        READING_PARAM,
        DOMAINS_PARAM,
        INTERVAL_PARAM,
        DEVIL_PARAM,
        CROWDED_PARAM,
        KEEP_PARAM,
        BUSY_PARAM,
    ],
};

/// What both need that count.
const COUNTED: &[Need] = &[
    Need { figure: Needed::Instructions, without: Without::Refuses },
    Need { figure: Needed::LlcMisses, without: Without::Refuses },
];

const ONLINE: &[ParamInfo] = &[
    READING_PARAM,
    DOMAINS_PARAM,
    INTERVAL_PARAM,
    DEVIL_PARAM,
    CROWDED_PARAM,
    KEEP_PARAM,
    BUSY_PARAM,
    FAILURES_PARAM,
];

pub(crate) const DIO: PolicyInfo = PolicyInfo {
    name: "dio",
    does: "Deals programs out to caches by the miss rates that are counted of them, highest first.",
    source: SOURCE,
    needs: COUNTED,
    params: ONLINE,
};

pub(crate) const DI_MIGRATE: PolicyInfo = PolicyInfo {
    name: "di-migrate",
    does: "As dio, and the memory of a program that comes to another node goes there with it.",
    source: "the variant that Blagodurov et al., USENIX ATC 2011, compare DINO with",
    needs: COUNTED,
    params: ONLINE,
};
