//! Statistics of synthetic runs.

use base::Nanos;
use expect_test::{Expect, expect};
use program::parse_toml;
use report::comparison::{ComparisonVerdict, ModelGapBasis};

use super::*;
use crate::assignment::ModelGap;
use crate::compare::{Column, Completion, JobTimes, MachineVariant};

/// Computes the statistics of makespans in seconds: a line per policy, a word per seed; `-` is a missing run, `x` is a
/// failed run, `10~` a run with a distance to a bound of the assignment model, and `10/7` a run with 7 migrations. The
/// first of two jobs takes half of the makespan; alone the jobs take 1 s and 2 s.
fn summary_of(lines: &str) -> Comparison {
    summary_on("cores=2", lines)
}

fn summary_on(machine: &str, lines: &str) -> Comparison {
    let lines: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
        .collect();
    let column = |words: &Vec<&str>| Column {
        text: words[0].to_owned(),
        policy: words[0].to_owned(),
        spec: words[0].to_owned(),
        variant: MachineVariant::default(),
        command: None,
    };
    let n_seeds = lines[0].len() - 1;
    let plan = ComparePlan {
        columns: lines.iter().map(column).collect(),
        baseline: 0,
        workloads: vec!["w".to_owned()],
        seeds: (1..=n_seeds as u64).collect(),
        n_draws: None,
    };
    let mut done = BTreeMap::new();
    for (column, words) in lines.iter().enumerate() {
        for (seed, word) in (1..).zip(&words[1..]).filter(|(_, word)| **word != "-") {
            let (time, migrations) = word.split_once('/').unwrap_or((word, "0"));
            let (time, gap) = match time.strip_suffix('~') {
                Some(time) => (time, Some(ModelGap { share: 0.25, is_bound: true })),
                None => (time, None),
            };
            let whole = (time.parse::<f64>().unwrap_or(9.0) * 1e9) as u64;
            let job = |end| JobTimes {
                start: Some(Nanos::ZERO),
                end: Some(Nanos(end)),
                ..JobTimes::default()
            };
            let metrics = RunMetrics {
                status: if time == "x" { Completion::Failed } else { Completion::Finished },
                last_end: Nanos(whole),
                jobs: vec![job(whole / 2), job(whole)],
                model_gap: gap,
                n_migrations: migrations.parse().expect("a number"),
                ..RunMetrics::default()
            };
            done.insert(plan.columns[column].key("w", seed), metrics);
        }
    }
    let text =
        "[[job]]\nname = \"a\"\ncommand = [\"a\"]\n[[job]]\nname = \"b\"\ncommand = [\"b\"]\n";
    let workload = parse_toml(text, "w.toml".as_ref()).expect("a workload");
    let times = vec![Some(Nanos::from_secs(1)), Some(Nanos::from_secs(2))];
    let alone = (0..plan.columns.len()).map(|column| ((column, 0, 0), times.clone())).collect();
    let about = SummaryContext {
        host: "sim",
        machine: &Machine::synthetic(machine).expect("a machine"),
        jobs: &[workload.jobs],
        alone: &alone,
        command: None,
        options: &BTreeMap::new(),
        timelines: &BTreeMap::new(),
        outputs: &BTreeMap::new(),
    };
    summarize(&plan, &done, &about)
}

fn check(lines: &str, expected: Expect) {
    let comparison = summary_of(lines);
    let three = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.3}"));
    let mut text = String::new();
    for row in &comparison.summary {
        let ends = row
            .ratio_ci95
            .as_ref()
            .map_or("-".to_owned(), |ends| format!("{:.3}-{:.3}", ends[0], ends[1]));
        text += &format!(
            "{} n={} failed={} mean={} median={} ratio={} ({ends}) p={} holm={} {} oracle={} slow={} unfair={}\n",
            row.column,
            row.n_runs,
            row.n_failed,
            three(row.mean_s),
            three(row.median_s),
            three(row.ratio_to_baseline),
            three(row.p),
            three(row.p_holm),
            row.verdict.map_or("-", ComparisonVerdict::name),
            three(row.oracle_gap),
            three(row.slowdown),
            three(row.unfairness),
        );
    }
    comparison.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    expected.assert_eq(&text);
}

#[test]
fn a_policy_faster_on_every_seed_is_better_with_its_distance_to_the_oracle() {
    check(
        "
        linux   10  11  12  13  14  15  16  17
        test     9  10  11  12  13  14  15  16
        oracle   8   9  10  11  12  13  14  15
        ",
        expect![[r#"
            linux n=8 failed=0 mean=13.500 median=13.500 ratio=1.000 (-) p=- holm=- - oracle=0.174 slow=6.750 unfair=1.000
            test n=8 failed=0 mean=12.500 median=12.500 ratio=0.926 (0.912-0.935) p=0.008 holm=0.016 better oracle=0.087 slow=6.250 unfair=1.000
            oracle n=8 failed=0 mean=11.500 median=11.500 ratio=0.852 (0.824-0.870) p=0.008 holm=0.016 better oracle=0.000 slow=5.750 unfair=1.000
        "#]],
    );
}

#[test]
fn a_policy_below_the_oracle_has_a_note_also_without_sections() {
    let note = |lines: &str| {
        let notes = summary_of(lines).notes;
        notes.into_iter().find(|note| note.starts_with("Below the oracle"))
    };
    let expected = "Below the oracle: test on w. The oracle searches policies with their defaults and placements of whole jobs for the whole run, under the settings of its own column.";
    assert_eq!(note("linux 10 11\ntest 8 8\noracle 8 9").as_deref(), Some(expected));
    assert_eq!(note("linux 10 11\ntest 8 9\noracle 8 9"), None);
    assert_eq!(note("linux 10 11\ntest 8 x\noracle 9 9"), None, "the means are of other seeds");
}

#[test]
fn a_distance_to_a_bound_of_the_assignment_model_and_an_absent_one_have_a_note() {
    let notes = |machine: &str| {
        let comparison = summary_on(machine, "linux 10 10~ 11~");
        assert_eq!(comparison.summary[0].model_gap, Some(0.25));
        assert_eq!(comparison.summary[0].model_gap_basis, Some(ModelGapBasis::LagrangianBound));
        comparison.notes.iter().map(|note| format!("{note}\n")).collect::<String>()
    };
    expect![[r#"
        Below the model, in 2 of 3 runs: relative to an upper bound (Lagrangian relaxation) of the work of all assignments, because there are more than 20000 lists of numbers of threads on the cores. The distance to the best assignment is smaller or equal.
        Below the model, in 1 of 3 runs: not computed. It needs a run of at least a second with at most 128 threads.
    "#]].assert_eq(&notes("cores=2 kinds=1024x1+512x1"));
    expect![[r#"
        Below the model, in 2 of 3 runs: relative to an upper bound (Lagrangian relaxation) of the work of all assignments, because there are more than 20000 lists of numbers of threads on the cores. The distance to the best assignment is smaller or equal.
    "#]].assert_eq(&notes("cores=2"));
}

#[test]
fn one_run_with_many_migrations_changes_their_mean_and_not_their_median() {
    let comparison = summary_of("linux 10/2 10/3 10/1000 x/9");
    let (row, all) = (&comparison.summary[0], &comparison.policies[0]);
    assert_eq!((row.n_migrations, row.n_migrations_median), (Some(335.0), Some(3.0)));
    assert_eq!((all.n_migrations, all.n_migrations_median), (Some(335.0), Some(3.0)));
    let failed = summary_of("linux x x");
    assert_eq!(failed.summary[0].n_migrations_median, None);
}

#[test]
fn mixed_and_zero_differences_are_inconclusive() {
    check(
        "
        linux  10  10  10  10  10  10  10  10
        some    9  11   9  11   9  11   9  11
        same   10  10  10  10  10  10  10  10
        ",
        expect![[r#"
            linux n=8 failed=0 mean=10.000 median=10.000 ratio=1.000 (-) p=- holm=- - oracle=- slow=5.000 unfair=1.000
            some n=8 failed=0 mean=10.000 median=10.000 ratio=1.000 (0.925-1.075) p=0.281 holm=0.281 inconclusive oracle=- slow=5.000 unfair=1.000
            same n=8 failed=0 mean=10.000 median=10.000 ratio=1.000 (-) p=- holm=- - oracle=- slow=5.000 unfair=1.000
            note: The runs of all seeds are identical on some workloads: they are one observation, without interval, test and verdict.
        "#]],
    );
}

#[test]
fn too_few_seeds_give_no_verdict_and_a_note() {
    check(
        "
        linux  10  10  10.2
        test    5   5   5
        ",
        expect![[r#"
            linux n=3 failed=0 mean=10.067 median=10.000 ratio=1.000 (-) p=- holm=- - oracle=- slow=5.033 unfair=1.000
            test n=3 failed=0 mean=5.000 median=5.000 ratio=0.497 (0.490-0.500) p=0.250 holm=0.250 inconclusive oracle=- slow=2.500 unfair=1.000
            note: 3 seeds are too few for a verdict: all differences can have the same sign by chance. With one policy besides the baseline use 6 or more.
        "#]],
    );
}

#[test]
fn a_failed_run_is_ranked_as_slowest_and_removes_the_ratio() {
    check(
        "
        linux  10  10  x   10  10  10  10  10  10
        test    9   x  9    9   9   9   9   9   -
        ",
        expect![[r#"
            linux n=8 failed=1 mean=10.000 median=10.000 ratio=- (-) p=- holm=- - oracle=- slow=5.000 unfair=1.000
            test n=7 failed=1 mean=9.000 median=9.000 ratio=- (-) p=0.188 holm=0.188 inconclusive oracle=- slow=4.500 unfair=1.000
            note: Interrupted: 17 of 18 runs done; the same command with the same directory resumes the comparison.
            note: 2 runs did not finish. Means and costs omit such runs, the test ranks them as slowest, and their policy has no ratio on the workload; the first is test on w with seed 2: it failed.
        "#]],
    );
}

#[test]
fn a_policy_that_fails_on_many_seeds_is_worse_although_its_other_runs_are_faster() {
    check(
        "
        linux  10.0 10.1 10.2 10.3 10.4 10.5 10.6 10.7
        test      9    x    x    x    x    x    x    x
        ",
        expect![[r#"
            linux n=8 failed=0 mean=10.350 median=10.350 ratio=1.000 (-) p=- holm=- - oracle=- slow=5.175 unfair=1.000
            test n=1 failed=7 mean=9.000 median=9.000 ratio=- (-) p=0.016 holm=0.016 worse oracle=- slow=4.500 unfair=1.000
            note: 7 runs did not finish. Means and costs omit such runs, the test ranks them as slowest, and their policy has no ratio on the workload; the first is test on w with seed 2: it failed.
        "#]],
    );
}

#[test]
fn runs_that_fail_under_both_policies_are_no_difference() {
    check(
        "
        linux  10.0 10.1 10.2 10.3 10.4 10.5 10.6    x
        test    9.0  9.1  9.2  9.3  9.4  9.5  9.6    x
        ",
        expect![[r#"
            linux n=7 failed=1 mean=10.300 median=10.300 ratio=- (-) p=- holm=- - oracle=- slow=5.150 unfair=1.000
            test n=7 failed=1 mean=9.300 median=9.300 ratio=- (-) p=0.016 holm=0.016 better oracle=- slow=4.650 unfair=1.000
            note: 2 runs did not finish. Means and costs omit such runs, the test ranks them as slowest, and their policy has no ratio on the workload; the first is linux on w with seed 8: it failed.
        "#]],
    );
}

#[test]
fn a_difference_below_the_accuracy_of_the_simulator_is_equal() {
    let near = "10.0001 11.0001 12.0001 13.0001 14.0001 15.0001 16.0001";
    let base = "linux 10 11 12 13 14 15 16";
    let one = summary_of(&format!("{base}\nnear {near}"));
    expect!["near takes as long as linux, within 0.10 % (ratio 1.0000, 95 % confidence interval 1.0000–1.0000)."]
        .assert_eq(&one.answer());
    assert_eq!(one.policies[1].verdict, Some(ComparisonVerdict::Equal));
    assert_eq!((one.policies[1].n_equal, one.policies[1].n_better), (1, 0));
    let some = summary_of(&format!("{base}\nnear {near}\nfast 9 10 11 12 13 14 15"));
    expect!["fast takes 7.69 % less time than linux (ratio 0.923, 95 % confidence interval 0.909–0.933). Equal within 0.10 %: near."]
        .assert_eq(&some.answer());
    assert!(some.to_html().contains("= equal within 0.10 %"));
    // Fewer pairs than a verdict needs.
    let few = summary_of("linux 10 11 12\nnear 10.0001 11.0001 12.0001");
    assert_eq!(few.policies[1].verdict, Some(ComparisonVerdict::Inconclusive));
}

#[test]
fn the_answer_omits_the_oracle_unless_no_other_policy_is_compared() {
    let (base, oracle) = ("linux 10 11 12 13 14 15 16", "oracle 8 9 10 11 12 13 14");
    let some = summary_of(&format!("{base}\nfast 9 10 11 12 13 14 15\n{oracle}"));
    expect!["fast takes 7.69 % less time than linux (ratio 0.923, 95 % confidence interval 0.909–0.933)."]
        .assert_eq(&some.answer());
    assert!(some.to_text(80).contains("oracle"));
    let only = summary_of(&format!("{base}\n{oracle}")).answer();
    assert!(only.starts_with("oracle takes 15 % less time than linux"), "{only}");
}

#[test]
fn identical_runs_are_one_observation_without_verdict() {
    check(
        "
        linux  10 10 10 10 10 10 10 10 10 10
        test    9  9  9  9  9  9  9  9  9  9
        ",
        expect![[r#"
            linux n=10 failed=0 mean=10.000 median=10.000 ratio=1.000 (-) p=- holm=- - oracle=- slow=5.000 unfair=1.000
            test n=10 failed=0 mean=9.000 median=9.000 ratio=0.900 (-) p=- holm=- - oracle=- slow=4.500 unfair=1.000
            note: The runs of all seeds are identical on some workloads: they are one observation, without interval, test and verdict.
        "#]],
    );
}

#[test]
fn the_answer_of_identical_or_failed_runs_is_no_verdict() {
    let answer = |lines: &str| summary_of(lines).answer();
    let line = |name: &str, word: &str| format!("{name} {}\n", [word; 10].join(" "));
    assert_eq!(
        answer(&(line("linux", "10") + &line("test", "8") + &line("same", "10"))),
        "No verdict: the runs of all seeds are identical, so they are one observation. \
         In it test takes 20 % less time than linux; same takes as long as linux."
    );
    assert_eq!(
        answer(&(line("linux", "x") + &line("test", "x"))),
        "No run finished, so there is no time to compare. Of 20 runs: 20 failed."
    );
    assert_eq!(
        answer(&(line("linux", "x") + &line("test", "9"))),
        "No verdict: the runs of all seeds are identical, so they are one observation. \
         In it test has no verdict (no ratio: baseline: 10 failed). Of 20 runs: 10 failed."
    );
    let some = "linux 10.0 10.1 10.2 10.3 10.4 10.5\ntest 9.0 9.1 9.2 9.3 9.4 x\n";
    expect!["test shows no significant difference from linux (no ratio: 1 failed). Of 12 runs: 1 failed."]
        .assert_eq(&answer(some));
}

#[test]
fn the_answer_depends_on_the_finished_pairs_and_not_on_the_seeds() {
    let answer = |lines: &str| summary_of(lines).answer();
    // Five pairs of ten seeds: the comparison was interrupted.
    let rest = "- - - - -";
    expect![
        "No verdict: 5 pairs of runs cannot show a difference from linux; at least 6 are needed."
    ]
    .assert_eq(&answer(&format!("linux 10 11 12 13 14 {rest}\ntest 15 16 17 18 19 {rest}")));
    // Two runs that fail are no difference.
    expect!["No verdict: 5 pairs of runs cannot show a difference from linux; at least 6 are needed. Of 12 runs: 2 failed."]
        .assert_eq(&answer("linux 10 11 12 13 14 x\ntest 15 16 17 18 19 x"));
    // One policy has too few pairs, the other has enough.
    let base = "linux 10 11 12 13 14 15 16";
    expect![
        "No policy takes less time than linux here. Worse: slow. Too few pairs for a verdict: late."
    ]
    .assert_eq(&answer(&format!("{base}\nslow 15 16 17 18 19 20 21\nlate 15 16 17 18 19 - -")));
    expect!["No policy takes less time than linux here. No significant difference: slow. Too few pairs for a verdict: late."]
        .assert_eq(&answer(&format!("{base}\nslow 9 12 11 14 13 16 15\nlate 15 16 17 18 19 - -")));
}

#[test]
fn runs_that_equal_those_of_the_baseline_are_not_tested() {
    let comparison = summary_of("linux 10 11 12 13 14 15 16\nauto 10 11 12 13 14 15 16");
    assert_eq!(comparison.answer(), "auto did the same as linux in every run.");
    let (row, all) = (&comparison.summary[1], &comparison.policies[1]);
    assert_eq!((row.verdict, row.p, row.p_holm, &row.ratio_ci95), (None, None, None, &None));
    assert_eq!((all.verdict, all.p, &all.ratio_ci95), (None, None, &None));
    let table = comparison.to_text(80);
    assert!(table.contains("1.000  -        same as baseline"), "{table}");
    let some = "linux 10 11 12 13 14 15 16\nauto 10 11 12 13 14 15 16\ndfs 9 10 11 12 13 14 15";
    let answer = summary_of(some).answer();
    assert!(answer.ends_with("Same as the baseline in every run: auto."), "{answer}");
    // Equal makespans of other runs are a result of the test.
    let other = summary_of("linux 10 10 10 10 10 10 11\ntest 10 10 10 10 10 10 10");
    assert!(!other.summary[1].is_same_as_baseline);
}

#[test]
fn holm_correction_removes_a_verdict_that_one_policy_alone_would_get() {
    let line = |name: &str, times: &str| format!("{name} {times}\n");
    let (linux, test) = ("10 10 10 10 10 10", "9 9.1 9.2 9.3 9.4 9.5");
    let other = "10 11 10 9 10 10";
    let verdict = |n_more: usize| {
        let others: String = (0..n_more).map(|nr| line(&format!("p{nr}"), other)).collect();
        summary_of(&(line("linux", linux) + &line("test", test) + &others)).summary[1].verdict
    };
    assert_eq!(verdict(0), Some(ComparisonVerdict::Better));
    assert_eq!(verdict(1), Some(ComparisonVerdict::Inconclusive));
}

#[test]
fn the_verdict_over_one_workload_is_that_of_the_workload() {
    let comparison = summary_of("linux 10 11 12 13 14 15 16\nours 9 10 11 12 13 14 15\n");
    let (all, one) = (&comparison.policies[1], &comparison.summary[1]);
    assert_eq!(all.verdict, one.verdict);
    assert!((all.ratio_to_baseline.unwrap() - one.ratio_to_baseline.unwrap()).abs() < 1e-12);
    assert_eq!((all.n_better, all.n_worse, all.n_inconclusive, all.n_seeds), (1, 0, 0, 7));
}

#[test]
fn the_table_contains_the_number_of_runs_only_if_it_differs_between_policies() {
    let head = |lines: &str| {
        let text = summary_of(lines).to_text(80);
        text.lines().find(|line| line.starts_with("policy")).expect("a table").to_owned()
    };
    assert!(head("a 10 11 12\nb 9 - -").contains(" runs "));
    assert!(!head("a 10 11 12\nb 9 10 11").contains("runs"));
}
