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
