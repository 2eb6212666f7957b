//! The examples of `docs/extending.md`: a policy, an event file, a subcommand, a machine and a profile that are not
//! part of evenkeel and use its interfaces. The other examples of the page are parts of evenkeel.

// The executable has no library; these modules are the interface of its subcommands.
#[path = "../../crates/app/src/command_result.rs"]
#[allow(dead_code)]
mod command_result;
#[path = "extending/nodes.rs"]
mod nodes;
#[path = "../../crates/app/src/print.rs"]
#[allow(dead_code)]
mod print;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{CpuId, CpuSet, Nanos};
use clap::Parser;
use command_result::CommandError;
use engine::{Engine, Sink, TurnRecord};
use host_sim::{SimHost, SimOptions};
use linux::pmu::Uarch;
use linux::source::Live;
use policy::{INTERVAL, Param, PolicyInfo, Rules, Values};
use program::profile::parse_profile;
use sched::{Action, JobState, Plan, Reason, Snapshot, StallTimes, reasons};
use topology::file::parse_toml;

reasons! {
    /// The job starts on the CPU with the fewest jobs.
    FEWEST_JOBS = "fewest-jobs-on-cpu": "CPU {cpu} had the fewest jobs ({n_jobs})";
}

/// The declaration of the example policy.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "fewest",
    summary: "Starts each job on the CPU with the fewest jobs; migrates nothing.",
    source: "an example",
    signals: &[],
    params: &[&[
        INTERVAL,
        Param::new(
            "spare",
            Values::integer("CPUs", 0, 1024),
            "0",
            "number of CPUs, lowest ids first, that get no job",
        ),
    ]],
    reasons: &[REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(Fewest { n_spare: params.get::<u64>("spare") as usize })),
};

/// Starts each job on the CPU with the fewest jobs.
#[derive(Debug)]
struct Fewest {
    n_spare: usize,
}

impl Rules for Fewest {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true; // Without a due job the policy has no request.
        let cpus = snapshot.usable_cpus.iter().skip(self.n_spare);
        let mut n_jobs: BTreeMap<CpuId, u64> = cpus.map(|cpu| (cpu, 0)).collect();
        for cpu in snapshot.jobs.iter().filter_map(|job| job.placed).flat_map(CpuSet::iter) {
            n_jobs.entry(cpu).and_modify(|n| *n += 1);
        }
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Due) {
            let allowed = n_jobs.iter_mut().filter(|(cpu, _)| job.allowed.contains(**cpu));
            let Some((&cpu, n)) = allowed.min_by_key(|(cpu, n)| (**n, **cpu)) else { continue };
            let reason = Reason::new(FEWEST_JOBS).with("cpu", u64::from(cpu.0)).with("n_jobs", *n);
            plan.request(job.job.id, Action::Place(CpuSet::from_iter([cpu])), reason);
            *n += 1;
        }
    }
}

const MACHINE: &str = r#"
format_version = 2
nodes = [{ id = 0, cpus = "0-3", memory_bytes = 1073741824 }]
llcs = [{ id = 0, cpus = "0-3", node = 0, size_bytes = 8388608 }]
cores = [{ id = 0, cpus = "0" }, { id = 1, cpus = "1" }, { id = 2, cpus = "2" }, { id = 3, cpus = "3" }]
cpus = [{ id = 0 }, { id = 1 }, { id = 2 }, { id = 3 }]
"#;

const PROGRAM: &str = r#"
version = 2
name = "stencil"
class = 7

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

const WORKLOAD: &str = r#"
[[job]]
name = "stencil"
command = ["stencil"]
copies = 4
"#;

const EVENTS: &str = r#"
uarch = "example-core"
name = "Example core"
source = "vendor manual, chapter 20"

match = { vendor = "ExampleVendor", family = 0x06, models = [0x01] }

[[pmu]]
name = "cpu"
counters = 4
fixed = ["cycles", "instructions"]
fixed_source = "vendor manual, section 20.2"

[pmu.events.cycles]
event = "event=0x3c"
name = "CPU_CLK_UNHALTED.THREAD"
source = "vendor manual, table 20-1"

[pmu.events.instructions]
event = "event=0xc0"
name = "INST_RETIRED.ANY"
source = "vendor manual, table 20-1"

[pmu.events.llc-references]
event = "event=0x2e,umask=0x4f"
name = "LONGEST_LAT_CACHE.REFERENCE"
source = "vendor manual, table 20-1"

[pmu.events.llc-misses]
event = "event=0x2e,umask=0x41"
name = "LONGEST_LAT_CACHE.MISS"
source = "vendor manual, table 20-1"

[absent]
llc-load-misses = "not counted by this core"
llc-store-misses = "not counted by this core"
llc-prefetch-misses = "not counted by this core"
l1d-misses = "not counted by this core"
memory-stalls = "not counted by this core"
queue-full = "not counted by this core"
"#;

/// The command line of the example subcommand.
#[derive(Debug, clap::Parser)]
struct NodesCommand {
    #[command(flatten)]
    args: nodes::Args,
}

/// Collects requests as text.
#[derive(Default)]
struct Requests(Vec<String>);

impl Sink for Requests {
    fn record(&mut self, record: &TurnRecord<'_>) -> std::io::Result<()> {
        for request in &record.plan.requests {
            self.0.push(request.reason.to_string());
        }
        Ok(())
    }
}

#[test]
fn a_policy_a_machine_and_a_program_from_outside_run_on_the_simulated_host() {
    let machine = parse_toml(MACHINE, "machine.toml").expect("a machine");
    let profile = parse_profile(PROGRAM, Path::new("stencil.profile.toml")).expect("a profile");
    let workload = program::parse(WORKLOAD, Path::new("w.toml")).expect("a workload");
    let mut jobs = workload.jobs;
    for job in &mut jobs {
        job.found = Some(Arc::new(profile.clone()));
    }
    let policy = INFO.build("fewest[spare=1]", 0).expect("a policy");
    let options = SimOptions { interval: policy.interval(), ..SimOptions::default() };
    let mut host = SimHost::new(&machine, &jobs, options).expect("a host");
    let mut engine = Engine::new(machine, jobs, policy);
    let mut requests = Requests::default();
    engine::run(&mut host, &mut engine, &mut [&mut requests]).expect("a run");
    requests.0.sort();
    let expected = ["1 had the fewest jobs (0)", "1 had the fewest jobs (1)", "2 had", "3 had"];
    assert_eq!(requests.0.len(), expected.len(), "{:?}", requests.0);
    for (request, expected) in requests.0.iter().zip(expected) {
        assert!(request.starts_with(&format!("CPU {expected}")), "{:?}", requests.0);
    }
}

#[test]
fn a_value_outside_of_the_declared_range_is_rejected() {
    let error = INFO.build("fewest[spare=2000]", 0).map(|_| ()).expect_err("out of range");
    assert!(error.to_string().contains("spare"), "{error}");
}

#[test]
fn an_event_file_names_an_event_or_a_reason_for_each_counter_event() {
    let uarch = Uarch::read("example-core", EVENTS).expect("an event file");
    assert_eq!(uarch.pmus[0].events.len(), 4);
    let incomplete = EVENTS.replace("queue-full = \"not counted by this core\"\n", "");
    let error = Uarch::read("example-core", &incomplete).expect_err("no reason for queue-full");
    assert!(error.to_string().contains("queue-full"), "{error}");
}

#[test]
fn a_system_signal_is_read_below_any_root_and_its_growth_needs_two_samples() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir_all(dir.path().join("proc/pressure")).expect("a directory");
    let sample = |text: &str| {
        std::fs::write(dir.path().join("proc/pressure/cpu"), text).expect("a file");
        linux::pressure::read(&mut Live::new(dir.path())).expect("readable").cpu
    };
    let first = sample("some avg10=0.00 total=100\nfull avg10=0.00 total=2\n");
    let second = sample("some avg10=0.00 total=130\n");
    let delta = StallTimes { some: Some(Nanos(30_000)), full: None };
    assert_eq!(second.since(first), delta);
}

#[test]
fn a_subcommand_prints_its_result_and_an_invalid_file_is_a_usage_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("machine.toml");
    let args = ["evenkeel", "--machine", path.to_str().expect("UTF-8")];
    let args = NodesCommand::try_parse_from(args).expect("valid arguments").args;
    let missing = nodes::main(&args);
    assert!(matches!(missing, Err(CommandError::Usage(_))), "{missing:?}");
    std::fs::write(&path, MACHINE).expect("a file");
    let mut out = Vec::new();
    nodes::print(&args, &mut out).expect("a machine");
    assert_eq!(String::from_utf8_lossy(&out), "node 0 has the CPUs 0-3\n");
}

#[test]
fn each_policy_and_event_is_on_its_page_and_each_help_text_is_included() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("docs");
    let page = |name: &str| std::fs::read_to_string(docs.join(name)).expect(name);
    let (policies, signals) = (page("policies.md"), page("signals.md"));
    let headings = policies.lines().filter_map(|line| line.strip_prefix("## "));
    let headings: Vec<&str> = headings.flat_map(|heading| heading.split([' ', ','])).collect();
    for info in policy::registry() {
        assert!(headings.contains(&info.name), "{} has no heading in policies.md", info.name);
    }
    for event in sched::CounterEvent::ALL {
        let name = event.name();
        assert!(signals.contains(&format!("`{name}`")), "{name} is not in signals.md");
    }
    let files = |dir: &Path| std::fs::read_dir(dir).expect("a directory");
    let pages = files(&docs.join("commands")).map(|entry| entry.expect("an entry").path());
    let pages: String = pages.map(|path| std::fs::read_to_string(path).expect("text")).collect();
    for entry in files(&docs.join("../tests/promises/expected/help")) {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(name == "evenkeel.txt" || pages.contains(&format!("/{name}}}}}")), "{name}");
    }
}

/// Returns the code blocks of the page. The file of a block is the last `In `FILE`` before the block in its section.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut file = "tests/promises/extending.rs";
    for (number, part) in page.split("```").enumerate() {
        if number % 2 == 1 {
            blocks.push((file, part.split_once('\n').expect("a language").1));
            continue;
        }
        if part.contains("\n## ") || part.contains("\n### ") {
            file = "tests/promises/extending.rs";
        }
        if let Some((_, rest)) = part.rsplit_once("In `") {
            file = rest.split('`').next().expect("the end of the path");
        }
    }
    blocks
}

#[test]
fn the_code_blocks_of_the_page_are_in_the_named_files_or_the_source_of_these_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let blocks = blocks(include_str!("../../docs/extending.md"));
    for (file, block) in &blocks {
        let source = std::fs::read_to_string(root.join(file)).expect(file);
        assert!(source.contains(block.trim_end_matches('\n')), "not in {file}:\n{block}");
    }
    let n_of_tests = blocks.iter().filter(|(file, _)| file.ends_with("extending.rs")).count();
    assert_eq!((blocks.len(), n_of_tests), (25, 6));
}
