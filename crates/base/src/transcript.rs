//! Transcript tests: a file with inputs, each followed by its result.
//!
//! ```text
//!   # classes_out_of_range_are_rejected   name of a test case: its claim
//!   // a comment
//!   > class = 16                          input of one or more lines
//!   class 16 is out of range              result, up to the next input
//! ```
//!
//! A test compares a file with the transcript of its inputs. All cases run. The names of the cases with differences are
//! printed to standard error. With `expect_test`, `UPDATE_EXPECT=1` writes the current results to the file.

/// Returns the transcript with the current result of each input.
pub fn transcript(recorded: &str, result: impl Fn(&str) -> String) -> String {
    let recorded: Vec<&str> = recorded.lines().map(str::trim_start).collect();
    let starts = (0..recorded.len()).filter(|&idx| idx == 0 || recorded[idx].starts_with("# "));
    let starts: Vec<usize> = starts.collect();
    let mut cases = Vec::new();
    for (nth, &start) in starts.iter().enumerate() {
        let case = &recorded[start..starts.get(nth + 1).copied().unwrap_or(recorded.len())];
        let text = rerun(case, &result);
        let is_same = text
            .lines()
            .map(str::trim_start)
            .eq(case.iter().copied().filter(|line| !line.is_empty()));
        if !is_same {
            eprintln!("the result differs from the recorded result: {}", case[0]);
        }
        cases.push(text);
    }
    cases.join("\n")
}

/// Returns the text of one case with the current results.
fn rerun(case: &[&str], result: &impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut lines = case.iter().copied().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# ") || line.starts_with("//") {
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
