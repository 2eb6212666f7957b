//! One self-contained page: no network, no fonts, nothing beside the file.
//!
//! ```text
//!   key figures ─► timeline (by job, by CPU) ─► load per domain ─► moves ─► jobs ─► refusals, notes, facts
//!                  drawn by scripts from a JSON in the page        complete without scripts
//! ```
//!
//! The page has a content security policy that lets nothing be loaded. Everything that comes from
//! a workload is escaped here or goes through `textContent` there.

mod data;
mod escape;
mod facts;
mod tables;

use crate::model::{EndWord, Report, Run};
use crate::units::{bytes, count, duration, percent, wall_clock};
use data::Data;
use escape::{escape, escape_json};
use tables::sentence;

const CSS: &str = include_str!("page.css");
/// In the order in which they build on each other.
const SCRIPTS: [&str; 5] = [
    include_str!("page.js"),
    include_str!("select.js"),
    include_str!("timeline.js"),
    include_str!("loads.js"),
    include_str!("tables.js"),
];

/// A hull that keeps level, and what it floats on.
const LOGO: &str = r#"<svg width="26" height="26" viewBox="0 0 26 26" aria-hidden="true"><path d="M3.5 12h19c-.6 4.3-4.300 7-9.500 7s-8.900-2.700-9.500-7z" fill="currentColor"/><path d="M12.200 3v7.500H5.800z M14 5.200v5.300h4.900z" fill="currentColor" opacity=".55"/><path d="M2.500 22.500c2 0 2-1 4.200-1s2.200 1 4.200 1 2-1 4.200-1 2.200 1 4.200 1 2-1 4.200-1" fill="none" stroke="currentColor" stroke-width="1.500" stroke-linecap="round" opacity=".7"/></svg>"#;
const SUN_AND_MOON: &str = r#"<svg class="sun" width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" aria-hidden="true"><circle cx="9" cy="9" r="3.4"/><path d="M9 1.500v1.600M9 14.900v1.600M1.500 9h1.600M14.900 9h1.600M3.700 3.700l1.100 1.100M13.200 13.200l1.100 1.100M3.700 14.300l1.100-1.100M13.200 4.800l1.100-1.100"/></svg><svg class="moon" width="18" height="18" viewBox="0 0 18 18" fill="currentColor" aria-hidden="true"><path d="M14.800 11.300A6.300 6.300 0 0 1 6.700 3.200a6.300 6.300 0 1 0 8.100 8.100z"/></svg>"#;

impl Report {
    /// The page.
    pub fn to_html(&self) -> String {
        let data = Data::new(self);
        let json = serde_json::to_string(&data);
        let json = json.expect("numbers, texts and lists always have a JSON form");
        let title = escape(&format!("{} under {}", self.run.workload, self.run.policy));
        let body = [
            bar(self),
            "<main class=\"wrap\" id=\"main\">".to_owned(),
            hero(self),
            timeline(self, &data),
            loads(self, &data),
            moves(self),
            jobs(self),
            refusals(self),
            notes(self),
            about(self),
            "</main>".to_owned(),
            footer(self),
        ]
        .join("\n");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title} · evenkeel</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n{body}\n\
             <div id=\"tip\" class=\"tip hidden\" role=\"tooltip\"></div>\n\
             <div id=\"said\" class=\"sr\" aria-live=\"polite\"></div>\n\
             <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
            escape_json(&json),
            SCRIPTS.concat(),
        )
    }
}

fn bar(report: &Report) -> String {
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

fn hero(report: &Report) -> String {
    let run = &report.run;
    let chip = |label: &str, text: &str| {
        format!("<li class=\"chip\">{label} <b>{}</b></li>", escape(text))
    };
    let spec = if run.policy_spec.is_empty() { &run.policy } else { &run.policy_spec };
    let chips = [
        end_chip(run),
        chip("policy", spec),
        chip("seed", &run.seed.to_string()),
        chip("started", &wall_clock(run.started_unix_s)),
        chip("on", &machine_words(report)),
    ]
    .concat();
    format!(
        "<div class=\"hero\"><p class=\"eyebrow\">Run {}</p>\n<h1>{}</h1>\n\
         <ul class=\"sub\">{chips}</ul>\n{}\n{}</div>",
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
    let many = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let mut words = Vec::new();
    if machine.n_nodes != 0 {
        words.push(many(machine.n_nodes, "node"));
    }
    if machine.n_llcs != 0 {
        words.push(many(machine.n_llcs, "LLC domain"));
    }
    words.extend([many(machine.n_cores, "core"), many(machine.n_cpus, "CPU")]);
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
    let waited = totals.wait_ns.map_or("–".to_owned(), |wait| figure(&duration(wait)));
    let own = run.own_cpu_share.map_or("–".to_owned(), |share| figure(&percent(share)));
    let own_said = match (run.own_cpu_ns, run.own_max_resident_bytes) {
        (Some(cpu), Some(memory)) => {
            format!("of one CPU: {} in all, {}", duration(cpu), bytes(memory))
        }
        (Some(cpu), None) => format!("of one CPU: {} in all", duration(cpu)),
        _ => "not told by the record".to_owned(),
    };
    let migrations = totals.n_migrations.map_or("migrations not counted".to_owned(), |n| {
        format!("{} CPU migrations in all", count(n))
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
        tile("Moves by evenkeel", &count(totals.n_moves), &said(format!("{migrations}{refused}"))),
        tile(
            "CPU time of jobs",
            &figure(&duration(totals.user_ns + totals.system_ns)),
            &said(format!("{} of it in the kernel", duration(totals.system_ns))),
        ),
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
            "What {} would have decided over the recording of {original}. Nothing of it was carried out: what the jobs did is what they did then.",
            run.policy
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

fn timeline(report: &Report, data: &Data) -> String {
    let domains: Vec<&str> = data.domains().collect();
    let by_domain: String = if domains.len() <= 8 {
        let swatch = |(idx, label): (usize, &&str)| {
            format!(
                "<li><i class=\"swatch\" style=\"--c:var(--c{idx})\"></i>{}</li>",
                escape(label)
            )
        };
        domains.iter().enumerate().map(swatch).collect()
    } else {
        format!("<li>coloured and labelled by domain: {} of them</li>", domains.len())
    };
    let free =
        "<li><i class=\"swatch free\" style=\"--c:var(--muted)\"></i>where the kernel put it</li>";
    let glyphs = "<li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-move\" d=\"M7 .500l6 6.500l-6 6.500l-6-6.500z\"/></svg>moved by evenkeel</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-bad\" d=\"M3 3l8 8m0-8l-8 8\"/></svg>failed</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><rect class=\"mark-stop\" x=\"2\" y=\"2\" width=\"10\" height=\"10\" rx=\"1.500\"/></svg>ended by evenkeel</li>";
    let several = |n: usize| format!("{} {}", count(n as u64), if n == 1 { "job" } else { "jobs" });
    format!(
        "<section class=\"card\" id=\"timeline\"><header><h2>Timeline</h2><span class=\"count\">{}</span>\
         <div class=\"right\"><div class=\"seg\" id=\"by\" role=\"group\" aria-label=\"Rows\">\
         <button type=\"button\" value=\"jobs\" aria-pressed=\"true\">By job</button>\
         <button type=\"button\" value=\"cpus\" aria-pressed=\"false\">By CPU</button></div>\
         <button class=\"btn\" id=\"zoom-in\" type=\"button\" aria-label=\"Look closer\">+</button>\
         <button class=\"btn\" id=\"zoom-out\" type=\"button\" aria-label=\"Look from farther away\">−</button>\
         <button class=\"btn\" id=\"zoom-fit\" type=\"button\">All</button></div></header>\n\
         <ul class=\"legend\" id=\"legend-jobs\">{by_domain}{free}{glyphs}</ul>\
         <ul class=\"legend hidden\" id=\"legend-cpus\"><li>a bar for each job, coloured to tell neighbours apart</li>{free}</ul>\n\
         <noscript><p class=\"empty\">The timeline and the curves are drawn by scripts in this page. The tables below are complete without.</p></noscript>\
         <div class=\"axis\" id=\"axis\"></div>\
         <div class=\"rows\" id=\"rows\" tabindex=\"0\" role=\"application\" aria-label=\"Timeline. Up and down choose a row, left and right what is in it.\"><div class=\"space\" id=\"space\"></div></div>\n\
         <p class=\"hint\">Drag to look closer, double-click for all. With the keyboard: arrows.</p></section>",
        several(report.jobs.len())
    )
}

fn loads(report: &Report, data: &Data) -> String {
    let level = report.loads.level.as_deref().unwrap_or("domain");
    let head = format!("<section class=\"card\" id=\"loads\"><header><h2>Load per {level}</h2>");
    if report.loads.points.is_empty() {
        return format!(
            "{head}</header><p class=\"empty\">No load was recorded: the run was over before the first interval, or its policy looks at none.</p></section>"
        );
    }
    let domains: Vec<&str> = data.domains().collect();
    let legend: String = if domains.len() <= 8 {
        let swatch = |(idx, label): (usize, &&str)| {
            format!(
                "<li><i class=\"swatch\" style=\"--c:var(--c{idx})\"></i>{}</li>",
                escape(label)
            )
        };
        domains.iter().enumerate().map(swatch).collect()
    } else {
        "<li class=\"scale\">0 <i></i> <span id=\"scale-most\"></span></li>".to_owned()
    };
    format!(
        "{head}<span class=\"count\" id=\"load-unit\"></span><div class=\"right\">\
         <div class=\"seg\" id=\"load-what\" role=\"group\" aria-label=\"Figure\">\
         <button type=\"button\" value=\"ops\" aria-pressed=\"true\">Memory</button>\
         <button type=\"button\" value=\"cpus\" aria-pressed=\"false\">CPUs busy</button></div></div></header>\n\
         <ul class=\"legend\">{legend}</ul><div class=\"load\" id=\"load\"></div></section>"
    )
}

fn moves(report: &Report) -> String {
    let n = report.totals.n_moves;
    let head = format!(
        "<section class=\"card\" id=\"moves\"><header><h2>Moves</h2><span class=\"count\">{}</span></header>",
        count(n)
    );
    if report.moves.is_empty() {
        return format!(
            "{head}<p class=\"empty\">No running job was moved by evenkeel.</p></section>"
        );
    }
    let left_out = match report.totals.n_moves_left_out {
        0 => String::new(),
        n => format!(
            "<p class=\"lead\">The first {} are not listed; the journal has them.</p>",
            count(n)
        ),
    };
    format!(
        "{head}{left_out}<div class=\"scroll\" tabindex=\"0\">{}</div></section>",
        tables::moves(report)
    )
}

fn jobs(report: &Report) -> String {
    format!(
        "<section class=\"card\" id=\"jobs\"><header><h2>Jobs</h2><span class=\"count\" id=\"jobs-count\">{}</span>\
         <div class=\"right\"><input class=\"search\" id=\"filter\" type=\"search\" placeholder=\"Filter\" aria-label=\"Filter jobs\"></div></header>\n\
         <p class=\"lead\">Times in seconds. A dash stands for what was not measured. Open a job for its command and the reason of its place.</p>\
         <div class=\"scroll\" tabindex=\"0\">{}</div></section>",
        count(report.jobs.len() as u64),
        tables::jobs(report)
    )
}

fn refusals(report: &Report) -> String {
    if report.refusals.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"card\" id=\"refusals\"><header><h2>Refusals</h2><span class=\"count\">{}</span></header>\
         <p class=\"lead\">What was wanted and not done.</p><div class=\"scroll\" tabindex=\"0\">{}</div></section>",
        count(report.totals.n_refusals),
        tables::refusals(report)
    )
}

fn notes(report: &Report) -> String {
    let list = if report.notes.is_empty() {
        "<p class=\"empty\">Nothing out of the ordinary was said.</p>".to_owned()
    } else {
        tables::notes(&report.notes)
    };
    format!("<section class=\"card\" id=\"notes\"><header><h2>Notes</h2></header>{list}</section>")
}

/// Facts that fit nowhere else.
fn about(report: &Report) -> String {
    let (run, machine) = (&report.run, &report.machine);
    let mut facts = vec![
        ("Machine", machine.name.clone()),
        ("Memory", machine.memory_bytes.map_or("not told".to_owned(), bytes)),
        ("CPUs allowed", format!("{} of {}", machine.n_cpus_allowed, machine.n_cpus)),
        ("Placed on", run.domain_level.clone().unwrap_or_else(|| "nothing".to_owned())),
        ("Host", run.host.clone()),
        ("Made by", format!("evenkeel {}", report.tool)),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    let facts: String = facts
        .iter()
        .map(|(label, text)| format!("<div><dt>{label}</dt><dd>{}</dd></div>", escape(text)))
        .collect();
    format!(
        "<section class=\"card\"><header><h2>Machine and run</h2></header><dl class=\"facts\">{facts}</dl></section>"
    )
}

fn footer(report: &Report) -> String {
    format!(
        "<footer><div class=\"wrap\"><span>evenkeel {}</span><span>run {}</span>\
         <span>report.json beside this page has every figure, with its unit</span></div></footer>",
        escape(&report.tool),
        escape(&report.run.id)
    )
}
