//! A study as a page.

use base::counted_noun;
use report::study::{Grid, Judged, Page, Part};

use super::{Account, Claim, Table, Told, Verdict};

/// One self-contained file.
pub fn html(account: &Account) -> String {
    let stopped = format!("stopped; not done: {}", account.left_out.join(", "));
    let page = Page {
        title: format!("{}: {}", account.study, account.source),
        facts: vec![
            counted_noun(account.seeds.len(), "seed"),
            counted_noun(account.draws, "draw"),
            counted_noun(account.experiments.len(), "experiment"),
        ],
        origin: origin(account),
        warnings: (!account.left_out.is_empty()).then_some(stopped).into_iter().collect(),
        parts: account.experiments.iter().map(part).collect(),
    };
    page.to_html()
}

/// What makes the page again: the command, the version, the machines.
fn origin(account: &Account) -> Vec<(String, String)> {
    let machines = account.machines().join(", ");
    let facts = [
        ("Command", account.command()),
        ("Version", format!("evenkeel {}", env!("CARGO_PKG_VERSION"))),
        ("Machines, simulated", machines),
    ];
    facts.map(|(label, words)| (label.to_owned(), words)).to_vec()
}

fn part(told: &Told) -> Part {
    let facts = [("Source", &told.says), ("Limit", &told.limit), ("How", &told.how)];
    Part {
        name: told.name.clone(),
        title: told.title.clone(),
        facts: facts.map(|(label, words)| (label.to_owned(), words.clone())).to_vec(),
        grids: told.found.tables.iter().map(grid).collect(),
        claims: told.found.claims.iter().map(judged).collect(),
        notes: told.found.why.clone(),
    }
}

fn grid(table: &Table) -> Grid {
    Grid {
        title: table.title.clone(),
        heads: table.columns.iter().map(|column| column.head.clone()).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.clone()).collect())
            .collect(),
        drawing: table.drawing,
    }
}

fn judged(claim: &Claim) -> Judged {
    Judged {
        claim: claim.claim.clone(),
        reading: claim.reading.word().to_owned(),
        found: claim.found.clone(),
        verdict: claim.verdict.words().to_owned(),
        mark: match claim.verdict {
            Verdict::Reproduces => ("✓", "better"),
            Verdict::DoesNotReproduce => ("✕", "worse"),
            Verdict::DependsOnTheProfile => ("~", "inconclusive"),
            Verdict::NotJudged => ("–", "none"),
        },
    }
}
