//! Programs that test the host: `load sleep` sleeps and exits with a status, `load fork` starts children.

use std::process::{Command, Stdio};

use anyhow::Context;
use base::Nanos;

use super::LoadReport;
use super::budget::{Budget, CompletedWork};
use crate::command_result::{CommandError, CommandResult};
use crate::input;

/// Options of `load sleep`.
#[derive(Debug, clap::Args)]
pub(crate) struct SleepArgs {
    /// Sleep for this time
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = input::time, allow_hyphen_values = true)]
    time: Nanos,
    /// Exit with this status
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = input::integer::<u8>(0..=255), allow_hyphen_values = true)]
    status: u8,
}

pub(crate) fn sleep(args: &SleepArgs) -> CommandResult {
    std::thread::sleep(args.time.into());
    if args.status != 0 {
        std::process::exit(args.status.into());
    }
    Ok(())
}

/// Options of `load fork`.
#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    /// Start this many children
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = input::integer::<u32>(1..=10_000), allow_hyphen_values = true)]
    children: u32,
    /// Exit immediately and leave the children running
    #[arg(long)]
    leave: bool,
    /// Work of each child: see load compute
    #[command(flatten)]
    budget: Budget,
}

pub(crate) fn fork(args: &ForkArgs) -> CommandResult {
    let begin = std::time::Instant::now();
    let mut children = Vec::new();
    for _ in 0..args.children {
        let mut child = Command::new("/proc/self/exe");
        child.args(["load", "compute", "--json"]).args(args.budget.to_args());
        child.stdin(Stdio::null()).stdout(if args.leave { Stdio::null() } else { Stdio::piped() });
        children.push(child.spawn().context("cannot start a child")?);
    }
    if args.leave {
        return Ok(());
    }
    let mut all = CompletedWork::default();
    for child in children {
        let output = child.wait_with_output().context("cannot wait for a child")?;
        if !output.status.success() {
            return Err(CommandError::Failed(anyhow::anyhow!(
                "a child exited with {}",
                output.status
            )));
        }
        let result: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("a child printed no JSON object")?;
        all.ops += result["ops"].as_u64().unwrap_or_default();
        let cpu_s = result["cpu_s"].as_f64().unwrap_or_default();
        all.cpu += std::time::Duration::try_from_secs_f64(cpu_s).unwrap_or_default();
    }
    all.wall = begin.elapsed();
    let mut report = LoadReport::new("fork", args.budget.json);
    report.add("children", args.children);
    report.end(&all, "operations")?;
    Ok(())
}
