//! Core kinds from the maximum frequencies of cpufreq: detection, and placement of jobs on kinds.
//!
//! ```text
//!   node           0           1           2           3
//!   CPUs         0    1      2    3      4    5      6    7
//!   MHz        3000 1500   1500 1500   3000 1500   1500 1500     after insmod acpi-cpufreq
//! ```
//!
//! The frequencies are from an ACPI table of the guest (`numa-vm --mhz`). The emulated CPUs are equally fast, so that the
//! tests check placements and not run times. No node or cache has the CPUs of a kind.

use std::process::Command;

use base::CpuSet;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::evenkeel::{EvenkeelRun, EvenkeelWatch};
use tests::process::{Process, all_cpus, mask, until_or};
use tests::tool;

use crate::Promise;
use crate::policy_run::{PolicyRun, dir_with_profiles, hogs};

pub const ALL: &[Promise] = &[
    ("core_kinds::maximum_frequencies_separate_two_kinds", detection),
    ("core_kinds::without_frequencies_ib_places_no_job_and_prints_a_note", one_kind),
    ("core_kinds::ib_places_computing_jobs_on_fast_cores", ib),
    ("core_kinds::hass_s_places_computing_jobs_on_fast_cores", hass_s),
    ("core_kinds::ff_binds_each_job_to_one_core_and_fills_fast_cores_first", ff),
    ("core_kinds::no_kind_is_idle_while_the_other_has_more_jobs_than_cores", both_are_used),
    ("core_kinds::a_watch_by_ib_restores_the_masks_at_its_end", watch),
];

const FAST: &str = "0,4";
const SLOW: &str = "1-3,5-7";

/// The loaded driver acpi-cpufreq. Drop removes the driver.
struct Frequencies;

impl Frequencies {
    fn load() -> Self {
        busybox(&["insmod", "/run/modules/acpi-cpufreq.ko"]);
        Frequencies
    }
}

impl Drop for Frequencies {
    fn drop(&mut self) {
        busybox(&["rmmod", "acpi_cpufreq"]);
    }
}

fn busybox(args: &[&str]) {
    let output = Command::new("/bin/busybox").args(args).output().expect("numa-vm needs busybox");
    assert!(output.status.success(), "{args:?}: {}", tool::text(&output.stderr));
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

fn detection() {
    let _frequencies = Frequencies::load();
    let machine: Value =
        serde_json::from_str(&tool::success(&["machine", "--json"])).expect("JSON");
    let source = "cpufreq/cpuinfo_max_freq";
    assert_eq!(machine["core_kinds_source"], json!({ "kinds": [source], "capacity": source }));
    let cpus_of = |kind: &str, capacity: u64| -> CpuSet {
        let cores = machine["cores"].as_array().into_iter().flatten();
        let of_kind = cores.filter(|core| core["kind"] == kind && core["capacity"] == capacity);
        let cpus: Vec<&str> = of_kind.filter_map(|core| core["cpus"].as_str()).collect();
        set(&cpus.join(","))
    };
    assert_eq!(cpus_of("performance", 1024), set(FAST), "{machine}");
    assert_eq!(cpus_of("efficiency", 512), set(SLOW), "{machine}");
}

fn one_kind() {
    let mut run = EvenkeelRun::new(dir_with_profiles(), &hogs("dt"), &["--policy", "ib"]);
    let pids = run.wait_for_start(2);
    assert!(pids.iter().all(|&pid| mask(pid) == Some(all_cpus())), "no job is placed");
    run.end_by(Signal::TERM);
    let note = "all usable cores are uniform cores, so the policy places no job";
    assert!(run.output.contains(note), "{}", run.output);
}

/// Runs two devils and two turtles. Checks that the turtles are bound to the fast cores, the devils to the slow cores,
/// and the masks after SIGKILL and `evenkeel restore`.
fn computing_jobs_are_on_fast_cores(policy: &str) {
    let _frequencies = Frequencies::load();
    let classes = "ddtt";
    let run = PolicyRun::start(policy, &hogs(classes), classes.len());
    run.until("turtles on the fast cores, devils on the slow cores", || {
        let kind = |class| set(if class == 't' { FAST } else { SLOW });
        classes.chars().enumerate().all(|(job, class)| run.mask(job) == kind(class))
    });
    run.kill_and_restore();
}

fn ib() {
    computing_jobs_are_on_fast_cores("ib");
}

fn hass_s() {
    computing_jobs_are_on_fast_cores("hass-s");
}

fn ff() {
    let _frequencies = Frequencies::load();
    let run = PolicyRun::start("ff", &hogs("dtd"), 3);
    run.until("a job on each fast core, one on a slow core", || {
        let masks: Vec<CpuSet> = (0..3).map(|job| run.mask(job)).collect();
        let used = masks.iter().fold(CpuSet::new(), |used, mask| used.or(mask));
        let is_apart = masks.iter().all(|mask| mask.len() == 1) && used.len() == 3;
        is_apart && set(FAST).is_subset(&used)
    });
    run.kill_and_restore();
}

/// Checks jobs of one class: no policy selects a kind for all of them because of their behaviour.
fn both_are_used() {
    let _frequencies = Frequencies::load();
    for classes in ["ttt", "ddd"] {
        let run = PolicyRun::start("ib", &hogs(classes), classes.len());
        run.until("two jobs on the two fast cores, one on slow cores", || {
            let on = |kind: &str| (0..3).filter(|&job| run.mask(job) == set(kind)).count();
            on(FAST) == 2 && on(SLOW) == 1
        });
        run.kill_and_restore();
    }
}

fn watch() {
    let _frequencies = Frequencies::load();
    let (processes, all) = ([Process::busy(), Process::busy()], all_cpus());
    let pids = processes.each_ref().map(|process| process.pid().to_string());
    let [one, two] = pids.each_ref().map(String::as_str);
    let mut watch =
        EvenkeelWatch::new(&["--pid", one, "--pid", two, "--act", "--quiet", "--policy", "ib"]);
    for process in &processes {
        let is_on_a_kind = || [set(FAST), set(SLOW)].contains(&process.mask());
        until_or("a placement on a kind", is_on_a_kind, || watch.explain());
    }
    let (stderr, code) = watch.end();
    assert_eq!(code, Some(0), "{stderr}");
    for process in &processes {
        assert_eq!(process.mask(), all, "{stderr}");
    }
}
