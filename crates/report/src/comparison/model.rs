//! The values of a comparison, each field with its label, unit and meaning.

use crate::describe::{record, words};

record! {
    /// A whole comparison.
    Comparison {
        format: u32, "Format", Plain, "The version of this format.";
        tool: String, "Made by", Plain, "The version of evenkeel that ran it.";
        setting: Setting, "Setting", Plain, "What was compared, on what.";
        policies: Vec<PolicyRow>, "Policies", Plain, "Each policy over all workloads, in the order of the command.";
        summary: Vec<SummaryRow>, "Summary", Plain, "Each policy on each workload, over all seeds.";
        runs: Vec<RunRow>, "Runs", Plain, "Every run that is done: by seed, then workload, then policy.";
        notes: Vec<String>, "Notes", Plain, "What must be known before the figures are believed, a sentence each.";
    }
}

record! {
    /// What was compared, on what.
    Setting {
        host: String, "Host", Plain, "Where the runs took place: sim (a simulated machine) or live.";
        machine: String, "Machine", Plain, "What the machine is called.";
        n_nodes: u64, "Nodes", Count, "Its NUMA nodes; 0 when it tells of none.";
        n_cpus: u64, "CPUs", Count, "Its CPUs online.";
        baseline: String, "Baseline", Plain, "The policy that the others are compared with.";
        policies: Vec<String>, "Policies", Plain, "Every policy as it was asked for, in order.";
        workloads: Vec<String>, "Workloads", Plain, "Every workload by name, in order.";
        seeds: Vec<u64>, "Seeds", Plain, "Every seed. Each policy ran on each workload once with each of them.";
        n_runs: u64, "Runs", Count, "How many runs the comparison has.";
        n_runs_done: u64, "Runs done", Count, "How many of them are done. Fewer than all: it was interrupted, and the same command goes on.";
        n_pairs_needed: u64, "Pairs needed", Count, "With fewer seeds than this no verdict but inconclusive is possible, however large a difference is: so few pairs lean to one side by chance too.";
        options: Vec<OptionRow>, "Options", Plain, "What else the runs stand on.";
    }
}

record! {
    /// An option that all runs had.
    OptionRow {
        name: String, "Option", Plain, "Its name.";
        value: String, "Value", Plain, "Its value.";
    }
}

record! {
    /// A policy over all workloads.
    PolicyRow {
        policy: String, "Policy", Plain, "The policy as it was asked for.";
        is_baseline: bool, "Baseline", Plain, "Whether the others are compared with it.";
        n_seeds: u64, "Seeds", Count, "Seeds on which it and the baseline finished every workload; the figures over all workloads are of these.";
        ratio_to_baseline: Option<f64>, "Ratio", Plain, "Geometric mean over the workloads of its ratios to the baseline; below 1 it takes less time. Absent where nothing can be paired.";
        ratio_ci95: Option<Vec<f64>>, "95 % interval", Plain, "Where that ratio lies in 95 of 100 such comparisons: two ends.";
        p: Option<f64>, "p", Plain, "How likely chance alone leans so far to either side, over all workloads (signed-rank test of the seeds), after Holm's correction for the number of policies.";
        verdict: Option<VerdictWord>, "Verdict", Plain, "What may be said of it over all workloads; absent for the baseline.";
        n_better: u64, "Better", Count, "Workloads on which its verdict is better.";
        n_worse: u64, "Worse", Count, "Workloads on which its verdict is worse.";
        n_inconclusive: u64, "Inconclusive", Count, "Workloads on which nothing can be said.";
        slowdown: Option<f64>, "Slow-down", Plain, "Mean slow-down of all jobs of all its runs.";
        unfairness: Option<f64>, "Unfairness", Plain, "Mean of the runs' unfairness.";
        n_migrations: Option<f64>, "Migrations", Count, "How often tasks came to another CPU, a run on average; absent without a run that counts.";
        n_moves: Option<f64>, "Moves", Count, "How often the policy placed a running job anew, a run on average; absent without a run that counts.";
        pages_moved_bytes: Option<f64>, "Memory moved", Bytes, "Memory that came to another node, by the policy or by the kernel, a run on average; absent without a run that counts.";
    }
}

record! {
    /// A policy on a workload, over all seeds.
    SummaryRow {
        policy: String, "Policy", Plain, "The policy as it was asked for.";
        workload: String, "Workload", Plain, "The workload.";
        n_runs: u64, "Runs", Count, "Runs that the figures are of.";
        n_left_out: u64, "Left out", Count, "Runs that are done and left out of all figures: a job failed, the time limit came, or the policy gave up.";
        mean_s: Option<f64>, "Mean", Seconds, "Mean of the whole times.";
        median_s: Option<f64>, "Median", Seconds, "Median of the whole times.";
        ci95_s: Option<Vec<f64>>, "95 % interval of the mean", Seconds, "Where the mean lies in 95 of 100 such comparisons: two ends. Absent with fewer than two runs.";
        least_s: Option<f64>, "Shortest", Seconds, "The shortest whole time.";
        most_s: Option<f64>, "Longest", Seconds, "The longest whole time.";
        spread: Option<f64>, "Spread", Share, "How far whole times lie from their mean from run to run: standard deviation divided by the mean.";
        ratio_to_baseline: Option<f64>, "Ratio", Plain, "Mean whole time divided by that of the baseline, over the seeds that both finished; below 1 it takes less time.";
        ratio_ci95: Option<Vec<f64>>, "95 % interval", Plain, "Where that ratio lies in 95 of 100 such comparisons: two ends.";
        n_pairs: u64, "Pairs", Count, "Seeds that both finished.";
        p: Option<f64>, "p", Plain, "How likely chance alone leans so far to either side: signed-rank test of the pairs.";
        p_holm: Option<f64>, "p, corrected", Plain, "The same after Holm's correction for the number of policies on this workload; the verdict rests on it.";
        verdict: Option<VerdictWord>, "Verdict", Plain, "What may be said of it beside the baseline; absent for the baseline.";
        oracle_gap: Option<f64>, "Above the oracle", Share, "By which part its mean lies above that of the policy oracle, the best that is known for each run; absent where that did not run.";
        slowdown: Option<f64>, "Slow-down", Plain, "Mean slow-down of all jobs of all runs; absent where no job was measured alone.";
        unfairness: Option<f64>, "Unfairness", Plain, "Mean of the runs' unfairness.";
        n_migrations: Option<f64>, "Migrations", Count, "How often tasks came to another CPU, a run on average; absent without a run that counts.";
        n_moves: Option<f64>, "Moves", Count, "How often the policy placed a running job anew, a run on average; absent without a run that counts.";
        pages_moved_bytes: Option<f64>, "Memory moved", Bytes, "Memory that came to another node, by the policy or by the kernel, a run on average; absent without a run that counts.";
        controllers: Vec<ControllerRow>, "Controllers", Plain, "What the memory controllers of each node carried, a run on average; empty where nothing counts it.";
        jobs: Vec<JobSummaryRow>, "Jobs", Plain, "Each job over all seeds.";
        median_seed: Option<u64>, "Median seed", Plain, "The seed whose whole time is the median, of an even number the lower one of the two in the middle.";
        timeline: Option<String>, "Timeline", Plain, "The report of that run, a file beside this one; absent where none was made.";
    }
}

words! {
    /// What may be said of a policy beside the baseline.
    VerdictWord {
        Better "better" "It takes less time: the interval of its ratio lies below 1, and the corrected p below 0.05.";
        Worse "worse" "It takes more time: the interval of its ratio lies above 1, and the corrected p below 0.05.";
        Inconclusive "inconclusive" "These runs do not tell, which is not the same as equal.";
    }
}

record! {
    /// A job of a workload under a policy, over all seeds.
    JobSummaryRow {
        name: String, "Job", Plain, "Its name.";
        mean_s: Option<f64>, "Mean", Seconds, "Mean time from its start to its end; absent for jobs that restart or are ended.";
        alone_s: Option<f64>, "Alone", Seconds, "What it takes alone on the idle machine, where that was measured.";
        slowdown: Option<f64>, "Slow-down", Plain, "Mean slow-down.";
        slowdown_least: Option<f64>, "Least", Plain, "Its smallest slow-down of all seeds.";
        slowdown_most: Option<f64>, "Most", Plain, "Its largest slow-down of all seeds.";
    }
}

record! {
    /// A run: one policy on one workload with one seed.
    RunRow {
        policy: String, "Policy", Plain, "The policy as it was asked for.";
        workload: String, "Workload", Plain, "The workload.";
        seed: u64, "Seed", Plain, "The seed of everything random.";
        ended: RunEndWord, "Ended", Plain, "How it ended.";
        error: Option<String>, "Error", Plain, "What went wrong, if it failed.";
        whole_s: f64, "Whole time", Seconds, "From the start of the run to the end of its last job.";
        slowdown: Option<f64>, "Slow-down", Plain, "Mean slow-down of its jobs; absent where none was measured alone.";
        unfairness: Option<f64>, "Unfairness", Plain, "The largest slow-down of its jobs divided by the smallest; absent with fewer than two.";
        n_migrations: u64, "Migrations", Count, "How often tasks came to another CPU.";
        n_moves: u64, "Moves", Count, "How often the policy placed a running job anew.";
        pages_moved_bytes: u64, "Memory moved", Bytes, "Memory that came to another node, by the policy or by the kernel.";
        controllers: Vec<ControllerRow>, "Controllers", Plain, "What the memory controllers of each node carried; empty where nothing counts it.";
        found: Option<FoundRow>, "Found", Plain, "How the best way was found; only of runs of the policy oracle.";
        jobs: Vec<RunJobRow>, "Jobs", Plain, "Every job of the workload.";
        report: Option<String>, "Report", Plain, "The report of this run, a file beside this one; absent where none was made.";
    }
}

words! {
    /// How a run of a comparison ended.
    RunEndWord {
        Finished "finished" "All jobs ended well.";
        Failed "failed" "A job failed, or the policy gave up: left out of all figures.";
        Stopped "stopped" "The time limit came: left out of all figures.";
    }
}

record! {
    /// What the memory controllers of a node carried in a run.
    ControllerRow {
        node: Option<u32>, "Node", Plain, "The node; absent on a machine that tells of none.";
        read_bytes: f64, "Read", Bytes, "Bytes read from its memory.";
        written_bytes: f64, "Written", Bytes, "Bytes written to its memory.";
        bytes_per_s: f64, "Load", BytesPerSecond, "Both together, a second of the whole time.";
    }
}

record! {
    /// How the oracle found the best way to do a run.
    FoundRow {
        way: String, "Way", Plain, "Which way it is.";
        n_placements: u64, "Placements", Count, "How many placements for the whole run were simulated, beside every policy as it comes and the best placement of each moment.";
        is_all: bool, "All", Plain, "Whether those were all that there are; else they are those of a search.";
        above_bound: Option<f64>, "Above the bound", Share, "By which part the run ends later than any placement can: than the job that would end last if each had the fastest core, the largest cache and idle memory to itself. Absent where no job ends by itself.";
    }
}

record! {
    /// A job of a run.
    RunJobRow {
        name: String, "Job", Plain, "Its name.";
        start_s: Option<f64>, "Start", Seconds, "When it was started, the first time.";
        end_s: Option<f64>, "End", Seconds, "When it ended, the last time.";
        slowdown: Option<f64>, "Slow-down", Plain, "From start to end, divided by the time it takes alone on the idle machine; absent for jobs that restart or are ended, and where it was not measured alone.";
    }
}
