//! Figure 8a over every mix of given group sizes: the result must not hang on our compositions (spec 5.5).
//!
//! ```text
//!   (2,2,2)   lbm lbm | sphinx sphinx | sp.B sp.B   …   lu.B lu.B | streamcluster streamcluster | gromacs gromacs
//!             6 multisets of Group 1 × 6 of Group 2 × 15 of Group 3 = 540 mixes
//! ```
//!
//! Each mix runs once, with the same seed for all policies.

use super::super::{Claim, Drawing, Found, ReproduceError, Rig, StudyFigure, Table, World};
use super::mixes::{CONTENDED_LIMITS, EIGHT_LIMITS};
use super::programs::{ELEVEN, published};
use super::versions::{Columns, HEADS, VERSIONS, gain, places};
use crate::shipped::Draw;
use crate::stats::{mean, quantile};

/// Sizes of Groups 1, 2 and 3 (spec 5.5), and whether two or more of both are in it.
const SIZES: [([usize; 3], Kind); 7] = [
    ([2, 2, 2], Kind::Contended),
    ([3, 3, 0], Kind::Contended),
    ([4, 4, 0], Kind::Contended),
    ([3, 3, 2], Kind::Contended),
    ([3, 0, 3], Kind::Other),
    ([2, 0, 4], Kind::Eight),
    ([2, 0, 6], Kind::Eight),
];

/// What is asked of a size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Two or more of both groups.
    Contended,
    /// A reading of Basic 8.
    Eight,
    /// Nothing.
    Other,
}

/// Mixes whose jobs are made ready at a time.
const BATCH: usize = 64;

/// All ways to take `n` of some, each as often as one likes, in order.
fn multisets(of: &[usize], n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let from = |at: usize| {
        multisets(&of[at..], n - 1)
            .into_iter()
            .map(move |rest| std::iter::once(of[at]).chain(rest).collect())
    };
    (0..of.len()).flat_map(from).collect()
}

/// All mixes of a size, as the rig takes them.
fn mixes(sizes: [usize; 3]) -> Vec<String> {
    let of = |group: usize| {
        let there: Vec<usize> =
            (0..ELEVEN.len()).filter(|place| usize::from(published(*place)) == group + 1).collect();
        multisets(&there, sizes[group])
    };
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for group in 0..sizes.len() {
        let sets = of(group);
        let longer = |mix: &Vec<usize>| {
            sets.iter().map(|set| [&mix[..], set].concat()).collect::<Vec<Vec<usize>>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let named = |mix: &Vec<usize>| {
        let names: Vec<&str> = mix.iter().map(|place| ELEVEN[*place]).collect();
        format!("programs:{}", names.join("+"))
    };
    all.iter().map(named).collect()
}

pub(super) fn all(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let columns = Columns::on("xeon-2x4", Draw::Middle, 1)?;
    let world = World::shipped("xeon-2x4")?;
    let seed = [rig.seeds().first().copied().unwrap_or(1)];
    let mut found = Found::default();
    let heads: Vec<&str> = ["groups", "mixes"].into_iter().chain(HEADS).collect();
    let mut table = Table::new("mean gain over Linux 4.2 in %, NUMA balancing on", &heads)
        .units(&["count", "%"]);
    let range_heads: Vec<&str> = std::iter::once("groups").chain(HEADS).collect();
    let mut ranges = Table::new("where 90 % of the mixes lie, in %", &range_heads)
        .units(&["%"])
        .drawn(Drawing::Intervals);
    for (sizes, kind) in SIZES {
        let [one, two, three] = sizes;
        let name = format!("{one},{two},{three}");
        let mut gains: [Vec<f64>; 4] = Default::default();
        let all = mixes(sizes);
        for batch in all.chunks(BATCH) {
            let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
            let played = rig.play_seeds(&world, &columns.texts(), &batch, &seed)?;
            for (_, _, version) in VERSIONS {
                let of = (0..batch.len()).map(|place| gain(&played, places(version, 0), place));
                let of = of.filter(|gain| !gain.is_empty()).map(|gain| gain.mean * 100.0);
                gains[version].extend(of);
            }
        }
        let means = gains.iter().map(|gains| told(gains, |gains| format!("{:+.1}", mean(gains))));
        table.row([name.clone(), all.len().to_string()].into_iter().chain(means));
        let ends = |gains: &[f64]| {
            format!("{:+.1} to {:+.1}", quantile(gains, 0.05), quantile(gains, 0.95))
        };
        ranges
            .row(std::iter::once(name.clone()).chain(gains.iter().map(|gains| told(gains, ends))));
        found.claims.extend(judge(&name, kind, &gains));
    }
    found.tables.extend([table, ranges]);
    Ok(found)
}

fn told(gains: &[f64], how: impl Fn(&[f64]) -> String) -> String {
    if gains.is_empty() { "–".to_owned() } else { how(gains) }
}

fn judge(name: &str, kind: Kind, gains: &[Vec<f64>; 4]) -> Vec<Claim> {
    let ((low, high), words) = match kind {
        Kind::Contended => (CONTENDED_LIMITS, "mean gain between 3 and 10 %"),
        Kind::Eight => (EIGHT_LIMITS, "mean gain within 2 % of 0"),
        Kind::Other => return Vec::new(),
    };
    let claim = |(version, reading, place): (&str, super::super::Reading, usize)| {
        let gains = &gains[place];
        let n_above = gains.iter().filter(|gain| 0.0 < **gain).count();
        let n_within = gains.iter().filter(|gain| (low..=high).contains(*gain)).count();
        Claim::judged(
            &format!("{name}, {version} version: {words}"),
            reading,
            format!(
                "{}; {n_within} of {} mixes within, {n_above} above 0",
                told(gains, |gains| format!("{:+.1} %", mean(gains))),
                gains.len()
            ),
            (!gains.is_empty()).then(|| (low..=high).contains(&mean(gains))),
        )
        .on((!gains.is_empty()).then(|| StudyFigure::of(mean(gains), "%")))
    };
    VERSIONS.map(claim).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_of_a_size_are_all_multisets() {
        let n = SIZES.map(|(sizes, _)| mixes(sizes).len());
        assert_eq!(n, [540, 100, 225, 1500, 350, 420, 1260]);
        let first = mixes([2, 0, 4]).remove(0);
        assert_eq!(first, "programs:lbm+lbm+sp.B+sp.B+sp.B+sp.B");
    }
}
