//! `/proc/schedstat`: run and wait time of each CPU.
//!
//! ```text
//!   version 17
//!   timestamp 4295128377
//!   cpu0 0 0 0 0 0 0 40817373 5211020 1234       …, run ns, wait ns, slices
//!   domain0 MC 3 …
//! ```
//!
//! Run and wait time are the seventh and eighth number of a CPU's line since version 10 of the file
//! (Linux 2.6.14). Kernels built without SCHEDSTATS have no such file.

use std::io;

use base::{CpuId, Nanos};
use sched::CpuTimes;

use crate::source::Source;

/// Reads the times of all CPUs, by CPU number.
///
/// # Errors
/// The file cannot be read.
pub fn read(source: &mut dyn Source) -> io::Result<Vec<CpuTimes>> {
    Ok(parse(&source.file("proc/schedstat")?))
}

/// Parses the file. Malformed lines are skipped.
pub fn parse(text: &[u8]) -> Vec<CpuTimes> {
    let text = String::from_utf8_lossy(text);
    let mut cpus: Vec<CpuTimes> = text.lines().filter_map(parse_line).collect();
    cpus.sort_unstable_by_key(|times| times.cpu);
    cpus.dedup_by_key(|times| times.cpu);
    cpus
}

fn parse_line(line: &str) -> Option<CpuTimes> {
    let mut words = line.strip_prefix("cpu")?.split_whitespace();
    let cpu = CpuId(words.next()?.parse().ok().filter(|&nr: &u32| nr <= 65_535)?);
    let mut times = words.skip(6).map(|word| word.parse::<u64>().ok());
    let (run, wait) = (times.next()??, times.next()??);
    Some(CpuTimes { cpu, run: Nanos(run), wait: Nanos(wait) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_cpus_are_read_and_other_lines_are_skipped() {
        let text = b"version 15\ntimestamp 4\ncpu1 0 0 0 0 0 0 70 8 9\ndomain0 3 1 2\n\
                     cpu0 1 2 3 4 5 6 40 5 6\ncpu2 0 0\ncpux 0 0 0 0 0 0 1 1 1\n";
        let read: Vec<_> =
            parse(text).iter().map(|times| (times.cpu.0, times.run.0, times.wait.0)).collect();
        assert_eq!(read, [(0, 40, 5), (1, 70, 8)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(cpu[0-9]{0,6}( [0-9x]{0,22}){0,10}\n){0,4}") {
            parse(text.as_bytes());
        }
    }
}
