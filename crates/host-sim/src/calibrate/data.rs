//! Measured slow-downs: pairs of programs on one cache, and programs alone with their memory farther away.

use super::Machine;
use crate::predict::programs::{Known, KnownError, from_csv};
use crate::sheet::{Sheet, SheetError};

/// All that was measured on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Where.
    pub machine: Machine,
    /// What each program does alone.
    pub programs: Vec<Known>,
    /// Two side by side.
    pub pairs: Vec<Pair>,
    /// One with all of its memory farther away.
    pub remote: Vec<Remote>,
}

/// Two programs side by side; numbers count in [`Truth::programs`].
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Which two.
    pub programs: [usize; 2],
    /// Times as long as alone.
    pub slowdowns: [f64; 2],
}

/// A program with its memory farther away.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// Which one.
    pub program: usize,
    /// Times as long as with it near.
    pub slowdown: f64,
}

/// Why data cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// The programs alone.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// The slow-downs.
    #[error(transparent)]
    Sheet(#[from] SheetError),
}

impl Truth {
    /// From the three tables of `workloads/data/corun`, each with its name for messages.
    ///
    /// # Errors
    /// A table cannot be read, or names a program of which nothing is known alone.
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
        let what = || format!("nothing is known of \"{name}\" alone");
        found.ok_or_else(|| sheet.fault(line, column, what()))
    }

    /// What is left when a program never was in it: neither its pairs nor its remote memory.
    pub fn without(&self, program: usize) -> Truth {
        let mut left = self.clone();
        left.pairs.retain(|pair| !pair.programs.contains(&program));
        left.remote.retain(|remote| remote.program != program);
        left
    }

    /// The pairs that a program is in.
    pub fn pairs_of(&self, program: usize) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| pair.programs.contains(&program))
    }
}
