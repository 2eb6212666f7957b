//! `evenkeel policies`: every policy with its source, signals, parameters and defaults.
//!
//! All values come from the declarations in the crate `policy`, and from the declaration of the oracle in `lab`,
//! which only simulated runs can use.

use std::io::Write;

use policy::{IfMissing, Param, PolicyInfo, Requirement};
use serde_json::{Value, json};

use crate::command_result::{CommandResult, OrUsageError};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print only this policy
    name: Option<String>,
    /// Print JSON: policies with name, summary, source, signals and parameters; signals with signal, help,
    /// ends_run and if_missing (the behaviour without it); parameters with name, values, default,
    /// default_as_published (null unless reading=paper has another), help, origin, no_effect_with (conditions
    /// under which the parameter is rejected), requires and unavailable
    #[arg(long)]
    json: bool,
}

/// Prints policies.
pub fn main(args: &Args) -> CommandResult {
    let chosen = match &args.name {
        None => policy::registry().iter().copied().chain([&lab::oracle::INFO]).collect(),
        Some(name) if name == lab::oracle::NAME => vec![&lab::oracle::INFO],
        Some(name) => vec![policy::find(name).map_err(lab::oracle::with_oracle).or_usage_error()?],
    };
    let text = if args.json { as_json(&chosen)? } else { as_text(&chosen) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The widest line. Terminals have at least this width.
const WIDTH: usize = 80;

fn as_text(policies: &[&PolicyInfo]) -> String {
    let mut text = String::new();
    for policy in policies {
        text.push_str(policy.name);
        text.push('\n');
        push_wrapped(&mut text, "  ", "  ", policy.summary);
        push_wrapped(&mut text, "  Source:  ", "           ", policy.source);
        for required in policy.signals {
            let words =
                format!("{}; without: {}", required.signal.help(), required.if_missing.text());
            push_wrapped(&mut text, "  Signals: ", "           ", &words);
        }
        text.push('\n');
        push_params(&mut text, &policy.params.concat());
        text.push('\n');
    }
    text.push_str("Write evenkeel run --policy 'NAME[parameter=value,parameter=value]' WORKLOAD\n");
    text
}

fn push_params(text: &mut String, params: &[Param]) {
    let widest = |cell: fn(&Param) -> &str, head: &str| {
        params.iter().map(|param| cell(param).len()).chain([head.len()]).max().unwrap_or(0)
    };
    let has_paper = params.iter().any(|param| param.default_paper.is_some());
    let name = widest(|param| param.name, "PARAMETER");
    let default = widest(|param| param.default, "DEFAULT");
    let in_paper = if has_paper { widest(paper, "PAPER") + 2 } else { 0 };
    let row = |a: &str, b: &str, c: &str| format!("  {a:<name$}  {b:<default$}  {c:<in_paper$}");
    let after = row("", "", "");
    let head = row("PARAMETER", "DEFAULT", if has_paper { "PAPER" } else { "" });
    text.push_str(&format!("{head}MEANING\n"));
    for param in params {
        push_wrapped(text, &row(param.name, param.default, paper(param)), &after, param.help);
        let mut values = format!("Values: {} ({}).", param.values.words(), param.origin.name());
        if !param.no_effect_with.is_empty() {
            let conditions = param.no_effect_with.join(", or with ");
            values.push_str(&format!(" Rejected with {conditions}."));
        }
        if let Some(Requirement { value, params }) = param.requires {
            let given = value.map_or("Requires".to_owned(), |value| format!("{value} requires"));
            values.push_str(&format!(" {given} {}.", params.join(" and ")));
        }
        if let Some((value, missing)) = param.unavailable {
            values.push_str(&format!(" Not available: {value} requires {missing}."));
        }
        push_wrapped(text, &after, &after, &values);
    }
    if has_paper {
        text.push_str("  PAPER is the default with reading=paper, where that differs.\n");
    }
}

/// The default with `reading=paper`, or empty if it is the same.
fn paper(param: &Param) -> &str {
    param.default_paper.unwrap_or("")
}

/// Adds words after `first`, and after `later` in the following lines, none wider than [`WIDTH`].
fn push_wrapped(text: &mut String, first: &str, later: &str, words: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && WIDTH < line.chars().count() + 1 + word.chars().count() {
            text.push_str(line.trim_end());
            text.push('\n');
            line = later.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn as_json(policies: &[&PolicyInfo]) -> serde_json::Result<String> {
    let policies: Vec<Value> = policies.iter().map(|policy| policy_json(policy)).collect();
    Ok(serde_json::to_string_pretty(&json!({ "policies": policies }))? + "\n")
}

fn policy_json(policy: &PolicyInfo) -> Value {
    let params = policy.params().map(|param| {
        let requires = param
            .requires
            .map(|required| json!({ "value": required.value, "parameters": required.params }));
        let unavailable = param
            .unavailable
            .map(|(value, missing)| json!({ "value": value, "requires": missing }));
        json!({
            "name": param.name,
            "values": param.values.words(),
            "default": param.default,
            "default_as_published": param.default_paper,
            "help": param.help,
            "origin": param.origin.name(),
            "no_effect_with": param.no_effect_with,
            "requires": requires,
            "unavailable": unavailable,
        })
    });
    let signals = policy.signals.iter().map(|required| {
        json!({
            "signal": required.signal.name(),
            "help": required.signal.help(),
            "ends_run": required.if_missing == IfMissing::EndsRun,
            "if_missing": required.if_missing.text(),
        })
    });
    json!({
        "name": policy.name,
        "summary": policy.summary,
        "source": policy.source,
        "signals": signals.collect::<Vec<_>>(),
        "parameters": params.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_list_equals_the_golden_file() {
        expect_file!["../golden/policies.txt"].assert_eq(&as_text(policy::registry()));
    }

    #[test]
    fn the_json_list_equals_the_golden_file() {
        let json = as_json(policy::registry()).expect("plain values");
        expect_file!["../golden/policies.json"].assert_eq(&json);
    }

    #[test]
    fn every_line_fits_eighty_columns_and_ends_with_a_word() {
        for line in as_text(policy::registry()).lines() {
            assert!(line.chars().count() <= WIDTH && line.trim_end() == line, "{line:?}");
        }
    }
}
