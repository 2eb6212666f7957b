//! Identity of a run, and the runs of a comparison in their order.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Column;

/// Policies, workloads and seeds of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparePlan {
    /// The policies.
    pub columns: Vec<Column>,
    /// Index of the policy with which the other policies are compared.
    pub baseline: usize,
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Number of draws of the profiles; `None`: the profiles are those of the workloads.
    pub n_draws: Option<usize>,
}

/// Identity of a run among the runs on one machine, with the same options and the same version of evenkeel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// The policy with its machine variant, or the command, as [`Column::text`].
    #[serde(rename = "column")]
    pub policy: String,
    /// Name of the workload.
    pub workload: String,
    /// The seed.
    pub seed: u64,
}

impl Column {
    /// Returns the run of this column on a workload with a seed.
    pub fn key(&self, workload: &str, seed: u64) -> RunKey {
        RunKey { policy: self.text.clone(), workload: workload.to_owned(), seed }
    }
}

/// An invalid plan. Each message contains a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum PlanError {
    #[error(
        "there is nothing to compare {0} with: name two policies or more, as in --policies linux,dfs"
    )]
    OneColumn(String),
    #[error("the baseline {found} is not among the {compared}: write one of {known}")]
    Baseline { found: String, compared: &'static str, known: String },
    #[error("two workloads have the name {0:?}: rename one of them with the key `name`")]
    SameName(String),
    #[error(
        "--draw-profiles {n_draws} needs as many seeds, and there {verb} {n_seeds}: write --seeds {n_draws} or more, or fewer draws",
        verb = if *n_seeds == 1 { "is" } else { "are" }
    )]
    Draws { n_draws: usize, n_seeds: usize },
    #[error("{option} {found}: {problem}; write a number (20) or a list (1-20 or 3,7,11)")]
    Seeds { option: String, found: String, problem: &'static str },
}

/// Maximum number of seeds. Guessed: more seeds do not change a verdict.
const N_SEEDS_MAX: u64 = 10_000;

/// Parses a number of seeds, which start at 1, or a list with ranges. `option` is the option of the text, for errors.
///
/// # Errors
/// The text contains no seed, a seed twice, or a word that is not a number.
pub fn seeds(option: &str, text: &str) -> Result<Vec<u64>, PlanError> {
    let wrong =
        |problem| PlanError::Seeds { option: option.to_owned(), found: text.to_owned(), problem };
    if let Ok(n) = text.trim().parse::<u64>() {
        return match n {
            0 => Err(wrong("at least one is needed")),
            n if N_SEEDS_MAX < n => Err(wrong("at most 10000 are possible")),
            n => Ok((1..=n).collect()),
        };
    }
    let mut seeds = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong("not a number"));
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(wrong("the end of a range is below its start"));
        }
        if N_SEEDS_MAX <= last - first || N_SEEDS_MAX < seeds.len() as u64 + (last - first) {
            return Err(wrong("at most 10000 are possible"));
        }
        seeds.extend(first..=last);
    }
    let different: BTreeSet<u64> = seeds.iter().copied().collect();
    if different.len() < seeds.len() { Err(wrong("a number occurs twice")) } else { Ok(seeds) }
}

impl ComparePlan {
    /// Creates a consistent plan. The default baseline is `linux` if it is a column, otherwise the first column.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(
        columns: Vec<Column>,
        baseline: Option<&str>,
        workloads: Vec<String>,
        seeds: Vec<u64>,
    ) -> Result<Self, PlanError> {
        if let [only] = columns.as_slice() {
            return Err(PlanError::OneColumn(only.text.clone()));
        }
        let place = |name: &str| columns.iter().position(|column| column.text == name);
        let baseline = match baseline {
            None => place("linux").unwrap_or(0),
            Some(name) => {
                let meant = Column::parse(name).map_or(name.to_owned(), |column| column.text);
                let texts = columns.iter().map(|column| column.text.as_str());
                let known = || texts.collect::<Vec<_>>().join(", ");
                let has_commands = columns.iter().any(|column| column.command.is_some());
                place(&meant).ok_or_else(|| PlanError::Baseline {
                    found: name.to_owned(),
                    compared: if has_commands { "commands" } else { "policies" },
                    known: known(),
                })?
            }
        };
        let mut names = BTreeSet::new();
        if let Some(again) = workloads.iter().find(|name| !names.insert(name.as_str())) {
            return Err(PlanError::SameName(again.clone()));
        }
        Ok(ComparePlan { columns, baseline, workloads, seeds, n_draws: None })
    }

    /// Returns the plan with the seeds spread over this number of draws of the profiles.
    ///
    /// # Errors
    /// There are fewer seeds than draws.
    pub fn with_draws(self, n_draws: usize) -> Result<Self, PlanError> {
        match self.seeds.len() {
            n_seeds if n_seeds < n_draws => Err(PlanError::Draws { n_draws, n_seeds }),
            _ => Ok(ComparePlan { n_draws: Some(n_draws), ..self }),
        }
    }

    /// Returns the draw of a seed: the first seed has the draw 0, the second the draw 1, and so on. It is 0 if the profiles
    /// are not drawn.
    pub fn draw_of(&self, seed: u64) -> usize {
        let position = self.seeds.iter().position(|other| *other == seed).unwrap_or(0);
        self.n_draws.map_or(0, |n_draws| position % n_draws.max(1))
    }

    /// Returns the observation to which a run belongs. Runs with the same drawn profiles are one observation, because they
    /// are not independent; otherwise each seed is one.
    pub(super) fn observation_of(&self, seed: u64) -> usize {
        match self.n_draws {
            Some(_) => self.draw_of(seed),
            None => self.seeds.iter().position(|other| *other == seed).unwrap_or(0),
        }
    }

    /// Returns the number of runs.
    pub fn n_runs(&self) -> usize {
        self.columns.len() * self.workloads.len() * self.seeds.len()
    }

    /// Returns all runs in order: the policy changes fastest, the seed slowest.
    pub fn keys(&self) -> impl Iterator<Item = RunKey> {
        let of_workload =
            move |seed, workload| self.columns.iter().map(move |it| it.key(workload, seed));
        let of_seed = move |seed: &u64| {
            let seed = *seed;
            self.workloads.iter().flat_map(move |workload| of_workload(seed, workload))
        };
        self.seeds.iter().flat_map(of_seed)
    }

    /// Returns the position of a run in [`ComparePlan::keys`]; `None` if the key is not a run of this plan.
    pub fn number(&self, key: &RunKey) -> Option<usize> {
        let seed = self.seeds.iter().position(|seed| *seed == key.seed)?;
        let workload = self.workloads.iter().position(|name| *name == key.workload)?;
        let column = self.columns.iter().position(|column| column.text == key.policy)?;
        Some((seed * self.workloads.len() + workload) * self.columns.len() + column)
    }

    /// Returns the column, the index of the workload, and the seed of a run.
    ///
    /// # Panics
    /// The key is not a run of this plan.
    pub fn parts(&self, key: &RunKey) -> (&Column, usize, u64) {
        let (column, workload, seed) = self.indexes(key);
        (&self.columns[column], workload, seed)
    }

    /// Returns the indexes of the column and of the workload of a run, and its seed.
    pub(super) fn indexes(&self, key: &RunKey) -> (usize, usize, u64) {
        let number = self.number(key).expect("a run of this plan");
        let workload = number / self.columns.len() % self.workloads.len();
        (number % self.columns.len(), workload, key.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::columns;

    #[test]
    fn seeds_are_a_number_or_a_list() {
        assert_eq!(seeds("--seeds", "3"), Ok(vec![1, 2, 3]));
        assert_eq!(seeds("--seeds", "7-9, 2"), Ok(vec![7, 8, 9, 2]));
        assert_eq!(seeds("--seeds", "5-5"), Ok(vec![5]));
        for (text, problem) in [
            ("0", "at least one is needed"),
            ("10001", "at most 10000 are possible"),
            ("0-18446744073709551615", "at most 10000 are possible"),
            ("9-7", "the end of a range is below its start"),
            ("1,1", "a number occurs twice"),
            ("many", "not a number"),
            ("", "not a number"),
            ("-3", "not a number"),
        ] {
            let message = seeds("--seeds", text).expect_err(text).to_string();
            assert!(message.contains(problem), "{message}");
        }
    }

    #[test]
    fn policies_alternate_and_seeds_change_slowest() {
        let columns = columns(["linux,dfs"]).expect("sound");
        let workloads = vec!["a".to_owned(), "b".to_owned()];
        let plan = ComparePlan::new(columns, None, workloads, vec![1, 2]).expect("sound");
        let order: Vec<String> = plan
            .keys()
            .map(|key| format!("{}{}{}", key.seed, key.workload, plan.parts(&key).0))
            .collect();
        let expected =
            ["1alinux", "1adfs", "1blinux", "1bdfs", "2alinux", "2adfs", "2blinux", "2bdfs"];
        assert_eq!(order, expected);
        assert!(plan.keys().map(|key| plan.number(&key)).eq((0..8).map(Some)));
    }

    #[test]
    fn the_baseline_is_the_named_column_or_linux_or_the_first() {
        let plan = |lists: &str, baseline| {
            let columns = columns([lists]).expect("sound");
            let plan = ComparePlan::new(columns, baseline, vec!["w".to_owned()], vec![1]);
            plan.map(|plan| plan.columns[plan.baseline].text.clone()).map_err(|e| e.to_string())
        };
        assert_eq!(plan("dfs,linux", None).as_deref(), Ok("linux"));
        assert_eq!(plan("dfs,spread", None).as_deref(), Ok("dfs"));
        assert_eq!(plan("dfs[],linux", Some("dfs[]")).as_deref(), Ok("dfs"));
        assert_eq!(
            plan("dfs,linux", Some("spread")).expect_err("it does not run"),
            "the baseline spread is not among the policies: write one of dfs, linux"
        );
        assert!(plan("dfs", None).expect_err("one").contains("nothing to compare dfs with"));
    }

    #[test]
    fn workloads_with_the_same_name_are_rejected() {
        let columns = columns(["linux,dfs"]).expect("sound");
        let names = vec!["w".to_owned(), "w".to_owned()];
        let message =
            ComparePlan::new(columns, None, names, vec![1]).expect_err("the same").to_string();
        assert!(message.contains("two workloads have the name \"w\""), "{message}");
    }

    #[test]
    fn seeds_are_spread_over_the_draws_and_a_draw_is_one_observation() {
        let columns = columns(["linux,dfs"]).expect("sound");
        let plan = ComparePlan::new(columns, None, vec!["a".to_owned()], vec![7, 3, 9, 4, 1]);
        let plan = plan.expect("sound");
        let of = |plan: &ComparePlan, value: fn(&ComparePlan, u64) -> usize| -> Vec<usize> {
            plan.seeds.iter().map(|seed| value(plan, *seed)).collect()
        };
        assert_eq!(of(&plan, ComparePlan::draw_of), [0; 5]);
        assert_eq!(of(&plan, ComparePlan::observation_of), [0, 1, 2, 3, 4]);
        let message = plan.clone().with_draws(6).expect_err("more draws than seeds").to_string();
        assert_eq!(
            message,
            "--draw-profiles 6 needs as many seeds, and there are 5: write --seeds 6 or more, or fewer draws"
        );
        let drawn = plan.with_draws(2).expect("enough seeds");
        assert_eq!(of(&drawn, ComparePlan::draw_of), [0, 1, 0, 1, 0]);
        assert_eq!(of(&drawn, ComparePlan::observation_of), [0, 1, 0, 1, 0]);
    }
}
