//! Experiments as data: `workloads/papers/*/experiments.toml`.
//!
//! ```toml
//! [[experiment]]
//! name = "fig-5.1"                     # on the command line
//! title, published, limit, method      # texts of the output
//! let = { on = "tilepro64", workloads = "wl1..5" }
//!
//! [[experiment.table]]
//! title = "time saved in %"
//! rows = [{ each = "workload" }]
//! columns = [{ head = "DFS", policy = "dfs" }, { head = "source", text = "+1.0", published = "yes" }]
//!
//! [[experiment.verdicts]]
//! for = [[{ reading = "paper", policy = "dfs[reading=paper]" }, { reading = "corrected", policy = "dfs" }]]
//! [[experiment.verdicts.claim]]
//! claim = "every gain between -1 and +5 %"
//! test = ["-1 <= min", "max <= 5"]
//! found = "{gains}"
//! ```
//!
//! A cell and a claim are a set of bindings, merged from the experiment (`let`), the table or the verdicts, one
//! entry of every list in `for`, and the row and column. Their values may contain `{name}` of other bindings.
//!
//! | binding | meaning |
//! |---|---|
//! | `policy`, `on` | the policy, and the testbed in the syntax of [`super::Testbed::parse`] |
//! | `baseline`, `baseline_on` | policy and testbed of the baseline; by default `linux` on the same testbed |
//! | `workloads` | names separated by a comma and a space; `wl1..5` is a range, `multisets 2,2,2` every mix of these group sizes |
//! | `statistic` | `time-saved` (default), `speedup`, `group-end`, `slowdown` or `worst-slowdown`; `ceiling` and `speedup-ceiling`: upper bounds of `time-saved` and `speedup` for every placement of tasks and memory, from the lower bounds of the oracle |
//! | `group` | with `speedup` and `group-end`: only jobs of this published group |
//! | `vary` | `ratio: 1.5|2.0`: one gain for each of these values of the binding `ratio` |
//! | `per` | with `vary`: `workload` gives one gain for each workload and value, not their mean |
//! | `part` | `whole` run (default), or `steady`: from 20 s to the end of the first job |
//! | `job` | only these jobs, by index, separated by spaces |
//! | `quantity` | the value of which `ratios`, `ratio_min` and `n_below` compare policy and baseline |
//! | `digits` | number of decimals of a value |
//! | `minus_…` | the measure with these bindings replaced is subtracted, seed by seed |
//! | `show` | the value of a cell, `gain` by default; [`super::evaluate`] lists them |
//!
//! `{limits}` is the pair of thresholds of `divided` in the widest gaps of the eleven programs on the testbed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::published_groups::multisets;
use crate::shipped::ProfileSet;

/// Names with their values.
pub(super) type Bindings = BTreeMap<String, String>;

/// A file of experiments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StudyFile {
    pub name: String,
    pub source: String,
    pub experiment: Vec<ExperimentFile>,
}

/// An experiment of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentFile {
    pub name: String,
    pub title: String,
    pub published: String,
    pub limit: String,
    pub method: String,
    #[serde(default)]
    pub machines: Vec<String>,
    /// Reason for the part of the experiment that is a function.
    pub code: Option<String>,
    /// The sets of profiles with which the experiment runs, each with its own tables and verdicts.
    #[serde(default = "table_alone")]
    pub profiles: Vec<ProfileSet>,
    /// Limit of the number of seeds. In experiments with draws, each draw runs with the seeds 1 to this number, instead
    /// of the number of the draw as its seed.
    pub seeds: Option<usize>,
    #[serde(default)]
    pub notes: Vec<String>,
    #[serde(default, rename = "let")]
    pub bindings: Bindings,
    #[serde(default)]
    pub table: Vec<TableFile>,
    #[serde(default)]
    pub verdicts: Vec<VerdictsFile>,
}

/// Tables of equal form, one per combination of bindings.
#[derive(Debug, Deserialize)]
pub(super) struct TableFile {
    #[serde(default, rename = "for")]
    pub loops: Vec<Vec<Bindings>>,
    pub title: String,
    /// Headers of the label columns, separated by `|`.
    #[serde(default = "default_head")]
    pub head: String,
    #[serde(default = "default_unit")]
    pub unit: String,
    #[serde(default)]
    pub drawing: String,
    /// Whether a cell summarizes all draws.
    #[serde(default)]
    pub draws: bool,
    #[serde(default)]
    pub rows: Vec<Bindings>,
    /// Rows for every combination, instead of `rows`.
    #[serde(default)]
    pub rows_for: Vec<Vec<Bindings>>,
    pub columns: Vec<Bindings>,
    #[serde(flatten)]
    pub bindings: Bindings,
}

/// Claims that are judged for the same bindings.
#[derive(Debug, Deserialize)]
pub(super) struct VerdictsFile {
    #[serde(default, rename = "for")]
    pub loops: Vec<Vec<Bindings>>,
    /// Whether a claim is judged in every draw.
    #[serde(default)]
    pub draws: bool,
    pub claim: Vec<ClaimFile>,
    #[serde(flatten)]
    pub bindings: Bindings,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ClaimFile {
    pub claim: String,
    /// Conditions `VALUE OP VALUE`, or several separated by ` or `. The claim is true if all conditions are true; without
    /// conditions it is not judged.
    #[serde(default)]
    pub test: Vec<String>,
    /// Conditions on the ceiling, as `test`. If one is false, the claim is not judged on this input.
    #[serde(default)]
    pub judged_if: Vec<String>,
    /// The ceiling and the published value, as `found`; printed if `judged_if` is false.
    #[serde(default)]
    pub ceiling: String,
    /// Conditions on the intervals of the gains, as `test`. If one is false, more seeds are needed, and the claim is not
    /// judged.
    #[serde(default)]
    pub decided_if: Vec<String>,
    #[serde(default)]
    pub found: String,
    #[serde(default = "default_unit")]
    pub unit: String,
    /// Measures with bindings that differ from those of the claim, for values such as `{far.gain}`.
    #[serde(default)]
    pub measure: BTreeMap<String, Bindings>,
    #[serde(flatten)]
    pub bindings: Bindings,
}

fn table_alone() -> Vec<ProfileSet> {
    vec![ProfileSet::Table]
}

fn default_head() -> String {
    "workload".to_owned()
}

fn default_unit() -> String {
    "%".to_owned()
}

/// Returns the bindings of both maps; the bindings of `over` have priority.
pub(super) fn merged(base: &Bindings, over: &Bindings) -> Bindings {
    let pairs = base.iter().chain(over);
    pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the bindings of every combination of one entry of each list; the first list changes slowest.
pub(super) fn combinations(base: &Bindings, loops: &[Vec<Bindings>]) -> Vec<Bindings> {
    loops.iter().fold(vec![base.clone()], |all, entries| {
        all.iter().flat_map(|one| entries.iter().map(|entry| merged(one, entry))).collect()
    })
}

/// Replaces `{name}` by the value of the binding, recursively. Unknown names are not replaced.
pub(super) fn filled(text: &str, bindings: &Bindings) -> String {
    let mut text = text.to_owned();
    // A binding may contain another binding; no file nests more than three bindings.
    for _ in 0..4 {
        if !text.contains('{') {
            break;
        }
        for (name, value) in bindings {
            text = text.replace(&format!("{{{name}}}"), value);
        }
    }
    text
}

/// Returns the names of a list such as `wl1..5, unrestricted 1..2, basic01..02-x3, multisets 2,2,2`.
pub(super) fn names(list: &str) -> Vec<String> {
    let names = list.split(", ").map(str::trim).filter(|name| !name.is_empty());
    names
        .flat_map(|name| match name.strip_prefix("multisets ") {
            Some(sizes) => multisets(sizes),
            None => range(name),
        })
        .collect()
}

/// Expands `PREFIXa..bSUFFIX` to one name per number. All numbers have as many digits as the first number.
fn range(name: &str) -> Vec<String> {
    let numbers = name.split_once("..").and_then(|(before, after)| {
        let prefix = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let suffix = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let (first, last) = (&before[prefix.len()..], &after[..after.len() - suffix.len()]);
        Some((prefix, first.len(), first.parse::<u32>().ok()?, last.parse::<u32>().ok()?, suffix))
    });
    match numbers {
        Some((prefix, width, first, last, suffix)) => {
            (first..=last).map(|number| format!("{prefix}{number:0width$}{suffix}")).collect()
        }
        None => vec![name.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names_may_contain_ranges() {
        assert_eq!(
            names("wl1, basic09..10-x3, unrestricted 1..2"),
            ["wl1", "basic09-x3", "basic10-x3", "unrestricted 1", "unrestricted 2"]
        );
    }

    #[test]
    fn bindings_fill_a_text_recursively_and_leave_unknown_names() {
        let bindings = Bindings::from([
            ("on".to_owned(), "m remote={ratio}".to_owned()),
            ("ratio".to_owned(), "1.5".to_owned()),
        ]);
        assert_eq!(filled("{on}: {gain}", &bindings), "m remote=1.5: {gain}");
    }
}
