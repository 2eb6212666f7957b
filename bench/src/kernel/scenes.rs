//! Workloads that run twice: as programs under a real kernel, and as profiles in the simulator.
//!
//! ```text
//!   job   load = "compute --cpu 2s"        the program, which stops by its own CPU time
//!         profile = "work-2000"            the same for the simulator: a number of instructions that takes the same
//!                                          time at the speed of its CPUs
//! ```
//!
//! Programs compute in registers or walk through private memory: an emulated CPU has no shared caches, and the simulation
//! runs without contention, so that only decisions of the kernels are compared.
//!
//! Scenes with memory come in pairs, without and with NUMA balancing. To separate programs from their memory, the policy
//! `random` binds them to a random node and to another one later, with the same random choices per seed in the guest and
//! in the simulation.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Workload file in the folder of a scene.
pub const WORKLOAD: &str = "workload.toml";

/// A workload for the comparison.
pub struct KernelScene {
    /// Name in tables and of its folder.
    pub name: &'static str,
    /// Purpose of the scene.
    pub description: &'static str,
    /// Its jobs.
    jobs: &'static [JobGroup],
    /// Policy.
    pub policy: &'static str,
    /// Whether NUMA balancing is on.
    pub balances: bool,
    /// Seconds after which endless jobs are stopped.
    pub ends_s: u32,
}

/// Identical jobs.
struct JobGroup {
    name: &'static str,
    n: u32,
    program: SceneProgram,
    /// Milliseconds between two starts.
    every_ms: u32,
    /// Allowed CPUs.
    cpus: Option<&'static str>,
    /// Allowed nodes, for CPUs and memory.
    nodes: Option<&'static str>,
    /// NUMA memory policy.
    memory: Option<&'static str>,
}

/// Behaviour of a program.
#[derive(Clone, Copy)]
enum SceneProgram {
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

/// Instructions per ns of the simulated CPUs, at one per cycle.
pub type PerNs = f64;

const fn work(name: &'static str, n: u32, program: SceneProgram) -> JobGroup {
    JobGroup { name, n, program, every_ms: 0, cpus: None, nodes: None, memory: None }
}

/// Computing jobs without a policy.
const fn scene(
    name: &'static str,
    description: &'static str,
    jobs: &'static [JobGroup],
) -> KernelScene {
    KernelScene { name, description, jobs, policy: "linux", balances: false, ends_s: ENDS_S }
}

/// Jobs whose memory stays on its node.
const fn touch(
    name: &'static str,
    description: &'static str,
    jobs: &'static [JobGroup],
) -> KernelScene {
    KernelScene { ends_s: TOUCH_ENDS_S, ..scene(name, description, jobs) }
}

/// Jobs that are separated from their memory.
const fn memory(
    name: &'static str,
    description: &'static str,
    jobs: &'static [JobGroup],
) -> KernelScene {
    KernelScene { ends_s: MEMORY_ENDS_S, ..scene(name, description, jobs) }
}

/// The same with NUMA balancing on.
const fn balanced(name: &'static str, description: &'static str, of: &KernelScene) -> KernelScene {
    KernelScene {
        name,
        description,
        balances: true,
        jobs: of.jobs,
        policy: of.policy,
        ends_s: of.ends_s,
    }
}

/// Binds programs to a random node, and to another one after this time.
const SWUNG: &str = "random[domains=node,bind=domain,every=12s]";
const CROWD: KernelScene = memory(
    "crowd",
    "11 programs of 64 MiB on 8 CPUs: load balancing migrates tasks without their memory",
    &[work("hog", 11, SceneProgram::Hog(64))],
);
const SWING: KernelScene = KernelScene {
    policy: SWUNG,
    ..memory(
        "swing",
        "4 programs of 64 MiB, bound to random nodes, and to others after 12 and 24 s",
        &[work("hog", 4, SceneProgram::Hog(64))],
    )
};
const SWING_ONE: KernelScene = KernelScene {
    policy: SWUNG,
    ..memory(
        "swing-one",
        "1 program of 600 MiB, bound in the same way",
        &[work("hog", 1, SceneProgram::Hog(600))],
    )
};

/// Scenes for eight CPUs on four nodes.
pub const ALL: &[KernelScene] = &[
    scene(
        "fewer",
        "3 programs on 8 CPUs: one node each",
        &[work("work", 3, SceneProgram::Endless)],
    ),
    scene(
        "as-many",
        "8 programs on 8 CPUs: one CPU each",
        &[work("work", 8, SceneProgram::Endless)],
    ),
    scene(
        "one-more",
        "9 programs on 8 CPUs: which share a CPU, and whether that rotates",
        &[work("work", 9, SceneProgram::Endless)],
    ),
    scene("uneven", "11 programs on 8 CPUs", &[work("work", 11, SceneProgram::Endless)]),
    scene("twice", "16 programs on 8 CPUs: two each", &[work("work", 16, SceneProgram::Endless)]),
    scene(
        "arrivals",
        "14 programs of 1.5 s that start 0.25 s apart, and end",
        &[JobGroup { every_ms: 250, ..work("work", 14, SceneProgram::Work(1500)) }],
    ),
    scene(
        "sleepers",
        "6 programs beside 6 that work for 5 ms and sleep for 12 ms",
        &[work("work", 6, SceneProgram::Endless), work("nap", 6, SceneProgram::Part(30))],
    ),
    scene(
        "turns",
        "12 programs that compute for 0.3 s and sleep for 0.2 s, five times",
        &[work("turn", 12, SceneProgram::Turns(300, 200, 5))],
    ),
    scene(
        "forks",
        "3 programs that start 4 children each",
        &[work("fork", 3, SceneProgram::Forks(4, 1500))],
    ),
    scene(
        "bound",
        "5 programs that may use one node (2 CPUs) beside 5 that may use all",
        &[
            JobGroup { nodes: Some("0"), ..work("bound", 5, SceneProgram::Endless) },
            work("free", 5, SceneProgram::Endless),
        ],
    ),
    memory(
        "touch",
        "6 programs of 64 MiB on 8 CPUs: first touch",
        &[work("hog", 6, SceneProgram::Hog(64))],
    ),
    touch(
        "spill",
        "2 programs of 600 MiB that may use the CPUs of node 2: more than that has",
        &[JobGroup { cpus: Some("4-5"), ..work("hog", 2, SceneProgram::Hog(600)) }],
    ),
    KernelScene {
        balances: true,
        ..touch(
            "stripe",
            "4 programs of 64 MiB, interleaved, NUMA balancing on",
            &[JobGroup { memory: Some("interleave:0-3"), ..work("hog", 4, SceneProgram::Hog(64)) }],
        )
    },
    KernelScene {
        balances: true,
        ..touch(
            "prefer",
            "2 programs of 64 MiB that run on node 0 and prefer memory of node 2, NUMA balancing on",
            &[JobGroup {
                cpus: Some("0-1"),
                memory: Some("preferred:2"),
                ..work("hog", 2, SceneProgram::Hog(64))
            }],
        )
    },
    SWING,
    balanced("swing-on", "the same with NUMA balancing", &SWING),
    SWING_ONE,
    balanced("swing-one-on", "the same with NUMA balancing", &SWING_ONE),
    CROWD,
    balanced("crowd-on", "the same with NUMA balancing", &CROWD),
];

impl KernelScene {
    /// Whether all jobs are endless.
    pub fn is_endless(&self) -> bool {
        self.jobs.iter().all(|jobs| {
            matches!(
                jobs.program,
                SceneProgram::Endless | SceneProgram::Part(_) | SceneProgram::Hog(_)
            )
        })
    }

    /// Whether its programs allocate memory.
    pub fn has_memory(&self) -> bool {
        self.jobs.iter().any(|jobs| matches!(jobs.program, SceneProgram::Hog(_)))
    }

    /// Start times of the jobs in seconds, in order.
    pub fn due_s(&self) -> Vec<f64> {
        let due = |jobs: &'static JobGroup| {
            (0..jobs.n).map(|copy| f64::from(copy * jobs.every_ms) / 1000.0)
        };
        self.jobs.iter().flat_map(due).collect()
    }

    /// Writes the workload and its profiles into a folder. Jobs start at `starts_s`; if it is empty, at their own
    /// start times.
    pub fn write(&self, folder: &Path, per_ns: PerNs, starts_s: &[f64]) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut text = format!("name = \"{}\"\n", self.name);
        let mut profiles = BTreeMap::new();
        let due_s = self.due_s();
        let mut starts_s = if starts_s.is_empty() { due_s.iter() } else { starts_s.iter() };
        for jobs in self.jobs {
            for (copy, start_s) in (0..jobs.n).zip(&mut starts_s) {
                text += &jobs.text(copy, *start_s, self.ends_s);
            }
            profiles.insert(jobs.program.profile_name(), jobs.program.profile(per_ns));
        }
        fs::write(folder.join(WORKLOAD), text)?;
        for (name, text) in profiles {
            fs::write(folder.join(format!("{name}.profile.toml")), text)?;
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
        let keys = [("cpus", self.cpus), ("nodes", self.nodes), ("memory", self.memory)];
        for (key, value) in keys.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            line(format!("{key} = \"{value}\""));
        }
        match self.program {
            SceneProgram::Endless | SceneProgram::Part(_) | SceneProgram::Hog(_) => {
                line(format!("stop_after = \"{ends_s}s\""));
            }
            SceneProgram::Forks(n, _) => line(format!("threads = {n}")),
            SceneProgram::Work(_) | SceneProgram::Turns(..) => {}
        }
        text
    }
}

/// Run time of computing jobs in seconds.
const ENDS_S: u32 = 14;
/// Run time of jobs with memory.
const TOUCH_ENDS_S: u32 = 20;
/// Run time of jobs separated from their memory: NUMA balancing reacts slowly.
const MEMORY_ENDS_S: u32 = 36;
/// The first seconds of endless jobs do not count: programs start slowly in the guest.
pub const WARM_UP_S: f64 = 6.0;

/// A throttled program computes this long between two sleeps.
const BURST_MS: f64 = 5.0;
/// Longer than any run.
const NEVER_MS: f64 = 300_000.0;

impl SceneProgram {
    fn load(self) -> String {
        match self {
            SceneProgram::Work(ms) => format!("compute --cpu {ms}ms"),
            SceneProgram::Endless => "compute --for 300s".to_owned(),
            SceneProgram::Hog(mib) => format!("hog --for 300s --no-self-check --size {mib}MiB"),
            SceneProgram::Part(percent) => {
                format!("compute --for 300s --throttle {}", f64::from(percent) / 100.0)
            }
            SceneProgram::Turns(works, sleeps, n) => {
                // No sleep after the last phase, as in the simulator.
                let first = format!("phases compute:{works}ms");
                (1..n).fold(first, |text, _| format!("{text} sleep:{sleeps}ms compute:{works}ms"))
            }
            SceneProgram::Forks(n, ms) => format!("fork --children {n} --cpu {ms}ms"),
        }
    }

    fn profile_name(self) -> String {
        match self {
            SceneProgram::Work(ms) => format!("work-{ms}"),
            SceneProgram::Endless => "endless".to_owned(),
            SceneProgram::Hog(mib) => format!("hog-{mib}"),
            SceneProgram::Part(percent) => format!("part-{percent}"),
            SceneProgram::Turns(works, sleeps, n) => format!("turns-{works}-{sleeps}-{n}"),
            SceneProgram::Forks(n, ms) => format!("forks-{n}-{ms}"),
        }
    }

    /// CPU time, and for programs that sleep the burst and the sleep; in ms.
    fn times(self) -> (f64, Option<(f64, f64)>) {
        match self {
            SceneProgram::Work(ms) => (f64::from(ms), None),
            SceneProgram::Forks(n, ms) => (f64::from(n) * f64::from(ms), None),
            SceneProgram::Turns(works, sleeps, n) => {
                let (works, sleeps) = (f64::from(works), f64::from(sleeps));
                (works * f64::from(n), Some((works, sleeps)))
            }
            SceneProgram::Endless | SceneProgram::Hog(_) => (NEVER_MS, None),
            SceneProgram::Part(percent) => {
                let part = f64::from(percent) / 100.0;
                (NEVER_MS, Some((BURST_MS, BURST_MS * (1.0 - part) / part)))
            }
        }
    }

    fn profile(self, per_ns: PerNs) -> String {
        let (cpu_ms, sleeps) = self.times();
        let instructions = |ms: f64| ms * 1e6 * per_ns;
        let mut text = format!(
            "version = 1\nname = \"{}\"\n[[phase]]\ninstructions = {:?}\n\
             core_cycles_per_instruction = 1.0\noverlap = 1.0\nllc_accesses_per_1000 = 0.0\n",
            self.profile_name(),
            instructions(cpu_ms)
        );
        if let Some((burst_ms, sleep_ms)) = sleeps {
            let burst = instructions(burst_ms);
            let _ =
                write!(text, "burst_instructions = {burst:?}\nsleep_ns = {:?}\n", sleep_ms * 1e6);
        }
        if let SceneProgram::Hog(mib) = self {
            let _ = writeln!(text, "footprint_bytes = {:?}", f64::from(mib) * 1_048_576.0);
        }
        text + "[phase.curve]\ncache_bytes = [1048576, 1073741824]\nmisses_per_1000 = [0.0, 0.0]\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_is_a_valid_workload_with_its_profiles() {
        let folder = tempfile::tempdir().expect("a folder");
        for scene in ALL {
            let place = folder.path().join(scene.name);
            scene.write(&place, 2.4, &[]).expect("it is written");
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
        assert_eq!(SceneProgram::Work(3000).times(), (3000.0, None));
        assert_eq!(SceneProgram::Turns(300, 200, 5).times(), (1500.0, Some((300.0, 200.0))));
        let (_, sleeps) = SceneProgram::Part(30).times();
        let (burst, sleep) = sleeps.expect("it sleeps");
        assert!((burst / (burst + sleep) - 0.3).abs() < 1e-9);
        assert!(SceneProgram::Work(1000).profile(2.0).contains("instructions = 2000000000.0\n"));
    }
}
