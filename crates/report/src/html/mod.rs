//! The report as one self-contained HTML page: no network access, no fonts, no other files.
//!
//! ```text
//!   totals ─► timeline (by job, by CPU) ─► load per domain ─► moves ─► jobs ─► rejections, notes, facts
//!                  drawn by scripts from JSON in the page           complete without scripts
//! ```
//!
//! The content security policy of the page forbids loading other files. All text from a workload is escaped here or set
//! by `textContent` in the scripts.

mod charts;
mod data;
mod facts;
mod head;
mod linux_run;
mod tables;

use crate::chart;
use crate::format::{bytes, count};
use crate::model::{CoreKindRow, Report};
use crate::page::{self, Document, card, card_with_header, count_badge, empty, escape, links};
use charts::{loads, timeline};
use data::ChartData;

/// Scripts of the page, in the order of their dependencies.
const SCRIPTS: [&str; 4] =
    [page::PAGE_SCRIPT, include_str!("select.js"), include_str!("timeline.js"), page::TABLE_SCRIPT];
/// Draws the loads; only in a page with loads.
const LOADS_SCRIPT: &str = include_str!("loads.js");

impl Report {
    /// Returns the page as one HTML document.
    pub fn to_html(&self) -> String {
        let data = ChartData::new(self);
        let json = base::json::to_line(&data);
        let json = json.expect("numbers, strings and lists always have a JSON form");
        let of_loads = (!self.loads.is_empty()).then_some(LOADS_SCRIPT);
        let scripts: Vec<&str> = SCRIPTS.into_iter().chain(of_loads).collect();
        let mut links = links(&[
            ("timeline", "Timeline"),
            ("loads", "Load"),
            ("moves", "Moves"),
            ("jobs", "Jobs"),
        ]);
        if self.linux.is_some() {
            links.insert(0, ("linux".to_owned(), "Under linux".to_owned()));
        }
        if !self.rejections.is_empty() {
            links.push(("rejections".to_owned(), "Rejections".to_owned()));
        }
        links.push(("notes".to_owned(), "Notes".to_owned()));
        let (tool, run) = (escape(&self.tool), escape(&self.run.id));
        let document = Document {
            title: format!("{} under {}", self.run.workload, self.run.policy),
            styles: &[chart::CSS],
            scripts: Some((&scripts, &json)),
            links,
            sections: vec![
                head::head(self),
                linux_run::section(self),
                timeline(self, &data),
                loads(self),
                moves(self),
                jobs(self),
                rejections(self),
                notes(self),
                about(self),
            ],
            footer: format!(
                "<span>evenkeel {tool}</span><span>run {run}</span>\
                 <span>report.json in the same directory has all values with their units</span>"
            ),
        };
        document.to_html()
    }
}

fn moves(report: &Report) -> String {
    let totals = &report.totals;
    let (heading, none) = match report.run.replay_of {
        None => ("Moves and releases", "evenkeel moved no running job."),
        Some(_) => {
            ("Requested moves (not carried out)", "The policy requested no move of a running job.")
        }
    };
    let n = report.moves.len() as u64 + totals.n_moves_omitted;
    let lead = match totals.n_moves_omitted {
        0 => String::new(),
        n => format!("The first {} are not listed; the journal has them.", count(n)),
    };
    let content = if report.moves.is_empty() { empty(none) } else { tables::moves(report) };
    card_with_header("moves", heading, &count_badge(&count(n)), &lead, &content)
}

fn jobs(report: &Report) -> String {
    let header = format!(
        "<span class=\"count\" id=\"jobs-count\">{}</span>\
         <div class=\"right\"><input class=\"search\" id=\"filter\" type=\"search\" placeholder=\"Filter\" aria-label=\"Filter jobs\"></div>",
        count(report.jobs.len() as u64)
    );
    let lead = "Times in seconds. A dash is a value that was not measured. Open a job for its command and the \
                reason of its placement.";
    card_with_header("jobs", "Jobs", &header, lead, &tables::jobs(report))
}

fn rejections(report: &Report) -> String {
    if report.rejections.is_empty() {
        return String::new();
    }
    let header = count_badge(&count(report.totals.n_rejections));
    let lead = "Requests that the guard or the kernel rejected.";
    card_with_header("rejections", "Rejections", &header, lead, &tables::rejections(report))
}

fn notes(report: &Report) -> String {
    let is_empty = report.notes.is_empty();
    let list = if is_empty { empty("No notes.") } else { tables::notes(&report.notes) };
    card("notes", "Notes", "", &list)
}

/// Returns `4 fast: cpus 0-3; 4 slow: cpus 4-7`.
fn core_kinds(kinds: &[CoreKindRow]) -> String {
    let kind = |kind: &CoreKindRow| format!("{} {}: cpus {}", kind.n_cores, kind.name, kind.cpus);
    kinds.iter().map(kind).collect::<Vec<_>>().join("; ")
}

/// Returns the remaining fields of the run and the machine.
fn about(report: &Report) -> String {
    let (run, machine) = (&report.run, &report.machine);
    let mut facts = vec![
        ("Machine", machine.name.clone()),
        ("Core kinds", core_kinds(&machine.core_kinds)),
        ("Memory", machine.memory_bytes.map_or("unknown".to_owned(), bytes)),
        ("CPUs allowed", format!("{} of {}", machine.n_cpus_allowed, machine.n_cpus)),
        ("Domain level", run.domain_level.clone().unwrap_or_else(|| "none".to_owned())),
        ("Host", run.host.clone()),
        ("Version", format!("evenkeel {}", report.tool)),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    card("about", "Machine and run", "", &page::facts(&facts))
}
