//! Solution of a cache: the occupancies and speeds of its tasks, and the residence time of lines.
//!
//! ```text
//!   residence time ─► occupancy of each task: what it fills in this time at its speed
//!         ▲                    │ fewer misses: a higher speed
//!         └── sum = cache ─────┘
//! ```
//!
//! The iteration begins with the contents of the cache, and with the residence time of the last solution. Each of its steps
//! is one of Newton's method for all values together; if threads share data, if lines are replaced randomly, or in caches of
//! clusters, it is a fixed-point iteration instead. If Newton's method does not converge, the residence time is searched.
//!
//! Tasks of one program with the same share of CPU time, the same core, the same memory and nearly the same contents have
//! the same solution. They are one class: Newton's method computes the first of them, and counts it several times.

use topology::Replacement;

use super::Fluid;
use crate::hardware::Hardware;
use crate::physics::{
    CacheEntries, CoreSpeed, CpiTerms, FillTable, StepLine, TimeTerms, occupancies_with,
    residence_if_alone, residence_time,
};

/// Maximum number of iterations of a solution.
const N_ITERATIONS: usize = 200;
/// Number of steps of a search of the residence time.
const N_SEARCH: usize = 64;
/// Number of iterations of [`CacheMember::approach`].
const N_STEPS_ALONE: usize = 3;
/// Smallest feedback in an iteration; near 0 a program has two equilibria, and a step would be too long.
const FEEDBACK_MIN: f64 = 0.3;
/// Smallest and largest assumed ratio of two successive changes.
const SHARES: (f64, f64) = (0.1, 0.9);
/// Assumed ratio of the second change to the first of Newton's method, for each unit of the first change. Observed with
/// random programs: less than half of it.
const NEWTON_SHARE: f64 = 30.0;
/// Assumed ratio of the second change to the first of other steps.
const OTHER_SHARE: f64 = 0.5;
/// Largest share of the cache that may be empty or exceeded at the first residence time.
const EMPTY_MAX: f64 = 0.1;
/// Factor of the steps each time that the iteration oscillates, and the smallest product of these factors.
const DAMPING: f64 = 0.5;
const RELAXATION_MIN: f64 = 0.05;
/// Relative change of speeds at which the iteration has converged, in units of the precision.
const CONVERGED: f64 = 0.25;
/// Largest difference of the contents of two tasks of a class, as a share of the cache in units of the precision: a few
/// bytes. Tasks with unlike contents may tend to unlike equilibria.
const CLASS_BYTES_MAX: f64 = 1e-3;

/// State of a cache since its last solution.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheState {
    /// Nanoseconds of one turnover at the current insertion rates; infinite if the cache has free space.
    pub turnover_ns: f64,
    /// Number of turnovers up to the time `at`.
    pub turnovers: f64,
    pub at: u64,
    /// Largest relative change of a task's speed for a relative change of the others' speeds, because of the occupancy.
    pub sensitivity: f64,
    /// Estimated relative change of speeds that the last solution left, and the share of the cache that its tasks occupied.
    pub remaining: f64,
    pub occupied: f64,
}

/// A task in a cache that is being solved.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheMember {
    pub task: usize,
    pub cpu: usize,
    /// Index of the first task of its class, and the number of tasks of the class; zero for the other tasks.
    pub class: usize,
    pub n_like: f64,
    /// Whether the task executes without refill, and nothing but the contents of the cache can have changed.
    pub is_steady: bool,
    pub duty: f64,
    /// Speed of the CPU relative to its speed with idle siblings and without context switches.
    pub smt_share: f64,
    /// The core; its private cache is the occupancy in the cache of its cluster, if it is in one.
    pub core: CoreSpeed,
    /// Its program on its core.
    pub terms: CpiTerms,
    /// Latency of the paths to its memory without load.
    pub path_ns: f64,
    /// Average latency of a miss, and latency of the port of the cache.
    pub latencies: (f64, f64),
    /// Factor by which the task is slower, because of siblings and overload.
    pub slower: f64,
    /// As in [`super::tasks::CacheContents`].
    pub elsewhere: f64,
    pub cluster_elsewhere: f64,
    /// Share of the lines of a refill that the task reads. Other threads of its job read the rest.
    pub read_share: f64,
    /// Occupancy in bytes.
    pub bytes: f64,
    /// Nanoseconds per 1000 instructions, and their change per byte.
    pub ns: f64,
    pub ns_per_byte: f64,
    /// Change of the occupancy in the current iteration, and its change per nanosecond of the residence time.
    pub step: f64,
    pub gain: f64,
    /// Relative change of its speed for a relative change of the residence time or of the speed, by its occupancy.
    pub sensitivity: f64,
    /// Bytes filled over the thousands of instructions, in the current step of the fill table.
    pub filled: StepLine,
    /// Nanoseconds per 1000 instructions over the occupancy, in the current step, and the time at both ends of this step.
    pub takes: StepLine,
    pub ends: [(f64, TimeTerms); 2],
    /// Whether the step in the current iteration is shorter than that of Newton's method.
    pub is_damped: bool,
    /// Hints of [`super::tasks::CacheContents`].
    pub hints: (usize, usize),
    /// For a steady task: nanoseconds per 1000 instructions before the solution.
    pub ns_before: f64,
}

/// Convergence of an iteration.
struct Convergence {
    /// Factor of the next step.
    relaxation: f64,
    /// The last change.
    before: f64,
    /// Estimated sum of all later changes.
    remaining: f64,
}

impl Convergence {
    const START: Convergence =
        Convergence { relaxation: 1.0, before: f64::INFINITY, remaining: f64::INFINITY };

    /// Estimates the sum of all later changes from the largest relative change of a step, if each is the same share of the
    /// previous one. A step of Newton's method leaves a share that is proportional to the step.
    fn note(&mut self, change: f64, is_newton: bool) {
        let share = match self.before.is_finite() {
            true => (change / self.before).clamp(SHARES.0, SHARES.1),
            false if is_newton => (NEWTON_SHARE * change).min(OTHER_SHARE),
            false => OTHER_SHARE,
        };
        self.remaining = change * share / (1.0 - share);
        if change.is_finite() && self.before < change {
            self.relaxation = (self.relaxation * DAMPING).max(RELAXATION_MIN);
        }
        self.before = change;
    }
}

impl Fluid {
    /// Solves the occupancies, the speeds, and the residence time of lines together at the current latencies, from the
    /// current occupancies.
    pub(super) fn solve_occupancies(
        &mut self,
        hardware: &Hardware,
        cache: usize,
        members: &mut [CacheMember],
    ) {
        let bytes = hardware.caches[cache].bytes;
        let fill_index = hardware.caches[cache].fill_index;
        let table_of = |member: &CacheMember| &self.phase_of(member.task).fills[fill_index];
        let tables: Vec<&FillTable> = members.iter().map(table_of).collect();
        let before = self.solver.caches[cache];
        let (turnover_ns, remaining) = match members {
            [] => (f64::INFINITY, 0.0),
            [member] => {
                member.bytes = bytes;
                member.update_speed(tables[0]);
                self.share_clusters(hardware, cache, members, 1.0);
                members[0].update_speed(tables[0]);
                let thousands = residence_if_alone(hardware.replacement, tables[0]);
                (thousands * members[0].ns / members[0].duty, 0.0)
            }
            _ => self.iterate(hardware, cache, (members, &tables), before.turnover_ns),
        };
        let own = |member: &CacheMember| member.bytes * (1.0 - member.elsewhere);
        let occupied = members.iter().map(own).sum::<f64>();
        for member in members.iter_mut().filter(|_| bytes < occupied) {
            member.bytes *= bytes / occupied;
        }
        self.divide_common_parts(members);
        let turnovers = self.solver.turnovers(cache, self.now);
        let sensitivity = members.iter().map(|member| member.sensitivity).fold(0.0, f64::max);
        self.solver.caches[cache] = CacheState {
            turnover_ns,
            turnovers,
            at: self.now,
            sensitivity,
            remaining,
            occupied: occupied / bytes,
        };
    }

    /// Solves a cache with several tasks. Returns the residence time, and the estimated remaining change of speeds.
    fn iterate(
        &self,
        hardware: &Hardware,
        cache: usize,
        (members, tables): (&mut [CacheMember], &[&FillTable]),
        turnover_ns: f64,
    ) -> (f64, f64) {
        let bytes = hardware.caches[cache].bytes;
        let precision = self.settings.precision * CONVERGED;
        let mut time_ns = if turnover_ns.is_finite() { turnover_ns } else { 0.0 };
        for (member, table) in members.iter_mut().zip(tables) {
            member.update_speed(table);
        }
        let mut entries = self.cache_entries(hardware, cache, members);
        let is_newton = entries.is_none() && hardware.caches[cache].clusters.is_empty();
        if is_newton {
            form_classes(members, tables, CLASS_BYTES_MAX * self.settings.precision * bytes);
        }
        if entries.is_none() && 0.0 < time_ns {
            // The other tasks are near their solution.
            let changed = classes(members, tables).filter(|(member, _)| !member.is_steady);
            changed.for_each(|(member, table)| member.approach(table, bytes, time_ns));
        }
        let mut convergence = Convergence::START;
        for _ in 0..N_ITERATIONS {
            let relaxation = convergence.relaxation;
            self.share_clusters(hardware, cache, members, relaxation);
            let change = match &mut entries {
                None => step_together(members, tables, bytes, &mut time_ns, relaxation),
                Some(entries) => {
                    entries.set_times(members.iter().map(|member| member.ns / member.duty));
                    let mut fits = vec![0.0; entries.entries().len()];
                    let all = entries.entries();
                    let replacement = hardware.replacement;
                    time_ns = occupancies_with(replacement, all, bytes, time_ns, &mut fits);
                    step_to(members, tables, |nth| entries.bytes_of(nth, &fits), relaxation)
                }
            };
            let is_damped = classes(members, tables).any(|(member, _)| member.is_damped);
            convergence.note(change, is_newton && !is_damped);
            if convergence.remaining < precision {
                break;
            }
        }
        if precision <= convergence.remaining && is_newton {
            time_ns = search_residence(members, tables, bytes, time_ns);
            convergence.remaining = 0.0;
        }
        for nth in 0..members.len() {
            let class = members[nth].class;
            if class < nth {
                let (before, after) = members.split_at_mut(nth);
                after[0].take_solution(&before[class]);
            }
        }
        (time_ns, convergence.remaining)
    }

    /// Returns the entries of a cache that is not solved by Newton's method: one in which threads share data, or one with
    /// another replacement than LRU.
    fn cache_entries(
        &self,
        hardware: &Hardware,
        cache: usize,
        members: &[CacheMember],
    ) -> Option<CacheEntries<'_>> {
        let is_shared = |member: &CacheMember| self.phase_of(member.task).shared.is_some();
        if hardware.replacement == Replacement::Lru && !members.iter().any(is_shared) {
            return None;
        }
        Some(self.entries_of(hardware.caches[cache].fill_index, members.iter()))
    }
}

impl CacheMember {
    /// Computes the speed with the current occupancy. Returns the relative change of the time.
    pub fn update_speed(&mut self, table: &FillTable) -> f64 {
        if !self.takes.contains(self.bytes) {
            let ends = table.ends_of_step(self.bytes, &mut self.hints.1);
            self.ends = ends.map(|(bytes, events)| (bytes, self.terms.time(events)));
            self.set_latencies(self.latencies);
        }
        let before = self.ns;
        self.ns = (self.takes.at(self.bytes) * self.slower).max(1e-6);
        self.ns_per_byte = self.takes.slope * self.slower;
        libm::fabs(self.ns / before - 1.0)
    }

    /// Sets the latencies of the current step.
    pub fn set_latencies(&mut self, latencies: (f64, f64)) {
        self.latencies = latencies;
        self.takes = StepLine::through(self.ends.map(|(bytes, time)| (bytes, time.ns(latencies))));
    }

    /// Computes the occupancy for a residence time of lines: the fixed point of the occupancy and the speed that it
    /// causes, by one iteration of Newton's method. Returns the bytes filled at the current speed.
    pub fn fill(&mut self, table: &FillTable, cache_bytes: f64, time_ns: f64) -> f64 {
        let per_ns = self.duty / self.ns;
        let thousands = time_ns * per_ns;
        if !self.filled.contains(thousands) {
            self.filled = table.line_of_fill(thousands, &mut self.hints.0);
        }
        let (filled, grows) = (self.filled.at(thousands), self.filled.slope);
        // More occupancy makes the task faster, so that it fills more.
        let faster = -grows * time_ns * per_ns * self.ns_per_byte / self.ns;
        let feedback = (1.0 - faster).max(FEEDBACK_MIN);
        self.is_damped = 1.0 - faster < FEEDBACK_MIN;
        self.sensitivity = libm::fabs(faster) / feedback;
        let filled = filled.min(cache_bytes);
        self.step = (filled - self.bytes) / feedback;
        self.gain = grows * per_ns / feedback;
        filled
    }

    /// Sets the largest occupancy that the task fills in a residence time at the speed that this occupancy causes.
    fn fill_fully(&mut self, table: &FillTable, cache_bytes: f64, time_ns: f64) {
        self.bytes = cache_bytes;
        for _ in 0..N_ITERATIONS {
            self.update_speed(table);
            let filled = self.fill(table, cache_bytes, time_ns);
            let change = libm::fabs(filled - self.bytes);
            self.bytes = filled;
            if change <= 1e-9 * cache_bytes {
                break;
            }
        }
        self.update_speed(table);
    }

    /// Returns whether the solution of another task of the same fill table is that of this task.
    fn is_like(&self, other: &CacheMember, bytes_max: f64) -> bool {
        let of_place = |member: &CacheMember| {
            (member.duty, member.smt_share, member.slower, member.path_ns, member.latencies)
        };
        libm::fabs(self.bytes - other.bytes) <= bytes_max
            && self.is_steady == other.is_steady
            && of_place(self) == of_place(other)
            && (self.core, self.terms) == (other.core, other.terms)
    }

    /// Takes the solution of the first task of the class.
    fn take_solution(&mut self, of: &CacheMember) {
        (self.bytes, self.ns, self.ns_per_byte) = (of.bytes, of.ns, of.ns_per_byte);
        (self.filled, self.takes, self.ends, self.hints) = (of.filled, of.takes, of.ends, of.hints);
        self.sensitivity = of.sensitivity;
    }

    /// Changes the occupancy towards that of the residence time of the last solution.
    pub fn approach(&mut self, table: &FillTable, cache_bytes: f64, time_ns: f64) {
        for _ in 0..N_STEPS_ALONE {
            self.fill(table, cache_bytes, time_ns);
            self.bytes = (self.bytes + self.step).clamp(0.0, cache_bytes);
            self.update_speed(table);
        }
    }
}

/// Divides the members into classes.
fn form_classes(members: &mut [CacheMember], tables: &[&FillTable], bytes_max: f64) {
    for nth in 0..members.len() {
        let is_class = |first: &usize| {
            std::ptr::eq(tables[*first], tables[nth])
                && 0.0 < members[*first].n_like
                && members[*first].is_like(&members[nth], bytes_max)
        };
        let class = (0..nth).find(is_class).unwrap_or(nth);
        (members[nth].class, members[nth].n_like) = (class, 0.0);
        members[class].n_like += 1.0;
    }
}

/// Returns the first member of each class, with its fill table.
fn classes<'a>(
    members: &'a mut [CacheMember],
    tables: &'a [&FillTable],
) -> impl Iterator<Item = (&'a mut CacheMember, &'a FillTable)> {
    let all = members.iter_mut().zip(tables.iter().copied());
    all.filter(|(member, _)| 0.0 < member.n_like)
}

/// Returns the fill table of each member, and its time for 1000 instructions with the waits for its CPU.
fn speeds<'a>(members: &[CacheMember], tables: &[&'a FillTable]) -> Vec<(&'a FillTable, f64)> {
    let takes = |member: &CacheMember| members[member.class].ns / member.duty;
    tables.iter().copied().zip(members.iter().map(takes)).collect()
}

/// Searches the residence time by bisection, if Newton's method does not converge because a member has several
/// equilibria. At each time every member has its largest equilibrium, so that the sum grows with the time. Where the sum
/// jumps over the size of the cache, the members are between their equilibria on both sides. Returns the time.
fn search_residence(
    members: &mut [CacheMember],
    tables: &[&FillTable],
    bytes: f64,
    near_ns: f64,
) -> f64 {
    let fill_all = |members: &mut [CacheMember], time_ns: f64| {
        let all = classes(members, tables);
        all.for_each(|(member, table)| member.fill_fully(table, bytes, time_ns));
        members.iter().map(|member| member.n_like * member.bytes).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, near_ns.max(1.0));
    for _ in 0..N_SEARCH {
        if bytes <= fill_all(members, high) {
            break;
        }
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..N_SEARCH {
        let middle = f64::midpoint(low, high);
        *(if fill_all(members, middle) < bytes { &mut low } else { &mut high }) = middle;
    }
    let below = fill_all(members, low);
    let occupancies: Vec<f64> = members.iter().map(|member| member.bytes).collect();
    // Every running task fills the whole cache in some time ([`FillTable`]).
    let share = ((bytes - below) / (fill_all(members, high) - below).max(1.0)).clamp(0.0, 1.0);
    for (member, from) in members.iter_mut().zip(occupancies) {
        member.bytes = from + share * (member.bytes - from);
    }
    classes(members, tables).for_each(|(member, table)| {
        member.update_speed(table);
    });
    high
}

/// Changes occupancies, speeds and residence time by one iteration of Newton's method for all of them. Returns the largest
/// relative change; it is infinite if the residence time was far from a solution and is the only changed value.
fn step_together(
    members: &mut [CacheMember],
    tables: &[&FillTable],
    bytes: f64,
    time_ns: &mut f64,
    relaxation: f64,
) -> f64 {
    let (mut empty, mut space, mut gain) = (bytes, bytes, 0.0);
    for (member, table) in classes(members, tables) {
        let n = member.n_like;
        empty -= n * member.fill(table, bytes, *time_ns);
        space -= n * (member.bytes + member.step);
        gain += n * member.gain;
    }
    if EMPTY_MAX * bytes < libm::fabs(empty) {
        let near_ns = residence_time(&speeds(members, tables), bytes, *time_ns);
        // If the tasks do not fill the cache, the residence time stays infinite.
        if near_ns != *time_ns {
            *time_ns = near_ns;
            return f64::INFINITY;
        }
    }
    let more_ns = if 0.0 < gain { (space / gain).max(-*time_ns) } else { 0.0 };
    *time_ns += relaxation * more_ns;
    let mut change = libm::fabs(space) / bytes;
    for (member, table) in classes(members, tables) {
        let step = relaxation * (member.step + member.gain * more_ns);
        member.bytes = (member.bytes + step).clamp(0.0, bytes);
        change = change.max(member.update_speed(table));
    }
    change
}

/// Changes the occupancies towards those that `fit` returns for each member, with the share that is counted for other
/// threads. Returns the largest relative change of a speed.
fn step_to(
    members: &mut [CacheMember],
    tables: &[&FillTable],
    fit: impl Fn(usize) -> (f64, f64),
    relaxation: f64,
) -> f64 {
    let mut change = 0.0f64;
    for (nth, (member, table)) in members.iter_mut().zip(tables).enumerate() {
        let (fit, elsewhere) = fit(nth);
        member.elsewhere = elsewhere;
        member.sensitivity = 1.0; // It is not known: a change of the others' speeds is assumed to act fully.
        member.bytes += relaxation * (fit - member.bytes);
        change = change.max(member.update_speed(table));
    }
    change
}
