//! Jobs that are run twice: as programs under a real kernel, and as profiles in the simulator.
//!
//! ```text
//!   job   load = "compute --cpu 2s"        the program, which stops by its own CPU time
//!         profile = "work-2000"            the same for the simulator: so many instructions at the
//!                                          speed of its CPUs, so that it is through after the same time
//! ```
//!
//! Programs compute in registers: an emulated processor has no caches to share, and the simulator is run
//! without contention too, so that nothing but the kernel's choices is compared.

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
}

/// Some jobs alike.
struct Jobs {
    name: &'static str,
    n: u32,
    what: What,
    /// Milliseconds between the starts of two of them.
    every_ms: u32,
    /// Nodes whose CPUs they may use.
    nodes: Option<&'static str>,
}

/// What a program does.
#[derive(Clone, Copy)]
enum What {
    /// Computes for so many milliseconds of CPU time.
    Work(u32),
    /// Computes until it is ended.
    Endless,
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
    Jobs { name, n, what, every_ms: 0, nodes: None }
}

/// For eight CPUs on four nodes.
pub const ALL: &[Scene] = &[
    Scene {
        name: "fewer",
        asks: "3 programs on 8 CPUs: whether they get a node each",
        jobs: &[work("work", 3, What::Endless)],
    },
    Scene {
        name: "as-many",
        asks: "8 programs on 8 CPUs: a CPU each",
        jobs: &[work("work", 8, What::Endless)],
    },
    Scene {
        name: "one-more",
        asks: "9 programs on 8 CPUs: who shares, and whether that goes round",
        jobs: &[work("work", 9, What::Endless)],
    },
    Scene {
        name: "uneven",
        asks: "11 programs on 8 CPUs",
        jobs: &[work("work", 11, What::Endless)],
    },
    Scene {
        name: "twice",
        asks: "16 programs on 8 CPUs: two each",
        jobs: &[work("work", 16, What::Endless)],
    },
    Scene {
        name: "arrivals",
        asks: "14 programs of 1.5 s that start 0.25 s apart, and end",
        jobs: &[Jobs { every_ms: 250, ..work("work", 14, What::Work(1500)) }],
    },
    Scene {
        name: "sleepers",
        asks: "6 programs beside 6 that work for 5 ms and sleep for 12 ms",
        jobs: &[work("work", 6, What::Endless), work("nap", 6, What::Part(30))],
    },
    Scene {
        name: "turns",
        asks: "12 programs that compute for 0.3 s and sleep for 0.2 s, five times",
        jobs: &[work("turn", 12, What::Turns(300, 200, 5))],
    },
    Scene {
        name: "forks",
        asks: "3 programs that start 4 children each",
        jobs: &[work("fork", 3, What::Forks(4, 1500))],
    },
    Scene {
        name: "bound",
        asks: "5 programs that may use one node (2 CPUs) beside 5 that may use all",
        jobs: &[
            Jobs { nodes: Some("0"), ..work("bound", 5, What::Endless) },
            work("free", 5, What::Endless),
        ],
    },
];

impl Scene {
    /// Whether its jobs go on until they are ended.
    pub fn is_endless(&self) -> bool {
        self.jobs.iter().all(|jobs| matches!(jobs.what, What::Endless | What::Part(_)))
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
                text += &jobs.text(copy, *start_s);
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
    fn text(&self, copy: u32, start_s: f64) -> String {
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
        if let Some(nodes) = self.nodes {
            line(format!("nodes = \"{nodes}\""));
        }
        match self.what {
            What::Endless | What::Part(_) => line(format!("stop_after = \"{ENDS_S}s\"")),
            What::Forks(n, _) => line(format!("threads = {n}")),
            What::Work(_) | What::Turns(..) => {}
        }
        text
    }
}

/// Jobs that do not end by themselves are ended after so many seconds.
const ENDS_S: u32 = 14;
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
            What::Endless => (NEVER_MS, None),
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
