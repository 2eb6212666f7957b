//! Simulated runs: the machine keeps its rules under every policy and fault, the same seed writes the same bytes, and
//! invalid machines, profiles and workloads are rejected before any run.

use std::sync::Arc;

use base::{JobId, Nanos, Rng};
use engine::{Engine, RunError, Sink, TurnRecord};
use expect_test::expect;
use host_sim::faults::Faults;
use host_sim::kernel::KernelVersion;
use host_sim::{SimHost, SimOptions};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use program::{Command, Ending, Job, MemoryPolicy, Profile};
use sched::JobEvent;
use topology::Machine;

use crate::{seeds, tool};

/// One node, several nodes, several LLC domains in a node, SMT siblings, no known caches.
const MACHINES: &[&str] = &[
    "cores=4",
    "nodes=2 cores=4",
    "nodes=4 llcs=2 cores=2",
    "nodes=2 llcs=2 cores=2 smt=2",
    "nodes=2 cores=2 llc=0",
    "cores=1",
];

/// A simulation chosen by its seed.
struct Simulation {
    machine: Machine,
    jobs: Vec<Job>,
    options: SimOptions,
    policy: String,
}

fn simulation(seed: u64) -> Simulation {
    let mut rng = Rng::new(seed);
    let mut one_of = |n: usize| rng.below(n as u64) as usize;
    let text = MACHINES[one_of(MACHINES.len())];
    let machine = Machine::synthetic(text).expect("a machine");
    let profiles: Vec<Arc<Profile>> = (0..4).map(|nth| Arc::new(profile(nth))).collect();
    let n_jobs = 1 + one_of(12);
    let jobs = (0..n_jobs).map(|nth| {
        let mut job = job(nth, &profiles[one_of(4)]);
        job.start = Nanos::from_millis(100 * one_of(30) as u64);
        job.threads = 1 + one_of(3) as u32;
        job.ending = match one_of(6) {
            0 if nth != 0 => Ending::RestartUntilOthersDone,
            1 => Ending::After(Nanos::from_millis(700)),
            _ => Ending::Exit,
        };
        if one_of(5) == 0 {
            job.cpus = Some("0".parse().expect("a set"));
        }
        if one_of(5) == 0 {
            let nodes = machine.nodes_with_memory().clone();
            job.memory = (!nodes.is_empty()).then_some(MemoryPolicy::Interleave(nodes));
        }
        job
    });
    let mut jobs: Vec<Job> = jobs.collect();
    jobs.sort_by_key(|job| job.start);
    for (nth, job) in jobs.iter_mut().enumerate() {
        job.id = JobId(nth as u32);
    }
    if jobs.iter().all(|job| job.ending == Ending::RestartUntilOthersDone) {
        jobs[0].ending = Ending::Exit;
    }
    let kernel = KernelVersion::ALL[one_of(3)];
    let faults = [
        "",
        "samples-lost=0.3",
        "counters-absent=0.5",
        "requests-rejected=0.3,pages-busy=0.5",
        "neighbours=2",
        "cpus-offline=1s",
        "samples-lost=0.2,counters-absent=0.2,requests-rejected=0.2,pages-busy=0.3,neighbours=3,cpus-offline=700ms",
    ];
    let names: Vec<&str> = policy::registry().iter().map(|info| info.name).collect();
    let policy = names[one_of(names.len())].to_owned();
    let options = SimOptions {
        seed,
        kernel: Some(kernel),
        numa_balancing: Some(kernel.can_balance_numa() && one_of(2) == 0),
        interleave: one_of(4) == 0,
        skip_quiescent_turns: one_of(2) == 0,
        contention: one_of(4) != 0,
        faults: Faults::parse(faults[one_of(faults.len())]).expect("faults"),
        ..SimOptions::default()
    };
    Simulation { machine, jobs, options, policy }
}

/// From a program that fits its caches to one that streams; the second sleeps, the third has two phases.
fn profile(nth: usize) -> Profile {
    let declared = |value| ProfileValue::new(value, ValueSource::Declared);
    let misses = [0.1, 2.0, 10.0, 30.0][nth];
    let point = |mib: u64, misses: f64| CurvePoint {
        cache: base::Bytes::from_mib(mib),
        misses,
        write_backs: Some(misses / 3.0),
        prefetches: Some(misses / 2.0),
        error: None,
    };
    let curve =
        MissRatioCurve::new(ValueSource::Declared, vec![point(1, misses), point(16, misses / 4.0)]);
    let phase = Phase {
        share: declared(1.0).expect("a share"),
        instructions: declared(1e9 * (1.0 + nth as f64)),
        core_cycles_per_instruction: declared(0.5),
        overlap: declared(2.0),
        footprint_bytes: declared(6e7 * nth as f64),
        llc_accesses: declared(misses * 2.0),
        burst_instructions: if nth == 1 { declared(2e8) } else { None },
        sleep_ns: if nth == 1 { declared(5e7) } else { None },
        curve: curve.expect("a curve"),
        ..Phase::default()
    };
    let halves = |share| Phase { share: declared(share).expect("a share"), ..phase.clone() };
    let phases = if nth == 2 {
        let small = Phase { footprint_bytes: declared(2e7), ..halves(0.5) };
        vec![halves(0.5), small]
    } else {
        vec![phase]
    };
    let class = program::Class::new(3 * nth as u8).map(|class| (class, ValueSource::Declared));
    Profile { name: format!("p{nth}"), class, phases, ..Profile::default() }
}

fn job(nth: usize, profile: &Arc<Profile>) -> Job {
    Job {
        class: profile.class.map(|(class, _)| class),
        found: Some(profile.clone()),
        ..Job::new(
            JobId(nth as u32),
            format!("job{nth}"),
            Command::Program { program: profile.name.clone().into(), args: Vec::new() },
        )
    }
}

/// The exits of all jobs, and whether they restart.
#[derive(Default)]
struct Ends(Vec<(JobId, bool)>);

impl Sink for Ends {
    fn record(&mut self, record: &TurnRecord<'_>) -> std::io::Result<()> {
        for event in &record.sample.jobs {
            if let JobEvent::Ended(job, end) = event {
                self.0.push((*job, end.restarts));
            }
        }
        Ok(())
    }
}

#[test]
fn under_every_policy_and_fault_the_machine_keeps_its_rules_and_every_job_ends() {
    for seed in seeds::upto(300) {
        let simulation = simulation(seed);
        let policy = policy::build(&simulation.policy, seed).expect("a policy");
        let options = SimOptions { interval: policy.interval(), ..simulation.options };
        let faults = options.faults;
        let context = format!("seed {seed}: {} {options:?}", simulation.policy);
        let mut host =
            SimHost::new(&simulation.machine, &simulation.jobs, options).expect("it can run");
        let mut engine = Engine::new(simulation.machine, simulation.jobs.clone(), policy);
        let mut ends = Ends::default();
        match engine::run(&mut host, &mut engine, &mut [&mut ends]) {
            // A policy may abort if its counters are unavailable for long.
            Err(RunError::Aborted(_)) if 0.0 < faults.samples_lost + faults.counters_absent => {
                continue;
            }
            result => result.unwrap_or_else(|error| panic!("{context}: {error}")),
        };
        for job in &simulation.jobs {
            let n_final = ends.0.iter().filter(|(id, restarts)| *id == job.id && !restarts).count();
            assert!(n_final <= 1, "{context}: {} ended {n_final} times", job.name);
            let must_end = job.ending != Ending::RestartUntilOthersDone;
            assert!(!must_end || n_final == 1, "{context}: {} never ended", job.name);
        }
    }
}

const MACHINE: &str = r#"
format_version = 1
nodes = [
  { id = 0, cpus = "0-1", memory_bytes = 1073741824 },
  { id = 1, cpus = "2-3", memory_bytes = 1073741824 },
]
llcs = [{ id = 0, cpus = "0-1", node = 0, size_bytes = 8388608 }, { id = 1, cpus = "2-3", node = 1, size_bytes = 8388608 }]
cores = [{ id = 0, cpus = "0" }, { id = 1, cpus = "1" }, { id = 2, cpus = "2" }, { id = 3, cpus = "3" }]
cpus = [{ id = 0 }, { id = 1 }, { id = 2 }, { id = 3 }]
"#;

const PROFILE: &str = r#"
version = 1
name = "hog"
class = 9
[[phase]]
instructions = 2000000000.0
core_cycles_per_instruction = 0.5
overlap = 2.0
footprint_bytes = 100000000.0
llc_accesses_per_1000 = 40.0
[phase.curve]
cache_bytes = [1048576, 16777216]
misses_per_1000 = [30.0, 10.0]
"#;

const WORKLOAD: &str = "name = \"w\"\n[[job]]\nname = \"hog\"\ncommand = [\"hog\"]\nprofile = \"hog\"\ncopies = 6\nclass = 9\n";

/// A folder with a machine, a profile and a workload.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("m.toml", MACHINE), ("hog.profile.toml", PROFILE), ("w.toml", WORKLOAD)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn command(folder: &tempfile::TempDir, more: &[&str]) -> std::process::Command {
    let args = ["run", "w.toml", "--host", "sim", "--machine", "m.toml", "--quiet"];
    let mut command = tool::command(&[&args, more].concat());
    command.current_dir(folder.path());
    command
}

fn run(folder: &tempfile::TempDir, more: &[&str]) -> std::process::Output {
    command(folder, more).output().expect("it starts")
}

#[test]
fn the_same_seed_writes_the_same_journal_and_another_seed_a_different_one() {
    let folder = folder();
    for (seed, out) in [("3", "a"), ("3", "b"), ("4", "c")] {
        let output = run(&folder, &["--seed", seed, "--out", out, "-p", "dfs"]);
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
    }
    let journal = |out: &str| {
        let path = folder.path().join(out).join("journal.jsonl");
        std::fs::read(path).expect("a journal")
    };
    assert_eq!(journal("a"), journal("b"));
    assert_ne!(journal("a"), journal("c"));
}

#[test]
fn the_journal_of_a_simulated_run_can_be_replayed_explained_and_reported() {
    let folder = folder();
    let output = run(&folder, &["--out", "a", "-p", "dfs"]);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let journal = "a/journal.jsonl";
    for args in [&["replay", journal, "-p", "dfs"][..], &["explain", journal], &["report", journal]]
    {
        let output = tool::command(args).current_dir(folder.path()).output().expect("it starts");
        assert!(output.status.success(), "{args:?}: {}", tool::text(&output.stderr));
        assert!(!output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn calibrate_derives_the_limits_of_divided_from_runs_of_programs_alone() {
    let folder = folder();
    let alone = tool::root().join("workloads/papers/divided/alone.toml");
    let alone = alone.to_str().expect("a name");
    let evenkeel =
        |args: &[&str]| tool::command(args).current_dir(folder.path()).output().expect("it starts");
    let sim = ["--host", "sim", "--machine", "xeon-2x4", "-p", "linux", "--quiet"];
    let ran = evenkeel(&[&["run", alone, "--out", "alone"][..], &sim].concat());
    assert!(ran.status.success(), "{}", tool::text(&ran.stderr));
    let first = evenkeel(&["calibrate", "alone", "--json"]);
    let limits: serde_json::Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(tool::schema_errors("calibrate.schema.json", &limits), [""; 0]);
    let again = evenkeel(&["calibrate", "alone", "alone/journal.jsonl", "--json"]);
    assert_eq!(tool::text(&again.stdout), tool::text(&first.stdout));
    assert_eq!(
        tool::text(&again.stderr),
        "evenkeel: alone/journal.jsonl is the same run as alone: it counts once\n"
    );
    let other = ["run", alone, "--seed", "1", "--out", "other"];
    assert!(evenkeel(&[&other[..], &sim].concat()).status.success());
    let both = |runs: [&str; 2]| {
        let output = evenkeel(&["calibrate", runs[0], runs[1], "--json"]);
        assert_eq!((output.status.code(), tool::text(&output.stderr)), (Some(0), String::new()));
        tool::text(&output.stdout)
    };
    assert_eq!(both(["alone", "other"]), both(["other", "alone"]));
    let limit = |name: &str| limits[name].as_u64().expect("a limit");
    let above = |name: &str, rate: &str| {
        let programs = limits["programs"].as_array().expect("programs");
        let over = programs.iter().filter(|one| limit(name) < one[rate].as_u64().expect("a rate"));
        over.count()
    };
    assert_eq!(limits["programs"].as_array().map(Vec::len), Some(11));
    for (name, rate) in [("th_sq", "sq_per_s"), ("th_ref", "ref_per_s")] {
        assert!((1..11).contains(&above(name, rate)), "{limits}");
    }
    let policy = format!("divided[th_sq={},th_ref={}]", limit("th_sq"), limit("th_ref"));
    assert_eq!(limits["policy"], policy);
    let used = run(&folder, &["-p", &policy, "--out", "used"]);
    assert!(used.status.success(), "{}", tool::text(&used.stderr));

    let together = run(&folder, &["-p", "linux", "--out", "together"]);
    assert!(together.status.success(), "{}", tool::text(&together.stderr));
    let mut calibrate = tool::command(&["calibrate", "together"]);
    let text = tool::rejection(calibrate.current_dir(folder.path()));
    assert!(text.contains("ran at the same time"), "{text}");
}

#[test]
fn the_oracle_explains_its_search_and_the_distance_to_the_lower_bound() {
    let folder = folder();
    let output = run(&folder, &["--policy", "oracle", "--out", "a"]);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let explain = ["explain", "a/journal.jsonl"];
    let explained = tool::command(&explain).current_dir(folder.path()).output().expect("it starts");
    let text = tool::text(&explained.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the oracle simulated this run"), "{text}");
    assert!(text.contains("above the lower bound of all placements"), "{text}");
}

/// A case is `OPTIONS`, `FILE: FROM => TO` or `OPTIONS ; FILE: FROM => TO`, where ` | ` is a line break.
#[test]
fn invalid_simulations_are_rejected_before_any_run() {
    let expected = expect![[r#"
        w.toml: command = ["hog"] | profile = "hog" => command = ["other"]
            evenkeel: w.toml:2: job "hog": its program has no profile, and the simulator cannot run it: name one with profile = "NAME", or measure it with evenkeel profile
        hog.profile.toml: instructions = 2000000000.0 |  =>
            evenkeel: w.toml:2: job "hog": profile "hog", phase 1: it has no instructions, so its end is unknown; set instructions
        hog.profile.toml: instructions = 2000000000.0 => instructions = 0.0
            evenkeel: w.toml:2: job "hog": profile "hog", phase 1: the phase has no instructions; remove the phase, or set instructions
        hog.profile.toml: [30.0, 10.0] => [10.0, 30.0]
            evenkeel: w.toml:2: job "hog": profile "hog", phase 1: misses rise from 1024 KiB to 16384 KiB of cache
        hog.profile.toml: footprint_bytes = 1 => footprint_bytes = 99
            evenkeel: w.toml:2: job "hog" needs 9.2 GiB of memory, the machine has 2.0 GiB
        w.toml: class = 9 => restart = "until-others-done"
            evenkeel: w.toml:2:1: every job is restarted until the others are done, so the run never ends; let one job end
        w.toml: class = 9 => cpus = "9"
            evenkeel: w.toml:2: job "hog": this machine has no CPUs 9: it has 0-3
        m.toml: cpus = "2-3", node = 1 => cpus = "", node = 1
            evenkeel: m.toml:7:84: cpus: llc1 has no CPU: remove the entry
        m.toml: format_version = 1 => format_version = 1 | kernel = "linux-3.0"
            evenkeel: m.toml: there is no model of the kernel "linux-3.0": write linux-6.18, linux-4.2, linux-2.6.27
        hog.profile.toml: instructions = 2000000000.0 => instructions = 9e17
            evenkeel: w.toml:2: job "hog" would run 28 years alone on this machine: correct the values of its profile, or end the run earlier with --time-limit
        --time-limit 5s ; hog.profile.toml: [30.0, 10.0] => [1e300, 1e300]
            evenkeel: w.toml:2: job "hog" would run longer than a million years alone on this machine: correct the values of its profile
        hog.profile.toml: core_cycles_per_instruction = 0.5 => core_cycles_per_instruction = 0
            evenkeel: w.toml:2: job "hog": profile "hog", phase 1: its core_cycles_per_instruction is 0: no core needs fewer than 0.05 cycles per instruction
        w.toml: class = 9 => cpus = "1-99"
            evenkeel: w.toml:2: job "hog": this machine has no CPUs 4-99: it has 0-3
        --grace 5s
            evenkeel: --grace applies to live runs only; remove it or use --host live
        w.toml: class = 9 => memory = "bind:7"
            evenkeel: w.toml:2: job "hog" names node7, which this machine does not have: it has nodes 0-1
        w.toml: class = 9 => nodes = "1,3"
            evenkeel: w.toml:2: job "hog" names node3, which this machine does not have: it has nodes 0-1
        m.toml: cpus = [{ id => accesses = [ |   { from_node = 0, to_node = 0, latency = { ns = 90, source = "assumed" } }, |   { from_node = 0, to_node = 1, latency = { ns = 30, source = "assumed" } }, | ] | cpus = [{ id
            evenkeel: m.toml:11:43: the access from node0 to node1 has a latency of 30 ns, less than the 90 ns of local memory
        --kernel linux-2.6.27 --numa-balancing on
            evenkeel: m.toml: linux-2.6.27 cannot balance between nodes (kernels since 3.13 can): remove numa_balancing
    "#]];
    tool::check_cases(&expected, |case| {
        let (options, change) = match case.split_once(" ; ") {
            Some((options, change)) => (options, change),
            None if case.starts_with("--") => (case, ""),
            None => ("", case),
        };
        let folder = folder();
        if let Some((file, replacement)) = change.split_once(": ") {
            let (from, to) = replacement.split_once(" =>").expect("FROM => TO");
            let path = folder.path().join(file);
            let text = std::fs::read_to_string(&path).expect("it exists");
            let (from, to) = (from.replace(" | ", "\n"), to.trim_start().replace(" | ", "\n"));
            assert!(text.contains(&from), "{from}");
            std::fs::write(path, text.replacen(&from, &to, 1)).expect("written");
        }
        let options: Vec<&str> = options.split_whitespace().chain(["--out", "out"]).collect();
        let line = tool::rejection(&mut command(&folder, &options));
        assert!(!folder.path().join("out").exists(), "a run was started");
        line
    });
}
