//! Reads profiles.
//!
//! ```toml
//! version = 2
//! name = "sort"
//! build_id = "5c0ffee…"            # optional; without a build id, the profile is valid for every build
//! class = { value = 7, source = "estimated" }
//!
//! [[phase]]
//! share = 1.0                      # a plain number has the source "declared"
//! cycles_per_instruction = { value = 0.9, source = "estimated", error = 0.2 }
//! llc_accesses_per_1000 = 31.0
//!
//! [phase.curve]
//! source = "traced"
//! cache_bytes = [1048576, 33554432]
//! misses_per_1000 = [12.5, 0.4]
//! write_backs_per_1000 = [3.0, 0.1]     # optional, like the next two keys
//! prefetches_per_1000 = [4.0, 0.2]
//! error_per_1000 = [0.2, 0.05]
//! ```

use std::path::Path;

use base::toml_reader::{
    SourceText, TomlFault, TomlTable, TomlVersion, Value, decimal, describe, integer, wrong_type,
};
use base::{Bytes, LINE_BYTES, Nanos};

use super::{CurvePoint, MissRatioCurve, Phase, Profile, ProfileValue, ValueSource};
use crate::error::WorkloadFault;
use crate::{Class, WorkloadError, values};

/// Version of the format.
pub(super) const VERSION: TomlVersion = TomlVersion {
    key: "version",
    supported: 2,
    conversion: Some(
        "run evenkeel profile again, or rename the key \"made_by\" to \"tool\" and write version = 2",
    ),
};

const KNOWN: &[&str] = &[
    "version",
    "name",
    "build_id",
    "tool",
    "command",
    "class",
    "class_cache_bytes",
    "cpu_time_ns",
    "covered",
    "phase",
];

const PHASE_KNOWN: &[&str] = &[
    "share",
    "instructions",
    "cycles_per_instruction",
    "core_cycles_per_instruction",
    "overlap",
    "footprint_bytes",
    "shared_footprint",
    "working_set_bytes",
    "threads",
    "llc_accesses_per_1000",
    "l1_misses_per_1000",
    "burst_instructions",
    "sleep_ns",
    "private_cache_bytes",
    "bandwidth_bytes_per_s",
    "curve",
];

const CURVE_KNOWN: &[&str] = &[
    "source",
    "cache_bytes",
    "misses_per_1000",
    "write_backs_per_1000",
    "prefetches_per_1000",
    "error_per_1000",
];

/// Parses a profile. `path` is used only in errors; no file is opened.
pub fn parse_profile(text: &str, path: &Path) -> Result<Profile, WorkloadError> {
    let text = SourceText::new(text, path);
    let document = text.parse(VERSION)?;
    let top = TomlTable::new(&text, document.get_ref(), 0, "the profile", KNOWN, PHASE_KNOWN)?;
    let phases = top.tables("phase", "a phase", PHASE_KNOWN)?;
    let phases: Vec<Phase> = phases.iter().map(phase).collect::<Result<_, _>>()?;
    if phases.is_empty() {
        let example = "[[phase]] with the key curve or cycles_per_instruction";
        let missing = TomlFault::Missing { key: "phase", table: "the profile", example };
        return Err(top.error(missing.into()));
    }
    check_shares(&top, &phases)?;
    Ok(Profile {
        name: top.require("name", "name = \"sort\"", values::name)?,
        build_id: top.get("build_id", build_id)?,
        tool: top.get("tool", values::string)?.unwrap_or_default(),
        command: top.get("command", values::strings)?.unwrap_or_default(),
        class: top.get("class", class)?,
        class_cache: top.get("class_cache_bytes", cache_size)?,
        cpu_time: top.get("cpu_time_ns", nanos)?,
        covered: top.get("covered", share)?,
        phases,
    })
}

/// Tolerance for the rounding of shares. A missing phase causes a larger deviation.
const SHARES_OFF_MAX: f64 = 0.01;

fn check_shares(top: &TomlTable<'_>, phases: &[Phase]) -> Result<(), WorkloadError> {
    let sum: f64 = phases.iter().map(|phase| phase.share.value()).sum();
    let off = (sum - 1.0).abs();
    (off <= SHARES_OFF_MAX)
        .then_some(())
        .ok_or_else(|| top.error_in("phase", WorkloadFault::Shares(format!("{sum:.3}"))))
}

fn phase(table: &TomlTable<'_>) -> Result<Phase, WorkloadError> {
    let mut phase = Phase {
        share: table.get("share", share)?.unwrap_or_default(),
        private_cache: table.get("private_cache_bytes", values::size)?,
        shared_footprint: table.get("shared_footprint", share)?,
        curve: match table.table("curve", "the curve", CURVE_KNOWN, &[])? {
            Some(curve) => read_curve(&curve)?,
            None => MissRatioCurve::default(),
        },
        ..Phase::default()
    };
    for (key, value) in phase.values_mut() {
        *value = table.get(key, profile_value)?;
    }
    Ok(phase)
}

fn read_curve(table: &TomlTable<'_>) -> Result<MissRatioCurve, WorkloadError> {
    let sizes = table.require("cache_bytes", "cache_bytes = [1048576]", numbers)?;
    let misses = table.require("misses_per_1000", "misses_per_1000 = [1.5]", numbers)?;
    let write_backs = table.get("write_backs_per_1000", numbers)?;
    let prefetches = table.get("prefetches_per_1000", numbers)?;
    let errors = table.get("error_per_1000", numbers)?;
    let lists = [
        ("misses_per_1000", Some(&misses)),
        ("write_backs_per_1000", write_backs.as_ref()),
        ("prefetches_per_1000", prefetches.as_ref()),
        ("error_per_1000", errors.as_ref()),
    ];
    for (key, list) in lists.into_iter().filter_map(|(key, list)| Some((key, list?))) {
        if list.len() != sizes.len() {
            let fault = WorkloadFault::CurveLength { key, found: list.len(), sizes: sizes.len() };
            return Err(table.error_in(key, fault));
        }
    }
    let point = |(idx, size): (usize, &f64)| CurvePoint {
        cache: Bytes(*size as u64),
        misses: misses[idx],
        write_backs: write_backs.as_ref().map(|list| list[idx]),
        prefetches: prefetches.as_ref().map(|list| list[idx]),
        error: errors.as_ref().map(|list| list[idx]),
    };
    let points: Vec<CurvePoint> = sizes.iter().enumerate().map(point).collect();
    let source = table.get("source", source)?.unwrap_or_default();
    // A cache of size 0 is not a point of the curve.
    let has_size = points.first().is_none_or(|first| first.cache != Bytes::ZERO);
    let curve = MissRatioCurve::new(source, points).filter(|_| has_size);
    curve.ok_or_else(|| table.error_in("cache_bytes", WorkloadFault::CurveSizes))
}

/// Parses a value: a table, or a number, for which the source is "declared".
fn profile_value(key: &'static str, value: &Value<'_>) -> Result<ProfileValue, WorkloadFault> {
    let Value::Table(table) = value else { return declared(key, value) };
    let known = ["value", "source", "error"];
    if let Some(other) = table.keys().find(|word| !known.contains(&word.get_ref().as_ref())) {
        let found = other.get_ref().to_string();
        return Err(WorkloadFault::ProfileValueKey { key, found });
    }
    let Some(number) = table.get("value") else {
        return Err(wrong_type(key, EXPECTED, value));
    };
    let profile_value = declared(key, number.get_ref())?;
    let error = table.get("error").map(|error| number_of("error", error.get_ref())).transpose()?;
    let source = table.get("source").map(|word| source("source", word.get_ref())).transpose()?;
    Ok(ProfileValue { source: source.unwrap_or_default(), ..profile_value }.with_error(error))
}

const EXPECTED: &str = "a number, or { value = 1.5, source = \"traced\" }";

fn declared(key: &'static str, value: &Value<'_>) -> Result<ProfileValue, WorkloadFault> {
    let fault = || TomlFault::OutOfRange { key, found: describe(value), range: "a number from 0" };
    ProfileValue::new(number_of(key, value)?, ValueSource::Declared).ok_or_else(|| fault().into())
}

fn share(key: &'static str, value: &Value<'_>) -> Result<ProfileValue, WorkloadFault> {
    let share = profile_value(key, value)?;
    let fault = TomlFault::OutOfRange { key, found: share.value().to_string(), range: "0 to 1" };
    if share.value() <= 1.0 { Ok(share) } else { Err(fault.into()) }
}

fn number_of(key: &'static str, value: &Value<'_>) -> Result<f64, WorkloadFault> {
    let text = match value {
        Value::Float(number) => number.as_str().to_owned(),
        Value::Integer(number) => decimal(number),
        other => return Err(wrong_type(key, EXPECTED, other)),
    };
    // Core cycles are 0 if all counted cycles are stalls.
    let is_positive = key == "cycles_per_instruction";
    let is_rate = key.ends_with("cycles_per_instruction")
        || key.ends_with("_per_1000") && key != "error_per_1000";
    let (max, range) = match is_rate {
        true if is_positive => (RATE_MAX, "more than 0, up to 100000"),
        true => (RATE_MAX, "0 to 100000"),
        false => (f64::MAX, "a number from 0"),
    };
    let is_valid = |number: &f64| (0.0..=max).contains(number) && !(is_positive && *number == 0.0);
    let number = text.parse().ok().filter(is_valid);
    number.ok_or_else(|| TomlFault::OutOfRange { key, found: text, range }.into())
}

/// Largest number of events per 1000 instructions, and of cycles per instruction. Guessed: an instruction that loads
/// several cache lines causes about ten accesses (10,000 per 1000 instructions), and a program that waits for memory at
/// each instruction needs about 1000 cycles per instruction.
const RATE_MAX: f64 = 1e5;

fn numbers(key: &'static str, value: &Value<'_>) -> Result<Vec<f64>, WorkloadFault> {
    let Value::Array(array) = value else {
        return Err(wrong_type(key, "an array of numbers such as [1, 2.5]", value));
    };
    array.iter().map(|entry| number_of(key, entry.get_ref())).collect()
}

fn source(key: &'static str, value: &Value<'_>) -> Result<ValueSource, WorkloadFault> {
    let word = values::string(key, value)?;
    let known = ValueSource::ALL.into_iter().find(|source| source.word() == word);
    known.ok_or(WorkloadFault::ValueSource(word))
}

/// Parses a class, an integer from 0 to 15, in the format of [`profile_value`].
fn class(key: &'static str, value: &Value<'_>) -> Result<(Class, ValueSource), WorkloadFault> {
    let profile_value = profile_value(key, value)?;
    let number = profile_value.value();
    let reject = || WorkloadFault::Class(number.to_string());
    let whole = if number.fract() == 0.0 && number <= 255.0 { Some(number as u8) } else { None };
    let class = whole.and_then(Class::new).ok_or_else(reject)?;
    Ok((class, profile_value.source))
}

/// Parses a cache size of at least one line. A model of a smaller cache has no finite values.
fn cache_size(key: &'static str, value: &Value<'_>) -> Result<Bytes, WorkloadFault> {
    let size = values::size(key, value)?;
    let fault = TomlFault::OutOfRange { key, found: size.to_string(), range: "64 bytes or more" };
    if LINE_BYTES <= size.0 { Ok(size) } else { Err(fault.into()) }
}

fn nanos(key: &'static str, value: &Value<'_>) -> Result<Nanos, WorkloadFault> {
    Ok(Nanos(integer(key, value, (0, u64::MAX), "nanoseconds from 0")?))
}

fn build_id(key: &'static str, value: &Value<'_>) -> Result<String, WorkloadFault> {
    let id = values::string(key, value)?;
    let is_valid = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_valid { Ok(id) } else { Err(WorkloadFault::BuildId(id)) }
}
