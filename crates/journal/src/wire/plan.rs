//! Wishes with their reasons, refusals and outcomes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use sched::{
    Action, Outcome, OutcomeResult, Reason, ReasonCode, ReasonValue, RejectCause, Rejection,
    Request,
};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::basic::{MemoryField, TargetField, set};
use super::is_default;
use super::memory::PagesField;
use crate::LineError;

/// `{"job":3,"place":"1","because":"least-load","figures":{…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AskLine {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub action: ActionField,
    #[serde(flatten)]
    pub reason: ReasonLine,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ActionField {
    Start {},
    Place(String),
    Memory(MemoryField),
    Release {},
    MovePages(PagesField),
}

/// A reason: its code and its figures in the order in which they were told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReasonLine {
    pub because: String,
    #[serde(skip_serializing_if = "Figures::is_empty", default)]
    pub figures: Figures,
}

/// A JSON object that keeps its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures(Vec<(Cow<'static, str>, FigureField)>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum FigureField {
    Count(u64),
    Number(f64),
    Text(String),
    /// JSON has no word for a number that is none.
    NotANumber(()),
}

/// `{"job":3,"place":"1","because":…,"why":"already","detail":"…"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RefusalLine {
    #[serde(flatten)]
    pub ask: AskLine,
    pub why: String,
    pub detail: String,
}

/// `{"job":3,"start":{},"done":4711}` or with `"why"` and `"detail"` or with `"begun":true` instead
/// of `"done"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutcomeLine {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub action: ActionField,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub done: Option<u32>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub begun: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}

impl From<&Reason> for ReasonLine {
    fn from(reason: &Reason) -> Self {
        let figures = reason.values.iter().map(|(name, figure)| (name.clone(), figure.into()));
        ReasonLine { because: reason.code.name().to_owned(), figures: Figures(figures.collect()) }
    }
}

impl ReasonLine {
    pub(crate) fn reason(self) -> Result<Reason, LineError> {
        let code = ReasonCode::from_name(&self.because);
        let code = code.ok_or_else(|| {
            LineError::value("because", format!("{:?}", self.because), "known reason")
        })?;
        let figures = self.figures.0.into_iter().map(|(name, field)| (name, field.into()));
        Ok(Reason { code, values: figures.collect() })
    }
}

impl From<&ReasonValue> for FigureField {
    fn from(figure: &ReasonValue) -> Self {
        match figure {
            ReasonValue::Count(count) => FigureField::Count(*count),
            ReasonValue::Number(number) if number.is_finite() => FigureField::Number(*number),
            ReasonValue::Number(_) => FigureField::NotANumber(()),
            ReasonValue::Text(text) => FigureField::Text(text.clone().into_owned()),
        }
    }
}

impl From<FigureField> for ReasonValue {
    fn from(field: FigureField) -> Self {
        match field {
            FigureField::Count(count) => ReasonValue::Count(count),
            FigureField::Number(number) => ReasonValue::Number(number),
            FigureField::Text(text) => ReasonValue::Text(text.into()),
            FigureField::NotANumber(()) => ReasonValue::Number(f64::NAN),
        }
    }
}

impl Figures {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, figure) in &self.0 {
            map.serialize_entry(name, figure)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Figures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of figures")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
                let mut figures = Vec::new();
                while let Some((name, figure)) = map.next_entry::<String, FigureField>()? {
                    figures.push((Cow::Owned(name), figure));
                }
                Ok(Figures(figures))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl From<&Action> for ActionField {
    fn from(action: &Action) -> Self {
        match action {
            Action::Place(cpus) => ActionField::Place(cpus.to_string()),
            Action::MemoryPolicy(policy) => ActionField::Memory(policy.into()),
            Action::Release => ActionField::Release {},
            Action::MovePages { from, to, limit } => {
                ActionField::MovePages((*from, *to, *limit).into())
            }
        }
    }
}

impl ActionField {
    /// `None` for the start of a job.
    fn action(self) -> Result<Option<Action>, LineError> {
        Ok(Some(match self {
            ActionField::Start {} => return Ok(None),
            ActionField::Place(cpus) => Action::Place(set("place", &cpus)?),
            ActionField::Memory(policy) => Action::MemoryPolicy(policy.policy()?),
            ActionField::Release {} => Action::Release,
            ActionField::MovePages(pages) => {
                let (from, to, limit) = pages.into();
                Action::MovePages { from, to, limit }
            }
        }))
    }
}

impl From<&Request> for AskLine {
    fn from(request: &Request) -> Self {
        AskLine {
            target: request.target.into(),
            action: (&request.action).into(),
            reason: (&*request.reason).into(),
        }
    }
}

impl AskLine {
    pub(crate) fn ask(self) -> Result<Request, LineError> {
        let reason = Arc::new(self.reason.reason()?);
        let action = self.action.action()?;
        let action = action.ok_or_else(|| LineError::value("asks", "start", "action"))?;
        Ok(Request { target: self.target.into(), action, reason })
    }
}

impl From<&Rejection> for RefusalLine {
    fn from(refusal: &Rejection) -> Self {
        let (why, detail) = (refusal.cause.name().to_owned(), refusal.detail.clone());
        RefusalLine { ask: (&refusal.request).into(), why, detail }
    }
}

impl RefusalLine {
    pub(crate) fn refusal(self) -> Result<Rejection, LineError> {
        Ok(Rejection { request: self.ask.ask()?, cause: why(&self.why)?, detail: self.detail })
    }
}

impl From<&Outcome> for OutcomeLine {
    fn from(outcome: &Outcome) -> Self {
        let start = ActionField::Start {};
        let action = outcome.action.as_ref().map_or(start, ActionField::from);
        let (done, begun, why, detail) = match &outcome.result {
            OutcomeResult::Done { n } => (Some(*n), false, None, None),
            OutcomeResult::InProgress => (None, true, None, None),
            OutcomeResult::Rejected { cause: why, detail } => {
                (None, false, Some(why.name().to_owned()), Some(detail.clone()))
            }
        };
        OutcomeLine { target: outcome.target.into(), action, done, begun, why, detail }
    }
}

impl OutcomeLine {
    pub(crate) fn outcome(self) -> Result<Outcome, LineError> {
        let result = match (self.done, self.begun, self.why) {
            (Some(n), false, None) => OutcomeResult::Done { n },
            (None, true, None) => OutcomeResult::InProgress,
            (None, false, Some(name)) => OutcomeResult::Rejected {
                cause: why(&name)?,
                detail: self.detail.unwrap_or_default(),
            },
            _ => return Err(LineError::value("outcomes", "none or several", "done, begun or why")),
        };
        Ok(Outcome { target: self.target.into(), action: self.action.action()?, result })
    }
}

/// Reads the name of a sort of refusal.
pub(crate) fn why(name: &str) -> Result<RejectCause, LineError> {
    let known = RejectCause::ALL.iter().copied().find(|why| why.name() == name);
    known.ok_or_else(|| LineError::value("why", format!("{name:?}"), "known sort of refusal"))
}
