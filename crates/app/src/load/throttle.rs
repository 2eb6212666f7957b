//! Occupation of CPUs by duty cycle: programs on these CPUs run slower, as on slower cores.
//!
//! ```text
//!   time    0        5        10       15       20 ms      --percent 50 --period 10ms
//!           ├────────┼────────┼────────┼────────┤
//!   CPU 2   throttle  programs throttle  programs
//! ```
//!
//! Each CPU has one thread, which is bound to it. The windows begin at multiples of the period since the start, so that
//! a late wake-up shortens one busy window and shifts no other.
//!
//! The threads have the lowest real-time priority: a normal task would compete with the programs for the CPU, and
//! receive less than its share as soon as several of them run there. Without the permission, the threads are normal
//! tasks, and a note is printed. The measured share is printed at the end. A CPU with less than its share is an error.
//!
//! Out of scope: a workload may not contain this program, because a policy would move its threads as it moves the
//! threads of every job.

use std::io::Write;
use std::sync::{OnceLock, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base::{CpuId, CpuSet, Nanos, StopFlag};
use linux::stop_signals::StopSignals;
use linux::{affinity, realtime};
use report::format::fixed;

use super::budget::cpu_time;
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;

/// Largest share: real-time throttling limits real-time tasks to 95 % by default (`kernel.sched_rt_runtime_us`).
const PERCENT_MAX: u32 = 95;
/// Shortest period. Guessed: below, wake-up latency of 50 µs would be more than 5 % of the period.
const PERIOD_MIN: Nanos = Nanos::from_millis(1);
/// Longest period: the end after a signal takes up to one period.
const PERIOD_MAX: Nanos = Nanos::from_secs(1);

/// Options of `load throttle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Occupy the CPUs of this CPU list: 2-3,8
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    cpus: CpuSet,
    /// Occupy each CPU for this share of the time, 1 to 95
    #[arg(long, value_name = "N", value_parser = input::integer::<u32>(1..=PERCENT_MAX), allow_hyphen_values = true)]
    percent: u32,
    /// Set the period, one busy and one idle window, from 1ms to 1s
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = period, allow_hyphen_values = true)]
    period: Nanos,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", default_value = "1min", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    time: Nanos,
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    let cpus: CpuSet = text.parse().map_err(|error: base::ParseSetError| error.to_string())?;
    if cpus.is_empty() { Err("write at least one CPU".to_owned()) } else { Ok(cpus) }
}

fn period(text: &str) -> Result<Nanos, String> {
    let period = input::time(text)?;
    match (PERIOD_MIN..=PERIOD_MAX).contains(&period) {
        true => Ok(period),
        false => Err("write a period from 1ms to 1s".to_owned()),
    }
}

/// Part of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// The thread occupies the CPU until this time since the start.
    Busy { until: Nanos },
    /// The thread sleeps until this time since the start.
    Idle { until: Nanos },
}

/// Returns the window of a time since the start.
fn window(now: Nanos, period: Nanos, percent: u32) -> Window {
    let start = now.0 - now.0 % period.0;
    let busy_end = Nanos(start + period.0 * u64::from(percent) / 100);
    match now < busy_end {
        true => Window::Busy { until: busy_end },
        false => Window::Idle { until: Nanos(start + period.0) },
    }
}

pub(crate) fn main(args: &Args) -> CommandResult {
    check(args, &affinity::get(0).context("cannot read the affinity of this process")?)
        .or_usage_error()?;
    let mut signals = StopSignals::block_terminating()?;
    let stop = StopFlag::default();
    let shares = signals.run_with_flag(&stop, || occupy_all(args, &stop))??;
    let least = shares.iter().map(|(_, share)| *share).fold(f64::INFINITY, f64::min);
    writeln!(
        crate::print::stdout(),
        "throttle: occupied CPUs {} for {} % of the time (requested: {} %)",
        args.cpus,
        fixed(100.0 * least, 1),
        args.percent
    )?;
    if let Some(points) = most_points_above(&shares, args.percent) {
        crate::print::note(format!(
            "the share is up to {} percentage points above --percent: the run ended within a period; set --for to many periods",
            fixed(points, 1)
        ));
    }
    let missed = missed(&shares, args.percent, args.period);
    missed.iter().for_each(crate::print::warning);
    if missed.is_empty() { Ok(()) } else { Err(CommandError::Reported) }
}

/// Tolerated difference between the measured and the requested share, in percentage points. Chosen: half of the gap of
/// 10 % that separates core kinds, so that a CPU within the tolerance is nearer to the requested capacity than to that of
/// another kind.
const POINTS_MAX: f64 = 5.0;

/// Returns a line for each CPU that was occupied for less than the requested share.
fn missed(shares: &[(CpuId, f64)], percent: u32, period: Nanos) -> Vec<String> {
    let requested = f64::from(percent);
    // Five points are much of a small share. A wake-up in each period takes up to 100 µs (guessed).
    let wake_up = 100.0 * 100_000.0 / period.0 as f64;
    let points_max = POINTS_MAX.min(requested / 4.0).max(wake_up);
    let is_missed = |(_, share): &&(CpuId, f64)| points_max < requested - 100.0 * share;
    let line = |(CpuId(cpu), share): &(CpuId, f64)| {
        let share = fixed(100.0 * share, 1);
        format!(
            "CPU {cpu} was occupied for only {share} % of the time (requested: {percent} %), for example because other tasks ran on it: stop them, or permit real-time priority (CAP_SYS_NICE, or ulimit -r) if it is not permitted"
        )
    };
    shares.iter().filter(is_missed).map(line).collect()
}

/// Returns the largest difference above the requested share in percentage points, if it is not tolerated.
fn most_points_above(shares: &[(CpuId, f64)], percent: u32) -> Option<f64> {
    let points = shares.iter().map(|(_, share)| 100.0 * share - f64::from(percent));
    points.max_by(f64::total_cmp).filter(|points| POINTS_MAX < *points)
}

fn check(args: &Args, allowed: &CpuSet) -> anyhow::Result<()> {
    if args.time < args.period {
        let Args { time, period, .. } = args;
        bail!("--for {time} is shorter than a period; set it to at least {period}");
    }
    let foreign = args.cpus.minus(allowed);
    if !foreign.is_empty() {
        bail!("--cpus: this process may not use CPUs {foreign}; it may use CPUs {allowed}");
    }
    Ok(())
}

/// Occupies all CPUs until the time is over or `stop` is set. Returns the share of each CPU.
fn occupy_all(args: &Args, stop: &StopFlag) -> anyhow::Result<Vec<(CpuId, f64)>> {
    // The threads wait for this value: the start of the first period, or none if a thread could not be started.
    let start: OnceLock<Option<Instant>> = OnceLock::new();
    let (sender, ready) = mpsc::channel();
    std::thread::scope(|scope| {
        let run_thread = |cpu: CpuId| {
            let (sender, start) = (sender.clone(), &start);
            let thread = move || {
                // The main thread waits for one message of each thread.
                let _ = sender.send(prepare(cpu));
                start.wait().map(|start| (cpu, occupy(args, start, stop)))
            };
            Builder::new().spawn_scoped(scope, thread)
        };
        let threads: std::io::Result<Vec<_>> = args.cpus.iter().map(run_thread).collect();
        drop(sender);
        let n_started = threads.as_ref().map_or(0, Vec::len);
        let prepared: anyhow::Result<Vec<bool>> = ready.iter().take(n_started).collect();
        // Set once.
        let _ = start.set((threads.is_ok() && prepared.is_ok()).then(Instant::now));
        let threads = threads.context("cannot start a thread for each CPU")?;
        if prepared?.contains(&false) {
            crate::print::note(
                "no permission for real-time priority (CAP_SYS_NICE, or ulimit -r): the share is smaller while other tasks run on the CPUs",
            );
        }
        Ok(threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect())
    })
}

/// Binds this thread to a CPU. Returns whether it has a real-time priority.
fn prepare(cpu: CpuId) -> anyhow::Result<bool> {
    affinity::set(0, &CpuSet::from_iter([cpu])).with_context(|| format!("cannot use {cpu}"))?;
    Ok(realtime::set_lowest_fifo().is_ok())
}

/// Occupies the CPU of this thread. Returns the share of CPU time.
fn occupy(args: &Args, start: Instant, stop: &StopFlag) -> f64 {
    let now = || Nanos::from(start.elapsed());
    let cpu_before = cpu_time();
    while now() < args.time && !stop.is_raised() {
        match window(now(), args.period, args.percent) {
            Window::Busy { until } => {
                while now() < until {
                    // An SMT sibling keeps most of the core.
                    std::hint::spin_loop();
                }
            }
            Window::Idle { until } => {
                std::thread::sleep(Duration::from(until.min(args.time) - now().min(until)));
            }
        }
    }
    let cpu = cpu_time().saturating_sub(cpu_before);
    cpu.as_secs_f64() / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(text: &str) -> Result<Args, String> {
        let words = std::iter::once("throttle").chain(text.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    /// Returns the busy time of a thread that wakes up `latency` after each idle window.
    fn busy_time(period: Nanos, percent: u32, latency: Nanos, end: Nanos) -> Nanos {
        let (mut now, mut busy) = (Nanos::ZERO, Nanos::ZERO);
        while now < end {
            match window(now, period, percent) {
                Window::Busy { until } => {
                    busy += until - now;
                    now = until;
                }
                Window::Idle { until } => now = until + latency,
            }
        }
        busy
    }

    #[test]
    fn each_period_begins_with_its_busy_window() {
        let ms = Nanos::from_millis;
        let at = |now| window(now, ms(10), 30);
        assert_eq!(at(ms(0)), Window::Busy { until: ms(3) });
        assert_eq!(at(ms(2)), Window::Busy { until: ms(3) });
        assert_eq!(at(ms(3)), Window::Idle { until: ms(10) });
        assert_eq!(at(ms(9)), Window::Idle { until: ms(10) });
        assert_eq!(at(ms(10)), Window::Busy { until: ms(13) });
        assert_eq!(at(ms(47)), Window::Idle { until: ms(50) });
    }

    #[test]
    fn the_busy_time_is_the_share_and_late_wake_ups_do_not_add_up() {
        let ms = Nanos::from_millis;
        for percent in [1, 33, 50, 95] {
            let busy = busy_time(ms(10), percent, Nanos::ZERO, ms(1000));
            assert_eq!(busy.0, ms(10).0 * u64::from(percent), "{percent} %");
        }
        // 99 periods begin 1 ms late, and later windows are not shifted.
        assert_eq!(busy_time(ms(10), 50, ms(1), ms(1000)), ms(500 - 99));
        // A wake-up after the busy window loses this window only.
        assert_eq!(busy_time(ms(10), 50, ms(6), ms(20)), ms(5));
    }

    #[test]
    fn options_out_of_range_are_rejected() {
        for (text, word) in [
            ("--percent 50", "--cpus"),
            ("--cpus 0", "--percent"),
            ("--cpus 0 --percent 0", "95"),
            ("--cpus 0 --percent 96", "95"),
            ("--cpus 0 --percent -1", "95"),
            ("--cpus x --percent 50", "not a number"),
            ("--cpus 0 --percent 50 --period 0", "1ms"),
            ("--cpus 0 --percent 50 --period 2s", "1s"),
            ("--cpus 0 --percent 50 --for 0", "--for"),
        ] {
            let error = args(text).expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_time_below_one_period_is_rejected() {
        let check = |text: &str| {
            let allowed: CpuSet = "0".parse().expect("a list");
            let args = args(&format!("--cpus 0 --percent 50 {text}")).expect("valid options");
            check(&args, &allowed).map_err(|error| error.to_string())
        };
        let expected = "--for 1.0 ms is shorter than a period; set it to at least 10.0 ms";
        assert_eq!(check("--for 1ms"), Err(expected.to_owned()));
        assert_eq!(check("--for 10ms"), Ok(()));
        assert_eq!(check("--for 1ms --period 1ms"), Ok(()));
    }

    #[test]
    fn each_cpu_with_less_than_its_share_is_reported() {
        let cpus = |shares: &[f64]| -> Vec<(CpuId, f64)> {
            (0..).map(CpuId).zip(shares.iter().copied()).collect()
        };
        let period = Nanos::from_millis(100);
        assert_eq!(missed(&cpus(&[0.46, 0.54, 0.75]), 50, period), [""; 0]);
        let lines = missed(&cpus(&[0.5, 0.25, 0.44]), 50, period);
        assert!(lines[0].starts_with("CPU 1 was occupied for only 25.0 % "), "{lines:?}");
        assert!(lines[1].starts_with("CPU 2 was occupied for only 44.0 % "), "{lines:?}");
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(missed(&cpus(&[0.08, 0.074]), 10, period).len(), 1, "a quarter of the share");
        assert_eq!(missed(&cpus(&[0.005]), 1, Nanos::from_millis(10)), [""; 0], "wake-ups");
        assert_eq!(most_points_above(&cpus(&[0.46, 0.54]), 50), None);
        assert_eq!(most_points_above(&cpus(&[0.25, 0.75]), 50), Some(25.0));
    }

    #[test]
    fn cpus_that_this_process_may_not_use_are_rejected() {
        let args = args("--cpus 1-3 --percent 50").expect("valid options");
        let allowed: CpuSet = "0-1".parse().expect("a list");
        let error = check(&args, &allowed).expect_err("CPUs 2-3 are missing").to_string();
        assert_eq!(error, "--cpus: this process may not use CPUs 2-3; it may use CPUs 0-1");
    }
}
