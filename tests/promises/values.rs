//! Values of reports: possible, complete and repeatable; failures are in the first line and in the exit status.

use std::io;

use base::Nanos;
use engine::{Engine, Sink, TurnRecord};
use host_sim::{SimHost, SimOptions};
use serde_json::Value;
use tests::dir::Dir;
use tests::tool;
use topology::{DomainChoice, Domains, Machine};

use crate::seeds;
use crate::simulated::{FILES, simulation};

/// Checks the CPU time of jobs in each interval.
struct BusyCpus {
    machine: Machine,
    last: Nanos,
    context: String,
}

impl Sink for BusyCpus {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let Some(loads) = record.loads else { return Ok(()) };
        let since =
            record.turn.at.saturating_sub(std::mem::replace(&mut self.last, record.turn.at));
        assert!(loads.interval.is_none_or(|interval| interval <= since), "{}", self.context);
        let choice = DomainChoice::At(loads.level);
        let domains = Domains::select(&self.machine, choice, self.machine.allowed());
        for (number, cpu_time) in loads.numbers.iter().zip(&loads.cpu_time) {
            let domain = domains.iter().find(|(_, domain)| domain.number == *number);
            let n_cpus = domain.map_or(0, |(_, domain)| domain.cpus.len()) as u64;
            assert!(
                cpu_time.0 <= n_cpus * since.0,
                "{}: {cpu_time} in {} {number} with {n_cpus} CPUs in {since}",
                self.context,
                loads.level
            );
        }
        Ok(())
    }
}

#[test]
fn jobs_use_at_most_all_cpus_of_a_domain_in_every_interval() {
    for seed in seeds::upto(300) {
        let simulation = simulation(seed);
        let policy = policy::build(&simulation.policy, seed).expect("a policy");
        let options = SimOptions { interval: policy.interval(), ..simulation.options };
        let machine = simulation.machine.clone();
        let context = format!("seed {seed}: {} {options:?}", simulation.policy);
        let mut host = SimHost::new(&machine, &simulation.jobs, options).expect("it can run");
        let mut engine = Engine::new(machine.clone(), simulation.jobs, policy);
        let mut busy = BusyCpus { machine, last: Nanos::ZERO, context };
        // A policy may abort if its counters are unavailable for long.
        let _ = engine::run(&mut host, &mut engine, &mut [&mut busy]);
    }
}

/// Returns the number of CPUs of a list such as `0-3,8`.
fn n_cpus(list: &str) -> usize {
    list.parse::<base::CpuSet>().expect("a list of CPUs").len()
}

/// Returns the largest number of busy CPUs divided by the number of CPUs, of all domains and points.
fn busy_share_max(report: &Value) -> f64 {
    let mut most = 0.0f64;
    for series in report["loads"].as_array().expect("a list") {
        let domains = series["domains"].as_array().expect("a list");
        let n_cpus: Vec<usize> =
            domains.iter().map(|domain| n_cpus(domain["cpus"].as_str().expect("text"))).collect();
        for point in series["points"].as_array().expect("a list") {
            let busy = point["cpus_busy"].as_array().expect("a list").iter().zip(&n_cpus);
            let shares = busy.filter_map(|(busy, n)| Some(busy.as_f64()? / *n as f64));
            most = shares.fold(most, f64::max);
        }
    }
    most
}

#[test]
fn children_that_exit_between_two_samples_do_not_make_a_cpu_busier_than_one() {
    let dir = Dir::with(&[(
        "w.toml",
        "[[job]]\nname = \"f\"\ncopies = 3\nshell = \"n=0; while [ $n -lt 30 ]; do \
         sh -c 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done'; n=$((n+1)); done\"\n",
    )]);
    for policy in ["linux", "dfs[interval=20ms]"] {
        let out = format!("out-{}", &policy[..3]);
        dir.success(&["run", "w.toml", "-q", "-p", policy, "--out", &out]);
        let report: Value =
            serde_json::from_str(&dir.read(&format!("{out}/report.json"))).expect("JSON");
        let most = busy_share_max(&report);
        assert!(most <= 1.0, "{policy}: {most}");
    }
}

/// Returns the CPU time in the loads of all domains, with the unattributed part, and the CPU time of the jobs.
fn cpu_seconds(report: &Value) -> (f64, f64) {
    let seconds = |value: &Value| value.as_f64().expect("a number") / 1e9;
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let mut loads = 0.0;
    for series in list(&report["loads"]) {
        loads += seconds(&series["cpu_unattributed_ns"]);
        for point in list(&series["points"]) {
            let busy: f64 = list(&point["cpus_busy"]).iter().filter_map(Value::as_f64).sum();
            loads += busy * (seconds(&point["to_ns"]) - seconds(&point["from_ns"]));
        }
    }
    let of_job = |job: &Value| seconds(&job["user_ns"]) + seconds(&job["system_ns"]);
    (loads, list(&report["jobs"]).iter().map(of_job).sum())
}

/// A process that reaps a child also gets the CPU time of the children that the child has reaped.
#[test]
fn the_loads_contain_the_cpu_time_of_all_descendants_once() {
    let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let dir = Dir::with(&[
        (
            "w.toml",
            "[[job]]\nname = \"nest\"\ncopies = 2\nshell = \"for i in 1 2 3; do sh a.sh; done; true\"\n",
        ),
        ("a.sh", "sh b.sh\ntrue\n"),
        ("b.sh", "for i in 1 2 3; do sh c.sh; done\ntrue\n"),
        ("c.sh", count),
    ]);
    for policy in ["linux", "dfs[interval=20ms]"] {
        let out = format!("out-{}", &policy[..3]);
        dir.success(&["run", "w.toml", "-q", "-p", policy, "--out", &out]);
        let report = dir.read(&format!("{out}/report.json"));
        let (loads, jobs) = cpu_seconds(&serde_json::from_str(&report).expect("JSON"));
        assert!((loads - jobs).abs() <= 0.01 * jobs, "{policy}: loads {loads} s, jobs {jobs} s");
    }
}

#[test]
fn the_loads_of_a_simulated_run_contain_the_cpu_time_of_jobs_that_end_between_two_samples() {
    let dir = Dir::new();
    for policy in ["linux", "dfs", "divided"] {
        let args = ["run", "wl1", "--host", "sim", "--machine", "xeon-2s", "-q"];
        dir.success(&[&args[..], &["-p", policy, "--out", policy]].concat());
        let report = dir.read(&format!("{policy}/report.json"));
        let (loads, jobs) = cpu_seconds(&serde_json::from_str(&report).expect("JSON"));
        assert!((loads - jobs).abs() <= 1e-6 * jobs, "{policy}: loads {loads} s, jobs {jobs} s");
    }
}

/// Joins folded lines.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const FAILING: &str = "name = \"w\"\n[[job]]\nname = \"good\"\nshell = \"exit 0\"\n\
    [[job]]\nname = \"bad\"\nshell = \"exit 3\"\n[[job]]\nname = \"killed\"\nshell = \"kill -9 $$\"\n";

#[test]
fn failed_jobs_are_in_the_first_line_and_in_the_exit_status() {
    let dir = Dir::with(&[("w.toml", FAILING)]);
    let output = dir.run(&["run", "w.toml", "--out", "out"]);
    assert_eq!(output.status.code(), Some(1));
    let text = tool::text(&output.stdout);
    let first = text.lines().next().expect("a line");
    assert!(
        first.starts_with(
            "result    2 of 3 jobs failed (bad: exit status 3; killed: ended by SIGKILL)"
        ),
        "{text}"
    );
    assert!(!text.contains("finished"), "{text}");
    let report = dir.success(&["report", "out"]);
    assert_eq!(report.lines().next(), Some(first), "the report from the journal is the same");
    let explained = dir.success(&["explain", "out"]);
    assert!(on_one_line(&explained).contains("2 of 3 jobs failed."), "{explained}");
}

#[test]
fn a_quiet_run_with_failures_prints_one_line() {
    let dir = Dir::with(&[("w.toml", FAILING)]);
    let output = dir.run(&["run", "w.toml", "-q", "--out", "out"]);
    assert_eq!((output.status.code(), tool::text(&output.stdout).as_str()), (Some(1), ""));
    let text = tool::text(&output.stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("evenkeel: 2 of 3 jobs failed"), "{text}");
}

#[test]
fn jobs_that_reach_the_time_limit_are_timed_out() {
    let dir =
        Dir::with(&[("w.toml", "[[job]]\nname = \"long\"\ncopies = 2\nshell = \"sleep 600\"\n")]);
    let output = dir.run(&["run", "w.toml", "--time-limit", "300ms", "--out", "out"]);
    assert_eq!(output.status.code(), Some(1));
    let text = tool::text(&output.stdout);
    assert!(text.starts_with("result    stopped at the time limit after"), "{text}");
    assert!(text.contains("2 of 2 jobs reached"), "{text}");
    let report: Value = serde_json::from_str(&dir.read("out/report.json")).expect("JSON");
    assert_eq!(report["totals"]["n_timed_out"], 2);
    assert_eq!(report["jobs"][0]["state"], "timed-out");
    assert_eq!(report["run"]["stopped_by"], "time-limit");
}

/// Changes the workload to 300 jobs, and the machine to enough memory for all of them.
fn run_many_copies(dir: &Dir) {
    dir.write("w.toml", dir.read("w.toml").replace("copies = 6", "copies = 300"));
    dir.write("m.toml", dir.read("m.toml").replace("1073741824", "1073741824000"));
}

#[test]
fn removed_journal_parts_are_counted_and_named() {
    let dir = Dir::with(&FILES);
    run_many_copies(&dir);
    let args = ["run", "w.toml", "--host=sim", "--machine", "m.toml", "-p", "linux", "-q"];
    dir.success(&[&args[..], &["--journal-part", "64K", "--out", "out"]].concat());
    let report: Value = serde_json::from_str(&dir.read("out/report.json")).expect("JSON");
    let n = report["run"]["n_journal_parts_missing"].as_u64().expect("a number");
    assert!(0 < n, "the journal has more than sixteen parts");
    let again: Value =
        serde_json::from_str(&dir.success(&["report", "out", "--json"])).expect("JSON");
    assert_eq!(again["run"]["n_journal_parts_missing"], n);
    let explained = dir.success(&["explain", "out"]);
    assert!(
        on_one_line(&explained).contains(&format!("removed the first {n} parts of the journal")),
        "{explained}"
    );
}

#[test]
fn a_journal_of_a_simulated_run_is_at_most_64_mib_by_default() {
    let dir = Dir::with(&FILES);
    run_many_copies(&dir);
    dir.success(&[
        "run",
        "w.toml",
        "--host=sim",
        "--machine",
        "m.toml",
        "-p",
        "linux",
        "-q",
        "--out",
        "out",
    ]);
    let sizes = std::fs::read_dir(dir.path("out")).expect("it exists").map(|entry| {
        let entry = entry.expect("readable");
        let is_journal = entry.file_name().to_string_lossy().starts_with("journal");
        if is_journal { entry.metadata().expect("readable").len() } else { 0 }
    });
    let sizes: Vec<u64> = sizes.collect();
    assert!(
        sizes.iter().all(|size| *size < 6 << 20),
        "a part has at most 4 MiB and one write: {sizes:?}"
    );
}

#[test]
fn identical_runs_of_all_seeds_have_no_verdict() {
    let dir = Dir::with(&FILES);
    let words = "compare w.toml -p linux,dfs --machine m.toml --variation off --seeds 10 --out out";
    let text = dir.success(&words.split(' ').collect::<Vec<_>>());
    let comparison: Value = serde_json::from_str(&dir.read("out/compare.json")).expect("JSON");
    let row = &comparison["summary"][1];
    assert_eq!((&row["is_identical"], &row["n_pairs"]), (&Value::Bool(true), &10.into()));
    for field in ["p", "p_holm", "verdict", "ratio_ci95", "ci95_s"] {
        assert_eq!(row[field], Value::Null, "{field}");
    }
    let answer = "No verdict: the runs of all seeds are identical, so they are one observation.";
    assert!(on_one_line(&text).starts_with(answer), "{text}");
    assert!(text.contains("identical runs"), "{text}");
    assert!(dir.read("out/compare.html").contains(answer));
    let csv = dir.read("out/summary.csv");
    let column = |line: usize| {
        let names = csv.lines().next().expect("a header").split(',');
        let idx = names.into_iter().position(|name| name == "is_identical").expect("a column");
        csv.lines().nth(line).and_then(|line| line.split(',').nth(idx))
    };
    assert_eq!((column(1), column(2)), (Some("false"), Some("true")), "{csv}");
    let command = comparison["setting"]["command"].as_str().expect("a command");
    let command = format!("<code>{}</code>", command.replace('&', "&amp;"));
    assert!(dir.read("out/compare.html").contains(&command));
}

#[test]
fn the_page_of_a_run_shows_the_run_of_the_same_command_under_linux() {
    let dir = Dir::with(&FILES);
    let run = |policy: &str, seed: &str, out: &str| {
        let args = ["run", "w.toml", "--host=sim", "--machine", "m.toml", "-p", policy];
        dir.success(&[&args[..], &["--seed", seed, "--out", out]].concat())
    };
    let read = |out: &str| -> Value {
        serde_json::from_str(&dir.read(&format!("{out}/report.json"))).expect("JSON")
    };
    run("linux", "1", "other-seed");
    assert_eq!(read("other-seed")["linux"], Value::Null, "a run under linux");
    run("dino", "0", "alone");
    assert_eq!(read("alone")["linux"], Value::Null, "the run under linux has another seed");
    assert!(!dir.read("alone/report.html").contains("id=\"linux\""));

    run("linux", "0", "a");
    let text = run("dino", "0", "b");
    let (a, b) = (read("a"), read("b"));
    assert_eq!((&b["linux"]["path"], &b["linux"]["has_page"]), (&"../a".into(), &true.into()));
    assert_eq!(b["linux"]["makespan_ns"], a["run"]["makespan_ns"]);
    assert_eq!(b["jobs"][2]["linux_wall_ns"], a["jobs"][2]["wall_ns"]);
    let page = dir.read("b/report.html");
    let section = page.split("<section").find(|part| part.contains("id=\"linux\""));
    let section = section.expect("a section");
    assert!(section.contains("<a href=\"../a/report.html\">../a</a>"), "{section}");
    assert_eq!(section.matches("class=\"bar plain\"").count(), 2, "two makespans");
    assert_eq!(section.matches("<tr><th scope=\"row\"").count(), 2 + 6, "and a row per job");
    assert!(on_one_line(&text).contains("; under linux "), "{text}");
    let again: Value =
        serde_json::from_str(&dir.success(&["report", "b", "--json"])).expect("JSON");
    assert_eq!(again, b, "the report of the journal is the report of the run");
}
