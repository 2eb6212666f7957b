//! Moves with their reasons; in a replay, those that would have been made.

use super::fold;
use crate::model::{MoveRow, Report};
use crate::units::{count, seconds};

/// The last moves.
const N_MOVES_SHOWN: usize = 10;

pub(super) fn moves(report: &Report, width: usize) -> String {
    let all = &report.moves;
    if all.is_empty() {
        return String::new();
    }
    let first = all.len().saturating_sub(N_MOVES_SHOWN);
    let n_before = report.totals.n_moves_left_out + first as u64;
    let what =
        if report.run.replay_of.is_some() { "moves that would have been made" } else { "moves" };
    let mut text = match n_before {
        0 => format!("{what}\n"),
        n => format!("{what} (the last {}; {} before)\n", all.len() - first, count(n)),
    };
    text.extend(all[first..].iter().map(|moved| one_move(moved, width)));
    text
}

fn one_move(moved: &MoveRow, width: usize) -> String {
    let head = format!("{:>9} s  ", seconds(moved.at_ns));
    let what = format!("{}  {}", moved.name, from_to(moved));
    let mut text = fold(&what, width, &head, 13);
    if let Some(why) = why(moved) {
        text.push_str(&fold(&format!("because {why}"), width, &" ".repeat(13), 13));
    }
    text
}

/// `core 0 -> core 1`, and how often that was wanted.
fn from_to(moved: &MoveRow) -> String {
    let place = |label: &Option<String>| label.clone().unwrap_or_else(|| "anywhere".to_owned());
    let what = format!("{} -> {}", place(&moved.from), place(&moved.to));
    match times(moved) {
        Some(times) => format!("{what} ({times})"),
        None => what,
    }
}

/// How often the same was wanted, if it was wanted again.
pub(crate) fn times(moved: &MoveRow) -> Option<String> {
    let last = seconds(moved.last_at_ns);
    (1 < moved.n).then(|| format!("{} times, the last at {last} s", count(moved.n)))
}

/// The reason, and what of the wish was possible.
pub(crate) fn why(moved: &MoveRow) -> Option<String> {
    let reason = moved.reason.as_ref()?;
    let narrowed = narrowed(moved.asked_cpus.as_ref(), moved.to_cpus.as_ref());
    Some(format!("{reason}{narrowed}"))
}

/// What had been asked for, where less was possible.
pub(crate) fn narrowed(asked: Option<&String>, done: Option<&String>) -> String {
    asked.zip(done).map_or(String::new(), |(asked, done)| {
        format!("; the CPUs {asked} were asked for, and narrowed to {done}")
    })
}
