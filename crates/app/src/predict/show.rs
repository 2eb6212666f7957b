//! The predictions as text and as JSON.

use std::fmt::Write;

use base::counted_noun;
use host_sim::predict::{ProgramPlacement, SearchMethod};
use serde_json::{Value, json};

use super::PredictOutput;

const MIB: f64 = 1048576.0;

/// A table, and the split below it.
pub(super) fn text(output: &PredictOutput<'_>) -> String {
    let mut text = String::new();
    if !output.slowdowns.is_empty() {
        push_slowdowns(&mut text, output);
    }
    if let Some(split) = &output.split {
        if !text.is_empty() {
            text.push('\n');
        }
        push_split(&mut text, output, split);
    }
    text
}

fn push_slowdowns(text: &mut String, output: &PredictOutput<'_>) {
    let Some(llc_domain) = output.setup.llc_domains.first() else { return };
    let _ = writeln!(
        text,
        "side by side on LLC domain {}: {:.2} MiB, {}, {:.2} GB/s at the peak\n",
        llc_domain.llc.0,
        llc_domain.cache / MIB,
        counted_noun(llc_domain.n_cpus, "CPU"),
        llc_domain.peak
    );
    let width = width(output);
    let _ = writeln!(text, "  {:<width$}   slowdown  cache MiB  memory GB/s", "program");
    for (name, one) in output.names.iter().zip(&output.slowdowns) {
        let cache = one.cache / MIB;
        let _ = writeln!(
            text,
            "  {name:<width$}  {:>9.3}  {cache:>9.2}  {:>11.2}",
            one.slowdown, one.bytes_per_ns
        );
    }
    let mean = output.slowdowns.iter().map(|one| one.slowdown).sum::<f64>();
    let _ = writeln!(text, "  {:<width$}  {:>9.3}", "mean", mean / output.slowdowns.len() as f64);
}

fn push_split(text: &mut String, output: &PredictOutput<'_>, split: &ProgramPlacement) {
    let n = output.setup.llc_domains.len();
    let _ = writeln!(
        text,
        "best split over {} ({}):\n",
        counted_noun(n, "LLC domain"),
        method(split.method)
    );
    let width = width(output);
    let _ = writeln!(text, "  domain  {:<width$}   slowdown", "program");
    for domain in 0..n {
        let mut head = domain.to_string();
        for (idx, name) in output.names.iter().enumerate() {
            if split.domains.get(idx) == Some(&domain) {
                let slowdown = split.slowdowns.get(idx).copied().unwrap_or(1.0);
                let _ = writeln!(text, "  {head:>6}  {name:<width$}  {slowdown:>9.3}");
                head.clear();
            }
        }
        if !head.is_empty() {
            let _ = writeln!(text, "  {head:>6}  –");
        }
    }
    let _ = writeln!(text, "  {:>6}  {:<width$}  {:>9.3}", "", "mean", split.mean);
}

fn width(output: &PredictOutput<'_>) -> usize {
    output.names.iter().map(|name| name.chars().count()).chain(["program".len()]).max().unwrap_or(0)
}

fn method(method: SearchMethod) -> &'static str {
    match method {
        SearchMethod::Exhaustive => "all placements were compared",
        SearchMethod::Heuristic => "found by moves and swaps; a better one may exist",
    }
}

/// One object; see docs/predict.md.
pub(super) fn json(output: &PredictOutput<'_>) -> serde_json::Result<String> {
    let slowdowns = output.names.iter().zip(&output.slowdowns).map(|(name, one)| {
        json!({
            "program": name,
            "slowdown": one.slowdown,
            "cache_bytes": one.cache as u64,
            "bandwidth_bytes_per_s": (one.bytes_per_ns * 1e9) as u64,
        })
    });
    let mut object = json!({ "slowdowns": slowdowns.collect::<Vec<Value>>() });
    if let Some(split) = &output.split {
        let names_in = |domain: usize| {
            let there = output.names.iter().zip(&split.domains).filter(|(_, at)| **at == domain);
            there.map(|(name, _)| name.clone()).collect::<Vec<String>>()
        };
        let each = output.names.iter().zip(split.slowdowns.iter().zip(&split.domains));
        let each = each.map(|(name, (slowdown, domain))| {
            json!({ "program": name, "slowdown": slowdown, "domain": domain })
        });
        object["split"] =
            json!((0..output.setup.llc_domains.len()).map(names_in).collect::<Vec<_>>());
        object["split_slowdowns"] = json!(each.collect::<Vec<Value>>());
        object["mean_slowdown"] = json!(split.mean);
        object["split_found_by"] = json!(match split.method {
            SearchMethod::Exhaustive => "exhaustive",
            SearchMethod::Heuristic => "search",
        });
    }
    object["notes"] = json!(output.notes);
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}
