//! SHA-256 of parts of a file, which are read in blocks.

use std::ops::Range;

use object::ReadRef;
use sha2::{Digest, Sha256};

use crate::SignatureError;

/// Number of bytes of one read.
const BLOCK_BYTES: u64 = 1 << 20;

/// Size limit of a program: a sparse file, or overlapping segments, must not cost time without limit. SHA-256 of 4 GiB
/// takes about 10 s (guessed).
const PROGRAM_BYTES_MAX: u64 = 4 << 30;

/// A running digest, with the number of bytes that may still be added.
pub(crate) struct Hasher {
    hash: Sha256,
    rest: u64,
}

impl Hasher {
    /// `domain` separates digests of different parts of a file.
    pub fn new(domain: &str) -> Self {
        Hasher { hash: Sha256::new_with_prefix(domain), rest: PROGRAM_BYTES_MAX }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// Adds a part of a file. The bytes at the offsets `zeroed` count as zero.
    pub fn add_part<'data>(
        &mut self,
        data: impl ReadRef<'data>,
        part: Range<u64>,
        zeroed: &[Range<u64>],
    ) -> Result<(), SignatureError> {
        let size = part.end.saturating_sub(part.start);
        self.rest = self.rest.checked_sub(size).ok_or(SignatureError::ProgramSize)?;
        let mut from = part.start;
        while from < part.end {
            let until = part.end.min(from.saturating_add(BLOCK_BYTES));
            let block =
                data.read_bytes_at(from, until - from).map_err(|()| SignatureError::Read)?;
            match zeroed.iter().any(|range| from < range.end && range.start < until) {
                true => self.hash.update(with_zeros(block, from, zeroed)),
                false => self.hash.update(block),
            }
            from = until;
        }
        Ok(())
    }

    /// Returns the digest in hexadecimal.
    pub fn finish(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn with_zeros(block: &[u8], from: u64, zeroed: &[Range<u64>]) -> Vec<u8> {
    let is_zero = |offset: u64| zeroed.iter().any(|range| range.contains(&offset));
    (from..).zip(block).map(|(offset, byte)| if is_zero(offset) { 0 } else { *byte }).collect()
}

/// Returns the digest of a text.
pub(crate) fn of_text(text: &[u8]) -> String {
    let mut hasher = Hasher::new("");
    hasher.add(text);
    hasher.finish()
}

/// Returns the digest of a complete file.
pub(crate) fn of_file<'data>(data: impl ReadRef<'data>) -> Result<String, SignatureError> {
    let size = data.len().map_err(|()| SignatureError::Read)?;
    let mut hasher = Hasher::new("file\n");
    hasher.add_part(data, 0..size, &[])?;
    Ok(hasher.finish())
}
