//! Tests as a transcript: inputs, each followed by its result.
//!
//! ```text
//!   # a comment
//!   > class = 16                          an input: one line or several
//!   class 16 is out of range              its result, up to the next input
//! ```
//!
//! With `expect_test`, `UPDATE_EXPECT=1` writes the present results into the test.

/// The transcript with the present result of each input.
pub fn transcript(recorded: &str, result: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut lines = recorded.lines().map(str::trim_start).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            text += &format!("{line}\n");
        }
        let Some(input) = line.strip_prefix('>') else { continue };
        text += &format!("{line}\n");
        let mut input = input.strip_prefix(' ').unwrap_or(input).to_owned();
        while let Some(line) = lines.next_if(|line| line.starts_with('>')) {
            text += &format!("{line}\n");
            input += &format!("\n{}", line[1..].strip_prefix(' ').unwrap_or_default());
        }
        text += result(&input).trim_end();
        text.push('\n');
    }
    text
}
