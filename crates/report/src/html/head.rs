//! The top of the page: what was run, the key figures, and what must be known before they are believed.

use base::counted_noun;

use super::escape::escape;
use super::tables::sentence;
use crate::model::{EndWord, Report, Run};
use crate::units::{bytes, count, duration, percent, started};

/// A hull that keeps level, and what it floats on.
pub(crate) const LOGO: &str = r#"<svg width="26" height="26" viewBox="0 0 26 26" aria-hidden="true"><path d="M3.5 12h19c-.6 4.3-4.300 7-9.500 7s-8.900-2.700-9.500-7z" fill="currentColor"/><path d="M12.200 3v7.500H5.800z M14 5.200v5.300h4.900z" fill="currentColor" opacity=".55"/><path d="M2.500 22.500c2 0 2-1 4.200-1s2.200 1 4.200 1 2-1 4.200-1 2.200 1 4.200 1 2-1 4.200-1" fill="none" stroke="currentColor" stroke-width="1.500" stroke-linecap="round" opacity=".7"/></svg>"#;
pub(crate) const SUN_AND_MOON: &str = r#"<svg class="sun" width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" aria-hidden="true"><circle cx="9" cy="9" r="3.4"/><path d="M9 1.500v1.600M9 14.900v1.600M1.500 9h1.600M14.900 9h1.600M3.700 3.700l1.100 1.100M13.200 13.200l1.100 1.100M3.700 14.300l1.100-1.100M13.200 4.800l1.100-1.100"/></svg><svg class="moon" width="18" height="18" viewBox="0 0 18 18" fill="currentColor" aria-hidden="true"><path d="M14.800 11.300A6.300 6.300 0 0 1 6.700 3.200a6.300 6.300 0 1 0 8.100 8.100z"/></svg>"#;

pub(super) fn bar(report: &Report) -> String {
    let refused =
        if report.refusals.is_empty() { "" } else { "<a href=\"#refusals\">Refusals</a>" };
    format!(
        "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n\
         <div class=\"bar\"><div class=\"wrap\"><div class=\"brand\">{LOGO}evenkeel</div>\
         <nav aria-label=\"Sections\"><a href=\"#timeline\">Timeline</a><a href=\"#loads\">Load</a>\
         <a href=\"#moves\">Moves</a><a href=\"#jobs\">Jobs</a>{refused}<a href=\"#notes\">Notes</a></nav>\
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
        end_chip(run),
        chip("policy", spec),
        chip("seed", &run.seed.to_string()),
        chip("started", &started(run.started_unix_s)),
        chip("on", &machine_words(report)),
    ]
    .concat();
    format!(
        "<div class=\"hero\"><p class=\"eyebrow\">{} {}</p>\n<h1>{}</h1>\n\
         <ul class=\"sub\">{chips}</ul>\n{}\n{}</div>",
        if run.host == "watch" { "Looked after by run" } else { "Run" },
        escape(&run.id),
        escape(&run.workload),
        tiles(report),
        callouts(report)
    )
}

fn end_chip(run: &Run) -> String {
    let (class, word) = match run.end {
        Some(EndWord::Finished) => ("good", "finished"),
        Some(EndWord::Interrupted) => ("warn", "interrupted"),
        Some(EndWord::Failed) => ("bad", "failed"),
        None => ("warn", "end not recorded"),
    };
    format!("<li class=\"chip {class}\">{word}</li>")
}

fn machine_words(report: &Report) -> String {
    let machine = &report.machine;
    let mut words = Vec::new();
    if machine.n_nodes != 0 {
        words.push(counted_noun(machine.n_nodes, "node"));
    }
    if machine.n_llcs != 0 {
        words.push(counted_noun(machine.n_llcs, "LLC domain"));
    }
    words.extend([counted_noun(machine.n_cores, "core"), counted_noun(machine.n_cpus, "CPU")]);
    words.join(", ")
}

/// A figure with its units set smaller: `10 min 52 s`, `1 234`.
fn figure(text: &str) -> String {
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

fn tile(label: &str, figure: &str, below: &str) -> String {
    format!("<div class=\"tile\"><dt>{label}</dt><dd>{figure}</dd>{below}</div>")
}

fn tiles(report: &Report) -> String {
    let (run, totals) = (&report.run, &report.totals);
    let said = |text: String| format!("<p>{}</p>", escape(&text));
    let about_waited = crate::text::about(totals.wait_is_estimate);
    let waited =
        totals.wait_ns.map_or("–".to_owned(), |wait| about_waited + &figure(&duration(wait)));
    let own = run.own_cpu_share.map_or("–".to_owned(), |share| figure(&percent(share)));
    let own_said = match (run.own_cpu_ns, run.own_max_resident_bytes) {
        (Some(cpu), Some(memory)) => {
            format!("of one CPU: {} in all, {}", duration(cpu), bytes(memory))
        }
        (Some(cpu), None) => format!("of one CPU: {} in all", duration(cpu)),
        _ => "not told by the record".to_owned(),
    };
    let about = if totals.n_migrations_is_estimate { "about " } else { "" };
    let migrations = totals.n_migrations.map_or("migrations not counted".to_owned(), |n| {
        format!("{about}{} CPU migrations in all", count(n))
    });
    let refused = match totals.n_refusals {
        0 => String::new(),
        n => format!("; {} refused", count(n)),
    };
    let tiles = [
        tile(
            "Wall time",
            &figure(&duration(run.wall_ns)),
            &said(format!("{} turns", count(run.n_turns))),
        ),
        tile("Jobs", &count(totals.n_jobs), &jobs_split(report)),
        match run.replay_of {
            None => {
                let text = format!("{migrations}{refused}");
                tile("Moves by evenkeel", &count(totals.n_moves), &said(text))
            }
            Some(_) => {
                let made = count(totals.n_moves);
                let text = format!("{made} in the recorded run; {migrations}{refused}");
                tile("Moves it would have made", &count(totals.n_wishes), &said(text))
            }
        },
        match report.is_use_known() {
            true => tile(
                "CPU time of jobs",
                &figure(&duration(totals.user_ns + totals.system_ns)),
                &said(format!("{} of it in the kernel", duration(totals.system_ns))),
            ),
            false => tile(
                "CPU time of jobs",
                "–",
                &said("told of jobs that we started and that ended".to_owned()),
            ),
        },
        tile("Waited for a CPU", &waited, &said("ready to run, summed over tasks".to_owned())),
        tile("evenkeel itself", &own, &said(own_said)),
    ];
    format!("<dl class=\"tiles\">{}</dl>", tiles.concat())
}

/// How many jobs ended how, as a bar and in words.
fn jobs_split(report: &Report) -> String {
    let totals = &report.totals;
    let kinds = [
        (totals.n_done, "done", "good"),
        (totals.n_failed, "failed", "bad"),
        (totals.n_stopped, "stopped", "warn"),
        (totals.n_unfinished, "unfinished", "faint"),
        (totals.n_watched(), "watched", "faint"),
    ];
    let there = kinds.into_iter().filter(|(n, ..)| *n != 0);
    let bars: String = there
        .clone()
        .map(|(n, _, colour)| format!("<i style=\"flex:{n};background:var(--{colour})\"></i>"))
        .collect();
    let words: Vec<String> = there.map(|(n, word, _)| format!("{} {word}", count(n))).collect();
    let at_once = format!("{} at once", count(totals.n_running_max));
    format!("<div class=\"split\">{bars}</div><p>{}; {at_once} at most</p>", words.join(", "))
}

/// What must be known before any figure is believed.
fn callouts(report: &Report) -> String {
    let run = &report.run;
    let callout = |class: &str, head: &str, text: &str| {
        format!("<div class=\"callout {class}\"><b>{head}</b><span>{}</span></div>\n", escape(text))
    };
    let mut told = String::new();
    if let Some(original) = &run.replay_of {
        let text = format!(
            "This is a replay. What is told of jobs is what they did in the recorded run {original}. The decisions, and the moves in the list and in the timeline, are what {} would have done there: nothing of it was carried out.",
            if run.policy_spec.is_empty() { &run.policy } else { &run.policy_spec }
        );
        told += &callout("warn", "Open loop", &text);
    }
    if let Some(error) = &run.error {
        told += &callout("bad", "Broke off", &sentence(error));
    }
    if run.n_journal_parts_missing != 0 {
        let text = format!(
            "The first {} parts of the journal were removed by its size limit. What happened in them is missing here.",
            run.n_journal_parts_missing
        );
        told += &callout("warn", "Incomplete", &text);
    }
    if let (Some(tier), Some(meaning)) = (&run.signal_tier, &run.signal_meaning) {
        let head = format!("Signal: {}", escape(tier));
        told += &callout("", &head, &sentence(meaning));
    }
    told
}
