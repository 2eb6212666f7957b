//! Accuracy of the simulator's physics on measured slowdowns: fitted here, validated on data excluded from the fit, and
//! compared with simple predictors that were fitted in the same way.
//!
//! The results depend only on files in the repository, and not on the machine.

use std::fs;

use anyhow::{Context, bail};
use host_sim::calibrate::{
    BEGIN, CoRunData, CoRunMachine, CrossValidation, PredictionErrors, Predictor, baselines,
    cross_validate, cross_validate_baseline, cross_validate_from, evaluate_pairings, fit,
    in_sample, physics_predictor,
};
use host_sim::copy_scaling::{self, CopyFit};
use host_sim::physics::Calibration;
use host_sim::predict::llc_domains;
use topology::file::parse_toml;

const MACHINE: &str = "workloads/machines/corun-pair.toml";
const SOLO: &str = "workloads/data/corun/solo.csv";
const PAIRS: &str = "workloads/data/corun/pairs.csv";
const REMOTE: &str = "workloads/data/corun/numa.csv";
const BENCHMARKS: &str = "workloads/data/benchmarks.csv";
/// The program that saturates the memory channel alone. Errors are printed with and without this program.
const HOG: &str = "stream";
/// Additional latency of remote memory in the data, in ns.
const FARTHER_NS: f64 = 60.0;

/// Claim: for at least [`COPIES_RIGHT_MIN`] of 24 programs, the predicted slowdown of copies has at most this absolute
/// error.
const COPIES_WITHIN: f64 = 0.10;
/// Minimum number of programs within [`COPIES_WITHIN`].
const COPIES_RIGHT_MIN: usize = 18;
/// Claim: the prediction for remote memory has at most this relative error.
const REMOTE_WITHIN: f64 = 0.08;

/// Fits, validates and prints. Fails if a claim does not hold.
pub fn main() -> anyhow::Result<()> {
    let data = read_data()?;
    let fitted = fit(&data);
    print_fit(&fitted);
    let right = print_copies()?;
    let better = print_pairs(&data, &fitted)?;
    let near = print_remote(&data, &fitted);
    match right && better && near {
        true => Ok(()),
        false => bail!("the physics is less accurate than claimed; see the tables"),
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    let whole = crate::root().join(path);
    fs::read_to_string(&whole).with_context(|| format!("cannot read {}", whole.display()))
}

fn read_data() -> anyhow::Result<CoRunData> {
    let machine = parse_toml(&read(MACHINE)?, MACHINE)?;
    let domains = llc_domains(&machine, None);
    let llc = domains.all.first().context("the machine has an LLC domain")?;
    let (solo, pairs, remote) = (read(SOLO)?, read(PAIRS)?, read(REMOTE)?);
    let machine = CoRunMachine::of(llc, FARTHER_NS);
    Ok(CoRunData::read(machine, (&solo, SOLO), (&pairs, PAIRS), (&remote, REMOTE))?)
}

fn print_fit(fitted: &Calibration) {
    println!("## Calibration on all pairs and remote runs\n");
    println!("| parameter | fitted | shipped |\n| --- | --- | --- |");
    let ships = Calibration::default();
    for (name, fitted, ships) in [
        (
            "additional latency at full utilization, in unloaded latencies",
            fitted.slope,
            ships.slope,
        ),
        ("achievable bandwidth relative to the peak (not fitted)", fitted.cap, ships.cap),
        ("outstanding misses, typical", fitted.overlap, ships.overlap),
        ("outstanding misses, maximum", fitted.overlap_max, ships.overlap_max),
        ("late prefetches, share", fitted.late, ships.late),
    ] {
        println!("| {name} | {fitted:.3} | {ships:.3} |");
    }
}

fn print_copies() -> anyhow::Result<bool> {
    let programs = copy_scaling::parse_benchmarks(&read(BENCHMARKS)?, BENCHMARKS)?;
    let judged = copy_scaling::validate(&programs, copy_scaling::BANDWIDTH);
    println!("\n## Copies: fitted on 8, validated on 2 and 4\n");
    println!("| program | s, MiB | 2 copies: predicted (measured) | 4 copies | largest error |");
    println!("| --- | --- | --- | --- | --- |");
    for entry in &judged {
        let cell = |n: u32| {
            let row = entry.rows.iter().find(|row| row.0 == n);
            row.map_or(String::new(), |(_, measured, predicted)| {
                format!("{predicted:.2} ({measured:.2})")
            })
        };
        println!(
            "| {} | {:.1} | {} | {} | {:.2} |",
            entry.program,
            entry.s,
            cell(2),
            cell(4),
            entry.max_error()
        );
    }
    let n_right = |judged: &[CopyFit]| {
        judged.iter().filter(|entry| entry.max_error() <= COPIES_WITHIN).count()
    };
    let right = n_right(&judged);
    println!(
        "\nWithin {COPIES_WITHIN:.2}: {right} of {} (claimed: {COPIES_RIGHT_MIN})\n",
        judged.len()
    );
    println!("| achievable bandwidth, GB/s | within {COPIES_WITHIN:.2} | mean error of the fit |");
    println!("| --- | --- | --- |");
    for bandwidth in [50e9, copy_scaling::BANDWIDTH, 64e9, 65e9, 70e9, 80e9] {
        let judged = copy_scaling::validate(&programs, bandwidth);
        let fit_error = judged.iter().map(|entry| entry.fit_error).sum::<f64>();
        println!(
            "| {:.1} | {} of {} | {:.4} |",
            bandwidth / 1e9,
            n_right(&judged),
            judged.len(),
            fit_error / judged.len() as f64
        );
    }
    Ok(COPIES_RIGHT_MIN <= right)
}

fn print_pairs(data: &CoRunData, fitted: &Calibration) -> anyhow::Result<bool> {
    let hog = data.programs.iter().position(|entry| entry.name == HOG);
    let hog = hog.with_context(|| format!("{SOLO} has no {HOG}"))?;
    let physics_errors = cross_validate(data);
    println!("\n## Pairs: leave-one-out over the programs\n");
    println!(
        "| predictor | mean error | without {HOG} | largest | rank correlation | fitted on all | best splits |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let row =
        |name: &str, judged: &CrossValidation, all: PredictionErrors, n_best: usize, n: usize| {
            let (errors, others) = (judged.errors(), judged.errors_without(hog));
            println!(
                "| {name} | {:.3} | {:.3} | {:.2} | {:.2} | {:.3} | {n_best} of {n} |",
                errors.mean, others.mean, errors.largest, errors.rank, all.mean
            );
        };
    let mut better = true;
    for (name, begin) in baselines() {
        let judged = cross_validate_baseline(data, &begin);
        let baseline = begin.fit(data);
        let model = |pair: &_| baseline.pair(data, pair);
        let found = evaluate_pairings(data, model);
        row(name, &judged, in_sample(data, model).errors(), found.n_best, found.n);
        better &= physics_errors.errors().mean < judged.errors().mean;
        better &= physics_errors.errors_without(hog).mean < judged.errors_without(hog).mean;
    }
    let found = evaluate_pairings(data, physics_predictor(data, fitted));
    let all = in_sample(data, physics_predictor(data, fitted)).errors();
    row("**the physics**", &physics_errors, all, found.n_best, found.n);
    print_initial_values(data, hog);
    println!("\n| omitted | mean error |\n| --- | --- |");
    for (idx, entry) in data.programs.iter().enumerate() {
        println!("| {} | {:.3} |", entry.name, physics_errors.errors_of_left_out(idx).mean);
    }
    println!(
        "\nSplits of four programs over two caches: mean slowdown {:.3} as chosen by the physics, {:.3} optimal, {:.3} random",
        found.chosen, found.best, found.mean_of_all
    );
    Ok(better)
}

fn print_initial_values(data: &CoRunData, hog: usize) {
    println!("\n| the physics, initial value of outstanding misses | mean error | without {HOG} |");
    println!("| --- | --- | --- |");
    for overlap_max in [8.0, 10.0, 12.0, 16.0] {
        let judged = cross_validate_from(data, &Calibration { overlap_max, ..BEGIN });
        let (errors, others) = (judged.errors(), judged.errors_without(hog));
        println!("| {overlap_max:.0} | {:.3} | {:.3} |", errors.mean, others.mean);
    }
}

fn print_remote(data: &CoRunData, fitted: &Calibration) -> bool {
    println!("\n## Remote memory, {FARTHER_NS} ns more latency: slowdown of a program alone\n");
    println!("| program | predicted | measured |\n| --- | --- | --- |");
    let predictor = Predictor::new(data, fitted);
    let mut near = true;
    for entry in &data.remote {
        let (predicted, measured) = (predictor.remote(entry.program), entry.slowdown);
        println!("| {} | {predicted:.3} | {measured:.3} |", data.programs[entry.program].name);
        near &= (predicted / measured - 1.0).abs() < REMOTE_WITHIN;
    }
    near
}
