//! The top and the bottom of the page: what was compared, what was found, and how it was judged.

use super::ends;
use crate::comparison::{Comparison, PolicyRow, VerdictWord};
use crate::format::count;
use crate::html::escape::escape;
use crate::html::head::{LOGO, SUN_AND_MOON};

pub(super) fn bar() -> String {
    format!(
        "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n\
         <div class=\"bar\"><div class=\"wrap\"><div class=\"brand\">{LOGO}evenkeel</div>\
         <nav aria-label=\"Sections\"><a href=\"#where\">Where</a><a href=\"#intervals\">How much</a><a href=\"#cost\">Cost</a>\
         <a href=\"#jobs\">Slow-downs</a><a href=\"#runs\">Runs</a><a href=\"#figures\">Figures</a><a href=\"#about\">How</a></nav>\
         <button class=\"icon\" id=\"theme\" type=\"button\" aria-label=\"Change colours\">{SUN_AND_MOON}</button></div></div>"
    )
}

fn several(n: usize, one: &str, more: &str) -> String {
    format!("{} {}", count(n as u64), if n == 1 { one } else { more })
}

pub(super) fn policies_words(told: &Comparison) -> String {
    match told.setting.policies.as_slice() {
        [one, other] => format!("{one} and {other}"),
        all => several(all.len(), "policy", "policies"),
    }
}

pub(super) fn hero(told: &Comparison) -> String {
    let setting = &told.setting;
    let chip = |label: &str, text: &str| {
        format!("<li class=\"chip\">{label} <b>{}</b></li>", escape(text))
    };
    let (class, word) = match setting.n_runs_done < setting.n_runs {
        true => ("warn", "interrupted"),
        false => ("good", "complete"),
    };
    let chips = [
        format!("<li class=\"chip {class}\">{word}</li>"),
        chip("baseline", &setting.baseline),
        chip("runs", &format!("{} of {}", count(setting.n_runs_done), count(setting.n_runs))),
        chip(if setting.host == "sim" { "simulated" } else { "live on" }, &setting.machine),
    ]
    .concat();
    let title = format!(
        "{} on {}, {}",
        policies_words(told),
        several(setting.workloads.len(), "workload", "workloads"),
        several(setting.seeds.len(), "seed", "seeds")
    );
    let notes: String = told
        .notes
        .iter()
        .map(|note| {
            format!("<div class=\"callout warn\"><b>Note</b><span>{}</span></div>\n", escape(note))
        })
        .collect();
    format!(
        "<div class=\"hero\"><p class=\"eyebrow\">Comparison</p>\n<h1>{}</h1>\n<ul class=\"sub\">{chips}</ul>\n{}\n{notes}</div>",
        escape(&title),
        findings(told)
    )
}

/// What was found, a sentence for each policy, the best first.
fn findings(told: &Comparison) -> String {
    let mut rows: Vec<&PolicyRow> = told.policies.iter().filter(|row| !row.is_baseline).collect();
    let ratio = |row: &PolicyRow| row.ratio_to_baseline.unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let finding = |row: &&PolicyRow| {
        let said = match (row.verdict, row.ratio_to_baseline) {
            (Some(VerdictWord::Better), Some(ratio)) => format!(
                "takes {:.1} % less time than {}",
                100.0 * (1.0 - ratio),
                told.setting.baseline
            ),
            (Some(VerdictWord::Worse), Some(ratio)) => format!(
                "takes {:.1} % more time than {}",
                100.0 * (ratio - 1.0),
                told.setting.baseline
            ),
            (_, Some(_)) => {
                format!("cannot be told from {} with these runs", told.setting.baseline)
            }
            (_, None) => "has no run that can be paired with the baseline".to_owned(),
        };
        let sure = ends(row.ratio_ci95.as_deref(), 3)
            .map_or(String::new(), |ends| format!(" (ratio {}, 95 % {ends})", ratio_words(row)));
        let counted = match told.setting.workloads.len() {
            1 => String::new(),
            _ => format!(
                "; better on {}, worse on {}, inconclusive on {}",
                row.n_better, row.n_worse, row.n_inconclusive
            ),
        };
        format!(
            "<li class=\"{}\"><span class=\"mark\">{}</span><span><b>{}</b> {}{}{}.</span></li>\n",
            super::class(row.verdict),
            super::mark(row.verdict),
            escape(&row.policy),
            escape(&said),
            sure,
            counted
        )
    };
    format!("<ul class=\"findings\">\n{}</ul>", rows.iter().map(finding).collect::<String>())
}

fn ratio_words(row: &PolicyRow) -> String {
    row.ratio_to_baseline.map_or("–".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// How verdicts come about, and what the runs stand on.
pub(super) fn about(told: &Comparison) -> String {
    let setting = &told.setting;
    let rule = format!(
        "Every policy ran on every workload with the same seeds, so that each pair met the same chance. The ratio is that of \
         the mean whole times over the paired seeds; its interval is a bootstrap over the pairs. Better or worse is said only \
         where that interval leaves out 1 and the signed-rank test of the pairs, corrected for the number of policies (Holm), \
         gives p below 0.05; everything else is inconclusive, which is not the same as equal. With {} beside the baseline, \
         fewer than {} seeds cannot give any other verdict.",
        several(setting.policies.len() - 1, "policy", "policies"),
        setting.n_pairs_needed
    );
    let mut facts = vec![
        (
            "Machine".to_owned(),
            format!(
                "{} ({}, {})",
                setting.machine,
                base::counted_noun(setting.n_nodes, "node"),
                base::counted_noun(setting.n_cpus, "CPU")
            ),
        ),
        ("Workloads".to_owned(), setting.workloads.join(", ")),
        (
            "Seeds".to_owned(),
            setting.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        ),
    ];
    facts.extend(setting.options.iter().map(|option| (option.name.clone(), option.value.clone())));
    facts.push(("Made by".to_owned(), format!("evenkeel {}", told.tool)));
    let facts: String = facts
        .iter()
        .map(|(label, text)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(text))
        })
        .collect();
    format!("<p class=\"lead\">{}</p><dl class=\"facts\">{facts}</dl>", escape(&rule))
}

pub(super) fn footer(told: &Comparison) -> String {
    format!(
        "<footer><div class=\"wrap\"><span>evenkeel {}</span>\
         <span>compare.json beside this page has every figure, with its unit; runs.csv and summary.csv are for other programs</span></div></footer>",
        escape(&told.tool)
    )
}
