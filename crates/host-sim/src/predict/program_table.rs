//! Tables of programs measured alone, with one row per program and cache size.
//!
//! ```text
//!   program,llc_kib,ipc,llc_apki,llc_mpki,…
//!   sort,   512,    0.80,20,     12,
//!   sort,   1024,   0.93,20,     7,
//! ```
//!
//! `pki` means per 1000 instructions. All columns except these five are optional. A missing column is derived from
//! other columns, with a note. Unknown columns are ignored.

use crate::csv_table::{CsvError, CsvRow, CsvTable};
use crate::physics::{LINE, MissCurve, MissCurveError, MissPoint};

/// A program in a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableProgram {
    /// Name of the program.
    pub name: String,
    /// Misses and memory traffic that the table contains, see [`TableProgram::miss_curve_for`].
    pub miss_curve: MissCurve,
    /// Maximum memory traffic over all cache sizes, in bytes per cycle.
    bytes_per_cycle: f64,
    /// Maximum memory traffic over all cache sizes in bytes per nanosecond (GB/s), if the table has bandwidths.
    gbs: Option<f64>,
    /// Cache size in bytes and bandwidth in GB/s, if the table has bandwidths but no writes.
    bandwidths_without_writes: Vec<(f64, f64)>,
}

impl TableProgram {
    /// Returns the miss-ratio curve for cores of `ghz` and a memory with a peak of `peak` GB/s. If the table has
    /// bandwidths but no writes, the writes are computed: bandwidth minus the lines read.
    pub fn miss_curve_for(&self, ghz: f64, peak: f64) -> MissCurve {
        if self.bandwidths_without_writes.is_empty() {
            return self.miss_curve.clone();
        }
        let distance = |row: &MissPoint, bytes: f64| libm::fabs(libm::log(row.bytes / bytes));
        let writes = |row: &MissPoint| {
            let known = self.bandwidths_without_writes.iter();
            let nearest =
                known.min_by(|one, other| distance(row, one.0).total_cmp(&distance(row, other.0)));
            let writes_at =
                |bytes, gbs: f64| written_lines(&self.miss_curve.at(bytes), gbs.min(peak), ghz);
            nearest.map_or(row.writes, |&(bytes, gbs)| writes_at(bytes, gbs))
        };
        let rows = self.miss_curve.points().iter();
        let rows = rows.map(|row| MissPoint { writes: writes(row), ..*row }).collect();
        MissCurve::new(rows, *self.miss_curve.uncached())
            .unwrap_or_else(|_| self.miss_curve.clone())
    }

    /// Returns the maximum bandwidth of the program alone in bytes per nanosecond. If the table has no bandwidth, it
    /// is computed for cores of `ghz`.
    pub fn max_bandwidth(&self, ghz: f64) -> f64 {
        self.gbs.unwrap_or(self.bytes_per_cycle * ghz)
    }
}

/// Content of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTable {
    /// Programs in the order of their first rows.
    pub programs: Vec<TableProgram>,
    /// CPU frequency of the measured machine in GHz. It is the median of bandwidth divided by bytes per cycle; if the
    /// table has no writes, the minimum.
    pub ghz: Option<f64>,
    /// A sentence for each assumption.
    pub notes: Vec<String>,
}

/// An error for a table without usable programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ProgramTableError {
    #[error(transparent)]
    Sheet(#[from] CsvError),
    #[error("{0}: the table has no program; add a row")]
    Empty(String),
    #[error("{file}:{line}:1: program {name}")]
    Character { file: String, line: u64, name: String, source: MissCurveError },
}

/// Parses a table with the columns of `workloads/data/corun/solo.csv`.
///
/// # Errors
/// Returns an error if a required column is missing, if a cell is not a number, or if the values of a program are
/// invalid.
pub fn from_csv(text: &str, file: &str) -> Result<ProgramTable, ProgramTableError> {
    let table = CsvTable::read(text, file)?;
    table.require_columns(&["program", "llc_kib", "ipc", "llc_apki", "llc_mpki"])?;
    let mut groups: Vec<(&str, Vec<TableRow<'_>>)> = Vec::new();
    for row in table.rows() {
        let name = row.text("program")?;
        if name.is_empty() {
            return Err(row.error("program", "program is empty; write its name".to_owned()).into());
        }
        let row = TableRow::read(row)?;
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    if groups.is_empty() {
        return Err(ProgramTableError::Empty(file.to_owned()));
    }
    let ghz = frequency(&table, groups.iter().flat_map(|(_, rows)| rows));
    let programs = groups.into_iter().map(|(name, rows)| program(file, name, &rows));
    Ok(ProgramTable {
        programs: programs.collect::<Result<_, _>>()?,
        ghz,
        notes: notes(&table, file),
    })
}

/// Returns the lines written per 1000 instructions at a bandwidth of `gbs`; zero if the lines read exceed the
/// bandwidth.
fn written_lines(row: &MissPoint, gbs: f64, ghz: f64) -> f64 {
    let ns = 1000.0 * row.cycles.unwrap_or(0.0) / ghz;
    (gbs * ns / LINE - row.reads).max(0.0)
}

fn bytes_per_cycle(row: &MissPoint) -> f64 {
    LINE * (row.reads + row.writes) / 1000.0 / row.cycles.unwrap_or(1.0)
}

/// Maximum plausible instructions per cycle. The widest cores retire about 10.
const IPC_MAX: f64 = 20.0;
/// Maximum plausible count per 1000 instructions. An instruction that copies a page touches 128 lines.
const PKI_MAX: f64 = 1e6;
/// Minimum cache size in KiB: the size of a cache line. A model of a smaller cache has no finite values.
const KIB_MIN: f64 = 0.0625;
/// Maximum cache size in KiB, equal to 1 TiB.
const KIB_MAX: f64 = 1073741824.0;
/// Maximum bandwidth in GB/s: a hundred times the bandwidth of the fastest memory.
const GBS_MAX: f64 = 1e6;

/// A row of a table with its values.
struct TableRow<'t> {
    row: CsvRow<'t>,
    point: MissPoint,
    gbs: Option<f64>,
}

impl<'t> TableRow<'t> {
    fn read(row: CsvRow<'t>) -> Result<Self, CsvError> {
        check_plausible(row)?;
        check_parts(row)?;
        let positive = |column, unit: &str| match row.require_number(column)? {
            value if 0.0 < value => Ok(value),
            _ => Err(row.error(column, format!("the value is 0; write {unit}"))),
        };
        let optional = |column| row.number_of_optional_column(column);
        let misses = row.require_number("llc_mpki")?;
        let point = MissPoint {
            bytes: positive("llc_kib", "the size of the cache in KiB")? * 1024.0,
            cycles: Some(1.0 / positive("ipc", "instructions per cycle")?),
            demand_misses: optional("demand_mpki")?.unwrap_or(misses),
            misses,
            reads: optional("dram_read_lines_pki")?.unwrap_or(misses),
            writes: optional("dram_write_lines_pki")?.unwrap_or(0.0),
        };
        let gbs = row.table().has_column("dram_gbs").then(|| row.number("dram_gbs"));
        Ok(TableRow { row, point, gbs: gbs.transpose()?.flatten() })
    }

    /// Returns the values without a cache, with which every access misses.
    fn uncached(&self) -> Result<MissPoint, CsvError> {
        let optional = |column| self.row.number_of_optional_column(column);
        let (row, all) = (&self.point, self.row.require_number("llc_apki")?);
        let read_once = if 0.0 < row.misses { row.reads / row.misses } else { 1.0 };
        Ok(MissPoint {
            bytes: 0.0,
            cycles: None,
            demand_misses: optional("demand_apki")?.unwrap_or(all),
            misses: all,
            reads: all * read_once,
            writes: optional("llc_writeback_pki")?.unwrap_or(row.writes),
        })
    }
}

/// Columns with their maximum plausible value.
const BOUNDS: [(&str, f64, &str); 10] = [
    ("llc_apki", PKI_MAX, "value is 1000000"),
    ("llc_mpki", PKI_MAX, "value is 1000000"),
    ("demand_apki", PKI_MAX, "value is 1000000"),
    ("demand_mpki", PKI_MAX, "value is 1000000"),
    ("dram_read_lines_pki", PKI_MAX, "value is 1000000"),
    ("dram_write_lines_pki", PKI_MAX, "value is 1000000"),
    ("llc_writeback_pki", PKI_MAX, "value is 1000000"),
    ("ipc", IPC_MAX, "value is 20"),
    ("llc_kib", KIB_MAX, "size is 1 TiB"),
    ("dram_gbs", GBS_MAX, "bandwidth is 1000000"),
];

/// Pairs of columns. The first column counts a part of the events of the second.
const PARTS: [(&str, &str); 4] = [
    ("llc_mpki", "llc_apki"),
    ("demand_mpki", "demand_apki"),
    ("demand_mpki", "llc_mpki"),
    ("demand_apki", "llc_apki"),
];

/// Checks a row for implausible values. Unused rows are checked too.
fn check_plausible(row: CsvRow<'_>) -> Result<(), CsvError> {
    for (column, max, limit) in BOUNDS.into_iter().filter(|(name, ..)| row.table().has_column(name))
    {
        if row.number(column)?.is_some_and(|value| max < value) {
            let value = row.text(column)?;
            let problem = format!("{column} is {value}; the maximum {limit}");
            return Err(row.error(column, problem));
        }
    }
    if row.number("llc_kib")?.is_some_and(|kib| 0.0 < kib && kib < KIB_MIN) {
        let kib = row.text("llc_kib")?;
        let problem = format!("llc_kib is {kib}: the smallest plausible size is 64 bytes");
        return Err(row.error("llc_kib", problem));
    }
    Ok(())
}

fn check_parts(row: CsvRow<'_>) -> Result<(), CsvError> {
    let has = |column: &str| row.table().has_column(column);
    for (part, whole) in PARTS.into_iter().filter(|(part, whole)| has(part) && has(whole)) {
        let (Some(less), Some(more)) = (row.number(part)?, row.number(whole)?) else { continue };
        if more * 1.1 + 0.1 < less {
            let problem = format!("{part} ({less}) exceeds {whole} ({more})");
            return Err(row.error(part, problem));
        }
    }
    Ok(())
}

fn notes(table: &CsvTable<'_>, file: &str) -> Vec<String> {
    let written = match table.has_column("dram_gbs") {
        true => "the writes are dram_gbs minus the lines read",
        false => "nothing is written to memory",
    };
    let absent = [
        ("demand_mpki", "nothing is prefetched"),
        ("dram_read_lines_pki", "every miss reads a line"),
        ("dram_write_lines_pki", written),
    ];
    let absent = absent.into_iter().filter(|(column, _)| !table.has_column(column));
    absent.map(|(column, so)| format!("{file} has no column {column}: assumed that {so}")).collect()
}

/// Returns the frequency in GHz that follows from bandwidths and lines of all rows.
fn frequency<'r, 't: 'r>(
    table: &CsvTable<'_>,
    rows: impl Iterator<Item = &'r TableRow<'t>>,
) -> Option<f64> {
    let ghz = rows.filter_map(|row| {
        let gbs = row.gbs.filter(|gbs| PRECISE_BANDWIDTH_GBS <= *gbs)?;
        Some(gbs / bytes_per_cycle(&row.point)).filter(|ghz| ghz.is_finite())
    });
    let mut known: Vec<f64> = ghz.collect();
    known.sort_by(f64::total_cmp);
    // If the table has no writes, the ratio of bandwidth to lines read is too high for programs that write.
    let idx = if table.has_column("dram_write_lines_pki") { known.len() / 2 } else { 0 };
    known.get(idx).copied()
}

fn program(
    file: &str,
    name: &str,
    rows: &[TableRow<'_>],
) -> Result<TableProgram, ProgramTableError> {
    let smallest = rows.iter().min_by(|a, b| a.point.bytes.total_cmp(&b.point.bytes));
    let uncached = smallest.map_or(Ok(MissPoint::default()), TableRow::uncached)?;
    let points: Vec<MissPoint> = rows.iter().map(|row| row.point).collect();
    let bandwidths = rows.iter().filter_map(|row| Some((row.point.bytes, row.gbs?)));
    let bandwidths: Vec<(f64, f64)> = bandwidths.collect();
    let has_writes = rows.iter().all(|row| row.row.table().has_column("dram_write_lines_pki"));
    let invalid = |source| ProgramTableError::Character {
        file: file.to_owned(),
        line: rows.first().map_or(1, |row| row.row.line()),
        name: name.to_owned(),
        source,
    };
    Ok(TableProgram {
        name: name.to_owned(),
        bytes_per_cycle: points.iter().map(bytes_per_cycle).fold(0.0, f64::max),
        gbs: bandwidths.iter().map(|(_, gbs)| *gbs).reduce(f64::max),
        miss_curve: MissCurve::new(points, uncached).map_err(invalid)?,
        bandwidths_without_writes: if has_writes { Vec::new() } else { bandwidths },
    })
}

/// Bandwidth in GB/s above which a rounded value is precise enough for the frequency.
const PRECISE_BANDWIDTH_GBS: f64 = 0.2;

#[cfg(test)]
mod tests {
    use expect_test::{expect, expect_file};

    use super::*;

    const SOLO: &str = include_str!("../../../../workloads/data/corun/solo.csv");

    /// Inputs without a header have the required columns.
    #[test]
    fn invalid_tables() {
        let result = |input: &str| {
            let header = "program,llc_kib,ipc,llc_apki,llc_mpki\n";
            let header = if input.starts_with("program,") { "" } else { header };
            let Err(error) = from_csv(&format!("{header}{input}\n"), "solo.csv") else {
                return "valid".to_owned();
            };
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        };
        let cases = expect_file!["../../cases/program-table-errors.txt"];
        cases.assert_eq(&base::transcript(&cases.data(), result));
    }

    #[test]
    fn the_shipped_table_is_read_without_assumptions() {
        let table = from_csv(SOLO, "solo.csv").unwrap();
        let names: Vec<&str> = table.programs.iter().map(|program| program.name.as_str()).collect();
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

    /// Returns the shipped table without a column.
    fn without(column: &str) -> String {
        let column_idx =
            SOLO.lines().next().unwrap().split(',').position(|cell| cell == column).unwrap();
        let cut = |line: &str| {
            let cells = line.split(',').enumerate().filter(|(idx, _)| *idx != column_idx);
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
                // The error is relative to all lines, because bandwidths and lines were not counted over exactly the
                // same instructions.
                let off = (full.writes - less.writes).abs() / (full.reads + full.writes);
                assert!(off < 0.08, "{full:?} {less:?}");
            }
        }
        expect![[r#"
            [
                "s.csv has no column dram_write_lines_pki: assumed that the writes are dram_gbs minus the lines read",
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
            let curve = table.programs[0].miss_curve_for(4.0, peak);
            [curve.at(0.0), curve.points()[0], curve.points()[1]].map(|row| row.writes)
        };
        // 5 lines in 250 ns are 1.28 GB/s; 10 lines are twice as much. A row without a bandwidth uses the bandwidth
        // of the next row.
        assert_eq!(writes("2.56", 12.8), [5.0; 3]);
        assert_eq!(writes("1.00", 12.8), [0.0; 3]);
        assert_eq!(writes("99", 2.56), [5.0; 3]);
        assert_eq!(writes("", 12.8), [0.0; 3]);
    }
}
