//! What watching costs: CPU used by evenkeel itself at 4 turns a second, as a share of one CPU, and
//! its memory, while jobs sleep or are busy; beside a shell that started the same jobs.
//!
//! The share is taken over windows in the steady state, when every job has started. A shell that
//! waits uses nothing then, so its row shows what the measurement itself cannot tell apart from zero.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::stats::Spread;
use super::tool::{self, Run};

/// How long to look.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Windows measured for each row
    #[arg(long, default_value_t = 6)]
    windows: u32,
    /// Length of a window in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Args { windows: 6, seconds: 3 }
    }
}

/// What the jobs of a row do.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Sleeping,
    Busy,
}

const ROWS: [(Doing, usize); 7] = [
    (Doing::Sleeping, 1),
    (Doing::Sleeping, 16),
    (Doing::Sleeping, 100),
    (Doing::Sleeping, 1000),
    (Doing::Busy, 16),
    (Doing::Busy, 100),
    (Doing::Busy, 1000),
];

/// Measures every row and prints it.
pub fn main(args: &Args) -> anyhow::Result<()> {
    tool::build()?;
    println!("CPU used in the steady state, in percent of one CPU: median (lowest to highest) of");
    println!(
        "{} windows of {} s each; progress off, policy dfs, 4 turns a second",
        args.windows, args.seconds
    );
    println!("{:<16} {:>24} {:>20} {:>12}", "jobs", "evenkeel %", "shell loop %", "peak MiB");
    let empty = empty_loop(args)?;
    println!("{:<16} {:>24}", "an empty loop", format!("{empty:.4}"));
    for (doing, n) in ROWS {
        let (ours, peak_kib) = evenkeel(doing, n, args)?;
        let shell = shell_loop(doing, n, args)?;
        let label =
            format!("{n} {}", if matches!(doing, Doing::Busy) { "busy" } else { "sleeping" });
        let peak = format!("{:.1}", peak_kib as f64 / 1024.0);
        println!(
            "{label:<16} {:>24} {:>20} {peak:>12}",
            format!("{ours:.4}"),
            format!("{shell:.4}")
        );
    }
    tool::sweep()
}

/// A thread that wakes four times a second and does nothing: what waking alone costs on this machine.
fn empty_loop(args: &Args) -> anyhow::Result<Spread> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = tell.send(rustix::thread::gettid().as_raw_nonzero());
        loop {
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let thread = told.recv()?;
    let mut shares = Vec::new();
    for _ in 0..args.windows.max(1) {
        let (begin, before) = (Instant::now(), tool::thread_cpu_ns(thread.get())?);
        std::thread::sleep(Duration::from_secs(args.seconds.max(1)));
        let used = tool::thread_cpu_ns(thread.get())? - before;
        shares.push(100.0 * used as f64 / begin.elapsed().as_nanos() as f64);
    }
    Ok(Spread::of(shares))
}

fn evenkeel(doing: Doing, n: usize, args: &Args) -> anyhow::Result<(Spread, u64)> {
    let command = match doing {
        Doing::Sleeping => r#"["sleep", "600"]"#.to_owned(),
        Doing::Busy => r#"["sh", "-c", "while :; do :; done"]"#.to_owned(),
    };
    let workload = format!("[[job]]\nname = \"j\"\ncommand = {command}\nclass = 5\ncopies = {n}\n");
    let run = Run::start(&format!("{doing:?}-{n}"), &workload, "dfs")?;
    run.wait_for_children(n)?;
    let share = shares(run.pid(), args)?;
    let peak = tool::peak_resident_kib(run.pid())?;
    run.stop()?;
    Ok((share, peak))
}

fn shell_loop(doing: Doing, n: usize, args: &Args) -> anyhow::Result<Spread> {
    let one = match doing {
        Doing::Sleeping => "sleep 600",
        Doing::Busy => "sh -c 'while :; do :; done'",
    };
    // The shell ends its own children when it is told to: nobody else knows them.
    let script = format!(
        "trap 'kill $pids; exit' TERM; i=0; while [ $i -lt {n} ]; do {one} & pids=\"$pids $!\"; i=$((i+1)); done; echo; wait"
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

/// Percent of one CPU in each window, after one that is not counted.
fn shares(pid: u32, args: &Args) -> anyhow::Result<Spread> {
    std::thread::sleep(Duration::from_secs(args.seconds));
    let mut shares = Vec::new();
    for _ in 0..args.windows.max(1) {
        let (begin, before) = (Instant::now(), tool::cpu_ns(pid)?);
        std::thread::sleep(Duration::from_secs(args.seconds.max(1)));
        let used = tool::cpu_ns(pid)? - before;
        shares.push(100.0 * used as f64 / begin.elapsed().as_nanos() as f64);
    }
    Ok(Spread::of(shares))
}
