//! Opening journals that a command names.

use std::path::{Path, PathBuf};

use journal::Recording;

use crate::command_result::{CommandError, OrUsageError};

/// What the journal is called in the folder of a run.
const IN_FOLDER: &str = "journal.jsonl";

/// The journal of that name, or the one in the folder of that name.
pub fn open(path: &Path) -> Result<Recording, CommandError> {
    journal::read(&file(path)).or_usage_error()
}

fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(IN_FOLDER) } else { path.to_owned() }
}

/// So much of a name must be right, swapped neighbours counting as one slip, for it to be what was
/// meant. A guess.
const ALIKE: f64 = 0.6;

/// The known name that is most like this one, if any is much like it.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = |other: &&str| strsim::normalized_damerau_levenshtein(name, other);
    let best = known.max_by(|a, b| alike(a).total_cmp(&alike(b)).then(b.cmp(a)))?;
    (ALIKE <= alike(&best)).then_some(best)
}
