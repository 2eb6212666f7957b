//! The frames of what scripts draw: the timeline and the load curves, with their legends.

use super::data::Data;
use super::escape::escape;
use crate::model::{Loads, Report};
use crate::units::{count, seconds};

/// Colours that can be told apart; further domains use them again, and have labels.
const N_COLOURS: usize = 8;
/// Curves over each other that an eye can follow; more domains are strips of shade.
const N_LINES_MAX: usize = 4;

pub(super) fn timeline(report: &Report, data: &Data) -> String {
    let domains: Vec<&str> = data.domains().collect();
    let by_domain = if domains.len() <= N_COLOURS {
        swatches(&domains)
    } else {
        format!("<li>coloured and labelled by domain: {} of them</li>", domains.len())
    };
    let free =
        "<li><i class=\"swatch free\" style=\"--c:var(--muted)\"></i>where the kernel put it</li>";
    let moved =
        if report.run.replay_of.is_some() { "would have been moved" } else { "moved by evenkeel" };
    let glyphs = format!(
        "<li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-move\" d=\"M7 .500l6 6.500l-6 6.500l-6-6.500z\"/></svg>{moved}</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-bad\" d=\"M3 3l8 8m0-8l-8 8\"/></svg>failed</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><rect class=\"mark-stop\" x=\"2\" y=\"2\" width=\"10\" height=\"10\" rx=\"1.500\"/></svg>ended by evenkeel</li>"
    );
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

pub(super) fn loads(report: &Report) -> String {
    let level = report.run.domain_level.as_deref().unwrap_or("domain");
    let head = format!(
        "<section class=\"card\" id=\"loads\"><header><h2>Load per <span id=\"load-level\">{level}</span></h2>"
    );
    if report.loads.is_empty() {
        return format!(
            "{head}</header><p class=\"empty\">No load was recorded: the run was over before the first interval, or its policy looks at none.</p></section>"
        );
    }
    let legends: String = report.loads.iter().map(legend).collect();
    format!(
        "{head}<span class=\"count\" id=\"load-unit\"></span><div class=\"right\">{}\
         <div class=\"seg\" id=\"load-what\" role=\"group\" aria-label=\"Figure\">\
         <button type=\"button\" value=\"ops\" aria-pressed=\"true\">Memory</button>\
         <button type=\"button\" value=\"cpus\" aria-pressed=\"false\">CPUs busy</button></div></div></header>\n\
         {legends}<div class=\"load\" id=\"load\"></div></section>",
        choice(&report.loads)
    )
}

/// Loads of another level or another tier cannot stand in one chart: one series is looked at at a time.
fn choice(all: &[Loads]) -> String {
    if all.len() < 2 {
        return String::new();
    }
    let option = |(idx, loads): (usize, &Loads)| {
        let (from, to) = (seconds(loads.from_ns), seconds(loads.to_ns));
        let Loads { level, tier, .. } = loads;
        format!("<option value=\"{idx}\">{level}, {tier}: {from} to {to} s</option>")
    };
    let options: String = all.iter().enumerate().map(option).collect();
    format!(
        "<select class=\"search\" id=\"load-series\" aria-label=\"What loads stand on\">{options}</select>"
    )
}

/// The legend of one series: colours of lines, or the scale of shades.
fn legend(loads: &Loads) -> String {
    let domains: Vec<&str> = loads.domains.iter().map(|domain| domain.label.as_str()).collect();
    let entries = if domains.len() <= N_LINES_MAX {
        swatches(&domains)
    } else {
        "<li class=\"scale\">0 <i></i> <span class=\"scale-most\"></span></li>".to_owned()
    };
    format!("<ul class=\"legend load-legend hidden\">{entries}</ul>")
}

/// The entries of a legend of domains.
fn swatches(domains: &[&str]) -> String {
    let swatch = |(idx, label): (usize, &&str)| {
        format!("<li><i class=\"swatch\" style=\"--c:var(--c{idx})\"></i>{}</li>", escape(label))
    };
    domains.iter().enumerate().map(swatch).collect()
}
