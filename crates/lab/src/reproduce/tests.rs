//! Claims about studies.

use std::collections::BTreeSet;

use base::StopFlag;

use super::*;

fn raised() -> StopFlag {
    let stop = StopFlag::default();
    stop.raise();
    stop
}

#[test]
fn every_experiment_has_a_name_of_its_own_a_source_and_a_limit() {
    for study in STUDIES {
        let names: BTreeSet<&str> = study.experiments.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), study.experiments.len(), "{}", study.name);
        for one in study.experiments {
            let told = [one.title, one.says, one.limit, one.how];
            assert!(told.iter().all(|words| 5 < words.len()), "{}: {told:?}", one.name);
            let line = format!("━━ {} ━━ {}", one.name, one.title);
            assert!(line.chars().count() <= 80, "{line}");
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
        let all = world.machine.perf_attributes().accesses.iter();
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
    let stop = StopFlag::default();
    let rig = Rig::new(vec![1, 2], 1, 2, &stop, &look);
    let world = World::shipped("tilepro64").expect("ships");
    let first = rig.play(&world, &["linux"], &["wl1"]).expect("runs");
    let n_asked = asked.get();
    let again = rig.play(&world, &["linux"], &["wl1"]).expect("runs");
    assert_eq!((first.whole_s(0, 0), asked.get()), (again.whole_s(0, 0), n_asked));
}

fn all(study: &Study) -> Vec<&Experiment> {
    study.experiments.iter().collect()
}

#[test]
fn every_list_fits_eighty_columns_and_machines_ship_or_are_made_up() {
    for study in STUDIES {
        let said = list(study, &all(study));
        let wide: Vec<&str> = said.lines().filter(|line| 80 < line.chars().count()).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        for machine in study.experiments.iter().flat_map(|one| one.machines) {
            let is_known = crate::shipped::machine(machine).is_ok()
                || topology::Machine::synthetic(machine).is_ok();
            assert!(is_known, "{machine}");
        }
    }
}

#[test]
fn an_account_names_the_command_that_tells_the_same() {
    let study = Study::find("dfs").expect("there is one");
    let stop = raised();
    let command = |seeds: &[u64], wanted: &[&Experiment]| {
        let rig = Rig::new(seeds.to_vec(), 3, 1, &stop, &|_, _| {});
        study.run(wanted, &rig, |_| {}).expect("to be stopped is no error").command()
    };
    let whole = command(&[1, 2], &all(study));
    assert_eq!(whole, "evenkeel reproduce dfs --seeds 2 --draws 3");
    let some = command(&[7], &all(study)[..2]);
    assert_eq!(some, "evenkeel reproduce dfs --only fig-5.1,fig-5.2 --seeds 7-7 --draws 3");
    let list = command(&[3, 7], &all(study)[..1]);
    assert_eq!(list, "evenkeel reproduce dfs --only fig-5.1 --seeds 3,7 --draws 3");
}

#[test]
fn a_mean_is_told_to_programs_whole_with_its_interval_and_a_papers_figure_is_marked() {
    let gain = Gain::of_each(vec![0.01, 0.02, 0.0301]);
    let heads = ["workload", "the report", "ours"];
    let mut table = Table::new("saved in %", &heads).units(&["%"]).published(&heads[1..2]);
    table.row(["wl1".into(), StudyCell::from("-0.8 to +4.5"), gain.cell()]);
    assert_eq!(
        table.columns.iter().map(|one| one.is_published).collect::<Vec<_>>(),
        [false, true, false]
    );
    let row = &table.rows[0];
    assert_eq!(row[0].figures, []);
    assert_eq!((row[1].figures[0].value, row[1].figures[0].low), (None, Some(-0.8)));
    let ours = &row[2].figures[0];
    assert_eq!((ours.value, ours.unit.as_str()), (Some(gain.mean * 100.0), "%"));
    assert_eq!(ours.high, gain.interval.map(|within| within.high * 100.0));
    let claim = Claim::drawn("it gains", Reading::Paper, 5, 200);
    assert_eq!(claim.figures, [StudyFigure::count(5, 200)]);
}

#[test]
fn an_account_is_told_with_both_readings() {
    let study = Study::find("dfs").expect("there is one");
    let claim =
        |reading| Claim::judged("it gains", reading, "+1.0", Some(reading == Reading::Ours));
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
        only: vec!["fig-5.1".to_owned(), "fig-5.2".to_owned()],
        seeds: vec![1, 2],
        draws: 1,
        experiments: vec![Told::new(&study.experiments[0], found)],
        left_out: vec!["fig-5.2".to_owned()],
    };
    expect_test::expect_file!["told.txt"].assert_eq(&text(&account));
    expect_test::expect_file!["list.txt"].assert_eq(&list(study, &all(study)));
}

#[test]
fn gains_are_paired_by_seed_and_not_by_position() {
    let before = Gain::by_seed(vec![(1, 0.01), (2, 0.02), (4, 0.04)]);
    let with = Gain::by_seed(vec![(2, 0.05), (3, 0.09), (4, 0.05)]);
    let more = with.beside(&before);
    assert_eq!(more.seeds, [2, 4]);
    assert_eq!(more.shown(), "+2.0±1.0");
    let over = Gain::over(&[before, with]);
    assert_eq!((over.seeds, over.each), (vec![2, 4], vec![0.035, 0.045]));
}

#[test]
fn of_an_empty_set_of_gains_nothing_is_said() {
    let none = Gain::by_seed(Vec::new());
    assert_eq!((none.shown(), none.percent()), ("–".to_owned(), "–".to_owned()));
    assert_eq!((none.is_surely_above(), none.is_within(-1.0, 1.0)), (None, false));
    let claim = Claim::judged("it gains", Reading::Paper, none.shown(), none.is_surely_above());
    assert_eq!(claim.verdict, Verdict::NotJudged);
    assert!(Gain::over(&[Gain::of_each(vec![0.1]), none]).is_empty());
}

#[test]
fn a_run_without_memory_for_all_is_told_with_its_seed_and_with_more_memory_none_fails() {
    let stop = StopFlag::default();
    let rig = Rig::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
    let far = World::shipped("tilepro64").expect("ships").remote_over_local(3.0);
    let small = rig.play(&far, &["linux@interleave"], &["wl6"]).expect("runs");
    let said = small.faults().join("; ");
    assert!(said.contains("2 of 2 runs") && said.contains("(1 2)"), "{said}");
    assert!(small.gain(0, 0, (&small, 0)).is_empty());
    let large = rig.play(&far.with_memory(16), &["linux@interleave"], &["wl6"]).expect("runs");
    assert_eq!(large.faults(), Vec::<String>::new());
    assert_eq!(large.gain(0, 0, (&large, 0)).seeds, [1, 2]);
}

#[test]
fn draws_come_in_their_order_however_many_run_at_a_time() {
    let stop = StopFlag::default();
    let of = |n_threads: usize| {
        let rig = Rig::new(vec![1], 9, n_threads, &stop, &|_, _| {});
        rig.each_draw(|draw, own| Ok((draw, own.draws()))).expect("nothing stops it")
    };
    let expected: Vec<(u64, u64)> = (1..=9).map(|draw| (draw, 9)).collect();
    assert_eq!((of(1), of(4)), (expected.clone(), expected));
}

/// Experiments that take little time.
fn fast(study: &Study) -> Vec<&Experiment> {
    let names = ["fig-1", "figs-2-to-5", "fig-6", "splits"];
    study.experiments.iter().filter(|one| names.contains(&one.name)).collect()
}

#[test]
fn what_is_told_fits_eighty_columns_and_is_the_same_again() {
    let study = Study::find("divided").expect("there is one");
    let stop = StopFlag::default();
    let of = |n_threads: usize| {
        let rig = Rig::new(vec![1, 2], 3, n_threads, &stop, &|_, _| {});
        study.run(&fast(study), &rig, |_| {}).expect("it can be done")
    };
    let (one, other) = (of(1), of(3));
    let said = text(&one);
    assert_eq!((&said, html(&one)), (&text(&other), html(&other)));
    let wide: Vec<&str> = said.lines().filter(|line| 80 < line.chars().count()).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn a_table_too_wide_for_a_terminal_goes_on_below() {
    let heads: Vec<String> = (0..14).map(|nr| format!("column number {nr}")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("many", &heads);
    table.row((0..14).map(|nr| format!("cell {nr}")));
    let found = Found { tables: vec![table], ..Found::default() };
    let study = Study::find("dfs").expect("there is one");
    let told = Told::new(&study.experiments[0], found);
    let account = Account {
        study: "dfs".to_owned(),
        source: String::new(),
        only: Vec::new(),
        seeds: vec![1],
        draws: 1,
        experiments: vec![told],
        left_out: Vec::new(),
    };
    let said = text(&account);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert_eq!(said.matches("cell 0").count(), 2, "the first column stands in both: {said}");
    assert!((1..14).all(|nr| said.contains(&format!("cell {nr}"))), "{said}");
}

#[test]
fn once_it_is_stopped_what_is_done_is_told_and_what_is_not() {
    let study = Study::find("dfs").expect("there is one");
    let stop = raised();
    let rig = Rig::new(vec![1], 1, 1, &stop, &|_, _| {});
    let wanted: Vec<&Experiment> = study.experiments.iter().take(2).collect();
    let account = study.run(&wanted, &rig, |_| {}).expect("to be stopped is no error");
    assert_eq!(account.left_out, ["fig-5.1", "fig-5.2"]);
    assert!(text(&account).ends_with("stopped:   not done: fig-5.1, fig-5.2\n"));
    assert_eq!(account.told().left_out, account.left_out);
}

#[test]
fn the_groups_of_jobs_are_the_papers() {
    let groups = |mix: &str| -> Vec<u8> {
        let jobs = crate::shipped::workload(mix).expect("ships").jobs;
        jobs.iter().map(divided::published_group).collect()
    };
    assert_eq!(groups("basic01"), [1, 1, 2, 2, 3, 3]);
    assert_eq!(groups("basic04-x3")[12..], [1, 1, 1, 2, 2, 2]);
    assert_eq!(groups("extended1"), [1, 2, 3, 3, 3, 3], "programs that it does not name");
}

/// Where jobs are put: the first CPU of the last placement of each.
#[derive(Default)]
struct Put(std::collections::BTreeMap<u32, u32>);

impl engine::Sink for Put {
    fn record(&mut self, record: &engine::TurnRecord<'_>) -> std::io::Result<()> {
        for ask in &record.plan.requests {
            let (sched::Target::Job(job), sched::Action::Place(cpus)) = (ask.target, &ask.action)
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
fn with_groups_given_group_1_is_on_one_socket_and_group_2_on_the_other() {
    let stop = StopFlag::default();
    let rig = Rig::new(vec![1], 1, 1, &stop, &|_, _| {});
    let world = World::shipped("xeon-2x4").expect("ships");
    let column = "given-groups divided[version=threshold,guard=off,th_sq=1,th_ref=1]";
    let heard = rig.listen(&world, column, &["basic04"], |_| Put::default()).expect("runs");
    let node = |job: u32| {
        let cpu = heard[0].0.get(&job).copied().map(base::CpuId);
        world.machine.nodes().iter().position(|node| cpu.is_some_and(|cpu| node.cpus.contains(cpu)))
    };
    let nodes: Vec<Option<usize>> = (0..6).map(node).collect();
    assert_eq!(nodes, [0, 0, 0, 1, 1, 1].map(Some));
}
