//! A study for programs.

use report::study::{FORMAT, StudyAccount, StudyClaim, StudyExperiment, StudyTable};

use super::{Account, Claim, Table, Told};

impl Account {
    /// Every text and every figure, as `--json` prints them.
    pub fn told(&self) -> StudyAccount {
        StudyAccount {
            format: FORMAT,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            study: self.study.clone(),
            source: self.source.clone(),
            only: self.only.clone(),
            seeds: self.seeds.clone(),
            draws: self.draws,
            machines: self.machines(),
            experiments: self.experiments.iter().map(experiment).collect(),
            left_out: self.left_out.clone(),
        }
    }
}

fn experiment(told: &Told) -> StudyExperiment {
    StudyExperiment {
        name: told.name.clone(),
        title: told.title.clone(),
        says: told.says.clone(),
        limit: told.limit.clone(),
        how: told.how.clone(),
        machines: told.machines.clone(),
        tables: told.found.tables.iter().map(table).collect(),
        claims: told.found.claims.iter().map(claim).collect(),
        notes: told.found.why.clone(),
    }
}

fn table(table: &Table) -> StudyTable {
    StudyTable {
        title: table.title.clone(),
        columns: table.columns.clone(),
        rows: table.rows.clone(),
    }
}

fn claim(claim: &Claim) -> StudyClaim {
    StudyClaim {
        claim: claim.claim.clone(),
        reading: claim.reading.told(),
        found: claim.found.clone(),
        figures: claim.figures.clone(),
        verdict: claim.verdict.told(),
    }
}
