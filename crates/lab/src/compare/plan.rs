//! Which runs a comparison has, and in which order.

use std::collections::BTreeSet;

use super::Column;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The policies.
    pub columns: Vec<Column>,
    /// Which of them the others are compared with, by place.
    pub baseline: usize,
    /// The workloads, by name.
    pub workloads: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// One run of a plan, by places in its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Which seed.
    pub seed: usize,
    /// Which workload.
    pub workload: usize,
    /// Which column.
    pub column: usize,
}

/// Why something cannot be compared. Each message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Only one policy.
    #[error(
        "there is nothing to compare {0} with: name two policies or more, as in --policies linux,dfs"
    )]
    OneColumn(String),
    /// The baseline does not run.
    #[error("the baseline {found} is not among the policies: write one of {known}")]
    Baseline {
        /// What was written.
        found: String,
        /// All there are.
        known: String,
    },
    /// Two workloads with one name.
    #[error(
        "two workloads are called {0:?}, and could not be told apart in tables: give one another name with the key name"
    )]
    SameName(String),
    /// A number or list of seeds that makes no sense.
    #[error("--seeds {found}: {what}; write how many (20), or which (1-20 or 3,7,11)")]
    Seeds {
        /// What was written.
        found: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// More seeds than anybody waits for.
const N_SEEDS_MAX: u64 = 10_000;

/// The seeds that a text means: a number of them from 1, or a list with ranges.
///
/// # Errors
/// None at all, one twice, or no numbers.
pub fn seeds(text: &str) -> Result<Vec<u64>, PlanError> {
    let wrong = |what| PlanError::Seeds { found: text.to_owned(), what };
    if let Ok(n) = text.trim().parse::<u64>() {
        return match n {
            0 => Err(wrong("there must be at least one")),
            n if N_SEEDS_MAX < n => Err(wrong("at most 10000 are possible")),
            n => Ok((1..=n).collect()),
        };
    }
    let mut seeds = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number =
            |text: &str| text.trim().parse::<u64>().map_err(|_| wrong("this is no number"));
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(wrong("a range goes upwards"));
        }
        if N_SEEDS_MAX <= last - first || N_SEEDS_MAX < seeds.len() as u64 + (last - first) {
            return Err(wrong("at most 10000 are possible"));
        }
        seeds.extend(first..=last);
    }
    let different: BTreeSet<u64> = seeds.iter().copied().collect();
    if different.len() < seeds.len() { Err(wrong("a seed stands twice")) } else { Ok(seeds) }
}

impl Plan {
    /// A plan whose parts fit together. Without a name the first column is the baseline, or `linux` if it
    /// is among them.
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
                place(&meant)
                    .ok_or_else(|| PlanError::Baseline { found: name.to_owned(), known: known() })?
            }
        };
        let mut names = BTreeSet::new();
        if let Some(again) = workloads.iter().find(|name| !names.insert(name.as_str())) {
            return Err(PlanError::SameName(again.clone()));
        }
        Ok(Plan { columns, baseline, workloads, seeds })
    }

    /// How many runs it has.
    pub fn n_runs(&self) -> usize {
        self.columns.len() * self.workloads.len() * self.seeds.len()
    }

    /// The run with a number: by seed, then workload, then column.
    pub fn key(&self, number: usize) -> Key {
        let (rest, column) = (number / self.columns.len(), number % self.columns.len());
        Key { seed: rest / self.workloads.len(), workload: rest % self.workloads.len(), column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::columns;

    #[test]
    fn seeds_are_a_number_or_a_list() {
        assert_eq!(seeds("3"), Ok(vec![1, 2, 3]));
        assert_eq!(seeds("7-9, 2"), Ok(vec![7, 8, 9, 2]));
        assert_eq!(seeds("5-5"), Ok(vec![5]));
        for (text, what) in [
            ("0", "there must be at least one"),
            ("10001", "at most 10000 are possible"),
            ("0-18446744073709551615", "at most 10000 are possible"),
            ("9-7", "a range goes upwards"),
            ("1,1", "a seed stands twice"),
            ("many", "this is no number"),
            ("", "this is no number"),
            ("-3", "this is no number"),
        ] {
            let said = seeds(text).expect_err(text).to_string();
            assert!(said.contains(what), "{said}");
        }
    }

    #[test]
    fn policies_take_turns_and_seeds_come_last() {
        let columns = columns(["linux,dfs"]).expect("sound");
        let workloads = vec!["a".to_owned(), "b".to_owned()];
        let plan = Plan::new(columns, None, workloads, vec![1, 2]).expect("sound");
        let order: Vec<String> = (0..plan.n_runs())
            .map(|number| plan.key(number))
            .map(|key| format!("{}{}{}", key.seed, plan.workloads[key.workload], key.column))
            .collect();
        assert_eq!(order, ["0a0", "0a1", "0b0", "0b1", "1a0", "1a1", "1b0", "1b1"]);
    }

    #[test]
    fn the_baseline_is_the_one_named_else_linux_else_the_first() {
        let plan = |lists: &str, baseline| {
            let columns = columns([lists]).expect("sound");
            let plan = Plan::new(columns, baseline, vec!["w".to_owned()], vec![1]);
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
    fn workloads_of_one_name_are_refused() {
        let columns = columns(["linux,dfs"]).expect("sound");
        let names = vec!["w".to_owned(), "w".to_owned()];
        let said = Plan::new(columns, None, names, vec![1]).expect_err("the same").to_string();
        assert!(said.contains("two workloads are called \"w\""), "{said}");
    }
}
