//! Recognition of guest runs that other load of the host disturbed.
//!
//! A CPU of the guest is a thread of the host. While this thread waits for a host CPU, the time of the guest continues,
//! and the guest reports no steal time under emulation. Before and after a run, while the guest is idle, one thread
//! therefore repeats a short piece of work:
//!
//! ```text
//!   time of a piece   ▂▂▂▂▂▂█▂▂▂▂▂▂▂█▂▂▂     slowdown = mean ÷ lowest decile
//!                           waits for a host CPU
//! ```
//!
//! A run is disturbed if the slowdown before or after the run is above [`SLOWDOWN_MAX`]. Load that is present only
//! during the run is not recognized.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::stats::MedianRange;

/// Slowdown above which a run counts as disturbed. Guessed: above this value, other programs have more than a third of
/// a host CPU that the guest needs.
const SLOWDOWN_MAX: f64 = 1.5;
/// File with the slowdown of a run, in the directory of the journal.
const FILE: &str = "slowdown";
/// Duration of a measurement.
const DURATION: Duration = Duration::from_secs(2);
/// Additions per piece. A piece takes less than a millisecond in a release build, which is less than a slice of the
/// host.
const PIECE: u64 = 200_000;

/// Measures the slowdown of one thread by other load of the host.
pub fn measure() -> f64 {
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || start.elapsed() < DURATION {
        let piece = Instant::now();
        black_box((0..PIECE).fold(0u64, |sum, n| black_box(sum.wrapping_add(n))));
        times.push(piece.elapsed().as_secs_f64());
    }
    slowdown(times)
}

/// Returns the mean of these times, relative to their lowest decile.
fn slowdown(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    mean / times[times.len() / 10]
}

/// Writes the slowdown of a run to its directory.
pub fn write(run: &Path, slowdown: f64) -> std::io::Result<()> {
    fs::write(run.join(FILE), format!("{slowdown:.3}"))
}

/// Reads the slowdown of a run; `None` for a run without one.
pub fn read(run: &Path) -> Option<f64> {
    fs::read_to_string(run.join(FILE)).ok()?.trim().parse().ok()
}

/// Returns whether other load of the host disturbed a run.
pub fn is_disturbed(slowdown: Option<f64>) -> bool {
    slowdown.is_some_and(|slowdown| SLOWDOWN_MAX < slowdown)
}

/// Returns the runs that count, and a phrase about disturbed runs. If all runs were disturbed, all count.
pub fn kept(runs: Vec<PathBuf>) -> (Vec<PathBuf>, String) {
    let slowdowns: Vec<f64> = runs.iter().filter_map(|run| read(run)).collect();
    if slowdowns.is_empty() {
        return (runs, "the load of the host was not measured".to_owned());
    }
    let range = format!("slowdown by other load of the host {:.2}", MedianRange::of(slowdowns));
    let n_runs = runs.len();
    let kept: Vec<PathBuf> = runs.iter().filter(|run| !is_disturbed(read(run))).cloned().collect();
    if kept.is_empty() {
        return (runs, format!("{range}; all runs are above {SLOWDOWN_MAX}: none is discarded"));
    }
    let n_discarded = n_runs - kept.len();
    (kept, format!("{range}; {n_discarded} runs above {SLOWDOWN_MAX} are discarded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_down_is_the_mean_over_the_time_without_waiting() {
        assert_eq!(slowdown(vec![2.0; 10]), 1.0);
        let mut half_the_cpu = vec![2.0; 9];
        half_the_cpu.push(22.0);
        assert_eq!(slowdown(half_the_cpu), 2.0);
    }

    #[test]
    fn disturbed_runs_are_discarded_unless_all_are_disturbed() {
        let dir = tempfile::tempdir().expect("a directory");
        let runs = |slowdowns: &[f64]| -> Vec<PathBuf> {
            let run = |(idx, slowdown): (usize, &f64)| {
                let run = dir.path().join(format!("guest-{idx}"));
                fs::create_dir_all(&run).expect("a directory");
                write(&run, *slowdown).expect("it is written");
                run
            };
            slowdowns.iter().enumerate().map(run).collect()
        };
        let some = runs(&[1.2, 2.0, 1.4]);
        let (kept_some, phrase) = kept(some.clone());
        assert_eq!(kept_some, [some[0].clone(), some[2].clone()]);
        assert!(
            phrase.ends_with("1.40 (1.20 to 2.00); 1 runs above 1.5 are discarded"),
            "{phrase}"
        );
        let all = runs(&[1.7, 2.0]);
        assert_eq!(kept(all.clone()).0, all);
    }

    #[test]
    fn a_run_without_a_measured_slow_down_is_kept() {
        assert!([None, Some(1.5)].into_iter().all(|slowdown| !is_disturbed(slowdown)));
        assert!(is_disturbed(Some(1.6)));
    }
}
