//! Faults that existed when a rule was introduced: their total may only fall.
//!
//! The total is compared, so that a file may be renamed or move to another crate. If it grows, the areas
//! that grew are reported: an area is a crate (`crates/app`) or a top-level folder or file.
//! `cargo xtask tidy --update-baseline` writes the present counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Fault;

/// Lines `area count`.
const FILE: &str = "xtask/tidy-words-baseline.txt";

/// The faults of areas that grew, if the total grew. `update` writes the counts and returns none.
pub fn filter(
    root: &Path,
    faults: BTreeMap<String, Vec<Fault>>,
    update: bool,
) -> anyhow::Result<Vec<Fault>> {
    let mut areas: BTreeMap<String, Vec<Fault>> = BTreeMap::new();
    for (file, found) in faults {
        areas.entry(area(&file)).or_default().extend(found);
    }
    let path = root.join(FILE);
    if update {
        let mut text = String::new();
        for (area, found) in &areas {
            let _ = writeln!(text, "{area} {}", found.len());
        }
        fs::write(&path, text).with_context(|| format!("cannot write {FILE}"))?;
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    let allowed: BTreeMap<&str, usize> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(a, n)| Some((a, n.parse().ok()?)))
        .collect();
    let limit = |area: &str| allowed.get(area).copied().unwrap_or(0);
    if areas.values().map(Vec::len).sum::<usize>() <= allowed.values().sum() {
        return Ok(Vec::new());
    }
    let mut grown = Vec::new();
    for (area, found) in areas.into_iter().filter(|(area, found)| limit(area) < found.len()) {
        grown.push(format!("{area}: {} faults, at most {} ({FILE}):", found.len(), limit(&area)));
        grown.extend(found);
    }
    Ok(grown)
}

fn area(file: &str) -> String {
    let mut parts = file.split('/');
    let first = parts.next().unwrap_or_default();
    match parts.next() {
        Some(second) if first == "crates" => format!("{first}/{second}"),
        _ => first.to_owned(),
    }
}
