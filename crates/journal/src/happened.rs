//! What happens to jobs, and which wish of a turn belongs to which deed.

use std::collections::BTreeMap;

use base::CpuSet;
use program::{Job, MemoryPolicy};
use sched::{
    Action, Ask, Counters, Deed, End, HandsOff, Leaving, MoveEnded, Plan, Refusal, Target, Why,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Happened<'a> {
    /// To whom. A thread is only ever refused something.
    pub target: Target,
    /// What.
    pub what: What<'a>,
    /// The wish of this turn that the guard let through. In a replay it is what would have been
    /// done.
    pub wish: Option<&'a Ask>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What<'a> {
    /// Its program ended.
    Ended(&'a End),
    /// It is no longer ours to place.
    HandsOff(&'a HandsOff),
    /// It ran already, and is watched from now on.
    Appeared(&'a Job),
    /// It is watched no longer; with what was counted of it meanwhile.
    Left(Leaving, &'a Counters),
    /// It was started, bound to these CPUs.
    Started(Option<&'a CpuSet>),
    /// It could not be started.
    NotStarted(Why, &'a str),
    /// It was bound to other CPUs while it ran.
    Moved {
        /// Where it was bound before.
        from: Option<CpuSet>,
        /// Where it is bound now.
        to: &'a CpuSet,
        /// How many tasks that took.
        n_tasks: u32,
    },
    /// All of its tasks were bound there already.
    Kept(&'a CpuSet),
    /// Its memory comes from there.
    Memory(&'a MemoryPolicy),
    /// It got back what it had.
    Released {
        /// Where it was bound.
        from: Option<CpuSet>,
        /// How many tasks that took.
        n_tasks: u32,
    },
    /// A move of its pages was begun.
    PagesBegun(&'a Deed),
    /// A move of its pages ended.
    PagesMoved(&'a MoveEnded),
    /// The kernel, or the host on its behalf, did not do it.
    Refused(&'a Deed, Why, &'a str),
    /// Only in a replay: nothing like the wish was done then. It was bound there, if at all.
    OnlyWished(Option<CpuSet>),
}

/// What of a target something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Cpus,
    Memory,
    Pages,
}

/// The wishes of a turn that came through, and whether something was done about each.
pub(crate) struct Wishes<'a>(BTreeMap<(Target, Kind), (&'a Ask, bool)>);

impl<'a> Wishes<'a> {
    /// The guard refuses in the order of asking.
    pub fn new(plan: &'a Plan, refused: &[Refusal]) -> Self {
        let mut refused = refused.iter().map(|refusal| &refusal.ask).peekable();
        let mut wishes = BTreeMap::new();
        for ask in &plan.asks {
            if refused.next_if(|other| is_same(other, ask)).is_none() {
                wishes.entry((ask.target, kind(&ask.action))).or_insert((ask, false));
            }
        }
        Wishes(wishes)
    }

    /// The one of this kind, about which something was done now.
    pub fn of(&mut self, target: Target, kind: Kind) -> Option<&'a Ask> {
        let (ask, is_met) = self.0.get_mut(&(target, kind))?;
        *is_met = true;
        Some(ask)
    }

    pub fn left_over(self) -> impl Iterator<Item = &'a Ask> {
        self.0.into_values().filter(|(_, is_met)| !is_met).map(|(ask, _)| ask)
    }
}

fn kind(action: &Action) -> Kind {
    match action {
        Action::Place(_) | Action::Release => Kind::Cpus,
        Action::MemoryPolicy(_) => Kind::Memory,
        Action::MovePages { .. } => Kind::Pages,
    }
}

/// Figures that are no numbers are equal to nothing, not to themselves either, so they are left out.
fn is_same(one: &Ask, other: &Ask) -> bool {
    (one.target, &one.action, one.reason.code) == (other.target, &other.action, other.reason.code)
}
