//! Opens the journals that commands read.

use std::path::{Path, PathBuf};

use journal::Recording;

use crate::command_result::{CommandError, OrUsageError};

/// File name of the journal in the folder of a run.
const IN_FOLDER: &str = "journal.jsonl";

/// Opens a journal file, or the journal in the folder of a run.
pub fn open(path: &Path) -> Result<Recording, CommandError> {
    journal::read(&file(path)).or_usage_error()
}

fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(IN_FOLDER) } else { path.to_owned() }
}
