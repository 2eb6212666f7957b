//! Pressure stall information (PSI): time in which tasks waited for CPU, memory or I/O.
//!
//! ```text
//!   some avg10=0.00 avg60=3.35 avg300=36.52 total=11747662796     µs since boot
//!   full avg10=0.00 avg60=0.00 avg300=0.00 total=0
//! ```
//!
//! Only the totals are used: a difference of totals covers exactly the interval between two samples, but the averages
//! of the kernel have fixed windows. Kernels before 5.13 have no `full` line in `cpu`. In later kernels the values of
//! this line are always 0.

use std::io;

use base::Nanos;
use sched::{Pressure, StallTimes};

use crate::source::Source;

/// Directory of the files `cpu`, `memory` and `io`.
const DIR: &str = "proc/pressure";

/// Reads the pressure of the whole system. A value that the kernel does not report is `None`.
///
/// # Errors
/// No file can be read. The error is the error of `cpu`.
pub fn read(source: &mut dyn Source) -> io::Result<Pressure> {
    let mut totals =
        |resource: &str| source.file(&format!("{DIR}/{resource}")).map(|text| parse(&text));
    let (cpu, memory, io) = (totals("cpu"), totals("memory"), totals("io"));
    if memory.is_err() && io.is_err() {
        cpu.as_ref().map_err(|error| io::Error::from(error.kind()))?;
    }
    Ok(Pressure {
        cpu: cpu.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        io: io.unwrap_or_default(),
    })
}

/// Parses the totals of one file.
pub fn parse(text: &[u8]) -> StallTimes {
    let text = String::from_utf8_lossy(text);
    let total = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        let total = line.split_whitespace().find_map(|pair| pair.strip_prefix("total="))?;
        Some(Nanos(total.parse::<u64>().ok()?.saturating_mul(1000)))
    };
    StallTimes { some: total("some"), full: total("full") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn totals_are_read_and_missing_totals_are_none() {
        let text = b"some avg10=0.10 avg60=0.00 avg300=0.00 total=12\nfull avg10=0 total=3\n";
        let micros = |us: u64| Some(Nanos(us * 1000));
        assert_eq!(parse(text), StallTimes { some: micros(12), full: micros(3) });
        assert_eq!(parse(b"some total=7"), StallTimes { some: micros(7), full: None });
        assert_eq!(parse(b"some total=x\n"), StallTimes::default());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..80)) {
            parse(&text);
        }
    }
}
