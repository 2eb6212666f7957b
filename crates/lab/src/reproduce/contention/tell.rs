//! Verdicts and figures as all experiments here tell them.

use crate::reproduce::{Claim, Reading, StudyFigure};

/// A claim of which something may be unknown: then it is not judged.
pub(super) fn judged(claim: &str, reading: Reading, found: String, holds: Option<bool>) -> Claim {
    Claim::judged(claim, reading, found, holds)
}

/// A part as a figure in percent; none of nothing.
pub(super) fn in_percent(part: Option<f64>) -> Option<StudyFigure> {
    part.map(|part| StudyFigure::of(part * 100.0, "%"))
}

/// One that is not judged, with the reason.
pub(super) fn not_judged(claim: &str, reading: Reading, why: &str) -> Claim {
    judged(claim, reading, why.to_owned(), None)
}

/// A policy under a reading, with other parameters: `dio[reading=paper,interval=2s]`.
pub(super) fn column(policy: &str, reading: Reading, more: &str) -> String {
    let reading = (reading == Reading::Paper).then_some("reading=paper");
    let params: Vec<&str> = reading.into_iter().chain((!more.is_empty()).then_some(more)).collect();
    match params.is_empty() {
        true => policy.to_owned(),
        false => format!("{policy}[{}]", params.join(",")),
    }
}

/// The reading that a column has.
pub(super) fn reading_of(column: &str) -> Reading {
    if column.contains("reading=paper") { Reading::Paper } else { Reading::Ours }
}

/// A mean with a comma's worth of digits, or a dash of nothing.
pub(super) fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}

/// In percent, with its sign.
pub(super) fn percent(part: Option<f64>) -> String {
    part.map_or("–".to_owned(), |part| format!("{:+.1}", part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Verdict;

    #[test]
    fn what_nobody_knows_is_not_judged() {
        let of = |holds| judged("it gains", Reading::Either, String::new(), holds).verdict;
        assert_eq!(
            [of(Some(true)), of(Some(false)), of(None)].map(Verdict::words),
            ["reproduces", "does not reproduce", "not judged"]
        );
    }

    #[test]
    fn a_reading_and_parameters_stand_in_one_pair_of_brackets() {
        let texts = [
            column("dio", Reading::Ours, ""),
            column("dio", Reading::Paper, ""),
            column("dino", Reading::Paper, "limits=article"),
        ];
        assert_eq!(texts, ["dio", "dio[reading=paper]", "dino[reading=paper,limits=article]"]);
    }
}
