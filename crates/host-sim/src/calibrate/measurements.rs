//! Measured slowdowns: of pairs of programs on one cache, and of single programs with remote memory.

use super::CoRunMachine;
use crate::csv_table::{CsvError, CsvRow, CsvTable};
use crate::predict::program_table::{ProgramTableError, TableProgram, from_csv};

/// The measurements on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct CoRunData {
    /// The machine.
    pub machine: CoRunMachine,
    /// Measurements of each program alone.
    pub programs: Vec<TableProgram>,
    /// Measurements of pairs of programs on one cache.
    pub pairs: Vec<MeasuredPair>,
    /// Measurements of programs with remote memory.
    pub remote: Vec<MeasuredRemote>,
}

/// A pair of programs on one cache.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPair {
    /// Indexes of the programs in [`CoRunData::programs`].
    pub programs: [usize; 2],
    /// Run times relative to the run times alone.
    pub slowdowns: [f64; 2],
}

/// A program with all its memory on a remote node.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRemote {
    /// Index of the program in [`CoRunData::programs`].
    pub program: usize,
    /// Run time relative to local memory.
    pub slowdown: f64,
}

/// An error in the data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum DataError {
    #[error(transparent)]
    Known(#[from] ProgramTableError),
    #[error(transparent)]
    Sheet(#[from] CsvError),
}

impl CoRunData {
    /// Parses the three tables of `workloads/data/corun`. Each table has a file name for errors.
    ///
    /// # Errors
    /// Returns an error if a table is invalid, or names a program that is not in the first table.
    pub fn read(
        machine: CoRunMachine,
        alone: (&str, &str),
        pairs: (&str, &str),
        remote: (&str, &str),
    ) -> Result<Self, DataError> {
        let programs = from_csv(alone.0, alone.1)?.programs;
        let mut measurements =
            CoRunData { machine, programs, pairs: Vec::new(), remote: Vec::new() };
        measurements.read_pairs(&CsvTable::read(pairs.0, pairs.1)?)?;
        measurements.read_remote(&CsvTable::read(remote.0, remote.1)?)?;
        Ok(measurements)
    }

    fn read_pairs(&mut self, table: &CsvTable<'_>) -> Result<(), CsvError> {
        table.require_columns(&["a", "b", "slowdown_a", "slowdown_b"])?;
        for row in table.rows() {
            let programs = [self.find(row, "a")?, self.find(row, "b")?];
            let slowdowns = [row.require_number("slowdown_a")?, row.require_number("slowdown_b")?];
            self.pairs.push(MeasuredPair { programs, slowdowns });
        }
        Ok(())
    }

    fn read_remote(&mut self, table: &CsvTable<'_>) -> Result<(), CsvError> {
        table.require_columns(&["program", "slowdown_remote60"])?;
        for row in table.rows() {
            let program = self.find(row, "program")?;
            let slowdown = row.require_number("slowdown_remote60")?;
            self.remote.push(MeasuredRemote { program, slowdown });
        }
        Ok(())
    }

    fn find(&self, row: CsvRow<'_>, column: &str) -> Result<usize, CsvError> {
        let name = row.text(column)?;
        let found = self.programs.iter().position(|known| known.name == name);
        let problem =
            || format!("there is no row for \"{name}\" alone; add it to the table of programs");
        found.ok_or_else(|| row.error(column, problem()))
    }

    /// Returns the data without a program: without its pairs and its measurement with remote memory.
    pub fn without(&self, program: usize) -> CoRunData {
        let mut left = self.clone();
        left.pairs.retain(|pair| !pair.programs.contains(&program));
        left.remote.retain(|remote| remote.program != program);
        left
    }

    /// Returns the pairs of a program.
    pub fn pairs_of(&self, program: usize) -> impl Iterator<Item = &MeasuredPair> {
        self.pairs.iter().filter(move |pair| pair.programs.contains(&program))
    }
}
