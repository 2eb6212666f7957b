//! How large a buffer may and must be.
//!
//! Four times the last-level cache, so that little of it can be held there; at least 64 MB; at most
//! a quarter of the free memory for all copies together, since four times a cache of 300 MiB is
//! more than a small machine has to spare.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, anyhow, bail};
use base::Bytes;

use crate::input;

/// Options about the size of the buffer or array.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Room {
    /// Programs like this one that run at the same time: they share the free memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::whole::<u32>(1..=100_000), allow_hyphen_values = true)]
    pub(crate) copies: u32,
    /// Size of the last-level cache, where the machine does not tell or tells wrong
    #[arg(long, value_name = "SIZE")]
    pub(crate) llc: Option<Bytes>,
    /// Do not try first whether the pattern costs what it should
    #[arg(long)]
    pub(crate) no_self_check: bool,
}

/// A buffer is at least so large, however small the cache.
const BUFFER_MIN: Bytes = Bytes(64_000_000);

/// The share of accesses that must miss when the buffer is four times the cache.
const MISS_SHARE_FULL: f64 = 0.9;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;

/// A buffer that may be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// Of all threads together.
    pub(crate) size: Bytes,
    /// The last-level cache, if anybody knows.
    pub(crate) llc: Option<Bytes>,
    /// The share of accesses to random places of it that should miss.
    pub(crate) miss_share: f64,
}

impl Room {
    /// The last-level cache's size: as told, else as the machine has it; `None` if nobody knows.
    pub(crate) fn llc(&self) -> Option<Bytes> {
        self.llc.or_else(llc_of_this_machine)
    }

    /// The most that one copy may take: a quarter of the free memory, shared by all copies.
    pub(crate) fn most(&self) -> anyhow::Result<Bytes> {
        Ok(Bytes(free_memory(Path::new("/"))?.0 / 4 / u64::from(self.copies)))
    }

    /// A hog's buffer, of the size that was asked for or one that fits the machine; refused if it
    /// has no line for each thread, or takes more than there is room for.
    pub(crate) fn buffer(&self, asked: Option<Bytes>, n_threads: u32) -> anyhow::Result<Buffer> {
        let llc = self.llc();
        let size = match asked {
            Some(size) => size,
            None => buffer(llc, self.most()?),
        };
        if size.0 < LINE_BYTES * u64::from(n_threads) {
            bail!(
                "--size {size} is less than a line of {LINE_BYTES} B for each thread ({n_threads})"
            );
        }
        self.check_size(&format!("--size {size} is"), size)?;
        Ok(Buffer { size, llc, miss_share: self.miss_share(size, llc) })
    }

    /// Refuses what takes more than there is room for; `what` begins the sentence.
    pub(crate) fn check_size(&self, what: &str, size: Bytes) -> anyhow::Result<()> {
        // A machine that does not tell what is free leaves it to the user.
        match self.most() {
            Ok(most) if most < size => bail!(
                "{what} more than {most} (a quarter of the free memory, for {} at a time)",
                if self.copies == 1 { "one".to_owned() } else { self.copies.to_string() }
            ),
            _ => Ok(()),
        }
    }

    /// The share of accesses that should miss with such a buffer.
    fn miss_share(&self, buffer: Bytes, llc: Option<Bytes>) -> f64 {
        let llc = llc.unwrap_or_default().0 as f64;
        let all = buffer.0 as f64 * f64::from(self.copies);
        match 4.0 * llc <= buffer.0 as f64 {
            true => MISS_SHARE_FULL,
            false => 1.0 - llc / all - 0.1,
        }
    }
}

/// Read once: a workload may hold thousands of hogs.
fn llc_of_this_machine() -> Option<Bytes> {
    static LLC: OnceLock<Option<Bytes>> = OnceLock::new();
    *LLC.get_or_init(|| {
        let machine = linux::topology::read(Path::new("/")).ok()?;
        machine.llcs().iter().filter_map(|llc| llc.size).max()
    })
}

fn buffer(llc: Option<Bytes>, most: Bytes) -> Bytes {
    let enough = Bytes(llc.unwrap_or_default().0.saturating_mul(4));
    most.min(enough.max(BUFFER_MIN))
}

/// Memory that could be had without swapping.
fn free_memory(root: &Path) -> anyhow::Result<Bytes> {
    let path = root.join("proc/meminfo");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    available(&text).ok_or_else(|| anyhow!("{} has no MemAvailable; say --size", path.display()))
}

fn available(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok().map(Bytes::from_kib)
}

/// For messages: a size, or that nobody knows.
pub(crate) fn shown(llc: Option<Bytes>) -> String {
    llc.map_or("of unknown size".to_owned(), |size| size.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_four_caches_between_64_mb_and_a_share_of_what_is_free() {
        let mib = Bytes::from_mib;
        assert_eq!(buffer(Some(mib(32)), mib(5000)), mib(128));
        assert_eq!(buffer(Some(mib(2)), mib(5000)), Bytes(64_000_000));
        assert_eq!(buffer(None, mib(5000)), Bytes(64_000_000));
        assert_eq!(buffer(Some(mib(300)), mib(500)), mib(500));
    }

    #[test]
    fn a_buffer_cut_short_must_miss_less_often() {
        let room = |copies| Room { copies, llc: None, no_self_check: false };
        let share = |copies, buffer, llc| room(copies).miss_share(Bytes(buffer), Some(Bytes(llc)));
        assert_eq!(share(1, 400, 100), 0.9);
        assert_eq!(share(1, 200, 100), 0.4);
        assert_eq!(share(2, 200, 100), 0.65);
        assert_eq!(room(1).miss_share(Bytes(1), None), 0.9);
    }

    #[test]
    fn a_size_is_refused_when_it_is_less_than_a_line_or_more_than_a_share_of_what_is_free() {
        let room = |copies| Room { copies, llc: None, no_self_check: true };
        let refused = |copies, size, n_threads| {
            let buffer = room(copies).buffer(Some(size), n_threads);
            buffer.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused(1, Bytes(0), 1).contains("less than a line"));
        assert!(refused(1, Bytes(64), 2).contains("each thread (2)"));
        assert_eq!(refused(1, Bytes(64), 1), "");
        assert!(refused(1, Bytes(1 << 60), 1).contains("a quarter of the free memory"));
        assert!(refused(3, Bytes(1 << 60), 1).contains("for 3 at a time"));
    }

    #[test]
    fn free_memory_is_what_the_kernel_calls_available() {
        assert_eq!(
            available("MemTotal: 9 kB\nMemAvailable:   1024 kB\n"),
            Some(Bytes::from_mib(1))
        );
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }
}
