//! The values of a comparison, each field with its label, unit and meaning.

use crate::describe::{names, record};

record! {
    /// A comparison of policies on workloads with several seeds.
    Comparison {
        format: u32, "Format", Plain, "Version of this format.";
        tool: String, "Version", Plain, "Version of evenkeel that ran the comparison.";
        setting: Setting, "Setting", Plain, "Machine, policies, workloads and options.";
        policies: Vec<PolicyRow>, "Policies", Plain, "Each policy over all workloads, in the order of the command.";
        summary: Vec<SummaryRow>, "Summary", Plain, "Each policy on each workload, over all seeds.";
        runs: Vec<RunRow>, "Runs", Plain, "Every completed run: by seed, then workload, then policy.";
        notes: Vec<String>, "Notes", Plain, "Sentences that qualify the values.";
    }
}

record! {
    /// Machine, policies, workloads and options of a comparison.
    Setting {
        host: String, "Host", Plain, "Kind of host: sim (a simulated machine) or live.";
        compared: Compared, "Compared", Plain, "Kind of the compared columns.";
        machine: String, "Machine", Plain, "Name of the machine.";
        n_nodes: u64, "Nodes", Count, "NUMA nodes; 0 when the kernel reports none.";
        n_cpus: u64, "CPUs", Count, "CPUs online.";
        baseline: String, "Baseline", Plain, "The column with which the other columns are compared.";
        columns: Vec<String>, "Columns", Plain, "The compared policies or commands, in the order of the command line: a policy with its parameters, or a command, followed by its policy in brackets if there are several policies.";
        workloads: Vec<String>, "Workloads", Plain, "The workloads by name, in order.";
        seeds: Vec<u64>, "Seeds", Plain, "The seeds. Each policy runs on each workload once per seed.";
        n_runs: u64, "Runs", Count, "Number of runs of the comparison.";
        n_runs_done: u64, "Runs done", Count, "Number of completed runs. If it is smaller than the number of runs, the comparison was interrupted, and the same command continues it.";
        n_profile_draws: Option<u64>, "Profile draws", Count, "Number of draws of the profiles from their ranges, over which the seeds are spread; absent if the profiles are not drawn. A draw is one observation of intervals and tests, the mean of its seeds.";
        n_pairs_needed: u64, "Pairs needed", Count, "Minimum number of seeds (of draws, with drawn profiles) for a verdict other than inconclusive: with fewer pairs the signed-rank test cannot reach significance.";
        equal_within: Option<f64>, "Equal within", Share, "Largest difference of a ratio from 1 that has the verdict equal: the accuracy of the simulator. Absent in live comparisons, which have no such verdict.";
        command: Option<String>, "Repeat with", Plain, "The command that repeats the comparison, quoted for a shell, without options of the output.";
        options: Vec<OptionRow>, "Options", Plain, "Other options of all runs.";
    }
}

names! {
    /// Kind of the columns of a comparison.
    Compared {
        Policies "policies" "Policies on the same workloads.";
        Commands "commands" "Commands on the same machine, each under one or several policies.";
    }
}

record! {
    /// An option of all runs.
    OptionRow {
        name: String, "Option", Plain, "Name of the option.";
        value: String, "Value", Plain, "Value of the option.";
    }
}

record! {
    /// A policy over all workloads.
    PolicyRow {
        column: String, "Column", Plain, "The compared policy or command, as in `setting.columns`.";
        policy: String, "Policy", Plain, "The policy with its parameters, as on the command line.";
        command: Option<String>, "Command", Plain, "The command; absent in a comparison of policies, whose workloads contain the commands.";
        is_baseline: bool, "Baseline", Plain, "Whether this policy is the baseline.";
        is_oracle: bool, "Oracle", Plain, "Whether the policy is the oracle, which uses future information and which no host can run: the answer omits it if there are other policies.";
        n_seeds: u64, "Seeds", Count, "Seeds (draws, with drawn profiles) with which this policy and the baseline ran on every workload. The values over all workloads use these seeds.";
        n_tested: u64, "Tested", Count, "Number of these seeds or draws with a finished run. If it is smaller than `n_pairs_needed`, no verdict better, worse or equal is possible.";
        n_failed: u64, "Failed", Count, "Number of runs that did not finish: a job failed, the time limit was reached, or the policy aborted.";
        is_identical: bool, "Identical", Plain, "Whether the pairs of all seeds are identical on every workload; false for the baseline. Identical pairs are one observation, without interval, test and verdict.";
        is_same_as_baseline: bool, "Same as baseline", Plain, "Whether each run of the policy equals the run of the baseline with the same workload and seed; false for the baseline. Equal runs have no interval, test and verdict.";
        ratio_to_baseline: Option<f64>, "Ratio", Plain, "Geometric mean over the workloads of the ratios to the baseline; below 1 is faster. Absent without pairs, and if a run of a pair did not finish.";
        ratio_absent_because: Option<String>, "No ratio", Plain, "Why the ratio is absent.";
        ratio_ci95: Option<Vec<f64>>, "95 % interval", Plain, "95 % confidence interval of the ratio: two ends.";
        p: Option<f64>, "p", Plain, "p-value over all workloads: signed-rank test with the seeds as blocks, with Holm's correction for the number of policies.";
        verdict: Option<ComparisonVerdict>, "Verdict", Plain, "Verdict over all workloads; absent for the baseline, and if all pairs are identical or equal those of the baseline.";
        n_better: u64, "Better", Count, "Number of workloads with the verdict better.";
        n_worse: u64, "Worse", Count, "Number of workloads with the verdict worse.";
        n_equal: u64, "Equal", Count, "Number of workloads with the verdict equal.";
        n_inconclusive: u64, "Inconclusive", Count, "Number of workloads with the verdict inconclusive.";
        slowdown: Option<f64>, "Slowdown", Plain, "Mean slowdown of all jobs of all runs.";
        unfairness: Option<f64>, "Unfairness", Plain, "Mean unfairness of the runs.";
        n_migrations: Option<f64>, "Migrations", Count, "CPU migrations of tasks, mean per run; absent without a finished run.";
        n_moves: Option<f64>, "Moves", Count, "Number of moves by the policy, mean per run; absent without a finished run.";
        pages_moved_bytes: Option<f64>, "Memory migrated", Bytes, "Memory migrated to another node by the policy or the kernel, mean per run; absent without a finished run.";
        n_migrations_median: Option<f64>, "Migrations", Count, "Mean over the workloads of the median number of migrations per run; absent without a finished run.";
        n_moves_median: Option<f64>, "Moves", Count, "Mean over the workloads of the median number of moves per run, as `n_migrations_median`.";
        pages_moved_median_bytes: Option<f64>, "Memory migrated", Bytes, "Mean over the workloads of the median migrated memory per run, as `n_migrations_median`.";
    }
}

record! {
    /// A policy on a workload, over all seeds.
    SummaryRow {
        column: String, "Column", Plain, "The compared policy or command, as in `setting.columns`.";
        policy: String, "Policy", Plain, "The policy with its parameters, as on the command line.";
        command: Option<String>, "Command", Plain, "The command; absent in a comparison of policies, whose workloads contain the commands.";
        workload: String, "Workload", Plain, "The workload.";
        n_runs: u64, "Runs", Count, "Number of finished runs. Makespans, slowdowns and costs are those of these runs.";
        n_failed: u64, "Failed", Count, "Number of runs that did not finish: a job failed, the time limit was reached, or the policy aborted. The test ranks them as slowest.";
        n_time_limit: u64, "Time limit", Count, "Number of the runs in `n_failed` that the time limit stopped.";
        mean_s: Option<f64>, "Mean", Seconds, "Mean makespan.";
        median_s: Option<f64>, "Median", Seconds, "Median makespan.";
        ci95_s: Option<Vec<f64>>, "95 % interval of the mean", Seconds, "95 % confidence interval of the mean makespan: two ends. Absent with fewer than two runs, and if all runs are identical.";
        min_s: Option<f64>, "Shortest", Seconds, "Shortest makespan.";
        max_s: Option<f64>, "Longest", Seconds, "Longest makespan.";
        variation: Option<f64>, "Variation", Share, "Coefficient of variation of the makespan: standard deviation divided by the mean.";
        is_identical: bool, "Identical", Plain, "Whether the pairs of all seeds are identical; false for the baseline. Identical pairs are one observation, without interval, test and verdict.";
        is_same_as_baseline: bool, "Same as baseline", Plain, "Whether each run of the policy equals the run of the baseline with the same seed; false for the baseline. Equal runs have no interval, test and verdict.";
        ratio_to_baseline: Option<f64>, "Ratio", Plain, "Mean makespan divided by that of the baseline, over the pairs; below 1 is faster. Absent if a run of a pair did not finish.";
        ratio_absent_because: Option<String>, "No ratio", Plain, "Why the ratio is absent.";
        ratio_ci95: Option<Vec<f64>>, "95 % interval", Plain, "95 % confidence interval of the ratio: two ends; absent if all pairs are identical or equal those of the baseline.";
        n_pairs: u64, "Pairs", Count, "Number of seeds (of draws, with drawn profiles) with which the policy and the baseline ran.";
        p: Option<f64>, "p", Plain, "p-value of the signed-rank test of the pairs, in which a run that did not finish is the slowest; absent if all pairs are identical or equal those of the baseline.";
        p_holm: Option<f64>, "p, corrected", Plain, "The p-value with Holm's correction for the number of policies on this workload. The verdict uses it.";
        verdict: Option<ComparisonVerdict>, "Verdict", Plain, "Verdict against the baseline; absent for the baseline, and if all pairs are identical or equal those of the baseline.";
        oracle_gap: Option<f64>, "Above the oracle", Share, "Excess of the mean of the oracle's objective (by default the makespan) over that of the policy oracle, the best known placement of each run; absent without runs of the oracle.";
        model_gap: Option<f64>, "Below the assignment model", Share, "Mean of `model_gap` of the runs.";
        model_gap_basis: Option<ModelGapBasis>, "Model", Plain, "`model_gap_basis` of the runs: the bound if one of them has it.";
        slowdown: Option<f64>, "Slowdown", Plain, "Mean slowdown of all jobs of all runs; absent if no job was measured alone.";
        unfairness: Option<f64>, "Unfairness", Plain, "Mean unfairness of the runs.";
        n_migrations: Option<f64>, "Migrations", Count, "CPU migrations of tasks, mean per run; absent without a finished run.";
        n_moves: Option<f64>, "Moves", Count, "Number of moves by the policy, mean per run; absent without a finished run.";
        pages_moved_bytes: Option<f64>, "Memory migrated", Bytes, "Memory migrated to another node by the policy or the kernel, mean per run; absent without a finished run.";
        n_migrations_median: Option<f64>, "Migrations", Count, "Median of the migrations per run; absent without a finished run.";
        n_moves_median: Option<f64>, "Moves", Count, "Median of the moves per run; absent without a finished run.";
        pages_moved_median_bytes: Option<f64>, "Memory migrated", Bytes, "Median of the migrated memory per run; absent without a finished run.";
        controllers: Vec<ControllerRow>, "Controllers", Plain, "Traffic of the memory controllers of each node, mean per run; empty if it is not counted.";
        jobs: Vec<JobSummaryRow>, "Jobs", Plain, "Each job over all seeds.";
        median_seed: Option<u64>, "Median seed", Plain, "Seed of the run with the median makespan; if the number of runs is even, of the faster of the two middle runs.";
        timeline: Option<String>, "Timeline", Plain, "Path of the report of the run with the median makespan, relative to this file; absent if no report was written.";
    }
}

names! {
    /// Verdict on a policy against the baseline.
    ComparisonVerdict {
        Better "better" "Faster, and not equal: the corrected p-value is below 0.05, and the confidence interval of the ratio is below 1 or, without a ratio, the baseline has the larger ranks.";
        Worse "worse" "Slower, and not equal: the corrected p-value is below 0.05, and the confidence interval of the ratio is above 1 or, without a ratio, the policy has the larger ranks.";
        Equal "equal" "Simulated runs only: the whole confidence interval of the ratio is from 0.999 to 1.001, and the pairs are enough for a verdict.";
        Inconclusive "inconclusive" "These runs show no significant difference, which does not mean that both policies are equal.";
    }
}

names! {
    /// The work that the distance to the assignment model is relative to.
    ModelGapBasis {
        BestAssignment "best-assignment" "The work of the best assignments.";
        LagrangianBound "lagrangian-bound" "In a part of the run an upper bound of the work of all assignments, by Lagrangian relaxation: there are more than 20,000 lists of numbers of threads on the cores. The distance to the best assignments is smaller or equal.";
    }
}

record! {
    /// A job of a workload under a policy, over all seeds.
    JobSummaryRow {
        name: String, "Job", Plain, "Name of the job.";
        mean_s: Option<f64>, "Mean", Seconds, "Mean time from start to end; absent for jobs that restart or are stopped.";
        alone_s: Option<f64>, "Alone", Seconds, "Time alone on the idle machine, if it was measured.";
        slowdown: Option<f64>, "Slowdown", Plain, "Mean slowdown.";
        slowdown_min: Option<f64>, "Minimum", Plain, "Smallest slowdown of all seeds.";
        slowdown_max: Option<f64>, "Maximum", Plain, "Largest slowdown of all seeds.";
    }
}

record! {
    /// A run: one policy on one workload with one seed.
    RunRow {
        column: String, "Column", Plain, "The compared policy or command, as in `setting.columns`.";
        policy: String, "Policy", Plain, "The policy with its parameters, as on the command line.";
        command: Option<String>, "Command", Plain, "The command; absent in a comparison of policies, whose workloads contain the commands.";
        workload: String, "Workload", Plain, "The workload.";
        seed: u64, "Seed", Plain, "Seed of all random choices.";
        status: RunCompletion, "Status", Plain, "Completion status of the run.";
        error: Option<String>, "Error", Plain, "The error of a failed run.";
        makespan_s: Option<f64>, "Makespan", Seconds, "Time from the start of the run to the end of its last job; absent unless the status is `finished`.";
        user_s: Option<f64>, "User", Seconds, "CPU time of all ended jobs in user mode; absent if no job ended.";
        system_s: Option<f64>, "System", Seconds, "CPU time of all ended jobs in kernel mode; absent if no job ended.";
        slowdown: Option<f64>, "Slowdown", Plain, "Mean slowdown of the jobs; absent if no job was measured alone.";
        unfairness: Option<f64>, "Unfairness", Plain, "Largest slowdown of the jobs divided by the smallest; absent with fewer than two.";
        n_migrations: u64, "Migrations", Count, "CPU migrations of tasks.";
        n_moves: u64, "Moves", Count, "Number of moves by the policy.";
        pages_moved_bytes: u64, "Memory migrated", Bytes, "Memory migrated to another node by the policy or the kernel.";
        controllers: Vec<ControllerRow>, "Controllers", Plain, "Traffic of the memory controllers of each node; empty if it is not counted.";
        profile_draw: Option<u64>, "Profile draw", Plain, "Number of the draw of the profiles, from 1; absent if the profiles are not drawn.";
        oracle: Option<OracleRow>, "Oracle", Plain, "The search of the policy oracle; absent for other policies.";
        model_gap: Option<f64>, "Below the assignment model", Share, "1 minus the work of the actual assignments of threads to core kinds divided by that of the best assignments, in the model of R. Chen et al. Only runnable threads count, and the model ignores contention. Absent on machines with one core kind, in runs shorter than a second, and with more than 128 threads.";
        model_gap_basis: Option<ModelGapBasis>, "Model", Plain, "The work that `model_gap` is relative to.";
        jobs: Vec<RunJobRow>, "Jobs", Plain, "All jobs of the workload.";
        report: Option<String>, "Report", Plain, "Path of the report of this run, relative to this file; absent if no report was written.";
    }
}

names! {
    /// Completion status of a run of a comparison.
    RunCompletion {
        Finished "finished" "All jobs ended successfully.";
        Failed "failed" "A job failed or the policy aborted. The test ranks the run as slowest; the other values omit it.";
        Stopped "stopped" "The time limit was reached. The test ranks the run as slowest; the other values omit it.";
    }
}

record! {
    /// Traffic of the memory controllers of a node.
    ControllerRow {
        node: Option<u32>, "Node", Plain, "The node; absent on a machine without NUMA nodes.";
        read_bytes: f64, "Read", Bytes, "Bytes read from the memory of the node.";
        written_bytes: f64, "Written", Bytes, "Bytes written to the memory of the node.";
        bytes_per_s: f64, "Load", BytesPerSecond, "Reads and writes divided by the time from the start of the run to the end of its last job.";
    }
}

record! {
    /// The search of the oracle for the best placement of a run.
    OracleRow {
        best: String, "Best", Plain, "The best placement or policy.";
        n_placements: u64, "Placements", Count, "Number of simulated placements for the whole run, in addition to every policy with its defaults, the best placement at each instant, and placements with memory-hungry jobs on few CPUs.";
        is_exhaustive: bool, "Exhaustive", Plain, "Whether all possible placements were simulated; otherwise the search selected some placements.";
        above_bound: Option<f64>, "Above the bound", Share, "Excess of the objective over a lower bound that no placement can go below. Absent if no job ends on its own.";
        bound_term: Option<String>, "Bound", Plain, "Origin of the lower bound: the longest job alone, or the CPU time, core cycles or memory traffic of jobs over the capacity for them.";
    }
}

record! {
    /// A job of a run.
    RunJobRow {
        name: String, "Job", Plain, "Name of the job.";
        start_s: Option<f64>, "Start", Seconds, "Time of the first start.";
        end_s: Option<f64>, "End", Seconds, "Time of the last end.";
        user_s: Option<f64>, "User", Seconds, "CPU time in user mode, of all starts; absent if the job did not end.";
        system_s: Option<f64>, "System", Seconds, "CPU time in kernel mode, of all starts; absent if the job did not end.";
        slowdown: Option<f64>, "Slowdown", Plain, "Time from start to end divided by the time alone on the idle machine; absent for jobs that restart or are stopped, and if the job was not measured alone.";
    }
}

impl Compared {
    /// Returns the noun for one of the compared policies or commands.
    pub fn noun(self) -> &'static str {
        match self {
            Compared::Policies => "policy",
            Compared::Commands => "command",
        }
    }

    /// Returns the noun as the header of a column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Compared::Policies => "Policy",
            Compared::Commands => "Command",
        }
    }

    /// Returns the noun for one repetition. Commands have no random choice of their own that a seed sets.
    pub fn repetition(self) -> &'static str {
        match self {
            Compared::Policies => "seed",
            Compared::Commands => "run",
        }
    }
}

impl Setting {
    /// Returns the noun of one observation: `seed`, `run`, `profile draw`.
    pub(super) fn observation(&self) -> &'static str {
        match self.n_profile_draws {
            Some(_) => "profile draw",
            None => self.compared.repetition(),
        }
    }

    /// Returns the tolerance of the verdict equal: `within 0.10 %`.
    pub(super) fn equal_within(&self) -> Option<String> {
        self.equal_within.map(|share| format!("within {}", crate::format::percent(share)))
    }

    /// Returns the size of the comparison: `2 workloads, 10 seeds`, `10 runs of each`.
    pub(super) fn repetitions(&self) -> String {
        let n = self.seeds.len();
        let draws = self.n_profile_draws.map_or(String::new(), |n_draws| {
            format!(" in {}", base::counted_noun(n_draws, "profile draw"))
        });
        match self.compared {
            Compared::Policies => format!(
                "{}, {}{draws}",
                base::counted_noun(self.workloads.len(), "workload"),
                base::counted_noun(n, "seed")
            ),
            Compared::Commands => format!("{} of each", base::counted_noun(n, "run")),
        }
    }

    /// Returns the caption of the values of a workload. All commands have one workload, which has no name of its own.
    pub(super) fn caption<'a>(&self, workload: &'a str) -> &'a str {
        match self.compared {
            Compared::Policies => workload,
            Compared::Commands => "All runs",
        }
    }
}

impl Comparison {
    /// Returns the result as one JSON object on one line, documented in `docs/report-fields.md` and
    /// `docs/compare.schema.json`, without a line feed at the end. Indented JSON of thousands of runs would be five
    /// times as large.
    ///
    /// # Errors
    /// No error is known: numbers, strings and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        base::json::to_line(self)
    }
}
