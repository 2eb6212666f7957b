//! Help texts: headings of option groups, and the examples of each command.
//!
//! The examples of a command are those of its page in the book, so that both have one source.

/// Options that select and set the policy.
pub const POLICY: &str = "Policy and signals";
/// Options that end jobs, a run, or the management of processes.
pub const LIMITS: &str = "Limits";
/// Options of memory sampling, page migration and cgroups.
pub const MEMORY: &str = "Memory";
/// Options of counters, and of the number and order of compared runs.
pub const MEASUREMENT: &str = "Measurement";
/// Options of files and printed text.
pub const OUTPUT: &str = "Output";

/// Returns the text `Examples:` with the commands in the first code block below the heading `Examples` of a page.
pub fn examples(page: &str) -> String {
    let below = page.split_once("\n## Examples\n").map_or("", |(_, below)| below);
    let block = below.split("```").nth(1).unwrap_or_default();
    let lines = block.lines().skip(1).map(|line| format!("\n  {line}"));
    format!("Examples:{}", lines.collect::<String>())
}

/// Returns those lines of [`examples`] that contain a command.
pub fn examples_with(examples: &str, command: &str) -> String {
    let is_kept = |line: &&str| !line.starts_with(' ') || line.contains(command);
    examples.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// Returns the examples of the page of a command.
macro_rules! examples_of {
    ($command:literal) => {
        crate::help::examples(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/commands/",
            $command,
            ".md"
        )))
    };
}

pub(crate) use examples_of;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_the_lines_of_the_first_block() {
        let page = "# a\n\n## Examples\n\n```sh\na --b\n\nc \\\n  --d\n```\n\n```sh\nother\n```\n";
        assert_eq!(examples(page), "Examples:\n  a --b\n  \n  c \\\n    --d");
        assert_eq!(examples("# a\n"), "Examples:");
    }
}
