//! Answers as JSON, and metrics for Prometheus.

use crate::answer::TierAnswer;
use crate::node::{Explanation, Figures};
use crate::serve::RunningTier;
use esker_origin::origin_url::percent_encode;
use esker_origin::{DirEntry, PathMetadata};
use esker_site_cache::entry::{Attributes, Kind, State};
use esker_site_cache::queue::Class;
use esker_site_cache::tier::CachedEntry;
use serde_json::{Map, Value as Json, json};

/// Inserts bytes as text; if they are not UTF-8, `NAME_url` has them with `%FF` escapes.
fn text(name: &str, bytes: &[u8], into: &mut Map<String, Json>) {
    let lossy = String::from_utf8_lossy(bytes);
    if matches!(lossy, std::borrow::Cow::Owned(_)) {
        into.insert(format!("{name}_url"), percent_encode(bytes, b"/").into());
    }
    into.insert(name.to_owned(), lossy.into_owned().into());
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
        Kind::Unknown => "unknown",
    }
}

fn attributes(of: &Attributes, into: &mut Map<String, Json>) {
    into.insert("kind".into(), kind(of.kind).into());
    if let Some(size) = of.size {
        into.insert("size".into(), size.into());
    }
    if let Some(modified) = of.modified {
        into.insert("modified_ns".into(), modified.into());
    }
    if let Some(mode) = of.mode {
        into.insert("mode".into(), mode.into());
    }
    if let Some(more) = &of.more {
        let more = more.iter();
        let more = more.map(|(name, value)| (name.to_string(), Json::from(&**value)));
        into.insert("more".into(), Json::Object(more.collect()));
    }
}

pub(super) fn answer(origin: &str, path: &[u8], answer: &TierAnswer) -> Json {
    let mut body = Map::new();
    body.insert("origin".into(), origin.into());
    text("path", path, &mut body);
    match &answer.found {
        PathMetadata::Absent => {
            let error = "the path does not exist at the origin: check it";
            body.insert("error".into(), error.into());
        }
        PathMetadata::Present(of) => attributes(of, &mut body),
        PathMetadata::Listing {
            attributes: of,
            children,
            complete,
        } => {
            attributes(of, &mut body);
            body.insert("complete".into(), (*complete).into());
            let mut sorted: Vec<&DirEntry> = children.iter().collect();
            sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            let child = |c: &DirEntry| {
                let mut one = Map::new();
                text("name", &c.name, &mut one);
                attributes(&c.attributes, &mut one);
                Json::Object(one)
            };
            body.insert(
                "children".into(),
                sorted.into_iter().map(child).collect::<Vec<_>>().into(),
            );
        }
    }
    body.insert("age".into(), answer.age.as_secs_f64().into());
    body.insert("subscribed".into(), answer.subscribed.into());
    body.insert("hit".into(), answer.hit.into());
    Json::Object(body)
}

fn ratio(part: u64, whole: u64) -> Json {
    match whole {
        0 => Json::Null,
        _ => (part as f64 / whole as f64).into(),
    }
}

pub(super) fn status(tier: &RunningTier) -> Json {
    let Figures {
        stats,
        used,
        kept,
        known,
        waiting,
        running,
        links,
    } = tier.node.figures();
    let config = &tier.config;
    let upstream = tier.node.upstream().status();
    let mut body = json!({
        "name": config.name,
        "url": tier.url,
        "up_seconds": tier.since.elapsed().as_secs_f64(),
        "predictor": match config.services { Some(_) => "none", None => config.predictor.name() },
        "services": config.services,
        "cache": {
            "bytes": used,
            "bytes_max": if config.services.is_some() { 0 } else { config.memory_bytes },
            "paths": kept,
            "paths_known": known,
        },
        "disk": tier.node.on_disk().map(|(bytes, paths)| json!({
            "bytes": bytes,
            "bytes_max": config.disk_bytes,
            "paths": paths,
        })),
        "asked": stats.requests,
        "hits": stats.hits,
        "hit_rate": ratio(stats.hits, stats.requests),
        "hits_by_listing": stats.by_listing,
        "hits_absent": stats.absent,
        "joined_prefetch": stats.joined_prefetch,
        "fetched": stats.fetched,
        "prefetched": stats.prefetched,
        "prefetched_used": stats.prefetched_used,
        "prefetched_wasted": stats.prefetched_wasted,
        "prefetches_right": ratio(stats.prefetched_used, stats.prefetched),
        "waiting": waiting,
        "running": running,
        "links": links,
    });
    if let (Some(body), Json::Object(upstream)) = (body.as_object_mut(), upstream) {
        body.extend(upstream);
    }
    body
}

pub(super) fn metrics(tier: &RunningTier) -> String {
    let figures = tier.node.figures();
    let stats = figures.stats;
    let lines: [(&str, &str, &str, u64); 13] = [
        (
            "asked_total",
            "counter",
            "requests for which a client waited",
            stats.requests,
        ),
        (
            "hits_total",
            "counter",
            "of these, answered at once",
            stats.hits,
        ),
        (
            "fetched_total",
            "counter",
            "requests sent because a client waited",
            stats.fetched,
        ),
        (
            "prefetched_total",
            "counter",
            "requests sent because a predictor chose them",
            stats.prefetched,
        ),
        (
            "prefetched_used_total",
            "counter",
            "of these, used by a client",
            stats.prefetched_used,
        ),
        (
            "prefetched_wasted_total",
            "counter",
            "of these, evicted without use",
            stats.prefetched_wasted,
        ),
        (
            "joined_prefetch_total",
            "counter",
            "requests that joined a prefetch of the same",
            stats.joined_prefetch,
        ),
        (
            "cache_bytes",
            "gauge",
            "bytes of metadata kept in memory",
            figures.used,
        ),
        (
            "cache_paths",
            "gauge",
            "paths kept in memory",
            figures.kept as u64,
        ),
        (
            "waiting",
            "gauge",
            "requests that wait to be sent upstream",
            figures.waiting as u64,
        ),
        (
            "running",
            "gauge",
            "requests on their way upstream",
            figures.running as u64,
        ),
        (
            "links",
            "gauge",
            "links of tiers below and clients",
            figures.links as u64,
        ),
        (
            "up_seconds",
            "gauge",
            "seconds since the start",
            tier.since.elapsed().as_secs(),
        ),
    ];
    let mut out = String::new();
    for (name, kind, help, value) in lines {
        let one = format!(
            "# HELP esker_site_{name} {help}\n# TYPE esker_site_{name} {kind}\nesker_site_{name} {value}\n"
        );
        out.push_str(&one);
    }
    out
}

fn cached_entry(kept: &CachedEntry, now: u64) -> Json {
    let age = |at: u64| now.saturating_sub(at) as f64 / 1e6;
    let mut body = Map::new();
    match &kept.state {
        State::Absent => {
            body.insert("kind".into(), "absent".into());
        }
        State::Present(of) => attributes(of, &mut body),
    }
    body.insert("age".into(), age(kept.at).into());
    if let Some((names, at, complete)) = kept.listing {
        let listing = json!({ "names": names, "age": age(at), "complete": complete });
        body.insert("listing".into(), listing);
    }
    body.insert("subscribed".into(), kept.subscribed.into());
    body.insert("believed_for".into(), (kept.ttl as f64 / 1e6).into());
    body.insert("prefetched_unused".into(), kept.unused.into());
    body.insert("bytes".into(), kept.bytes.into());
    Json::Object(body)
}

pub(super) fn explanation(origin: &str, path: &[u8], explanation: &Explanation) -> Json {
    let known = &explanation.explained;
    let pending = |pending: Option<(Class, bool)>| {
        pending.map(|(class, running)| {
            let urgency = match class {
                Class::Fetch => "fetch".to_owned(),
                Class::Prefetch(priority) => format!("prefetch {priority}"),
            };
            json!({ "urgency": urgency, "on_its_way": running })
        })
    };
    let mut body = Map::new();
    body.insert("origin".into(), origin.into());
    text("path", path, &mut body);
    let rest = json!({
        "kept": known.cached.as_ref().map(|k| cached_entry(k, explanation.now)),
        "stat_answered_by": explanation.stat_by,
        "list_answered_by": explanation.list_by,
        "stat_pending": pending(known.stat_pending),
        "list_pending": pending(known.list_pending),
        "told_to_links": known.subscribers,
        "predictor": known.predictor,
        "predictor_above": known.parent_predictor,
    });
    if let Json::Object(rest) = rest {
        body.extend(rest);
    }
    Json::Object(body)
}
