//! Writes profiles. A profile that is written and read is unchanged.

use std::fmt::Write;

use super::read::VERSION;
use super::{MissRatioCurve, Phase, Profile, ProfileValue};
use crate::values::quoted;

impl Profile {
    /// Returns the profile as TOML.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = {}\nname = {}\n", VERSION.supported, quoted(&self.name));
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key} = {value}\n"));
            }
        };
        add("build_id", self.build_id.as_deref().map(quoted));
        add("tool", (!self.tool.is_empty()).then(|| quoted(&self.tool)));
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        add("command", (!words.is_empty()).then(|| format!("[{}]", words.join(", "))));
        add(
            "class",
            self.class.map(|(class, source)| {
                format!("{{ value = {}, source = \"{}\" }}", class.number(), source.word())
            }),
        );
        add("class_cache_bytes", self.class_cache.map(|size| size.0.to_string()));
        add("cpu_time_ns", self.cpu_time.map(|time| time.0.to_string()));
        add("covered", self.covered.map(profile_value));
        for phase in &self.phases {
            add_phase(&mut text, phase);
        }
        text
    }
}

fn add_phase(text: &mut String, phase: &Phase) {
    text.push_str("\n[[phase]]\n");
    let mut phase = phase.clone();
    let private_cache = phase.private_cache.map(|size| size.0.to_string());
    let share = [("share", Some(profile_value(phase.share)))];
    let shared = [("shared_footprint", phase.shared_footprint.map(profile_value))];
    let values = phase.values_mut().map(|(key, value)| (key, value.map(profile_value)));
    for (key, value) in share
        .into_iter()
        .chain(values)
        .chain(shared)
        .chain([("private_cache_bytes", private_cache)])
    {
        if let Some(value) = value {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    if !phase.curve.points().is_empty() {
        add_curve(text, &phase.curve);
    }
}

fn add_curve(text: &mut String, curve: &MissRatioCurve) {
    text.push_str(&format!("\n[phase.curve]\nsource = \"{}\"\n", curve.source.word()));
    let points = curve.points();
    let sizes: Vec<String> = points.iter().map(|point| point.cache.0.to_string()).collect();
    let misses: Vec<Option<f64>> = points.iter().map(|point| Some(point.misses)).collect();
    let columns = [
        ("misses_per_1000", misses),
        ("write_backs_per_1000", points.iter().map(|point| point.write_backs).collect()),
        ("prefetches_per_1000", points.iter().map(|point| point.prefetches).collect()),
        ("error_per_1000", points.iter().map(|point| point.error).collect()),
    ];
    add_list(text, "cache_bytes", &sizes);
    for (key, column) in columns {
        // A column is written completely or not at all, because TOML has no null.
        let column: Option<Vec<f64>> = column.into_iter().collect::<Option<_>>();
        if let Some(column) = column {
            let numbers: Vec<String> = column.into_iter().map(number).collect();
            add_list(text, key, &numbers);
        }
    }
}

/// Adds an array, wrapped over several lines.
fn add_list(text: &mut String, key: &str, words: &[String]) {
    let rows: Vec<String> = words.chunks(6).map(|row| format!("  {},\n", row.join(", "))).collect();
    let _ = write!(text, "{key} = [\n{}]\n", rows.concat());
}

fn profile_value(value: ProfileValue) -> String {
    let error = value.error().map_or(String::new(), |error| format!(", error = {}", number(error)));
    format!("{{ value = {}, source = \"{}\"{error} }}", number(value.value()), value.source.word())
}

/// Returns the shortest text that is parsed as the same number, with digits on both sides of the decimal point.
fn number(number: f64) -> String {
    format!("{number:?}")
}
