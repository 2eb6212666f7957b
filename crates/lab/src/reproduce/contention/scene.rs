//! A machine with workloads of our own, and how much programs on it slow each other down.
//!
//! ```text
//!   programs ─► each so long that it takes the same time alone ─► jobs, pinned or not, memory here or there
//!   time together ÷ time alone = slow-down        a run: the mean of all its programs, and the worst
//! ```
//!
//! Programs of one length run together nearly to the end, so that a run tells of the set and not of who was
//! left over. All start at once, as a person would start them: up to 10 ms apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{CpuSet, JobId, NodeId, NodeSet};
use engine::MoveLimits;
use host_sim::SimOptions;
use host_sim::chance::Chance;
use host_sim::hardware::Hardware;
use program::profile::{Curve, Figure, Phase, Point};
use program::{Job, MemoryPolicy, Profile, Sensitivity};
use topology::Machine;

use super::sets::{Sort, sets};
use crate::reproduce::{Played, ReproduceError, Rig, World};
use crate::shipped::{self, Draw};
use crate::stats::mean;

/// A machine, its workloads, and how long programs take alone.
pub(super) struct Scene {
    pub world: World,
    /// Seconds that a program takes alone, about.
    seconds: f64,
    /// The programs of each workload.
    programs: BTreeMap<String, Vec<String>>,
    /// Seconds that each program takes alone, as it ran.
    alone: BTreeMap<String, f64>,
}

/// A program as it is to run.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub program: String,
    /// The CPUs that it is held on.
    pub cpus: Option<CpuSet>,
    /// The node that its memory comes from.
    pub memory: Option<NodeId>,
    /// What its memory being elsewhere costs it, in thousandths of its time, as declared beforehand.
    pub remote: Option<u32>,
    /// Its phases; none: it does the same all the time, as shipped profiles do.
    pub swing: Option<Swing>,
}

/// Misses that go up and down: stretches of so long, now more, now fewer misses by this part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Swing {
    pub by: f64,
    pub seed: u64,
}

/// How long a stretch lasts, in seconds alone, alike between both. Guessed: DINO looks at ten seconds, so that
/// some stretches are shorter than what it waits for and some longer.
const STRETCH_S: (f64, f64) = (5.0, 30.0);

impl Scene {
    /// Of a machine that ships.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn new(machine: &str, seconds: f64) -> Result<Self, ReproduceError> {
        let mut world = World::shipped(machine)?;
        world.options.chance = Chance::default();
        world.name = format!("{machine}, programs of {seconds} s");
        Ok(Scene { world, seconds, programs: BTreeMap::new(), alone: BTreeMap::new() })
    }

    /// Of a machine that is made up.
    pub fn on(name: &str, machine: Machine, seconds: f64) -> Self {
        let options = SimOptions { chance: Chance::default(), ..SimOptions::default() };
        let world = World {
            name: format!("{name}, programs of {seconds} s"),
            machine,
            options,
            draw: Draw::Middle,
            own_work: None,
            limits: MoveLimits::default(),
            casts: BTreeMap::new(),
        };
        Scene { world, seconds, programs: BTreeMap::new(), alone: BTreeMap::new() }
    }

    /// Adds a workload for each of some sets, whose programs miss so much more and so much less in turn; their
    /// names.
    ///
    /// # Errors
    /// As [`Scene::add`].
    pub fn add_swinging(
        &mut self,
        sort: Sort,
        n_sets: u64,
        by: f64,
    ) -> Result<Vec<String>, ReproduceError> {
        let mut names = Vec::new();
        for set in sets(&self.world.machine, self.world.draw, sort, n_sets)? {
            let part = |(number, program): (u64, &String)| {
                let swing = (by != 0.0).then_some(Swing { by, seed: number });
                Part { program: program.clone(), swing, ..Part::default() }
            };
            let parts: Vec<Part> = (0..).zip(&set.programs).map(part).collect();
            let name = format!("{} ±{:.0} %", set.name, by * 100.0);
            self.add(&name, &parts)?;
            names.push(name);
        }
        Ok(names)
    }

    /// One more workload.
    ///
    /// # Errors
    /// A program of it has no profile.
    pub fn add(&mut self, name: &str, parts: &[Part]) -> Result<(), ReproduceError> {
        let hardware = Hardware::new(&self.world.machine);
        let like = shipped::workload("basic01")?.jobs.swap_remove(0);
        let mut jobs = Vec::new();
        for (number, part) in (0..).zip(parts) {
            let profile = self.profile(part, &hardware)?;
            let from = part.memory.map(|node| MemoryPolicy::Preferred(NodeSet::from_iter([node])));
            jobs.push(Job {
                id: JobId(number),
                name: format!("{}.{number}", part.program),
                profile: None,
                found: Some(Arc::new(profile)),
                cpus: part.cpus.clone(),
                memory: from,
                sensitivity: part.remote.map(|remote| Sensitivity::new([], remote)),
                ..like.clone()
            });
        }
        self.world.casts.insert(name.to_owned(), jobs);
        let programs = parts.iter().map(|part| part.program.clone()).collect();
        self.programs.insert(name.to_owned(), programs);
        Ok(())
    }

    /// A program so long that it takes as many seconds alone as all do here.
    ///
    /// # Errors
    /// It has no profile.
    pub fn program(&self, name: &str, hardware: &Hardware) -> Result<Profile, ReproduceError> {
        let whole = shipped::profile_drawn(name, self.world.draw)?;
        let seconds = shipped::alone(&whole, hardware).map_or(self.seconds, |alone| alone.seconds);
        let name = format!("{name}@{:.6}", self.seconds / seconds);
        Ok(shipped::profile_drawn(&name, self.world.draw)?)
    }

    fn profile(&self, part: &Part, hardware: &Hardware) -> Result<Profile, ReproduceError> {
        let profile = self.program(&part.program, hardware)?;
        Ok(match part.swing {
            Some(swing) => swung(profile, swing, self.seconds),
            None => profile,
        })
    }

    /// Lets each program of all workloads run alone.
    ///
    /// # Errors
    /// As [`Rig::play`].
    pub fn run_alone(&mut self, rig: &Rig<'_>) -> Result<(), ReproduceError> {
        let mut names: Vec<String> = self.programs.values().flatten().cloned().collect();
        names.sort();
        names.dedup();
        let name_of = |program: &String| format!("{program} alone");
        for program in &names {
            let part = Part { program: program.clone(), ..Part::default() };
            self.add(&name_of(program), &[part])?;
        }
        let workloads: Vec<String> = names.iter().map(name_of).collect();
        let texts: Vec<&str> = workloads.iter().map(String::as_str).collect();
        let played = rig.play(&self.world, &["linux"], &texts)?;
        for (at, program) in names.into_iter().enumerate() {
            let times: Vec<f64> = played.job_s(0, at, 0).into_iter().flatten().collect();
            self.alone.insert(program, mean(&times));
        }
        Ok(())
    }

    /// What programs suffer, alone, when all of their memory is on the first node and they run on the last:
    /// thousandths of their time with both on the first.
    ///
    /// # Errors
    /// As [`Rig::play`].
    pub fn remote(
        &mut self,
        rig: &Rig<'_>,
        programs: &[String],
    ) -> Result<BTreeMap<String, u32>, ReproduceError> {
        let nodes = self.world.machine.nodes();
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else {
            return Ok(BTreeMap::new());
        };
        let (memory, ends) = (Some(first.id), [first.cpus.clone(), last.cpus.clone()]);
        let mut names = Vec::new();
        for program in programs {
            for (cpus, words) in ends.iter().zip(["at home", "away"]) {
                let cpus = Some(cpus.clone());
                let part = Part { program: program.clone(), cpus, memory, ..Part::default() };
                let name = format!("{program} alone {words}");
                self.add(&name, &[part])?;
                names.push(name);
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let played = rig.play(&self.world, &["linux"], &names)?;
        let time = |at| mean(&played.job_s(0, at, 0).into_iter().flatten().collect::<Vec<f64>>());
        let remote = |at: usize| {
            let (home, away) = (time(2 * at), time(2 * at + 1));
            if home <= 0.0 { 0 } else { ((away / home - 1.0).max(0.0) * 1000.0) as u32 }
        };
        Ok(programs.iter().enumerate().map(|(at, program)| (program.clone(), remote(at))).collect())
    }

    /// Slow-downs of the programs of a workload, by seed; none of a run that did not end well.
    pub fn slowdowns(&self, played: &Played, column: usize, workload: usize) -> Vec<Option<Slow>> {
        let Some(programs) = self.programs.get(&played.workloads()[workload]) else {
            return Vec::new();
        };
        let times: Vec<Vec<Option<f64>>> =
            (0..programs.len()).map(|job| played.job_s(column, workload, job)).collect();
        let n_seeds = times.first().map_or(0, Vec::len);
        let of_seed = |seed: usize| {
            let each = programs.iter().zip(&times).map(|(program, times)| {
                let alone = self.alone.get(program).filter(|alone| 0.0 < **alone)?;
                Some(times[seed]? / alone)
            });
            each.collect::<Option<Vec<f64>>>().map(|each| Slow { each })
        };
        (0..n_seeds).map(of_seed).collect()
    }
}

/// Slow-downs of all programs of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slow {
    pub each: Vec<f64>,
}

impl Slow {
    pub fn mean(&self) -> f64 {
        mean(&self.each)
    }

    pub fn worst(&self) -> f64 {
        self.each.iter().copied().fold(0.0, f64::max)
    }
}

/// The mean over the runs that ended well; none without any.
pub(super) fn mean_of(runs: &[Option<Slow>], of: fn(&Slow) -> f64) -> Option<f64> {
    let all: Vec<f64> = runs.iter().flatten().map(of).collect();
    (!all.is_empty()).then(|| mean(&all))
}

/// A profile in stretches with more misses and with fewer, about as many on average.
fn swung(profile: Profile, swing: Swing, seconds: f64) -> Profile {
    let Some(phase) = profile.phases.first().cloned() else { return profile };
    let mut rng = base::Rng::new(swing.seed);
    let (mut parts, mut left, mut is_up) = (Vec::new(), 1.0, rng.below(2) == 0);
    while 1e-6 < left {
        let stretch = STRETCH_S.0 + rng.unit() * (STRETCH_S.1 - STRETCH_S.0);
        let part = (stretch / seconds).min(left);
        parts.push(scaled(&phase, if is_up { 1.0 + swing.by } else { 1.0 - swing.by }, part));
        (left, is_up) = (left - part, !is_up);
    }
    Profile { phases: parts, ..profile }
}

/// A part of a phase with so many times the misses and accesses.
fn scaled(phase: &Phase, times: f64, part: f64) -> Phase {
    let of = |figure: Option<Figure>, times: f64| {
        figure.and_then(|figure| Figure::new(figure.value() * times, figure.source))
    };
    let point = |point: &Point| Point {
        misses: point.misses * times,
        write_backs: point.write_backs.map(|count| count * times),
        prefetches: point.prefetches.map(|count| count * times),
        ..*point
    };
    let points = phase.curve.points().iter().map(point).collect();
    Phase {
        share: of(Some(phase.share), part).unwrap_or_default(),
        instructions: of(phase.instructions, part),
        llc_accesses: of(phase.llc_accesses, times),
        l1_misses: of(phase.l1_misses, times),
        bandwidth: None,
        curve: Curve::new(phase.curve.source, points).unwrap_or_default(),
        ..phase.clone()
    }
}

#[cfg(test)]
mod tests {
    use base::StopFlag;

    use super::*;

    const PROGRAMS: [&str; 3] = ["470.lbm", "444.namd", "429.mcf"];

    fn part(program: &str) -> Part {
        Part { program: program.to_owned(), ..Part::default() }
    }

    #[test]
    fn every_program_takes_about_the_same_time_alone() {
        let stop = StopFlag::default();
        let rig = Rig::new(vec![1], 1, 1, &stop, &|_, _| ());
        let mut scene = Scene::new("xeon-e5520-2x4", 60.0).expect("ships");
        scene.add("all", &PROGRAMS.map(part)).expect("profiles");
        scene.run_alone(&rig).expect("runs");
        for (program, seconds) in &scene.alone {
            assert!((57.0..=63.0).contains(seconds), "{program}: {seconds}");
        }
    }

    #[test]
    fn who_is_alone_is_not_slowed_down_and_who_shares_a_core_is() {
        let stop = StopFlag::default();
        let rig = Rig::new(vec![1], 1, 1, &stop, &|_, _| ());
        let mut scene = Scene::new("xeon-e5520-2x4", 10.0).expect("ships");
        let cpus = Some(CpuSet::from_iter([base::CpuId(0)]));
        let two = ["444.namd", "444.namd"].map(|name| Part { cpus: cpus.clone(), ..part(name) });
        scene.add("one", &[part("444.namd")]).expect("profiles");
        scene.add("two", &two).expect("profiles");
        scene.run_alone(&rig).expect("runs");
        let played = rig.play(&scene.world, &["linux"], &["one", "two"]).expect("runs");
        let slow = |at| mean_of(&scene.slowdowns(&played, 0, at), Slow::mean).expect("ended well");
        assert!((slow(0) - 1.0).abs() < 0.01, "{}", slow(0));
        assert!((1.9..2.1).contains(&slow(1)), "{}", slow(1));
    }

    #[test]
    fn stretches_make_the_whole_program_and_its_misses_go_up_and_down() {
        let profile = shipped::profile("470.lbm").expect("ships");
        let all = |profile: &Profile| -> f64 {
            let instructions = profile.phases.iter().filter_map(|phase| phase.instructions);
            instructions.map(|figure| figure.value()).sum()
        };
        let swung = swung(profile.clone(), Swing { by: 0.5, seed: 7 }, 300.0);
        assert!((all(&swung) / all(&profile) - 1.0).abs() < 1e-6);
        let cache = base::Bytes(2 << 20);
        let misses = |phase: &Phase| phase.curve.misses_at(cache).expect("a curve");
        let usual = misses(&profile.phases[0]);
        let times: Vec<String> =
            swung.phases.iter().map(|phase| format!("{:.1}", misses(phase) / usual)).collect();
        assert!(10 <= times.len(), "stretches of 5 to 30 s in 300 s: {times:?}");
        assert!(times.windows(2).all(|pair| pair[0] != pair[1]), "{times:?}");
        assert!(times.iter().all(|times| times == "1.5" || times == "0.5"), "{times:?}");
    }

    #[test]
    fn a_program_that_waits_for_memory_suffers_from_its_being_far() {
        let stop = StopFlag::default();
        let rig = Rig::new(vec![1], 1, 1, &stop, &|_, _| ());
        let mut scene = Scene::new("xeon-e5520-2x4", 10.0).expect("ships");
        let programs = PROGRAMS.map(str::to_owned);
        let remote = scene.remote(&rig, &programs).expect("runs");
        assert!(remote["444.namd"] < 20 && 100 < remote["429.mcf"], "{remote:?}");
    }
}
