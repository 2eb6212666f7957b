//! `evenkeel man-pages`: writes the manual pages, one per subcommand.
//!
//! ```text
//!   command definitions        NAME, SYNOPSIS, OPTIONS, SUBCOMMANDS
//!   docs/commands/NAME.md      DESCRIPTION, EXAMPLES, FILES, EXIT STATUS, …; links to other commands become SEE ALSO
//! ```
//!
//! A link to another page of the documentation is followed by the name of its file: make install copies these pages.
//!
//! The book and the manual pages have the same source. `make install` runs this command.

mod markdown;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::command_result::CommandResult;
use crate::help::page;

/// Write the manual pages; used by make install
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Existing directory for the pages
    out: PathBuf,
    /// Date of the pages, YYYY-MM-DD
    date: String,
}

pub fn main(args: &Args, mut cli: clap::Command) -> CommandResult {
    cli.build();
    write_pages(args, &cli, "README")?;
    Ok(())
}

/// Writes the page of a command, and the pages of its subcommands.
fn write_pages(args: &Args, command: &clap::Command, doc: &str) -> anyhow::Result<()> {
    // The programs of `load` are described on one page.
    write_page(args, command, page(doc))?;
    for subcommand in command.get_subcommands().filter(|command| is_documented(command)) {
        let name = subcommand.get_name();
        let parent = if doc == "README" { "" } else { doc };
        write_pages(args, subcommand, [parent, name].join("-").trim_start_matches('-'))?;
    }
    Ok(())
}

fn is_documented(command: &clap::Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn write_page(args: &Args, command: &clap::Command, doc: &str) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let version = concat!("evenkeel ", env!("CARGO_PKG_VERSION"));
    // The examples of the help text are part of the documentation page.
    let command = command.clone().after_help("").after_long_help("");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.get_subcommands().any(is_documented);
    let usage = command.clone().render_usage().to_string();
    let man = Man::new(command).title(name.to_uppercase()).date(&args.date);
    let man = man.source(version).manual("evenkeel");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(&name.replace('-', " "), &usage).to_writer(&mut text)?;
    let doc = markdown::ManualText::new(doc);
    let mut description = Roff::new();
    description.control("SH", ["DESCRIPTION"]);
    match doc.has_description {
        true => description.extend([doc.description]),
        false => drop(description.text([roman(about)])),
    }
    description.to_writer(&mut text)?;
    man.render_options_section(&mut text)?;
    if has_subcommands {
        man.render_subcommands_section(&mut text)?;
    }
    doc.sections.to_writer(&mut text)?;
    see_also(&name, &doc.linked_commands).to_writer(&mut text)?;
    let path = args.out.join(format!("{name}.1"));
    let text = without_redundant_breaks(&String::from_utf8_lossy(&text));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the usage lines of the help text, with the command in bold.
fn synopsis(command: &str, usage: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (idx, line) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if 0 < idx {
            roff.control("br", []);
        }
        let arguments = line.strip_prefix(command).unwrap_or(line);
        roff.text([bold(command), roman(arguments)]);
    }
    roff
}

/// Removes breaks at which formatters warn: a paragraph after a heading, and line breaks beside blank lines.
fn without_redundant_breaks(page: &str) -> String {
    let lines = page.lines().map(|line| if line.is_empty() { ".sp" } else { line });
    let lines: Vec<&str> = lines.collect();
    let is_redundant = |idx: usize| {
        let before = idx.checked_sub(1).map_or("", |before| lines[before]);
        let after = lines.get(idx + 1).copied().unwrap_or_default();
        match lines[idx] {
            ".PP" => before.starts_with(".SH ") || before.starts_with(".SS "),
            ".br" => before == ".sp" || after == ".sp",
            _ => false,
        }
    };
    let kept = (0..lines.len()).filter(|&idx| !is_redundant(idx));
    kept.map(|idx| format!("{}\n", lines[idx])).collect()
}

/// Directory of the other pages of the documentation, below the prefix of the installation.
const PAGES: &str = "share/doc/evenkeel/docs";

fn see_also(name: &str, commands: &BTreeSet<String>) -> Roff {
    let mut roff = Roff::new();
    let others = commands.iter().map(|command| format!("evenkeel-{command}"));
    let all = std::iter::once("evenkeel".to_owned()).chain(others).filter(|page| page != name);
    let mut inlines = Vec::new();
    for page in all {
        if !inlines.is_empty() {
            inlines.push(roman(", "));
        }
        inlines.extend([bold(page), roman("(1)")]);
    }
    roff.control("SH", ["SEE ALSO"]);
    if !inlines.is_empty() {
        roff.text(inlines).control("PP", []);
    }
    roff.text([roman("Other pages of the documentation are in the directory "), bold(PAGES)]);
    roff.text([roman("of the installation.")]);
    roff
}
