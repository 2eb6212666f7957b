//! The load series, and the source of the loads for most of the run.

use base::Nanos;
use engine::LoadBasis;
use sched::SignalTier;
use topology::Level;

use super::super::ReportBuilder;
use super::super::load_history::{LoadSeriesSums, LoadSums};
use super::ReportNames;
use crate::domain_names::DomainNames;
use crate::format::seconds;
use crate::model::{DomainRow, LoadPoint, LoadSeries};
use crate::phrases::tier_phrase;

/// Number of other intervals that the sentence lists.
const N_OTHERS_LISTED: usize = 4;

pub(super) fn rows(builder: &ReportBuilder, names: &ReportNames<'_>) -> Vec<LoadSeries> {
    builder.loads.list.iter().map(|series| row(series, names)).collect()
}

fn row(series: &LoadSeriesSums, names: &ReportNames<'_>) -> LoadSeries {
    let (LoadBasis { level, tier }, (from, to)) = (series.basis, series.span());
    let domain_names = names.domain_names.of(series.epoch);
    let point = |((from, to), sums): ((Nanos, Nanos), &[LoadSums])| LoadPoint {
        from_ns: from.0,
        to_ns: to.0,
        ops_per_s: sums.iter().map(|sums| sums.ops_per_s()).collect(),
        cpus_busy: sums.iter().map(|sums| sums.cpus_busy()).collect(),
    };
    LoadSeries {
        from_ns: from.0,
        to_ns: to.0,
        level: level.to_string(),
        tier: tier.to_string(),
        unit: tier.load_unit().to_owned(),
        domains: series.numbers.iter().map(|&number| domain(level, number, domain_names)).collect(),
        cpu_unattributed_ns: series.unattributed.0,
        points: series.points().map(point).collect(),
    }
}

fn domain(level: Level, number: u32, domain_names: &DomainNames) -> DomainRow {
    let same = domain_names.domains().filter(|domains| domains.level() == level);
    let domain = same.and_then(|all| all.iter().find(|(_, domain)| domain.number == number));
    let cpus = domain.map(|(_, domain)| domain.cpus.to_string()).unwrap_or_default();
    DomainRow { label: format!("{level} {number}"), number, cpus }
}

/// Returns the level and the tier that the loads had for the longest time; ties: the first. A run that ended before its
/// first interval has only the expected basis, which is relevant only if the policy requested a placement.
pub(super) fn main_basis(builder: &ReportBuilder) -> Option<LoadBasis> {
    let length = |series: &&LoadSeriesSums| series.span().1.saturating_sub(series.span().0);
    let longest = builder.loads.list.iter().rev().max_by_key(length);
    let expected = builder.load_basis.filter(|_| builder.counts.placements != 0);
    longest.map(|series| series.basis).or(expected)
}

/// Returns the tier as a sentence, with the intervals in which the level or the tier differed. Intervals without a
/// source before the first job started are omitted.
pub(super) fn tier_text(builder: &ReportBuilder, basis: LoadBasis) -> String {
    let first_start = builder.tracks.iter().filter_map(|track| track.started).min();
    let is_before_jobs = |series: &LoadSeriesSums| {
        let is_none = series.basis.tier == SignalTier::None;
        is_none && first_start.is_none_or(|first| series.span().1 <= first)
    };
    let is_other = |series: &&LoadSeriesSums| series.basis != basis && !is_before_jobs(series);
    let others: Vec<&LoadSeriesSums> = builder.loads.list.iter().filter(is_other).collect();
    let mut text = tier_phrase(basis.tier).to_owned();
    for series in others.iter().take(N_OTHERS_LISTED) {
        let (LoadBasis { level, tier }, (from, to)) = (series.basis, series.span());
        let source = match tier {
            SignalTier::None => "they were unknown".to_owned(),
            tier => format!("they were {} per {level}", tier.load_unit()),
        };
        text += &format!("; from {} s to {} s {source}", seconds(from.0), seconds(to.0));
    }
    match others.len().saturating_sub(N_OTHERS_LISTED) {
        0 => text,
        n => format!("{text}; and {n} more intervals with another source"),
    }
}
