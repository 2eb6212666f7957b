//! What happens to jobs, and which wish of a turn belongs to which deed.

use std::collections::BTreeMap;

use base::CpuSet;
use program::{Job, MemoryPolicy};
use sched::{
    Action, ActionKind, CompletedPageMove, Counters, DetachCause, JobExit, Plan, RejectCause,
    Rejection, Request, Target, UnmanagedCause,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord<'a> {
    /// To whom. A thread is only ever refused something.
    pub target: Target,
    /// What.
    pub what: What<'a>,
    /// The wish of this turn that the guard let through. In a replay it is what would have been
    /// done.
    pub wish: Option<&'a Request>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What<'a> {
    /// Its program ended.
    Ended(&'a JobExit),
    /// It is no longer ours to place.
    HandsOff(&'a UnmanagedCause),
    /// It ran already, and is watched from now on.
    Appeared(&'a Job),
    /// It is watched no longer; with what was counted of it meanwhile.
    Left(DetachCause, &'a Counters),
    /// It was started, bound to these CPUs.
    Started(Option<&'a CpuSet>),
    /// It could not be started.
    NotStarted(RejectCause, &'a str),
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
    PagesBegun(&'a Action),
    /// A move of its pages ended.
    PagesMoved(&'a CompletedPageMove),
    /// The kernel, or the host on its behalf, did not do it.
    Refused(&'a Action, RejectCause, &'a str),
    /// Only in a replay: nothing like the wish was done then. It was bound there, if at all.
    OnlyWished(Option<CpuSet>),
}

/// The wishes of a turn that came through, and whether something was done about each.
pub(crate) struct Wishes<'a>(BTreeMap<(Target, ActionKind), (&'a Request, bool)>);

impl<'a> Wishes<'a> {
    /// The guard refuses in the order of asking.
    pub fn new(plan: &'a Plan, refused: &[Rejection]) -> Self {
        let mut refused = refused.iter().map(|refusal| &refusal.request).peekable();
        let mut wishes = BTreeMap::new();
        for ask in &plan.requests {
            if refused.next_if(|other| is_same(other, ask)).is_none() {
                wishes.entry((ask.target, ask.action.kind())).or_insert((ask, false));
            }
        }
        Wishes(wishes)
    }

    /// The one of this kind, about which something was done now.
    pub fn of(&mut self, target: Target, kind: ActionKind) -> Option<&'a Request> {
        let (ask, is_met) = self.0.get_mut(&(target, kind))?;
        *is_met = true;
        Some(ask)
    }

    pub fn left_over(self) -> impl Iterator<Item = &'a Request> {
        self.0.into_values().filter(|(_, is_met)| !is_met).map(|(ask, _)| ask)
    }
}

/// Figures that are no numbers are equal to nothing, not to themselves either, so they are left out.
fn is_same(one: &Request, other: &Request) -> bool {
    (one.target, &one.action, one.reason.code) == (other.target, &other.action, other.reason.code)
}
