//! The result of a study (a publication that is reproduced) as JSON and as an HTML page.
//!
//! ```text
//!   verdicts ─► per experiment: source, limit, method ─► charts and tables ─► claims with verdicts ─► notes
//! ```
//!
//! The page is one self-contained file. A chart plots the cells of the table below it, so that both agree.
//! Each colour is accompanied by a shape, a value or a word.

mod charts;
mod model;
mod values;

pub use model::*;

use crate::chart;
use crate::page::{
    Document, NO_DATA, PAGE_SCRIPT, callout, card, escape, facts, hero, repeat_command, verdict,
};
use crate::table::Align::{self, Left, Right};
use crate::table::{ReportTable, TableCell};
use base::counted_noun;

/// Kind of the chart above a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChartKind {
    /// No chart.
    #[default]
    None,
    /// Cells coloured by value. All values have one unit.
    Heat,
    /// A panel of bars per column, each with its own unit.
    Bars,
    /// Ranges, or means with their confidence intervals: a row of the chart per row of the table, all on one axis.
    Intervals,
    /// The first column is the horizontal axis; each other column is a line.
    Lines,
}

/// Styles of the tables and charts of a study.
const STUDY_CSS: &str = include_str!("page.css");

impl StudyTable {
    /// Returns the cells as text, indented by two columns; see [`ReportTable::to_blocks`].
    pub fn to_text(&self, width: usize) -> String {
        self.table(Right).indented(2).to_blocks(width, self.n_labels())
    }

    /// Returns the number of columns that name a row: the first, and those after it that have words only. If no column
    /// has a value, only the first names the row.
    fn n_labels(&self) -> usize {
        let is_label = |idx: usize| self.rows.iter().all(|row| row[idx].values.is_empty());
        let n = (1..self.columns.len()).take_while(|idx| is_label(*idx)).count() + 1;
        if n < self.columns.len() { n } else { 1 }
    }

    /// Returns the table, with its first column left-aligned.
    fn table(&self, others: Align) -> ReportTable {
        let aligns = std::iter::once(Left).chain(std::iter::repeat(others));
        let heads = self.columns.iter().map(|column| column.head.as_str()).zip(aligns);
        let mut table = ReportTable::new(heads).with_row_heads();
        self.rows.iter().for_each(|row| table.row(row.iter().map(|cell| cell.text.as_str())));
        table
    }
}

impl StudyResult {
    /// Returns the page as one HTML document. `charts` has the kind of chart of each table of each experiment.
    pub fn to_html(&self, charts: &[Vec<ChartKind>]) -> String {
        let link = |experiment: &StudyExperiment| {
            let name = escape(&experiment.name);
            (name.clone(), name)
        };
        let experiments = self.experiments.iter().zip(charts);
        let experiments = experiments.map(|(experiment, kinds)| section(experiment, kinds));
        let document = Document {
            title: self.title(),
            styles: &[chart::CSS, STUDY_CSS],
            scripts: Some((&[PAGE_SCRIPT], NO_DATA)),
            links: self.experiments.iter().map(link).collect(),
            sections: std::iter::once(self.head()).chain(experiments).collect(),
            footer: facts(&[
                ("Version", format!("evenkeel {}", self.tool)),
                ("Machines, simulated", self.machines.join(", ")),
            ]),
        };
        document.to_html()
    }

    fn title(&self) -> String {
        format!("{}: {}", self.study, self.source)
    }

    fn head(&self) -> String {
        let chips = [
            counted_noun(self.seeds.len(), "seed"),
            counted_noun(self.n_draws, "draw"),
            counted_noun(self.experiments.len(), "experiment"),
        ];
        let chips = chips.map(|text| format!("<li class=\"chip\">{text}</li>")).concat();
        let interrupted = match self.not_run.as_slice() {
            [] => String::new(),
            names => callout("warn", "Interrupted", &format!("not run: {}", names.join(", "))),
        };
        let rows: String = self.experiments.iter().map(|it| self.verdict_counts(it)).collect();
        let content = format!("{interrupted}<ul class=\"findings\">\n{rows}</ul>");
        let source = format!("<p class=\"lead\">{}</p>", escape(&self.source));
        let content = format!("{source}{content}{}", repeat_command(Some(&self.command)));
        hero("Published and reproduced values", &self.study, &chips, &content)
    }

    fn verdict_counts(&self, experiment: &StudyExperiment) -> String {
        let mut counts: Vec<(StudyVerdict, usize)> = Vec::new();
        for claim in &experiment.claims {
            match counts.iter_mut().find(|(verdict, _)| *verdict == claim.verdict) {
                Some((_, n)) => *n += 1,
                None => counts.push((claim.verdict, 1)),
            }
        }
        let count =
            |(of, n): &(StudyVerdict, usize)| verdict(of.mark(), &format!("{}: {n}", of.text()));
        let counts: Vec<String> = counts.iter().map(count).collect();
        let counts = match counts.as_slice() {
            [] => "no claims".to_owned(),
            counts => counts.join(" · ") + &self.preliminary(),
        };
        let (name, title) = (escape(&experiment.name), escape(&experiment.title));
        format!("<li><span><a href=\"#{name}\"><b>{name}</b></a> {title}: {counts}</span></li>\n")
    }

    /// Returns that verdicts are preliminary, if there are too few seeds.
    fn preliminary(&self) -> String {
        let (n, needed) = (self.seeds.len() as u64, self.n_seeds_needed);
        match n < needed {
            true => format!(" (preliminary: {n} of {})", counted_noun(needed, "seed")),
            false => String::new(),
        }
    }
}

fn section(experiment: &StudyExperiment, kinds: &[ChartKind]) -> String {
    let facts = facts(&[
        ("Source", &experiment.source),
        ("Limit", &experiment.limit),
        ("Method", &experiment.method),
    ]);
    let tables: String =
        experiment.tables.iter().zip(kinds).map(|(table, kind)| values(table, *kind)).collect();
    let notes: String =
        experiment.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    let notes =
        if notes.is_empty() { notes } else { format!("<ul class=\"remarks\">{notes}</ul>") };
    let (name, title) = (escape(&experiment.name), escape(&experiment.title));
    let content = format!("{facts}{tables}{}{notes}", claims(&experiment.claims));
    card(&name, &format!("{name}: {title}"), "", &content)
}

/// Returns a table, collapsed below its chart if the table has a chart.
fn values(table: &StudyTable, kind: ChartKind) -> String {
    let (chart, cells) =
        (charts::chart(table, kind), table.table(Left).to_html("", "data", &table.title));
    let content = match chart.is_empty() {
        true => cells,
        false => format!("{chart}<details><summary>Values</summary>{cells}</details>"),
    };
    format!("<h3>{}</h3>{content}", escape(&table.title))
}

fn claims(claims: &[StudyClaim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut table =
        ReportTable::new(["Claim", "Reading", "Result", "Verdict"].map(|head| (head, Left)));
    for claim in claims {
        let text = claim.verdict.text();
        table.row([
            TableCell::from(&*claim.claim),
            TableCell::from(claim.reading.name()),
            TableCell::from(&*claim.result),
            TableCell::html(&text, verdict(claim.verdict.mark(), &text)),
        ]);
    }
    table.to_html("", "data stack", "Claims")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study() -> StudyResult {
        let column = |head: &str| StudyColumn {
            head: head.to_owned(),
            unit: "%".to_owned(),
            is_published: false,
        };
        let table = StudyTable {
            title: "time saved in %".to_owned(),
            columns: ["workload", "the report", "corrected"].map(column).to_vec(),
            rows: [["wl<1>", "-0.8 to +4.5", "+1.0±0.2"], ["2", "–", "-0.5"]]
                .map(|row| row.map(StudyCell::from).to_vec())
                .to_vec(),
        };
        let claim = StudyClaim {
            claim: "it <gains>".to_owned(),
            reading: RuleReading::Corrected,
            result: "+1.0".to_owned(),
            values: Vec::new(),
            verdict: StudyVerdict::Reproduces,
        };
        let experiment = StudyExperiment {
            name: "fig-1".to_owned(),
            title: "an experiment".to_owned(),
            source: "it is faster".to_owned(),
            limit: String::new(),
            method: String::new(),
            machines: Vec::new(),
            tables: vec![table],
            claims: vec![claim],
            notes: vec!["one run failed".to_owned()],
        };
        StudyResult {
            format: FORMAT,
            tool: "1.0".to_owned(),
            command: "evenkeel reproduce <dfs>".to_owned(),
            study: "dfs".to_owned(),
            source: "a paper".to_owned(),
            selected: Vec::new(),
            seeds: vec![1, 2],
            n_seeds_needed: 2,
            n_draws: 1,
            machines: Vec::new(),
            experiments: vec![experiment],
            not_run: vec!["fig-2".to_owned()],
        }
    }

    #[test]
    fn a_page_loads_nothing_and_its_text_is_escaped() {
        let html = study().to_html(&[vec![ChartKind::Intervals]]);
        let loads = ["<link", "src=", "@import", "url(", "https://"];
        assert!(
            html.contains("default-src 'none'") && loads.iter().all(|load| !html.contains(load))
        );
        assert!(html.contains("wl&lt;1&gt;") && html.contains("it &lt;gains&gt;"));
        assert!(!html.contains("<gains>"));
        assert!(html.contains("<code>evenkeel reproduce &lt;dfs&gt;</code>"));
        assert!(html.contains("not run: fig-2"));
    }

    #[test]
    fn a_chart_is_above_its_table_and_a_verdict_has_a_sign_and_words() {
        for (kind, mark) in [
            (ChartKind::Intervals, "class=\"range s0\""),
            (ChartKind::Bars, "class=\"bar plain\""),
            (ChartKind::Lines, "class=\"line s1\""),
            (ChartKind::Heat, "class=\"heat small\""),
        ] {
            let html = study().to_html(&[vec![kind]]);
            assert!(html.contains(mark), "{kind:?}");
            assert!(html.contains("<summary>Values") && html.contains("+1.0±0.2"), "{kind:?}");
        }
        let plain = study().to_html(&[vec![ChartKind::None]]);
        assert!(!plain.contains("class=\"plot"));
        assert!(plain.contains("✓ reproduces") && plain.contains("✓ reproduces: 1"));
    }

    #[test]
    fn verdicts_from_too_few_seeds_are_preliminary_in_the_head() {
        let mut study = study();
        assert!(!study.to_html(&[Vec::new()]).contains("preliminary"));
        study.n_seeds_needed = 6;
        let html = study.to_html(&[Vec::new()]);
        assert!(html.contains("✓ reproduces: 1</span> (preliminary: 2 of 6 seeds)"), "{html}");
        study.experiments[0].claims.clear();
        assert!(!study.to_html(&[Vec::new()]).contains("preliminary"), "no verdict");
    }

    #[test]
    fn a_row_of_a_chart_has_all_its_labels() {
        let mut study = study();
        let table = &mut study.experiments[0].tables[0];
        table.columns[1].head = "program".to_owned();
        table.rows = [["hd1", "gamess", "-0.5"], ["hd1", "mean", "+1.0±0.2"]]
            .map(|row| row.map(StudyCell::from).to_vec())
            .to_vec();
        for kind in [ChartKind::Bars, ChartKind::Intervals] {
            let html = study.to_html(&[vec![kind]]);
            for label in ["hd1, gamess", "hd1, mean", "workload, program"] {
                assert!(html.contains(label), "{kind:?}: {label}");
            }
        }
        // The first label is enough if it differs in all rows.
        study.experiments[0].tables[0].rows[1][0] = StudyCell::from("hd2");
        assert!(!study.to_html(&[vec![ChartKind::Bars]]).contains("hd1, gamess"));
    }

    #[test]
    fn a_table_without_rows_has_a_chart_too() {
        for kind in [ChartKind::Intervals, ChartKind::Bars, ChartKind::Lines, ChartKind::Heat] {
            let mut study = study();
            study.experiments[0].tables[0].rows.clear();
            assert!(study.to_html(&[vec![kind]]).contains("time saved"), "{kind:?}");
        }
    }
}
