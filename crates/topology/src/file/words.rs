//! What the reader of files says, in words that need no programmer.

/// A message of the reader without its jargon: `invalid type: integer `0`, expected a string`
/// becomes `must be a text in quotation marks, not a whole number`.
pub fn in_words(message: &str) -> String {
    type_or_value(message)
        .or_else(|| variant(message))
        .or_else(|| missing(message))
        .unwrap_or_else(|| message.to_owned())
}

/// `invalid type: FOUND, expected KIND` and `invalid value: FOUND, expected KIND`.
fn type_or_value(message: &str) -> Option<String> {
    let (what, rest) = message.strip_prefix("invalid ")?.split_once(": ")?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let value = found.split('`').nth(1).or_else(|| found.split('"').nth(1));
    match what {
        "type" => Some(format!("must be {}, not {}", kind(expected), kind(found))),
        "value" => Some(format!("{} does not fit: write {}", value?, kind(expected))),
        _ => None,
    }
}

/// `unknown variant `x`, expected one of `a`, `b``.
fn variant(message: &str) -> Option<String> {
    let mut quoted = message.strip_prefix("unknown variant ")?.split('`').skip(1).step_by(2);
    let found = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    Some(format!("{found:?} is not known here; write one of {}", known.join(", ")))
}

/// `missing field `x``.
fn missing(message: &str) -> Option<String> {
    let field = message.strip_prefix("missing field ")?.split('`').nth(1)?;
    Some(format!("{field} is missing; add it"))
}

/// What sort of value that is.
fn kind(jargon: &str) -> &str {
    const KINDS: [(&str, &str); 14] = [
        ("integer", "a whole number"),
        ("u8", "a whole number, 0 to 255"),
        ("u32", "a whole number, 0 to 4294967295"),
        ("u64", "a whole number, 0 or more"),
        ("i64", "a whole number, 0 or more"),
        ("floating point", "a decimal number"),
        ("string", "a text in quotation marks"),
        ("a string", "a text in quotation marks"),
        ("boolean", "true or false"),
        ("a boolean", "true or false"),
        ("sequence", "a list"),
        ("a sequence", "a list"),
        ("null", "nothing"),
        ("datetime", "a date"),
    ];
    let known = KINDS.iter().find(|(start, _)| jargon.starts_with(start));
    let is_table = ["map", "a map", "struct"].iter().any(|start| jargon.starts_with(start));
    known.map(|(_, words)| *words).or(is_table.then_some("a table")).unwrap_or(jargon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reader_says_is_said_in_words() {
        for (jargon, words) in [
            (
                "invalid type: integer `0`, expected a string",
                "must be a text in quotation marks, not a whole number",
            ),
            ("invalid type: map, expected a sequence", "must be a list, not a table"),
            (
                "invalid type: string \"a, expected b\", expected u32",
                "must be a whole number, 0 to 4294967295, not a text in quotation marks",
            ),
            (
                "invalid value: integer `-2`, expected u32",
                "-2 does not fit: write a whole number, 0 to 4294967295",
            ),
            (
                "unknown variant `hearsay`, expected one of `measured`, `firmware`",
                "\"hearsay\" is not known here; write one of measured, firmware",
            ),
            ("missing field `cpus`", "cpus is missing; add it"),
            ("something new", "something new"),
        ] {
            assert_eq!(in_words(jargon), words);
        }
    }
}
