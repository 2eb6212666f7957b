//! The page of a profile: what a program does to caches and memory, as pictures.
//!
//! ```text
//!   key figures ─► misses over cache size ─► addresses of a stretch ─► lines by window ─► reuse ─► table
//! ```
//!
//! One self-contained file in the colours of a run's report, without any script. The addresses of a
//! stretch and what of them is used again is what figure 6 of the divided-scheduling paper shows by hand.

mod charts;
mod svg;

use profiler::{AccessPattern, Window};
use program::Profile;
use program::profile::{Phase, ProfileValue};

use crate::html::CSS;
use crate::html::escape::escape;
use crate::html::head::LOGO;

/// The page; `notes` are whole sentences that must be read before the figures are believed.
pub fn page(
    profile: &Profile,
    windows: &[Window],
    view: &AccessPattern,
    notes: &[String],
) -> String {
    let title = escape(&profile.name);
    let body = [
        hero(profile, windows, view, notes),
        card("Misses over cache size", CURVE_LEAD, &charts::curves(profile)),
        card("Addresses of a stretch", &stretch_lead(view), &charts::stretch(view)),
        card("Lines by window", WINDOWS_LEAD, &charts::lines_by_window(windows)),
        card("Reuse distances", REUSE_LEAD, &charts::reuse(windows)),
        card("Figures", FIGURES_LEAD, &table(profile)),
    ]
    .join("\n");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <title>{title} · profile · evenkeel</title>\n<style>\n{CSS}{OWN_CSS}</style>\n</head>\n<body>\n\
         <div class=\"bar\"><div class=\"wrap\"><div class=\"brand\">{LOGO}evenkeel</div></div></div>\n\
         <main class=\"wrap\" id=\"main\">\n{body}\n</main>\n\
         <footer><div class=\"wrap\"><span>{}</span></div></footer>\n</body>\n</html>\n",
        escape(&profile.made_by)
    )
}

const OWN_CSS: &str =
    "svg.chart { display: block; width: 100%; height: auto; padding: 0 20px 18px; }
svg.chart text { font: 12px system-ui, sans-serif; fill: var(--muted); }
svg.chart .grid { stroke: var(--line); stroke-width: 1; }
svg.chart .band { opacity: .18; }
svg.chart .read { fill: var(--c0); }
svg.chart .write { fill: var(--c5); }
svg.chart .bar0 { fill: var(--c2); }
@media (max-width: 620px) {
  .wide { overflow-x: auto; }
  svg.chart { width: 720px; padding: 0 14px 14px; }
  svg.chart text { font-size: 15px; }
}
";

const CURVE_LEAD: &str = "Misses (line) and write-backs (dashed) per 1000 instructions in a cache of that size, \
                          by phase; the band is the error.";
const WINDOWS_LEAD: &str = "Some of the lines that each window used, always the same choice of lines; gaps in the \
                            addresses are left out. A row that goes on is a line that is used again and again, a slope is a stream.";
const REUSE_LEAD: &str = "How many other lines were used between two uses of a line, in all windows; the last bar \
                          are first uses.";
const FIGURES_LEAD: &str = "A dash stands for what is not known.";

fn card(title: &str, lead: &str, inside: &str) -> String {
    format!(
        "<section class=\"card\"><header><h2>{title}</h2></header><p class=\"lead\">{}</p>{inside}</section>",
        escape(lead)
    )
}

fn stretch_lead(view: &AccessPattern) -> String {
    let unit = match view.lines_per_work() {
        Some(1) => "A round of its innermost loop uses 1 data line.".to_owned(),
        Some(n) => format!("A round of its innermost loop uses {n} data lines."),
        None => "It has no loop in this stretch.".to_owned(),
    };
    format!(
        "Every data reference of a short stretch, in order; gaps in the addresses are left out. {unit}"
    )
}

fn hero(profile: &Profile, windows: &[Window], view: &AccessPattern, notes: &[String]) -> String {
    let command = profile.command.join(" ");
    let class = profile.class.map_or("–".to_owned(), |(class, _)| class.number().to_string());
    let at = profile.class_cache.map_or(String::new(), |size| format!("with {size} of cache"));
    let cpi = profile.phases.first().and_then(|phase| phase.cycles_per_instruction);
    let again: f64 = windows.iter().map(|window| window.n_reused).sum();
    let lines: f64 = windows.iter().map(|window| window.n_lines).sum();
    let again =
        if lines == 0.0 { "–".to_owned() } else { format!("{:.0} %", again / lines * 100.0) };
    let share =
        profile.covered.map_or("–".to_owned(), |share| format!("{:.2} %", share.value() * 100.0));
    let tiles = [
        tile("Class", &class, &at),
        tile("Cycles per instruction", &number(cpi), cpi.map_or("", |cpi| cpi.source.word())),
        tile("Covered", &share, "of the run's instructions"),
        tile("Windows", &windows.len().to_string(), "measured"),
        tile("Lines used again", &again, "in a window, after 64 others or more"),
        tile(
            "Unit of work",
            &view.lines_per_work().map_or("–".to_owned(), |n| n.to_string()),
            "data lines a round",
        ),
    ];
    let callouts: String = notes
        .iter()
        .map(|note| {
            format!("<div class=\"callout\"><b>Note</b><span>{}</span></div>", escape(note))
        })
        .collect();
    format!(
        "<div class=\"hero\"><p class=\"eyebrow\">Profile</p>\n<h1>{}</h1>\n\
         <ul class=\"sub\"><li class=\"chip mono\">{}</li></ul>\n<dl class=\"tiles\">{}</dl>\n{callouts}</div>",
        escape(&profile.name),
        escape(&command),
        tiles.concat()
    )
}

fn tile(label: &str, figure: &str, below: &str) -> String {
    let (figure, below) = (escape(figure), escape(below));
    format!("<div class=\"tile\"><dt>{label}</dt><dd>{figure}</dd><p>{below}</p></div>")
}

fn number(figure: Option<ProfileValue>) -> String {
    figure.map_or("–".to_owned(), |figure| format!("{:.2}", figure.value()))
}

/// A phase a row.
fn table(profile: &Profile) -> String {
    let bytes = |figure: Option<ProfileValue>| {
        figure.map_or("–".to_owned(), |figure| base::Bytes(figure.value() as u64).to_string())
    };
    let row = |(idx, phase): (usize, &Phase)| {
        let cells = [
            (idx + 1).to_string(),
            format!("{:.1} %", phase.share.value() * 100.0),
            number(phase.cycles_per_instruction),
            number(phase.llc_accesses),
            bytes(phase.footprint_bytes),
            bytes(phase.working_set_bytes),
            phase.bandwidth.map_or("–".to_owned(), |_| format!("{}/s", bytes(phase.bandwidth))),
        ];
        let cells = cells.map(|cell| format!("<td class=\"num\">{cell}</td>"));
        format!("<tr>{}</tr>", cells.concat())
    };
    let rows: String = profile.phases.iter().enumerate().map(row).collect();
    let heads = [
        "Phase",
        "Share",
        "Cycles per instruction",
        "LLC accesses per 1000",
        "Touches",
        "Works on",
        "Bandwidth",
    ];
    let heads = heads.map(|head| format!("<th class=\"num\">{head}</th>"));
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"data\"><thead><tr>{}</tr></thead><tbody>{rows}</tbody></table></div>",
        heads.concat()
    )
}
