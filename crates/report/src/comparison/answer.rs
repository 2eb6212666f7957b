//! The answer of a comparison in one sentence: whether any policy is faster than the baseline.

use base::counted_noun;

use super::{Comparison, ComparisonVerdict, PolicyRow};
use crate::format::{self, percent};

impl Comparison {
    /// Returns whether a policy is faster than the baseline, and by how much, as one or two sentences.
    pub fn answer(&self) -> String {
        let rows = self.by_ratio();
        let baseline = &self.setting.baseline;
        if let Some(sentence) = self.too_few_seeds() {
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
            return format!("No {noun} is faster than {baseline} {answer}. {others}");
        };
        let others = self.others(&rows, Some(&best.policy));
        let answer = format!("{} {}. {others}", best.policy, best.to_text(baseline));
        answer.trim_end().to_owned()
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

    /// Returns the policy that is faster on the largest number of workloads, as a clause.
    fn partial(&self, rows: &[&PolicyRow]) -> Option<String> {
        let n_workloads = self.setting.workloads.len();
        // Of equal policies the first has the smallest ratio.
        let best = rows.iter().rev().max_by_key(|row| row.n_better)?;
        (best.n_better != 0 && 1 < n_workloads)
            .then(|| format!("{} is faster on {} of {n_workloads}", best.policy, best.n_better))
    }

    /// Returns the policies with each verdict, without the best policy.
    fn others(&self, rows: &[&PolicyRow], best: Option<&str>) -> String {
        let groups = [
            ("Also faster", Some(ComparisonVerdict::Better)),
            ("Slower", Some(ComparisonVerdict::Worse)),
            ("No significant difference", Some(ComparisonVerdict::Inconclusive)),
            ("Not tested", None),
        ];
        let sentence = |(head, verdict): (&str, Option<ComparisonVerdict>)| {
            let of_group =
                |row: &&&PolicyRow| Some(row.policy.as_str()) != best && row.verdict == verdict;
            let names: Vec<&str> =
                rows.iter().filter(of_group).map(|row| row.policy.as_str()).collect();
            (!names.is_empty()).then(|| format!("{head}: {}.", names.join(", ")))
        };
        groups.into_iter().filter_map(sentence).collect::<Vec<_>>().join(" ")
    }

    /// Returns a sentence if no verdict is possible with this number of seeds.
    fn too_few_seeds(&self) -> Option<String> {
        let (n, needed) = (self.setting.seeds.len() as u64, self.setting.n_pairs_needed);
        (n < needed).then(|| {
            let seeds = counted_noun(n, "seed");
            format!("No verdict: {seeds} cannot show a difference from {}; at least {needed} are needed.", self.setting.baseline)
        })
    }
}

impl PolicyRow {
    /// Returns the verdict of a policy without a ratio, because runs did not finish.
    fn without_ratio(&self, baseline: &str) -> String {
        let Some(reason) = self.ratio_absent_because.as_ref().filter(|_| self.n_seeds != 0) else {
            return "has no run that can be paired with the baseline".to_owned();
        };
        let text = match self.verdict {
            Some(ComparisonVerdict::Better) => format!("is faster than {baseline}"),
            Some(ComparisonVerdict::Worse) => format!("is slower than {baseline}"),
            _ => format!("shows no significant difference from {baseline}"),
        };
        format!("{text} (no ratio: {reason})")
    }

    /// Returns the verdict as a phrase: `is 5.20 % faster than linux (ratio …)`.
    pub(super) fn to_text(&self, baseline: &str) -> String {
        let Some(ratio) = self.ratio_to_baseline else { return self.without_ratio(baseline) };
        let difference = percent((ratio - 1.0).abs());
        if self.is_identical {
            let word = if ratio < 1.0 { "faster" } else { "slower" };
            let text = format!("is {difference} {word} than {baseline}");
            let text = if ratio == 1.0 { format!("takes as long as {baseline}") } else { text };
            return format!(
                "{text}, but the runs of all seeds are identical: one observation, no interval"
            );
        }
        let text = match self.verdict {
            Some(ComparisonVerdict::Better) if ratio <= 0.5 => {
                format!("is {} times as fast as {baseline}", format::ratio(1.0 / ratio))
            }
            Some(ComparisonVerdict::Better) => format!("is {difference} faster than {baseline}"),
            Some(ComparisonVerdict::Worse) if 2.0 <= ratio => {
                format!("takes {} times as long as {baseline}", format::ratio(ratio))
            }
            Some(ComparisonVerdict::Worse) => format!("is {difference} slower than {baseline}"),
            _ => format!("shows no significant difference from {baseline}"),
        };
        let ci95 = format::ci(self.ratio_ci95.as_deref(), 3, "–");
        text + &ci95.map_or(String::new(), |ends| {
            format!(" (ratio {}, 95 % confidence interval {ends})", format::ratio(ratio))
        })
    }
}
