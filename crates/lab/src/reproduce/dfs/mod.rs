//! The report on DFS, a user-level scheduler for the TILEPro64 (spec 1.11).
//!
//! ```text
//!   the report's default scheduler: memory striped over all controllers, one node
//!   the report's DFS:               memory by node, four nodes            └── other memory AND other scheduler
//! ```
//!
//! That the two differ in where memory lies, too, is the report's trap. So there are two baselines here: the
//! chip as delivered (`tilepro64-striped`, whose four controllers are one) and the chip by node with all memory
//! interleaved; and beside them the default scheduler with memory by node, which tells what DFS itself does.

mod ceiling;
mod discussion;
mod draws;
mod figures;
mod question;
mod signal;

use super::found::Reading;
use super::{Experiment, ReproduceError, Study, World};

/// All that is reproduced of it.
pub(super) const STUDY: Study = Study {
    name: "dfs",
    source: "a report in Swedish on DFS, a user-level scheduler for the TILEPro64",
    experiments: &[
        Experiment {
            name: "fig-5.1",
            title: "WL1 to WL5, without synthetic programs",
            says: "of five workloads four end between 0.5 and 4.5 % earlier than with the default scheduler, \
                   and one 0.8 % later",
            limit: "every mean gain between -0.8 and +4.5 % and at least four above 0; acceptance of spec 1.11: \
                    every one between -1 and +5 %",
            how: HOW,
            machines: BOTH,
            run: figures::without_hogs,
        },
        Experiment {
            name: "fig-5.2",
            title: "WL6 to WL10, with synthetic programs",
            says: "all five workloads end between 1.2 and 3.2 % earlier",
            limit: "every mean gain between +1.2 and +3.2 %; acceptance of spec 1.11: every one between -1 and \
                    +5 %",
            how: HOW,
            machines: BOTH,
            run: figures::with_hogs,
        },
        Experiment {
            name: "ceiling",
            title: "how much could any scheduler save here?",
            says: "the gain is called too small to be real; too little pressure on memory and the small difference \
                   between near and far are blamed",
            limit: "0.5 % on four of wl1 to wl5 and 1.2 % on each of wl6 to wl10, the least that the figures show; a \
                    better chip saves 1.2 % or more (chosen here)",
            how: "by node nobody ends before the latest start plus time alone, whatever the scheduler, starts and lengths as \
                  chance draws them with each seed; the least: latest start plus time with all of the cache and memory that \
                  nobody asks anything of, as short as chance can make it; and linux on chips with faster controllers or \
                  nearer memory; with 16 GiB a node",
            machines: BOTH,
            run: ceiling::ceiling,
        },
        Experiment {
            name: "baseline",
            title: "what memory does in the comparison, and what DFS does",
            says: "the default scheduler ran with striped memory, DFS with memory by node",
            limit: "the 95 % interval of DFS's gain beside linux with memory by node lies above 0 (chosen here)",
            how: "mean over the ten workloads, on the seeds that ended well on all; 1 GiB a node as chosen in the \
                  specification, and 16 GiB, where nothing spills",
            machines: BOTH,
            run: ceiling::baseline,
        },
        Experiment {
            name: "draws",
            title: "the orderings of figures 5.1 and 5.2, drawn from uncertain profiles",
            says: "as figures 5.1 and 5.2",
            limit: "in 95 % of the draws or more: holds; in 5 % or less: fails; between: depends on the \
                    profile (spec 8.3)",
            how: "both sides with the same draw and the same seed, the number of the draw, so one pair a draw; 16 GiB \
                  a node, as about half of the draws run out of 4; baseline striped; every figure of every \
                  program drawn anew from its range",
            machines: BOTH,
            run: draws::both,
        },
        Experiment {
            name: "poll-interval",
            title: "looking at the controllers more or less often",
            says: "polling faster or slower changed nothing",
            limit: "every workload's mean time within 0.5 % of that at 250 ms (spec 1.11)",
            how: "62.5, 125, 500 and 1000 ms beside 250 ms, seed by seed, on tilepro64 with 16 GiB a node",
            machines: BY_NODE,
            run: discussion::poll_interval,
        },
        Experiment {
            name: "own-overhead",
            title: "what its own work costs it",
            says: "the scheduler's own overhead may eat the gain",
            limit: "the mean gain with its work charged to a core differs by more than 0.5 points from that \
                    with free work (spec 1.11)",
            how: "a program that works for so long after every 250 ms on one tile stands for the scheduler; 0.76 ms is \
                  what evenkeel itself takes for a turn with 100 busy jobs (docs/measured.md: 0.3047 % of a CPU at \
                  four turns a second), 10 ms a bound for a slow tile; free: one microsecond; 16 GiB a node",
            machines: BOTH,
            run: discussion::own_overhead,
        },
        Experiment {
            name: "load-signal",
            title: "controllers' counters, or counters of cores",
            says: "counters of cores might tell the load as well, or tell who causes it",
            limit: "the same busiest node and the same victim in 90 % of the polls or more, and every mean time \
                    within 0.5 % (spec 1.11)",
            how: "dfs[loads=controller], [loads=per-core] and [loads=both], 16 GiB a node; polls are those of the \
                  first, in which each signal is asked; beside it with memory that follows the program, and with \
                  factor=1000, where nobody is ever moved",
            machines: BY_NODE,
            run: signal::load_signal,
        },
        Experiment {
            name: "spread",
            title: "how much each program's times spread",
            says: "times of single programs were not told",
            limit: "DFS is steadier if more than half of the programs have a smaller deviation (spec 1.11)",
            how: "every job of WL1 to WL10 over the seeds: standard deviation, and coefficient of variation; 16 GiB a node",
            machines: BOTH,
            run: discussion::spread,
        },
        Experiment {
            name: "repeated-runs",
            title: "one run, or many",
            says: "most workloads ran once; the gain is called too small to be real",
            limit: "a gain counts if the 95 % interval of its mean leaves out 0 (spec 1.11)",
            how: "the same seeds for both, striped as baseline, 16 GiB a node; beside it how many single runs have the sign \
                  of the mean",
            machines: BOTH,
            run: discussion::repeated_runs,
        },
        Experiment {
            name: "remote-latency",
            title: "a stronger difference between near and far memory",
            says: "the small difference of the chip, about 1.05 to 1.15, is blamed for the small gain",
            limit: "spec 1.11: at 1.05 to 1.15 every gain between -1 and +5 %; from 1.5 on the mean gain without \
                    moving memory is not surely larger than at 1.10, and moving memory brings it back (surely more \
                    than without, and above 0)",
            how: "latencies to other nodes scaled on tilepro64 with 16 GiB a node; baseline linux@interleave and linux \
                  on the same machine; surely: the 95 % interval of the difference, seed by seed",
            machines: BY_NODE,
            run: question::remote_latency,
        },
        Experiment {
            name: "question",
            title: "how much would it have gained?",
            says: "blamed for the small gain are the small difference between near and far, too little memory \
                   pressure, and that memory does not move",
            limit: "none: the report asks, and nobody answered; a cause is called confirmed if the interval of \
                    the difference it makes to the mean gain lies above 0",
            how: "each cause alone and all together: memory=follow, remote latency 1.5 and 2.0 times the local \
                  one, controllers with a half and a quarter of their bandwidth; 16 GiB a node",
            machines: BY_NODE,
            run: question::causes,
        },
    ],
};

const HOW: &str = "time of the whole workload, the part of the default's that is saved; mean over the seeds \
                   and its 95 % interval; DFS on tilepro64 with memory by node, the default on \
                   tilepro64-striped, and beside it on tilepro64 interleaved";

/// The chip by node, and as delivered.
const BOTH: &[&str] = &["tilepro64", "tilepro64-striped"];
const BY_NODE: &[&str] = &["tilepro64"];

const WITHOUT_HOGS: [&str; 5] = ["wl1", "wl2", "wl3", "wl4", "wl5"];
const WITH_HOGS: [&str; 5] = ["wl6", "wl7", "wl8", "wl9", "wl10"];
const ALL: [&str; 10] = ["wl1", "wl2", "wl3", "wl4", "wl5", "wl6", "wl7", "wl8", "wl9", "wl10"];

/// DFS under a reading, with other parameters: `dfs[reading=paper,interval=1s]`.
fn dfs(reading: Reading, more: &str) -> String {
    let reading = (reading == Reading::Paper).then_some("reading=paper");
    let params: Vec<&str> = reading.into_iter().chain((!more.is_empty()).then_some(more)).collect();
    match params.is_empty() {
        true => "dfs".to_owned(),
        false => format!("dfs[{}]", params.join(",")),
    }
}

/// Gigabytes of 1 GiB nodes, times: with 16 GiB a node no run of these workloads runs out of memory and nothing
/// spills, however slow memory is made. With the chip's own 4 GiB in all up to half of the draws do.
const ROOM: u64 = 16;

/// The chip by node with memory for all.
fn roomy() -> Result<World, ReproduceError> {
    Ok(World::shipped("tilepro64")?.with_memory(ROOM))
}

/// The chip as delivered, with as much.
fn roomy_striped() -> Result<World, ReproduceError> {
    Ok(World::shipped("tilepro64-striped")?.with_memory(ROOM))
}
