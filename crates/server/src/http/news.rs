//! What commits have touched: for who keeps something derived from a database, or shows what happens.

use super::Refused;
use super::api::{Answer, Asked, learn};
use esker_model::Version;
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

/// Hides places from those from whom something may be hidden: places count all changes.
struct Veil([u8; 32]);

static VEIL: LazyLock<Option<Veil>> = LazyLock::new(|| {
    let mut key = [0; 32];
    fill(&mut key).then_some(Veil(key))
});

/// Random bytes from the kernel; false if there are none.
fn fill(bytes: &mut [u8]) -> bool {
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut *bytes, flags).is_ok_and(|n| n == bytes.len())
}

impl Veil {
    fn mask(&self, nonce: u64) -> u64 {
        let hash = blake3::keyed_hash(&self.0, &nonce.to_be_bytes());
        hash.as_bytes()
            .first_chunk()
            .map_or(0, |head| u64::from_be_bytes(*head))
    }

    /// Another text each time.
    fn out(&self, place: u64) -> Option<String> {
        let mut nonce = [0; 8];
        fill(&mut nonce).then(|| {
            let nonce = u64::from_be_bytes(nonce);
            format!(
                "{}-x{nonce:016x}{:016x}",
                *PROCESS,
                place ^ self.mask(nonce)
            )
        })
    }

    fn taken(&self, text: &str) -> Option<u64> {
        let (nonce, place) = text.strip_prefix('x')?.split_at_checked(16)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(place)? ^ self.mask(number(nonce)?))
    }
}

/// A place as whoever asks may know it.
fn place_for(asked: &Asked<'_>, place: u64) -> String {
    if !asked.is_limited() {
        return place_out(place);
    }
    let veiled = VEIL.as_ref().and_then(|veil| veil.out(place));
    veiled.unwrap_or_default()
}

/// `GET /api/v1/news`: without `place` where the feed is now; with it what was touched since.
pub(super) fn news(asked: &Asked<'_>) -> Answer {
    if asked.service.cluster.is_some() {
        let message = "the servers of a cluster know their own changes only, and nobody tells them together: ask a server that stands alone";
        return Err(Refused::Said(StatusCode::BAD_REQUEST, message.into()));
    }
    let (engine, _) = asked.service.database.engine()?;
    let answer = |place: u64, missed: bool, vertices: Json, edges: Json| {
        json!({"place": place_for(asked, place), "missed": missed, "vertices": vertices, "edges": edges})
            .to_string()
    };
    let Some(since) = asked.query.get("place") else {
        return Ok(answer(engine.follow(), false, json!([]), json!([])));
    };
    let (process, place) = since.rsplit_once('-').unwrap_or_default();
    let number = if asked.is_limited() {
        VEIL.as_ref().and_then(|veil| veil.taken(place))
    } else {
        place.parse().ok()
    };
    let Some(place) = number else {
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
    let graph = asked.graph();
    let schema = graph.schema()?;
    let (mut vertices, mut edges) = news.distinct(&schema);
    if asked.is_limited() {
        // What is hidden is no news, and counts for nothing.
        let found = graph.read_vertices(&vertices, Version::MAX)?;
        let mut shown = found.iter();
        vertices.retain(|_| shown.next().is_some_and(Option::is_some));
        let found = graph.read_edges(&edges, Version::MAX)?;
        let mut shown = found.iter();
        edges.retain(|_| shown.next().is_some_and(Option::is_some));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_veiled_place_comes_back_and_tells_nothing() {
        let veil = Veil([7; 32]);
        let (a, b) = (veil.out(41).unwrap(), veil.out(41).unwrap());
        assert_ne!(a, b);
        for text in [&a, &b] {
            let (_, place) = text.rsplit_once('-').unwrap();
            assert_eq!(veil.taken(place), Some(41));
        }
        for odd in [
            "",
            "41",
            "x",
            "x0",
            "xé000000000000000",
            "x00000000000000001",
        ] {
            assert!(veil.taken(odd).is_none_or(|place| place != 41), "{odd}");
        }
    }
}
