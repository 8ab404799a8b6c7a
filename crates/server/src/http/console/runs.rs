//! Runs, one run, two runs beside each other.

use super::super::Refused;
use super::super::api::{Answer, Asked};
use super::told;
use esker_console::runs::{self, Wanted};
use esker_model::{Error, Version, VertexId};
use esker_record::{Change, diff_runs, find_run, is_run};
use serde_json::{Value as Json, json};

/// Runs of one answer, at most.
const LIMIT_MAX: usize = 2_000;

fn time(asked: &Asked<'_>, name: &str) -> Result<Option<i64>, Refused> {
    let Some(text) = asked.query.get(name).filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let millis = i64::try_from(Version::parse_since(text)?.millis());
    Ok(Some(millis.unwrap_or(i64::MAX).saturating_mul(1_000_000)))
}

fn after(asked: &Asked<'_>) -> Result<Option<(i64, String)>, Refused> {
    let Some(text) = asked.query.get("after").filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let place = text
        .split_once(' ')
        .and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    place.map(Some).ok_or_else(|| {
        Refused::bad(format!(
            "parameter `after`: expected what `next` of the answer before said; got `{text}`"
        ))
    })
}

/// `GET /api/v1/runs`.
pub(in super::super) fn list(asked: &Asked<'_>) -> Answer {
    let given = |name: &str| {
        let text = asked.query.get(name).filter(|t| !t.is_empty());
        text.map(str::to_owned)
    };
    let state = given("state");
    if let Some(state) = &state
        && !["running", "ok", "failed", "unknown"].contains(&state.as_str())
    {
        return Err(Refused::bad(format!(
            "parameter `state`: expected running, ok, failed or unknown; got `{state}`"
        )));
    }
    let wanted = Wanted {
        user: given("user"),
        state,
        text: given("text"),
        since: time(asked, "since")?,
        until: time(asked, "until")?,
        after: after(asked)?,
        limit: match asked.query.number("limit")? {
            None => 100,
            Some(limit) => (limit as usize).clamp(1, LIMIT_MAX),
        },
    };
    let graph = asked.graph();
    told(&runs::list(&*graph, &wanted, asked.watch)?)
}

/// A run by its name, or as `esker diff` takes it.
fn run(asked: &Asked<'_>, parameter: &str) -> Result<VertexId, Refused> {
    let text = asked.query.required(parameter)?;
    let graph = asked.graph();
    // A name is looked up as such; numbers of jobs and `last` are found as `esker diff` finds them.
    if !text.contains(':') && is_run(text) {
        return Ok(find_run(&*graph, text)?);
    }
    let (_, vertex) = asked.vertex(parameter, &*graph.schema()?)?;
    Ok(vertex.id)
}

/// `GET /api/v1/runs/one`.
pub(in super::super) fn one(asked: &Asked<'_>) -> Answer {
    let id = run(asked, "id")?;
    let graph = asked.graph();
    match runs::one(&*graph, id)? {
        Some(one) => told(&one),
        None => Err(Refused::missing(format!(
            "no run `{}`",
            asked.query.required("id")?
        ))),
    }
}

/// `GET /api/v1/runs/diff`.
pub(in super::super) fn diff(asked: &Asked<'_>) -> Answer {
    let (a, b) = (run(asked, "a")?, run(asked, "b")?);
    let graph = asked.graph();
    let schema = graph.schema()?;
    let found = graph.read_vertices(&[a, b], Version::MAX)?;
    for (vertex, name) in found.iter().zip(["a", "b"]) {
        if vertex.is_none() {
            return Err(Refused::missing(format!(
                "no run `{}`",
                asked.query.required(name)?
            )));
        }
    }
    let vertices: Vec<_> = found.into_iter().flatten().collect();
    let described = runs::describe(&*graph, &schema, &vertices)?;
    let [before, after] = described.as_slice() else {
        return Err(Refused::Failed(Error::Invalid(
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
