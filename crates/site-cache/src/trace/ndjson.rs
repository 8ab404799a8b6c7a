//! Parser of Esker's own NDJSON trace lines.

use super::{Line, Op};
use serde_json::Value;

pub(super) fn parse(line: &[u8]) -> Result<Line, String> {
    let value: Value = serde_json::from_slice(line).map_err(|e| {
        let message = e.to_string();
        format!("not a JSON object: {message}")
    })?;
    let Value::Object(object) = value else {
        return Err("expected a JSON object".into());
    };
    let text = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("\"{key}\" is not text")),
    };
    let seconds = match object.get("t") {
        Some(Value::Number(number)) => number.as_f64().unwrap_or(-1.0),
        _ => return Err("expected \"t\", a number of seconds".into()),
    };
    // Up to the year 287,000: microseconds still fit exactly.
    if !(0.0..=9e12).contains(&seconds) {
        return Err(format!("\"t\" is {seconds}: expected seconds from 0 on"));
    }
    let client = match object.get("client") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err("\"client\" is neither a text nor a number".into()),
    };
    let name = text("op")?.ok_or("expected \"op\"")?;
    let op = Op::ALL
        .into_iter()
        .find(|op| op.name() == name)
        .ok_or_else(|| {
            format!("\"op\" is `{name}`: expected list, stat, open, create, delete, rename or set")
        })?;
    let path = text("path")?.ok_or("expected \"path\"")?;
    let absolute = |path: &str| {
        if path.starts_with('/') {
            Ok(path.as_bytes().to_vec())
        } else {
            Err(format!("the path `{path}` does not begin with /"))
        }
    };
    let found = match object.get("found") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(found)) => Some(*found),
        Some(_) => return Err("\"found\" is neither true nor false".into()),
    };
    Ok(Line {
        t: (seconds * 1e6).round() as u64,
        client,
        op,
        path: absolute(path)?,
        to: text("to")?.map(absolute).transpose()?,
        found,
        directory: text("kind")? == Some("directory"),
    })
}
