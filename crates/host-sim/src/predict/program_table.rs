//! Tables of programs measured alone, with one row per program and cache size.
//!
//! ```text
//!   program,llc_kib,ipc,llc_apki,llc_mpki,…
//!   sort,   512,    0.80,20,     12,
//!   sort,   1024,   0.93,20,     7,
//! ```
//!
//! `pki` is per 1000 instructions. Columns beyond these five are optional. Missing ones are derived from the others,
//! with a note. Unknown columns are ignored.

use crate::csv_table::{CsvError, CsvRow, CsvTable};
use crate::physics::{LINE, MissCurve, MissCurveError, MissPoint};

/// A program of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableProgram {
    /// Its name.
    pub name: String,
    /// Its misses and memory traffic, as far as the table has them, see [`TableProgram::miss_curve_for`].
    pub miss_curve: MissCurve,
    /// Memory traffic in bytes per cycle, the largest at any cache size.
    bytes_per_cycle: f64,
    /// The same in bytes per nanosecond (GB/s), where the table has it.
    gbs: Option<f64>,
    /// Cache size in bytes and GB/s, if the table has bandwidths but no writes.
    bandwidths_without_writes: Vec<(f64, f64)>,
}

impl TableProgram {
    /// The miss-ratio curve for cores of `ghz` and a memory with a peak of `peak` GB/s. If the table has bandwidths but no
    /// writes, the writes are the bandwidth beyond the lines read.
    pub fn miss_curve_for(&self, ghz: f64, peak: f64) -> MissCurve {
        if self.bandwidths_without_writes.is_empty() {
            return self.miss_curve.clone();
        }
        let far = |row: &MissPoint, bytes: f64| libm::fabs(libm::log(row.bytes / bytes));
        let writes = |row: &MissPoint| {
            let known = self.bandwidths_without_writes.iter();
            let near = known.min_by(|one, other| far(row, one.0).total_cmp(&far(row, other.0)));
            let at = |bytes, gbs: f64| written(&self.miss_curve.at(bytes), gbs.min(peak), ghz);
            near.map_or(row.writes, |&(bytes, gbs)| at(bytes, gbs))
        };
        let rows = self.miss_curve.points().iter();
        let rows = rows.map(|row| MissPoint { writes: writes(row), ..*row }).collect();
        MissCurve::new(rows, *self.miss_curve.uncached())
            .unwrap_or_else(|_| self.miss_curve.clone())
    }

    /// Largest bandwidth alone in bytes per nanosecond. If the table has none, it is computed for cores of `ghz`.
    pub fn max_bandwidth(&self, ghz: f64) -> f64 {
        self.gbs.unwrap_or(self.bytes_per_cycle * ghz)
    }
}

/// The content of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTable {
    /// In the order of their first rows.
    pub programs: Vec<TableProgram>,
    /// Frequency of the measured machine in GHz, from bandwidths over lines per instruction: the median, or the smallest if
    /// the table has no writes.
    pub ghz: Option<f64>,
    /// The assumptions, one sentence each.
    pub notes: Vec<String>,
}

/// The error of a table without usable programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramTableError {
    /// An error in the table.
    #[error(transparent)]
    Sheet(#[from] CsvError),
    /// No rows.
    #[error("{0}: the table has no program; add a row")]
    Empty(String),
    /// Invalid values of a program.
    #[error("{file}:{line}:1: program {name}")]
    Character {
        /// The file.
        file: String,
        /// Its first row.
        line: u64,
        /// The program.
        name: String,
        /// The error.
        source: MissCurveError,
    },
}

/// Parses a table with the columns of `workloads/data/corun/solo.csv`.
///
/// # Errors
/// A required column is missing, a cell is not a number, or the values of a program are invalid.
pub fn from_csv(text: &str, file: &str) -> Result<ProgramTable, ProgramTableError> {
    let sheet = CsvTable::read(text, file)?;
    let columns = Columns::of(&sheet)?;
    let mut groups: Vec<(&str, Vec<&CsvRow>)> = Vec::new();
    for line in sheet.rows() {
        let name = sheet.text(line, columns.program);
        if name.is_empty() {
            let what = "program is empty; write its name".to_owned();
            return Err(sheet.error_at(line, columns.program, what).into());
        }
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, lines)) => lines.push(line),
            None => groups.push((name, vec![line])),
        }
    }
    if groups.is_empty() {
        return Err(ProgramTableError::Empty(file.to_owned()));
    }
    let known = |(name, lines): &(&str, Vec<&CsvRow>)| columns.known(&sheet, file, name, lines);
    let programs = groups.iter().map(known).collect::<Result<_, _>>()?;
    let ghz = columns.ghz(&sheet)?;
    Ok(ProgramTable { programs, ghz, notes: columns.notes(file) })
}

/// Lines written per 1000 instructions at a bandwidth of `gbs`; zero if the lines read exceed it.
fn written(row: &MissPoint, gbs: f64, ghz: f64) -> f64 {
    let ns = 1000.0 * row.cycles.unwrap_or(0.0) / ghz;
    (gbs * ns / LINE - row.reads).max(0.0)
}

fn bytes_per_cycle(row: &MissPoint) -> f64 {
    LINE * (row.reads + row.writes) / 1000.0 / row.cycles.unwrap_or(1.0)
}

/// The indices of the columns.
struct Columns {
    program: usize,
    kib: usize,
    ipc: usize,
    apki: usize,
    mpki: usize,
    demand_apki: Option<usize>,
    demand_mpki: Option<usize>,
    reads: Option<usize>,
    writes: Option<usize>,
    write_backs: Option<usize>,
    gbs: Option<usize>,
}

/// The largest plausible value. The widest cores retire about 10.
const IPC_MAX: f64 = 20.0;
/// Per 1000 instructions. An instruction that copies a page touches 128 lines.
const PKI_MAX: f64 = 1e6;
/// A TiB.
const KIB_MAX: f64 = 1073741824.0;
/// GB/s: a hundred times the fastest memory.
const GBS_MAX: f64 = 1e6;

impl Columns {
    fn of(sheet: &CsvTable<'_>) -> Result<Self, CsvError> {
        Ok(Columns {
            program: sheet.column("program")?,
            kib: sheet.column("llc_kib")?,
            ipc: sheet.column("ipc")?,
            apki: sheet.column("llc_apki")?,
            mpki: sheet.column("llc_mpki")?,
            demand_apki: sheet.find_column("demand_apki"),
            demand_mpki: sheet.find_column("demand_mpki"),
            reads: sheet.find_column("dram_read_lines_pki"),
            writes: sheet.find_column("dram_write_lines_pki"),
            write_backs: sheet.find_column("llc_writeback_pki"),
            gbs: sheet.find_column("dram_gbs"),
        })
    }

    fn notes(&self, file: &str) -> Vec<String> {
        let written = match self.gbs {
            Some(_) => "the bandwidth dram_gbs beyond the lines read is written",
            None => "nothing is written to memory",
        };
        let absent = [
            ("demand_mpki", self.demand_mpki, "nothing is prefetched"),
            ("dram_read_lines_pki", self.reads, "every miss reads a line"),
            ("dram_write_lines_pki", self.writes, written),
        ];
        let absent = absent.into_iter().filter(|(_, column, _)| column.is_none());
        absent
            .map(|(name, _, so)| format!("{file} has no column {name}: assumed that {so}"))
            .collect()
    }

    fn ghz(&self, sheet: &CsvTable<'_>) -> Result<Option<f64>, CsvError> {
        let Some(gbs) = self.gbs else { return Ok(None) };
        let mut known = Vec::new();
        for line in sheet.rows() {
            let moved = bytes_per_cycle(&self.row(sheet, line)?);
            let gbs = sheet.number(line, gbs)?.filter(|gbs| MOVES_MUCH <= *gbs);
            known.extend(gbs.map(|gbs| gbs / moved).filter(|ghz| ghz.is_finite()));
        }
        known.sort_by(f64::total_cmp);
        // Without writes, bandwidth over lines read is too high for all programs except those that write nothing.
        let which = if self.writes.is_some() { known.len() / 2 } else { 0 };
        Ok(known.get(which).copied())
    }

    fn known(
        &self,
        sheet: &CsvTable<'_>,
        file: &str,
        name: &str,
        lines: &[&CsvRow],
    ) -> Result<TableProgram, ProgramTableError> {
        let rows = lines.iter().map(|line| self.row(sheet, line));
        let rows: Vec<MissPoint> = rows.collect::<Result<_, _>>()?;
        let smallest = lines.iter().zip(&rows).min_by(|a, b| a.1.bytes.total_cmp(&b.1.bytes));
        let none = match smallest {
            Some((line, row)) => self.none(sheet, line, row)?,
            None => MissPoint::default(),
        };
        let bytes_per_cycle = rows.iter().map(bytes_per_cycle).fold(0.0, f64::max);
        let mut moved = Vec::new();
        for (line, row) in lines.iter().zip(&rows) {
            let gbs = self.gbs.map(|gbs| sheet.number(line, gbs)).transpose()?.flatten();
            moved.extend(gbs.map(|gbs| (row.bytes, gbs)));
        }
        let gbs = moved.iter().map(|(_, gbs)| *gbs).reduce(f64::max);
        let line = lines.first().map_or(1, |line| line.number());
        let wrong = |source| ProgramTableError::Character {
            file: file.to_owned(),
            line,
            name: name.to_owned(),
            source,
        };
        let character = MissCurve::new(rows, none).map_err(wrong)?;
        let bandwidths_without_writes = if self.writes.is_none() { moved } else { Vec::new() };
        Ok(TableProgram {
            name: name.to_owned(),
            miss_curve: character,
            bytes_per_cycle,
            gbs,
            bandwidths_without_writes,
        })
    }

    fn row(&self, sheet: &CsvTable<'_>, line: &CsvRow) -> Result<MissPoint, CsvError> {
        let need = |column| sheet.require_number(line, column);
        let some = |column: Option<usize>| column.map(need).transpose();
        let positive = |column, unit: &str| match need(column)? {
            value if 0.0 < value => Ok(value),
            _ => Err(sheet.error_at(line, column, format!("the value is 0; write {unit}"))),
        };
        self.check(sheet, line)?;
        let misses = need(self.mpki)?;
        let demand_misses = some(self.demand_mpki)?.unwrap_or(misses);
        Ok(MissPoint {
            bytes: positive(self.kib, "the size of the cache in KiB")? * 1024.0,
            cycles: Some(1.0 / positive(self.ipc, "instructions per cycle")?),
            demand_misses,
            misses,
            reads: some(self.reads)?.unwrap_or(misses),
            writes: some(self.writes)?.unwrap_or(0.0),
        })
    }

    /// Checks every row for implausible values, whether the row is used or not.
    fn check(&self, sheet: &CsvTable<'_>, line: &CsvRow) -> Result<(), CsvError> {
        let rates = [Some(self.apki), Some(self.mpki), self.demand_apki, self.demand_mpki];
        let rates = rates.into_iter().chain([self.reads, self.writes, self.write_backs]).flatten();
        let most = rates.map(|column| (column, PKI_MAX, "the largest plausible value is 1000000"));
        let ipc = (self.ipc, IPC_MAX, "the largest plausible value is 20");
        let kib = (self.kib, KIB_MAX, "the largest plausible size is 1 TiB");
        let gbs =
            self.gbs.map(|column| (column, GBS_MAX, "the largest plausible bandwidth is 1000000"));
        for (column, most, why) in most.chain([ipc, kib]).chain(gbs) {
            if sheet.number(line, column)?.is_some_and(|value| most < value) {
                let (name, value) = (&sheet.header()[column], sheet.text(line, column));
                return Err(sheet.error_at(line, column, format!("{name} is {value}: {why}")));
            }
        }
        let parts = [
            (Some(self.mpki), Some(self.apki)),
            (self.demand_mpki, self.demand_apki),
            (self.demand_mpki, Some(self.mpki)),
            (self.demand_apki, Some(self.apki)),
        ];
        for (part, whole) in parts.into_iter().filter_map(|(part, whole)| part.zip(whole)) {
            let (Some(less), Some(more)) = (sheet.number(line, part)?, sheet.number(line, whole)?)
            else {
                continue;
            };
            if more * 1.1 + 0.1 < less {
                let (name, of) = (&sheet.header()[part], &sheet.header()[whole]);
                let what = format!("{name} is {less}, more than the {more} of {of}");
                return Err(sheet.error_at(line, part, what));
            }
        }
        Ok(())
    }

    /// The values without a cache: every access misses.
    fn none(
        &self,
        sheet: &CsvTable<'_>,
        line: &CsvRow,
        row: &MissPoint,
    ) -> Result<MissPoint, CsvError> {
        let some =
            |column: Option<usize>| column.map(|at| sheet.require_number(line, at)).transpose();
        let all = sheet.require_number(line, self.apki)?;
        let read_once = if 0.0 < row.misses { row.reads / row.misses } else { 1.0 };
        Ok(MissPoint {
            bytes: 0.0,
            cycles: None,
            demand_misses: some(self.demand_apki)?.unwrap_or(all),
            misses: all,
            reads: all * read_once,
            writes: some(self.write_backs)?.unwrap_or(row.writes),
        })
    }
}

/// Bandwidth in GB/s above which a rounded value determines the frequency precisely.
const MOVES_MUCH: f64 = 0.2;

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const SOLO: &str = include_str!("../../../../workloads/data/corun/solo.csv");

    fn check_errors(header: &str, expected: Expect) {
        let message = |rows: &str| {
            let text = format!("{header}{rows}\n");
            let error = from_csv(&text, "solo.csv").expect_err("the table is invalid");
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        };
        expected.assert_eq(&base::transcript(expected.data(), message));
    }

    #[test]
    fn the_shipped_table_is_read_without_assumptions() {
        let table = from_csv(SOLO, "solo.csv").unwrap();
        let names: Vec<&str> = table.programs.iter().map(|its| its.name.as_str()).collect();
        assert_eq!(names, ["bwaindex", "xz", "hmmsim", "bzip2", "perl", "stream"]);
        assert!(table.notes.is_empty(), "{:?}", table.notes);
        assert_eq!(table.programs[0].miss_curve.points().len(), 5);
    }

    #[test]
    fn the_frequency_is_computed_from_bandwidths_and_lines() {
        let ghz = from_csv(SOLO, "solo.csv").unwrap().ghz.expect("it is known");
        assert!((ghz - 4.0).abs() < 0.1, "{ghz}");
    }

    #[test]
    fn missing_columns_are_assumed_with_a_note() {
        let table = from_csv("program,llc_kib,ipc,llc_apki,llc_mpki\nx,512,1,9,5\n", "s.csv");
        let table = table.unwrap();
        let row = table.programs[0].miss_curve.points()[0];
        assert_eq!((row.demand_misses, row.reads, row.writes), (5.0, 5.0, 0.0));
        expect![[r#"
            [
                "s.csv has no column demand_mpki: assumed that nothing is prefetched",
                "s.csv has no column dram_read_lines_pki: assumed that every miss reads a line",
                "s.csv has no column dram_write_lines_pki: assumed that nothing is written to memory",
            ]
        "#]]
        .assert_debug_eq(&table.notes);
    }

    /// The shipped table without a column.
    fn without(column: &str) -> String {
        let at = SOLO.lines().next().unwrap().split(',').position(|cell| cell == column).unwrap();
        let cut = |line: &str| {
            let cells = line.split(',').enumerate().filter(|(idx, _)| *idx != at);
            cells.map(|(_, cell)| cell).collect::<Vec<_>>().join(",")
        };
        SOLO.lines().map(|line| cut(line) + "\n").collect()
    }

    #[test]
    fn missing_writes_are_computed_from_bandwidths() {
        let (full, less) = (SOLO.to_owned(), without("dram_write_lines_pki"));
        let (full, less) = (from_csv(&full, "s.csv").unwrap(), from_csv(&less, "s.csv").unwrap());
        assert!((less.ghz.unwrap() / full.ghz.unwrap() - 1.0).abs() < 0.03, "{:?}", less.ghz);
        for (full, less) in full.programs.iter().zip(&less.programs) {
            let (full, less) = (full.miss_curve_for(4.0, 12.8), less.miss_curve_for(4.0, 12.8));
            for (full, less) in full.points().iter().zip(less.points()) {
                // Relative to all lines: bandwidths and lines were not counted over exactly the same instructions.
                let off = (full.writes - less.writes).abs() / (full.reads + full.writes);
                assert!(off < 0.08, "{full:?} {less:?}");
            }
        }
        expect![[r#"
            [
                "s.csv has no column dram_write_lines_pki: assumed that the bandwidth dram_gbs beyond the lines read is written",
            ]
        "#]]
        .assert_debug_eq(&less.notes);
    }

    #[test]
    fn computed_writes_are_neither_negative_nor_above_the_peak() {
        let writes = |gbs: &str, peak: f64| {
            let text = format!(
                "program,llc_kib,ipc,llc_apki,llc_mpki,dram_gbs\nx,512,1,9,5,{gbs}\nx,1024,1,9,5,\n"
            );
            let table = from_csv(&text, "s.csv").unwrap();
            let first_curve = table.programs[0].miss_curve_for(4.0, peak);
            [first_curve.uncached(), &first_curve.points()[0], &first_curve.points()[1]]
                .map(|row| row.writes)
        };
        // 5 lines in 250 ns are 1.28 GB/s; 10 lines are twice that. A row without bandwidth uses that of the next row.
        assert_eq!(writes("2.56", 12.8), [5.0; 3]);
        assert_eq!(writes("1.00", 12.8), [0.0; 3]);
        assert_eq!(writes("99", 2.56), [5.0; 3]);
        assert_eq!(writes("", 12.8), [0.0; 3]);
    }

    #[test]
    fn invalid_columns_are_rejected() {
        check_errors(
            "",
            expect![[r#"
                > program,ipc
                > x,1
                solo.csv:1:1: there is no column "llc_kib"; the columns are program, ipc
                > program,llc_kib,ipc,llc_apki,llc_mpki,demand_mpki
                > x,512,1,9,5,8
                solo.csv:2:13: demand_mpki is 8, more than the 5 of llc_mpki
            "#]],
        );
    }

    #[test]
    fn invalid_values_are_rejected_with_their_position() {
        check_errors(
            "program,llc_kib,ipc,llc_apki,llc_mpki\n",
            expect![[r#"
            >
            solo.csv: the table has no program; add a row
            > x,512,fast,9,5
            solo.csv:2:7: ipc is "fast"; write a number from 0
            > x,512,500,9,5
            solo.csv:2:7: ipc is 500: the largest plausible value is 20
            > x,1e300,1,9,5
            solo.csv:2:3: llc_kib is 1e300: the largest plausible size is 1 TiB
            > x,512,1,1e308,1e308
            solo.csv:2:9: llc_apki is 1e308: the largest plausible value is 1000000
            > x,512,1,5,9
            solo.csv:2:11: llc_mpki is 9, more than the 5 of llc_apki
            > x,512,1,9,5
            > x,1024,1,many,5
            solo.csv:3:10: llc_apki is "many"; write a number from 0
            > x,512,0,9,5
            solo.csv:2:7: the value is 0; write instructions per cycle
            > x,0,1,9,5
            solo.csv:2:3: the value is 0; write the size of the cache in KiB
            > ,512,1,9,5
            solo.csv:2:1: program is empty; write its name
            > x,512,1,9,-5
            solo.csv:2:11: llc_mpki is "-5"; write a number from 0
            > x,512,1,9,
            solo.csv:2:11: llc_mpki is empty; write a number from 0
            > x,512,1,9,5
            > x,1024,1,9,7
            solo.csv:2:1: program x: misses rise from 512 KiB to 1024 KiB of cache
            > x,512,1,9,5
            > x,512,1,9,5
            solo.csv:2:1: program x: 512 KiB is defined twice
        "#]],
        );
    }
}
