//! Jobs that are run twice: as programs under a real kernel, and as profiles in the simulator.
//!
//! ```text
//!   job   load = "compute --cpu 2s"        the program, which stops by its own CPU time
//!         profile = "work-2000"            the same for the simulator: so many instructions at the
//!                                          speed of its CPUs, so that it is through after the same time
//! ```
//!
//! Programs compute in registers, or walk through memory of their own: an emulated processor has no caches to
//! share, and the simulator is run without contention too, so that nothing but the kernel's choices is compared.
//!
//! Scenes about memory come in pairs, without and with NUMA balancing. Where programs are to be away from
//! their memory the policy `random` binds them to a node drawn by lot and draws again later: the same lots in
//! the guest and in the simulator, seed by seed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// The workload in a scene's folder.
pub const WORKLOAD: &str = "workload.toml";

/// A workload, and what it is for.
pub struct Scene {
    /// Its name in tables and of its folder.
    pub name: &'static str,
    /// What it asks of a kernel.
    pub asks: &'static str,
    /// Its jobs.
    jobs: &'static [Jobs],
    /// Who places them.
    pub policy: &'static str,
    /// Whether the kernel moves tasks and pages between nodes by itself.
    pub balances: bool,
    /// Jobs that do not end by themselves are ended after so many seconds.
    pub ends_s: u32,
}

/// Some jobs alike.
struct Jobs {
    name: &'static str,
    n: u32,
    what: What,
    /// Milliseconds between the starts of two of them.
    every_ms: u32,
    /// CPUs that they may use.
    cpus: Option<&'static str>,
    /// Nodes whose CPUs and memory they may use.
    nodes: Option<&'static str>,
    /// Where their memory comes from.
    memory: Option<&'static str>,
}

/// What a program does.
#[derive(Clone, Copy)]
enum What {
    /// Computes for so many milliseconds of CPU time.
    Work(u32),
    /// Computes until it is ended.
    Endless,
    /// Walks through so many MiB of its own until it is ended.
    Hog(u32),
    /// Works 5 ms of CPU time and sleeps, so that it would work for this part (in hundredths) of the time,
    /// until it is ended.
    Part(u32),
    /// Computes and sleeps for so many milliseconds, so many times.
    Turns(u32, u32, u32),
    /// Starts so many children that compute for so many milliseconds each.
    Forks(u32, u32),
}

/// Instructions that the simulator does in a nanosecond: its CPUs' cycles, one each.
pub type PerNs = f64;

const fn work(name: &'static str, n: u32, what: What) -> Jobs {
    Jobs { name, n, what, every_ms: 0, cpus: None, nodes: None, memory: None }
}

/// Computing jobs that nobody places.
const fn scene(name: &'static str, asks: &'static str, jobs: &'static [Jobs]) -> Scene {
    Scene { name, asks, jobs, policy: "linux", balances: false, ends_s: ENDS_S }
}

/// Jobs with memory that stays where it was touched, if all is well.
const fn touch(name: &'static str, asks: &'static str, jobs: &'static [Jobs]) -> Scene {
    Scene { ends_s: TOUCH_ENDS_S, ..scene(name, asks, jobs) }
}

/// Jobs with memory that does not stay with them.
const fn memory(name: &'static str, asks: &'static str, jobs: &'static [Jobs]) -> Scene {
    Scene { ends_s: MEMORY_ENDS_S, ..scene(name, asks, jobs) }
}

/// The same with NUMA balancing.
const fn balanced(name: &'static str, asks: &'static str, of: &Scene) -> Scene {
    Scene { name, asks, balances: true, jobs: of.jobs, policy: of.policy, ends_s: of.ends_s }
}

/// Programs are bound to a node drawn by lot, and to another one after so long.
const SWUNG: &str = "random[domains=node,bind=domain,every=12s]";
const CROWD: Scene = memory(
    "crowd",
    "11 programs of 64 MiB on 8 CPUs: tasks are carried round, their memory is not",
    &[work("hog", 11, What::Hog(64))],
);
const SWING: Scene = Scene {
    policy: SWUNG,
    ..memory(
        "swing",
        "4 programs of 64 MiB, bound to nodes drawn by lot, after 12 and 24 s to others",
        &[work("hog", 4, What::Hog(64))],
    )
};
const SWING_ONE: Scene = Scene {
    policy: SWUNG,
    ..memory("swing-one", "1 program of 600 MiB, bound likewise", &[work("hog", 1, What::Hog(600))])
};

/// For eight CPUs on four nodes.
pub const ALL: &[Scene] = &[
    scene(
        "fewer",
        "3 programs on 8 CPUs: whether they get a node each",
        &[work("work", 3, What::Endless)],
    ),
    scene("as-many", "8 programs on 8 CPUs: a CPU each", &[work("work", 8, What::Endless)]),
    scene(
        "one-more",
        "9 programs on 8 CPUs: who shares, and whether that goes round",
        &[work("work", 9, What::Endless)],
    ),
    scene("uneven", "11 programs on 8 CPUs", &[work("work", 11, What::Endless)]),
    scene("twice", "16 programs on 8 CPUs: two each", &[work("work", 16, What::Endless)]),
    scene(
        "arrivals",
        "14 programs of 1.5 s that start 0.25 s apart, and end",
        &[Jobs { every_ms: 250, ..work("work", 14, What::Work(1500)) }],
    ),
    scene(
        "sleepers",
        "6 programs beside 6 that work for 5 ms and sleep for 12 ms",
        &[work("work", 6, What::Endless), work("nap", 6, What::Part(30))],
    ),
    scene(
        "turns",
        "12 programs that compute for 0.3 s and sleep for 0.2 s, five times",
        &[work("turn", 12, What::Turns(300, 200, 5))],
    ),
    scene(
        "forks",
        "3 programs that start 4 children each",
        &[work("fork", 3, What::Forks(4, 1500))],
    ),
    scene(
        "bound",
        "5 programs that may use one node (2 CPUs) beside 5 that may use all",
        &[
            Jobs { nodes: Some("0"), ..work("bound", 5, What::Endless) },
            work("free", 5, What::Endless),
        ],
    ),
    memory(
        "touch",
        "6 programs of 64 MiB on 8 CPUs: first touch",
        &[work("hog", 6, What::Hog(64))],
    ),
    touch(
        "spill",
        "2 programs of 600 MiB that may use the CPUs of node 2: more than that has",
        &[Jobs { cpus: Some("4-5"), ..work("hog", 2, What::Hog(600)) }],
    ),
    Scene {
        balances: true,
        ..touch(
            "stripe",
            "4 programs of 64 MiB, interleaved, NUMA balancing on",
            &[Jobs { memory: Some("interleave:0-3"), ..work("hog", 4, What::Hog(64)) }],
        )
    },
    Scene {
        balances: true,
        ..touch(
            "prefer",
            "2 programs of 64 MiB that run on node 0 and prefer memory of node 2, NUMA balancing on",
            &[Jobs {
                cpus: Some("0-1"),
                memory: Some("preferred:2"),
                ..work("hog", 2, What::Hog(64))
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

impl Scene {
    /// Whether its jobs go on until they are ended.
    pub fn is_endless(&self) -> bool {
        self.jobs
            .iter()
            .all(|jobs| matches!(jobs.what, What::Endless | What::Part(_) | What::Hog(_)))
    }

    /// Whether its programs have memory to speak of.
    pub fn has_memory(&self) -> bool {
        self.jobs.iter().any(|jobs| matches!(jobs.what, What::Hog(_)))
    }

    /// When its jobs are due, in seconds, in their order.
    pub fn due_s(&self) -> Vec<f64> {
        let due =
            |jobs: &'static Jobs| (0..jobs.n).map(|copy| f64::from(copy * jobs.every_ms) / 1000.0);
        self.jobs.iter().flat_map(due).collect()
    }

    /// Writes the workload and the profiles that it names into a folder. Jobs begin when they did in an
    /// earlier run, if that is told; else as they are due.
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
            profiles.insert(jobs.what.profile_name(), jobs.what.profile(per_ns));
        }
        fs::write(folder.join(WORKLOAD), text)?;
        for (name, text) in profiles {
            fs::write(folder.join(format!("{name}.profile.toml")), text)?;
        }
        Ok(())
    }
}

impl Jobs {
    fn text(&self, copy: u32, start_s: f64, ends_s: u32) -> String {
        let mut text = format!(
            "\n[[job]]\nname = \"{}-{copy}\"\nload = \"{}\"\nprofile = \"{}\"\nstart = \"{:.0}us\"\n",
            self.name,
            self.what.load(),
            self.what.profile_name(),
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
        match self.what {
            What::Endless | What::Part(_) | What::Hog(_) => {
                line(format!("stop_after = \"{ends_s}s\""));
            }
            What::Forks(n, _) => line(format!("threads = {n}")),
            What::Work(_) | What::Turns(..) => {}
        }
        text
    }
}

/// Computing jobs are ended after so many seconds.
const ENDS_S: u32 = 14;
/// Those with memory.
const TOUCH_ENDS_S: u32 = 20;
/// Those whose memory does not stay with them: the kernel takes its time to see where that is used.
const MEMORY_ENDS_S: u32 = 36;
/// Their first seconds do not count: a program takes long to start in the guest.
pub const SETTLES_S: f64 = 6.0;

/// A throttled program works so long between two sleeps.
const BURST_MS: f64 = 5.0;
/// More than anybody does before he is ended.
const NEVER_MS: f64 = 300_000.0;

impl What {
    fn load(self) -> String {
        match self {
            What::Work(ms) => format!("compute --cpu {ms}ms"),
            What::Endless => "compute --for 300s".to_owned(),
            What::Hog(mib) => format!("hog --for 300s --no-self-check --size {mib}MiB"),
            What::Part(percent) => {
                format!("compute --for 300s --throttle {}", f64::from(percent) / 100.0)
            }
            What::Turns(works, sleeps, n) => {
                // No sleep after the last, as in the simulator.
                let first = format!("phases compute:{works}ms");
                (1..n).fold(first, |text, _| format!("{text} sleep:{sleeps}ms compute:{works}ms"))
            }
            What::Forks(n, ms) => format!("fork --children {n} --cpu {ms}ms"),
        }
    }

    fn profile_name(self) -> String {
        match self {
            What::Work(ms) => format!("work-{ms}"),
            What::Endless => "endless".to_owned(),
            What::Hog(mib) => format!("hog-{mib}"),
            What::Part(percent) => format!("part-{percent}"),
            What::Turns(works, sleeps, n) => format!("turns-{works}-{sleeps}-{n}"),
            What::Forks(n, ms) => format!("forks-{n}-{ms}"),
        }
    }

    /// CPU time, and with sleeps the burst between two of them and their length; in milliseconds.
    fn times(self) -> (f64, Option<(f64, f64)>) {
        match self {
            What::Work(ms) => (f64::from(ms), None),
            What::Forks(n, ms) => (f64::from(n) * f64::from(ms), None),
            What::Turns(works, sleeps, n) => {
                let (works, sleeps) = (f64::from(works), f64::from(sleeps));
                (works * f64::from(n), Some((works, sleeps)))
            }
            What::Endless | What::Hog(_) => (NEVER_MS, None),
            What::Part(percent) => {
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
        if let What::Hog(mib) = self {
            let _ = writeln!(text, "footprint_bytes = {:?}", f64::from(mib) * 1_048_576.0);
        }
        text + "[phase.curve]\ncache_bytes = [1048576, 1073741824]\nmisses_per_1000 = [0.0, 0.0]\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_is_a_sound_workload_with_its_profiles() {
        let folder = tempfile::tempdir().expect("a folder");
        for scene in ALL {
            let place = folder.path().join(scene.name);
            scene.write(&place, 2.4, &[]).expect("it is written");
            let file = place.join(WORKLOAD);
            let text = fs::read_to_string(&file).expect("it is there");
            let workload = program::parse(&text, &file).unwrap_or_else(|error| panic!("{error}"));
            for job in &workload.jobs {
                let name = job.profile.as_ref().expect("each names one");
                let file = place.join(format!("{name}.profile.toml"));
                let text = fs::read_to_string(&file).expect("it is there");
                program::profile::parse_profile(&text, &file)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    #[test]
    fn a_program_and_its_profile_take_the_same_time() {
        assert_eq!(What::Work(3000).times(), (3000.0, None));
        assert_eq!(What::Turns(300, 200, 5).times(), (1500.0, Some((300.0, 200.0))));
        let (_, sleeps) = What::Part(30).times();
        let (burst, sleep) = sleeps.expect("it sleeps");
        assert!((burst / (burst + sleep) - 0.3).abs() < 1e-9);
        assert!(What::Work(1000).profile(2.0).contains("instructions = 2000000000.0\n"));
    }
}
