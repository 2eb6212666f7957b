//! `profiles.csv`: what no table tells of a program, as ranges with their reasons.

use std::sync::LazyLock;

use super::sheet;

const TEXT: &str = include_str!("../../../../workloads/data/profiles.csv");

/// Between what a figure of a program lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Whose.
    pub program: String,
    /// Which figure; `docs/simulator-data.md` lists them.
    pub quantity: String,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// `table`: what `benchmarks.csv` says in words; `reasoned`: from the algorithm and its published sizes.
    pub origin: String,
    /// Why.
    pub reason: String,
}

/// All of them, in the order of the file.
pub fn ranges() -> &'static [Range] {
    static RANGES: LazyLock<Vec<Range>> = LazyLock::new(|| read(TEXT));
    &RANGES
}

/// That of a program's quantity.
pub(super) fn range(program: &str, quantity: &str) -> Option<&'static Range> {
    ranges().iter().find(|range| range.program == program && range.quantity == quantity)
}

fn read(text: &str) -> Vec<Range> {
    let line = |line: sheet::Line<'_>| {
        let need = |column| line.number(column).unwrap_or_else(|| panic!("{line:?}: no {column}"));
        Range {
            program: line.text("program").to_owned(),
            quantity: line.text("quantity").to_owned(),
            low: need("low"),
            high: need("high"),
            origin: line.text("origin").to_owned(),
            reason: line.text("reason").to_owned(),
        }
    };
    sheet::lines(text).into_iter().map(line).collect()
}
