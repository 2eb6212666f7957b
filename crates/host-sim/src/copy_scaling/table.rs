//! The table of published values, `workloads/data/benchmarks.csv`, with one row per program and input.

use std::collections::BTreeMap;

use super::SoloCounters;
use crate::csv_table::{CsvError, CsvRow, CsvTable};

/// A program of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Benchmark {
    /// Its name.
    pub program: String,
    /// The mean over its inputs.
    pub alone: SoloCounters,
    slowdowns: BTreeMap<u32, f64>,
}

impl Benchmark {
    /// Run time relative to alone with `n_copies` copies, if measured.
    pub fn slowdown(&self, n_copies: u32) -> Option<f64> {
        self.slowdowns.get(&n_copies).copied()
    }
}

/// The programs with all values of [`SoloCounters`], in the order of the table.
///
/// # Errors
/// A column is missing, or a cell is not a number.
pub fn parse_benchmarks(text: &str, file: &str) -> Result<Vec<Benchmark>, CsvError> {
    let sheet = CsvTable::read(text, file)?;
    let name = sheet.column("benchmark")?;
    let mut groups: Vec<(&str, Vec<&CsvRow>)> = Vec::new();
    for line in sheet.rows() {
        let word = sheet.text(line, name);
        match groups.iter_mut().find(|(known, _)| *known == word) {
            Some((_, lines)) => lines.push(line),
            None => groups.push((word, vec![line])),
        }
    }
    let mut programs = Vec::new();
    for (program, lines) in groups {
        let Some(alone) = alone(&sheet, &lines)? else { continue };
        let mut slowdowns = BTreeMap::new();
        for n_copies in [2, 4, 8] {
            let mean = mean(&sheet, &lines, &format!("slowdown_{n_copies}_copies"))?;
            slowdowns.extend(mean.map(|mean| (n_copies, mean)));
        }
        programs.push(Benchmark { program: program.to_owned(), alone, slowdowns });
    }
    Ok(programs)
}

fn alone(sheet: &CsvTable<'_>, lines: &[&CsvRow]) -> Result<Option<SoloCounters>, CsvError> {
    let of = |column: &str| mean(sheet, lines, column);
    let values = (of("ipc_alone")?, of("llc_mpki")?, of("llc_apki")?);
    let (Some(ipc), Some(mpki), Some(apki)) = values else { return Ok(None) };
    let (Some(mb), Some(stall_share)) = (of("mem_bw_mb_s")?, of("l2_stall_frac")?) else {
        return Ok(None);
    };
    Ok(Some(SoloCounters { ipc, mpki, apki, bandwidth: mb * 1e6, stall_share }))
}

/// The mean over the inputs that have a value.
fn mean(sheet: &CsvTable<'_>, lines: &[&CsvRow], column: &str) -> Result<Option<f64>, CsvError> {
    let column = sheet.column(column)?;
    let (mut sum, mut n) = (0.0, 0u32);
    for line in lines {
        if let Some(value) = sheet.number(line, column)? {
            (sum, n) = (sum + value, n + 1);
        }
    }
    Ok((0 < n).then(|| sum / f64::from(n)))
}
