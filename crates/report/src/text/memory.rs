//! Where memory lay, and what moves of it came to: a line a job.

use super::fold;
use crate::model::{JobRow, Report};
use crate::units::bytes;

/// Jobs shown; the page and the JSON have all of them.
const N_SHOWN: usize = 10;

/// Only where there is something to tell that one node would not tell by itself.
pub(super) fn memory(report: &Report, width: usize) -> String {
    let tells = |job: &&JobRow| job.n_page_moves != 0 || 1 < job.memory.len();
    let all: Vec<&JobRow> = report.jobs.iter().filter(tells).collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text = "memory by node\n".to_owned();
    text.extend(all.iter().take(N_SHOWN).map(|job| fold(&line(job), width, "- ", 2)));
    if N_SHOWN < all.len() {
        text.push_str(&format!("… and {} more\n", all.len() - N_SHOWN));
    }
    text
}

/// `a: 60.0 MiB on node 0, 4.0 MiB on node 2; 60.0 MiB of 64.0 MiB moved in 1 move`.
fn line(job: &JobRow) -> String {
    let lies = |row: &crate::model::NodeMemoryRow| {
        let parts = [row.small_bytes, row.huge_bytes, row.file_bytes, row.shared_bytes];
        let all = parts.into_iter().fold(0u64, u64::saturating_add);
        format!("{} on node {}", bytes(all), row.node)
    };
    let mut text = match job.memory.is_empty() {
        true => "not looked at".to_owned(),
        false => job.memory.iter().map(lies).collect::<Vec<_>>().join(", "),
    };
    if let Some(permille) = job.memory_looked_permille.filter(|permille| *permille < 1000) {
        text += &format!(" (scaled up from {}.{} % of it)", permille / 10, permille % 10);
    }
    if job.n_page_moves != 0 {
        let moves = if job.n_page_moves == 1 { "move" } else { "moves" };
        let (moved, requested) = (bytes(job.pages_moved_bytes), bytes(job.pages_requested_bytes));
        text += &format!("; {moved} of {requested} moved in {} {moves}", job.n_page_moves);
    }
    format!("{}: {text}", job.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeMemoryRow;

    #[test]
    fn a_line_tells_where_memory_lay_and_what_was_moved() {
        let lies = |node, small_bytes| NodeMemoryRow {
            node,
            small_bytes,
            huge_bytes: 0,
            file_bytes: 0,
            shared_bytes: 0,
        };
        let mut job = JobRow { name: "a".to_owned(), ..JobRow::default() };
        job.memory = vec![lies(0, 60 << 20), lies(2, 4 << 20)];
        assert_eq!(line(&job), "a: 60.0 MiB on node 0, 4.0 MiB on node 2");
        job.memory_looked_permille = Some(15);
        job.n_page_moves = 1;
        (job.pages_moved_bytes, job.pages_requested_bytes) = (1 << 20, 2 << 20);
        assert_eq!(
            line(&job),
            "a: 60.0 MiB on node 0, 4.0 MiB on node 2 (scaled up from 1.5 % of it); \
             1.0 MiB of 2.0 MiB moved in 1 move"
        );
    }
}
