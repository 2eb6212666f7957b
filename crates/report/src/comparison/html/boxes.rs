//! How slow-downs lie over jobs and runs, and how unfair runs were: two boxes for each policy.

use super::plot::{Axis, Plot};
use crate::comparison::{Comparison, RunEndWord, RunRow};

const WIDTH: f64 = 1180.0;
const ROW: f64 = 26.0;
const TOP: f64 = 26.0;
const LEFT: f64 = 190.0;
const N_LETTERS: usize = 27;
const MIDDLE: f64 = 700.0;
const GAP: f64 = 36.0;

pub(super) fn chart(told: &Comparison) -> String {
    let of_policy = |policy: &String| -> (Vec<f64>, Vec<f64>) {
        let counts = |run: &&RunRow| run.policy == *policy && run.ended == RunEndWord::Finished;
        let runs = || told.runs.iter().filter(counts);
        let slowdowns = runs().flat_map(|run| &run.jobs).filter_map(|job| job.slowdown);
        (slowdowns.collect(), runs().filter_map(|run| run.unfairness).collect())
    };
    let all: Vec<(Vec<f64>, Vec<f64>)> = told.setting.policies.iter().map(of_policy).collect();
    if all.iter().all(|(slowdowns, _)| slowdowns.is_empty()) {
        return "<p class=\"empty\">No job was measured alone, so no slow-down is known.</p>"
            .to_owned();
    }
    let bottom = TOP + ROW * all.len() as f64;
    let mut plot = Plot::new("slow-downs and unfairness of each policy", WIDTH, bottom + 24.0);
    let slow =
        Axis::over(all.iter().flat_map(|(it, _)| it.iter().copied()), Some(1.0), (LEFT, MIDDLE));
    let unfair = Axis::over(
        all.iter().flat_map(|(_, it)| it.iter().copied()),
        Some(1.0),
        (MIDDLE + GAP, WIDTH - 10.0),
    );
    plot.label("head", "start", (LEFT, 15.0), "slow-down of jobs");
    plot.label("head", "start", (MIDDLE + GAP, 15.0), "unfairness of runs");
    plot.grid(&slow, (TOP, bottom), 6, "");
    plot.grid(&unfair, (TOP, bottom), 5, "");
    for (nr, (policy, (slowdowns, unfairness))) in
        told.setting.policies.iter().zip(&all).enumerate()
    {
        let y = TOP + ROW * (nr as f64 + 0.5);
        plot.name((LEFT - 12.0, y + 4.0), policy, N_LETTERS);
        draw(&mut plot, slowdowns, &slow, y);
        draw(&mut plot, unfairness, &unfair, y);
    }
    format!("<div class=\"wide\" tabindex=\"0\">{}</div>", plot.end())
}

/// Least, quarter, middle, three quarters, most.
fn five(figures: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(|part| {
        let at = part * last as f64;
        let below = at.floor() as usize;
        sorted[below] + (at - below as f64) * (sorted[(below + 1).min(last)] - sorted[below])
    }))
}

fn draw(plot: &mut Plot, figures: &[f64], axis: &Axis, y: f64) {
    let Some(five) = five(figures) else { return };
    let [least, quarter, middle, upper, most] = five.map(|value| axis.x(value));
    plot.line("whisker", (least, y), (quarter, y));
    plot.line("whisker", (upper, y), (most, y));
    for end in [least, most] {
        plot.line("whisker", (end, y - 4.0), (end, y + 4.0));
    }
    plot.rect("box", (quarter, y - 7.0), ((upper - quarter).max(1.0), 14.0));
    plot.line("middle", (middle, y - 7.0), (middle, y + 7.0));
    let [least, _, middle, _, most] = five;
    plot.dot(
        "hit",
        (axis.x(middle), y),
        9.0,
        &format!("median {middle:.2}, from {least:.2} to {most:.2}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_made_of_quarters() {
        assert_eq!(five(&[5.0, 1.0, 2.0, 3.0, 4.0]), Some([1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(five(&[2.0]), Some([2.0; 5]));
        assert_eq!(five(&[]), None);
    }
}
