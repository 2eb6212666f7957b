//! Keys of a machine file that have no effect on its machine. A result would not show the physics that the file requests.
//!
//! Neutral values are accepted, so that a file can be changed in one place for an experiment. The keys of a grain are checked
//! with its [settings](crate::frame::GrainSettings).

use base::NodeId;
use topology::{Machine, MemoryAccess, SmtSharing};

/// A key without effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum InertKey {
    #[error("smt of physics has no effect, because no core has SMT siblings: remove the key")]
    Smt,
    #[error(
        "smt_throughput (formerly smt) of the kind {0:?} has no effect, because its cores have no SMT siblings: remove the key"
    )]
    SmtThroughput(String),
    #[error(
        "smt_throughput of the kind {kind:?} has {n_values} values, of which {n_siblings} {} an effect, because its cores have {} CPUs at most: remove the others",
        if *n_siblings == 1 { "has" } else { "have" },
        n_siblings + 1
    )]
    SmtThroughputValues { kind: String, n_values: usize, n_siblings: usize },
    #[error(
        "prefetch_loss of physics has no effect, because no core has a prefetcher: remove the key, or prefetcher = false"
    )]
    PrefetchLoss,
    #[error(
        "the access from {from} to {to} has no effect, because {from} has no CPUs: remove the entry"
    )]
    Access { from: NodeId, to: NodeId },
}

/// Returns an error for the first key without effect.
pub(crate) fn check(machine: &Machine) -> Result<(), InertKey> {
    let known = machine.perf_attributes();
    let smt_cores = || machine.cores().iter().filter(|core| 1 < core.cpus.len());
    if known.physics.smt != SmtSharing::Equal && smt_cores().next().is_none() {
        return Err(InertKey::Smt);
    }
    for (kind, attributes) in &known.kinds {
        let n_values = attributes.smt_throughput_permille.as_ref().map_or(0, |it| it.values.len());
        let of_kind = smt_cores().filter(|core| core.kind == *kind);
        let n_siblings = of_kind.map(|core| core.cpus.len() - 1).max().unwrap_or(0);
        if n_siblings < n_values {
            let kind = kind.clone();
            return Err(match n_siblings {
                0 => InertKey::SmtThroughput(kind),
                _ => InertKey::SmtThroughputValues { kind, n_values, n_siblings },
            });
        }
    }
    let has_prefetcher = |core: &topology::Core| {
        let kind = known.kinds.get(&core.kind);
        kind.and_then(|kind| kind.has_prefetcher).unwrap_or(true)
    };
    let is_lossy = known.physics.prefetch_loss_permille.is_some_and(|loss| 0 < loss.value);
    if is_lossy && !machine.cores().is_empty() && !machine.cores().iter().any(has_prefetcher) {
        return Err(InertKey::PrefetchLoss);
    }
    // The access of a node to itself has the values of its memory.
    let has_cpus = |id| machine.node(id).is_some_and(|node| !node.cpus.is_empty());
    let is_inert = |access: &&MemoryAccess| access.from != access.to && !has_cpus(access.from);
    if let Some(access) = known.accesses.iter().find(is_inert) {
        return Err(InertKey::Access { from: access.from, to: access.to });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{SimOptions, check_machine};

    /// Checks a machine with three CPUs, these CPUs of its cores, and these keys. The last core is of the kind `small`.
    fn message(cores: &[&str], keys: &str) -> String {
        let core = |(id, cpus): (usize, &&str)| {
            let kind = if id + 1 == cores.len() { "small" } else { "large" };
            format!("{{ id = {id}, cpus = \"{cpus}\", kind = \"{kind}\" }}")
        };
        let cores: Vec<String> = cores.iter().enumerate().map(core).collect();
        let text = format!(
            "format_version = 2\ncores = [{}]\ncpus = [{{ id = 0 }}, {{ id = 1 }}, {{ id = 2 }}]\n{keys}\n",
            cores.join(", ")
        );
        let machine = topology::file::parse_toml(&text, "x").expect("a machine");
        let result = check_machine(&machine, &SimOptions::default());
        result.err().map_or("valid".to_owned(), |error| error.to_string())
    }

    #[test]
    fn keys_of_smt_siblings_need_siblings() {
        let smt = "physics = { smt = \"by-pair\" }";
        assert_eq!(message(&["0-1", "2"], smt), "valid");
        assert_eq!(
            message(&["0", "1", "2"], smt),
            "smt of physics has no effect, because no core has SMT siblings: remove the key"
        );
        assert_eq!(message(&["0", "1", "2"], "physics = { smt = \"equal\" }"), "valid");
        let throughput = "core_kinds = [{ kind = \"large\", smt_throughput = { permille = [1240], source = \"assumed\" } }]";
        assert_eq!(message(&["0-1", "2"], throughput), "valid");
        assert_eq!(
            message(&["0", "1-2"], throughput),
            "smt_throughput (formerly smt) of the kind \"large\" has no effect, because its cores have no SMT siblings: remove the key"
        );
    }

    #[test]
    fn each_value_of_smt_throughput_needs_siblings() {
        let message = |cores: &[&str], values: &str| {
            let list = format!("smt_throughput = {{ permille = {values}, source = \"assumed\" }}");
            message(cores, &format!("core_kinds = [{{ kind = \"small\", {list} }}]"))
        };
        assert_eq!(message(&["0", "1-2"], "[1240]"), "valid");
        assert_eq!(message(&["0-2"], "[1240, 1500]"), "valid");
        assert_eq!(
            message(&["0-2"], "[1240]"),
            "valid",
            "the last value is that of all larger numbers"
        );
        assert_eq!(
            message(&["0", "1-2"], "[1240, 1500]"),
            "smt_throughput of the kind \"small\" has 2 values, of which 1 has an effect, because its cores have 2 CPUs at most: remove the others"
        );
    }

    #[test]
    fn accesses_need_cpus() {
        let message = |from: u32, to: u32| {
            let text = format!(
                "format_version = 2\nnodes = [{{ id = 0, cpus = \"0\" }}, {{ id = 1, cpus = \"\" }}]\ncpus = [{{ id = 0 }}]\naccesses = [{{ from_node = {from}, to_node = {to}, latency = {{ ns = 200, source = \"assumed\" }} }}]\n"
            );
            let machine = topology::file::parse_toml(&text, "x").expect("a machine");
            let result = check_machine(&machine, &SimOptions::default());
            result.err().map_or("valid".to_owned(), |error| error.to_string())
        };
        assert_eq!(message(0, 1), "valid");
        assert_eq!(message(1, 1), "valid", "values of the memory");
        assert_eq!(
            message(1, 0),
            "the access from node1 to node0 has no effect, because node1 has no CPUs: remove the entry"
        );
    }

    #[test]
    fn lost_prefetches_need_a_prefetcher() {
        let message = |kinds: &str, permille: u32| {
            let loss = format!("prefetch_loss = {{ permille = {permille}, source = \"assumed\" }}");
            message(&["0-1", "2"], &format!("core_kinds = [{kinds}]\nphysics = {{ {loss} }}"))
        };
        let large = "{ kind = \"large\", prefetcher = false }";
        let both = format!("{large}, {{ kind = \"small\", prefetcher = false }}");
        assert_eq!(message("", 500), "valid");
        assert_eq!(message(large, 500), "valid", "the kind small has one");
        assert_eq!(message(&both, 0), "valid", "a neutral value");
        assert_eq!(
            message(&both, 500),
            "prefetch_loss of physics has no effect, because no core has a prefetcher: remove the key, or prefetcher = false"
        );
    }
}
