//! The paper on divided scheduling by application groups (spec 5).
//!
//! ```text
//!   alone ─► what counters show ─► groups found          pairs ─► who hurts whom ─► groups seen
//!   mixes ─► linux (with and without NUMA balancing) beside rank and threshold version ─► gain, spread
//!     └─ why: groups given instead of found · no guard · all splits by the physics
//! ```

mod alone;
mod causes;
mod hits;
mod mixes;
mod multisets;
mod over_time;
mod pairs;
mod programs;
mod reuse;
mod steady;
mod sweep;
mod versions;

pub(super) use programs::group_of as published_group;

use super::{Experiment, Study};

/// All that is reproduced of it.
pub(super) const STUDY: Study = Study {
    name: "divided",
    source: "a paper in Korean on divided scheduling by application groups",
    experiments: &[
        Experiment {
            name: "fig-1",
            title: "pairs of programs on one socket, and the groups in it",
            says: "Group 1 (lbm, libquantum, lu.B) hurts others and is hurt by its own; Group 2 (sphinx, \
                   omnetpp, streamcluster) is hurt by Group 1; Group 3 hardly; sp.B and ua.B hurt others more \
                   than Group 2 does",
            limit: "mean slow-down caused: G1 > {sp.B, ua.B} > G2 > rest of G3; suffered beside G1: G1 and G2 \
                    above G3 (spec 5.1); draws: 95 % holds, 5 % fails",
            how: "steady slow-downs of both on one socket of xeon-2x4, from the physics; the groups that the \
                  rank and the threshold version find from what each shows alone",
            machines: SMALL,
            run: pairs::pairs,
        },
        Experiment {
            name: "figs-2-to-5",
            title: "what counters show of the eleven programs alone",
            says: "bandwidth, full queues and prefetches are high for those that hurt; references tell who \
                   depends on the cache",
            limit: "orderings of spec 5.2 and 5.5; draws: 95 % holds, 5 % fails",
            how: "each alone on xeon-2x4, from the physics",
            machines: SMALL,
            run: alone::figures,
        },
        Experiment {
            name: "fig-6",
            title: "how four programs use their lines again",
            says: "lbm needs at least 5 lines for a unit of work, sp.B 2; libquantum streams without reuse, ua.B \
                   streams with reuse",
            limit: "lines used again: 10 % or less for libquantum, 10 points more for ua.B (both chosen here; spec 5.5: \
                    about 0, and clearly more); draws: 95 % holds, 5 % fails",
            how: "the curves of misses of the profiles, which are reuse distances summed up",
            machines: &[],
            run: reuse::reuse,
        },
        Experiment {
            name: "hit-ratio",
            title: "hit ratios collapse under contention, references keep order",
            says: "Group 1 hits 70 % alone and about 20 % beside one competitor; under contention all ratios \
                   converge; references are a property of the program",
            limit: "Group 1's mean ratio 60 to 80 % alone and 10 to 30 % beside one competitor (both limits \
                    chosen here); the spread of all ratios shrinks; rank correlation of references 0.9 or more \
                    (spec 5.5)",
            how: "each program beside 1, 2 and 3 of Group 1 on one socket of xeon-2x4: share of the cache and \
                  speed from the physics",
            machines: SMALL,
            run: hits::ratios,
        },
        Experiment {
            name: "fig-8a",
            title: "eighteen mixes on 2 x 4 cores",
            says: "5 to 6 % faster on average, 12 % at best (Basic 7); Basic 8 about zero or slower",
            limit: "mean gain over mixes with two or more of G1 and of G2 between 3 and 10 %; basic08 and \
                    basic13 within 2 % of 0 (spec 5.5)",
            how: HOW,
            machines: SMALL,
            run: mixes::fig_8a,
        },
        Experiment {
            name: "fig-8a-draws",
            title: "figure 8a, drawn from uncertain profiles",
            says: "as figure 8a",
            limit: "in 95 % of the draws or more: holds; in 5 % or less: fails; between: depends on the profile (spec \
                    8.3)",
            how: "both sides with the same draw and the same seed, the number of the draw; limits from the widest gaps \
                  of that draw",
            machines: SMALL,
            run: mixes::drawn_8a,
        },
        Experiment {
            name: "multisets",
            title: "figure 8a over every mix of the same group sizes",
            says: "as figure 8a; the paper prints no compositions",
            limit: "as figure 8a, for the mean over all mixes of a size: the result must not hang on our compositions \
                    (spec 5.5)",
            how: "4395 mixes, a run each with the first seed for every policy; NUMA balancing on",
            machines: SMALL,
            run: multisets::all,
        },
        Experiment {
            name: "groups",
            title: "why: the groups, the guard, memory left behind, or the machine?",
            says: "nothing of it: the paper's own groups are found by its thresholds, which are not printed",
            limit: "given groups: 3 to 10 % as figure 8a; given and found, with and without guard: the 95 % interval of \
                    the difference, seed by seed, lies above 0",
            how: "the mixes with two or more of both groups; given: what the policy is shown of full queues and \
                  references is replaced by what the paper's group would show, all else is its own; with a period of \
                  1 s it decides ten times as early; the kernel the same on both sides; and on a machine where memory \
                  left behind costs nothing, and on one with half the bandwidth",
            machines: SMALL,
            run: causes::groups,
        },
        Experiment {
            name: "splits",
            title: "why: all ways to put a mix on two sockets, by the physics",
            says: "isolation of Group 1 is what the gain comes from",
            limit: "isolation 3 % or more better than a split at random (the least of figure 8a); draws: 95 % holds, \
                    5 % fails",
            how: "steady slow-downs from the physics, without runs or policies: even splits of each contended mix, and \
                  isolation by the paper's groups; and on sockets with more or less cache and bandwidth",
            machines: SMALL,
            run: causes::splits,
        },
        Experiment {
            name: "completion",
            title: "when each group is done",
            says: "Group 2 finishes early, then Group 1 spreads into the freed cores; its end is no later",
            limit: "Group 2 surely earlier; Group 1 on both sockets from the second period on, in 9 of 10 periods \
                    (chosen here); its end within 3 % or earlier (spec 5.5)",
            how: "the mixes with two or more of both groups; ends of the last of each group; versions as they are, and \
                  with the paper's groups given",
            machines: SMALL,
            run: over_time::completion,
        },
        Experiment {
            name: "fig-8b",
            title: "mixes three and four times, and four programs more, on 2 x 14 cores",
            says: "up to 25 % faster; the gain grows from 18 over 24 to 28 programs",
            limit: "mean gain x3 < x4 < x4+4 (spec 5.5)",
            how: HOW,
            machines: LARGE,
            run: mixes::fig_8b,
        },
        Experiment {
            name: "fig-8b-draws",
            title: "figure 8b, drawn from uncertain profiles",
            says: "as figure 8b",
            limit: "in 95 % of the draws or more: holds; in 5 % or less: fails (spec 8.3)",
            how: "basic01, 04, 06 and 08, one of each composition, in three sizes; one pair a draw; NUMA balancing on",
            machines: LARGE,
            run: mixes::drawn_8b,
        },
        Experiment {
            name: "fig-9",
            title: "how much the times of basic14 spread over five runs",
            says: "standard deviation of each program's time 10 to 81 s with Linux, 2 to 11 s here",
            limit: "the mean standard deviation at most a third of the default's (spec 5.5)",
            how: "the first five seeds; mean over the programs; in each draw seeds 1 to 5, NUMA balancing on",
            machines: SMALL,
            run: mixes::fig_9,
        },
        Experiment {
            name: "sweep",
            title: "one to six aggressors of eight: from where on does isolation pay?",
            says: "isolation pays only with real contention; with few of Group 1, collecting them can create \
                   contention that spreading would have avoided",
            limit: "spreading is no worse with one or two aggressors and isolation with some larger number (chosen \
                    here; the paper names none)",
            how: "lbm, libquantum, lu.B in turn, the rest of Group 2; by hand: steady slow-downs with Group 1 on \
                  one socket, or alternating; by the policy: guard=off beside guard=1000, threshold version; better: \
                  by hand by more than 0.5 %, by the policy if the 95 % interval of the pairs lies above 0",
            machines: SMALL,
            run: sweep::sweep,
        },
        Experiment {
            name: "steady",
            title: "are the programs outside the eleven steady?",
            says: "programs that were not analysed are steady as well",
            limit: "coefficient of variation of full queues and references over 10 s, alone, at most 0.2 (spec 5.5)",
            how: "each alone on xeon-2x4, from the second period on",
            machines: SMALL,
            run: steady::steady,
        },
    ],
};

const HOW: &str = "gain: mean over the programs of time by default / time here - 1, mean over the seeds; the \
                   default is Linux 4.2, with NUMA balancing on both sides, and without; thresholds from the widest gaps of the \
                   eleven programs alone on the machine";

/// The paper's two machines.
const SMALL: &[&str] = &["xeon-2x4"];
const LARGE: &[&str] = &["xeon-e5-2697-2x14"];
