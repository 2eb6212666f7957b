//! What may stand in which file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Fault, calls};

/// Rooms that may hold `unsafe`: they speak with the kernel.
const UNSAFE_ROOMS: &[&str] = &["crates/linux/", "crates/host-scx/", "crates/host-sim/src/ffi"];

/// Rooms that do no I/O and read no clock; each forbids it in a clippy.toml of its own.
const PURE_ROOMS: &[&str] =
    &["base", "topology", "program", "sched", "model", "engine", "policy", "host-sim", "profiler"];

/// A source file longer than this hides more than one subject. A ratchet: only growth past it is
/// refused, and tables of alike things (fields, codes) may stand in a file of their own.
const LINES_MAX: usize = 700;

/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[];

/// How unsafe code begins, spelled in two halves so that this file does not hold it.
const OPENS_UNSAFE: [&str; 2] = [concat!("uns", "afe {"), concat!("uns", "afe impl")];

/// Checks every tracked file.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let mut faults = pure_rooms(root);
    for file in files.iter().filter(|file| is_text(file)) {
        let path = root.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", file.display()))?;
        faults.extend(check_text(&file.to_string_lossy(), &text));
    }
    Ok(faults)
}

fn pure_rooms(root: &Path) -> Vec<Fault> {
    let missing = PURE_ROOMS.iter().filter(|room| {
        let folder = root.join("crates").join(room);
        folder.is_dir() && !forbids_io(&folder)
    });
    missing
        .map(|room| {
            format!("crates/{room}: its clippy.toml must forbid clocks, files and hashed order")
        })
        .collect()
}

fn forbids_io(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("clippy.toml")).unwrap_or_default();
    ["Instant::now", "fs::read", "HashMap"].iter().all(|banned| text.contains(banned))
}

fn is_text(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    let source = ["rs", "toml", "md", "sh", "js", "css", "html"].contains(&&*extension);
    source && !file.starts_with("fixtures")
}

fn check_text(file: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let at = format!("{file}:{}", idx + 1);
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            faults.push(format!("{at}: a conflict mark"));
        }
        if line.ends_with([' ', '\t']) && !file.ends_with(".md") {
            faults.push(format!("{at}: blanks at the end of the line"));
        }
    }
    if file.ends_with(".rs") {
        faults.extend(check_rust(file, text));
        faults.extend(calls::check(file, text));
    }
    faults
}

fn check_rust(file: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let n_lines = text.lines().count();
    let may_be_long = LONG_FILES.iter().any(|(known, _)| *known == file);
    if LINES_MAX < n_lines && !may_be_long {
        faults.push(format!("{file}: {n_lines} lines, at most {LINES_MAX}: split it by subject"));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        faults.push(format!("{file}: opens without `//!`: say what it is about"));
    }
    let allowed = UNSAFE_ROOMS.iter().any(|room| file.starts_with(room));
    let lines: Vec<&str> = text.lines().collect();
    for (idx, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let opens = OPENS_UNSAFE.iter().any(|opening| code.contains(opening));
        if opens && !allowed {
            faults.push(format!("{file}:{}: unsafe outside {}", idx + 1, UNSAFE_ROOMS.join(", ")));
        }
        let argued = lines[idx.saturating_sub(8)..=idx].iter().any(|l| l.contains("SAFETY:"));
        if opens && allowed && !argued {
            faults.push(format!("{file}:{}: unsafe without `// SAFETY:` above it", idx + 1));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    // Spelled in two halves, so that this file does not hold what it forbids.
    const OPENS: &str = concat!("uns", "afe { f() }");

    #[test]
    fn unsafe_stays_where_the_kernel_is() {
        let faults = check_text("crates/report/src/x.rs", &format!("//! x\n{OPENS}\n"));
        assert!(faults[0].contains(":2: unsafe outside"), "{faults:?}");
    }

    #[test]
    fn unsafe_is_argued() {
        let bare = format!("//! x\n{OPENS}\n");
        assert_eq!(check_text("crates/linux/src/x.rs", &bare).len(), 1);
        let argued = format!("//! x\n// SAFETY: f needs nothing.\n{OPENS}\n");
        assert!(check_text("crates/linux/src/x.rs", &argued).is_empty());
    }

    #[test]
    fn a_file_says_what_it_is_about_and_stays_short() {
        assert!(check_text("a.rs", "fn f() {}\n")[0].contains("opens without"));
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        assert!(check_text("a.rs", &long)[0].contains("split it"));
    }

    #[test]
    fn blanks_and_conflicts_are_seen() {
        let conflict = format!("//! x\n{} ours\nlet a = 1; \n", "<".repeat(7));
        assert_eq!(check_text("a.rs", &conflict).len(), 2);
    }
}
