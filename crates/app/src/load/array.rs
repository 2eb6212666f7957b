//! A two-dimensional array, read row by row or column by column.
//!
//! ```text
//!   rows       ─────►  adjacent in memory: a line of 64 bytes has 16 elements
//!              ─────►
//!   columns    │ │ │   a new line for every element, and again for the next column
//!              ▼ ▼ ▼
//! ```
//!
//! Both orders add the same elements. One operation is one pass over the whole array.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::bail;
use base::Bytes;
use report::format::{duration, ratio};

use super::LoadReport;
use super::budget::{self, Budget, WorkerTask, least_cpu_time};
use super::memory::{self, BufferOptions};
use crate::command_result::{CommandResult, OrUsageError};
use crate::input;

/// Options of `load rows` and `load columns`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    budget: Budget,
    #[command(flatten)]
    options: BufferOptions,
    /// Set the number of rows and of columns, with elements of 4 bytes
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = input::integer::<u32>(1..=65_535), allow_hyphen_values = true)]
    n: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traversal {
    Rows,
    Columns,
}

struct Array {
    /// The elements are atomic, so that the compiler neither removes nor vectorizes the loads. A relaxed load is an
    /// ordinary load instruction.
    elements: Vec<AtomicU32>,
    n: usize,
    order: Traversal,
}

impl Array {
    /// Allocates an array and writes every element.
    fn new(n: u32, order: Traversal) -> Self {
        let n = n as usize;
        let numbers = (1..).map(|number: u32| AtomicU32::new(number)).take(n * n);
        Array { elements: numbers.collect(), n, order }
    }

    /// Performs one pass. Returns the sum of all elements.
    fn pass(&self, order: Traversal) -> u32 {
        let (step, n_lanes) = if order == Traversal::Rows { (1, 1) } else { (self.n, self.n) };
        let mut sum = 0u32;
        for lane in 0..n_lanes {
            let mut place = lane;
            while let Some(element) = self.elements.get(place) {
                sum = sum.wrapping_add(element.load(Ordering::Relaxed));
                place += step;
            }
        }
        sum
    }

    fn time(&self, order: Traversal) -> Duration {
        least_cpu_time(N_REPETITIONS, || {
            black_box(self.pass(order));
        })
    }
}

/// Repetitions per order. The result is the minimum.
const N_REPETITIONS: u32 = 5;

/// Minimum ratio of the cost of columns to rows.
const CONTRAST_MIN: f64 = 1.2;

impl WorkerTask for Array {
    const BATCH_OPS: u64 = 1;

    fn work(&mut self, ops: u64) {
        for _ in 0..ops {
            black_box(self.pass(self.order));
        }
    }
}

impl Args {
    /// Returns the array size of one thread, and of all threads.
    fn sizes(&self) -> anyhow::Result<(Bytes, Bytes)> {
        let size = Bytes(u64::from(self.n).pow(2) * 4);
        let all = Bytes(size.0 * u64::from(self.budget.threads));
        self.options.check_size(&format!("--n {} takes {all},", self.n), all)?;
        Ok((size, all))
    }
}

/// Checks the arguments without running the program.
pub(crate) fn check(args: &Args) -> anyhow::Result<()> {
    args.sizes().map(drop)
}

pub(crate) fn main(args: &Args, order: Traversal) -> CommandResult {
    let kind = if order == Traversal::Rows { "rows" } else { "columns" };
    let (size, all) = args.sizes().or_usage_error()?;
    let llc = args.options.llc();
    let mut report = LoadReport::new(kind, args.budget.json);
    report.print(&format!(
        "array {n} x {n} ({size}), last-level cache {}, copies {}, threads {}",
        memory::cache_text(llc),
        args.options.copies,
        args.budget.threads,
        n = args.n
    ))?;
    report.add("buffer_bytes", all.0);
    report.add("llc_bytes", llc.map(|size| size.0));
    report.add("copies", args.options.copies);
    report.add("threads", args.budget.threads);
    if !args.options.no_self_check {
        let contrast = self_check(args.n)?;
        report.add("check_contrast", contrast);
        report.print(&format!(
            "self-check: columns take {} times as long as rows",
            ratio(contrast)
        ))?;
    }
    let work = budget::run(&args.budget, |_| Array::new(args.n, order))?;
    report.end(&work, "passes")?;
    Ok(())
}

/// Measures the ratio of the cost of columns to rows. Fails if the ratio shows no effect of the caches.
fn self_check(n: u32) -> anyhow::Result<f64> {
    let array = Array::new(n, Traversal::Rows);
    let [rows, columns] = [Traversal::Rows, Traversal::Columns].map(|order| array.time(order));
    let contrast = columns.as_secs_f64() / rows.as_secs_f64().max(1e-9);
    match CONTRAST_MIN <= contrast {
        true => Ok(contrast),
        false => bail!(
            "columns take only {} times as long as rows ({} and {} per pass), {CONTRAST_MIN} is required; use a \
             larger --n, or --no-self-check",
            ratio(contrast),
            duration(columns.as_nanos() as u64),
            duration(rows.as_nanos() as u64)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_read_every_element_once() {
        let array = Array::new(100, Traversal::Rows);
        let sum: u32 = (1..=10_000).sum();
        assert_eq!(array.pass(Traversal::Rows), sum);
        assert_eq!(array.pass(Traversal::Columns), sum);
    }
}
