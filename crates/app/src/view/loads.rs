//! Load of each domain in the last interval, and its scale.

use base::Nanos;
use engine::{LoadSample, TurnRecord};
use report::DomainNames;
use sched::SignalTier;
use topology::Level;

/// Loads of the last interval.
#[derive(Clone, Debug)]
pub struct ShownLoads {
    pub level: Level,
    pub tier: SignalTier,
    pub domains: Vec<DomainLoad>,
    /// Load of a full bar in operations per second. The scale only grows, so that bars of two frames can be compared.
    pub full_bar: f64,
}

/// Load of a domain.
#[derive(Clone, Debug)]
pub struct DomainLoad {
    pub label: String,
    /// Memory load in operations per second, if it is known.
    pub ops_per_s: Option<f64>,
    /// CPU time of the jobs divided by the interval.
    pub cpus_busy: f64,
    pub n_cpus: usize,
}

impl ShownLoads {
    /// Computes the loads of a turn. `interval` is the time since the last turn with loads.
    pub fn new(
        loads: &LoadSample,
        names: &DomainNames,
        interval: Nanos,
        before: Option<&ShownLoads>,
    ) -> Self {
        let secs = interval.as_secs_f64();
        let domains: Vec<DomainLoad> =
            (0..loads.numbers.len()).map(|idx| DomainLoad::new(loads, idx, names, secs)).collect();
        let (level, tier) = (loads.level, loads.loads.tier);
        let before = before.filter(|before| (before.level, before.tier) == (level, tier));
        let max = domains.iter().filter_map(|domain| domain.ops_per_s).fold(0.0, f64::max);
        let full_bar = round_up(max).max(before.map_or(0.0, |before| before.full_bar));
        ShownLoads { level, tier, domains, full_bar }
    }

    /// Returns the length of a bar: the memory load relative to the scale, or the CPU utilization if no load is known.
    pub fn share(&self, domain: &DomainLoad) -> f64 {
        match domain.ops_per_s {
            Some(ops) if self.full_bar != 0.0 => ops / self.full_bar,
            Some(_) => 0.0,
            None => domain.cpus_busy / domain.n_cpus.max(1) as f64,
        }
    }
}

impl DomainLoad {
    fn new(loads: &LoadSample, idx: usize, names: &DomainNames, secs: f64) -> Self {
        let number = loads.numbers[idx];
        let named = names.domains().and_then(|all| {
            all.iter().find(|(_, domain)| domain.number == number).map(|(_, domain)| domain)
        });
        let is_known = loads.loads.readable && loads.loads.tier != SignalTier::None && secs != 0.0;
        let ops = loads.loads.loads.get(idx).filter(|_| is_known);
        let ops_secs = loads.interval.map_or(secs, |interval| interval.as_secs_f64());
        let cpu = loads.cpu_time.get(idx).copied().unwrap_or_default();
        DomainLoad {
            label: format!("{} {number}", loads.level),
            ops_per_s: ops.map(|&ops| ops as f64 / ops_secs),
            cpus_busy: if secs == 0.0 { 0.0 } else { cpu.as_secs_f64() / secs },
            n_cpus: named.map_or(1, |domain| domain.cpus.len()),
        }
    }
}

/// CPUs that each job used in the last interval, by job number.
pub fn cpus_busy(record: &TurnRecord<'_>, interval: Nanos, n_jobs: usize) -> Vec<f64> {
    let mut busy = vec![0.0; n_jobs];
    let secs = interval.as_secs_f64();
    if secs == 0.0 {
        return busy;
    }
    for task in record.tasks {
        if let Some(busy) = busy.get_mut(task.job.index()) {
            *busy += task.cpu_time.as_secs_f64() / secs;
        }
    }
    busy
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let mut power = 1.0;
    while power * 10.0 <= value {
        power *= 10.0;
    }
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| value <= *step).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_rounded_up_to_1_2_or_5_times_a_power_of_ten() {
        let scales = [0.0, 0.3, 1.0, 1.1, 4.9, 361_000.0, 9e9].map(round_up);
        assert_eq!(scales, [0.0, 1.0, 1.0, 2.0, 5.0, 500_000.0, 1e10]);
    }
}
