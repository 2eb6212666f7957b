//! Optional sections of the text report: core kinds, moves, counters and memory by node.

use super::approximate;
use crate::format::{ABSENT, bytes, count, per_instruction, percent, seconds};
use crate::model::{BoundKindRow, JobRow, MoveRow, NodeMemoryRow, Report};
use crate::table::{Align, ReportTable, fold};

/// Number of last moves that are printed.
const N_MOVES_SHOWN: usize = 10;
/// Maximum number of jobs for which the counters of all jobs are printed.
const N_COUNTERS_ALL: usize = 20;
/// Number of jobs for which counters are printed if there are more jobs. The page and the JSON contain all counters.
const N_COUNTERS_SHOWN: usize = 5;
/// Number of jobs in a list.
const N_LISTED: usize = 10;

/// Returns the last moves with their reasons; in a replay, the requests for moves.
pub(super) fn moves(report: &Report, width: usize) -> String {
    let all = &report.moves;
    if all.is_empty() {
        return String::new();
    }
    let first = all.len().saturating_sub(N_MOVES_SHOWN);
    let n_before = report.totals.n_moves_omitted + first as u64;
    let title = match report.run.replay_of {
        None => "moves and releases",
        Some(_) => "requested moves (not carried out)",
    };
    let mut text = match n_before {
        0 => format!("{title}\n"),
        n => format!("{title} (the last {}; {} before)\n", all.len() - first, count(n)),
    };
    text.extend(all[first..].iter().map(|moved| move_lines(moved, width)));
    text
}

fn move_lines(moved: &MoveRow, width: usize) -> String {
    let head = format!("{:>9} s  ", seconds(moved.at_ns));
    let place = |label: &Option<String>| label.clone().unwrap_or_else(|| "unbound".to_owned());
    let repeated = repetitions(moved).map_or(String::new(), |times| format!(" ({times})"));
    let change = format!("{} -> {}{repeated}", place(&moved.from), place(&moved.to));
    let mut text = fold(&format!("{}  {change}", moved_name(moved)), width, &head, 13);
    if let Some(reason) = reason_of_move(moved) {
        text.push_str(&fold(&format!("because {reason}"), width, &" ".repeat(13), 13));
    }
    text
}

/// Returns what was moved: `encode`, or `encode thread 1003`.
pub(crate) fn moved_name(moved: &MoveRow) -> String {
    let thread = moved.tid.map_or(String::new(), |tid| format!(" thread {tid}"));
    format!("{}{thread}", moved.name)
}

/// Returns the repetitions of a move: `5 times, the last time at 3.000 s`; `None` for a single occurrence.
pub(crate) fn repetitions(moved: &MoveRow) -> Option<String> {
    let last = seconds(moved.last_at_ns);
    (1 < moved.n).then(|| format!("{} times, the last time at {last} s", count(moved.n)))
}

/// Returns the reason, and the requested CPUs if fewer were usable.
pub(crate) fn reason_of_move(moved: &MoveRow) -> Option<String> {
    let reason = moved.reason.as_ref()?;
    let narrowed = narrowed(moved.requested_cpus.as_ref(), moved.to_cpus.as_ref());
    Some(format!("{reason}{narrowed}"))
}

/// Returns the requested CPUs, if fewer were usable.
pub(crate) fn narrowed(requested: Option<&String>, actual: Option<&String>) -> String {
    requested.zip(actual).map_or(String::new(), |(requested, actual)| {
        format!("; narrowed from the requested CPUs {requested} to {actual}")
    })
}

/// A column of counters: its header and the cell of a job.
type CounterColumn = (&'static str, fn(&JobRow) -> Option<String>);

const COUNTER_COLUMNS: [CounterColumn; 6] = [
    ("faults", |job| counter(job, "page-faults")),
    ("switches", |job| counter(job, "context-switches")),
    ("migrations", |job| job.n_migrations.map(count)),
    ("IPC", |job| job.ipc.map(per_instruction)),
    ("MPKI", |job| job.mpki.map(per_instruction)),
    ("traffic", |job| job.traffic_bytes.map(bytes)),
];

/// Returns the counters of jobs, one line per job. Columns without values are omitted.
pub(super) fn counters(jobs: &[JobRow], width: usize) -> String {
    let jobs: Vec<&JobRow> = jobs.iter().filter(|job| !job.counters.is_empty()).collect();
    if jobs.is_empty() {
        return String::new();
    }
    let n_shown = if jobs.len() <= N_COUNTERS_ALL { jobs.len() } else { N_COUNTERS_SHOWN };
    let shown = &jobs[..n_shown];
    let has_values = |(_, cell): &CounterColumn| shown.iter().any(|job| cell(job).is_some());
    let columns: Vec<CounterColumn> = COUNTER_COLUMNS.into_iter().filter(has_values).collect();
    let mut heads = vec![("counters", Align::Left)];
    heads.extend(columns.iter().map(|(head, _)| (*head, Align::Right)));
    let mut table = ReportTable::new(heads);
    for job in shown {
        let cells = columns.iter().map(|(_, cell)| cell(job).unwrap_or(ABSENT.to_owned()));
        table.row(std::iter::once(job.name.clone()).chain(cells));
    }
    let mut text = table.to_text(width);
    if n_shown < jobs.len() {
        text.push_str(&format!("… and {} more\n", jobs.len() - n_shown));
    }
    text
}

fn counter(job: &JobRow, event: &str) -> Option<String> {
    let row = job.counters.iter().find(|row| row.event == event)?;
    Some(approximate(row.running_permille.is_some()) + &count(row.value))
}

/// Returns the core kinds that jobs were bound to: one line per job.
pub(super) fn core_kinds(jobs: &[JobRow], width: usize) -> String {
    let line = |job: &JobRow| Some(format!("{}: {}", job.name, bound_kinds(job)?));
    listed("core kinds that jobs were bound to", jobs.iter().filter_map(line).collect(), width)
}

/// Returns the core kinds that a job was bound to: `fast 73 %, slow 27 %`.
pub(crate) fn bound_kinds(job: &JobRow) -> Option<String> {
    let text = |row: &BoundKindRow| {
        // The texts of all kinds add up to at most 100 %.
        let share = if (0.995..1.0).contains(&row.share) { "> 99 %" } else { &*percent(row.share) };
        format!("{} {share}", row.kind.as_deref().unwrap_or("several kinds"))
    };
    let all: Vec<String> = job.core_kinds.iter().map(text).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Returns the memory by node: one line per job with memory on several nodes or with page migrations.
pub(super) fn memory(jobs: &[JobRow], width: usize) -> String {
    let is_listed = |job: &&JobRow| job.n_page_migrations != 0 || 1 < job.memory.len();
    listed("memory by node", jobs.iter().filter(is_listed).map(memory_line).collect(), width)
}

/// Returns the first lines below a title, and the number of the others; nothing without lines.
pub(super) fn listed(title: &str, lines: Vec<String>, width: usize) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("{title}\n");
    text.extend(lines.iter().take(N_LISTED).map(|line| fold(line, width, "- ", 2)));
    if N_LISTED < lines.len() {
        text.push_str(&format!("… and {} more\n", lines.len() - N_LISTED));
    }
    text
}

/// Returns the memory of a job: `a: 60.0 MiB on node 0, 4.0 MiB on node 2; 60.0 MiB of 64.0 MiB migrated in 1 page
/// migration`.
fn memory_line(job: &JobRow) -> String {
    let on_node = |row: &NodeMemoryRow| {
        let parts = [row.small_bytes, row.huge_bytes, row.file_bytes, row.shared_bytes];
        let all = parts.into_iter().fold(0u64, u64::saturating_add);
        format!("{} on node {}", bytes(all), row.node)
    };
    let mut text = match job.memory.is_empty() {
        true => "not sampled".to_owned(),
        false => job.memory.iter().map(on_node).collect::<Vec<_>>().join(", "),
    };
    if let Some(permille) = job.memory_sampled_permille.filter(|permille| *permille < 1000) {
        text += &format!(" (scaled up from {}.{} % of it)", permille / 10, permille % 10);
    }
    if job.n_page_migrations != 0 {
        let n_moves = base::counted_noun(job.n_page_migrations, "page migration");
        let (moved, requested) = (bytes(job.pages_moved_bytes), bytes(job.pages_requested_bytes));
        text += &format!("; {moved} of {requested} migrated in {n_moves}");
    }
    format!("{}: {text}", job.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CounterRow;

    #[test]
    fn only_measured_counters_have_a_column_and_estimates_are_marked() {
        let row = |event: &str, value, running_permille| CounterRow {
            event: event.to_owned(),
            value,
            unit: String::new(),
            running_permille,
        };
        let job =
            |name: &str, counters| JobRow { name: name.to_owned(), counters, ..JobRow::default() };
        let mut jobs = [
            job("a", vec![row("page-faults", 12_345, None), row("context-switches", 7, Some(400))]),
            job("b", vec![row("page-faults", 1, None)]),
            job("uncounted", Vec::new()),
        ];
        expect_test::expect![[r#"
            counters  faults  switches
            a         12 345        ~7
            b              1         -
        "#]]
        .assert_eq(&counters(&jobs, 80));
        jobs[1].ipc = Some(0.5);
        jobs[1].traffic_bytes = Some(3 << 20);
        expect_test::expect![[r#"
            counters  faults  switches   IPC  traffic
            a         12 345        ~7     -        -
            b              1         -  0.50  3.0 MiB
        "#]]
        .assert_eq(&counters(&jobs, 80));
    }

    #[test]
    fn shares_of_core_kinds_add_up_to_at_most_100_percent() {
        let kind =
            |kind: Option<&str>, share| BoundKindRow { kind: kind.map(str::to_owned), share };
        let kinds = |core_kinds| bound_kinds(&JobRow { core_kinds, ..JobRow::default() });
        assert_eq!(
            kinds(vec![kind(None, 0.9982), kind(Some("fast"), 0.0018)]).as_deref(),
            Some("several kinds > 99 %, fast 0.18 %")
        );
        assert_eq!(kinds(vec![kind(Some("fast"), 1.0)]).as_deref(), Some("fast 100 %"));
    }

    #[test]
    fn a_memory_line_has_the_bytes_per_node_and_the_migrated_bytes() {
        let on_node = |node, small_bytes| NodeMemoryRow {
            node,
            small_bytes,
            huge_bytes: 0,
            file_bytes: 0,
            shared_bytes: 0,
        };
        let mut job = JobRow { name: "a".to_owned(), ..JobRow::default() };
        job.memory = vec![on_node(0, 60 << 20), on_node(2, 4 << 20)];
        assert_eq!(memory_line(&job), "a: 60.0 MiB on node 0, 4.0 MiB on node 2");
        job.memory_sampled_permille = Some(15);
        job.n_page_migrations = 1;
        (job.pages_moved_bytes, job.pages_requested_bytes) = (1 << 20, 2 << 20);
        assert_eq!(
            memory_line(&job),
            "a: 60.0 MiB on node 0, 4.0 MiB on node 2 (scaled up from 1.5 % of it); \
             1.0 MiB of 2.0 MiB migrated in 1 page migration"
        );
    }
}
