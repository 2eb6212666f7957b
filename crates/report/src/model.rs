//! The values of a report, each field with its label, unit and meaning.

use crate::describe::{names, record};

record! {
    /// The report of a run.
    Report {
        format: u32, "Format", Plain, "Version of this format.";
        tool: String, "Version", Plain, "Version of evenkeel that ran the jobs.";
        run: Run, "Run", Plain, "The run as a whole.";
        totals: Totals, "Totals", Plain, "Sums over all jobs.";
        linux: Option<LinuxRun>, "Under linux", Plain, "The newest run of the same command under the policy linux, if its directory is beside the directory of this run; absent in a report of a run under linux.";
        machine: MachineSummary, "Machine", Plain, "The machine at the start of the run.";
        jobs: Vec<JobRow>, "Jobs", Plain, "All jobs of the workload, in start order.";
        moves: Vec<MoveRow>, "Moves", Plain, "Moves of running jobs and of their threads, in order; at most the last 4096. In a replay: the moves that the policy requested, none of which was carried out.";
        rejections: Vec<RejectionRow>, "Rejections", Plain, "Requests that the guard or the host rejected.";
        notes: Vec<NoteRow>, "Notes", Plain, "Notes of the policy and the host: sources of values, missing signals, actions that are not possible.";
        loads: Vec<LoadSeries>, "Load over time", Plain, "Load of each placement domain over time. A new series starts when the domain level or the signal tier changes.";
    }
}

record! {
    /// The run as a whole.
    Run {
        id: String, "Run", Plain, "Id of the run.";
        workload: String, "Workload", Plain, "Name of the workload; of a watch, the selection of processes.";
        policy: String, "Policy", Plain, "Name of the policy.";
        policy_spec: String, "Policy as given", Plain, "The policy with its parameters, as on the command line.";
        host: String, "Host", Plain, "Kind of host: live, watch for processes that ran already, sim for a simulated machine, or replay for a recorded run.";
        replay_of: Option<String>, "Replay of", Plain, "Id of the replayed run. A replay is open-loop: the values of jobs are those of the recorded run; the requests are those of this policy and were not carried out.";
        seed: u64, "Seed", Plain, "Seed of all random choices.";
        started_unix_s: u64, "Started", UnixSeconds, "Wall clock at the start; 0 in a simulated run.";
        wall_ns: u64, "Wall time", Nanos, "Time from the start to the end of the run, or to the last recorded turn.";
        makespan_ns: Option<u64>, "Makespan", Nanos, "From the start of the run to the end of its last job; absent if no job ended, a job failed or the run was stopped.";
        status: Option<RunStatusName>, "Status", Plain, "Status at the end of the run; absent if evenkeel was killed or still runs.";
        stopped_by: Option<StopCauseName>, "Stopped by", Plain, "Why the run stopped before all jobs had ended.";
        result: String, "Result", Plain, "The result of the run and of its jobs, in one sentence.";
        command: Option<String>, "Repeat with", Plain, "The command that repeats the run, quoted for a POSIX shell, without options of the output; absent if it is unknown.";
        error: Option<String>, "Error", Plain, "The error of a failed run.";
        n_turns: u64, "Turns", Count, "Number of turns.";
        signal_tier: Option<String>, "Signal tier", Plain, "Signal tier that the loads had for the largest part of the run: counters, bandwidth, declared or none.";
        signal_tier_text: Option<String>, "Source of loads", Plain, "The signal tier as a sentence, with the intervals that had another tier.";
        task_signal_tiers: Option<String>, "Task signals", Plain, "Signal tier of each value of tasks; several tiers if it changed. Values without a source are omitted.";
        domain_level: Option<String>, "Placed on", Plain, "Level that the placement domains had for the largest part of the run: node, llc or core.";
        own_cpu_ns: Option<u64>, "evenkeel's CPU time", Nanos, "CPU time of evenkeel itself, user and system.";
        own_cpu_share: Option<f64>, "evenkeel's CPU share", Share, "CPU time of evenkeel itself divided by the wall time: a share of one CPU.";
        own_max_resident_bytes: Option<u64>, "evenkeel's memory", Bytes, "Maximum resident set of evenkeel itself.";
        n_journal_parts_missing: u32, "Journal parts missing", Count, "Number of first parts of the journal that the size limit (--journal-part) removed. A report from the journal contains no events of these parts.";
    }
}

names! {
    /// Status at the end of a run.
    RunStatusName {
        Finished "finished" "All jobs ended, and no job failed.";
        Interrupted "interrupted" "A signal, the time limit or a failed job stopped the run.";
        Failed "failed" "A job failed, or evenkeel itself failed (`error` has the reason).";
    }
}

names! {
    /// Cause for which a run stopped before all jobs had ended.
    StopCauseName {
        Signal "signal" "A signal.";
        TimeLimit "time-limit" "The time limit (--time-limit) was reached.";
        FailedJob "failed-job" "A job failed, with --fail-fast.";
        Error "error" "The policy aborted, or a file could not be written.";
        Reload "reload" "SIGHUP: the watch ended, and another watch started with the new configuration.";
    }
}

record! {
    /// Sums over all jobs.
    Totals {
        n_jobs: u64, "Jobs", Count, "Jobs in the workload; each copy counts.";
        n_done: u64, "Done", Count, "Jobs that exited with status 0.";
        n_failed: u64, "Failed", Count, "Jobs that exited with another status, were killed by a signal, or could not be started.";
        n_oom_killed: u64, "OOM-killed", Count, "Failed jobs that the kernel OOM-killed.";
        n_timed_out: u64, "Timed out", Count, "Jobs that were running when the time limit stopped the run, without jobs that the workload ends itself.";
        n_stopped: u64, "Stopped", Count, "Jobs that evenkeel stopped, because the workload declares it or because the run was stopped.";
        n_unfinished: u64, "Unfinished", Count, "Jobs that had not ended at the end of the record.";
        n_starts: u64, "Starts", Count, "Number of program starts; larger than the number of jobs if some jobs restart.";
        n_running_max: u64, "Concurrent", Count, "Maximum number of jobs that ran at the same time.";
        n_moves: u64, "Moves", Count, "Number of moves of running jobs and of their threads. In a replay: of the recorded run.";
        n_would_move: u64, "Would move", Count, "Only in a replay: number of requests to bind a running job or a thread to other CPUs or to release it.";
        n_moves_omitted: u64, "Moves omitted", Count, "Moves, or in a replay requests, that are missing in the list because there were more than 4096.";
        n_rejections: u64, "Rejections", Count, "Number of rejected requests.";
        n_rejections_omitted: u64, "Rejections omitted", Count, "Rejections that are missing in the list because there were more than 1024.";
        n_unmanaged: u64, "Unmanaged", Count, "Jobs that evenkeel stopped placing.";
        user_ns: u64, "User", Nanos, "CPU time of all ended jobs in user mode.";
        system_ns: u64, "System", Nanos, "CPU time of all ended jobs in kernel mode.";
        wait_ns: Option<u64>, "Wait time", Nanos, "Wait time (runnable but not running) of the sampled tasks of jobs that ended; absent if no job has a value.";
        n_migrations: Option<u64>, "Migrations", Count, "Number of CPU migrations of the sampled tasks, by the kernel or by evenkeel; absent if no job has a value.";
    }
}

record! {
    /// The run of the same command under the policy linux. One run under each policy is one observation, without a
    /// confidence interval.
    LinuxRun {
        path: String, "Directory", Plain, "Directory of the run, relative to the directory of this report if both are in the same directory.";
        has_page: bool, "Page", Plain, "Whether the directory contains report.html.";
        started_unix_s: u64, "Started", UnixSeconds, "Wall clock at the start; 0 in a simulated run.";
        result: String, "Result", Plain, "The result of the run and of its jobs, in one sentence.";
        makespan_ns: Option<u64>, "Makespan", Nanos, "Makespan of the run; absent if no job ended, a job failed or the run was stopped.";
    }
}

record! {
    /// The machine at the start of the run.
    MachineSummary {
        name: String, "Machine", Plain, "Name of the machine.";
        n_nodes: u64, "Nodes", Count, "NUMA nodes; 0 when the kernel reports none.";
        n_llcs: u64, "LLC domains", Count, "Groups of CPUs that share a last-level cache; 0 when not known.";
        n_cores: u64, "Cores", Count, "Physical cores online.";
        n_cpus: u64, "CPUs", Count, "CPUs online.";
        n_cpus_allowed: u64, "CPUs allowed", Count, "CPUs that evenkeel was allowed to use.";
        core_kinds: Vec<CoreKindRow>, "Core kinds", Plain, "The core kinds, by decreasing capacity; empty if all cores are of one kind.";
        memory_bytes: Option<u64>, "Memory", Bytes, "Memory of all nodes; absent if the memory of a node is unknown.";
        cpus: Vec<CpuRow>, "CPUs", Plain, "Each online CPU and its position in the topology.";
    }
}

record! {
    /// The cores of one kind.
    CoreKindRow {
        name: String, "Core kind", Plain, "Name of the kind.";
        n_cores: u64, "Cores", Count, "Physical cores of the kind.";
        capacity: u32, "Capacity", Plain, "Relative throughput of a CPU of the kind: 1024 for the fastest kind.";
        cpus: String, "CPUs", CpuList, "Online CPUs of the kind.";
    }
}

record! {
    /// A CPU and its position in the topology.
    CpuRow {
        id: u32, "CPU", Plain, "Number of the CPU in the kernel.";
        node: Option<u32>, "Node", Plain, "NUMA node of the CPU.";
        llc: Option<u32>, "LLC domain", Plain, "LLC domain of the CPU, numbered by evenkeel.";
        core: Option<u32>, "Core", Plain, "Physical core of the CPU, numbered by evenkeel.";
    }
}

record! {
    /// A job. Times, memory and counts of a job that restarts cover all its starts.
    #[derive(Default)]
    JobRow {
        id: u32, "Number", Plain, "Job number: the position in start order, from 0.";
        name: String, "Job", Plain, "Name, unique in the workload.";
        command: String, "Command", Plain, "The command line.";
        class: Option<u32>, "Class", Plain, "Declared memory class, 0 to 15; absent counts as 0.";
        profile: Option<String>, "Profile", Plain, "Profile of the program.";
        profile_file: Option<String>, "Profile file", Plain, "File with the profile: a profile file, or a program or a side file with a signature.";
        threads: u32, "Threads", Count, "Declared number of busy threads; the job gets the same number of CPUs.";
        state: JobStateName, "State", Plain, "State at the end of the record.";
        exit_status: Option<i32>, "Exit status", Plain, "Exit status of the last run; of a job that restarts until all jobs are done, of the first run.";
        signal: Option<i32>, "Signal", Plain, "Number of the signal that ended the run of `exit_status`.";
        error: Option<String>, "Error", Plain, "Error of a job that could not be started.";
        due_ns: u64, "Due", Nanos, "Start time that the workload declares.";
        started_ns: Option<u64>, "Start", Nanos, "Time of the first start.";
        ended_ns: Option<u64>, "End", Nanos, "Time of the last end.";
        wall_ns: Option<u64>, "Wall", Nanos, "From the exec of the program to its exit. `started_ns` and `ended_ns` are times of turns: the wall time of a short job is shorter than the difference of these times.";
        linux_wall_ns: Option<u64>, "Wall under linux", Nanos, "Wall time of the job in the run under the policy linux; absent without such a run, and if the job failed or restarted in it.";
        user_ns: Option<u64>, "User", Nanos, "CPU time in user mode.";
        system_ns: Option<u64>, "System", Nanos, "CPU time in kernel mode.";
        wait_ns: Option<u64>, "Wait time", Nanos, "Wait time (runnable but not running) of the sampled tasks of the job, from their fork on.";
        blocked_ns: Option<u64>, "Blocked", Nanos, "Time in which threads of the job slept because they waited for other threads of the job, summed over the threads; only in simulated runs, for jobs with sections.";
        max_resident_bytes: Option<u64>, "Memory", Bytes, "Largest maximum resident set of the processes of the job.";
        n_migrations: Option<u64>, "Migrations", Count, "Number of CPU migrations of the sampled tasks of the job, by the kernel or by evenkeel.";
        counters: Vec<CounterRow>, "Counters", Plain, "Counter values. Page faults and context switches exist for every job that ended; other events exist if hardware counters ran. For an attached program the values cover the time in which it was managed.";
        ipc: Option<f64>, "Instructions per cycle", Plain, "Instructions per cycle; absent unless both events were counted.";
        mpki: Option<f64>, "LLC misses per 1000 instructions", Plain, "Last-level cache misses per 1000 instructions; absent unless both events were counted.";
        traffic_bytes: Option<u64>, "Traffic", Bytes, "Bytes between the last-level caches and memory, counted by a resctrl monitoring group; absent without such a group.";
        n_moves: u64, "Moves", Count, "Number of moves of the job and of its threads.";
        n_page_migrations: u64, "Page migrations", Count, "Number of completed page migrations.";
        pages_requested_bytes: u64, "Memory to migrate", Bytes, "Bytes that the page migrations found on their source nodes.";
        pages_moved_bytes: u64, "Memory migrated", Bytes, "Bytes of the page migrations that were on the target node afterwards.";
        memory: Vec<NodeMemoryRow>, "Memory by node", Plain, "Memory per node at the last sample, all processes together; empty if it was not sampled.";
        memory_sampled_permille: Option<u32>, "Sampled", Plain, "Inspected share of the memory of the job, in permille. Below 1000 the values are scaled up.";
        n_starts: u64, "Starts", Count, "Number of starts.";
        n_remaining: u64, "Remaining processes", Count, "Processes of the job that were running when its main process ended. They receive SIGTERM, then SIGKILL; a process of another user may survive.";
        slowdown: Option<f64>, "Slowdown", Plain, "Run time together with others divided by run time alone; only in reports of a comparison that measured the job alone.";
        start_cpus: Option<String>, "Started on", CpuList, "CPUs that the job was bound to at its last start.";
        start_requested_cpus: Option<String>, "Requested", CpuList, "CPUs that the policy requested, if not all of them were usable.";
        start_reason: Option<String>, "Start reason", Plain, "Reason of the policy for the CPUs of the last start; absent in a replay.";
        would_start_cpus: Option<String>, "Would start on", CpuList, "Only in a replay: CPUs that the policy requested for the last start.";
        would_start_reason: Option<String>, "Would-start reason", Plain, "Only in a replay: reason of the policy for the requested CPUs.";
        cpus_used: Option<String>, "Ran on", CpuList, "All CPUs that the job or its threads were bound to or sampled on.";
        core_kinds: Vec<BoundKindRow>, "Core kinds", Plain, "Core kinds that the job was bound to, the largest share first; empty if it was never bound, and on a machine with one kind.";
        unmanaged: Option<String>, "Unmanaged", Plain, "Reason why evenkeel stopped placing the job.";
        timeline: Vec<TimelineSegment>, "Timeline", Plain, "CPUs of the job over time, one segment per change; coarser for jobs that change very often.";
    }
}

record! {
    /// Time in which a job was bound to CPUs of one core kind, or of several kinds.
    BoundKindRow {
        kind: Option<String>, "Core kind", Plain, "Name of the kind; absent for CPUs of several kinds, for example if the threads of the job are bound one by one to different kinds.";
        share: f64, "Share", Share, "This time divided by the run time of the job.";
    }
}

record! {
    /// A counter value of a job, summed over its tasks.
    CounterRow {
        event: String, "Event", Plain, "Name of the event, as in journals.";
        value: u64, "Value", Count, "Counter value; scaled to the time enabled if the counter was multiplexed.";
        unit: String, "Unit", Plain, "Unit of the value.";
        running_permille: Option<u32>, "Running", Plain, "Share of the time enabled in which the counter was running, in permille. Only set for multiplexed counters, whose value is an estimate.";
    }
}

record! {
    /// Memory of a job on one node. The four values do not overlap.
    NodeMemoryRow {
        node: u32, "Node", Plain, "The node.";
        small_bytes: u64, "Small pages", Bytes, "Private memory in pages of the base size.";
        huge_bytes: u64, "Huge pages", Bytes, "Private memory in mappings with huge pages.";
        file_bytes: u64, "Files", Bytes, "File-backed pages.";
        shared_bytes: u64, "Shared", Bytes, "Memory shared with other processes.";
    }
}

names! {
    /// State of a job at the end of the record.
    #[derive(Default)]
    JobStateName {
        #[default]
        Waiting "waiting" "Not yet due.";
        Running "running" "Running.";
        Done "done" "Exited with status 0.";
        Failed "failed" "Exited with another status or killed by a signal.";
        OomKilled "oom-killed" "Killed by the kernel because memory was short: the job ended by SIGKILL that evenkeel did not send, or exited with status 137, and the kernel counted an OOM kill.";
        TimedOut "timed-out" "Stopped by the time limit of the run.";
        Stopped "stopped" "Stopped by evenkeel, because the workload declares it or because the run was stopped.";
        NotStarted "not-started" "Could not be started.";
        Detached "detached" "Started by another program and no longer managed.";
    }
}

record! {
    /// An interval in which the CPUs of a job did not change.
    TimelineSegment {
        from_ns: u64, "From", Nanos, "Start of the interval.";
        to_ns: u64, "To", Nanos, "End of the interval.";
        cpus: Option<String>, "CPUs", CpuList, "CPUs that the job was sampled on, or bound to if it was not sampled; absent if not known.";
        bound: bool, "Bound", Plain, "Whether evenkeel had bound the job to exactly these CPUs.";
        bound_cpus: Option<String>, "Bound to", CpuList, "CPUs that evenkeel had bound the job to; of a job whose threads are bound one by one, the CPUs of all these threads. Absent if it was not bound.";
    }
}

record! {
    /// A placement change of a running job or of one of its threads, or in a replay a request for one. Equal requests of consecutive
    /// turns are one entry.
    MoveRow {
        at_ns: u64, "Time", Nanos, "Time of the first occurrence.";
        last_at_ns: u64, "Last", Nanos, "Time of the last occurrence.";
        n: u64, "Times", Count, "Number of occurrences: 1 except in a replay.";
        job: u32, "Number", Plain, "Number of the job.";
        name: String, "Job", Plain, "Name of the job.";
        tid: Option<u32>, "Thread", Plain, "TID of the moved thread; absent if the whole job moved.";
        kind: MoveKind, "Move", Plain, "Kind of the change.";
        from: Option<String>, "From", Plain, "CPUs before the change, named as a domain if they form a domain.";
        to: Option<String>, "To", Plain, "CPUs after the change, named as a domain if they form a domain.";
        from_cpus: Option<String>, "From CPUs", CpuList, "CPUs before the change.";
        to_cpus: Option<String>, "To CPUs", CpuList, "CPUs after the change.";
        requested_cpus: Option<String>, "Requested", CpuList, "CPUs that the policy requested, if not all of them were usable.";
        n_tasks: u32, "Tasks", Count, "Number of moved tasks; 0 for a request that was not carried out.";
        code: Option<String>, "Code", Plain, "Code of the reason, as in the journal.";
        reason: Option<String>, "Reason", Plain, "The reason with its values.";
    }
}

names! {
    /// Kind of a placement change.
    MoveKind {
        Move "move" "The job or the thread was bound to other CPUs.";
        Release "release" "The affinity from before evenkeel's placement was restored.";
        WouldMove "would-move" "Only in a replay: the policy requested other CPUs.";
        WouldRelease "would-release" "Only in a replay: the policy requested a release.";
    }
}

record! {
    /// A rejected request. Equal consecutive rejections are one entry.
    RejectionRow {
        at_ns: u64, "Time", Nanos, "Time of the first rejection.";
        last_at_ns: u64, "Last", Nanos, "Time of the last rejection.";
        n: u64, "Times", Count, "Number of rejections.";
        job: Option<u32>, "Number", Plain, "Number of the job; absent for a task.";
        name: String, "Target", Plain, "The job or task of the request.";
        action: String, "Action", Plain, "The requested action.";
        by: RejectedBy, "By", Plain, "Component that rejected the request.";
        cause: String, "Cause", Plain, "Cause of the rejection, as in the journal.";
        detail: String, "Detail", Plain, "The cause as a sentence.";
    }
}

names! {
    /// The component that rejected a request.
    RejectedBy {
        Guard "guard" "evenkeel's guard, before any action.";
        Kernel "kernel" "The kernel, or the host on its behalf.";
    }
}

record! {
    /// A note of the policy, the host or the report.
    NoteRow {
        at_ns: u64, "Time", Nanos, "Time of the note.";
        kind: NoteKind, "Kind", Plain, "Kind of the note.";
        code: Option<String>, "Code", Plain, "Code of the reason, as in the journal.";
        text: String, "Note", Plain, "The note as a sentence.";
    }
}

names! {
    /// Kind of a note.
    NoteKind {
        Note "note" "A note of the policy or of the host.";
        Degraded "degraded" "A function of the host failed.";
        Record "record" "A note about this record itself.";
        Aborted "aborted" "The policy aborted the run.";
    }
}

record! {
    /// Load of each domain while the domain level and the signal tier stayed the same.
    LoadSeries {
        from_ns: u64, "From", Nanos, "Start of the series.";
        to_ns: u64, "To", Nanos, "End of the series.";
        level: String, "Placed on", Plain, "Level of the domains: node, llc or core.";
        tier: String, "Signal tier", Plain, "Data source of the loads.";
        unit: String, "Unit", Plain, "Event that the loads count, for example cache misses. Loads with different units are not comparable.";
        domains: Vec<DomainRow>, "Domains", Plain, "The domains, in the order of the values in the points.";
        cpu_unattributed_ns: u64, "CPU time without domain", Nanos, "CPU time of jobs in the time of the series that is not in `cpus_busy`, because its CPU or its interval is unknown: of children that started and exited between two samples, and of tasks that ran in several domains in one interval.";
        points: Vec<LoadPoint>, "Points", Plain, "The values over time. Adjacent intervals are merged when there are very many.";
    }
}

record! {
    /// A placement domain.
    DomainRow {
        label: String, "Domain", Plain, "Name of the domain.";
        number: u32, "Number", Plain, "Number of the node, LLC domain or core.";
        cpus: String, "CPUs", CpuList, "Usable CPUs of the domain at the start of the series.";
    }
}

record! {
    /// The values of one interval, one per domain.
    LoadPoint {
        from_ns: u64, "From", Nanos, "Start of the interval.";
        to_ns: u64, "To", Nanos, "End of the interval.";
        ops_per_s: Vec<Option<f64>>, "Memory load", OpsPerSecond, "Events per second of each domain, in the unit of the series; absent where no counter could be read.";
        cpus_busy: Vec<Option<f64>>, "CPUs busy", Plain, "CPU time of jobs in each domain divided by the interval: the number of busy CPUs, at most the number of CPUs of the domain.";
    }
}

impl Report {
    /// Returns the result as one JSON object, documented in `docs/report-fields.md` and `docs/report.schema.json`,
    /// without a line feed at the end.
    ///
    /// # Errors
    /// No error is known: numbers, strings and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        base::json::to_indented(self)
    }

    /// Returns whether no job failed and the run was neither stopped nor aborted.
    pub fn all_well(&self) -> bool {
        let finished = matches!(self.run.status, None | Some(RunStatusName::Finished));
        self.totals.n_failed == 0 && finished
    }

    /// Returns whether the CPU time of any job is known: the kernel reports it for jobs that evenkeel started and that
    /// ended.
    pub(crate) fn has_cpu_times(&self) -> bool {
        self.jobs.is_empty() || self.jobs.iter().any(|job| job.user_ns.is_some())
    }
}

impl JobStateName {
    /// Returns whether a job in this state failed.
    pub fn is_failure(self) -> bool {
        matches!(self, JobStateName::Failed | JobStateName::OomKilled | JobStateName::NotStarted)
    }
}

impl Totals {
    /// Returns the number of attached jobs, which another program started and which were managed until they detached.
    pub(crate) fn n_attached(&self) -> u64 {
        let others =
            [self.n_done, self.n_failed, self.n_timed_out, self.n_stopped, self.n_unfinished];
        self.n_jobs.saturating_sub(others.into_iter().fold(0, u64::saturating_add))
    }

    /// Returns whether the run, a watch, started no job.
    pub(crate) fn are_all_attached(&self) -> bool {
        self.n_jobs != 0 && self.n_attached() == self.n_jobs
    }
}
