//! Signatures: the profile of a program, stored in the program or beside it.
//!
//! A policy needs the profile of a program before the program runs. A profile in a directory of the user is lost when
//! the program is copied or packaged. A signature is the same profile with two SHA-256 digests: one of its own text,
//! one of the program for which it is valid.
//!
//! ```text
//!   ELF program                                   script, other file, ELF file that cannot be changed
//!   ┌────────────────────────────┐ 0              PROGRAM
//!   │ ELF header ·······┐        │                PROGRAM.evenkeel-profile  = the same text
//!   │ loaded segments   │ digest │
//!   │ symbols, sections │        │
//!   ├───────────────────│────────┤ file_bytes
//!   │ .note.evenkeel    │ = text │  ELF note, not loaded
//!   │ section names     │        │
//!   │ section headers ◄─┘        │
//!   └────────────────────────────┘
//! ```
//!
//! Embedding appends to the file and changes two fields of the ELF header: the offset of the section headers, and their
//! number. [`remove`] therefore restores the original bytes. The digest of an ELF program covers what the kernel loads,
//! so that `strip` does not invalidate the signature, and another build or a patch does. The digest of another file
//! covers all of its bytes.
//!
//! A signature is not authenticated: it may contain wrong values, as a program may behave differently from its profile.
//! The caller opens and writes files. [`ProgramFile`] reads the file of a program that another user may have made.

mod digest;
mod elf;
mod file;
mod text;

use program::{Profile, WorkloadError};

pub use elf::NotEmbeddable;
pub use file::{Contents, ProgramFile};

/// Suffix of the side file of a program.
pub const SIDE_SUFFIX: &str = ".evenkeel-profile";

/// Size limit of a signature. A profile has at most a few hundred lines.
pub const SIGNATURE_BYTES_MAX: u64 = 1 << 20;

/// Version of the format.
pub const VERSION: u32 = 1;

/// An invalid signature, or a program that can have none. The caller adds the path.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum SignatureError {
    #[error("the signature is of another build; profile the program again")]
    OtherBuild,
    #[error(
        "the signature has format {0}, this evenkeel reads format {VERSION}; use the evenkeel that wrote it, or profile the program again"
    )]
    Newer(u32),
    #[error("the signature is damaged: {0}; profile the program again")]
    Damaged(&'static str),
    #[error(
        "the signature is not of evenkeel: its first line is not \"evenkeel-signature NUMBER\""
    )]
    Foreign,
    #[error(transparent)]
    Profile(#[from] WorkloadError),
    /// The message ends in a command, to which the caller adds the path.
    #[error(
        "the original bytes of the program are unknown: its signature is damaged, has a newer format, or was moved by another tool; remove it, and bytes that were appended to the program, with objcopy --remove-section {}",
        elf::SECTION
    )]
    Rewritten,
    /// A signature in a program that cannot be replaced. The message ends in a command, to which the caller adds the
    /// path.
    #[error(
        "the signature {0}, and bytes that were appended to the program, with objcopy --remove-section {section}",
        section = elf::SECTION
    )]
    Unreadable(String),
    #[error("the program is larger than 4 GiB, or its segments overlap")]
    ProgramSize,
    #[error("the profile is larger than 1 MiB")]
    ProfileSize,
    #[error("the program cannot be read")]
    Read,
    #[error(transparent)]
    NotEmbeddable(#[from] NotEmbeddable),
}

/// Returns the profile in the signature of an ELF program; `None` if the program has no signature or is no ELF program.
///
/// # Errors
/// The signature is invalid, or belongs to another build.
pub fn read<'data>(program: impl Contents<'data>) -> Result<Option<Profile>, SignatureError> {
    let Ok(elf) = elf::Elf::parse(program) else { return Ok(None) };
    let Some(text) = elf.signature().map_err(in_program)? else { return Ok(None) };
    let signature = text::parse(text).map_err(in_program)?;
    // Data that was appended later may change the behaviour of the program.
    elf.check_embeddable().map_err(|_| SignatureError::OtherBuild)?;
    match signature.digest == elf.digest()? {
        true => Ok(Some(text::profile(signature.profile)?)),
        false => Err(SignatureError::OtherBuild),
    }
}

/// Returns the error of a signature in a program. Unlike a side file, the signature cannot be replaced, because the
/// original bytes of the program are unknown.
fn in_program(error: SignatureError) -> SignatureError {
    SignatureError::Unreadable(match error {
        SignatureError::Damaged(problem) => format!("is damaged: {problem}; remove it"),
        SignatureError::Newer(version) => format!(
            "has format {version}, this evenkeel reads format {VERSION}; use the evenkeel that wrote it, or remove it"
        ),
        other => return other,
    })
}

/// Checks that a file is an ELF program whose headers can be read. The kernel ignores the section headers, so that a
/// damaged program may run and have a side file.
///
/// # Errors
/// The file is no ELF program, or a damaged one.
pub fn check_elf<'data>(program: impl Contents<'data>) -> Result<(), NotEmbeddable> {
    elf::Elf::parse(program).map(drop)
}

/// Returns the profile in the side file of a program.
///
/// # Errors
/// The signature is invalid, or belongs to another build.
pub fn read_side<'data>(
    side: &[u8],
    program: impl Contents<'data>,
) -> Result<Profile, SignatureError> {
    let signature = text::parse(side)?;
    match signature.digest == digest_of(program)? {
        true => text::profile(signature.profile),
        false => Err(SignatureError::OtherBuild),
    }
}

/// Returns the content of the side file of a program.
///
/// # Errors
/// The program cannot be read or is too large.
pub fn to_side<'data>(
    program: impl Contents<'data>,
    profile: &Profile,
) -> Result<Vec<u8>, SignatureError> {
    Ok(text::format(&digest_of(program)?, None, &to_toml(profile)?))
}

/// Embeds a signature in a program. It replaces an earlier one. A program may be large, so it is changed in place.
///
/// # Errors
/// The program cannot have an embedded signature, or another tool rewrote a program with a signature. The content of
/// `program` is undefined then.
pub fn embed(program: &mut Vec<u8>, profile: &Profile) -> Result<(), SignatureError> {
    remove(program)?;
    let profile = to_toml(profile)?;
    let elf = elf::Elf::parse(&**program)?;
    elf.check_embeddable()?;
    elf.check_can_add_section()?;
    let digest = elf.digest()?;
    elf.attachment(|layout| text::format(&digest, Some(layout), &profile)).apply(program);
    // Section headers may point anywhere, also to the new name.
    match elf::Elf::parse(&**program).is_ok_and(|elf| elf.has_profile(&profile)) {
        true => Ok(()),
        false => Err(NotEmbeddable::NoSections.into()),
    }
}

/// Removes the signature of a program and restores its original bytes, in place. Returns whether the program had a
/// signature.
///
/// # Errors
/// The signature is damaged, or another tool rewrote the program. The content of `program` is undefined then.
pub fn remove(program: &mut Vec<u8>) -> Result<bool, SignatureError> {
    let Ok(elf) = elf::Elf::parse(&**program) else { return Ok(false) };
    let rewritten = |_| SignatureError::Rewritten;
    let Some(text) = elf.signature().map_err(rewritten)? else { return Ok(false) };
    let text = text.to_vec();
    let layout = text::parse(&text).map_err(rewritten)?.layout;
    let header = layout.and_then(|layout| elf.header_without_signature(layout));
    let (Some(layout), Some(header)) = (layout, header) else {
        return Err(SignatureError::Rewritten);
    };
    // The original bytes are those that give this program when the same text is embedded again. A program that was
    // patched has another digest, but still its layout.
    let removed = elf::Attachment::of(program, &header, layout);
    removed.undo(program, &header);
    let again = elf::Elf::parse(&**program).ok().filter(|elf| matches!(elf.signature(), Ok(None)));
    match again.is_some_and(|elf| elf.attachment(|_| text) == removed) {
        true => Ok(true),
        false => Err(SignatureError::Rewritten),
    }
}

fn to_toml(profile: &Profile) -> Result<String, SignatureError> {
    let text = profile.to_toml();
    // The header of a signature has less than 4 KiB.
    match text.len() as u64 + 4096 <= SIGNATURE_BYTES_MAX {
        true => Ok(text),
        false => Err(SignatureError::ProfileSize),
    }
}

/// Returns the digest of what the kernel loads, or of the whole file if no signature can be embedded in the program.
fn digest_of<'data>(program: impl Contents<'data>) -> Result<String, SignatureError> {
    match elf::Elf::parse(program) {
        Ok(elf) if elf.check_embeddable().is_ok() => elf.digest(),
        _ => digest::of_file(program),
    }
}

#[cfg(test)]
mod tests;
