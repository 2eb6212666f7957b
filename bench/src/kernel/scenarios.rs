//! Workloads that run twice: as programs under a real kernel, and as profiles in the simulator.
//!
//! ```text
//!   job   load = "compute --cpu 2s"        the program, which stops by its own CPU time
//!         profile = "work-2000"            the same for the simulator: a number of instructions that takes the same
//!                                          time at the speed of its CPUs
//! ```
//!
//! Programs compute in registers or access private memory. An emulated CPU has no shared caches and the simulation runs
//! without contention, so the comparison covers only decisions of the kernels. The scenarios are data:
//! `bench/kernel-scenarios.toml`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;
use base::toml_reader::{self, SourceText};
use serde::Deserialize;

/// Workload file in the directory of a scenario.
pub const WORKLOAD: &str = "workload.toml";

/// A workload for the comparison.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelScenario {
    /// Name in tables and of its directory.
    pub name: String,
    /// Purpose of the scenario.
    pub description: String,
    /// Jobs of the scenario.
    jobs: Vec<JobGroup>,
    /// Policy of the run.
    #[serde(default = "linux")]
    pub policy: String,
    /// Whether NUMA balancing is on.
    #[serde(default)]
    pub balances: bool,
    /// Seconds after which endless jobs are stopped.
    #[serde(default = "ends_s")]
    pub ends_s: u32,
    /// Whether the machine has two SMT siblings per core, on two nodes of two cores.
    #[serde(default)]
    pub smt: bool,
}

/// A group of identical jobs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobGroup {
    name: String,
    n: u32,
    program: ScenarioProgram,
    /// Milliseconds between two starts.
    #[serde(default)]
    every_ms: u32,
    /// Allowed CPUs.
    cpus: Option<String>,
    /// Allowed nodes, for CPUs and memory.
    nodes: Option<String>,
    /// NUMA memory policy.
    memory: Option<String>,
    /// Seconds after which endless jobs of the group are stopped, if not those of the scenario.
    ends_s: Option<u32>,
}

/// Behaviour of a program.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ScenarioProgram {
    /// Computes for this CPU time in ms.
    Work(u32),
    /// Computes until it is stopped.
    Endless,
    /// Walks through this many MiB until it is stopped.
    Hog(u32),
    /// Computes for 5 ms and sleeps, with this duty cycle in percent, until it is stopped.
    Part(u32),
    /// Computes and sleeps for these times in ms, this many times.
    Turns(u32, u32, u32),
    /// Starts this many children that compute for this CPU time in ms.
    Forks(u32, u32),
}

/// Instructions per ns of the simulated CPUs, at one instruction per cycle.
pub type PerNs = f64;

fn linux() -> String {
    "linux".to_owned()
}

fn ends_s() -> u32 {
    14
}

/// Reads all scenarios.
pub fn all() -> anyhow::Result<Vec<KernelScenario>> {
    #[derive(Deserialize)]
    struct File {
        scenario: Vec<KernelScenario>,
    }
    let text = include_str!("../../kernel-scenarios.toml");
    let text = SourceText::new(text, Path::new("bench/kernel-scenarios.toml"));
    Ok(toml_reader::deserialize::<File>(&text)?.scenario)
}

impl KernelScenario {
    /// Returns whether all jobs are endless.
    pub fn is_endless(&self) -> bool {
        self.jobs.iter().all(|jobs| {
            matches!(
                jobs.program,
                ScenarioProgram::Endless | ScenarioProgram::Part(_) | ScenarioProgram::Hog(_)
            )
        })
    }

    /// Returns whether the programs of the scenario allocate memory.
    pub fn has_memory(&self) -> bool {
        self.jobs.iter().any(|jobs| matches!(jobs.program, ScenarioProgram::Hog(_)))
    }

    /// Returns the start times of the jobs in seconds, in order.
    pub fn due_s(&self) -> Vec<f64> {
        let due = |(jobs, copy): (&JobGroup, u32)| f64::from(copy * jobs.every_ms) / 1000.0;
        self.jobs.iter().flat_map(|jobs| (0..jobs.n).map(move |copy| due((jobs, copy)))).collect()
    }

    /// Writes the workload and its profiles into a directory. Jobs start at `starts_s`; if `starts_s` is empty, at
    /// their own start times.
    pub fn write(&self, dir: &Path, per_ns: PerNs, starts_s: &[f64]) -> anyhow::Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mut text = format!("name = \"{}\"\n", self.name);
        let mut profiles = BTreeMap::new();
        let due_s = self.due_s();
        let mut starts_s = if starts_s.is_empty() { due_s.iter() } else { starts_s.iter() };
        for jobs in &self.jobs {
            for (copy, start_s) in (0..jobs.n).zip(&mut starts_s) {
                text += &jobs.text(copy, *start_s, jobs.ends_s.unwrap_or(self.ends_s));
            }
            profiles.insert(jobs.program.profile_name(), jobs.program.profile(per_ns));
        }
        fs::write(dir.join(WORKLOAD), text)?;
        for (name, text) in profiles {
            fs::write(dir.join(format!("{name}.profile.toml")), text)?;
        }
        Ok(())
    }
}

impl JobGroup {
    fn text(&self, copy: u32, start_s: f64, ends_s: u32) -> String {
        let mut text = format!(
            "\n[[job]]\nname = \"{}-{copy}\"\nload = \"{}\"\nprofile = \"{}\"\nstart = \"{:.0}us\"\n",
            self.name,
            self.program.load(),
            self.program.profile_name(),
            1e6 * start_s
        );
        let mut line = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        let keys = [("cpus", &self.cpus), ("nodes", &self.nodes), ("memory", &self.memory)];
        for (key, value) in keys.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            line(format!("{key} = \"{value}\""));
        }
        match self.program {
            ScenarioProgram::Endless | ScenarioProgram::Part(_) | ScenarioProgram::Hog(_) => {
                line(format!("stop_after = \"{ends_s}s\""));
            }
            ScenarioProgram::Forks(n, _) => line(format!("threads = {n}")),
            ScenarioProgram::Work(_) | ScenarioProgram::Turns(..) => {}
        }
        text
    }
}

/// Warm-up of endless jobs, which does not count: programs start slowly in the guest.
pub const WARM_UP_S: f64 = 6.0;

/// Time that a throttled program computes between two sleeps.
const BURST_MS: f64 = 5.0;
/// Duration of an endless phase: longer than any run.
const NEVER_MS: f64 = 300_000.0;

impl ScenarioProgram {
    fn load(self) -> String {
        match self {
            ScenarioProgram::Work(ms) => format!("compute --cpu {ms}ms"),
            ScenarioProgram::Endless => "compute --for 300s".to_owned(),
            ScenarioProgram::Hog(mib) => format!("hog --for 300s --no-self-check --size {mib}MiB"),
            ScenarioProgram::Part(percent) => {
                format!("compute --for 300s --throttle {}", f64::from(percent) / 100.0)
            }
            ScenarioProgram::Turns(works, sleeps, n) => {
                // The program does not sleep after the last phase, as in the simulator.
                let first = format!("phases compute:{works}ms");
                (1..n).fold(first, |text, _| format!("{text} sleep:{sleeps}ms compute:{works}ms"))
            }
            ScenarioProgram::Forks(n, ms) => format!("fork --children {n} --cpu {ms}ms"),
        }
    }

    fn profile_name(self) -> String {
        match self {
            ScenarioProgram::Work(ms) => format!("work-{ms}"),
            ScenarioProgram::Endless => "endless".to_owned(),
            ScenarioProgram::Hog(mib) => format!("hog-{mib}"),
            ScenarioProgram::Part(percent) => format!("part-{percent}"),
            ScenarioProgram::Turns(works, sleeps, n) => format!("turns-{works}-{sleeps}-{n}"),
            ScenarioProgram::Forks(n, ms) => format!("forks-{n}-{ms}"),
        }
    }

    /// Returns the CPU time and, for programs that sleep, the burst and the sleep; in ms.
    fn times(self) -> (f64, Option<(f64, f64)>) {
        match self {
            ScenarioProgram::Work(ms) => (f64::from(ms), None),
            ScenarioProgram::Forks(n, ms) => (f64::from(n) * f64::from(ms), None),
            ScenarioProgram::Turns(works, sleeps, n) => {
                let (works, sleeps) = (f64::from(works), f64::from(sleeps));
                (works * f64::from(n), Some((works, sleeps)))
            }
            ScenarioProgram::Endless | ScenarioProgram::Hog(_) => (NEVER_MS, None),
            ScenarioProgram::Part(percent) => {
                let part = f64::from(percent) / 100.0;
                (NEVER_MS, Some((BURST_MS, BURST_MS * (1.0 - part) / part)))
            }
        }
    }

    fn profile(self, per_ns: PerNs) -> String {
        let (cpu_ms, sleeps) = self.times();
        let instructions = |ms: f64| ms * 1e6 * per_ns;
        let mut text = format!(
            "version = 2\nname = \"{}\"\n[[phase]]\ninstructions = {:?}\n\
             core_cycles_per_instruction = 1.0\noverlap = 1.0\nllc_accesses_per_1000 = 0.0\n",
            self.profile_name(),
            instructions(cpu_ms)
        );
        if let Some((burst_ms, sleep_ms)) = sleeps {
            let burst = instructions(burst_ms);
            let _ =
                write!(text, "burst_instructions = {burst:?}\nsleep_ns = {:?}\n", sleep_ms * 1e6);
        }
        if let ScenarioProgram::Hog(mib) = self {
            let _ = writeln!(text, "footprint_bytes = {:?}", f64::from(mib) * 1_048_576.0);
        }
        text + "[phase.curve]\ncache_bytes = [1048576, 1073741824]\nmisses_per_1000 = [0.0, 0.0]\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_a_valid_workload_with_its_profiles() {
        let dir = tempfile::tempdir().expect("a directory");
        for scenario in all().expect("the scenarios are valid") {
            let place = dir.path().join(&scenario.name);
            scenario.write(&place, 2.4, &[]).expect("it is written");
            let file = place.join(WORKLOAD);
            let text = fs::read_to_string(&file).expect("it exists");
            let workload = program::parse(&text, &file).unwrap_or_else(|error| panic!("{error}"));
            for job in &workload.jobs {
                let name = job.profile.as_ref().expect("each job has a profile");
                let file = place.join(format!("{name}.profile.toml"));
                let text = fs::read_to_string(&file).expect("it exists");
                program::profile::parse_profile(&text, &file)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    #[test]
    fn a_program_and_its_profile_have_the_same_duration() {
        assert_eq!(ScenarioProgram::Work(3000).times(), (3000.0, None));
        assert_eq!(ScenarioProgram::Turns(300, 200, 5).times(), (1500.0, Some((300.0, 200.0))));
        let (_, sleeps) = ScenarioProgram::Part(30).times();
        let (burst, sleep) = sleeps.expect("it sleeps");
        assert!((burst / (burst + sleep) - 0.3).abs() < 1e-9);
        assert!(ScenarioProgram::Work(1000).profile(2.0).contains("instructions = 2000000000.0\n"));
    }
}
