//! Counts with a noun.

use std::fmt::Display;

/// A count and its noun, which takes an s in the plural: `1 CPU`, `8 CPUs`, `0 LLC domains`.
pub fn counted_noun<N: Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {one}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(counted_noun(1usize, "CPU"), "1 CPU");
        assert_eq!(counted_noun(2u64, "CPU"), "2 CPUs");
        assert_eq!(counted_noun(0u32, "LLC domain"), "0 LLC domains");
    }
}
