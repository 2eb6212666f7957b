//! The top of the page: the run, its key values, and notes about their validity.

use super::tables::sentence;
use crate::format::{bytes, count, counted, duration, percent, started};
use crate::model::{Report, Run, RunStatusName};
use crate::page::{callout, chip, escape, hero, repeat_command, tile};
use crate::phrases::parts_missing_phrase;
use crate::text::{counts_by_state, machine_parts, spec};

pub(super) fn head(report: &Report) -> String {
    let run = &report.run;
    let (class, status) = status(report);
    let chips = [
        format!("<li class=\"chip {class}\">{status}</li>"),
        chip("policy", spec(run)),
        chip("seed", &run.seed.to_string()),
        chip("started", &started(run.started_unix_s)),
        chip("on", &machine_parts(report).join(", ")),
    ];
    let kind = if run.host == "watch" { "Processes managed by run" } else { "Run" };
    let repeat = repeat_command(run.command.as_deref());
    let result = escape(&sentence(&run.result));
    let answer = format!("<p class=\"answer {class}\">{result}</p>");
    let content = format!("{answer}\n{}\n{}{repeat}", tiles(report), callouts(report));
    hero(&format!("{kind} {}", run.id), &run.workload, &chips.concat(), &content)
}

/// Returns the class of the result in the styles, and the status of the run.
fn status(report: &Report) -> (&'static str, &'static str) {
    match report.run.status {
        Some(RunStatusName::Finished) => ("good", "finished"),
        Some(RunStatusName::Interrupted) if report.totals.n_failed != 0 => ("bad", "interrupted"),
        Some(RunStatusName::Interrupted) => ("warn", "interrupted"),
        Some(RunStatusName::Failed) if report.run.error.is_none() => ("bad", "jobs failed"),
        Some(RunStatusName::Failed) => ("bad", "failed"),
        None => ("warn", "end not recorded"),
    }
}

/// Returns a value with its units in small type: `10 min 52 s`, `1 234`.
fn value_html(text: &str) -> String {
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut html = String::new();
    for word in text.split(' ') {
        match is_number(word) {
            true if html.ends_with(|c: char| c.is_ascii_digit()) => html += &format!(" {word}"),
            true => html += word,
            false => html += &format!("<small>{}</small>", escape(word)),
        }
    }
    html
}

fn tiles(report: &Report) -> String {
    let (run, totals) = (&report.run, &report.totals);
    let below = |text: String| escape(&text);
    let waited = totals.wait_ns.map_or("–".to_owned(), |wait| value_html(&duration(wait)));
    let own_share = run.own_cpu_share.map_or("–".to_owned(), |share| value_html(&percent(share)));
    let turns = below(counted(run.n_turns as usize, "turn"));
    let tiles = [
        tile("Wall time", &value_html(&duration(run.wall_ns)), &turns),
        tile("Jobs", &count(totals.n_jobs), &jobs_by_state(report)),
        moves_tile(report),
        match report.has_cpu_times() {
            true => tile(
                "CPU time of jobs",
                &value_html(&duration(totals.user_ns + totals.system_ns)),
                &below(format!("{} of it in kernel mode", duration(totals.system_ns))),
            ),
            false => tile(
                "CPU time of jobs",
                "–",
                &below("known for jobs that evenkeel started and that ended".to_owned()),
            ),
        },
        tile("Wait time", &waited, &below("runnable but not running, sum over tasks".to_owned())),
        tile("evenkeel itself", &own_share, &below(own_usage(run))),
    ];
    format!("<dl class=\"tiles\">{}</dl>", tiles.concat())
}

fn own_usage(run: &Run) -> String {
    let memory =
        run.own_max_resident_bytes.map_or(String::new(), |size| format!(", {}", bytes(size)));
    match run.own_cpu_ns {
        Some(cpu) => format!("of one CPU: {} in all{memory}", duration(cpu)),
        None => "not recorded".to_owned(),
    }
}

fn moves_tile(report: &Report) -> String {
    let totals = &report.totals;
    let migrations = totals.n_migrations.map_or("migrations not counted".to_owned(), |n| {
        format!("{} in all", counted(n as usize, "CPU migration"))
    });
    let rejected = match totals.n_rejections {
        0 => String::new(),
        n => format!("; {} rejected", count(n)),
    };
    let (label, n, recorded) = match report.run.replay_of {
        None => ("Moves by evenkeel", totals.n_moves, String::new()),
        Some(_) => {
            let recorded = format!("{} in the recorded run; ", count(totals.n_moves));
            ("Requested moves", totals.n_would_move, recorded)
        }
    };
    tile(label, &count(n), &escape(&format!("{recorded}{migrations}{rejected}")))
}

/// Draws the number of jobs per state, as a bar and as text.
fn jobs_by_state(report: &Report) -> String {
    let totals = &report.totals;
    let states = counts_by_state(totals);
    let bar = |(n, _, colour): &(u64, String, &str)| {
        format!("<i style=\"flex:{n};background:var(--{colour})\"></i>")
    };
    let bars: String = states.iter().map(bar).collect();
    let words: Vec<String> =
        states.iter().map(|(n, word, _)| format!("{} {word}", count(*n))).collect();
    if words.is_empty() {
        return "the run has no job".to_owned();
    }
    let concurrent = format!("{} concurrently", count(totals.n_running_max));
    format!("<span class=\"split\">{bars}</span>{}; at most {concurrent}", words.join(", "))
}

/// Returns the notices that qualify all values.
fn callouts(report: &Report) -> String {
    let run = &report.run;
    let mut html = String::new();
    if let Some(original) = &run.replay_of {
        let text = format!(
            "This is a replay. The values of jobs are those of the recorded run {original}. The decisions, and the moves in the list and in the timeline, are those of {}; none was carried out.",
            spec(run)
        );
        html += &callout("warn", "Open loop", &text);
    }
    if let Some(error) = &run.error {
        html += &callout("bad", "Failed", &sentence(error));
    }
    if run.n_journal_parts_missing != 0 {
        let removed = sentence(&parts_missing_phrase(run.n_journal_parts_missing));
        let text = format!("{removed} A report from the journal does not contain their events.");
        html += &callout("warn", "Incomplete", &text);
    }
    if let (Some(tier), Some(text)) = (&run.signal_tier, &run.signal_tier_text) {
        let head = format!("Loads: {tier}");
        html += &callout("", &head, &sentence(text));
    }
    html
}
