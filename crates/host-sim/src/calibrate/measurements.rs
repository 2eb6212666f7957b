//! Measured slowdowns: pairs of programs on one cache, and programs alone with remote memory.

use super::CoRunMachine;
use crate::csv_table::{CsvError, CsvTable};
use crate::predict::program_table::{ProgramTableError, TableProgram, from_csv};

/// The measurements on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct CoRunData {
    /// The machine.
    pub machine: CoRunMachine,
    /// Each program alone.
    pub programs: Vec<TableProgram>,
    /// Pairs of programs on one cache.
    pub pairs: Vec<MeasuredPair>,
    /// Programs with remote memory.
    pub remote: Vec<MeasuredRemote>,
}

/// Two programs on one cache, as indices into [`CoRunData::programs`].
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPair {
    /// The programs.
    pub programs: [usize; 2],
    /// Run times relative to alone.
    pub slowdowns: [f64; 2],
}

/// A program with all its memory on another node.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRemote {
    /// The program.
    pub program: usize,
    /// Run time relative to local memory.
    pub slowdown: f64,
}

/// The error of invalid data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// In the table of programs alone.
    #[error(transparent)]
    Known(#[from] ProgramTableError),
    /// In a table of slowdowns.
    #[error(transparent)]
    Sheet(#[from] CsvError),
}

impl CoRunData {
    /// Parses the three tables of `workloads/data/corun`, each with its file name for errors.
    ///
    /// # Errors
    /// A table is invalid, or has a program that is not in the first table.
    pub fn read(
        machine: CoRunMachine,
        solo: (&str, &str),
        pairs: (&str, &str),
        remote: (&str, &str),
    ) -> Result<Self, DataError> {
        let programs = from_csv(solo.0, solo.1)?.programs;
        let mut truth = CoRunData { machine, programs, pairs: Vec::new(), remote: Vec::new() };
        truth.read_pairs(&CsvTable::read(pairs.0, pairs.1)?)?;
        truth.read_remote(&CsvTable::read(remote.0, remote.1)?)?;
        Ok(truth)
    }

    fn read_pairs(&mut self, sheet: &CsvTable<'_>) -> Result<(), CsvError> {
        let [a, b] = [sheet.column("a")?, sheet.column("b")?];
        let slow = [sheet.column("slowdown_a")?, sheet.column("slowdown_b")?];
        for line in sheet.rows() {
            let find = |column| self.find(sheet, line, column);
            let programs = [find(a)?, find(b)?];
            let slowdowns =
                [sheet.require_number(line, slow[0])?, sheet.require_number(line, slow[1])?];
            self.pairs.push(MeasuredPair { programs, slowdowns });
        }
        Ok(())
    }

    fn read_remote(&mut self, sheet: &CsvTable<'_>) -> Result<(), CsvError> {
        let (name, slow) = (sheet.column("program")?, sheet.column("slowdown_remote60")?);
        for line in sheet.rows() {
            let program = self.find(sheet, line, name)?;
            self.remote
                .push(MeasuredRemote { program, slowdown: sheet.require_number(line, slow)? });
        }
        Ok(())
    }

    fn find(
        &self,
        sheet: &CsvTable<'_>,
        line: &crate::csv_table::CsvRow,
        column: usize,
    ) -> Result<usize, CsvError> {
        let name = sheet.text(line, column);
        let found = self.programs.iter().position(|known| known.name == name);
        let what =
            || format!("there is no row for \"{name}\" alone; add it to the table of programs");
        found.ok_or_else(|| sheet.error_at(line, column, what()))
    }

    /// The data without a program: without its pairs and its remote memory.
    pub fn without(&self, program: usize) -> CoRunData {
        let mut left = self.clone();
        left.pairs.retain(|pair| !pair.programs.contains(&program));
        left.remote.retain(|remote| remote.program != program);
        left
    }

    /// The pairs of a program.
    pub fn pairs_of(&self, program: usize) -> impl Iterator<Item = &MeasuredPair> {
        self.pairs.iter().filter(move |pair| pair.programs.contains(&program))
    }
}
