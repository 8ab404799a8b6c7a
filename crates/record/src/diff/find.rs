//! Finds the run that a word denotes.

use esker_model::{
    Error, GraphRead, Result, Schema, Value, Vertex, VertexId, VertexSelect, VertexTypeId,
};
use std::ops::ControlFlow;

/// Length of a run's id, see [`crate::new_id`].
const ID_LETTERS: usize = 17;

/// Whether a word denotes a run: a job number, a run id, `last`, `execution:…`.
pub fn is_run(text: &str) -> bool {
    let kinds = ["execution:", "job:", "process:"];
    latest(text).is_some()
        || kinds.iter().any(|kind| text.starts_with(kind))
        || is_job_number(text)
        || is_id(text)
}

fn is_job_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('_').map_or_else(
        || digits(text),
        |(array, task)| digits(array) && digits(task),
    )
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LETTERS
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
}

/// Parses `last` as 0, `last~3` as 3.
fn latest(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("last")?;
    if rest.is_empty() {
        return Some(0);
    }
    rest.strip_prefix('~')?.parse().ok()
}

/// Finds the run that a word denotes: `execution:ID`, its id alone, a job number (with `_TASK` for a task of an array), `job:…`,
/// `process:…`, `last` for the latest recorded run, `last~1` for the one before.
///
/// # Errors
/// Fails if no run has that name.
pub fn find_run(graph: &dyn GraphRead, text: &str) -> Result<VertexId> {
    let schema = graph.schema()?;
    let execution = schema.vertex_type_id("Execution")?;
    if let Some(before) = latest(text) {
        return nth_latest(graph, execution, before);
    }
    let candidates: Vec<VertexId> = match text.split_once(':') {
        Some((prefix, key)) => {
            let named = ["Execution", "Job", "Process"]
                .into_iter()
                .find(|name| name.eq_ignore_ascii_case(prefix));
            let Some(name) = named else {
                return Err(no_run(text));
            };
            vec![VertexId::of(name, key)]
        }
        None => vec![VertexId::of("Execution", text), VertexId::of("Job", text)],
    };
    let found = graph.read_vertices(&candidates, esker_model::Version::MAX)?;
    let found = found.into_iter().flatten().find(|v| !v.deleted);
    if let Some(found) = found {
        return Ok(found.id);
    }
    match text.split_once('_').filter(|_| is_job_number(text)) {
        Some((array, task)) => task_of(graph, &schema, array, task, text),
        None => Err(no_run(text)),
    }
}

fn no_run(text: &str) -> Error {
    Error::Invalid(format!(
        "there is no run `{text}`: expected the number of a job, execution:ID as `esker log` shows it, `last` or `last~1`"
    ))
}

/// Finds the latest run of an array's task.
fn task_of(
    graph: &dyn GraphRead,
    schema: &Schema,
    array: &str,
    task: &str,
    text: &str,
) -> Result<VertexId> {
    let array = VertexId::of("Job", array);
    let mut below = super::view::neighbours(graph, schema, &[array], "contains")?;
    below.extend(super::view::neighbours(graph, schema, &below, "contains")?);
    let all = graph.read_vertices(&below, esker_model::Version::MAX)?;
    let is_it = |vertex: &Vertex| match vertex.attribute("slurm_array_task") {
        Some(Value::String(number)) => number == task,
        Some(Value::I64(number)) => number.to_string() == task,
        _ => false,
    };
    let mut found: Vec<Vertex> = all.into_iter().flatten().filter(is_it).collect();
    found.sort_by_key(start);
    found.pop().map(|v| v.id).ok_or_else(|| no_run(text))
}

fn start(vertex: &Vertex) -> i64 {
    match vertex.attribute("start") {
        Some(Value::Timestamp(at)) => *at,
        _ => i64::MIN,
    }
}

/// Returns the latest run, or the one `before` positions earlier.
fn nth_latest(graph: &dyn GraphRead, execution: VertexTypeId, before: usize) -> Result<VertexId> {
    let mut runs: Vec<(i64, VertexId)> = Vec::new();
    graph.scan_vertices(&VertexSelect::of(execution), &mut |vertex| {
        let at = start(&vertex);
        if vertex.type_id == execution && !vertex.deleted && at > i64::MIN {
            runs.push((at, vertex.id));
        }
        ControlFlow::Continue(())
    })?;
    runs.sort_unstable();
    let nth = runs.len().checked_sub(before + 1).and_then(|n| runs.get(n));
    nth.map(|(_, id)| *id).ok_or_else(|| {
        Error::Invalid(format!(
            "there are only {} recorded runs here: `last~{before}` is before the first",
            runs.len()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_from_times() {
        for run in [
            "4711",
            "4711_3",
            "last",
            "last~2",
            "execution:x",
            "job:7",
            "01jx8m2p3q4r5s6t7",
        ] {
            assert!(is_run(run), "{run}");
        }
        for other in [
            "now",
            "2026-03-01",
            "#77",
            "@1772366400",
            "last~",
            "lastly",
            "_3",
            "",
        ] {
            assert!(!is_run(other), "{other}");
        }
    }
}
