//! Encoding of values in lines: [`Encoded`], and the macros that define lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Bytes, CpuId, IdSet, JobId, LlcId, Nanos, NodeId, SetId, TaskId};
use program::MemoryPolicy;
use sched::{
    DetachCause, HostKind, PageMigrationEnd, RawCounter, ReasonCode, RejectCause, SignalTier,
    StopCause, Target,
};
use serde::{Deserialize, Serialize};
use topology::Level;

use crate::{JobPhase, LineError, RunStatus};

/// Conversion of a value to and from its encoding in a line.
pub(crate) trait Encoded<F>: Sized {
    fn encode(&self) -> F;

    /// Decodes a field. `codes` are the reason codes of the header. [`line_types`] adds the name of the field to an
    /// error.
    fn decode(field: F, codes: &[ReasonCode]) -> Result<Self, LineError>;
}

/// Name of an enum value in a line.
pub(crate) type Name = Cow<'static, str>;

/// Returns whether a value is the default value, for `skip_serializing_if`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

macro_rules! encoded {
    ($($Type:ty as $field:ty: $encode:expr, $decode:expr;)*) => {
        $(impl Encoded<$field> for $Type {
            fn encode(&self) -> $field {
                let encode: fn(&Self) -> $field = $encode;
                encode(self)
            }
            fn decode(field: $field, _: &[ReasonCode]) -> Result<Self, LineError> {
                let decode: fn($field) -> Self = $decode;
                Ok(decode(field))
            }
        })*
    };
}

encoded! {
    bool as bool: Clone::clone, |field| field;
    u8 as u8: Clone::clone, |field| field;
    u16 as u16: Clone::clone, |field| field;
    u32 as u32: Clone::clone, |field| field;
    i32 as i32: Clone::clone, |field| field;
    u64 as u64: Clone::clone, |field| field;
    usize as usize: Clone::clone, |field| field;
    String as String: Clone::clone, |field| field;
    JobPhase as JobPhase: Clone::clone, |field| field;
    Bytes as u64: |bytes| bytes.0, Bytes;
    CpuId as u32: |id| id.0, CpuId;
    JobId as u32: |id| id.0, JobId;
    LlcId as u32: |id| id.0, LlcId;
    NodeId as u32: |id| id.0, NodeId;
    TaskId as TaskField: |task| (task.tid, task.start_time_ticks),
        |(tid, start_time_ticks)| TaskId { tid, start_time_ticks };
    // A path as text. Bytes that are not UTF-8 are replaced; such paths are rare, because paths come from text files.
    PathBuf as String: |path| path.to_string_lossy().into_owned(), PathBuf::from;
    Vec<ReasonCode> as BTreeMap<String, String>:
        |codes| codes.iter().map(|code| (code.name().to_owned(), code.template().to_owned())).collect(),
        |field| field.into_iter().map(|(name, template)| ReasonCode::recorded(name, template)).collect();
    RawCounter as RawCounterField: RawCounterField::new, RawCounterField::raw;
}

/// The longest time in a journal, about 146 years. The sum of two times fits into a [`Nanos`].
const TIME_MAX: Nanos = Nanos(1 << 62);

impl Encoded<u64> for Nanos {
    fn encode(&self) -> u64 {
        self.0
    }
    fn decode(nanos: u64, _: &[ReasonCode]) -> Result<Self, LineError> {
        match nanos <= TIME_MAX.0 {
            true => Ok(Nanos(nanos)),
            false => Err(LineError::value("", nanos, "at most 4611686018427387904 ns (146 years)")),
        }
    }
}

macro_rules! encoded_by_name {
    ($($Type:ty: $name:expr, $expected:literal;)*) => {
        $(impl Encoded<Name> for $Type {
            fn encode(&self) -> Name {
                let name: fn(&Self) -> Name = $name;
                name(self)
            }
            fn decode(field: Name, _: &[ReasonCode]) -> Result<Self, LineError> {
                let known = <$Type>::ALL.iter().find(|known| Encoded::<Name>::encode(*known) == field);
                known.copied().ok_or_else(|| LineError::value("", format!("{field:?}"), $expected))
            }
        }

        #[cfg(test)]
        impl crate::tests::Random for $Type {
            fn random(rng: &mut base::Rng) -> Self {
                crate::tests::one_of(&<$Type>::ALL, rng)
            }
        })*
    };
}

encoded_by_name! {
    SignalTier: |tier| tier.to_string().into(), "a signal tier";
    Level: |level| level.to_string().into(), "a domain level";
    RunStatus: |status| status.name().into(), "the status of a run";
    RejectCause: |cause| cause.name().into(), "a known cause of rejection";
    DetachCause: |cause| cause.name().into(), "a known cause of detaching";
    HostKind: |host| host.name().into(), "a kind of host";
    StopCause: |cause| cause.name().into(), "a known cause of stopping";
    PageMigrationEnd: |end| end.name().into(), "a known end of a page migration";
}

impl<F, T: Encoded<F>> Encoded<Option<F>> for Option<T> {
    fn encode(&self) -> Option<F> {
        self.as_ref().map(T::encode)
    }
    fn decode(field: Option<F>, codes: &[ReasonCode]) -> Result<Self, LineError> {
        field.map(|field| T::decode(field, codes)).transpose()
    }
}

impl<F, T: Encoded<F>> Encoded<Vec<F>> for Vec<T> {
    fn encode(&self) -> Vec<F> {
        self.iter().map(T::encode).collect()
    }
    fn decode(field: Vec<F>, codes: &[ReasonCode]) -> Result<Self, LineError> {
        field.into_iter().map(|field| T::decode(field, codes)).collect()
    }
}

impl<F, G, T: Encoded<F>, U: Encoded<G>> Encoded<(F, G)> for (T, U) {
    fn encode(&self) -> (F, G) {
        (self.0.encode(), self.1.encode())
    }
    fn decode((one, other): (F, G), codes: &[ReasonCode]) -> Result<Self, LineError> {
        Ok((T::decode(one, codes)?, U::decode(other, codes)?))
    }
}

impl<F, T: Encoded<F>> Encoded<F> for Arc<T> {
    fn encode(&self) -> F {
        T::encode(self)
    }
    fn decode(field: F, codes: &[ReasonCode]) -> Result<Self, LineError> {
        T::decode(field, codes).map(Arc::new)
    }
}

/// The encoding is a Linux list such as `0-3,8`.
impl<T: SetId> Encoded<String> for IdSet<T> {
    fn encode(&self) -> String {
        self.to_string()
    }
    fn decode(text: String, _: &[ReasonCode]) -> Result<Self, LineError> {
        text.parse().map_err(|_| LineError::value("", format!("{text:?}"), "a list such as 0-3,8"))
    }
}

/// Macro that defines lines and their conversions from and to a type. A row per field contains the name and type of the
/// field in the line, and its name in the type.
///
/// ```text
///   name: u32 = field,             required
///   name?: Option<u64> = field,    omitted if it has the default value
///   flatten name: Fields = field,  the fields of `Fields` are fields of the line
///   absent field,                  not in the line; read as the default value
/// ```
macro_rules! line_types {
    ($($(#[$meta:meta])* $Line:ident for $Type:ty { $($rows:tt)* })*) => {
        $($crate::wire::fields::line_types! { @rows [$(#[$meta])*] $Line, $Type, [] [] [] $($rows)* })*
    };
    (@rows $meta:tt $Line:ident, $Type:ty, [$($fields:tt)*] [$($pairs:tt)*] $absent:tt
        flatten $name:ident: $kind:ty = $field:ident, $($rows:tt)*) => {
        $crate::wire::fields::line_types! { @rows $meta $Line, $Type,
            [$($fields)* #[serde(flatten)] pub $name: $kind,] [$($pairs)* ($name $field $kind)] $absent $($rows)* }
    };
    (@rows $meta:tt $Line:ident, $Type:ty, $fields:tt $pairs:tt [$($absent:tt)*]
        absent $field:ident, $($rows:tt)*) => {
        $crate::wire::fields::line_types! { @rows $meta $Line, $Type, $fields $pairs [$($absent)* $field] $($rows)* }
    };
    (@rows $meta:tt $Line:ident, $Type:ty, [$($fields:tt)*] [$($pairs:tt)*] $absent:tt
        $name:ident?: $kind:ty = $field:ident, $($rows:tt)*) => {
        $crate::wire::fields::line_types! { @rows $meta $Line, $Type,
            [$($fields)* #[serde(skip_serializing_if = "crate::wire::fields::is_default", default)] pub $name: $kind,]
            [$($pairs)* ($name $field $kind)] $absent $($rows)* }
    };
    (@rows $meta:tt $Line:ident, $Type:ty, [$($fields:tt)*] [$($pairs:tt)*] $absent:tt
        $(#[$attribute:meta])* $name:ident: $kind:ty = $field:ident, $($rows:tt)*) => {
        $crate::wire::fields::line_types! { @rows $meta $Line, $Type,
            [$($fields)* $(#[$attribute])* pub $name: $kind,] [$($pairs)* ($name $field $kind)] $absent $($rows)* }
    };
    (@rows [$($meta:tt)*] $Line:ident, $Type:ty, [$($fields:tt)*] [$(($name:ident $field:ident $kind:ty))*] [$($absent:ident)*]) => {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $($meta)*
        pub(crate) struct $Line { $($fields)* }

        impl $crate::wire::fields::Encoded<$Line> for $Type {
            fn encode(&self) -> $Line {
                $Line { $($name: $crate::wire::fields::Encoded::<$kind>::encode(&self.$field),)* }
            }

            fn decode(line: $Line, codes: &[sched::ReasonCode]) -> Result<Self, $crate::LineError> {
                Ok(Self {
                    $($field: $crate::wire::fields::Encoded::<$kind>::decode(line.$name, codes)
                        .map_err(|error| error.of_field(stringify!($name)))?,)*
                    $($absent: Default::default(),)*
                })
            }
        }

        #[cfg(test)]
        impl $crate::tests::Random for $Type {
            fn random(rng: &mut base::Rng) -> Self {
                Self {
                    $($field: $crate::tests::Random::random(rng),)*
                    $($absent: Default::default(),)*
                }
            }
        }
    };
}

/// Macro that defines enums of a line and their conversions from and to a type. The rows are the variants with a
/// value, then `|`, then the variants without a value.
macro_rules! line_enums {
    ($($(#[$meta:meta])* $Line:ident for $Type:ident {
        $($variant:ident($kind:ty) = $inner:ident,)* |
        $($(#[$attribute:meta])* $unit:ident $({ $($nothing:tt)* })? = $other:ident,)*
    })*) => {
        $(#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum $Line {
            $($variant($kind),)*
            $($(#[$attribute])* $unit $({ $($nothing)* })?,)*
        }

        impl $crate::wire::fields::Encoded<$Line> for $Type {
            fn encode(&self) -> $Line {
                match self {
                    $($Type::$inner(value) => $Line::$variant($crate::wire::fields::Encoded::encode(value)),)*
                    $($Type::$other => $Line::$unit {},)*
                }
            }

            fn decode(line: $Line, codes: &[sched::ReasonCode]) -> Result<Self, $crate::LineError> {
                let _ = codes;
                Ok(match line {
                    $($Line::$variant(value) => {
                        $Type::$inner($crate::wire::fields::Encoded::decode(value, codes)
                            .map_err(|error| error.of_field(stringify!($variant)))?)
                    })*
                    $($Line::$unit {} => $Type::$other,)*
                })
            }
        }

        #[cfg(test)]
        impl $crate::tests::Random for $Type {
            fn random(rng: &mut base::Rng) -> Self {
                let values: &[fn(&mut base::Rng) -> Self] = &[
                    $(|rng| $Type::$inner($crate::tests::Random::random(rng)),)*
                    $(|_| $Type::$other,)*
                ];
                $crate::tests::one_of(values, rng)(rng)
            }
        })*
    };
}
pub(crate) use {line_enums, line_types};

/// A raw counter: `VALUE` without times, `[VALUE, NS]` if the counter was running during the whole enabled time, or
/// `[VALUE, ENABLED_NS, RUNNING_NS]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawCounterField {
    Untimed(u64),
    AlwaysRunning(u64, u64),
    Multiplexed(u64, u64, u64),
}

impl RawCounterField {
    fn new(raw: &RawCounter) -> Self {
        match *raw {
            RawCounter { value, enabled_ns: 0, running_ns: 0 } => RawCounterField::Untimed(value),
            RawCounter { value, enabled_ns, running_ns } if enabled_ns == running_ns => {
                RawCounterField::AlwaysRunning(value, enabled_ns)
            }
            RawCounter { value, enabled_ns, running_ns } => {
                RawCounterField::Multiplexed(value, enabled_ns, running_ns)
            }
        }
    }

    pub(crate) fn raw(self) -> RawCounter {
        let (value, enabled_ns, running_ns) = match self {
            RawCounterField::Untimed(value) => (value, 0, 0),
            RawCounterField::AlwaysRunning(value, ns) => (value, ns, ns),
            RawCounterField::Multiplexed(value, enabled, running) => (value, enabled, running),
        };
        RawCounter { value, enabled_ns, running_ns }
    }
}

/// `[tid, start time in clock ticks since boot]`.
pub(crate) type TaskField = (u32, u64);

line_enums! {
    /// `"job": 3` or `"task": [1234, 56789]`, flattened into a line.
    TargetField for Target { Job(u32) = Job, Task(TaskField) = Task, | }

    /// `{"bind": "0-1"}`: a policy and its nodes.
    MemoryPolicyField for MemoryPolicy {
        Bind(String) = Bind,
        Preferred(String) = Preferred,
        Interleave(String) = Interleave,
        WeightedInterleave(String) = WeightedInterleave,
        |
    }
}
