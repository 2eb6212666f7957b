//! `profiles.csv`: what no table tells of a program, as ranges with their reasons.

use std::sync::LazyLock;

use host_sim::csv_table::{CsvRow, CsvTable};

use super::OURS;

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
    let sheet = CsvTable::read(text, "profiles.csv").expect(OURS);
    let at = |column| sheet.column(column).expect(OURS);
    let line = |line: &CsvRow| {
        let word = |column| sheet.text(line, at(column)).to_owned();
        let number = |column| sheet.require_number(line, at(column)).expect(OURS);
        Range {
            program: word("program"),
            quantity: word("quantity"),
            low: number("low"),
            high: number("high"),
            origin: word("origin"),
            reason: word("reason"),
        }
    };
    sheet.rows().iter().map(line).collect()
}
