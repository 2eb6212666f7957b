//! Measured slowdowns: pairs of programs on one cache, and programs alone with remote memory.

use super::Machine;
use crate::predict::programs::{Known, KnownError, from_csv};
use crate::sheet::{Sheet, SheetError};

/// The measurements on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The machine.
    pub machine: Machine,
    /// Each program alone.
    pub programs: Vec<Known>,
    /// Pairs of programs on one cache.
    pub pairs: Vec<Pair>,
    /// Programs with remote memory.
    pub remote: Vec<Remote>,
}

/// Two programs on one cache, as indices into [`Truth::programs`].
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The programs.
    pub programs: [usize; 2],
    /// Run times relative to alone.
    pub slowdowns: [f64; 2],
}

/// A program with all its memory on another node.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
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
    Known(#[from] KnownError),
    /// In a table of slowdowns.
    #[error(transparent)]
    Sheet(#[from] SheetError),
}

impl Truth {
    /// Parses the three tables of `workloads/data/corun`, each with its file name for errors.
    ///
    /// # Errors
    /// A table is invalid, or has a program that is not in the first table.
    pub fn read(
        machine: Machine,
        solo: (&str, &str),
        pairs: (&str, &str),
        remote: (&str, &str),
    ) -> Result<Self, DataError> {
        let programs = from_csv(solo.0, solo.1)?.programs;
        let mut truth = Truth { machine, programs, pairs: Vec::new(), remote: Vec::new() };
        truth.read_pairs(&Sheet::read(pairs.0, pairs.1)?)?;
        truth.read_remote(&Sheet::read(remote.0, remote.1)?)?;
        Ok(truth)
    }

    fn read_pairs(&mut self, sheet: &Sheet<'_>) -> Result<(), SheetError> {
        let [a, b] = [sheet.need("a")?, sheet.need("b")?];
        let slow = [sheet.need("slowdown_a")?, sheet.need("slowdown_b")?];
        for line in sheet.lines() {
            let find = |column| self.find(sheet, line, column);
            let programs = [find(a)?, find(b)?];
            let slowdowns = [sheet.need_number(line, slow[0])?, sheet.need_number(line, slow[1])?];
            self.pairs.push(Pair { programs, slowdowns });
        }
        Ok(())
    }

    fn read_remote(&mut self, sheet: &Sheet<'_>) -> Result<(), SheetError> {
        let (name, slow) = (sheet.need("program")?, sheet.need("slowdown_remote60")?);
        for line in sheet.lines() {
            let program = self.find(sheet, line, name)?;
            self.remote.push(Remote { program, slowdown: sheet.need_number(line, slow)? });
        }
        Ok(())
    }

    fn find(
        &self,
        sheet: &Sheet<'_>,
        line: &crate::sheet::Line,
        column: usize,
    ) -> Result<usize, SheetError> {
        let name = sheet.word(line, column);
        let found = self.programs.iter().position(|known| known.name == name);
        let what =
            || format!("there is no row for \"{name}\" alone; add it to the table of programs");
        found.ok_or_else(|| sheet.fault(line, column, what()))
    }

    /// The data without a program: without its pairs and its remote memory.
    pub fn without(&self, program: usize) -> Truth {
        let mut left = self.clone();
        left.pairs.retain(|pair| !pair.programs.contains(&program));
        left.remote.retain(|remote| remote.program != program);
        left
    }

    /// The pairs of a program.
    pub fn pairs_of(&self, program: usize) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| pair.programs.contains(&program))
    }
}
