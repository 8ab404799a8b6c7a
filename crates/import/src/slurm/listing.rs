//! Output of `sacct --json`. Its schema differs between the data parsers of Slurm: a number may be a number or
//! `{"set": true, "number": 7}`, a state a word or a list of words. Unknown fields are kept by their names.

use super::job::{SlurmJob, Step, keep, kept_text, value_of};
use esker_model::Value;
use serde_json::{Map, Value as Json};

/// Reads all jobs of a listing, each with its own result.
///
/// # Errors
/// Fails if the text is not a listing of jobs.
pub fn listing(bytes: &[u8]) -> Result<Vec<Result<SlurmJob, String>>, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        format!("line {line}, column {column}: expected what `sacct --json` prints: {e}")
    })?;
    let Json::Object(mut all) = json else {
        return Err("expected a JSON object with `jobs`, as `sacct --json` prints it".into());
    };
    let Some(Json::Array(jobs)) = all.remove("jobs") else {
        return Err("there are no `jobs`: is this what `sacct --json` prints?".into());
    };
    let each = |(n, job): (usize, Json)| job_of(job).map_err(|e| format!("`jobs[{n}]`: {e}"));
    Ok(jobs.into_iter().enumerate().map(each).collect())
}

/// Returns a number in either form; `None` if it is not set.
fn number(json: Option<&Json>) -> Option<i64> {
    match json? {
        Json::Number(n) => n.as_i64(),
        Json::String(text) => text.trim().parse().ok(),
        Json::Object(map) => {
            let set = map.get("set").is_none_or(|set| set == &Json::Bool(true));
            let infinite = map.get("infinite") == Some(&Json::Bool(true));
            map.get("number")?.as_i64().filter(|_| set && !infinite)
        }
        _ => None,
    }
}

fn text(json: Option<&Json>) -> Option<String> {
    let text = json?.as_str()?.trim();
    (!text.is_empty()).then(|| kept_text(text))
}

/// Returns a word, or a list of words joined by `+`.
fn joined_words(json: Option<&Json>) -> Option<String> {
    match json? {
        Json::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
            (!words.is_empty()).then(|| words.join("+"))
        }
        word => text(Some(word)),
    }
}

/// Converts seconds since 1970 to nanoseconds; 0 means unset.
fn time(times: Option<&Json>, name: &str) -> Option<i64> {
    let seconds = number(times?.get(name)).filter(|seconds| *seconds > 0)?;
    seconds.checked_mul(1_000_000_000)
}

/// Returns the exit code as `RETURN:SIGNAL`, such as `0:0`.
fn exit(json: Option<&Json>) -> Option<Value> {
    let code = json?;
    if !code.is_object() {
        return value_of(code);
    }
    let returned = number(code.get("return_code")).unwrap_or(0);
    let signal = code.get("signal");
    let signal = signal.and_then(|s| number(s.get("id").or_else(|| s.get("signal_id"))));
    Some(Value::String(format!("{returned}:{}", signal.unwrap_or(0))))
}

/// Fields that are converted explicitly, or duplicate others.
const CONVERTED_FIELDS: [&str; 11] = [
    "job_id",
    "time",
    "name",
    "nodes",
    "steps",
    "state",
    "exit_code",
    "derived_exit_code",
    "association",
    "array",
    "het",
];

fn job_of(json: Json) -> Result<SlurmJob, String> {
    let Json::Object(fields) = json else {
        return Err("expected an object".into());
    };
    let id = number(fields.get("job_id")).filter(|id| *id >= 0);
    let id = id
        .ok_or("there is no `job_id` that is a number")?
        .to_string();
    let times = fields.get("time");
    let inner = |outer: &str, name: &str| fields.get(outer).and_then(|outer| outer.get(name));
    let part_of = number(inner("array", "job_id")).filter(|of| *of > 0);
    let part_of = part_of.or_else(|| number(inner("het", "job_id")).filter(|of| *of > 0));
    let mut job = SlurmJob {
        part_of: part_of.map(|of| of.to_string()).filter(|of| *of != id),
        id,
        uid: number(fields.get("user_id")).or_else(|| number(fields.get("uid"))),
        user: text(fields.get("user")).or_else(|| text(inner("association", "user"))),
        name: text(fields.get("name")),
        submit: time(times, "submission"),
        start: time(times, "start"),
        end: time(times, "end"),
        nodes: text(fields.get("nodes")).filter(|nodes| nodes != "None assigned"),
        tasks: None,
        command: text(fields.get("submit_line")),
        ..SlurmJob::default()
    };
    for (field, value) in &fields {
        if CONVERTED_FIELDS.contains(&field.as_str()) {
            continue;
        }
        let value = number(Some(value)).map_or_else(|| unset(value), |n| Some(Value::I64(n)));
        let name = match field.as_str() {
            "working_directory" => "work_dir",
            "user" => "username",
            "group" => "groupname",
            other => other,
        };
        job.keep(name, value);
    }
    job.keep("state", state(&fields));
    job.keep("exit_code", exit(fields.get("exit_code")));
    job.keep("derived_ec", exit(fields.get("derived_exit_code")));
    job.keep(
        "cluster",
        text(inner("association", "cluster")).map(Value::String),
    );
    job.keep(
        "account",
        text(inner("association", "account")).map(Value::String),
    );
    job.keep("submit", job.submit.map(Value::Timestamp));
    job.keep("eligible", time(times, "eligible").map(Value::Timestamp));
    job.keep(
        "elapsed",
        times.and_then(|t| number(t.get("elapsed"))).map(Value::I64),
    );
    job.keep(
        "time_limit",
        times
            .and_then(|t| number(t.get("limit")))
            .map(|m| Value::I64(m * 60)),
    );
    job.keep(
        "array_task_id",
        number(inner("array", "task_id")).map(Value::I64),
    );
    let steps = fields.get("steps").and_then(Json::as_array);
    job.steps = steps
        .into_iter()
        .flatten()
        .filter_map(|step| step_of(&job.id, step.as_object()?))
        .collect();
    Ok(job)
}

/// Returns a value unless it is marked as not set.
fn unset(value: &Json) -> Option<Value> {
    let no = value.get("set") == Some(&Json::Bool(false));
    if no { None } else { value_of(value) }
}

fn state(fields: &Map<String, Json>) -> Option<Value> {
    let state = fields.get("state")?;
    let current = state.get("current").unwrap_or(state);
    joined_words(Some(current)).map(Value::String)
}

fn step_of(job: &str, fields: &Map<String, Json>) -> Option<Step> {
    let step = fields.get("step")?;
    let id = match step.get("id")? {
        Json::String(id) => id.clone(),
        id => {
            let within = id.get("step_id")?;
            let within = number(Some(within)).map(|n| n.to_string());
            format!("{job}.{}", within.or_else(|| text(id.get("step_id")))?)
        }
    };
    // Steps of other jobs are skipped.
    id.strip_prefix(job).filter(|rest| rest.starts_with('.'))?;
    let times = fields.get("time");
    let mut out = Step {
        name: text(step.get("name")),
        start: time(times, "start"),
        end: time(times, "end"),
        id,
        ..Step::default()
    };
    for (field, value) in fields {
        if !matches!(field.as_str(), "step" | "time" | "state" | "exit_code") {
            keep(&mut out.fields, field, unset(value));
        }
    }
    keep(&mut out.fields, "state", state(fields));
    keep(&mut out.fields, "exit_code", exit(fields.get("exit_code")));
    Some(out)
}
