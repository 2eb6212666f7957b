//! Descriptions of the fields of reports.
//!
//! [`record!`] defines a struct of a report. One line per field has its name, label, unit and meaning; the
//! documentation of the struct, the JSON, the schema, the page of fields and the tooltips of HTML pages are derived
//! from it.

/// Description of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldDescription {
    /// Name in JSON: subject first, unit last.
    pub name: &'static str,
    /// Header of the column of the field.
    pub label: &'static str,
    /// Unit of the value.
    pub unit: FieldUnit,
    /// Meaning of the value, in sentences.
    pub meaning: &'static str,
    /// Type of the value.
    pub shape: fn() -> JsonType,
}

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUnit {
    /// No unit: a name, a ratio, a record.
    Plain,
    /// A number of objects or events.
    Count,
    /// Nanoseconds; a time is relative to the start of the run.
    Nanos,
    /// Seconds since 1970-01-01 00:00:00 UTC.
    UnixSeconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A fraction of 1.
    Share,
    /// Events per second; the signal tier defines the event.
    OpsPerSecond,
    /// Linux list text: `0-3,8`.
    CpuList,
}

impl FieldUnit {
    /// Returns the unit for the documentation; empty without a unit.
    pub fn words(self) -> &'static str {
        match self {
            FieldUnit::Plain => "",
            FieldUnit::Count => "count",
            FieldUnit::Nanos => "nanoseconds",
            FieldUnit::UnixSeconds => "seconds since 1970 (UTC)",
            FieldUnit::Seconds => "seconds",
            FieldUnit::Bytes => "bytes",
            FieldUnit::BytesPerSecond => "bytes per second",
            FieldUnit::Share => "fraction",
            FieldUnit::OpsPerSecond => "events per second",
            FieldUnit::CpuList => "Linux list text",
        }
    }
}

/// Type of a value in JSON.
#[derive(Clone, Debug)]
pub enum JsonType {
    /// Text.
    Text,
    /// A non-negative integer.
    Whole,
    /// An integer.
    Signed,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// One of several names, each with its meaning.
    OneOf(&'static [(&'static str, &'static str)]),
    /// A value of this type, or null.
    Maybe(Box<JsonType>),
    /// A list of values of this type.
    List(Box<JsonType>),
    /// An object: its name, and its fields.
    Record(&'static str, &'static [FieldDescription]),
}

/// A type that a field of a report may have.
pub trait Described {
    /// Returns the type of the field in JSON.
    fn shape() -> JsonType;
}

macro_rules! plain {
    ($($kind:ty => $shape:expr;)*) => {
        $(impl Described for $kind {
            fn shape() -> JsonType {
                $shape
            }
        })*
    };
}

plain! {
    String => JsonType::Text;
    u32 => JsonType::Whole;
    u64 => JsonType::Whole;
    i32 => JsonType::Signed;
    f64 => JsonType::Number;
    bool => JsonType::Flag;
}

impl<T: Described> Described for Option<T> {
    fn shape() -> JsonType {
        JsonType::Maybe(Box::new(T::shape()))
    }
}

impl<T: Described> Described for Vec<T> {
    fn shape() -> JsonType {
        JsonType::List(Box::new(T::shape()))
    }
}

/// Defines a struct of a report with the descriptions of its fields.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident {
        $($field:ident: $kind:ty, $label:literal, $unit:ident, $meaning:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $name {
            $(#[doc = $meaning] pub $field: $kind,)*
        }

        impl $name {
            /// The fields in the order of the JSON.
            pub const FIELDS: &'static [crate::describe::FieldDescription] = &[$(crate::describe::FieldDescription {
                name: stringify!($field),
                label: $label,
                unit: crate::describe::FieldUnit::$unit,
                meaning: $meaning,
                shape: <$kind as crate::describe::Described>::shape,
            },)*];
        }

        impl crate::describe::Described for $name {
            fn shape() -> crate::describe::JsonType {
                crate::describe::JsonType::Record(stringify!($name), $name::FIELDS)
            }
        }
    };
}

/// Defines an enum of a report: each variant with its name in JSON and its meaning.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$attribute:meta])* $variant:ident $name_in_json:literal $meaning:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        pub enum $name {
            $(#[doc = $meaning] $(#[$attribute])* #[serde(rename = $name_in_json)] $variant,)*
        }

        impl $name {
            /// Returns the name in JSON and in text.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $name_in_json,)*
                }
            }
        }

        impl crate::describe::Described for $name {
            fn shape() -> crate::describe::JsonType {
                crate::describe::JsonType::OneOf(&[$(($name_in_json, $meaning),)*])
            }
        }
    };
}

pub(crate) use {names, record};
