//! Speed of the simulator: events and simulated job seconds per second of CPU time.
//!
//! ```text
//!   jobs   100, 10,000, 1,000,000       each takes about a second alone
//!   cores  8, 64, 1,024                 two to four concurrent jobs per core
//! ```
//!
//! The jobs are of eight programs, or all of one.
//!
//! The benchmark runs the fluid model directly, without a policy or a journal. Each point runs in a separate process,
//! so that its peak memory can be measured.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, bail};
use base::Rng;
use host_sim::fluid::Fluid;
use host_sim::frame::{HostNotice, JobStart, MachineSettings, MemoryPlacement, SimMachine};
use host_sim::hardware::Hardware;
use host_sim::physics::{Calibration, CoreSpeed, CpiModel, MissCurve, MissPoint};
use host_sim::script::{Script, ScriptPhase};
use host_sim::variation::Variation;
use topology::Machine;

use crate::stats::process_cpu_time;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Measure only this point, in this process: JOBS,CORES,on|off (contention); with `,equal` all jobs run one program
    #[arg(long, value_name = "JOBS,CORES,on|off[,equal]")]
    point: Option<String>,
    /// Skip the points with a million jobs
    #[arg(long)]
    quick: bool,
}

const JOBS: [usize; 3] = [100, 10_000, 1_000_000];
const CORES: [usize; 3] = [8, 64, 1024];
/// Maximum number of jobs per core.
const PER_CORE: usize = 4;
/// End of a point whose jobs are all equal, and their program.
const EQUAL_POINT: &str = ",equal";
const EQUAL: usize = 4;

pub fn main(args: &Args) -> anyhow::Result<()> {
    if let Some(point) = &args.point {
        return measure_point(point);
    }
    println!("The fluid model alone, CPU time of its process");
    println!(
        "jobs           cores  contention  events/s   job-s/s    solutions/event  CPU s    memory"
    );
    for contention in ["on", "off"] {
        for cores in CORES {
            let jobs = JOBS.into_iter().filter(|&jobs| !args.quick || jobs < 1_000_000);
            let points = jobs.map(|jobs| format!("{jobs},{cores},{contention}"));
            let equal = (contention == "on").then(|| format!("10000,{cores},on{EQUAL_POINT}"));
            for point in points.chain(equal) {
                let executable = std::env::current_exe().context("cannot find this program")?;
                let mut command = Command::new(executable);
                let status = command.args(["simulator", "--point", &point]).status()?;
                if !status.success() {
                    bail!("the point {point} failed");
                }
            }
        }
    }
    Ok(())
}

fn measure_point(point: &str) -> anyhow::Result<()> {
    let unequal = point.strip_suffix(EQUAL_POINT);
    let is_equal = unequal.is_some();
    let words: Vec<&str> = unequal.unwrap_or(point).split(',').collect();
    let &[jobs, cores, contention @ ("on" | "off")] = words.as_slice() else {
        bail!("--point {point}: write JOBS,CORES,on|off or JOBS,CORES,on|off{EQUAL_POINT}")
    };
    let (jobs, cores): (usize, usize) = (jobs.parse()?, cores.parse()?);
    let before = process_cpu_time();
    let run = simulate((jobs, is_equal), cores, contention == "on")?;
    let seconds = (process_cpu_time() - before).as_secs_f64();
    let memory = crate::evenkeel::peak_resident_kib(std::process::id())? >> 10;
    let jobs = format!("{jobs}{}", if is_equal { " equal" } else { "" });
    println!(
        "{jobs:<14} {cores:<6} {contention:<11} {:<10.3e} {:<10.3e} {:<16.3} {seconds:<8.3} {memory} MiB",
        run.events as f64 / seconds,
        run.job_seconds / seconds,
        run.solves as f64 / run.events.max(1) as f64,
    );
    Ok(())
}

struct FluidRun {
    events: u64,
    solves: u64,
    job_seconds: f64,
}

/// Runs jobs of all programs, or of one.
fn simulate(
    (n_jobs, is_equal): (usize, bool),
    n_cores: usize,
    contention: bool,
) -> anyhow::Result<FluidRun> {
    let hardware = hardware(n_cores)?;
    let scripts = scripts(&hardware)?;
    let scripts = if is_equal { &scripts[EQUAL..=EQUAL] } else { &scripts[..] };
    let settings = MachineSettings { contention, ..MachineSettings::default() };
    let mut fluid = Fluid::new(hardware, settings, Variation::default().streams(1));
    let mut rng = Rng::new(1);
    // Each core starts with two jobs. At each end of a job one or two jobs start, up to four per core.
    let mut waiting: VecDeque<usize> = (0..n_jobs).collect();
    let mut running = 0;
    let mut job_seconds = 0.0;
    let start = |fluid: &mut Fluid, job: usize, rng: &mut Rng| {
        let script = scripts[rng.below(scripts.len() as u64) as usize].clone();
        let memory = MemoryPlacement::FirstTouch;
        fluid.start(JobStart { memory, ..JobStart::new(job, script) });
    };
    while running < 2 * n_cores {
        let Some(job) = waiting.pop_front() else { break };
        start(&mut fluid, job, &mut rng);
        running += 1;
    }
    while 0 < running {
        let at = fluid.next_event().context("no event is left, but jobs are running")?;
        fluid.advance(at);
        for (_, notice) in fluid.take_notices() {
            let HostNotice::JobEnded { job, .. } = notice else { continue };
            job_seconds += fluid.tasks_of(job).map(|task| task.cpu_ns / 1e9).sum::<f64>();
            fluid.remove_job(job);
            running -= 1;
            let n_starts = 1 + usize::from(rng.below(2) == 1 && running + 2 <= PER_CORE * n_cores);
            for _ in 0..n_starts {
                let Some(job) = waiting.pop_front() else { break };
                start(&mut fluid, job, &mut rng);
                running += 1;
            }
        }
    }
    let work = fluid.work();
    Ok(FluidRun { events: work.events, solves: work.solves, job_seconds })
}

/// Returns nodes of up to 128 cores, with 8 cores per LLC domain.
fn hardware(n_cores: usize) -> anyhow::Result<Arc<Hardware>> {
    let per_llc = 8;
    let n_nodes = (n_cores / 128).max(1);
    let llcs = n_cores / per_llc / n_nodes;
    let text = format!("nodes={n_nodes} llcs={llcs} cores={per_llc} mem=512G llc=32M");
    let machine = Machine::synthetic(&text).context("the synthetic machine")?;
    Ok(Arc::new(Hardware::new(&machine)))
}

/// Returns eight programs, from cache-resident to streaming.
pub(super) fn scripts(hardware: &Hardware) -> anyhow::Result<Vec<Arc<Script>>> {
    let script = |nth: u32| {
        let misses = f64::from(nth * nth) * 0.5;
        let row = |bytes: f64, misses: f64| MissPoint {
            bytes,
            cycles: None,
            demand_misses: misses,
            misses: misses * 1.5,
            reads: misses * 1.5,
            writes: misses * 0.4,
        };
        let sizes = [(1048576.0, 1.0), (8388608.0, 2.0), (67108864.0, 8.0)];
        let rows = sizes.map(|(bytes, divisor)| row(bytes, misses / divisor)).to_vec();
        let curve = MissCurve::new(rows, row(0.0, 2.0 * misses + 1.0))?;
        let parameters = Calibration::default().parameters(CoreSpeed::new(2.4));
        let behaviour = CpiModel::from_core_cycles(&curve, 0.5, 2.0, parameters);
        let phase = ScriptPhase {
            shared: None,
            fills: Arc::new(hardware.fill_tables(&behaviour)),
            behaviour: Arc::new(behaviour),
            instructions: 1e9 * (1.0 + f64::from(nth % 3)),
            sleeps: None,
            footprint: u64::from(nth) << 24,
            l1_misses: 4.0 * misses + 2.0,
        };
        Ok(Arc::new(Script { phases: vec![phase], n_threads: 1, ..Script::default() }))
    };
    (0..8).map(script).collect()
}
