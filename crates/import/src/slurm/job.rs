//! A job as any of Slurm's ways of telling has it.

use crate::secrets::redacted;
use esker_model::limits::{NAME_BYTES_MAX, VALUE_BYTES_MAX};
use esker_model::{Properties, Value};
use serde_json::Value as Json;

/// Of a script that is longer, so many bytes are kept.
const TEXT_BYTES_MAX: usize = VALUE_BYTES_MAX - 64;

/// A job. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    /// Its number, as `$SLURM_JOB_ID` has it in the job.
    pub id: String,
    /// What it is a part of: the number of its array, or of the first job of a heterogeneous one.
    pub part_of: Option<String>,
    /// The user's number.
    pub uid: Option<i64>,
    /// The user's name.
    pub user: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// When it was submitted.
    pub submit: Option<i64>,
    /// When it began.
    pub start: Option<i64>,
    /// When it ended.
    pub end: Option<i64>,
    /// Its nodes, as Slurm writes lists of them.
    pub nodes: Option<String>,
    /// How many tasks it had.
    pub tasks: Option<i64>,
    /// What it ran, if that is told.
    pub command: Option<String>,
    /// All else, by name.
    pub fields: Properties,
    /// Its steps, where they are told of.
    pub steps: Vec<Step>,
}

/// A step of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Its whole number: `77.0`, `77.batch`.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// When it began.
    pub start: Option<i64>,
    /// When it ended.
    pub end: Option<i64>,
    /// All else, by name.
    pub fields: Properties,
}

/// How a field is called as an attribute; `None` if it cannot be one.
pub(super) fn attribute_name(field: &str) -> Option<String> {
    let name: String = field
        .trim()
        .trim_start_matches('@')
        .chars()
        .map(|c| match c {
            c if c.is_alphanumeric() || matches!(c, '_' | '.' | '-') => c.to_ascii_lowercase(),
            _ => '_',
        })
        .collect();
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// A text that may hold secrets, as it is kept.
pub(super) fn kept_text(text: &str) -> String {
    let clean = redacted(text);
    if clean.len() <= TEXT_BYTES_MAX {
        return clean.into_owned();
    }
    let cut = clean.floor_char_boundary(TEXT_BYTES_MAX);
    let kept = clean.get(..cut).unwrap_or_default();
    format!("{kept}\n[cut: it had {} bytes]", clean.len())
}

/// A value as an attribute; nothing for what says nothing.
pub(super) fn value_of(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(n) => Value::I64(n),
            None => Value::F64(n.as_f64()?),
        },
        Json::String(text) if text.is_empty() => return None,
        Json::String(text) => Value::String(kept_text(text)),
        Json::Array(list) if list.is_empty() => return None,
        Json::Object(map) if map.is_empty() => return None,
        deeper => Value::String(kept_text(&deeper.to_string())),
    })
}

impl Job {
    /// Keeps a field by its own name.
    pub(super) fn keep(&mut self, field: &str, value: Option<Value>) {
        keep(&mut self.fields, field, value);
    }
}

pub(super) fn keep(fields: &mut Properties, field: &str, value: Option<Value>) {
    if let (Some(name), Some(value)) = (attribute_name(field), value) {
        fields.set(&name, value);
    }
}

/// A number of a job: digits, and nothing else that could be taken for another vertex.
pub(super) fn job_number(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit()))
        .then_some(text)
}
