//! The live view: its state, and its rendering into a cell buffer.

use std::collections::VecDeque;

use base::Nanos;
use engine::{LoadSample, TurnRecord};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use report::DomainNames;
use report::format::{fixed, rate, seconds};
use sched::{Cause, JobEvent, OutcomeResult};

use super::progress_events::{ProgressEvent, has_failed};

/// Minimum time between two frames, in run time.
const FRAME_INTERVAL: Nanos = Nanos::from_millis(250);
/// Maximum number of domains that have a line.
const N_DOMAINS_MAX: usize = 8;
/// Number of lines with events.
const N_EVENTS: usize = 5;
/// Width of labels, in columns.
const LABEL_WIDTH: u16 = 11;
/// Width of the values at the right of a bar, in columns: `  361 k/s  12.0 CPUs`.
const VALUES_WIDTH: u16 = 24;

/// State of the view, from which the next frame is drawn.
#[derive(Debug)]
pub struct LiveView {
    policy: String,
    at: Nanos,
    counts: JobCounts,
    domains: Vec<DomainLoad>,
    events: VecDeque<ProgressEvent>,
    last_interval: Nanos,
    last_drawn: Option<Nanos>,
    draw_now: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct JobCounts {
    all: usize,
    running: usize,
    done: usize,
    failed: usize,
    stopped: usize,
}

/// Load of a domain in the last interval.
#[derive(Clone, Debug)]
struct DomainLoad {
    label: String,
    ops_per_s: Option<f64>,
    cpus_busy: f64,
    n_cpus: usize,
}

impl LiveView {
    pub fn new(n_jobs: usize, policy: &str) -> Self {
        LiveView {
            policy: policy.to_owned(),
            at: Nanos::ZERO,
            counts: JobCounts { all: n_jobs, ..JobCounts::default() },
            domains: Vec::new(),
            events: VecDeque::new(),
            last_interval: Nanos::ZERO,
            last_drawn: None,
            draw_now: false,
        }
    }

    /// Records a turn.
    pub fn record(
        &mut self,
        record: &TurnRecord<'_>,
        events: Vec<ProgressEvent>,
        domain_names: &DomainNames,
    ) {
        self.at = record.turn.at;
        self.draw_now |= record.turn.causes.contains(&Cause::Stopping);
        record.sample.jobs.iter().for_each(|event| self.counts.event(event));
        for outcome in record.outcomes.iter().filter(|outcome| outcome.action.is_none()) {
            match outcome.result {
                OutcomeResult::Done { .. } | OutcomeResult::InProgress => self.counts.running += 1,
                OutcomeResult::Rejected { .. } => self.counts.failed += 1,
            }
        }
        if let Some(loads) = record.loads {
            self.domains = domains(loads, domain_names, self.at.saturating_sub(self.last_interval));
            self.last_interval = self.at;
        }
        self.events.extend(events);
        let n_over = self.events.len().saturating_sub(N_EVENTS);
        self.events.drain(..n_over);
    }

    /// Returns whether a frame is due.
    pub fn is_time_to_draw(&mut self) -> bool {
        let due = self.last_drawn.is_none_or(|last| FRAME_INTERVAL <= self.at.saturating_sub(last));
        let draw = due || std::mem::take(&mut self.draw_now);
        if draw {
            self.last_drawn = Some(self.at);
        }
        draw
    }

    /// Draws the frame for a terminal of this size.
    pub fn frame(&self, (width, height): (u16, u16)) -> Buffer {
        let lines = self.lines(width);
        // The cursor is in the line below the view.
        let n_lines = (lines.len() as u16).min(height.saturating_sub(1)).max(1);
        let area = Rect::new(0, 0, width.max(1), n_lines);
        let mut buffer = Buffer::empty(area);
        for (y, line) in lines.into_iter().take(usize::from(n_lines)).enumerate() {
            line.render(Rect::new(0, y as u16, area.width, 1), &mut buffer);
        }
        buffer
    }

    fn lines(&self, width: u16) -> Vec<Line<'_>> {
        let mut lines = vec![self.header_line(width), self.jobs(width)];
        let ops_per_s_max =
            self.domains.iter().filter_map(|domain| domain.ops_per_s).fold(0.0, f64::max);
        lines.extend(
            self.domains.iter().take(N_DOMAINS_MAX).map(|domain| domain.line(ops_per_s_max, width)),
        );
        if N_DOMAINS_MAX < self.domains.len() {
            let n_more = self.domains.len() - N_DOMAINS_MAX;
            lines.push(Line::styled(format!("… and {n_more} more"), dim()));
        }
        lines.extend(self.events.iter().map(event_line));
        lines
    }

    fn header_line(&self, width: u16) -> Line<'_> {
        let time = format!("{} s", fixed(self.at.as_secs_f64(), 1));
        let taken = 10 + self.policy.chars().count() + time.len();
        let padding = usize::from(width).saturating_sub(taken).max(1);
        Line::from(vec![
            Span::styled("evenkeel  ", Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(self.policy.as_str()),
            Span::raw(" ".repeat(padding)),
            Span::raw(time),
        ])
    }

    fn jobs(&self, width: u16) -> Line<'_> {
        let counts = self.counts;
        let waiting = counts
            .all
            .saturating_sub(counts.running + counts.done + counts.failed + counts.stopped);
        let states = [
            (waiting, "waiting", None),
            (counts.running, "running", Some(Color::Cyan)),
            (counts.done, "done", Some(Color::Green)),
            (counts.failed, "failed", Some(Color::Red)),
            (counts.stopped, "stopped", Some(Color::Yellow)),
        ];
        let words: usize = states
            .iter()
            .filter(|(n, word, _)| *n != 0 || *word == "running")
            .map(|(n, word, _)| n.to_string().len() + word.len() + 3)
            .sum();
        let width = usize::from(width).saturating_sub(usize::from(LABEL_WIDTH) + words).min(30);
        let mut spans = vec![Span::raw(format!("{:<1$}", "jobs", usize::from(LABEL_WIDTH)))];
        let over = counts.done + counts.failed + counts.stopped;
        spans.extend(progress(over, counts.all, width));
        for (n, word, colour) in states {
            if n != 0 || word == "running" {
                let style =
                    colour.filter(|_| n != 0).map_or(dim(), |colour| Style::new().fg(colour));
                spans.push(Span::styled(format!("  {n} {word}"), style));
            }
        }
        Line::from(spans)
    }
}

impl JobCounts {
    fn event(&mut self, event: &JobEvent) {
        let end = match event {
            JobEvent::Ended(_, end) => end,
            JobEvent::Attached(_) => {
                (self.all, self.running) = (self.all + 1, self.running + 1);
                return;
            }
            JobEvent::Detached(..) => {
                (self.running, self.done) = (self.running.saturating_sub(1), self.done + 1);
                return;
            }
            JobEvent::Due(_) | JobEvent::Unmanaged(..) => return,
        };
        self.running = self.running.saturating_sub(1);
        match end {
            end if end.restarts => {} // A job that is due again is neither done nor waiting.
            end if has_failed(end) => self.failed += 1,
            end if end.stopped_by_host => self.stopped += 1,
            _ => self.done += 1,
        }
    }
}

fn domains(loads: &LoadSample, domain_names: &DomainNames, interval: Nanos) -> Vec<DomainLoad> {
    let secs = interval.as_secs_f64();
    let domain = |(idx, number): (usize, &u32)| {
        let named = domain_names.domains().and_then(|all| {
            all.iter().find(|(_, domain)| domain.number == *number).map(|(_, domain)| domain)
        });
        let cpu = loads.cpu_time.get(idx).copied().unwrap_or_default();
        let ops = loads.loads.loads.get(idx).filter(|_| loads.loads.readable && secs != 0.0);
        DomainLoad {
            label: format!("{} {number}", loads.level),
            ops_per_s: ops.map(|&ops| ops as f64 / secs),
            cpus_busy: if secs == 0.0 { 0.0 } else { cpu.as_secs_f64() / secs },
            n_cpus: named.map_or(1, |domain| domain.cpus.len()),
        }
    };
    loads.numbers.iter().enumerate().map(domain).collect()
}

impl DomainLoad {
    /// Draws the line of a domain. The bar shows the memory load relative to the largest load of all domains, or the
    /// CPU utilization if loads are unknown.
    fn line(&self, ops_per_s_max: f64, width: u16) -> Line<'_> {
        let width = width.saturating_sub(LABEL_WIDTH + VALUES_WIDTH).min(60);
        let share = match self.ops_per_s {
            Some(ops) if ops_per_s_max != 0.0 => ops / ops_per_s_max,
            _ => self.cpus_busy / self.n_cpus as f64,
        };
        let ops = self.ops_per_s.map_or("-".to_owned(), |ops| format!("{}/s", rate(ops)));
        Line::from(vec![
            Span::raw(format!("{:<1$}", self.label, usize::from(LABEL_WIDTH))),
            Span::styled(bar(share, width), Style::new().fg(Color::Blue)),
            Span::raw(format!("{ops:>10}")),
            Span::styled(format!("{:>8} CPUs", fixed(self.cpus_busy, 1)), dim()),
        ])
    }
}

/// Draws a bar with a resolution of 1/8 cell, padded to its width.
fn bar(share: f64, width: u16) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(width) * 8.0).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let padding = usize::from(width).saturating_sub(bar.chars().count());
    bar + &" ".repeat(padding)
}

/// Draws the progress bar of finished jobs.
fn progress(over: usize, all: usize, width: usize) -> [Span<'static>; 2] {
    let full = (over * width).checked_div(all).unwrap_or(0);
    [Span::raw("━".repeat(full)), Span::styled("─".repeat(width - full), dim())]
}

fn event_line(event: &ProgressEvent) -> Line<'_> {
    let style = if event.is_bad { Style::new().fg(Color::Red) } else { Style::new() };
    let job = if event.job.is_empty() { String::new() } else { format!("{}  ", event.job) };
    Line::from(vec![
        Span::styled(format!("{:>9} s  ", seconds(event.at.0)), dim()),
        Span::styled(format!("{:<9}  ", event.kind), style.add_modifier(Modifier::BOLD)),
        Span::styled(job, style),
        Span::styled(event.text.as_str(), if event.is_bad { style } else { dim() }),
    ])
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
