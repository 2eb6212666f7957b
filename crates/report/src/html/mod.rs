//! The report as one self-contained HTML page: no network access, no fonts, no other files.
//!
//! ```text
//!   key figures ─► timeline (by job, by CPU) ─► load per domain ─► moves ─► jobs ─► rejections, notes, facts
//!                  drawn by scripts from JSON in the page           complete without scripts
//! ```
//!
//! The content security policy of the page forbids all loads. All text from a workload is escaped here
//! or set by `textContent` in the scripts.

mod charts;
mod data;
pub(crate) mod escape;
mod facts;
pub(crate) mod head;
mod tables;

use crate::format::{bytes, count};
use crate::model::Report;
use charts::{loads, timeline};
use data::Data;
use escape::{escape, escape_json};
use head::{bar, hero};

pub(crate) const CSS: &str = include_str!("page.css");
/// In the order of their dependencies.
const SCRIPTS: [&str; 5] = [
    include_str!("page.js"),
    include_str!("select.js"),
    include_str!("timeline.js"),
    include_str!("loads.js"),
    include_str!("tables.js"),
];

impl Report {
    /// One HTML document.
    pub fn to_html(&self) -> String {
        let data = Data::new(self);
        let json = serde_json::to_string(&data);
        let json = json.expect("numbers, strings and lists always have a JSON form");
        let title = escape(&format!("{} under {}", self.run.workload, self.run.policy));
        let body = [
            bar(self),
            "<main class=\"wrap\" id=\"main\">".to_owned(),
            hero(self),
            timeline(self, &data),
            loads(self),
            moves(self),
            jobs(self),
            rejections(self),
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
             <div id=\"announcement\" class=\"sr\" aria-live=\"polite\"></div>\n\
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
        Some(_) => (report.totals.n_would_move, "Requested moves (not carried out)"),
    };
    let head = format!(
        "<section class=\"card\" id=\"moves\"><header><h2>{title}</h2><span class=\"count\">{}</span></header>",
        count(n)
    );
    if report.moves.is_empty() {
        return format!(
            "{head}<p class=\"empty\">{}</p></section>",
            match report.run.replay_of {
                None => "evenkeel moved no running job.",
                Some(_) => "The policy requested no move of a running job.",
            }
        );
    }
    let omitted = match report.totals.n_moves_omitted {
        0 => String::new(),
        n => format!(
            "<p class=\"lead\">The first {} are not listed; the journal has them.</p>",
            count(n)
        ),
    };
    format!(
        "{head}{omitted}<div class=\"scroll\" tabindex=\"0\">{}</div></section>",
        tables::moves(report)
    )
}

fn jobs(report: &Report) -> String {
    format!(
        "<section class=\"card\" id=\"jobs\"><header><h2>Jobs</h2><span class=\"count\" id=\"jobs-count\">{}</span>\
         <div class=\"right\"><input class=\"search\" id=\"filter\" type=\"search\" placeholder=\"Filter\" aria-label=\"Filter jobs\"></div></header>\n\
         <p class=\"lead\">Times in seconds. A dash is a value that was not measured. Open a job for its command and the reason of its placement.</p>\
         <div class=\"scroll\" tabindex=\"0\">{}</div></section>",
        count(report.jobs.len() as u64),
        tables::jobs(report)
    )
}

fn rejections(report: &Report) -> String {
    if report.rejections.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"card\" id=\"rejections\"><header><h2>Rejections</h2><span class=\"count\">{}</span></header>\
         <p class=\"lead\">Requests that the guard or the kernel rejected.</p><div class=\"scroll\" tabindex=\"0\">{}</div></section>",
        count(report.totals.n_rejections),
        tables::rejections(report)
    )
}

fn notes(report: &Report) -> String {
    let list = if report.notes.is_empty() {
        "<p class=\"empty\">No notes.</p>".to_owned()
    } else {
        tables::notes(&report.notes)
    };
    format!("<section class=\"card\" id=\"notes\"><header><h2>Notes</h2></header>{list}</section>")
}

/// The remaining fields of the run and the machine.
fn about(report: &Report) -> String {
    let (run, machine) = (&report.run, &report.machine);
    let mut facts = vec![
        ("Machine", machine.name.clone()),
        ("Memory", machine.memory_bytes.map_or("unknown".to_owned(), bytes)),
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
         <span>report.json in the same folder has all values with their units</span></div></footer>",
        escape(&report.tool),
        escape(&report.run.id)
    )
}
