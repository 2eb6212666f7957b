//! The page of a comparison: who wins where, by how much, how surely, at what cost.
//!
//! ```text
//!   findings ─► heat map (policies × workloads) ─► intervals per policy ─► cost beside gain
//!      ─► slow-downs and unfairness ─► every run as a dot ─► controllers ─► tables, with links to single runs
//! ```
//!
//! One self-contained file, in the colours of a run's report. Everything is drawn here; scripts only sort
//! tables and change colours. Whatever a colour says, a mark or a figure says too.

mod boxes;
mod cost;
mod forest;
mod head;
mod heat;
mod loads;
pub(crate) mod plot;
mod seeds;
mod tables;

use super::{Comparison, VerdictWord};
use crate::html::CSS;
use crate::html::escape::escape;

/// What the charts need beyond the style of a run's report.
pub(crate) const OWN_CSS: &str = include_str!("page.css");
/// Colours, and tables that can be sorted.
const SCRIPTS: [&str; 2] =
    [include_str!("../../html/page.js"), include_str!("../../html/tables.js")];
/// The scripts of a run's page look for its data; here nothing is drawn by scripts.
const NO_DATA: &str = "{\"end\":1,\"jobs\":[]}";

impl Comparison {
    /// The page.
    pub fn to_html(&self) -> String {
        let title = escape(&format!("{} compared", head::policies_words(self)));
        let body = [
            head::bar(),
            "<main class=\"wrap\" id=\"main\">".to_owned(),
            head::hero(self),
            card("where", "Who wins where", HEAT_LEAD, &heat::map(self)),
            card("intervals", "By how much, how surely", FOREST_LEAD, &forest::panels(self)),
            card("cost", "At what cost", COST_LEAD, &cost::chart(self)),
            card("jobs", "Who bears it", BOX_LEAD, &boxes::chart(self)),
            card("runs", "From run to run", SEEDS_LEAD, &seeds::panels(self)),
            loads::panels(self).map_or(String::new(), |panels| {
                card("controllers", "How evenly memory controllers are loaded", LOADS_LEAD, &panels)
            }),
            card("figures", "All figures", FIGURES_LEAD, &tables::summary(self)),
            card("per-job", "Jobs", JOBS_LEAD, &tables::jobs(self)),
            card("about", "How it was judged", "", &head::about(self)),
            "</main>".to_owned(),
            head::footer(self),
        ]
        .join("\n");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title} · evenkeel</title>\n<style>\n{CSS}{OWN_CSS}</style>\n</head>\n<body>\n{body}\n\
             <div id=\"tip\" class=\"tip hidden\" role=\"tooltip\"></div>\n\
             <script type=\"application/json\" id=\"data\">{NO_DATA}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
            SCRIPTS.concat(),
        )
    }
}

const HEAT_LEAD: &str = "Mean whole time divided by that of the baseline on the same seeds: below 1 is faster. \
                         The mark is the verdict; the small figures are the 95 % interval.";
const FOREST_LEAD: &str = "The ratio to the baseline with its 95 % interval, one panel for each policy. An interval \
                           that touches the line at 1 claims nothing. A full dot is a verdict, an open one is none.";
const COST_LEAD: &str = "Time against the baseline over all workloads, beside what it took: how often tasks came to \
                         another CPU, how often the policy moved a running job, and memory that came to another node; a run on average.";
const BOX_LEAD: &str = "Slow-down of each job of each run: its time divided by its time alone. Unfairness of each run: \
                        its largest slow-down divided by its smallest. A box holds the middle half, the line in it is the \
                        median, the whiskers reach the ends.";
const SEEDS_LEAD: &str = "Whole time of every run in seconds, a circle for each seed; the bar is the mean. One panel for each workload.";
const LOADS_LEAD: &str = "GiB read and written in a second, a circle for each node, a run on average; the line reaches from \
                          the least to the most loaded: the shorter, the more even.";
const FIGURES_LEAD: &str = "Times in seconds. Sort by a column's head. A dash stands for what is not known. Policies whose \
                            single run was reported link to its timeline.";
const JOBS_LEAD: &str =
    "Mean time of each job in seconds and, where it was measured alone, its mean slow-down.";

fn card(id: &str, title: &str, lead: &str, inside: &str) -> String {
    let lead =
        if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{lead}</p>") };
    format!(
        "<section class=\"card\" id=\"{id}\"><header><h2>{title}</h2></header>{lead}{inside}</section>"
    )
}

/// The sign of a verdict, which says without colour what the colour says.
fn mark(word: Option<VerdictWord>) -> &'static str {
    match word {
        Some(VerdictWord::Better) => "✓",
        Some(VerdictWord::Worse) => "✕",
        Some(VerdictWord::Inconclusive) => "~",
        None => "",
    }
}

/// Its class in the style.
fn class(word: Option<VerdictWord>) -> &'static str {
    word.map_or("none", VerdictWord::word)
}

/// Seconds with about four figures that count.
fn seconds(seconds: f64) -> String {
    let digits = match seconds {
        s if s < 10.0 => 3,
        s if s < 100.0 => 2,
        s if s < 1000.0 => 1,
        _ => 0,
    };
    format!("{seconds:.digits$}")
}

/// Two ends with so many digits.
fn ends(ends: Option<&[f64]>, digits: usize) -> Option<String> {
    match ends {
        Some([low, high]) => Some(format!("{low:.digits$}–{high:.digits$}")),
        _ => None,
    }
}
