//! Claims about all shipped data.

use std::fmt::Write;

use base::Bytes;
use expect_test::expect_file;
use host_sim::hardware::Hardware;
use program::profile::ProfileValue;

use super::program_values::{CORE_CYCLES_MIN, HOG};
use super::*;

#[test]
fn every_machine_file_has_all_values_of_the_simulator_and_is_written_and_drawn() {
    let mut drawn = String::new();
    for name in machines() {
        let machine = machine(name).unwrap();
        let hardware = Hardware::new(&machine);
        assert_eq!(hardware.assumed(), &[] as &[String], "{name}");
        assert_eq!(machine.warnings(), &[] as &[String], "{name}");
        let text = topology::file::to_toml(&machine);
        assert_eq!(topology::file::parse_toml(&text, name).as_ref(), Ok(&machine));
        let kernel = machine.system().kernel.as_deref().expect("each names its kernel");
        assert!(kernel.parse::<host_sim::kernel::KernelVersion>().is_ok(), "{name}: {kernel}");
        let _ = writeln!(drawn, "{name}, {kernel}\n{}", topology::draw::draw(&machine));
    }
    expect_file!["machines.txt"].assert_eq(&drawn);
}

#[test]
fn remote_memory_of_the_tilepro64_is_10_percent_slower_on_average() {
    let machine = machine("tilepro64").unwrap();
    let ns = |is_local: bool| {
        let all = machine
            .perf_attributes()
            .accesses
            .iter()
            .filter(|access| (access.from == access.to) == is_local);
        let all: Vec<f64> = all.map(|access| access.latency_ns.unwrap().value as f64).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert_eq!(format!("{:.2}", ns(false) / ns(true)), "1.10");
}

#[test]
fn an_unknown_name_gets_a_suggestion_or_the_list() {
    let message = |error: NotShipped| error.to_string();
    assert_eq!(
        message(machine("xeon-2x5").unwrap_err()),
        "there is no shipped machine \"xeon-2x5\"; did you mean \"xeon-2x4\" or \"xeon-2s\"?"
    );
    assert!(message(machine("vax").unwrap_err()).starts_with(
        "there is no shipped machine \"vax\"; there are tilepro64, tilepro64-interleaved, xeon-2x4"
    ));
    assert_eq!(
        message(profile("470.lbn").unwrap_err()),
        "there is no shipped profile \"470.lbn\"; did you mean \"470.lbm\"? evenkeel profile --list prints the 42 shipped profiles"
    );
    assert_eq!(
        message(profile("lbn@0.1").unwrap_err()),
        "there is no shipped profile \"lbn@0.1\"; did you mean \"470.lbm\"? evenkeel profile --list prints the 42 shipped profiles"
    );
    assert_eq!(
        message(profile("vax").unwrap_err()),
        "there is no shipped profile \"vax\"; evenkeel profile --list prints the 42 shipped profiles"
    );
    for wrong in ["470.lbm@no", "470.lbm@0", "470.lbm@", "470.lbm@-1"] {
        let message = message(profile(wrong).unwrap_err());
        assert!(message.contains("must be a factor from 1e-9 to 1e6"), "{message}");
    }
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
fn the_profile_of_a_counted_program_has_the_published_values() {
    let lbm = profile("470.lbm").unwrap();
    let phase = &lbm.phases[0];
    let at = |mib: u64| phase.curve.misses_at(Bytes(mib << 20)).unwrap();
    // 407 s at 2.4 GHz and 1.435 instructions per cycle; 15.39 misses with 20 MiB and more, 32.18 accesses.
    assert_eq!(
        phase.instructions.map(ProfileValue::value),
        Some((407.0 * 2.4e9_f64 * 1.435).round())
    );
    assert_eq!(
        (at(20), at(35), phase.llc_accesses.map(ProfileValue::value)),
        (15.39, 15.39, Some(32.18))
    );
    assert!(at(20) < at(8) && at(8) < at(1) && at(1) < 32.18);
    let bandwidth = phase.bandwidth.map(ProfileValue::value).unwrap();
    assert_eq!(format!("{:.1}", bandwidth / 1e6), "4784.0");
    assert_eq!(lbm.cpu_time.map(|time| time.as_secs_f64().round()), Some(407.0));
}

#[test]
fn the_curve_falls_from_all_accesses_to_the_published_misses() {
    use host_sim::copy_scaling::{CACHE_MIB, mpki_with_cache};
    let falling = |mib: f64| mpki_with_cache(30.0, 5.0, mib, CACHE_MIB / 4.0);
    assert_eq!((falling(0.0), falling(20.0), falling(64.0)), (30.0, 5.0, 5.0));
    // f(C/4) = (e^-1 - e^-4) / (1 - e^-4)
    assert_eq!(format!("{:.4}", falling(5.0)), "13.9021");
}

#[test]
fn equal_draws_give_equal_values_within_the_ranges() {
    let seeds = (0..50).map(ProfileDraw::seed);
    for (draw, name) in seeds.flat_map(|draw| profiles().into_iter().map(move |name| (draw, name)))
    {
        let values = drawn(&name, draw);
        assert_eq!(values, drawn(&name, draw));
        assert!((0.3..=0.9).contains(&values.prefetched), "{name}");
        assert!((1.0..=4.0).contains(&values.l1_per_access), "{name}");
        assert!((1.0..=16.0).contains(&values.overlap), "{name}");
        assert!((64.0..=400.0).contains(&values.bytes_per_miss), "{name}");
    }
    let values_of = |seed| drawn("lu.B", ProfileDraw::seed(seed));
    assert_ne!(values_of(1), values_of(2));
    assert_eq!(drawn("lu.B", ProfileDraw::MIDDLE).cycles, 1.0 / 1.3);
}

#[test]
fn no_draw_has_more_stall_cycles_than_cycles() {
    let seeds = (0..500).map(ProfileDraw::seed);
    for draw in seeds.chain([ProfileDraw::MIDDLE]) {
        for name in profiles() {
            let values = drawn(&name, draw);
            assert!(0.0 < values.core_cycles(), "{name} {draw:?}: {values:?}");
        }
    }
    // Without repetition, 63 % of the draws of canneal had more stalls than cycles.
    let cycles = |name: &str| drawn(name, ProfileDraw::MIDDLE).core_cycles();
    assert!(["canneal", HOG].into_iter().all(|name| CORE_CYCLES_MIN <= cycles(name)));
}

#[test]
fn no_draw_has_more_misses_than_accesses_or_more_write_backs_than_reads() {
    let hardware = Hardware::new(&machine("xeon-2x4").unwrap());
    let draws = (0..100).map(ProfileDraw::seed).chain([ProfileDraw::MIDDLE]);
    for (draw, name) in draws.flat_map(|draw| profiles().into_iter().map(move |name| (draw, name)))
    {
        let result = alone(&profile_drawn(&name, draw).unwrap(), &hardware);
        assert!(result.is_ok(), "{name} {draw:?}: {result:?}");
    }
}

#[test]
fn every_printed_draw_has_the_printed_values_on_the_printed_machine() {
    let hardware = Hardware::new(&machine("xeon-2x4").unwrap());
    let positions = (0..50).map(DrawPosition::Seed).chain([DrawPosition::Middle]);
    for draw in positions.map(|position| ProfileDraw { set: ProfileSet::Printed, position }) {
        for name in ["470.lbm", "462.libquantum", "lu.B"] {
            let program = profile_drawn(name, draw).unwrap();
            let alone = alone(&program, &hardware).unwrap();
            assert!((0.65..=0.75).contains(&alone.hit_ratio), "{name} {draw:?}: {alone:?}");
            let phase = &program.phases[0];
            let half = phase.curve.misses_at(Bytes(4 << 20)).unwrap();
            let half = 1.0 - half / phase.llc_accesses.unwrap().value();
            assert!((0.15..=0.25).contains(&half), "{name} {draw:?}: {half}");
        }
        for name in ["482.sphinx3", "471.omnetpp", "streamcluster"] {
            let curve = profile_drawn(name, draw).unwrap().phases.remove(0).curve;
            let at = |mib: u64| curve.misses_at(Bytes(mib << 20)).unwrap();
            assert!(1.25 * at(8) <= at(4), "{name} {draw:?}: {} {}", at(8), at(4));
        }
        let below_2_gb = ["482.sphinx3", "471.omnetpp", "streamcluster", "canneal", "ferret"];
        for name in below_2_gb.into_iter().chain(["435.gromacs"]) {
            let alone = alone(&profile_drawn(name, draw).unwrap(), &hardware).unwrap();
            assert!(alone.bandwidth <= 2e9, "{name} {draw:?}: {alone:?}");
            assert!(CORE_CYCLES_MIN <= drawn(name, draw).core_cycles(), "{name} {draw:?}");
        }
    }
}

#[test]
fn printed_values_change_no_other_program_and_no_profile_of_the_table() {
    let of = |set| move |name: &str| drawn(name, ProfileDraw { set, ..ProfileDraw::seed(7) });
    let (table, printed) = (of(ProfileSet::Table), of(ProfileSet::Printed));
    for name in profiles() {
        if !super::tables::has_print(&name) {
            assert_eq!(table(&name), printed(&name));
        }
        assert_eq!(table(&name).printed_hits, None);
    }
}

#[test]
fn sphinx3_is_memory_bound_with_six_mebibytes_and_not_with_twenty() {
    for draw in (0..50).map(ProfileDraw::seed).chain([ProfileDraw::MIDDLE]) {
        let curve = profile_drawn("482.sphinx3", draw).unwrap().phases.remove(0).curve;
        let at = |mib: u64| curve.misses_at(Bytes(mib << 20)).unwrap();
        assert!(2.5 < at(6) && at(6) < 9.0 && at(20) < 0.01, "{draw:?}: {} {}", at(6), at(20));
        assert!(1.5 * at(8) < at(4), "it loses speed when it loses cache: {draw:?}");
    }
}

#[test]
fn every_range_has_a_shipped_program_valid_ends_and_a_reason() {
    let known = profiles();
    let mut names = std::collections::BTreeSet::new();
    for range in ranges() {
        let name = format!("{} {} {}", range.program, range.quantity, range.origin == "printed");
        assert!(known.contains(&range.program), "{name}: no such program");
        assert!(range.low <= range.high && 0.0 < range.low, "{name}");
        assert!(["table", "reasoned", "printed"].contains(&&*range.origin), "{name}");
        assert!(20 < range.reason.len(), "{name}: {:?} is no reason", range.reason);
        assert!(names.insert(name.clone()), "{name} occurs twice");
    }
}

#[test]
fn the_hog_misses_in_every_cache_smaller_than_its_buffer() {
    let hog = hog(Bytes(32 << 20), ProfileDraw::MIDDLE);
    let phase = &hog.phases[0];
    let accesses = phase.llc_accesses.unwrap().value();
    let ratio = |mib: u64| phase.curve.misses_at(Bytes(mib << 20)).unwrap() / accesses;
    assert_eq!(phase.footprint_bytes.map(ProfileValue::value), Some(f64::from(128 << 20)));
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
            assert!(0.0 < alone.ipc && alone.ipc <= 4.0 + 1e-9, "{program} on {name}: {alone:?}");
        }
    }
}

/// Returns the program lists of the DFS workloads: of wl1 to wl10, and of wl1-long to wl10-long.
fn dfs_programs() -> [program::ProgramList; 2] {
    let texts = [
        include_str!("../../../../workloads/papers/dfs/programs.toml"),
        include_str!("../../../../workloads/papers/dfs/programs-long.toml"),
    ];
    let parse = |text| program::ProgramList::parse(text, std::path::Path::new("a list")).unwrap();
    texts.map(parse)
}

#[test]
fn classes_and_lengths_of_the_dfs_programs_are_those_of_their_profiles_alone() {
    let hardware = Hardware::new(&machine("tilepro64").unwrap());
    let (mut listed_values, mut computed) = (Vec::new(), Vec::new());
    for listed in dfs_programs().into_iter().flat_map(|list| list.programs) {
        let profile = profile(listed.job.profile.as_deref().unwrap()).unwrap();
        let name = &listed.job.name;
        let class = class_on(&profile, &hardware).unwrap().number();
        let seconds = alone(&profile, &hardware).unwrap().seconds.round();
        let footprint = profile.phases[0].footprint_bytes.unwrap().value() / 1048576.0;
        computed.push((name.clone(), Some(class), seconds));
        let listed_class = listed.job.class.map(program::Class::number);
        listed_values.push((name.clone(), listed_class, listed.run_time.as_secs_f64()));
        if listed.suite.as_deref() == Some("SPEC") {
            assert_eq!(listed.footprint, Bytes((footprint * 1048576.0) as u64), "{name}");
        }
    }
    assert_eq!(listed_values, computed);
}

#[test]
fn the_dfs_workloads_are_drawn_with_their_seeds() {
    // Number of jobs, span in seconds, SPEC : cBench, and the hog fraction of wl6 to wl10.
    let [programs, long_programs] = dfs_programs();
    let table = [
        (40, 120, (1, 1), 0.10),
        (60, 120, (1, 1), 0.15),
        (60, 240, (2, 1), 0.20),
        (80, 240, (1, 2), 0.25),
        (100, 300, (3, 1), 0.30),
    ];
    for (number, (n_jobs, span, (spec, cbench), hogs)) in (1..).zip(table.into_iter().chain(table))
    {
        let hog_fraction = if number <= 5 { 0.0 } else { hogs };
        let weights = [("SPEC".to_owned(), spec), ("cBench".to_owned(), cbench)];
        let options = program::GeneratorOptions {
            n_jobs,
            seed: 100 + number,
            span: base::Nanos::from_secs(span),
            hog_fraction,
            suite_weights: weights.into(),
            memory: Some(Bytes(2500 << 20)),
        };
        let long = program::GeneratorOptions {
            n_jobs: 60,
            seed: 200 + number,
            span: base::Nanos::from_secs(30),
            memory: None,
            ..options.clone()
        };
        let plain = |workload: &program::Workload| -> Vec<(String, base::Nanos, Option<String>)> {
            let jobs = workload.jobs.iter();
            jobs.map(|job| (job.name.clone(), job.start, job.profile.clone())).collect()
        };
        let names = [format!("wl{number}"), format!("wl{number}-long")];
        for (name, (list, options)) in
            names.iter().zip([(&programs, &options), (&long_programs, &long)])
        {
            let drawn = program::generate(list, options).unwrap();
            let shipped = workload(name).unwrap();
            assert_eq!(plain(&shipped), plain(&drawn), "{name}");
            assert_eq!(&shipped.name, name);
        }
    }
}

#[test]
fn the_programs_of_a_long_workload_occupy_the_chip_from_the_first_tenth_of_the_run() {
    let machine = machine("tilepro64").unwrap();
    let hardware = Hardware::new(&machine);
    let n_tiles = hardware.cpus.len();
    assert_eq!(n_tiles, 60);
    for number in 1..=10 {
        let jobs = workload(&format!("wl{number}-long")).unwrap().jobs;
        let seconds = |job: &program::Job| -> f64 {
            alone(&profile(job.profile.as_deref().unwrap()).unwrap(), &hardware).unwrap().seconds
        };
        let alone: Vec<f64> = jobs.iter().map(seconds).collect();
        let start = |job: &program::Job| job.start.as_secs_f64();
        let last_start = jobs.iter().map(start).fold(0.0, f64::max);
        let ends = || jobs.iter().zip(&alone).map(|(job, alone)| start(job) + alone);
        assert!(alone.iter().all(|alone| (100.0..=600.0).contains(alone)), "{number}: {alone:?}");
        assert!(10.0 * last_start <= ends().fold(0.0, f64::max), "wl{number}-long: {last_start}");
        let at_once = ends().filter(|end| last_start < *end).count();
        assert!((45..=n_tiles).contains(&at_once), "wl{number}-long: {at_once}");
    }
}

#[test]
fn every_workload_has_a_profile_and_memory_for_every_job() {
    let of_papers = |name: &String| !["synthetic", "numa-demo"].contains(&name.as_str());
    for name in workloads().into_iter().filter(of_papers) {
        let machine_name = if name.starts_with("wl") { "tilepro64" } else { "xeon-2x4" };
        let hardware = Hardware::new(&machine(machine_name).unwrap());
        let mut workload = workload(&name).unwrap();
        for job in &mut workload.jobs {
            let profile = profile(job.profile.as_deref().unwrap()).unwrap();
            job.found = Some(std::sync::Arc::new(profile));
        }
        let scripts = host_sim::build_scripts::build_scripts(&workload.jobs, &hardware);
        assert_eq!(scripts.map(|scripts| scripts.len()), Ok(workload.jobs.len()), "{name}");
    }
}

#[test]
fn larger_mixes_are_copies_of_their_mix_and_four_more_programs() {
    let programs = |workload: &str| -> Vec<String> {
        let jobs = super::workload(workload).unwrap().jobs;
        jobs.into_iter().filter_map(|job| job.profile).collect()
    };
    let four = ["470.lbm", "471.omnetpp", "streamcluster", "435.gromacs"].map(str::to_owned);
    for name in workloads() {
        let Some((mix, size)) = name.split_once("-x") else { continue };
        let times = if size == "3" { 3 } else { 4 };
        let mut expected: Vec<String> = vec![programs(mix); times].concat();
        if size == "4p4" {
            expected.extend(four.clone());
        }
        assert_eq!(programs(&name), expected, "{name}");
    }
}

#[test]
fn larger_mixes_have_18_24_and_28_jobs_with_unique_names() {
    let names = |workload: &str| -> Vec<String> {
        let jobs = super::workload(workload).unwrap().jobs;
        jobs.into_iter().map(|job| job.name).collect()
    };
    let larger: Vec<String> = workloads().into_iter().filter(|name| name.contains("-x")).collect();
    assert_eq!(larger.len(), 12 * 3, "nine Basic and three Extended mixes have six programs");
    for name in &larger {
        let unique: std::collections::BTreeSet<String> = names(name).into_iter().collect();
        let expected = [("-x3", 18), ("-x4", 24), ("-x4p4", 28)];
        let expected = expected.iter().find(|(suffix, _)| name.ends_with(suffix)).unwrap().1;
        assert_eq!(unique.len(), expected, "{name}");
    }
    assert_eq!(
        names("basic02-x3")[..8].join(" "),
        "lbm lu.B omnetpp streamcluster sp.B ferret lbm.2 lu.B.2"
    );
    let four = names("basic01-x4p4").split_off(24).join(" ");
    assert_eq!(four, "lbm.5 omnetpp.5 streamcluster gromacs.5");
    assert!(super::workload("basic10-x3").is_err(), "it has eight programs");
}

/// Prints the counter rates on the smaller machine of the paper on divided scheduling, with the middle of every range.
/// No input is adjusted to change this output.
#[test]
fn counter_rates_of_the_eleven_programs_alone_are_as_printed() {
    expect_file!["alone.txt"].assert_eq(&counter_rates(ProfileSet::Table));
    expect_file!["alone-printed.txt"].assert_eq(&counter_rates(ProfileSet::Printed));
}

fn counter_rates(set: ProfileSet) -> String {
    let draw = ProfileDraw { set, ..ProfileDraw::MIDDLE };
    let hardware = Hardware::new(&machine("xeon-2x4").unwrap());
    let mut text = format!(
        "{:14}{:>6}{:>9}{:>12}{:>6}{:>12}{:>13}\n",
        "program", "IPC", "MB/s", "LLC refs/s", "hits", "prefetch/s", "queue-full/s"
    );
    for name in ELEVEN {
        let rates = alone(&profile_drawn(name, draw).unwrap(), &hardware).unwrap();
        let _ = writeln!(
            text,
            "{name:14}{:6.2}{:9.0}{:11.1}M{:5.0}%{:11.1}M{:12.4}M",
            rates.ipc,
            rates.bandwidth / 1e6,
            rates.references / 1e6,
            rates.hit_ratio * 100.0,
            rates.prefetches / 1e6,
            rates.queue_full / 1e6
        );
    }
    text
}

/// The programs analysed in the paper on divided scheduling.
const ELEVEN: [&str; 11] = [
    "470.lbm",
    "462.libquantum",
    "lu.B",
    "482.sphinx3",
    "471.omnetpp",
    "streamcluster",
    "sp.B",
    "ua.B",
    "canneal",
    "ferret",
    "435.gromacs",
];

/// Counts the draws, out of the 200 of `evenkeel reproduce divided`, in which programs that run alone have the
/// published order.
#[test]
fn published_orderings_hold_in_the_printed_number_of_draws() {
    let hardware = Hardware::new(&machine("xeon-2x4").unwrap());
    let (first, second) = (&ELEVEN[..3], &ELEVEN[3..6]);
    let (third, rest) = (&ELEVEN[6..8], &ELEVEN[8..]);
    let mut held = [0; 5];
    for draw in (1..=200).map(ProfileDraw::seed) {
        let all: Vec<(&str, SoloRates)> = ELEVEN
            .iter()
            .map(|name| (*name, alone(&profile_drawn(name, draw).unwrap(), &hardware).unwrap()))
            .collect();
        let each = |of: fn(&SoloRates) -> f64, names: &[&str]| -> Vec<f64> {
            all.iter()
                .filter(|(name, _)| names.contains(name))
                .map(|(_, rates)| of(rates))
                .collect()
        };
        let least = |of, names: &[&str]| each(of, names).into_iter().fold(f64::INFINITY, f64::min);
        let most = |of, names: &[&str]| each(of, names).into_iter().fold(0.0, f64::max);
        let bandwidth = |rates: &SoloRates| rates.bandwidth;
        let full = |rates: &SoloRates| rates.queue_full;
        let references = |rates: &SoloRates| rates.references;
        let small = most(bandwidth, second).max(most(bandwidth, rest));
        let holds = [
            most(bandwidth, third) < least(bandwidth, first),
            2e9 < least(bandwidth, third),
            small < 2e9,
            most(full, second).max(most(full, third)).max(most(full, rest)) < least(full, first),
            most(references, rest) < least(references, second),
        ];
        held.iter_mut().zip(holds).for_each(|(n_true, is_true)| *n_true += i32::from(is_true));
    }
    let orderings = [
        "bandwidth: lbm, libquantum and lu.B above sp.B and ua.B",
        "bandwidth: sp.B and ua.B above 2 GB/s",
        "bandwidth: the other six below 2 GB/s",
        "queue-full: lbm, libquantum and lu.B above the other eight",
        "references: sphinx3, omnetpp, streamcluster above canneal, ferret, gromacs",
    ];
    let lines =
        orderings.iter().zip(held).map(|(ordering, held)| format!("{held:3} of 200  {ordering}\n"));
    expect_file!["orderings.txt"].assert_eq(&lines.collect::<String>());
}

#[test]
fn the_page_on_simulator_data_contains_these_tables_and_every_machine() {
    let page = include_str!("../../../../docs/simulator-data.md");
    assert!(page.contains(include_str!("alone.txt")), "copy alone.txt into the page");
    assert!(
        page.contains(include_str!("alone-printed.txt")),
        "copy alone-printed.txt into the page"
    );
    assert!(page.contains(include_str!("orderings.txt")), "copy orderings.txt into the page");
    for name in machines() {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn a_shipped_profile_written_to_a_file_is_read_back_equal() {
    for name in profiles() {
        let shipped = profile(&name).unwrap();
        let read = program::profile::parse_profile(&shipped.to_toml(), std::path::Path::new("p"));
        assert_eq!(read.unwrap(), shipped, "{name}");
    }
}

#[test]
fn the_documentation_of_workload_files_lists_every_shipped_workload() {
    let text = include_str!("../../../../docs/workloads.md");
    let start = text.find("accept the name of a shipped workload").expect("the list");
    let end = start + text[start..].find("\n\n").expect("its end");
    // Code is every second part; ` to ` is between the ends of a range.
    let parts: Vec<&str> = text[start..end].split('`').collect();
    let all = workloads();
    let position = |name: &str| all.iter().position(|known| known == name);
    let mut listed = vec![false; all.len()];
    for (idx, name) in parts.iter().enumerate().skip(1).step_by(2) {
        let Some(first) = position(name) else { continue };
        let next = parts.get(idx + 2).filter(|_| parts[idx + 1].trim() == "to");
        let last = next.map_or(first, |next| position(next).expect("a shipped workload"));
        listed[first..=last].fill(true);
    }
    let is_missing = |(name, is_listed): &(&String, &bool)| !name.contains("-x") && !**is_listed;
    let missing: Vec<&String> =
        all.iter().zip(&listed).filter(is_missing).map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
