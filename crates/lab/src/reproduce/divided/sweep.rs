//! The smallest number of aggressors for which isolation is better than spreading.
//!
//! ```text
//!   isolation   [1 1 1 1] [2 2 2 2]         Group 1 fills one socket, Group 2 the other
//!   spreading   [1 2 1 2] [1 2 1 2]         alternating
//! ```

use host_sim::predict::predict_together;
use report::format::{fixed, signed};
use report::study::{ChartKind, RuleReading, StudyCell};

use super::super::finding::{BOTH_READINGS, judged_claim};
use super::super::published_groups::{ELEVEN, G1, G2};
use super::super::run_pool::Series;
use super::super::{Finding, FindingTable, Gain, ReproduceError, RunPool, Testbed};
use super::programs::{GroupThresholds, Socket, claim_of_draws, socket, sockets};
use super::splits::SOCKET_CPUS;
use crate::stats::mean;

/// Number of programs.
const N: usize = 8;
/// Numbers of aggressors.
const NUMBERS: std::ops::RangeInclusive<usize> = 1..=6;
/// Minimum speedup for which isolation counts as better with a fixed placement. A fixed placement has no random
/// variation, so it has no confidence interval. Chosen before the first run.
const SPEEDUP_MIN: f64 = 1.005;

/// Returns the eight programs, aggressors first.
fn programs(n_aggressors: usize) -> Vec<usize> {
    let programs_of = |group: [usize; 3], n: usize| (0..n).map(move |idx| group[idx % group.len()]);
    programs_of(G1, n_aggressors).chain(programs_of(G2, N - n_aggressors)).collect()
}

/// Returns the mean slowdown if one socket has the first four programs (isolated), or every second program (spread).
fn fixed_slowdown(socket: &Socket, n_aggressors: usize, is_isolated: bool) -> f64 {
    let programs = programs(n_aggressors);
    let slowdowns = [0, 1].map(|side| {
        let side_of = |idx: usize| if is_isolated { idx / SOCKET_CPUS } else { idx % 2 };
        let on_side =
            (0..N).filter(|idx| side_of(*idx) == side).map(|idx| &socket.behaviours[programs[idx]]);
        let predicted = predict_together(&on_side.collect::<Vec<_>>(), &socket.domain);
        predicted.into_iter().map(|predicted| predicted.slowdown).collect::<Vec<f64>>()
    });
    mean(&slowdowns.concat())
}

/// Returns, by number of aggressors, whether isolation is better with a fixed placement.
fn better_fixed(socket: &Socket) -> Vec<bool> {
    NUMBERS
        .map(|n| fixed_slowdown(socket, n, true) * SPEEDUP_MIN < fixed_slowdown(socket, n, false))
        .collect()
}

/// Returns whether isolation is not better with one and with two aggressors, and is better with some larger number.
fn is_as_published(is_better: &[bool]) -> bool {
    !is_better[0] && !is_better[1] && is_better.contains(&true)
}

fn claim_text(method: &str) -> String {
    format!(
        "{method}: isolation is not better with one or two aggressors, and is better with some larger number"
    )
}

fn summary(is_better: &[bool]) -> String {
    match is_better.iter().position(|better| *better) {
        Some(idx) => format!(
            "isolation is better from {} on, and with {} of 6 numbers",
            idx + 1,
            is_better.iter().filter(|better| **better).count()
        ),
        None => "isolation is never better".to_owned(),
    }
}

/// Returns the gains of `guard=off` over a guard that always spreads, by number of aggressors.
fn by_policy(
    pool: &RunPool<'_>,
    limits: GroupThresholds,
    reading: RuleReading,
) -> Result<(Vec<Gain>, Vec<String>), ReproduceError> {
    let testbed = Testbed::parse("xeon-2x4")?.with_profiles(pool.profiles());
    let reading = if reading == RuleReading::Paper { "reading=paper," } else { "" };
    let policies = ["off", "1000"].map(|guard| {
        format!("divided[{reading}version=threshold,guard={guard},{}]", limits.params())
    });
    let workloads = NUMBERS.map(|n| {
        let names: Vec<&str> = programs(n).into_iter().map(|idx| ELEVEN[idx]).collect();
        format!("programs:{}", names.join("+"))
    });
    let workloads: Vec<String> = workloads.collect();
    let names: Vec<&str> = workloads.iter().map(String::as_str).collect();
    let runs = pool.run(&testbed, &[&policies[0], &policies[1]], &names, pool.seeds())?;
    let pairs = runs[0].iter().zip(&runs[1]);
    let gains = pairs.map(|(isolated, spread)| Gain::speedup(isolated, spread, None));
    Ok((gains.collect(), runs.iter().flatten().filter_map(Series::failure).collect()))
}

pub(super) fn sweep(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let middle = socket("xeon-2x4", pool.middle())?;
    let limits = GroupThresholds::of(&middle);
    let [(paper, mut failures), (corrected, more)] =
        [by_policy(pool, limits, BOTH_READINGS[0])?, by_policy(pool, limits, BOTH_READINGS[1])?];
    failures.extend(more);
    let mut claims = vec![claim_of_draws(
        &claim_text("fixed placement"),
        |socket: &Socket| is_as_published(&better_fixed(socket)),
        &middle,
        &sockets(pool)?,
    )];
    for (reading, gains) in BOTH_READINGS.into_iter().zip([&paper, &corrected]) {
        let is_better: Option<Vec<bool>> = gains.iter().map(Gain::is_significant).collect();
        claims.push(judged_claim(
            &claim_text("by the policy"),
            reading,
            is_better.as_deref().map_or("too few pairs".to_owned(), summary),
            is_better.as_deref().map(is_as_published),
        ));
    }
    let mut notes = vec![
        format!(
            "fixed placement, in the middle of the ranges: {}",
            summary(&better_fixed(&middle))
        ),
        format!("the guard is 2 x th_sq of {} per second for each socket", limits.th_sq),
    ];
    notes.extend(failures);
    Ok(Finding { tables: tables(&middle, limits, &paper, &corrected).to_vec(), claims, notes })
}

fn tables(
    middle: &Socket,
    limits: GroupThresholds,
    paper: &[Gain],
    corrected: &[Gain],
) -> [FindingTable; 2] {
    let heads = ["aggressors", "fixed", "policy: as printed", "policy: corrected"];
    let title = "gain of isolation over spreading in %: fixed placement (mean slowdown of one / of the other - 1), by the policy";
    let mut gains = FindingTable::new(title, &heads).units(&["%"]).drawn(ChartKind::Lines);
    let heads = ["aggressors", "isolated", "spread", "queue full each", "the guard"];
    let mut slowdowns = FindingTable::new(
        "mean slowdown with fixed placement, and the decision of the guard",
        &heads,
    )
    .units(&["1", "1", "1/s", "1"]);
    for n in NUMBERS {
        let (isolated, spread) =
            (fixed_slowdown(middle, n, true), fixed_slowdown(middle, n, false));
        // Queue-full events of Group 1 per socket, if Group 1 is spread over two sockets.
        let aggressors = programs(n).into_iter().take(n);
        let queue_full = aggressors.map(|p| middle.alone[p].queue_full).sum::<f64>() / 2.0;
        let decision =
            if 2.0 * (limits.th_sq as f64) < queue_full { "isolates" } else { "spreads" };
        let cells: [StudyCell; 4] = [
            n.to_string().into(),
            signed((spread / isolated - 1.0) * 100.0, 1).into(),
            paper[n - 1].cell(),
            corrected[n - 1].cell(),
        ];
        gains.row(cells);
        slowdowns.row([
            n.to_string(),
            fixed(isolated, 3),
            fixed(spread, 3),
            fixed(queue_full, 0),
            decision.to_owned(),
        ]);
    }
    [gains, slowdowns]
}
