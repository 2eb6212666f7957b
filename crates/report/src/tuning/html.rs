//! The result of a search as an HTML page with charts and heat maps of the sensitivity. Each colour has a printed value.

use super::text::seeds_text;
use super::{TuneGain, TuneOutcome, TunePair, TuneResult, TunedParameter};
use crate::chart::{self, Axis, ChartRow, Marks, RowChart, Shape, heat, heat_table, panels};
use crate::format::{ABSENT, or_absent, percent};
use crate::page::{
    Document, NO_DATA, PAGE_SCRIPT, TABLE_SCRIPT, callout, card, chip, escape, facts, hero, links,
    repeat_command,
};

/// Distance of a ratio from 1 that has the full colour.
const FULL: f64 = 0.2;
/// Shortest axis of ratios. Chosen: on a shorter axis, differences without substance appear large.
const AXIS_SPAN_MIN: f64 = 0.01;

const GAINS_LEAD: &str = "Saved share of the makespan with its 95 % confidence interval. The gain on training runs is too \
                          large, because the settings are the best of these runs.";
const PAIRS_LEAD: &str = "The smallest makespan of the trials in each cell on the training runs, relative to the defaults \
                          (below 1: less time), and the number of trials. An empty cell has no trial.";
const VALUES_LEAD: &str = "The smallest (filled) and the mean (open) makespan of the trials with each value on the \
                           training runs, relative to the defaults. The search prefers good values, so that bad values \
                           have few trials.";

impl TuneResult {
    /// Returns the page as one HTML document.
    pub fn to_html(&self) -> String {
        let pairs_lead = format!("{PAIRS_LEAD} {}", self.effects_text());
        let values_lead = format!("{VALUES_LEAD} {}", self.effects_text());
        let sections = [
            (
                "gains",
                "Gain on held-out and training runs",
                "Gains",
                GAINS_LEAD,
                self.gains_chart(),
            ),
            ("pairs", "Sensitivity to pairs of parameters", "Pairs", &pairs_lead, self.pair_maps()),
            (
                "values",
                "Sensitivity to each parameter",
                "Values",
                &values_lead,
                self.value_charts(),
            ),
            (
                "parameters",
                "Parameters",
                "Parameters",
                "",
                self.parameter_table().to_html("", "data", "Parameters"),
            ),
        ];
        let present = || sections.iter().filter(|(.., content)| !content.is_empty());
        let cards =
            present().map(|(id, heading, _, lead, content)| card(id, heading, lead, content));
        let names: Vec<(&str, &str)> = present().map(|(id, _, short, ..)| (*id, *short)).collect();
        let document = Document {
            title: format!("Search for parameters of {}", self.policy),
            styles: &[chart::CSS],
            scripts: Some((&[PAGE_SCRIPT, TABLE_SCRIPT], NO_DATA)),
            links: links(&names),
            sections: std::iter::once(self.head_section()).chain(cards).collect(),
            footer: format!("<span>evenkeel {}</span>", escape(&self.tool)),
        };
        document.to_html()
    }

    fn head_section(&self) -> String {
        let class = if self.outcome == TuneOutcome::Confirmed { "better" } else { "inconclusive" };
        let answer = format!("<p class=\"answer {class}\">{}</p>", escape(&self.answer()));
        let chips = [
            chip("outcome", self.outcome.name()),
            chip("trials", &self.n_trials.to_string()),
            chip("runs", &self.n_runs.to_string()),
            chip("simulated", &self.machine),
        ];
        let held_out = match self.held_out_workloads.is_empty() {
            true => "none".to_owned(),
            false => self.held_out_workloads.join(", "),
        };
        let facts = facts(&[
            ("Settings", self.settings.clone()),
            ("Training workloads", self.training_workloads.join(", ")),
            ("Training seeds", seeds_text(&self.training_seeds)),
            ("Held-out workloads", held_out),
            ("Held-out seeds", seeds_text(&self.held_out_seeds)),
        ]);
        let notes: String = self.notes.iter().map(|note| callout("warn", "Note", note)).collect();
        let content = format!("{answer}{facts}{notes}{}", repeat_command(self.command.as_deref()));
        hero("Search for parameters", &self.policy, &chips.concat(), &content)
    }

    fn gains_chart(&self) -> String {
        let values = self.gains.iter().flat_map(|gain| {
            gain.gain_ci95.iter().flatten().chain(&gain.gain).map(|share| share * 100.0)
        });
        let axis = Axis::covering("gain (%)", values, Some(0.0));
        let chart = RowChart {
            label: "Gains with 95 % confidence intervals",
            heads: ("Runs", "Gain, 95 % interval"),
            axis: &axis,
            reference: Some(0.0),
            n_lines: 1,
        };
        chart.to_html(self.gains.iter().map(|gain| gain_row(gain, &axis)))
    }

    fn pair_maps(&self) -> String {
        let maps = self.pairs.iter().map(|pair| {
            let caption = pair.caption(self.no_effect().is_some());
            let map = pair.heat_map(&caption, |value| self.ratio(value));
            (caption, map)
        });
        if self.pairs.is_empty() { String::new() } else { panels(maps) }
    }

    fn value_charts(&self) -> String {
        let ratios = self.parameters.iter().flat_map(|parameter| &parameter.bins);
        let ratios = ratios.flat_map(|bin| bin.best_ratio.into_iter().chain(bin.mean_ratio));
        let title = "makespan relative to the defaults";
        let axis = Axis::covering_at_least(title, ratios, Some(1.0), AXIS_SPAN_MIN);
        let is_flat = self.no_effect().is_some();
        panels(self.parameters.iter().map(|parameter| {
            let chart = parameter.value_chart(&axis, |value| self.ratio(value));
            (parameter.caption(is_flat), chart)
        }))
    }
}

fn gain_row(gain: &TuneGain, axis: &Axis) -> ChartRow {
    const MIDDLE: f64 = 0.5;
    let mut marks = Marks::default();
    let at = |share: f64| axis.share(share * 100.0);
    if let Some([low, high]) = gain.gain_ci95.as_deref() {
        marks.line("whisker", (at(*low), MIDDLE), (at(*high), MIDDLE));
    }
    if let Some(share) = gain.gain {
        let class = if gain.verdict.is_some() { "full" } else { "open" };
        marks.mark(class, Shape::ALL[0], (at(share), MIDDLE), &gain.text());
    }
    ChartRow {
        name: format!("{}, over {}", gain.runs.name(), gain.baseline),
        marks,
        value: format!("{} {}", escape(&gain.text()), escape(&gain.verdict_text())),
    }
}

impl TunePair {
    fn caption(&self, is_flat: bool) -> String {
        format!("{} across, {} down ({})", self.x, self.y, effect_text(self.effect, is_flat))
    }

    fn heat_map(&self, caption: &str, ratio: impl Fn(f64) -> String) -> String {
        let cell = |x: usize, y: usize| {
            let found = self.cells.iter().find(|cell| (cell.x, cell.y) == (x as u64, y as u64));
            let Some(cell) = found else { return "<td></td>".to_owned() };
            let n_trials = cell.n_trials;
            match cell.best_ratio {
                Some(best) => format!(
                    "<td style=\"{}\"><b>{}</b><small>{n_trials}</small></td>",
                    heat((best - 1.0).abs() / FULL, best < 1.0),
                    ratio(best)
                ),
                None => format!("<td><b>{ABSENT}</b><small>{n_trials}</small></td>"),
            }
        };
        let row = |y: usize| (0..self.x_values.len()).map(|x| cell(x, y)).collect::<String>();
        let corner = format!("{} \\ {}", self.y, self.x);
        let heads =
            std::iter::once(corner.as_str()).chain(self.x_values.iter().map(String::as_str));
        let rows = self.y_values.iter().enumerate();
        let rows = rows.map(|(y, name)| (name.as_str(), row(y)));
        heat_table("heat small", caption, heads, rows)
    }
}

impl TunedParameter {
    fn caption(&self, is_flat: bool) -> String {
        format!("{} ({})", self.name, effect_text(self.effect, is_flat))
    }

    /// Draws the smallest and the mean makespan by value.
    fn value_chart(&self, axis: &Axis, ratio: impl Fn(f64) -> String) -> String {
        const MIDDLE: f64 = 0.5;
        let chart = RowChart {
            label: &format!("Makespan by value of {}", self.name),
            heads: ("Value", "Best, trials"),
            axis,
            reference: Some(1.0),
            n_lines: 1,
        };
        chart.to_html(self.bins.iter().map(|bin| {
            let mut marks = Marks::default();
            for (value, class) in [(bin.mean_ratio, "open"), (bin.best_ratio, "full")] {
                if let Some(value) = value {
                    marks.mark(class, Shape::ALL[0], (axis.share(value), MIDDLE), &ratio(value));
                }
            }
            let best = or_absent(bin.best_ratio, &ratio);
            let value = format!("{best}, {}", bin.n_trials);
            ChartRow { name: bin.values.clone(), marks, value }
        }))
    }
}

/// Returns an effect in words; `is_flat`: all trials are about equal.
fn effect_text(effect: Option<f64>, is_flat: bool) -> String {
    match effect {
        _ if is_flat => "no effect".to_owned(),
        Some(effect) => format!("effect {}", percent(effect)),
        None => "effect unknown: too few trials per value".to_owned(),
    }
}
