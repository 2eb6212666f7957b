//! How right the physics of the simulated machine is, on measured slow-downs: it is fitted here, judged on
//! what was left out of the fit, and stands beside simple predictors that were fitted the same way.
//!
//! Nothing is measured on this machine; the same files give the same figures everywhere.

use std::fs;

use anyhow::{Context, bail};
use host_sim::calibrate::{
    BEGIN, Errors, Judged, Machine, Told, Truth, all, fit, in_sample, judge, judge_from, physics,
    simple, splits,
};
use host_sim::copies;
use host_sim::physics::Fitted;
use host_sim::predict::sites;
use topology::file::parse_toml;

const MACHINE: &str = "workloads/machines/corun-pair.toml";
const SOLO: &str = "workloads/data/corun/solo.csv";
const PAIRS: &str = "workloads/data/corun/pairs.csv";
const REMOTE: &str = "workloads/data/corun/numa.csv";
const BENCHMARKS: &str = "workloads/data/benchmarks.csv";
/// The program that fills the channel alone: errors are told with it and without.
const HOG: &str = "stream";
/// Nanoseconds that remote memory is farther away in the data.
const FARTHER_NS: f64 = 60.0;

/// What is claimed: programs of 24 within this of the slow-downs of copies ...
const COPIES_WITHIN: f64 = 0.10;
/// ... at least so many, and ...
const COPIES_RIGHT_MIN: usize = 18;
/// ... remote memory within this part.
const REMOTE_WITHIN: f64 = 0.08;

/// Fits, judges and prints; fails when a claim does not hold.
pub fn run() -> anyhow::Result<()> {
    let truth = truth()?;
    let fitted = fit(&truth);
    print_fit(&fitted);
    let right = print_copies()?;
    let better = print_pairs(&truth, &fitted)?;
    let near = print_remote(&truth, &fitted);
    match right && better && near {
        true => Ok(()),
        false => bail!("the physics is less right than is claimed; see the tables"),
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    let whole = crate::root().join(path);
    fs::read_to_string(&whole).with_context(|| format!("cannot read {}", whole.display()))
}

fn truth() -> anyhow::Result<Truth> {
    let machine = parse_toml(&read(MACHINE)?, MACHINE)?;
    let there = sites(&machine, None)?;
    let site = there.all.first().context("the machine has an LLC domain")?;
    let (solo, pairs, remote) = (read(SOLO)?, read(PAIRS)?, read(REMOTE)?);
    let machine = Machine::of(site, FARTHER_NS);
    Ok(Truth::read(machine, (&solo, SOLO), (&pairs, PAIRS), (&remote, REMOTE))?)
}

fn print_fit(fitted: &Fitted) {
    println!("## Fitted on all pairs and remote runs\n");
    println!("| figure | fitted | ships |\n| --- | --- | --- |");
    let ships = Fitted::default();
    for (name, fitted, ships) in [
        ("latency at full use, in unloaded latencies more", fitted.slope, ships.slope),
        ("what can be moved, as a part of the peak (not fitted)", fitted.cap, ships.cap),
        ("misses under way at a time, usually", fitted.overlap, ships.overlap),
        ("the same at the most", fitted.overlap_max, ships.overlap_max),
        ("part of prefetched lines that come too late", fitted.late, ships.late),
    ] {
        println!("| {name} | {fitted:.3} | {ships:.3} |");
    }
}

fn print_copies() -> anyhow::Result<bool> {
    let judged = copies::judge(&copies::measured(&read(BENCHMARKS)?, BENCHMARKS)?);
    println!("\n## Copies: fitted on 8, judged on 2 and 4\n");
    println!("| program | s, MiB | 2 copies: told (measured) | 4 copies | largest error |");
    println!("| --- | --- | --- | --- | --- |");
    for its in &judged {
        let cell = |n: u32| {
            let row = its.rows.iter().find(|row| row.0 == n);
            row.map_or(String::new(), |(_, measured, told)| format!("{told:.2} ({measured:.2})"))
        };
        println!(
            "| {} | {:.1} | {} | {} | {:.2} |",
            its.program,
            its.s,
            cell(2),
            cell(4),
            its.off()
        );
    }
    let right = judged.iter().filter(|its| its.off() <= COPIES_WITHIN).count();
    println!(
        "\nWithin {COPIES_WITHIN:.2}: {right} of {} (claimed: {COPIES_RIGHT_MIN})",
        judged.len()
    );
    Ok(COPIES_RIGHT_MIN <= right)
}

fn print_pairs(truth: &Truth, fitted: &Fitted) -> anyhow::Result<bool> {
    let hog = truth.programs.iter().position(|its| its.name == HOG);
    let hog = hog.with_context(|| format!("{SOLO} has no {HOG}"))?;
    let own = judge(truth);
    println!("\n## Pairs: each program left out of the fit in turn\n");
    println!(
        "| predictor | mean error | without {HOG} | largest | rank correlation | fitted on all | best splits |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let row = |name: &str, judged: &Judged, all: Errors, n_best: usize, n: usize| {
        let (errors, calm) = (judged.errors(), judged.errors_without(hog));
        println!(
            "| {name} | {:.3} | {:.3} | {:.2} | {:.2} | {:.3} | {n_best} of {n} |",
            errors.mean, calm.mean, errors.largest, errors.rank, all.mean
        );
    };
    let mut better = true;
    for (name, begin) in all() {
        let judged = simple(truth, &begin);
        let there = begin.fit(truth);
        let model = |pair: &_| there.pair(truth, pair);
        let found = splits(truth, model);
        row(name, &judged, in_sample(truth, model).errors(), found.n_best, found.n);
        better &= own.errors().mean < judged.errors().mean;
        better &= own.errors_without(hog).mean < judged.errors_without(hog).mean;
    }
    let found = splits(truth, physics(truth, fitted));
    let all = in_sample(truth, physics(truth, fitted)).errors();
    row("**the physics**", &own, all, found.n_best, found.n);
    println!(
        "\n| the physics, its fits begun with as many misses under way | mean error | without {HOG} |"
    );
    println!("| --- | --- | --- |");
    for overlap_max in [8.0, 10.0, 12.0, 16.0] {
        let judged = judge_from(truth, &Fitted { overlap_max, ..BEGIN });
        let (errors, calm) = (judged.errors(), judged.errors_without(hog));
        println!("| {overlap_max:.0} | {:.3} | {:.3} |", errors.mean, calm.mean);
    }
    println!("\n| left out | mean error |\n| --- | --- |");
    for (idx, its) in truth.programs.iter().enumerate() {
        println!("| {} | {:.3} |", its.name, own.of(idx).mean);
    }
    println!(
        "\nSplits of four programs over two caches: mean slow-down {:.3} as chosen by the physics, {:.3} at best, {:.3} blindly",
        found.chosen, found.best, found.blind
    );
    Ok(better)
}

fn print_remote(truth: &Truth, fitted: &Fitted) -> bool {
    println!("\n## Remote memory, {FARTHER_NS} ns farther: slow-down of a program alone\n");
    println!("| program | told | measured |\n| --- | --- | --- |");
    let told = Told::new(truth, fitted);
    let mut near = true;
    for its in &truth.remote {
        let (told, measured) = (told.remote(its.program), its.slowdown);
        println!("| {} | {told:.3} | {measured:.3} |", truth.programs[its.program].name);
        near &= (told / measured - 1.0).abs() < REMOTE_WITHIN;
    }
    near
}
