//! Progress of a job and the time until its end, where they are known.
//!
//! | source | progress | time left |
//! | --- | --- | --- |
//! | the key `stop_after` of the workload | elapsed time over that time | exact |
//! | the simulator | executed instructions over all instructions: exact | estimated from the progress until now |
//! | the last run of the same command | elapsed time over its wall time | estimated |
//! | the profile of the same command | CPU time over the CPU time of the profile | estimated from both |
//!
//! Without a source, neither value is displayed. A job that exceeds its expected time has no time left, and no value is
//! displayed.

use std::path::Path;

use base::Nanos;
use program::{Command, Ending, Job, Profile};

/// Expected work of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// The job is terminated after this time.
    Stop(Nanos),
    /// Wall time of the last run of the same command.
    LastRun(Nanos),
    /// CPU time of the complete command, from its profile.
    CpuTime(Nanos),
}

/// Progress of a running job, and the time until its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeLeft {
    /// Completed share of the job, 0 to 1.
    pub done: f64,
    pub left: Nanos,
    pub is_exact: bool,
    pub source: &'static str,
}

impl Expected {
    /// Returns the expected work that the workload or a profile declares.
    pub fn declared(job: &Job) -> Option<Self> {
        match job.ending {
            Ending::After(time) => Some(Expected::Stop(time)),
            Ending::RestartUntilOthersDone | Ending::RestartUntilAllDone => None,
            Ending::Exit => {
                let profile = job.found.as_deref().filter(|found| is_same_command(found, job))?;
                profile.cpu_time.filter(|time| *time != Nanos::ZERO).map(Expected::CpuTime)
            }
        }
    }

    /// Returns the time left of a job that has run for `elapsed` and used `cpu_time`. `None`: the job exceeds the
    /// expected work, or has not used CPU time yet.
    pub fn time_left(self, elapsed: Nanos, cpu_time: Nanos) -> Option<TimeLeft> {
        match self {
            Expected::Stop(all) => by_time(elapsed, all, true, "the workload limits the run time"),
            Expected::LastRun(all) => {
                by_time(elapsed, all, false, "estimated: wall time of the last run of this command")
            }
            Expected::CpuTime(all) => {
                let done = cpu_time.as_secs_f64() / all.as_secs_f64();
                by_share(elapsed, done, "estimated: CPU time of the profile of this command")
            }
        }
    }
}

fn by_time(elapsed: Nanos, all: Nanos, is_exact: bool, source: &'static str) -> Option<TimeLeft> {
    let left = all.saturating_sub(elapsed);
    let done = elapsed.as_secs_f64() / all.as_secs_f64();
    (elapsed < all).then_some(TimeLeft { done, left, is_exact, source })
}

/// Returns the time left if the job continues at the same speed as until now.
pub fn by_share(elapsed: Nanos, done: f64, source: &'static str) -> Option<TimeLeft> {
    if !(0.0 < done && done < 1.0) {
        return None;
    }
    let left = Nanos((elapsed.0 as f64 * (1.0 - done) / done) as u64);
    Some(TimeLeft { done, left, is_exact: false, source })
}

/// A profile is valid for one command line.
fn is_same_command(profile: &Profile, job: &Job) -> bool {
    let Command::Program { program, args } = &job.command else { return false };
    let Some((measured, measured_args)) = profile.command.split_first() else { return false };
    Path::new(measured).file_name() == program.file_name() && measured_args == args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: Expected, elapsed_s: u64, cpu_s: u64, text: &str) {
        let left = expected.time_left(Nanos::from_secs(elapsed_s), Nanos::from_secs(cpu_s));
        let shown = left.map_or("-".to_owned(), |left| {
            let about = if left.is_exact { "" } else { "about " };
            format!("{:.0} %, {about}{}", 100.0 * left.done, left.left)
        });
        assert_eq!(shown, text, "{expected:?}");
    }

    #[test]
    fn the_time_left_is_exact_only_for_a_declared_end() {
        check(Expected::Stop(Nanos::from_secs(8)), 2, 0, "25 %, 6.00 s");
        check(Expected::LastRun(Nanos::from_secs(8)), 2, 0, "25 %, about 6.00 s");
        check(Expected::CpuTime(Nanos::from_secs(8)), 4, 2, "25 %, about 12.00 s");
    }

    #[test]
    fn a_job_beyond_its_expected_work_has_no_time_left() {
        check(Expected::LastRun(Nanos::from_secs(8)), 8, 0, "-");
        check(Expected::CpuTime(Nanos::from_secs(8)), 9, 8, "-");
        check(Expected::CpuTime(Nanos::from_secs(8)), 1, 0, "-");
    }
}
