//! The text report: run, jobs, last moves, notes.
//!
//! The text fits eighty columns and needs no colour. If there are very many jobs, the text lists the failed jobs first,
//! then as many other jobs as fit on a screen.

mod sections;

use base::counted_noun;
use sched::signal_name;

use crate::format::{ABSENT, bytes, count, counted, duration, percent, seconds, started};
use crate::model::{JobRow, JobStateName, LinuxRun, NoteKind, NoteRow, Report, Run, Totals};
use crate::table::{Align, ReportTable, fold, fold_command};
pub(crate) use sections::{bound_kinds, moved_name, narrowed, reason_of_move, repetitions};
use sections::{core_kinds, counters, listed, memory, moves};

/// Number of jobs that are printed. The page and the JSON contain all jobs.
const N_JOBS_SHOWN: usize = 40;
/// Number of last rejections that are printed.
const N_REJECTIONS_SHOWN: usize = 5;

impl Report {
    /// Returns the report as tables of at most `width` columns, for example 80.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.clamp(40, 200);
        let parts = [
            replay_notice(self, width),
            head(self, width),
            jobs(self, width),
            core_kinds(&self.jobs, width),
            moves(self, width),
            counters(&self.jobs, width),
            memory(&self.jobs, width),
            unmanaged(&self.jobs, width),
            rejections(self, width),
            notes(&self.notes, width),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n")
    }
}

fn replay_notice(report: &Report, width: usize) -> String {
    let Some(original) = &report.run.replay_of else { return String::new() };
    let text = format!(
        "This is an open-loop replay: the values of jobs are those of the recorded run {original}. The \
         decisions and the listed moves are those of {}; none was carried out.",
        spec(&report.run)
    );
    fold(&text, width, "", 0)
}

/// Returns the run and its workload, or the processes that a watch manages.
fn run_line(host: &str, id: &str, workload: &str) -> String {
    match host {
        "watch" => format!("{id}, managed processes: {workload}"),
        _ => format!("{id} of workload {workload}"),
    }
}

fn head(report: &Report, width: usize) -> String {
    let (run, totals) = (&report.run, &report.totals);
    let mut lines = vec![
        ("result", run.result.clone()),
        ("run", run_line(&run.host, &run.id, &run.workload)),
        ("started", started(run.started_unix_s)),
        ("policy", policy(run)),
        ("machine", machine(report)),
        ("jobs", job_counts(report)),
        ("moves", move_counts(report)),
    ];
    if let Some((makespan, linux)) = run.makespan_ns.zip(report.linux.as_ref()) {
        lines.push(("makespan", under_linux(makespan, linux)));
    }
    if let Some(text) = &run.signal_tier_text {
        let tier = run.signal_tier.as_deref().unwrap_or(ABSENT);
        lines.push(("loads", format!("{tier}: {text}")));
    }
    if let Some(tiers) = &run.task_signal_tiers {
        lines.push(("signals", tiers.clone()));
    }
    if report.has_cpu_times() {
        let (user, system) = (duration(totals.user_ns), duration(totals.system_ns));
        lines.push(("CPU time", format!("{user} user, {system} system")));
    }
    if let (Some(cpu_time), Some(share)) = (run.own_cpu_ns, run.own_cpu_share) {
        let memory =
            run.own_max_resident_bytes.map_or(String::new(), |size| format!(", {}", bytes(size)));
        let usage =
            format!("{} of CPU time, {} of one CPU{memory}", duration(cpu_time), percent(share));
        lines.push(("evenkeel", usage));
    }
    let line = |(label, text): (&str, String)| fold(&text, width, &format!("{label:<10}"), 10);
    let head: String = lines.into_iter().map(line).collect();
    let repeat = run.command.as_ref().map(|command| fold_command(command, width, "repeat    "));
    head + &repeat.unwrap_or_default()
}

/// Returns the makespan with that of the run under linux.
fn under_linux(makespan: u64, linux: &LinuxRun) -> String {
    let of_linux = linux.makespan_ns.map_or(linux.result.clone(), duration);
    let (own, path) = (duration(makespan), &linux.path);
    format!("{own}; under linux {of_linux} ({path}); one run each, so without an interval")
}

/// Returns the policy with its parameters, or only its name if the parameters are unknown.
pub(crate) fn spec(run: &Run) -> &str {
    if run.policy_spec.is_empty() { &run.policy } else { &run.policy_spec }
}

fn policy(run: &Run) -> String {
    format!("{}, seed {}", spec(run), run.seed)
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let mut parts = machine_parts(report);
    if machine.n_cpus_allowed != machine.n_cpus {
        parts.push(format!("{} of them allowed", machine.n_cpus_allowed));
    }
    parts.extend(machine.memory_bytes.map(bytes));
    let level = report.run.domain_level.as_deref();
    let placed = level.map_or(String::new(), |level| format!("; placed by {level}"));
    parts.join(", ") + &placed
}

/// Returns `2 nodes`, `4 LLC domains`, `8 cores (4 fast, 4 slow)`, `16 CPUs`, as far as the kernel reports these parts.
pub(crate) fn machine_parts(report: &Report) -> Vec<String> {
    let machine = &report.machine;
    let optional = [(machine.n_nodes, "node"), (machine.n_llcs, "LLC domain")];
    let known = optional.into_iter().filter(|(n, _)| *n != 0);
    let mut parts: Vec<String> = known.map(|(n, noun)| counted_noun(n, noun)).collect();
    let kinds = machine.core_kinds.iter().map(|kind| format!("{} {}", kind.n_cores, kind.name));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
    parts.push(counted_noun(machine.n_cores, "core") + &kinds);
    parts.push(counted_noun(machine.n_cpus, "CPU"));
    parts
}

fn job_counts(report: &Report) -> String {
    let totals = &report.totals;
    let states: Vec<String> =
        counts_by_state(totals).into_iter().map(|(n, state, _)| format!("{n} {state}")).collect();
    match states.is_empty() {
        true => "none".to_owned(),
        false => format!(
            "{}: {}; at most {} concurrently",
            count(totals.n_jobs),
            states.join(", "),
            totals.n_running_max
        ),
    }
}

/// Returns the number of jobs in each state that occurs, with the name and the colour of the state.
pub(crate) fn counts_by_state(totals: &Totals) -> Vec<(u64, String, &'static str)> {
    let failed = match totals.n_oom_killed {
        0 => "failed".to_owned(),
        n => format!("failed ({} OOM-killed)", count(n)),
    };
    let states = [
        (totals.n_done, "done", "good"),
        (totals.n_failed, failed.as_str(), "bad"),
        (totals.n_timed_out, "timed out", "warn"),
        (totals.n_stopped, "stopped", "warn"),
        (totals.n_unfinished, "unfinished", "faint"),
        (totals.n_attached(), "attached", "faint"),
    ];
    let present = states.into_iter().filter(|(n, ..)| *n != 0);
    present.map(|(n, state, colour)| (n, state.to_owned(), colour)).collect()
}

fn move_counts(report: &Report) -> String {
    let totals = &report.totals;
    let migrations = totals
        .n_migrations
        .map_or(String::new(), |n| format!("; {} in all", counted(n as usize, "CPU migration")));
    let (moves, rejected) = (count(totals.n_moves), count(totals.n_rejections));
    match report.run.replay_of {
        None => format!("{moves}, {rejected} rejected{migrations}"),
        Some(_) => format!(
            "{} requested, {rejected} rejected; {moves} in the recorded run{migrations}",
            count(totals.n_would_move)
        ),
    }
}

fn jobs(report: &Report, width: usize) -> String {
    let mut table = ReportTable::new([
        ("job", Align::Left),
        ("state", Align::Left),
        ("start s", Align::Right),
        ("wall s", Align::Right),
        ("cpu s", Align::Right),
        ("wait s", Align::Right),
        ("memory", Align::Right),
        ("moves", Align::Right),
        ("ran on", Align::Left),
    ]);
    let shown = failed_first(&report.jobs);
    for job in &shown {
        table.row(job_cells(job));
    }
    let mut text = table.to_text(width);
    let n_more = report.jobs.len() - shown.len();
    if n_more != 0 {
        text.push_str(&format!("… and {n_more} more: see report.html or report.json\n"));
    }
    text
}

/// Returns all jobs in start order; if there are very many, the failed jobs are first.
fn failed_first(jobs: &[JobRow]) -> Vec<&JobRow> {
    let failed = |job: &&JobRow| job.state.is_failure();
    if jobs.len() <= N_JOBS_SHOWN {
        return jobs.iter().collect();
    }
    let others = jobs.iter().filter(|job| !failed(job));
    jobs.iter().filter(failed).chain(others).take(N_JOBS_SHOWN).collect()
}

fn job_cells(job: &JobRow) -> Vec<String> {
    let or_absent = |value: Option<String>| value.unwrap_or_else(|| ABSENT.to_owned());
    let cpu = job.user_ns.zip(job.system_ns).map(|(user, system)| user.saturating_add(system));
    vec![
        job.name.clone(),
        state(job),
        or_absent(job.started_ns.map(seconds)),
        or_absent(job.wall_ns.map(seconds)),
        or_absent(cpu.map(seconds)),
        or_absent(job.wait_ns.map(seconds)),
        or_absent(job.max_resident_bytes.map(bytes)),
        job.n_moves.to_string(),
        or_absent(job.cpus_used.clone()),
    ]
}

/// Returns the mark before an estimate.
pub(crate) fn approximate(is_estimate: bool) -> String {
    if is_estimate { "~".to_owned() } else { String::new() }
}

/// Returns the state of a job: `done`, `failed 3`, `ended by SIGSEGV`.
pub(crate) fn state(job: &JobRow) -> String {
    match (job.state, job.exit_status, job.signal) {
        (JobStateName::Failed, Some(status), _) => format!("failed {status}"),
        (JobStateName::Failed, None, Some(signal)) => format!("ended by {}", signal_name(signal)),
        (state, ..) => state.name().to_owned(),
    }
}

fn unmanaged(jobs: &[JobRow], width: usize) -> String {
    let line = |job: &JobRow| Some(format!("{}: {}", job.name, job.unmanaged.as_ref()?));
    listed("unmanaged", jobs.iter().filter_map(line).collect(), width)
}

fn rejections(report: &Report, width: usize) -> String {
    let all = &report.rejections;
    if all.is_empty() {
        return String::new();
    }
    let first = all.len().saturating_sub(N_REJECTIONS_SHOWN);
    let mut text = match first {
        0 => "rejected\n".to_owned(),
        _ => format!("rejected (the last {} kinds of {})\n", all.len() - first, all.len()),
    };
    for rejected in &all[first..] {
        let head = format!("{:>9} s  ", seconds(rejected.at_ns));
        let times =
            if rejected.n == 1 { String::new() } else { format!(" ({} times)", rejected.n) };
        let line = format!(
            "{}: {}{times}: {} ({})",
            rejected.name,
            rejected.action,
            if rejected.detail.is_empty() { &rejected.cause } else { &rejected.detail },
            rejected.by.name(),
        );
        text.push_str(&fold(&line, width, &head, 13));
    }
    text
}

fn notes(notes: &[NoteRow], width: usize) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let lines = notes.iter().map(|note| {
        let text = match note.kind {
            NoteKind::Note | NoteKind::Record => note.text.clone(),
            kind => format!("{}: {}", kind.name(), note.text),
        };
        fold(&text, width, "- ", 2)
    });
    std::iter::once("notes\n".to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_no_workload() {
        assert_eq!(run_line("watch", "1", "name sort*"), "1, managed processes: name sort*");
        assert_eq!(run_line("live", "1", "mix"), "1 of workload mix");
    }
}
