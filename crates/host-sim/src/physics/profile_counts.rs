//! Checks that the counts of a profile do not contradict each other: a miss is an access, and a line that is written
//! back was read before.

use base::Bytes;
use program::profile::{Phase, ProfileValue};

/// Counts that contradict each other, as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its {smaller} of a cache of {cache} are {found} per 1000 instructions, more than its {larger} of {limit}; correct one of them"
)]
pub struct CountContradiction {
    smaller: &'static str,
    found: String,
    larger: &'static str,
    limit: String,
    cache: Bytes,
}

/// Returns a number as text. A large one has an exponent.
fn text(count: f64) -> String {
    if count < 1e9 { format!("{count:.3}") } else { format!("{count:e}") }
}

/// Checks the counts of a phase at the cache size for which it was measured; without this size, at the largest size of
/// its curve. The misses are also checked at the size of the private caches. Accesses are counted behind the private
/// caches, so smaller caches may have more misses.
///
/// # Errors
/// There are more misses than accesses, or more write-backs than misses and prefetches.
pub(super) fn check_counts(
    phase: &Phase,
    measured_at: Option<Bytes>,
) -> Result<(), Box<CountContradiction>> {
    let curve = &phase.curve;
    let largest = curve.points().last().map(|point| point.cache);
    let Some(cache) = measured_at.or(largest).max(phase.private_cache) else { return Ok(()) };
    let misses_at = |cache| curve.misses_at(cache).unwrap_or(0.0);
    let check = |cache, (smaller, found): (_, f64), (larger, limit): (_, f64)| {
        if found <= limit * (1.0 + NOISE_SHARE) + NOISE_PER_1000 {
            return Ok(());
        }
        let [found, limit] = [found, limit].map(text);
        Err(Box::new(CountContradiction { smaller, found, larger, limit, cache }))
    };
    if let Some(accesses) = phase.llc_accesses.map(ProfileValue::value) {
        for cache in [phase.private_cache.unwrap_or(cache), cache] {
            check(cache, ("misses", misses_at(cache)), ("llc_accesses_per_1000", accesses))?;
        }
    }
    let write_backs = curve.write_backs_at(cache).unwrap_or(0.0);
    let reads = misses_at(cache) + curve.prefetches_at(cache).unwrap_or(0.0);
    check(cache, ("write-backs", write_backs), ("misses and prefetches", reads))
}

/// Tolerated noise of counts as a share and per 1000 instructions, as for misses that rise with the cache size:
/// counters of different events are not read at the same instant, and small rates are noisy. Draws of shipped profiles
/// with less than 0.2 misses have more write-backs than misses and prefetches, and need the second tolerance.
const NOISE_SHARE: f64 = 0.1;
const NOISE_PER_1000: f64 = 0.1;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Checks the phase of a profile with a class for 1 MiB and these values at 128 KiB and at 1 MiB.
    fn check(keys: &str, counts: &str) -> String {
        let text = format!(
            "name = \"x\"\nclass_cache_bytes = \"1M\"\n[[phase]]\n{keys}\ncurve = {{ cache_bytes = [131072, 1048576], {counts} }}"
        );
        let profile =
            program::profile::parse_profile(&text, Path::new("x")).expect("a readable profile");
        let result = check_counts(&profile.phases[0], profile.class_cache);
        result.err().map_or("valid".to_owned(), |error| error.to_string())
    }

    #[test]
    fn more_misses_than_accesses_are_an_error() {
        let accesses = |count: f64| {
            check(&format!("llc_accesses_per_1000 = {count:?}"), "misses_per_1000 = [30, 10]")
        };
        assert_eq!(accesses(10.0), "valid");
        assert_eq!(accesses(9.1), "valid", "noise");
        assert_eq!(
            accesses(5.0),
            "its misses of a cache of 1.0 MiB are 10.000 per 1000 instructions, more than its llc_accesses_per_1000 of 5.000; correct one of them"
        );
        assert_eq!(check("", "misses_per_1000 = [30, 10]"), "valid", "the accesses are unknown");
    }

    #[test]
    fn accesses_are_counted_behind_the_private_caches() {
        let keys = "llc_accesses_per_1000 = 10\nprivate_cache_bytes = 2097152";
        let curve = "cache_bytes = [1048576, 2097152], misses_per_1000 = [30, 10]";
        let text = format!("name = \"x\"\n[[phase]]\n{keys}\ncurve = {{ {curve} }}");
        let profile = program::profile::parse_profile(&text, Path::new("x")).expect("a profile");
        let check = |measured_at| check_counts(&profile.phases[0], measured_at).is_ok();
        assert!(check(Some(Bytes::from_mib(1))) && check(None));
    }

    #[test]
    fn misses_are_checked_at_the_size_of_the_private_caches_too() {
        let check = |private_kib: u32, misses: &str| {
            let bytes = private_kib * 1024;
            let keys = format!("llc_accesses_per_1000 = 5\nprivate_cache_bytes = {bytes}");
            let curve = format!("cache_bytes = [1048576, 16777216], misses_per_1000 = {misses}");
            let text = format!("name = \"x\"\n[[phase]]\n{keys}\ncurve = {{ {curve} }}");
            let profile =
                program::profile::parse_profile(&text, Path::new("x")).expect("a profile");
            let result = check_counts(&profile.phases[0], Some(Bytes::from_mib(16)));
            result.err().map_or("valid".to_owned(), |error| error.to_string())
        };
        let of = |cache: &str, misses: &str| {
            format!(
                "its misses of a cache of {cache} are {misses} per 1000 instructions, more than its llc_accesses_per_1000 of 5.000; correct one of them"
            )
        };
        assert_eq!(check(256, "[30, 4]"), of("256.0 KiB", "30.000"), "those of the first point");
        assert_eq!(check(1024, "[30, 4]"), of("1.0 MiB", "30.000"));
        assert_eq!(check(4096, "[30, 4]"), of("4.0 MiB", "17.000"), "interpolated");
        assert_eq!(check(16384, "[30, 4]"), "valid");
        assert_eq!(check(256, "[5, 4]"), "valid");
        assert_eq!(check(256, "[5.5, 5.7]"), of("16.0 MiB", "5.700"), "more than noise");
    }

    #[test]
    fn more_write_backs_than_lines_that_were_read_are_an_error() {
        let counts = |write_backs: f64| {
            let keys = "misses_per_1000 = [30, 10], prefetches_per_1000 = [9, 5]";
            check("", &format!("{keys}, write_backs_per_1000 = [99, {write_backs:?}]"))
        };
        assert_eq!(counts(15.0), "valid");
        assert_eq!(
            counts(20.0),
            "its write-backs of a cache of 1.0 MiB are 20.000 per 1000 instructions, more than its misses and prefetches of 15.000; correct one of them"
        );
    }
}
