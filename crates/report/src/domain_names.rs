//! Names of CPU sets: `core 1`, `cpu 3 on node 0`, `cpus 0-5`.
//!
//! The level of the placement domains can change during a run, when CPUs go offline or online. `llc 1` may then be a
//! domain in one turn and not in the next turn. Therefore each entry of a report stores the epoch of its turn. At the
//! end, the CPUs of an entry are named by the domains of that epoch.

use base::CpuSet;
use engine::TurnRecord;
use topology::{DomainChoice, Domains, Level, Machine};

/// Names CPU sets by the placement domains of a run.
#[derive(Clone, Debug)]
pub struct DomainNames {
    domains: Option<Domains>,
}

impl DomainNames {
    /// Creates names from the domains of this level among the usable CPUs. Without a level, sets are named by their
    /// CPUs.
    pub fn new(machine: &Machine, level: Option<Level>, usable: &CpuSet) -> Self {
        let domains = |level| Domains::select(machine, DomainChoice::At(level), usable);
        DomainNames { domains: level.map(domains) }
    }

    /// Returns `core 1` for all CPUs of a domain, `cpu 3 on node 0` for a part of a domain, else `cpus 0-5`.
    pub fn label(&self, cpus: &CpuSet) -> String {
        let Some((domains, idx)) =
            self.domains.as_ref().and_then(|domains| Some((domains, domains.of_set(cpus)?)))
        else {
            return cpu_phrase(cpus);
        };
        if &domains.get(idx).cpus == cpus {
            return domains.label(idx);
        }
        format!("{} on {}", cpu_phrase(cpus), domains.label(idx))
    }

    /// Returns the domains, if their level is known.
    pub fn domains(&self) -> Option<&Domains> {
        self.domains.as_ref()
    }
}

/// Returns a set of CPUs as `cpu 3` or `cpus 0-2`.
pub fn cpu_phrase(cpus: &CpuSet) -> String {
    match cpus.len() {
        0 => "no CPU".to_owned(),
        1 => format!("cpu {cpus}"),
        _ => format!("cpus {cpus}"),
    }
}

/// Distinct combinations of domain level and usable CPUs during a run.
#[derive(Debug)]
pub(crate) struct Epochs {
    list: Vec<(Option<Level>, CpuSet)>,
    current: Epoch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(usize);

#[derive(Debug)]
pub(crate) struct EpochNames(Vec<DomainNames>);

impl Epochs {
    pub fn new(machine: &Machine) -> Self {
        Epochs { list: vec![(None, machine.allowed().clone())], current: Epoch(0) }
    }

    pub fn current(&self) -> Epoch {
        self.current
    }

    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        let level = record.current_load_basis().map(|basis| basis.level);
        self.update(level, record.sample.usable_cpus.as_ref());
    }

    /// Updates the level and the usable CPUs. `None` leaves a value unchanged.
    pub fn update(&mut self, level: Option<Level>, usable: Option<&CpuSet>) {
        let (current_level, current_usable) = &self.list[self.current.0];
        let (level, usable) = (level.or(*current_level), usable.unwrap_or(current_usable));
        if (level, usable) == (*current_level, current_usable) {
            return;
        }
        let known = self.list.iter().position(|(one, cpus)| (*one, cpus) == (level, usable));
        let usable = usable.clone();
        self.current = Epoch(known.unwrap_or(self.list.len()));
        if known.is_none() {
            self.list.push((level, usable));
        }
    }

    /// Returns the names of each epoch. Epochs before the first known level use that level.
    pub fn names(&self, machine: &Machine) -> EpochNames {
        let first = self.list.iter().find_map(|(level, _)| *level);
        let names = |(level, usable): &(Option<Level>, CpuSet)| {
            DomainNames::new(machine, level.or(first), usable)
        };
        EpochNames(self.list.iter().map(names).collect())
    }
}

impl EpochNames {
    pub fn of(&self, epoch: Epoch) -> &DomainNames {
        &self.0[epoch.0]
    }
}
