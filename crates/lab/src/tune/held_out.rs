//! Held-out runs, and the gain on them.

use std::collections::BTreeMap;
use std::ops::Range;

use base::counted_noun;
use report::comparison::{ComparisonVerdict, PolicyRow};
use report::tuning::{TuneGain, TuneRuns};

use crate::compare::{
    Column, ComparePlan, RunKey, RunMetrics, SimBench, SoloTimes, SummaryContext, summarize,
};

/// Returns whether a workload is held out by default, from its index among `n` workloads: every third workload, and the
/// second of two. A single workload is not held out.
pub fn is_held_out(idx: usize, n: usize) -> bool {
    idx % 3 == 2 || (n == 2 && idx == 1)
}

/// Measures gains with the statistics of a comparison.
pub(super) struct GainMeter<'a> {
    pub bench: &'a SimBench,
    /// Names of the workloads of the bench, in its order.
    pub workloads: &'a [String],
    pub done: &'a BTreeMap<RunKey, RunMetrics>,
}

impl GainMeter<'_> {
    /// Returns the gain of a policy over a baseline on the runs of some workloads and seeds.
    pub fn gain(
        &self,
        runs: TuneRuns,
        (policy, baseline): (&Column, &Column),
        workloads: Range<usize>,
        seeds: &[u64],
    ) -> TuneGain {
        let row = self.row((policy, baseline), workloads, seeds);
        // The settings are the best of the training runs, so their interval there would not contain the gain.
        let is_training = runs == TuneRuns::Training;
        let is_same = row.as_ref().is_some_and(|row| row.is_same_as_baseline);
        let interval = row.as_ref().and_then(|row| row.ratio_ci95.clone());
        let ends = interval.map(|ends| ends.iter().rev().map(|ratio| 1.0 - ratio).collect());
        TuneGain {
            runs,
            baseline: baseline.text.clone(),
            gain: row.as_ref().and_then(|row| row.ratio_to_baseline).map(|ratio| 1.0 - ratio),
            gain_ci95: ends.filter(|_| !is_training),
            verdict: row.as_ref().and_then(|row| row.verdict).filter(|_| !is_training),
            remark: match &row {
                _ if is_same => Some("all runs are the same".to_owned()),
                Some(row) if row.is_identical => {
                    Some("the runs of all seeds are identical: one observation".to_owned())
                }
                Some(row) => row.ratio_absent_because.clone(),
                None => None,
            },
        }
    }

    fn row(
        &self,
        (policy, baseline): (&Column, &Column),
        workloads: Range<usize>,
        seeds: &[u64],
    ) -> Option<PolicyRow> {
        let columns = vec![policy.clone(), baseline.clone()];
        let names = self.workloads[workloads.clone()].to_vec();
        let plan = ComparePlan::new(columns, Some(&baseline.text), names, seeds.to_vec()).ok()?;
        let jobs: Vec<_> =
            self.bench.workloads()[workloads].iter().map(|ready| ready.jobs().to_vec()).collect();
        let about = SummaryContext {
            host: "sim",
            machine: &self.bench.setting().machine,
            jobs: &jobs,
            alone: &SoloTimes::new(),
            command: None,
            options: &BTreeMap::new(),
            timelines: &BTreeMap::new(),
            outputs: &BTreeMap::new(),
        };
        let all = summarize(&plan, self.done, &about);
        all.policies.into_iter().find(|row| row.column == policy.text)
    }
}

/// Returns whether a gain replaces the defaults.
pub(super) fn is_confirmed(gain: &TuneGain) -> bool {
    gain.verdict == Some(ComparisonVerdict::Better)
}

/// Returns a note if the seeds are too few for any verdict.
pub(super) fn too_few_seeds(n_seeds: usize) -> Option<String> {
    let needed = crate::stats::pairs_needed(1);
    (n_seeds < needed).then(|| {
        format!(
            "{} cannot confirm a gain: all differences can have the same sign by chance. Use --held-out-seeds {needed} or more.",
            counted_noun(n_seeds, "held-out seed")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_workload_is_held_out_and_never_the_only_one() {
        let held_out = |n: usize| (0..n).filter(|idx| is_held_out(*idx, n)).collect::<Vec<_>>();
        assert_eq!(held_out(1), [] as [usize; 0]);
        assert_eq!((held_out(2), held_out(3), held_out(7)), (vec![1], vec![2], vec![2, 5]));
    }
}
