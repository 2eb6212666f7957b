//! The state file of a running `evenkeel watch` or `evenkeel run`, and `evenkeel status`, which prints it.
//!
//! The writer replaces the file every few seconds. The file contains the managed processes with their CPUs, the
//! excluded processes with reasons, the signal tier and the measured benefit. The file cannot show whether its writer
//! still runs. The reader determines this from the PID and the start time.

use crate::describe::{names, record};
use crate::format::{ABSENT, bytes, count, duration};
use crate::table::Align::{Left, Right};
use crate::table::{ReportTable, fold};

/// Version of the state file. The version increases if a field is renamed, removed or changes its meaning.
pub const STATE_FORMAT: u32 = 4;

record! {
    /// An entry of `evenkeel status --json`: the state of one evenkeel process.
    #[derive(serde::Deserialize)]
    Status {
        writer: WriterState, "Writer", Plain, "Whether the evenkeel process that wrote the state runs.";
        has_changes: bool, "Changed settings", Plain, "Whether the writer was killed and left changed settings, which evenkeel restore restores.";
        path: String, "File", Plain, "Path of the state file.";
        age_s: u64, "Age", Seconds, "Seconds since the state was written.";
        state: InstanceState, "State", Plain, "Content of the state file.";
    }
}

record! {
    /// Content of a state file.
    #[derive(serde::Deserialize)]
    InstanceState {
        evenkeel_state: u32, "Format", Plain, "Version of this format.";
        tool: String, "evenkeel", Plain, "Version of evenkeel that wrote the file.";
        kind: CommandKind, "Command", Plain, "The command.";
        run: String, "Run", Plain, "Id of the run.";
        pid: u32, "PID", Plain, "PID of the writer.";
        start_time_ticks: u64, "Start time", Plain, "Start time of the writer in clock ticks since boot.";
        boot_id: String, "Boot", Plain, "Boot id of the kernel: PIDs and start times are valid for this boot.";
        started_unix_s: u64, "Started", UnixSeconds, "Wall clock at the start of the run.";
        written_unix_s: u64, "Written", UnixSeconds, "Wall clock at the last write.";
        at_ns: u64, "At", Nanos, "Time of the last turn.";
        acts: bool, "Acts", Plain, "Whether actions are carried out; otherwise they are only printed.";
        selection: String, "Selection", Plain, "Selection of processes, as on the command line; of a run, the workload.";
        policy: String, "Policy", Plain, "The policy with its parameters.";
        signal_tier: String, "Signal tier", Plain, "Data source of the loads: counters, bandwidth, declared or none.";
        domain_level: String, "Placed on", Plain, "Level of the placement domains: node, llc or core.";
        discovery: String, "Discovery", Plain, "Discovery of new processes: events (the proc connector of the kernel), cgroups (cgroup.procs of the selected cgroups) or pids (PIDs assigned since the last turn). Empty for a run.";
        target_cpus: Option<String>, "Target CPUs", CpuList, "CPUs that processes are placed on: in the affinity of evenkeel itself and not isolated; absent for a run.";
        possible_cpus: Option<String>, "Possible CPUs", CpuList, "CPUs that could be targets without the limit of evenkeel's own affinity: online and not isolated; absent for a run.";
        n_known: u64, "Known", Count, "Known processes, selected or not; of a run, its jobs.";
        n_idle: u64, "Idle", Count, "Selected processes that are idle.";
        n_inherited: u64, "Inherited", Count, "Child processes that inherited an assigned mask and are not jobs.";
        n_placements: u64, "Placements", Count, "Number of times that a process was bound to CPUs so far, the first time and starts included.";
        pages_moved_bytes: u64, "Memory migrated", Bytes, "Memory migrated to another node so far. The migration is not reverted.";
        benefit: MeasuredBenefit, "Benefit", Plain, "Whether the moves of the policy improve performance, as measured by trials.";
        benefit_text: Option<String>, "Measurement", Plain, "The last verdict of a trial as a sentence.";
        managed: Vec<ManagedRow>, "Managed", Plain, "The managed processes, by job number.";
        excluded: Vec<ExcludedRow>, "Excluded", Plain, "Selected processes that are not managed, by reason.";
        journal: Option<String>, "Journal", Plain, "Path of the journal of this run.";
    }
}

record! {
    /// A managed process.
    #[derive(serde::Deserialize)]
    ManagedRow {
        name: String, "Process", Plain, "Name of the program with the PID.";
        pid: u32, "PID", Plain, "The PID.";
        start_time_ticks: u64, "Start time", Plain, "Start time in clock ticks since boot.";
        since_ns: u64, "Since", Nanos, "Time from which the process is managed.";
        cpus_before: String, "Before", CpuList, "Affinity of the process before the placement by evenkeel.";
        cpus_placed: Option<String>, "Placed", CpuList, "CPUs that the process was placed on; absent if its affinity was not changed.";
        reason: Option<String>, "Reason", Plain, "Reason of the placement, or of the request without --act; absent if the process has neither.";
        is_unmanaged: bool, "Unmanaged", Plain, "Whether evenkeel stopped placing the process: the program itself or another process changed its affinity, or the kernel does not permit a change.";
    }
}

record! {
    /// Selected processes that are not managed, for the same reason.
    #[derive(serde::Deserialize)]
    ExcludedRow {
        cause: String, "Cause", Plain, "The reason as a word.";
        text: String, "Reason", Plain, "The reason as a sentence.";
        n: u64, "Processes", Count, "Number of processes.";
        examples: Vec<String>, "Examples", Plain, "Examples of these processes, by name and PID.";
    }
}

names! {
    /// The command that wrote a state.
    #[derive(serde::Deserialize)]
    CommandKind {
        Watch "watch" "The command manages processes that were running already.";
        Run "run" "The command runs a workload.";
    }
}

names! {
    /// Whether the writer of a state runs.
    #[derive(serde::Deserialize)]
    WriterState {
        Running "running" "It runs.";
        Exited "exited" "The writer was killed.";
    }
}

names! {
    /// Whether the moves of a watch improve performance.
    #[derive(serde::Deserialize)]
    MeasuredBenefit {
        Unknown "not-measured" "No trial has ended.";
        Improved "improved" "The last trial improved performance.";
        Reverted "not-improved" "The last trial reduced performance, or several did not improve it: all changes were reverted, and the back-off has not ended.";
        Retrying "retrying" "Moves are applied again after a back-off.";
        DryRun "dry-run" "No action is carried out.";
    }
}

impl Status {
    /// Returns the state as text of at most `width` columns.
    pub fn to_text(&self, width: usize) -> String {
        let state = &self.state;
        let writer = format!("process {}, {}", state.pid, age(self.age_s));
        let writer = match self.writer {
            WriterState::Running => writer,
            WriterState::Exited if self.has_changes => {
                format!("{writer}: it was killed and left its changes; run evenkeel restore")
            }
            WriterState::Exited => format!("{writer}: it was killed and left no changes"),
        };
        let mut lines = vec![(format!("evenkeel {}", state.kind.name()), writer)];
        let more = match state.kind {
            CommandKind::Watch => state.watch_lines(),
            CommandKind::Run => state.run_lines(),
        };
        lines.extend(more.into_iter().map(|(label, text)| (label.to_owned(), text)));
        lines.push(("placements".to_owned(), state.placements()));
        let line =
            |(label, text): &(String, String)| fold(text, width, &format!("{label:<16}"), 16);
        let lines: String = lines.iter().map(line).collect();
        lines + &state.managed_table(width) + &state.excluded_table(width)
    }
}

impl InstanceState {
    fn policy(&self) -> String {
        match self.domain_level.is_empty() {
            true => self.policy.clone(),
            false => format!("{} on {} domains", self.policy, self.domain_level),
        }
    }

    fn watch_lines(&self) -> Vec<(&'static str, String)> {
        let acts = if self.acts { "yes" } else { "no: actions are only printed (--act)" };
        let benefit = self.benefit.name().replace('-', " ");
        let benefit = match &self.benefit_text {
            Some(text) => format!("{benefit}: {text}"),
            None => benefit,
        };
        let known = format!(
            "{} {}: {} managed, {} selected and idle, {} with an inherited affinity",
            count(self.n_known),
            if self.n_known == 1 { "process" } else { "processes" },
            self.managed.len(),
            count(self.n_idle),
            count(self.n_inherited),
        );
        let mut lines = vec![
            ("manages", self.selection.clone()),
            ("acts", acts.to_owned()),
            ("policy", self.policy()),
            ("signal tier", self.signal_tier.clone()),
        ];
        lines.extend(self.targets().map(|text| ("places on", text)));
        lines.push(("benefit", benefit));
        lines.push(("discovery", discovery(&self.discovery).to_owned()));
        lines.push(("known", known));
        lines
    }

    /// Returns the target CPUs, if they are known.
    fn targets(&self) -> Option<String> {
        let targets = match self.target_cpus.as_deref()? {
            "" => "no CPU",
            targets => targets,
        };
        match self.possible_cpus.as_deref() {
            Some(possible) if possible != targets => Some(format!(
                "{targets} of the CPUs {possible}: the affinity of evenkeel itself excludes the others"
            )),
            _ => Some(format!("CPUs {targets}")),
        }
    }

    fn run_lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("workload", self.selection.clone()),
            ("policy", self.policy()),
            ("signal tier", self.signal_tier.clone()),
            ("jobs", format!("{}, {} running", count(self.n_known), self.managed.len())),
        ]
    }

    fn placements(&self) -> String {
        let placements = count(self.n_placements);
        match self.pages_moved_bytes {
            0 => placements,
            moved => format!("{placements}; {} of memory migrated to other nodes", bytes(moved)),
        }
    }

    fn managed_table(&self, width: usize) -> String {
        if self.managed.is_empty() {
            return String::new();
        }
        let heads = [
            ("process", Left),
            ("since", Right),
            ("before", Left),
            ("placed", Left),
            ("reason", Left),
        ];
        let mut table = ReportTable::new(heads).with_folded_column();
        for row in &self.managed {
            let placed = match (&row.cpus_placed, row.is_unmanaged) {
                (_, true) => "unmanaged",
                (Some(cpus), false) => cpus,
                (None, false) => ABSENT,
            };
            let since = duration(self.at_ns.saturating_sub(row.since_ns));
            let reason = row.reason.as_deref().unwrap_or_default();
            table.row([&row.name, &since, &row.cpus_before, placed, reason]);
        }
        format!("\n{}", table.to_text(width))
    }

    fn excluded_table(&self, width: usize) -> String {
        if self.excluded.is_empty() {
            return String::new();
        }
        let heads = [("excluded", Left), ("n", Right), ("examples", Left)];
        let mut table = ReportTable::new(heads).with_folded_column();
        for row in &self.excluded {
            table.row([row.text.clone(), count(row.n), row.examples.join(", ")]);
        }
        format!("\n{}", table.to_text(width))
    }
}

fn age(age_s: u64) -> String {
    match age_s {
        0..=1 => "written just now".to_owned(),
        n => format!("written {n} s ago"),
    }
}

fn discovery(word: &str) -> &str {
    match word {
        "events" => "events of the kernel (proc connector)",
        "cgroups" => "cgroup.procs of the selected cgroups",
        "pids" => "PIDs assigned since the last turn",
        other => other,
    }
}
