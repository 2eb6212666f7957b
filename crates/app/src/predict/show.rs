//! The predictions as text and as JSON.

use base::{counted_noun, gb_per_s};
use host_sim::predict::{ProgramPlacement, SearchMethod};
use report::format::{ABSENT, fixed, ratio};
use report::table::Align::{Left, Right};
use report::table::{ReportTable, fold_command};
use serde_json::{Value, json};

use super::PredictOutput;

const MIB: f64 = 1048576.0;
/// Width of the tables.
const WIDTH: usize = 80;

/// Returns a table, and the assignment below the table.
pub(super) fn text(output: &PredictOutput<'_>) -> String {
    let slowdowns = slowdowns_text(output);
    let assignment =
        output.assignment.as_ref().map(|assignment| assignment_text(output, assignment));
    let command = crate::repeat::command_line();
    let repeat = command.map(|command| fold_command(&command, WIDTH, "repeat: "));
    slowdowns.into_iter().chain(assignment).chain(repeat).collect::<Vec<String>>().join("\n")
}

fn slowdowns_text(output: &PredictOutput<'_>) -> Option<String> {
    let llc_domain = output.setup.llc_domains.first()?;
    let n = output.slowdowns.len();
    let heads =
        [("program", Left), ("slowdown", Right), ("cache MiB", Right), ("memory GB/s", Right)];
    let mut table = ReportTable::new(heads).indented(2);
    for (name, prediction) in output.names.iter().zip(&output.slowdowns) {
        let (cache, memory) =
            (fixed(prediction.cache / MIB, 2), gb_per_s(prediction.bytes_per_ns * 1e9));
        table.row([name.clone(), ratio(prediction.slowdown), cache, memory]);
    }
    let sum = output.slowdowns.iter().map(|prediction| prediction.slowdown).sum::<f64>();
    table.row(["mean", &ratio(sum / n as f64), "", ""]);
    let head = format!(
        "shared LLC domain {}: {} MiB, {}, {} GB/s at the peak\n",
        llc_domain.llc.0,
        fixed(llc_domain.domain.cache / MIB, 2),
        counted_noun(llc_domain.n_cpus, "CPU"),
        gb_per_s(llc_domain.peak * 1e9)
    );
    (n != 0).then(|| format!("{head}\n{}", table.to_text(WIDTH)))
}

fn assignment_text(output: &PredictOutput<'_>, assignment: &ProgramPlacement) -> String {
    let n = output.setup.llc_domains.len();
    let heads = [("domain", Right), ("program", Left), ("slowdown", Right)];
    let mut table = ReportTable::new(heads).indented(2);
    for domain in 0..n {
        let mut head = domain.to_string();
        for (idx, name) in output.names.iter().enumerate() {
            if assignment.domains.get(idx) == Some(&domain) {
                let slowdown = assignment.slowdowns.get(idx).copied().unwrap_or(1.0);
                table.row([std::mem::take(&mut head), name.clone(), ratio(slowdown)]);
            }
        }
        if !head.is_empty() {
            table.row([&head, ABSENT, ABSENT]);
        }
    }
    table.row(["", "mean", &ratio(assignment.mean)]);
    let (domains, found) = (counted_noun(n, "LLC domain"), method(assignment.method));
    format!("best assignment to {domains} ({found}):\n\n{}", table.to_text(WIDTH))
}

fn method(method: SearchMethod) -> &'static str {
    match method {
        SearchMethod::Exhaustive => "all assignments were compared",
        SearchMethod::Heuristic => "found by moves and swaps; a better one may exist",
    }
}

/// Returns one JSON object; the fields are listed in docs/predict.md.
pub(super) fn json(output: &PredictOutput<'_>) -> serde_json::Result<String> {
    let slowdowns = output.names.iter().zip(&output.slowdowns).map(|(name, prediction)| {
        json!({
            "program": name,
            "slowdown": prediction.slowdown,
            "cache_bytes": prediction.cache as u64,
            "bandwidth_bytes_per_s": (prediction.bytes_per_ns * 1e9) as u64,
        })
    });
    let mut object = json!({ "slowdowns": slowdowns.collect::<Vec<Value>>() });
    if let Some(assignment) = &output.assignment {
        let names_in = |domain: usize| {
            let members =
                output.names.iter().zip(&assignment.domains).filter(|(_, at)| **at == domain);
            members.map(|(name, _)| name.clone()).collect::<Vec<String>>()
        };
        let each = output.names.iter().zip(assignment.slowdowns.iter().zip(&assignment.domains));
        let each = each.map(|(name, (slowdown, domain))| {
            json!({ "program": name, "slowdown": slowdown, "domain": domain })
        });
        object["assignment"] =
            json!((0..output.setup.llc_domains.len()).map(names_in).collect::<Vec<_>>());
        object["assignment_slowdowns"] = json!(each.collect::<Vec<Value>>());
        object["mean_slowdown"] = json!(assignment.mean);
        object["assignment_found_by"] = json!(match assignment.method {
            SearchMethod::Exhaustive => "exhaustive",
            SearchMethod::Heuristic => "search",
        });
    }
    object["notes"] = json!(output.notes);
    object["command"] = json!(crate::repeat::command_line());
    Ok(base::json::to_indented(&object)? + "\n")
}
