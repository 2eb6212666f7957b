//! From the three runs to a profile.
//!
//! ```text
//!   CPU time alone × frequency ÷ instructions counted  =  cycles per instruction     (estimated)
//!   misses and write-backs at the last-level cache     →  bandwidth, class           (estimated)
//! ```
//!
//! Where the instructions of the whole run are not known, what needs them is left out rather than
//! guessed: CPU time of the whole run and instructions of a part do not go together.

use base::Nanos;
use program::Class;
use program::profile::{Figure, Phase, Profile, Source};
use trace::counted::Reading;
use trace::{Window, phase_figures, split};

use super::child::{Run, Why};
use super::here::Here;
use super::target::Target;

/// What was learnt beside the windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learnt {
    /// CPU time of the run alone, if it ran to its end.
    pub cpu_time: Option<Nanos>,
    /// How long that took.
    pub wall: Option<Nanos>,
    /// Instructions of the whole run, if they were counted.
    pub n_instructions: Option<u64>,
    /// Cycles per instruction as the user says.
    pub cpi_declared: Option<f64>,
}

/// The profile of what was traced; `None` without a window.
pub(super) fn from_windows(
    target: &Target,
    windows: &[Window],
    learnt: &Learnt,
    here: &Here,
) -> Option<Profile> {
    let seen: u64 = windows.iter().map(|window| window.n_instructions).sum();
    let covered = learnt.n_instructions.map(|all| (seen as f64 / (all as f64).max(1.0)).min(1.0));
    let phase = |range: std::ops::Range<usize>| {
        let part = &windows[range];
        let own: u64 = part.iter().map(|window| window.n_instructions).sum();
        phase_figures(part, own as f64 / (seen as f64).max(1.0), covered.unwrap_or(0.0))
    };
    let phases = split(windows).into_iter().map(phase).collect::<Option<Vec<Phase>>>()?;
    let mut profile = Profile {
        name: target.name.clone(),
        build_id: target.build_id.clone(),
        made_by: format!("evenkeel {}, cache model", env!("CARGO_PKG_VERSION")),
        command: target.command(),
        cpu_time: learnt.cpu_time,
        covered: covered.and_then(|share| Figure::new(share, Source::Traced)),
        phases,
        ..Profile::default()
    };
    if profile.phases.is_empty() {
        return None;
    }
    profile.phases.iter_mut().for_each(|phase| add_times(phase, learnt, here));
    add_class(&mut profile, here);
    Some(profile)
}

/// The profile of what was counted; `None` without an instruction.
pub(super) fn from_readings(
    target: &Target,
    readings: &[Reading],
    run: &Run,
    here: &Here,
) -> Option<Profile> {
    let cpu_time = readings.last()?.cpu_time;
    let mut profile = Profile {
        name: target.name.clone(),
        build_id: target.build_id.clone(),
        made_by: format!("evenkeel {}, counters", env!("CARGO_PKG_VERSION")),
        command: target.command(),
        cpu_time: (run.why == Why::Ended).then_some(cpu_time),
        phases: trace::counted::phases(readings, Some(here.llc)),
        ..Profile::default()
    };
    if profile.phases.is_empty() {
        return None;
    }
    let learnt =
        Learnt { cpu_time: Some(cpu_time), wall: Some(Nanos::from(run.wall)), ..Learnt::default() };
    let threads = threads(&learnt).and_then(|busy| Figure::new(busy, Source::Counters));
    profile.phases.iter_mut().for_each(|phase| phase.threads = threads);
    add_counted_class(&mut profile, cpu_time, here);
    Some(profile)
}

/// The class of what was counted: misses for each millisecond of CPU time, both as they were counted.
fn add_counted_class(profile: &mut Profile, cpu_time: Nanos, here: &Here) {
    let millis = cpu_time.as_secs_f64() * 1000.0;
    let misses = profile.phases.iter().map(|phase| {
        let instructions = phase.instructions?.value();
        Some(instructions / 1000.0 * phase.curve.misses_at(here.llc)?)
    });
    let Some(misses) = misses.sum::<Option<f64>>().filter(|_| 0.0 < millis) else { return };
    profile.class = Some((Class::of_rate(misses / millis), Source::Counters));
    profile.class_cache = Some(here.llc);
}

fn add_times(phase: &mut Phase, learnt: &Learnt, here: &Here) {
    let estimated = |value: f64| Figure::new(value, Source::Estimated);
    phase.instructions =
        learnt.n_instructions.and_then(|all| estimated((all as f64 * phase.share.value()).round()));
    phase.cycles_per_instruction = match learnt.cpi_declared {
        Some(cpi) => Figure::new(cpi, Source::Declared),
        None => cpi(learnt, here).and_then(estimated),
    };
    phase.threads = threads(learnt).and_then(estimated);
    phase.private_cache = Some(here.private);
    let accesses = phase.curve.misses_at(here.private);
    phase.llc_accesses = accesses.and_then(|value| Figure::new(value, Source::Traced));
}

fn cpi(learnt: &Learnt, here: &Here) -> Option<f64> {
    let all = learnt.n_instructions.filter(|all| *all != 0)?;
    Some(learnt.cpu_time?.as_secs_f64() * here.frequency? / all as f64)
}

/// CPUs that it kept busy on average.
fn threads(learnt: &Learnt) -> Option<f64> {
    let wall = learnt.wall?.as_secs_f64();
    (0.0 < wall).then_some(learnt.cpu_time?.as_secs_f64() / wall)
}

/// Adds bandwidth of the phases and the class of the whole, at this machine's last-level cache; whatever
/// is there stays.
pub(super) fn add_class(profile: &mut Profile, here: &Here) {
    let Some(frequency) = here.frequency else { return };
    for phase in &mut profile.phases {
        let alone = Profile { phases: vec![phase.clone()], ..Profile::default() };
        let rates = alone.rates_per_cpu_second(here.llc, frequency);
        let found = rates.bandwidth().and_then(|rate| Figure::new(rate, Source::Estimated));
        phase.bandwidth = phase.bandwidth.or(found);
    }
    let rates = profile.rates_per_cpu_second(here.llc, frequency);
    let class = |rate: f64| (Class::of_rate(rate / 1000.0), Source::Estimated);
    profile.class = rates.controller_ops().map(class);
    profile.class_cache = Some(here.llc);
}

#[cfg(test)]
mod tests {
    use base::Bytes;
    use program::profile::{Curve, Point};

    use super::*;

    #[test]
    fn the_class_of_a_counted_program_needs_no_frequency() {
        let llc = Bytes::from_mib(8);
        let point = Point { cache: llc, misses: 10.0, ..Point::default() };
        let phase = Phase {
            instructions: Figure::new(1e9, Source::Counters),
            curve: Curve::new(Source::Counters, vec![point]).expect("one point"),
            ..Phase::default()
        };
        let mut profile = Profile { phases: vec![phase], ..Profile::default() };
        let here = Here { llc, private: llc, frequency: None, assumed: Vec::new() };
        // Ten million misses in a second: ten thousand a millisecond.
        add_counted_class(&mut profile, Nanos::from_secs(1), &here);
        assert_eq!(profile.class, Some((Class::of_rate(1e4), Source::Counters)));
        assert_eq!(profile.class_cache, Some(llc));
    }
}
