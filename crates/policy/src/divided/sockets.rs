//! The sockets of each group.
//!
//! ```text
//!   n1, n2, n3 threads of each group, K sockets
//!   n1 > 0, n2 > 0      A = the first sockets that hold n1, at least one and never all; B = the others
//!                         1 ─► A     2 ─► B     3 ─► B, then A               (cases 1 and 3)
//!                         2 without a free slot ─► A, beside the 1 with the fewest full queues
//!                         1 without a free slot ─► the socket of B with the fewest 2
//!   n1 > 0, n2 = 0      1 evenly over all, 3 on free slots                   (case 2)
//!   n1 = 0              all evenly over all
//! ```
//!
//! Isolation requires enough contention: with `guard` and a threshold, cases 1 and 3 require that the full queues of
//! Group 1, spread over all sockets, exceed `guard × th_sq` on each. Otherwise Group 1 is spread evenly, Group 2 goes
//! to the sockets with the fewest of Group 1, and Group 3 fills the free slots.
//!
//! With `keep` a job stays on a socket that fits its group; spreading then migrates only as many jobs as needed. Jobs
//! without a group stay where they are.

use base::CpuSet;
use sched::Snapshot;

use super::declaration::Config;
use super::groups::{Group, GroupedJob};
use crate::slots::{DomainSlots, PlacementJobs};

/// The socket of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub domain: usize,
    pub role: Role,
}

/// Role of a job on its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// On the sockets of its group.
    Side,
    /// Spread evenly with its group.
    Even,
    /// On free slots.
    Fills,
    /// The sockets of its group are full.
    Overflow,
    /// It started between two periods.
    Comes,
    /// It has no group yet and stays.
    Stays,
}

/// The division of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    pub case: DivisionCase,
    /// Threads of each group, and threads without a group.
    pub n: [u64; 4],
    /// Full queues of Group 1 per socket if it were spread, and the minimum for isolation.
    pub guard: Option<(u64, u64)>,
}

/// Case of the division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DivisionCase {
    /// The first `k1` sockets for Group 1, the others for the rest.
    Apart { k1: usize },
    /// There is no Group 2.
    NoGroupTwo,
    /// Group 1 is below the guard.
    BelowGuard,
    /// There is no Group 1.
    NoGroupOne,
    /// There is only one socket.
    OneSocket,
}

/// The map of jobs to sockets under construction.
pub(super) struct SocketMap<'a, 's> {
    config: &'a Config,
    seen: &'a Snapshot<'a>,
    members: &'a [GroupedJob<'s>],
    slots: DomainSlots,
    assignments: Vec<Option<Assignment>>,
}

impl<'a, 's> SocketMap<'a, 's> {
    pub fn new(
        config: &'a Config,
        seen: &'a Snapshot<'a>,
        jobs: &PlacementJobs<'_>,
        members: &'a [GroupedJob<'s>],
    ) -> Self {
        let slots = DomainSlots::of(seen, jobs);
        SocketMap { config, seen, members, slots, assignments: vec![None; members.len()] }
    }

    /// All assignments; complete after `divide` or `place_remaining`.
    pub fn assignments(&self) -> Vec<Assignment> {
        self.assignments.iter().copied().flatten().collect()
    }

    /// Divides the sockets and places all jobs.
    pub fn divide(&mut self) -> Division {
        let division = self.division();
        let all: Vec<usize> = (0..self.seen.domains.len()).collect();
        let [one, two, three, unknown] = self.by_group();
        match division.case {
            DivisionCase::Apart { k1 } => {
                let (a, b) = all.split_at(k1);
                self.place_groups(a, b, &one, &two);
                self.stay(&unknown);
                let left = self.fill(&three, b, Role::Side);
                self.fill_up(left, a);
            }
            DivisionCase::NoGroupTwo => {
                self.spread(&one, &all);
                self.stay(&unknown);
                self.fill_up(three, &all);
            }
            DivisionCase::BelowGuard => {
                self.spread(&one, &all);
                self.beside_fewest(&two, &one);
                self.stay(&unknown);
                self.fill_up(three, &all);
            }
            DivisionCase::NoGroupOne | DivisionCase::OneSocket => {
                let mut jobs = [one, two, three, unknown].concat();
                jobs.sort_unstable();
                self.spread(&jobs, &all);
            }
        }
        self.place_remaining(Some(&division));
        division
    }

    /// Places jobs without an assignment: running jobs stay, jobs that start get the emptiest socket of their group.
    pub fn place_remaining(&mut self, division: Option<&Division>) {
        let left = |map: &Self| {
            (0..map.members.len()).filter(|&at| map.assignments[at].is_none()).collect()
        };
        let left: Vec<usize> = left(self);
        let (running, starting): (Vec<usize>, Vec<usize>) =
            left.into_iter().partition(|&at| self.members[at].job.now.is_some());
        for at in running {
            if let Some(now) = self.members[at].job.now {
                self.put(at, now, Role::Stays);
            }
        }
        for at in starting {
            let n_sockets = self.seen.domains.len();
            let side = match (division.map(|division| division.case), self.members[at].group) {
                (Some(DivisionCase::Apart { k1 }), Some(Group::One)) => 0..k1,
                (Some(DivisionCase::Apart { k1 }), Some(_)) => k1..n_sockets,
                _ => 0..n_sockets,
            };
            let job = &self.members[at].job;
            let with_free_slots = |idx: &usize| self.slots.fits(self.seen, job, *idx);
            let allowed = |idx: &usize| DomainSlots::allows(self.seen, job, *idx);
            let on_side = self.slots.emptiest(job, side.filter(with_free_slots));
            let anywhere = || self.slots.emptiest(job, (0..n_sockets).filter(with_free_slots));
            let crowded = || self.slots.emptiest(job, (0..n_sockets).filter(allowed));
            if let Some(to) = on_side.or_else(anywhere).or_else(crowded) {
                self.put(at, to, Role::Comes);
            }
        }
    }

    fn division(&self) -> Division {
        let n = self.by_group().map(|group| group.iter().map(|&at| self.threads(at)).sum());
        let n_sockets = self.seen.domains.len();
        let guard = self.guard(n_sockets);
        let case = match n {
            _ if n_sockets < 2 => DivisionCase::OneSocket,
            [0, ..] => DivisionCase::NoGroupOne,
            [_, 0, ..] => DivisionCase::NoGroupTwo,
            _ if guard.is_some_and(|(each, least)| each <= least) => DivisionCase::BelowGuard,
            [n1, ..] => DivisionCase::Apart { k1: self.k1(n1) },
        };
        Division { case, n, guard }
    }

    /// Number of sockets for Group 1.
    fn k1(&self, n1: u64) -> usize {
        let n_sockets = self.seen.domains.len();
        let mut held = 0;
        let enough = (0..n_sockets).position(|idx| {
            held += u64::from(self.slots.total(idx));
            n1 <= held
        });
        enough.map_or(n_sockets, |idx| idx + 1).clamp(1, n_sockets - 1)
    }

    fn guard(&self, n_sockets: usize) -> Option<(u64, u64)> {
        let (factor, th_sq) = (self.config.guard_permille?, self.config.th_sq?);
        let ones = self.members.iter().filter(|member| member.group == Some(Group::One));
        let sum = ones.map(|member| u128::from(member.evidence.sq)).sum::<u128>();
        let least = u128::from(th_sq) * u128::from(factor) / 1000;
        let whole = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Some((whole(sum / n_sockets.max(1) as u128), whole(least)))
    }

    /// Jobs of Groups 1, 2 and 3, and jobs without a group.
    fn by_group(&self) -> [Vec<usize>; 4] {
        let of = |group: Option<Group>| {
            (0..self.members.len()).filter(|&at| self.members[at].group == group).collect()
        };
        [Some(Group::One), Some(Group::Two), Some(Group::Three), None].map(of)
    }

    fn threads(&self, at: usize) -> u64 {
        u64::from(self.members[at].job.threads)
    }

    fn put(&mut self, at: usize, to: usize, role: Role) {
        self.slots.add(self.seen, &self.members[at].job, to);
        self.assignments[at] = Some(Assignment { domain: to, role });
    }

    /// Threads of some jobs on each socket.
    fn n_there(&self, members: &[usize]) -> Vec<u64> {
        let mut n = vec![0; self.seen.domains.len()];
        for &at in members {
            self.assignments[at]
                .into_iter()
                .for_each(|assignment| n[assignment.domain] += self.threads(at));
        }
        n
    }

    /// Group 1 on A, Group 2 on B; jobs without a free slot on the other side.
    fn place_groups(&mut self, a: &[usize], b: &[usize], one: &[usize], two: &[usize]) {
        let ones_left = self.fill(one, a, Role::Side);
        let twos_left = self.fill(two, b, Role::Side);
        for at in twos_left {
            let fewest_full_queues = |&idx: &usize| {
                let there = one.iter().filter(|&&at| {
                    self.assignments[at].is_some_and(|assignment| assignment.domain == idx)
                });
                (there.map(|&at| self.members[at].evidence.sq).min(), idx)
            };
            if let Some(to) = self.with_free_slots(at, a).min_by_key(fewest_full_queues) {
                self.put(at, to, Role::Overflow);
            }
        }
        let n_two = self.n_there(two);
        for at in ones_left {
            let n_two = |&idx: &usize| (n_two[idx], idx);
            if let Some(to) = self.with_free_slots(at, b).min_by_key(n_two) {
                self.put(at, to, Role::Overflow);
            }
        }
    }

    fn with_free_slots<'b>(
        &'b self,
        at: usize,
        among: &'b [usize],
    ) -> impl Iterator<Item = usize> + 'b {
        let job = &self.members[at].job;
        among.iter().copied().filter(move |&idx| self.slots.fits(self.seen, job, idx))
    }

    /// Places the jobs that may stay; returns the others.
    fn keep(&mut self, members: &[usize], among: &[usize], role: Role) -> Vec<usize> {
        let mut others = Vec::new();
        for &at in members {
            let now =
                self.members[at].job.now.filter(|now| self.config.keep && among.contains(now));
            match now.filter(|&now| self.slots.fits(self.seen, &self.members[at].job, now)) {
                Some(now) => self.put(at, now, role),
                None => others.push(at),
            }
        }
        others
    }

    /// Jobs without a group stay where they are, if slots are free.
    fn stay(&mut self, members: &[usize]) {
        for &at in members {
            let job = &self.members[at].job;
            let fits = |&now: &usize| self.slots.fits(self.seen, job, now);
            if let Some(now) = job.now.filter(fits) {
                self.put(at, now, Role::Stays);
            }
        }
    }

    /// Fills some sockets: each job gets the socket with the fewest threads of the same jobs. Returns jobs without a
    /// free slot.
    fn fill(&mut self, members: &[usize], among: &[usize], role: Role) -> Vec<usize> {
        let mut left = Vec::new();
        let others = self.keep(members, among, role);
        let mut n = self.n_there(members);
        for at in others {
            let key = |&a: &usize, &b: &usize| {
                n[a].cmp(&n[b]).then(self.slots.compare(a, b)).then(a.cmp(&b))
            };
            match self.with_free_slots(at, among).min_by(key) {
                Some(to) => {
                    self.put(at, to, role);
                    n[to] += self.threads(at);
                }
                None => left.push(at),
            }
        }
        left
    }

    /// The same with the emptiest socket for each job. Jobs without a free slot are placed last.
    fn fill_up(&mut self, members: Vec<usize>, among: &[usize]) {
        for at in self.keep(&members, among, Role::Fills) {
            let job = &self.members[at].job;
            if let Some(to) = self.slots.emptiest(job, self.with_free_slots(at, among)) {
                self.put(at, to, Role::Fills);
            }
        }
    }

    /// Group 2 on the sockets with the fewest threads of Group 1.
    fn beside_fewest(&mut self, two: &[usize], one: &[usize]) {
        let n_one = self.n_there(one);
        for &at in two {
            let is_elsewhere =
                |idx: usize| self.config.keep && self.members[at].job.now != Some(idx);
            let key = |&a: &usize, &b: &usize| {
                let by_one = n_one[a].cmp(&n_one[b]);
                let by_stay = is_elsewhere(a).cmp(&is_elsewhere(b));
                by_one.then(by_stay).then(self.slots.compare(a, b)).then(a.cmp(&b))
            };
            let all: Vec<usize> = (0..self.seen.domains.len()).collect();
            let to = self.with_free_slots(at, &all).min_by(key);
            if let Some(to) = to {
                self.put(at, to, Role::Fills);
            }
        }
    }

    /// Spreads jobs evenly over some sockets.
    fn spread(&mut self, members: &[usize], among: &[usize]) {
        self.fill(members, among, Role::Even);
        while self.config.keep
            && let Some((at, to)) = self.more_even(members, among)
        {
            if let Some(assignment) = self.assignments[at].take() {
                self.slots.remove(self.seen, &self.members[at].job, assignment.domain);
            }
            self.put(at, to, Role::Even);
        }
    }

    /// A job whose migration from the fullest socket to another balances both, if there is one. The larger of both
    /// counts decreases, so the loop terminates.
    fn more_even(&self, members: &[usize], among: &[usize]) -> Option<(usize, usize)> {
        let n = self.n_there(members);
        let n = |idx: usize| n[idx];
        let fullest = among.iter().copied().rev().max_by_key(|&idx| n(idx))?;
        let mut others: Vec<usize> = among.iter().copied().filter(|&idx| idx != fullest).collect();
        others.sort_by_key(|&idx| (n(idx), idx));
        let there = |at: &&usize| {
            self.assignments[**at].is_some_and(|assignment| assignment.domain == fullest)
        };
        others.into_iter().find_map(|to| {
            let better = |at: &&usize| n(to) + self.threads(**at) < n(fullest);
            let fits = |at: &&usize| self.slots.fits(self.seen, &self.members[**at].job, to);
            let mut all = members.iter().filter(there).filter(better).filter(fits);
            all.next().map(|&at| (at, to))
        })
    }
}

impl Division {
    /// The sockets of Group 1 and of the others; `None`: they are not divided.
    pub fn sides(&self, seen: &Snapshot<'_>) -> Option<(CpuSet, CpuSet)> {
        let DivisionCase::Apart { k1 } = self.case else { return None };
        let cpus = |from: usize, to: usize| {
            (from..to).fold(CpuSet::new(), |all, idx| all.or(&seen.domains.get(idx).cpus))
        };
        Some((cpus(0, k1), cpus(k1, seen.domains.len())))
    }
}
