//! Requests with their reasons, rejections and outcomes.

use std::borrow::Cow;
use std::fmt;

use base::Bytes;
use sched::{
    Action, Observation, Outcome, OutcomeResult, Reason, ReasonCode, ReasonValue, Rejection,
    Request, Target,
};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::{Encoded, MemoryPolicyField, Name, TargetField, is_default, line_types};
use crate::LineError;

line_types! {
    /// `{"job":3,"place":"1","reason":{"code":"least-load","values":{…}}}`.
    RequestLine for Request {
        flatten target: TargetField = target,
        flatten action: ActionField = action,
        reason: ReasonField = reason,
    }

    /// `{"job":3,"reason":{"code":"ib-phase-queued","values":{…}}}`.
    ObservationLine for Observation {
        flatten target: TargetField = target,
        reason: ReasonField = reason,
    }

    /// `{"job":3,"place":"1","reason":{…},"cause":"unchanged","detail":"…"}`.
    RejectionLine for Rejection {
        flatten request: RequestLine = request,
        cause: Name = cause,
        detail: String = detail,
    }
}

/// An action, or the start of a due job.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ActionField {
    Start {},
    Place(String),
    MemoryPolicy(MemoryPolicyField),
    Release {},
    MovePages(PageMigrationField),
}

/// Source, target and limit of a page migration: `{"from":0,"to":2,"limit_bytes":…}`. Without `from`, all nodes except
/// the target are sources. Without `limit_bytes` there is no limit.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PageMigrationField {
    #[serde(skip_serializing_if = "is_default", default)]
    pub from: Option<u32>,
    pub to: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub limit_bytes: Option<u64>,
}

/// The code of a reason and its values, in the order in which the policy added them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReasonField {
    pub code: String,
    #[serde(skip_serializing_if = "is_default", default)]
    pub values: ReasonValues,
}

/// A JSON object with its entries in the order of the line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReasonValues(Vec<(Cow<'static, str>, ValueField)>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ValueField {
    Count(u64),
    Number(f64),
    Text(String),
    /// The encoding is `null`, because JSON has no NaN.
    NotANumber(()),
}

/// `{"job":3,"start":{},"done":4711}`. The result is `"done"`, `"in_progress":true`, or `"cause"` and `"detail"`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutcomeLine {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub action: ActionField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub done: Option<u32>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub in_progress: bool,
    #[serde(skip_serializing_if = "is_default", default)]
    pub cause: Option<Name>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub detail: Option<String>,
}

impl Encoded<ReasonField> for Reason {
    fn encode(&self) -> ReasonField {
        let values = self.values.iter().map(|(name, value)| (name.clone(), value.encode()));
        ReasonField { code: self.code.name().to_owned(), values: ReasonValues(values.collect()) }
    }

    /// Decodes a reason. The template of the code is taken from the header.
    fn decode(field: ReasonField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let code = codes.iter().find(|code| code.name() == field.code).cloned();
        let code = code.ok_or_else(|| {
            LineError::value("code", format!("{:?}", field.code), "a reason code of the header")
        })?;
        let value = |(name, value)| Ok((name, Encoded::decode(value, codes)?));
        Ok(Reason {
            code,
            values: field.values.0.into_iter().map(value).collect::<Result<_, _>>()?,
        })
    }
}

impl Encoded<ValueField> for ReasonValue {
    fn encode(&self) -> ValueField {
        match self {
            ReasonValue::Count(count) => ValueField::Count(*count),
            ReasonValue::Number(number) if number.is_finite() => ValueField::Number(*number),
            ReasonValue::Number(_) => ValueField::NotANumber(()),
            ReasonValue::Text(text) => ValueField::Text(text.clone().into_owned()),
        }
    }

    fn decode(field: ValueField, _: &[ReasonCode]) -> Result<Self, LineError> {
        Ok(match field {
            ValueField::Count(count) => ReasonValue::Count(count),
            ValueField::Number(number) => ReasonValue::Number(number),
            ValueField::Text(text) => ReasonValue::Text(text.into()),
            ValueField::NotANumber(()) => ReasonValue::Number(f64::NAN),
        })
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
        struct ReasonValuesVisitor;
        impl<'de> Visitor<'de> for ReasonValuesVisitor {
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
        deserializer.deserialize_map(ReasonValuesVisitor)
    }
}

impl Encoded<ActionField> for Option<Action> {
    fn encode(&self) -> ActionField {
        match self {
            None => ActionField::Start {},
            Some(Action::Place(cpus)) => ActionField::Place(cpus.encode()),
            Some(Action::MemoryPolicy(policy)) => ActionField::MemoryPolicy(policy.encode()),
            Some(Action::Release) => ActionField::Release {},
            Some(Action::MovePages { from, to, limit }) => {
                ActionField::MovePages(PageMigrationField {
                    from: from.encode(),
                    to: to.encode(),
                    limit_bytes: limit.encode(),
                })
            }
        }
    }

    fn decode(field: ActionField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        Ok(Some(match field {
            ActionField::Start {} => return Ok(None),
            ActionField::Place(cpus) => {
                let cpus = Encoded::decode(cpus, codes);
                Action::Place(cpus.map_err(|error: LineError| error.of_field("place"))?)
            }
            ActionField::MemoryPolicy(policy) => {
                Action::MemoryPolicy(Encoded::decode(policy, codes)?)
            }
            ActionField::Release {} => Action::Release,
            ActionField::MovePages(PageMigrationField { from, to, limit_bytes }) => {
                Action::MovePages {
                    from: Encoded::decode(from, codes)?,
                    to: Encoded::decode(to, codes)?,
                    limit: Bytes::decode(limit_bytes, codes)?,
                }
            }
        }))
    }
}

impl Encoded<ActionField> for Action {
    fn encode(&self) -> ActionField {
        Some(self.clone()).encode()
    }

    fn decode(field: ActionField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let action: Option<Action> = Encoded::decode(field, codes)?;
        action.ok_or_else(|| LineError::value("requests", "start", "an action"))
    }
}

impl Encoded<OutcomeLine> for Outcome {
    fn encode(&self) -> OutcomeLine {
        let (target, action) = (self.target.encode(), self.action.encode());
        let (done, in_progress, cause, detail) = match &self.result {
            OutcomeResult::Done { n } => (Some(*n), false, None, None),
            OutcomeResult::InProgress => (None, true, None, None),
            OutcomeResult::Rejected { cause, detail } => {
                (None, false, Some(cause.encode()), Some(detail.clone()))
            }
        };
        OutcomeLine { target, action, done, in_progress, cause, detail }
    }

    fn decode(line: OutcomeLine, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let result = match (line.done, line.in_progress, line.cause) {
            (Some(n), false, None) => OutcomeResult::Done { n },
            (None, true, None) => OutcomeResult::InProgress,
            (None, false, Some(cause)) => OutcomeResult::Rejected {
                cause: Encoded::decode(cause, codes)
                    .map_err(|error: LineError| error.of_field("cause"))?,
                detail: line.detail.unwrap_or_default(),
            },
            _ => {
                let expected = "one of done, in_progress and cause";
                return Err(LineError::value("outcomes", "none or several", expected));
            }
        };
        let target: Target = Encoded::decode(line.target, codes)?;
        Ok(Outcome { target, action: Encoded::decode(line.action, codes)?, result })
    }
}
