//! Declared values of jobs with errors.
//!
//! A policy receives the class, the profile and the sensitivity that a workload declares. The simulator runs the program
//! of the workload. Without an error both are the same values, so that declared values are exact, which they are on no
//! real machine:
//!
//! ```text
//!   workload ──┬─► script ─► simulated program
//!              └─► × error of (seed, job) ─► declared values ─► engine, policy, journal
//! ```
//!
//! Each kind of value has its own factor with a log-normal distribution, with the mean 1 and the given standard
//! deviation: memory accesses (misses, prefetches, write-backs, accesses, bandwidth, class), time (cycles per instruction
//! and CPU time, so that the frequency of the measurement remains), slowdown next to other programs, and slowdown with
//! remote memory. The distribution is assumed: errors are relative, and no value becomes negative.

use std::sync::Arc;

use base::Nanos;
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue};
use program::{Class, Job, Profile, SLOWDOWN_MAX_PERMILLE, Sensitivity};

use crate::variation::{RandomKey, VariationStreams};

/// Largest accepted relative error.
pub const ERROR_MAX: f64 = 10.0;

/// Factors of the declared values of one job.
struct Factors {
    memory: f64,
    time: f64,
    slowdown: f64,
    remote: f64,
}

/// Returns the jobs as policies receive them. Without an error they are unchanged.
pub(crate) fn declared_jobs(jobs: &[Job], error: f64, streams: &VariationStreams) -> Vec<Job> {
    if error == 0.0 {
        return jobs.to_vec();
    }
    let keys = RandomKey::of_jobs(jobs);
    jobs.iter().zip(keys).map(|(job, key)| declared(job, &factors(error, key, streams))).collect()
}

fn factors(error: f64, key: RandomKey, streams: &VariationStreams) -> Factors {
    let spread = libm::sqrt(libm::log(1.0 + error * error));
    let factor = |nth: u64| {
        let mut rng = streams.declared(key, nth);
        // Box-Muller: a normally distributed number from two uniform ones.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()));
        let normal = radius * libm::cos(2.0 * std::f64::consts::PI * rng.unit());
        libm::exp(spread * normal - 0.5 * spread * spread)
    };
    Factors { memory: factor(0), time: factor(1), slowdown: factor(2), remote: factor(3) }
}

fn declared(job: &Job, factors: &Factors) -> Job {
    Job {
        class: job.class.map(|class| declared_class(class, factors)),
        sensitivity: job.sensitivity.as_ref().map(|exact| declared_sensitivity(exact, factors)),
        found: job.found.as_deref().map(|exact| Arc::new(declared_profile(exact, factors))),
        ..job.clone()
    }
}

/// Multiplies the rate in the middle of a class. A factor of 1 keeps the class.
fn declared_class(class: Class, factors: &Factors) -> Class {
    let middle = libm::exp2(f64::from(class.number()) + 0.5) - 1.0;
    Class::of_rate(middle * factors.memory)
}

fn declared_sensitivity(exact: &Sensitivity, factors: &Factors) -> Sensitivity {
    let scaled = |permille: u32, factor: f64| {
        (f64::from(permille) * factor).round().min(f64::from(SLOWDOWN_MAX_PERMILLE)) as u32
    };
    let by_class = exact.by_class().iter();
    let by_class = by_class.map(|&(class, slowdown)| (class, scaled(slowdown, factors.slowdown)));
    Sensitivity::new(by_class, scaled(exact.remote(), factors.remote))
}

fn declared_profile(exact: &Profile, factors: &Factors) -> Profile {
    let time = |time: Nanos| Nanos((time.0 as f64 * factors.time) as u64);
    Profile {
        class: exact.class.map(|(class, source)| (declared_class(class, factors), source)),
        cpu_time: exact.cpu_time.map(time),
        phases: exact.phases.iter().map(|phase| declared_phase(phase, factors)).collect(),
        ..exact.clone()
    }
}

fn declared_phase(exact: &Phase, factors: &Factors) -> Phase {
    let scaled = |value: Option<ProfileValue>, factor: f64| {
        let value = value?;
        let error = value.error().map(|error| error * factor);
        Some(ProfileValue::new(value.value() * factor, value.source)?.with_error(error))
    };
    let memory = |value| scaled(value, factors.memory);
    let point = |point: &CurvePoint| CurvePoint {
        cache: point.cache,
        misses: point.misses * factors.memory,
        write_backs: point.write_backs.map(|lines| lines * factors.memory),
        prefetches: point.prefetches.map(|lines| lines * factors.memory),
        error: point.error.map(|error| error * factors.memory),
    };
    let points = exact.curve.points().iter().map(point).collect();
    Phase {
        cycles_per_instruction: scaled(exact.cycles_per_instruction, factors.time),
        core_cycles_per_instruction: scaled(exact.core_cycles_per_instruction, factors.time),
        llc_accesses: memory(exact.llc_accesses),
        l1_misses: memory(exact.l1_misses),
        bandwidth: memory(exact.bandwidth),
        curve: MissRatioCurve::new(exact.curve.source, points).unwrap_or_default(),
        ..exact.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variation::Variation;
    use program::profile::ValueSource;

    fn job(id: u32) -> Job {
        let command = program::Command::Shell(String::new());
        let value = |value| ProfileValue::new(value, ValueSource::Declared);
        let point = CurvePoint {
            cache: base::Bytes::from_mib(1),
            misses: 4.0,
            write_backs: Some(1.0),
            ..CurvePoint::default()
        };
        let phase = Phase {
            instructions: value(1e9),
            cycles_per_instruction: value(1.5),
            llc_accesses: value(8.0),
            curve: MissRatioCurve::new(ValueSource::Declared, vec![point]).expect("a curve"),
            ..Phase::default()
        };
        let cpu_time = Some(Nanos::from_millis(500));
        let profile = Profile { cpu_time, phases: vec![phase], ..Profile::default() };
        Job {
            class: Class::new(8),
            sensitivity: Some(Sensitivity::new([(Class::MAX, 400)].map(class), 300)),
            found: Some(Arc::new(profile)),
            ..Job::new(base::JobId(id), format!("job{id}"), command)
        }
    }

    fn class((number, slowdown): (u8, u32)) -> (Class, u32) {
        (Class::new(number).expect("a class"), slowdown)
    }

    fn misses(job: &Job) -> f64 {
        job.found.as_deref().expect("a profile").phases[0].curve.points()[0].misses
    }

    #[test]
    fn without_an_error_declared_values_are_exact() {
        let jobs = [job(0), job(1)];
        assert_eq!(declared_jobs(&jobs, 0.0, &Variation::OFF.streams(1)), jobs);
        let exact = Factors { memory: 1.0, time: 1.0, slowdown: 1.0, remote: 1.0 };
        assert_eq!(declared(&jobs[0], &exact), jobs[0]);
        let classes = (0..=Class::MAX).map(|number| Class::new(number).expect("a class"));
        assert!(classes.into_iter().all(|class| declared_class(class, &exact) == class));
    }

    #[test]
    fn an_error_changes_what_is_declared_by_seed_and_name_only() {
        let at =
            |seed: u64, jobs: &[Job]| declared_jobs(jobs, 0.5, &Variation::default().streams(seed));
        let (both, second) = (at(1, &[job(0), job(1)]), at(1, &[job(1)]));
        assert_eq!(both[1], second[0]);
        assert_eq!(at(1, &[job(0)]), declared_jobs(&[job(0)], 0.5, &Variation::OFF.streams(1)));
        assert_ne!(misses(&both[0]), misses(&both[1]));
        assert_ne!(at(2, &[job(1)]), second);
        // The rates of one program keep their relations, and instructions and frequency are those of the program.
        let profile = both[0].found.as_deref().expect("a profile");
        let phase = &profile.phases[0];
        let point = phase.curve.points()[0];
        assert!((point.misses / point.write_backs.expect("known") - 4.0).abs() < 1e-9);
        assert!((phase.llc_accesses.expect("known").value() / point.misses - 2.0).abs() < 1e-9);
        assert!((profile.frequency().expect("known") / 3e9 - 1.0).abs() < 1e-6);
    }

    /// 4,000 jobs: four standard errors of the mean and a tenth of the standard deviation.
    #[test]
    fn the_mean_of_the_factors_is_1_and_their_standard_deviation_is_the_error() {
        let jobs: Vec<Job> = (0..4000).map(job).collect();
        let jobs = declared_jobs(&jobs, 0.3, &Variation::OFF.streams(7));
        let factors: Vec<f64> = jobs.iter().map(|job| misses(job) / 4.0).collect();
        let mean = factors.iter().sum::<f64>() / 4000.0;
        let deviation = factors.iter().map(|factor| (factor - mean).powi(2)).sum::<f64>() / 4000.0;
        assert!((mean - 1.0).abs() < 4.0 * 0.3 / 4000f64.sqrt(), "{mean}");
        assert!((libm::sqrt(deviation) / 0.3 - 1.0).abs() < 0.1, "{deviation}");
        assert!(factors.iter().all(|factor| 0.0 < *factor));
    }

    #[test]
    fn extreme_errors_give_valid_values() {
        let jobs: Vec<Job> = (0..500).map(job).collect();
        for declared in declared_jobs(&jobs, ERROR_MAX, &Variation::OFF.streams(3)) {
            assert!(misses(&declared).is_finite() && 0.0 < misses(&declared));
            let sensitivity = declared.sensitivity.expect("declared");
            assert!(sensitivity.remote() <= SLOWDOWN_MAX_PERMILLE);
        }
    }
}
