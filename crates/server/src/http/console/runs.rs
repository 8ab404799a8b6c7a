//! Lists of runs, single runs, and comparisons of two runs.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest};
use super::super::query::unknown_value;
use super::json_text;
use esker_console::runs::{self, RunFilter};
use esker_model::{Error, Version, VertexId};
use esker_record::{Change, diff_runs, find_run, is_run};
use serde_json::{Value as Json, json};

/// Largest number of runs in one answer.
const LIMIT_MAX: usize = 2_000;

fn time(request: &ApiRequest<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = request.query.get(name).filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let millis = i64::try_from(Version::parse_since(text)?.millis());
    Ok(Some(millis.unwrap_or(i64::MAX).saturating_mul(1_000_000)))
}

fn after(request: &ApiRequest<'_>) -> Result<Option<(i64, String)>, ApiError> {
    let Some(text) = request.query.get("after").filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let place = text
        .split_once(' ')
        .and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    place.map(Some).ok_or_else(|| {
        ApiError::bad(format!(
            "parameter `after`: expected the `next` of the previous answer; got `{text}`"
        ))
    })
}

/// Answers the request `GET /api/v1/runs`.
pub(in super::super) fn list(request: &ApiRequest<'_>) -> Answer {
    let given = |name: &str| {
        let text = request.query.get(name).filter(|t| !t.is_empty());
        text.map(str::to_owned)
    };
    let state = given("state");
    let known = ["running", "ok", "failed", "unknown"];
    if let Some(state) = state.as_deref().filter(|state| !known.contains(state)) {
        return Err(ApiError::bad(unknown_value("state", state, &known)));
    }
    let wanted = RunFilter {
        user: given("user"),
        state,
        text: given("text"),
        since: time(request, "since")?,
        until: time(request, "until")?,
        after: after(request)?,
        limit: match request.query.number("limit")? {
            None => 100,
            Some(limit) => (limit as usize).clamp(1, LIMIT_MAX),
        },
    };
    let graph = request.graph();
    json_text(&runs::list(&*graph, &wanted, request.call_state)?)
}

/// Finds a run by its name, or by a reference as in `esker diff`.
fn run(request: &ApiRequest<'_>, parameter: &str) -> Result<VertexId, ApiError> {
    let text = request.query.required(parameter)?;
    let graph = request.graph();
    // A vertex name is looked up directly; job numbers and `last` are resolved as in `esker diff`.
    if !text.contains(':') && is_run(text) {
        return Ok(find_run(&*graph, text)?);
    }
    let (_, vertex) = request.vertex(parameter, &*graph.schema()?)?;
    Ok(vertex.id)
}

/// Answers the request `GET /api/v1/runs/one`.
pub(in super::super) fn one(request: &ApiRequest<'_>) -> Answer {
    let id = run(request, "id")?;
    let graph = request.graph();
    match runs::details(&*graph, id)? {
        Some(one) => json_text(&one),
        None => Err(ApiError::missing(format!(
            "no run `{}`",
            request.query.required("id")?
        ))),
    }
}

/// Answers the request `GET /api/v1/runs/diff`.
pub(in super::super) fn diff(request: &ApiRequest<'_>) -> Answer {
    let (a, b) = (run(request, "a")?, run(request, "b")?);
    let graph = request.graph();
    let schema = graph.schema()?;
    let found = graph.read_vertices(&[a, b], Version::MAX)?;
    for (vertex, name) in found.iter().zip(["a", "b"]) {
        if vertex.is_none() {
            return Err(ApiError::missing(format!(
                "no run `{}`",
                request.query.required(name)?
            )));
        }
    }
    let vertices: Vec<_> = found.into_iter().flatten().collect();
    let described = runs::describe(&*graph, &schema, &vertices)?;
    let [before, after] = described.as_slice() else {
        return Err(ApiError::Engine(Error::Invalid(
            "two runs are to be compared".into(),
        )));
    };
    let diff = diff_runs(&*graph, a, b)?;
    let mut sections: Vec<(&str, Vec<Json>)> = Vec::new();
    for row in &diff.rows {
        let part = row.part.name();
        if sections.last().is_none_or(|(name, _)| *name != part) {
            sections.push((part, Vec::new()));
        }
        if let Some((_, rows)) = sections.last_mut() {
            rows.push(json!({
                "name": row.name, "before": row.before, "after": row.after, "change": row.change.name(),
                "same": row.change == Change::Same, "expected": row.expected,
            }));
        }
    }
    let sections: Json = sections
        .into_iter()
        .map(|(name, rows)| json!({"name": name, "rows": rows}))
        .collect();
    Ok(json!({
        "a": before, "b": after, "sections": sections,
        "differing": diff.differing().count(), "same": diff.same(), "expected": diff.expected(),
    })
    .to_string())
}
