//! The papers' workloads.
//!
//! ```text
//!   dfs/wl1 … wl10          drawn by `evenkeel generate` from dfs/programs.toml, seeds 101 to 110
//!   divided/basic01 … 14, extended1 … 4        the mixes as files
//!   basic01-x3, -x4, -x4p4 …       every mix of six programs three or four times, made here; x4p4 has four
//!                                  programs more
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use base::JobId;
use program::{Job, Workload};

use super::NotShipped;

/// A file of `workloads/papers` with its name.
macro_rules! shipped {
    ($($folder:literal: $($name:literal),+);+ $(;)?) => {
        &[$($((
            $name,
            include_str!(concat!("../../../../workloads/papers/", $folder, "/", $name, ".toml")),
        )),+),+]
    };
}

/// The files, by name.
const NAMED: &[(&str, &str)] = shipped![
    "dfs": "wl1", "wl2", "wl3", "wl4", "wl5", "wl6", "wl7", "wl8", "wl9", "wl10";
    "divided": "basic01", "basic02", "basic03", "basic04", "basic05", "basic06", "basic07", "basic08",
    "basic09", "basic10", "basic11", "basic12", "basic13", "basic14", "extended1", "extended2", "extended3",
    "extended4";
];

/// How mixes of six programs are made larger: the end of the name, how often, and whether four are added.
const LARGER: [(&str, usize, bool); 3] = [("-x3", 3, false), ("-x4", 4, false), ("-x4p4", 4, true)];
/// So many programs make a mix that is made larger.
const SIX: usize = 6;
/// The four that are added to make 28; the paper's are arbitrary (spec 5.5).
const FOUR: [&str; 4] = ["lbm", "omnetpp", "streamcluster", "gromacs"];
/// A mix that has all of [`FOUR`] between itself and this one: where their jobs are taken from.
const HAVE_FOUR: [&str; 2] = ["basic04", "basic06"];

/// The names of the workloads: those of files first.
pub fn workloads() -> Vec<String> {
    let files = NAMED.iter().map(|(name, _)| (*name).to_owned());
    let larger = NAMED
        .iter()
        .filter(|(name, text)| is_of_six(name, text))
        .flat_map(|(name, _)| LARGER.iter().map(move |(suffix, _, _)| format!("{name}{suffix}")));
    files.chain(larger).collect()
}

/// A workload by its name, its jobs without profiles: whoever runs it gives them those of the draw that it
/// wants, by [`Job::profile`].
///
/// # Errors
/// There is none of that name.
pub fn workload(name: &str) -> Result<Workload, NotShipped> {
    let unknown = || NotShipped::new("workload", name, workloads());
    if let Some(found) = file(name) {
        return Ok(found);
    }
    let (mix, times, has_four) = LARGER
        .iter()
        .find_map(|&(suffix, times, four)| Some((name.strip_suffix(suffix)?, times, four)))
        .ok_or_else(unknown)?;
    let mix = file(mix).filter(|mix| mix.jobs.len() == SIX).ok_or_else(unknown)?;
    let copies = (0..times).flat_map(|_| mix.jobs.iter().cloned());
    let four = if has_four { four() } else { Vec::new() };
    let jobs = numbered(copies.chain(four));
    Ok(Workload { name: name.to_owned(), jobs, ..mix })
}

fn file(name: &str) -> Option<Workload> {
    let (name, text) = NAMED.iter().find(|(known, _)| *known == name)?;
    Some(read(name, text))
}

fn read(name: &str, text: &str) -> Workload {
    let path = format!("{name}.toml");
    let parsed = program::parse_toml(text, Path::new(&path));
    parsed.unwrap_or_else(|error| panic!("a shipped workload: {error}"))
}

fn is_of_six(name: &str, text: &str) -> bool {
    !name.starts_with("wl") && read(name, text).jobs.len() == SIX
}

/// A job of each of the four.
fn four() -> Vec<Job> {
    let jobs: Vec<Job> =
        HAVE_FOUR.iter().filter_map(|mix| file(mix)).flat_map(|mix| mix.jobs).collect();
    let of = |name: &&str| jobs.iter().find(|job| job.name == *name).cloned();
    FOUR.iter().filter_map(of).collect()
}

/// Jobs with numbers and names of their own: `lbm`, `lbm.2`, `lbm.3` …
fn numbered(jobs: impl Iterator<Item = Job>) -> Vec<Job> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let job = |(number, job): (u32, Job)| {
        let base = base_name(&job.name).to_owned();
        let copy = seen.entry(base.clone()).and_modify(|copies| *copies += 1).or_insert(1);
        let name = if *copy == 1 { base } else { format!("{base}.{copy}") };
        Job { id: JobId(number), name, ..job }
    };
    (0..).zip(jobs).map(job).collect()
}

/// A job's name without the number of its copy. Program names may end in a dot and a letter (`lu.B`).
fn base_name(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((base, copy)) if copy.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}
