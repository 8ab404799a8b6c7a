//! Documents of the plug-in `jobcomp/elasticsearch`: one JSON object per job. Its fields are those of Slurm 15.08 to today; missing fields
//! stay absent, and unknown fields are kept.

use super::job::{SlurmJob, kept_text, value_of};
use crate::jobs::job_number;
use esker_model::Value;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};

/// Reads a document. An error describes the cause and the location.
pub fn document(bytes: &[u8]) -> Result<SlurmJob, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        format!("line {line}, column {column}: expected a JSON object of one job: {e}")
    })?;
    let Json::Object(mut fields) = json else {
        return Err("expected a JSON object of one job".into());
    };
    let id = match fields.remove("jobid") {
        Some(Json::Number(n)) if n.is_u64() => n.to_string(),
        Some(Json::String(text)) if job_number(&text).is_some() => text.trim().to_owned(),
        Some(other) => {
            return Err(format!("`jobid`: expected a job's number, not `{other}`"));
        }
        None => {
            return Err("there is no `jobid`: is this what jobcomp/elasticsearch sends?".into());
        }
    };
    let mut job = SlurmJob {
        id,
        ..SlurmJob::default()
    };
    job.part_of = number(&fields, "array_job_id")
        .or_else(|| number(&fields, "het_job_id"))
        .or_else(|| number(&fields, "pack_job_id"))
        .filter(|of| *of != 0)
        .map(|of| of.to_string())
        .filter(|of| *of != job.id);
    job.uid = number(&fields, "user_id");
    job.user = text(&fields, "username");
    job.name = text(&fields, "job_name");
    job.submit = time(&fields, "@submit")?;
    job.start = time(&fields, "@start")?;
    job.end = time(&fields, "@end")?;
    job.nodes = text(&fields, "nodes").filter(|nodes| nodes != "(null)");
    job.tasks = number(&fields, "ntasks");
    for known in ["user_id", "job_name", "@start", "@end", "nodes", "ntasks"] {
        fields.remove(known);
    }
    for (field, value) in &fields {
        let value = match (field.as_str(), value) {
            ("@submit" | "@eligible", Json::String(_)) => {
                time(&fields, field)?.map(Value::Timestamp)
            }
            ("script", Json::String(script)) => Some(Value::String(kept_text(script))),
            _ => value_of(value),
        };
        job.keep(field, value);
    }
    Ok(job)
}

fn number(fields: &Map<String, Json>, name: &str) -> Option<i64> {
    match fields.get(name)? {
        Json::Number(n) => n.as_i64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn text(fields: &Map<String, Json>, name: &str) -> Option<String> {
    let text = fields.get(name)?.as_str()?.trim();
    (!text.is_empty()).then(|| kept_text(text))
}

/// The plug-in writes UTC without a zone designator.
fn time(fields: &Map<String, Json>, name: &str) -> Result<Option<i64>, String> {
    let Some(Json::String(text)) = fields.get(name) else {
        return Ok(None);
    };
    utc(text).map_err(|()| {
        format!("`{name}`: expected a time such as 2026-03-01T12:00:00, not `{text}`")
    })
}

/// Parses a UTC time; `None` for an unset time.
pub(super) fn utc(text: &str) -> Result<Option<i64>, ()> {
    in_zone(text, &TimeZone::UTC)
}

/// Parses a time as Slurm writes it, in a time zone, or as seconds since 1970.
pub(super) fn in_zone(text: &str, zone: &TimeZone) -> Result<Option<i64>, ()> {
    let text = text.trim();
    if matches!(text, "" | "Unknown" | "None" | "N/A" | "Invalid" | "0") {
        return Ok(None);
    }
    let nanos = if text.bytes().all(|b| b.is_ascii_digit()) {
        let seconds: i64 = text.parse().map_err(|_| ())?;
        return seconds.checked_mul(1_000_000_000).map(Some).ok_or(());
    } else if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        timestamp.as_nanosecond()
    } else {
        let civil: DateTime = text.parse().map_err(|_| ())?;
        let zoned = civil.to_zoned(zone.clone()).map_err(|_| ())?;
        zoned.timestamp().as_nanosecond()
    };
    i64::try_from(nanos).map(Some).map_err(|_| ())
}
