//! Fields of the result of `evenkeel tune`.

use crate::comparison::ComparisonVerdict;
use crate::describe::{names, record};

/// Version of the format of `evenkeel tune --json`.
pub const FORMAT: u32 = 1;

record! {
    /// The settings that a search found, their gain on held-out runs, and the sensitivity to each parameter.
    TuneResult {
        format: u32, "Format", Plain, "Version of this format.";
        tool: String, "Version", Plain, "Version of evenkeel.";
        command: Option<String>, "Repeat with", Plain, "The command that repeats the search, quoted for a shell, without options of the output.";
        machine: String, "Machine", Plain, "Name of the simulated machine.";
        policy: String, "Policy", Plain, "The tuned policy with the parameters that the command line sets: the defaults of the search.";
        outcome: TuneOutcome, "Outcome", Plain, "Whether the held-out runs confirm the settings.";
        settings: String, "Settings", Plain, "The settings to use, in the syntax of --policy: `found` if the outcome is `confirmed`, otherwise `policy`.";
        found: String, "Found", Plain, "The settings with the smallest ratio on the training runs; a parameter whose value has no effect there has its default.";
        search_seed: u64, "Search seed", Plain, "Seed of the random numbers of the search.";
        n_trials: u64, "Trials", Count, "Number of different settings that were simulated, including the defaults.";
        n_runs: u64, "Runs", Count, "Number of all simulated runs.";
        training_workloads: Vec<String>, "Training workloads", Plain, "Workloads of the training runs.";
        training_seeds: Vec<u64>, "Training seeds", Plain, "Seeds of the training runs.";
        held_out_workloads: Vec<String>, "Held-out workloads", Plain, "Workloads that the search does not use; empty if only seeds are held out.";
        held_out_seeds: Vec<u64>, "Held-out seeds", Plain, "Seeds that the search does not use.";
        gains: Vec<TuneGain>, "Gains", Plain, "Gains of `found` over the defaults and over linux. The first gain over the defaults decides.";
        parameters: Vec<TunedParameter>, "Parameters", Plain, "The searched parameters, in the order of the declaration or of the command line.";
        pairs: Vec<TunePair>, "Pairs", Plain, "Maps of the pairs of parameters with the largest effects, at most three, the largest first.";
        trials: Vec<TuneTrial>, "Trials", Plain, "All trials in their order; the first has the defaults.";
        notes: Vec<String>, "Notes", Plain, "Sentences that qualify the values.";
    }
}

names! {
    /// Result of a search.
    TuneOutcome {
        Confirmed "confirmed" "The settings are better than the defaults on held-out runs.";
        NotConfirmed "not-confirmed" "The settings are better on the training runs, but not with statistical significance on the held-out runs: the defaults are kept.";
        DefaultsBest "defaults-best" "No settings are better than the defaults on the training runs: the defaults are kept.";
    }
}

names! {
    /// Runs on which a gain is measured.
    TuneRuns {
        HeldOutWorkloads "held-out-workloads" "Held-out workloads with held-out seeds.";
        HeldOutSeeds "held-out-seeds" "Training workloads with held-out seeds.";
        Training "training" "The runs from which the search selects settings: the gain is overestimated, and has no interval and no verdict.";
    }
}

record! {
    /// A gain of the found settings.
    TuneGain {
        runs: TuneRuns, "Runs", Plain, "The runs.";
        baseline: String, "Compared with", Plain, "The policy that the settings are compared with.";
        gain: Option<f64>, "Gain", Share, "Reduction of the makespan: 1 minus the geometric mean over the workloads of the ratios of mean makespans; negative if the settings are slower. Absent if a run did not finish.";
        gain_ci95: Option<Vec<f64>>, "95 % interval", Share, "95 % confidence interval of the gain: lower and upper bound. Absent for training runs, and without variation between seeds.";
        verdict: Option<ComparisonVerdict>, "Verdict", Plain, "Verdict by the rules of a comparison; absent without a test.";
        remark: Option<String>, "Remark", Plain, "Why the gain or its interval is absent.";
    }
}

record! {
    /// A searched parameter.
    TunedParameter {
        name: String, "Parameter", Plain, "Name of the parameter.";
        values: String, "Values", Plain, "The searched values or range; (log): on a logarithmic scale.";
        default: String, "Default", Plain, "The default value.";
        found: Option<String>, "Found", Plain, "The value of the found settings; absent if the parameter has no effect with their other values.";
        n_trials: u64, "Trials", Count, "Number of trials in which the parameter had an effect.";
        n_skipped: u64, "Skipped", Count, "Number of trials that omitted the parameter, because it had no effect with the other values.";
        effect: Option<f64>, "Effect", Share, "Share of the variance of the ratios that the bins predict (leave-one-out cross-validation). Effects of several parameters can overlap: their sum can exceed 1. Absent if all trials are within 0.1 %, in one bin, or fewer than two per bin.";
        bins: Vec<TuneBin>, "Bins", Plain, "The values in bins.";
    }
}

record! {
    /// A bin of values of a parameter.
    TuneBin {
        values: String, "Values", Plain, "The value, or the bounds of the bin.";
        n_trials: u64, "Trials", Count, "Number of trials with these values.";
        best_ratio: Option<f64>, "Best", Plain, "Smallest makespan of these trials on the training runs, relative to the defaults; absent without a finished trial.";
        mean_ratio: Option<f64>, "Mean", Plain, "Mean of these ratios.";
    }
}

record! {
    /// Map of the values of two parameters.
    TunePair {
        x: String, "Column parameter", Plain, "Parameter of the columns.";
        y: String, "Row parameter", Plain, "Parameter of the rows.";
        effect: Option<f64>, "Effect", Share, "Share of the variance of the ratios that the cells predict, as for a parameter; absent with fewer than two trials per cell.";
        x_values: Vec<String>, "Columns", Plain, "The bins of the columns.";
        y_values: Vec<String>, "Rows", Plain, "The bins of the rows.";
        cells: Vec<TunePairCell>, "Cells", Plain, "The cells with trials.";
    }
}

record! {
    /// Cell of a map of two parameters.
    TunePairCell {
        x: u64, "Column", Plain, "Index of the column.";
        y: u64, "Row", Plain, "Index of the row.";
        n_trials: u64, "Trials", Count, "Number of trials in the cell.";
        best_ratio: Option<f64>, "Best", Plain, "Smallest ratio of these trials; absent without a finished trial.";
    }
}

record! {
    /// A trial.
    TuneTrial {
        settings: String, "Settings", Plain, "The settings, in the syntax of --policy.";
        ratio: Option<f64>, "Ratio", Plain, "Makespan on the training runs relative to the defaults: geometric mean over the workloads; absent if a run did not finish.";
    }
}
