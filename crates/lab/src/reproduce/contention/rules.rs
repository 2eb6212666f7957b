//! Rules for all policies: the level of placement, and the effect of the reading.
//!
//! ```text
//!   machine          coarsest level with two members      one CPU: no placement, no failure
//!   2 nodes          node
//!   1 node, 2 LLC    LLC domain
//!   1 node, 1 LLC    core
//! ```

use std::collections::BTreeSet;
use std::io;

use engine::{Sink, TurnRecord};
use report::study::{RuleReading, StudyCell, StudyClaim, StudyValue};
use sched::{Action, ReasonCode};
use topology::{Level, Machine};

use super::super::finding::judged;
use super::super::testbed::Part;
use super::super::{Finding, ReproduceError, RunPool, Table, Testbed};

/// Machines with their coarsest level with two members.
const MACHINES: [(&str, &str, Option<Level>); 4] = [
    ("two nodes of two caches", "nodes=2 llcs=2 cores=2", Some(Level::Node)),
    ("one node, two caches", "llcs=2 cores=4", Some(Level::Llc)),
    ("one node, one cache", "cores=8", Some(Level::Core)),
    ("one CPU", "cores=1", None),
];
/// Short programs, with many misses and with few.
const PROGRAMS: [&str; 4] = ["470.lbm", "453.povray", "433.milc", "444.namd"];
const SECONDS: f64 = 5.0;
/// Policies for caches: `domains=auto` selects LLC domains if there are two.
const FOR_CACHES: [&str; 6] = ["di", "dio", "di-migrate", "dino", "animal", "oracle"];

/// Levels, placements and notes of a run.
#[derive(Debug, Default)]
struct Observed {
    levels: BTreeSet<&'static str>,
    n_placed: usize,
    codes: BTreeSet<ReasonCode>,
    was_aborted: bool,
}

impl Sink for Observed {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let of_loads = record.loads.map(|loads| loads.level);
        let level = record.load_basis.map(|basis| basis.level).or(of_loads);
        self.levels.extend(level.map(word));
        let is_placement = |request: &&sched::Request| matches!(request.action, Action::Place(_));
        self.n_placed += record.plan.requests.iter().filter(is_placement).count();
        self.codes.extend(record.plan.notes.iter().map(|note| note.code.clone()));
        self.was_aborted |= record.plan.abort.is_some();
        Ok(())
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Node => "node",
        Level::Llc => "llc",
        Level::Core => "core",
    }
}

/// Every policy with a parameter `domains`. `linux` has none, and places no task.
fn policies() -> Vec<&'static str> {
    let has = |info: &&&policy::PolicyInfo| info.params.iter().any(|param| param.name == "domains");
    policy::registry().iter().filter(has).map(|info| info.name).collect()
}

pub(super) fn rules(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    let policies = policies();
    let title = "level of placement of each policy, and number of placements";
    let heads: Vec<&str> =
        std::iter::once("policy").chain(MACHINES.iter().map(|(words, ..)| *words)).collect();
    let mut table = Table::new(title, &heads).units(&["count"]);
    let mut rows: Vec<Vec<StudyCell>> =
        policies.iter().map(|policy| vec![(*policy).into()]).collect();
    for (words, text, coarsest) in MACHINES {
        let behaviours = on_machine(pool, words, text, &policies)?;
        rows.iter_mut().zip(&behaviours).for_each(|(row, behaviour)| row.push(behaviour.cell()));
        let has_run = !pool.seeds().is_empty();
        finding.claims.push(level_claim(words, coarsest, &behaviours, has_run));
        if coarsest.is_none() {
            finding.claims.push(note_claim(words, &behaviours));
        }
    }
    rows.into_iter().for_each(|row| table.row(row));
    finding.tables.push(table);
    finding.claims.push(reading_claim());
    finding.notes.push(
        "policies for caches select LLC domains if there are two, also on several nodes: with domains=node two caches \
         of one node would count as one, and these policies separate programs between them"
            .to_owned(),
    );
    Ok(finding)
}

/// A policy on a machine, over all runs.
struct Behaviour {
    policy: &'static str,
    levels: Vec<&'static str>,
    n_placed: usize,
    was_aborted: bool,
    /// Whether every run has the note that there is nothing to place.
    notes_nothing_to_place: bool,
}

impl Behaviour {
    fn of(policy: &'static str, runs: &[Observed]) -> Self {
        let levels: BTreeSet<&str> = runs.iter().flat_map(|run| &run.levels).copied().collect();
        let has_note =
            |run: &Observed| run.codes.iter().any(|code| code.name() == "nothing-to-place");
        Behaviour {
            policy,
            levels: levels.into_iter().collect(),
            n_placed: runs.iter().map(|run| run.n_placed).sum(),
            was_aborted: runs.iter().any(|run| run.was_aborted),
            notes_nothing_to_place: runs.iter().all(has_note),
        }
    }

    fn is_as_expected(&self, coarsest: Option<Level>) -> bool {
        let has_level = match coarsest {
            Some(level) => self.levels == [word(level)] && self.n_placed != 0,
            None => self.n_placed == 0,
        };
        has_level && !self.was_aborted
    }

    /// A policy for caches that selected LLC domains.
    fn is_for_caches(&self) -> bool {
        FOR_CACHES.contains(&self.policy) && self.levels == ["llc"] && !self.was_aborted
    }

    /// The levels, and the number of placements.
    fn cell(&self) -> StudyCell {
        let n_placed = StudyValue::of(self.n_placed as f64, "count");
        StudyCell::new(format!("{}, {}", self.levels.join("+"), self.n_placed), vec![n_placed])
    }
}

/// All policies on a synthetic machine.
fn on_machine(
    pool: &RunPool<'_>,
    words: &str,
    text: &str,
    policies: &[&'static str],
) -> Result<Vec<Behaviour>, ReproduceError> {
    let machine = Machine::synthetic(text).expect("a valid synthetic machine");
    let mut testbed = Testbed::synthetic(words, machine, SECONDS);
    testbed.add("four", &PROGRAMS.map(Part::new))?;
    let behaviour = |policy: &&'static str| {
        let runs =
            pool.observe_all((&testbed, policy, &["four"]), |_| Observed::default(), false)?;
        Ok(Behaviour::of(policy, &runs))
    };
    policies.iter().map(behaviour).collect()
}

fn level_claim(
    words: &str,
    coarsest: Option<Level>,
    behaviours: &[Behaviour],
    has_run: bool,
) -> StudyClaim {
    let others = || behaviours.iter().filter(|one| !one.is_as_expected(coarsest));
    let wrong: Vec<&str> =
        others().filter(|one| !one.is_for_caches()).map(|one| one.policy).collect();
    let for_caches: Vec<&str> =
        others().filter(|one| one.is_for_caches()).map(|one| one.policy).collect();
    let claim = match coarsest {
        Some(level) => format!(
            "{words}: every policy places on the coarsest level with two members, {}",
            word(level)
        ),
        None => format!("{words}: no policy places a task, and none aborts"),
    };
    let chosen = match for_caches.is_empty() {
        true => String::new(),
        false => format!("; on LLC domains by design: {}", for_caches.join(", ")),
    };
    let found = format!("otherwise: {}{chosen}", names(&wrong));
    let holds = has_run.then_some(wrong.is_empty() && for_caches.is_empty());
    judged(&claim, RuleReading::Either, found, holds)
}

fn note_claim(words: &str, behaviours: &[Behaviour]) -> StudyClaim {
    let without = behaviours.iter().filter(|one| !one.notes_nothing_to_place);
    let without: Vec<&str> = without.map(|one| one.policy).collect();
    judged(
        &format!("{words}: every policy notes that there is nothing to place"),
        RuleReading::Either,
        format!("without a note: {}", names(&without)),
        Some(without.is_empty()),
    )
}

fn names(all: &[&str]) -> String {
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// No policy has a default that differs between readings without the parameter `reading`.
fn reading_claim() -> StudyClaim {
    let n_differing = |info: &policy::PolicyInfo| {
        info.params.iter().filter(|param| param.default_paper.is_some()).count()
    };
    let has_reading =
        |info: &policy::PolicyInfo| info.params.iter().any(|param| param.name == "reading");
    let registry = policy::registry();
    let differing = || registry.iter().filter(|info| n_differing(info) != 0);
    let n_without = differing().filter(|info| !has_reading(info)).count();
    let n_params: usize = differing().map(|info| n_differing(info)).sum();
    judged(
        "reading is the only parameter that switches between printed and corrected rules",
        RuleReading::Either,
        format!(
            "{} policies with {n_params} parameters that it implies; without it: {n_without}",
            differing().count()
        ),
        Some(n_without == 0),
    )
}
