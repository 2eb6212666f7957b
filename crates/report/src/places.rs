//! What people call a set of CPUs.

use base::CpuSet;
use topology::{DomainChoice, Domains, Level, Machine};

/// Names sets of CPUs by the placement domains of a run, once their level is known.
#[derive(Clone, Debug)]
pub struct PlaceNames {
    domains: Option<Domains>,
}

impl PlaceNames {
    /// For domains of this level among these CPUs; without a level only CPUs are named.
    pub fn new(machine: &Machine, level: Option<Level>, usable: &CpuSet) -> Self {
        let of = |level| Domains::of(machine, DomainChoice::At(level), usable);
        PlaceNames { domains: level.map(of) }
    }

    /// `core 1` for all CPUs of a domain, `cpu 3 on node 0` for a part of one, else `cpus 0-5`.
    pub fn place(&self, cpus: &CpuSet) -> String {
        let Some((domains, idx)) =
            self.domains.as_ref().and_then(|domains| Some((domains, domains.of_set(cpus)?)))
        else {
            return cpu_words(cpus);
        };
        if &domains.get(idx).cpus == cpus {
            return domains.label(idx);
        }
        format!("{} on {}", cpu_words(cpus), domains.label(idx))
    }

    /// The domains, if their level is known.
    pub fn domains(&self) -> Option<&Domains> {
        self.domains.as_ref()
    }
}

/// `cpu 3`, `cpus 0-2`.
pub fn cpu_words(cpus: &CpuSet) -> String {
    match cpus.len() {
        0 => "no CPU".to_owned(),
        1 => format!("cpu {cpus}"),
        _ => format!("cpus {cpus}"),
    }
}
