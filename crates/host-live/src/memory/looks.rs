//! Which processes' memory is looked at: that which stays where it is, ever more seldom and less closely.
//!
//! ```text
//!   looked at closely ── other than before? ─► again after 2 s, closely
//!          ▲                   │ no
//!          │                   ▼
//!          │     after 4, 8, 16 s … and at least every 30 s, to check
//!          │                   │
//!          └── yes ─── other than before? ── no ─► nothing is told: what the close look told still holds
//! ```
//!
//! A close look costs what a process has pages, whether anything of it changed or not, and most programs
//! have their memory where it is for as long as they run. So a check, which asks for some pages of a
//! large process, only has to tell whether a close look is worth while; of a small one both are the same.
//! After some checks follows a close look whatever they told: a memory policy that the process chose does not
//! show in them. Who is placed or whose memory moves is looked at anew. Other is what came or went by a
//! sixteenth of it all: sampled figures are no closer.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, Nanos, NodeId, TaskId};
use linux::numa_maps::NodePages;

use super::{Seen, Whose};

/// How soon memory that was another is looked at again, where the share of CPU time that looks may take
/// allows that.
pub(super) const LOOK_EVERY: Nanos = Nanos::from_secs(2);
/// However long it stays where it is.
const LOOK_EVERY_MAX: Nanos = Nanos::from_secs(30);
/// The part of a process's memory that makes it another.
const OTHER: u64 = 16;
/// So many checks between two close looks: some four minutes in the end.
const N_CHECKS_MAX: u32 = 8;

/// How closely a process is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// As exactly as the time of a look allows.
    Close,
    /// To see whether anything has changed.
    Check,
}

/// When each process is looked at next.
#[derive(Debug)]
pub(super) struct Looks {
    /// How soon what was another is looked at again.
    every: Nanos,
    rests: BTreeMap<TaskId, Rest>,
}

#[derive(Debug)]
struct Rest {
    job: JobId,
    /// What it had where when that was last another.
    had: Had,
    /// What a check told beside it, where the two ways of looking are not of one mind.
    checked: Option<Checked>,
    /// A check told something else than before.
    is_doubted: bool,
    n_checks: u32,
    /// It was the same in two looks.
    is_quiet: bool,
    every: Nanos,
    look_at: Nanos,
}

/// What a check told that did not agree with the close look before it.
#[derive(Debug)]
struct Checked {
    had: Had,
    /// The close look after it and the check after that told the same again.
    is_confirmed: bool,
}

/// What a process has, to be compared; bytes.
#[derive(Clone, Debug, Default)]
struct Had {
    /// Its own memory, and what it shares.
    nodes: BTreeMap<NodeId, [u64; 2]>,
    /// Pages of files, which samples do not tell.
    files: Option<BTreeMap<NodeId, u64>>,
    resident: u64,
}

impl Looks {
    /// Nobody reads what is looked at more than once in an interval.
    pub(super) fn new(interval: Nanos) -> Self {
        Looks { every: LOOK_EVERY.max(interval), rests: BTreeMap::new() }
    }

    /// Those whose turn it is, and how closely. Who is not among `whose` is forgotten.
    pub(super) fn due(&mut self, whose: Vec<Whose>, at: Nanos) -> Vec<(Whose, Look)> {
        let mut known = std::mem::take(&mut self.rests);
        let mut due = Vec::new();
        for (job, process) in whose {
            let rest = known.remove(&process).filter(|rest| rest.job == job);
            if rest.as_ref().is_none_or(|rest| rest.look_at <= at) {
                due.push(((job, process), rest.as_ref().map_or(Look::Close, Rest::look)));
            }
            self.rests.extend(rest.map(|rest| (process, rest)));
        }
        due
    }

    /// What a look found; tells whether it is worth telling: a check only tells whether to look closely.
    pub(super) fn found(
        &mut self,
        (job, process): Whose,
        how: Look,
        seen: &Seen,
        at: Nanos,
    ) -> bool {
        let has = Had::of(seen);
        let rest = self.rests.remove(&process).filter(|rest| rest.job == job);
        let is_check = how == Look::Check && seen.is_sampled;
        let rest = match (is_check, rest) {
            (true, Some(rest)) => rest.checked(has, at),
            // Its job was placed while it was looked at: what was found may not hold any more.
            (true, None) => return false,
            (false, Some(rest)) if !is_other(&rest.had, &has) => rest.same(&has, at),
            (false, _) => Rest::new((job, self.every), has, at),
        };
        self.rests.insert(process, rest);
        !is_check
    }

    /// A job was placed, or its memory moves: where that lies is soon another.
    pub(super) fn anew(&mut self, job: JobId) {
        self.rests.retain(|_, rest| rest.job != job);
    }
}

impl Rest {
    fn new((job, every): (JobId, Nanos), had: Had, at: Nanos) -> Self {
        Rest {
            job,
            had,
            checked: None,
            is_doubted: false,
            n_checks: 0,
            is_quiet: false,
            every,
            look_at: at + every,
        }
    }

    fn look(&self) -> Look {
        let is_check = self.is_quiet && !self.is_doubted && self.n_checks < N_CHECKS_MAX;
        if is_check { Look::Check } else { Look::Close }
    }

    /// A close look told the same as the one before.
    fn same(mut self, has: &Had, at: Nanos) -> Self {
        (self.n_checks, self.is_doubted) = (0, false);
        // How much there is every look knows: if that differed, the process was another meanwhile.
        self.checked.take_if(|checked| differs(&checked.had, has));
        match &self.checked {
            Some(Checked { is_confirmed: false, .. }) => Rest { look_at: at, ..self },
            _ => self.later(at),
        }
    }

    fn checked(mut self, has: Had, at: Nanos) -> Self {
        self.n_checks += 1;
        let as_before = |checked: &&mut Checked| !is_other(&checked.had, &has);
        if let Some(checked) = self.checked.as_mut().filter(as_before) {
            checked.is_confirmed = true;
            return self.later(at);
        }
        if !self.checked.as_ref().is_some_and(|checked| checked.is_confirmed)
            && !is_other(&self.had, &has)
        {
            self.checked = None;
            return self.later(at);
        }
        // Whether the process changed or the two ways of looking differ, the close look tells.
        let checked = Some(Checked { had: has, is_confirmed: false });
        Rest { checked, is_doubted: true, look_at: at, ..self }
    }

    fn later(self, at: Nanos) -> Self {
        let every = Nanos(self.every.0.saturating_mul(2)).min(LOOK_EVERY_MAX.max(self.every));
        Rest { is_quiet: true, every, look_at: at + every, ..self }
    }
}

impl Had {
    fn of(seen: &Seen) -> Self {
        let parts = |lies: &NodePages| [lies.small.saturating_add(lies.huge), lies.shared];
        let files = || seen.nodes.iter().map(|(&node, lies)| (node, lies.file)).collect();
        Had {
            nodes: seen.nodes.iter().map(|(&node, lies)| (node, parts(lies))).collect(),
            files: (!seen.is_sampled).then(files),
            resident: seen.resident,
        }
    }
}

/// Whether so much came to a node, or went from one, that it is another.
fn is_other(had: &Had, has: &Had) -> bool {
    let (mut came, mut went) = (0u64, 0u64);
    let mut compare = |had: u64, has: u64| {
        came = came.saturating_add(has.saturating_sub(had));
        went = went.saturating_add(had.saturating_sub(has));
    };
    for node in BTreeSet::from_iter(had.nodes.keys().chain(has.nodes.keys())) {
        let on = |all: &Had| all.nodes.get(node).copied().unwrap_or_default();
        on(had).into_iter().zip(on(has)).for_each(|(had, has)| compare(had, has));
    }
    if let (Some(had), Some(has)) = (&had.files, &has.files) {
        for node in BTreeSet::from_iter(had.keys().chain(has.keys())) {
            let on = |all: &BTreeMap<NodeId, u64>| all.get(node).copied().unwrap_or(0);
            compare(on(had), on(has));
        }
    }
    has.resident / OTHER < came.max(went) || differs(had, has)
}

/// Whether there is much more or less of it all.
fn differs(had: &Had, has: &Had) -> bool {
    has.resident / OTHER < had.resident.abs_diff(has.resident)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOSE: Whose = (JobId(1), TaskId { tid: 7, start_time_ticks: 70 });

    fn mib(node_0: u64, node_1: u64) -> Seen {
        let lies = |mib: u64| NodePages { small: mib << 20, ..NodePages::default() };
        Seen {
            nodes: [(NodeId(0), lies(node_0)), (NodeId(1), lies(node_1))].into(),
            permille: 1000,
            resident: (node_0 + node_1) << 20,
            is_sampled: false,
            has_own_policy: false,
        }
    }

    /// Looks every second at memory that `lies` tells; the seconds in which it was, with `~` if that was a
    /// check which found samples, of which nothing may be told.
    fn looks(n: u64, is_large: bool, lies: impl Fn(u64) -> Seen) -> String {
        looks_every(Nanos(1), n, is_large, lies)
    }

    fn looks_every(interval: Nanos, n: u64, is_large: bool, lies: impl Fn(u64) -> Seen) -> String {
        let mut looks = Looks::new(interval);
        let mut said = Vec::new();
        for second in 0..n {
            let at = Nanos::from_secs(second);
            for (whose, how) in looks.due(vec![WHOSE], at) {
                let is_sampled = is_large && how == Look::Check;
                let permille = if is_sampled { 50 } else { 1000 };
                let seen = Seen { is_sampled, permille, ..lies(second) };
                assert_eq!(looks.found(whose, how, &seen, at), !is_sampled);
                said.push(format!("{}{second}", if is_sampled { "~" } else { "" }));
            }
        }
        said.join(" ")
    }

    #[test]
    fn memory_that_stays_is_looked_at_ever_more_seldom_but_at_least_every_30_s() {
        assert_eq!(looks(130, false, |_| mib(64, 64)), "0 2 6 14 30 60 90 120");
    }

    #[test]
    fn large_memory_that_stays_is_only_checked_and_closely_looked_at_now_and_then() {
        let stays = looks(310, true, |_| mib(640, 640));
        assert_eq!(stays, "0 2 ~6 ~14 ~30 ~60 ~90 ~120 ~150 ~180 210 ~240 ~270 ~300");
    }

    #[test]
    fn what_a_check_finds_changed_is_looked_at_closely_and_soon_again() {
        let moves = |second| if second < 14 { mib(640, 0) } else { mib(320, 320) };
        assert_eq!(looks(50, true, moves), "0 2 ~6 ~14 15 17 ~21 ~29 ~45");
    }

    #[test]
    fn memory_of_files_that_grew_shows_in_a_check_as_well() {
        let lies = |second| {
            let mut seen = mib(640, 0);
            seen.resident += if second < 14 { 0 } else { 320 << 20 };
            seen.nodes.entry(NodeId(0)).or_default().file = seen.resident - (640 << 20);
            seen
        };
        assert_eq!(looks(40, true, lies), "0 2 ~6 ~14 15 17 ~21 ~29");
    }

    #[test]
    fn what_was_another_for_a_moment_does_not_hide_what_is_another_for_good() {
        // Once more memory was there, and once it lay elsewhere; each was gone again by the close look.
        let grows =
            |second| if second == 6 || 10 <= second { mib(1280, 640) } else { mib(640, 640) };
        assert_eq!(looks(40, true, grows), "0 2 ~6 7 ~15 16 18 ~22 ~30");
        let moves = |second| if second == 6 || 10 <= second { mib(0, 1280) } else { mib(640, 640) };
        assert_eq!(looks(40, true, moves), "0 2 ~6 7 ~8 ~16 17 19 ~23 ~31");
    }

    #[test]
    fn where_samples_and_the_whole_differ_always_checks_are_compared_with_checks() {
        let mut looks = Looks::new(Nanos(1));
        let sampled = |own| Seen { is_sampled: true, permille: 50, ..mib(own, 1280 - own) };
        let mut said = Vec::new();
        for second in 0..80 {
            let at = Nanos::from_secs(second);
            for (whose, how) in looks.due(vec![WHOSE], at) {
                let seen = match how {
                    Look::Close => mib(640, 640),
                    Look::Check => sampled(if second < 40 { 320 } else { 640 }),
                };
                looks.found(whose, how, &seen, at);
                said.push(format!("{}{second}", if how == Look::Check { "~" } else { "" }));
            }
        }
        assert_eq!(said.join(" "), "0 2 ~6 7 ~8 ~16 ~32 ~62 63 ~64");
    }

    #[test]
    fn nobody_is_looked_at_more_often_than_decisions_are_made() {
        let minute = Nanos::from_secs(60);
        assert_eq!(looks_every(minute, 250, false, |_| mib(64, 64)), "0 60 120 180 240");
        assert_eq!(looks_every(Nanos::from_secs(5), 80, false, |_| mib(64, 64)), "0 5 15 35 65");
    }

    #[test]
    fn memory_that_is_another_is_looked_at_soon_again() {
        let grown = |second| mib(64 + if second < 14 { 0 } else { 64 }, 64);
        assert_eq!(looks(25, false, grown), "0 2 6 14 16 20");
        let creeps = |second| mib(64 + second, 64);
        let seconds = looks(130, false, creeps);
        let seconds: Vec<u64> = seconds.split(' ').map(|it| it.parse().expect("second")).collect();
        assert!(seconds.windows(2).all(|two| two[1] - two[0] <= 16));
    }

    #[test]
    fn who_is_placed_is_looked_at_at_once_and_who_is_gone_is_forgotten() {
        let mut looks = Looks::new(Nanos(1));
        let at = Nanos::from_secs(10);
        let found = |looks: &mut Looks, how| looks.found(WHOSE, how, &mib(1, 0), at);
        assert!(found(&mut looks, Look::Close));
        assert!(looks.due(vec![WHOSE], at).is_empty());
        looks.anew(JobId(2));
        assert!(looks.due(vec![WHOSE], at).is_empty());
        looks.anew(JobId(1));
        let sampled = Seen { is_sampled: true, ..mib(1, 0) };
        assert!(!looks.found(WHOSE, Look::Check, &sampled, at), "it is of before");
        assert_eq!(looks.due(vec![WHOSE], at), [(WHOSE, Look::Close)]);
        assert!(found(&mut looks, Look::Close));
        assert!(looks.due(vec![], at).is_empty() && looks.rests.is_empty());
    }
}
