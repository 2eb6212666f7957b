//! A machine to run a study on, and the programs as they are in one draw.
//!
//! ```text
//!   shipped machine ── remote latency × k, bandwidth ÷ p ─► World ◄── a draw from the profiles' ranges
//! ```
//!
//! Every world has a name that says all of what is different in it, so that a run is known by its world,
//! its workload, its policy and its seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Bytes, JobId, Nanos};
use engine::MoveLimits;
use host_sim::SimOptions;
use host_sim::chance::Chance;
use host_sim::hardware::Hardware;
use program::profile::{Figure, Source};
use program::{Class, Ending, Job, Profile};
use topology::Machine;

use super::ReproduceError;
use super::defaults::interval;
use crate::shipped::{self, Draw};

/// Where runs happen.
#[derive(Clone, Debug)]
pub struct World {
    /// What it is, with all that differs.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// How it behaves.
    pub options: SimOptions,
    /// Where in their ranges the figures of programs lie.
    pub draw: Draw,
    /// How long a scheduler works for each poll, where its work is charged to a core.
    pub own_work: Option<Nanos>,
    /// How much memory policies may move.
    pub limits: MoveLimits,
    /// Workloads of this world alone, by name, their jobs with profiles.
    pub casts: BTreeMap<String, Vec<Job>>,
}

/// What the classes of jobs are made from (spec 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassBasis {
    /// Operations of controllers per millisecond.
    Rate,
    /// Millions of them in the whole run.
    Total,
}

impl ClassBasis {
    /// What a policy takes the declared classes for.
    pub fn of_column(text: &str) -> Self {
        let is_paper = text.contains("reading=paper") && !text.contains("class_basis=rate");
        if is_paper || text.contains("class_basis=total") {
            ClassBasis::Total
        } else {
            ClassBasis::Rate
        }
    }
}

impl World {
    /// A machine that ships, programs from the middle of their ranges. Starts come up to 200 ms late, which
    /// is what ±100 ms (spec 1.11) are when all of it happens 100 ms later.
    ///
    /// # Errors
    /// There is no such machine.
    pub fn shipped(machine: &str) -> Result<Self, ReproduceError> {
        let chance = Chance { start: Nanos::from_millis(200), ..Chance::default() };
        Ok(World {
            name: machine.to_owned(),
            machine: shipped::machine(machine)?,
            options: SimOptions { chance, ..SimOptions::default() },
            draw: Draw::Middle,
            own_work: None,
            limits: MoveLimits::default(),
            casts: BTreeMap::new(),
        })
    }

    /// The same with another draw.
    pub fn drawn(self, seed: u64) -> Self {
        World { name: format!("{} draw {seed}", self.name), draw: Draw::Seed(seed), ..self }
    }

    /// Latency to memory elsewhere so that on average over all pairs of nodes it is `ratio` times that of
    /// one's own; the differences between distances grow alike.
    pub fn remote_over_local(self, ratio: f64) -> Self {
        let all = &self.machine.perf_attributes().accesses;
        let mean = |is_local: bool| {
            let of = all.iter().filter(|way| (way.from == way.to) == is_local);
            let of: Vec<f64> =
                of.filter_map(|way| way.latency_ns).map(|figure| figure.value as f64).collect();
            crate::stats::mean(&of)
        };
        let factor = ratio * mean(true) / mean(false);
        self.changed(&format!("remote {ratio:.2}"), |way| {
            if let Some(latency) = way.latency_ns.as_mut().filter(|_| way.from != way.to) {
                latency.value = (latency.value as f64 * factor).round() as u64;
            }
        })
    }

    /// Controllers with so many times less bandwidth: every program presses them so many times harder.
    pub fn pressed(self, times: u64) -> Self {
        self.changed(&format!("bandwidth ÷ {times}"), |way| {
            if let Some(bandwidth) = way.bandwidth_bytes_per_s.as_mut() {
                bandwidth.value /= times;
            }
        })
    }

    /// So many times the memory on every node.
    pub fn with_memory(self, times: u64) -> Self {
        let mut parts = self.machine.parts().clone();
        for node in &mut parts.nodes {
            node.memory = node.memory.map(|bytes| Bytes(bytes.0 * times));
            node.memory_free = node.memory_free.map(|bytes| Bytes(bytes.0 * times));
        }
        let machine = Machine::new(parts).expect("only memory of a sound machine was changed");
        World { name: format!("{}, memory × {times}", self.name), machine, ..self }
    }

    /// Last-level caches of another size: times the first, divided by the second.
    pub fn with_cache(self, times: u64, part: u64) -> Self {
        let mut parts = self.machine.parts().clone();
        for llc in &mut parts.llcs {
            llc.size = llc.size.map(|bytes| Bytes(bytes.0 * times / part));
        }
        let machine = Machine::new(parts).expect("only caches of a sound machine were changed");
        World { name: format!("{}, cache × {times} ÷ {part}", self.name), machine, ..self }
    }

    /// Controllers and links with so many times more bandwidth: what is left to compete for are caches.
    pub fn widened(self, times: u64) -> Self {
        self.changed(&format!("bandwidth × {times}"), |way| {
            if let Some(bandwidth) = way.bandwidth_bytes_per_s.as_mut() {
                bandwidth.value = bandwidth.value.saturating_mul(times);
            }
        })
    }

    /// Links between nodes with so many times more bandwidth.
    pub fn relieved_links(self, times: u64) -> Self {
        self.changed(&format!("links × {times}"), |way| {
            let of_link = way.bandwidth_bytes_per_s.as_mut().filter(|_| way.from != way.to);
            if let Some(bandwidth) = of_link {
                bandwidth.value *= times;
            }
        })
    }

    /// A scheduler's own work on a core: so long after every quarter of a second.
    pub fn with_own_work(self, each: Nanos) -> Self {
        let name = format!("{}, {} ns of own work", self.name, each.0);
        World { name, own_work: Some(each), ..self }
    }

    fn changed(self, how: &str, change: impl Fn(&mut topology::MemoryAccess)) -> Self {
        let mut parts = self.machine.parts().clone();
        parts.perf_attributes.accesses.iter_mut().for_each(change);
        let machine = Machine::new(parts).expect("only figures of a sound machine were changed");
        World { name: format!("{}, {how}", self.name), machine, ..self }
    }

    /// A workload with its jobs so far apart that each is alone, nothing left to chance but how long it is: since
    /// they keep their numbers that is what chance draws in the workload itself. `alone` tells about how long each
    /// takes.
    ///
    /// # Errors
    /// There is no such workload, or a job of it does not end by itself.
    pub fn one_by_one(
        &self,
        workload: &str,
        alone: &[Option<Nanos>],
    ) -> Result<Self, ReproduceError> {
        let endless = || ReproduceError::Failed {
            run: format!("{workload} one by one"),
            why: "a job of it does not end by itself".to_owned(),
        };
        let mut jobs = self.jobs(workload, ClassBasis::Rate)?;
        let mut start = Nanos::ZERO;
        for (job, alone) in jobs.iter_mut().zip(alone) {
            job.start = start;
            // Twice what it takes: chance makes it at most a hundredth longer.
            start = start + alone.ok_or_else(endless)? + alone.ok_or_else(endless)?;
        }
        let chance = Chance { length: self.options.chance.length, ..Chance::OFF };
        Ok(World {
            name: format!("{}, one by one", self.name),
            options: SimOptions { chance, ..self.options.clone() },
            casts: BTreeMap::from([(workload.to_owned(), jobs)]),
            ..self.clone()
        })
    }

    /// The jobs of a workload that ships, or of `programs:` with names and a `+` between them, with the profiles of
    /// this draw and classes of one basis.
    ///
    /// # Errors
    /// There is no such workload, or no profile for a job of it.
    pub fn jobs(&self, workload: &str, basis: ClassBasis) -> Result<Vec<Job>, ReproduceError> {
        if let Some(jobs) = self.casts.get(workload) {
            return Ok(jobs.clone());
        }
        let mut jobs = match workload.strip_prefix("programs:") {
            Some(names) => listed(names)?,
            None => shipped::workload(workload)?.jobs,
        };
        let hardware = Hardware::new(&self.machine);
        let mut known: BTreeMap<String, (Arc<Profile>, Option<Class>)> = BTreeMap::new();
        for job in &mut jobs {
            let Some(name) = &job.profile else { continue };
            if !known.contains_key(name) {
                let profile = shipped::profile_drawn(name, self.draw)?;
                let class = class(&profile, &hardware, basis);
                known.insert(name.clone(), (Arc::new(profile), class));
            }
            let (profile, class) = &known[name];
            job.class = job.class.and(*class);
            job.found = Some(Arc::clone(profile));
        }
        if let (Some(each), Some(like)) = (self.own_work, jobs.first()) {
            // The last: what chance draws for a job hangs on its number, and those of all others stay.
            let id = JobId(jobs.len() as u32);
            jobs.push(Job { id, ..worker(each, like, &hardware)? });
        }
        Ok(jobs)
    }
}

/// Jobs of some programs by the names of their profiles, `lbm+lbm+sphinx3`, all from the start.
fn listed(names: &str) -> Result<Vec<Job>, ReproduceError> {
    let jobs = shipped::workload("basic01")?.jobs;
    let like = jobs.first().expect("the mix has six programs");
    let job = |(number, name): (u32, &str)| Job {
        id: JobId(number),
        name: format!("{name}.{number}"),
        profile: Some(name.to_owned()),
        ..like.clone()
    };
    Ok((0..).zip(names.split('+')).map(job).collect())
}

/// A program that works for so long and then sleeps until the next poll, for as long as others run.
fn worker(each: Nanos, like: &Job, hardware: &Hardware) -> Result<Job, ReproduceError> {
    let mut profile = shipped::profile("bitcount")?;
    let per_s = shipped::alone(&profile, hardware).map_or(0.0, |alone| alone.instructions);
    let figure = |value: f64| Figure::new(value, Source::Declared);
    for phase in &mut profile.phases {
        let burst = (per_s * each.as_secs_f64()).max(1.0);
        phase.burst_instructions = figure(burst);
        phase.sleep_ns = figure(interval("dfs").0 as f64);
        // A month of polls: it ends because the others have.
        phase.instructions = figure(1e7 * burst);
    }
    Ok(Job {
        name: "scheduler".to_owned(),
        start: Nanos::ZERO,
        class: None,
        profile: None,
        found: Some(Arc::new(profile)),
        ending: Ending::RestartUntilOthersDone,
        ..like.clone()
    })
}

/// The class of a program alone on a machine.
fn class(profile: &program::Profile, hardware: &Hardware, basis: ClassBasis) -> Option<Class> {
    let alone = shipped::alone(profile, hardware).ok()?;
    let lines_per_s = alone.bandwidth / 64.0;
    Some(Class::of_rate(match basis {
        ClassBasis::Rate => lines_per_s / 1000.0,
        ClassBasis::Total => lines_per_s * alone.seconds / 1e6,
    }))
}
