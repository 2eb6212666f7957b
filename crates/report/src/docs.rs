//! What can be made of the table of fields alone: the page for people and the schema for programs.
//!
//! Both are checked in (`docs/report-fields.md`, `docs/report.schema.json`); a test says when they
//! are behind.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::calibration::Calibration;
use crate::comparison::Comparison;
use crate::describe::{Described, Field, Shape};
use crate::explain::Explanation;
use crate::model::Report;
use crate::status::Status;
use crate::study::StudyAccount;

/// The page that documents every field of `report.json` and `explain --json`.
pub fn fields_page() -> String {
    let mut page = String::from(
        "# The fields of a report\n\n\
         This page is made from the program's own table of fields; the same labels, units and meanings\n\
         stand in the terminal, in `report.json` and in `report.html`. A figure that was not measured is\n\
         `null`, never zero. Instants are nanoseconds since the start of the run; the wall clock\n\
         stands once, in `run.started_unix_s`. `docs/report.schema.json` says the same to programs.\n",
    );
    page.push_str("\n## report.json\n");
    add_records(&mut page, Report::shape());
    page.push_str(
        "\n## evenkeel explain --json\n\n\
         The sentences of `evenkeel explain`, with their instants and the codes of their reasons.\n",
    );
    add_records(&mut page, Explanation::shape());
    page.push_str(
        "\n## evenkeel status --json\n\n\
         A list of these, one for each evenkeel that looks after programs. The state file itself is the\n\
         field `state`.\n",
    );
    add_records(&mut page, Status::shape());
    page.push_str(
        "\n## compare.json\n\n\
         What [`evenkeel compare`](compare.md) found; `docs/compare.schema.json` says it to programs. Times in it\n\
         are seconds.\n",
    );
    add_records(&mut page, Comparison::shape());
    page.push_str(
        "\n## evenkeel reproduce --json\n\n\
         What [`evenkeel reproduce`](reproduce.md) found; `docs/reproduce.schema.json` says it to programs. Figures are\n\
         numbers in the unit that stands beside them.\n",
    );
    add_records(&mut page, StudyAccount::shape());
    page.push_str(
        "\n## evenkeel calibrate --json\n\n\
         What [`evenkeel calibrate`](policies.md#divided) found; `docs/calibrate.schema.json` says it to programs.\n",
    );
    add_records(&mut page, Calibration::shape());
    page
}

/// A JSON Schema (2020-12) of `report.json`.
pub fn schema() -> Value {
    schema_of(Report::shape(), "Report", "The report of an evenkeel run")
}

/// A JSON Schema (2020-12) of `compare.json`.
pub fn comparison_schema() -> Value {
    schema_of(Comparison::shape(), "Comparison", "What evenkeel compare found")
}

/// A JSON Schema (2020-12) of what `evenkeel reproduce --json` prints.
pub fn study_schema() -> Value {
    schema_of(StudyAccount::shape(), "StudyAccount", "What evenkeel reproduce found")
}

/// A JSON Schema (2020-12) of what `evenkeel calibrate --json` prints.
pub fn calibration_schema() -> Value {
    schema_of(Calibration::shape(), "Calibration", "What evenkeel calibrate found")
}

fn schema_of(shape: Shape, whole: &str, title: &str) -> Value {
    let mut definitions = Map::new();
    for (name, fields) in records(shape) {
        definitions.insert(name.to_owned(), record_schema(fields));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$ref": format!("#/$defs/{whole}"),
        "$defs": definitions,
    })
}

/// All records below a shape, the outermost first, each once.
fn records(shape: Shape) -> Vec<(&'static str, &'static [Field])> {
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    let mut todo = vec![shape];
    while !todo.is_empty() {
        match todo.remove(0) {
            Shape::Maybe(inner) | Shape::List(inner) => todo.insert(0, *inner),
            Shape::Record(name, fields) if known.insert(name) => {
                found.push((name, fields));
                todo.extend(fields.iter().map(|field| (field.shape)()));
            }
            _ => {}
        }
    }
    found
}

fn add_records(page: &mut String, shape: Shape) {
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

/// The meaning, with the words that can stand there.
fn meaning(field: &Field) -> String {
    let mut shape = (field.shape)();
    while let Shape::Maybe(inner) | Shape::List(inner) = shape {
        shape = *inner;
    }
    let Shape::Word(words) = shape else { return field.meaning.to_owned() };
    let words: Vec<String> =
        words.iter().map(|(word, meaning)| format!("`{word}`: {meaning}")).collect();
    format!("{} {}", field.meaning, words.join(" "))
}

fn type_words(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Whole => "whole number".to_owned(),
        Shape::Signed => "whole number, may be negative".to_owned(),
        Shape::Number => "number".to_owned(),
        Shape::Flag => "true or false".to_owned(),
        Shape::Word(_) => "word".to_owned(),
        Shape::Maybe(inner) => format!("{} or null", type_words(inner)),
        Shape::List(inner) => format!("list of {}", type_words(inner)),
        Shape::Record(name, _) => format!("[{name}](#{})", name.to_lowercase()),
    }
}

fn record_schema(fields: &[Field]) -> Value {
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

fn shape_schema(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Whole => json!({ "type": "integer", "minimum": 0 }),
        Shape::Signed => json!({ "type": "integer" }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Word(words) => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            json!({ "type": "string", "enum": words })
        }
        Shape::Maybe(inner) => json!({ "anyOf": [shape_schema(inner), { "type": "null" }] }),
        Shape::List(inner) => json!({ "type": "array", "items": shape_schema(inner) }),
        Shape::Record(name, _) => json!({ "$ref": format!("#/$defs/{name}") }),
    }
}
