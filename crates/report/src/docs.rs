//! Documentation derived from the descriptions of fields: the page of all fields, and JSON schemas.
//!
//! The page and the schemas are checked in (`docs/report-fields.md`, `docs/*.schema.json`); a test fails if a file is
//! outdated.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::calibration::Calibration;
use crate::comparison::Comparison;
use crate::describe::{Described, FieldDescription, JsonType};
use crate::explain::Explanation;
use crate::model::Report;
use crate::status::Status;
use crate::study::StudyResult;
use crate::tuning::TuneResult;

/// Returns the page of all fields, in Markdown.
pub fn fields_page() -> String {
    let mut page = String::from(
        "# Report fields\n\n\
         This page is generated from the descriptions of the fields in the program. The terminal, `report.json` and\n\
         `report.html` use the same labels, units and meanings. A value that was not measured is `null`, never zero. Times\n\
         are nanoseconds since the start of the run; `run.started_unix_s` is the only wall-clock time. The JSON schema is\n\
         `docs/report.schema.json`.\n",
    );
    let sections = [
        ("report.json", "", Report::shape()),
        (
            "evenkeel explain --json",
            "The sentences of `evenkeel explain`, with their times and the codes of their reasons.",
            Explanation::shape(),
        ),
        (
            "evenkeel status --json",
            "A list with one entry per running or killed evenkeel. The field `state` is the content of the state file.",
            Status::shape(),
        ),
        (
            "compare.json",
            "The result of [`evenkeel compare`](compare.md); the JSON schema is `docs/compare.schema.json`. Times are\n\
             seconds.",
            Comparison::shape(),
        ),
        (
            "evenkeel reproduce --json",
            "The result of [`evenkeel reproduce`](reproduce.md); the JSON schema is `docs/reproduce.schema.json`. Each value\n\
             has its unit.",
            StudyResult::shape(),
        ),
        (
            "evenkeel calibrate --json",
            "The result of [`evenkeel calibrate`](commands/calibrate.md); the JSON schema is `docs/calibrate.schema.json`.",
            Calibration::shape(),
        ),
        (
            "evenkeel tune --json",
            "The result of [`evenkeel tune`](tune.md); the JSON schema is `docs/tune.schema.json`.",
            TuneResult::shape(),
        ),
    ];
    for (heading, text, shape) in sections {
        page.push_str(&format!("\n## {heading}\n"));
        if !text.is_empty() {
            page.push_str(&format!("\n{text}\n"));
        }
        add_records(&mut page, shape);
    }
    page
}

/// Returns the JSON schemas (2020-12): the file in `docs/`, and its content.
pub fn schemas() -> [(&'static str, Value); 5] {
    [
        ("report", Report::shape(), "Report", "Report of an evenkeel run"),
        ("compare", Comparison::shape(), "Comparison", "Result of evenkeel compare"),
        ("reproduce", StudyResult::shape(), "StudyResult", "Result of evenkeel reproduce"),
        ("calibrate", Calibration::shape(), "Calibration", "Result of evenkeel calibrate"),
        ("tune", TuneResult::shape(), "TuneResult", "Result of evenkeel tune"),
    ]
    .map(|(file, shape, root, title)| (file, schema_of(shape, root, title)))
}

fn schema_of(shape: JsonType, root: &str, title: &str) -> Value {
    let mut definitions = Map::new();
    for (name, fields) in records(shape) {
        definitions.insert(name.to_owned(), record_schema(fields));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$ref": format!("#/$defs/{root}"),
        "$defs": definitions,
    })
}

/// Returns all distinct records of a shape, the outermost first.
fn records(shape: JsonType) -> Vec<(&'static str, &'static [FieldDescription])> {
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    let mut todo = vec![shape];
    while !todo.is_empty() {
        match todo.remove(0) {
            JsonType::Maybe(inner) | JsonType::List(inner) => todo.insert(0, *inner),
            JsonType::Record(name, fields) if known.insert(name) => {
                found.push((name, fields));
                todo.extend(fields.iter().map(|field| (field.shape)()));
            }
            _ => {}
        }
    }
    found
}

fn add_records(page: &mut String, shape: JsonType) {
    for (name, fields) in records(shape) {
        page.push_str(&format!("\n### {name}\n\n"));
        page.push_str("| field | type | unit | meaning |\n| --- | --- | --- | --- |\n");
        for field in fields {
            page.push_str(&format!(
                "| `{}` | {} | {} | {} |\n",
                field.name,
                type_words(&(field.shape)()),
                field.unit.words(),
                meaning(field)
            ));
        }
    }
}

/// Returns the meaning of a field and, if its value is a word, the meaning of each word.
fn meaning(field: &FieldDescription) -> String {
    let mut shape = (field.shape)();
    while let JsonType::Maybe(inner) | JsonType::List(inner) = shape {
        shape = *inner;
    }
    let JsonType::OneOf(words) = shape else { return field.meaning.to_owned() };
    let words: Vec<String> =
        words.iter().map(|(word, meaning)| format!("`{word}`: {meaning}")).collect();
    format!("{} {}", field.meaning, words.join(" "))
}

fn type_words(shape: &JsonType) -> String {
    match shape {
        JsonType::Text => "text".to_owned(),
        JsonType::Whole => "whole number".to_owned(),
        JsonType::Signed => "whole number, may be negative".to_owned(),
        JsonType::Number => "number".to_owned(),
        JsonType::Flag => "true or false".to_owned(),
        JsonType::OneOf(_) => "name".to_owned(),
        JsonType::Maybe(inner) => format!("{} or null", type_words(inner)),
        JsonType::List(inner) => format!("list of {}", type_words(inner)),
        JsonType::Record(name, _) => format!("[{name}](#{})", name.to_lowercase()),
    }
}

fn record_schema(fields: &[FieldDescription]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = shape_schema(&(field.shape)());
        let unit = field.unit.words();
        let unit = if unit.is_empty() { String::new() } else { format!(" Unit: {unit}.") };
        schema["title"] = json!(field.label);
        schema["description"] = json!(format!("{}{unit}", field.meaning));
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<&str> = fields.iter().map(|field| field.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn shape_schema(shape: &JsonType) -> Value {
    match shape {
        JsonType::Text => json!({ "type": "string" }),
        JsonType::Whole => json!({ "type": "integer", "minimum": 0 }),
        JsonType::Signed => json!({ "type": "integer" }),
        JsonType::Number => json!({ "type": "number" }),
        JsonType::Flag => json!({ "type": "boolean" }),
        JsonType::OneOf(words) => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            json!({ "type": "string", "enum": words })
        }
        JsonType::Maybe(inner) => json!({ "anyOf": [shape_schema(inner), { "type": "null" }] }),
        JsonType::List(inner) => json!({ "type": "array", "items": shape_schema(inner) }),
        JsonType::Record(name, _) => json!({ "$ref": format!("#/$defs/{name}") }),
    }
}
