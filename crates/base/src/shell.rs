//! Words of a POSIX shell, for commands in messages and reports that a user copies.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::is_printable;

/// Quotes a text as one word.
///
/// A text with characters that cannot be printed becomes a command substitution of printf(1), because only recent
/// shells know `$'\n'`. Exception: a command substitution removes line ends at its end, so a text that ends with a line
/// end uses `$'\n'`.
pub fn quote(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./=:,+@%".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Ok(text) if text.chars().all(is_printable) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ if bytes.ends_with(b"\n") => format!("$'{}'", octal(bytes)),
        _ => format!("\"$(printf '{}')\"", octal(bytes)),
    }
}

/// Writes quotation marks, escapes, a first hyphen and bytes that cannot be printed as octal escapes of printf(1).
fn octal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let is_special = "'\"\\%".contains(c) || c == '-' && text.is_empty();
            match is_printable(c) && !is_special {
                true => text.push(c),
                false => text.push_str(&octal_bytes(c.encode_utf8(&mut [0; 4]).as_bytes())),
            }
        }
        text.push_str(&octal_bytes(chunk.invalid()));
    }
    text
}

fn octal_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

/// Quotes words and joins them to a command.
pub fn join<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> String {
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Divides a command that [`quote`] wrote at the spaces between its words.
pub fn words(command: &str) -> Vec<&str> {
    let (mut quote, mut is_escaped) = (None, false);
    let is_end = |c: char| {
        let was_escaped = is_escaped;
        is_escaped = c == '\\' && quote.is_none() && !was_escaped;
        match (c, quote) {
            ('\'' | '"', None) if !was_escaped => quote = Some(c),
            (_, Some(end)) if c == end => quote = None,
            _ => {}
        }
        c == ' ' && quote.is_none() && !was_escaped
    };
    command.split(is_end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_word() {
        for (text, expected) in [
            ("a/b-1.toml", "a/b-1.toml"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("~/a[1]", "'~/a[1]'"),
            ("a\nb", r#""$(printf 'a\012b')""#),
            ("-e\t'1'-2%", r#""$(printf '\055e\011\0471\047-2\045')""#),
            ("a\u{202e}", r#""$(printf 'a\342\200\256')""#),
            ("a b\n", r"$'a b\012'"),
        ] {
            assert_eq!(quote(text), expected);
            assert_eq!(words(&quote(text)).len(), 1, "{expected}");
        }
        assert_eq!(join(["echo", "a b", "c"]), "echo 'a b' c");
        assert_eq!(words(r"echo 'a b' 'it'\''s one' c"), ["echo", "'a b'", r"'it'\''s one'", "c"]);
    }
}
