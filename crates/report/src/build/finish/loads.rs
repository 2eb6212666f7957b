//! The series of loads, and what of them stands for the run as a whole.

use engine::LoadBasis;
use sched::SignalTier;
use topology::Level;

use super::super::ReportBuilder;
use super::super::loads::Series;
use super::Names;
use crate::model::{DomainRow, LoadPoint, Loads};
use crate::places::PlaceNames;
use crate::units::seconds;
use crate::words::{load_unit, tier_words};

/// Stretches that a sentence can tell of.
const N_OTHERS_TOLD: usize = 4;

pub(super) fn rows(builder: &ReportBuilder, names: &Names<'_>) -> Vec<Loads> {
    builder.curves.list.iter().map(|series| row(series, names)).collect()
}

fn row(series: &Series, names: &Names<'_>) -> Loads {
    let (LoadBasis { level, tier }, (from, to)) = (series.footing, series.span());
    let places = names.places.of(series.era);
    let point = |((from, to), sums): ((base::Nanos, base::Nanos), &[super::super::loads::Sums])| {
        LoadPoint {
            from_ns: from.0,
            to_ns: to.0,
            ops_per_s: sums.iter().map(|sums| sums.ops_per_s()).collect(),
            cpus_busy: sums.iter().map(|sums| sums.cpus_busy()).collect(),
        }
    };
    Loads {
        from_ns: from.0,
        to_ns: to.0,
        level: level.to_string(),
        tier: tier.to_string(),
        unit: load_unit(tier).to_owned(),
        domains: series.numbers.iter().map(|&number| domain(level, number, places)).collect(),
        points: series.points().map(point).collect(),
    }
}

fn domain(level: Level, number: u32, places: &PlaceNames) -> DomainRow {
    let same = places.domains().filter(|domains| domains.level() == level);
    let domain = same.and_then(|all| all.iter().find(|(_, domain)| domain.number == number));
    let cpus = domain.map(|(_, domain)| domain.cpus.to_string()).unwrap_or_default();
    DomainRow { label: format!("{level} {number}"), number, cpus }
}

/// What loads stood on for the longest time; of two that are equal the first. A run that was over before
/// its first interval has only what loads were to stand on, and that says something only where
/// something was placed.
pub(super) fn main_footing(builder: &ReportBuilder) -> Option<LoadBasis> {
    let expected = builder.footing.filter(|_| builder.counts.placements != 0);
    main(builder).map(|series| series.footing).or(expected)
}

fn main(builder: &ReportBuilder) -> Option<&Series> {
    let length = |series: &&Series| series.span().1.saturating_sub(series.span().0);
    builder.curves.list.iter().rev().max_by_key(length)
}

/// The tier in a sentence, and when it was another or stood for other places. Before anybody ran nobody
/// misses a load.
pub(super) fn meaning(builder: &ReportBuilder, footing: LoadBasis) -> String {
    let first = builder.tracks.iter().filter_map(|track| track.started).min();
    let is_before_all = |series: &Series| {
        let is_none = series.footing.tier == SignalTier::None;
        is_none && first.is_none_or(|first| series.span().1 <= first)
    };
    let is_other = |series: &&Series| series.footing != footing && !is_before_all(series);
    let others: Vec<&Series> = builder.curves.list.iter().filter(is_other).collect();
    let mut told = tier_words(footing.tier).to_owned();
    for series in others.iter().take(N_OTHERS_TOLD) {
        let (LoadBasis { level, tier }, (from, to)) = (series.footing, series.span());
        let what = match tier {
            SignalTier::None => "nothing told of them".to_owned(),
            tier => format!("they were {} per {level}", load_unit(tier)),
        };
        told += &format!("; from {} s to {} s {what}", seconds(from.0), seconds(to.0));
    }
    match others.len().saturating_sub(N_OTHERS_TOLD) {
        0 => told,
        n => format!("{told}; and {n} more times they were something else"),
    }
}
