//! What was predicted, for people and for programs.

use std::fmt::Write;

use base::counted_noun;
use host_sim::predict::{ProgramPlacement, SearchMethod};
use serde_json::{Value, json};

use super::Told;

const MIB: f64 = 1048576.0;

/// A table, and the split below it.
pub(super) fn text(told: &Told<'_>) -> String {
    let mut text = String::new();
    if !told.slowdowns.is_empty() {
        push_slowdowns(&mut text, told);
    }
    if let Some(split) = &told.split {
        if !text.is_empty() {
            text.push('\n');
        }
        push_split(&mut text, told, split);
    }
    text
}

fn push_slowdowns(text: &mut String, told: &Told<'_>) {
    let Some(site) = told.stage.sites.first() else { return };
    let _ = writeln!(
        text,
        "side by side on LLC domain {}: {:.2} MiB, {}, {:.2} GB/s at the peak\n",
        site.llc.0,
        site.cache / MIB,
        counted_noun(site.n_cpus, "CPU"),
        site.peak
    );
    let width = width(told);
    let _ = writeln!(text, "  {:<width$}  slow-down  cache MiB  memory GB/s", "program");
    for (name, its) in told.names.iter().zip(&told.slowdowns) {
        let cache = its.cache / MIB;
        let _ = writeln!(
            text,
            "  {name:<width$}  {:>9.3}  {cache:>9.2}  {:>11.2}",
            its.slowdown, its.bytes_per_ns
        );
    }
    let mean = told.slowdowns.iter().map(|its| its.slowdown).sum::<f64>();
    let _ = writeln!(text, "  {:<width$}  {:>9.3}", "mean", mean / told.slowdowns.len() as f64);
}

fn push_split(text: &mut String, told: &Told<'_>, split: &ProgramPlacement) {
    let n = told.stage.sites.len();
    let _ = writeln!(
        text,
        "best split over {} ({}):\n",
        counted_noun(n, "LLC domain"),
        how(split.method)
    );
    let width = width(told);
    let _ = writeln!(text, "  domain  {:<width$}  slow-down", "program");
    for domain in 0..n {
        let mut head = domain.to_string();
        for (idx, name) in told.names.iter().enumerate() {
            if split.domains.get(idx) == Some(&domain) {
                let slowdown = split.slowdowns.get(idx).copied().unwrap_or(1.0);
                let _ = writeln!(text, "  {head:>6}  {name:<width$}  {slowdown:>9.3}");
                head.clear();
            }
        }
        if !head.is_empty() {
            let _ = writeln!(text, "  {head:>6}  nobody");
        }
    }
    let _ = writeln!(text, "  {:>6}  {:<width$}  {:>9.3}", "", "mean", split.mean);
}

fn width(told: &Told<'_>) -> usize {
    told.names.iter().map(|name| name.chars().count()).chain(["program".len()]).max().unwrap_or(0)
}

fn how(way: SearchMethod) -> &'static str {
    match way {
        SearchMethod::Exhaustive => "all were looked at",
        SearchMethod::Heuristic => "found by moves and swaps; there may be a better one",
    }
}

/// One object; see docs/predict.md.
pub(super) fn json(told: &Told<'_>) -> serde_json::Result<String> {
    let slowdowns = told.names.iter().zip(&told.slowdowns).map(|(name, its)| {
        json!({
            "program": name,
            "slowdown": its.slowdown,
            "cache_bytes": its.cache as u64,
            "bandwidth_bytes_per_s": (its.bytes_per_ns * 1e9) as u64,
        })
    });
    let mut object = json!({ "slowdowns": slowdowns.collect::<Vec<Value>>() });
    if let Some(split) = &told.split {
        let names_in = |domain: usize| {
            let there = told.names.iter().zip(&split.domains).filter(|(_, at)| **at == domain);
            there.map(|(name, _)| name.clone()).collect::<Vec<String>>()
        };
        let each = told.names.iter().zip(split.slowdowns.iter().zip(&split.domains));
        let each = each.map(|(name, (slowdown, domain))| {
            json!({ "program": name, "slowdown": slowdown, "domain": domain })
        });
        object["split"] = json!((0..told.stage.sites.len()).map(names_in).collect::<Vec<_>>());
        object["split_slowdowns"] = json!(each.collect::<Vec<Value>>());
        object["mean_slowdown"] = json!(split.mean);
        object["split_found_by"] = json!(match split.method {
            SearchMethod::Exhaustive => "exhaustive",
            SearchMethod::Heuristic => "search",
        });
    }
    object["notes"] = json!(told.notes);
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}
