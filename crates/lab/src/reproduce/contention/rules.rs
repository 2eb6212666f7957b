//! What holds for all policies: where they place, and what the reading switches (spec 0.2, 0.4, A11).
//!
//! ```text
//!   machine          coarsest level with two members      one CPU: nothing is placed, nothing fails
//!   2 nodes          node
//!   1 node, 2 LLC    LLC domain
//!   1 node, 1 LLC    core
//! ```

use std::collections::BTreeSet;
use std::io;

use engine::{Sink, TurnRecord};
use sched::{Action, ReasonCode};
use topology::{Level, Machine};

use super::scene::{Part, Scene};
use super::tell::judged;
use crate::reproduce::{Claim, Found, Reading, ReproduceError, Rig, StudyCell, StudyFigure, Table};

/// Machines with what is the coarsest level with two members in them.
const MACHINES: [(&str, &str, Option<Level>); 4] = [
    ("two nodes of two caches", "nodes=2 llcs=2 cores=2", Some(Level::Node)),
    ("one node, two caches", "llcs=2 cores=4", Some(Level::Llc)),
    ("one node, one cache", "cores=8", Some(Level::Core)),
    ("one CPU", "cores=1", None),
];
/// Programs that run on each: some that miss and some that do not, short.
const PROGRAMS: [&str; 4] = ["470.lbm", "453.povray", "433.milc", "444.namd"];
const SECONDS: f64 = 5.0;
/// Those that are about caches, for whom `auto` is the LLC domain wherever there are two.
const ABOUT_CACHES: [&str; 6] = ["di", "dio", "di-migrate", "dino", "animal", "oracle"];

/// What a policy did in a run.
#[derive(Debug, Default)]
struct Heard {
    levels: BTreeSet<&'static str>,
    n_placed: usize,
    codes: BTreeSet<ReasonCode>,
    gave_up: bool,
}

impl Sink for Heard {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let of_loads = record.loads.map(|loads| loads.level);
        let level = record.load_basis.map(|footing| footing.level).or(of_loads);
        self.levels.extend(level.map(word));
        let is_placed = |ask: &&sched::Request| matches!(ask.action, Action::Place(_));
        self.n_placed += record.plan.requests.iter().filter(is_placed).count();
        self.codes.extend(record.plan.notes.iter().map(|note| note.code));
        self.gave_up |= record.plan.abort.is_some();
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

/// Every policy with `domains`; `linux` has none, and places nothing.
fn policies() -> Vec<&'static str> {
    let has = |info: &&policy::PolicyInfo| info.params.iter().any(|param| param.name == "domains");
    policy::registry().iter().filter(has).map(|info| info.name).collect()
}

pub(super) fn rules(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let policies = policies();
    let title = "the level that each policy places on, and what it placed";
    let heads: Vec<&str> =
        std::iter::once("policy").chain(MACHINES.iter().map(|(words, ..)| *words)).collect();
    let mut table = Table::new(title, &heads).units(&["count"]);
    let mut cells: Vec<Vec<StudyCell>> =
        policies.iter().map(|policy| vec![(*policy).into()]).collect();
    for (words, text, coarsest) in MACHINES {
        let did = on_machine(rig, words, text, &policies)?;
        cells.iter_mut().zip(&did).for_each(|(cells, did)| cells.push(did.cell()));
        found.claims.push(places_rightly(words, coarsest, &did, !rig.seeds().is_empty()));
        if coarsest.is_none() {
            found.claims.push(says_so(words, &did));
        }
    }
    cells.into_iter().for_each(|cells| table.row(cells));
    found.tables.push(table);
    found.claims.push(reading_alone());
    found.why.push(
        "policies that are about caches take LLC domains wherever there are two, also on several nodes: with \
         domains=node two caches of one node would count as one, which is what they are to keep apart"
            .to_owned(),
    );
    Ok(found)
}

/// What a policy did on a machine, in all runs.
struct Did {
    policy: &'static str,
    levels: Vec<&'static str>,
    n_placed: usize,
    gave_up: bool,
    /// Whether it said in every run that there was nothing to place.
    says_nothing_to_place: bool,
}

impl Did {
    fn of(policy: &'static str, heard: &[Heard]) -> Self {
        let levels: BTreeSet<&str> = heard.iter().flat_map(|one| &one.levels).copied().collect();
        let says = |one: &Heard| one.codes.contains(&ReasonCode::NothingToPlace);
        Did {
            policy,
            levels: levels.into_iter().collect(),
            n_placed: heard.iter().map(|one| one.n_placed).sum(),
            gave_up: heard.iter().any(|one| one.gave_up),
            says_nothing_to_place: heard.iter().all(says),
        }
    }

    fn is_right(&self, coarsest: Option<Level>) -> bool {
        let is_there = match coarsest {
            Some(level) => self.levels == [word(level)] && self.n_placed != 0,
            None => self.n_placed == 0,
        };
        is_there && !self.gave_up
    }

    /// It is about caches and took them.
    fn is_by_choice(&self) -> bool {
        ABOUT_CACHES.contains(&self.policy) && self.levels == ["llc"] && !self.gave_up
    }

    /// The levels, and how often something was placed.
    fn cell(&self) -> StudyCell {
        let n_placed = StudyFigure::of(self.n_placed as f64, "count");
        StudyCell::new(format!("{}, {}", self.levels.join("+"), self.n_placed), vec![n_placed])
    }
}

/// All policies on a machine that is made up.
fn on_machine(
    rig: &Rig<'_>,
    words: &str,
    text: &str,
    policies: &[&'static str],
) -> Result<Vec<Did>, ReproduceError> {
    let machine = Machine::synthetic(text).expect("a machine made up here is sound");
    let mut scene = Scene::on(words, machine, SECONDS);
    let part = |program: &&str| Part { program: (*program).to_owned(), ..Part::default() };
    scene.add("four", &PROGRAMS.iter().map(part).collect::<Vec<Part>>())?;
    let did = |policy: &&'static str| {
        let of = (&scene.world, *policy, &["four"][..]);
        Ok(Did::of(policy, &rig.listen_all(of, |_| Heard::default(), false)?))
    };
    policies.iter().map(did).collect()
}

fn places_rightly(words: &str, coarsest: Option<Level>, did: &[Did], has_run: bool) -> Claim {
    let off = || did.iter().filter(|did| !did.is_right(coarsest));
    let wrong: Vec<&str> = off().filter(|did| !did.is_by_choice()).map(|did| did.policy).collect();
    let by_choice: Vec<&str> =
        off().filter(|did| did.is_by_choice()).map(|did| did.policy).collect();
    let claim = match coarsest {
        Some(level) => format!(
            "{words}: every policy places on the coarsest level with two members, {}",
            word(level)
        ),
        None => format!("{words}: nobody places anything, and nobody gives up"),
    };
    let chosen = match by_choice.is_empty() {
        true => String::new(),
        false => format!("; on LLC domains by choice: {}", by_choice.join(", ")),
    };
    let found = format!("otherwise: {}{chosen}", names(&wrong));
    let holds = has_run.then_some(wrong.is_empty() && by_choice.is_empty());
    judged(&claim, Reading::Either, found, holds)
}

fn says_so(words: &str, did: &[Did]) -> Claim {
    let silent: Vec<&str> =
        did.iter().filter(|did| !did.says_nothing_to_place).map(|did| did.policy).collect();
    judged(
        &format!("{words}: every policy says that there is nothing to place"),
        Reading::Either,
        format!("silent: {}", names(&silent)),
        Some(silent.is_empty()),
    )
}

fn names(all: &[&str]) -> String {
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// No policy has a default that differs between readings without the key for it.
fn reading_alone() -> Claim {
    let differs =
        |info: &&policy::PolicyInfo| info.params.iter().any(|param| param.default_paper.is_some());
    let has_key =
        |info: &&policy::PolicyInfo| info.params.iter().any(|param| param.name == "reading");
    let registry = policy::registry();
    let without: Vec<&str> = registry
        .iter()
        .filter(|info| differs(info) && !has_key(info))
        .map(|info| info.name)
        .collect();
    let n_differ = registry.iter().filter(differs).count();
    let n_keys: usize = registry
        .iter()
        .flat_map(|info| info.params)
        .filter(|param| param.default_paper.is_some())
        .count();
    judged(
        "reading is the only switch between printed and mended rules",
        Reading::Either,
        format!(
            "{n_differ} policies with {n_keys} keys that it implies; without the key: {}",
            without.len()
        ),
        Some(without.is_empty()),
    )
}
