//! What a profile needs to know of this machine: cache sizes and the clock.

use std::fs;
use std::path::Path;

use base::Bytes;

/// Sizes and speed, each with a word about where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Here {
    /// Bytes of the last-level cache.
    pub llc: Bytes,
    /// Bytes of a core's own caches: of the largest of them.
    pub private: Bytes,
    /// Cycles a second; absent if nobody knows.
    pub frequency: Option<f64>,
    /// What was assumed because nobody told it.
    pub assumed: Vec<String>,
}

/// What is taken where the machine tells nothing: an ordinary server's.
const LLC_ASSUMED: Bytes = Bytes::from_mib(32);
const PRIVATE_ASSUMED: Bytes = Bytes::from_mib(1);

impl Here {
    /// Reads the machine below a root; what is given goes before.
    pub(super) fn read(
        root: &Path,
        llc: Option<Bytes>,
        private: Option<Bytes>,
        frequency: Option<f64>,
    ) -> Self {
        let caches = caches(root);
        let mut assumed = Vec::new();
        let last = caches.last().map(|(_, size)| *size);
        let llc = llc.or(last).unwrap_or_else(|| {
            assumed.push(format!("a last-level cache of {LLC_ASSUMED}: say --llc"));
            LLC_ASSUMED
        });
        // The level below the last one belongs to a core, as far as machines tell.
        let below =
            caches.len().checked_sub(2).and_then(|idx| caches.get(idx)).map(|(_, size)| *size);
        let private = private.or(below).unwrap_or_else(|| {
            assumed.push(format!("private caches of {PRIVATE_ASSUMED}: say --private-cache"));
            PRIVATE_ASSUMED
        });
        Here { llc, private, frequency: frequency.or_else(|| read_frequency(root)), assumed }
    }
}

/// Levels and sizes of the caches that hold data, of the first CPU, levels rising.
fn caches(root: &Path) -> Vec<(u32, Bytes)> {
    let folder = root.join("sys/devices/system/cpu/cpu0/cache");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).ok();
    let cache = |path: &Path| {
        let kind = read(path, "type")?;
        let level = read(path, "level")?.trim().parse().ok()?;
        let size: Bytes = read(path, "size")?.trim().parse().ok()?;
        (kind.trim() != "Instruction" && size != Bytes::ZERO).then_some((level, size))
    };
    let mut caches: Vec<(u32, Bytes)> = entries.filter_map(|entry| cache(&entry.path())).collect();
    caches.sort_unstable();
    caches.dedup_by_key(|(level, _)| *level);
    caches
}

/// The highest frequency that the kernel may choose, else what the processor says of itself.
fn read_frequency(root: &Path) -> Option<f64> {
    let khz = fs::read_to_string(root.join("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
    let khz = khz.ok().and_then(|text| text.trim().parse::<f64>().ok()).map(|khz| khz * 1e3);
    khz.or_else(|| {
        let text = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
        let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
        line.split_once(':')?.1.trim().parse::<f64>().ok().map(|mhz| mhz * 1e6)
    })
    .filter(|hz| hz.is_finite() && 0.0 < *hz)
}

/// A frequency as a user writes it: `2.6GHz`, `2600MHz`, or cycles a second.
pub(super) fn frequency(text: &str) -> Result<f64, String> {
    let refuse = || format!("{text:?} is no frequency; write 2.6GHz or 2600MHz");
    let lower = text.trim().to_ascii_lowercase();
    let units = [("ghz", 1e9), ("mhz", 1e6), ("khz", 1e3), ("hz", 1.0)];
    let unit = units.iter().find_map(|(unit, by)| Some((lower.strip_suffix(unit)?, *by)));
    let (number, by) = unit.unwrap_or((&lower, 1.0));
    let hz = number.trim().parse::<f64>().map_err(|_| refuse())? * by;
    // Below a megahertz it is a forgotten unit.
    if (1e6..1e12).contains(&hz) { Ok(hz) } else { Err(refuse()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_read_with_their_unit_and_nothing_else_is() {
        for (text, hz) in [("2.6GHz", 2.6e9), ("2600 MHz", 2.6e9), ("2600000000", 2.6e9)] {
            assert_eq!(frequency(text), Ok(hz), "{text}");
        }
        for text in ["", "fast", "-1GHz", "0", "2.6", "nan", "inf GHz"] {
            assert!(frequency(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_machine_that_tells_nothing_is_assumed_and_said() {
        let nowhere = Here::read(Path::new("/nonexistent"), None, None, None);
        assert_eq!((nowhere.llc, nowhere.frequency, nowhere.assumed.len()), (LLC_ASSUMED, None, 2));
        let told = Here::read(Path::new("/nonexistent"), Some(Bytes(1)), Some(Bytes(2)), Some(1e9));
        assert_eq!((told.llc, told.private, told.frequency), (Bytes(1), Bytes(2), Some(1e9)));
        assert!(told.assumed.is_empty());
    }
}
