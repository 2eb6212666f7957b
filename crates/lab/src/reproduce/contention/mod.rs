//! Papers on contention in caches and on memories far and near: DI and DIO, DINO, N-MASS, home clusters
//! (spec 2.1 to 2.4).
//!
//! ```text
//!   sets drawn by seed ─► scenes: a machine, programs of one length ─┬─ every split, held to the end ─► the best
//!                                                                    └─ policies ─► slow-downs, moves, memory
//! ```
//!
//! None of their tables is at hand; what the specification has of them is an abstract, released code, or
//! memory, and each experiment says which.

mod assign;
mod counted;
mod damping;
mod deals;
mod home;
mod moves;
mod nmass;
mod numa;
mod one_memory;
mod optimum;
mod quality;
mod rules;
mod scene;
mod sets;
mod tell;

use super::{Experiment, Study};

/// All that is reproduced of them.
pub(super) const STUDY: Study = Study {
    name: "contention",
    source: "papers on shared caches and NUMA: DI and DIO (ASPLOS 2010), DINO (USENIX ATC 2011), N-MASS (ISMM \
             2011), home clusters (J. Supercomputing 2000)",
    experiments: &[
        Experiment {
            name: "optimum",
            title: "DI, DIO and their kin beside the best of all placements",
            says: "the user-level prototype is within 2 % of the optimal placement (DI and DIO; abstract)",
            limit: "mean slow-down at most 2 % above that of the best split, on average over the sets (spec A2)",
            how: "eight programs, every split of them over 2 or 4 caches alike (35 or 105), each program held on a \
              core of its own to the end; policies free; the first three seeds",
            machines: &["xeon-x5365-4x2", "opteron-8356-2x4"],
            run: optimum::optimum,
        },
        Experiment {
            name: "deals",
            title: "the rule of DI by itself, held to the end",
            says: "of all that counters tell, misses per instruction tell best whom to keep apart; \
                   highest with lowest [from memory, unconfirmed], or dealt in the same direction (released code)",
            limit: "mean slow-down at most 2 % above that of the best split (spec A2); misses order the splits",
            how: "the splits of `optimum`; ranks by misses alone in the smallest cache, as DI takes them from \
                  profiles; and again with so much bandwidth that caches alone are left to compete for",
            machines: &["xeon-x5365-4x2", "opteron-8356-2x4"],
            run: deals::deals,
        },
        Experiment {
            name: "quality",
            title: "worst cases, and how much repeated runs differ",
            says: "the main benefit is quality of service rather than mean speed (DI and DIO; abstract); the worst case \
               about 25 % better [from memory, unconfirmed]",
            limit: "the worst slow-down of a set smaller than the default's, on average over the sets; more than half of \
                the programs spread less over the seeds; a larger gain in the worst case than on average (chosen \
                here; the specification gives no limit)",
            how: "the sets of `optimum`, all seeds, beside Linux 2.6.27",
            machines: &["xeon-x5365-4x2", "opteron-8356-2x4"],
            run: quality::quality,
        },
        Experiment {
            name: "damping",
            title: "how often threads are moved",
            says: "rates are damped, so that a thread is moved when its character has changed and not for an odd sample \
               (released code)",
            limit: "fewer moves than the rates of single intervals would make (chosen here)",
            how: "mixed sets on xeon-x5365-4x2, each program 200 s alone, with phases of 5 to 30 s put on top",
            machines: &["xeon-x5365-4x2"],
            run: damping::damping,
        },
        Experiment {
            name: "memory-moves",
            title: "how often memory moves with DI-Migrate and with DINO",
            says: "DI with memory moves it far more often than DINO: see `published-moves`",
            limit: "5 to 100 times as often (spec 2.2); at least 5 times (spec A3)",
            how: "mixed sets on opteron-8356-2x4, each program 300 s alone, with phases of 5 to 30 s put on top; wished \
              and moved, with the engine's limits and without",
            machines: &["opteron-8356-2x4"],
            run: moves::memory_moves,
        },
        Experiment {
            name: "published-moves",
            title: "the paper's moves of memory in an hour, and ours",
            says: "soplex 36 with DI and 8 with DINO, milc 22 and 6, lbm 11 and 5, gamess 47 and 7, namd 41 and 6, MPI \
               programs 135 to 381 and 1 to 3 [all from memory, unconfirmed]",
            limit: "fewer with DINO, of every program (chosen here: the figures themselves are remembered)",
            how: "the five programs that have profiles, on opteron-8356-2x4",
            machines: &["opteron-8356-2x4"],
            run: moves::published_moves,
        },
        Experiment {
            name: "turtles",
            title: "programs that hardly miss",
            says: "only devils are worth separating",
            limit: "no action in an all-turtle mix (spec 2.2, A3)",
            how: "five sets of eight turtles on xeon-e5520-2x4, 60 s each, every set with every seed; placements and moves \
                  of memory after the start",
            machines: &["xeon-e5520-2x4"],
            run: moves::turtles,
        },
        Experiment {
            name: "numa",
            title: "DI, DINO and animal beside the default where there are two memories",
            says: "schedulers made for one memory fail or even hurt on NUMA (abstract); DINO gains up to about 30 % for \
               single programs [from memory, unconfirmed]",
            limit: "DI without memory worse than the default; DINO never much worse (spec 2.2), taken as 3 % in any set \
                (chosen here)",
            how: "sets on opteron-8356-2x4, each program 120 s alone; slow-down over that by default, all seeds",
            machines: &["opteron-8356-2x4"],
            run: numa::numa,
        },
        Experiment {
            name: "nmass",
            title: "N-MASS, maximum-local and the default, with memory here and there",
            says: "up to 32 % faster than the Linux default, 7 % on average, on Nehalem, without moving memory \
                   (abstract); maximum-local is the base algorithm",
            limit: "nmass no slower than maximum-local, and that no slower than the default, where memory is uneven; \
                    nmass never more than 2 % slower than maximum-local, and more than 3 % faster with all memory \
                    on one node; there maximum-local loses among hungry programs (spec 2.3, A4)",
            how: "sets of four and of eight on xeon-e5520-2x4, each program 120 s alone; memory held on nodes; mean \
                  slow-down, all seeds",
            machines: &["xeon-e5520-2x4"],
            run: nmass::nmass,
        },
        Experiment {
            name: "nmass-constants",
            title: "what hangs on the constants of N-MASS",
            says: "the refinement weighs the difference of pressures against the penalty; its constants are not known",
            limit: "none: they are shown",
            how: "as `nmass`, with other values of one constant at a time",
            machines: &["xeon-e5520-2x4"],
            run: nmass::constants,
        },
        Experiment {
            name: "home-cluster",
            title: "processors from home or anywhere, pages too",
            says: "schemes for processors and pages that cooperate through a home cluster are best (abstract)",
            limit: "P-home + H3 at or below every other combination at load 40 to 60 % (spec 2.4), on the paged \
                    machine",
            how: "32 programs of 1 to 6 threads come at random on opteron-2384-4x4, 60 CPU seconds each; mean \
                  response, all seeds",
            machines: &["opteron-2384-4x4"],
            run: home::home,
        },
        Experiment {
            name: "rules",
            title: "what holds for all policies: levels, a single CPU, the reading",
            says: "this specification, not a paper",
            limit: "domains=auto finds the coarsest level with two members; with a single CPU nothing is placed; \
                    reading is the only switch between printed and mended rules (spec A11)",
            how: "every policy that has domains, on made-up machines, four programs of 5 s",
            machines: &["nodes=2 llcs=2 cores=2", "llcs=2 cores=4", "cores=8", "cores=1"],
            run: rules::rules,
        },
    ],
};
