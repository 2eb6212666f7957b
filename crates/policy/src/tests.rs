//! What a line that names a policy may be, and what is said of one that may not.

use expect_test::{Expect, expect};

use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};

use crate::{build, missing, registry};

fn check(spec: &str, expected: Expect) {
    let said = match build(spec, 1) {
        Ok(policy) => format!("{} every {:?}", policy.name(), policy.interval()),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&said);
}

#[test]
fn a_policy_is_named_with_and_without_parameters() {
    check("linux", expect!["linux every Some(Nanos(250000000))"]);
    check("dfs[]", expect!["dfs every Some(Nanos(250000000))"]);
    check(" dfs[ interval = 1s , cooldown=4 ] ", expect!["dfs every Some(Nanos(1000000000))"]);
}

#[test]
fn an_unknown_policy_is_refused_with_the_nearest_known_one() {
    check(
        "dsf",
        expect![[
            r#"there is no policy "dsf" (did you mean dfs?): there are linux, spread, random, dfs, di, dio, di-migrate, dino, animal, maximum-local, nmass, home-cluster, divided"#
        ]],
    );
    check(
        "eevdf2",
        expect![[
            r#"there is no policy "eevdf2": there are linux, spread, random, dfs, di, dio, di-migrate, dino, animal, maximum-local, nmass, home-cluster, divided"#
        ]],
    );
}

#[test]
fn an_unknown_parameter_is_refused_with_the_nearest_known_one() {
    check(
        "dfs[cooldwn=4]",
        expect![[
            r#"policy dfs has no parameter "cooldwn" (did you mean cooldown?): it has reading, domains, interval, wake, trigger, factor, migrations_per_poll, cooldown, min_load, only_job, start, class_basis, failures, bind, placement, classes, loads, memory, gain, slope, page_move, refill"#
        ]],
    );
    check("linux[zzz=4]", expect![[r#"policy linux has no parameter "zzz": it has interval"#]]);
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    check(
        "dfs[cooldown=-1]",
        expect![[
            r#"policy dfs: cooldown cannot be "-1", write a whole number of polls up to 1000000"#
        ]],
    );
    check(
        "dfs[factor=0.5]",
        expect![[
            r#"policy dfs: factor cannot be "0.5", write auto, or a number from 1 to 1000 such as 1.5 or 4/3"#
        ]],
    );
    check(
        "dfs[factor=1/0]",
        expect![[
            r#"policy dfs: factor cannot be "1/0", write auto, or a number from 1 to 1000 such as 1.5 or 4/3"#
        ]],
    );
    check(
        "dfs[min_load=101%]",
        expect![[
            r#"policy dfs: min_load cannot be "101%", write auto, a share of the peak such as 1% in steps of 0.0001%, or operations per interval"#
        ]],
    );
    check(
        "dfs[interval=0]",
        expect![[
            r#"policy dfs: interval cannot be "0", write a time with its unit, from 1ms to 60min"#
        ]],
    );
    check(
        "spread[memory=everywhere]",
        expect![[
            r#"policy spread: memory cannot be "everywhere", write first-touch, bind or preferred"#
        ]],
    );
}

#[test]
fn a_time_without_its_unit_is_refused() {
    for text in ["dfs[interval=250]", "spread[interval=1]", "linux[interval=0.5]"] {
        let error = build(text, 1).err().expect(text).to_string();
        assert!(error.ends_with("write a time with its unit, from 1ms to 60min"), "{error}");
    }
    check("dfs[interval=60min]", expect!["dfs every Some(Nanos(3600000000000))"]);
    check(
        "dfs[interval=61min]",
        expect![[
            r#"policy dfs: interval cannot be "61min", write a time with its unit, from 1ms to 60min"#
        ]],
    );
}

#[test]
fn a_share_that_is_too_fine_is_refused_and_not_taken_for_none() {
    check(
        "dfs[min_load=0.00001%]",
        expect![[
            r#"policy dfs: min_load cannot be "0.00001%", write auto, a share of the peak such as 1% in steps of 0.0001%, or operations per interval"#
        ]],
    );
    check(
        "dfs[min_load=1.00005%]",
        expect![[
            r#"policy dfs: min_load cannot be "1.00005%", write auto, a share of the peak such as 1% in steps of 0.0001%, or operations per interval"#
        ]],
    );
    check("dfs[min_load=0.0001%]", expect!["dfs every Some(Nanos(250000000))"]);
    check("dfs[min_load=0%]", expect!["dfs every Some(Nanos(250000000))"]);
}

#[test]
fn a_parameter_that_another_makes_void_is_refused() {
    check(
        "dfs[trigger=ratio,factor=3/2]",
        expect!["policy dfs: factor has no effect with trigger=ratio, leave one of them out"],
    );
    check(
        "dfs[factor=auto,trigger=ratio]",
        expect!["policy dfs: factor has no effect with trigger=ratio, leave one of them out"],
    );
    check("dfs[trigger=mean_factor,factor=3/2]", expect!["dfs every Some(Nanos(250000000))"]);
}

#[test]
fn a_parameter_given_twice_is_refused() {
    check("dfs[cooldown=4,cooldown=4]", expect!["policy dfs: cooldown is given twice, keep one"]);
}

#[test]
fn a_text_of_another_form_is_refused_with_an_example() {
    for text in ["", "[cooldown=4]", "dfs[cooldown=4", "dfs]", "dfs[cooldown]", "dfs[=4]", "dfs[,]"]
    {
        let error = build(text, 1).err().expect(text).to_string();
        assert!(error.ends_with("dfs[cooldown=4,domains=llc]"), "{error}");
    }
}

#[test]
fn every_error_is_one_line() {
    for text in ["a\nb", "dfs[\n=1]", "dfs[cooldown=1\n2]", "dfs[\ny=1]"] {
        let error = build(text, 1).err().expect(text).to_string();
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn every_default_can_be_written_and_changes_nothing() {
    for info in registry() {
        for param in info.params {
            let written = format!("{}[{}={}]", info.name, param.name, param.default);
            assert!(build(&written, 1).is_ok(), "{written}");
        }
    }
}

#[test]
fn a_description_says_what_and_where_from() {
    for info in registry() {
        assert!(info.does.ends_with('.') && !info.source.is_empty(), "{}", info.name);
        for param in info.params {
            assert!(!param.takes.is_empty() && !param.meaning.is_empty(), "{}", param.name);
        }
    }
}

/// A job whose profile was found, with a curve, how fast its program goes, and accesses.
fn job(class: Option<u8>, told: Option<(bool, bool, bool)>) -> program::Job {
    let mut workload =
        program::parse_toml("[[job]]\nname = \"x\"\nshell = \"true\"\n", "w.toml".as_ref())
            .expect("a workload");
    let mut job = workload.jobs.remove(0);
    job.class = class.and_then(program::Class::new);
    job.found = told.map(|(curve, speed, accesses)| {
        let figure = |value| ProfileValue::new(value, ValueSource::Declared);
        let point = CurvePoint { misses: 5.0, ..CurvePoint::default() };
        let phase = Phase {
            instructions: figure(1e9).filter(|_| speed),
            cycles_per_instruction: figure(1.0).filter(|_| speed),
            llc_accesses: figure(9.0).filter(|_| accesses),
            curve: MissRatioCurve::new(
                ValueSource::Declared,
                if curve { vec![point] } else { vec![] },
            )
            .expect("one point"),
            ..Phase::default()
        };
        let cpu_time = Some(base::Nanos::from_secs(1));
        let name = "lbm".to_owned();
        program::Profile { name, cpu_time, phases: vec![phase], ..program::Profile::default() }
            .into()
    });
    job
}

fn lacks(spec: &str, job: &program::Job, expected: Expect) {
    let lack = missing(spec, job).map(|lack| {
        lack.map_or("nothing".to_owned(), |lack| {
            format!("{}; without: {}", lack.words, lack.without.words())
        })
    });
    expected.assert_eq(&lack.unwrap_or_else(|error| error.to_string()));
}

#[test]
fn what_a_job_does_not_declare_is_told_with_what_a_policy_does_without_it() {
    let (nothing, all) = (job(None, None), job(None, Some((true, true, true))));
    for info in registry() {
        lacks(info.name, &all, expect!["nothing"]);
    }
    lacks("linux", &nothing, expect!["nothing"]);
    lacks(
        "dfs",
        &nothing,
        expect![
            "policy dfs needs the class (or misses over cache sizes, and speed) of program x; it has no profile; without: programs are spread by number at their start, and none is moved"
        ],
    );
    lacks("dfs[cooldown=4]", &job(Some(3), None), expect!["nothing"]);
    lacks(
        "di",
        &nothing,
        expect![
            "policy di needs the misses per 1000 instructions over cache sizes of program x; it has no profile; without: a program without it counts as one at the limit of devils"
        ],
    );
    lacks(
        "di",
        &job(Some(3), Some((false, true, true))),
        expect![
            "policy di needs the misses per 1000 instructions over cache sizes of program lbm; its profile has none; without: a program without it counts as one at the limit of devils"
        ],
    );
    lacks("di", &job(None, Some((true, false, false))), expect!["nothing"]);
    lacks(
        "dio",
        &job(None, Some((true, false, true))),
        expect![
            "policy dio needs the instructions per second of CPU time of program lbm; its profile has none; without: the run ends"
        ],
    );
    lacks(
        "dio",
        &job(None, Some((false, true, true))),
        expect![
            "policy dio needs the misses per 1000 instructions over cache sizes and the speed of program lbm; its profile has none; without: the run ends"
        ],
    );
    lacks(
        "animal",
        &job(None, Some((true, true, false))),
        expect![
            "policy animal needs the cache accesses per 1000 instructions and the speed of program lbm; its profile has none; without: who misses little counts as a sheep"
        ],
    );
    lacks(
        "none",
        &nothing,
        expect![[
            r#"there is no policy "none": there are linux, spread, random, dfs, di, dio, di-migrate, dino, animal, maximum-local, nmass, home-cluster, divided"#
        ]],
    );
}
