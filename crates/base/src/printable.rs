//! Escapes of characters that affect a terminal or hide text.
//!
//! A process sets its own name (`prctl(2)`), and files come from elsewhere. A control character in such a text is a command
//! for the terminal, and a bidirectional control changes the order of the characters after it.
//!
//! ```text
//!   ESC [31m  ─► \u001b[31m        the escape of JSON and TOML strings: escaped JSON has the same value
//! ```

/// Whether `c` is neither a control character (C0, DEL, C1) nor a bidirectional control, zero-width or other invisible format
/// character nor a line separator.
pub fn is_printable(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_invisible
}

/// A text for one line: every character that is not printable, line ends included, becomes `\uXXXX`.
pub fn printable(text: &str) -> String {
    escape(text, |_| false)
}

/// A text of several lines: like [`printable`], but line ends stay.
pub fn printable_lines(text: &str) -> String {
    escape(text, |c| c == '\n')
}

fn escape(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) || is_kept(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_are_escaped() {
        for (text, expected) in [
            ("\u{1b}[31mred\r\t\u{7f}\u{9b}", "\\u001b[31mred\\u000d\\u0009\\u007f\\u009b"),
            ("abc\u{202e}cba\u{200b}\u{2066}\u{feff}", "abc\\u202ecba\\u200b\\u2066\\ufeff"),
            ("a\u{e0041}", "a\\udb40\\udc41"),
            ("Größe \"…\" 測 𝄞", "Größe \"…\" 測 𝄞"),
        ] {
            assert_eq!(printable(text), expected);
            assert_eq!(printable_lines(text), expected);
        }
        assert_eq!(
            (printable("a\nb"), printable_lines("a\nb")),
            ("a\\u000ab".into(), "a\nb".into())
        );
    }
}
