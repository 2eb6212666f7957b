//! Compact and indented JSON without characters that affect a terminal or hide text.
//!
//! `serde_json` escapes C0 control characters only. Files of evenkeel contain names that other processes set, and users
//! print these files with `cat`. All other characters that are not [`crate::is_printable`] are therefore escaped too.
//! The escapes are those of JSON strings, so that a reader gets the same value.

use serde::Serialize;

use crate::{printable, printable_lines};

/// Returns JSON on one line, without a line feed at the end.
///
/// # Errors
/// The value has no JSON form, for example a map with keys that are not strings.
pub fn to_line(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    Ok(if has_unprintable(json.as_bytes()) { printable(&json) } else { json })
}

/// Returns indented JSON, without a line feed at the end.
///
/// # Errors
/// See [`to_line`].
pub fn to_indented(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(value)?;
    Ok(if has_unprintable(json.as_bytes()) { printable_lines(&json) } else { json })
}

/// Appends JSON on one line and a line feed.
///
/// # Errors
/// See [`to_line`]. The buffer may end with an incomplete line then.
pub fn append_line(buffer: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    let begin = buffer.len();
    serde_json::to_writer(&mut *buffer, value)?;
    if has_unprintable(&buffer[begin..]) {
        let json = String::from_utf8_lossy(&buffer[begin..]).into_owned();
        buffer.truncate(begin);
        buffer.extend_from_slice(printable(&json).as_bytes());
    }
    buffer.push(b'\n');
    Ok(())
}

/// Returns whether JSON may contain unprintable characters. False if all bytes are printable ASCII, as in nearly all
/// lines.
fn has_unprintable(json: &[u8]) -> bool {
    json.iter().any(|&byte| b'~' < byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_characters_are_escaped_and_the_value_stays() {
        let value =
            ["\u{1b}[2J\u{7f}\u{9b}31m", "abc\u{202e}cba\u{2066}", "a\u{e0041}", "Größe 測 𝄞\n"];
        let line = to_line(&value).expect("JSON");
        let mut buffer = b"before\n".to_vec();
        append_line(&mut buffer, &value).expect("JSON");
        assert_eq!(String::from_utf8(buffer).expect("UTF-8"), format!("before\n{line}\n"));
        for json in [line, to_indented(&value).expect("JSON").replace('\n', "")] {
            assert!(json.chars().all(crate::is_printable), "{json}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&json).expect("JSON"), value);
        }
    }
}
