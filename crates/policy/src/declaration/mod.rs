//! The declaration of a policy is one constant. Parsing, defaults, documentation and journal headers use this constant.
//!
//! ```text
//!   PolicyInfo ─┬─► registry, `name[key=value]`: parsing, ranges, defaults, conflicts   (parameters.rs)
//!               ├─► the typed configuration of the policy                                (params!, ParamValue)
//!               ├─► name, interval, domains and reasons of the built policy              (Declared)
//!               ├─► `evenkeel policies`, as text and JSON
//!               └─► sentence templates in the header of a journal
//! ```
//!
//! `docs/extending.md` contains a complete policy as an example; a test compiles and runs it.

use std::fmt;

use base::Nanos;
use sched::{
    Action, Cause, JobState, LoadSource, Plan, Policy, Reason, ReasonCode, Request, Snapshot, Wake,
    reasons,
};
use topology::DomainChoice;

mod parameters;
mod required_signals;
mod values;

#[cfg(test)]
pub(crate) use parameters::terms;
pub use parameters::{Params, PolicyError};
pub(crate) use parameters::{split, unknown_policy};
pub use required_signals::{IfMissing, MissingSignal, RequiredSignal, Signal, missing};
pub(crate) use values::{
    INTERVAL_TIMES, MILLION, Millionths, names, params, parse_decimal, parse_integer, percent,
};
pub use values::{ParamValue, Values};

/// The declaration of a policy.
#[derive(Debug)]
pub struct PolicyInfo {
    /// The name in `--policy`.
    pub name: &'static str,
    /// The behaviour, in one sentence.
    pub summary: &'static str,
    /// Publication with section, or another origin of the policy.
    pub source: &'static str,
    /// The signals that decisions are based on with every value of the parameters; see [`Param::signal`].
    pub signals: &'static [RequiredSignal],
    /// Parameters in the order of the documentation. They are in groups, because several policies share a group.
    pub params: &'static [&'static [Param]],
    /// Reasons, in groups that several policies may share.
    pub reasons: &'static [&'static [ReasonCode]],
    /// Whether no domain is idle while another domain has two runnable tasks that may run there.
    pub work_conserving: bool,
    /// Whether the policy places no job on a machine with one core kind.
    pub needs_core_kinds: bool,
    /// The constructor; `None` for a policy that another crate builds.
    pub rules: Option<BuildRules>,
}

/// Builds the rules of a policy from valid parameters and a seed.
pub type BuildRules = fn(&Params<'_>, u64) -> Box<dyn Rules>;

/// The decisions of a policy. All other properties of the policy are in its declaration.
pub trait Rules {
    /// Adds requests and notes to `plan`, which is empty. Called once per turn.
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan);

    /// Returns the cause of interval turns: every interval, or only an interval in which a counter overflowed.
    fn wake(&self) -> Wake {
        Wake::Poll
    }

    /// Returns the source of the loads of domains.
    fn load_source(&self) -> LoadSource {
        LoadSource::Best
    }

    /// Returns the level of the domains, if the policy has no parameter `domains`.
    fn domains(&self) -> DomainChoice {
        DomainChoice::Auto
    }

    /// Returns whether jobs are bound although no signal of the policy has a value.
    fn binds_without_signals(&self) -> bool {
        true
    }

    /// Returns the reasons of another policy that the rules apply.
    fn reasons(&self) -> Vec<ReasonCode> {
        Vec::new()
    }
}

/// A built policy: the rules, and the values of the declaration that the engine reads.
struct BuiltPolicy {
    info: &'static PolicyInfo,
    interval: Option<Nanos>,
    domains: DomainChoice,
    rules: Box<dyn Rules>,
    signals: Vec<RequiredSignal>,
    /// Whether the note about placements without a signal was added.
    has_noted_risk: bool,
}

reasons! {
    /// Note: jobs are bound although the policy has none of its signals.
    BOUND_WITHOUT_SIGNAL = "bound-without-signal":
        "policy {policy} binds jobs without a signal ({signals}): a domain can be idle while another has several runnable tasks; --policy auto or --policy linux binds no job in this case";
    /// Note: jobs are bound by a policy that needs no signal.
    NEEDS_NO_SIGNAL = "needs-no-signal":
        "policy {policy} binds jobs: a domain can be idle while another has several runnable tasks; --policy linux binds no job";
}

impl BuiltPolicy {
    /// Adds a note when a job is bound and no signal of the policy has a value, or the policy needs none. Signals have
    /// values after an interval.
    fn add_risk(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let is_interval = snapshot.turn.causes.contains(&Cause::Interval);
        let has_signals = !self.signals.is_empty();
        let has_no_risk = self.info.work_conserving || !self.rules.binds_without_signals();
        if self.has_noted_risk || has_no_risk || has_signals && !is_interval {
            return;
        }
        let places = |request: &Request| matches!(request.action, Action::Place(_));
        let is_bound = snapshot.jobs.iter().any(|job| {
            job.state == JobState::Running
                && job.movable
                && job.placed.is_some()
                && job.n_tasks != 0
        }) || !has_signals && plan.requests.iter().any(places);
        let signals = self.signals.iter().map(|required| required.signal);
        if is_bound && !signals.clone().any(|signal| signal.has_value(snapshot)) {
            self.has_noted_risk = true;
            let code = if has_signals { BOUND_WITHOUT_SIGNAL } else { NEEDS_NO_SIGNAL };
            let reason = Reason::new(code).with("policy", self.info.name);
            let names = signals.map(Signal::name).collect::<Vec<_>>().join(", ");
            plan.note(reason.with_some("signals", Some(names).filter(|_| has_signals)));
        }
    }
}

impl Policy for BuiltPolicy {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.rules.decide(snapshot, plan);
        self.add_risk(snapshot, plan);
    }

    fn name(&self) -> &str {
        self.info.name
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        [self.info.reasons.concat(), self.rules.reasons(), REASONS.to_vec()].concat()
    }

    fn interval(&self) -> Option<Nanos> {
        self.interval
    }

    fn wake(&self) -> Wake {
        self.rules.wake()
    }

    fn domains(&self) -> DomainChoice {
        self.domains
    }

    fn load_source(&self) -> LoadSource {
        self.rules.load_source()
    }
}

impl PolicyInfo {
    /// Returns all parameters, in the order of the documentation.
    pub fn params(&self) -> impl Iterator<Item = &'static Param> + Clone {
        self.params.iter().flat_map(|group| group.iter())
    }

    /// Returns the declaration of a parameter.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params().find(|param| param.name == name)
    }

    /// Returns the required signals, each with the parameter and its value that require the signal; `None`: the signal
    /// is always required.
    pub fn required_signals(&self) -> impl Iterator<Item = (Option<ParamSetting>, RequiredSignal)> {
        let of_value = self.params().filter_map(|param| {
            let (value, signal) = param.signal?;
            Some((Some(ParamSetting { param: param.name, value }), signal))
        });
        self.signals.iter().map(|signal| (None, *signal)).chain(of_value)
    }

    /// Builds the policy from a text such as `dfs[cooldown=4]`. The interval and the level of the domains are the
    /// parameters `interval` and `domains`, if the policy declares these parameters.
    ///
    /// # Errors
    /// See [`Params::parse`].
    ///
    /// # Panics
    /// If another crate builds the policy.
    pub fn build(&'static self, spec: &str, seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
        let rules = self.rules.expect("the declaration has a constructor");
        self.build_with(spec, |params| rules(params, seed))
    }

    /// As [`PolicyInfo::build`], with another constructor.
    pub(crate) fn build_with(
        &'static self,
        spec: &str,
        rules: impl FnOnce(&Params<'_>) -> Box<dyn Rules>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let params = Params::parse(self, spec)?;
        let rules = rules(&params);
        let interval = self.param("interval").map(|_| params.get("interval"));
        let domains = self.param("domains").map(|_| params.get("domains"));
        let domains = domains.unwrap_or_else(|| rules.domains());
        let signals = required_signals::required(self, &params);
        let has_noted_risk = false;
        Ok(Box::new(BuiltPolicy { info: self, interval, domains, rules, signals, has_noted_risk }))
    }
}

/// A parameter with a value, printed as `metric=miss-ratio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamSetting {
    /// The name of the parameter.
    pub param: &'static str,
    /// The value.
    pub value: &'static str,
}

impl fmt::Display for ParamSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.param, self.value)
    }
}

/// A parameter of a policy. All values are text; [`Values`] describes the accepted values.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name in the brackets.
    pub name: &'static str,
    /// The accepted values.
    pub values: Values,
    /// Value of the parameter if the text contains no value.
    pub default: &'static str,
    /// Default with `reading=paper`, if different.
    pub default_paper: Option<&'static str>,
    /// Effect of the value, and its unit.
    pub help: &'static str,
    /// Source of the default.
    pub origin: DefaultSource,
    /// Conditions under which the parameter has no effect, and is rejected: terms `key=value` or `key!=value`, joined
    /// by ` and `. A term with the key of the parameter itself restricts the condition to the values that match the
    /// term.
    pub no_effect_with: &'static [&'static str],
    /// The parameter that limits this parameter: the value is smaller than the value of that parameter. Both are whole
    /// numbers.
    pub below: Option<&'static str>,
    /// Parameters that this parameter requires.
    pub requires: Option<Requirement>,
    /// Published value that no host supports, and the missing prerequisite.
    pub unavailable: Option<(&'static str, &'static str)>,
    /// Whether the parameter has an effect only on jobs with several threads.
    pub for_several_threads: bool,
    /// A value with which the policy requires a further signal, and the signal.
    pub signal: Option<(&'static str, RequiredSignal)>,
}

/// Parameters that another parameter requires.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// Value that requires the parameters; `None`: every value except the default.
    pub value: Option<&'static str>,
    /// The required parameters.
    pub params: &'static [&'static str],
}

/// Source of the default of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultSource {
    /// The source of the policy gives the value.
    Published,
    /// The source leaves the value open.
    Chosen,
}

impl DefaultSource {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            DefaultSource::Published => "published",
            DefaultSource::Chosen => "evenkeel's choice",
        }
    }
}

impl Param {
    /// Creates a parameter with the same default in every reading. The source of the default is
    /// [`DefaultSource::Chosen`].
    pub const fn new(
        name: &'static str,
        values: Values,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Param {
            name,
            values,
            default,
            default_paper: None,
            help,
            origin: DefaultSource::Chosen,
            no_effect_with: &[],
            below: None,
            requires: None,
            unavailable: None,
            for_several_threads: false,
            signal: None,
        }
    }

    /// Marks the default as published in the source of the policy.
    pub(crate) const fn published(self) -> Self {
        Param { origin: DefaultSource::Published, ..self }
    }

    /// Sets the default with `reading=paper`.
    pub(crate) const fn paper(self, default: &'static str) -> Self {
        Param { default_paper: Some(default), ..self }
    }

    /// Sets the conditions under which the parameter has no effect; see [`Param::no_effect_with`].
    pub(crate) const fn no_effect_with(self, conditions: &'static [&'static str]) -> Self {
        Param { no_effect_with: conditions, ..self }
    }

    /// Sets the parameter that limits this parameter; see [`Param::below`].
    pub(crate) const fn below(self, upper: &'static str) -> Self {
        Param { below: Some(upper), ..self }
    }

    /// Sets the parameters that a value, or every value except the default, requires.
    pub(crate) const fn requires(
        self,
        value: Option<&'static str>,
        params: &'static [&'static str],
    ) -> Self {
        Param { requires: Some(Requirement { value, params }), ..self }
    }

    /// Sets a published value that no host supports, and the missing prerequisite.
    pub(crate) const fn unavailable(self, value: &'static str, reason: &'static str) -> Self {
        Param { unavailable: Some((value, reason)), ..self }
    }

    /// Marks a parameter that has an effect only on jobs with several threads.
    pub(crate) const fn for_several_threads(self) -> Self {
        Param { for_several_threads: true, ..self }
    }

    /// Sets a signal that the policy requires with a value.
    pub(crate) const fn requires_signal(self, value: &'static str, signal: RequiredSignal) -> Self {
        Param { signal: Some((value, signal)), ..self }
    }

    /// Replaces the help text.
    pub(crate) const fn help(self, help: &'static str) -> Self {
        Param { help, ..self }
    }

    /// Replaces the default.
    pub(crate) const fn default(self, default: &'static str) -> Self {
        Param { default, ..self }
    }
}

names! {
    /// Reading of the published rules that defines the defaults.
    pub(crate) enum RuleReading {
        /// The published rules with corrections.
        Corrected = "corrected",
        /// The published rules.
        Paper = "paper",
    }
}

/// The parameter `reading`, which changes only defaults.
pub(crate) const READING: Param = Param::new(
    "reading",
    RuleReading::VALUES,
    "corrected",
    "defaults: the published rules with evenkeel's corrections, or as printed",
);

/// The parameter `domains`.
pub(crate) const DOMAINS: Param = Param::new(
    "domains",
    Values::Domains(DomainChoice::Auto),
    "auto",
    "level of the placement domains; auto is the coarsest level with at least two domains",
);

/// The parameter `interval`. The default is four turns per second, as in the scheduler that `dfs` is based on.
pub const INTERVAL: Param =
    Param::new("interval", INTERVAL_TIMES, "250ms", "time between two samples");
