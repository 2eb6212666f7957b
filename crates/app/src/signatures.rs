//! Signatures of programs: search, embedding and removal. The crate `signature` computes, `files` reads and writes.
//!
//! A program without an embedded signature may have a side file. Both are searched at the resolved path of the program:
//! a link to a program has the signature of its target, and a script has its own and not that of its interpreter.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use files::ExistingFile;
use object::ReadCache;
use program::Profile;
use signature::{SIDE_SUFFIX, SIGNATURE_BYTES_MAX, SignatureError};

/// Size limit of a program in which a signature is embedded. The file is in memory three times.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;

/// A valid signature.
pub struct FoundSignature {
    pub profile: Profile,
    /// The program itself, or its side file.
    pub file: PathBuf,
}

/// Finds the signature of a program.
///
/// # Errors
/// The program cannot be read, or its signature is invalid.
pub fn find(path: &Path) -> anyhow::Result<Option<FoundSignature>> {
    find_in(path, &open(path)?).with_context(|| path.display().to_string())
}

fn find_in(path: &Path, program: &ExistingFile) -> anyhow::Result<Option<FoundSignature>> {
    let data = ReadCache::new(program.file());
    if let Some(profile) = signature::read(&data)? {
        return Ok(Some(FoundSignature { profile, file: path.to_owned() }));
    }
    let (dir, name) = program.beside(SIDE_SUFFIX);
    let side = dir.path().join(name);
    let in_side = || side.display().to_string();
    let Some(file) = program.open_beside(SIDE_SUFFIX).with_context(in_side)? else {
        return Ok(None);
    };
    file.check_writers(program).with_context(in_side)?;
    let text = file.read(SIGNATURE_BYTES_MAX).with_context(in_side)?;
    let profile = signature::read_side(&text, &data).with_context(in_side)?;
    Ok(Some(FoundSignature { profile, file: side }))
}

/// A program whose signature may be written. It was checked before the measurement, which takes time.
pub struct SignedProgram {
    path: PathBuf,
    file: ExistingFile,
    /// The reason why the signature is written beside the program.
    beside: Option<String>,
}

impl SignedProgram {
    /// Checks the program. With `beside`, the signature is written beside the program in every case.
    pub fn open(path: &Path, beside: bool) -> anyhow::Result<Self> {
        let file = open(path)?;
        let shown = path.display();
        if file.is_set_id() {
            bail!(
                "{shown} has the set-user-ID or set-group-ID bit; such programs get no signature"
            );
        }
        let beside = match beside {
            true => Some("--beside is set".to_owned()),
            false => reason_for_beside(&file).with_context(|| shown.to_string())?,
        };
        let program = SignedProgram { path: path.to_owned(), file, beside };
        if program.beside.is_some() {
            let no_effect = || format!("a signature beside {shown} would not be used");
            program.file.check_own().with_context(no_effect)?;
            let (dir, name) = program.file.beside(SIDE_SUFFIX);
            let side = dir.path().join(&name);
            crate::output::check_writable(&side)?;
        }
        Ok(program)
    }

    /// Returns the reason why the signature is written beside the program.
    pub fn reason_for_beside(&self) -> Option<&str> {
        self.beside.as_deref()
    }

    /// Writes the signature, and returns the written file.
    pub fn write(&self, profile: &Profile) -> anyhow::Result<PathBuf> {
        self.write_in(profile).with_context(|| self.path.display().to_string())
    }

    fn write_in(&self, profile: &Profile) -> anyhow::Result<PathBuf> {
        if self.beside.is_none() {
            let bytes = signature::embed(&self.file.read(PROGRAM_BYTES_MAX)?, profile)?;
            self.file.replace(&bytes).context("cannot be replaced")?;
            return Ok(self.path.clone());
        }
        let text = signature::to_side(&ReadCache::new(self.file.file()), profile)?;
        let (dir, name) = self.file.beside(SIDE_SUFFIX);
        let side = dir.path().join(&name);
        let written = self.file.replace_beside(SIDE_SUFFIX, &text);
        written.with_context(|| format!("cannot write {}", side.display()))?;
        Ok(side)
    }
}

/// Returns why a signature cannot be embedded in a program.
///
/// # Errors
/// The program has a signature that cannot be replaced.
fn reason_for_beside(file: &ExistingFile) -> anyhow::Result<Option<String>> {
    if let Err(error) = file.check_replaceable() {
        return Ok(Some(error.to_string()));
    }
    let bytes = match file.read(PROGRAM_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Ok(Some(error.to_string()));
        }
        bytes => bytes?,
    };
    match signature::embed(&bytes, &Profile::default()) {
        Ok(_) => Ok(None),
        Err(SignatureError::NotEmbeddable(reason)) => Ok(Some(reason.to_string())),
        Err(other) => Err(other.into()),
    }
}

/// Removes the signature of a program, in the program and beside it. Returns the changed and the removed files.
///
/// # Errors
/// The signature cannot be removed without a change of the program.
pub fn remove(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let program = open(path)?;
    let mut removed = Vec::new();
    let in_program = || path.display().to_string();
    if program.file().metadata()?.len() <= PROGRAM_BYTES_MAX {
        let bytes = program.read(PROGRAM_BYTES_MAX).with_context(in_program)?;
        if let Some(original) = signature::remove(&bytes).with_context(in_program)? {
            let replaced = program.replace(&original);
            replaced.with_context(|| format!("{} cannot be replaced", path.display()))?;
            removed.push(path.to_owned());
        }
    }
    let (dir, name) = program.beside(SIDE_SUFFIX);
    if dir.contains(&name) {
        let side = dir.path().join(&name);
        dir.remove(&name).with_context(|| format!("cannot remove {}", side.display()))?;
        removed.push(side);
    }
    Ok(removed)
}

fn open(path: &Path) -> anyhow::Result<ExistingFile> {
    ExistingFile::open(path).map_err(|error| anyhow!("cannot read {}: {error}", path.display()))
}
