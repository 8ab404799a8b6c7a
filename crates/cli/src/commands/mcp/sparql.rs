//! SPARQL for an assistant: here, or by the server that has the data.

use super::answer::{Stop, fit};
use super::tools::{Asked, Given, said};
use crate::commands::rdf::{on_large_stack, refused};
use esker::rdf::moment;
use esker::rpc::Address;
use esker::rpc::http::{Place, Sent};
use esker_rdf::{Answer, Format, Found, Options, RdfFormat, query};
use serde_json::{Value as Json, json};
use std::time::Instant;

/// Bytes of an answer that are read of it, however much of it is shown.
const READ_MAX: usize = 64 << 20;

pub(super) fn answer(asked: &Asked, given: &Given<'_>, stop: &Stop) -> Result<Json, String> {
    let text = given.text("query")?;
    if esker_rdf::syntax::query(text, None).is_err()
        && esker_rdf::syntax::update(text, None).is_ok()
    {
        return Err("this is an update; only queries are answered here".to_owned());
    }
    let place = if Address::is_address(&asked.target) {
        Some(Place::from(&Address::parse(&asked.target).map_err(said)?))
    } else {
        asked.database.http_place()
    };
    let mut answer = match place {
        Some(place) => there(asked, &place, text, stop)?,
        None => here(asked, text, stop)?,
    };
    answer["database"] = asked.target.as_str().into();
    answer["evidence"] =
        json!({"query": text, "asked": "the RDF data, and the graph as RDF, as they are now"});
    Ok(fit(answer, &["rows", "triples"], asked.limits, true))
}

fn here(asked: &Asked, text: &str, stop: &Stop) -> Result<Json, String> {
    let mut rdf = asked.database.rdf().map_err(said)?;
    let why = || stop.why();
    let (now, seed) = moment();
    let mut options = Options::new(now, seed);
    options.threads = esker::rdf::threads();
    options.memory = usize::try_from(asked.memory).unwrap_or(usize::MAX);
    options.stop = &why;
    let rows = asked.limits.rows;
    on_large_stack(|| {
        let data = rdf.asked(text, None, &why)?;
        let answer =
            query(&data, text, None, None, false, &options).map_err(|e| refused(text, e))?;
        shown(&answer, rows)
    })
    .map_err(|e| e.to_string())
}

/// The first rows; what is left out is counted by whoever cuts, so one more is given.
fn shown(answer: &Answer<'_>, rows: usize) -> anyhow::Result<Json> {
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
        let shown: Vec<Json> = (0..length.min(rows.saturating_add(1))).map(row).collect();
        return Ok(json!({"variables": names, "rows": shown, "total": length}));
    }
    let mut out = Vec::new();
    answer.write(Format::Json, &mut out)?;
    let whole: Json = serde_json::from_slice(&out)?;
    Ok(json!({"boolean": whole["boolean"]}))
}

fn there(asked: &Asked, place: &Place, text: &str, stop: &Stop) -> Result<Json, String> {
    let mut path = "/sparql".to_owned();
    if let Some(asker) = &asked.asker {
        let gids: Vec<String> = asker.gids.iter().map(i64::to_string).collect();
        path = format!("/sparql?uid={}", asker.uid);
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
    let gone = || stop.why().is_some();
    let until = Instant::now().checked_add(asked.limits.time);
    let sent = Sent::Bytes(text.as_bytes());
    let mut response = place
        .ask("POST", &path, &headers, sent, &gone, until)
        .map_err(said)?;
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
        "rows": rows.iter().take(asked.limits.rows.saturating_add(1)).map(row).collect::<Json>(),
        "total": rows.len(),
    }))
}

/// A term of the results' JSON as N-Triples write it.
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
