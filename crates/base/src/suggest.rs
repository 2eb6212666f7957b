//! Parts of messages: suggestions for mistyped names, and counts with a noun.
//!
//! The distance is the Damerau-Levenshtein edit distance: insertions, deletions, substitutions and
//! transpositions of adjacent letters each count as one edit. Case is ignored.

use std::fmt::Display;

/// Returns the known names within one edit per three letters of the known name (at least one edit), the closest first.
/// Names at equal distance keep their order in `known`. The threshold is guessed.
pub fn similar<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let found = found.to_lowercase();
    let edits = |name: &str| strsim::damerau_levenshtein(&found, &name.to_lowercase());
    let mut similar_names: Vec<(usize, &str)> =
        known.into_iter().map(|name| (edits(name), name)).collect();
    similar_names.retain(|(edits, name)| edits * 3 <= name.chars().count().max(3));
    similar_names.sort_by_key(|(edits, _)| *edits);
    similar_names.into_iter().map(|(_, name)| name).collect()
}

/// Returns the closest name of [`similar`].
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    similar(found, known).first().copied()
}

/// Returns `did you mean "NAME"?`, or `did you mean "A" or "B"?` for several names; `None` without a name.
pub fn question<S: AsRef<str>>(near: &[S]) -> Option<String> {
    let quoted: Vec<String> = near.iter().map(|name| format!("{:?}", name.as_ref())).collect();
    (!near.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}

/// Returns `did you mean "NAME"?` with the closest known name, or `known are A, B, C` if no known name is similar.
pub fn did_you_mean<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> String {
    let known = known.into_iter();
    let nearest = nearest(found, known.clone());
    question(nearest.as_slice())
        .unwrap_or_else(|| format!("known are {}", known.collect::<Vec<_>>().join(", ")))
}

/// Returns a count with its noun: `1 CPU`, `8 CPUs`, `0 LLC domains`, `2 policies`.
pub fn counted_noun<N: Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    format!("{n} {}", noun(n == N::from(1), one))
}

/// Returns the singular or the plural of a noun. A `y` after a consonant becomes `ies`, an `s` becomes `ses`.
pub fn noun(is_one: bool, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if is_one => one.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if one.ends_with('s') => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

/// Returns the message for a file of another format, with its remedy: `the journal has format 1, …`.
pub fn other_format(file: &str, found: u32, supported: u32) -> String {
    let remedy = if found < supported {
        "an older build wrote it: record the run again"
    } else {
        "a newer build wrote it: read it with that build"
    };
    format!("the {file} has format {found}, this evenkeel reads format {supported} only; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_the_name_and_an_unrelated_word_finds_none() {
        const KNOWN: [&str; 4] = ["command", "class", "cpus", "stop_after"];
        for (found, meant) in [
            ("comand", Some("command")),
            ("Class", Some("class")),
            ("cpu", Some("cpus")),
            ("stop-after", Some("stop_after")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(found, KNOWN), meant, "{found}");
        }
        assert_eq!(did_you_mean("cpsu", KNOWN), "did you mean \"cpus\"?");
        assert_eq!(did_you_mean("zebra", ["a1", "b2"]), "known are a1, b2");
        assert_eq!(similar("dfs", ["dsf", "linux", "dfs"]), ["dfs", "dsf"]);
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(counted_noun(1usize, "CPU"), "1 CPU");
        assert_eq!(counted_noun(2u64, "CPU"), "2 CPUs");
        assert_eq!(counted_noun(0u32, "LLC domain"), "0 LLC domains");
        assert_eq!(counted_noun(2u32, "policy"), "2 policies");
        assert_eq!(counted_noun(2u32, "process"), "2 processes");
    }
}
