//! What commits have touched: for who keeps something derived from a database, or shows what happens.

use super::Refused;
use super::api::{Answer, Asked, learn};
use http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Names that one answer has, at most; who is further behind reads everything.
const NAMES_MAX: usize = 50_000;

/// Places of another process's feed mean nothing here.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    format!("{:x}.{nanos:x}", std::process::id())
});

fn place_out(place: u64) -> String {
    format!("{}-{place}", *PROCESS)
}

/// `GET /api/v1/news`: without `place` where the feed is now; with it what was touched since.
pub(super) fn news(asked: &Asked<'_>) -> Answer {
    if asked.service.cluster.is_some() {
        let message = "the servers of a cluster know their own changes only, and nobody tells them together: ask a server that stands alone";
        return Err(Refused::Said(StatusCode::BAD_REQUEST, message.into()));
    }
    let (engine, _) = asked.service.database.engine()?;
    let answer = |place: u64, missed: bool, vertices: Json, edges: Json| {
        json!({"place": place_out(place), "missed": missed, "vertices": vertices, "edges": edges})
            .to_string()
    };
    let Some(since) = asked.query.get("place") else {
        return Ok(answer(engine.follow(), false, json!([]), json!([])));
    };
    let (process, place) = since.rsplit_once('-').unwrap_or_default();
    let Ok(place) = place.parse::<u64>() else {
        return Err(Refused::bad(format!(
            "parameter `place`: expected what `place` of the answer before said; got `{since}`"
        )));
    };
    let missed = |place| Ok(answer(place, true, json!([]), json!([])));
    if process != *PROCESS {
        return missed(engine.follow());
    }
    let Some(news) = engine.news_since(place) else {
        return missed(engine.follow());
    };
    let graph = asked.graph()?;
    let schema = graph.schema()?;
    let (vertices, edges) = news.distinct(&schema);
    if vertices.len() + edges.len() > NAMES_MAX {
        return missed(news.until);
    }
    let ends = edges.iter().flat_map(|e| [e.source, e.destination]);
    let mut names = HashMap::new();
    learn(
        &graph,
        &schema,
        &mut names,
        vertices.iter().copied().chain(ends),
    )?;
    let name = |id| names.get(id).map_or("", String::as_str);
    let vertices: Json = vertices.iter().map(name).collect();
    let edges: Json = edges
        .iter()
        .map(|e| {
            let edge_type = schema.edge_type(e.edge_type).map(|t| t.name.as_str());
            json!([name(&e.source), edge_type, name(&e.destination)])
        })
        .collect();
    Ok(answer(news.until, false, vertices, edges))
}
