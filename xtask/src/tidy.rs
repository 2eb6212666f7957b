//! `cargo xtask tidy`: the rules of the house that the compiler does not know.
//!
//! ```text
//!   edges       a room uses rooms on lower floors only, and some doors stay shut
//!   unsafe      only in the rooms that speak with the kernel, each block argued
//!   calls       each call of the room `linux` can be made to fail by a test
//!   purity      pure rooms carry the clippy.toml that forbids clocks, files and hashes
//!   licence     every crate states it
//!   text        no conflict marks, no trailing blanks, no file that grew beyond reading
//! ```
//!
//! Everything is read from manifests and files; nothing is compiled.

mod calls;
mod edges;
mod files;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// One broken rule: where, and what to do.
type Fault = String;

/// Checks the tree below `root` and fails with every fault, one a line.
pub fn main(root: &Path) -> anyhow::Result<()> {
    let mut faults = edges::check(root)?;
    faults.extend(files::check(root, &tracked(root)?)?);
    if faults.is_empty() {
        println!("tidy: every rule holds");
        return Ok(());
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    bail!(
        "{} rules of the house are broken (docs/ARCHITECTURE.md says why they are there)",
        faults.len()
    )
}

/// Files that git tracks, or would (untracked and not ignored), relative to the root.
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
