//! CPU time and memory of evenkeel at 4 turns per second while jobs sleep or compute, compared with a shell that started
//! the same jobs.
//!
//! The share of a CPU is measured in windows after all jobs have started. A waiting shell uses no CPU time, so its
//! row shows the resolution of the measurement.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::evenkeel::{self, EvenkeelRun};
use crate::stats::MedianRange;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the number of windows per row
    #[arg(long, default_value_t = 6)]
    windows: u32,
    /// Set the length of a window in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Args { windows: 6, seconds: 3 }
    }
}

/// Jobs of a row: the command in the workload and the command in a shell.
struct JobKind {
    name: &'static str,
    command: &'static str,
    shell: &'static str,
}

const SLEEPING: JobKind =
    JobKind { name: "sleeping", command: r#"["sleep", "600"]"#, shell: "sleep 600" };
const BUSY: JobKind = JobKind {
    name: "busy",
    command: r#"["sh", "-c", "while :; do :; done"]"#,
    shell: "sh -c 'while :; do :; done'",
};

const ROWS: [(JobKind, usize); 7] = [
    (SLEEPING, 1),
    (SLEEPING, 16),
    (SLEEPING, 100),
    (SLEEPING, 1000),
    (BUSY, 16),
    (BUSY, 100),
    (BUSY, 1000),
];

pub fn main(args: &Args) -> anyhow::Result<()> {
    evenkeel::build()?;
    println!(
        "CPU time after all jobs have started, in percent of one CPU: median (lowest to highest) of"
    );
    println!(
        "{} windows of {} s each; no progress output, policy dfs, 4 turns per second",
        args.windows, args.seconds
    );
    println!("{:<16} {:>24} {:>20} {:>12}", "jobs", "evenkeel %", "shell loop %", "peak MiB");
    let empty = empty_loop(args)?;
    println!("{:<16} {:>24}", "an empty loop", format!("{empty:.4}"));
    for (kind, n) in &ROWS {
        let (shares, peak_kib) = evenkeel(kind, *n, args)?;
        let shell = shell_loop(kind, *n, args)?;
        let label = format!("{n} {}", kind.name);
        let peak = format!("{:.1}", peak_kib as f64 / 1024.0);
        println!(
            "{label:<16} {:>24} {:>20} {peak:>12}",
            format!("{shares:.4}"),
            format!("{shell:.4}")
        );
    }
    evenkeel::remove_runs()
}

/// Runs a thread that wakes four times per second and does no work. Its CPU time is the cost of the wake-ups.
fn empty_loop(args: &Args) -> anyhow::Result<MedianRange> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(rustix::thread::gettid().as_raw_nonzero());
        loop {
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let thread = receiver.recv()?;
    cpu_shares(args, || evenkeel::thread_cpu_ns(thread.get()))
}

fn evenkeel(kind: &JobKind, n: usize, args: &Args) -> anyhow::Result<(MedianRange, u64)> {
    let JobKind { name, command, .. } = kind;
    let workload = format!("[[job]]\nname = \"j\"\ncommand = {command}\nclass = 5\ncopies = {n}\n");
    let run = EvenkeelRun::start(&format!("{name}-{n}"), &workload, "dfs")?;
    run.wait_for_children(n)?;
    let share = shares(run.pid(), args)?;
    let peak = evenkeel::peak_resident_kib(run.pid())?;
    run.stop()?;
    Ok((share, peak))
}

fn shell_loop(kind: &JobKind, n: usize, args: &Args) -> anyhow::Result<MedianRange> {
    let command = kind.shell;
    // On SIGTERM the shell kills its children.
    let script = format!(
        "trap 'kill $pids; exit' TERM; i=0; while [ $i -lt {n} ]; do {command} & pids=\"$pids $!\"; i=$((i+1)); done; echo; wait"
    );
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut started = shell.stdout.take().expect("standard output was piped");
    std::io::Read::read_exact(&mut started, &mut [0])?;
    let share = shares(shell.id(), args)?;
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&shell),
        rustix::process::Signal::TERM,
    )?;
    shell.wait()?;
    Ok(share)
}

/// Returns the percent of one CPU per window. The first window is discarded.
fn shares(pid: u32, args: &Args) -> anyhow::Result<MedianRange> {
    std::thread::sleep(Duration::from_secs(args.seconds));
    cpu_shares(args, || evenkeel::cpu_ns(pid))
}

fn cpu_shares(
    args: &Args,
    cpu_ns: impl Fn() -> anyhow::Result<u64>,
) -> anyhow::Result<MedianRange> {
    let window = Duration::from_secs(args.seconds.max(1));
    let percent = |_| Ok(100.0 * evenkeel::cpu_during(window, &cpu_ns)?.share);
    (0..args.windows.max(1)).map(percent).collect::<anyhow::Result<_>>().map(MedianRange::of)
}
