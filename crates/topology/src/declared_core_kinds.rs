//! Declared core kinds: the text of `--core-kinds`, which replaces the detected kinds.
//!
//! ```text
//!   performance=0-3,8-11:1024,efficiency=4-7:600
//!   kind        CPUs     capacity
//! ```
//!
//! The list of CPUs may contain commas. A new kind begins at the next name with `=`.

use std::collections::BTreeMap;
use std::str::FromStr;

use base::{CpuId, CpuSet, ParseSetError, excerpt};

use crate::machine::check::{KIND_NAME_FORM, is_kind_name};
use crate::{
    CAPACITY_MAX, CORE_KINDS_MAX, Core, CoreKindSource, CoreKindsSource, Machine, MachineError,
};

/// Kinds with their CPUs and capacities. Each CPU is in at most one kind, and one kind has the capacity 1024.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredCoreKinds {
    text: String,
    kinds: BTreeMap<String, (CpuSet, u32)>,
}

/// Error in declared core kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum CoreKindsError {
    #[error("{0:?} is not a core kind; write NAME=CPUS:CAPACITY such as performance=0-7:1024")]
    Form(String),
    #[error("the name {0:?} is not valid: {KIND_NAME_FORM}; write a name such as performance")]
    Name(String),
    #[error("the kind {0} is listed twice; write all of its CPUs in one list")]
    DuplicateKind(String),
    #[error("the kind {kind} has an invalid list of CPUs: {source}")]
    List { kind: String, source: ParseSetError },
    #[error("the kind {0} has no CPU; write a list such as 0-7")]
    Empty(String),
    #[error("the kind {kind} has the capacity {text:?}; write a number from 1 to 1024")]
    Capacity { kind: String, text: String },
    #[error("no kind has the capacity 1024; write 1024 for the fastest kind")]
    NoFastest,
    #[error("the kind {kind} lists {cpu} twice; write each CPU once")]
    ListedTwice { kind: String, cpu: CpuId },
    #[error("{} in the kinds {first} and {second}; write each CPU once", cpus_are(cpus))]
    SharedCpu { cpus: CpuSet, first: String, second: String },
    #[error(
        "the kind {kind} has CPUs {cpus}, which do not exist on this machine; its CPUs are {present}"
    )]
    UnknownCpu { kind: String, cpus: CpuSet, present: CpuSet },
    #[error(
        "the kind {kind} has no usable CPU: this process may use CPUs {allowed}; start evenkeel with an affinity or a cpuset that contains one of the CPUs {cpus}"
    )]
    NoUsableCpu { kind: String, cpus: CpuSet, allowed: CpuSet },
    #[error("the kind {0} has no online CPU; remove the kind, or set one of its CPUs online")]
    Offline(String),
    #[error("{} online and in no kind; write each online CPU in one kind", cpus_are(.0))]
    Missing(CpuSet),
    #[error("SMT siblings {0} are in several kinds; write all siblings of a core in one kind")]
    SplitCore(CpuSet),
    #[error("{0}")]
    Machine(#[from] MachineError),
}

impl FromStr for DeclaredCoreKinds {
    type Err = CoreKindsError;

    fn from_str(text: &str) -> Result<Self, CoreKindsError> {
        let mut kinds: BTreeMap<String, (CpuSet, u32)> = BTreeMap::new();
        for entry in entries(text) {
            if kinds.len() == CORE_KINDS_MAX {
                return Err(MachineError::TooManyKinds.into());
            }
            let (name, cpus, capacity) = entry_of(&entry)?;
            if kinds.contains_key(&name) {
                return Err(CoreKindsError::DuplicateKind(name));
            }
            let shared = kinds.iter().find(|(_, (others, _))| others.intersects(&cpus));
            if let Some((first, (others, _))) = shared {
                let (cpus, first) = (cpus.and(others), first.clone());
                return Err(CoreKindsError::SharedCpu { cpus, first, second: name });
            }
            kinds.insert(name, (cpus, capacity));
        }
        if kinds.values().all(|(_, capacity)| *capacity != CAPACITY_MAX) {
            return Err(CoreKindsError::NoFastest);
        }
        Ok(DeclaredCoreKinds { text: text.to_owned(), kinds })
    }
}

impl DeclaredCoreKinds {
    /// Returns the text of the option.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the machine with these kinds instead of its own.
    ///
    /// # Errors
    /// [`CoreKindsError`] if the kinds and the machine have different CPUs.
    pub fn apply(&self, machine: &Machine) -> Result<Machine, CoreKindsError> {
        self.check(machine)?;
        let mut parts = machine.parts().clone();
        for core in &mut parts.cores {
            let (kind, capacity) = self.kind_of(core)?;
            (core.kind, core.capacity) = (kind.to_owned(), capacity);
        }
        let source = CoreKindSource::Option;
        parts.core_kinds_source =
            Some(CoreKindsSource { kinds: vec![source], capacity: Some(source) });
        Ok(Machine::new(parts)?)
    }

    fn check(&self, machine: &Machine) -> Result<(), CoreKindsError> {
        let present: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
        for (kind, (cpus, _)) in &self.kinds {
            let unknown = cpus.minus(&present);
            if !unknown.is_empty() {
                return Err(CoreKindsError::UnknownCpu {
                    kind: kind.clone(),
                    cpus: unknown,
                    present,
                });
            }
            let online = cpus.and(machine.online());
            if online.is_empty() {
                return Err(CoreKindsError::Offline(kind.clone()));
            }
            if !online.intersects(machine.allowed()) {
                let (kind, allowed) = (kind.clone(), machine.allowed().clone());
                return Err(CoreKindsError::NoUsableCpu { kind, cpus: online, allowed });
            }
        }
        let listed = self.kinds.values().fold(CpuSet::new(), |all, (cpus, _)| all.or(cpus));
        let missing = machine.online().minus(&listed);
        if missing.is_empty() { Ok(()) } else { Err(CoreKindsError::Missing(missing)) }
    }

    fn kind_of(&self, core: &Core) -> Result<(&str, u32), CoreKindsError> {
        let kind = self.kinds.iter().find(|(_, (cpus, _))| core.cpus.is_subset(cpus));
        let (kind, (_, capacity)) =
            kind.ok_or_else(|| CoreKindsError::SplitCore(core.cpus.clone()))?;
        Ok((kind, *capacity))
    }
}

/// Returns the beginning of a sentence about CPUs.
fn cpus_are(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("CPU {cpus} is") } else { format!("CPUs {cpus} are") }
}

/// Splits the text at commas that are followed by a name with `=`.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match entries.last_mut() {
            Some(entry) if !piece.contains('=') => {
                entry.push(',');
                entry.push_str(piece);
            }
            _ => entries.push(piece.to_owned()),
        }
    }
    entries
}

fn entry_of(entry: &str) -> Result<(String, CpuSet, u32), CoreKindsError> {
    let form = || CoreKindsError::Form(excerpt(entry));
    let (name, rest) = entry.split_once('=').ok_or_else(form)?;
    let (list, capacity) = rest.rsplit_once(':').ok_or_else(form)?;
    let kind = name.trim().to_owned();
    if !is_kind_name(&kind) {
        return Err(CoreKindsError::Name(excerpt(&kind)));
    }
    let ids: Result<CpuSet, _> = list.trim().parse();
    let cpus = ids.map_err(|source| CoreKindsError::List { kind: kind.clone(), source })?;
    if cpus.is_empty() {
        return Err(CoreKindsError::Empty(kind));
    }
    if let Some(cpu) = listed_twice(list) {
        return Err(CoreKindsError::ListedTwice { kind, cpu });
    }
    match capacity.trim().parse::<u32>() {
        Ok(number) if (1..=CAPACITY_MAX).contains(&number) => Ok((kind, cpus, number)),
        _ => Err(CoreKindsError::Capacity { kind, text: excerpt(capacity.trim()) }),
    }
}

/// Returns a CPU that several parts of a list contain.
fn listed_twice(list: &str) -> Option<CpuId> {
    let mut all = CpuSet::new();
    for part in list.split(',').filter_map(|part| part.trim().parse::<CpuSet>().ok()) {
        if let Some(cpu) = all.and(&part).first() {
            return Some(cpu);
        }
        all = all.or(&part);
    }
    None
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// Applies kinds to a machine with 4 cores of two siblings. Returns its kinds or the error.
    fn applied(text: &str) -> String {
        let machine = Machine::synthetic("cores=4 smt=2").expect("a machine");
        let applied = text.parse::<DeclaredCoreKinds>().and_then(|kinds| kinds.apply(&machine));
        let machine = match applied {
            Ok(machine) => machine,
            Err(error) => return error.to_string(),
        };
        let cores = machine.cores().iter();
        let cores = cores.map(|core| format!("{} {} {}", core.cpus, core.kind, core.capacity));
        let source = machine.core_kinds_source().map(ToString::to_string);
        cores.chain(source).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn declared_kinds_replace_the_kinds_of_the_machine() {
        let kinds = applied("performance=0-1,6-7:1024,efficiency=2-5:600");
        expect![[r#"
            0-1 performance 1024
            2-3 efficiency 600
            4-5 efficiency 600
            6-7 performance 1024
            source of the core kinds: option; of the capacities: option"#]]
        .assert_eq(&kinds);
    }

    #[test]
    fn one_kind_for_all_cpus_is_valid() {
        let kinds = applied("uniform=0-7:1024");
        expect![[r#"
            0-1 uniform 1024
            2-3 uniform 1024
            4-5 uniform 1024
            6-7 uniform 1024
            source of the core kinds: option; of the capacities: option"#]]
        .assert_eq(&kinds);
    }

    #[test]
    fn each_error_names_the_kind_and_the_remedy() {
        let texts = [
            "",
            "p",
            "p=0-7",
            "p c=0-7:1024",
            "p=0-x:1024",
            "p=:1024",
            "p=0-7:1025",
            "p=0-7:0",
            "p=0-7:1000",
            "p=0-3:1024,e=3-7:600",
            "p=0-3,2-7:1024",
            "p=0-3:1024,p=4-7:600",
            "p=0-3:1024,p=3-7:600",
            "p=0-9:1024",
            "p=0-5:1024",
            "p=0-6:1024",
            "p=0-2:1024,e=3-7:600",
        ];
        let lines = texts.map(|text| format!("{text}\n    {}\n", applied(text)));
        expect![[r#"

                "" is not a core kind; write NAME=CPUS:CAPACITY such as performance=0-7:1024
            p
                "p" is not a core kind; write NAME=CPUS:CAPACITY such as performance=0-7:1024
            p=0-7
                "p=0-7" is not a core kind; write NAME=CPUS:CAPACITY such as performance=0-7:1024
            p c=0-7:1024
                the name "p c" is not valid: a name has 1 to 100 letters, digits and -; write a name such as performance
            p=0-x:1024
                the kind p has an invalid list of CPUs: "0-x" is not a number or a range; write a list such as 0-3,8
            p=:1024
                the kind p has no CPU; write a list such as 0-7
            p=0-7:1025
                the kind p has the capacity "1025"; write a number from 1 to 1024
            p=0-7:0
                the kind p has the capacity "0"; write a number from 1 to 1024
            p=0-7:1000
                no kind has the capacity 1024; write 1024 for the fastest kind
            p=0-3:1024,e=3-7:600
                CPU 3 is in the kinds p and e; write each CPU once
            p=0-3,2-7:1024
                the kind p lists cpu2 twice; write each CPU once
            p=0-3:1024,p=4-7:600
                the kind p is listed twice; write all of its CPUs in one list
            p=0-3:1024,p=3-7:600
                the kind p is listed twice; write all of its CPUs in one list
            p=0-9:1024
                the kind p has CPUs 8-9, which do not exist on this machine; its CPUs are 0-7
            p=0-5:1024
                CPUs 6-7 are online and in no kind; write each online CPU in one kind
            p=0-6:1024
                CPU 7 is online and in no kind; write each online CPU in one kind
            p=0-2:1024,e=3-7:600
                SMT siblings 2-3 are in several kinds; write all siblings of a core in one kind
        "#]].assert_eq(&lines.concat());
    }

    #[test]
    fn long_lists_and_names_are_rejected_with_a_short_error() {
        let kinds = (0..65).map(|cpu| format!("k{cpu}={cpu}:1024")).collect::<Vec<_>>().join(",");
        let long = "x".repeat(100_000);
        let texts = [
            kinds,
            format!("{long}=0-7:1024"),
            format!("p={long}:1024"),
            format!("p=0-7:{long}"),
            long,
            "\u{1b}[31m\u{202e}\n=0-7:1024".to_owned(),
            "=0-7:1024".to_owned(),
        ];
        let x = "x".repeat(99);
        let lines = texts.map(|text| applied(&text).replace(&x, "XX") + "\n");
        expect![[r#"
            there are more than 64 core kinds; give cores of equal speed the same kind
            the name "XX…" is not valid: a name has 1 to 100 letters, digits and -; write a name such as performance
            the kind p has an invalid list of CPUs: "XX…" is not a number or a range; write a list such as 0-3,8
            the kind p has the capacity "XX…"; write a number from 1 to 1024
            "XX…" is not a core kind; write NAME=CPUS:CAPACITY such as performance=0-7:1024
            the name "\u{1b}[31m\u{202e}" is not valid: a name has 1 to 100 letters, digits and -; write a name such as performance
            the name "" is not valid: a name has 1 to 100 letters, digits and -; write a name such as performance
        "#]].assert_eq(&lines.concat());
    }

    /// Applies kinds to a machine whose CPUs 6 and 7 are changed. Returns the error.
    fn error_with(change: impl Fn(&mut crate::Cpu)) -> String {
        let mut parts = Machine::synthetic("cores=4 smt=2").expect("a machine").parts().clone();
        parts.cpus[6..].iter_mut().for_each(change);
        let machine = Machine::new(parts).expect("a machine");
        let kinds: DeclaredCoreKinds = "p=0-5:1024,e=6-7:600".parse().expect("kinds");
        kinds.apply(&machine).expect_err("no usable CPU").to_string()
    }

    #[test]
    fn a_kind_needs_a_usable_cpu() {
        let error = error_with(|cpu| cpu.allowed = false);
        let reason = "the kind e has no usable CPU: this process may use CPUs 0-5; ";
        let remedy =
            "start evenkeel with an affinity or a cpuset that contains one of the CPUs 6-7";
        assert_eq!(error, format!("{reason}{remedy}"));
    }

    #[test]
    fn a_kind_needs_an_online_cpu() {
        let error = error_with(|cpu| cpu.online = false);
        let remedy = "remove the kind, or set one of its CPUs online";
        assert_eq!(error, format!("the kind e has no online CPU; {remedy}"));
    }
}
