//! The result of `evenkeel tune` as text, JSON and HTML page.
//!
//! ```text
//!   answer ─► settings, runs ─► gains ─► parameters ─► sensitivity of each value ─► notes        text
//!                                 └► intervals, heat maps of pairs of parameters, best by value  HTML
//! ```

mod html;
mod model;
mod text;

pub use model::*;

use crate::format::{fixed, signed_percent};

/// Smallest relative difference of the results of trials that counts as an effect of a parameter. Chosen: repeated runs
/// of a real machine differ by more.
const SPREAD_MIN: f64 = 0.001;

/// Returns whether the results differ by [`SPREAD_MIN`] or more.
pub fn has_spread(results: impl Iterator<Item = f64>) -> bool {
    SPREAD_MIN <= spread(results)
}

/// Returns the largest result divided by the smallest, minus 1; 0 without results.
fn spread(results: impl Iterator<Item = f64>) -> f64 {
    let ends = results.fold(None, |ends: Option<(f64, f64)>, result| {
        let (low, high) = ends.unwrap_or((result, result));
        Some((low.min(result), high.max(result)))
    });
    ends.map_or(0.0, |(low, high)| high / low - 1.0)
}

impl TuneResult {
    /// Returns the result as one JSON object, documented in `docs/report-fields.md` and `docs/tune.schema.json`,
    /// without a line feed at the end.
    ///
    /// # Errors
    /// No error is known: numbers, strings and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        base::json::to_indented(self)
    }

    fn spread(&self) -> f64 {
        spread(self.trials.iter().filter_map(|trial| trial.ratio))
    }

    /// Returns that no parameter has an effect, if all trials are about equal.
    fn no_effect(&self) -> Option<String> {
        let spread = self.spread();
        (spread < SPREAD_MIN).then(|| match spread {
            ..1e-9 => "no effect: all trials are equal".to_owned(),
            _ => format!(
                "no effect: all trials are within {} % (less than {} % is no effect)",
                fixed((spread * 1e4).ceil() / 100.0, 2),
                100.0 * SPREAD_MIN
            ),
        })
    }

    /// Returns what the column `effect` means for these trials.
    fn effects_text(&self) -> String {
        if let Some(text) = self.no_effect() {
            return text;
        }
        let overlap = if 1 < self.parameters.len() {
            " Effects of several parameters can overlap: their sum can exceed 1."
        } else {
            ""
        };
        let is_absent = self.parameters.iter().any(|parameter| parameter.effect.is_none());
        let absent = if is_absent { " -: too few trials per value." } else { "" };
        format!(
            "effect: share of the variance between trials that the values predict.{overlap}{absent}"
        )
    }

    /// Formats a ratio with at least three digits, and with enough digits to show the differences between trials.
    fn ratio(&self, ratio: f64) -> String {
        let n_digits = match self.spread() {
            ..1e-9 => 3.0,
            spread => (1.0 - spread.log10().floor()).clamp(3.0, 6.0),
        };
        fixed(ratio, n_digits as usize)
    }

    /// Returns the settings to use, and their gain.
    pub fn answer(&self) -> String {
        let (found, policy) = (&self.found, &self.policy);
        let deciding = self.gains.iter().find(|gain| gain.baseline == *policy);
        match (self.outcome, deciding) {
            (TuneOutcome::Confirmed, Some(gain)) => {
                format!(
                    "Use {found}: it saves {} of the makespan of {policy} on held-out runs.",
                    gain.text()
                )
            }
            (TuneOutcome::NotConfirmed, Some(gain)) => format!(
                "Keep {policy}, the defaults: on held-out runs, the gain of the best settings of the search, {found}, is {}: {}.",
                gain.text(),
                gain.reason()
            ),
            _ => format!(
                "Keep {policy}, the defaults: no settings of the search are better on the training runs."
            ),
        }
    }
}

impl TuneGain {
    /// Returns the gain with its interval.
    fn text(&self) -> String {
        let gain = self.gain.map_or("an unknown share".to_owned(), signed_percent);
        let interval = self.interval().map(|ends| format!(" (95 % confidence interval {ends})"));
        gain + &interval.unwrap_or_default()
    }

    fn interval(&self) -> Option<String> {
        match self.gain_ci95.as_deref() {
            Some([low, high]) => {
                Some(format!("{} to {}", signed_percent(*low), signed_percent(*high)))
            }
            _ => None,
        }
    }

    /// Returns why the gain does not replace the defaults.
    fn reason(&self) -> String {
        match (&self.remark, self.gain_ci95.as_deref()) {
            (Some(remark), _) => remark.clone(),
            (None, Some([low, high])) if *low <= 0.0 && 0.0 <= *high => {
                "the interval contains zero".to_owned()
            }
            (None, Some([_, high])) if *high < 0.0 => "a loss".to_owned(),
            _ => "not significant in the signed-rank test".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::ComparisonVerdict;

    pub(super) fn result(gain: [f64; 3], outcome: TuneOutcome) -> TuneResult {
        let gain = |runs, baseline: &str| TuneGain {
            runs,
            baseline: baseline.to_owned(),
            gain: Some(gain[1]),
            gain_ci95: (runs != TuneRuns::Training).then(|| vec![gain[0], gain[2]]),
            verdict: (runs != TuneRuns::Training).then_some(ComparisonVerdict::Better),
            remark: None,
        };
        let bin = |values: &str, ratio: Option<f64>| TuneBin {
            values: values.to_owned(),
            n_trials: u64::from(ratio.is_some()),
            best_ratio: ratio,
            mean_ratio: ratio,
        };
        let parameter = |name: &str| TunedParameter {
            name: name.to_owned(),
            values: "off, 0 to <9>".to_owned(),
            default: "off".to_owned(),
            found: None,
            n_trials: 2,
            n_skipped: 1,
            effect: Some(0.5),
            bins: vec![bin("off", Some(1.0)), bin("0..<4>", Some(0.9)), bin("5..9", None)],
        };
        let values = || ["off", "0..<4>", "5..9"].map(str::to_owned).to_vec();
        TuneResult {
            format: FORMAT,
            tool: "1.0".to_owned(),
            command: Some("evenkeel tune -p 'p<1>'".to_owned()),
            machine: "m".to_owned(),
            policy: "p".to_owned(),
            outcome,
            settings: "p[a=3]".to_owned(),
            found: "p[a=3]".to_owned(),
            search_seed: 1,
            n_trials: 3,
            n_runs: 20,
            training_workloads: vec!["w1".to_owned()],
            training_seeds: vec![1, 2],
            held_out_workloads: vec!["w<2>".to_owned()],
            held_out_seeds: vec![3, 4],
            gains: vec![
                gain(TuneRuns::HeldOutWorkloads, "p"),
                gain(TuneRuns::HeldOutWorkloads, "linux"),
                gain(TuneRuns::Training, "p"),
            ],
            parameters: vec![parameter("a"), parameter("b")],
            pairs: vec![TunePair {
                x: "a".to_owned(),
                y: "b".to_owned(),
                effect: None,
                x_values: values(),
                y_values: values(),
                cells: vec![TunePairCell { x: 1, y: 0, n_trials: 2, best_ratio: Some(0.9) }],
            }],
            trials: vec![TuneTrial { settings: "p".to_owned(), ratio: Some(1.0) }],
            notes: vec!["a <note>".to_owned()],
        }
    }

    #[test]
    fn one_seed_is_singular() {
        let mut one = result([0.01, 0.02, 0.03], TuneOutcome::Confirmed);
        one.training_seeds = vec![1];
        let text = one.to_text(80);
        assert!(text.contains("w1 with seed 1\n") && text.contains("with seeds 3-4\n"), "{text}");
    }

    #[test]
    fn the_answer_has_the_settings_to_use_and_the_gain_with_its_interval() {
        let answer = |gain, outcome| result(gain, outcome).answer();
        assert_eq!(
            answer([0.01, 0.03, 0.05], TuneOutcome::Confirmed),
            "Use p[a=3]: it saves +3.0 % (95 % confidence interval +1.0 % to +5.0 %) of the makespan of p on held-out runs."
        );
        let kept = answer([-0.01, 0.03, 0.05], TuneOutcome::NotConfirmed);
        assert!(
            kept.starts_with("Keep p, the defaults: ") && kept.contains("contains zero"),
            "{kept}"
        );
        let worse = answer([-0.05, -0.03, -0.01], TuneOutcome::NotConfirmed);
        assert!(worse.starts_with("Keep p, the defaults: ") && worse.contains("a loss"), "{worse}");
        let best = answer([0.0; 3], TuneOutcome::DefaultsBest);
        assert!(best.starts_with("Keep p, the defaults: no settings"), "{best}");
    }

    #[test]
    fn a_page_loads_nothing_and_its_text_is_escaped() {
        let html = result([0.01, 0.03, 0.05], TuneOutcome::Confirmed).to_html();
        let loads = ["<link", "src=", "@import", "url(", "https://"];
        assert!(
            html.contains("default-src 'none'") && loads.iter().all(|load| !html.contains(load))
        );
        assert!(
            html.contains("w&lt;2&gt;")
                && html.contains("0..&lt;4&gt;")
                && html.contains("a &lt;note&gt;")
        );
        assert!(!html.contains("<4>") && !html.contains("<note>"));
        assert!(html.contains("class=\"heat small\"") && html.contains("class=\"whisker\""));
    }

    #[test]
    fn the_text_has_at_most_eighty_columns_and_starts_with_the_answer() {
        let text = result([0.01, 0.03, 0.05], TuneOutcome::Confirmed).to_text(80);
        assert!(text.starts_with("Use p[a=3]:"), "{text}");
        let n_columns = text.lines().map(|line| line.chars().count()).max();
        assert!(n_columns <= Some(80), "{text}");
        for part in ["held-out-workloads", "settings:", "0..<4>", "note:", "repeat:"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// Returns a result whose trials have these ratios.
    fn with_ratios(ratios: [f64; 2]) -> TuneResult {
        let trial = |ratio| TuneTrial { settings: "p".to_owned(), ratio: Some(ratio) };
        let mut result = result([0.01, 0.03, 0.05], TuneOutcome::DefaultsBest);
        result.trials = ratios.map(trial).to_vec();
        for parameter in &mut result.parameters {
            parameter.bins[0].best_ratio = Some(ratios[0]);
            parameter.bins[1].best_ratio = Some(ratios[1]);
            parameter.bins.iter_mut().for_each(|bin| bin.mean_ratio = bin.best_ratio);
        }
        result
    }

    #[test]
    fn trials_that_are_about_equal_show_no_effect() {
        let flat = with_ratios([1.0, 1.000_19]);
        let text = flat.to_text(80);
        let sentence = "no effect: all trials are within 0.02 % (less than 0.1 % is no effect)";
        assert!(text.contains(sentence), "{text}");
        assert!(text.contains("1.00019"), "digits that show the difference: {text}");
        let html = flat.to_html();
        assert!(html.contains(sentence) && html.contains("a (no effect)"), "{html}");
        assert!(html.contains("a across, b down (no effect)"), "{html}");
        assert!(html.contains("1.005") && !html.contains("1.0001<"), "{html}");
        let equal = with_ratios([1.0, 1.0]).to_text(80);
        assert!(equal.contains("no effect: all trials are equal"), "{equal}");
        assert!(equal.contains("1.000") && !equal.contains("1.0000"), "{equal}");
    }

    #[test]
    fn effects_can_overlap_and_an_absent_effect_has_its_reason() {
        let mut result = with_ratios([1.0, 0.9]);
        result.parameters[1].effect = None;
        let text = result.to_text(80).replace('\n', " ");
        assert!(text.contains("can overlap") && text.contains("-: too few trials"), "{text}");
        assert!(result.to_html().contains("b (effect unknown: too few trials per value)"));
        result.parameters.truncate(1);
        let text = result.to_text(80).replace('\n', " ");
        assert!(text.contains("effect: share of the variance") && !text.contains("overlap"));
    }
}
