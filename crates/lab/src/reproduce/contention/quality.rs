//! Quality of service: how bad does it get, and how alike are repeated runs? (spec 2.1)
//!
//! The source's own main claim. The mean slow-down stands beside it, so that it shows whether a worst case was
//! bought with the others' time.

use super::optimum::{PLACES, Place, play_with};
use super::scene::{Scene, Slow, mean_of};
use super::tell::{in_percent, judged, percent};
use crate::reproduce::{Claim, Found, Played, Reading, ReproduceError, Rig, Table};
use crate::stats::{mean, median, variation};

/// Whom it is about, and the default last.
const COLUMNS: [(&str, &str, Reading); 7] = [
    ("di", "di", Reading::Ours),
    ("dio", "dio", Reading::Ours),
    ("dio", "dio[reading=paper]", Reading::Paper),
    ("dino", "dino", Reading::Ours),
    ("dino", "dino[reading=paper]", Reading::Paper),
    ("animal", "animal", Reading::Ours),
    ("linux", "linux", Reading::Either),
];
const DEFAULT: usize = 6;

/// A policy beside the default, over all sets of a place.
struct Beside {
    /// Mean slow-down over that by default - 1, a figure a set.
    mean: Vec<f64>,
    /// The same of the worst slow-down of any program in any run of the set.
    worst: Vec<f64>,
    /// Variation of each program's time over the seeds, here and by default.
    variation: Vec<(f64, f64)>,
}

fn beside(scene: &Scene, played: &Played, column: usize) -> Beside {
    let mut beside = Beside { mean: Vec::new(), worst: Vec::new(), variation: Vec::new() };
    for set in 0..played.workloads().len() {
        let [here, default] = [column, DEFAULT].map(|column| scene.slowdowns(played, column, set));
        let worst = |runs: &[Option<Slow>]| runs.iter().flatten().map(Slow::worst).reduce(f64::max);
        let over = |one: Option<f64>, other: Option<f64>| Some(one? / other? - 1.0);
        beside.mean.extend(over(mean_of(&here, Slow::mean), mean_of(&default, Slow::mean)));
        beside.worst.extend(over(worst(&here), worst(&default)));
        let n_programs = here.iter().flatten().map(|slow| slow.each.len()).max().unwrap_or(0);
        let of = |runs: &[Option<Slow>], job: usize| {
            variation(&runs.iter().flatten().map(|slow| slow.each[job]).collect::<Vec<f64>>())
        };
        let both = |job| of(&here, job).zip(of(&default, job));
        beside.variation.extend((0..n_programs).filter_map(both));
    }
    beside
}

impl Beside {
    fn mean_of(of: &[f64]) -> Option<f64> {
        (!of.is_empty()).then(|| mean(of))
    }

    fn n_steadier(&self) -> usize {
        self.variation.iter().filter(|(here, default)| here < default).count()
    }
}

pub(super) fn quality(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let texts: Vec<&str> = COLUMNS.iter().map(|(_, text, _)| *text).collect();
    for place in PLACES {
        let runs = play_with(rig, place, None, &texts, rig.seeds())?;
        let title = format!("{}: beside the default, in %; variation of times in %", place.words);
        let heads = ["policy", "mean", "worst case", "variation", "steadier"];
        let mut table = Table::new(&title, &heads).units(&["%", "%", "%", "count"]);
        for (at, (policy, text, reading)) in COLUMNS.into_iter().enumerate() {
            let beside = beside(&runs.scene, &runs.free, at);
            let here: Vec<f64> = beside.variation.iter().map(|(here, _)| *here).collect();
            let percents = [Beside::mean_of(&beside.mean), Beside::mean_of(&beside.worst)];
            let [of_mean, of_worst] = percents.map(percent);
            let steadier = format!("{} of {}", beside.n_steadier(), beside.variation.len());
            let cells = [of_mean, of_worst, format!("{:.2}", median(&here) * 100.0), steadier];
            table.row(std::iter::once(text.to_owned()).chain(cells));
            if at != DEFAULT {
                found.claims.extend(claims(place, policy, reading, &beside));
            }
        }
        found.tables.push(table);
        found.why.extend(runs.free.faults());
    }
    found.why.push(
        "worst case: the largest slow-down of any program of a set in any run; variation: the median over \
         programs of the standard deviation over the seeds as a part of the mean"
            .to_owned(),
    );
    Ok(found)
}

fn claims(place: Place, policy: &str, reading: Reading, beside: &Beside) -> [Claim; 3] {
    let place = place.words;
    let (of_mean, of_worst) = (Beside::mean_of(&beside.mean), Beside::mean_of(&beside.worst));
    let n = beside.variation.len();
    [
        judged(
            &format!("{place}: {policy}'s worst cases are smaller than the default's, on average"),
            reading,
            format!("{} %", percent(of_worst)),
            of_worst.map(|worst| worst < 0.0),
        ),
        judged(
            &format!("{place}: with {policy} more than half of the programs spread less"),
            reading,
            format!("{} of {n}", beside.n_steadier()),
            (n != 0).then(|| n < 2 * beside.n_steadier()),
        ),
        judged(
            &format!("{place}: {policy} gains more in the worst case than on average"),
            reading,
            format!("worst {} %, mean {} %", percent(of_worst), percent(of_mean)),
            of_worst.zip(of_mean).map(|(worst, mean)| worst < mean),
        )
        .on(in_percent(of_worst).into_iter().chain(in_percent(of_mean))),
    ]
}
