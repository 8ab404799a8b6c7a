//! The change feed: vertices and edges that commits have touched, for clients that keep derived data or show changes.

use super::ApiError;
use super::api::{Answer, ApiRequest, add_names};
use esker_model::Version;
use http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest number of names in one answer; a client that is further behind has to read everything again.
const NAMES_MAX: usize = 50_000;

/// Identifier of this process: positions of another process's feed are not valid here.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    format!("{:x}.{nanos:x}", std::process::id())
});

fn position_text(place: u64) -> String {
    format!("{}-{place}", *PROCESS)
}

/// Encrypts feed positions for limited principals, because positions count all changes, hidden ones included.
struct PositionCipher([u8; 32]);

static POSITION_CIPHER: LazyLock<Option<PositionCipher>> = LazyLock::new(|| {
    let mut key = [0; 32];
    fill(&mut key).then_some(PositionCipher(key))
});

/// Fills `bytes` with random bytes from the kernel; false if the kernel gives none.
fn fill(bytes: &mut [u8]) -> bool {
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut *bytes, flags).is_ok_and(|n| n == bytes.len())
}

impl PositionCipher {
    fn mask(&self, nonce: u64) -> u64 {
        let hash = blake3::keyed_hash(&self.0, &nonce.to_be_bytes());
        hash.as_bytes()
            .first_chunk()
            .map_or(0, |head| u64::from_be_bytes(*head))
    }

    /// Encrypts a position, with another result each time.
    fn encrypt(&self, place: u64) -> Option<String> {
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

    fn decrypt(&self, text: &str) -> Option<u64> {
        let (nonce, place) = text.strip_prefix('x')?.split_at_checked(16)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(place)? ^ self.mask(number(nonce)?))
    }
}

/// Text of a position as the principal of the request may see it.
fn position_for(request: &ApiRequest<'_>, place: u64) -> String {
    if !request.is_limited() {
        return position_text(place);
    }
    let encrypted = POSITION_CIPHER
        .as_ref()
        .and_then(|cipher| cipher.encrypt(place));
    encrypted.unwrap_or_default()
}

/// Answers `GET /api/v1/news`: without `place` the present position of the feed, else the changes since `place`.
pub(super) fn changes(request: &ApiRequest<'_>) -> Answer {
    if request.service.cluster.is_some() {
        let message = "the servers of a cluster know their own changes only, and there is no combined feed: ask a single server";
        return Err(ApiError::Status(StatusCode::BAD_REQUEST, message.into()));
    }
    let (engine, _) = request.service.database.engine()?;
    let answer = |place: u64, missed: bool, vertices: Json, edges: Json| {
        json!({"place": position_for(request, place), "missed": missed, "vertices": vertices, "edges": edges})
            .to_string()
    };
    let Some(since) = request.query.get("place") else {
        return Ok(answer(engine.follow(), false, json!([]), json!([])));
    };
    let (process, place) = since.rsplit_once('-').unwrap_or_default();
    let number = if request.is_limited() {
        POSITION_CIPHER
            .as_ref()
            .and_then(|cipher| cipher.decrypt(place))
    } else {
        place.parse().ok()
    };
    let Some(place) = number else {
        return Err(ApiError::bad(format!(
            "parameter `place`: expected the `place` of the previous answer; got `{since}`"
        )));
    };
    let missed = |place| Ok(answer(place, true, json!([]), json!([])));
    if process != *PROCESS {
        return missed(engine.follow());
    }
    let Some(news) = engine.changes_since(place) else {
        return missed(engine.follow());
    };
    let graph = request.graph();
    let schema = graph.schema()?;
    let (mut vertices, mut edges) = news.distinct(&schema);
    if request.is_limited() {
        // Hidden changes are left out and not counted.
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
    add_names(
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
        let cipher = PositionCipher([7; 32]);
        let (a, b) = (cipher.encrypt(41).unwrap(), cipher.encrypt(41).unwrap());
        assert_ne!(a, b);
        for text in [&a, &b] {
            let (_, place) = text.rsplit_once('-').unwrap();
            assert_eq!(cipher.decrypt(place), Some(41));
        }
        for odd in [
            "",
            "41",
            "x",
            "x0",
            "xé000000000000000",
            "x00000000000000001",
        ] {
            assert!(cipher.decrypt(odd).is_none_or(|place| place != 41), "{odd}");
        }
    }
}
