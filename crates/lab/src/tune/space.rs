//! The search space of a policy, derived from its declaration.
//!
//! ```text
//!   declared values               dimension
//!   names, levels of domains      a list of values
//!   up to 6 integers              a list of values
//!   other numbers and times       a range, linear or logarithmic
//!   a keyword, or numbers         the keyword, or a position in the range
//! ```
//!
//! The range of a number is the range of `--param`. Without one it is the declared range if the largest number is at
//! most 1; otherwise the part of the declared range from a tenth of the default to ten times the default: many declared
//! ranges include implausible values (an interval of an hour), and trials there would be wasted.
//!
//! [`policy::Params`] decides which combinations are valid: a parameter that has no effect with the other values is
//! omitted, and a combination that is rejected is never run.

use policy::{Param, Params, PolicyError, PolicyInfo, Values};
use program::Job;

use crate::oracle;

/// Largest number of integers that are a list of values.
const N_LISTED_MAX: u64 = 6;
/// A range is logarithmic if its bounds differ by more than this factor.
const LOG_FACTOR: f64 = 10.0;
/// Without a default number, a range from 0 to more than this needs `--param`. Guessed: it contains the
/// ranges of all counts that have no default, and no rate of events.
const UNSCALED_MAX: u64 = 10_000;
/// Significant digits of numbers other than integers: more digits do not change a run in a way that a search could
/// find.
const DIGITS: i32 = 3;
/// Number of bins of a range.
pub(super) const N_BINS: usize = 6;

/// The policy without effect on a simulated run, with which results are compared.
pub(super) const BASELINE: &str = "linux";

/// An invalid search space. Each message contains a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum SpaceError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(
        "policy {0} has no parameter that changes a run: there is nothing to tune, name another policy"
    )]
    NothingToTune(String),
    #[error("--policy {0} sets all parameters that can be searched: omit one of them")]
    AllSet(String),
    #[error("the oracle is a search itself: name another policy")]
    Oracle,
    #[error(
        "policy {policy}: {params} no effect, because {NO_THREADS}: add a workload with a parallel job, or another parameter"
    )]
    NoEffect { policy: &'static str, params: String },
    #[error("--param {0}: write NAME, or NAME=LOW..HIGH such as cooldown=0..20")]
    Malformed(String),
    #[error("--param {0}: the range is empty: the lower bound must be below the upper bound")]
    EmptyRange(String),
    #[error("--param {0} is given twice, keep one")]
    Twice(&'static str),
    #[error("--param {key}: --policy sets {key}, omit one of them")]
    Set { key: &'static str },
    #[error(
        "policy {policy}: {key} has no range, write --param {key}: all of {values} are searched"
    )]
    NoRange { policy: &'static str, key: &'static str, values: String },
    #[error(
        "policy {policy}: {key} has no range to search: write --param {key}=LOW..HIGH, or a value in --policy"
    )]
    RangeNeeded { policy: &'static str, key: &'static str },
}

/// The reason for which parameters for jobs with several threads are skipped.
const NO_THREADS: &str = "each job of the workloads has one thread";

/// Part of a range at each end in which a found value is reported as close to the end. Guessed.
const NEAR_END: f64 = 0.05;

/// The parameters that are searched.
#[derive(Clone, Debug)]
pub struct SearchSpace {
    pub(super) info: &'static PolicyInfo,
    /// The policy with the parameters that are not searched, as in the option.
    pub(super) base: String,
    pub(super) dimensions: Vec<Dimension>,
    /// Parameters without a usable range.
    pub(super) omitted: Vec<&'static str>,
    /// Parameters that have no effect on the jobs of the workloads.
    skipped: Vec<&'static str>,
}

/// A searched parameter.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    pub param: &'static Param,
    pub scale: Scale,
    /// A keyword (such as `off`) that is searched in addition to the range.
    pub word: Option<&'static str>,
    /// The value with the base settings.
    pub default: String,
}

/// The values of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    /// These values.
    List(Vec<String>),
    /// Numbers from `low` to `high`, in the unit of [`Values::limits`].
    Range { low: u64, high: u64, is_log: bool },
}

/// A value of a dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Coordinate {
    /// The keyword of a range.
    Word,
    /// An index in the list.
    Listed(usize),
    /// A position in the range, from 0 to 1.
    At(f64),
}

/// A valid combination of values.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The policy with its parameters, without parameters that have their default.
    pub spec: String,
    /// The value in each dimension; `None`: the parameter has no effect with the other values.
    pub coordinates: Vec<Option<Coordinate>>,
}

impl SearchSpace {
    /// Creates the space of a policy text, in which some parameters can be set, and of the values of `--param`; without
    /// these, of all parameters that have a range or a list of values. `reading`, which only changes defaults, must be
    /// selected.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn new(policy: &str, selected: &[String]) -> Result<Self, SpaceError> {
        if oracle::is_named(policy) {
            return Err(SpaceError::Oracle);
        }
        let base: String = policy.chars().filter(|c| !c.is_whitespace()).collect();
        let base = base.strip_suffix("[]").unwrap_or(&base).to_owned();
        let info = policy::find(base.split('[').next().unwrap_or_default())?;
        let set = Params::parse(info, &base)?;
        if info.name == BASELINE {
            return Err(SpaceError::NothingToTune(info.name.to_owned()));
        }
        let mut space = SearchSpace {
            info,
            base: String::new(),
            dimensions: Vec::new(),
            omitted: Vec::new(),
            skipped: Vec::new(),
        };
        for text in selected {
            let dimension = selected_dimension(info, &set, text)?;
            if space.dimensions.iter().any(|other| other.param.name == dimension.param.name) {
                return Err(SpaceError::Twice(dimension.param.name));
            }
            space.dimensions.push(dimension);
        }
        if selected.is_empty() {
            for param in
                info.params().filter(|it| !set.is_explicit(it.name) && it.name != "reading")
            {
                let scale = default_scale(param, set.text(param.name));
                match scale {
                    Some(scale) => space.dimensions.push(Dimension::new(param, scale, &set)),
                    None => space.omitted.push(param.name),
                }
            }
            if space.dimensions.is_empty() {
                return Err(match base.contains('[') {
                    true => SpaceError::AllSet(base),
                    false => SpaceError::NothingToTune(base),
                });
            }
        }
        let space = SearchSpace { base, ..space };
        let idle = |it: &Dimension| space.always_rejected(it);
        match space.dimensions.iter().filter(|_| !selected.is_empty()).find_map(idle) {
            Some(error) => Err(error.into()),
            None => Ok(space),
        }
    }

    /// Returns the error of a parameter whose values are all rejected because of parameters that are not searched.
    fn always_rejected(&self, dimension: &Dimension) -> Option<PolicyError> {
        let is_searched = |key: &str| self.dimensions.iter().any(|it| it.param.name == key);
        let mut errors = dimension.samples().map(|at| {
            let pair = format!("{}={}", dimension.param.name, dimension.text(at));
            let error = Params::parse(self.info, &self.with_params(&[pair])).err()?;
            let others = match &error {
                PolicyError::NoEffect { conditions, .. } => conditions,
                PolicyError::MissingParameter { missing, .. } => missing,
                _ => return None,
            };
            let mut keys = others.split(" and ").filter_map(|term| term.split('=').next());
            // The reading changes the defaults of other parameters.
            let is_fixed = !is_searched("reading") && !keys.any(is_searched);
            is_fixed.then_some(error)
        });
        let first = errors.next()??;
        errors.all(|error| error.is_some()).then_some(first)
    }

    /// Skips the parameters that have no effect on these jobs, which are those of all workloads.
    ///
    /// # Errors
    /// No parameter is left.
    pub fn for_jobs<'a>(
        mut self,
        jobs: impl IntoIterator<Item = &'a Job>,
    ) -> Result<Self, SpaceError> {
        if jobs.into_iter().any(|job| 1 < job.n_threads_max()) {
            return Ok(self);
        }
        let has_effect = |it: &Dimension| !it.param.for_several_threads;
        let (kept, skipped): (Vec<_>, Vec<_>) = self.dimensions.into_iter().partition(has_effect);
        self.skipped = skipped.iter().map(|it| it.param.name).collect();
        self.dimensions = kept;
        if self.dimensions.is_empty() {
            let verb = if self.skipped.len() == 1 { "has" } else { "have" };
            let params = format!("{} {verb}", self.skipped.join(", "));
            return Err(SpaceError::NoEffect { policy: self.info.name, params });
        }
        Ok(self)
    }

    /// Returns a note about the skipped parameters.
    pub(super) fn skipped_note(&self) -> Option<String> {
        (!self.skipped.is_empty())
            .then(|| format!("Skipped, because {NO_THREADS}: {}.", self.skipped.join(", ")))
    }

    /// Returns the point with the values of the base settings.
    pub(super) fn default_point(&self) -> Point {
        let has_effect = |dimension: &Dimension| {
            let pair = format!("{}={}", dimension.param.name, dimension.default);
            Params::parse(self.info, &self.with_params(&[pair])).is_ok()
        };
        let coordinate = |it: &Dimension| it.default_coordinate().filter(|_| has_effect(it));
        let coordinates = self.dimensions.iter().map(coordinate).collect();
        Point { spec: self.base.clone(), coordinates }
    }

    /// Returns the valid combination of these values. Parameters that have no effect are omitted, and `None` is a
    /// combination that the policy rejects.
    pub(super) fn point(&self, coordinates: &[Coordinate]) -> Option<Point> {
        let mut is_active = vec![true; coordinates.len()];
        let texts: Vec<String> =
            self.dimensions.iter().zip(coordinates).map(|(it, at)| it.text(*at)).collect();
        let spec = |is_used: &dyn Fn(usize) -> bool| {
            let pairs = self.dimensions.iter().zip(&texts).enumerate();
            let pairs = pairs.filter(|(idx, _)| is_used(*idx));
            let pairs = pairs.map(|(_, (it, text))| format!("{}={text}", it.param.name));
            self.with_params(&pairs.collect::<Vec<_>>())
        };
        while let Err(error) = Params::parse(self.info, &spec(&|idx| is_active[idx])) {
            let PolicyError::NoEffect { key, .. } = error else { return None };
            let idx = self.dimensions.iter().position(|it| it.param.name == key)?;
            is_active[idx] = false;
        }
        // The reading changes the defaults.
        let keeps_defaults = self.dimensions.iter().any(|it| it.param.name == "reading");
        let is_used = |idx: usize| {
            is_active[idx] && (keeps_defaults || texts[idx] != self.dimensions[idx].default)
        };
        let spec = spec(&is_used);
        Params::parse(self.info, &spec).ok()?;
        let coordinates = coordinates.iter().zip(&is_active);
        let coordinates = coordinates.map(|(at, is_active)| is_active.then_some(*at)).collect();
        Some(Point { spec, coordinates })
    }

    /// Returns the base settings with further parameters.
    pub(super) fn with_params(&self, pairs: &[String]) -> String {
        match (self.base.strip_suffix(']'), pairs) {
            (_, []) => self.base.clone(),
            (Some(open), _) => format!("{open},{}]", pairs.join(",")),
            (None, _) => format!("{}[{}]", self.base, pairs.join(",")),
        }
    }
}

/// Parses a value of `--param`.
fn selected_dimension(
    info: &'static PolicyInfo,
    set: &Params<'_>,
    text: &str,
) -> Result<Dimension, SpaceError> {
    let (key, range) = match text.split_once('=') {
        Some((key, range)) => (key.trim(), Some(range)),
        None => (text.trim(), None),
    };
    let policy = info.name;
    let known = || info.params().map(|param| param.name).collect();
    let unknown =
        || PolicyError::UnknownParameter { policy, found: key.to_owned(), known: known() };
    let param = info.param(key).ok_or_else(unknown)?;
    let key = param.name;
    if set.is_explicit(key) {
        return Err(SpaceError::Set { key });
    }
    let Some(range) = range else {
        let scale = default_scale(param, set.text(key));
        let scale = scale.ok_or(SpaceError::RangeNeeded { policy, key })?;
        return Ok(Dimension::new(param, scale, set));
    };
    if matches!(param.values, Values::Names(_) | Values::Domains(_)) {
        return Err(SpaceError::NoRange { policy, key, values: param.values.words() });
    }
    let malformed = || SpaceError::Malformed(text.to_owned());
    let (low, high) = range.split_once("..").ok_or_else(malformed)?;
    let end = |found: &str| {
        let number = param.values.number(found);
        let is_accepted = match (param.values, param.values.limits()) {
            (Values::Other(_, accepts), _) => accepts(found),
            (_, Some((min, max))) => number.is_some_and(|number| (min..=max).contains(&number)),
            (_, None) => false,
        };
        let values = || param.values.words();
        number.filter(|_| is_accepted).ok_or_else(|| PolicyError::BadValue {
            policy,
            key,
            found: found.to_owned(),
            values: values(),
        })
    };
    let (low, high) = (end(low.trim())?, end(high.trim())?);
    if high <= low {
        return Err(SpaceError::EmptyRange(text.to_owned()));
    }
    let scale = range_scale(&param.values, low, high);
    Ok(Dimension { word: None, ..Dimension::new(param, scale, set) })
}

/// Returns the values that are searched without a range on the command line; `None` if the declaration has no usable
/// range.
fn default_scale(param: &Param, default: &str) -> Option<Scale> {
    let list = |names: &[&str]| {
        let values = names.iter().map(|name| (*name).to_owned()).collect();
        (1 < names.len()).then_some(Scale::List(values))
    };
    match param.values {
        Values::Names(names) => return list(names),
        Values::Domains(_) => return list(&["auto", "node", "llc", "core"]),
        _ => {}
    }
    let (min, max) = param.values.limits()?;
    let one = param.values.number("1").or_else(|| param.values.number("100%"));
    let is_share = one.is_some_and(|one| 1 < one && max <= one);
    let (low, high) = match param.values.number(default) {
        _ if is_share => (min, max),
        Some(default) if default != 0 => {
            (min.max(default / 10), max.min(default.saturating_mul(10)))
        }
        _ if min == 0 && UNSCALED_MAX < max => return None,
        _ => (min, max),
    };
    (low < high).then(|| range_scale(&param.values, low, high))
}

fn range_scale(values: &Values, low: u64, high: u64) -> Scale {
    let is_whole = match values {
        Values::Or(_, others) => matches!(others, Values::Integer { .. }),
        values => matches!(values, Values::Integer { .. }),
    };
    if is_whole && high - low < N_LISTED_MAX {
        return Scale::List((low..=high).map(|number| values.number_text(number)).collect());
    }
    Scale::Range { low, high, is_log: 0 < low && LOG_FACTOR * (low as f64) < high as f64 }
}

impl Dimension {
    fn new(param: &'static Param, scale: Scale, set: &Params<'_>) -> Self {
        let word = match param.values {
            Values::Or(word, _) => Some(word),
            _ => None,
        };
        Dimension { param, scale, word, default: set.text(param.name).to_owned() }
    }

    /// Returns the text of a value.
    pub fn text(&self, at: Coordinate) -> String {
        match (at, &self.scale) {
            (Coordinate::Listed(idx), Scale::List(values)) => values[idx].clone(),
            (Coordinate::At(position), Scale::Range { low, high, .. }) => {
                let number = rounded(self.number_at(position), self.is_whole());
                self.param.values.number_text(number.clamp(*low, *high))
            }
            _ => self.word.unwrap_or_default().to_owned(),
        }
    }

    /// Returns the word, and all values of a list or the ends of the bins of a range.
    fn samples(&self) -> impl Iterator<Item = Coordinate> {
        let (n_listed, n_ends) = match &self.scale {
            Scale::List(values) => (values.len(), 0),
            Scale::Range { .. } => (0, N_BINS + 1),
        };
        let end = |bin: usize| Coordinate::At(bin as f64 / N_BINS as f64);
        let word = self.word.map(|_| Coordinate::Word).into_iter();
        word.chain((0..n_listed).map(Coordinate::Listed)).chain((0..n_ends).map(end))
    }

    /// Returns whether a position is close to an end of the range that the declaration of the parameter lets exceed.
    pub fn can_exceed(&self, position: f64) -> bool {
        let (Scale::Range { low, high, .. }, Some(limits)) =
            (&self.scale, self.param.values.limits())
        else {
            return false;
        };
        position < NEAR_END && limits.0 < *low || 1.0 - NEAR_END < position && *high < limits.1
    }

    fn is_whole(&self) -> bool {
        self.param.values.number_text(1) == "1" && self.param.values.number("1") == Some(1)
    }

    fn number_at(&self, position: f64) -> f64 {
        match self.scale {
            Scale::List(_) => 0.0,
            Scale::Range { low, high, is_log } => {
                let (low, high) = (low as f64, high as f64);
                match is_log {
                    true => low * libm::pow(high / low, position),
                    false => low + position * (high - low),
                }
            }
        }
    }

    /// Returns the default; `None` if it is not in the searched range.
    pub(super) fn default_coordinate(&self) -> Option<Coordinate> {
        if self.word == Some(&self.default) {
            return Some(Coordinate::Word);
        }
        match &self.scale {
            Scale::List(values) => {
                values.iter().position(|value| *value == self.default).map(Coordinate::Listed)
            }
            Scale::Range { low, high, is_log } => {
                let number = self.param.values.number(&self.default)?;
                let (number, low, high) = (number as f64, *low as f64, *high as f64);
                let share = match is_log {
                    true => libm::log(number / low) / libm::log(high / low),
                    false => (number - low) / (high - low),
                };
                // The upper end is outside of the range of the optimizer.
                let at = (low <= number && number <= high).then_some(share.min(1.0 - 1e-9));
                at.map(Coordinate::At)
            }
        }
    }

    /// Returns the searched values, in words.
    pub fn values_text(&self) -> String {
        let values = match &self.scale {
            Scale::List(values) => values.join(", "),
            Scale::Range { low, high, is_log } => {
                let [low, high] = [low, high].map(|end| self.param.values.number_text(*end));
                format!("{low} to {high}{}", if *is_log { " (log)" } else { "" })
            }
        };
        self.word.map_or(values.clone(), |word| format!("{word}, {values}"))
    }

    /// Returns the labels of the bins: the word, then the values or parts of the range.
    pub fn bins(&self) -> Vec<String> {
        let word = self.word.map(str::to_owned).into_iter();
        let labels: Vec<String> = match &self.scale {
            Scale::List(values) => values.clone(),
            Scale::Range { .. } => {
                let end = |bin: usize| self.text(Coordinate::At(bin as f64 / N_BINS as f64));
                (0..N_BINS).map(|bin| format!("{}..{}", end(bin), end(bin + 1))).collect()
            }
        };
        word.chain(labels).collect()
    }

    /// Returns the bin of a value.
    pub fn bin_of(&self, at: Coordinate) -> usize {
        let n_words = usize::from(self.word.is_some());
        match at {
            Coordinate::Word => 0,
            Coordinate::Listed(idx) => n_words + idx,
            Coordinate::At(position) => {
                n_words + ((position * N_BINS as f64) as usize).min(N_BINS - 1)
            }
        }
    }
}

/// Returns a number with [`DIGITS`] significant digits; a whole number keeps all digits.
fn rounded(number: f64, is_whole: bool) -> u64 {
    let n_digits = if number < 1.0 { 1 } else { libm::trunc(libm::log10(number)) as i32 + 1 };
    let step = libm::pow(10.0, f64::from(if is_whole { 0 } else { (n_digits - DIGITS).max(0) }));
    (libm::round(number / step) * step) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(policy: &str, selected: &[&str]) -> Result<SearchSpace, SpaceError> {
        let selected: Vec<String> = selected.iter().map(|text| (*text).to_owned()).collect();
        SearchSpace::new(policy, &selected)
    }

    #[test]
    fn ranges_are_the_declared_ones_near_the_default() {
        let all = space("dfs", &[]).expect("it has parameters");
        let values = |name: &str| {
            let found = all.dimensions.iter().find(|it| it.param.name == name);
            found.map(Dimension::values_text)
        };
        let expected = [
            ("interval", "25ms to 2.5s (log)"),
            ("cooldown", "0 to 80"),
            ("bind", "cpu, domain"),
            ("gain", "off, 0.001 to 1000 (log)"),
            ("slope", "0.001 to 1 (log)"),
            ("page_migration", "200ns to 20us (log)"),
            ("failures", "1 to 40 (log)"),
        ];
        for (name, text) in expected {
            assert_eq!(values(name).as_deref(), Some(text), "{name}");
        }
        assert_eq!((values("reading"), values("wake")), (None, None));
        assert_eq!(all.omitted, ["wake", "factor", "min_load"]);
    }

    #[test]
    fn the_text_of_each_value_is_accepted_and_bins_contain_it() {
        for info in policy::registry().iter().filter(|info| info.name != BASELINE) {
            let Ok(all) = space(info.name, &[]) else { continue };
            for dimension in &all.dimensions {
                let n_bins = dimension.bins().len();
                let at = (0..=100).map(|step| Coordinate::At(f64::from(step) / 100.0));
                let at: Vec<Coordinate> = match &dimension.scale {
                    Scale::List(values) => (0..values.len()).map(Coordinate::Listed).collect(),
                    Scale::Range { .. } => {
                        at.chain(dimension.word.map(|_| Coordinate::Word)).collect()
                    }
                };
                for at in at {
                    let text = dimension.text(at);
                    let is_word = dimension.word == Some(text.as_str());
                    let number = dimension.param.values.number(&text);
                    let is_listed = matches!(at, Coordinate::Listed(_));
                    assert!(
                        is_word || is_listed || number.is_some(),
                        "{}: {text}",
                        dimension.param.name
                    );
                    assert!(dimension.bin_of(at) < n_bins);
                }
            }
        }
    }

    #[test]
    fn a_parameter_without_effect_is_omitted_and_a_rejected_combination_is_no_point() {
        let all = space("dfs", &["gain", "slope"]).expect("both exist");
        assert_eq!(all.default_point().coordinates, [Some(Coordinate::Word), None]);
        let off = all.point(&[Coordinate::Word, Coordinate::At(0.5)]).expect("valid");
        assert_eq!(off.spec, "dfs");
        assert_eq!(off.coordinates, [Some(Coordinate::Word), None]);
        let on = all.point(&[Coordinate::At(0.5), Coordinate::At(0.0)]).expect("valid");
        assert_eq!(on.spec, "dfs[gain=1,slope=0.001]");
        let below = space("animal", &["devil=10..90", "strong=20..100"]).expect("both exist");
        assert!(below.point(&[Coordinate::At(0.9), Coordinate::At(0.1)]).is_none());
        assert!(below.point(&[Coordinate::At(0.1), Coordinate::At(0.9)]).is_some());
    }

    #[test]
    fn parameters_for_several_threads_are_skipped_if_each_job_has_one_thread() {
        use program::{Command, Section, Sections, WorkPart};
        let job = |threads| {
            let command = Command::Load(Vec::new());
            Job { threads, ..Job::new(base::JobId(0), "a", command) }
        };
        let team = Section::Team { threads: Some(2), part: WorkPart { work: 1, phase: None } };
        let sections = Some(Sections { rounds: 1, sections: vec![team] });
        let forks = Job { sections, ..job(1) };
        let names = |selected: &[&str], job: &Job| {
            let all = space("ib", selected)?.for_jobs([job])?;
            Ok::<_, SpaceError>(
                all.dimensions.iter().map(|it| it.param.name).collect::<Vec<_>>().join(" "),
            )
        };
        let has_threads = |names: String| names.contains("tlp lrt cosched");
        assert_eq!(names(&[], &job(1)).map(has_threads), Ok(false));
        assert_eq!(names(&[], &job(2)).map(has_threads), Ok(true));
        assert_eq!(names(&[], &forks).map(has_threads), Ok(true));
        assert_eq!(names(&["lrt", "beta", "tlp"], &job(1)), Ok("beta".to_owned()));
        let note = space("ib", &["lrt", "beta"]).and_then(|all| all.for_jobs([&job(1)]));
        assert_eq!(
            note.expect("beta is left").skipped_note().as_deref(),
            Some("Skipped, because each job of the workloads has one thread: lrt.")
        );
        assert_eq!(
            names(&["lrt"], &job(1)).expect_err("none is left").to_string(),
            "policy ib: lrt has no effect, because each job of the workloads has one thread: add a workload with a parallel job, or another parameter"
        );
        // Each name of the declaration exists.
        let ib = policy::find("ib").expect("a policy");
        assert_eq!(ib.params().filter(|param| param.for_several_threads).count(), 3);
    }

    #[test]
    fn parameters_of_the_policy_text_are_kept() {
        let all = space("dfs[cooldown=2]", &["interval"]).expect("valid");
        let point = all.point(&[Coordinate::At(0.0)]).expect("valid");
        assert_eq!(point.spec, "dfs[cooldown=2,interval=25ms]");
        assert_eq!(all.default_point().spec, "dfs[cooldown=2]");
    }

    #[test]
    fn a_selected_parameter_without_effect_is_rejected() {
        let error = |policy: &str, selected: &[&str]| {
            space(policy, selected).err().map(|error| error.to_string())
        };
        let later =
            "policy hass-s: gain has no effect with later=none: change one of them or omit gain";
        assert_eq!(error("hass-s[later=none]", &["gain"]).as_deref(), Some(later));
        assert_eq!(error("hass-s[later=none]", &["interval", "gain"]).as_deref(), Some(later));
        assert_eq!(error("hass-s", &["gain", "later"]), None);
        // The value `off` of another parameter is its default.
        let slope =
            "policy dfs: slope has no effect with gain=off: change one of them or omit slope";
        assert_eq!(error("dfs", &["slope"]).as_deref(), Some(slope));
        assert_eq!(error("dfs", &["slope", "gain"]), None);
        assert_eq!(error("dfs[gain=1]", &["slope"]), None);
        let error = error("divided", &["th_ref=1..100"]).expect("it needs th_sq");
        assert!(error.ends_with("th_ref also requires th_sq"), "{error}");
    }

    #[test]
    fn errors_contain_a_remedy() {
        let message = |policy: &str, selected: &[&str]| {
            space(policy, selected).expect_err("invalid").to_string()
        };
        for (policy, selected, expected) in [
            ("linux", "interval", "nothing to tune"),
            ("dsf", "interval", "did you mean \"dfs\"?"),
            ("dfs", "colldown", "did you mean \"cooldown\"?"),
            ("dfs", "cooldown=5", "write NAME, or NAME=LOW..HIGH"),
            ("dfs", "cooldown=5..5", "the range is empty"),
            ("dfs", "cooldown=0..2000000", "cooldown cannot be \"2000000\""),
            ("dfs", "interval=5..6s", "interval cannot be \"5\""),
            ("dfs", "bind=1..2", "all of cpu or domain are searched"),
            ("dfs", "wake", "has no range to search"),
            ("dfs[cooldown=3]", "cooldown", "--policy sets cooldown"),
            ("oracle", "objective", "a search itself"),
        ] {
            let message = message(policy, &[selected]);
            assert!(message.contains(expected), "{policy} {selected}: {message}");
        }
        assert!(message("dfs", &["bind", "bind"]).contains("given twice"));
    }
}
