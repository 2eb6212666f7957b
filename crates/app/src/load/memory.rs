//! Buffer size of the synthetic programs.
//!
//! The default is four times the last-level cache, so that a small part of the buffer stays cached. The minimum is 64
//! MB. The maximum is a quarter of the free memory for all copies together, because four times a cache of 300 MiB
//! exceeds the memory of a small machine.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, anyhow, bail};
use base::{Bytes, LINE_BYTES};

use crate::input;

/// Options of the buffer or array.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BufferOptions {
    /// Set the number of copies that share the free memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::integer::<u32>(1..=100_000), allow_hyphen_values = true)]
    pub(crate) copies: u32,
    /// Set the size of the last-level cache (default: of this machine)
    #[arg(long, value_name = "SIZE")]
    pub(crate) llc: Option<Bytes>,
    /// Skip the self-check of the access pattern
    #[arg(long)]
    pub(crate) no_self_check: bool,
}

/// Minimum default size.
const BUFFER_MIN: Bytes = Bytes(64_000_000);

/// Expected miss share of a buffer of four times the cache size.
const MISS_SHARE_FULL: f64 = 0.9;

/// A buffer of a valid size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// Total size of all threads.
    pub(crate) size: Bytes,
    /// Size of the last-level cache; `None` if unknown.
    pub(crate) llc: Option<Bytes>,
    /// Expected miss ratio of random accesses.
    pub(crate) miss_share: f64,
}

impl BufferOptions {
    /// Returns the size of the last-level cache: the value of `--llc`, or the size on this machine.
    pub(crate) fn llc(&self) -> Option<Bytes> {
        self.llc.or_else(llc_of_this_machine)
    }

    /// Returns the maximum size of one copy: a quarter of the free memory, divided by the number of copies.
    pub(crate) fn max_size(&self) -> anyhow::Result<Bytes> {
        Ok(Bytes(free_memory(Path::new("/"))?.0 / 4 / u64::from(self.copies)))
    }

    /// Returns a buffer of the requested or default size. Rejects sizes below one line per thread or above the maximum.
    pub(crate) fn buffer(
        &self,
        requested: Option<Bytes>,
        n_threads: u32,
    ) -> anyhow::Result<Buffer> {
        let llc = self.llc();
        let size = match requested {
            Some(size) => size,
            None => buffer(llc, self.max_size()?),
        };
        if size.0 < LINE_BYTES * u64::from(n_threads) {
            bail!("--size {size} is less than a line of {LINE_BYTES} B per thread ({n_threads})");
        }
        self.check_size(&format!("--size {size} is"), size)?;
        Ok(Buffer { size, llc, miss_share: self.miss_share(size, llc) })
    }

    /// Rejects sizes above the maximum. `subject` starts the error message.
    pub(crate) fn check_size(&self, subject: &str, size: Bytes) -> anyhow::Result<()> {
        // Without MemAvailable any size is accepted.
        match self.max_size() {
            Ok(limit) if limit < size => bail!(
                "{subject} more than {limit} (a quarter of the free memory, divided by {})",
                base::counted_noun(self.copies, "copy")
            ),
            _ => Ok(()),
        }
    }

    fn miss_share(&self, buffer: Bytes, llc: Option<Bytes>) -> f64 {
        let llc = llc.unwrap_or_default().0 as f64;
        let all = buffer.0 as f64 * f64::from(self.copies);
        match 4.0 * llc <= buffer.0 as f64 {
            true => MISS_SHARE_FULL,
            false => 1.0 - llc / all - 0.1,
        }
    }
}

/// Reads the size of the last-level cache once: a workload may have thousands of hogs.
fn llc_of_this_machine() -> Option<Bytes> {
    static LLC: OnceLock<Option<Bytes>> = OnceLock::new();
    *LLC.get_or_init(|| {
        let machine = linux::topology::read(Path::new("/")).ok()?;
        machine.llcs().iter().filter_map(|llc| llc.size).max()
    })
}

fn buffer(llc: Option<Bytes>, limit: Bytes) -> Bytes {
    let enough = Bytes(llc.unwrap_or_default().0.saturating_mul(4));
    limit.min(enough.max(BUFFER_MIN))
}

/// Reads the size of the memory that is available without swapping.
fn free_memory(root: &Path) -> anyhow::Result<Bytes> {
    let path = root.join("proc/meminfo");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    available(&text).ok_or_else(|| anyhow!("{} has no MemAvailable; set --size", path.display()))
}

fn available(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok().map(Bytes::from_kib)
}

/// Returns the text of a cache size for messages.
pub(crate) fn cache_text(llc: Option<Bytes>) -> String {
    llc.map_or("of unknown size".to_owned(), |size| size.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_four_caches_between_64_mb_and_the_maximum() {
        let mib = Bytes::from_mib;
        assert_eq!(buffer(Some(mib(32)), mib(5000)), mib(128));
        assert_eq!(buffer(Some(mib(2)), mib(5000)), Bytes(64_000_000));
        assert_eq!(buffer(None, mib(5000)), Bytes(64_000_000));
        assert_eq!(buffer(Some(mib(300)), mib(500)), mib(500));
    }

    #[test]
    fn a_smaller_buffer_has_a_smaller_expected_miss_share() {
        let options = |copies| BufferOptions { copies, llc: None, no_self_check: false };
        let share =
            |copies, buffer, llc| options(copies).miss_share(Bytes(buffer), Some(Bytes(llc)));
        assert_eq!(share(1, 400, 100), 0.9);
        assert_eq!(share(1, 200, 100), 0.4);
        assert_eq!(share(2, 200, 100), 0.65);
        assert_eq!(options(1).miss_share(Bytes(1), None), 0.9);
    }

    #[test]
    fn sizes_below_one_line_per_thread_or_above_the_maximum_are_rejected() {
        let options = |copies| BufferOptions { copies, llc: None, no_self_check: true };
        let rejected = |copies, size, n_threads| {
            let buffer = options(copies).buffer(Some(size), n_threads);
            buffer.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(rejected(1, Bytes(0), 1).contains("less than a line"));
        assert!(rejected(1, Bytes(64), 2).contains("per thread (2)"));
        assert_eq!(rejected(1, Bytes(64), 1), "");
        assert!(rejected(1, Bytes(1 << 60), 1).contains("a quarter of the free memory"));
        assert!(rejected(3, Bytes(1 << 60), 1).contains("divided by 3 copies"));
    }

    #[test]
    fn free_memory_is_mem_available() {
        assert_eq!(
            available("MemTotal: 9 kB\nMemAvailable:   1024 kB\n"),
            Some(Bytes::from_mib(1))
        );
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }
}
