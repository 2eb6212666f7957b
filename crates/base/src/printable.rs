//! Escaping of characters that affect a terminal or hide text.
//!
//! Names of processes (`prctl(2)`) and texts in files may come from other users. A control character in such a text is
//! a command for the terminal. A bidirectional control changes the order of the following characters.
//!
//! ```text
//!   ESC [31m  ─► \u001b[31m        the escape of JSON and TOML strings: escaped JSON has the same value
//! ```

/// Whether `c` can be printed. Control characters (C0, DEL, C1), bidirectional controls, zero-width and other invisible
/// format characters, and line separators cannot be printed.
pub fn is_printable(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_invisible
}

/// Escapes a text for one line: every character that is not printable, including line ends, becomes `\uXXXX`.
pub fn printable(text: &str) -> String {
    escape(text, |_| false)
}

/// Escapes a text of several lines like [`printable`], but keeps line ends.
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
