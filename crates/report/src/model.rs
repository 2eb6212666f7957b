//! The values of a report, each field with its label, unit and meaning.

use crate::describe::{record, words};

record! {
    /// The whole report.
    Report {
        format: u32, "Format", Plain, "The version of this format.";
        tool: String, "Made by", Plain, "The version of evenkeel that ran the jobs.";
        run: Run, "Run", Plain, "The run as a whole.";
        totals: Totals, "Totals", Plain, "Sums over all jobs.";
        machine: MachineSummary, "Machine", Plain, "The machine as it was at the start.";
        jobs: Vec<JobRow>, "Jobs", Plain, "Every job of the workload, in start order.";
        moves: Vec<MoveRow>, "Moves", Plain, "What evenkeel did to jobs that were running already, in order; the last ones if there were very many. In a replay: what it would have done, none of which was carried out.";
        refusals: Vec<RefusalRow>, "Refusals", Plain, "What was wanted and not done, by the guard or by the kernel.";
        notes: Vec<NoteRow>, "Notes", Plain, "What people should know: what figures stand on, what was missing, what could not be done.";
        loads: Vec<Loads>, "Load over time", Plain, "How busy each placement domain was over time: a series for each stretch of time in which the level of the domains and the signal tier stayed the same.";
    }
}

record! {
    /// The run as a whole.
    Run {
        id: String, "Run", Plain, "What the run is called.";
        workload: String, "Workload", Plain, "The name of the workload; of a watch, who was chosen.";
        policy: String, "Policy", Plain, "The policy that decided.";
        policy_spec: String, "Policy as given", Plain, "The policy with its parameters as they were asked for.";
        host: String, "Host", Plain, "What kind of host the jobs ran on: live, watch where they ran already, sim for a simulated machine, or replay for a recording that was decided anew.";
        replay_of: Option<String>, "Replay of", Plain, "The run whose recording this is a replay of: open loop. What is told of jobs is what they did in that run; the decisions are those of the policy here, and were never carried out.";
        seed: u64, "Seed", Plain, "The seed of everything random.";
        started_unix_s: u64, "Started", UnixSeconds, "The wall clock at the start; 0 where the run is simulated.";
        wall_ns: u64, "Wall time", Nanos, "From the start to the end, or to the last turn that is known.";
        end: Option<EndWord>, "Ended", Plain, "How the run ended; absent if evenkeel was killed or still runs.";
        error: Option<String>, "Error", Plain, "What went wrong, if it failed.";
        n_turns: u64, "Turns", Count, "How many times something was looked at and decided.";
        signal_tier: Option<String>, "Signal tier", Plain, "What the loads stand on, for most of the time: counters, bandwidth, declared or none.";
        signal_meaning: Option<String>, "Which means", Plain, "The signal tier in a sentence, and when it was another.";
        task_signals: Option<String>, "Figures of tasks", Plain, "What each figure of tasks stood on, each with its tier; several tiers where it changed. Figures that are left out stood on nothing.";
        domain_level: Option<String>, "Placed on", Plain, "What a placement domain was, for most of the time: node, llc or core.";
        own_cpu_ns: Option<u64>, "evenkeel's CPU time", Nanos, "CPU time that evenkeel itself used, user and system.";
        own_cpu_share: Option<f64>, "evenkeel's CPU share", Share, "CPU time that evenkeel itself used, divided by the wall time: a share of one CPU.";
        own_max_resident_bytes: Option<u64>, "evenkeel's memory", Bytes, "The largest resident memory of evenkeel itself.";
        n_journal_parts_missing: u32, "Journal parts missing", Count, "How many of the first parts of the journal were removed by its size limit: what happened in them is missing here.";
    }
}

words! {
    /// How a run ended.
    EndWord {
        Finished "finished" "All jobs are over.";
        Interrupted "interrupted" "A signal, the time limit or a failed job stopped it.";
        Failed "failed" "evenkeel itself could not go on.";
    }
}

record! {
    /// Sums over all jobs.
    Totals {
        n_jobs: u64, "Jobs", Count, "Jobs in the workload, copies counted one by one.";
        n_done: u64, "Done", Count, "Jobs that ended by themselves with status 0.";
        n_failed: u64, "Failed", Count, "Jobs that ended by themselves in any other way, or could not be started.";
        n_stopped: u64, "Stopped", Count, "Jobs that evenkeel ended, as the workload asked or because the run was stopped.";
        n_unfinished: u64, "Unfinished", Count, "Jobs that had not ended when the record ends.";
        n_starts: u64, "Starts", Count, "How often a program was started; more than jobs if some restart.";
        n_running_max: u64, "At once", Count, "The largest number of jobs that ran at the same time.";
        n_moves: u64, "Moves", Count, "How often evenkeel placed a running job anew; in a replay, in the recorded run.";
        n_wishes: u64, "Wishes", Count, "Only in a replay: how often the policy would have placed a running job anew, or released it.";
        n_moves_left_out: u64, "Moves left out", Count, "Moves that happened, or in a replay would have, and are not in the list, because there were very many.";
        n_refusals: u64, "Refusals", Count, "How often something was wanted and not done.";
        n_refusals_left_out: u64, "Refusals left out", Count, "Refusals that happened and are not in the list, because there were very many.";
        n_hands_off: u64, "Left alone", Count, "Jobs that were taken out of evenkeel's hands.";
        user_ns: u64, "User", Nanos, "CPU time of all jobs that ended, in their own code.";
        system_ns: u64, "System", Nanos, "CPU time of all jobs that ended, in the kernel.";
        wait_ns: Option<u64>, "Waited", Nanos, "Time that tasks of jobs that ended were ready to run and did not, of the tasks that were seen; absent if no job told it.";
        wait_is_estimate: bool, "Waited, estimated", Plain, "Whether that is an estimate for one job or more: some of its tasks came and went unseen.";
        n_migrations: Option<u64>, "Migrations", Count, "How often the kernel or evenkeel put a task on another CPU, of the tasks that were seen; absent if no job told it.";
        n_migrations_is_estimate: bool, "Migrations, estimated", Plain, "Whether that is an estimate for one job or more: some of its tasks came and went unseen.";
    }
}

record! {
    /// The machine as it was at the start.
    MachineSummary {
        name: String, "Machine", Plain, "What it is called.";
        n_nodes: u64, "Nodes", Count, "NUMA nodes; 0 when the kernel tells of none.";
        n_llcs: u64, "LLC domains", Count, "Groups of CPUs that share a last-level cache; 0 when not told.";
        n_cores: u64, "Cores", Count, "Physical cores online.";
        n_cpus: u64, "CPUs", Count, "CPUs online.";
        n_cpus_allowed: u64, "CPUs allowed", Count, "CPUs that evenkeel was allowed to use.";
        memory_bytes: Option<u64>, "Memory", Bytes, "Memory of all nodes; absent if some node does not tell.";
        cpus: Vec<CpuRow>, "CPUs", Plain, "Each CPU online, and what it belongs to.";
    }
}

record! {
    /// A CPU and what it belongs to.
    CpuRow {
        id: u32, "CPU", Plain, "The kernel's number.";
        node: Option<u32>, "Node", Plain, "Its NUMA node.";
        llc: Option<u32>, "LLC domain", Plain, "Its last-level cache, by evenkeel's number.";
        core: Option<u32>, "Core", Plain, "Its physical core, by evenkeel's number.";
    }
}

record! {
    /// A job. Times, memory and counts of a job that restarts are those of all its starts together.
    #[derive(Default)]
    JobRow {
        id: u32, "Number", Plain, "Its number: the place in the start order, from 0.";
        name: String, "Job", Plain, "Its name, unique in the workload.";
        command: String, "Command", Plain, "What it runs, in one line.";
        class: Option<u32>, "Class", Plain, "Its declared memory class, 0 to 15; absent counts as 0.";
        profile: Option<String>, "Profile", Plain, "The profile of its program.";
        threads: u32, "Threads", Count, "How many threads it keeps busy: it gets as many CPUs.";
        state: StateWord, "State", Plain, "What became of it.";
        exit_status: Option<i32>, "Exit status", Plain, "The status it exited with, the last time.";
        signal: Option<i32>, "Signal", Plain, "The number of the signal that ended it, the last time.";
        error: Option<String>, "Error", Plain, "Why it could not be started.";
        due_ns: u64, "Due", Nanos, "When the workload wanted it started.";
        started_ns: Option<u64>, "Start", Nanos, "When it was started, the first time.";
        ended_ns: Option<u64>, "End", Nanos, "When it ended, the last time.";
        wall_ns: Option<u64>, "Wall", Nanos, "From start to end.";
        user_ns: Option<u64>, "User", Nanos, "CPU time in its own code.";
        system_ns: Option<u64>, "System", Nanos, "CPU time in the kernel.";
        wait_ns: Option<u64>, "Waited", Nanos, "How long its tasks were ready to run and did not, of the tasks that were seen.";
        wait_is_estimate: bool, "Waited, estimated", Plain, "Whether that is an estimate: some of its tasks came and went unseen.";
        max_resident_bytes: Option<u64>, "Memory", Bytes, "The largest resident memory of one of its processes.";
        n_migrations: Option<u64>, "Migrations", Count, "How often the kernel or evenkeel put one of its tasks on another CPU, of the tasks that were seen.";
        n_migrations_is_estimate: bool, "Migrations, estimated", Plain, "Whether that is an estimate: some of its tasks came and went unseen.";
        counted: Vec<CountedRow>, "Counted", Plain, "What was counted of it. Page faults and context switches are known of every job that ended by itself or was ended; the rest where counters ran. Of a program that was watched, what was counted while it was.";
        instructions_per_cycle: Option<f64>, "Instructions per cycle", Plain, "Instructions divided by cycles, where both were counted.";
        misses_per_kilo_instruction: Option<f64>, "Misses per 1000 instructions", Plain, "Misses of the last-level cache for each thousand instructions, where both were counted.";
        traffic_bytes: Option<u64>, "Traffic", Bytes, "What its tasks moved between last-level caches and memory, where a monitoring group counted it.";
        n_moves: u64, "Moves", Count, "How often evenkeel placed it anew while it ran.";
        n_page_moves: u64, "Memory moves", Count, "How often a move of its memory to another node ended.";
        pages_requested_bytes: u64, "Memory to move", Bytes, "What was found to be moved in these moves.";
        pages_moved_bytes: u64, "Memory moved", Bytes, "What of that was found on the target afterwards.";
        memory: Vec<NodeMemoryRow>, "Memory by node", Plain, "Where its memory lay when that was looked at last, all its processes together; empty if it was not.";
        memory_looked_permille: Option<u32>, "Looked at", Plain, "How much of that memory was looked at, in thousandths: below 1000 the figures are scaled up from a sample.";
        n_starts: u64, "Starts", Count, "How often it was started.";
        n_left_behind: u64, "Left behind", Count, "Processes that it left behind and evenkeel ended.";
        slowdown: Option<f64>, "Slow-down", Plain, "Time taken in company divided by time taken alone; absent until the program was measured alone.";
        start_cpus: Option<String>, "Started on", CpuList, "The CPUs that it was bound to when it was started, the last time.";
        start_asked_cpus: Option<String>, "Asked for", CpuList, "The CPUs that the policy asked for, where not all of them could be used.";
        start_reason: Option<String>, "Why there", Plain, "Why it was started there; absent in a replay.";
        would_start_cpus: Option<String>, "Would start on", CpuList, "Only in a replay: the CPUs that the policy would have bound it to at its start, the last time.";
        would_start_reason: Option<String>, "Why it would", Plain, "Only in a replay: why there.";
        ran_on: Option<String>, "Ran on", CpuList, "All CPUs that it was bound to, or was seen on where it was bound to several or none.";
        hands_off: Option<String>, "Left alone", Plain, "Why evenkeel left it alone from some time on.";
        timeline: Vec<Stretch>, "Timeline", Plain, "Where it was, stretch by stretch; only changes, and coarser for jobs that change very often.";
    }
}

record! {
    /// Something that was counted of a job, all its tasks together.
    CountedRow {
        what: String, "What", Plain, "The event, by its name in journals.";
        n: u64, "Count", Count, "How much was counted; of the whole time, if the counter ran only in a part of it.";
        unit: String, "Unit", Plain, "What was counted.";
        ran_permille: Option<u32>, "Ran", Plain, "In which part of the time the counter ran, in thousandths, where that is not all of it: the count is then an estimate.";
    }
}

record! {
    /// What of a job's memory lay on one node. The four do not overlap.
    NodeMemoryRow {
        node: u32, "Node", Plain, "The node.";
        small_bytes: u64, "Small pages", Bytes, "Its own memory in pages of the ordinary size.";
        huge_bytes: u64, "Huge pages", Bytes, "Its own memory in mappings with huge pages.";
        file_bytes: u64, "Files", Bytes, "Pages of files.";
        shared_bytes: u64, "Shared", Bytes, "Memory shared with other processes.";
    }
}

words! {
    /// What became of a job.
    #[derive(Default)]
    StateWord {
        #[default]
        Waiting "waiting" "Its time had not come when the record ends.";
        Running "running" "It was running when the record ends.";
        Done "done" "It ended by itself with status 0.";
        Failed "failed" "It ended by itself in any other way.";
        Stopped "stopped" "evenkeel ended it, as the workload asked or because the run was stopped.";
        NotStarted "not started" "It could not be started.";
        Left "left" "Somebody else had started it, and it was watched no longer when the record ends.";
    }
}

record! {
    /// A stretch of time in which a job stayed where it was.
    Stretch {
        from_ns: u64, "From", Nanos, "When it began.";
        to_ns: u64, "To", Nanos, "When it ended.";
        cpus: Option<String>, "CPUs", CpuList, "Where it was: the CPU it was bound to or seen on; absent if not known.";
        bound: bool, "Bound", Plain, "Whether evenkeel had bound it to exactly these CPUs.";
    }
}

record! {
    /// Something that was done to a running job, or in a replay would have been. The same wish turn after turn
    /// is one entry.
    MoveRow {
        at_ns: u64, "When", Nanos, "When, the first time.";
        last_at_ns: u64, "Last", Nanos, "When, the last time.";
        n: u64, "Times", Count, "How often: 1 but for the wishes of a replay.";
        job: u32, "Number", Plain, "The number of the job.";
        name: String, "Job", Plain, "The name of the job.";
        what: MoveWord, "Move", Plain, "What was done.";
        from: Option<String>, "From", Plain, "Where it was bound before, as a domain where it was one.";
        to: Option<String>, "To", Plain, "Where it was bound then, as a domain where it was one.";
        from_cpus: Option<String>, "From CPUs", CpuList, "The CPUs that it was bound to before.";
        to_cpus: Option<String>, "To CPUs", CpuList, "The CPUs that it was bound to then.";
        asked_cpus: Option<String>, "Asked for", CpuList, "The CPUs that the policy asked for, where not all of them could be used.";
        n_tasks: u32, "Tasks", Count, "How many tasks were moved; 0 for a wish.";
        code: Option<String>, "Code", Plain, "The code of the reason, as in the journal.";
        reason: Option<String>, "Why", Plain, "The reason with the figures that it rested on.";
    }
}

words! {
    /// What was done to a running job.
    MoveWord {
        Move "move" "It was bound to other CPUs.";
        Release "release" "It got back what it had before evenkeel placed it.";
        WouldMove "would-move" "Only in a replay: the policy would have bound it to other CPUs.";
        WouldRelease "would-release" "Only in a replay: the policy would have given it back what it had.";
    }
}

record! {
    /// Something that was wanted and not done. The same again at once is one entry.
    RefusalRow {
        at_ns: u64, "When", Nanos, "When, the first time.";
        last_at_ns: u64, "Last", Nanos, "When, the last time.";
        n: u64, "Times", Count, "How often.";
        job: Option<u32>, "Number", Plain, "The number of the job that it was about.";
        name: String, "Whom", Plain, "The job or task that it was about.";
        what: String, "What", Plain, "What was wanted.";
        by: RefusedBy, "By", Plain, "Who refused.";
        why: String, "Sort", Plain, "What sort of refusal, as in the journal.";
        detail: String, "Why", Plain, "In words.";
    }
}

words! {
    /// Who refused.
    RefusedBy {
        Guard "guard" "evenkeel's own guard, before anything was tried.";
        Kernel "kernel" "The kernel, or the host on its behalf.";
    }
}

record! {
    /// Something that people should know.
    NoteRow {
        at_ns: u64, "When", Nanos, "When it was said.";
        kind: NoteWord, "Kind", Plain, "What kind of note.";
        code: Option<String>, "Code", Plain, "The code of the reason, as in the journal.";
        text: String, "Note", Plain, "In words.";
    }
}

words! {
    /// What kind of note.
    NoteWord {
        Note "note" "The policy said it.";
        Degraded "degraded" "The host can do less than it should.";
        Record "record" "It is about this record itself.";
        GaveUp "gave up" "The policy could not go on.";
    }
}

record! {
    /// How busy each domain was while domains were of one level and loads stood on one tier.
    Loads {
        from_ns: u64, "From", Nanos, "When the series begins.";
        to_ns: u64, "To", Nanos, "When it ends.";
        level: String, "Placed on", Plain, "What a domain is: node, llc or core.";
        tier: String, "Signal tier", Plain, "What the loads stand on.";
        unit: String, "Unit", Plain, "What one operation of the memory load is. Figures of another unit cannot be compared with these.";
        domains: Vec<DomainRow>, "Domains", Plain, "The domains, in the order of the figures in the points.";
        points: Vec<LoadPoint>, "Points", Plain, "The figures over time. Neighbouring intervals are put together when there are very many.";
    }
}

record! {
    /// A placement domain.
    DomainRow {
        label: String, "Domain", Plain, "What people call it.";
        number: u32, "Number", Plain, "The number of the node, LLC domain or core.";
        cpus: String, "CPUs", CpuList, "Its CPUs that could be used when the series began.";
    }
}

record! {
    /// The figures of one stretch of time, one per domain.
    LoadPoint {
        from_ns: u64, "From", Nanos, "When it began.";
        to_ns: u64, "To", Nanos, "When it ended.";
        ops_per_s: Vec<Option<f64>>, "Memory load", OpsPerSecond, "Memory operations per second of each domain, in the unit of the series; absent where nothing could be read.";
        cpus_busy: Vec<Option<f64>>, "CPUs busy", Plain, "CPU time that jobs used in each domain, divided by the time: how many CPUs they kept busy.";
    }
}
