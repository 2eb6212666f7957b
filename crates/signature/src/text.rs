//! The text of a signature: a header of `key value` lines, and the profile as in a profile file.
//!
//! ```text
//!   evenkeel-signature 1           version of the format; all later lines depend on it
//!   checksum 3fd0…                 SHA-256 of everything after this line
//!   program 91ac…                  SHA-256 of the program
//!   layout 35664 33800             only in a program: its size, and the offset of its section headers, without signature
//!   (empty line)
//!   version = 2
//!   name = "sort"
//!   …
//! ```

use std::path::Path;

use program::Profile;

use crate::{SIGNATURE_BYTES_MAX, SignatureError, VERSION, digest};

const MAGIC: &str = "evenkeel-signature ";

/// A signature with a valid checksum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature<'t> {
    /// Digest of the program.
    pub digest: &'t str,
    pub layout: Option<Layout>,
    /// Text of the profile.
    pub profile: &'t str,
}

/// What embedding changed in the ELF header, or needs to find its own part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Size of the program without signature.
    pub file_bytes: u64,
    /// Offset of the original section headers.
    pub sections_at: u64,
}

pub(crate) fn format(digest: &str, layout: Option<Layout>, profile: &str) -> Vec<u8> {
    let layout = layout.map_or(String::new(), |Layout { file_bytes, sections_at }| {
        format!("layout {file_bytes} {sections_at}\n")
    });
    let rest = format!("program {digest}\n{layout}\n{profile}");
    let checksum = digest::of_text(rest.as_bytes());
    format!("{MAGIC}{VERSION}\nchecksum {checksum}\n{rest}").into_bytes()
}

/// Parses the header of a signature. Does not parse the profile.
pub(crate) fn parse(bytes: &[u8]) -> Result<Signature<'_>, SignatureError> {
    if SIGNATURE_BYTES_MAX < bytes.len() as u64 {
        return Err(SignatureError::Damaged("it is larger than 1 MiB"));
    }
    let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or(SignatureError::Foreign)?;
    let end = rest.iter().position(|&byte| byte == b'\n').ok_or(SignatureError::Foreign)?;
    let version = std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse().ok());
    match version {
        Some(VERSION) => {}
        Some(version) if VERSION < version => return Err(SignatureError::Newer(version)),
        _ => return Err(SignatureError::Foreign),
    }
    let not_text = |_| SignatureError::Damaged("it is not UTF-8 text");
    let text = std::str::from_utf8(&rest[end + 1..]).map_err(not_text)?;
    let truncated = SignatureError::Damaged("it is truncated");
    let Some((checksum, rest)) =
        text.strip_prefix("checksum ").and_then(|text| text.split_once('\n'))
    else {
        return Err(truncated);
    };
    if checksum != digest::of_text(rest.as_bytes()) {
        return Err(SignatureError::Damaged("its checksum differs"));
    }
    let Some((header, profile)) = rest.split_once("\n\n") else { return Err(truncated) };
    let value_of = |key: &str| header.lines().find_map(|line| line.strip_prefix(key));
    let Some(digest) = value_of("program ") else { return Err(truncated) };
    let layout = value_of("layout ").and_then(|value| {
        let (file_bytes, sections_at) = value.split_once(' ')?;
        Some(Layout {
            file_bytes: file_bytes.parse().ok()?,
            sections_at: sections_at.parse().ok()?,
        })
    });
    Ok(Signature { digest, layout, profile })
}

pub(crate) fn profile(text: &str) -> Result<Profile, SignatureError> {
    Ok(program::profile::parse_profile(text, Path::new("signature"))?)
}
