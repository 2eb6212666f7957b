//! Rules for single files: unsafe code, purity, length, opening comment, whitespace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Fault, calls};

/// Directories with `unsafe` code: they call the kernel or C code.
const UNSAFE_DIRS: &[&str] = &["crates/linux/", "crates/host-scx/", "crates/host-sim/src/ffi"];

/// Crates without I/O and clocks. The clippy.toml of each crate forbids I/O and clocks.
const PURE_CRATES: &[&str] =
    &["base", "topology", "program", "sched", "model", "engine", "policy", "host-sim", "profiler"];

/// Maximum number of lines of a source file. A longer file usually has more than one subject.
const LINES_MAX: usize = 700;

/// Beginnings of unsafe code. Each beginning is split in two, so that this file does not contain the text.
const OPENS_UNSAFE: [&str; 2] = [concat!("uns", "afe {"), concat!("uns", "afe impl")];

/// Checks every tracked file.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let mut faults = pure_crates(root);
    for file in files.iter().filter(|file| is_text(file)) {
        let path = root.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", file.display()))?;
        faults.extend(check_text(&file.to_string_lossy(), &text));
    }
    Ok(faults)
}

fn pure_crates(root: &Path) -> Vec<Fault> {
    let missing = PURE_CRATES.iter().filter(|name| {
        let dir = root.join("crates").join(name);
        dir.is_dir() && !forbids_io(&dir)
    });
    missing
        .map(|name| {
            format!("crates/{name}: its clippy.toml must forbid clocks, files and hashed order")
        })
        .collect()
}

fn forbids_io(dir: &Path) -> bool {
    let text = fs::read_to_string(dir.join("clippy.toml")).unwrap_or_default();
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
            faults.push(format!("{at}: a merge conflict marker"));
        }
        if line.ends_with([' ', '\t']) && !file.ends_with(".md") {
            faults.push(format!("{at}: trailing whitespace"));
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
    if LINES_MAX < n_lines {
        faults.push(format!("{file}: {n_lines} lines, at most {LINES_MAX}: split it by subject"));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        faults.push(format!("{file}: has no `//!` comment at the top: describe its content"));
    }
    let allowed = UNSAFE_DIRS.iter().any(|dir| file.starts_with(dir));
    let lines: Vec<&str> = text.lines().collect();
    for (idx, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let opens = OPENS_UNSAFE.iter().any(|opening| code.contains(opening));
        if opens && !allowed {
            faults.push(format!("{file}:{}: unsafe outside {}", idx + 1, UNSAFE_DIRS.join(", ")));
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

    // The text is split in two, so that this file does not contain the forbidden text.
    const OPENS: &str = concat!("uns", "afe { f() }");

    #[test]
    fn unsafe_code_outside_of_its_directories_is_a_fault() {
        let faults = check_text("crates/report/src/x.rs", &format!("//! x\n{OPENS}\n"));
        assert!(faults[0].contains(":2: unsafe outside"), "{faults:?}");
    }

    #[test]
    fn unsafe_code_without_a_safety_comment_is_a_fault() {
        let bare = format!("//! x\n{OPENS}\n");
        assert_eq!(check_text("crates/linux/src/x.rs", &bare).len(), 1);
        let argued = format!("//! x\n// SAFETY: f needs nothing.\n{OPENS}\n");
        assert!(check_text("crates/linux/src/x.rs", &argued).is_empty());
    }

    #[test]
    fn a_file_without_opening_comment_or_above_the_line_limit_is_a_fault() {
        assert!(check_text("a.rs", "fn f() {}\n")[0].contains("has no `//!`"));
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        assert!(check_text("a.rs", &long)[0].contains("split it"));
    }

    #[test]
    fn trailing_spaces_and_conflict_marks_are_faults() {
        let conflict = format!("//! x\n{} ours\nlet a = 1; \n", "<".repeat(7));
        assert_eq!(check_text("a.rs", &conflict).len(), 2);
    }
}
