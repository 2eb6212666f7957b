//! Claims about studies.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::*;

#[test]
fn every_experiment_has_a_name_of_its_own_a_source_and_a_limit() {
    for study in STUDIES {
        let names: BTreeSet<&str> = study.experiments.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), study.experiments.len(), "{}", study.name);
        for one in study.experiments {
            let told = [one.title, one.says, one.limit, one.how];
            assert!(told.iter().all(|words| 5 < words.len()), "{}: {told:?}", one.name);
        }
    }
}

#[test]
fn a_verdict_of_draws_follows_the_limits_of_the_specification() {
    let words = [200, 190, 189, 100, 11, 10, 0].map(|held| Verdict::of_draws(held, 200).words());
    let (holds, depends, fails) = ("reproduces", "depends on the profile", "does not reproduce");
    assert_eq!(words, [holds, holds, depends, depends, depends, fails, fails]);
    assert_eq!(Verdict::of_draws(0, 0), Verdict::NotJudged);
}

#[test]
fn a_machine_with_farther_memory_has_the_ratio_that_was_asked_for() {
    let world = World::shipped("tilepro64").expect("ships").remote_over_local(2.0);
    let mean = |is_local: bool| {
        let all = world.machine.figures().accesses.iter();
        let of = all.filter(|way| (way.from == way.to) == is_local);
        let of: Vec<f64> =
            of.filter_map(|way| way.latency_ns).map(|figure| figure.value as f64).collect();
        crate::stats::mean(&of)
    };
    assert_eq!(format!("{:.2}", mean(false) / mean(true)), "2.00");
    assert_eq!(world.name, "tilepro64, remote 2.00");
}

#[test]
fn a_run_that_two_experiments_ask_for_is_run_once_and_is_the_same() {
    let asked = std::cell::Cell::new(0);
    let look = |done: usize, all: usize| {
        asked.set(if done == all { asked.get() + 1 } else { asked.get() })
    };
    let stop = AtomicBool::new(false);
    let rig = Rig::new(vec![1, 2], 1, 2, &stop, &look);
    let world = World::shipped("tilepro64").expect("ships");
    let first = rig.play(&world, &["linux"], &["wl1"]).expect("runs");
    let n_asked = asked.get();
    let again = rig.play(&world, &["linux"], &["wl1"]).expect("runs");
    assert_eq!((first.whole_s(0, 0), asked.get()), (again.whole_s(0, 0), n_asked));
}

#[test]
fn an_account_is_told_with_both_readings() {
    let study = Study::find("dfs").expect("there is one");
    let claim =
        |reading| Claim::new("it gains", reading, "+1.0".to_owned(), reading == Reading::Ours);
    let mut table = Table::new("time saved in %", &["workload", "ours"]);
    table.row(["wl1".to_owned(), "+1.0±0.2".to_owned()]);
    let found = Found {
        tables: vec![table],
        claims: Reading::BOTH.map(claim).to_vec(),
        why: vec!["one run failed".to_owned()],
    };
    let account = Account {
        study: study.name.to_owned(),
        source: study.source.to_owned(),
        seeds: vec![1, 2],
        draws: 1,
        experiments: vec![Told::new(&study.experiments[0], found)],
    };
    expect_test::expect_file!["told.txt"].assert_eq(&text(&account));
    expect_test::expect_file!["list.txt"].assert_eq(&list(study));
}
