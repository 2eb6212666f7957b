//! One self-contained page: no network, no fonts, nothing beside the file.
//!
//! ```text
//!   key figures ─► timeline (by job, by CPU) ─► load per domain ─► moves ─► jobs ─► refusals, notes, facts
//!                  drawn by scripts from a JSON in the page        complete without scripts
//! ```
//!
//! The page has a content security policy that lets nothing be loaded. Everything that comes from
//! a workload is escaped here or goes through `textContent` there.

mod charts;
mod data;
pub(crate) mod escape;
mod facts;
pub(crate) mod head;
mod tables;

use crate::model::Report;
use crate::units::{bytes, count};
use charts::{loads, timeline};
use data::Data;
use escape::{escape, escape_json};
use head::{bar, hero};

pub(crate) const CSS: &str = include_str!("page.css");
/// In the order in which they build on each other.
const SCRIPTS: [&str; 5] = [
    include_str!("page.js"),
    include_str!("select.js"),
    include_str!("timeline.js"),
    include_str!("loads.js"),
    include_str!("tables.js"),
];

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
            loads(self),
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

fn moves(report: &Report) -> String {
    let n = report.totals.n_moves;
    let (n, title) = match report.run.replay_of {
        None => (n, "Moves"),
        Some(_) => (report.totals.n_wishes, "Moves that would have been made"),
    };
    let head = format!(
        "<section class=\"card\" id=\"moves\"><header><h2>{title}</h2><span class=\"count\">{}</span></header>",
        count(n)
    );
    if report.moves.is_empty() {
        return format!(
            "{head}<p class=\"empty\">{}</p></section>",
            match report.run.replay_of {
                None => "No running job was moved by evenkeel.",
                Some(_) => "The policy would have moved no running job.",
            }
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
