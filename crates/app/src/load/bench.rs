//! One array, two ways to read it (spec 6.5).
//!
//! ```text
//!   rows       ─────►  neighbours in memory: a line of 64 bytes serves 16 elements
//!              ─────►
//!   columns    │ │ │   a new line for every element, and the next column needs it again
//!              ▼ ▼ ▼
//! ```
//!
//! Both do the same additions. An operation is one pass over the whole array.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::bail;
use base::Bytes;

use super::Account;
use super::budget::Budget;
use super::memory::{self, Room};
use super::workers::{self, Part, least_cpu_time};
use crate::command_result::{CommandResult, OrUsageError};
use crate::input;

/// Options of `load rows` and `load columns`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    budget: Budget,
    #[command(flatten)]
    room: Room,
    /// Elements of 4 bytes in a row, and rows
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = input::whole::<u32>(1..=65_535), allow_hyphen_values = true)]
    n: u32,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Along the rows.
    Rows,
    /// Across them.
    Columns,
}

/// One thread's array.
struct Array {
    /// Atomic for the sake of the reads: a relaxed load is an ordinary one to the processor, and
    /// the compiler neither drops it nor reads several elements at once.
    elements: Vec<AtomicU32>,
    n: usize,
    order: Order,
}

impl Array {
    /// An array of which every element has been written.
    fn new(n: u32, order: Order) -> Self {
        let n = n as usize;
        let numbers = (1..).map(|number: u32| AtomicU32::new(number)).take(n * n);
        Array { elements: numbers.collect(), n, order }
    }

    /// One pass: the sum of all elements.
    fn pass(&self, order: Order) -> u32 {
        let (step, n_lanes) = if order == Order::Rows { (1, 1) } else { (self.n, self.n) };
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

    fn time(&self, order: Order) -> Duration {
        least_cpu_time(TRIES, || {
            black_box(self.pass(order));
        })
    }
}

/// Tries of each way, of which the least counts.
const TRIES: u32 = 5;

/// Columns must be at least so many times as dear as rows (spec 1.9).
const CONTRAST_MIN: f64 = 1.2;

impl Part for Array {
    const BATCH_OPS: u64 = 1;

    fn work(&mut self, ops: u64) {
        for _ in 0..ops {
            black_box(self.pass(self.order));
        }
    }
}

impl Args {
    /// The size of one thread's array, and of all.
    fn sizes(&self) -> anyhow::Result<(Bytes, Bytes)> {
        let size = Bytes(u64::from(self.n).pow(2) * 4);
        let all = Bytes(size.0 * u64::from(self.budget.threads));
        self.room.check_size(&format!("--n {} takes {all},", self.n), all)?;
        Ok((size, all))
    }
}

/// What can be known to be wrong without trying.
pub(crate) fn check(args: &Args) -> anyhow::Result<()> {
    args.sizes().map(drop)
}

pub(crate) fn main(args: &Args, order: Order) -> CommandResult {
    let kind = if order == Order::Rows { "rows" } else { "columns" };
    let (size, all) = args.sizes().or_usage_error()?;
    let llc = args.room.llc();
    let mut account = Account::new(kind, args.budget.json);
    account.say(&format!(
        "array {n} x {n} ({size}), last-level cache {}, copies {}, threads {}",
        memory::shown(llc),
        args.room.copies,
        args.budget.threads,
        n = args.n
    ))?;
    account.note("buffer_bytes", all.0);
    account.note("llc_bytes", llc.map(|size| size.0));
    account.note("copies", args.room.copies);
    account.note("threads", args.budget.threads);
    if !args.room.no_self_check {
        let contrast = self_check(args.n)?;
        account.note("check_contrast", contrast);
        account.say(&format!("self-check: columns cost {contrast:.2} times as much as rows"))?;
    }
    let done = workers::run(&args.budget, |_| Array::new(args.n, order));
    account.end(&done, "passes")?;
    Ok(())
}

/// How many times as dear columns are as rows; refused when that shows no cache at work.
fn self_check(n: u32) -> anyhow::Result<f64> {
    let array = Array::new(n, Order::Rows);
    let [rows, columns] = [Order::Rows, Order::Columns].map(|order| array.time(order));
    let contrast = columns.as_secs_f64() / rows.as_secs_f64().max(1e-9);
    match CONTRAST_MIN <= contrast {
        true => Ok(contrast),
        false => bail!(
            "columns cost only {contrast:.2} times as much as rows ({:.0} and {:.0} us a pass), and \
             {CONTRAST_MIN} are needed; use a larger --n, or --no-self-check to run it all the same",
            columns.as_secs_f64() * 1e6,
            rows.as_secs_f64() * 1e6
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_every_element_once() {
        let array = Array::new(100, Order::Rows);
        let sum: u32 = (1..=10_000).sum();
        assert_eq!(array.pass(Order::Rows), sum);
        assert_eq!(array.pass(Order::Columns), sum);
    }
}
