//! What a command is given: files that it reads whole (workloads, lists, machines; none of them is
//! endless), and values of options within reason.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};
use base::{Bytes, Nanos};

/// A hundred thousand jobs are a tenth of it.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a file; `what` says what it should be.
pub fn bytes(what: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let refused = || format!("cannot read the {what} {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(refused)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(refused)?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        bail!("{} is no {what}: it goes on after 64 MiB", path.display());
    }
    Ok(bytes)
}

/// The text of a file.
pub fn text(what: &str, path: &Path) -> anyhow::Result<String> {
    match String::from_utf8(bytes(what, path)?) {
        Ok(text) => Ok(text),
        Err(error) => {
            let valid =
                String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let line = 1 + valid.matches('\n').count();
            let column = 1 + valid.rsplit('\n').next().unwrap_or_default().chars().count();
            bail!("{}:{line}:{column}: this is no UTF-8 text", path.display())
        }
    }
}

/// A time of at most 366 days.
pub fn time(text: &str) -> Result<Nanos, String> {
    program::parse_time(text).map_err(|fault| fault.to_string())
}

/// A time that is not nothing.
pub fn some_time(text: &str) -> Result<Nanos, String> {
    match time(text)? {
        Nanos::ZERO => Err("it must be longer than 0".to_owned()),
        time => Ok(time),
    }
}

/// A size that is not nothing.
pub fn some_size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>().map_err(|error| error.to_string())? {
        Bytes::ZERO => Err("it must be more than 0".to_owned()),
        size => Ok(size),
    }
}

/// A seed: whatever fits.
pub fn seed(text: &str) -> Result<u64, String> {
    whole(0..=u64::MAX)(text)
}

/// The number of a process; whether there is one is another question.
pub fn pid(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| "write the number of a process, as ps shows it".to_owned())
}

/// A whole number within limits. An option names the type of its field: clap asks for it only when it runs.
pub fn whole<N: FromStr + PartialOrd + Display>(
    within: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone
where
    RangeInclusive<N>: Clone,
{
    move |text| {
        let given = text.trim().parse().ok().filter(|given| within.contains(given));
        let (least, most) = (within.start(), within.end());
        given.ok_or_else(|| format!("write a whole number from {least} to {most}"))
    }
}

/// The size of a part of a journal: its first line alone holds the machine and all jobs.
pub fn part(text: &str) -> Result<Bytes, String> {
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    match PART_MIN <= size {
        true => Ok(size),
        false => Err(format!("a part has at least {PART_MIN}")),
    }
}

/// Smaller ones would hold little but their own first lines.
const PART_MIN: Bytes = Bytes::from_kib(64);
