//! `evenkeel policies`: every policy with its source, signals, parameters and defaults.
//!
//! All values come from the declarations in the crate `policy`, and from the declaration of the oracle in `lab`. The
//! oracle is only available to simulated runs.

use std::io::Write;

use policy::{IfMissing, Param, PolicyInfo, Requirement};
use report::table::Align::Left;
use report::table::{ReportTable, fold};
use serde_json::{Value, json};

use crate::command_result::{CommandResult, OrUsageError};

/// List policies with their parameters, defaults and sources
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print only this policy
    name: Option<String>,
    /// Print JSON (fields: evenkeel-policies(1))
    #[arg(long)]
    json: bool,
}

/// Prints the policies.
pub fn main(args: &Args) -> CommandResult {
    let chosen = match &args.name {
        None => policy::registry().iter().copied().chain([&lab::oracle::INFO]).collect(),
        Some(name) if name == lab::oracle::NAME => vec![&lab::oracle::INFO],
        Some(name) => vec![policy::find(name).map_err(lab::oracle::with_oracle).or_usage_error()?],
    };
    let text = if args.json { as_json(&chosen)? } else { as_text(&chosen) };
    crate::print::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Maximum width of a line. Terminals have at least this width.
const WIDTH: usize = 80;
/// Width of a label such as `Source:`, with its indent.
const LABEL: usize = 11;

fn as_text(policies: &[&PolicyInfo]) -> String {
    let mut text = String::new();
    for policy in policies {
        text.push_str(&format!("{}\n{}", policy.name, fold(policy.summary, WIDTH, "  ", 2)));
        text.push_str(&fold(policy.source, WIDTH, "  Source:  ", LABEL));
        for (condition, required) in policy.required_signals() {
            let condition = condition.map_or(String::new(), |it| format!("with {it}: "));
            let (help, without) = (required.signal.help(), required.if_missing.text());
            let words = format!("{condition}{help}; if missing: {without}");
            text.push_str(&fold(&words, WIDTH, "  Signal:  ", LABEL));
        }
        text.push_str(&fold(conserving(policy), WIDTH, "  Idle:    ", LABEL));
        if policy.needs_core_kinds {
            let words = "places no job on a machine with one core kind";
            text.push_str(&fold(words, WIDTH, "  Machine: ", LABEL));
        }
        text.push_str(&format!("\n{}\n", params_text(&policy.params.concat())));
    }
    text.push_str("Write evenkeel run --policy 'NAME[parameter=value,parameter=value]' WORKLOAD\n");
    text
}

/// Returns whether a policy is work-conserving, in words.
fn conserving(policy: &PolicyInfo) -> &'static str {
    match policy.work_conserving {
        true => {
            "work-conserving: no domain is idle while another has two runnable tasks that may run there"
        }
        false => "not work-conserving: a domain can be idle while another has two runnable tasks",
    }
}

fn params_text(params: &[Param]) -> String {
    let has_paper = params.iter().any(|param| param.default_paper.is_some());
    let heads = ["PARAMETER", "DEFAULT", "PAPER", "MEANING"].into_iter();
    let heads = heads.filter(|head| has_paper || *head != "PAPER").map(|head| (head, Left));
    let mut table = ReportTable::new(heads).indented(2).with_folded_column();
    for param in params {
        // Empty if reading=paper has the same default.
        let paper = has_paper.then(|| param.default_paper.unwrap_or("").to_owned());
        let first = [param.name.to_owned(), param.default.to_owned()].into_iter().chain(paper);
        table.row(first.chain([meaning(param)]));
    }
    let note = "  PAPER is the default with reading=paper, where that differs.\n";
    table.to_text(WIDTH) + if has_paper { note } else { "" }
}

fn meaning(param: &Param) -> String {
    let (values, origin) = (param.values.words(), param.origin.name());
    let mut text = format!("{}\nValues: {values}. Default: {origin}.", param.help);
    if !param.no_effect_with.is_empty() {
        text.push_str(&format!(" Rejected with {}.", param.no_effect_with.join(", or with ")));
    }
    if let Some(upper) = param.below {
        text.push_str(&format!(" Below {upper}."));
    }
    if let Some(Requirement { value, params }) = param.requires {
        let condition = value.map_or("Requires".to_owned(), |value| format!("{value} requires"));
        text.push_str(&format!(" {condition} {}.", params.join(" and ")));
    }
    if let Some((value, missing)) = param.unavailable {
        text.push_str(&format!(" Not available: {value} requires {missing}."));
    }
    text
}

fn as_json(policies: &[&PolicyInfo]) -> serde_json::Result<String> {
    let policies: Vec<Value> = policies.iter().map(|policy| policy_json(policy)).collect();
    Ok(base::json::to_indented(&json!({ "policies": policies }))? + "\n")
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
            "below": param.below,
            "requires": requires,
            "unavailable": unavailable,
        })
    });
    let signals = policy.required_signals().map(|(only_with, required)| {
        json!({
            "only_with": only_with.map(|setting| setting.to_string()),
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
        "work_conserving": policy.work_conserving,
        "needs_core_kinds": policy.needs_core_kinds,
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
