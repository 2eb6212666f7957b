//! The default policy: a placement helps measurably, or there is none.
//!
//! ```text
//!   one node and one LLC domain above the core ──────────────► linux
//!   LLC domains on one node, or across nodes ────────────────► linux     no gain in trials
//!   several nodes ─┬─ instructions, LLC misses not counted ──► linux
//!                  └─ counted ──► dino, in trials            [`crate::trial`]
//! ```
//!
//! Only counted instructions can show a gain, so declared classes and profiles approve no migration. Before a trial
//! measured a gain, starting jobs run where the kernel places them. Jobs are bound to whole domains ([`on_domains`]).
//! If the signals or the second domain disappear, all jobs are released.
//!
//! The selection is based on the comparison in `docs/measured.md`.

mod declaration;
mod on_domains;

use sched::{Action, Cause, JobState, LoadSource, Plan, Policy, Reason, ReasonCode, Snapshot};
use topology::{DomainChoice, Level};

use crate::declaration::REASONS as COMMON_REASONS;
use crate::placement::n_nodes_with_memory;
use crate::trial::{self, ReportedOnly, TrialGoal, Trials};
use crate::{Params, PolicyInfo, Rules, Signal};
use declaration::{Config, ENDED_EARLY, NO_SIGNAL, TRIES, TriedPolicy};
pub(crate) use declaration::{INFO, NO_GAIN_EXPECTED, ONE_DOMAIN};
use on_domains::OnDomains;

/// The policy for machines with several nodes.
const TRIED: &str = "dino";
/// Number of intervals in a row without counters after which no signal is usable. An attached process has no counter
/// value in its first interval.
const UNKNOWN_INTERVALS: u64 = 3;

/// State of the policy.
pub(crate) struct Auto {
    config: Config,
    /// Text and seed of the tried policy; it is built again after a release.
    spec: String,
    seed: u64,
    acts: bool,
    info: &'static PolicyInfo,
    tried: Box<dyn Policy>,
    /// Intervals in a row in which tasks ran and a signal was not counted.
    n_unknown: u64,
    selection: Selection,
}

/// The selected behaviour.
#[derive(Clone, Debug, PartialEq)]
enum Selection {
    /// No interval with a running task was measured.
    Open,
    /// Nothing, because of this reason.
    Linux(Reason),
    /// The policy is tried, because of this reason.
    Tries(Reason),
}

impl Auto {
    /// Creates the policy. Without `acts`, all requests of the tried policy are only reported.
    pub(crate) fn new(params: &Params<'_>, seed: u64, acts: bool) -> Self {
        let config = Config::new(params);
        let name = match config.policy {
            TriedPolicy::ByMachine => TRIED,
            _ => params.text("policy"),
        };
        let spec = format!("{name}[interval={}]", params.text("interval"));
        Auto {
            config,
            seed,
            acts,
            info: crate::find(name).expect("a registered policy"),
            tried: tried(&spec, seed, acts),
            spec,
            n_unknown: 0,
            selection: Selection::Open,
        }
    }

    fn select(&mut self, snapshot: &Snapshot<'_>) -> Selection {
        if snapshot.domains.level() == Level::Core || snapshot.domains.len() < 2 {
            return Selection::Linux(Reason::new(ONE_DOMAIN));
        }
        if self.config.policy == TriedPolicy::ByMachine
            && let Some(kind) = kind_without_gain(snapshot)
        {
            let reason = Reason::new(NO_GAIN_EXPECTED).with("kind", kind);
            return Selection::Linux(reason.with("n_domains", snapshot.domains.len() as u64));
        }
        self.select_by_signals(snapshot)
    }

    fn select_by_signals(&mut self, snapshot: &Snapshot<'_>) -> Selection {
        let is_running = snapshot.jobs.iter().any(|job| job.state == JobState::Running);
        if snapshot.turn.causes.contains(&Cause::Interval)
            && snapshot.tasks.iter().any(|task| task.cpu_time.0 != 0)
        {
            let is_counted = self.signals().all(|signal| signal.is_counted(snapshot));
            self.n_unknown = if is_counted { 0 } else { self.n_unknown + 1 };
            if is_counted {
                return Selection::Tries(self.tries(snapshot));
            }
        }
        if UNKNOWN_INTERVALS <= self.n_unknown {
            return Selection::Linux(Reason::new(NO_SIGNAL).with("signals", self.signal_names()));
        }
        let has_ended = snapshot.turn.causes.contains(&Cause::Ended) && snapshot.jobs.is_empty();
        match self.selection == Selection::Open && has_ended && !is_running {
            true => Selection::Linux(Reason::new(ENDED_EARLY)),
            false => self.selection.clone(),
        }
    }

    /// Returns the signals that must be counted: instructions, which show a gain, and the signals of the tried policy.
    fn signals(&self) -> impl Iterator<Item = Signal> + '_ {
        let of_policy = self.info.signals.iter().map(|required| required.signal);
        let others = of_policy.filter(|signal| *signal != Signal::Instructions);
        std::iter::once(Signal::Instructions).chain(others)
    }

    fn signal_names(&self) -> String {
        self.signals().map(Signal::name).collect::<Vec<_>>().join(", ")
    }

    fn tries(&self, snapshot: &Snapshot<'_>) -> Reason {
        Reason::new(TRIES)
            .with("policy", self.info.name)
            .with("n_domains", snapshot.domains.len() as u64)
            .with("level", snapshot.domains.level().to_string())
            .with("n_nodes", n_nodes_with_memory(snapshot) as u64)
            .with("signals", self.signal_names())
    }

    /// Adopts a selection. Adds its note, and releases all jobs if the policy is no longer tried.
    fn adopt(&mut self, snapshot: &Snapshot<'_>, selection: Selection, plan: &mut Plan) {
        let (Selection::Linux(reason) | Selection::Tries(reason)) = &selection else { return };
        let is_same_kind = matches!(
            (&self.selection, &selection),
            (Selection::Linux(_), Selection::Linux(_)) | (Selection::Tries(_), Selection::Tries(_))
        );
        // The number of domains in the note may change; a second note has no further information.
        if self.selection == selection || (is_same_kind && !self.has_new_code(reason)) {
            return;
        }
        plan.note(reason.clone());
        if matches!(self.selection, Selection::Tries(_)) && !is_same_kind {
            for job in snapshot.jobs.iter().filter(|job| job.placed.is_some() && job.movable) {
                plan.request(job.job.id, Action::Release, reason.clone());
            }
            self.tried = tried(&self.spec, self.seed, self.acts);
        }
        self.selection = selection;
    }

    fn has_new_code(&self, reason: &Reason) -> bool {
        match &self.selection {
            Selection::Open => true,
            Selection::Linux(before) | Selection::Tries(before) => before.code != reason.code,
        }
    }
}

impl Rules for Auto {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let selection = self.select(snapshot);
        self.adopt(snapshot, selection, plan);
        match self.selection {
            Selection::Open => {}
            Selection::Linux(_) => plan.quiescent = plan.requests.is_empty(),
            Selection::Tries(_) => {
                self.tried.decide(snapshot, plan);
                // The tried policy also counts jobs that the kernel placed.
                plan.notes.retain(|note| !COMMON_REASONS.contains(&note.code));
                if plan.abort.take().is_some() {
                    // The tried policy has no more signals; the next interval without a signal releases all jobs.
                    self.n_unknown = UNKNOWN_INTERVALS;
                }
            }
        }
    }

    fn binds_without_signals(&self) -> bool {
        false
    }

    fn domains(&self) -> DomainChoice {
        self.tried.domains()
    }

    fn load_source(&self) -> LoadSource {
        self.tried.load_source()
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        // The declaration of every policy adds the reasons of `BuiltPolicy`.
        let all = self.tried.reasons();
        let declared =
            |code: &ReasonCode| trial::REASONS.contains(code) || COMMON_REASONS.contains(code);
        all.into_iter().filter(|code| !declared(code)).collect()
    }
}

/// Builds a policy in trials; without `acts`, its requests are only reported.
fn tried(spec: &str, seed: u64, acts: bool) -> Box<dyn Policy> {
    let policy = crate::build(spec, seed).expect("the parameter `interval` exists in every policy");
    let policy = Box::new(OnDomains::new(policy));
    match acts {
        true => Box::new(Trials::new(policy, TrialGoal::Speed)),
        false => Box::new(ReportedOnly::new(policy)),
    }
}

/// Returns the kind of a machine on which no policy had a gain.
fn kind_without_gain(snapshot: &Snapshot<'_>) -> Option<&'static str> {
    if n_nodes_with_memory(snapshot) < 2 {
        return Some("one-node");
    }
    let spans_nodes = snapshot.domains.iter().any(|(_, domain)| domain.node.is_none());
    spans_nodes.then_some("shared-cache")
}
