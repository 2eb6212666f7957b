//! Files that a command reads whole: workloads, lists, machines. None of them is endless.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};

/// A hundred thousand jobs are a tenth of it.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a file; `what` says what it should be.
pub fn bytes(what: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let refused = || format!("cannot read the {what} {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(refused)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(refused)?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        bail!("{} is no {what}: it goes on after 64 MiB", path.display());
    }
    Ok(bytes)
}

/// The text of a file.
pub fn text(what: &str, path: &Path) -> anyhow::Result<String> {
    match String::from_utf8(bytes(what, path)?) {
        Ok(text) => Ok(text),
        Err(error) => {
            let valid =
                String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let line = 1 + valid.matches('\n').count();
            let column = 1 + valid.rsplit('\n').next().unwrap_or_default().chars().count();
            bail!("{}:{line}:{column}: this is no UTF-8 text", path.display())
        }
    }
}
