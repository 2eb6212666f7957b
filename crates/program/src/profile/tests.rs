//! Tests of profiles: reading, writing, errors with positions, and rates.

use std::path::Path;

use base::{Bytes, Nanos};
use expect_test::expect_file;
use proptest::prelude::*;

use super::*;

const PROFILE: &str = r#"
version = 2
name = "sort"
build_id = "5c0ffe"
tool = "evenkeel 0.1.0"
command = ["sort", "words"]
class = { value = 7, source = "estimated" }
class_cache_bytes = "32M"
cpu_time_ns = 1500000000
covered = 0.5

[[phase]]
share = { value = 0.25, source = "traced" }
cycles_per_instruction = 2
llc_accesses_per_1000 = { value = 30.0, source = "traced", error = 1.5 }

[phase.curve]
source = "traced"
cache_bytes = [1048576, 4194304]
misses_per_1000 = [20, 10]
write_backs_per_1000 = [4, 2]

[[phase]]
share = 0.75
cycles_per_instruction = 2
llc_accesses_per_1000 = 10
footprint_bytes = 4096
curve = { cache_bytes = [1048576], misses_per_1000 = [8], write_backs_per_1000 = [0] }
"#;

fn read(text: &str) -> Profile {
    parse_profile(text, Path::new("p.toml")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn invalid_profiles() {
    let result = |text: &str| match parse_profile(text, Path::new("p.toml")) {
        Ok(profile) => profile.to_toml(),
        Err(error) => error.to_string(),
    };
    let cases = expect_file!["../../cases/profile-errors.txt"];
    cases.assert_eq(&base::transcript(&cases.data(), result));
}

#[test]
fn a_written_profile_is_read_back_equal() {
    let profile = read(PROFILE);
    let text = profile.to_toml();
    assert_eq!(read(&text), profile, "{text}");
    assert_eq!(profile.class, Some((Class::new(7).unwrap(), ValueSource::Estimated)));
    assert_eq!(profile.cpu_time, Some(Nanos::from_millis(1500)));
    assert_eq!(profile.phases[0].cycles_per_instruction.unwrap().source, ValueSource::Declared);
    assert_eq!(profile.phases[1].curve.source, ValueSource::Declared);
}

#[test]
fn rates_are_averages_over_all_instructions() {
    let rates = read(PROFILE).rates_per_cpu_second(Bytes::from_mib(1), 2e9);
    assert_eq!(rates.instructions, Some(1e9));
    assert_eq!(rates.llc_references, Some(15e6)); // (30 + 3 × 10) / 4 for 1000
    assert_eq!(rates.llc_misses, Some(11e6)); // (20 + 3 × 8) / 4
    assert_eq!(rates.write_backs, Some(1e6));
    assert_eq!(rates.controller_ops(), Some(12e6));
    assert_eq!(rates.bandwidth(), Some(768e6));
}

#[test]
fn rates_that_a_profile_does_not_have_are_absent() {
    let rates = read("name = 'x'\n[[phase]]\n").rates_per_cpu_second(Bytes::from_mib(1), 2e9);
    assert_eq!(rates, ProfileRates { cycles: 2e9, ..ProfileRates::default() });
    assert_eq!(rates.bandwidth(), None);
}

#[test]
fn the_miss_ratio_is_that_of_all_instructions_and_needs_misses_and_accesses() {
    assert_eq!(read(PROFILE).llc_miss_ratio(Bytes::from_mib(1)), Some(11.0 / 15.0));
    let one = |accesses: &str| {
        let curve = "[phase.curve]\ncache_bytes = [64]\nmisses_per_1000 = [2.0]\n";
        read(&format!("name = 'x'\n[[phase]]\n{accesses}\n{curve}")).llc_miss_ratio(Bytes(64))
    };
    let known = one("llc_accesses_per_1000 = 8.0");
    assert_eq!([known, one("llc_accesses_per_1000 = 0.0"), one("")], [Some(0.25), None, None]);
}

#[test]
fn a_curve_is_interpolated_over_the_logarithm_of_the_size() {
    let curve = &read(PROFILE).phases[0].curve;
    for (kib, misses) in [(1, 20.0), (1024, 20.0), (2048, 15.0), (4096, 10.0), (1 << 20, 10.0)] {
        assert_eq!(curve.misses_at(Bytes::from_kib(kib)), Some(misses), "{kib} KiB");
    }
    assert_eq!(MissRatioCurve::default().misses_at(Bytes(1)), None);
}

#[test]
fn a_class_is_the_logarithm_of_the_rate() {
    for (rate, class) in [(0.0, 0), (0.9, 0), (1.0, 1), (2.9, 1), (3.0, 2), (1e4, 13), (1e12, 15)] {
        assert_eq!(Class::of_rate(rate).number(), class, "{rate}");
    }
    assert_eq!(Class::of_rate(f64::NAN).number(), 0);
}

#[test]
fn a_profile_of_another_build_does_not_match() {
    let profile = read(PROFILE);
    assert_eq!(fit(&profile, "sort", Some("5C0FFE")), Fit::Build);
    assert_eq!(fit(&profile, "sort", None), Fit::Name);
    assert_eq!(fit(&profile, "sort", Some("00")), Fit::Mismatch);
    assert_eq!(fit(&profile, "tar", Some("5c0ffe")), Fit::Mismatch);
    assert_eq!(file_name("sort", Some("0123456789abcdef")), "sort-0123456789ab.profile.toml");
    assert_eq!(file_name("run.sh", None), "run.sh.profile.toml");
}

fn profile_value() -> impl Strategy<Value = ProfileValue> {
    (0.0..1e12f64, 0..4usize, proptest::option::of(0.0..1e6f64)).prop_map(|(value, nr, error)| {
        ProfileValue::new(value, ValueSource::ALL[nr]).unwrap().with_error(error)
    })
}

proptest! {
    #[test]
    fn any_profile_is_written_and_read_back_equal(
        name in "[a-z\"\\\\]{1,20}",
        values in proptest::collection::vec(proptest::option::of(profile_value()), 6),
        misses in proptest::collection::vec(0.0..1e3f64, 0..20),
    ) {
        let point = |(idx, misses): (usize, &f64)| CurvePoint {
            cache: Bytes(1 << (idx + 10)),
            misses: *misses,
            write_backs: Some(misses / 3.0),
            prefetches: Some(misses * 2.0),
            error: None,
        };
        let points = misses.iter().enumerate().map(point).collect();
        let phase = Phase {
            share: ProfileValue::new(1.0, ValueSource::Traced).unwrap(),
            instructions: values[0],
            cycles_per_instruction: values[1].filter(|value| 0.0 < value.value() && value.value() <= 1e5),
            overlap: values[2],
            footprint_bytes: values[3],
            working_set_bytes: values[4],
            bandwidth: values[5],
            shared_footprint: ProfileValue::new(0.25, ValueSource::Estimated),
            curve: MissRatioCurve::new(if misses.is_empty() { ValueSource::Declared } else { ValueSource::Traced }, points).unwrap(),
            ..Phase::default()
        };
        let profile = Profile { name, phases: vec![phase], ..Profile::default() };
        prop_assert_eq!(read(&profile.to_toml()), profile);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        let _ = parse_profile(&text, Path::new("p.toml"));
    }
}
