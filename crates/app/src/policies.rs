//! `evenkeel policies`: every policy with its parameters, their defaults and where they come from.
//!
//! Everything shown stands in the registry of the room `policy`, beside the code that it describes; the oracle, which
//! only simulated runs have, in the laboratory.

use std::io::Write;

use policy::{ParamInfo, PolicyInfo, Without};
use serde_json::{Value, json};

use crate::command_result::{CommandResult, OrUsageError};

/// Which policy, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this one
    name: Option<String>,
    /// Print JSON: policies with name, does, source, needs and parameters; needs with figure, meaning,
    /// refuses_without and without (what it does then); parameters with name, takes, default,
    /// default_paper (null unless reading=paper has another), meaning and origin
    #[arg(long)]
    json: bool,
}

/// Lists policies.
pub fn main(args: &Args) -> CommandResult {
    let chosen = match &args.name {
        None => policy::registry().iter().chain([&lab::oracle::INFO]).collect(),
        Some(name) if name == lab::oracle::NAME => vec![&lab::oracle::INFO],
        Some(name) => vec![policy::find(name).map_err(lab::oracle::beside).or_usage_error()?],
    };
    let text = if args.json { as_json(&chosen)? } else { as_text(&chosen) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The widest line. Terminals are at least that wide.
const WIDTH: usize = 80;

fn as_text(policies: &[&PolicyInfo]) -> String {
    let mut text = String::new();
    for policy in policies {
        text.push_str(policy.name);
        text.push('\n');
        push_wrapped(&mut text, "  ", "  ", policy.does);
        push_wrapped(&mut text, "  Source: ", "          ", policy.source);
        for need in policy.needs {
            let words = format!("{}; without: {}", need.figure.words(), need.without.words());
            push_wrapped(&mut text, "  Needs:  ", "          ", &words);
        }
        text.push('\n');
        push_params(&mut text, policy.params);
        text.push('\n');
    }
    text.push_str("Write evenkeel run --policy 'NAME[parameter=value,parameter=value]' WORKLOAD\n");
    text
}

fn push_params(text: &mut String, params: &[ParamInfo]) {
    let widest = |cell: fn(&ParamInfo) -> &str, head: &str| {
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
        push_wrapped(text, &row(param.name, param.default, paper(param)), &after, param.meaning);
        let takes = format!("Takes {} ({}).", param.takes, param.origin.name());
        push_wrapped(text, &after, &after, &takes);
    }
    if has_paper {
        text.push_str("  PAPER is the default with reading=paper, where that differs.\n");
    }
}

/// Where both readings agree the column stays empty, so that the eye finds the differences.
fn paper(param: &ParamInfo) -> &str {
    param.default_paper.unwrap_or("")
}

/// Adds words after `first`, and after `later` in the lines that follow, none wider than [`WIDTH`].
fn push_wrapped(text: &mut String, first: &str, later: &str, words: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && WIDTH < line.len() + 1 + word.len() {
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
    let params = policy.params.iter().map(|param| {
        json!({
            "name": param.name,
            "takes": param.takes,
            "default": param.default,
            "default_paper": param.default_paper,
            "meaning": param.meaning,
            "origin": param.origin.name(),
        })
    });
    let needs = policy.needs.iter().map(|need| {
        json!({
            "figure": need.figure.name(),
            "meaning": need.figure.words(),
            "refuses_without": need.without == Without::Refuses,
            "without": need.without.words(),
        })
    });
    json!({
        "name": policy.name,
        "does": policy.does,
        "source": policy.source,
        "needs": needs.collect::<Vec<_>>(),
        "parameters": params.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    fn all() -> Vec<&'static PolicyInfo> {
        policy::registry().iter().collect()
    }

    #[test]
    fn the_list_is_as_in_the_golden_file() {
        expect_file!["../golden/policies.txt"].assert_eq(&as_text(&all()));
    }

    #[test]
    fn the_list_for_programs_is_as_in_the_golden_file() {
        let json = as_json(&all()).expect("plain values");
        expect_file!["../golden/policies.json"].assert_eq(&json);
    }

    #[test]
    fn every_line_fits_eighty_columns_and_ends_with_a_word() {
        for line in as_text(&all()).lines() {
            assert!(line.chars().count() <= WIDTH && line.trim_end() == line, "{line:?}");
        }
    }
}
