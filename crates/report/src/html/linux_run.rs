//! The run of the same command under `linux`, beside this run: makespans as bars, and the wall time of each job.

use crate::chart::{Axis, ChartRow, Marks, RowChart};
use crate::format::{ABSENT, or_absent, seconds, signed_percent, started};
use crate::model::{JobRow, LinuxRun, Report};
use crate::page::{card_with_header, escape};
use crate::table::Align::{Left, Right};
use crate::table::{ReportTable, TableCell};
use crate::text::spec;

/// Returns the section; empty without such a run.
pub(super) fn section(report: &Report) -> String {
    let Some(linux) = &report.linux else { return String::new() };
    let lead = "The newest run of the same command under the policy linux. One run under each policy is one \
                observation: <code>evenkeel compare</code> measures the difference with its confidence interval.";
    let content = makespans(report, linux) + &jobs(report);
    card_with_header("linux", "Under linux", &link(linux), lead, &content)
}

fn link(linux: &LinuxRun) -> String {
    let path = escape(&linux.path);
    let name = match linux.has_page {
        true => format!("<a href=\"{path}/report.html\">{path}</a>"),
        false => path,
    };
    let at = match linux.started_unix_s {
        0 => String::new(),
        at => format!(", started {}", started(at)),
    };
    format!("<span class=\"count\">{name}{}: {}</span>", escape(&at), escape(&linux.result))
}

fn makespans(report: &Report, linux: &LinuxRun) -> String {
    let runs = [(spec(&report.run), report.run.makespan_ns), ("linux", linux.makespan_ns)];
    let in_seconds = |ns: u64| ns as f64 / 1e9;
    let axis = Axis::from_zero("makespan (s)", runs.iter().filter_map(|run| run.1).map(in_seconds));
    let chart = RowChart {
        label: "Makespans of this run and of the run under linux",
        heads: ("Policy", "Makespan"),
        axis: &axis,
        reference: None,
        n_lines: 1,
    };
    chart.to_html(runs.map(|(policy, makespan)| {
        let mut marks = Marks::default();
        if let Some(ns) = makespan {
            marks.bar("bar plain", (0.0, axis.share(in_seconds(ns))), 0.5, "");
        }
        let value = or_absent(makespan, |ns| format!("{} s", seconds(ns)));
        ChartRow { name: policy.to_owned(), marks, value: escape(&value) }
    }))
}

fn jobs(report: &Report) -> String {
    let heads = [("Job", Left), ("Time (s)", Right), ("linux (s)", Right), ("Change", Right)];
    let mut table = ReportTable::new(heads).with_row_heads();
    report.jobs.iter().for_each(|job| table.row(cells(job)));
    table.to_html("linux-table", "data sortable", "Wall times of the jobs under both policies")
}

fn cells(job: &JobRow) -> [TableCell; 4] {
    let difference = match (job.wall_ns, job.linux_wall_ns) {
        (Some(wall), Some(linux)) => signed_percent(wall as f64 / linux as f64 - 1.0),
        _ => ABSENT.to_owned(),
    };
    [
        TableCell::from(&*job.name),
        TableCell::number(job.wall_ns, seconds),
        TableCell::number(job.linux_wall_ns, seconds),
        TableCell::from(difference),
    ]
}
