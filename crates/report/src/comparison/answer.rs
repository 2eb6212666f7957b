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
        let rows = self.answer_rows();
        let baseline = &self.setting.baseline;
        if self.runs.iter().all(|run| run.status != RunCompletion::Finished) {
            return "No run finished, so there is no time to compare.".to_owned();
        }
        let no_verdict = self.same_as_baseline(&rows).or_else(|| self.identical(&rows));
        if let Some(sentence) = no_verdict.or_else(|| self.too_few_pairs()) {
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
                return format!("{} {}.", only.column, self.verdict_on(only));
            }
            let noun = self.setting.compared.noun();
            return format!("No {noun} takes less time than {baseline} {answer}. {others}");
        };
        let others = self.others(&rows, Some(&best.column));
        format!("{} {}. {others}", best.column, self.verdict_on(best))
    }

    /// Returns the verdict that the answer has: better if any policy is better.
    pub fn answer_verdict(&self) -> Option<ComparisonVerdict> {
        let has = |word| self.answer_rows().iter().any(|row| row.verdict == Some(word));
        let words =
            [ComparisonVerdict::Better, ComparisonVerdict::Inconclusive, ComparisonVerdict::Equal];
        words.into_iter().chain([ComparisonVerdict::Worse]).find(|word| has(*word))
    }

    /// Returns the policies of the answer: without the oracle, which no host can run, unless there is no other policy.
    fn answer_rows(&self) -> Vec<&PolicyRow> {
        let mut rows = self.by_ratio();
        if rows.iter().any(|row| !row.is_oracle) {
            rows.retain(|row| !row.is_oracle);
        }
        rows
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
            .then(|| format!("{} does on {} of {n_workloads}", best.column, best.n_better))
    }

    /// Returns the policies with each verdict, without the best policy.
    fn others(&self, rows: &[&PolicyRow], best: Option<&str>) -> String {
        let equal = format!("Equal {}", self.setting.equal_within().unwrap_or_default());
        let heads = [
            "Also better",
            "Worse",
            &equal,
            "No significant difference",
            "Too few pairs for a verdict",
            "Same as the baseline in every run",
            "Identical runs, so no verdict",
            "Not tested",
        ];
        let group_of = |row: &PolicyRow| match row.verdict {
            Some(ComparisonVerdict::Better) => 0,
            Some(ComparisonVerdict::Worse) => 1,
            Some(ComparisonVerdict::Equal) => 2,
            Some(ComparisonVerdict::Inconclusive) if self.has_enough_pairs(row) => 3,
            Some(ComparisonVerdict::Inconclusive) => 4,
            None if row.is_same_as_baseline => 5,
            None if row.is_identical => 6,
            None => 7,
        };
        let sentence = |(group, head): (usize, &str)| {
            let of_group =
                |row: &&&PolicyRow| Some(row.column.as_str()) != best && group_of(row) == group;
            let names = names(rows.iter().filter(of_group));
            (!names.is_empty()).then(|| format!("{head}: {}.", names.join(", ")))
        };
        heads.into_iter().enumerate().filter_map(sentence).collect::<Vec<_>>().join(" ")
    }

    /// Returns the answer if the seeds do not vary any run: the runs are one observation.
    fn identical(&self, rows: &[&PolicyRow]) -> Option<String> {
        let is_one = !rows.is_empty() && rows.iter().all(|row| row.is_identical);
        let baseline = &self.setting.baseline;
        let observed = |row: &&PolicyRow| match row.ratio_to_baseline {
            Some(ratio) => format!("{} takes {} {baseline}", row.column, time_than(ratio)),
            None => format!("{} {}", row.column, self.verdict_on(row)),
        };
        let observed: Vec<String> = rows.iter().map(observed).collect();
        is_one.then(|| {
            let repetitions = self.setting.observation();
            format!(
                "No verdict: the runs of all {repetitions}s are identical, so they are one observation. In it {}.",
                observed.join("; ")
            )
        })
    }

    /// Returns the answer if every run equals the run of the baseline.
    fn same_as_baseline(&self, rows: &[&PolicyRow]) -> Option<String> {
        let are_same = !rows.is_empty() && rows.iter().all(|row| row.is_same_as_baseline);
        are_same.then(|| {
            let baseline = &self.setting.baseline;
            format!("{} did the same as {baseline} in every run.", names(rows.iter()).join(", "))
        })
    }

    /// Returns whether the finished pairs suffice for the verdict better or worse.
    fn has_enough_pairs(&self, row: &PolicyRow) -> bool {
        self.setting.n_pairs_needed <= row.n_tested
    }

    /// Returns a sentence if the finished pairs permit no verdict on any policy.
    pub(super) fn too_few_pairs(&self) -> Option<String> {
        let is_tested = |row: &&PolicyRow| !row.is_same_as_baseline && !row.is_identical;
        let rows: Vec<&PolicyRow> = self.answer_rows().into_iter().filter(is_tested).collect();
        let has_verdict =
            |row: &&PolicyRow| Ratio::of_all(row).is_significant() || self.has_enough_pairs(row);
        let n = rows.iter().map(|row| row.n_tested).max()?;
        (!rows.iter().any(has_verdict)).then(|| {
            let repetitions = match self.setting.compared {
                _ if self.setting.n_profile_draws.is_some() => counted_noun(n, "profile draw"),
                _ if n != self.setting.seeds.len() as u64 => counted_noun(n, "pair") + " of runs",
                Compared::Policies => counted_noun(n, "seed"),
                Compared::Commands => format!("{} of each command", counted_noun(n, "run")),
            };
            format!(
                "No verdict: {repetitions} cannot show a difference from {}; at least {} are needed.",
                self.setting.baseline, self.setting.n_pairs_needed
            )
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

/// Returns the policies or commands of rows.
fn names<'a>(rows: impl Iterator<Item = &'a &'a PolicyRow>) -> Vec<&'a str> {
    rows.map(|row| row.column.as_str()).collect()
}

impl Comparison {
    /// Returns the verdict on a policy as a phrase: `takes 5.20 % less time than linux (ratio …)`.
    pub(super) fn verdict_on(&self, row: &PolicyRow) -> String {
        let baseline = &self.setting.baseline;
        if row.is_same_as_baseline {
            return format!("did the same as {baseline} in every run");
        }
        let Some(value) = row.ratio_to_baseline else { return self.verdict_without_ratio(row) };
        let difference = format!("takes {} {baseline}", time_than(value));
        if row.is_identical {
            return format!(
                "{difference}, but the runs of all {}s are identical: one observation, no interval",
                self.setting.observation()
            );
        }
        let ratio = Ratio::of_all(row);
        let text = match (row.verdict, self.setting.equal_within()) {
            (Some(ComparisonVerdict::Equal), Some(within)) => {
                format!("takes as long as {baseline}, {within}")
            }
            _ if ratio.is_significant() => difference,
            _ => self.inconclusive(row),
        };
        text + &ratio.interval("–").map_or(String::new(), |ends| {
            format!(" (ratio {}, 95 % confidence interval {ends})", ratio.text())
        })
    }

    /// Returns the verdict on a policy without a ratio, because runs did not finish.
    fn verdict_without_ratio(&self, row: &PolicyRow) -> String {
        let Some(reason) = row.ratio_absent_because.as_ref().filter(|_| row.n_seeds != 0) else {
            return "has no run that can be paired with the baseline".to_owned();
        };
        let baseline = &self.setting.baseline;
        let text = match row.verdict {
            Some(ComparisonVerdict::Better) => format!("ranks better than {baseline}"),
            Some(ComparisonVerdict::Worse) => format!("ranks worse than {baseline}"),
            None if row.is_identical => "has no verdict".to_owned(),
            _ => self.inconclusive(row),
        };
        format!("{text} (no ratio: {reason})")
    }

    /// Returns the verdict inconclusive as a phrase. Too few pairs cannot show a difference.
    fn inconclusive(&self, row: &PolicyRow) -> String {
        match self.has_enough_pairs(row) {
            true => format!("shows no significant difference from {}", self.setting.baseline),
            false => format!("has too few pairs for a verdict ({})", row.n_tested),
        }
    }
}
