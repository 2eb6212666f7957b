//! The file of a program, which another user may have made: its headers need no more memory than a limit, and its
//! contents are read in blocks.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::{ReadCache, ReadRef};

/// Limit of the headers, names and notes that are kept. The largest table of sections has 4 MiB.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Size limit of the name of a section.
const NAME_BYTES_MAX: u64 = 4096;

/// The bytes of a program.
pub trait Contents<'data>: ReadRef<'data> {
    /// Fills a block with the bytes at an offset, without keeping them.
    #[allow(clippy::result_unit_err, reason = "as the methods of ReadRef")]
    fn read_block(self, at: u64, block: &mut [u8]) -> Result<(), ()>;
}

impl<'data> Contents<'data> for &'data [u8] {
    fn read_block(self, at: u64, block: &mut [u8]) -> Result<(), ()> {
        block.copy_from_slice(self.read_bytes_at(at, block.len() as u64)?);
        Ok(())
    }
}

/// An open program.
#[derive(Debug)]
pub struct ProgramFile<'f> {
    file: &'f File,
    kept: ReadCache<&'f File>,
    rest: Cell<u64>,
}

impl<'f> ProgramFile<'f> {
    /// Nothing is read yet.
    pub fn new(file: &'f File) -> Self {
        ProgramFile { file, kept: ReadCache::new(file), rest: Cell::new(KEPT_BYTES_MAX) }
    }

    fn spend(&self, n_bytes: u64) -> Result<(), ()> {
        self.rest.set(self.rest.get().checked_sub(n_bytes).ok_or(())?);
        Ok(())
    }
}

impl<'data> ReadRef<'data> for &'data ProgramFile<'_> {
    fn len(self) -> Result<u64, ()> {
        (&self.kept).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        self.spend(size)?;
        (&self.kept).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        let end = range.end.min(range.start.saturating_add(NAME_BYTES_MAX));
        let name = (&self.kept).read_bytes_at_until(range.start..end, delimiter)?;
        self.spend(name.len() as u64)?;
        Ok(name)
    }
}

impl<'data> Contents<'data> for &'data ProgramFile<'_> {
    fn read_block(self, at: u64, block: &mut [u8]) -> Result<(), ()> {
        self.file.read_exact_at(block, at).map_err(drop)
    }
}
