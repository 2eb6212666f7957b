//! Loads of the domains: a bar for each domain in one or several columns, or a sparkline if there are too many domains.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, Widget};
use report::format::{fixed, or_absent, rate};
use sched::SignalTier;

use super::{bar, bold, dim, section};
use crate::view::loads::{DomainLoad, ShownLoads};
use crate::view::state::ViewState;

/// Width of a domain without its bar: label and values.
const TEXT_WIDTH: u16 = 9 + 10 + 20;
/// Minimum width of a bar.
const BAR_MIN: u16 = 8;
/// Number of lines of the sparklines.
const SPARKLINE_LINES: u16 = 4;
/// Width of the label of a sparkline.
const LABEL_WIDTH: u16 = 5;
/// Value of a full column of a sparkline.
const FULL: f64 = 1000.0;

/// Returns the number of lines below the title.
pub fn n_lines(state: &ViewState, area: Rect) -> u16 {
    let Some(loads) = &state.loads else { return 1 };
    let n_max = (area.height / 3).max(SPARKLINE_LINES);
    match n_columns(loads, area.width, n_max) {
        Some(n_columns) => (loads.domains.len() as u16).div_ceil(n_columns).max(1),
        None => SPARKLINE_LINES,
    }
}

/// Returns the number of columns for all domains in at most `n_lines` lines, or `None` if they do not fit.
fn n_columns(loads: &ShownLoads, width: u16, n_lines: u16) -> Option<u16> {
    let n_columns = loads.domains.len().div_ceil(usize::from(n_lines)).max(1);
    let fitting = usize::from(width / (TEXT_WIDTH + BAR_MIN)).max(1);
    (n_columns <= fitting).then_some(n_columns as u16)
}

pub fn draw(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let Some(loads) = &state.loads else {
        let inner = section(Line::styled("load", bold()), Line::default(), area, buffer);
        let text = "no sample yet; without an interval the policy does not sample loads";
        Line::styled(text, dim()).render(inner, buffer);
        return;
    };
    let title = Line::from(vec![
        Span::styled("load", bold()),
        Span::styled(format!(" per {}: {}", loads.level, unit(loads.tier)), dim()),
    ]);
    let inner = section(title, Line::styled(scale(loads), dim()), area, buffer);
    match n_columns(loads, inner.width, inner.height.max(1)) {
        Some(n_columns) => draw_bars(loads, n_columns, inner, buffer),
        None => draw_sparklines(loads, inner, buffer),
    }
}

/// Returns quantity and source of the loads.
fn unit(tier: SignalTier) -> &'static str {
    match tier {
        SignalTier::Counters => "LLC misses/s, counted per task",
        SignalTier::Bandwidth => "memory operations/s, counted",
        SignalTier::Declared => "estimated, class x CPU time",
        SignalTier::None => "unknown, no signal",
    }
}

fn scale(loads: &ShownLoads) -> String {
    match loads.domains.iter().any(|domain| domain.ops_per_s.is_some()) {
        true => format!("full bar {}/s", rate(loads.full_bar)),
        false => "full bar: all CPUs busy".to_owned(),
    }
}

fn draw_bars(loads: &ShownLoads, n_columns: u16, area: Rect, buffer: &mut Buffer) {
    let columns = Layout::horizontal(vec![Constraint::Fill(1); usize::from(n_columns)]).split(area);
    let n_lines = loads.domains.len().div_ceil(usize::from(n_columns)).max(1);
    for (column, domains) in columns.iter().zip(loads.domains.chunks(n_lines)) {
        for (row, domain) in column.rows().zip(domains) {
            domain_line(loads, domain, row.width).render(row, buffer);
        }
    }
}

fn domain_line(loads: &ShownLoads, domain: &DomainLoad, width: u16) -> Line<'static> {
    let width = width.saturating_sub(TEXT_WIDTH + 1).min(80);
    Line::from(vec![
        Span::raw(format!("{:<9}", domain.label)),
        Span::styled(bar(loads.share(domain), width), Style::new().fg(Color::Blue)),
        Span::raw(format!("{:>10}", or_absent(domain.ops_per_s, per_s))),
        Span::styled(format!("{:>7} of {}", fixed(domain.cpus_busy, 1), n_cpus(domain)), dim()),
    ])
}

fn n_cpus(domain: &DomainLoad) -> String {
    base::counted_noun(domain.n_cpus, "CPU")
}

fn per_s(ops: f64) -> String {
    format!("{}/s", rate(ops))
}

/// Draws a character per domain: its load, and the share of its CPUs that are busy.
fn draw_sparklines(loads: &ShownLoads, area: Rect, buffer: &mut Buffer) {
    let [label, load, cpus] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area);
    summary_line(loads).render(label, buffer);
    let busy = |domain: &DomainLoad| domain.cpus_busy / domain.n_cpus.max(1) as f64;
    draw_sparkline("load", columns(loads, load.width, |domain| loads.share(domain)), load, buffer);
    draw_sparkline("CPUs", columns(loads, cpus.width, busy), cpus, buffer);
}

fn draw_sparkline(name: &str, shares: impl Iterator<Item = f64>, area: Rect, buffer: &mut Buffer) {
    let [label, line] =
        Layout::horizontal([Constraint::Length(LABEL_WIDTH), Constraint::Fill(1)]).areas(area);
    Line::styled(name, dim()).render(label, buffer);
    let data: Vec<u64> = shares.map(|share| (share.clamp(0.0, 1.0) * FULL) as u64).collect();
    let style = Style::new().fg(Color::Blue);
    Sparkline::default().data(data).max(FULL as u64).style(style).render(line, buffer);
}

/// Returns a value per column. A domain has several columns if they fit; else a column is the maximum of several
/// domains.
fn columns(
    loads: &ShownLoads,
    width: u16,
    value: impl Fn(&DomainLoad) -> f64,
) -> impl Iterator<Item = f64> {
    let width = usize::from(width.saturating_sub(LABEL_WIDTH).max(1));
    let n = loads.domains.len().max(1);
    let n_per_domain = (width / n).clamp(1, 3);
    let per_column = loads.domains.chunks(n.div_ceil(width));
    let maxima: Vec<f64> =
        per_column.map(|domains| domains.iter().map(&value).fold(0.0, f64::max)).collect();
    maxima.into_iter().flat_map(move |max| std::iter::repeat_n(max, n_per_domain))
}

fn summary_line(loads: &ShownLoads) -> Line<'static> {
    let (Some(first), Some(last)) = (loads.domains.first(), loads.domains.last()) else {
        return Line::default();
    };
    let highest =
        loads.domains.iter().max_by(|one, other| loads.share(one).total_cmp(&loads.share(other)));
    let highest = highest.unwrap_or(first);
    let busy: f64 = loads.domains.iter().map(|domain| domain.cpus_busy).sum();
    let n_cpus: usize = loads.domains.iter().map(|domain| domain.n_cpus).sum();
    let load = or_absent(highest.ops_per_s, per_s);
    Line::styled(
        format!(
            "{} to {}; highest: {} {load}; {} of {n_cpus} CPUs busy",
            first.label,
            last.label,
            highest.label,
            fixed(busy, 1)
        ),
        dim(),
    )
}
