//! A job, independent of the source format.

use crate::secrets::redacted;
use esker_model::limits::{NAME_BYTES_MAX, VALUE_BYTES_MAX};
use esker_model::{Properties, Value};
use serde_json::Value as Json;

/// Limit of stored text, such as a script, in bytes; the rest is cut off.
const TEXT_BYTES_MAX: usize = VALUE_BYTES_MAX - 64;

/// A Slurm job. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlurmJob {
    /// Job number, as `$SLURM_JOB_ID` in the job.
    pub id: String,
    /// Number of the enclosing job array, or of the first component of a heterogeneous job.
    pub part_of: Option<String>,
    /// Numeric id of the user.
    pub uid: Option<i64>,
    /// Name of the user.
    pub user: Option<String>,
    /// Name of the job.
    pub name: Option<String>,
    /// Time of the submission.
    pub submit: Option<i64>,
    /// Time of the start.
    pub start: Option<i64>,
    /// Time of the end.
    pub end: Option<i64>,
    /// Node list in Slurm's notation.
    pub nodes: Option<String>,
    /// Number of tasks in the job.
    pub tasks: Option<i64>,
    /// Command of the job, if recorded.
    pub command: Option<String>,
    /// All other fields, by name.
    pub fields: Properties,
    /// Steps of the job, if recorded.
    pub steps: Vec<Step>,
}

/// A step of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Full number of the step: `77.0`, `77.batch`.
    pub id: String,
    /// Name of the step.
    pub name: Option<String>,
    /// Time of the start.
    pub start: Option<i64>,
    /// Time of the end.
    pub end: Option<i64>,
    /// All other fields, by name.
    pub fields: Properties,
}

/// Returns the attribute name of a field; `None` if it is not a valid one.
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

/// Returns a text to be stored, with secrets redacted and cut to the limit.
pub(super) fn kept_text(text: &str) -> String {
    let clean = redacted(text);
    if clean.len() <= TEXT_BYTES_MAX {
        return clean.into_owned();
    }
    let cut = clean.floor_char_boundary(TEXT_BYTES_MAX);
    let kept = clean.get(..cut).unwrap_or_default();
    format!("{kept}\n[cut: it had {} bytes]", clean.len())
}

/// Returns a value as an attribute; `None` if it is empty.
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

impl SlurmJob {
    /// Stores a field under its own name.
    pub(super) fn keep(&mut self, field: &str, value: Option<Value>) {
        keep(&mut self.fields, field, value);
    }
}

pub(super) fn keep(fields: &mut Properties, field: &str, value: Option<Value>) {
    if let (Some(name), Some(value)) = (attribute_name(field), value) {
        fields.set(&name, value);
    }
}
