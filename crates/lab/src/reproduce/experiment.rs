//! Studies, their experiments, and the evaluation of an experiment.

use std::path::Path;
use std::sync::LazyLock;

use base::toml_reader::{SourceText, deserialize};
use report::study::{ChartKind, FORMAT, StudyCell, StudyExperiment, StudyResult, StudyTable};

use super::definition::{
    Bindings, ClaimFile, ExperimentFile, StudyFile, TableFile, combinations, filled, merged, names,
};
use super::evaluate::{Evaluator, reading};
use super::finding::{drawn, seeds_note};
use super::measure_values::summary;
use super::{
    Code, Finding, FindingTable, ReproduceError, RunPool, contention, dfs, divided,
    execution_models, ib,
};
use crate::shipped::ProfileSet;
use crate::stats::pairs_needed;

/// A publication with the experiments that reproduce it.
#[derive(Debug)]
pub struct Study {
    file: StudyFile,
    experiments: Vec<Experiment>,
}

/// One result or question of a publication.
#[derive(Debug)]
pub struct Experiment {
    file: ExperimentFile,
    code: Option<Code>,
}

/// All studies, in the order of their names on the command line.
pub static STUDIES: LazyLock<Vec<Study>> = LazyLock::new(|| {
    vec![
        Study::read(include_str!("../../../../workloads/papers/dfs/experiments.toml"), dfs::CODE),
        Study::read(
            include_str!("../../../../workloads/papers/divided/experiments.toml"),
            divided::CODE,
        ),
        Study::read(
            include_str!("../../../../workloads/papers/contention/experiments.toml"),
            contention::CODE,
        ),
        Study::read(include_str!("../../../../workloads/papers/ib/experiments.toml"), ib::CODE),
        Study::read(
            include_str!("../../../../workloads/papers/execution-models/experiments.toml"),
            execution_models::CODE,
        ),
    ]
});

/// Results of a study.
#[derive(Clone, Debug)]
pub struct StudyRun {
    /// All texts and values that `--json` prints.
    pub result: StudyResult,
    /// The charts of the tables, by experiment.
    pub charts: Vec<Vec<ChartKind>>,
}

impl Study {
    fn read(text: &str, code: &[Code]) -> Self {
        let source = SourceText::new(text, Path::new("experiments.toml"));
        let mut file: StudyFile =
            deserialize(&source).unwrap_or_else(|error| panic!("a shipped experiment: {error}"));
        let with_code = |file: ExperimentFile| {
            let code = code.iter().find(|(name, _)| *name == file.name).copied();
            assert_eq!(code.is_some(), file.code.is_some(), "{}: code", file.name);
            Experiment { file, code }
        };
        let experiments = file.experiment.drain(..).map(with_code).collect();
        Study { file, experiments }
    }

    /// Returns the study with this name.
    pub fn find(name: &str) -> Option<&'static Study> {
        STUDIES.iter().find(|study| study.name() == name)
    }

    /// Returns the name of the study on the command line.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the publication: authors, title, venue, year.
    pub fn source(&self) -> &str {
        &self.file.source
    }

    /// Returns the experiments of the study, in the order of the output.
    pub fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }

    /// Runs these experiments and calls `before` for each. When the pool is stopped, the result contains the finished
    /// experiments and the names of the other experiments.
    ///
    /// # Errors
    /// The first error of an experiment.
    pub fn run(
        &self,
        selected: &[&Experiment],
        pool: &RunPool<'_>,
        mut before: impl FnMut(&Experiment),
    ) -> Result<StudyRun, ReproduceError> {
        let (mut experiments, mut charts, mut not_run) = (Vec::new(), Vec::new(), Vec::new());
        for (idx, experiment) in selected.iter().enumerate() {
            before(experiment);
            match experiment.run(pool) {
                Ok(finding) => {
                    charts.push(finding.tables.iter().map(|table| table.chart).collect());
                    experiments.push(experiment.result(finding));
                }
                Err(ReproduceError::Stopped) => {
                    not_run.extend(selected[idx..].iter().map(|one| one.name().to_owned()));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let only = match selected.len() == self.experiments.len() {
            true => Vec::new(),
            false => selected.iter().map(|one| one.name().to_owned()).collect(),
        };
        let result = StudyResult {
            format: FORMAT,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(&only, pool),
            study: self.name().to_owned(),
            source: self.source().to_owned(),
            selected: only,
            seeds: pool.seeds().to_vec(),
            n_seeds_needed: pairs_needed(1) as u64,
            n_draws: pool.n_draws(),
            machines: machines(&experiments),
            experiments,
            not_run,
        };
        Ok(StudyRun { result, charts })
    }

    /// Returns the command that prints the same output.
    fn command(&self, only: &[String], pool: &RunPool<'_>) -> String {
        let only = match only {
            [] => String::new(),
            only => format!(" --only {}", only.join(",")),
        };
        let seeds = match pool.seeds() {
            seeds if seeds.iter().copied().eq(1..=seeds.len() as u64) => seeds.len().to_string(),
            // A single number would be parsed as a count.
            [only] => format!("{only}-{only}"),
            seeds => seeds.iter().map(u64::to_string).collect::<Vec<String>>().join(","),
        };
        format!(
            "evenkeel reproduce {}{only} --seeds {seeds} --draws {}",
            self.name(),
            pool.n_draws()
        )
    }
}

impl Experiment {
    /// Returns the name of the experiment on the command line.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the subject of the experiment.
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// Returns the machines that the experiment simulates, before variations.
    pub fn machines(&self) -> &[String] {
        &self.file.machines
    }

    /// Returns the sets of profiles with which the experiment runs.
    #[cfg(test)]
    pub(super) fn profiles(&self) -> &[ProfileSet] {
        &self.file.profiles
    }

    /// Returns the texts of the experiment together with its finding.
    pub(super) fn result(&self, finding: Finding) -> StudyExperiment {
        let file = &self.file;
        StudyExperiment {
            name: file.name.clone(),
            title: file.title.clone(),
            source: file.published.clone(),
            limit: file.limit.clone(),
            method: file.method.clone(),
            machines: file.machines.clone(),
            tables: finding.tables.into_iter().map(|table| table.data).collect::<Vec<StudyTable>>(),
            claims: finding.claims,
            notes: finding.notes,
        }
    }

    fn run(&self, pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
        let mut finding = Finding::default();
        for set in &self.file.profiles {
            pool.use_profiles(*set);
            let own = self.run_with_profiles(pool);
            pool.use_profiles(ProfileSet::Table);
            finding.extend(match self.file.profiles.len() {
                1 => own?,
                _ => own?.of_profiles(*set),
            });
        }
        finding.notes.extend(seeds_note(pool.seeds().len()));
        Ok(finding)
    }

    fn run_with_profiles(&self, pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
        let mut finding = match self.code {
            Some((_, code)) => code(pool)?,
            None => Finding::default(),
        };
        let evaluator = Evaluator::new(pool, &self.file, None);
        finding.extend(evaluator.evaluate(|evaluator| self.plain_part(evaluator))?);
        finding.extend(self.drawn_part(pool)?);
        finding.notes.extend(evaluator.failures()?);
        Ok(finding)
    }

    fn plain_part(&self, evaluator: &Evaluator<'_>) -> Result<Finding, ReproduceError> {
        let mut finding = Finding::default();
        for (file, bindings) in self.tables(false) {
            let cell = |bindings: &Bindings, unit: &str| {
                let value = bindings.get("show").map_or("gain", String::as_str);
                evaluator.cell(bindings, value, unit)
            };
            finding.tables.push(table(file, &bindings, cell)?);
        }
        for (file, bindings) in self.claims(false) {
            finding.claims.push(evaluator.claim(file, &bindings)?);
        }
        for note in &self.file.notes {
            finding.notes.push(evaluator.filled(note, &self.file.bindings)?);
        }
        Ok(finding)
    }

    /// Returns the tables and claims over all draws: every draw contributes one number to a cell and one answer to a
    /// claim.
    fn drawn_part(&self, pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
        let (tables, claims) = (self.tables(true), self.claims(true));
        if tables.is_empty() && claims.is_empty() {
            return Ok(Finding::default());
        }
        let draws = pool.each_draw(|draw, pool| {
            Evaluator::new(pool, &self.file, Some(draw)).evaluate(|evaluator| {
                let mut values = Vec::new();
                for (file, bindings) in &tables {
                    let cell = |bindings: &Bindings, _: &str| {
                        values.push(evaluator.number(bindings, "gain")?);
                        Ok(StudyCell::from(""))
                    };
                    table(file, bindings, cell)?;
                }
                let holds = claims.iter().map(|(file, bindings)| evaluator.holds(file, bindings));
                Ok((values, holds.collect::<Result<Vec<Option<bool>>, _>>()?))
            })
        })?;
        let mut finding = Finding::default();
        let mut idx = 0;
        for (file, bindings) in &tables {
            let cell = |bindings: &Bindings, _: &str| {
                let known: Vec<f64> = draws.iter().filter_map(|(values, _)| values[idx]).collect();
                idx += 1;
                Ok(StudyCell::from(summary(&known, bindings.get("show").map_or("", |show| show))))
            };
            finding.tables.push(table(file, bindings, cell)?);
        }
        for (idx, (file, bindings)) in claims.iter().enumerate() {
            let known: Vec<bool> = draws.iter().filter_map(|(_, holds)| holds[idx]).collect();
            let n_true = known.iter().filter(|holds| **holds).count();
            let text = filled(&file.claim, bindings);
            let mut claim = drawn(&text, reading(bindings), n_true, known.len());
            if known.len() < draws.len() && !file.judged_if.is_empty() {
                let n = draws.len() - known.len();
                claim.result +=
                    &format!("; {n} draws are not judged: the ceiling is too low, or a run failed");
            }
            finding.claims.push(claim);
        }
        Ok(finding)
    }

    fn tables(&self, is_drawn: bool) -> Vec<(&TableFile, Bindings)> {
        let files = self.file.table.iter().filter(|file| file.draws == is_drawn);
        let all = files.flat_map(|file| {
            let base = merged(&self.file.bindings, &file.bindings);
            combinations(&base, &file.loops).into_iter().map(move |bindings| (file, bindings))
        });
        all.collect()
    }

    pub(super) fn claims(&self, is_drawn: bool) -> Vec<(&ClaimFile, Bindings)> {
        let mut all = Vec::new();
        for verdicts in self.file.verdicts.iter().filter(|file| file.draws == is_drawn) {
            let base = merged(&self.file.bindings, &verdicts.bindings);
            for bindings in combinations(&base, &verdicts.loops) {
                let claims = verdicts.claim.iter();
                all.extend(claims.map(|claim| (claim, merged(&bindings, &claim.bindings))));
            }
        }
        all
    }
}

/// Returns the machines of all experiments, each once.
fn machines(experiments: &[StudyExperiment]) -> Vec<String> {
    let mut machines: Vec<String> = Vec::new();
    for machine in experiments.iter().flat_map(|one| &one.machines) {
        if !machines.contains(machine) {
            machines.push(machine.clone());
        }
    }
    machines
}

/// Returns a table with its labels; `cell` returns the other cells, by row, then column.
fn table(
    file: &TableFile,
    bindings: &Bindings,
    mut cell: impl FnMut(&Bindings, &str) -> Result<StudyCell, ReproduceError>,
) -> Result<FindingTable, ReproduceError> {
    let labels = file.head.split('|').map(str::to_owned);
    let own_heads =
        file.columns.iter().map(|column| filled(&column["head"], &merged(bindings, column)));
    let heads: Vec<String> = labels.chain(own_heads).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = FindingTable::new(&filled(&file.title, bindings), &heads);
    table.chart = match &*file.drawing {
        "intervals" => ChartKind::Intervals,
        "lines" => ChartKind::Lines,
        "bars" => ChartKind::Bars,
        _ => ChartKind::None,
    };
    let n_labels = heads.len() - file.columns.len();
    for (own, column) in table.data.columns[n_labels..].iter_mut().zip(&file.columns) {
        own.unit.clone_from(column.get("unit").unwrap_or(&file.unit));
        own.is_published = column.contains_key("published");
    }
    for row in rows(file, bindings) {
        let label = filled(row.get("label").map_or("{workloads}", |label| label), &row);
        let mut cells: Vec<StudyCell> = label.split('|').map(StudyCell::from).collect();
        for column in &file.columns {
            let bindings = merged(&row, column);
            let unit = column.get("unit").unwrap_or(&file.unit);
            cells.push(match bindings.get("text") {
                Some(text) => filled(text, &bindings).into(),
                None => cell(&bindings, unit)?,
            });
        }
        table.row(cells);
    }
    Ok(table)
}

/// Returns the bindings of every row; `each = "workload"` gives a row for every workload.
fn rows(file: &TableFile, bindings: &Bindings) -> Vec<Bindings> {
    if !file.rows_for.is_empty() {
        return combinations(bindings, &file.rows_for);
    }
    let mut all = Vec::new();
    for row in &file.rows {
        let row = merged(bindings, row);
        if !row.contains_key("each") {
            all.push(row);
            continue;
        }
        let workloads = names(&filled("{workloads}", &row)).into_iter();
        let one = |name| merged(&row, &Bindings::from([("workloads".to_owned(), name)]));
        all.extend(workloads.map(one));
    }
    all
}
