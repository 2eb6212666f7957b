//! How a field is described once, and what can be made of the description.
//!
//! [`record!`] makes a struct of the report. Each of its fields says its name, what heads its column,
//! its unit and its meaning in one line; from that come the struct's documentation, the JSON, the schema, the
//! table in the docs and the hints in the HTML page.

/// One field of the report.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in JSON: the subject first, the unit last.
    pub name: &'static str,
    /// What people read over its column.
    pub label: &'static str,
    /// In what it is told.
    pub unit: Unit,
    /// What it is.
    pub meaning: &'static str,
    /// Of what kind it is.
    pub shape: fn() -> Shape,
}

/// In what a figure is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// It has none: a name, a number of something, a record.
    Plain,
    /// How many.
    Count,
    /// Nanoseconds; as an instant, since the start of the run.
    Nanos,
    /// Seconds since 1970-01-01 00:00:00 UTC.
    UnixSeconds,
    /// Seconds and parts of them.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// A part of 1.
    Share,
    /// Memory operations per second, see the signal tier for what counts as one.
    OpsPerSecond,
    /// Linux list text: `0-3,8`.
    CpuList,
}

impl Unit {
    /// In words, for the docs; empty for none.
    pub fn words(self) -> &'static str {
        match self {
            Unit::Plain => "",
            Unit::Count => "count",
            Unit::Nanos => "nanoseconds",
            Unit::UnixSeconds => "seconds since 1970 (UTC)",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes per second",
            Unit::Share => "1 = 100 %",
            Unit::OpsPerSecond => "memory operations per second",
            Unit::CpuList => "Linux list text",
        }
    }
}

/// Of what kind a value is in JSON.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Text.
    Text,
    /// A whole number, not negative.
    Whole,
    /// A whole number.
    Signed,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// One of some words, each with its meaning.
    Word(&'static [(&'static str, &'static str)]),
    /// The value or null.
    Maybe(Box<Shape>),
    /// Any number of them.
    List(Box<Shape>),
    /// An object with these fields.
    Record(&'static str, &'static [Field]),
}

/// A type that can stand in the report.
pub trait Described {
    /// Its kind.
    fn shape() -> Shape;
}

macro_rules! plain {
    ($($kind:ty => $shape:expr;)*) => {
        $(impl Described for $kind {
            fn shape() -> Shape {
                $shape
            }
        })*
    };
}

plain! {
    String => Shape::Text;
    u32 => Shape::Whole;
    u64 => Shape::Whole;
    i32 => Shape::Signed;
    f64 => Shape::Number;
    bool => Shape::Flag;
}

impl<T: Described> Described for Option<T> {
    fn shape() -> Shape {
        Shape::Maybe(Box::new(T::shape()))
    }
}

impl<T: Described> Described for Vec<T> {
    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }
}

/// A struct of the report and the description of its fields.
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
            /// The fields, in the order in which they are written.
            pub const FIELDS: &'static [crate::describe::Field] = &[$(crate::describe::Field {
                name: stringify!($field),
                label: $label,
                unit: crate::describe::Unit::$unit,
                meaning: $meaning,
                shape: <$kind as crate::describe::Described>::shape,
            },)*];
        }

        impl crate::describe::Described for $name {
            fn shape() -> crate::describe::Shape {
                crate::describe::Shape::Record(stringify!($name), $name::FIELDS)
            }
        }
    };
}

/// An enum of the report: each variant with its word in JSON and what it means.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$attribute:meta])* $variant:ident $word:literal $meaning:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        pub enum $name {
            $(#[doc = $meaning] $(#[$attribute])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// The word in JSON and for people.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl crate::describe::Described for $name {
            fn shape() -> crate::describe::Shape {
                crate::describe::Shape::Word(&[$(($word, $meaning),)*])
            }
        }
    };
}

pub(crate) use {record, words};
