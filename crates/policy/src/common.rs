//! What several policies need: how crowded each CPU is, and values that several can be told.

use base::{CpuId, CpuSet, Nanos, NodeId};
use program::MemoryPolicy;
use sched::{CounterEvent, JobState, JobView, Reason, ReasonCode, Snapshot, Wake};
use topology::DomainChoice;

/// Four turns a second, as the published scheduler polls.
pub(crate) const INTERVAL: Nanos = Nanos::from_millis(250);

/// What [`interval`] reads.
pub(crate) const INTERVAL_TAKES: &str = "a time with its unit, from 1ms to 60min";

/// A time between two turns. Less than a millisecond would be busy waiting, more than an hour a slip;
/// so would a bare number be, which elsewhere means seconds and here is thought of in milliseconds.
pub(crate) fn interval(text: &str) -> Option<Nanos> {
    if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return None;
    }
    let (least, most) = (Nanos::from_millis(1), Nanos::from_secs(3600));
    text.parse().ok().filter(|interval| (least..=most).contains(interval))
}

/// What [`short`] reads.
pub(crate) const SHORT_TAKES: &str = "a time with its unit, up to 1min";

/// A time that may be very short, or nothing.
pub(crate) fn short(text: &str) -> Option<Nanos> {
    if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return None;
    }
    text.parse().ok().filter(|time| *time <= Nanos::from_secs(60))
}

/// What [`wake`] reads.
pub(crate) const WAKE_TAKES: &str =
    "poll, or overflow:WHAT:COUNT such as overflow:llc-misses:1000000 (COUNT up to 10^15)";

/// What brings about a poll. A count of nothing would be an overflow all the time.
pub(crate) fn wake(text: &str) -> Option<Wake> {
    if text == "poll" {
        return Some(Wake::Poll);
    }
    let (event, every) = text.strip_prefix("overflow:")?.split_once(':')?;
    let every = whole(every, 1, 1_000_000_000_000_000)?;
    Some(Wake::Overflow { event: CounterEvent::of_name(event)?, every })
}

/// What [`domains`] reads.
pub(crate) const DOMAINS_TAKES: &str = "auto, node, llc or core";

/// A level of places.
pub(crate) fn domains(text: &str) -> Option<DomainChoice> {
    text.parse().ok()
}

/// The same for a policy that is about caches: `auto` means them first.
pub(crate) fn cache_domains(text: &str) -> Option<DomainChoice> {
    domains(text)
        .map(|choice| if choice == DomainChoice::Auto { DomainChoice::Caches } else { choice })
}

/// A whole number within limits.
pub(crate) fn whole(text: &str, least: u64, most: u64) -> Option<u64> {
    let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|value| (least..=most).contains(value))
}

/// Millionths in a whole.
pub(crate) const MILLION: u64 = 1_000_000;

/// A decimal number in millionths; more than six places behind the point are too fine.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let (whole_part, behind) = text.split_once('.').unwrap_or((text, "0"));
    let digits = behind.len();
    let whole_part = whole(whole_part, 0, MILLION)?;
    let scale = 10u64.checked_pow(6u32.checked_sub(u32::try_from(digits).ok()?)?)?;
    Some(whole_part * MILLION + whole(behind, 0, MILLION)? * scale)
}

/// How many programs are on each CPU.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    on: Vec<u32>,
}

impl Crowd {
    /// Counts the jobs that run where they were put, by us or by somebody else.
    pub fn count(&mut self, jobs: &[JobView<'_>]) {
        self.on.clear();
        let running = jobs.iter().filter(|seen| seen.state == JobState::Running);
        running.filter_map(|seen| seen.placed).for_each(|cpus| self.add(cpus));
    }

    /// One more program there.
    pub fn add(&mut self, cpus: &CpuSet) {
        let Some(last) = cpus.last() else { return };
        if self.on.len() <= last.index() {
            self.on.resize(last.index() + 1, 0);
        }
        cpus.iter().for_each(|cpu| self.on[cpu.index()] += 1);
    }

    /// One program less there.
    pub fn remove(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            if let Some(n_jobs) = self.on.get_mut(cpu.index()) {
                *n_jobs = n_jobs.saturating_sub(1);
            }
        }
    }

    fn on(&self, cpu: CpuId) -> u32 {
        self.on.get(cpu.index()).copied().unwrap_or(0)
    }

    /// The `n` of these CPUs with the fewest programs, by number where equal; all of them when
    /// there are no more than `n`.
    pub fn emptiest(&self, cpus: &CpuSet, n: u32) -> CpuSet {
        let key = |&cpu: &CpuId| (self.on(cpu), cpu);
        if n <= 1 {
            return cpus.iter().min_by_key(key).into_iter().collect();
        }
        let mut by_crowd: Vec<CpuId> = cpus.iter().collect();
        by_crowd.sort_unstable_by_key(key);
        by_crowd.into_iter().take(n as usize).collect()
    }
}

/// Whether CPUs that a job was put on can no longer be used, so that it has to be put elsewhere.
///
/// A job that keeps as many CPUs as it has threads stays: it was given more room than it needs.
pub(crate) fn has_lost_its_place(seen: &JobView<'_>, usable: &CpuSet) -> bool {
    let Some(placed) = seen.placed.filter(|_| seen.state == JobState::Running && seen.movable)
    else {
        return false;
    };
    if placed.is_subset(usable) {
        return false;
    }
    let n_left = placed.iter().filter(|&cpu| usable.contains(cpu)).count();
    n_left < placed.len().min(seen.job.threads as usize)
}

/// Whether a job was put on several domains, having more threads than one has CPUs: it loads all of
/// them, and no move to another makes it any narrower.
pub(crate) fn is_stretched(seen: &Snapshot<'_>, job: &JobView<'_>) -> bool {
    let Some(placed) = job.placed else { return false };
    // Asked of every job in every turn, and nearly always answered here.
    if job.domain.is_some_and(|idx| placed.is_subset(&seen.domains.get(idx).cpus)) {
        return false;
    }
    let left = placed.and(seen.usable_cpus);
    !left.is_empty() && seen.domains.of_set(&left).is_none()
}

/// The CPUs of a node beside some of them, for a job that needs more than these; of all that it may
/// use where they lie on no node.
pub(crate) fn beside(seen: &Snapshot<'_>, job: &JobView<'_>, cpus: &CpuSet) -> CpuSet {
    let node = cpus.first().and_then(|cpu| seen.machine.cpu(cpu)?.node);
    let all = match node.and_then(|id| seen.machine.node(id)) {
        Some(node) => node.cpus.and(job.allowed),
        None => job.allowed.clone(),
    };
    all.and(seen.usable_cpus).minus(cpus)
}

/// With a single CPU there is nothing to choose between.
pub(crate) fn can_place(seen: &Snapshot<'_>) -> bool {
    1 < seen.usable_cpus.len() && !seen.domains.is_empty()
}

/// Why nothing is placed, if nothing can be.
pub(crate) fn nothing_to_place(seen: &Snapshot<'_>) -> Option<Reason> {
    if seen.usable_cpus.len() <= 1 {
        return Some(Reason::new(ReasonCode::NothingToPlace));
    }
    let level = seen.domains.level().to_string();
    seen.domains.is_empty().then(|| Reason::new(ReasonCode::NoPlaces).with("level", level))
}

/// The first of some names: more would not be read.
pub(crate) fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const N_NAMES: usize = 8;
    let names: Vec<&str> = names.collect();
    let mut told = names[..names.len().min(N_NAMES)].join(", ");
    if N_NAMES < names.len() {
        told.push_str(&format!(" and {} more", names.len() - N_NAMES));
    }
    told
}

/// Thousandths as people read them: `0.250`.
pub(crate) fn permille_text(permille: u64) -> String {
    format!("{}.{:03}", permille / 1000, permille % 1000)
}

/// What people call a set of CPUs: `cpu 3`, `cpus 0-3`.
pub(crate) fn cpus_label(cpus: &CpuSet) -> String {
    match cpus.first().filter(|first| cpus.last() == Some(*first)) {
        Some(only) => format!("cpu {}", only.0),
        None => format!("cpus {cpus}"),
    }
}

/// How many nodes have memory that we may use.
pub(crate) fn n_nodes_with_memory(seen: &Snapshot<'_>) -> usize {
    seen.machine.nodes_with_memory().len()
}

/// The one node that a job's memory is told to come from.
pub(crate) fn declared_node(job: &JobView<'_>) -> Option<NodeId> {
    let nodes = match job.job.memory.as_ref()? {
        MemoryPolicy::Bind(nodes) | MemoryPolicy::Preferred(nodes) => nodes,
        MemoryPolicy::Interleave(_) | MemoryPolicy::WeightedInterleave(_) => return None,
    };
    nodes.first().filter(|_| nodes.len() == 1)
}
