//! Texts that name a policy, the errors of others, and the consistency of all declarations.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};

use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};

use crate::{Param, Params, PolicyInfo, build, missing, registry};

fn check(spec: &str, expected: Expect) {
    let output = match build(spec, 1) {
        Ok(policy) => format!("{} every {:?}", policy.name(), policy.interval()),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&output);
}

#[test]
fn a_policy_is_named_with_and_without_parameters() {
    check("linux", expect!["linux every Some(Nanos(250000000))"]);
    check("dfs[]", expect!["dfs every Some(Nanos(250000000))"]);
    check(" dfs[ interval = 1s , cooldown=4 ] ", expect!["dfs every Some(Nanos(1000000000))"]);
}

#[test]
fn an_unknown_policy_is_rejected_with_the_nearest_known_one() {
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
fn an_unknown_parameter_is_rejected_with_the_nearest_known_one() {
    check(
        "dfs[cooldwn=4]",
        expect![[
            r#"policy dfs has no parameter "cooldwn" (did you mean cooldown?): it has reading, domains, interval, wake, trigger, factor, migrations_per_poll, cooldown, min_load, only_job, start, class_basis, failures, bind, placement, classes, loads, memory, gain, slope, page_move, refill"#
        ]],
    );
    check("linux[zzz=4]", expect![[r#"policy linux has no parameter "zzz": it has interval"#]]);
}

#[test]
fn a_value_out_of_range_is_rejected_with_the_range() {
    check(
        "dfs[cooldown=-1]",
        expect![[
            r#"policy dfs: cooldown cannot be "-1", write a whole number of polls from 0 to 1000000"#
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
fn a_time_without_its_unit_is_rejected() {
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
fn a_share_with_too_many_decimal_places_is_rejected() {
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

/// Each parameter without effect beside another's value: a text in which it has no effect, the error, and a text in
/// which it has an effect.
#[test]
fn a_parameter_without_effect_beside_anothers_value_is_rejected() {
    for (ineffective, beside, effective) in [
        (
            "dfs[trigger=ratio,factor=3/2]",
            "factor has no effect with trigger=ratio",
            "dfs[factor=3/2]",
        ),
        (
            "dfs[factor=auto,trigger=ratio]",
            "factor has no effect with trigger=ratio",
            "dfs[factor=auto]",
        ),
        ("dfs[slope=0.9]", "slope has no effect with gain=off", "dfs[gain=1.5,slope=0.9]"),
        ("dfs[refill=1s]", "refill has no effect with gain=off", "dfs[gain=1.5,refill=1s]"),
        (
            "dfs[page_move=1ms]",
            "page_move has no effect with gain=off",
            "dfs[gain=1,page_move=1ms,memory=follow]",
        ),
        ("dfs[gain=1,page_move=1ms]", "page_move has no effect with memory=stay", "dfs[gain=1]"),
        ("divided[guard=3]", "guard has no effect with th_sq=none", "divided[th_sq=5,guard=3]"),
        (
            "divided[th_ref=5,version=rank]",
            "th_ref has no effect with version=rank",
            "divided[th_sq=5,th_ref=5]",
        ),
        (
            "divided[th_sq=5,th_ref=5,min_share=1%]",
            "min_share has no effect with th_sq and th_ref",
            "divided[min_share=1%]",
        ),
        (
            "divided[version=threshold,th_sq=5,th_ref=5,min_share=1%]",
            "min_share has no effect with version=threshold",
            "divided[version=rank,th_sq=5,min_share=1%]",
        ),
        (
            "divided[th_sq=5,guard=off]",
            "th_sq has no effect with grouping by rank and guard=off",
            "divided[th_sq=5]",
        ),
        (
            "divided[reading=paper,th_sq=5]",
            "th_sq has no effect with grouping by rank and guard=off",
            "divided[reading=paper,th_sq=5,th_ref=5]",
        ),
    ] {
        let error = build(ineffective, 1).err().expect(ineffective).to_string();
        assert!(error.contains(beside), "{error}");
        assert!(build(effective, 1).is_ok(), "{effective}");
    }
    check(
        "dfs[slope=0.2]",
        expect!["policy dfs: slope has no effect with gain=off: change one of them or omit slope"],
    );
}

#[test]
fn a_value_that_requires_another_parameter_is_rejected_without_it() {
    for (text, error) in [
        ("divided[version=threshold]", "version=threshold also requires th_sq and th_ref"),
        ("divided[version=threshold,th_sq=5]", "version=threshold also requires th_sq and th_ref"),
        ("divided[th_ref=5]", "th_ref also requires th_sq"),
    ] {
        let found = build(text, 1).err().expect(text).to_string();
        assert_eq!(found, format!("policy divided: {error}"));
    }
}

/// A text with a parameter and values of others that give it an effect.
fn with_effect(info: &PolicyInfo, param: &Param, value: &str) -> String {
    let mut given = format!("{}={value}", param.name);
    for (other, ineffective) in param.no_effect_with {
        let value = match (*other, *ineffective) {
            ("gain", "off") => "1.5",
            ("memory", "stay") => "follow",
            ("trigger", "ratio") => "mean_factor",
            ("th_sq", "none") => "1,th_ref=1",
            ("version", "rank") => "auto",
            ("version", "threshold") => "rank",
            other => panic!("{other:?}: which value gives {} an effect?", param.name),
        };
        given.push_str(&format!(",{other}={value}"));
    }
    format!("{}[{given}]", info.name)
}

#[test]
fn a_parameter_given_twice_is_rejected() {
    check("dfs[cooldown=4,cooldown=4]", expect!["policy dfs: cooldown is given twice, keep one"]);
}

#[test]
fn a_text_of_another_form_is_rejected_with_an_example() {
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
fn every_default_is_accepted_in_both_readings() {
    for info in registry() {
        for param in info.params {
            for value in [param.default, param.default_paper.unwrap_or(param.default)] {
                let text = with_effect(info, param, value);
                if let Err(error) = build(&text, 1) {
                    panic!("{text}: {error}");
                }
            }
        }
    }
}

#[test]
fn the_reading_changes_defaults_and_a_given_value_overrides_it() {
    for info in registry() {
        let value = |text: &str, key: &str| {
            Params::parse(info, text).expect("accepted values").text(key).to_owned()
        };
        let (name, params) = (info.name, info.params);
        assert_eq!(
            params.iter().any(|param| param.default_paper.is_some()),
            params.iter().any(|param| param.name == "reading"),
            "{name}"
        );
        for param in params.iter().filter(|param| param.default_paper.is_some()) {
            let paper = format!("{name}[reading=paper]");
            assert_eq!(Some(value(&paper, param.name).as_str()), param.default_paper);
            let ours = with_effect(info, param, param.default).replace('[', "[reading=paper,");
            assert_eq!(value(&ours, param.name), param.default);
            assert_eq!(value(name, param.name), param.default);
        }
    }
}

#[test]
fn declarations_are_complete_and_consistent() {
    for info in registry() {
        assert!(info.summary.ends_with('.') && !info.source.is_empty(), "{}", info.name);
        let names: BTreeSet<&str> = info.params.iter().map(|param| param.name).collect();
        assert_eq!(names.len(), info.params.len(), "{}: a parameter is declared twice", info.name);
        for param in info.params {
            assert!(!param.values.words().is_empty() && !param.help.is_empty(), "{}", param.name);
            for (other, value) in param.no_effect_with {
                let other = info.params.iter().find(|param| param.name == *other);
                assert!(other.is_some_and(|other| other.values.accepts(value)), "{}", param.name);
            }
        }
        let codes = info.reasons.concat();
        let names: BTreeSet<&str> = codes.iter().map(sched::ReasonCode::name).collect();
        assert_eq!(names.len(), codes.len(), "{}: a reason is declared twice", info.name);
        let built = build(info.name, 1).expect("defaults are accepted");
        assert_eq!((built.name(), built.reasons()), (info.name, codes));
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
            format!("{}; without: {}", lack.text, lack.if_missing.text())
        })
    });
    expected.assert_eq(&lack.unwrap_or_else(|error| error.to_string()));
}

#[test]
fn an_undeclared_signal_is_reported_with_the_behaviour_without_it() {
    let (nothing, all) = (job(None, None), job(None, Some((true, true, true))));
    for info in registry() {
        lacks(info.name, &all, expect!["nothing"]);
    }
    lacks("linux", &nothing, expect!["nothing"]);
    lacks(
        "dfs",
        &nothing,
        expect![
            "policy dfs needs the class (or misses over cache sizes, and speed) of program x; it has no profile; without: jobs are spread by domain number at start, and none migrates"
        ],
    );
    lacks("dfs[cooldown=4]", &job(Some(3), None), expect!["nothing"]);
    lacks(
        "di",
        &nothing,
        expect![[
            "policy di needs the misses per 1000 instructions over cache sizes of program x; it has no profile; without: a program without it counts as one at the limit of devils"
        ]],
    );
    lacks(
        "di",
        &job(Some(3), Some((false, true, true))),
        expect![[
            "policy di needs the misses per 1000 instructions over cache sizes of program lbm; its profile has none; without: a program without it counts as one at the limit of devils"
        ]],
    );
    lacks("di", &job(None, Some((true, false, false))), expect!["nothing"]);
    lacks(
        "dio",
        &job(None, Some((true, false, true))),
        expect![[
            "policy dio needs the instructions per second of CPU time of program lbm; its profile has none; without: the run ends"
        ]],
    );
    lacks(
        "dio",
        &job(None, Some((false, true, true))),
        expect![[
            "policy dio needs the misses per 1000 instructions over cache sizes and the speed of program lbm; its profile has none; without: the run ends"
        ]],
    );
    lacks(
        "animal",
        &job(None, Some((true, true, false))),
        expect![
            "policy animal needs the cache accesses per 1000 instructions and the speed of program lbm; its profile has none; without: a job with few misses counts as a sheep"
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
