//! Simulated runs: the machine keeps its rules under every policy and fault, a run with the same seed writes the same
//! bytes, and invalid machines, profiles and workloads are rejected before any run.

use std::sync::Arc;

use base::{JobId, Nanos, Rng};
use engine::{Engine, RunError, Sink, TurnRecord};
use host_sim::faults::Faults;
use host_sim::kernel::KernelVersion;
use host_sim::{SimHost, SimOptions};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use program::{Command, Ending, Job, MemoryPolicy, Profile, Section, Sections, WorkPart};
use sched::JobEvent;
use tests::dir::Dir;
use tests::{tool, transcript};
use topology::{AttributeSource, Machine, QuantumAttributes, QueueScope, SourcedValue};

use crate::seeds;

/// Machines with one node, several nodes, several LLC domains in a node, SMT siblings, and unknown caches.
const MACHINES: &[&str] = &[
    "cores=4",
    "nodes=2 cores=4",
    "nodes=4 llcs=2 cores=2",
    "nodes=2 llcs=2 cores=2 smt=2",
    "nodes=2 cores=2 llc=0",
    "cores=1",
];

/// A simulation chosen by its seed.
pub struct Simulation {
    pub machine: Machine,
    pub jobs: Vec<Job>,
    pub options: SimOptions,
    pub policy: String,
}

pub fn simulation(seed: u64) -> Simulation {
    let mut rng = Rng::new(seed);
    let mut one_of = |n: usize| rng.below(n as u64) as usize;
    let mut section_rng = Rng::new(seed ^ SECTION_SEED);
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
            2 => Ending::RestartUntilAllDone,
            _ => Ending::Exit,
        };
        job.sections = sections(job.threads, &mut section_rng);
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
    if jobs.iter().all(|job| !job.ending.is_awaited()) {
        jobs[0].ending = Ending::Exit;
    }
    let kernel = KernelVersion::ALL[one_of(3)];
    let faults = [
        "",
        "samples-lost=0.3",
        "counters-absent=0.5",
        "requests-rejected=0.3,pages-busy=0.5",
        "unmanaged-programs=2",
        "cpus-offline=1s",
        "samples-lost=0.2,counters-absent=0.2,requests-rejected=0.2,pages-busy=0.3,unmanaged-programs=3,cpus-offline=700ms",
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
        exact: one_of(8) == 0,
        faults: Faults::parse(faults[one_of(faults.len())]).expect("faults"),
        ..SimOptions::default()
    };
    let machine = match one_of(3) {
        0 => with_quantum(&machine, one_of(2) == 0, one_of(2) == 0),
        _ => machine,
    };
    Simulation { machine, jobs, options, policy }
}

/// Seed of the sections, so that they do not change the other random choices.
const SECTION_SEED: u64 = 0x5ec7;

/// Returns sections for half of the jobs with several threads: a team or a pipeline after a serial section.
fn sections(n_threads: u32, rng: &mut Rng) -> Option<Sections> {
    let part = |work: u64| WorkPart { work: 1 + work as u32, phase: None };
    let choice = rng.below(6);
    let serial = Section::Team { threads: Some(1), part: part(rng.below(3)) };
    let team = Section::Team { threads: None, part: part(9) };
    let stages = (0..n_threads).map(|_| part(rng.below(4))).collect();
    let items = 1 + rng.below(20) as u32;
    let pipeline = Section::Pipeline { stages, items, queue: 1 + rng.below(3) as u32 };
    let rounds = 1 + rng.below(9) as u32;
    let sections = match choice {
        0 => vec![serial, team],
        1 => vec![serial, pipeline],
        2 => {
            let parts = (0..n_threads).map(|_| part(rng.below(4))).collect();
            vec![serial, Section::UnlikeTeam { parts }]
        }
        _ => return None,
    };
    (2 <= n_threads).then_some(Sections { rounds, sections })
}

/// Returns a machine of the quantum grain.
fn with_quantum(machine: &Machine, has_llc_queues: bool, is_free: bool) -> Machine {
    let value = |value| Some(SourcedValue { value, source: AttributeSource::Assumed });
    let mut parts = machine.parts().clone();
    parts.system.grain = Some("quantum".to_owned());
    parts.system.quantum = Some(QuantumAttributes {
        queue: Some(if has_llc_queues { QueueScope::Llc } else { QueueScope::Cpu }),
        slice_ns: value(3_000_000),
        switch_cost_ns: value(if is_free { 0 } else { 20_000 }),
        wakeup_preemption: Some(!is_free),
    });
    Machine::new(parts).expect("still a machine")
}

/// Returns a profile, from a program that fits its caches to a program that streams. The second profile sleeps, and the
/// third has two phases.
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
        footprint_bytes: declared(6e7 * nth as f64 + 8192.0),
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
    for seed in seeds::upto(400) {
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
            let must_end = job.ending.is_awaited();
            assert!(!must_end || n_final == 1, "{context}: {} never ended", job.name);
        }
    }
}

/// The values of one job and of one node in all samples, without the numbers of job and threads.
#[derive(Default)]
struct History {
    job: JobId,
    lines: Vec<String>,
}

impl Sink for History {
    fn record(&mut self, record: &TurnRecord<'_>) -> std::io::Result<()> {
        let sample = &record.sample;
        for task in sample.tasks.iter().filter(|task| task.job == self.job) {
            let thread = task.task.tid - task.process;
            let values = (task.cpu_time, task.wait, task.last_cpu, task.counters);
            self.lines.push(format!("{} thread {thread} {values:?}", record.turn.at));
        }
        let memory = sample.memory.iter().filter(|memory| memory.job == self.job);
        self.lines.extend(memory.map(|memory| format!("{} {:?}", memory.at, memory.nodes)));
        // While the job does not run, the node has no accesses.
        let nodes = sample.nodes.iter().filter(|node| node.node.0 == 0);
        let counted = nodes.map(|node| format!("{:?} {:?}", node.controller_ops, node.read_bytes));
        let has_started = !self.lines.is_empty();
        self.lines.extend(counted.filter(|_| has_started));
        for event in &sample.jobs {
            if let JobEvent::Ended(job, exit) = event
                && *job == self.job
            {
                self.lines.push(format!("{} {exit:?}", record.turn.at));
            }
        }
        Ok(())
    }
}

/// Returns the history of the last job until its end.
fn history_of_last(machine: &Machine, jobs: &[Job], seed: u64) -> Vec<String> {
    let interval = Some(Nanos::from_millis(100));
    let faults = Faults::parse("counters-absent=0.1").expect("faults");
    let options = SimOptions { seed, interval, faults, ..SimOptions::default() };
    let mut host = SimHost::new(machine, jobs, options).expect("it can run");
    let policy = policy::build("linux", seed).expect("a policy");
    let mut engine = Engine::new(machine.clone(), jobs.to_vec(), policy);
    let mut history = History { job: jobs[jobs.len() - 1].id, ..History::default() };
    engine::run(&mut host, &mut engine, &mut [&mut history]).expect("a run");
    let end = history.lines.iter().rposition(|line| line.contains("status")).expect("an exit");
    history.lines.truncate(end + 1);
    history.lines
}

/// The jobs run on different nodes and share nothing. The job sleeps, wakes up on one of several idle CPUs, and its
/// counters have noise.
#[test]
fn an_unrelated_job_changes_no_value_of_a_job() {
    let machine = Machine::synthetic("nodes=2 cores=6").expect("a machine");
    for seed in seeds::upto(20) {
        let on_node = |nth: usize, name: &str, node: &str, start_ms: u64| {
            let mut sleeper = profile(1);
            sleeper.phases[0].instructions = ProfileValue::new(1e10, ValueSource::Declared);
            let mut job = job(nth, &Arc::new(sleeper));
            job.name = name.to_owned();
            job.nodes = Some(node.parse().expect("a node"));
            job.start = Nanos::from_millis(start_ms);
            job.threads = 9;
            job
        };
        let alone = history_of_last(&machine, &[on_node(0, "job", "0", 500)], seed);
        assert!(50 < alone.len(), "{alone:?}");
        for start_ms in [0, 333, 500] {
            let jobs = [on_node(0, "other", "1", start_ms), on_node(1, "job", "0", 500)];
            let together = history_of_last(&machine, &jobs, seed);
            assert_eq!(together, alone, "seed {seed}, the other job starts at {start_ms} ms");
        }
    }
}

const MACHINE: &str = r#"
format_version = 2
nodes = [
  { id = 0, cpus = "0-1", memory_bytes = 1073741824 },
  { id = 1, cpus = "2-3", memory_bytes = 1073741824 },
]
llcs = [{ id = 0, cpus = "0-1", node = 0, size_bytes = 8388608 }, { id = 1, cpus = "2-3", node = 1, size_bytes = 8388608 }]
cores = [{ id = 0, cpus = "0" }, { id = 1, cpus = "1" }, { id = 2, cpus = "2" }, { id = 3, cpus = "3" }]
cpus = [{ id = 0 }, { id = 1 }, { id = 2 }, { id = 3 }]
"#;

const PROFILE: &str = r#"
version = 2
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

/// A machine, a profile and a workload.
pub const FILES: [(&str, &str); 3] =
    [("m.toml", MACHINE), ("hog.profile.toml", PROFILE), ("w.toml", WORKLOAD)];

const RUN: [&str; 7] = ["run", "w.toml", "--host", "sim", "--machine", "m.toml", "--quiet"];

fn run(dir: &Dir, args: &[&str]) -> String {
    dir.success(&[&RUN, args].concat())
}

#[test]
fn equal_seeds_write_equal_journals_and_different_seeds_different_journals() {
    let dir = Dir::with(&FILES);
    for (seed, out) in [("3", "a"), ("3", "b"), ("4", "c")] {
        run(&dir, &["--seed", seed, "--out", out, "-p", "dfs"]);
    }
    let journal = |out: &str| dir.read(&format!("{out}/journal.jsonl"));
    assert_eq!(journal("a"), journal("b"));
    assert_ne!(journal("a"), journal("c"));
}

/// Writes a second profile and a workload in which each job restarts until both have ended once.
fn write_restarting(dir: &Dir, (name, change): (&str, (&str, &str))) {
    let profile = PROFILE.replace("\"hog\"", &format!("{name:?}")).replace(change.0, change.1);
    dir.write(&format!("{name}.profile.toml"), profile);
    let job = |name: &str| {
        format!("[[job]]\nname = {name:?}\ncommand = [{name:?}]\nprofile = {name:?}\n")
    };
    let defaults = "[defaults]\nrestart = \"until-all-done\"\n";
    dir.write("w.toml", [defaults, &job(name), &job("hog")].concat());
}

#[test]
fn the_first_exit_of_a_simulated_job_that_restarts_until_all_are_done_is_its_result() {
    let dir = Dir::with(&FILES);
    write_restarting(&dir, ("big", ("footprint_bytes = 100000000.0", "footprint_bytes = 2.1e9")));
    let output = dir.run(&[&RUN[..], &["--out", "out"]].concat());
    let error = tool::text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(
        error.contains("1 of 2 jobs failed (big: oom-killed), 1 ended with status 0"),
        "{error}"
    );
    let compare = dir.run(&["compare", "w.toml", "--machine", "m.toml", "-p", "linux,spread"]);
    let table = tool::text(&compare.stdout);
    assert!(table.contains("job big: OOM-killed"), "{table}");
}

#[test]
fn an_exact_run_is_recorded_as_such_and_ends_within_a_thousandth_of_the_usual_one() {
    let dir = Dir::with(&FILES);
    // The affinity of each job is fixed, so that no decision depends on small differences.
    let bound = |cpu: usize| {
        format!(
            "[[job]]\nname = \"hog{cpu}\"\ncommand = [\"hog\"]\nprofile = \"hog\"\ncpus = \"{cpu}\"\n"
        )
    };
    dir.write("w.toml", (0..4).map(bound).collect::<String>());
    let end = |options: &[&str], out: &str| {
        let json: serde_json::Value =
            serde_json::from_str(&run(&dir, &[options, &["--json", "--out", out]].concat()))
                .expect("JSON");
        json["run"]["makespan_ns"].as_f64().expect("a time")
    };
    let (usual, exact) = (end(&[], "usual"), end(&["--exact"], "exact"));
    assert!((usual / exact - 1.0).abs() < 1e-3, "{usual} {exact}");
    let is_recorded =
        |out: &str| dir.read(&format!("{out}/journal.jsonl")).contains("\"exact\":\"yes\"");
    assert_eq!([is_recorded("usual"), is_recorded("exact")], [false, true]);
    let text = dir.rejection(&["run", "w.toml", "--exact"]);
    assert!(text.contains("--exact") && text.contains("--host sim"), "{text}");
}

#[test]
fn the_journal_of_a_simulated_run_can_be_replayed_explained_and_reported() {
    let dir = Dir::with(&FILES);
    run(&dir, &["--out", "a", "-p", "dfs"]);
    let journal = "a/journal.jsonl";
    for args in [&["replay", journal, "-p", "dfs"][..], &["explain", journal], &["report", journal]]
    {
        assert!(!dir.success(args).is_empty(), "{args:?}");
    }
}

#[test]
fn calibrate_derives_the_limits_of_divided_from_runs_of_programs_alone() {
    let dir = Dir::with(&FILES);
    let alone = tool::root().join("workloads/papers/divided/alone.toml");
    let alone = alone.to_str().expect("a name");
    let sim = ["--host", "sim", "--machine", "xeon-2x4", "-p", "linux", "--quiet"];
    dir.success(&[&["run", alone, "--out", "alone"][..], &sim].concat());
    let first = dir.success(&["calibrate", "alone", "--json"]);
    let limits: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(tool::schema_errors("calibrate.schema.json", &limits), [""; 0]);
    let repeated = dir.run(&["calibrate", "alone", "alone/journal.jsonl", "--json"]);
    // The command that repeats the result names the arguments.
    let without_command = |json: &str| {
        let lines = json.lines().filter(|line| !line.contains("\"command\": "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_command(&tool::text(&repeated.stdout)), without_command(&first));
    assert_eq!(
        tool::text(&repeated.stderr),
        "evenkeel: alone/journal.jsonl is the same run as alone: it counts once\n"
    );
    let other = ["run", alone, "--seed", "1", "--out", "other"];
    dir.success(&[&other[..], &sim].concat());
    let both = |runs: [&str; 2]| {
        let output = dir.run(&["calibrate", runs[0], runs[1], "--json"]);
        assert_eq!((output.status.code(), tool::text(&output.stderr)), (Some(0), String::new()));
        without_command(&tool::text(&output.stdout))
    };
    assert_eq!(both(["alone", "other"]), both(["other", "alone"]));
    let limit = |name: &str| limits[name].as_u64().expect("a limit");
    let above = |name: &str, rate: &str| {
        let programs = limits["programs"].as_array().expect("programs");
        let over = programs.iter().filter(|one| limit(name) < one[rate].as_u64().expect("a rate"));
        over.count()
    };
    assert_eq!(limits["programs"].as_array().map(Vec::len), Some(11));
    for (name, rate) in [("th_sq", "queue_full_per_s"), ("th_ref", "llc_references_per_s")] {
        assert!((1..11).contains(&above(name, rate)), "{limits}");
    }
    let policy = format!("divided[th_sq={},th_ref={}]", limit("th_sq"), limit("th_ref"));
    assert_eq!(limits["policy"], policy);
    run(&dir, &["-p", &policy, "--out", "used"]);
    run(&dir, &["-p", "linux", "--out", "together"]);
    let text = dir.rejection(&["calibrate", "together"]);
    assert!(text.contains("ran at the same time"), "{text}");
}

#[test]
fn the_oracle_explains_its_search_and_the_distance_to_the_lower_bound() {
    let dir = Dir::with(&FILES);
    run(&dir, &["--policy", "oracle", "--out", "a"]);
    let explained = dir.success(&["explain", "a/journal.jsonl"]);
    let text = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the oracle simulated this run"), "{text}");
    assert!(text.contains("above the lower bound of all placements"), "{text}");
}

/// Checks the cases of a transcript. A step is `simulate OPTIONS`, `simulate FILE: FROM => TO` or `simulate OPTIONS ;
/// FILE: FROM => TO`.
#[test]
fn invalid_simulations_are_rejected_before_any_run() {
    let set_up = |dir: &Dir| FILES.iter().for_each(|(name, text)| dir.write(name, text));
    transcript::check("simulations", set_up, |dir, step| {
        let case = step.strip_prefix("simulate ").expect("simulate");
        let (options, change) = match case.split_once(" ; ") {
            Some((options, change)) => (options, change),
            None if case.starts_with("--") => (case, ""),
            None => ("", case),
        };
        set_up(dir);
        if let Some((file, replacement)) = change.split_once(": ") {
            let (from, to) = replacement.split_once(" =>").expect("FROM => TO");
            let (from, to) = (from.replace(" | ", "\n"), to.trim_start().replace(" | ", "\n"));
            let text = dir.read(file);
            assert!(text.contains(&from), "{from}");
            dir.write(file, text.replacen(&from, &to, 1));
        }
        format!("evenkeel {} {options} --out out", RUN.join(" "))
    });
}
