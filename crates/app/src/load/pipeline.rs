//! A pipeline: one thread per stage, and a bounded queue between two stages.
//!
//! ```text
//!   stage 1 ──queue──► stage 2 ──queue──► stage 3      a stage blocks on an empty input or a full output
//! ```
//!
//! The operations are those of `load compute`. The self-check verifies that each stage receives every item in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::LoadReport;
use super::budget::{CompletedWork, cpu_time, run_each};
use super::compute::Arithmetic;
use super::forkjoin::{ParallelWork, Works, check_ops, equal_part, part, work, works};
use crate::command_result::CommandResult;
use crate::input;

/// Options of `load pipeline`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    work: ParallelWork,
    /// Set the relative work of each stage
    #[arg(long, value_name = "N,N…", default_value = "1,1", value_parser = works)]
    stages: Works,
    /// Pass this many items through the stages
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = input::integer::<u32>(1..=1_000_000), allow_hyphen_values = true)]
    items: u32,
    /// Set the capacity of each queue in items
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = input::integer::<u32>(1..=1_000_000), allow_hyphen_values = true)]
    queue: u32,
}

/// Input and output of a stage.
type Ends = (Option<Receiver<u32>>, Option<SyncSender<u32>>);

/// Result of a stage.
struct StageDone {
    ops: u64,
    cpu: Duration,
    /// The item that was received instead of another one.
    wrong: Option<(u32, u32)>,
}

pub(crate) fn main(args: &Args) -> CommandResult {
    let stages = &args.stages.0;
    let begin = Instant::now();
    let ends: Vec<Mutex<Ends>> = ends(stages.len(), args.queue as usize);
    let done = run_each(stages.len(), |stage| {
        let (input, output) =
            std::mem::take(&mut *ends[stage].lock().unwrap_or_else(PoisonError::into_inner));
        let (cpu, mut arithmetic) = (cpu_time(), Arithmetic::new(stage as u32));
        let mut done = StageDone { ops: 0, cpu: Duration::ZERO, wrong: None };
        let ops_of_stage = part(args.work.ops, stages, stage);
        for item in 0..args.items {
            // A stage that ends early closes both of its queues, so that the others end too.
            let received = input.as_ref().map_or(Ok(item), Receiver::recv);
            if received != Ok(item) {
                done.wrong = received.ok().map(|other| (item, other));
                break;
            }
            let ops = equal_part(ops_of_stage, args.items, item);
            work(&mut arithmetic, ops);
            done.ops += ops;
            if output.as_ref().is_some_and(|output| output.send(item).is_err()) {
                break;
            }
        }
        done.cpu = cpu_time().saturating_sub(cpu);
        done
    })?;
    if let Some((item, other)) = done.iter().find_map(|stage| stage.wrong) {
        let error = anyhow::anyhow!("self-check: a stage received item {other} instead of {item}");
        return Err(error.into());
    }
    let by_stage: Vec<u64> = done.iter().map(|stage| stage.ops).collect();
    let ops = by_stage.iter().sum();
    check_ops(ops, args.work.ops)?;
    let mut report = LoadReport::new("pipeline", args.work.json);
    report.add("items", args.items);
    report.add("queue", args.queue);
    report.add("ops_by_stage", by_stage);
    let (cpu, wall) = (done.iter().map(|stage| stage.cpu).sum(), begin.elapsed());
    report.end(&CompletedWork { ops, cpu, wall }, "operations")?;
    Ok(())
}

/// Returns the ends of the queues by stage.
fn ends(n_stages: usize, queue: usize) -> Vec<Mutex<Ends>> {
    let mut ends: Vec<Ends> = (0..n_stages).map(|_| (None, None)).collect();
    for stage in 1..n_stages {
        let (output, input) = sync_channel(queue);
        (ends[stage - 1].1, ends[stage].0) = (Some(output), Some(input));
    }
    ends.into_iter().map(Mutex::new).collect()
}
