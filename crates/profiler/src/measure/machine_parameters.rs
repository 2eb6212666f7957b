//! Cache sizes and clock frequency of this machine.

use std::fs;
use std::path::Path;

use base::Bytes;

/// Parameters that a profile depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineParameters {
    /// Size of the last-level cache.
    pub llc: Bytes,
    /// Size of the largest private cache of a core.
    pub private: Bytes,
    /// Clock frequency in Hz; `None` if unknown.
    pub frequency: Option<f64>,
    /// Descriptions of assumed values, for notes.
    pub assumed: Vec<String>,
}

/// Cache sizes of a common server. These sizes apply if sysfs contains no cache sizes.
const LLC_ASSUMED: Bytes = Bytes::from_mib(32);
const PRIVATE_ASSUMED: Bytes = Bytes::from_mib(1);

impl MachineParameters {
    /// Reads sysfs and procfs below `root`. Arguments that are not `None` take precedence.
    pub fn read(
        root: &Path,
        llc: Option<Bytes>,
        private: Option<Bytes>,
        frequency: Option<f64>,
    ) -> Self {
        let caches = caches(root);
        let mut assumed = Vec::new();
        let last = caches.last().map(|(_, size)| *size);
        let llc = llc.or(last).unwrap_or_else(|| {
            assumed.push(format!("a last-level cache of {LLC_ASSUMED}; set it with --llc"));
            LLC_ASSUMED
        });
        // The cache level below the last level is private to a core on all known machines.
        let below =
            caches.len().checked_sub(2).and_then(|idx| caches.get(idx)).map(|(_, size)| *size);
        let private = private.or(below).unwrap_or_else(|| {
            assumed
                .push(format!("private caches of {PRIVATE_ASSUMED}; set it with --private-cache"));
            PRIVATE_ASSUMED
        });
        MachineParameters {
            llc,
            private,
            frequency: frequency.or_else(|| read_frequency(root)),
            assumed,
        }
    }
}

/// Returns the levels and sizes of the data and unified caches of CPU 0, sorted by level.
fn caches(root: &Path) -> Vec<(u32, Bytes)> {
    let dir = root.join("sys/devices/system/cpu/cpu0/cache");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
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

/// Returns the maximum frequency of cpufreq in Hz. Without cpufreq, returns the frequency in `/proc/cpuinfo`.
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

/// Parses a frequency: `2.6GHz`, `2600MHz`, or a number of Hz.
///
/// # Errors
/// A message with the accepted format.
pub fn parse_frequency(text: &str) -> Result<f64, String> {
    let invalid = || format!("{text:?} is not a frequency; write 2.6GHz or 2600MHz");
    let lower = text.trim().to_ascii_lowercase();
    let units = [("ghz", 1e9), ("mhz", 1e6), ("khz", 1e3), ("hz", 1.0)];
    let unit = units.iter().find_map(|(unit, by)| Some((lower.strip_suffix(unit)?, *by)));
    let (number, by) = unit.unwrap_or((&lower, 1.0));
    let hz = number.trim().parse::<f64>().map_err(|_| invalid())? * by;
    // A value below 1 MHz indicates a missing unit.
    if (1e6..1e12).contains(&hz) { Ok(hz) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_have_a_unit_and_other_texts_are_rejected() {
        for (text, hz) in [("2.6GHz", 2.6e9), ("2600 MHz", 2.6e9), ("2600000000", 2.6e9)] {
            assert_eq!(parse_frequency(text), Ok(hz), "{text}");
        }
        for text in ["", "fast", "-1GHz", "0", "2.6", "nan", "inf GHz"] {
            assert!(parse_frequency(text).is_err(), "{text}");
        }
    }

    #[test]
    fn missing_cache_sizes_are_assumed_and_reported() {
        let unknown = MachineParameters::read(Path::new("/nonexistent"), None, None, None);
        assert_eq!((unknown.llc, unknown.frequency, unknown.assumed.len()), (LLC_ASSUMED, None, 2));
        let configured = MachineParameters::read(
            Path::new("/nonexistent"),
            Some(Bytes(1)),
            Some(Bytes(2)),
            Some(1e9),
        );
        assert_eq!(
            (configured.llc, configured.private, configured.frequency),
            (Bytes(1), Bytes(2), Some(1e9))
        );
        assert!(configured.assumed.is_empty());
    }
}
