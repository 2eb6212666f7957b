//! Allowed dependencies between crates, and dependencies that no source uses.
//!
//! ```text
//!   10 app · 9 lab · 8 report edge · 7 journal · 6 host-scx · 5 host-sim host-live profiler
//!    4 engine policy linux · 3 model testkit · 2 sched signature · 1 topology program · 0 base files
//! ```
//!
//! A crate depends on crates of lower layers only. Some crates have a list of dependents: only crates on
//! the list may depend on them. A dependency is used if a source of the crate contains its name before `::` or `!`, or
//! after `use`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::Regex;

use super::{Fault, rust_text};

/// Every crate and its layer.
const LAYERS: &[(&str, u8)] = &[
    ("base", 0),
    ("files", 0),
    ("topology", 1),
    ("program", 1),
    ("sched", 2),
    ("signature", 2),
    ("model", 3),
    ("testkit", 3),
    ("engine", 4),
    ("policy", 4),
    ("linux", 4),
    ("host-sim", 5),
    ("host-live", 5),
    ("profiler", 5),
    ("host-scx", 6),
    ("journal", 7),
    ("report", 8),
    ("edge", 8),
    ("lab", 9),
    ("app", 10),
];

/// Crates with a list of dependents: crate, dependents, reason.
const RESTRICTED: &[(&str, &[&str], &str)] = &[
    ("policy", &["lab", "app"], "hosts use `dyn Policy`"),
    ("testkit", &["engine", "policy"], "only for tests of decisions"),
    ("model", &["policy"], "the physics must not depend on what policies estimate"),
    (
        "linux",
        &["host-live", "host-scx", "profiler", "app"],
        "only hosts and the profiler access the machine",
    ),
    ("host-sim", &["lab", "app"], "a policy must not read the physics"),
    ("host-live", &["host-scx", "app"], "lower layers do not select the host"),
];

/// Crates without a layer.
const OUTSIDE: &[&str] = &["bench", "xtask", "tests"];

/// Reads every manifest and checks its dependencies. `files` are the tracked files.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let crates = fs::read_dir(root.join("crates")).context("cannot list crates/")?;
    for entry in crates {
        let dir = entry?.path();
        let manifest = dir.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        let table: toml::Table =
            text.parse().with_context(|| format!("cannot parse {}", manifest.display()))?;
        let dir_name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        faults.extend(check_crate(&dir_name, &table));
        faults.extend(unused(&dir_name, &table, &code_of(root, files, &dir_name)?)?);
    }
    faults.sort();
    Ok(faults)
}

/// Checks one manifest with its development dependencies: a test that needs a higher layer belongs in `tests/`.
fn check_crate(dir: &str, manifest: &toml::Table) -> Vec<Fault> {
    let mut faults = Vec::new();
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str());
    if name != Some(dir) {
        faults.push(format!("crates/{dir}: the crate must have the name of its directory"));
    }
    let Some(layer) = layer_of(dir) else {
        faults.push(format!("crates/{dir} has no layer: add it to xtask/src/tidy/layers.rs"));
        return faults;
    };
    if manifest.get("lints").is_none() {
        faults.push(format!("crates/{dir}: `[lints] workspace = true` is missing"));
    }
    for used in dependencies(manifest) {
        faults.extend(check_dependency(dir, layer, used));
    }
    faults
}

fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = &String> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|kind| manifest.get(*kind)?.as_table())
        .flat_map(|table| table.keys())
}

/// Returns the code of all sources of a crate, without comments and literals.
fn code_of(root: &Path, files: &[PathBuf], dir: &str) -> anyhow::Result<String> {
    let dir = Path::new("crates").join(dir);
    let is_source =
        |file: &&PathBuf| file.starts_with(&dir) && file.extension().is_some_and(|ext| ext == "rs");
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(root.join(file));
        text.with_context(|| format!("cannot read {}", file.display()))
    };
    files.iter().filter(is_source).map(|file| Ok(rust_text::split(&read(file)?).code)).collect()
}

/// Returns a fault for each dependency that the code does not use.
fn unused(dir: &str, manifest: &toml::Table, code: &str) -> anyhow::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for name in dependencies(manifest) {
        let identifier = name.replace('-', "_");
        let used = Regex::new(&format!(r"\buse {identifier}\b|\b{identifier}\s*(::|!)"))?;
        if !used.is_match(code) {
            faults.push(format!("crates/{dir}/Cargo.toml: no source uses {name}: remove it"));
        }
    }
    Ok(faults)
}

fn check_dependency(from: &str, layer: u8, to: &str) -> Option<Fault> {
    if OUTSIDE.contains(&to) {
        return Some(format!("crates/{from} depends on {to}, which has no layer"));
    }
    let to_layer = layer_of(to)?; // The crate is a library.
    if layer <= to_layer {
        return Some(format!(
            "crates/{from} (layer {layer}) depends on {to} (layer {to_layer}): only lower layers are allowed"
        ));
    }
    let (_, dependents, reason) = RESTRICTED.iter().find(|(name, _, _)| *name == to)?;
    (!dependents.contains(&from))
        .then(|| format!("crates/{from} is not an allowed dependent of {to}: {reason}"))
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dir: &str, manifest: &str) -> Vec<Fault> {
        let header = format!("package.name = '{dir}'\nlints.workspace = true\n");
        check_crate(dir, &(header + manifest).parse().expect("a manifest"))
    }

    #[test]
    fn lower_layers_and_libraries_are_allowed() {
        assert!(
            check("engine", "dependencies = { base = 1, sched = 1, thiserror = 1 }").is_empty()
        );
    }

    #[test]
    fn the_same_or_a_higher_layer_is_not_allowed() {
        let faults = check("engine", "dependencies = { policy = 1, journal = 1 }");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("journal"), "{faults:?}");
    }

    #[test]
    fn the_list_of_dependents_holds_for_development_dependencies_too() {
        let faults = check("journal", "dev-dependencies = { linux = 1 }");
        assert!(faults[0].contains("only hosts and the profiler access the machine"), "{faults:?}");
    }

    #[test]
    fn a_dependency_is_used_if_a_path_or_a_macro_names_it() {
        let manifest = "dependencies = { base = 1, expect-test = 1, serde_json = 1, toml = 1 }";
        let code = "use base;\nlet toml = expect_test::expect![];\nserde_json!(basement::x)";
        let faults = unused("x", &manifest.parse().expect("a manifest"), code).expect("a pattern");
        assert_eq!(faults, ["crates/x/Cargo.toml: no source uses toml: remove it"]);
    }

    #[test]
    fn a_crate_without_a_layer_or_with_another_name_is_a_fault() {
        assert!(check("attic", "")[0].contains("no layer"));
        let renamed = "package.name = 'x'\nlints.workspace = true".parse().expect("a manifest");
        assert!(check_crate("base", &renamed)[0].contains("must have the name of its directory"));
    }
}
