//! The sockets of each group.
//!
//! ```text
//!   n1, n2, n3 threads of each group, K sockets
//!   n1 > 0, n2 > 0      A = the first sockets with slots for n1, at least one and never all; B = the others
//!                         1 ─► A     2 ─► B     3 ─► B, then A               (cases 1 and 3)
//!                         2 without a free slot ─► the socket of A with the job that has the fewest queue-full cycles
//!                         1 without a free slot ─► the socket of B with the fewest 2
//!   n1 > 0, n2 = 0      1 evenly over all, 3 on free slots                   (case 2)
//!   n1 = 0              all evenly over all
//! ```
//!
//! Isolation requires enough contention: with `guard` and a threshold, cases 1 and 3 require that the queue-full cycles
//! of Group 1, spread over all sockets, exceed `guard × th_sq` on each. Otherwise Group 1 is spread evenly, Group 2 is
//! placed on the sockets with the fewest threads of Group 1, and Group 3 fills the free slots.
//!
//! With `keep` a job stays on a socket that belongs to its group, and spreading migrates only as many jobs as needed.
//! Jobs without a group stay where they are.

use base::CpuSet;
use sched::Snapshot;

use super::declaration::Config;
use super::groups::{ContentionGroup, GroupedJob};
use crate::slots::{DomainSlots, PlacementJobs};

/// The socket of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketAssignment {
    pub domain: usize,
    pub role: SocketRole,
}

/// Role of a job on its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    /// The job is on a socket of its group.
    OwnGroup,
    /// The jobs of the group are spread evenly.
    Even,
    /// The job fills free slots.
    Fills,
    /// The sockets of the job's group are full.
    Overflow,
    /// The job started between two polls.
    Starts,
    /// The job has no group yet and stays.
    Stays,
}

/// The division of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    pub case: DivisionCase,
    /// Threads of each group, and threads without a group.
    pub n: [u64; 4],
    /// Queue-full cycles of Group 1 per socket if Group 1 were spread, and the minimum for isolation.
    pub guard: Option<(u64, u64)>,
}

/// Case of a division; only `Apart` isolates Group 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DivisionCase {
    /// The first `k1` sockets are for Group 1, the other sockets for all other jobs.
    Apart { k1: usize },
    /// There is no Group 2.
    NoGroupTwo,
    /// The queue-full cycles of Group 1 do not exceed the guard.
    BelowGuard,
    /// There is no Group 1.
    NoGroupOne,
    /// There is only one socket.
    OneSocket,
}

/// The map of jobs to sockets, which is filled step by step.
pub(super) struct SocketMap<'a, 's> {
    config: &'a Config,
    snapshot: &'a Snapshot<'a>,
    members: &'a [GroupedJob<'s>],
    slots: DomainSlots,
    assignments: Vec<Option<SocketAssignment>>,
}

impl<'a, 's> SocketMap<'a, 's> {
    pub fn new(
        config: &'a Config,
        snapshot: &'a Snapshot<'a>,
        jobs: &PlacementJobs<'_>,
        members: &'a [GroupedJob<'s>],
    ) -> Self {
        let slots = DomainSlots::of(snapshot, jobs);
        SocketMap { config, snapshot, members, slots, assignments: vec![None; members.len()] }
    }

    /// Returns all assignments. The list is complete after `divide` or `place_remaining`.
    pub fn assignments(&self) -> Vec<SocketAssignment> {
        self.assignments.iter().copied().flatten().collect()
    }

    /// Divides the sockets and places all jobs.
    pub fn divide(&mut self) -> Division {
        let division = self.division();
        let all: Vec<usize> = (0..self.snapshot.domains.len()).collect();
        let [one, two, three, unknown] = self.by_group();
        match division.case {
            DivisionCase::Apart { k1 } => {
                let (a, b) = all.split_at(k1);
                self.place_groups(a, b, &one, &two);
                self.stay(&unknown);
                let left = self.fill(&three, b, SocketRole::OwnGroup);
                self.fill_up(left, a);
            }
            DivisionCase::NoGroupTwo => {
                self.spread(&one, &all);
                self.stay(&unknown);
                self.fill_up(three, &all);
            }
            DivisionCase::BelowGuard => {
                self.spread(&one, &all);
                self.place_with_fewest(&two, &one);
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

    /// Places jobs without an assignment: running jobs stay, jobs that start get the least occupied socket of their
    /// group.
    pub fn place_remaining(&mut self, division: Option<&Division>) {
        let unassigned =
            (0..self.members.len()).filter(|&job_idx| self.assignments[job_idx].is_none());
        let (running, starting): (Vec<usize>, Vec<usize>) =
            unassigned.partition(|&job_idx| self.members[job_idx].job.now.is_some());
        for job_idx in running {
            if let Some(now) = self.members[job_idx].job.now {
                self.put(job_idx, now, SocketRole::Stays);
            }
        }
        for job_idx in starting {
            let n_sockets = self.snapshot.domains.len();
            let side = match (division.map(|division| division.case), self.members[job_idx].group) {
                (Some(DivisionCase::Apart { k1 }), Some(ContentionGroup::One)) => 0..k1,
                (Some(DivisionCase::Apart { k1 }), Some(_)) => k1..n_sockets,
                _ => 0..n_sockets,
            };
            let job = &self.members[job_idx].job;
            let with_free_slots = |idx: &usize| self.slots.fits(self.snapshot, job, *idx);
            let allowed = |idx: &usize| DomainSlots::allows(self.snapshot, job, *idx);
            let on_side = self.slots.least_occupied(job, side.filter(with_free_slots));
            let anywhere =
                || self.slots.least_occupied(job, (0..n_sockets).filter(with_free_slots));
            let occupied = || self.slots.least_occupied(job, (0..n_sockets).filter(allowed));
            if let Some(to) = on_side.or_else(anywhere).or_else(occupied) {
                self.put(job_idx, to, SocketRole::Starts);
            }
        }
    }

    fn division(&self) -> Division {
        let n =
            self.by_group().map(|group| group.iter().map(|&job_idx| self.threads(job_idx)).sum());
        let n_sockets = self.snapshot.domains.len();
        let guard = self.guard(n_sockets);
        let case = match n {
            _ if n_sockets < 2 => DivisionCase::OneSocket,
            [0, ..] => DivisionCase::NoGroupOne,
            [_, 0, ..] => DivisionCase::NoGroupTwo,
            _ if guard.is_some_and(|(each, min)| each <= min) => DivisionCase::BelowGuard,
            [n1, ..] => DivisionCase::Apart { k1: self.k1(n1) },
        };
        Division { case, n, guard }
    }

    /// Returns the number of sockets for Group 1.
    fn k1(&self, n1: u64) -> usize {
        let n_sockets = self.snapshot.domains.len();
        let mut n_slots = 0;
        let enough = (0..n_sockets).position(|idx| {
            n_slots += u64::from(self.slots.total(idx));
            n1 <= n_slots
        });
        enough.map_or(n_sockets, |idx| idx + 1).clamp(1, n_sockets - 1)
    }

    fn guard(&self, n_sockets: usize) -> Option<(u64, u64)> {
        let (factor, th_sq) = (self.config.guard?.permille(), self.config.th_sq?);
        let ones = self.members.iter().filter(|member| member.group == Some(ContentionGroup::One));
        let sum = ones.map(|member| u128::from(member.counters.queue_full)).sum::<u128>();
        let min = u128::from(th_sq) * u128::from(factor) / 1000;
        let whole = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Some((whole(sum / n_sockets.max(1) as u128), whole(min)))
    }

    /// Returns the jobs of Groups 1, 2 and 3, and jobs without a group.
    fn by_group(&self) -> [Vec<usize>; 4] {
        let in_group = |group: Option<ContentionGroup>| {
            (0..self.members.len())
                .filter(|&job_idx| self.members[job_idx].group == group)
                .collect()
        };
        [Some(ContentionGroup::One), Some(ContentionGroup::Two), Some(ContentionGroup::Three), None]
            .map(in_group)
    }

    fn threads(&self, job_idx: usize) -> u64 {
        u64::from(self.members[job_idx].job.threads)
    }

    fn put(&mut self, job_idx: usize, to: usize, role: SocketRole) {
        self.slots.add(self.snapshot, &self.members[job_idx].job, to);
        self.assignments[job_idx] = Some(SocketAssignment { domain: to, role });
    }

    /// Returns the number of threads of some jobs on each socket.
    fn n_threads_per_socket(&self, members: &[usize]) -> Vec<u64> {
        let mut n = vec![0; self.snapshot.domains.len()];
        for &job_idx in members {
            self.assignments[job_idx]
                .into_iter()
                .for_each(|assignment| n[assignment.domain] += self.threads(job_idx));
        }
        n
    }

    /// Places Group 1 on A and Group 2 on B. Jobs without a free slot are placed on the other sockets.
    fn place_groups(&mut self, a: &[usize], b: &[usize], one: &[usize], two: &[usize]) {
        let ones_left = self.fill(one, a, SocketRole::OwnGroup);
        let twos_left = self.fill(two, b, SocketRole::OwnGroup);
        for job_idx in twos_left {
            let fewest_queue_full = |&idx: &usize| {
                let on_socket = one.iter().filter(|&&job_idx| {
                    self.assignments[job_idx].is_some_and(|assignment| assignment.domain == idx)
                });
                (on_socket.map(|&job_idx| self.members[job_idx].counters.queue_full).min(), idx)
            };
            if let Some(to) = self.with_free_slots(job_idx, a).min_by_key(fewest_queue_full) {
                self.put(job_idx, to, SocketRole::Overflow);
            }
        }
        let n_two = self.n_threads_per_socket(two);
        for job_idx in ones_left {
            let n_two = |&idx: &usize| (n_two[idx], idx);
            if let Some(to) = self.with_free_slots(job_idx, b).min_by_key(n_two) {
                self.put(job_idx, to, SocketRole::Overflow);
            }
        }
    }

    fn with_free_slots<'b>(
        &'b self,
        job_idx: usize,
        among: &'b [usize],
    ) -> impl Iterator<Item = usize> + 'b {
        let job = &self.members[job_idx].job;
        among.iter().copied().filter(move |&idx| self.slots.fits(self.snapshot, job, idx))
    }

    /// Places the jobs that may stay on their socket. Returns the other jobs.
    fn keep(&mut self, members: &[usize], among: &[usize], role: SocketRole) -> Vec<usize> {
        let mut others = Vec::new();
        for &job_idx in members {
            let now =
                self.members[job_idx].job.now.filter(|now| self.config.keep && among.contains(now));
            match now.filter(|&now| self.slots.fits(self.snapshot, &self.members[job_idx].job, now))
            {
                Some(now) => self.put(job_idx, now, role),
                None => others.push(job_idx),
            }
        }
        others
    }

    /// Keeps jobs without a group on their current socket, if slots are free.
    fn stay(&mut self, members: &[usize]) {
        for &job_idx in members {
            let job = &self.members[job_idx].job;
            let fits = |&now: &usize| self.slots.fits(self.snapshot, job, now);
            if let Some(now) = job.now.filter(fits) {
                self.put(job_idx, now, SocketRole::Stays);
            }
        }
    }

    /// Fills some sockets: each job gets the socket with the fewest threads of `members`. Returns jobs without a free
    /// slot.
    fn fill(&mut self, members: &[usize], among: &[usize], role: SocketRole) -> Vec<usize> {
        let mut left = Vec::new();
        let others = self.keep(members, among, role);
        let mut n = self.n_threads_per_socket(members);
        for job_idx in others {
            let key = |&a: &usize, &b: &usize| {
                n[a].cmp(&n[b]).then(self.slots.compare(a, b)).then(a.cmp(&b))
            };
            match self.with_free_slots(job_idx, among).min_by(key) {
                Some(to) => {
                    self.put(job_idx, to, role);
                    n[to] += self.threads(job_idx);
                }
                None => left.push(job_idx),
            }
        }
        left
    }

    /// Fills some sockets: each job gets the least occupied socket. Jobs without a free slot are placed last.
    fn fill_up(&mut self, members: Vec<usize>, among: &[usize]) {
        for job_idx in self.keep(&members, among, SocketRole::Fills) {
            let job = &self.members[job_idx].job;
            if let Some(to) = self.slots.least_occupied(job, self.with_free_slots(job_idx, among)) {
                self.put(job_idx, to, SocketRole::Fills);
            }
        }
    }

    /// Places Group 2 on the sockets with the fewest threads of Group 1.
    fn place_with_fewest(&mut self, two: &[usize], one: &[usize]) {
        let n_one = self.n_threads_per_socket(one);
        for &job_idx in two {
            let is_elsewhere =
                |idx: usize| self.config.keep && self.members[job_idx].job.now != Some(idx);
            let key = |&a: &usize, &b: &usize| {
                let by_one = n_one[a].cmp(&n_one[b]);
                let by_stay = is_elsewhere(a).cmp(&is_elsewhere(b));
                by_one.then(by_stay).then(self.slots.compare(a, b)).then(a.cmp(&b))
            };
            let all: Vec<usize> = (0..self.snapshot.domains.len()).collect();
            let to = self.with_free_slots(job_idx, &all).min_by(key);
            if let Some(to) = to {
                self.put(job_idx, to, SocketRole::Fills);
            }
        }
    }

    /// Spreads jobs evenly over some sockets.
    fn spread(&mut self, members: &[usize], among: &[usize]) {
        self.fill(members, among, SocketRole::Even);
        while self.config.keep
            && let Some((job_idx, to)) = self.more_even(members, among)
        {
            if let Some(assignment) = self.assignments[job_idx].take() {
                self.slots.remove(self.snapshot, &self.members[job_idx].job, assignment.domain);
            }
            self.put(job_idx, to, SocketRole::Even);
        }
    }

    /// Returns a job on the socket with the most threads, and a target socket. The migration reduces the larger of both
    /// thread counts, so that the loop in `spread` terminates.
    fn more_even(&self, members: &[usize], among: &[usize]) -> Option<(usize, usize)> {
        let n = self.n_threads_per_socket(members);
        let n = |idx: usize| n[idx];
        let most_threads = among.iter().copied().rev().max_by_key(|&idx| n(idx))?;
        let mut others: Vec<usize> =
            among.iter().copied().filter(|&idx| idx != most_threads).collect();
        others.sort_by_key(|&idx| (n(idx), idx));
        let on_socket = |job_idx: &&usize| {
            self.assignments[**job_idx].is_some_and(|assignment| assignment.domain == most_threads)
        };
        others.into_iter().find_map(|to| {
            let better = |job_idx: &&usize| n(to) + self.threads(**job_idx) < n(most_threads);
            let fits =
                |job_idx: &&usize| self.slots.fits(self.snapshot, &self.members[**job_idx].job, to);
            let mut all = members.iter().filter(on_socket).filter(better).filter(fits);
            all.next().map(|&job_idx| (job_idx, to))
        })
    }
}

impl Division {
    /// Returns the CPUs of the sockets of Group 1, and of the other sockets; `None`: the sockets are not divided.
    pub fn sides(&self, snapshot: &Snapshot<'_>) -> Option<(CpuSet, CpuSet)> {
        let DivisionCase::Apart { k1 } = self.case else { return None };
        let cpus = |from: usize, to: usize| {
            (from..to).fold(CpuSet::new(), |all, idx| all.or(&snapshot.domains.get(idx).cpus))
        };
        Some((cpus(0, k1), cpus(k1, snapshot.domains.len())))
    }
}
