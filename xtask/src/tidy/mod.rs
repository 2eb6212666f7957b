//! `cargo xtask tidy`: rules that the compiler does not check.
//!
//! ```text
//!   layers      a crate depends on crates of lower layers only; some crates have a list of dependents; each
//!               dependency is used
//!   unsafe      only in the crates that call the kernel, each block with a SAFETY comment
//!   calls       each system call of `linux` can be made to fail by a test
//!   purity      pure crates have a clippy.toml that forbids clocks, files and hashed order
//!   licence     every crate states it
//!   text        no merge conflict markers, no trailing whitespace, no file above the line limit
//!   words       no word that has a plain replacement (xtask/tidy-words.toml)
//!   book        every page is in SUMMARY.md, links between documents resolve
//!   cycles      no import cycle between sibling modules
//! ```
//!
//! All rules read manifests and source text; nothing is compiled.

mod book;
mod calls;
mod cycles;
mod files;
mod layers;
mod rust_text;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// One violation: place and remedy.
type Fault = String;

/// Checks the tree below `root`. Prints each violation on one line. Fails if a violation was found.
pub fn main(root: &Path) -> anyhow::Result<()> {
    let files = tracked(root)?;
    let mut faults = layers::check(root, &files)?;
    faults.extend(files::check(root, &files)?);
    faults.extend(book::check(root, &files)?);
    faults.extend(words::check(root, &files)?);
    faults.extend(cycles::check(root, &files)?);
    if faults.is_empty() {
        println!("tidy: no violations");
        return Ok(());
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    bail!("{} violations (docs/ARCHITECTURE.md gives the reason of each rule)", faults.len())
}

/// Lists the files that git tracks, and the untracked files that git does not ignore, relative to the root.
fn tracked(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    if !listing.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr).trim());
    }
    let names = String::from_utf8(listing.stdout).context("a file name is not UTF-8")?;
    let files = names.lines().map(PathBuf::from).filter(|file| root.join(file).is_file());
    Ok(files.collect())
}
