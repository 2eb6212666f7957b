//! Builds a profile from the results of the runs.
//!
//! ```text
//!   CPU time alone × frequency ÷ instructions counted  =  cycles per instruction     (estimated)
//!   misses and write-backs at the last-level cache     →  bandwidth, class           (estimated)
//! ```
//!
//! If the instructions of the whole run are unknown, the values that depend on them are absent: the CPU time of the
//! whole run must not be divided by the instructions of a part.

use base::Nanos;
use program::Class;
use program::profile::{Phase, Profile, ProfileValue, ValueSource};
use sched::CounterDeltas;

use super::MeasuredProgram;
use super::machine_parameters::MachineParameters;
use super::program_run::{ProgramRun, StopCause};
use crate::counter_phases;
use crate::{Window, phase_from_windows, split_phases};

/// Values of the whole run that the windows do not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeRun {
    /// CPU time of the run alone, if the program exited.
    pub cpu_time: Option<Nanos>,
    /// Wall time of the run alone.
    pub wall: Option<Nanos>,
    /// Instructions of the whole run, if they were counted.
    pub n_instructions: Option<u64>,
    /// Cycles per instruction from the option `--cpi`.
    pub cpi_declared: Option<f64>,
}

/// Builds the profile of a traced run. Returns `None` without a window.
pub fn from_windows(
    target: &MeasuredProgram,
    windows: &[Window],
    whole: &WholeRun,
    machine: &MachineParameters,
) -> Option<Profile> {
    let traced: u64 = windows.iter().map(|window| window.n_instructions).sum();
    let covered = whole.n_instructions.map(|all| (traced as f64 / (all as f64).max(1.0)).min(1.0));
    let phase = |range: std::ops::Range<usize>| {
        let part = &windows[range];
        let own: u64 = part.iter().map(|window| window.n_instructions).sum();
        phase_from_windows(part, own as f64 / (traced as f64).max(1.0), covered.unwrap_or(0.0))
    };
    let phases = split_phases(windows).into_iter().map(phase).collect::<Option<Vec<Phase>>>()?;
    let mut profile = Profile {
        name: target.name.clone(),
        build_id: target.build_id.clone(),
        tool: format!("evenkeel {}, cache model", env!("CARGO_PKG_VERSION")),
        command: target.command(),
        cpu_time: whole.cpu_time,
        covered: covered.and_then(|share| ProfileValue::new(share, ValueSource::Traced)),
        phases,
        ..Profile::default()
    };
    if profile.phases.is_empty() {
        return None;
    }
    profile.phases.iter_mut().for_each(|phase| add_times(phase, whole, machine));
    add_class(&mut profile, machine);
    Some(profile)
}

/// Builds the profile of a run from the counter deltas of its intervals. Returns `None` if no instruction was counted.
pub fn from_counters(
    target: &MeasuredProgram,
    intervals: &[CounterDeltas],
    run: &ProgramRun,
    machine: &MachineParameters,
) -> Option<Profile> {
    let cpu_time = counter_phases::cpu_time(intervals);
    let mut profile = Profile {
        name: target.name.clone(),
        build_id: target.build_id.clone(),
        tool: format!("evenkeel {}, counters", env!("CARGO_PKG_VERSION")),
        command: target.command(),
        cpu_time: (run.stop_cause == StopCause::Exited).then_some(cpu_time),
        phases: counter_phases::phases(intervals, Some(machine.llc)),
        ..Profile::default()
    };
    if profile.phases.is_empty() {
        return None;
    }
    let whole = WholeRun {
        cpu_time: Some(cpu_time),
        wall: Some(Nanos::from(run.wall)),
        ..WholeRun::default()
    };
    let threads = threads(&whole).and_then(|busy| ProfileValue::new(busy, ValueSource::Counters));
    profile.phases.iter_mut().for_each(|phase| phase.threads = threads);
    add_counted_class(&mut profile, cpu_time, machine);
    Some(profile)
}

/// Adds the class, computed from counted misses per millisecond of CPU time.
fn add_counted_class(profile: &mut Profile, cpu_time: Nanos, machine: &MachineParameters) {
    let millis = cpu_time.as_secs_f64() * 1000.0;
    let misses = profile.phases.iter().map(|phase| {
        let instructions = phase.instructions?.value();
        Some(instructions / 1000.0 * phase.curve.misses_at(machine.llc)?)
    });
    let Some(misses) = misses.sum::<Option<f64>>().filter(|_| 0.0 < millis) else { return };
    profile.class = Some((Class::of_rate(misses / millis), ValueSource::Counters));
    profile.class_cache = Some(machine.llc);
}

fn add_times(phase: &mut Phase, whole: &WholeRun, machine: &MachineParameters) {
    let estimated = |value: f64| ProfileValue::new(value, ValueSource::Estimated);
    phase.instructions =
        whole.n_instructions.and_then(|all| estimated((all as f64 * phase.share.value()).round()));
    phase.cycles_per_instruction = match whole.cpi_declared {
        Some(cpi) => ProfileValue::new(cpi, ValueSource::Declared),
        None => cpi(whole, machine).and_then(estimated),
    };
    phase.threads = threads(whole).and_then(estimated);
    phase.private_cache = Some(machine.private);
    let accesses = phase.curve.misses_at(machine.private);
    phase.llc_accesses = accesses.and_then(|value| ProfileValue::new(value, ValueSource::Traced));
}

fn cpi(whole: &WholeRun, machine: &MachineParameters) -> Option<f64> {
    let all = whole.n_instructions.filter(|all| *all != 0)?;
    let cpu_time = whole.cpu_time.filter(|time| *time != Nanos::ZERO)?;
    Some(cpu_time.as_secs_f64() * machine.frequency? / all as f64)
}

/// Returns the average number of CPUs in use.
fn threads(whole: &WholeRun) -> Option<f64> {
    let wall = whole.wall?.as_secs_f64();
    (0.0 < wall).then_some(whole.cpu_time?.as_secs_f64() / wall)
}

/// Adds the bandwidth of the phases and the class of the program for the last-level cache of this machine. Existing
/// bandwidths are kept.
fn add_class(profile: &mut Profile, machine: &MachineParameters) {
    let Some(frequency) = machine.frequency else { return };
    for phase in &mut profile.phases {
        let alone = Profile { phases: vec![phase.clone()], ..Profile::default() };
        let rates = alone.rates_per_cpu_second(machine.llc, frequency);
        let found =
            rates.bandwidth().and_then(|rate| ProfileValue::new(rate, ValueSource::Estimated));
        phase.bandwidth = phase.bandwidth.or(found);
    }
    let rates = profile.rates_per_cpu_second(machine.llc, frequency);
    let class = |rate: f64| (Class::of_rate(rate / 1000.0), ValueSource::Estimated);
    profile.class = rates.controller_ops().map(class);
    profile.class_cache = Some(machine.llc);
}

#[cfg(test)]
mod tests {
    use base::Bytes;
    use program::profile::{CurvePoint, MissRatioCurve};

    use super::*;

    #[test]
    fn the_class_from_counters_needs_no_frequency() {
        let llc = Bytes::from_mib(8);
        let point = CurvePoint { cache: llc, misses: 10.0, ..CurvePoint::default() };
        let phase = Phase {
            instructions: ProfileValue::new(1e9, ValueSource::Counters),
            curve: MissRatioCurve::new(ValueSource::Counters, vec![point]).expect("one point"),
            ..Phase::default()
        };
        let mut profile = Profile { phases: vec![phase], ..Profile::default() };
        let machine = MachineParameters { llc, private: llc, frequency: None, assumed: Vec::new() };
        // 10 million misses per second are 10,000 per millisecond.
        add_counted_class(&mut profile, Nanos::from_secs(1), &machine);
        assert_eq!(profile.class, Some((Class::of_rate(1e4), ValueSource::Counters)));
        assert_eq!(profile.class_cache, Some(llc));
    }
}
