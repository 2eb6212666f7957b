//! The answer of a comparison in a few sentences: whether any policy or command takes less time than the baseline.

use base::counted_noun;

use super::ratio::{Ratio, unfinished_phrase};
use super::{Compared, Comparison, ComparisonVerdict, PolicyRow, RunCompletion};
use crate::format::{self, percent};

impl Comparison {
    /// Returns whether a policy or command takes less time than the baseline, and how much less; then the runs that did
    /// not finish.
    pub fn answer(&self) -> String {
        let unfinished = self.unfinished_runs().map_or(String::new(), |text| text + ".");
        let sentences = [self.verdicts(), unfinished];
        let present = sentences.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        present.collect::<Vec<_>>().join(" ")
    }

    fn verdicts(&self) -> String {
        let rows = self.by_ratio();
        let baseline = &self.setting.baseline;
        if self.runs.iter().all(|run| run.status != RunCompletion::Finished) {
            return "No run finished, so there is no time to compare.".to_owned();
        }
        if let Some(sentence) = self.identical(&rows).or_else(|| self.too_few_seeds()) {
            return sentence;
        }
        let Some(best) = rows.iter().find(|row| row.verdict == Some(ComparisonVerdict::Better))
        else {
            let others = self.others(&rows, None);
            let answer = match self.partial(&rows) {
                Some(partial) => format!("over all workloads; {partial}"),
                None => "here".to_owned(),
            };
            if let [only] = rows[..] {
                return format!("{} {}.", only.policy, only.to_text(baseline));
            }
            let noun = self.setting.compared.noun();
            return format!("No {noun} takes less time than {baseline} {answer}. {others}");
        };
        let others = self.others(&rows, Some(&best.policy));
        format!("{} {}. {others}", best.policy, best.to_text(baseline))
    }

    /// Returns the verdict that the answer has: better if any policy is better.
    pub fn answer_verdict(&self) -> Option<ComparisonVerdict> {
        let has = |word| self.policies.iter().any(|row| row.verdict == Some(word));
        let words = [ComparisonVerdict::Better, ComparisonVerdict::Inconclusive];
        words.into_iter().chain([ComparisonVerdict::Worse]).find(|word| has(*word))
    }

    /// Returns all policies except the baseline, the fastest first.
    pub(super) fn by_ratio(&self) -> Vec<&PolicyRow> {
        let mut rows: Vec<&PolicyRow> =
            self.policies.iter().filter(|row| !row.is_baseline).collect();
        let ratio = |row: &PolicyRow| row.ratio_to_baseline.unwrap_or(f64::INFINITY);
        rows.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
        rows
    }

    /// Returns the policy that takes less time on the largest number of workloads, as a clause.
    fn partial(&self, rows: &[&PolicyRow]) -> Option<String> {
        let n_workloads = self.setting.workloads.len();
        // Of equal policies the first has the smallest ratio.
        let best = rows.iter().rev().max_by_key(|row| row.n_better)?;
        (best.n_better != 0 && 1 < n_workloads)
            .then(|| format!("{} does on {} of {n_workloads}", best.policy, best.n_better))
    }

    /// Returns the policies with each verdict, without the best policy.
    fn others(&self, rows: &[&PolicyRow], best: Option<&str>) -> String {
        let group_of = |row: &PolicyRow| match row.verdict {
            Some(ComparisonVerdict::Better) => "Also better",
            Some(ComparisonVerdict::Worse) => "Worse",
            Some(ComparisonVerdict::Inconclusive) => "No significant difference",
            None if row.is_identical => "Identical runs, so no verdict",
            None => "Not tested",
        };
        let heads = [
            "Also better",
            "Worse",
            "No significant difference",
            "Identical runs, so no verdict",
            "Not tested",
        ];
        let sentence = |head: &str| {
            let of_group =
                |row: &&&PolicyRow| Some(row.policy.as_str()) != best && group_of(row) == head;
            let names: Vec<&str> =
                rows.iter().filter(of_group).map(|row| row.policy.as_str()).collect();
            (!names.is_empty()).then(|| format!("{head}: {}.", names.join(", ")))
        };
        heads.into_iter().filter_map(sentence).collect::<Vec<_>>().join(" ")
    }

    /// Returns the answer if the seeds do not vary any run: the runs are one observation.
    fn identical(&self, rows: &[&PolicyRow]) -> Option<String> {
        let is_one = !rows.is_empty() && rows.iter().all(|row| row.is_identical);
        let baseline = &self.setting.baseline;
        let observed = |row: &&PolicyRow| {
            let ratio = row.ratio_to_baseline?;
            Some(format!("{} takes {} {baseline}", row.policy, time_than(ratio)))
        };
        let observed: Vec<String> = rows.iter().filter_map(observed).collect();
        (is_one && !observed.is_empty()).then(|| {
            let repetitions = self.setting.compared.repetition();
            format!(
                "No verdict: the runs of all {repetitions}s are identical, so they are one observation. In it {}.",
                observed.join("; ")
            )
        })
    }

    /// Returns a sentence if no verdict is possible with this number of seeds.
    pub(super) fn too_few_seeds(&self) -> Option<String> {
        let (n, needed) = (self.setting.seeds.len() as u64, self.setting.n_pairs_needed);
        (n < needed).then(|| {
            let repetitions = match self.setting.compared {
                Compared::Policies => counted_noun(n, "seed"),
                Compared::Commands => format!("{} of each command", counted_noun(n, "run")),
            };
            format!("No verdict: {repetitions} cannot show a difference from {}; at least {needed} are needed.", self.setting.baseline)
        })
    }

    /// Returns the number of runs that failed, and that the time limit stopped.
    pub(super) fn unfinished_counts(&self) -> (u64, u64) {
        let count = |status| self.runs.iter().filter(|run| run.status == status).count() as u64;
        (count(RunCompletion::Failed), count(RunCompletion::Stopped))
    }

    /// Returns the number of runs that failed or that the time limit stopped: `Of 8 runs: 4 failed`. `None`: all runs
    /// finished.
    pub fn unfinished_runs(&self) -> Option<String> {
        let (n_failed, n_stopped) = self.unfinished_counts();
        let runs = counted_noun(self.runs.len(), "run");
        (0 < n_failed + n_stopped)
            .then(|| format!("Of {runs}: {}", unfinished_phrase(n_failed, n_stopped)))
    }
}

/// Returns the difference of a time to that of the baseline: `5.20 % less time than`.
fn time_than(ratio: f64) -> String {
    match ratio {
        1.0 => "as long as".to_owned(),
        2.0.. => format!("{} times as long as", format::ratio(ratio)),
        1.0.. => format!("{} more time than", percent(ratio - 1.0)),
        _ => format!("{} less time than", percent(1.0 - ratio)),
    }
}

impl PolicyRow {
    /// Returns the verdict of a policy without a ratio, because runs did not finish.
    fn without_ratio(&self, baseline: &str) -> String {
        let Some(reason) = self.ratio_absent_because.as_ref().filter(|_| self.n_seeds != 0) else {
            return "has no run that can be paired with the baseline".to_owned();
        };
        let text = match self.verdict {
            Some(ComparisonVerdict::Better) => format!("ranks better than {baseline}"),
            Some(ComparisonVerdict::Worse) => format!("ranks worse than {baseline}"),
            _ => format!("shows no significant difference from {baseline}"),
        };
        format!("{text} (no ratio: {reason})")
    }

    /// Returns the verdict as a phrase: `takes 5.20 % less time than linux (ratio …)`.
    pub(super) fn to_text(&self, baseline: &str) -> String {
        let Some(value) = self.ratio_to_baseline else { return self.without_ratio(baseline) };
        let difference = format!("takes {} {baseline}", time_than(value));
        if self.is_identical {
            return format!(
                "{difference}, but the runs of all seeds are identical: one observation, no interval"
            );
        }
        let ratio = Ratio::of_all(self);
        let text = match ratio.is_significant() {
            true => difference,
            false => format!("shows no significant difference from {baseline}"),
        };
        text + &ratio.interval("–").map_or(String::new(), |ends| {
            format!(" (ratio {}, 95 % confidence interval {ends})", ratio.text())
        })
    }
}
