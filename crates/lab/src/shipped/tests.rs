//! What holds of all that ships.

use std::fmt::Write;

use base::Bytes;
use expect_test::expect_file;
use host_sim::hardware::Hardware;
use program::profile::Figure;

use super::*;

#[test]
fn every_machine_tells_all_that_the_simulator_needs_and_looks_as_it_should() {
    let mut drawn = String::new();
    for name in machines() {
        let machine = machine(name).unwrap();
        let hardware = Hardware::new(&machine);
        assert_eq!(hardware.assumed(), &[] as &[String], "{name}");
        assert_eq!(machine.warnings(), &[] as &[String], "{name}");
        let kernel = machine.system().kernel.as_deref().expect("each names its kernel");
        assert!(host_sim::kernel::Version::of_name(kernel).is_some(), "{name}: {kernel}");
        let _ = writeln!(drawn, "{name}, {kernel}\n{}", topology::draw::draw(&machine));
    }
    expect_file!["machines.txt"].assert_eq(&drawn);
}

#[test]
fn memory_elsewhere_on_the_tile_chip_is_a_tenth_slower_on_average() {
    let machine = machine("tilepro64").unwrap();
    let ns = |is_local: bool| {
        let all = machine.figures().accesses.iter().filter(|way| (way.from == way.to) == is_local);
        let all: Vec<f64> = all.map(|way| way.latency_ns.unwrap().value as f64).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert_eq!(format!("{:.2}", ns(false) / ns(true)), "1.10");
}

#[test]
fn a_name_that_is_nearly_right_is_told_and_others_are_listed() {
    let said = |error: NotShipped| error.to_string();
    assert_eq!(
        said(machine("xeon-2x5").unwrap_err()),
        "there is no shipped machine \"xeon-2x5\"; did you mean \"xeon-2x4\"?"
    );
    assert!(said(machine("vax").unwrap_err()).starts_with(
        "there is no shipped machine \"vax\"; there are tilepro64, tilepro64-striped, xeon-2x4"
    ));
    assert_eq!(
        said(profile("470.lbn").unwrap_err()),
        "there is no shipped profile \"470.lbn\"; did you mean \"470.lbm\"?"
    );
    assert!(profile("470.lbm@no").is_err() && profile("470.lbm@0").is_err());
}

#[test]
fn a_spec_program_needs_no_number_and_a_factor_changes_its_length_alone() {
    let whole = profile("470.lbm").unwrap();
    assert_eq!(profile("lbm").unwrap().phases, whole.phases);
    let tenth = profile("lbm@0.1").unwrap();
    assert_eq!(tenth.name, "lbm@0.1");
    let instructions = |profile: &Profile| profile.phases[0].instructions.unwrap().value();
    assert_eq!(instructions(&tenth), (instructions(&whole) / 10.0).round());
    assert_eq!(tenth.class, whole.class);
    assert_eq!(tenth.phases[0].curve, whole.phases[0].curve);
}

#[test]
fn a_counted_program_does_in_its_profile_what_was_counted_of_it() {
    let lbm = profile("470.lbm").unwrap();
    let phase = &lbm.phases[0];
    let at = |mib: u64| phase.curve.misses_at(Bytes(mib << 20)).unwrap();
    // 407 s at 2.4 GHz and 1.435 instructions a cycle; 15.39 misses with 20 MiB and more, 32.18 accesses.
    assert_eq!(phase.instructions.map(Figure::value), Some((407.0 * 2.4e9_f64 * 1.435).round()));
    assert_eq!(
        (at(20), at(35), phase.llc_accesses.map(Figure::value)),
        (15.39, 15.39, Some(32.18))
    );
    assert!(at(20) < at(8) && at(8) < at(1) && at(1) < 32.18);
    let bandwidth = phase.bandwidth.map(Figure::value).unwrap();
    assert_eq!(format!("{:.1}", bandwidth / 1e6), "4784.0");
    assert_eq!(lbm.cpu_time.map(|time| time.as_secs_f64().round()), Some(407.0));
}

#[test]
fn the_curve_falls_from_all_accesses_to_the_misses_that_were_counted() {
    let falling = |bytes: u64| formula::falling(Bytes(bytes), 30.0, 5.0, 4.0);
    assert_eq!((falling(0), falling(20 << 20), falling(64 << 20)), (30.0, 5.0, 5.0));
    // f(C/4) = (e^-1 - e^-4) / (1 - e^-4)
    assert_eq!(format!("{:.4}", falling(5 << 20)), "13.9021");
}

#[test]
fn a_draw_is_the_same_whenever_it_is_asked_for_and_stays_in_its_ranges() {
    let seeds = (0..50).map(Draw::Seed);
    for (draw, name) in seeds.flat_map(|draw| profiles().into_iter().map(move |name| (draw, name)))
    {
        let figures = figures::drawn(&name, draw);
        assert_eq!(figures, figures::drawn(&name, draw));
        assert!((0.3..=0.9).contains(&figures.prefetched), "{name}");
        assert!((1.0..=4.0).contains(&figures.l1_per_access), "{name}");
        assert!((1.0..=16.0).contains(&figures.overlap), "{name}");
        assert!((64.0..=400.0).contains(&figures.bytes_per_miss), "{name}");
    }
    let of = |seed| figures::drawn("lu.B", Draw::Seed(seed));
    assert_ne!(of(1), of(2));
    assert_eq!(figures::drawn("lu.B", Draw::Middle).cycles, 1.0 / 1.3);
}

#[test]
fn every_range_is_of_a_program_that_ships_is_no_wider_than_it_can_be_and_gives_a_reason() {
    let known = profiles();
    let mut seen = std::collections::BTreeSet::new();
    for range in ranges() {
        let whose = format!("{} {}", range.program, range.quantity);
        assert!(known.contains(&range.program), "{whose}: of no program");
        assert!(range.low <= range.high && 0.0 < range.low, "{whose}");
        assert!(["table", "reasoned"].contains(&&*range.origin), "{whose}");
        assert!(20 < range.reason.len(), "{whose}: {:?} is no reason", range.reason);
        assert!(seen.insert(whose.clone()), "{whose} stands there twice");
    }
}

#[test]
fn the_hog_misses_in_every_cache_that_does_not_hold_its_buffer() {
    let hog = hog(Bytes(32 << 20), Draw::Middle);
    let phase = &hog.phases[0];
    let accesses = phase.llc_accesses.unwrap().value();
    let ratio = |mib: u64| phase.curve.misses_at(Bytes(mib << 20)).unwrap() / accesses;
    assert_eq!(phase.footprint_bytes.map(Figure::value), Some(f64::from(128 << 20)));
    assert_eq!(
        [ratio(1), ratio(127), ratio(128)].map(|ratio| format!("{ratio:.2}")),
        ["0.98", "0.98", "0.00"]
    );
}

#[test]
fn every_program_runs_on_every_machine() {
    for name in machines() {
        let hardware = Hardware::new(&machine(name).unwrap());
        for program in profiles() {
            let alone = alone(&profile(&program).unwrap(), &hardware).unwrap();
            assert!(0.0 < alone.ipc && alone.ipc < 4.0, "{program} on {name}: {alone:?}");
        }
    }
}
