//! Who may know whom.
//!
//! ```text
//!   10 app · 9 lab · 8 report edge · 7 journal · 6 host-scx · 5 host-sim host-live profiler
//!    4 engine policy linux · 3 model · 2 sched · 1 topology program · 0 base
//! ```
//!
//! A room uses rooms on lower floors only. Some doors stay shut although the floors would allow
//! them; a door with a guest list may be used by those on it and by nobody else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Fault;

/// Every room and its floor.
const FLOORS: &[(&str, u8)] = &[
    ("base", 0),
    ("topology", 1),
    ("program", 1),
    ("sched", 2),
    ("model", 3),
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

/// Rooms that only these others may use, and why.
const GUESTS: &[(&str, &[&str], &str)] = &[
    ("policy", &["lab", "app"], "hosts know `dyn Policy` alone"),
    ("model", &["policy"], "what policies believe must not leak into the physics"),
    (
        "linux",
        &["host-live", "host-scx", "profiler", "app"],
        "only hosts and the profiler touch the machine",
    ),
    ("host-sim", &["lab", "app"], "a policy that knew the physics would only confirm it"),
    ("host-live", &["host-scx", "lab", "app"], "nothing below decides where it runs"),
];

/// Edges that break a rule on purpose: from, to, why. Empty is the best length.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Rooms that stand outside the floors.
const OUTSIDE: &[&str] = &["xtask", "tests"];

/// Reads every manifest and compares its dependencies with the floors.
pub fn check(root: &Path) -> anyhow::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let rooms = fs::read_dir(root.join("crates")).context("cannot list crates/")?;
    for room in rooms {
        let folder = room?.path();
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        let table: toml::Table =
            text.parse().with_context(|| format!("cannot parse {}", manifest.display()))?;
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        faults.extend(check_room(&folder_name, &table));
    }
    faults.sort();
    Ok(faults)
}

/// One manifest. Development dependencies count too: a test that needs a higher floor belongs
/// into `tests/`.
fn check_room(folder: &str, manifest: &toml::Table) -> Vec<Fault> {
    let mut faults = Vec::new();
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str());
    if name != Some(folder) {
        faults.push(format!("crates/{folder}: the crate's name must be the folder's"));
    }
    let Some(floor) = floor_of(folder) else {
        faults
            .push(format!("crates/{folder} stands on no floor: add it to xtask/src/tidy/edges.rs"));
        return faults;
    };
    if manifest.get("lints").is_none() {
        faults.push(format!("crates/{folder}: `[lints] workspace = true` is missing"));
    }
    for used in ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|kind| manifest.get(*kind)?.as_table())
        .flat_map(|table| table.keys())
    {
        faults.extend(check_edge(folder, floor, used));
    }
    faults
}

fn check_edge(from: &str, floor: u8, to: &str) -> Option<Fault> {
    if EXCEPTIONS.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
        return None;
    }
    if OUTSIDE.contains(&to) {
        return Some(format!("crates/{from} uses {to}, which stands outside the house"));
    }
    let to_floor = floor_of(to)?; // Not a room: a library.
    if floor <= to_floor {
        return Some(format!(
            "crates/{from} (floor {floor}) uses {to} (floor {to_floor}): only lower floors may be used"
        ));
    }
    let (_, guests, why) = GUESTS.iter().find(|(room, _, _)| *room == to)?;
    (!guests.contains(&from)).then(|| format!("crates/{from} uses {to}, a shut door: {why}"))
}

fn floor_of(room: &str) -> Option<u8> {
    FLOORS.iter().copied().collect::<BTreeMap<_, _>>().get(room).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &str, manifest: &str) -> Vec<Fault> {
        let header = format!("package.name = '{folder}'\nlints.workspace = true\n");
        check_room(folder, &(header + manifest).parse().expect("a manifest"))
    }

    #[test]
    fn lower_floors_and_libraries_may_be_used() {
        assert!(
            check("engine", "dependencies = { base = 1, sched = 1, thiserror = 1 }").is_empty()
        );
    }

    #[test]
    fn a_neighbour_or_a_higher_floor_may_not() {
        let faults = check("engine", "dependencies = { policy = 1, journal = 1 }");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("journal"), "{faults:?}");
    }

    #[test]
    fn a_shut_door_stays_shut_for_tests_too() {
        let faults = check("journal", "dev-dependencies = { linux = 1 }");
        assert!(faults[0].contains("only hosts and the profiler touch the machine"), "{faults:?}");
    }

    #[test]
    fn a_room_without_a_floor_or_with_another_name_is_a_fault() {
        assert!(check("attic", "")[0].contains("no floor"));
        let renamed = "package.name = 'x'\nlints.workspace = true".parse().expect("a manifest");
        assert!(check_room("base", &renamed)[0].contains("name must be the folder's"));
    }
}
