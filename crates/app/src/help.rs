//! Help texts: headings of option groups, and the examples of each command.
//!
//! The examples of a command are those of its page in the book, and the help line is the comment of its arguments, so
//! that each has one source.

use clap::{Command, CommandFactory};

/// Options that select and set the policy.
pub const POLICY: &str = "Policy and signals";
/// Options that end jobs, a run, or the management of processes.
pub const LIMITS: &str = "Limits";
/// Options of memory sampling, page migration and cgroups.
pub const MEMORY: &str = "Memory";
/// Options of counters, and of the number and order of compared runs.
pub const MEASUREMENT: &str = "Measurement";
/// Options of simulated machines.
pub const SIMULATED: &str = "With --host sim";
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

/// Returns the command definitions, with the examples of their pages.
pub fn cli() -> Command {
    let cli = crate::Cli::command().after_help(examples(page("README")));
    let names: Vec<String> =
        cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let cli = names.into_iter().fold(cli, |cli, name| match page(&name) {
        "" => cli,
        text => cli.mut_subcommand(name, |command| command.after_help(examples(text))),
    });
    // Its host is always simulated.
    cli.mut_subcommand("tune", |command| {
        command.mut_args(|arg| match arg.get_help_heading() {
            Some(SIMULATED) => arg.help_heading("Simulated machine"),
            _ => arg,
        })
    })
}

/// Returns the page of a command; empty if it has none.
pub fn page(command: &str) -> &'static str {
    PAGES.iter().find(|(name, _)| *name == command).map_or("", |(_, text)| text)
}

/// Pages of `docs/commands`.
macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands/", $name, ".md")),
        )),+]
    };
}

/// The pages of all commands. `README` is the page of evenkeel.
const PAGES: &[(&str, &str)] = pages![
    "README",
    "machine",
    "run",
    "compare",
    "tune",
    "watch",
    "status",
    "policies",
    "calibrate",
    "predict",
    "profile",
    "generate",
    "load",
    "explain",
    "record",
    "replay",
    "report",
    "reproduce",
    "restore",
    "completions",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let cli = cli();
        let visible = cli.get_subcommands().filter(|command| !command.is_hide_set());
        let without: Vec<&str> =
            visible.map(Command::get_name).filter(|name| page(name).is_empty()).collect();
        assert_eq!(without, [] as [&str; 0], "add them to PAGES");
    }

    #[test]
    fn the_examples_are_the_lines_of_the_first_block() {
        let page = "# a\n\n## Examples\n\n```sh\na --b\n\nc \\\n  --d\n```\n\n```sh\nother\n```\n";
        assert_eq!(examples(page), "Examples:\n  a --b\n  \n  c \\\n    --d");
        assert_eq!(examples("# a\n"), "Examples:");
    }
}
