//! Distance of policies to the best pinned placement.
//!
//! ```text
//!   a set of eight ─► every split over the caches, each pinned ─► the best split
//!                  └► each policy, free ───────────────────────► slowdown ÷ slowdown of the best split - 1
//! ```
//!
//! The best split has the smallest mean slowdown over the same seeds. A policy can be better: a split is pinned until
//! the end, and a policy can place programs again after an exit.

use report::format::fixed;
use report::study::{RuleReading, StudyClaim};

use super::super::finding::{in_percent, judged_claim, percent, with_values};
use super::super::run_pool::Series;
use super::super::{Finding, FindingTable, ReproduceError, RunPool, Testbed};
use super::splits::{SplitTestbed, TESTBEDS, TriedSplits, sets};
use super::{alone_s, mean_slowdown, with_reading};
use crate::reproduce::finding::BOTH_READINGS;
use crate::stats::mean_of;

/// Published distance to the optimum.
const DISTANCE_MAX: f64 = 0.02;

/// Policies with two readings.
const WITH_READINGS: [&str; 4] = ["di", "dio", "dino", "animal"];
const OTHERS: [&str; 3] = ["oracle", "random", "linux"];

/// Columns of the table: header, and index of the policy.
const COLUMNS: [(&str, usize); 8] = [
    ("di", 1),
    ("dio", 3),
    ("dio as printed", 2),
    ("dino", 5),
    ("animal", 7),
    ("oracle", 8),
    ("random", 9),
    ("linux", 10),
];

const SETS: &str = "sets: eight different programs of the 29 of SPEC CPU2006 with a shipped profile, drawn with a \
                    fixed seed; mixed sets have four with more than 1.5 misses per 1000 instructions alone in the \
                    last-level cache of the machine, and four with fewer; each program is scaled to 60 s alone";

fn policies() -> Vec<String> {
    let both = |policy: &&str| BOTH_READINGS.map(|reading| with_reading(policy, reading, ""));
    let others = OTHERS.iter().map(|policy| (*policy).to_owned());
    WITH_READINGS.iter().flat_map(both).chain(others).collect()
}

pub(super) fn optimum(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    for testbed in TESTBEDS {
        compare_policies(pool, testbed, &mut finding)?;
    }
    finding.notes.push(SETS.to_owned());
    Ok(finding)
}

/// Compares the policies with the best split on one testbed.
fn compare_policies(
    pool: &RunPool<'_>,
    (name, description): SplitTestbed,
    finding: &mut Finding,
) -> Result<(), ReproduceError> {
    let testbed = Testbed::parse(name)?;
    let (policies, sets) = (policies(), sets());
    let policy_texts: Vec<&str> = policies.iter().map(String::as_str).collect();
    let set_texts: Vec<&str> = sets.iter().map(String::as_str).collect();
    let seeds = super::splits::seeds(pool);
    let free = pool.run(&testbed, &policy_texts, &set_texts, seeds)?;
    let head = ["set", "best", "worst", "all"].into_iter();
    let heads: Vec<&str> = head.chain(COLUMNS.iter().map(|(head, _)| *head)).collect();
    let title = format!(
        "{description}: mean slowdown of the best, the worst and all splits; distance to the best in %"
    );
    let mut table = FindingTable::new(&title, &heads).units(&["1", "1", "1", "%"]);
    let mut distances: Vec<Vec<Option<f64>>> = vec![Vec::new(); policies.len()];
    for (set_idx, set) in sets.iter().enumerate() {
        let Some(tried) = TriedSplits::of(pool, &testbed, set)? else { continue };
        let alone = alone_s(pool, &testbed, &testbed.programs(set)?)?;
        for (runs, distances) in free.iter().zip(&mut distances) {
            let slowdown = mean_slowdown(&runs[set_idx], &alone);
            distances.push(slowdown.map(|slowdown| slowdown / tried.best() - 1.0));
        }
        let bounds = [tried.best(), tried.worst(), tried.mean()].map(|slow| fixed(slow, 3));
        let printed =
            COLUMNS.iter().map(|(_, policy)| distances[*policy].last().copied().flatten());
        let cells = std::iter::once(set.clone()).chain(bounds).chain(printed.map(percent));
        table.row(cells);
    }
    finding.tables.push(table);
    finding.claims.extend(claims(description, &policies, &distances));
    if !name.contains("one-memory") {
        finding.notes.extend(program_notes(&testbed, &sets)?);
    }
    finding.notes.extend(free.iter().flatten().filter_map(Series::failure));
    Ok(())
}

fn program_notes(testbed: &Testbed, sets: &[String]) -> Result<Vec<String>, ReproduceError> {
    let note = |set: &String| {
        let programs = testbed.programs(set)?.join(", ");
        Ok(format!("{set} on {}: {programs}", testbed.machine.name()))
    };
    sets.iter().map(note).collect()
}

fn claims(
    description: &str,
    policies: &[String],
    distances: &[Vec<Option<f64>>],
) -> Vec<StudyClaim> {
    let judge = |(policy, distances): (&String, &Vec<Option<f64>>)| {
        let known: Option<Vec<f64>> = distances.iter().copied().collect();
        let known = known.unwrap_or_default();
        let reading = match policy.as_str() {
            "oracle" => RuleReading::Either,
            policy => super::reading_of(policy),
        };
        let name = policy.split('[').next().unwrap_or_default();
        let (average, max) =
            (mean_of(known.iter().copied()), known.iter().copied().reduce(f64::max));
        let n = known.iter().filter(|distance| **distance <= DISTANCE_MAX).count();
        let claim = judged_claim(
            &format!("{description}: {name} is within 2 % of the best split, on average"),
            reading,
            format!(
                "{} % on average, {} % at most, {n} of {} sets within 2 %",
                percent(average),
                percent(max),
                distances.len()
            ),
            average.map(|average| average <= DISTANCE_MAX),
        );
        with_values(claim, in_percent(average))
    };
    // Random and linux are baselines without a claim.
    let n_claims = 2 * WITH_READINGS.len() + 1;
    policies.iter().zip(distances).take(n_claims).map(judge).collect()
}
