//! Counts with a noun.

use std::fmt::Display;

/// A count and its noun: `1 CPU`, `8 CPUs`, `0 LLC domains`, `2 policies`.
pub fn counted_noun<N: Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    format!("{n} {}", noun(n == N::from(1), one))
}

/// The singular or the plural of a noun. A `y` after a consonant becomes `ies`.
pub fn noun(is_one: bool, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if is_one => one.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(counted_noun(1usize, "CPU"), "1 CPU");
        assert_eq!(counted_noun(2u64, "CPU"), "2 CPUs");
        assert_eq!(counted_noun(0u32, "LLC domain"), "0 LLC domains");
        assert_eq!(counted_noun(2u32, "policy"), "2 policies");
    }
}
