//! Requests with their reasons, rejections and outcomes.

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

use super::fields::{MemoryPolicyField, TargetField, set};
use super::is_default;
use super::memory::PageMoveField;
use crate::LineError;

/// `{"job":3,"place":"1","reason":{"code":"least-load","values":{…}}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestLine {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub action: ActionField,
    pub reason: ReasonField,
}

/// An action, or the start of a due job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ActionField {
    Start {},
    Place(String),
    MemoryPolicy(MemoryPolicyField),
    Release {},
    MovePages(PageMoveField),
}

/// The code of a reason and its values, in the order in which the policy added them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReasonField {
    pub code: String,
    #[serde(skip_serializing_if = "ReasonValues::is_empty", default)]
    pub values: ReasonValues,
}

/// A JSON object that keeps its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReasonValues(Vec<(Cow<'static, str>, ValueField)>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ValueField {
    Count(u64),
    Number(f64),
    Text(String),
    /// `null`: JSON has no NaN.
    NotANumber(()),
}

/// `{"job":3,"place":"1","reason":{…},"cause":"unchanged","detail":"…"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RejectionLine {
    #[serde(flatten)]
    pub request: RequestLine,
    pub cause: String,
    pub detail: String,
}

/// `{"job":3,"start":{},"done":4711}`; instead of `"done"` also `"in_progress":true`, or `"cause"` with
/// `"detail"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutcomeLine {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub action: ActionField,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub done: Option<u32>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub in_progress: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}

impl From<&Reason> for ReasonField {
    fn from(reason: &Reason) -> Self {
        let values = reason.values.iter().map(|(name, value)| (name.clone(), value.into()));
        ReasonField { code: reason.code.name().to_owned(), values: ReasonValues(values.collect()) }
    }
}

impl ReasonField {
    /// The reason, with the template of its code from the header of the journal.
    pub(crate) fn reason(self, codes: &[ReasonCode]) -> Result<Reason, LineError> {
        let code = codes.iter().find(|code| code.name() == self.code).cloned();
        let code = code.ok_or_else(|| {
            LineError::value("code", format!("{:?}", self.code), "a reason code of the header")
        })?;
        let values = self.values.0.into_iter().map(|(name, field)| (name, field.into()));
        Ok(Reason { code, values: values.collect() })
    }
}

impl From<&ReasonValue> for ValueField {
    fn from(value: &ReasonValue) -> Self {
        match value {
            ReasonValue::Count(count) => ValueField::Count(*count),
            ReasonValue::Number(number) if number.is_finite() => ValueField::Number(*number),
            ReasonValue::Number(_) => ValueField::NotANumber(()),
            ReasonValue::Text(text) => ValueField::Text(text.clone().into_owned()),
        }
    }
}

impl From<ValueField> for ReasonValue {
    fn from(field: ValueField) -> Self {
        match field {
            ValueField::Count(count) => ReasonValue::Count(count),
            ValueField::Number(number) => ReasonValue::Number(number),
            ValueField::Text(text) => ReasonValue::Text(text.into()),
            ValueField::NotANumber(()) => ReasonValue::Number(f64::NAN),
        }
    }
}

impl ReasonValues {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for ReasonValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ReasonValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = ReasonValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReasonValues, A::Error> {
                let mut values = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, ValueField>()? {
                    values.push((Cow::Owned(name), value));
                }
                Ok(ReasonValues(values))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl From<&Action> for ActionField {
    fn from(action: &Action) -> Self {
        match action {
            Action::Place(cpus) => ActionField::Place(cpus.to_string()),
            Action::MemoryPolicy(policy) => ActionField::MemoryPolicy(policy.into()),
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
            ActionField::MemoryPolicy(policy) => Action::MemoryPolicy(policy.policy()?),
            ActionField::Release {} => Action::Release,
            ActionField::MovePages(pages) => {
                let (from, to, limit) = pages.into();
                Action::MovePages { from, to, limit }
            }
        }))
    }
}

impl From<&Request> for RequestLine {
    fn from(request: &Request) -> Self {
        RequestLine {
            target: request.target.into(),
            action: (&request.action).into(),
            reason: (&*request.reason).into(),
        }
    }
}

impl RequestLine {
    pub(crate) fn request(self, codes: &[ReasonCode]) -> Result<Request, LineError> {
        let reason = Arc::new(self.reason.reason(codes)?);
        let action = self.action.action()?;
        let action = action.ok_or_else(|| LineError::value("requests", "start", "an action"))?;
        Ok(Request { target: self.target.into(), action, reason })
    }
}

impl From<&Rejection> for RejectionLine {
    fn from(rejection: &Rejection) -> Self {
        RejectionLine {
            request: (&rejection.request).into(),
            cause: rejection.cause.name().to_owned(),
            detail: rejection.detail.clone(),
        }
    }
}

impl RejectionLine {
    pub(crate) fn rejection(self, codes: &[ReasonCode]) -> Result<Rejection, LineError> {
        let cause = reject_cause(&self.cause)?;
        Ok(Rejection { request: self.request.request(codes)?, cause, detail: self.detail })
    }
}

impl From<&Outcome> for OutcomeLine {
    fn from(outcome: &Outcome) -> Self {
        let action = outcome.action.as_ref().map_or(ActionField::Start {}, ActionField::from);
        let target = outcome.target.into();
        let line = OutcomeLine {
            target,
            action,
            done: None,
            in_progress: false,
            cause: None,
            detail: None,
        };
        match &outcome.result {
            OutcomeResult::Done { n } => OutcomeLine { done: Some(*n), ..line },
            OutcomeResult::InProgress => OutcomeLine { in_progress: true, ..line },
            OutcomeResult::Rejected { cause, detail } => OutcomeLine {
                cause: Some(cause.name().to_owned()),
                detail: Some(detail.clone()),
                ..line
            },
        }
    }
}

impl OutcomeLine {
    pub(crate) fn outcome(self) -> Result<Outcome, LineError> {
        let result = match (self.done, self.in_progress, self.cause) {
            (Some(n), false, None) => OutcomeResult::Done { n },
            (None, true, None) => OutcomeResult::InProgress,
            (None, false, Some(cause)) => OutcomeResult::Rejected {
                cause: reject_cause(&cause)?,
                detail: self.detail.unwrap_or_default(),
            },
            _ => {
                let expected = "one of done, in_progress and cause";
                return Err(LineError::value("outcomes", "none or several", expected));
            }
        };
        Ok(Outcome { target: self.target.into(), action: self.action.action()?, result })
    }
}

/// Parses the name of a cause of rejection.
pub(crate) fn reject_cause(name: &str) -> Result<RejectCause, LineError> {
    let known = RejectCause::ALL.iter().copied().find(|cause| cause.name() == name);
    known
        .ok_or_else(|| LineError::value("cause", format!("{name:?}"), "a known cause of rejection"))
}
