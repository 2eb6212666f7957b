//! Goals of trials, which depend on whether the user or evenkeel selected the policy.

/// The aim of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrialGoal {
    /// Any metric improved. For attached processes, whose policy the user selected.
    AnyMetric,
    /// The jobs retire more instructions per second of CPU time. For a policy that evenkeel selected: starting jobs are
    /// placed only after a trial measured a gain, and inconclusive trials afterwards revert nothing.
    Speed,
}

impl TrialGoal {
    /// Returns the maximum number of migrations of one trial. Page migrations that follow a migrated job may exceed this
    /// number. A trial for speed tests the whole placement of the policy, because a part of a placement may be worse
    /// than none.
    pub(super) fn n_moves_max(self) -> u64 {
        match self {
            TrialGoal::AnyMetric => 8,
            TrialGoal::Speed => u64::MAX,
        }
    }

    /// Returns the number of inconclusive trials in a row after which all jobs are released.
    pub(super) fn n_tries_max(self) -> u64 {
        match self {
            TrialGoal::AnyMetric => 3,
            TrialGoal::Speed => 1,
        }
    }

    /// Returns the minimum relevant change of the speed, as a share. A trial for speed compares the mean of all jobs,
    /// whose noise is smaller than that of a few migrated jobs. Guessed; `cargo xtask bench auto` prints the effect.
    pub(super) fn relevant_speed(self) -> f64 {
        match self {
            TrialGoal::AnyMetric => 0.02,
            TrialGoal::Speed => 0.005,
        }
    }
}
