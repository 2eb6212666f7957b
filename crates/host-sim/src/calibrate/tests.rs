//! Tests of the physics on the shipped data. `cargo xtask bench physics` prints the same values.

use std::sync::OnceLock;

use super::*;

fn measurements() -> CoRunData {
    let text = include_str!("../../../../workloads/machines/corun-pair.toml");
    let machine = topology::file::parse_toml(text, "corun-pair.toml").unwrap();
    let sites = crate::predict::llc_domains(&machine, None);
    assert!(sites.notes.is_empty(), "{:?}", sites.notes);
    let solo = include_str!("../../../../workloads/data/corun/solo.csv");
    let pairs = include_str!("../../../../workloads/data/corun/pairs.csv");
    let numa = include_str!("../../../../workloads/data/corun/numa.csv");
    let machine = CoRunMachine::of(&sites.all[0], 60.0);
    CoRunData::read(machine, (solo, "solo.csv"), (pairs, "pairs.csv"), (numa, "numa.csv")).unwrap()
}

/// Returns the cross-validation of the physics. It is computed once, because the fits are slow.
fn left_out() -> &'static CrossValidation {
    static JUDGED: OnceLock<CrossValidation> = OnceLock::new();
    JUDGED.get_or_init(|| cross_validate(&measurements()))
}

fn stream(measurements: &CoRunData) -> usize {
    measurements.programs.iter().position(|program| program.name == "stream").unwrap()
}

#[test]
fn the_shipped_constants_are_the_fit_to_all_data() {
    let (fitted, ships) = (fit(&measurements()), Calibration::default());
    let two = [
        (fitted.slope, ships.slope),
        (fitted.cap, ships.cap),
        (fitted.overlap, ships.overlap),
        (fitted.overlap_max, ships.overlap_max),
        (fitted.late, ships.late),
    ];
    for (fitted_now, shipped) in two {
        assert!((fitted_now / shipped - 1.0).abs() < 0.01, "{fitted:?} {ships:?}");
    }
}

#[test]
fn the_cross_validated_error_is_below_the_error_of_every_baseline() {
    let measurements = measurements();
    let stream = stream(&measurements);
    let (own, without_stream) = (left_out().errors(), left_out().errors_without(stream));
    assert!(own.mean < 0.045 && without_stream.mean < 0.025, "{own:?} {without_stream:?}");
    for (name, begin) in baselines() {
        let judged = cross_validate_baseline(&measurements, &begin);
        assert!(own.mean < 0.7 * judged.errors().mean, "{name}: {:?}", judged.errors());
        let without = judged.errors_without(stream);
        assert!(without_stream.mean < 0.7 * without.mean, "{name} without stream: {without:?}");
        assert!(judged.errors().rank < own.rank, "{name}: {:?}", judged.errors());
    }
}

#[test]
fn slowdowns_outside_the_fit_have_the_right_order() {
    assert!(0.94 < left_out().errors().rank, "{:?}", left_out().errors());
}

#[test]
fn the_baselines_reproduce_the_errors_published_with_the_data() {
    // Mean errors on the pairs of the fit, from the README of the data. The README does not describe every detail of
    // the last two baselines. For these, the test requires that the error is not larger than the published error.
    let measurements = measurements();
    let published = [0.255, 0.200, 0.107, 0.258, 0.210, 0.073];
    for (idx, ((name, begin), published)) in baselines().into_iter().zip(published).enumerate() {
        let fitted = begin.fit(&measurements);
        let mean = in_sample(&measurements, |pair| fitted.pair(&measurements, pair)).errors().mean;
        let same = if idx < 4 { (mean - published).abs() < 0.001 } else { mean < published };
        assert!(same, "{name}: {mean} {published}");
    }
}

#[test]
fn the_slowdown_of_remote_memory_is_predicted_within_eight_percent() {
    let measurements = measurements();
    let predictor = Predictor::new(&measurements, &Calibration::default());
    for remote in &measurements.remote {
        let (name, predicted) =
            (&measurements.programs[remote.program].name, predictor.remote(remote.program));
        assert!(
            (predicted / remote.slowdown - 1.0).abs() < 0.08,
            "{name}: {predicted} {}",
            remote.slowdown
        );
    }
}

#[test]
fn the_bandwidth_of_four_programs_does_not_exceed_the_capacity() {
    let measurements = measurements();
    let predictor = Predictor::new(&measurements, &Calibration::default());
    for out in 0..6 {
        let mix: Vec<usize> = (0..6).filter(|idx| *idx != out && *idx != (out + 1) % 6).collect();
        let each = predictor.predict(&mix);
        let occupied: f64 = each.iter().map(|one| one.cache).sum();
        assert!((occupied / measurements.machine.cache - 1.0).abs() < 1e-6, "{each:?}");
        assert!(each.iter().all(|one| (0.99..8.0).contains(&one.slowdown)), "{mix:?} {each:?}");
        let moved: f64 = each.iter().map(|one| one.bytes_per_ns).sum();
        assert!(moved <= predictor.channel().capacity * (1.0 + 1e-6), "{moved} {each:?}");
    }
}

#[test]
fn the_best_pairing_of_four_programs_is_usually_found() {
    let measurements = measurements();
    let found =
        evaluate_pairings(&measurements, physics_predictor(&measurements, &Calibration::default()));
    assert!(found.n == 15 && 13 <= found.n_best, "{found:?}");
    assert!(found.chosen - found.best < 0.01, "{found:?}");
}
