//! Escaping of characters that affect a terminal or hide text.
//!
//! Names of processes (`prctl(2)`) and texts in files may come from other users. A control character in such a text is
//! a command for the terminal. A bidirectional control changes the order of the following characters.
//!
//! ```text
//!   ESC [31m  ─► \u001b[31m        the escape of JSON and TOML strings: escaped JSON has the same value
//! ```

/// The characters with the property Default_Ignorable_Code_Point of Unicode 16.0 (DerivedCoreProperties.txt). A terminal
/// does not display these characters, so two different names can be displayed as the same text.
const DEFAULT_IGNORABLE: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fff8}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns whether `c` can be printed. Control characters (C0, DEL, C1), bidirectional controls, zero-width and other
/// invisible characters, line separators and interlinear annotations cannot be printed.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}');
    let is_invisible = DEFAULT_IGNORABLE.iter().any(|&(first, last)| (first..=last).contains(&c));
    !c.is_control() && !is_separator && !is_invisible
}

/// Escapes a text for one line: every character that is not printable, including line ends, becomes `\uXXXX`.
pub fn printable(text: &str) -> String {
    escape(text, |_| false)
}

/// Escapes a text of several lines like [`printable`], but keeps line ends.
pub fn printable_lines(text: &str) -> String {
    escape(text, |c| c == '\n')
}

/// Truncates a text to `n_chars_max` characters. A truncated text ends with `…`.
pub fn cut(text: &str, n_chars_max: usize) -> String {
    if text.chars().count() <= n_chars_max {
        return text.to_owned();
    }
    let start: String = text.chars().take(n_chars_max.saturating_sub(1)).collect();
    start + "…"
}

/// Truncates an input that an error message repeats.
pub fn excerpt(input: &str) -> String {
    cut(input, 100)
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
            ("\u{3164}\u{115f}\u{34f}\u{fe0f}", "\\u3164\\u115f\\u034f\\ufe0f"),
            ("\u{e0100}\u{1d173}\u{180b}\u{17b4}", "\\udb40\\udd00\\ud834\\udd73\\u180b\\u17b4"),
            ("\u{2028}\u{fff9}\u{ffa0}", "\\u2028\\ufff9\\uffa0"),
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
