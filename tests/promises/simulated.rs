//! The simulated machine keeps its own rules under every policy, whatever goes wrong; the same seed writes
//! the same bytes; what cannot be simulated is refused before anything runs.

use std::sync::Arc;

use base::{JobId, Nanos, Rng};
use engine::{Engine, RunError, Sink, TurnRecord};
use expect_test::{Expect, expect};
use host_sim::faults::Faults;
use host_sim::kernel::KernelVersion;
use host_sim::{SimHost, SimOptions};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use program::{Command, Ending, Job, MemoryPolicy, Profile};
use sched::JobEvent;
use topology::Machine;

use crate::{seeds, tool};

/// Machines of several shapes: one node, several, several caches in a node, siblings, no caches told.
const MACHINES: &[&str] = &[
    "cores=4",
    "nodes=2 cores=4",
    "nodes=4 llcs=2 cores=2",
    "nodes=2 llcs=2 cores=2 smt=2",
    "nodes=2 cores=2 llc=0",
    "cores=1",
];

/// A world that hangs on its seed alone.
struct World {
    machine: Machine,
    jobs: Vec<Job>,
    options: SimOptions,
    policy: String,
}

fn world(seed: u64) -> World {
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
        "lost=0.3",
        "starved=0.5",
        "refused=0.3,busy=0.5",
        "noisy=2",
        "unplugged=1s",
        "lost=0.2,starved=0.2,refused=0.2,busy=0.3,noisy=3,unplugged=700ms",
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
    World { machine, jobs, options, policy }
}

/// From one that stays in its caches to one that streams; the second one sleeps, the third has two phases.
fn profile(nth: usize) -> Profile {
    let figure = |value| ProfileValue::new(value, ValueSource::Declared);
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
        share: figure(1.0).expect("a share"),
        instructions: figure(1e9 * (1.0 + nth as f64)),
        core_cycles_per_instruction: figure(0.5),
        overlap: figure(2.0),
        footprint_bytes: figure(6e7 * nth as f64),
        llc_accesses: figure(misses * 2.0),
        burst_instructions: if nth == 1 { figure(2e8) } else { None },
        sleep_ns: if nth == 1 { figure(5e7) } else { None },
        curve: curve.expect("a curve"),
        ..Phase::default()
    };
    let halves = |share| Phase { share: figure(share).expect("a share"), ..phase.clone() };
    let phases = if nth == 2 {
        let small = Phase { footprint_bytes: figure(2e7), ..halves(0.5) };
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

/// Counts how often each job ended for good.
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
fn whatever_goes_wrong_under_whichever_policy_the_machine_keeps_its_rules_and_every_job_ends() {
    for seed in seeds::upto(300) {
        let world = world(seed);
        let policy = policy::build(&world.policy, seed).expect("a policy");
        let options = SimOptions { interval: policy.interval(), ..world.options };
        let faults = options.faults;
        let told = format!("seed {seed}: {} {options:?}", world.policy);
        let mut host = SimHost::new(&world.machine, &world.jobs, options).expect("it can run");
        let mut engine = Engine::new(world.machine, world.jobs.clone(), policy);
        let mut ends = Ends::default();
        match engine::run(&mut host, &mut engine, &mut [&mut ends]) {
            // Whoever is told nothing for long may say that it cannot go on.
            Err(RunError::Aborted(_)) if 0.0 < faults.lost + faults.starved => continue,
            result => result.unwrap_or_else(|error| panic!("{told}: {error}")),
        };
        for job in &world.jobs {
            let for_good = ends.0.iter().filter(|(id, again)| *id == job.id && !again).count();
            assert!(for_good <= 1, "{told}: {} ended {for_good} times", job.name);
            let must = job.ending != Ending::RestartUntilOthersDone;
            assert!(!must || for_good == 1, "{told}: {} never ended", job.name);
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

/// A folder with a machine, a profile and a workload that go together.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("m.toml", MACHINE), ("hog.profile.toml", PROFILE), ("w.toml", WORKLOAD)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn run(folder: &tempfile::TempDir, more: &[&str]) -> std::process::Output {
    let args = ["run", "w.toml", "--host", "sim", "--machine", "m.toml", "--quiet"];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    tool::command(&args).current_dir(folder.path()).output().expect("it starts")
}

#[test]
fn the_same_seed_writes_the_same_journal_and_another_seed_another() {
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
fn a_simulated_run_is_replayed_and_explained_like_any_other() {
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
fn limits_of_divided_are_found_in_runs_of_programs_alone() {
    let folder = folder();
    let alone = tool::root().join("workloads/papers/divided/alone.toml");
    let alone = alone.to_str().expect("a name");
    let evenkeel =
        |args: &[&str]| tool::command(args).current_dir(folder.path()).output().expect("it starts");
    let sim = ["--host", "sim", "--machine", "xeon-2x4", "-p", "linux", "--quiet"];
    let ran = evenkeel(&[&["run", alone, "--out", "alone"][..], &sim].concat());
    assert!(ran.status.success(), "{}", tool::text(&ran.stderr));
    let first = evenkeel(&["calibrate", "alone", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&first.stdout).expect("JSON");
    let schema = std::fs::read_to_string(tool::root().join("docs/calibrate.schema.json"));
    let schema = serde_json::from_str(&schema.expect("it ships")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&told), "{told}");
    let again = evenkeel(&["calibrate", "alone", "alone/journal.jsonl", "--json"]);
    assert_eq!(tool::text(&again.stdout), tool::text(&first.stdout));
    assert_eq!(
        tool::text(&again.stderr),
        "evenkeel: alone/journal.jsonl is the same run as alone: it counts once\n"
    );
    let other = ["run", alone, "--seed", "1", "--out", "other"];
    assert!(evenkeel(&[&other[..], &sim].concat()).status.success());
    let both = |runs: [&str; 2]| {
        let said = evenkeel(&["calibrate", runs[0], runs[1], "--json"]);
        assert_eq!((said.status.code(), tool::text(&said.stderr)), (Some(0), String::new()));
        tool::text(&said.stdout)
    };
    assert_eq!(both(["alone", "other"]), both(["other", "alone"]));
    let limit = |name: &str| told[name].as_u64().expect("a limit");
    let above = |name: &str, rate: &str| {
        let programs = told["programs"].as_array().expect("programs");
        let over = programs.iter().filter(|one| limit(name) < one[rate].as_u64().expect("a rate"));
        over.count()
    };
    assert_eq!(told["programs"].as_array().map(Vec::len), Some(11));
    for (name, rate) in [("th_sq", "sq_per_s"), ("th_ref", "ref_per_s")] {
        assert!((1..11).contains(&above(name, rate)), "{told}");
    }
    let policy = format!("divided[th_sq={},th_ref={}]", limit("th_sq"), limit("th_ref"));
    assert_eq!(told["policy"], policy);
    let used = run(&folder, &["-p", &policy, "--out", "used"]);
    assert!(used.status.success(), "{}", tool::text(&used.stderr));

    let together = run(&folder, &["-p", "linux", "--out", "together"]);
    assert!(together.status.success(), "{}", tool::text(&together.stderr));
    let said = evenkeel(&["calibrate", "together"]);
    let text = tool::text(&said.stderr);
    assert_eq!((said.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    assert!(text.contains("ran at the same time"), "{text}");
}

#[test]
fn the_oracle_says_what_it_tried_and_how_far_from_a_bound_it_ended() {
    let folder = folder();
    let told = run(&folder, &["--policy", "oracle", "--out", "a"]);
    assert!(told.status.success(), "{}", tool::text(&told.stderr));
    let explain = ["explain", "a/journal.jsonl"];
    let explained = tool::command(&explain).current_dir(folder.path()).output().expect("it starts");
    let text = tool::text(&explained.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the oracle simulated this run"), "{text}");
    assert!(text.contains("above the lower bound of all placements"), "{text}");
}

/// The refusal after one change to one of the files, or with more arguments.
fn refused(change: (&str, &str, &str), more: &[&str], expected: Expect) {
    let folder = folder();
    let (file, from, to) = change;
    if !file.is_empty() {
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert!(text.contains(from), "{from}");
        std::fs::write(path, text.replacen(from, to, 1)).expect("written");
    }
    let output = run(&folder, &[&["--out", "out"], more].concat());
    let said = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!folder.path().join("out").exists(), "nothing is run");
    expected.assert_eq(said.trim_end());
}

#[test]
fn what_cannot_be_simulated_is_refused_before_anything_runs() {
    let none = ("", "", "");
    refused(
        ("w.toml", "command = [\"hog\"]\nprofile = \"hog\"", "command = [\"other\"]"),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog": its program has no profile, and the simulator cannot run it: name one with profile = "NAME", or measure it with evenkeel profile"#
        ]],
    );
    refused(
        ("hog.profile.toml", "instructions = 2000000000.0\n", ""),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog": profile "hog", phase 1: it has no instructions, so its end is unknown; set instructions"#
        ]],
    );
    refused(
        ("hog.profile.toml", "instructions = 2000000000.0", "instructions = 0.0"),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog": profile "hog", phase 1: the phase has no instructions; remove the phase, or set instructions"#
        ]],
    );
    refused(
        ("hog.profile.toml", "[30.0, 10.0]", "[10.0, 30.0]"),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog": profile "hog", phase 1: misses rise from 1024 KiB to 16384 KiB of cache"#
        ]],
    );
    refused(
        ("hog.profile.toml", "footprint_bytes = 1", "footprint_bytes = 99"),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog" needs 9.2 GiB of memory, the machine has 2.0 GiB"#
        ]],
    );
    refused(
        ("w.toml", "class = 9", "restart = \"until-others-done\""),
        &[],
        expect![
            "evenkeel: w.toml:2:1: every job is restarted until the others are done, so the run never ends; let one job end"
        ],
    );
    refused(
        ("w.toml", "class = 9", "cpus = \"9\""),
        &[],
        expect![[r#"evenkeel: w.toml:2: job "hog": this machine has no CPUs 9: it has 0-3"#]],
    );
    refused(
        ("m.toml", "cpus = \"2-3\", node = 1", "cpus = \"\", node = 1"),
        &[],
        expect!["evenkeel: m.toml:7:84: cpus: llc1 has no CPU: remove the entry"],
    );
    refused(
        ("m.toml", "format_version = 1", "format_version = 1\nkernel = \"linux-3.0\""),
        &[],
        expect![[
            r#"evenkeel: m.toml: there is no model of the kernel "linux-3.0": write linux-6.18, linux-4.2, linux-2.6.27"#
        ]],
    );
    refused(
        ("hog.profile.toml", "instructions = 2000000000.0", "instructions = 9e17"),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog" would run 28 years alone on this machine: correct the values of its profile, or end the run earlier with --time-limit"#
        ]],
    );
    refused(
        ("hog.profile.toml", "[30.0, 10.0]", "[1e300, 1e300]"),
        &["--time-limit", "5s"],
        expect![[
            r#"evenkeel: w.toml:2: job "hog" would run longer than a million years alone on this machine: correct the values of its profile"#
        ]],
    );
    refused(
        (
            "hog.profile.toml",
            "core_cycles_per_instruction = 0.5",
            "core_cycles_per_instruction = 0",
        ),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog": profile "hog", phase 1: its core_cycles_per_instruction is 0: no core needs fewer than 0.05 cycles per instruction"#
        ]],
    );
    refused(
        ("w.toml", "class = 9", "cpus = \"1-99\""),
        &[],
        expect![[r#"evenkeel: w.toml:2: job "hog": this machine has no CPUs 4-99: it has 0-3"#]],
    );
    refused(
        none,
        &["--grace", "5s"],
        expect!["evenkeel: --grace applies to live runs only; remove it or use --host live"],
    );
    refused(
        ("w.toml", "class = 9", "memory = \"bind:7\""),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog" names node7, which this machine does not have: it has nodes 0-1"#
        ]],
    );
    refused(
        ("w.toml", "class = 9", "nodes = \"1,3\""),
        &[],
        expect![[
            r#"evenkeel: w.toml:2: job "hog" names node3, which this machine does not have: it has nodes 0-1"#
        ]],
    );
    refused(
        (
            "m.toml",
            "cpus = [{ id",
            "accesses = [\n  { from_node = 0, to_node = 0, latency = { ns = 90, source = \"assumed\" } },\n  { from_node = 0, to_node = 1, latency = { ns = 30, source = \"assumed\" } },\n]\ncpus = [{ id",
        ),
        &[],
        expect![
            "evenkeel: m.toml:11:43: the access from node0 to node1 has a latency of 30 ns, less than the 90 ns of local memory"
        ],
    );
    refused(
        none,
        &["--kernel", "linux-2.6.27", "--numa-balancing", "on"],
        expect![
            "evenkeel: m.toml: linux-2.6.27 cannot balance between nodes (kernels since 3.13 can): remove numa_balancing"
        ],
    );
}
