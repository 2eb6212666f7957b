//! The result of a search as text: at most eighty columns, readable without colour.

use super::{TuneGain, TuneResult};
use crate::format::{ABSENT, fixed, or_absent, signed_percent};
use crate::table::Align::{Left, Right};
use crate::table::{ReportTable, fold, fold_command};

/// Number of parameters whose values are listed; the page and the JSON have all.
const N_PARAMETERS_SHOWN: usize = 6;

impl TuneResult {
    /// Returns the result as text with at most `width` columns.
    pub fn to_text(&self, width: usize) -> String {
        let mut parts = vec![
            fold(&self.answer(), width, "", 0),
            self.head(width),
            self.gain_table().to_text(width),
            self.parameter_table().to_text(width),
            fold(&self.effects_text(), width, "", 0),
        ];
        parts.extend(self.sensitivity(width));
        parts.push(self.notes.iter().map(|note| fold(note, width, "note: ", 6)).collect());
        let repeat = self.command.as_deref();
        parts.extend(repeat.map(|command| fold_command(command, width, "repeat: ")));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    fn head(&self, width: usize) -> String {
        const INDENT: usize = 10;
        let on = |workloads: &[String], seeds: &[u64]| {
            let seed = base::noun(seeds.len() == 1, "seed");
            format!("{} with {seed} {}", workloads.join(", "), seeds_text(seeds))
        };
        let held_out = match self.held_out_workloads.as_slice() {
            [] => &self.training_workloads,
            workloads => workloads,
        };
        let search = format!(
            "{} of {}, {} on {} (simulated)",
            base::counted_noun(self.n_trials, "setting"),
            base::counted_noun(self.parameters.len(), "parameter"),
            base::counted_noun(self.n_runs, "run"),
            self.machine
        );
        [
            ("settings: ", self.settings.clone()),
            ("search:   ", search),
            ("training: ", on(&self.training_workloads, &self.training_seeds)),
            ("held out: ", on(held_out, &self.held_out_seeds)),
        ]
        .map(|(head, text)| fold(&text, width, head, INDENT))
        .concat()
    }

    /// Returns the gains of the found settings.
    pub(super) fn gain_table(&self) -> ReportTable {
        let heads = [
            ("runs", Left),
            ("compared with", Left),
            ("gain", Right),
            ("95 % CI", Left),
            ("verdict", Left),
        ];
        let mut table = ReportTable::new(heads).with_folded_column();
        for gain in &self.gains {
            table.row([
                gain.runs.name().to_owned(),
                gain.baseline.clone(),
                or_absent(gain.gain, signed_percent),
                gain.interval().unwrap_or_else(|| ABSENT.to_owned()),
                gain.verdict_text(),
            ]);
        }
        table
    }

    /// Returns the parameters.
    pub(super) fn parameter_table(&self) -> ReportTable {
        let heads = [
            ("parameter", Left),
            ("effect", Right),
            ("trials", Right),
            ("default", Left),
            ("found", Left),
            ("searched values", Left),
        ];
        let mut table = ReportTable::new(heads).with_folded_column();
        for parameter in &self.parameters {
            table.row([
                parameter.name.clone(),
                or_absent(parameter.effect, |effect| fixed(effect, 2)),
                parameter.n_trials.to_string(),
                parameter.default.clone(),
                parameter.found.clone().unwrap_or_else(|| ABSENT.to_owned()),
                parameter.values.clone(),
            ]);
        }
        table
    }

    /// Returns the sensitivity tables of the parameters with the largest effects.
    fn sensitivity(&self, width: usize) -> Vec<String> {
        let mut parameters: Vec<_> = self.parameters.iter().collect();
        parameters.sort_by(|one, other| {
            other.effect.unwrap_or(0.0).total_cmp(&one.effect.unwrap_or(0.0))
        });
        let heads = [
            ("parameter", Left),
            ("values", Left),
            ("trials", Right),
            ("best makespan", Right),
            ("mean", Right),
        ];
        let mut table = ReportTable::new(heads);
        for parameter in parameters.iter().take(N_PARAMETERS_SHOWN) {
            let mut name = parameter.name.clone();
            for bin in &parameter.bins {
                table.row([
                    std::mem::take(&mut name),
                    bin.values.clone(),
                    bin.n_trials.to_string(),
                    or_absent(bin.best_ratio, |ratio| self.ratio(ratio)),
                    or_absent(bin.mean_ratio, |ratio| self.ratio(ratio)),
                ]);
            }
        }
        let head = "Makespan on the training runs by value, relative to the defaults (below 1: less time):";
        let n_more = parameters.len().saturating_sub(N_PARAMETERS_SHOWN);
        let more = (0 < n_more).then(|| {
            format!("… and {} with smaller effects\n", base::counted_noun(n_more, "parameter"))
        });
        vec![fold(head, width, "", 0) + "\n" + &table.to_text(width) + &more.unwrap_or_default()]
    }
}

impl TuneGain {
    /// Returns the verdict, or why there is none.
    pub(super) fn verdict_text(&self) -> String {
        match (&self.remark, self.verdict) {
            (Some(remark), _) => remark.clone(),
            (None, Some(verdict)) => verdict.name().to_owned(),
            (None, None) => ABSENT.to_owned(),
        }
    }
}

/// Returns seeds as ranges: `1-5, 9`.
pub(super) fn seeds_text(seeds: &[u64]) -> String {
    let ranges = seeds.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let range = |range: &[u64]| match range {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    ranges.map(range).collect::<Vec<_>>().join(", ")
}
