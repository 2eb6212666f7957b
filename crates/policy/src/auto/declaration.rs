//! Declaration of `auto`: parameters, reasons and source.

use sched::reasons;

use super::Auto;
use crate::declaration::{self, names, params};
use crate::{PolicyInfo, trial};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "auto",
    summary: "Selects linux, or a policy whose placements are kept only after a trial measured a gain, by the \
              machine and its readable signals.",
    source: "evenkeel; the comparison on the page Measured results of the documentation",
    // Without signals the policy is linux.
    signals: &[],
    params: &[
        PARAMS,
        &[declaration::INTERVAL
            .default("1s")
            .help("time between two samples; a trial takes 21 intervals")],
    ],
    reasons: &[REASONS, trial::REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, seed| Box::new(Auto::new(params, seed, true))),
};

params! {
    /// Configuration of the policy.
    pub(super) struct Config from PARAMS {
        policy: TriedPolicy = "auto", "policy that is tried; auto: dino if every domain is on one of several nodes, else \
            none; a name: this policy on any machine with at least two nodes or last-level caches";
    }
}

names! {
    /// The policy that is tried.
    pub(super) enum TriedPolicy {
        /// By the kind of the machine.
        ByMachine = "auto",
        /// `dfs`.
        Dfs = "dfs",
        /// `dio`.
        Dio = "dio",
        /// `di-migrate`.
        DiMigrate = "di-migrate",
        /// `dino`.
        Dino = "dino",
        /// `nmass`.
        NMass = "nmass",
        /// `divided`.
        Divided = "divided",
    }
}

reasons! {
    /// Note: linux, because all placements are equal.
    ONE_DOMAIN = "auto-one-domain":
        "auto uses policy linux and binds no job: the usable CPUs have one node and one last-level cache, so there is no second domain to place jobs on";
    /// Note: linux, because of the kind of the machine.
    NO_GAIN_EXPECTED = "auto-no-gain-expected":
        "auto uses policy linux and binds no job: [kind=one-node: the {n_domains} last-level caches are on one node][kind=shared-cache: a last-level cache spans several nodes], and in simulations no policy gained more than 0.4 % in trials on such machines";
    /// Note: linux, because no gain can be measured.
    NO_SIGNAL = "auto-no-signal":
        "auto uses policy linux and binds no job: not all of these counters are readable: {signals}; so no gain can be measured (evenkeel machine prints the readable signals)";
    /// Note: linux, because the jobs ended too early.
    ENDED_EARLY = "auto-ended-early":
        "auto used policy linux and bound no job: all jobs ended before their counters were measured";
    /// Note: a policy is tried.
    TRIES = "auto-tries":
        "auto tries policy {policy}: there are {n_domains} domains of level {level} on {n_nodes} nodes, and counters of {signals} are readable; jobs are placed at their start only after a trial measured a gain";
}
