//! SHA-256 of parts of a file, which are read in blocks.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::SignatureError;
use crate::file::Contents;

/// Number of bytes of one read.
const BLOCK_BYTES: u64 = 1 << 20;

/// Size limit of a program: a sparse file must not cost time without limit. SHA-256 of 4 GiB takes about 10 s (guessed).
const PROGRAM_BYTES_MAX: u64 = 4 << 30;
/// Largest sum of the parts of a program, relative to its file. The segments of a program do not overlap, but its header
/// is a part too.
const OVERLAP_MAX: u64 = 2;

/// A running digest, with the number of bytes that may still be added.
pub(crate) struct Hasher {
    hash: Sha256,
    rest: u64,
}

impl Hasher {
    /// `domain` separates digests of different parts of a file of `file_bytes`.
    pub fn new(domain: &str, file_bytes: u64) -> Self {
        let rest = file_bytes.saturating_mul(OVERLAP_MAX).min(PROGRAM_BYTES_MAX);
        Hasher { hash: Sha256::new_with_prefix(domain), rest }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// Adds a part of a file. The bytes at the offsets `zeroed` count as zero.
    pub fn add_part<'data>(
        &mut self,
        data: impl Contents<'data>,
        part: Range<u64>,
        zeroed: &[Range<u64>],
    ) -> Result<(), SignatureError> {
        let size = part.end.saturating_sub(part.start);
        self.rest = self.rest.checked_sub(size).ok_or(SignatureError::ProgramSize)?;
        let mut block = vec![0; size.min(BLOCK_BYTES) as usize];
        let mut from = part.start;
        while from < part.end {
            let n_bytes = BLOCK_BYTES.min(part.end - from);
            block.truncate(n_bytes as usize);
            data.read_block(from, &mut block).map_err(|()| SignatureError::Read)?;
            for offset in zeroed.iter().flat_map(Range::clone).filter_map(|at| at.checked_sub(from))
            {
                if let Some(byte) = block.get_mut(offset as usize) {
                    *byte = 0;
                }
            }
            self.hash.update(&block);
            from += n_bytes;
        }
        Ok(())
    }

    /// Returns the digest in hexadecimal.
    pub fn finish(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the digest of a text.
pub(crate) fn of_text(text: &[u8]) -> String {
    let mut hasher = Hasher::new("", 0);
    hasher.add(text);
    hasher.finish()
}

/// Returns the digest of a complete file.
pub(crate) fn of_file<'data>(data: impl Contents<'data>) -> Result<String, SignatureError> {
    let size = data.len().map_err(|()| SignatureError::Read)?;
    let mut hasher = Hasher::new("file\n", size);
    hasher.add_part(data, 0..size, &[])?;
    Ok(hasher.finish())
}
