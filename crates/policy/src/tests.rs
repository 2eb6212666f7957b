//! Tests of the decisions of policies, of texts that name a policy, and of the consistency of all declarations.

use std::collections::BTreeSet;
use std::fmt::Write;

use base::Nanos;
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use sched::{ReasonCode, Wake};
use testkit::{field, parse};

use crate::declaration::terms;
use crate::testing::{plans, requests};
use crate::{
    Param, Params, PolicyError, PolicyInfo, Values, build, has_nothing_to_decide, missing, registry,
};

testkit::case_files! {
    plans:
        auto
        animal
        dfs_domains
        dfs_extensions
        dfs_moves
        dfs_starts
        di
        dino
        divided
        ff
        hass
        home_cluster
        ib
        ib_threads
        nmass
        random
        sample_run
        spread
        trial;
    policy_text: parameters;
    missing_text: required_signals;
}

/// Returns the policy that a text names, or the error.
fn policy_text(_: &str, spec: &str, _: &str) -> String {
    let mut text = match build(spec, 1) {
        Ok(policy) => {
            let interval =
                policy.interval().map_or("never".to_owned(), |time| format!("every {time}"));
            let wake = match policy.wake() {
                Wake::Poll => String::new(),
                Wake::Overflow { event, every } => {
                    format!(", on overflow of {every} {}", event.name())
                }
            };
            format!("{} {interval}{wake}", policy.name())
        }
        Err(error) => error.to_string(),
    };
    writeln!(text).expect("writing to a string");
    text
}

/// Returns the signal that a policy lacks for a job: `POLICY [class=N] [profile=curve,speed,accesses]`.
fn missing_text(_: &str, words: &str, _: &str) -> String {
    let (spec, _) = words.split_once(' ').unwrap_or((words, ""));
    let job = job(field(words, "class").map(parse), field(words, "profile"));
    match missing(spec, &job) {
        Ok(None) => "nothing\n".to_owned(),
        Ok(Some(lack)) => format!("{}; without: {}\n", lack.text, lack.if_missing.text()),
        Err(error) => format!("{error}\n"),
    }
}

/// Returns a job with a class and a profile that has these parts.
fn job(class: Option<u8>, profile: Option<&str>) -> program::Job {
    let command = program::Command::Shell("true".to_owned());
    let mut job = program::Job::new(base::JobId(0), "x".to_owned(), command);
    job.class = class.and_then(program::Class::new);
    job.found = profile.map(|parts| {
        let has = |part| parts.split(',').any(|other| other == part);
        let value =
            |value, part| ProfileValue::new(value, ValueSource::Declared).filter(|_| has(part));
        let point = CurvePoint { misses: 5.0, ..CurvePoint::default() };
        let points = if has("curve") { vec![point] } else { Vec::new() };
        let phase = Phase {
            instructions: value(1e9, "speed"),
            cycles_per_instruction: value(1.0, "speed"),
            llc_accesses: value(9.0, "accesses"),
            curve: MissRatioCurve::new(ValueSource::Declared, points).expect("one point"),
            ..Phase::default()
        };
        let (name, cpu_time) = ("lbm".to_owned(), Some(Nanos::from_secs(1)));
        program::Profile { name, cpu_time, phases: vec![phase], ..program::Profile::default() }
            .into()
    });
    job
}

#[test]
fn with_a_complete_profile_no_policy_lacks_a_signal() {
    let job = job(None, Some("curve,speed,accesses"));
    for info in registry() {
        assert_eq!(missing(info.name, &job).expect("a policy"), None, "{}", info.name);
    }
}

/// Returns the codes of the notes of a policy in its first turn that state that it has nothing to decide.
fn nothing_to_decide(machine: &str, policy: &str, script: &str) -> Vec<String> {
    let output = plans(machine, policy, script);
    assert_eq!(requests(&output).count(), 0, "{policy} on {machine}: {output}");
    let codes = build(policy, 1).expect("a policy").reasons();
    let is_noted = |code: &ReasonCode| output.contains(&format!(" note: {}\n", code.name()));
    let noted = codes.iter().filter(|code| is_noted(code) && has_nothing_to_decide(code));
    noted.map(|code| code.name().to_owned()).collect()
}

#[test]
fn every_note_of_a_machine_without_a_placement_is_a_reason_to_decide_nothing() {
    let script = "job a class=6\n0ms due a";
    for info in registry().iter().filter(|info| info.name != "linux") {
        let expected = match info.name {
            "auto" => "auto-one-domain",
            _ if info.needs_core_kinds => "one-core-kind",
            _ => "nothing-to-place",
        };
        let noted = nothing_to_decide("nodes=1 llcs=1 cores=1", info.name, script);
        assert_eq!(noted, [expected], "{}", info.name);
    }
    let without_domains = "nodes=2 llcs=1 cores=2 no-llcs";
    assert_eq!(nothing_to_decide(without_domains, "spread[domains=llc]", script), ["no-domains"]);
}

/// Returns an accepted text that sets a parameter, after `reading`. Values of other parameters are added only if the
/// parameter is rejected without them.
fn with_effect(info: &PolicyInfo, reading: &str, param: &Param, value: &str) -> String {
    let others = info.params().filter(|other| ![param.name, "reading"].contains(&other.name));
    let setting = |other: &Param, value| format!(",{}={value}", other.name);
    let settings = others.flat_map(|other| {
        sample_values(&other.values).into_iter().map(|value| setting(other, value))
    });
    let one: Vec<String> = settings.collect();
    let two = one.iter().flat_map(|first| one.iter().map(move |second| format!("{first}{second}")));
    let all = std::iter::once(String::new()).chain(one.iter().cloned()).chain(two);
    let mut texts = all.map(|more| format!("{}[{reading}{}={value}{more}]", info.name, param.name));
    let accepted = texts.find(|text| build(text, 1).is_ok());
    accepted.unwrap_or_else(|| panic!("{} {}={value} is always rejected", info.name, param.name))
}

/// Returns the values of a parameter: all names, or `word` of [`Values::Or`] and the limits of a range.
fn sample_values(values: &Values) -> Vec<String> {
    let both = |texts: [String; 2]| texts.to_vec();
    match values {
        Values::Names(names) => names.iter().map(|&name| name.to_owned()).collect(),
        Values::Domains(_) => ["auto", "node", "llc", "core"].map(str::to_owned).to_vec(),
        Values::Integer { min, max, .. } => both([min.to_string(), max.to_string()]),
        Values::Decimal { max, .. } => both(["1".to_owned(), (max / 1_000_000).to_string()]),
        Values::Percent => both(["1%", "100%"].map(str::to_owned)),
        Values::Time(_, max) => both([1, max.0 / 1_000_000].map(|ms| format!("{ms}ms"))),
        Values::Or(word, others) => {
            let mut all = sample_values(others);
            all.insert(0, (*word).to_owned());
            all
        }
        Values::Other(..) => Vec::new(),
    }
}

/// Lists the values of each parameter that are rejected because they have no effect: alone, and in combination with one
/// value of another parameter. A new parameter or value usually changes the list. If the list stays equal, the
/// declaration of the parameter needs a review.
#[test]
fn pairs_of_values_without_effect_are_rejected() {
    let mut text = String::new();
    for info in registry() {
        let has_no_effect = |key: &str, pairs: &str| {
            let spec = format!("{}[{pairs}]", info.name);
            let no_effect = |error| match error {
                PolicyError::NoEffect { key: of, .. } => key == of,
                PolicyError::NotBelow { key: lower, upper_key, .. } => {
                    [lower, upper_key].contains(&key)
                }
                _ => false,
            };
            Params::parse(info, &spec).err().is_some_and(no_effect)
        };
        let texts = |param: &Param| {
            let mut values = sample_values(&param.values);
            if !values.iter().any(|value| value == param.default) {
                values.push(param.default.to_owned());
            }
            values.dedup();
            values.into_iter().map(|value| format!("{}={value}", param.name)).collect::<Vec<_>>()
        };
        let mut add = |beside: &str, rejected: Vec<&str>| {
            if !rejected.is_empty() {
                writeln!(text, "{} {beside}: {}", info.name, rejected.join(" ")).expect("text");
            }
        };
        for param in info.params() {
            let all = texts(param);
            let (alone, rest): (Vec<&str>, Vec<&str>) =
                all.iter().map(String::as_str).partition(|one| has_no_effect(param.name, one));
            add("alone", alone);
            for other in info.params().filter(|other| other.name != param.name) {
                for beside in texts(other) {
                    let is_rejected =
                        |one: &&str| has_no_effect(param.name, &format!("{one},{beside}"));
                    add(&beside, rest.iter().copied().filter(is_rejected).collect());
                }
            }
        }
    }
    expect_test::expect_file!["../golden/rejected_pairs.txt"].assert_eq(&text);
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
        for param in info.params() {
            for value in [param.default, param.default_paper.unwrap_or(param.default)] {
                with_effect(info, "", param, value); // Panics if no text is accepted.
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
        let name = info.name;
        assert_eq!(
            info.params().any(|param| param.default_paper.is_some()),
            info.param("reading").is_some(),
            "{name}"
        );
        for param in info.params().filter(|param| param.default_paper.is_some()) {
            let paper = format!("{name}[reading=paper]");
            assert_eq!(Some(value(&paper, param.name).as_str()), param.default_paper);
            let overridden = with_effect(info, "reading=paper,", param, param.default);
            assert_eq!(value(&overridden, param.name), param.default);
            assert_eq!(value(name, param.name), param.default);
        }
    }
}

#[test]
fn declarations_are_complete_and_consistent() {
    for info in registry() {
        assert!(info.summary.ends_with('.') && !info.source.is_empty(), "{}", info.name);
        let names: BTreeSet<&str> = info.params().map(|param| param.name).collect();
        assert_eq!(
            names.len(),
            info.params().count(),
            "{}: a parameter is declared twice",
            info.name
        );
        for param in info.params() {
            assert!(!param.values.words().is_empty() && !param.help.is_empty(), "{}", param.name);
            assert!(param.values.accepts(param.default), "{}: the default", param.name);
            for (key, _, value) in param.no_effect_with.iter().flat_map(|all| terms(all)) {
                let other = info.param(key);
                assert!(other.is_some_and(|other| other.values.accepts(value)), "{}", param.name);
            }
            if let Some(upper) = param.below {
                let is_integer = |of: &Param| matches!(of.values, Values::Integer { .. });
                let are_integers = is_integer(param) && info.param(upper).is_some_and(is_integer);
                assert!(are_integers, "{}: below {upper}", param.name);
            }
            let has_signal = |(value, _)| param.values.accepts(value);
            assert!(param.signal.is_none_or(has_signal), "{}: its signal", param.name);
            for required in param.requires.iter().flat_map(|requirement| requirement.params) {
                assert!(info.param(required).is_some(), "{}: {required}", param.name);
            }
        }
        let built = build(info.name, 1).expect("defaults are accepted");
        let codes = built.reasons();
        let names: BTreeSet<&str> = codes.iter().map(ReasonCode::name).collect();
        assert_eq!(names.len(), codes.len(), "{}: a reason is declared twice", info.name);
        assert_eq!(built.name(), info.name);
        assert!(codes.starts_with(&info.reasons.concat()));
    }
}

/// A bracket without a value and without a condition `name=word: ` would be printed in every sentence.
#[test]
fn every_bracket_of_a_reason_has_a_value_or_a_condition() {
    for info in registry() {
        for code in build(info.name, 1).expect("defaults are accepted").reasons() {
            for inside in code.template().split('[').skip(1) {
                let inside = inside.split(']').next().expect("a text");
                let is_condition = inside
                    .split_once(": ")
                    .is_some_and(|(head, _)| head.contains('=') && !head.contains([' ', '{']));
                assert!(is_condition || inside.contains('{'), "{}: [{inside}]", code.name());
            }
        }
    }
}
