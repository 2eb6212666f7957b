//! The quality of a model for placement: whether it finds the best pairing of four programs on two caches, and the
//! measured cost of its pairings.

use super::{CoRunData, MeasuredPair};

/// The results for all combinations of four programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairingResult {
    /// Combinations.
    pub n: usize,
    /// Those with the best of the three pairings chosen.
    pub n_best: usize,
    /// Mean measured slowdown of the chosen pairings.
    pub chosen: f64,
    /// Mean measured slowdown of the best pairings.
    pub best: f64,
    /// Mean measured slowdown of all pairings.
    pub blind: f64,
}

/// Evaluates all combinations with measurements of every pair.
pub fn evaluate_pairings(
    measurements: &CoRunData,
    model: impl Fn(&MeasuredPair) -> [f64; 2],
) -> PairingResult {
    let mut all = PairingResult { n: 0, n_best: 0, chosen: 0.0, best: 0.0, blind: 0.0 };
    for four in fours(measurements.programs.len()) {
        let Some(ways) = pairings_of(measurements, four) else { continue };
        let measured = ways.map(|two| two.map(|pair| pair.slowdowns).concat());
        let measured = measured.map(|each| each.iter().sum::<f64>() / 4.0);
        let predicted = ways.map(|two| two.map(&model).concat().iter().sum::<f64>());
        let (chosen, best) = (least(&predicted), least(&measured));
        all.n += 1;
        all.n_best += usize::from(chosen == best);
        all.chosen += measured[chosen];
        all.best += measured[best];
        all.blind += measured.iter().sum::<f64>() / 3.0;
    }
    let n = all.n.max(1) as f64;
    PairingResult { chosen: all.chosen / n, best: all.best / n, blind: all.blind / n, ..all }
}

fn fours(n: usize) -> Vec<[usize; 4]> {
    let mut all = Vec::new();
    for a in 0..n {
        for b in a + 1..n {
            for c in b + 1..n {
                all.extend((c + 1..n).map(|d| [a, b, c, d]));
            }
        }
    }
    all
}

/// The three pairings, two pairs each.
fn pairings_of(
    measurements: &CoRunData,
    [a, b, c, d]: [usize; 4],
) -> Option<[[&MeasuredPair; 2]; 3]> {
    let find = |one: usize, other: usize| {
        let both =
            |pair: &&MeasuredPair| pair.programs == [one, other] || pair.programs == [other, one];
        measurements.pairs.iter().find(both)
    };
    Some([[find(a, b)?, find(c, d)?], [find(a, c)?, find(b, d)?], [find(a, d)?, find(b, c)?]])
}

fn least(costs: &[f64; 3]) -> usize {
    let order = (0..3).min_by(|one, other| costs[*one].total_cmp(&costs[*other]));
    order.unwrap_or(0)
}
