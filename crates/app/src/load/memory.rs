//! How large a buffer may and must be.
//!
//! Four times the last-level cache, so that little of it can be held there; at least 64 MB; at most
//! a quarter of the free memory for all copies together, since four times a cache of 300 MiB is
//! more than a small machine has to spare.

use std::path::Path;

use anyhow::{Context, anyhow};
use base::Bytes;

/// Options about the size of the buffer or array.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Room {
    /// Programs like this one that run at the same time: they share the free memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
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

impl Room {
    /// The last-level cache's size: as told, else as the machine has it; `None` if nobody knows.
    pub(crate) fn llc(&self) -> Option<Bytes> {
        self.llc.or_else(|| {
            let machine = linux::topology::read(Path::new("/")).ok()?;
            machine.llcs().iter().filter_map(|llc| llc.size).max()
        })
    }

    /// The most that one copy may take: a quarter of the free memory, shared by all copies.
    pub(crate) fn most(&self) -> anyhow::Result<Bytes> {
        Ok(Bytes(free_memory(Path::new("/"))?.0 / 4 / u64::from(self.copies)))
    }

    /// The size of the hog's buffer.
    pub(crate) fn buffer(&self, llc: Option<Bytes>) -> anyhow::Result<Bytes> {
        Ok(buffer(llc, self.most()?))
    }

    /// The share of accesses that should miss with such a buffer.
    pub(crate) fn miss_share(&self, buffer: Bytes, llc: Option<Bytes>) -> f64 {
        let llc = llc.unwrap_or_default().0 as f64;
        let all = buffer.0 as f64 * f64::from(self.copies);
        match 4.0 * llc <= buffer.0 as f64 {
            true => MISS_SHARE_FULL,
            false => 1.0 - llc / all - 0.1,
        }
    }
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
    fn free_memory_is_what_the_kernel_calls_available() {
        assert_eq!(
            available("MemTotal: 9 kB\nMemAvailable:   1024 kB\n"),
            Some(Bytes::from_mib(1))
        );
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }
}
