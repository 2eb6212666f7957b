//! What is known of programs alone, from a table: a row for each program and cache size.
//!
//! ```text
//!   program,llc_kib,ipc,llc_apki,llc_mpki,…
//!   sort,   512,    0.80,20,     12,
//!   sort,   1024,   0.93,20,     7,
//! ```
//!
//! `pki` is per 1000 instructions. Columns beyond those five may be left out, and are then taken from the
//! others, which is told; columns that mean nothing here are not looked at.

use crate::physics::{Character, CharacterError, LINE, Row};
use crate::sheet::{Line, Sheet, SheetError};

/// A program as a table tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What it asks of caches and memory, as far as the table tells; see [`Known::asks`].
    pub character: Character,
    /// Bytes that it moves per cycle, the most at any size.
    bytes_per_cycle: f64,
    /// The same per nanosecond (GB/s), where the table tells it.
    gbs: Option<f64>,
    /// Bytes of cache, and GB/s moved with it: of a table that tells those, but not what is written.
    untold: Vec<(f64, f64)>,
}

impl Known {
    /// What it asks of caches and memory where its cores make so many cycles in a nanosecond and its memory
    /// moves no more than `peak` GB/s. Where the table tells what was moved but not what was written, the rest
    /// beyond the lines read was written.
    pub fn asks(&self, ghz: f64, peak: f64) -> Character {
        if self.untold.is_empty() {
            return self.character.clone();
        }
        let far = |row: &Row, bytes: f64| libm::fabs(libm::log(row.bytes / bytes));
        let writes = |row: &Row| {
            let told = self.untold.iter();
            let near = told.min_by(|one, other| far(row, one.0).total_cmp(&far(row, other.0)));
            let at = |bytes, gbs: f64| written(&self.character.at(bytes), gbs.min(peak), ghz);
            near.map_or(row.writes, |&(bytes, gbs)| at(bytes, gbs))
        };
        let rows = self.character.rows().iter();
        let rows = rows.map(|row| Row { writes: writes(row), ..*row }).collect();
        Character::new(rows, *self.character.none()).unwrap_or_else(|_| self.character.clone())
    }

    /// Bytes per nanosecond that it was seen to move alone, the most at any size; where the table does not
    /// tell, with so many cycles in a nanosecond.
    pub fn moved(&self, ghz: f64) -> f64 {
        self.gbs.unwrap_or(self.bytes_per_cycle * ghz)
    }
}

/// What a table tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Knowledge {
    /// In the order of their first rows.
    pub programs: Vec<Known>,
    /// Cycles in a nanosecond of the machine that they were measured on: of bandwidths over lines per
    /// instruction the one that lies in the middle; the least where it is not told what was written.
    pub ghz: Option<f64>,
    /// What was assumed, a sentence each.
    pub notes: Vec<String>,
}

/// Why a table tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnownError {
    /// As a table it is wrong.
    #[error(transparent)]
    Sheet(#[from] SheetError),
    /// There are no rows.
    #[error("{file}: there is no program in it")]
    Empty {
        /// Which.
        file: String,
    },
    /// The figures of a program cannot be.
    #[error("{file}:{line}:1: program {name}")]
    Character {
        /// Which.
        file: String,
        /// Its first row.
        line: u64,
        /// The program.
        name: String,
        /// Why.
        source: CharacterError,
    },
}

/// Reads a table with the columns of `workloads/data/corun/solo.csv`.
///
/// # Errors
/// A column that is needed is missing, a cell is no number, a program's figures cannot be.
pub fn from_csv(text: &str, file: &str) -> Result<Knowledge, KnownError> {
    let sheet = Sheet::read(text, file)?;
    let columns = Columns::of(&sheet)?;
    let mut groups: Vec<(&str, Vec<&Line>)> = Vec::new();
    for line in sheet.lines() {
        let name = sheet.word(line, columns.program);
        if name.is_empty() {
            let what = "program is empty; write its name".to_owned();
            return Err(sheet.fault(line, columns.program, what).into());
        }
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, lines)) => lines.push(line),
            None => groups.push((name, vec![line])),
        }
    }
    if groups.is_empty() {
        return Err(KnownError::Empty { file: file.to_owned() });
    }
    let known = |(name, lines): &(&str, Vec<&Line>)| columns.known(&sheet, file, name, lines);
    let programs = groups.iter().map(known).collect::<Result<_, _>>()?;
    let ghz = columns.ghz(&sheet)?;
    Ok(Knowledge { programs, ghz, notes: columns.notes(file) })
}

/// Lines written per 1000 instructions by who moves so many bytes per nanosecond; none where the lines that
/// it reads are more than that.
fn written(row: &Row, gbs: f64, ghz: f64) -> f64 {
    let ns = 1000.0 * row.cycles.unwrap_or(0.0) / ghz;
    (gbs * ns / LINE - row.reads).max(0.0)
}

fn bytes_per_cycle(row: &Row) -> f64 {
    LINE * (row.reads + row.writes) / 1000.0 / row.cycles.unwrap_or(1.0)
}

/// Where what stands.
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

/// No core is faster (spec 8.3); the widest of today end ten.
const IPC_MAX: f64 = 20.0;
/// Per 1000 instructions; one that copies a page touches 128 lines.
const PKI_MAX: f64 = 1e6;
/// A TiB.
const KIB_MAX: f64 = 1073741824.0;
/// GB/s: a hundred times as much as the fastest memory of today moves.
const GBS_MAX: f64 = 1e6;

impl Columns {
    fn of(sheet: &Sheet<'_>) -> Result<Self, SheetError> {
        Ok(Columns {
            program: sheet.need("program")?,
            kib: sheet.need("llc_kib")?,
            ipc: sheet.need("ipc")?,
            apki: sheet.need("llc_apki")?,
            mpki: sheet.need("llc_mpki")?,
            demand_apki: sheet.find("demand_apki"),
            demand_mpki: sheet.find("demand_mpki"),
            reads: sheet.find("dram_read_lines_pki"),
            writes: sheet.find("dram_write_lines_pki"),
            write_backs: sheet.find("llc_writeback_pki"),
            gbs: sheet.find("dram_gbs"),
        })
    }

    fn notes(&self, file: &str) -> Vec<String> {
        let written = match self.gbs {
            Some(_) => "what dram_gbs tells beyond the lines read is written",
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

    fn ghz(&self, sheet: &Sheet<'_>) -> Result<Option<f64>, SheetError> {
        let Some(gbs) = self.gbs else { return Ok(None) };
        let mut told = Vec::new();
        for line in sheet.lines() {
            let moved = bytes_per_cycle(&self.row(sheet, line)?);
            let gbs = sheet.number(line, gbs)?.filter(|gbs| MOVES_MUCH <= *gbs);
            told.extend(gbs.map(|gbs| gbs / moved).filter(|ghz| ghz.is_finite()));
        }
        told.sort_by(f64::total_cmp);
        // Where writes are not told, bandwidths over lines read are too high for all but those who write nothing.
        let which = if self.writes.is_some() { told.len() / 2 } else { 0 };
        Ok(told.get(which).copied())
    }

    fn known(
        &self,
        sheet: &Sheet<'_>,
        file: &str,
        name: &str,
        lines: &[&Line],
    ) -> Result<Known, KnownError> {
        let rows = lines.iter().map(|line| self.row(sheet, line));
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        let smallest = lines.iter().zip(&rows).min_by(|a, b| a.1.bytes.total_cmp(&b.1.bytes));
        let none = match smallest {
            Some((line, row)) => self.none(sheet, line, row)?,
            None => Row::default(),
        };
        let bytes_per_cycle = rows.iter().map(bytes_per_cycle).fold(0.0, f64::max);
        let mut moved = Vec::new();
        for (line, row) in lines.iter().zip(&rows) {
            let gbs = self.gbs.map(|gbs| sheet.number(line, gbs)).transpose()?.flatten();
            moved.extend(gbs.map(|gbs| (row.bytes, gbs)));
        }
        let gbs = moved.iter().map(|(_, gbs)| *gbs).reduce(f64::max);
        let line = lines.first().map_or(1, |line| line.number());
        let wrong = |source| KnownError::Character {
            file: file.to_owned(),
            line,
            name: name.to_owned(),
            source,
        };
        let character = Character::new(rows, none).map_err(wrong)?;
        let untold = if self.writes.is_none() { moved } else { Vec::new() };
        Ok(Known { name: name.to_owned(), character, bytes_per_cycle, gbs, untold })
    }

    fn row(&self, sheet: &Sheet<'_>, line: &Line) -> Result<Row, SheetError> {
        let need = |column| sheet.need_number(line, column);
        let some = |column: Option<usize>| column.map(need).transpose();
        let positive = |column, unit: &str| match need(column)? {
            value if 0.0 < value => Ok(value),
            _ => Err(sheet.fault(line, column, format!("it is 0; write {unit}"))),
        };
        self.check(sheet, line)?;
        let misses = need(self.mpki)?;
        let demand_misses = some(self.demand_mpki)?.unwrap_or(misses);
        Ok(Row {
            bytes: positive(self.kib, "the size of the cache in KiB")? * 1024.0,
            cycles: Some(1.0 / positive(self.ipc, "instructions per cycle")?),
            demand_misses,
            misses,
            reads: some(self.reads)?.unwrap_or(misses),
            writes: some(self.writes)?.unwrap_or(0.0),
        })
    }

    /// Looked at in every row, whether or not it serves there: rubbish is rubbish.
    fn check(&self, sheet: &Sheet<'_>, line: &Line) -> Result<(), SheetError> {
        let rates = [Some(self.apki), Some(self.mpki), self.demand_apki, self.demand_mpki];
        let rates = rates.into_iter().chain([self.reads, self.writes, self.write_backs]).flatten();
        let most =
            rates.map(|column| (column, PKI_MAX, "no thousand instructions ask for so much"));
        let ipc = (self.ipc, IPC_MAX, "no core ends 20 instructions in a cycle");
        let kib = (self.kib, KIB_MAX, "no cache is so large");
        let gbs = self.gbs.map(|column| (column, GBS_MAX, "no memory moves so much"));
        for (column, most, why) in most.chain([ipc, kib]).chain(gbs) {
            if sheet.number(line, column)?.is_some_and(|value| most < value) {
                let (name, value) = (&sheet.header()[column], sheet.word(line, column));
                return Err(sheet.fault(line, column, format!("{name} is {value}: {why}")));
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
                return Err(sheet.fault(line, part, what));
            }
        }
        Ok(())
    }

    /// What misses when there is no cache: all that is asked for.
    fn none(&self, sheet: &Sheet<'_>, line: &Line, row: &Row) -> Result<Row, SheetError> {
        let some = |column: Option<usize>| column.map(|at| sheet.need_number(line, at)).transpose();
        let all = sheet.need_number(line, self.apki)?;
        let read_once = if 0.0 < row.misses { row.reads / row.misses } else { 1.0 };
        Ok(Row {
            bytes: 0.0,
            cycles: None,
            demand_misses: some(self.demand_apki)?.unwrap_or(all),
            misses: all,
            reads: all * read_once,
            writes: some(self.write_backs)?.unwrap_or(row.writes),
        })
    }
}

/// GB/s from which on a rounded bandwidth tells the frequency well.
const MOVES_MUCH: f64 = 0.2;

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const SOLO: &str = include_str!("../../../../workloads/data/corun/solo.csv");

    fn refused(text: &str, expected: Expect) {
        let error = from_csv(text, "solo.csv").expect_err("it is wrong");
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        expected.assert_eq(&format!("{error}{}", cause.unwrap_or_default()));
    }

    #[test]
    fn the_table_that_ships_is_read_without_assumptions() {
        let told = from_csv(SOLO, "solo.csv").unwrap();
        let names: Vec<&str> = told.programs.iter().map(|its| its.name.as_str()).collect();
        assert_eq!(names, ["bwaindex", "xz", "hmmsim", "bzip2", "perl", "stream"]);
        assert!(told.notes.is_empty(), "{:?}", told.notes);
        assert_eq!(told.programs[0].character.rows().len(), 5);
    }

    #[test]
    fn the_frequency_follows_from_bandwidths_and_lines() {
        let ghz = from_csv(SOLO, "solo.csv").unwrap().ghz.expect("it is told");
        assert!((ghz - 4.0).abs() < 0.1, "{ghz}");
    }

    #[test]
    fn what_is_left_out_is_assumed_and_told() {
        let told = from_csv("program,llc_kib,ipc,llc_apki,llc_mpki\nx,512,1,9,5\n", "s.csv");
        let told = told.unwrap();
        let row = told.programs[0].character.rows()[0];
        assert_eq!((row.demand_misses, row.reads, row.writes), (5.0, 5.0, 0.0));
        expect![[r#"
            [
                "s.csv has no column demand_mpki: assumed that nothing is prefetched",
                "s.csv has no column dram_read_lines_pki: assumed that every miss reads a line",
                "s.csv has no column dram_write_lines_pki: assumed that nothing is written to memory",
            ]
        "#]]
        .assert_debug_eq(&told.notes);
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
    fn writes_that_a_table_leaves_out_follow_from_its_bandwidths() {
        let (full, less) = (SOLO.to_owned(), without("dram_write_lines_pki"));
        let (full, less) = (from_csv(&full, "s.csv").unwrap(), from_csv(&less, "s.csv").unwrap());
        assert!((less.ghz.unwrap() / full.ghz.unwrap() - 1.0).abs() < 0.03, "{:?}", less.ghz);
        for (full, less) in full.programs.iter().zip(&less.programs) {
            let (full, less) = (full.asks(4.0, 12.8), less.asks(4.0, 12.8));
            for (full, less) in full.rows().iter().zip(less.rows()) {
                // A part of all lines: bandwidths and lines were not counted over the very same instructions.
                let off = (full.writes - less.writes).abs() / (full.reads + full.writes);
                assert!(off < 0.08, "{full:?} {less:?}");
            }
        }
        expect![[r#"
            [
                "s.csv has no column dram_write_lines_pki: assumed that what dram_gbs tells beyond the lines read is written",
            ]
        "#]]
        .assert_debug_eq(&less.notes);
    }

    #[test]
    fn writes_from_bandwidths_are_never_negative_and_never_above_the_peak() {
        let writes = |gbs: &str, peak: f64| {
            let text = format!(
                "program,llc_kib,ipc,llc_apki,llc_mpki,dram_gbs\nx,512,1,9,5,{gbs}\nx,1024,1,9,5,\n"
            );
            let told = from_csv(&text, "s.csv").unwrap();
            let asks = told.programs[0].asks(4.0, peak);
            [asks.none(), &asks.rows()[0], &asks.rows()[1]].map(|row| row.writes)
        };
        // 5 lines in 250 ns are 1.28 GB/s; 10 are twice as much. A row without bandwidth writes as the next.
        assert_eq!(writes("2.56", 12.8), [5.0; 3]);
        assert_eq!(writes("1.00", 12.8), [0.0; 3]);
        assert_eq!(writes("99", 2.56), [5.0; 3]);
        assert_eq!(writes("", 12.8), [0.0; 3]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let head = "program,llc_kib,ipc,llc_apki,llc_mpki\n";
        refused(
            "program,ipc\nx,1\n",
            expect![[
                r#"solo.csv:1:1: there is no column "llc_kib"; the columns are program, ipc"#
            ]],
        );
        refused(head, expect!["solo.csv: there is no program in it"]);
        refused(
            &format!("{head}x,512,fast,9,5\n"),
            expect![[r#"solo.csv:2:7: ipc is "fast"; write a number from 0"#]],
        );
        refused(
            &format!("{head}x,512,500,9,5\n"),
            expect!["solo.csv:2:7: ipc is 500: no core ends 20 instructions in a cycle"],
        );
        refused(
            &format!("{head}x,1e300,1,9,5\n"),
            expect!["solo.csv:2:3: llc_kib is 1e300: no cache is so large"],
        );
        refused(
            &format!("{head}x,512,1,1e308,1e308\n"),
            expect!["solo.csv:2:9: llc_apki is 1e308: no thousand instructions ask for so much"],
        );
        refused(
            &format!("{head}x,512,1,5,9\n"),
            expect!["solo.csv:2:11: llc_mpki is 9, more than the 5 of llc_apki"],
        );
        refused(
            "program,llc_kib,ipc,llc_apki,llc_mpki,demand_mpki\nx,512,1,9,5,8\n",
            expect!["solo.csv:2:13: demand_mpki is 8, more than the 5 of llc_mpki"],
        );
        refused(
            &format!("{head}x,512,1,9,5\nx,1024,1,many,5\n"),
            expect![[r#"solo.csv:3:10: llc_apki is "many"; write a number from 0"#]],
        );
        refused(
            &format!("{head}x,512,0,9,5\n"),
            expect!["solo.csv:2:7: it is 0; write instructions per cycle"],
        );
        refused(
            &format!("{head}x,0,1,9,5\n"),
            expect!["solo.csv:2:3: it is 0; write the size of the cache in KiB"],
        );
        refused(
            &format!("{head},512,1,9,5\n"),
            expect!["solo.csv:2:1: program is empty; write its name"],
        );
        refused(
            &format!("{head}x,512,1,9,-5\n"),
            expect![[r#"solo.csv:2:11: llc_mpki is "-5"; write a number from 0"#]],
        );
        refused(
            &format!("{head}x,512,1,9,\n"),
            expect!["solo.csv:2:11: llc_mpki is empty; write a number from 0"],
        );
        refused(
            &format!("{head}x,512,1,9,5\nx,1024,1,9,7\n"),
            expect!["solo.csv:2:1: program x: misses rise from 512 KiB to 1024 KiB of cache"],
        );
        refused(
            &format!("{head}x,512,1,9,5\nx,512,1,9,5\n"),
            expect!["solo.csv:2:1: program x: 512 KiB stands there twice"],
        );
    }
}
