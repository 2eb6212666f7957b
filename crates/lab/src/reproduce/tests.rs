//! Claims about studies and their output.

use std::collections::BTreeSet;

use base::StopFlag;
use report::format::ABSENT;
use report::study::{
    ChartKind, RuleReading, StudyCell, StudyClaim, StudyResult, StudyValue, StudyVerdict,
};

use super::definition::filled;
use super::evaluate::reading;
use super::finding::{BOTH_READINGS, drawn, judged_claim, verdict_of_draws};
use super::gain::{RangeSide, set_s};
use super::*;
use crate::compare::{Column, SimBench};

fn study(name: &str) -> &'static Study {
    Study::find(name).expect("it ships")
}

fn all(study: &Study) -> Vec<&Experiment> {
    study.experiments().iter().collect()
}

/// Returns a result with these experiments and no runs.
fn study_run(experiments: Vec<(&Experiment, Finding)>, not_run: &[&str]) -> StudyRun {
    let charts = vec![vec![ChartKind::None; 8]; experiments.len()];
    let experiments = experiments.into_iter().map(|(one, finding)| one.result(finding)).collect();
    let study = study("dfs");
    let result = StudyResult {
        format: 0,
        tool: String::new(),
        command: String::new(),
        study: study.name().to_owned(),
        source: study.source().to_owned(),
        selected: Vec::new(),
        seeds: vec![1, 2],
        n_seeds_needed: 6,
        n_draws: 1,
        machines: Vec::new(),
        experiments,
        not_run: not_run.iter().map(|name| (*name).to_owned()).collect(),
    };
    StudyRun { result, charts }
}

fn wide_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| 80 < line.chars().count()).collect()
}

#[test]
fn every_experiment_has_a_unique_name_its_texts_and_known_machines() {
    for study in STUDIES.iter() {
        let names: BTreeSet<&str> = study.experiments().iter().map(Experiment::name).collect();
        assert_eq!(names.len(), study.experiments().len(), "{}", study.name());
        for one in study.experiments() {
            let result = one.result(Finding::default());
            let texts = [&result.title, &result.source, &result.limit, &result.method];
            assert!(texts.iter().all(|text| 5 < text.len()), "{}: {texts:?}", one.name());
            // `--seeds` changes the seeds of a run.
            assert!(!result.method.contains("seeds 1 to 3"), "{}", one.name());
            let line = format!("━━ {} ━━ {}", one.name(), one.title());
            assert!(line.chars().count() <= 80, "{line}");
            for machine in one.machines() {
                let is_known = crate::shipped::machine(machine).is_ok()
                    || topology::Machine::synthetic(machine).is_ok();
                assert!(is_known, "{machine}");
            }
        }
        assert_eq!(wide_lines(&list(study, &all(study))), [""; 0]);
    }
}

#[test]
fn the_reading_of_a_claim_is_that_of_its_policy() {
    for one in STUDIES.iter().flat_map(|study| study.experiments()) {
        for (file, bindings) in [false, true].into_iter().flat_map(|is_drawn| one.claims(is_drawn))
        {
            let policies =
                file.measure.values().chain([&bindings]).filter_map(|one| one.get("policy"));
            let policies: Vec<String> = policies.map(|policy| filled(policy, &bindings)).collect();
            let is_paper = policies.iter().any(|policy| policy.contains("reading=paper"));
            assert_eq!(
                reading(&bindings) == RuleReading::Paper,
                is_paper,
                "{}: {}",
                one.name(),
                file.claim
            );
        }
    }
}

#[test]
fn an_experiment_of_a_file_has_cells_conditions_and_texts_of_its_measures() {
    let study = study("dfs");
    let stop = StopFlag::default();
    let pool = RunPool::new(vec![1], 1, 2, &stop, &|_, _| {});
    let one: Vec<&Experiment> =
        study.experiments().iter().filter(|one| one.name() == "fig-5.1").collect();
    let run = study.run(&one, &pool, |_| {}).expect("it runs");
    let experiment = &run.result.experiments[0];
    let table = &experiment.tables[0];
    assert_eq!((experiment.tables.len(), table.rows.len(), table.columns.len()), (3, 5, 5));
    let expected = {
        let first_touch = Testbed::parse("tilepro64").expect("it ships");
        let interleaved = Testbed::parse("tilepro64-interleaved").expect("it ships");
        let runs = pool.series(&first_touch, ("dfs", "wl1"), &[1]).expect("it runs");
        Gain::time_saved(
            &runs,
            &pool.series(&interleaved, ("linux", "wl1"), &[1]).expect("it runs"),
        )
    };
    assert_eq!(table.rows[0][4].text, expected.percent_with_interval());
    let order = &experiment.claims[1];
    assert_eq!(order.claim, "against tilepro64-interleaved: at least 4 of 5 gains above 0");
    let n_above = order.values[0].value.expect("a count");
    assert_eq!(order.verdict == StudyVerdict::Reproduces, 4.0 <= n_above, "{order:?}");
}

#[test]
fn a_verdict_of_draws_needs_95_percent_or_5_percent() {
    use StudyVerdict::{DependsOnTheProfile, DoesNotReproduce, NotJudged, Reproduces};
    let verdicts = [200, 190, 189, 100, 11, 10, 0].map(|n| verdict_of_draws(n, 200));
    let (yes, depends, no) = (Reproduces, DependsOnTheProfile, DoesNotReproduce);
    assert_eq!(verdicts, [yes, yes, depends, depends, depends, no, no]);
    assert_eq!([0, 1, 19].map(|n| verdict_of_draws(n, n)), [NotJudged; 3]);
    assert_eq!(verdict_of_draws(20, 20), Reproduces);
}

#[test]
fn a_run_that_two_experiments_need_runs_once_and_has_the_same_result() {
    let n_batches = std::cell::Cell::new(0);
    let on_progress = |done: usize, all: usize| {
        n_batches.set(if done == all { n_batches.get() + 1 } else { n_batches.get() })
    };
    let stop = StopFlag::default();
    let pool = RunPool::new(vec![1, 2], 1, 2, &stop, &on_progress);
    let testbed = Testbed::parse("tilepro64").expect("it ships");
    let makespans_s =
        || pool.series(&testbed, ("linux", "wl1"), &[1, 2]).expect("it runs").makespans_s();
    let (first, n_before) = (makespans_s(), n_batches.get());
    assert_eq!((makespans_s(), n_batches.get()), (first, n_before));
}

#[test]
fn a_stopped_study_names_its_command_and_the_experiments_that_were_not_run() {
    let study = study("dfs");
    let stop = StopFlag::default();
    stop.raise();
    let run = |seeds: &[u64], selected: &[&Experiment]| {
        let pool = RunPool::new(seeds.to_vec(), 3, 1, &stop, &|_, _| {});
        study.run(selected, &pool, |_| {}).expect("to be stopped is not an error")
    };
    let command = |seeds: &[u64], n: usize| run(seeds, &all(study)[..n]).result.command;
    assert_eq!(command(&[1, 2], all(study).len()), "evenkeel reproduce dfs --seeds 2 --draws 3");
    let some = "evenkeel reproduce dfs --only fig-5.1,fig-5.2 --seeds 7-7 --draws 3";
    assert_eq!(command(&[7], 2), some);
    let list = "evenkeel reproduce dfs --only fig-5.1 --seeds 3,7 --draws 3";
    assert_eq!(command(&[3, 7], 1), list);
    let stopped = run(&[1], &all(study)[..2]);
    assert_eq!(stopped.result.not_run, ["fig-5.1", "fig-5.2"]);
    assert!(text(&stopped).ends_with("stopped:   not run: fig-5.1, fig-5.2\n"));
}

#[test]
fn a_mean_has_its_unrounded_interval_and_published_columns_are_marked() {
    let gain = Gain::of_each(vec![0.01, 0.02, 0.0301]);
    let heads = ["workload", "the report", "corrected"];
    let mut table = FindingTable::new("saved in %", &heads).units(&["%"]).published(&heads[1..2]);
    table.row(["wl1".into(), StudyCell::from("-0.8 to +4.5"), gain.cell()]);
    let published: Vec<bool> = table.data.columns.iter().map(|one| one.is_published).collect();
    assert_eq!(published, [false, true, false]);
    let row = &table.data.rows[0];
    assert_eq!(row[0].values, []);
    assert_eq!((row[1].values[0].value, row[1].values[0].low), (None, Some(-0.8)));
    let corrected = &row[2].values[0];
    assert_eq!((corrected.value, corrected.unit.as_str()), (Some(gain.mean * 100.0), "%"));
    assert_eq!(corrected.high, gain.interval.map(|within| within.high * 100.0));
    let claim = drawn("it gains", RuleReading::Paper, 5, 200);
    assert_eq!(claim.values, [StudyValue::count(5, 200)]);
}

#[test]
fn a_study_is_printed_with_both_readings() {
    let study = study("dfs");
    let claim = |reading| {
        judged_claim("it gains", reading, "+1.0", Some(reading == RuleReading::Corrected))
    };
    let mut table = FindingTable::new("time saved in %", &["workload", "corrected"]);
    table.row(["wl1".to_owned(), "+1.0±0.2".to_owned()]);
    let finding = Finding {
        tables: vec![table],
        claims: BOTH_READINGS.map(claim).to_vec(),
        notes: vec!["one run failed".to_owned()],
    };
    let run = study_run(vec![(&study.experiments()[0], finding)], &["fig-5.2"]);
    expect_test::expect_file!["expected/study.txt"].assert_eq(&text(&run));
    expect_test::expect_file!["expected/list.txt"].assert_eq(&list(study, &all(study)));
}

#[test]
fn gains_are_paired_by_seed_and_not_by_position() {
    let before = Gain::by_seed(vec![(1, 0.01), (2, 0.02), (4, 0.04)]);
    let with = Gain::by_seed(vec![(2, 0.05), (3, 0.09), (4, 0.05)]);
    let difference = with.minus(&before);
    assert_eq!(difference.seeds, [2, 4]);
    assert_eq!(difference.percent_with_interval(), "+2.0±1.0");
    let over = Gain::mean_of(&[before, with]);
    assert_eq!((over.seeds, over.each), (vec![2, 4], vec![0.035, 0.045]));
}

#[test]
fn a_gain_is_inside_or_outside_of_a_range_only_with_its_whole_interval() {
    // The means are 3 %, with an interval from 2.0 to 4.0.
    let gain = Gain::by_seed(vec![(1, 0.02), (2, 0.03), (3, 0.04)]);
    assert_eq!(gain.percent_with_interval(), "+3.0±1.0");
    assert_eq!(gain.side(1.0, 5.0), RangeSide::Inside);
    assert_eq!(gain.side(4.5, 9.0), RangeSide::Outside);
    assert_eq!(gain.side(3.5, 9.0), RangeSide::Undecided);
    assert_eq!(gain.side(2.5, 3.5), RangeSide::Undecided);
    assert_eq!(Gain::of_value(Some(0.03)).side(2.5, 3.5), RangeSide::Inside);
    assert_eq!(Gain::by_seed(Vec::new()).side(-1.0, 1.0), RangeSide::Undecided);
}

#[test]
fn an_empty_gain_is_a_dash_and_is_not_judged() {
    let none = Gain::by_seed(Vec::new());
    assert_eq!(
        (none.percent_with_interval(), none.percent()),
        (ABSENT.to_owned(), ABSENT.to_owned())
    );
    assert_eq!((none.is_significant(), none.is_within(-1.0, 1.0)), (None, false));
    let claim: StudyClaim = judged_claim(
        "it gains",
        RuleReading::Paper,
        none.percent_with_interval(),
        none.is_significant(),
    );
    assert_eq!(claim.verdict, StudyVerdict::NotJudged);
    assert!(Gain::mean_of(&[Gain::of_each(vec![0.1]), none]).is_empty());
}

#[test]
fn a_run_out_of_memory_is_reported_with_its_seed_and_none_fails_with_more_memory() {
    let stop = StopFlag::default();
    let pool = RunPool::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
    let run = |testbed| {
        let testbed = Testbed::parse(testbed).expect("it ships");
        pool.series(&testbed, ("linux@interleave", "wl6"), &[1, 2]).expect("it runs")
    };
    let small = run("tilepro64 remote=3.00");
    let failure = small.failure().expect("it runs out of memory");
    assert!(failure.contains("2 of 2 runs") && failure.contains("(1 2)"), "{failure}");
    assert!(Gain::time_saved(&small, &small).is_empty());
    let large = run("tilepro64 remote=3.00 memory=16");
    assert_eq!(large.failure(), None);
    assert_eq!(Gain::time_saved(&large, &large).seeds, [1, 2]);
}

#[test]
fn draws_are_in_order_with_any_number_of_threads() {
    let stop = StopFlag::default();
    let of = |n_threads: usize| {
        let pool = RunPool::new(vec![1], 9, n_threads, &stop, &|_, _| {});
        pool.each_draw(|draw, pool| Ok((draw, pool.n_draws()))).expect("nothing stops it")
    };
    let expected: Vec<(u64, u64)> = (1..=9).map(|draw| (draw, 9)).collect();
    assert_eq!((of(1), of(4)), (expected.clone(), expected));
}

#[test]
fn output_fits_eighty_columns_and_is_the_same_with_any_number_of_threads() {
    let study = study("divided");
    let fast = ["fig-1", "figs-2-to-5", "fig-6", "splits"];
    let fast: Vec<&Experiment> =
        study.experiments().iter().filter(|one| fast.contains(&one.name())).collect();
    let stop = StopFlag::default();
    let of = |n_threads: usize| {
        let pool = RunPool::new(vec![1, 2], 3, n_threads, &stop, &|_, _| {});
        study.run(&fast, &pool, |_| {}).expect("it runs")
    };
    let (one, other) = (of(1), of(3));
    let html = |run: &StudyRun| run.result.to_html(&run.charts);
    assert_eq!((text(&one), html(&one)), (text(&other), html(&other)));
    assert_eq!(wide_lines(&text(&one)), [""; 0]);
}

#[test]
fn an_experiment_with_both_sets_of_profiles_has_the_verdicts_of_both() {
    let study = study("divided");
    let one: Vec<&Experiment> =
        study.experiments().iter().filter(|one| one.name() == "hit-ratio").collect();
    let stop = StopFlag::default();
    let pool = RunPool::new(vec![1], 20, 2, &stop, &|_, _| {});
    let run = study.run(&one, &pool, |_| {}).expect("it runs");
    let result = &run.result.experiments[0];
    let texts = ["profiles=table: ", "profiles=printed: "].map(|set| {
        let own = result
            .claims
            .iter()
            .filter_map(|claim| Some((claim.claim.strip_prefix(set)?.to_owned(), claim.verdict)));
        own.collect::<Vec<(String, StudyVerdict)>>()
    });
    let [table, printed] = &texts;
    let names = |all: &[(String, StudyVerdict)]| -> Vec<String> {
        all.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!((names(table), table.len()), (names(printed), 4));
    assert!(table.iter().all(|(_, verdict)| *verdict != StudyVerdict::NotJudged), "{table:?}");
    let is_input: Vec<bool> =
        printed.iter().map(|(_, verdict)| *verdict == StudyVerdict::NotJudged).collect();
    assert_eq!(is_input, [true, true, false, false], "{printed:?}");
    assert_eq!(pool.profiles(), crate::shipped::ProfileSet::Table, "for the next experiment");
}

#[test]
fn printed_profiles_are_used_on_the_machine_of_the_print_only() {
    for one in STUDIES.iter().flat_map(|study| study.experiments()) {
        if one.profiles().contains(&crate::shipped::ProfileSet::Printed) {
            assert_eq!(one.machines(), ["xeon-2x4"], "{}", one.name());
        }
    }
}

#[test]
fn a_table_too_wide_for_a_terminal_continues_below() {
    let heads: Vec<String> = (0..14).map(|nr| format!("column number {nr}")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = FindingTable::new("many", &heads);
    table.row((0..14).map(|nr| format!("cell {nr}")));
    let finding = Finding { tables: vec![table], ..Finding::default() };
    let text = text(&study_run(vec![(&study("dfs").experiments()[0], finding)], &[]));
    assert_eq!(wide_lines(&text), [""; 0]);
    assert_eq!(text.matches("cell 0").count(), 2, "both parts have the first column: {text}");
    assert!((1..14).all(|nr| text.contains(&format!("cell {nr}"))), "{text}");
}

#[test]
fn the_groups_of_jobs_are_the_published_ones() {
    let groups = |mix: &str| -> Vec<u8> {
        let jobs = crate::shipped::workload(mix).expect("it ships").jobs;
        jobs.iter().map(published_groups::published_group).collect()
    };
    assert_eq!(groups("basic01"), [1, 1, 2, 2, 3, 3]);
    assert_eq!(groups("basic04-x3")[12..], [1, 1, 1, 2, 2, 2]);
    assert_eq!(groups("extended1"), [1, 2, 3, 3, 3, 3], "programs that the paper does not name");
}

/// The first CPU of the last placement of each job in the first 40 s.
#[derive(Default)]
struct Placements(std::collections::BTreeMap<u32, u32>);

impl engine::Sink for Placements {
    fn record(&mut self, record: &engine::TurnRecord<'_>) -> std::io::Result<()> {
        for request in &record.plan.requests {
            let (sched::Target::Job(job), sched::Action::Place(cpus)) =
                (request.target, &request.action)
            else {
                continue;
            };
            if let Some(cpu) = cpus.iter().next().filter(|_| record.turn.at.as_secs_f64() < 40.0) {
                self.0.insert(job.0, cpu.0);
            }
        }
        Ok(())
    }
}

#[test]
fn with_published_groups_group_1_is_on_one_socket_and_group_2_on_the_other() {
    let stop = StopFlag::default();
    let pool = RunPool::new(vec![1], 1, 1, &stop, &|_, _| {});
    let testbed = Testbed::parse("xeon-2x4").expect("it ships");
    let policy = "published-groups divided[version=threshold,guard=off,th_sq=1,th_ref=1]";
    let make = |_: &[program::Job]| Placements::default();
    let observed = pool.observe(&testbed, policy, &["basic04"], make).expect("it runs");
    let node = |job: u32| {
        let cpu = observed[0].0.get(&job).copied().map(base::CpuId);
        let mut nodes = testbed.machine.nodes().iter();
        nodes.position(|node| cpu.is_some_and(|cpu| node.cpus.contains(cpu)))
    };
    let nodes: Vec<Option<usize>> = (0..6).map(node).collect();
    assert_eq!(nodes, [0, 0, 0, 1, 1, 1].map(Some));
}

/// Equal programs have no better and no worse place: swaps between the kinds, at a start or for a counted phase, cost
/// the memory on the other node.
#[test]
fn ib_is_not_slower_than_the_kernel_with_equal_programs() {
    for machine in ["opteron-2384-uma", "opteron-2384-numa1", "opteron-2384-numa2"] {
        let testbed = Testbed::parse(&format!("{machine} scale=0.2")).expect("it ships");
        let jobs = testbed.jobs("nd", DeclaredClassBasis::Rate).expect("a set");
        let bench = SimBench::without_solo_runs(testbed.setting(), vec![jobs]).expect("a machine");
        let makespan = |policy: &str| {
            let column = Column::parse(policy).expect("a policy");
            let run = bench.run((&column, 0, 1), &StopFlag::default(), None).expect("it runs");
            let makespan = run.expect("it was not stopped").makespan();
            makespan.expect("all jobs exit").as_secs_f64()
        };
        let (ib, linux) = (makespan("ib"), makespan("linux@kernel=2.6.27"));
        assert!(ib <= 1.01 * linux, "{machine}: {ib} s, {linux} s under the kernel");
    }
}

/// With the placement of the kernel the programs already use the whole bandwidth: more CPU time for tasks that wait for
/// memory gains nothing, and takes CPU time from the others.
#[test]
fn ib_is_not_slower_than_the_kernel_if_memory_is_saturated() {
    let testbed = Testbed::parse("hybrid-desktop memory=8 copies=8 scale=0.02").expect("it ships");
    let jobs = testbed.jobs("ld1", DeclaredClassBasis::Rate).expect("a set");
    let copies = testbed.copies("ld1", None).expect("a set");
    let bench = SimBench::without_solo_runs(testbed.setting(), vec![jobs]).expect("a machine");
    let time = |policy: &str| {
        let column = Column::parse(policy).expect("a policy");
        let run = bench.run((&column, 0, 1), &StopFlag::default(), None).expect("it runs");
        set_s(&run.expect("it was not stopped"), &copies).expect("all jobs exit")
    };
    let (ib, linux) = (time("ib"), time("linux"));
    assert!(ib <= linux, "{ib} s, {linux} s under the kernel");
}
