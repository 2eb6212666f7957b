//! Home clusters, as far as a machine without pages of their own can tell (spec 2.4).
//!
//! ```text
//!   processors   P-home: from home, then near it │ P-free: wherever most are free
//!   pages        H0 all at home │ H1 first touch │ H2 they go home when the program migrates │ H3 copies
//! ```
//!
//! The specification judges by a machine of pages with working sets, which is not there yet. Here memory is fluid:
//! a share of a program's memory on each node. What differs between the schemes shows all the same where programs of
//! several threads come and go; H3 does not, since nothing copies pages that are only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{JobId, Nanos, Rng};
use host_sim::hardware::Hardware;
use program::Job;

use super::scene::Scene;
use super::sets::devils_and_turtles;
use super::tell::{not_judged, shown};
use crate::reproduce::{Found, Played, Reading, ReproduceError, Rig, Table};
use crate::shipped;
use crate::stats::mean;

/// Four clusters of four.
const MACHINE: &str = "opteron-2384-4x4";
/// CPU seconds that each program takes alone.
const SECONDS: f64 = 60.0;
const N_JOBS: u32 = 32;
const N_WORKLOADS: u64 = 4;
/// Most threads of a program: more than a cluster has CPUs, so that some must leave home.
const THREADS_MAX: u64 = 6;
/// How busy the CPUs are to be, of the loads that the specification names.
const LOADS: [f64; 2] = [0.4, 0.6];
/// Where draws begin.
const SEED: u64 = 2000;

const SCHEMES: [(&str, &str); 6] = [
    ("P-home + H0", "home-cluster[processors=home,pages=h0]"),
    ("P-home + H1", "home-cluster[processors=home,pages=h1]"),
    ("P-home + H2", "home-cluster[processors=home,pages=h2]"),
    ("P-free + H0", "home-cluster[processors=free,pages=h0]"),
    ("P-free + H1", "home-cluster[processors=free,pages=h1]"),
    ("P-free + H2", "home-cluster[processors=free,pages=h2]"),
];

pub(super) fn home(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let mut scene = Scene::new(MACHINE, SECONDS)?;
    let mut names = Vec::new();
    for load in LOADS {
        for number in 1..=N_WORKLOADS {
            let name = format!("load {:.0} %, {number}", load * 100.0);
            let jobs = jobs(&scene, load, number)?;
            scene.world.casts.insert(name.clone(), jobs);
            names.push(name);
        }
    }
    let columns: Vec<&str> =
        SCHEMES.iter().map(|(_, column)| *column).chain(std::iter::once("linux")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let played = rig.play(&scene.world, &columns, &names)?;
    let title = "mean response in seconds, memory moved in GiB; 32 programs of up to 6 threads on 4 x 4 CPUs";
    let heads = ["scheme", "load 40 %", "GiB", "load 60 %", "GiB"];
    let mut table = Table::new(title, &heads).units(&["s", "GiB", "s", "GiB"]);
    let labels = SCHEMES.iter().map(|(label, _)| *label).chain(std::iter::once("linux"));
    for (at, label) in labels.enumerate() {
        let of = |load: usize| {
            let places = load * N_WORKLOADS as usize..(load + 1) * N_WORKLOADS as usize;
            let responses: Vec<f64> =
                places.clone().flat_map(|place| responses(&played, at, place)).collect();
            let gib: Vec<f64> = places.flat_map(|place| moved(rig, &played, at, place)).collect();
            let mean_of = |all: &[f64]| (!all.is_empty()).then(|| mean(all));
            [shown(mean_of(&responses), 1), shown(mean_of(&gib), 1)]
        };
        let cells = (0..LOADS.len()).flat_map(of);
        table.row(std::iter::once(label.to_owned()).chain(cells));
    }
    found.tables.push(table);
    found.claims.push(not_judged(
        "mean response of P-home + H3 at most that of every other combination at load 40 to 60 %",
        Reading::Either,
        "it is a claim of the paged machine of spec 4, which comes with two-level scheduling; H3 needs copies of \
         pages that are only read",
    ));
    found.why.extend(played.faults());
    Ok(found)
}

/// Seconds from the start to the end of every job, of runs that ended well.
fn responses(played: &Played, column: usize, workload: usize) -> Vec<f64> {
    let of = |job| played.job_s(column, workload, job).into_iter().flatten();
    (0..N_JOBS as usize).flat_map(of).collect()
}

fn moved(rig: &Rig<'_>, played: &Played, column: usize, workload: usize) -> Vec<f64> {
    let of = |seed| played.run(column, workload, seed).pages_moved_bytes as f64;
    (0..rig.seeds().len()).map(|seed| of(seed) / (1u64 << 30) as f64).collect()
}

/// Programs that come at random over so long that CPUs are as busy as they are to be.
fn jobs(scene: &Scene, load: f64, number: u64) -> Result<Vec<Job>, ReproduceError> {
    let machine = &scene.world.machine;
    let hardware = Hardware::new(machine);
    let (devils, turtles) = devils_and_turtles(machine, scene.world.draw)?;
    let all = [devils, turtles].concat();
    let span = f64::from(N_JOBS) * SECONDS / (load * machine.cpus().len() as f64);
    let mut rng = Rng::new(SEED + number);
    let like = shipped::workload("basic01")?.jobs.swap_remove(0);
    let mut known = BTreeMap::new();
    let mut jobs = Vec::new();
    for _ in 0..N_JOBS {
        let program = all[rng.below(all.len() as u64) as usize].clone();
        if !known.contains_key(&program) {
            let profile = scene.program(&program, &hardware)?;
            known.insert(program.clone(), Arc::new(profile));
        }
        let start = Nanos((rng.unit() * span * 1e9) as u64);
        let threads = 1 + rng.below(THREADS_MAX) as u32;
        let found = known.get(&program).cloned();
        jobs.push(Job { name: program, profile: None, found, start, threads, ..like.clone() });
    }
    jobs.sort_by_key(|job| job.start);
    (0..).zip(&mut jobs).for_each(|(id, job)| job.id = JobId(id));
    (0..).zip(&mut jobs).for_each(|(id, job): (u32, _)| job.name = format!("{}.{id}", job.name));
    Ok(jobs)
}
