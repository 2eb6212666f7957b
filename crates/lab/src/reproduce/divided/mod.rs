//! The paper on divided scheduling by application groups (spec 5).
//!
//! ```text
//!   alone ─► what counters show ─► groups found          pairs ─► who hurts whom ─► groups seen
//!   mixes ─► linux (with and without NUMA balancing) beside rank and threshold version ─► gain, spread
//! ```

mod alone;
mod hits;
mod mixes;
mod pairs;
mod programs;
mod sweep;

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
            run: pairs::pairs,
        },
        Experiment {
            name: "figs-2-to-5",
            title: "what counters show of the eleven programs alone",
            says: "bandwidth, full queues and prefetches are high for those that hurt; references tell who \
                   depends on the cache",
            limit: "orderings of spec 5.2 and 5.5; draws: 95 % holds, 5 % fails",
            how: "each alone on xeon-2x4, from the physics",
            run: alone::figures,
        },
        Experiment {
            name: "hit-ratio",
            title: "hit ratios collapse under contention, references keep their order",
            says: "Group 1 hits 70 % alone and about 20 % beside one competitor; under contention all ratios \
                   converge; references are a property of the program",
            limit: "Group 1's mean ratio 60 to 80 % alone and 10 to 30 % beside one competitor (both limits \
                    chosen here); the spread of all ratios shrinks; rank correlation of references 0.9 or more \
                    (spec 5.5)",
            how: "each program beside 1, 2 and 3 of Group 1 on one socket of xeon-2x4: share of the cache and \
                  speed from the physics",
            run: hits::ratios,
        },
        Experiment {
            name: "fig-8a",
            title: "eighteen mixes on 2 x 4 cores",
            says: "5 to 6 % faster on average, 12 % at best (Basic 7); Basic 8 about zero or slower",
            limit: "mean gain over mixes with two or more of G1 and of G2 between 3 and 10 %; basic08 and \
                    basic13 within 2 % of 0 (spec 5.5)",
            how: HOW,
            run: mixes::fig_8a,
        },
        Experiment {
            name: "fig-8b",
            title: "mixes three and four times, and four programs more, on 2 x 14 cores",
            says: "up to 25 % faster; the gain grows from 18 over 24 to 28 programs",
            limit: "mean gain x3 < x4 < x4+4 (spec 5.5)",
            how: HOW,
            run: mixes::fig_8b,
        },
        Experiment {
            name: "fig-9",
            title: "how much the times of basic14 spread over five runs",
            says: "standard deviation of each program's time 10 to 81 s with Linux, 2 to 11 s here",
            limit: "the mean standard deviation at most a third of the default's (spec 5.5)",
            how: "the first five seeds; mean over the programs",
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
                  one socket, or alternating; by the policy: guard=off beside guard=1000, threshold version",
            run: sweep::sweep,
        },
    ],
};

const HOW: &str = "gain: mean over the programs of time by default / time here - 1, mean over the seeds; the \
                   default is Linux 4.2 with NUMA balancing, and without; thresholds from the widest gaps of the \
                   eleven programs alone on the machine";
