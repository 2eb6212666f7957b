//! The report in a terminal: what was run, the jobs, the last moves, the notes.
//!
//! Reads without colour and fits eighty columns. A terminal is no place for a thousand rows: there the
//! jobs that went wrong come first, then as many others as a screen takes.

mod counted;
mod memory;
mod moves;
mod table;

use base::counted_noun;

use crate::model::{JobRow, NoteRow, NoteWord, Report, Run, StateWord};
use crate::units::{ABSENT, bytes, count, duration, percent, seconds, started};
use counted::counted;
use memory::memory;
use moves::moves;
pub(crate) use moves::{narrowed, times, why};
pub(crate) use table::{Align, Table, cut, fold};

/// More jobs than a screen holds; the page and the JSON have them all.
const N_JOBS_SHOWN: usize = 40;
/// Jobs that were taken out of our hands.
const N_ALONE_SHOWN: usize = 5;
/// The last refusals.
const N_REFUSALS_SHOWN: usize = 5;

impl Report {
    /// Tables of at most so many columns; 80 suits.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.clamp(40, 200);
        let parts = [
            replayed(self, width),
            head(self, width),
            jobs(self, width),
            moves(self, width),
            counted(self, width),
            memory(self, width),
            left_alone(&self.jobs, width),
            refusals(self, width),
            notes(&self.notes, width),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n")
    }
}

/// What must be known before anything else is read.
fn replayed(report: &Report, width: usize) -> String {
    let Some(original) = &report.run.replay_of else { return String::new() };
    let text = format!(
        "This is a replay, open loop: what is told of jobs is what they did in the recorded run \
         {original}. The decisions, and the moves in the list, are what {} would have done there; \
         nothing of it was carried out.",
        spec(&report.run)
    );
    fold(&text, width, "", 0)
}

/// What ran, or who was looked after.
fn whose(host: &str, id: &str, workload: &str) -> String {
    match host {
        "watch" => format!("{id}, looking after {workload}"),
        _ => format!("{id} of workload {workload}"),
    }
}

fn head(report: &Report, width: usize) -> String {
    let (run, totals) = (&report.run, &report.totals);
    let mut lines = vec![
        ("run", whose(&run.host, &run.id, &run.workload)),
        ("started", started(run.started_unix_s)),
        ("policy", policy(run)),
        ("machine", machine(report)),
        ("ended", format!("{} after {}", end(run), duration(run.wall_ns))),
        ("jobs", tally(report)),
        ("moves", moves_and_refusals(report)),
    ];
    if let Some(meaning) = &run.signal_meaning {
        let tier = run.signal_tier.as_deref().unwrap_or(ABSENT);
        lines.push(("signal", format!("{tier}: {meaning}")));
    }
    if let Some(figures) = &run.task_signals {
        lines.push(("figures", figures.clone()));
    }
    if report.is_use_known() {
        let (user, system) = (duration(totals.user_ns), duration(totals.system_ns));
        lines.push(("jobs used", format!("{user} user, {system} system")));
    }
    if let (Some(own), Some(share)) = (run.own_cpu_ns, run.own_cpu_share) {
        let memory =
            run.own_max_resident_bytes.map_or(String::new(), |size| format!(", {}", bytes(size)));
        let own = format!("{} of CPU time, {} of one CPU{memory}", duration(own), percent(share));
        lines.push(("evenkeel", own));
    }
    let told = |(label, text): (&str, String)| fold(&text, width, &format!("{label:<10}"), 10);
    lines.into_iter().map(told).collect()
}

fn spec(run: &Run) -> &str {
    if run.policy_spec.is_empty() { &run.policy } else { &run.policy_spec }
}

fn policy(run: &Run) -> String {
    format!("{}, seed {}", spec(run), run.seed)
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let mut words = Vec::new();
    if machine.n_nodes != 0 {
        words.push(counted_noun(machine.n_nodes, "node"));
    }
    if machine.n_llcs != 0 {
        words.push(counted_noun(machine.n_llcs, "LLC domain"));
    }
    words.push(counted_noun(machine.n_cores, "core"));
    words.push(counted_noun(machine.n_cpus, "CPU"));
    if machine.n_cpus_allowed != machine.n_cpus {
        words.push(format!("{} of them allowed", machine.n_cpus_allowed));
    }
    words.extend(machine.memory_bytes.map(bytes));
    let level = report.run.domain_level.as_deref();
    let placed = level.map_or(String::new(), |level| format!("; placed by {level}"));
    words.join(", ") + &placed
}

/// How the run ended, in a word.
pub(crate) fn end(run: &Run) -> String {
    let how = run.end.map_or("not told", |end| end.word());
    match &run.error {
        Some(error) => format!("{how} ({error})"),
        None => how.to_owned(),
    }
}

fn tally(report: &Report) -> String {
    let totals = &report.totals;
    let kinds = [
        (totals.n_done, "done"),
        (totals.n_failed, "failed"),
        (totals.n_stopped, "stopped"),
        (totals.n_unfinished, "unfinished"),
        (totals.n_watched(), "watched"),
    ];
    let kinds = kinds.into_iter().filter(|(n, _)| *n != 0).map(|(n, word)| format!("{n} {word}"));
    let kinds: Vec<String> = kinds.collect();
    let together = format!("at most {} at once", totals.n_running_max);
    format!("{}: {}; {together}", count(totals.n_jobs), kinds.join(", "))
}

fn moves_and_refusals(report: &Report) -> String {
    let totals = &report.totals;
    let about = if totals.n_migrations_is_estimate { "about " } else { "" };
    let migrations = totals
        .n_migrations
        .map_or(String::new(), |n| format!("; {about}{} migrations in all", count(n)));
    let (moves, refused) = (count(totals.n_moves), count(totals.n_refusals));
    match report.run.replay_of {
        None => format!("{moves}, {refused} refused{migrations}"),
        Some(_) => format!(
            "{} would have been made, {refused} refused; the recorded run made {moves}{migrations}",
            count(totals.n_wishes)
        ),
    }
}

fn jobs(report: &Report, width: usize) -> String {
    let mut table = Table::new(&[
        ("job", Align::Left),
        ("state", Align::Left),
        ("start s", Align::Right),
        ("wall s", Align::Right),
        ("cpu s", Align::Right),
        ("waited s", Align::Right),
        ("memory", Align::Right),
        ("moves", Align::Right),
        ("ran on", Align::Left),
    ]);
    let shown = shown(&report.jobs);
    for job in &shown {
        table.row(job_cells(job));
    }
    let mut text = table.to_text(width);
    let n_more = report.jobs.len() - shown.len();
    if n_more != 0 {
        text.push_str(&format!("… and {n_more} more: the page and the JSON have all of them\n"));
    }
    text
}

/// All of them in start order, or first those that went wrong.
fn shown(jobs: &[JobRow]) -> Vec<&JobRow> {
    let wrong = |job: &&JobRow| matches!(job.state, StateWord::Failed | StateWord::NotStarted);
    if jobs.len() <= N_JOBS_SHOWN {
        return jobs.iter().collect();
    }
    let first = jobs.iter().filter(wrong);
    let then = jobs.iter().filter(|job| !wrong(job));
    first.chain(then).take(N_JOBS_SHOWN).collect()
}

fn job_cells(job: &JobRow) -> Vec<String> {
    let or_absent = |figure: Option<String>| figure.unwrap_or_else(|| ABSENT.to_owned());
    let cpu = job.user_ns.zip(job.system_ns).map(|(user, system)| user + system);
    vec![
        job.name.clone(),
        state(job),
        or_absent(job.started_ns.map(seconds)),
        or_absent(job.wall_ns.map(seconds)),
        or_absent(cpu.map(seconds)),
        or_absent(job.wait_ns.map(|wait| about(job.wait_is_estimate) + &seconds(wait))),
        or_absent(job.max_resident_bytes.map(bytes)),
        job.n_moves.to_string(),
        or_absent(job.ran_on.clone()),
    ]
}

/// What stands before a figure of which not all was seen.
pub(crate) fn about(is_estimate: bool) -> String {
    if is_estimate { "~".to_owned() } else { String::new() }
}

/// `done`, `failed 3`, `failed sig 11`.
pub(crate) fn state(job: &JobRow) -> String {
    match (job.state, job.exit_status, job.signal) {
        (StateWord::Failed, Some(status), _) => format!("failed {status}"),
        (StateWord::Failed, None, Some(signal)) => format!("failed sig {signal}"),
        (state, ..) => state.word().to_owned(),
    }
}

fn left_alone(jobs: &[JobRow], width: usize) -> String {
    let alone: Vec<(&JobRow, &String)> =
        jobs.iter().filter_map(|job| Some((job, job.hands_off.as_ref()?))).collect();
    if alone.is_empty() {
        return String::new();
    }
    let told =
        |(job, why): &(&JobRow, &String)| fold(&format!("{}: {why}", job.name), width, "- ", 2);
    let mut text = "left alone\n".to_owned();
    text.extend(alone.iter().take(N_ALONE_SHOWN).map(told));
    if N_ALONE_SHOWN < alone.len() {
        text.push_str(&format!("… and {} more\n", alone.len() - N_ALONE_SHOWN));
    }
    text
}

fn refusals(report: &Report, width: usize) -> String {
    let all = &report.refusals;
    if all.is_empty() {
        return String::new();
    }
    let first = all.len().saturating_sub(N_REFUSALS_SHOWN);
    let mut text = match first {
        0 => "refused\n".to_owned(),
        _ => format!("refused (the last {} kinds of {})\n", all.len() - first, all.len()),
    };
    for refused in &all[first..] {
        let head = format!("{:>9} s  ", seconds(refused.at_ns));
        let times = if refused.n == 1 { String::new() } else { format!(" ({} times)", refused.n) };
        let told = format!(
            "{}: {}{times}: {} ({})",
            refused.name,
            refused.what,
            if refused.detail.is_empty() { &refused.why } else { &refused.detail },
            refused.by.word(),
        );
        text.push_str(&fold(&told, width, &head, 13));
    }
    text
}

fn notes(notes: &[NoteRow], width: usize) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let told = notes.iter().map(|note| {
        let text = match note.kind {
            NoteWord::Note | NoteWord::Record => note.text.clone(),
            kind => format!("{}: {}", kind.word(), note.text),
        };
        fold(&text, width, "- ", 2)
    });
    std::iter::once("notes\n".to_owned()).chain(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_no_workload() {
        assert_eq!(whose("watch", "1", "name sort*"), "1, looking after name sort*");
        assert_eq!(whose("live", "1", "mix"), "1 of workload mix");
    }
}
