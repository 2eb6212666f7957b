//! What tasks are counted to do, told per instruction: `20`, `0.5/3@50`, `-`.

use base::{Bytes, JobId, Nanos, TaskId};
use program::Profile;
use program::profile::{CurvePoint, MissRatioCurve, Phase, ValueSource};
use sched::{CounterDeltas, CounterEvent, TaskView};

/// Rates of one job; a rate that is not told is not counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Misses and accesses per million instructions.
    misses: Option<u64>,
    references: Option<u64>,
    /// Use of its CPUs.
    percent: u64,
}

/// Instructions in a millisecond of CPU time.
const PER_MS: u64 = 1_000_000;

impl Rates {
    pub fn read(text: &str) -> Rates {
        let (rates, percent) = text.split_once('@').unwrap_or((text, "100"));
        let (misses, references) = rates.split_once('/').unwrap_or((rates, "-"));
        let percent = percent.parse().expect("percent");
        Rates { misses: per_million(misses), references: per_million(references), percent }
    }

    pub fn cpu_time(self, interval: Nanos, threads: u32) -> Nanos {
        Nanos(interval.0 * u64::from(threads) * self.percent / 100)
    }

    /// The job's only task, which did that in so much CPU time.
    pub fn task(self, job: JobId, cpu_time: Nanos) -> TaskView {
        let instructions = cpu_time.0 / 1_000_000 * PER_MS;
        let of = |rate: u64| rate * (instructions / 1_000_000);
        let mut counted = CounterDeltas::default();
        if let Some(misses) = self.misses {
            counted = counted.with(CounterEvent::Instructions, instructions);
            counted = counted.with(CounterEvent::LlcMisses, of(misses));
        }
        if let Some(references) = self.references {
            counted = counted.with(CounterEvent::LlcReferences, of(references));
        }
        let task = TaskId { tid: job.0, start_time_ticks: 0 };
        TaskView {
            task,
            process: job.0,
            job,
            cpu_time,
            wait: None,
            last_cpu: None,
            counters: counted,
        }
    }
}

fn per_million(text: &str) -> Option<u64> {
    let per_1000: f64 = if text == "-" { return None } else { text.parse().expect("a rate") };
    Some((per_1000 * 1000.0).round() as u64)
}

/// A profile that tells a curve of misses and no more: `20`, or `1M:20,16M:5`.
pub(super) fn profile(text: &str) -> Profile {
    let point = |part: &str| {
        let (size, misses) = part.split_once(':').unwrap_or(("1M", part));
        let mib = size.strip_suffix('M').and_then(|mib| mib.parse().ok()).expect("a size as 4M");
        let misses = misses.parse().expect("a number");
        CurvePoint { cache: Bytes::from_mib(mib), misses, ..CurvePoint::default() }
    };
    let points = text.split(',').map(point).collect();
    let curve = MissRatioCurve::new(ValueSource::Declared, points).expect("sizes rise");
    Profile {
        name: "p".to_owned(),
        phases: vec![Phase { curve, ..Phase::default() }],
        ..Profile::default()
    }
}
