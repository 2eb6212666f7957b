//! What is claimed of the physics, on the data that ships. `cargo xtask bench physics` prints the same.

use std::sync::OnceLock;

use super::*;

fn truth() -> Truth {
    let text = include_str!("../../../../workloads/machines/corun-pair.toml");
    let machine = topology::file::parse_toml(text, "corun-pair.toml").unwrap();
    let sites = crate::predict::sites(&machine, None).unwrap();
    assert!(sites.notes.is_empty(), "{:?}", sites.notes);
    let solo = include_str!("../../../../workloads/data/corun/solo.csv");
    let pairs = include_str!("../../../../workloads/data/corun/pairs.csv");
    let numa = include_str!("../../../../workloads/data/corun/numa.csv");
    let machine = Machine::of(&sites.all[0], 60.0);
    Truth::read(machine, (solo, "solo.csv"), (pairs, "pairs.csv"), (numa, "numa.csv")).unwrap()
}

/// Fits take a while; several claims rest on these.
fn left_out() -> &'static Judged {
    static JUDGED: OnceLock<Judged> = OnceLock::new();
    JUDGED.get_or_init(|| judge(&truth()))
}

fn stream(truth: &Truth) -> usize {
    truth.programs.iter().position(|its| its.name == "stream").unwrap()
}

#[test]
fn the_constants_that_ship_are_the_fit_of_all_data() {
    let (fitted, ships) = (fit(&truth()), Fitted::default());
    let two = [
        (fitted.slope, ships.slope),
        (fitted.cap, ships.cap),
        (fitted.overlap, ships.overlap),
        (fitted.overlap_max, ships.overlap_max),
        (fitted.late, ships.late),
    ];
    for (fitted_now, shipped) in two {
        assert!((fitted_now / shipped - 1.0).abs() < 0.01, "{fitted:?} beside {ships:?}");
    }
}

#[test]
fn with_a_program_left_out_the_error_is_below_that_of_every_simple_predictor() {
    let truth = truth();
    let stream = stream(&truth);
    let (own, calm) = (left_out().errors(), left_out().errors_without(stream));
    assert!(own.mean < 0.045 && calm.mean < 0.025, "{own:?} {calm:?}");
    for (name, begin) in all() {
        let judged = simple(&truth, &begin);
        assert!(own.mean < 0.7 * judged.errors().mean, "{name}: {:?}", judged.errors());
        let without = judged.errors_without(stream);
        assert!(calm.mean < 0.7 * without.mean, "{name} without stream: {without:?}");
        assert!(judged.errors().rank < own.rank, "{name}: {:?}", judged.errors());
    }
}

#[test]
fn slow_downs_that_were_not_fitted_come_in_the_right_order() {
    assert!(0.94 < left_out().errors().rank, "{:?}", left_out().errors());
}

#[test]
fn the_simple_predictors_are_those_that_the_data_describe() {
    // Their mean errors on the pairs that they were fitted on, as told beside the data. The last two are
    // described without every detail; they must be as good as told, or better.
    let truth = truth();
    let told = [0.255, 0.200, 0.107, 0.258, 0.210, 0.073];
    for (idx, ((name, begin), told)) in all().into_iter().zip(told).enumerate() {
        let fitted = begin.fit(&truth);
        let mean = in_sample(&truth, |pair| fitted.pair(&truth, pair)).errors().mean;
        let same = if idx < 4 { (mean - told).abs() < 0.001 } else { mean < told };
        assert!(same, "{name}: {mean} {told}");
    }
}

#[test]
fn remote_memory_is_told_within_eight_percent() {
    let truth = truth();
    let told = Told::new(&truth, &Fitted::default());
    for its in &truth.remote {
        let (name, told) = (&truth.programs[its.program].name, told.remote(its.program));
        assert!((told / its.slowdown - 1.0).abs() < 0.08, "{name}: {told} {}", its.slowdown);
    }
}

#[test]
fn mixes_of_four_move_no_more_than_the_channel_can() {
    let truth = truth();
    let told = Told::new(&truth, &Fitted::default());
    for out in 0..6 {
        let mix: Vec<usize> = (0..6).filter(|idx| *idx != out && *idx != (out + 1) % 6).collect();
        let each = told.mix(&mix);
        let held: f64 = each.iter().map(|its| its.cache).sum();
        assert!((held / truth.machine.cache - 1.0).abs() < 1e-6, "{each:?}");
        assert!(each.iter().all(|its| (0.99..8.0).contains(&its.slowdown)), "{mix:?} {each:?}");
        let moved: f64 = each.iter().map(|its| its.bytes_per_ns).sum();
        assert!(moved <= told.channel().cap * (1.0 + 1e-6), "{moved} {each:?}");
    }
}

#[test]
fn the_best_split_of_four_is_found_nearly_always() {
    let truth = truth();
    let found = splits(&truth, physics(&truth, &Fitted::default()));
    assert!(found.n == 15 && 13 <= found.n_best, "{found:?}");
    assert!(found.chosen - found.best < 0.01, "{found:?}");
}
