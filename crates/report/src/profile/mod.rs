//! The page of a profile: the caches and the memory that a program uses.
//!
//! ```text
//!   key values ─► misses over cache size ─► access pattern ─► lines by window ─► reuse distances ─► table
//! ```
//!
//! The page is one self-contained file without scripts.

mod charts;

use profiler::{AccessPattern, Window};
use program::Profile;
use program::profile::{Phase, ProfileValue};

use crate::chart;
use crate::format::{ABSENT, fixed, or_absent, percent};
use crate::page::{Document, callout, card, escape, hero, repeat_command, tile};
use crate::table::{Align, ReportTable};

/// Returns the page as one HTML document. `notes` are sentences that qualify the values, `command` repeats the
/// measurement.
pub fn page(
    profile: &Profile,
    windows: &[Window],
    pattern: &AccessPattern,
    notes: &[String],
    command: Option<&str>,
) -> String {
    let repeat = repeat_command(command);
    let document = Document {
        title: format!("{} · profile", profile.name),
        styles: &[chart::CSS],
        sections: vec![
            head(profile, windows, pattern, notes) + &repeat,
            card("misses", "Misses over cache size", MISSES_LEAD, &charts::misses(profile)),
            card("pattern", "Access pattern", &pattern_lead(pattern), &charts::pattern(pattern)),
            card("windows", "Lines by window", WINDOWS_LEAD, &charts::lines_by_window(windows)),
            card("reuse", "Reuse distances", REUSE_LEAD, &charts::reuse_distances(windows)),
            card("values", "Values", "A dash is an unknown value.", &phase_table(profile)),
        ],
        footer: format!("<span>{}</span>", escape(&profile.tool)),
        ..Document::default()
    };
    document.to_html()
}

const MISSES_LEAD: &str = "Misses (solid) and write-backs (dashed) per 1000 instructions in a cache of this size, by \
                           phase; the band is the error.";
const WINDOWS_LEAD: &str = "A fixed selection of the lines that each window uses; gaps between addresses are omitted. A \
                            horizontal row is a line that is used repeatedly, a slope is a stream.";
const REUSE_LEAD: &str = "Number of other lines between two uses of a line, in all windows; the last bar has the \
                          first uses.";

fn pattern_lead(pattern: &AccessPattern) -> String {
    let work = match pattern.lines_per_iteration() {
        Some(n) => format!(
            "An iteration of the innermost loop uses {}.",
            base::counted_noun(n, "data line")
        ),
        None => "No loop was found.".to_owned(),
    };
    format!(
        "All data references of a short interval, in order; gaps between addresses are omitted. {work}"
    )
}

fn head(
    profile: &Profile,
    windows: &[Window],
    pattern: &AccessPattern,
    notes: &[String],
) -> String {
    let below = |text: &str| escape(text);
    let class = profile.class.map(|(class, _)| class.number().to_string());
    let cache = profile.class_cache.map_or(String::new(), |size| format!("with {size} of cache"));
    let cpi = profile.phases.first().and_then(|phase| phase.cycles_per_instruction);
    let n_reused: f64 = windows.iter().map(|window| window.n_reused).sum();
    let n_lines: f64 = windows.iter().map(|window| window.n_lines).sum();
    let reused = (n_lines != 0.0).then(|| percent(n_reused / n_lines));
    let covered = profile.covered.map(|share| percent(share.value()));
    let work = pattern.lines_per_iteration().map(|n| n.to_string());
    let value = |value: Option<String>| escape(&value.unwrap_or("–".to_owned()));
    let tiles = [
        tile("Class", &value(class), &below(&cache)),
        tile(
            "Cycles per instruction",
            &value(cpi.map(|cpi| fixed(cpi.value(), 2))),
            &below(cpi.map_or("", |cpi| cpi.source.word())),
        ),
        tile("Covered", &value(covered), &below("of the instructions of the run")),
        tile("Windows", &windows.len().to_string(), &below("measured")),
        tile("Lines reused", &value(reused), &below("within a window, after at least 64 others")),
        tile("Iteration", &value(work), &below("data lines of the innermost loop")),
    ];
    let notes: String = notes.iter().map(|note| callout("", "Note", note)).collect();
    let command = format!("<li class=\"chip mono\">{}</li>", escape(&profile.command.join(" ")));
    let content = format!("<dl class=\"tiles\">{}</dl>\n{notes}", tiles.concat());
    hero("Profile", &profile.name, &command, &content)
}

fn phase_table(profile: &Profile) -> String {
    let number = |value: Option<ProfileValue>| or_absent(value, |value| fixed(value.value(), 2));
    let bytes = |value: Option<ProfileValue>| {
        or_absent(value, |value| base::Bytes(value.value() as u64).to_string())
    };
    let heads = [
        "Phase",
        "Share",
        "Cycles per instruction",
        "LLC accesses per 1000",
        "Footprint",
        "Working set",
        "Bandwidth",
    ];
    let mut table = ReportTable::new(heads.map(|head| (head, Align::Right)));
    for (idx, phase) in profile.phases.iter().enumerate() {
        let Phase { bandwidth, .. } = phase;
        table.row([
            (idx + 1).to_string(),
            percent(phase.share.value()),
            number(phase.cycles_per_instruction),
            number(phase.llc_accesses),
            bytes(phase.footprint_bytes),
            bytes(phase.working_set_bytes),
            bandwidth.map_or(ABSENT.to_owned(), |_| format!("{}/s", bytes(*bandwidth))),
        ]);
    }
    table.to_html("", "data", "Values of each phase")
}
