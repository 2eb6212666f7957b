//! What is told of a profile that was measured: a table with a sketch, or JSON.

use std::fmt::Write;
use std::path::Path;

use linux::child_exit::ChildStatus;
use program::Profile;
use program::profile::{Figure, Phase};
use serde_json::{Value, json};
use trace::{CurveFound, View, Window};

use super::assemble::Learnt;
use super::child::{Run, Why};
use super::sketch;
use super::target::Target;
use super::tools::Traced;

/// What is worth knowing beside the figures.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Whole sentences.
    pub notes: Vec<String>,
    /// What was assumed of the machine.
    pub assumed: Vec<String>,
    /// How the program ended when it ran alone.
    pub ended: Option<ChildStatus>,
}

/// Fewer references than this say little.
const FEW_REFERENCES: u64 = 1_000_000;

impl Account {
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// What a counted run has to say.
    pub(super) fn counted(&mut self, run: &Run) {
        match run.why {
            Why::Ended => self.ended = Some(run.reaped.status),
            Why::TimeUp => self.note("time was up: the program was ended".to_owned()),
            Why::Stopped => self.note("stopped: the program was ended".to_owned()),
            Why::Enough => {}
        }
    }

    /// What the trace itself has to say.
    pub(super) fn take(&mut self, traced: &Traced, learnt: &Learnt) {
        let n_windows = traced.meter.windows().len();
        let planned = traced.meter.plan().n_windows;
        match traced.run.why {
            Why::TimeUp => self.note(format!(
                "time was up after {n_windows} of {planned} windows: the traced program was ended"
            )),
            Why::Stopped => self.note(format!(
                "stopped after {n_windows} of {planned} windows: the traced program was ended"
            )),
            Why::Ended | Why::Enough => {}
        }
        if traced.run.why == Why::Ended && self.ended.is_none() {
            self.ended = Some(traced.run.reaped.status);
        }
        if traced.meter.n_references() < FEW_REFERENCES {
            let n = traced.meter.n_references();
            self.note(format!("it made {n} references only: its figures are those of starting up"));
        }
        match traced.parser.n_programs() {
            0 | 1 => {}
            n => self.note(format!(
                "{n} programs ran, children included: they are modelled as one that uses one cache, and equal addresses in them as one memory"
            )),
        }
        if traced.parser.n_strange() != 0 {
            let n = traced.parser.n_strange();
            self.note(format!("{n} lines of the trace made no sense and were left out"));
        }
        if learnt
            .wall
            .zip(learnt.cpu_time)
            .is_some_and(|(wall, cpu)| 1.2 * wall.as_secs_f64() < cpu.as_secs_f64())
        {
            self.note("its threads ran in turn while they were traced: what they take from each other's caches at the same time is not seen".to_owned());
        }
    }

    /// What is missing in the profile, and what to do.
    pub(super) fn judge(&mut self, profile: &Profile, target: &Target) {
        if profile.class.is_none() {
            self.note("no class: that takes cycles per instruction; raise --limit, shorten the run, or say --cpi and --frequency".to_owned());
        }
        if target.build_id.is_none() {
            self.note(
                "the program has no build id: its profile is found by its name alone".to_owned(),
            );
        }
        for assumed in &self.assumed {
            self.notes.push(format!("assumed {assumed}"));
        }
    }
}

/// `exited with status 3`, `was ended by signal 11`.
pub(super) fn how(how: ChildStatus) -> String {
    match how {
        ChildStatus::Exited(status) => format!("exited with status {status}"),
        ChildStatus::Killed(signal) => format!("was ended by signal {signal}"),
    }
}

/// Everything that is told.
pub(super) struct Shown<'a> {
    pub profile: &'a Profile,
    /// Absent where the processor counted.
    pub traced: Option<&'a Traced>,
    pub account: &'a Account,
    pub output: &'a Path,
    pub page: Option<&'a Path>,
}

impl Shown<'_> {
    /// For people, 80 columns wide.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (label, what) in self.facts() {
            let _ = writeln!(text, "{label:<14}{what}");
        }
        if let Some(found) = self.whole_curve() {
            text += &format!("\n{}", sketch::curve(&found.curve));
        }
        text += &sketch::phases(&self.profile.phases);
        if let Some(view) = self.view().filter(|view| !view.dots().is_empty()) {
            text += &format!("\n{}", sketch::addresses(view));
        }
        for note in &self.account.notes {
            text += &format!("\n{}", sketch::wrapped(&format!("note: {note}")));
        }
        text += &format!("\n\nprofile:  {}\n", self.output.display());
        if let Some(page) = self.page {
            text += &format!("pictures: {}\n", page.display());
        }
        text
    }

    /// The curve of all windows together.
    fn whole_curve(&self) -> Option<CurveFound> {
        let covered = self.profile.covered.map_or(0.0, Figure::value);
        trace::curve(self.windows(), covered)
    }

    fn windows(&self) -> &[Window] {
        self.traced.map_or(&[], |traced| traced.meter.windows())
    }

    fn view(&self) -> Option<&View> {
        self.traced.map(|traced| traced.meter.view())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let profile = self.profile;
        let first = profile.phases.first();
        let mut facts = vec![("program", profile.name.clone())];
        if let Some(ended) = self.account.ended {
            facts.push(("it", how(ended)));
        }
        if let Some(cpu) = profile.cpu_time {
            let busy = first.and_then(|phase| phase.threads).map(Figure::value);
            let busy = busy.map_or(String::new(), |n| format!("; {n:.1} CPUs busy on average"));
            facts.push(("alone", format!("{cpu} of CPU time{busy}")));
        }
        facts.extend(self.traced_facts());
        if let Some(share) = self.whole_curve().and_then(|found| found.error_share) {
            facts.push((
                "error",
                format!("{:.1} % at most, of the misses in the smallest cache", share * 100.0),
            ));
        }
        if let Some(cpi) = first.and_then(|phase| phase.cycles_per_instruction) {
            let source = cpi.source.word();
            facts.push(("cycles", format!("{:.2} per instruction ({source})", cpi.value())));
        }
        if let Some(((class, source), cache)) = profile.class.zip(profile.class_cache) {
            let number = class.number();
            facts.push((
                "class",
                format!("{number} with {cache} of last-level cache ({})", source.word()),
            ));
        }
        if let Some(lines) = self.view().and_then(View::lines_per_work) {
            facts.push((
                "unit of work",
                format!("{lines} data lines, a round of its innermost loop"),
            ));
        }
        if let Some(again) = used_again(self.windows()) {
            facts.push((
                "used again",
                format!("{:.0} % of a window's lines, after 64 others or more", again * 100.0),
            ));
        }
        facts
    }

    /// How much was traced.
    fn traced_facts(&self) -> Vec<(&'static str, String)> {
        let (Some(traced), profile) = (self.traced, self.profile) else { return Vec::new() };
        let meter = &traced.meter;
        let mut facts = Vec::new();
        let windows = meter.windows();
        let references: u64 = windows.iter().map(|window| window.n_references).sum();
        let instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
        facts.push((
            "measured",
            format!(
                "{} windows, {} references, {} instructions",
                windows.len(),
                millions(references),
                millions(instructions)
            ),
        ));
        let covered =
            profile.covered.map_or("unknown: the run was not counted".to_owned(), |share| {
                format!("{:.3} % of the run's instructions", share.value() * 100.0)
            });
        facts.push(("covered", covered));
        facts.push((
            "lines",
            match meter.rate() {
                1.0 => "all of them looked at".to_owned(),
                rate => format!("1 of {:.0} looked at", 1.0 / rate),
            },
        ));
        facts
    }

    /// For programs. Field names end in their units.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        let profile = self.profile;
        let windows = self.windows();
        let references: u64 = windows.iter().map(|window| window.n_references).sum();
        let instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
        let value = json!({
            "name": profile.name,
            "build_id": profile.build_id,
            "made_by": profile.made_by,
            "command": profile.command,
            "ended": self.account.ended.map(how),
            "cpu_time_ns": profile.cpu_time.map(|time| time.0),
            "class": profile.class.map(|(class, _)| class.number()),
            "class_cache_bytes": profile.class_cache.map(|size| size.0),
            "covered_share": profile.covered.map(Figure::value),
            "n_windows": windows.len(),
            "n_references": references,
            "n_instructions": instructions,
            "lines_share": self.traced.map(|traced| traced.meter.rate()),
            "n_programs": self.traced.map(|traced| traced.parser.n_programs()),
            "lines_per_work": self.view().and_then(View::lines_per_work),
            "used_again_share": used_again(windows),
            "error_share": self.whole_curve().and_then(|found| found.error_share),
            "phases": profile.phases.iter().map(phase_json).collect::<Vec<_>>(),
            "notes": self.account.notes,
            "profile": self.output.display().to_string(),
            "pictures": self.page.map(|page| page.display().to_string()),
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&value)?))
    }
}

/// The share of the lines of a window that were used again in it after many others.
fn used_again(windows: &[Window]) -> Option<f64> {
    let lines: f64 = windows.iter().map(|window| window.n_lines).sum();
    let again: f64 = windows.iter().map(|window| window.n_again).sum();
    (0.0 < lines).then_some(again / lines)
}

fn figure_json(figure: Option<Figure>) -> Value {
    figure.map_or(Value::Null, |figure| {
        json!({ "value": figure.value(), "source": figure.source.word(), "error": figure.error() })
    })
}

fn phase_json(phase: &Phase) -> Value {
    let points = phase.curve.points().iter().map(|point| {
        json!({
            "cache_bytes": point.cache.0,
            "misses_per_1000": point.misses,
            "write_backs_per_1000": point.write_backs,
            "error_per_1000": point.error,
        })
    });
    json!({
        "share": phase.share.value(),
        "instructions": figure_json(phase.instructions),
        "cycles_per_instruction": figure_json(phase.cycles_per_instruction),
        "core_cycles_per_instruction": figure_json(phase.core_cycles_per_instruction),
        "footprint_bytes": figure_json(phase.footprint_bytes),
        "working_set_bytes": figure_json(phase.working_set_bytes),
        "threads": figure_json(phase.threads),
        "llc_accesses_per_1000": figure_json(phase.llc_accesses),
        "private_cache_bytes": phase.private_cache.map(|size| size.0),
        "bandwidth_bytes_per_s": figure_json(phase.bandwidth),
        "curve": points.collect::<Vec<_>>(),
    })
}

fn millions(count: u64) -> String {
    match count {
        0..10_000_000 => report::units::count(count),
        _ => format!("{:.1} million", count as f64 / 1e6),
    }
}
