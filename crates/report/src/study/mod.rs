//! The page of a study: what a paper published, beside what came out.
//!
//! ```text
//!   verdicts at a glance ─► for each experiment: what the source says, the limit, how ours is reckoned
//!                             ─► drawings and tables ─► claims with a verdict for each reading ─► notes
//! ```
//!
//! One self-contained file, in the colours of a run's report. A drawing shows the cells of the table below it and
//! nothing else, so that both always say the same; whatever a colour says, a figure, a shape or a word says too.

mod cell;
mod draw;
mod model;
#[cfg(test)]
mod tests;

pub use model::*;

use crate::comparison::html::OWN_CSS;
use crate::html::CSS;
use crate::html::escape::escape;
use crate::html::head::{LOGO, SUN_AND_MOON};

/// How a table is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drawing {
    /// Not at all.
    #[default]
    None,
    /// Each field coloured by its value: rows × columns of one unit.
    Heat,
    /// A panel of bars for each column, each with a unit of its own.
    Bars,
    /// For each row a range, a mean with its interval or a figure of each column, on one axis.
    Intervals,
    /// The first column along the axis, a line for each of the others.
    Lines,
}

/// A study.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What was reproduced.
    pub title: String,
    /// How thoroughly, in words.
    pub facts: Vec<String>,
    /// Who made it, how and on what, each with its label; at the end.
    pub origin: Vec<(String, String)>,
    /// Said at the top, as when it was stopped.
    pub warnings: Vec<String>,
    /// The experiments.
    pub parts: Vec<Part>,
}

/// An experiment.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What the source says, the limit, how ours is reckoned, each with its label.
    pub facts: Vec<(String, String)>,
    /// Figures.
    pub grids: Vec<Grid>,
    /// Verdicts.
    pub claims: Vec<Judged>,
    /// What is to be known beside it.
    pub notes: Vec<String>,
}

/// Figures in rows.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// What they are.
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// As many cells as heads.
    pub rows: Vec<Vec<String>>,
    /// How they are drawn.
    pub drawing: Drawing,
}

/// A claim.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// What is claimed.
    pub claim: String,
    /// Under which rules.
    pub reading: String,
    /// What came out.
    pub found: String,
    /// What follows, in words.
    pub verdict: String,
    /// A sign for it, and its class in the style: `✓` and `better`.
    pub mark: (&'static str, &'static str),
}

/// Scripts of the page: its colours.
const SCRIPTS: &str = include_str!("../html/page.js");
/// What the drawings need beyond the style of comparisons.
const STUDY_CSS: &str = include_str!("page.css");

impl Page {
    /// The page.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let links: String = self
            .parts
            .iter()
            .map(|part| format!("<a href=\"#{0}\">{0}</a>", escape(&part.name)))
            .collect();
        let parts: String = self.parts.iter().map(part).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title} · evenkeel</title>\n<style>\n{CSS}{OWN_CSS}{STUDY_CSS}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the study</a>\n\
             <div class=\"bar\"><div class=\"wrap\"><div class=\"brand\">{LOGO}evenkeel</div>\
             <nav aria-label=\"Experiments\">{links}</nav>\
             <button class=\"icon\" id=\"theme\" type=\"button\" aria-label=\"Change colours\">{SUN_AND_MOON}</button></div></div>\n\
             <main class=\"wrap\" id=\"main\">\n{}\n{parts}</main>\n\
             <footer><div class=\"wrap\"><dl class=\"facts\">{}</dl></div></footer>\n\
             <div id=\"tip\" class=\"tip hidden\" role=\"tooltip\"></div>\n\
             <script type=\"application/json\" id=\"data\">{{\"end\":1,\"jobs\":[]}}</script>\n<script>\n{SCRIPTS}</script>\n</body>\n</html>\n",
            self.hero(),
            facts(&self.origin)
        )
    }

    fn hero(&self) -> String {
        let chips: String = self
            .facts
            .iter()
            .map(|fact| format!("<li class=\"chip\">{}</li>", escape(fact)))
            .collect();
        let warn = |text: &String| {
            format!("<div class=\"callout warn\"><b>Note</b><span>{}</span></div>\n", escape(text))
        };
        let warnings: String = self.warnings.iter().map(warn).collect();
        let rows: String = self.parts.iter().map(glance).collect();
        format!(
            "<div class=\"hero\"><p class=\"eyebrow\">What a paper published, and what comes out here</p>\n\
             <h1>{}</h1>\n<ul class=\"sub\">{chips}</ul>\n{warnings}<ul class=\"findings\">\n{rows}</ul></div>",
            escape(&self.title)
        )
    }
}

/// How many claims of an experiment came to each verdict.
fn glance(part: &Part) -> String {
    let mut counts: Vec<(&str, (&str, &str), usize)> = Vec::new();
    for claim in &part.claims {
        match counts.iter_mut().find(|(verdict, ..)| *verdict == claim.verdict) {
            Some((.., n)) => *n += 1,
            None => counts.push((&claim.verdict, claim.mark, 1)),
        }
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(verdict, (sign, class), n)| {
            format!("<span class=\"verdict {class}\">{sign} {n} {}</span>", escape(verdict))
        })
        .collect();
    format!(
        "<li><span><a href=\"#{0}\"><b>{0}</b></a> {1}: {2}</span></li>\n",
        escape(&part.name),
        escape(&part.title),
        if words.is_empty() { "nothing is claimed".to_owned() } else { words.join(", ") }
    )
}

fn part(part: &Part) -> String {
    let facts = facts(&part.facts);
    let grids: String = part.grids.iter().map(grid).collect();
    let notes: String =
        part.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul class=\"notes\">{notes}</ul>") };
    format!(
        "<section class=\"card\" id=\"{0}\"><header><h2>{0}: {1}</h2></header>\
         <dl class=\"facts\">{facts}</dl>{grids}{2}{notes}</section>\n",
        escape(&part.name),
        escape(&part.title),
        claims(&part.claims)
    )
}

/// Words, each with its label.
fn facts(facts: &[(String, String)]) -> String {
    let fact = |(label, text): &(String, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(text))
    };
    facts.iter().map(fact).collect()
}

fn grid(grid: &Grid) -> String {
    let heads: String =
        grid.heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
            _ => format!("<td>{}</td>", escape(cell)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = grid.rows.iter().map(row).collect();
    let table = format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    );
    let drawing = draw::drawing(grid);
    let figures = if drawing.is_empty() {
        table
    } else {
        format!("{drawing}<details><summary>The figures</summary>{table}</details>")
    };
    format!("<h3>{}</h3>{figures}", escape(&grid.title))
}

fn claims(claims: &[Judged]) -> String {
    let row = |claim: &Judged| {
        let (sign, class) = claim.mark;
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"verdict {class}\">{sign} {}</td></tr>\n",
            escape(&claim.claim),
            escape(&claim.reading),
            escape(&claim.found),
            escape(&claim.verdict)
        )
    };
    if claims.is_empty() {
        return String::new();
    }
    let rows: String = claims.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">Reading</th>\
         <th scope=\"col\">Found</th><th scope=\"col\">Verdict</th></tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )
}
