//! Slowdown of a program by remote memory, measured alone.

use std::collections::BTreeMap;

use super::testbed::ProgramPart;
use super::{ReproduceError, RunPool, Testbed};
use crate::stats::mean;

/// Measures the slowdown of each program by remote memory, in permille. Each program runs alone with its memory on the
/// first node: once on the CPUs of the first node, once on the CPUs of the last node.
pub(super) fn measured_penalties(
    pool: &RunPool<'_>,
    testbed: &Testbed,
    programs: &[String],
) -> Result<BTreeMap<String, u32>, ReproduceError> {
    let mut testbed = testbed.clone();
    let nodes = testbed.machine.nodes();
    let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else {
        return Ok(BTreeMap::new());
    };
    let (memory, cpus) = (Some(first.id), [first.cpus.clone(), last.cpus.clone()]);
    let mut names = Vec::new();
    for program in programs {
        for (cpus, place) in cpus.iter().zip(["local", "remote"]) {
            let part =
                ProgramPart { cpus: Some(cpus.clone()), memory, ..ProgramPart::new(program) };
            let name = format!("{program} {place}");
            testbed.add(&name, &[part])?;
            names.push(name);
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let runs = pool.run(&testbed, &["linux"], &names, pool.seeds())?.concat();
    let seconds = |idx: usize| mean(&runs[idx].job_s(0));
    let penalty = |idx: usize| {
        let (local, remote) = (seconds(2 * idx), seconds(2 * idx + 1));
        if local <= 0.0 { 0 } else { ((remote / local - 1.0).max(0.0) * 1000.0) as u32 }
    };
    Ok(programs.iter().enumerate().map(|(idx, name)| (name.clone(), penalty(idx))).collect())
}

#[cfg(test)]
mod tests {
    use base::StopFlag;

    use super::*;

    #[test]
    fn a_memory_bound_program_has_a_larger_remote_penalty_than_a_compute_bound_one() {
        let stop = StopFlag::default();
        let pool = RunPool::new(vec![1], 1, 1, &stop, &|_, _| ());
        let testbed = Testbed::parse("xeon-e5520-2x4 length=10").expect("it ships");
        let programs = ["444.namd", "429.mcf"].map(str::to_owned);
        let penalties = measured_penalties(&pool, &testbed, &programs).expect("it runs");
        assert!(penalties["444.namd"] < 20 && 100 < penalties["429.mcf"]);
    }
}
