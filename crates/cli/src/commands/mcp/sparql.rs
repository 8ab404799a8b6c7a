//! SPARQL for an assistant: in this process, or by the server that has the data.

use super::answer::{Stop, limit_size};
use super::tools::{CheckedArguments, ToolContext, error_text};
use esker::rdf::now_and_seed;
use esker::rdf::on_large_stack;
use esker::rpc::Address;
use esker::rpc::http::{Endpoint, RequestBody};
use esker_rdf::{Answer, Format, Found, Options, RdfFormat, query};
use esker_terminal::sparql::refused;
use serde_json::{Value as Json, json};
use std::time::Instant;

/// Maximum size of a server's answer, in bytes, even if only a part is returned.
const READ_MAX: usize = 64 << 20;

pub(super) fn answer(
    tool_context: &ToolContext,
    arguments: &CheckedArguments<'_>,
    stop: &Stop,
) -> Result<Json, String> {
    let text = arguments.text("query")?;
    if esker_rdf::syntax::query(text, None).is_err()
        && esker_rdf::syntax::update(text, None).is_ok()
    {
        return Err("this is an update; only queries are answered here".to_owned());
    }
    let place = if Address::is_address(&tool_context.target) {
        Some(Endpoint::from(
            &Address::parse(&tool_context.target).map_err(error_text)?,
        ))
    } else {
        tool_context.database.http_endpoint()
    };
    let mut answer = match place {
        Some(place) => query_server(tool_context, &place, text, stop)?,
        None => query_locally(tool_context, text, stop)?,
    };
    answer["database"] = tool_context.target.as_str().into();
    answer["evidence"] =
        json!({"query": text, "asked": "the RDF data, and the graph as RDF, as they are now"});
    Ok(limit_size(
        answer,
        &["rows", "triples"],
        tool_context.limits,
        true,
    ))
}

fn query_locally(tool_context: &ToolContext, text: &str, stop: &Stop) -> Result<Json, String> {
    let mut rdf = tool_context.database.rdf().map_err(error_text)?;
    let why = || stop.stop_reason();
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = esker::rdf::threads();
    options.memory = usize::try_from(tool_context.memory).unwrap_or(usize::MAX);
    options.stop = &why;
    let rows = tool_context.limits.rows;
    on_large_stack(|| {
        let data = rdf.query_data(text, None, &why)?;
        let answer =
            query(&data, text, None, None, false, &options).map_err(|e| refused(text, e))?;
        first_rows(&answer, rows)
    })
    .map_err(|e| e.to_string())
}

/// Returns the first rows and one more, so that the caller can count rows as left out.
fn first_rows(answer: &Answer<'_>, rows: usize) -> anyhow::Result<Json> {
    if let Found::Triples(_) = &answer.found {
        let mut out = Vec::new();
        answer.write_graph(RdfFormat::NTriples, &mut out)?;
        let text = String::from_utf8_lossy(&out);
        return Ok(json!({"triples": text.lines().collect::<Vec<_>>()}));
    }
    if let Found::Solutions(names, table) = &answer.found {
        let length = table.len();
        let row = |r: usize| -> Json {
            let pairs = names.iter().zip(table.columns());
            let pairs = pairs.filter_map(|(name, column)| {
                let term = answer.term(*column.get(r)?)?;
                Some((name.clone(), Json::from(term.to_string())))
            });
            Json::Object(pairs.collect())
        };
        let first_rows: Vec<Json> = (0..length.min(rows.saturating_add(1))).map(row).collect();
        return Ok(json!({"variables": names, "rows": first_rows, "total": length}));
    }
    let mut out = Vec::new();
    answer.write(Format::Json, &mut out)?;
    let whole: Json = serde_json::from_slice(&out)?;
    Ok(json!({"boolean": whole["boolean"]}))
}

fn query_server(
    tool_context: &ToolContext,
    place: &Endpoint,
    text: &str,
    stop: &Stop,
) -> Result<Json, String> {
    let mut path = "/sparql".to_owned();
    if let Some(principal) = &tool_context.principal {
        let gids: Vec<String> = principal.gids.iter().map(i64::to_string).collect();
        path = format!("/sparql?uid={}", principal.uid);
        if !gids.is_empty() {
            path = format!("{path}&gids={}", gids.join(","));
        }
    }
    let headers = [
        ("content-type", "application/sparql-query"),
        (
            "accept",
            "application/sparql-results+json, application/n-triples",
        ),
    ];
    let gone = || stop.stop_reason().is_some();
    let until = Instant::now().checked_add(tool_context.limits.time);
    let sent = RequestBody::Bytes(text.as_bytes());
    let mut response = place
        .request("POST", &path, &headers, sent, &gone, until)
        .map_err(error_text)?;
    let is_json = response.header("content-type").contains("json");
    let failed = response.status != 200;
    let body = response.text(READ_MAX).map_err(|e| e.to_string())?;
    if failed {
        let why: Option<Json> = serde_json::from_str(&body).ok();
        let why = why.and_then(|why| Some(why.get("error")?.as_str()?.to_owned()));
        return Err(why.unwrap_or(body));
    }
    if !is_json {
        return Ok(json!({"triples": body.lines().collect::<Vec<_>>()}));
    }
    let whole: Json = serde_json::from_str(&body).map_err(|e| e.to_string())?;
    if let Some(truth) = whole.get("boolean") {
        return Ok(json!({ "boolean": truth }));
    }
    let rows = whole.pointer("/results/bindings").and_then(Json::as_array);
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let row = |row: &Json| -> Json {
        let pairs = row.as_object().into_iter().flatten();
        Json::Object(
            pairs
                .map(|(name, term)| (name.clone(), term_of(term)))
                .collect(),
        )
    };
    Ok(json!({
        "variables": whole.pointer("/head/vars"),
        "rows": rows.iter().take(tool_context.limits.rows.saturating_add(1)).map(row).collect::<Json>(),
        "total": rows.len(),
    }))
}

/// Converts a term of the results' JSON to the syntax of N-Triples.
fn term_of(term: &Json) -> Json {
    let part = |name: &str| term.get(name).and_then(Json::as_str);
    let value = part("value").unwrap_or_default();
    let text = match part("type") {
        Some("uri") => format!("<{value}>"),
        Some("bnode") => format!("_:{value}"),
        _ => match (part("xml:lang"), part("datatype")) {
            (Some(lang), _) => format!("{value:?}@{lang}"),
            (None, Some(datatype)) => format!("{value:?}^^<{datatype}>"),
            (None, None) => format!("{value:?}"),
        },
    };
    text.into()
}
