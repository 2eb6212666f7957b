//! The top of the page: the run, its key values, and notices about their validity.

use base::counted_noun;

use super::escape::escape;
use super::tables::sentence;
use crate::format::{bytes, count, duration, percent, started};
use crate::model::{Report, Run, RunStatusWord};

/// A ship on water.
pub(crate) const LOGO: &str = r#"<svg width="26" height="26" viewBox="0 0 26 26" aria-hidden="true"><path d="M3.5 12h19c-.6 4.3-4.300 7-9.500 7s-8.900-2.700-9.500-7z" fill="currentColor"/><path d="M12.200 3v7.500H5.800z M14 5.200v5.300h4.900z" fill="currentColor" opacity=".55"/><path d="M2.500 22.500c2 0 2-1 4.200-1s2.200 1 4.200 1 2-1 4.200-1 2.200 1 4.200 1 2-1 4.200-1" fill="none" stroke="currentColor" stroke-width="1.500" stroke-linecap="round" opacity=".7"/></svg>"#;
pub(crate) const SUN_AND_MOON: &str = r#"<svg class="sun" width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" aria-hidden="true"><circle cx="9" cy="9" r="3.4"/><path d="M9 1.500v1.600M9 14.900v1.600M1.500 9h1.600M14.900 9h1.600M3.700 3.700l1.100 1.100M13.200 13.200l1.100 1.100M3.700 14.300l1.100-1.100M13.200 4.800l1.100-1.100"/></svg><svg class="moon" width="18" height="18" viewBox="0 0 18 18" fill="currentColor" aria-hidden="true"><path d="M14.800 11.300A6.300 6.300 0 0 1 6.700 3.200a6.300 6.300 0 1 0 8.100 8.100z"/></svg>"#;

pub(super) fn bar(report: &Report) -> String {
    let rejections =
        if report.rejections.is_empty() { "" } else { "<a href=\"#rejections\">Rejections</a>" };
    format!(
        "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n\
         <div class=\"bar\"><div class=\"wrap\"><div class=\"brand\">{LOGO}evenkeel</div>\
         <nav aria-label=\"Sections\"><a href=\"#timeline\">Timeline</a><a href=\"#loads\">Load</a>\
         <a href=\"#moves\">Moves</a><a href=\"#jobs\">Jobs</a>{rejections}<a href=\"#notes\">Notes</a></nav>\
         <button class=\"icon\" id=\"theme\" type=\"button\" aria-label=\"Change colours\">{SUN_AND_MOON}</button></div></div>"
    )
}

pub(super) fn hero(report: &Report) -> String {
    let run = &report.run;
    let chip = |label: &str, text: &str| {
        format!("<li class=\"chip\">{label} <b>{}</b></li>", escape(text))
    };
    let spec = if run.policy_spec.is_empty() { &run.policy } else { &run.policy_spec };
    let chips = [
        status_chip(run),
        chip("policy", spec),
        chip("seed", &run.seed.to_string()),
        chip("started", &started(run.started_unix_s)),
        chip("on", &machine_text(report)),
    ]
    .concat();
    format!(
        "<div class=\"hero\"><p class=\"eyebrow\">{} {}</p>\n<h1>{}</h1>\n\
         <ul class=\"sub\">{chips}</ul>\n{}\n{}</div>",
        if run.host == "watch" { "Processes managed by run" } else { "Run" },
        escape(&run.id),
        escape(&run.workload),
        tiles(report),
        callouts(report)
    )
}

fn status_chip(run: &Run) -> String {
    let (class, text) = match run.status {
        Some(RunStatusWord::Finished) => ("good", "finished"),
        Some(RunStatusWord::Interrupted) => ("warn", "interrupted"),
        Some(RunStatusWord::Failed) => ("bad", "failed"),
        None => ("warn", "end not recorded"),
    };
    format!("<li class=\"chip {class}\">{text}</li>")
}

fn machine_text(report: &Report) -> String {
    let machine = &report.machine;
    let mut parts = Vec::new();
    if machine.n_nodes != 0 {
        parts.push(counted_noun(machine.n_nodes, "node"));
    }
    if machine.n_llcs != 0 {
        parts.push(counted_noun(machine.n_llcs, "LLC domain"));
    }
    parts.extend([counted_noun(machine.n_cores, "core"), counted_noun(machine.n_cpus, "CPU")]);
    parts.join(", ")
}

/// A value with its units in small type: `10 min 52 s`, `1 234`.
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

fn tile(label: &str, value: &str, below: &str) -> String {
    format!("<div class=\"tile\"><dt>{label}</dt><dd>{value}</dd>{below}</div>")
}

fn tiles(report: &Report) -> String {
    let (run, totals) = (&report.run, &report.totals);
    let below = |text: String| format!("<p>{}</p>", escape(&text));
    let waited = totals.wait_ns.map_or("–".to_owned(), |wait| value_html(&duration(wait)));
    let own = run.own_cpu_share.map_or("–".to_owned(), |share| value_html(&percent(share)));
    let own_text = match (run.own_cpu_ns, run.own_max_resident_bytes) {
        (Some(cpu), Some(memory)) => {
            format!("of one CPU: {} in all, {}", duration(cpu), bytes(memory))
        }
        (Some(cpu), None) => format!("of one CPU: {} in all", duration(cpu)),
        _ => "not recorded".to_owned(),
    };
    let migrations = totals.n_migrations.map_or("migrations not counted".to_owned(), |n| {
        format!("{} CPU migrations in all", count(n))
    });
    let rejected = match totals.n_rejections {
        0 => String::new(),
        n => format!("; {} rejected", count(n)),
    };
    let tiles = [
        tile(
            "Wall time",
            &value_html(&duration(run.wall_ns)),
            &below(format!("{} turns", count(run.n_turns))),
        ),
        tile("Jobs", &count(totals.n_jobs), &jobs_by_state(report)),
        match run.replay_of {
            None => {
                let text = format!("{migrations}{rejected}");
                tile("Moves by evenkeel", &count(totals.n_moves), &below(text))
            }
            Some(_) => {
                let made = count(totals.n_moves);
                let text = format!("{made} in the recorded run; {migrations}{rejected}");
                tile("Requested moves", &count(totals.n_would_move), &below(text))
            }
        },
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
        tile("evenkeel itself", &own, &below(own_text)),
    ];
    format!("<dl class=\"tiles\">{}</dl>", tiles.concat())
}

/// Number of jobs per state, as a bar and as text.
fn jobs_by_state(report: &Report) -> String {
    let totals = &report.totals;
    let states = [
        (totals.n_done, "done", "good"),
        (totals.n_failed, "failed", "bad"),
        (totals.n_stopped, "stopped", "warn"),
        (totals.n_unfinished, "unfinished", "faint"),
        (totals.n_attached(), "attached", "faint"),
    ];
    let present = states.into_iter().filter(|(n, ..)| *n != 0);
    let bars: String = present
        .clone()
        .map(|(n, _, colour)| format!("<i style=\"flex:{n};background:var(--{colour})\"></i>"))
        .collect();
    let words: Vec<String> = present.map(|(n, word, _)| format!("{} {word}", count(n))).collect();
    let at_once = format!("{} at once", count(totals.n_running_max));
    format!("<div class=\"split\">{bars}</div><p>{}; at most {at_once}</p>", words.join(", "))
}

/// Notices that qualify all values.
fn callouts(report: &Report) -> String {
    let run = &report.run;
    let callout = |class: &str, head: &str, text: &str| {
        format!("<div class=\"callout {class}\"><b>{head}</b><span>{}</span></div>\n", escape(text))
    };
    let mut html = String::new();
    if let Some(original) = &run.replay_of {
        let text = format!(
            "This is a replay. The values of jobs are those of the recorded run {original}. The decisions, and the moves in the list and in the timeline, are those of {}; none was carried out.",
            if run.policy_spec.is_empty() { &run.policy } else { &run.policy_spec }
        );
        html += &callout("warn", "Open loop", &text);
    }
    if let Some(error) = &run.error {
        html += &callout("bad", "Failed", &sentence(error));
    }
    if run.n_journal_parts_missing != 0 {
        let text = format!(
            "The size limit of the journal removed its first {} parts. Their events are missing here.",
            run.n_journal_parts_missing
        );
        html += &callout("warn", "Incomplete", &text);
    }
    if let (Some(tier), Some(text)) = (&run.signal_tier, &run.signal_tier_text) {
        let head = format!("Loads: {}", escape(tier));
        html += &callout("", &head, &sentence(text));
    }
    html
}
