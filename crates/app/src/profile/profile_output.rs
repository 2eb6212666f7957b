//! Output of a measured profile: text with charts, or JSON.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use base::shell;
use linux::child_exit::ChildStatus;
use profiler::measure::MeasuredProgram;
use profiler::measure::assemble::WholeRun;
use profiler::measure::program_run::{ProgramRun, StopCause};
use profiler::measure::valgrind::TracedRun;
use profiler::{AccessPattern, CurveEstimate, Window};
use program::Profile;
use program::profile::{Phase, ProfileValue, SUFFIX};
use report::format::{counted, fixed, per_instruction, percent};
use report::table::{fold, fold_command};
use serde_json::{Value, json};

use super::{shown, text_charts};
use crate::profiles::workload_line;

/// Notes about a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct RunNotes {
    /// Notes, as complete sentences.
    pub notes: Vec<String>,
    /// Machine parameters with assumed values.
    pub assumed: Vec<String>,
    /// Exit status of the program in its first run.
    pub exit: Option<ChildStatus>,
    /// Whether the program failed. A program that a signal killed only under valgrind did not fail.
    pub has_failed: bool,
}

/// Minimum number of references of a meaningful trace. A shorter trace is dominated by the start of the program.
/// Guessed.
const N_REFERENCES_MIN: u64 = 1_000_000;

impl RunNotes {
    pub(super) fn push(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Adds notes about a run with counters.
    pub(super) fn add_counted(&mut self, run: &ProgramRun) {
        match run.stop_cause {
            StopCause::Exited => self.add_exit(run.reaped.status, &run.last_stderr_line),
            StopCause::TimeUp => {
                self.push("--limit reached: the program was terminated".to_owned())
            }
            StopCause::Interrupted => {
                self.push("interrupted: the program was terminated".to_owned())
            }
            StopCause::LogComplete => {}
        }
    }

    /// Adds the exit status of the first run.
    pub(super) fn add_exit(&mut self, status: ChildStatus, last_stderr_line: &str) {
        self.exit = Some(status);
        self.has_failed = status != ChildStatus::Exited(0);
        if self.has_failed {
            let is_empty = last_stderr_line.is_empty();
            let hint = if is_empty { "" } else { "; its last error message: " };
            let text = exit_text(status);
            self.push(format!(
                "the profile is of a run that failed: the program {text}{hint}{last_stderr_line}"
            ));
        }
    }

    /// Adds notes about a traced run.
    pub(super) fn add_traced(&mut self, traced: &TracedRun, whole: &WholeRun) {
        let n_windows = traced.meter.windows().len();
        let planned = base::counted_noun(traced.meter.plan().n_windows, "window");
        match traced.run.stop_cause {
            StopCause::TimeUp => self.push(format!(
                "--limit reached after {n_windows} of {planned}: the traced program was terminated"
            )),
            StopCause::Interrupted => self.push(format!(
                "interrupted after {n_windows} of {planned}: the traced program was terminated"
            )),
            StopCause::Exited | StopCause::LogComplete => {}
        }
        if traced.run.stop_cause == StopCause::Exited && self.exit.is_none() {
            match traced.run.reaped.status {
                // Standard error also has the messages of valgrind.
                status @ ChildStatus::Exited(_) => self.add_exit(status, ""),
                status @ ChildStatus::Killed(_) => {
                    self.exit = Some(status);
                    self.push(format!("the program {} under valgrind", exit_text(status)));
                }
            }
        }
        if traced.meter.n_references() < N_REFERENCES_MIN {
            let n = traced.meter.n_references();
            self.push(format!(
                "the trace has only {n} references: the class and the other values describe the start of the program and not its work"
            ));
        }
        match traced.parser.n_programs() {
            0 | 1 => {}
            n => self.push(format!(
                "{n} programs ran, including children: the model treats them as one program with one cache and one address space"
            )),
        }
        if traced.parser.n_unparsed() != 0 {
            let n = traced.parser.n_unparsed();
            self.push(format!("{n} lines of the trace could not be parsed and were skipped"));
        }
        if whole
            .wall
            .zip(whole.cpu_time)
            .is_some_and(|(wall, cpu)| 1.2 * wall.as_secs_f64() < cpu.as_secs_f64())
        {
            self.push("valgrind serializes threads: contention between the threads of the program is not measured".to_owned());
        }
    }

    /// Adds notes about missing and assumed values.
    pub(super) fn add_missing(&mut self, profile: &Profile, target: &MeasuredProgram) {
        if profile.class.is_none() {
            self.push("no class: it needs cycles per instruction; raise --limit, shorten the run, or set --cpi and --frequency".to_owned());
        }
        if target.build_id.is_none() {
            self.push(
                "the program has no build id: its profile is matched by name only".to_owned(),
            );
        }
        for assumed in &self.assumed {
            self.notes.push(format!("assumed {assumed}"));
        }
    }
}

/// Returns the text of an exit status: `exited with status 3`, `was killed by SIGSEGV`.
pub(super) fn exit_text(status: ChildStatus) -> String {
    match status {
        ChildStatus::Exited(status) => format!("exited with status {status}"),
        ChildStatus::Killed(signal) => format!("was killed by {}", sched::signal_name(signal)),
    }
}

/// A measured profile with its traced run and notes.
pub(super) struct ProfileOutput<'a> {
    pub profile: &'a Profile,
    /// `None` for a run with counters.
    pub traced: Option<&'a TracedRun>,
    pub notes: &'a RunNotes,
    pub output: &'a Path,
    pub page: Option<&'a Path>,
    /// The file with the signature, if one was written.
    pub signature: Option<PathBuf>,
}

impl ProfileOutput<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (label, value) in self.facts() {
            let _ = writeln!(text, "{label:<14}{value}");
        }
        if let Some(found) = self.whole_curve() {
            text += &format!("\n{}", text_charts::curve(&found.curve));
        }
        text += &text_charts::phases(&self.profile.phases);
        if let Some(pattern) =
            self.pattern().filter(|pattern| !pattern.data_references().is_empty())
        {
            text += &format!("\n{}", text_charts::addresses(pattern));
        }
        for note in &self.notes.notes {
            text += &format!("\n{}", fold(&format!("note: {note}"), text_charts::WIDTH, "", 2));
        }
        let (profile, workload) = (shown(self.output), self.workload_text());
        text += &format!("\nprofile:  {profile}\nworkload: {workload}\n");
        if let Some(file) = &self.signature {
            text += &format!("signature: {}\n", shown(file));
        }
        if let Some(page) = self.page {
            text += &format!("charts:   {}\n", shown(page));
        }
        if let Some(command) = crate::repeat::command_line() {
            text += &fold_command(&command, text_charts::WIDTH, "repeat:   ");
        }
        text
    }

    /// Returns the line to put in a workload.
    fn workload_text(&self) -> String {
        match workload_line(self.output, &self.profile.name) {
            Some((line, None)) => line,
            Some((line, Some(dir))) if dir.as_os_str().is_empty() => {
                format!("{line}, in a workload in this directory or with --profiles .")
            }
            Some((line, Some(dir))) => format!(
                "{line}, in a workload in {} or with --profiles {}",
                shown(&dir),
                shell::quote(&dir)
            ),
            None => format!("no workload can name this file: its name must end in {SUFFIX}"),
        }
    }

    /// Computes the miss-ratio curve over all windows.
    fn whole_curve(&self) -> Option<CurveEstimate> {
        let covered = self.profile.covered.map_or(0.0, ProfileValue::value);
        profiler::curve(self.windows(), covered)
    }

    fn windows(&self) -> &[Window] {
        self.traced.map_or(&[], |traced| traced.meter.windows())
    }

    fn pattern(&self) -> Option<&AccessPattern> {
        self.traced.map(|traced| traced.meter.access_pattern())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let profile = self.profile;
        let first = profile.phases.first();
        let threads = first.and_then(|phase| phase.threads).map(ProfileValue::value);
        let threads =
            threads.map_or(String::new(), |n| format!("; {} CPUs used on average", fixed(n, 1)));
        let alone = profile.cpu_time.map(|cpu| format!("{cpu} of CPU time{threads}"));
        let mut facts = vec![
            ("program", Some(profile.name.clone())),
            ("exit", self.notes.exit.map(exit_text)),
            ("alone", alone),
        ];
        facts.extend(self.traced_facts().into_iter().map(|(label, text)| (label, Some(text))));
        let error = self.whole_curve().and_then(|found| found.error_share).map(|share| {
            format!("at most {}, relative to the misses in the smallest cache", percent(share))
        });
        let cycles = first.and_then(|phase| phase.cycles_per_instruction).map(|cpi| {
            format!("{} per instruction ({})", per_instruction(cpi.value()), cpi.source.word())
        });
        let class = profile.class.zip(profile.class_cache).map(|((class, source), cache)| {
            let (number, source) = (class.number(), source.word());
            format!("{number} with {cache} of last-level cache ({source})")
        });
        let lines = self.pattern().and_then(AccessPattern::lines_per_iteration);
        let reused = reused_share(self.windows()).map(|share| {
            format!(
                "{} of the lines of a window, reused after 64 or more other lines",
                percent(share)
            )
        });
        facts.extend([
            ("error", error),
            ("cycles", cycles),
            ("class", class),
            (
                "iteration",
                lines.map(|n| {
                    format!("{} in the innermost loop", base::counted_noun(n, "data line"))
                }),
            ),
            ("reused", reused),
        ]);
        facts.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
    }

    /// Returns the amount of traced data.
    fn traced_facts(&self) -> Vec<(&'static str, String)> {
        let (Some(traced), profile) = (self.traced, self.profile) else { return Vec::new() };
        let windows = traced.meter.windows();
        let references: u64 = windows.iter().map(|window| window.n_references).sum();
        let instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
        let (references, instructions) = (millions(references), millions(instructions));
        let n_windows = counted(windows.len(), "window");
        let covered = profile
            .covered
            .map_or("unknown: the instructions of the run were not counted".to_owned(), |share| {
                format!("{} of the instructions of the run", percent(share.value()))
            });
        let lines = match traced.meter.rate() {
            1.0 => "all lines sampled".to_owned(),
            rate => format!("1 of {} sampled", fixed(1.0 / rate, 0)),
        };
        vec![
            (
                "measured",
                format!("{n_windows}, {references} references, {instructions} instructions"),
            ),
            ("covered", covered),
            ("lines", lines),
        ]
    }

    /// Returns the profile and its measurement as JSON.
    pub(super) fn json(&self) -> Value {
        let profile = self.profile;
        let windows = self.windows();
        let references: u64 = windows.iter().map(|window| window.n_references).sum();
        let instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
        let measurement = json!({
            "repeat_command": crate::repeat::command_line(),
            "exit": self.notes.exit.map(exit_text),
            "n_windows": windows.len(),
            "n_references": references,
            "n_instructions": instructions,
            "sampled_lines_share": self.traced.map(|traced| traced.meter.rate()),
            "n_programs": self.traced.map(|traced| traced.parser.n_programs()),
            "lines_per_iteration": self.pattern().and_then(AccessPattern::lines_per_iteration),
            "reused_lines_share": reused_share(windows),
            "error_share": self.whole_curve().and_then(|found| found.error_share),
            "notes": self.notes.notes,
            "signature_file": self.signature.as_ref().map(|file| file.display().to_string()),
            "profile_file": self.output.display().to_string(),
            "workload_line": workload_line(self.output, &profile.name).map(|(line, _)| line),
            "charts_file": self.page.map(|page| page.display().to_string()),
        });
        with_fields(profile_json(profile), measurement)
    }
}

/// Adds the fields of another object.
pub(super) fn with_fields(mut object: Value, other: Value) -> Value {
    if let (Value::Object(fields), Value::Object(other)) = (&mut object, other) {
        fields.extend(other);
    }
    object
}

/// Returns a profile as JSON. Key names end in their units.
pub(super) fn profile_json(profile: &Profile) -> Value {
    json!({
        "name": profile.name,
        "build_id": profile.build_id,
        "tool": profile.tool,
        "command": profile.command,
        "cpu_time_ns": profile.cpu_time.map(|time| time.0),
        "class": profile.class.map(|(class, _)| class.number()),
        "class_cache_bytes": profile.class_cache.map(|size| size.0),
        "llc_mpki": llc_mpki(profile),
        "llc_miss_ratio": llc_miss_ratio(profile),
        "covered_share": profile.covered.map(ProfileValue::value),
        "phases": profile.phases.iter().map(phase_json).collect::<Vec<_>>(),
    })
}

/// Returns the misses per 1000 instructions at the cache size of the class.
pub(super) fn llc_mpki(profile: &Profile) -> Option<f64> {
    let cache = profile.class_cache?;
    profile.average(|phase| phase.curve.misses_at(cache))
}

/// Returns the miss ratio at the cache size of the class.
pub(super) fn llc_miss_ratio(profile: &Profile) -> Option<f64> {
    profile.llc_miss_ratio(profile.class_cache?)
}

/// Computes the share of the lines of a window that are reused in the window at a long reuse distance.
fn reused_share(windows: &[Window]) -> Option<f64> {
    let lines: f64 = windows.iter().map(|window| window.n_lines).sum();
    let reused: f64 = windows.iter().map(|window| window.n_reused).sum();
    (0.0 < lines).then_some(reused / lines)
}

fn value_json(value: Option<ProfileValue>) -> Value {
    value.map_or(Value::Null, |value| {
        json!({ "value": value.value(), "source": value.source.word(), "error": value.error() })
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
        "instructions": value_json(phase.instructions),
        "cycles_per_instruction": value_json(phase.cycles_per_instruction),
        "core_cycles_per_instruction": value_json(phase.core_cycles_per_instruction),
        "footprint_bytes": value_json(phase.footprint_bytes),
        "working_set_bytes": value_json(phase.working_set_bytes),
        "threads": value_json(phase.threads),
        "llc_accesses_per_1000": value_json(phase.llc_accesses),
        "private_cache_bytes": phase.private_cache.map(|size| size.0),
        "bandwidth_bytes_per_s": value_json(phase.bandwidth),
        "curve": points.collect::<Vec<_>>(),
    })
}

fn millions(count: u64) -> String {
    match count {
        0..10_000_000 => report::format::count(count),
        _ => format!("{} million", fixed(count as f64 / 1e6, 1)),
    }
}
