//! The page of a comparison: verdicts, ratios with confidence intervals, costs, runs and tables.
//!
//! This module draws all charts; scripts only sort tables and change colours. Each colour is accompanied by a sign or a
//! value.

use base::gb_per_s;

use super::ratio::{Ratio, class, sign, unfinished_phrase};
use super::{Compared, Comparison, ControllerRow, PolicyRow, SummaryRow, charts};
use crate::format::{self, ABSENT, bytes, count, counted, fixed, four_digits, or_absent, percent};
use crate::page::{
    Document, NO_DATA, PAGE_SCRIPT, TABLE_SCRIPT, callout, card, chip, escape, facts, hero,
    repeat_command, verdict,
};
use crate::table::Align::{Left, Right};
use crate::table::{RecordColumn, ReportTable, TableCell};
use crate::{chart, page};

impl Comparison {
    /// Returns the page as one HTML document.
    pub fn to_html(&self) -> String {
        let sections = [
            ("ratios", "Ratios to the baseline", "Ratios", RATIOS_LEAD, charts::ratios(self)),
            ("verdicts", "Verdicts", "Verdicts", VERDICTS_LEAD, charts::heat_map(self)),
            ("cost", "Gain and cost", "Cost", COST_LEAD, charts::gain_and_cost(self)),
            (
                "slowdowns",
                "Slowdowns and unfairness",
                "Slowdowns",
                SLOWDOWNS_LEAD,
                charts::slowdowns(self),
            ),
            ("runs", "Makespans of all runs", "Runs", RUNS_LEAD, charts::makespans(self)),
            (
                "controllers",
                "Load of memory controllers",
                "Controllers",
                CONTROLLERS_LEAD,
                charts::controllers(self).unwrap_or_default(),
            ),
            ("values", "All values", "Values", VALUES_LEAD, summary_table(self)),
            ("jobs", "Jobs", "Jobs", JOBS_LEAD, job_tables(self)),
        ];
        let present = || sections.iter().filter(|(.., content)| !content.is_empty());
        let method_link = ("method", "Method");
        let links = present().map(|(id, _, short, ..)| (*id, *short)).chain([method_link]);
        let links = page::links(&links.collect::<Vec<_>>());
        let cards =
            present().map(|(id, heading, _, lead, content)| card(id, heading, lead, content));
        let method = card("method", "Method", &escape(&method(self)), &setting(self));
        let document = Document {
            title: format!("Comparison of {}", policies(self)),
            styles: &[chart::CSS],
            scripts: Some((&[PAGE_SCRIPT, TABLE_SCRIPT], NO_DATA)),
            links,
            sections: std::iter::once(head(self)).chain(cards).chain([method]).collect(),
            footer: format!(
                "<span>evenkeel {}</span><span>compare.json in the same directory has all values with their units; \
                 runs.csv and summary.csv are for other programs</span>",
                escape(&self.tool)
            ),
        };
        document.to_html()
    }
}

const VERDICTS_LEAD: &str = "The ratio to the baseline and its 95 % confidence interval; below 1: less time. The sign is \
                             the verdict. Only a significant ratio has a colour.";
const RATIOS_LEAD: &str = "Mean makespan divided by that of the baseline in the paired runs, with its 95 % confidence \
                           interval. A filled mark is significant, an open one is not.";
const COST_LEAD: &str = "Makespan relative to the baseline over all workloads. The costs are medians per run, \
                         averaged over the workloads: CPU migrations of tasks, moves of running jobs by the policy, and \
                         memory migrated to another node.";
const SLOWDOWNS_LEAD: &str = "Slowdown of each job of each run: its run time divided by its run time alone. Unfairness \
                              of each run: the largest slowdown divided by the smallest. A box extends from the first to the third \
                              quartile, the line in it is the median, and the whiskers extend to the minimum and the maximum.";
const RUNS_LEAD: &str = "Makespan of every run in seconds, a circle per run; the bar is the mean.";
const CONTROLLERS_LEAD: &str = "GB read and written per second, a circle per node, mean per run. The line extends from the \
                                least to the most loaded node: a shorter line is a more balanced load.";
const VALUES_LEAD: &str = "Times in seconds. A click on a column header sorts the table. A dash is a value that was \
                           not measured. The first column links to the timeline of the run with the median makespan, if \
                           that run has a report.";
const JOBS_LEAD: &str =
    "Mean time of each job in seconds and, where it was measured alone, its mean slowdown.";

fn policies(all: &Comparison) -> String {
    match all.setting.columns.as_slice() {
        [one, other] => format!("{one} and {other}"),
        more => counted(more.len(), all.setting.compared.noun()),
    }
}

fn head(all: &Comparison) -> String {
    let setting = &all.setting;
    let (class, word) = match all.unfinished_counts() {
        _ if setting.n_runs_done < setting.n_runs => ("warn", "interrupted".to_owned()),
        (0, 0) => ("good", "complete".to_owned()),
        (n_failed, n_stopped) => {
            ("bad", format!("runs: {}", unfinished_phrase(n_failed, n_stopped)))
        }
    };
    let chips = [
        format!("<li class=\"chip {class}\">{word}</li>"),
        chip("baseline", &setting.baseline),
        chip("runs", &format!("{} of {}", count(setting.n_runs_done), count(setting.n_runs))),
        chip(if setting.host == "sim" { "simulated" } else { "live on" }, &setting.machine),
    ];
    let heading = format!("{}: {}", policies(all), setting.repetitions());
    let notes: String = all.notes.iter().map(|note| callout("warn", "Note", note)).collect();
    let repeat = repeat_command(setting.command.as_deref());
    let content = format!("{}\n{notes}{repeat}", answer(all));
    hero("Comparison", &heading, &chips.concat(), &content)
}

/// Returns the answer, and below it the verdict on each policy over all workloads, the fastest first.
fn answer(all: &Comparison) -> String {
    let verdict = all.answer_verdict();
    let answer = format!("<p class=\"answer {}\">{}</p>", class(verdict), escape(&all.answer()));
    match findings(all) {
        none if none.is_empty() => answer,
        findings => format!("{answer}<ul class=\"findings\">\n{findings}</ul>"),
    }
}

/// Returns the verdict on each policy. There is none if the answer is the only verdict, or states that no verdict is
/// possible.
fn findings(all: &Comparison) -> String {
    if all.policies.len() == 2 || all.too_few_pairs().is_some() {
        return String::new();
    }
    let finding = |row: &PolicyRow| {
        let counts = match all.setting.workloads.len() {
            1 => String::new(),
            _ => format!(
                "; better on {}, worse on {}, equal on {}, inconclusive on {}",
                row.n_better, row.n_worse, row.n_equal, row.n_inconclusive
            ),
        };
        format!(
            "<li class=\"{}\"><span class=\"mark\">{}</span><span><b>{}</b> {}{counts}.</span></li>\n",
            class(row.verdict),
            sign(row.verdict),
            escape(&row.column),
            escape(&all.verdict_on(row)),
        )
    };
    all.by_ratio().into_iter().map(finding).collect()
}

/// Returns the text about the computation of the verdicts.
fn method(all: &Comparison) -> String {
    let setting = &all.setting;
    let noun = setting.compared.noun();
    let pairs = match setting.compared {
        Compared::Policies if setting.n_profile_draws.is_some() => {
            "Every policy runs on every workload with the same seeds and the same draws of the profiles. Runs with the same seed are paired, and the pairs of one draw are averaged to one pair, so that the interval contains the uncertainty of the profiles."
        }
        Compared::Policies => {
            "Every policy runs on every workload with the same seeds, and runs with the same seed are paired."
        }
        Compared::Commands => {
            "The commands alternate, and the first runs of all commands are paired, then the second runs, and so on."
        }
    };
    let equal = setting.equal_within.map_or(String::new(), |share| {
        format!(
            "A verdict is equal if the whole interval is within {} of 1, the accuracy of the simulator. ",
            percent(share)
        )
    });
    format!(
        "{pairs} The ratio is the ratio of the mean makespans of the pairs; its confidence interval is a bootstrap over the \
         pairs. {}{} verdict is better or worse if the interval excludes 1 and the signed-rank test of the pairs, with Holm's \
         correction for the number of {}, gives p below 0.05. A run that did not finish is the slowest in the test and \
         removes the ratio; the verdict is then that of the test. Every other verdict is inconclusive, which does \
         not mean equal. With {} in addition to the baseline, fewer than {} {}s are always inconclusive.",
        equal,
        if equal.is_empty() { "A" } else { "Otherwise the" },
        base::noun(false, noun),
        counted(setting.columns.len() - 1, noun),
        setting.n_pairs_needed,
        setting.observation(),
    )
}

fn setting(all: &Comparison) -> String {
    let setting = &all.setting;
    let nodes = base::counted_noun(setting.n_nodes, "node");
    let cpus = base::counted_noun(setting.n_cpus, "CPU");
    let seeds: Vec<String> = setting.seeds.iter().map(u64::to_string).collect();
    let mut list = vec![("Machine", format!("{} ({nodes}, {cpus})", setting.machine))];
    match setting.compared {
        Compared::Policies => {
            list.extend([("Workloads", setting.workloads.join(", ")), ("Seeds", seeds.join(", "))])
        }
        Compared::Commands => list.push(("Runs of each command", seeds.len().to_string())),
    }
    let options = setting.options.iter();
    list.extend(options.map(|option| (option.name.as_str(), option.value.clone())));
    list.push(("Version", format!("evenkeel {}", all.tool)));
    facts(&list)
}

/// Returns the two ends of an interval, sorted by the lower one.
fn interval(ci95: &Option<Vec<f64>>, text: Option<String>) -> TableCell {
    let low = ci95.as_ref().and_then(|ends| ends.first().copied());
    TableCell::number(low, |_| text.unwrap_or_else(|| ABSENT.to_owned()))
}

fn number(value: Option<f64>, digits: usize) -> TableCell {
    TableCell::number(value, |value| fixed(value, digits))
}

/// Returns the policy, with a link to the report of its run with the median makespan.
fn policy_cell(row: &SummaryRow) -> TableCell {
    let (Some(path), Some(seed)) = (&row.timeline, row.median_seed) else {
        return TableCell::from(&*row.column);
    };
    let (policy, path) = (escape(&row.column), escape(path));
    let title = format!("run with the median makespan, seed {seed}");
    TableCell::html(&row.column, format!("<a href=\"{path}\" title=\"{title}\">{policy}</a>"))
}

/// Returns the mean makespan, or why it is absent.
fn mean_cell(row: &SummaryRow) -> TableCell {
    match row.mean_s {
        Some(_) => TableCell::number(row.mean_s, four_digits),
        None => TableCell::from(row.mean_text(0)),
    }
}

/// Returns the ratio, or why it is absent.
fn ratio_cell(ratio: &Ratio<'_>) -> TableCell {
    match ratio.ratio {
        Some(_) => TableCell::number(ratio.ratio, |_| ratio.text()),
        None => TableCell::from(ratio.text()),
    }
}

fn verdict_cell(ratio: &Ratio<'_>) -> TableCell {
    let word = ratio.verdict_word();
    TableCell::html(word, verdict((ratio.sign(), ratio.class()), word))
}

/// Returns the load of each node, sorted by the largest.
fn controllers_cell(row: &SummaryRow) -> TableCell {
    let highest = row.controllers.iter().map(|row| row.bytes_per_s).max_by(f64::total_cmp);
    let load = |row: &ControllerRow| gb_per_s(row.bytes_per_s);
    let loads: Vec<String> = row.controllers.iter().map(load).collect();
    TableCell::number(highest, |_| format!("{} GB/s", loads.join(" · ")))
}

/// Returns the table of each policy on each workload. The verdict is next to the ratio, so that it is visible without
/// scrolling; columns without any value are omitted.
fn summary_table(all: &Comparison) -> String {
    let columns: [RecordColumn<(&SummaryRow, Ratio<'_>)>; 19] = [
        ("column", Left, |(row, _)| policy_cell(row)),
        ("workload", Left, |(row, _)| TableCell::from(&*row.workload)),
        ("n_runs", Right, |(row, _)| TableCell::number(Some(row.n_runs), count)),
        ("mean_s", Right, |(row, _)| mean_cell(row)),
        ("ratio_to_baseline", Right, |(_, ratio)| ratio_cell(ratio)),
        ("ratio_ci95", Right, |(row, ratio)| interval(&row.ratio_ci95, ratio.interval("–"))),
        ("verdict", Left, |(_, ratio)| verdict_cell(ratio)),
        ("p_holm", Right, |(row, _)| number(row.p_holm, 4)),
        ("median_s", Right, |(row, _)| TableCell::number(row.median_s, four_digits)),
        ("ci95_s", Right, |(row, _)| {
            interval(&row.ci95_s, format::ci(row.ci95_s.as_deref(), 3, "–"))
        }),
        ("variation", Right, |(row, _)| TableCell::number(row.variation, percent)),
        ("oracle_gap", Right, |(row, _)| TableCell::number(row.oracle_gap, format::signed_percent)),
        ("model_gap", Right, |(row, _)| TableCell::number(row.model_gap, percent)),
        ("slowdown", Right, |(row, _)| TableCell::number(row.slowdown, format::ratio)),
        ("unfairness", Right, |(row, _)| TableCell::number(row.unfairness, format::ratio)),
        ("n_migrations_median", Right, |(row, _)| number(row.n_migrations_median, 1)),
        ("n_moves_median", Right, |(row, _)| number(row.n_moves_median, 1)),
        ("pages_moved_median_bytes", Right, |(row, _)| {
            TableCell::number(row.pages_moved_median_bytes, |n| bytes(n as u64))
        }),
        ("controllers", Right, |(row, _)| controllers_cell(row)),
    ];
    let has_workloads = all.setting.compared == Compared::Policies;
    let columns: Vec<RecordColumn<(&SummaryRow, Ratio<'_>)>> =
        columns.into_iter().filter(|(name, ..)| has_workloads || *name != "workload").collect();
    let rows: Vec<(&SummaryRow, Ratio<'_>)> =
        all.summary.iter().map(|row| (row, Ratio::of_workload(all, row))).collect();
    let table = ReportTable::of_records(SummaryRow::FIELDS, &columns, &rows).with_row_heads();
    let table = table.with_first_head(all.setting.compared.head()).without_absent_columns();
    table.to_html("summary-table", "data sortable", "All values")
}

/// Returns a collapsed table of the jobs of each workload; empty for commands.
fn job_tables(all: &Comparison) -> String {
    if all.setting.compared == Compared::Commands {
        return String::new(); // Each command is one job, whose time is the makespan.
    }
    let of_workload = |workload: &String| {
        let rows: Vec<&SummaryRow> =
            all.summary.iter().filter(|row| row.workload == *workload).collect();
        let policies = all.setting.columns.iter().map(|name| (name.as_str(), Right));
        let mut table =
            ReportTable::new([("Job", Left), ("Alone", Right)].into_iter().chain(policies))
                .with_row_heads();
        let n_jobs = rows.first().map_or(0, |row| row.jobs.len());
        (0..n_jobs).for_each(|job| table.row(job_cells(&rows, job)));
        format!(
            "<details><summary>{} <span class=\"muted\">{}</span></summary>{}</details>\n",
            escape(workload),
            base::counted_noun(n_jobs, "job"),
            table.to_html("", "data", &format!("Jobs of {workload}"))
        )
    };
    all.setting.workloads.iter().map(of_workload).collect()
}

fn job_cells(rows: &[&SummaryRow], idx: usize) -> Vec<TableCell> {
    let Some(first) = rows.first().map(|row| &row.jobs[idx]) else { return Vec::new() };
    let cell = |row: &&SummaryRow| {
        let job = &row.jobs[idx];
        let mean = or_absent(job.mean_s, four_digits);
        let slowdown = job
            .slowdown
            .map(|slowdown| format!("{mean} <small>× {}</small>", format::ratio(slowdown)));
        slowdown.map_or(TableCell::from(mean), |html| TableCell::html("", html))
    };
    let alone = TableCell::from(or_absent(first.alone_s, four_digits));
    [TableCell::from(&*first.name), alone].into_iter().chain(rows.iter().map(cell)).collect()
}
