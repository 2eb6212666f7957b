//! Signatures of programs: search, embedding and removal. The crate `signature` computes, `files` reads and writes.
//!
//! ```text
//!   program to start      its resolved path  ─► embedded signature, or else side file
//!   running program       /proc/PID/exe      ─► embedded signature, or else side file if the path is that of the
//!                                               opened file
//! ```
//!
//! A link to a program has the signature of its target. A script to start has its own signature and not that of its
//! interpreter; a running script is its interpreter. A side file is used only if root or the owner of the program wrote
//! it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base::TaskId;
use files::{ExistingFile, FileVersion};
use host_live::ProgramSignature;
use linux::proc_dir::ProcDir;
use linux::stop_signals::StopSignals;
use program::Profile;
use program::profile::ProfileFile;
use signature::{NotEmbeddable, ProgramFile, SIDE_SUFFIX, SIGNATURE_BYTES_MAX, SignatureError};

/// Size limit of a program in which a signature is embedded, and of a running program whose signature is read. The file
/// is in memory once.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;
/// Number of programs whose signatures a watch keeps.
const N_KEPT_MAX: usize = 64;
/// Number of notes of a watch about signatures. Each user could cause any number of them.
const N_NOTES_MAX: u32 = 1000;

/// Finds the signature of a program. Its file is the program, or the side file.
///
/// # Errors
/// The program cannot be read, or its signature is invalid.
pub fn find(path: &Path) -> anyhow::Result<Option<ProfileFile>> {
    let program = open(path)?;
    OpenProgram::beside(path, &program).find().with_context(|| path.display().to_string())
}

/// Returns the error of an ELF program whose headers do not describe its file.
pub fn damage(path: &Path) -> Option<anyhow::Error> {
    check_undamaged(&open(path).ok()?).err().map(anyhow::Error::from)
}

fn check_undamaged(program: &ExistingFile) -> Result<(), NotEmbeddable> {
    match signature::check_elf(&ProgramFile::new(program.file())) {
        Err(NotEmbeddable::Damaged) => Err(NotEmbeddable::Damaged),
        _ => Ok(()),
    }
}

/// Finds the signature of a program that is started. A program that cannot be read has no signature; its start reports
/// the error.
pub fn of_program(path: &Path) -> ProgramSignature {
    let is_readable = path.is_file() && File::open(path).is_ok();
    if is_readable { with_note(path, find(path)) } else { ProgramSignature::default() }
}

/// Adds the note about a signature. An invalid signature is not used.
fn with_note(program: &Path, found: anyhow::Result<Option<ProfileFile>>) -> ProgramSignature {
    let shown = program.display();
    let note = match &found {
        Ok(None) => None,
        Ok(Some(ProfileFile { path, .. })) => Some(match path == program {
            true => format!("the profile of {shown} is its embedded signature"),
            false => format!("the profile of {shown} is the signature {}", path.display()),
        }),
        Err(error) => Some(format!("signature not used: {error:#}")),
    };
    ProgramSignature { profile: found.ok().flatten(), note }
}

/// Finds the signatures of running programs. The results are kept, because many processes may execute one program.
pub struct RunningPrograms {
    proc: ProcDir,
    known: BTreeMap<KnownProgram, ProgramSignature>,
    n_notes: u32,
}

/// Path and version of a program, and version of its side file, or the error of its open.
type KnownProgram = (PathBuf, FileVersion, Option<Result<FileVersion, String>>);

impl RunningPrograms {
    pub fn new() -> io::Result<Self> {
        let proc = ProcDir::open("/".as_ref())?;
        Ok(RunningPrograms { proc, known: BTreeMap::new(), n_notes: 0 })
    }

    /// Finds the signature of the program that a process executes. A program that cannot be opened has no signature.
    pub fn signature(&mut self, process: TaskId) -> ProgramSignature {
        let executable = self.proc.executable(process);
        let found = executable.and_then(|(file, path)| self.find(&path, &file));
        found.unwrap_or_default()
    }

    fn find(&mut self, path: &Path, file: &File) -> io::Result<ProgramSignature> {
        if PROGRAM_BYTES_MAX < file.metadata()?.len() {
            return Ok(ProgramSignature::default());
        }
        // The path of another mount namespace, or of a replaced program, is not used: another user may have made it
        // that of a file which root must not open, for example a device.
        let named = ExistingFile::from_open(file.try_clone()?, path).ok();
        let program = match &named {
            Some(named) => OpenProgram::beside(path, named),
            None => OpenProgram { path, file, side: None },
        };
        let key = program.key()?;
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        if N_KEPT_MAX <= self.known.len() {
            self.known.clear();
        }
        let found = program.find().with_context(|| path.display().to_string());
        let mut signature = with_note(path, found);
        self.n_notes += u32::from(signature.note.is_some());
        if N_NOTES_MAX < self.n_notes {
            signature.note = None;
        }
        self.known.insert(key, signature.clone());
        Ok(signature)
    }
}

/// An open program with its side file.
struct OpenProgram<'f> {
    path: &'f Path,
    file: &'f File,
    side: Option<(PathBuf, io::Result<ExistingFile>)>,
}

impl<'f> OpenProgram<'f> {
    /// Opens the side file. A side file that another user could write is an error.
    fn beside(path: &'f Path, program: &'f ExistingFile) -> Self {
        let (dir, name) = program.beside(SIDE_SUFFIX);
        let checked = |side: ExistingFile| side.check_writers(program).map(|()| side);
        let opened = program.open_beside(SIDE_SUFFIX).transpose();
        let side = opened.map(|side| (dir.path().join(name), side.and_then(checked)));
        OpenProgram { path, file: program.file(), side }
    }

    fn key(&self) -> io::Result<KnownProgram> {
        let side = match &self.side {
            None => None,
            Some((_, Ok(side))) => Some(Ok(FileVersion::of(side.file())?)),
            Some((_, Err(error))) => Some(Err(error.to_string())),
        };
        Ok((self.path.to_owned(), FileVersion::of(self.file)?, side))
    }

    /// Finds the signature in the program, or in the side file.
    fn find(self) -> anyhow::Result<Option<ProfileFile>> {
        let data = ProgramFile::new(self.file);
        let embedded = signature::read(&data).map_err(|error| with_command(error, self.path));
        if let Some(profile) = embedded? {
            return Ok(Some(ProfileFile { profile, path: self.path.to_owned() }));
        }
        let Some((path, side)) = self.side else { return Ok(None) };
        let in_side = || path.display().to_string();
        let text = side.and_then(|side| read_side(&side)).with_context(in_side)?;
        let profile = signature::read_side(&text, &data).with_context(in_side)?;
        Ok(Some(ProfileFile { profile, path }))
    }
}

fn read_side(side: &ExistingFile) -> io::Result<Vec<u8>> {
    side.read(SIGNATURE_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => io::Error::new(error.kind(), format!("{error}; remove it")),
        _ => error,
    })
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
        check_undamaged(&file).with_context(|| shown.to_string())?;
        let beside = match beside {
            true => Some("--beside is set".to_owned()),
            false => reason_for_beside(&file, path).with_context(|| shown.to_string())?,
        };
        let program = SignedProgram { path: path.to_owned(), file, beside };
        match program.beside {
            Some(_) => program.check_beside()?,
            // The program is replaced by a new file in its directory.
            None => files::check_writable(&program.side_path())
                .with_context(|| format!("{shown} cannot be replaced in its directory"))?,
        }
        Ok(program)
    }

    /// Checks that a signature beside the program can be written and would be used.
    fn check_beside(&self) -> anyhow::Result<()> {
        let (shown, side) = (self.path.display(), self.side_path());
        let no_effect = || format!("a signature beside {shown} would not be used");
        self.file.check_own().with_context(no_effect)?;
        let embedded = signature::read(&ProgramFile::new(self.file.file()));
        let embedded = embedded.map_err(|error| with_command(error, &self.path));
        if embedded.with_context(no_effect)?.is_some() {
            let remove = base::shell::quote(&self.path);
            return Err(anyhow!(
                "the program has an embedded one; to remove it: evenkeel profile --remove {remove}"
            ))
            .with_context(no_effect);
        }
        match self.file.open_beside(SIDE_SUFFIX) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(error).with_context(|| side.display().to_string())
            }
            _ => crate::output::check_writable(&side),
        }
    }

    /// Returns the path of the side file.
    fn side_path(&self) -> PathBuf {
        let (dir, name) = self.file.beside(SIDE_SUFFIX);
        dir.path().join(name)
    }

    /// Returns the reason why the signature is written beside the program.
    pub fn reason_for_beside(&self) -> Option<&str> {
        self.beside.as_deref()
    }

    /// Writes the signature, and returns the written file.
    pub fn write(&self, profile: &Profile) -> anyhow::Result<PathBuf> {
        self.write_in(profile).with_context(|| self.path.display().to_string())
    }

    /// A stop signal ends the process after the replacement: it leaves no temporary file.
    fn write_in(&self, profile: &Profile) -> anyhow::Result<PathBuf> {
        let _blocked = StopSignals::block()?;
        if self.beside.is_none() {
            let mut program = self.file.read(PROGRAM_BYTES_MAX)?;
            signature::embed(&mut program, profile)
                .map_err(|error| with_command(error, &self.path))?;
            self.file.replace(&program).context("cannot be replaced")?;
            return Ok(self.path.clone());
        }
        self.file.check_unchanged().context("no signature is written")?;
        let text = signature::to_side(&ProgramFile::new(self.file.file()), profile)?;
        let side = self.side_path();
        let written = self.file.replace_beside(SIDE_SUFFIX, &text);
        written.with_context(|| format!("cannot write {}", side.display()))?;
        Ok(side)
    }
}

/// Returns why a signature cannot be embedded in a program.
///
/// # Errors
/// The program has a signature that cannot be replaced.
fn reason_for_beside(file: &ExistingFile, path: &Path) -> anyhow::Result<Option<String>> {
    if let Err(error) = file.check_replaceable() {
        return Ok(Some(error.to_string()));
    }
    let mut program = match file.read(PROGRAM_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Ok(Some(error.to_string()));
        }
        program => program?,
    };
    match signature::embed(&mut program, &Profile::default()) {
        Ok(()) => Ok(None),
        Err(SignatureError::NotEmbeddable(reason)) => Ok(Some(reason.to_string())),
        Err(other) => Err(with_command(other, path)),
    }
}

/// Removes the signature of a program, in the program and beside it. Returns the changed and the removed files.
///
/// # Errors
/// The signature cannot be removed without a change of the program.
pub fn remove(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let _blocked = StopSignals::block()?;
    let program = open(path)?;
    let mut removed = Vec::new();
    let in_program = || path.display().to_string();
    if program.file().metadata()?.len() <= PROGRAM_BYTES_MAX {
        let mut bytes = program.read(PROGRAM_BYTES_MAX).with_context(in_program)?;
        let is_removed = signature::remove(&mut bytes).map_err(|error| with_command(error, path));
        if is_removed.with_context(in_program)? {
            let replaced = program.replace(&bytes);
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

/// Adds the path of the program to the command at the end of a message.
fn with_command(error: SignatureError, program: &Path) -> anyhow::Error {
    match error {
        SignatureError::Rewritten | SignatureError::Unreadable(_) => {
            anyhow!("{error} {}", base::shell::quote(program))
        }
        other => other.into(),
    }
}

fn open(path: &Path) -> anyhow::Result<ExistingFile> {
    ExistingFile::open(path).map_err(|error| anyhow!("cannot read {}: {error}", path.display()))
}
