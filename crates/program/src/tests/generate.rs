//! Tests of the workload generator.

use std::collections::BTreeMap;
use std::path::Path;

use base::{Bytes, Nanos};
use expect_test::expect;
use proptest::prelude::*;

use super::line;
use crate::{
    GenerateError, GeneratorOptions, ProgramList, Workload, generate, parse_toml, to_toml,
};

const LIST: &str = r#"
    [[program]]
    name = "mcf"
    command = ["mcf"]
    suite = "SPEC"
    max = 2
    footprint = "100M"
    class = 7
    [[program]]
    name = "lbm"
    command = ["lbm"]
    suite = "SPEC"
    [[program]]
    name = "dijkstra"
    command = ["dijkstra", "out.{copy}"]
    suite = "cBench"
    run_time = "2s"
    [[program]]
    name = "hog"
    load = "hog"
    hog = true
"#;

fn list() -> ProgramList {
    ProgramList::parse(LIST, Path::new("list.toml")).expect("a list")
}

fn options() -> GeneratorOptions {
    GeneratorOptions {
        n_jobs: 8,
        seed: 1,
        span: Nanos::from_secs(10),
        hog_fraction: 0.25,
        suite_weights: BTreeMap::new(),
        memory: None,
    }
}

fn made(options: &GeneratorOptions) -> Workload {
    generate(&list(), options).expect("a workload")
}

fn programs(workload: &Workload) -> Vec<&str> {
    let stem = |name| -> &str { str::split(name, '.').next().unwrap_or_default() };
    workload.jobs.iter().map(|job| stem(&job.name)).collect()
}

#[test]
fn a_seed_gives_the_same_workload_in_every_version() {
    let lines: Vec<String> = made(&options()).jobs.iter().map(line).collect();
    expect![[r#"
        hog at 1.159 s: load ["hog"] line=18
        hog.2 at 2.095 s: load ["hog"] line=18
        mcf at 2.151 s: mcf [] class=7 line=2
        mcf.2 at 4.246 s: mcf [] class=7 line=2
        dijkstra at 5.260 s: dijkstra ["out.1"] line=13
        lbm at 5.866 s: lbm [] line=9
        dijkstra.2 at 7.303 s: dijkstra ["out.2"] line=13
        dijkstra.3 at 8.062 s: dijkstra ["out.3"] line=13"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn another_seed_gives_another_workload() {
    assert_ne!(made(&options()), made(&GeneratorOptions { seed: 2, ..options() }));
}

#[test]
fn the_share_of_hogs_is_exact() {
    for (fraction, n_hogs) in [(0.0, 0), (0.3, 12), (1.0, 40)] {
        let workload = made(&GeneratorOptions { n_jobs: 40, hog_fraction: fraction, ..options() });
        assert_eq!(programs(&workload).iter().filter(|name| **name == "hog").count(), n_hogs);
    }
}

#[test]
fn suites_are_drawn_by_their_weights() {
    let weights =
        |spec, cbench| BTreeMap::from([("SPEC".to_owned(), spec), ("cBench".to_owned(), cbench)]);
    let n_of = |suite_weights, name: &str| {
        let options =
            GeneratorOptions { n_jobs: 1000, hog_fraction: 0.0, suite_weights, ..options() };
        programs(&made(&options)).iter().filter(|found| **found == name).count()
    };
    assert_eq!(n_of(weights(1, 0), "dijkstra"), 0);
    let third = n_of(weights(2, 1), "dijkstra");
    assert!((250..420).contains(&third), "{third} of 1000 at weight 1 of 3");
}

#[test]
fn a_suite_without_programs_is_rejected() {
    let suite_weights = BTreeMap::from([("spec".to_owned(), 1)]);
    let error = generate(&list(), &GeneratorOptions { suite_weights, ..options() })
        .expect_err("no such suite");
    expect![[r#"no program of the list belongs to the suite "spec"; known are SPEC, cBench"#]]
        .assert_eq(&error.to_string());
}

#[test]
fn a_list_with_too_few_instances_is_an_error() {
    let list = "[[program]]\nname = \"a\"\nload = \"compute\"\nmax = 1";
    let list = ProgramList::parse(list, Path::new("list.toml")).expect("a list");
    let crowded = GeneratorOptions { hog_fraction: 0.0, ..options() };
    assert!(matches!(generate(&list, &crowded), Err(GenerateError::Full(..))));
    assert_eq!(generate(&list, &options()), Err(GenerateError::Nothing("hogs")));
}

#[test]
fn invalid_options_are_rejected() {
    for options in [
        GeneratorOptions { n_jobs: 0, ..options() },
        GeneratorOptions { n_jobs: 100_001, ..options() },
        GeneratorOptions { hog_fraction: f64::NAN, ..options() },
        GeneratorOptions { hog_fraction: 1.5, ..options() },
        GeneratorOptions { span: Nanos(u64::MAX), ..options() },
    ] {
        assert!(generate(&list(), &options).is_err(), "{options:?}");
    }
}

/// Returns the largest number of concurrent instances if each instance runs for `run_time`.
fn max_running_instances(workload: &Workload, program: &str, run_time: Nanos) -> usize {
    let starts = || {
        let own = workload.jobs.iter().zip(programs(workload)).filter(|(_, name)| *name == program);
        own.map(|(job, _)| job.start)
    };
    let running =
        |at: Nanos| starts().filter(|&start| start <= at && at < start + run_time).count();
    starts().map(running).max().unwrap_or_default()
}

proptest! {
    #[test]
    fn limits_hold_and_the_workload_is_read_back_equal(
        seed: u64, n_jobs in 1usize..60, span_s in 0u64..200, hogs in 0.0..=1.0f64, memory: bool
    ) {
        let memory = memory.then(|| Bytes::from_mib(100));
        let span = Nanos::from_secs(span_s);
        let options = GeneratorOptions { n_jobs, seed, span, hog_fraction: hogs, memory, ..options() };
        let workload = made(&options);
        prop_assert_eq!(workload.jobs.len(), n_jobs);
        prop_assert!(workload.jobs.iter().all(|job| job.start <= span));
        let max = if memory.is_some() { 1 } else { 2 };
        prop_assert!(max_running_instances(&workload, "mcf", Nanos::from_secs(10)) <= max);
        let text = to_toml(&workload).expect("its paths are text");
        let read = parse_toml(&text, Path::new("x.toml")).expect("the generator wrote it");
        let lines = |workload: &Workload| -> Vec<String> {
            workload.jobs.iter().map(|job| line(job).split(" line=").next().unwrap().to_owned()).collect()
        };
        prop_assert_eq!(lines(&read), lines(&workload));
    }
}

/// Returns the names and outputs of three instances, for a list from which only one program is drawn.
fn instances(list: &str) -> Vec<(String, String)> {
    let list = ProgramList::parse(list, Path::new("list.toml")).expect("a list");
    let options = GeneratorOptions { n_jobs: 3, hog_fraction: 0.0, ..options() };
    let workload = generate(&list, &options).expect("a workload");
    let text = to_toml(&workload).expect("its paths are text");
    let again = parse_toml(&text, Path::new("w.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let output =
        |job: &crate::Job| job.output.as_ref().map_or(String::new(), |o| o.display().to_string());
    again.jobs.iter().map(|job| (job.name.clone(), output(job))).collect()
}

#[test]
fn every_instance_of_a_program_has_its_own_output_file() {
    let made = |output: &str| -> Vec<String> {
        let list = format!("[[program]]\nname = \"a\"\ncommand = [\"a\"]\noutput = \"{output}\"");
        instances(&list).into_iter().map(|(_, output)| output).collect()
    };
    assert_eq!(made("out"), ["out", "out.2", "out.3"]);
    assert_eq!(made("{copy}.out"), ["1.out", "2.out", "3.out"]);
    assert_eq!(made("/dev/null"), ["/dev/null"; 3]);
}

#[test]
fn instance_numbers_skip_names_and_outputs_of_other_programs() {
    let other = "[[program]]\nname = \"a.2\"\ncommand = [\"a\"]\noutput = \"o.3\"\nweight = 0\n";
    let list = format!("{other}[[program]]\nname = \"a\"\ncommand = [\"a\"]\noutput = \"o\"");
    let made = instances(&list);
    let made: Vec<_> = made.iter().map(|(name, output)| (name.as_str(), output.as_str())).collect();
    assert_eq!(made, [("a", "o"), ("a.3", "o.3"), ("a.4", "o.4")]);
}

#[test]
fn huge_footprints_do_not_overflow() {
    let list = "[[program]]\nname = \"a\"\ncommand = [\"a\"]\nfootprint = \"16000000T\"";
    assert_eq!(instances(list).len(), 3, "without a limit no footprint counts");
    let list = ProgramList::parse(list, Path::new("list.toml")).expect("a list");
    let options = GeneratorOptions {
        n_jobs: 3,
        hog_fraction: 0.0,
        memory: Some(Bytes(u64::MAX - 1)),
        ..options()
    };
    assert!(generate(&list, &options).is_err(), "the second one does not fit");
}

#[test]
fn jobs_of_a_program_with_sections_have_its_sections() {
    let text = "[[program]]\nname = \"pipe\"\nload = \"compute\"\nthreads = 2\nsection = [{ stages = [1, 2], items = 9, queue = 3 }]\n";
    let list = ProgramList::parse(text, Path::new("list.toml")).expect("a list");
    let workload = generate(&list, &GeneratorOptions { hog_fraction: 0.0, ..options() });
    let workload = workload.expect("a workload");
    let text = to_toml(&workload).expect("its paths are text");
    let read = parse_toml(&text, Path::new("w.toml")).expect("a workload");
    assert_eq!(read.jobs.len(), 8);
    assert!(read.jobs.iter().all(|job| job.sections == list.programs[0].job.sections));
    assert!(read.jobs[0].sections.is_some());
}
