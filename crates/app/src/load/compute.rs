//! Arithmetic in registers: a program without memory accesses.

use std::hint::black_box;

use super::LoadReport;
use super::budget::{self, Budget, WorkerTask};
use crate::command_result::CommandResult;

/// Options of `load compute`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    budget: Budget,
}

/// Steps per operation, which takes about a microsecond.
const STEPS: u32 = 500;

/// State of a chain of dependent integer and floating-point operations.
pub(crate) struct Arithmetic {
    integer: u64,
    float: f64,
}

impl Arithmetic {
    pub(crate) fn new(thread_idx: u32) -> Self {
        Arithmetic { integer: u64::from(thread_idx) + 1, float: 0.5 }
    }
}

impl WorkerTask for Arithmetic {
    const BATCH_OPS: u64 = 256;

    fn work(&mut self, ops: u64) {
        for _ in 0..ops {
            for _ in 0..STEPS {
                self.integer ^= self.integer << 13;
                self.integer ^= self.integer >> 7;
                self.integer ^= self.integer << 17;
                self.float = self.float * 0.999_999 + 0.000_001;
            }
            black_box((self.integer, self.float));
        }
    }
}

pub(crate) fn main(args: &Args) -> CommandResult {
    let mut report = LoadReport::new("compute", args.budget.json);
    report.add("threads", args.budget.threads);
    let work = budget::run(&args.budget, Arithmetic::new)?;
    report.end(&work, "operations")?;
    Ok(())
}
