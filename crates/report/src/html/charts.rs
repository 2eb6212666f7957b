//! The frames of the charts that scripts draw: the timeline and the load curves, with their legends.

use super::data::ChartData;
use crate::format::{counted, seconds};
use crate::model::{LoadSeries, Report};
use crate::page::{card_with_header, count_badge, empty, escape};

/// Number of distinguishable colours. Further domains reuse these colours and have labels.
const N_COLOURS: usize = 8;
/// Number of overlapping curves; more domains are drawn as heat strips.
const N_LINES_MAX: usize = 4;

pub(super) fn timeline(report: &Report, data: &ChartData) -> String {
    let domains: Vec<&str> = data.domains().collect();
    let by_domain = if domains.len() <= N_COLOURS {
        swatches(&domains)
    } else {
        format!("<li>coloured and labelled by domain: {} of them</li>", domains.len())
    };
    let binding = |class: &str, text: &str| {
        format!("<li><i class=\"swatch{class}\" style=\"--c:var(--muted)\"></i>{text}</li>")
    };
    let bindings = [
        binding("", "bound to exactly the drawn CPUs"),
        binding(" among", "bound to a set of CPUs that contains the drawn ones"),
        binding(" free", "not bound by evenkeel"),
    ]
    .concat();
    let moved = if report.run.replay_of.is_some() { "requested move" } else { "moved by evenkeel" };
    let glyphs = format!(
        "<li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-move\" d=\"M7 .500l6 6.500l-6 6.500l-6-6.500z\"/></svg>{moved}</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-bad\" d=\"M3 3l8 8m0-8l-8 8\"/></svg>failed or OOM-killed</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><path class=\"mark-limit\" d=\"M1.500 1.500h11l-11 11h11z\"/></svg>timed out</li>\
                  <li><svg class=\"glyph\" viewBox=\"0 0 14 14\"><rect class=\"mark-stop\" x=\"2\" y=\"2\" width=\"10\" height=\"10\" rx=\"1.500\"/></svg>stopped by evenkeel</li>"
    );
    let n_jobs = counted(report.jobs.len(), "job");
    let header = format!(
        "{}<div class=\"right\"><input class=\"search\" id=\"find\" type=\"search\" placeholder=\"Find jobs\" aria-label=\"Find jobs by name or state\">\
         <div class=\"seg\" id=\"by\" role=\"group\" aria-label=\"Rows\">\
         <button type=\"button\" value=\"jobs\" aria-pressed=\"true\">By job</button>\
         <button type=\"button\" value=\"names\" aria-pressed=\"false\">By name</button>\
         <button type=\"button\" value=\"cpus\" aria-pressed=\"false\">By CPU</button></div>\
         <button class=\"btn\" id=\"zoom-in\" type=\"button\" aria-label=\"Zoom in\">+</button>\
         <button class=\"btn\" id=\"zoom-out\" type=\"button\" aria-label=\"Zoom out\">−</button>\
         <button class=\"btn\" id=\"zoom-fit\" type=\"button\">All</button></div>",
        count_badge(&n_jobs)
    );
    let content = format!(
        "<ul class=\"legend\" id=\"legend-jobs\">{by_domain}{bindings}{glyphs}</ul>\
         <ul class=\"legend hidden\" id=\"legend-cpus\"><li>one bar per job; colours distinguish adjacent jobs</li>{bindings}</ul>\n\
         <noscript><p class=\"empty\">The timeline and the curves need JavaScript. The tables below are complete without it.</p></noscript>\
         <div class=\"axis\" id=\"axis\"></div>\
         <div class=\"rows\" id=\"rows\" tabindex=\"0\" role=\"application\" aria-label=\"Timeline. Up and down select a row, left and right an entry of it.\"><div class=\"space\" id=\"space\"></div></div>\n\
         <p class=\"hint\">Horizontal axis: time since the start of the run. Drag to zoom in, double-click to show all. Keyboard: arrow keys.</p>"
    );
    card_with_header("timeline", "Timeline", &header, "", &content)
}

pub(super) fn loads(report: &Report) -> String {
    let level = report.run.domain_level.as_deref().unwrap_or("domain");
    let heading = format!("Load per <span id=\"load-level\">{level}</span>");
    if report.loads.is_empty() {
        let none = "No load was recorded: the run ended before the first interval, or its policy uses no loads.";
        return card_with_header("loads", &heading, "", "", &empty(none));
    }
    let legends: String = report.loads.iter().map(legend).collect();
    let points = report.loads.iter().flat_map(|series| &series.points);
    let is_known = points.flat_map(|point| &point.ops_per_s).any(Option::is_some);
    let choice = if is_known { "seg" } else { "seg hidden" };
    let header = format!(
        "<span class=\"count\" id=\"load-unit\"></span><div class=\"right\">{}\
         <div class=\"{choice}\" id=\"load-what\" role=\"group\" aria-label=\"Value\">\
         <button type=\"button\" value=\"ops\" aria-pressed=\"true\">Memory</button>\
         <button type=\"button\" value=\"cpus\" aria-pressed=\"false\">CPUs busy</button></div></div>",
        series_select(&report.loads)
    );
    let content = format!("{legends}<div class=\"load\" id=\"load\"></div>");
    card_with_header("loads", &heading, &header, "", &content)
}

/// Returns the selection of the load series. Loads of different levels or tiers have different units, so the chart
/// draws one series at a time.
fn series_select(all: &[LoadSeries]) -> String {
    if all.len() < 2 {
        return String::new();
    }
    let option = |(idx, loads): (usize, &LoadSeries)| {
        let (from, to) = (seconds(loads.from_ns), seconds(loads.to_ns));
        let LoadSeries { level, tier, .. } = loads;
        format!("<option value=\"{idx}\">{level}, {tier}: {from} to {to} s</option>")
    };
    let options: String = all.iter().enumerate().map(option).collect();
    format!(
        "<select class=\"search\" id=\"load-series\" aria-label=\"Source of the loads\">{options}</select>"
    )
}

/// Returns the legend of one series: colours of lines, or the scale of shades.
fn legend(loads: &LoadSeries) -> String {
    let domains: Vec<&str> = loads.domains.iter().map(|domain| domain.label.as_str()).collect();
    let entries = if domains.len() <= N_LINES_MAX {
        swatches(&domains)
    } else {
        "<li class=\"scale\">0 <i></i> <span class=\"scale-most\"></span></li>".to_owned()
    };
    format!("<ul class=\"legend load-legend hidden\">{entries}</ul>")
}

/// Returns the entries of a legend of domains.
fn swatches(domains: &[&str]) -> String {
    let swatch = |(idx, label): (usize, &&str)| {
        format!("<li><i class=\"swatch\" style=\"--c:var(--c{idx})\"></i>{}</li>", escape(label))
    };
    domains.iter().enumerate().map(swatch).collect()
}
