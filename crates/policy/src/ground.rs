//! What people should know about the ground that decisions stand on, said when it is so, and again
//! when it is otherwise.

use sched::{Plan, Reason, ReasonCode, Snapshot};
use topology::Level;

use crate::common;

/// What was said already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ground {
    said: Option<Facts>,
}

/// What the notes are about. When it changes they are said anew; the engine passes on those that it
/// has not passed on before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    can_place: bool,
    level: Level,
    one_memory: bool,
}

impl Ground {
    /// Says what there is to say of places and of memory; whether there was news.
    pub fn say(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) -> bool {
        let has_news = self.say_places(seen, plan);
        if has_news && common::can_place(seen) {
            say_memory(seen, plan);
        }
        has_news
    }

    /// The same of a policy that has nothing to do with where memory lies.
    pub fn say_places(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) -> bool {
        let level = seen.domains.level();
        let one_memory = common::n_nodes_with_memory(seen) < 2;
        let facts = Facts { can_place: common::can_place(seen), level, one_memory };
        if self.said == Some(facts) {
            return false;
        }
        let is_first = self.said.replace(facts).is_none();
        match common::nothing_to_place(seen) {
            Some(note) => plan.note(note),
            None if !is_first => {
                plan.note(Reason::new(ReasonCode::PlacesChanged).with("level", level.to_string()));
            }
            None => {}
        }
        true
    }
}

fn say_memory(seen: &Snapshot<'_>, plan: &mut Plan) {
    if common::n_nodes_with_memory(seen) < 2 {
        let level = seen.domains.level().to_string();
        plan.note(Reason::new(ReasonCode::MemoryGainsNothing).with("level", level));
        return;
    }
    if seen.numa_settings.numa_balancing {
        plan.note(Reason::new(ReasonCode::NumaBalancingOn));
    }
    if seen.numa_settings.interleaves {
        plan.note(Reason::new(ReasonCode::InterleavedByDefault));
    }
}
